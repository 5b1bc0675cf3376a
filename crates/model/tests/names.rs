//! Names and settings: what things are called, and what a trace says of itself.

use exitscope_model::*;
use exitscope_units::{PcpuId, Tid, VcpuId, VmId};
use rustc_hash::FxHashMap;

#[test]
fn names_are_numbered_as_they_come_each_once() {
    let mut names = EventNames::default();
    assert_eq!((names.len(), names.is_empty(), names.has("kvm:kvm_exit")), (0, true, false));
    let ids = ["kvm:kvm_exit", "kvm:kvm_entry", "kvm:kvm_pio", "kvm:kvm_entry"].map(|name| names.intern(name));
    assert_eq!(ids, [NameId(0), NameId(1), NameId(2), NameId(1)]);
    assert_eq!((names.len(), names.is_empty(), names.has("kvm:kvm_exit")), (3, false, true));
    assert!(!names.has("kvm:kvm"));
    assert_eq!(
        [NameId(2), NameId(0), NameId(3), NameId::NONE].map(|id| names.get(id)),
        ["kvm:kvm_pio", "kvm:kvm_exit", "?", "?"]
    );
}

#[test]
fn names_beyond_those_that_have_a_number_share_the_last() {
    let mut names = EventNames::default();
    let ids: Vec<_> = (0..65_537).map(|number| names.intern(&format!("made:up_{number}"))).collect();
    assert_eq!(ids[65_532..], [65_532, 65_533, 65_534, 65_534, 65_534].map(NameId));
    assert_eq!((names.len(), names.get(NameId(65_534))), (65_535, "made:up_65534"));
    assert_eq!((names.has("made:up_65534"), names.has("made:up_65535")), (true, false));
}

#[test]
fn a_release_has_two_numbers() {
    let cases = [
        ("6.1.0-56-cloud-amd64", Some((6, 1))),
        ("Xen 4.17.5", Some((4, 17))),
        ("5.10", Some((5, 10))),
        ("5.14-rc2", Some((5, 14))),
        ("7", None),
        ("7.", None),
        ("v6.1", None),
        ("", None),
        ("99999999999.1", None),
    ];
    for (release, numbers) in cases {
        assert_eq!(version(release), numbers, "{release}");
    }
}

#[test]
fn a_setting_is_found_by_its_module_and_its_name() {
    let settings =
        [("kvm", "nx_huge_pages", "Y"), ("kvm_intel", "halt_poll_ns", "7"), ("kvm", "halt_poll_ns", "200000")];
    let settings = settings.map(|(of, name, value)| HostSetting::new(of, name, value)).to_vec();
    let info = TraceInfo { settings, ..TraceInfo::default() };
    let cases = [
        ("kvm", "halt_poll_ns", Some("200000")),
        ("kvm_intel", "halt_poll_ns", Some("7")),
        ("kvm", "nx_huge_pages", Some("Y")),
        ("kvm_intel", "nx_huge_pages", None),
        ("kvm", "ple_gap", None),
    ];
    for (of, name, value) in cases {
        assert_eq!(info.setting(of, name), value, "{of} {name}");
    }
}

#[test]
fn what_an_exit_is_about_has_a_name_a_heading_and_perhaps_a_direction_and_devices() {
    let shown = SubjectKind::ALL.map(|kind| {
        let directions = [true, false].map(|write| kind.direction(write).unwrap_or("-"));
        let [is_call, has_devices] = [kind.is_hypercall(), kind.is_place_of_devices()];
        (kind.name(), kind.heading(), directions, is_call, has_devices)
    });
    let (none, access) = (["-", "-"], ["write", "read"]);
    let expected = [
        ("vmgexit", "VMGEXITs, by what the guest asks for", none, false, false),
        ("ghcb_msr", "VMGEXITs by the GHCB's MSR, by request", none, false, false),
        ("exception", "Exceptions and NMIs, by vector", none, false, false),
        ("host_vector", "Interrupts of the host, by vector", none, false, false),
        ("host_irq", "Interrupts of the host's devices, by IRQ", none, false, false),
        ("eoi_vector", "Ends of the guest's interrupts, by vector", none, false, false),
        ("incomplete_ipi", "IPIs not delivered whole, by vector", none, false, false),
        ("task_switch", "Task switches, by what led to them", none, false, false),
        ("page_fault", "Page faults, by error code or fault status", none, false, false),
        ("ept_violation", "EPT violations, by access and what the entry allowed", none, false, false),
        ("memory_fault", "Memory faults that KVM could not resolve", none, false, false),
        ("debug_register", "Debug registers", access, false, false),
        ("apic", "Local APIC registers", access, false, false),
        ("control_register", "Control registers", access, false, false),
        ("system_register", "System registers", access, false, false),
        ("instruction", "Intercepted instructions", none, false, false),
        ("program_interruption", "Program interruptions", none, false, false),
        ("sigp", "SIGP orders", none, false, false),
        ("cpuid", "CPUID leaves", none, false, false),
        ("mmio", "MMIO regions", access, false, true),
        ("port", "I/O ports", ["out", "in"], false, true),
        ("msr", "MSRs", access, false, false),
        ("hypercall", "Hypercalls", none, true, false),
        ("hyperv_hypercall", "Hyper-V hypercalls", none, true, false),
        ("xen_hypercall", "Xen hypercalls", none, true, false),
        ("hcall", "Hypercalls", none, true, false),
        ("hvc", "HVC and SMC calls, by function", none, true, false),
        ("diagnose", "DIAGNOSE calls", none, true, false),
    ];
    assert_eq!(shown, expected);
}

