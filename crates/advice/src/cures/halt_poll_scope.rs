//! Which kernels take a changed `halt_poll_ns` for VMs that run already.

use exitscope_model::version;

/// Whom a change of `halt_poll_ns` reaches. A VM with a cap of its own (KVM_CAP_HALT_POLL) it never reaches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HaltPollScope {
    /// VMs that run as well, from their next halt on.
    RunningVms,
    /// Only VMs that are started from then on.
    NewVms,
    /// The kernel's release does not say.
    Unknown,
}

impl HaltPollScope {
    /// In a sentence.
    pub fn text(self) -> &'static str {
        match self {
            HaltPollScope::RunningVms => {
                "at the next halt, in VMs that run already as well; a VM whose VMM set a cap of its own \
                 (KVM_CAP_HALT_POLL) ignores it"
            }
            HaltPollScope::NewVms => {
                "only in VMs started afterwards: Linux 5.8 to 6.0 copies halt_poll_ns when a VM is created (unless the \
                 distribution has the fix of 6.1); a VM whose VMM set a cap of its own (KVM_CAP_HALT_POLL) ignores it"
            }
            HaltPollScope::Unknown => {
                "at the next halt on Linux before 5.8 and from 6.1 on; between them only in VMs started afterwards; a VM \
                 whose VMM set a cap of its own (KVM_CAP_HALT_POLL) ignores it"
            }
        }
    }
}

/// Whom a change reaches under the kernel of this release (`uname -r`). Linux 5.8 brought KVM_CAP_HALT_POLL and with it
/// a copy in each VM, made at its creation; 6.1 ("KVM: Obey kvm.halt_poll_ns in VMs not using KVM_CAP_HALT_POLL") reads
/// the parameter at every halt again.
pub fn halt_poll_reach(release: &str) -> HaltPollScope {
    match version(release) {
        Some(version) if ((5, 8)..(6, 1)).contains(&version) => HaltPollScope::NewVms,
        Some(_) => HaltPollScope::RunningVms,
        None => HaltPollScope::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_release_decides() {
        for (release, reach) in [
            ("6.1.0-56-cloud-amd64", HaltPollScope::RunningVms),
            ("6.0.19", HaltPollScope::NewVms),
            ("5.15.0-1-generic", HaltPollScope::NewVms),
            ("5.8", HaltPollScope::NewVms),
            ("5.7.19", HaltPollScope::RunningVms),
            ("4.18.0-553.el8", HaltPollScope::RunningVms),
            ("simulated", HaltPollScope::Unknown),
            ("", HaltPollScope::Unknown),
        ] {
            assert_eq!(halt_poll_reach(release), reach, "{release}");
        }
        assert_eq!(version("Xen 3.4.1"), Some((3, 4)));
    }
}
