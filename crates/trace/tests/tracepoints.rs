//! What the tracepoints of every architecture mean. Fields and their types are those of the kernel's own definitions
//! (`arch/*/kvm/trace*.h`, `include/trace/events/kvm.h`); layouts are made as the kernel makes them: common fields,
//! then each field at its natural alignment.

use exitscope_model::{
    CodeList, EventKind, EventNames, ExitCode, ExitWord, IdleEvent, PollChange, PortAccessForm, Subject, SubjectKind,
    SubjectWord,
};
use exitscope_trace::tracefs::{ByteOrder, Decoders};
use exitscope_units::{PcpuId, Tid, VcpuId};

/// Size of a C type on a host with longs of `long` bytes.
fn size_of(kind: &str, long: usize) -> usize {
    match kind {
        "u8" | "__u8" | "bool" | "char" => 1,
        "u16" | "__u16" => 2,
        "int" | "unsigned int" | "__u32" | "u32" | "pid_t" => 4,
        "unsigned long" | "long" => long,
        "u64" | "__u64" => 8,
        other => panic!("{other} has no size here"),
    }
}

/// A format text and a record of it, with thread 77.
fn record(name: &str, fields: &[(&str, &str, u64)], big: bool, long: usize) -> (String, Vec<u8>) {
    let mut text = format!(
        "name: {name}\nID: 321\nformat:\n\
         \tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\
         \tfield:unsigned char common_flags;\toffset:2;\tsize:1;\tsigned:0;\n\
         \tfield:unsigned char common_preempt_count;\toffset:3;\tsize:1;\tsigned:0;\n\
         \tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n\n"
    );
    let mut bytes = Vec::new();
    let mut put = |at: usize, value: u64, size: usize| {
        let all = if big { value.to_be_bytes() } else { value.to_le_bytes() };
        bytes.resize(at, 0);
        bytes.extend_from_slice(if big { &all[8 - size..] } else { &all[..size] });
    };
    put(0, 321, 2);
    put(4, 77, 4);
    let mut at = 8usize;
    for (kind, field, value) in fields {
        let size = size_of(kind, long);
        at = at.next_multiple_of(size);
        text += &format!("\tfield:{kind} {field};\toffset:{at};\tsize:{size};\tsigned:0;\n");
        put(at, *value, size);
        at += size;
    }
    (text + "\nprint fmt: \"\"\n", bytes)
}

