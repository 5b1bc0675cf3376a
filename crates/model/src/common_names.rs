//! Names that threads have on every host, and those by which threads of the kernel are known.

/// What may stand behind the beginning of a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Behind {
    Nothing,
    Number,
    /// The number of a process.
    Process,
    /// CPUs, work queues, architectures.
    Anything,
}

/// Whose threads are called so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ThreadOf {
    /// The kernel's, unless the thread is known to be of a process with others (vhost's of Linux 6.4 and later, drivers/vhost/vhost.c).
    Kernel,
    UserSpace,
}

/// Beginnings of names that threads of kernels, virtual machine monitors and tracers have everywhere.
pub(crate) const COMMON: &[(&str, Behind, ThreadOf)] = &[
    ("CPU ", Behind::Anything, ThreadOf::UserSpace),
    ("vcpu", Behind::Number, ThreadOf::UserSpace),
    ("fc_vcpu ", Behind::Number, ThreadOf::UserSpace),
    ("vhost-", Behind::Process, ThreadOf::Kernel),
    ("kvm-pit/", Behind::Process, ThreadOf::Kernel),
    ("iou-wrk-", Behind::Process, ThreadOf::UserSpace),
    ("iou-sqp-", Behind::Process, ThreadOf::UserSpace),
    ("swapper/", Behind::Number, ThreadOf::Kernel),
    ("kworker/", Behind::Anything, ThreadOf::Kernel),
    ("ksoftirqd/", Behind::Number, ThreadOf::Kernel),
    ("migration/", Behind::Number, ThreadOf::Kernel),
    ("cpuhp/", Behind::Number, ThreadOf::Kernel),
    ("idle_inject/", Behind::Number, ThreadOf::Kernel),
    ("watchdog/", Behind::Number, ThreadOf::Kernel),
    ("rcu_", Behind::Anything, ThreadOf::Kernel),
    ("rcuo", Behind::Anything, ThreadOf::Kernel),
    ("kswapd", Behind::Number, ThreadOf::Kernel),
    ("kcompactd", Behind::Number, ThreadOf::Kernel),
    ("khugepaged", Behind::Nothing, ThreadOf::Kernel),
    ("ksmd", Behind::Nothing, ThreadOf::Kernel),
    ("irq/", Behind::Nothing, ThreadOf::Kernel),
    ("jbd2/", Behind::Nothing, ThreadOf::Kernel),
    ("napi/", Behind::Nothing, ThreadOf::Kernel),
    ("ktimers/", Behind::Number, ThreadOf::Kernel),
    ("kthreadd", Behind::Nothing, ThreadOf::Kernel),
    ("kauditd", Behind::Nothing, ThreadOf::Kernel),
    ("kvm-nx-lpage-re", Behind::Anything, ThreadOf::Kernel),
    ("qemu-system-", Behind::Anything, ThreadOf::UserSpace),
    ("qemu-kvm", Behind::Nothing, ThreadOf::UserSpace),
    ("kvm", Behind::Nothing, ThreadOf::UserSpace),
    ("firecracker", Behind::Nothing, ThreadOf::UserSpace),
    ("cloud-hypervis", Behind::Anything, ThreadOf::UserSpace),
    ("crosvm", Behind::Nothing, ThreadOf::UserSpace),
    ("crosvm_vcpu", Behind::Number, ThreadOf::UserSpace),
    ("lkvm", Behind::Nothing, ThreadOf::UserSpace),
    ("VBoxHeadless", Behind::Nothing, ThreadOf::UserSpace),
    ("exitscope lab", Behind::Nothing, ThreadOf::UserSpace),
    ("perf", Behind::Nothing, ThreadOf::UserSpace),
    ("trace-cmd", Behind::Nothing, ThreadOf::UserSpace),
];

/// Whether threads of the kernel are called so. A process may call itself the same.
pub fn is_kernel_thread(name: &str) -> bool {
    COMMON.iter().any(|&(front, may, of)| {
        let behind = name.strip_prefix(front).filter(|_| of == ThreadOf::Kernel);
        let is_open = may == Behind::Anything || front.ends_with(['/', '-']);
        behind.is_some_and(|behind| is_open || behind.bytes().all(|byte| byte.is_ascii_digit()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_of_the_kernel_are_known_by_their_names() {
        for (name, kernels) in [
            ("kworker/1:2-events", true),
            ("ksoftirqd/0", true),
            ("irq/24-eth0", true),
            ("kswapd1", true),
            ("rcuop/3", true),
            ("vhost-4711", true),
            ("kswapd of mine", false),
            ("yes", false),
            ("CPU 0/KVM", false),
            ("qemu-system-x86", false),
            ("", false),
        ] {
            assert_eq!(is_kernel_thread(name), kernels, "{name}");
        }
    }
}