#[test]
fn a_guest_halts_by_these_calls() {
    let halts =
        |kind, key, value| Subject { kind, write: false, form: PortAccessForm::Unknown, size: 0, key, value }.is_halt();
    // PSCI's CPU_SUSPEND in both widths, and CPU_OFF, which ends a vCPU.
    assert_eq!([0x8400_0001, 0xc400_0001, 0x8400_0002].map(|key| halts(SubjectKind::Hvc, key, 0)), [true, true, false]);
    // H_CEDE, H_CONFER.
    assert_eq!([0xe0, 0xe4].map(|key| halts(SubjectKind::PpcHcall, key, 0)), [true, false]);
    // SCHEDOP_yield, _block, _shutdown, _poll, and block's number of a hypercall that is not sched_op.
    assert_eq!([0, 1, 2, 3].map(|value| halts(SubjectKind::XenHypercall, 29, value)), [false, true, false, true]);
    assert!(!halts(SubjectKind::XenHypercall, 30, 1));
    // The same numbers of other kinds mean other things.
    for kind in SubjectKind::ALL {
        let known = [SubjectKind::Hvc, SubjectKind::PpcHcall, SubjectKind::XenHypercall].contains(&kind);
        assert_eq!([0x8400_0001, 0xe0, 29].into_iter().any(|key| halts(kind, key, 1)), known, "{kind:?}");
    }
}

#[test]
fn a_ports_read_is_answered_when_it_is_told_of_and_nothing_else_is() {
    let answered =
        SubjectKind::ALL.into_iter().flat_map(|kind| [(kind, false), (kind, true)]).filter(|&(kind, write)| {
            Subject { kind, write, form: PortAccessForm::Unknown, size: 1, key: 0x3f8, value: 0 }.is_answered()
        });
    assert_eq!(answered.collect::<Vec<_>>(), [(SubjectKind::Port, false)]);
}

/// Where `kvm_exit` never fires: which access told of after `KVM_RUN` is the one that user space has answered.
#[test]
fn a_read_completes_the_exit_in_which_user_space_answered_it() {
    let [io, mmio, signal] = [2, 6, 10].map(|reason| ExitCode::of_userspace(reason, 0));
    let of = |kind, write, key| Subject { kind, write, form: PortAccessForm::Unknown, size: 1, key, value: 0 };
    let serial = of(SubjectKind::Port, false, 0x3f8);
    let cases = [
        ("a read of which nothing was known", serial, io, None, true),
        ("a write", of(SubjectKind::Port, true, 0x3f8), io, None, false),
        ("a read in an exit for something else", serial, mmio, None, false),
        ("a read after a signal", serial, signal, None, false),
        ("the read that was known", serial, io, Some((SubjectKind::Port, false, 0x3f8)), true),
        ("a read of another port", serial, io, Some((SubjectKind::Port, false, 0x3f9)), false),
        ("a read after a write that KVM answered", serial, io, Some((SubjectKind::Port, true, 0x20)), true),
        (
            "a read that KVM answers itself",
            of(SubjectKind::Port, false, 0x21),
            io,
            Some((SubjectKind::Port, true, 0x80)),
            false,
        ),
        ("a read of a thing of another kind", serial, io, Some((SubjectKind::Mmio, false, 0x3f8)), false),
        ("memory's read", of(SubjectKind::Mmio, false, 0xa0), mmio, Some((SubjectKind::Mmio, false, 0xa0)), true),
        (
            "memory's read elsewhere",
            of(SubjectKind::Mmio, false, 0xa0),
            mmio,
            Some((SubjectKind::Mmio, false, 0xa1)),
            false,
        ),
        (
            "memory's read after a write",
            of(SubjectKind::Mmio, false, 0xa0),
            mmio,
            Some((SubjectKind::Mmio, true, 0xa0)),
            false,
        ),
    ];
    for (what, detail, code, known, completes) in cases {
        assert_eq!(detail.completes(code, known), completes, "{what}");
    }
    // The ports of KVM's own devices, and their neighbours.
    let write = Some((SubjectKind::Port, true, 0x80));
    let own: Vec<u64> = (0..0x600).filter(|&key| !of(SubjectKind::Port, false, key).completes(io, write)).collect();
    assert_eq!(own, [0x20, 0x21, 0x40, 0x41, 0x42, 0x43, 0x61, 0xa0, 0xa1, 0x4d0, 0x4d1]);
}