type Case = (&'static str, &'static str, &'static [(&'static str, &'static str, u64)], EventKind, u32);

const NO_VCPU: u32 = u32::MAX;

/// Where guests are.
const RIP: u64 = 9;

fn exit(list: CodeList, number: u64) -> EventKind {
    EventKind::Exit { code: ExitCode::new(list, number), idle: false, words: SubjectWord::NONE, rip: RIP }
}

/// An exit that says what it is about.
fn exit_about(list: CodeList, number: u64, info1: u64) -> EventKind {
    let code = ExitCode::new(list, number);
    EventKind::Exit {
        code,
        idle: false,
        words: SubjectWord::new(code, |word| (word == ExitWord::Info1).then_some(info1)),
        rip: RIP,
    }
}

fn detail(kind: SubjectKind, write: bool, size: u16, key: u64, value: u64) -> EventKind {
    EventKind::Detail(Subject { kind, write, form: PortAccessForm::Unknown, size, key, value })
}

fn cases() -> Vec<Case> {
    use CodeList as L;
    use SubjectKind as D;
    vec![
        // x86: the list follows isa, not the machine; the bits above the basic reason stay.
        (
            "kvm",
            "kvm_exit",
            &[
                ("unsigned int", "exit_reason", 0x8000_0030),
                ("unsigned long", "guest_rip", 9),
                ("u32", "isa", 1),
                ("unsigned int", "vcpu_id", 3),
            ],
            exit(L::Vmx, 0x8000_0030),
            3,
        ),
        (
            "kvm",
            "kvm_exit",
            &[("unsigned int", "exit_reason", 0x7b), ("unsigned long", "guest_rip", 9), ("u32", "isa", 2)],
            exit(L::Svm, 0x7b),
            NO_VCPU,
        ),
        // What it says of a port access.
        (
            "kvm",
            "kvm_exit",
            &[
                ("unsigned int", "exit_reason", 30),
                ("unsigned long", "guest_rip", 9),
                ("u32", "isa", 1),
                ("u64", "info1", 0x01f0_0033),
            ],
            exit_about(L::Vmx, 30, 0x01f0_0033),
            NO_VCPU,
        ),
        (
            "kvm",
            "kvm_exit",
            &[
                ("unsigned int", "exit_reason", 0x7b),
                ("unsigned long", "guest_rip", 9),
                ("u32", "isa", 2),
                ("u64", "info1", 0x0071_0011),
            ],
            exit_about(L::Svm, 0x7b, 0x0071_0011),
            NO_VCPU,
        ),
        (
            "kvm",
            "kvm_exit",
            &[
                ("unsigned int", "exit_reason", 0x400),
                ("unsigned long", "guest_rip", 9),
                ("u32", "isa", 2),
                ("u64", "info1", 0x0071_0011),
            ],
            exit_about(L::Svm, 0x400, 0x11),
            NO_VCPU,
        ),
        ("kvm", "kvm_entry", &[("unsigned int", "vcpu_id", 2), ("unsigned long", "rip", 9)], EventKind::Enter, 2),
        ("kvm", "kvm_emulate_insn", &[("__u64", "rip", 2)], EventKind::Emulate, NO_VCPU),
        ("kvm", "kvm_fast_mmio", &[("u64", "gpa", 0xfe00)], detail(D::Mmio, true, 0, 0xfe00, 0), NO_VCPU),
        (
            "syscalls",
            "sys_enter_ioctl",
            &[("unsigned int", "fd", 3), ("unsigned int", "cmd", 0x8090_ae81)],
            EventKind::Syscall { registers: true },
            NO_VCPU,
        ),
        ("raw_syscalls", "sys_exit", &[("long", "id", 16), ("long", "ret", 0)], EventKind::SyscallExit, NO_VCPU),
        (
            "kvm",
            "kvm_pio",
            &[
                ("unsigned int", "rw", 1),
                ("unsigned int", "port", 0x3f8),
                ("unsigned int", "size", 1),
                ("unsigned int", "count", 1),
                ("unsigned int", "val", 65),
            ],
            detail(D::Port, true, 1, 0x3f8, 65),
            NO_VCPU,
        ),
        (
            "kvm",
            "kvm_pio",
            &[
                ("unsigned int", "rw", 0),
                ("unsigned int", "port", 0x1f0),
                ("unsigned int", "size", 2),
                ("unsigned int", "count", 256),
                ("unsigned int", "val", 7),
            ],
            EventKind::Detail(Subject {
                kind: D::Port,
                write: false,
                form: PortAccessForm::String,
                size: 2,
                key: 0x1f0,
                value: 7,
            }),
            NO_VCPU,
        ),
        (
            "kvm",
            "kvm_mmio",
            &[("u32", "type", 1), ("u32", "len", 4), ("u64", "gpa", 0xfee0_0020), ("u64", "val", 5)],
            detail(D::Mmio, false, 4, 0xfee0_0020, 5),
            NO_VCPU,
        ),
        (
            "kvm",
            "kvm_msr",
            &[("unsigned int", "write", 1), ("u32", "ecx", 0x6e0), ("u64", "data", 7), ("u8", "exception", 0)],
            detail(D::Msr, true, 0, 0x6e0, 7),
            NO_VCPU,
        ),
        (
            "kvm",
            "kvm_cpuid",
            &[("unsigned int", "function", 0xd), ("unsigned int", "index", 1), ("unsigned long", "rax", 0)],
            detail(D::Cpuid, false, 0, 0xd, 1),
            NO_VCPU,
        ),
        (
            "kvm",
            "kvm_hypercall",
            &[("unsigned long", "nr", 5), ("unsigned long", "a0", 0), ("unsigned long", "a1", 3)],
            detail(D::Hypercall, false, 0, 5, 3),
            NO_VCPU,
        ),
        (
            "kvm",
            "kvm_inj_virq",
            &[("unsigned int", "vector", 236), ("bool", "soft", 0)],
            EventKind::Inject { vector: 236 },
            NO_VCPU,
        ),
        (
            "kvm",
            "kvm_userspace_exit",
            &[("__u32", "reason", 10), ("int", "errno", 0xffff_fffc)],
            EventKind::UserspaceExit { reason: 10, errno: -4 },
            NO_VCPU,
        ),
        (
            "kvm",
            "kvm_vcpu_wakeup",
            &[("__u64", "ns", 1234), ("bool", "waited", 1), ("bool", "valid", 1)],
            EventKind::HaltEnd { ns: 1234, waited: true, valid: true },
            NO_VCPU,
        ),
        (
            "kvm",
            "kvm_halt_poll_ns",
            &[
                ("bool", "grow", 1),
                ("unsigned int", "vcpu_id", 4),
                ("unsigned int", "new", 10_000),
                ("unsigned int", "old", 5_000),
            ],
            EventKind::HaltPoll { grow: true, new: 10_000, old: 5_000 },
            4,
        ),
        (
            "sched",
            "sched_wake_idle_without_ipi",
            &[("int", "cpu", 3)],
            EventKind::Idle(IdleEvent::WokenPolling { cpu: PcpuId(3) }),
            NO_VCPU,
        ),
        (
            "power",
            "guest_halt_poll_ns",
            &[("bool", "grow", 0), ("unsigned int", "new", 50_000), ("unsigned int", "old", 100_000)],
            EventKind::Idle(IdleEvent::PollLimit(PollChange { grow: false, new: 50_000, old: 100_000 })),
            NO_VCPU,
        ),
        // arm64: a trap is told by its exception class; bit 31 says that an SError is pending.
        (
            "kvm",
            "kvm_exit",
            &[("int", "ret", 0x8000_0002), ("unsigned int", "esr_ec", 0x24), ("unsigned long", "vcpu_pc", 9)],
            exit(L::Arm64Ec, 0x24),
            NO_VCPU,
        ),
        (
            "kvm",
            "kvm_exit",
            &[("int", "ret", 0), ("unsigned int", "esr_ec", 0), ("unsigned long", "vcpu_pc", 9)],
            exit(L::Arm64Exit, 0),
            NO_VCPU,
        ),
        (
            "kvm",
            "kvm_wfx_arm64",
            &[("unsigned long", "vcpu_pc", 9), ("bool", "is_wfe", 1)],
            EventKind::Wfx { wfe: true },
            NO_VCPU,
        ),
        (
            "kvm",
            "kvm_hvc_arm64",
            &[("unsigned long", "vcpu_pc", 9), ("unsigned long", "r0", 0x8400_0000), ("unsigned long", "imm", 0)],
            detail(D::Hvc, false, 0, 0x8400_0000, 0),
            NO_VCPU,
        ),
        // powerpc
        (
            "kvm_hv",
            "kvm_guest_exit",
            &[
                ("int", "vcpu_id", 5),
                ("int", "trap", 0x500),
                ("unsigned long", "pc", 9),
                ("unsigned long", "msr", 9),
                ("u8", "ceded", 1),
            ],
            EventKind::Exit { code: ExitCode::new(L::PpcTrap, 0x500), idle: true, words: SubjectWord::NONE, rip: RIP },
            5,
        ),
        (
            "kvm_hv",
            "kvm_guest_enter",
            &[
                ("int", "vcpu_id", 5),
                ("unsigned long", "pc", 9),
                ("unsigned long", "pending_exceptions", 0),
                ("u8", "ceded", 0),
            ],
            EventKind::Enter,
            5,
        ),
        (
            "kvm_hv",
            "kvm_hcall_enter",
            &[("int", "vcpu_id", 1), ("unsigned long", "req", 0xe0), ("unsigned long", "gpr4", 2)],
            detail(D::PpcHcall, false, 0, 0xe0, 2),
            1,
        ),
        (
            "kvm_pr",
            "kvm_exit",
            &[("unsigned int", "exit_nr", 0x700), ("unsigned long", "pc", 9)],
            exit(L::PpcTrap, 0x700),
            NO_VCPU,
        ),
        (
            "kvm_booke",
            "kvm_exit",
            &[("unsigned int", "exit_nr", 8), ("unsigned long", "pc", 9)],
            exit(L::PpcBooke, 8),
            NO_VCPU,
        ),
        // s390
        (
            "kvm",
            "kvm_s390_sie_exit",
            &[
                ("int", "id", 6),
                ("unsigned long", "pswmask", 9),
                ("unsigned long", "pswaddr", 9),
                ("u8", "icptcode", 0x1c),
            ],
            exit(L::S390, 0x1c),
            6,
        ),
        (
            "kvm",
            "kvm_s390_sie_enter",
            &[
                ("int", "id", 6),
                ("unsigned long", "pswmask", 9),
                ("unsigned long", "pswaddr", 9),
                ("int", "cpuflags", 0),
            ],
            EventKind::Enter,
            6,
        ),
        (
            "kvm",
            "kvm_s390_intercept_instruction",
            &[
                ("int", "id", 6),
                ("unsigned long", "pswmask", 9),
                ("unsigned long", "pswaddr", 9),
                ("__u64", "instruction", 0xb27d_0000_0000_0000),
            ],
            detail(D::Instruction, false, 0, 0xb27d, 0xb27d_0000_0000_0000),
            6,
        ),
        (
            "kvm",
            "kvm_s390_handle_diag",
            &[
                ("int", "id", 6),
                ("unsigned long", "pswmask", 9),
                ("unsigned long", "pswaddr", 9),
                ("__u16", "code", 0x9c),
            ],
            detail(D::Diag, false, 0, 0x9c, 0),
            6,
        ),
        (
            "kvm",
            "kvm_s390_handle_sigp",
            &[
                ("int", "id", 6),
                ("unsigned long", "pswmask", 9),
                ("unsigned long", "pswaddr", 9),
                ("__u8", "order_code", 3),
                ("__u16", "cpu_addr", 2),
                ("__u32", "parameter", 0),
            ],
            detail(D::Sigp, false, 0, 3, 2),
            6,
        ),
        // the scheduler and system calls
        (
            "sched",
            "sched_switch",
            &[
                ("pid_t", "prev_pid", 10),
                ("int", "prev_prio", 120),
                ("long", "prev_state", 1),
                ("pid_t", "next_pid", 11),
                ("int", "next_prio", 120),
            ],
            EventKind::switch(Tid(10), true, Tid(11)),
            NO_VCPU,
        ),
        (
            "sched",
            "sched_wakeup",
            &[("pid_t", "pid", 12), ("int", "prio", 120), ("int", "target_cpu", 1)],
            EventKind::Wakeup { tid: Tid(12) },
            NO_VCPU,
        ),
        (
            "syscalls",
            "sys_enter_ioctl",
            &[("int", "__syscall_nr", 16), ("u64", "fd", 20), ("u64", "cmd", 0xae80), ("u64", "arg", 0)],
            EventKind::RunEnter,
            NO_VCPU,
        ),
        (
            "syscalls",
            "sys_enter_ioctl",
            &[("int", "__syscall_nr", 16), ("u64", "fd", 20), ("u64", "cmd", 0x5401), ("u64", "arg", 0)],
            EventKind::Syscall { registers: false },
            NO_VCPU,
        ),
        ("ext4", "ext4_sync_file_enter", &[("u64", "ino", 1)], EventKind::Other, NO_VCPU),
    ]
}

#[test]
fn every_tracepoint_means_what_its_kernel_says_in_either_byte_order_and_word_size() {
    for (system, name, fields, kind, vcpu) in cases() {
        for (big, long) in [(false, 8), (true, 8), (false, 4), (true, 4)] {
            let (text, bytes) = record(name, fields, big, long);
            let mut decoders = Decoders::default();
            let mut names = EventNames::default();
            decoders.add(system, &text, &mut names);
            let decoder = decoders.get(321).unwrap();
            let order = if big { ByteOrder::Big } else { ByteOrder::Little };
            let decoded = decoder.decode(&bytes, order).unwrap_or_else(|| panic!("{name} is cut"));
            let what = format!("{system}:{name} big {big} long {long}");
            assert_eq!((decoded.kind, decoded.vcpu), (kind, VcpuId(vcpu)), "{what}");
            assert_eq!(decoder.tid(&bytes, order), Tid(77), "{what}");
            assert_eq!(names.get(decoder.name), format!("{system}:{name}"));
            for cut in 0..bytes.len() {
                // A record that is cut is refused or, where only an unused end is missing, the same; never a panic.
                if let Some(cut) = decoder.decode(&bytes[..cut], order) {
                    assert_eq!((cut.kind, cut.vcpu), (kind, VcpuId(vcpu)), "{what}");
                }
            }
        }
    }
}

#[test]
fn riscv_interrupts_are_marked_by_the_top_bit_of_either_word_size() {
    for (long, raw) in [(8, 1 << 63 | 5), (4, 1 << 31 | 5)] {
        let fields = [("unsigned long", "sepc", 9), ("unsigned long", "scause", raw), ("unsigned long", "stval", 0)];
        let (text, bytes) = record("kvm_exit", &fields, false, long);
        let mut decoders = Decoders::default();
        decoders.add("kvm", &text, &mut EventNames::default());
        let order = ByteOrder::Little;
        let decoded = decoders.get(321).unwrap().decode(&bytes, order).unwrap();
        assert_eq!(decoded.kind, exit(CodeList::Riscv, 1 << 63 | 5), "long {long}");
    }
}

#[test]
fn a_system_calls_second_argument_is_found_in_its_array() {
    // The kernel's own text, on a host with longs of 8 bytes.
    let text = "name: sys_enter\nID: 321\nformat:\n\
                \tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\
                \tfield:int common_pid;\toffset:4;\tsize:4;\tsigned:1;\n\n\
                \tfield:long id;\toffset:8;\tsize:8;\tsigned:1;\n\
                \tfield:unsigned long args[6];\toffset:16;\tsize:48;\tsigned:0;\n";
    let (mut decoders, mut names) = (Decoders::default(), EventNames::default());
    decoders.add("raw_syscalls", text, &mut names);
    let called = |command: u64| {
        let words = [321, 16, 20, command, 0, 0, 0, 0u64];
        let payload: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        decoders.get(321).unwrap().decode(&payload, ByteOrder::Little).map(|said| said.kind)
    };
    assert_eq!(called(0xae80), Some(EventKind::RunEnter));
    assert_eq!(called(0x4138_ae84), Some(EventKind::Syscall { registers: true }));
    assert_eq!(called(0x1_4138_ae84), Some(EventKind::Syscall { registers: false }));
}