#[test]
fn run_states_have_xens_words_and_numbers() {
    let states = [RunState::Running, RunState::Runnable, RunState::Blocked, RunState::Offline, RunState::Paused];
    assert_eq!(states.map(RunState::name), ["running", "runnable", "blocked", "offline", "paused"]);
    assert_eq!((&states[..4], states.len()), (&RunState::NUMBERED[..], RunState::COUNT));
}

#[test]
fn yields_have_their_hypervisors_names() {
    use YieldCall::*;
    let calls = [
        (Pause, "PAUSE", true, false),
        (PauseFilter, "PAUSE", true, false),
        (Wfe, "WFE", true, false),
        (LongSpinWait, "HvCallNotifyLongSpinWait", true, false),
        (SchedYield, "KVM_HC_SCHED_YIELD", true, true),
        (KickCpu, "KVM_HC_KICK_CPU", false, true),
        (Diag44, "X'44'", true, false),
        (Diag9c, "X'9C'", true, true),
        (Confer, "H_CONFER", true, true),
        (Prod, "H_PROD", false, true),
        (SchedOp, "SCHEDOP_yield", true, false),
    ];
    for (call, name, waits, is_directed) in calls {
        assert_eq!((call.name(), call.waits(), call.is_directed()), (name, waits, is_directed), "{call:?}");
    }
}

#[test]
fn a_yield_names_whom_it_is_for_as_far_as_the_number_is_one() {
    let of = |kind, key, value| {
        YieldCall::of_detail(&Subject { kind, write: false, form: PortAccessForm::Unknown, size: 0, key, value })
    };
    for (value, named) in
        [(0, Some(0)), (7, Some(7)), (0xffff_fffe, Some(0xffff_fffe)), (0xffff_ffff, None), (1 << 32, None)]
    {
        for (kind, key, call) in [
            (SubjectKind::Hypercall, 11, YieldCall::SchedYield),
            (SubjectKind::PpcHcall, 0xe4, YieldCall::Confer),
            (SubjectKind::PpcHcall, 0xe8, YieldCall::Prod),
        ] {
            assert_eq!(of(kind, key, value), Some((call, named.map(VcpuId))), "{call:?} {value:#x}");
        }
        for (kind, key, call) in [
            (SubjectKind::Hypercall, 5, YieldCall::KickCpu),
            (SubjectKind::Diag, 0x44, YieldCall::Diag44),
            (SubjectKind::Diag, 0x9c, YieldCall::Diag9c),
            (SubjectKind::HypervHypercall, 8, YieldCall::LongSpinWait),
        ] {
            assert_eq!(of(kind, key, value), Some((call, None)), "{call:?} {value:#x}");
        }
    }
}

#[test]
fn whose_a_row_is_is_said_as_well_as_it_is_known() {
    let mut info = TraceInfo::default();
    info.comms.extend([(41, "qemu-system-x86".to_string()), (0, "swapper".to_string())]);
    let row = |vm, vcpu, tid| WhoRow::of(VcpuIdentity { vm: VmId(vm), vcpu, tid: Tid(tid) }, &info);
    let labels = |row: WhoRow| (row.vm_label(), row.vcpu_label());
    let words = |vm: &str, vcpu: &str| (vm.to_string(), vcpu.to_string());
    let named = row(41, VcpuId(3), 43);
    let expected =
        WhoRow { vm: Some(41), vm_name: Some("qemu-system-x86".into()), vcpu: Some(3), on_cpu: None, tid: Some(43) };
    assert_eq!(named, expected);
    assert_eq!(labels(named), words("qemu-system-x86 41", "3"));
    assert_eq!(labels(row(42, VcpuId::on(PcpuId(5)), 0)), words("42", "on CPU 5"));
    assert_eq!(row(42, VcpuId::on(PcpuId(5)), 0).tid, None, "the idle task is nobody's thread");
    assert_eq!(labels(row(42, VcpuId::UNKNOWN, 47)), words("42", "thread 47"));
    assert_eq!(row(0, VcpuId::UNKNOWN, 0), WhoRow::default(), "an unknown VM is not the process 0");
    assert_eq!(labels(WhoRow::default()), words("-", "-"));
}

#[test]
fn a_vcpu_that_an_event_does_not_name_is_that_of_its_thread() {
    let of = |vcpu, tid| VcpuIdentity { vm: VmId(41), vcpu, tid: Tid(tid) };
    let known: FxHashMap<_, _> = [(Tid(43), VcpuId(3))].into_iter().collect();
    assert_eq!(of(VcpuId::UNKNOWN, 43).completed(&known), of(VcpuId(3), 43));
    assert_eq!(of(VcpuId(7), 43).completed(&known), of(VcpuId(7), 43), "the event says it itself");
    assert_eq!(of(VcpuId::UNKNOWN, 44).completed(&known), of(VcpuId::UNKNOWN, 44));
}
