//! Traces as people send them: in mails, issues and posts. Each text stands for one that was seen there, by its layout:
//! kernel, tool, what the mail program made of it. Names and numbers are made up. What is read is compared value by value;
//! what cannot be is refused, or counted.

use exitscope_model::{EventKind, LedgerLine, Subject, SubjectKind, ThreadName};
use exitscope_trace::TraceError;
use exitscope_units::{Tid, VcpuId};

mod common;

use common::{Said, said};

fn read(text: &str) -> Said {
    said(text.as_bytes()).unwrap_or_else(|error| panic!("{error}\n{text}"))
}

fn refusal(text: &str) -> String {
    match said(text.as_bytes()) {
        Err(error) => error.to_string(),
        Ok(said) => panic!("{:?} of\n{text}", said.events),
    }
}

/// Whether it is taken for no trace at all.
fn is_no_trace(text: &str) -> bool {
    matches!(said(text.as_bytes()), Err(TraceError::Unknown { .. }))
}

impl Said {
    /// Microsecond, thread, vCPU (-1: not told) and reason of each exit.
    fn exits(&self) -> Vec<(u64, u32, i64, String)> {
        let row = |event: &exitscope_model::Event| match event.kind {
            EventKind::Exit { code, .. } => {
                let vcpu = if event.vcpu == VcpuId::UNKNOWN { -1 } else { i64::from(event.vcpu.0) };
                Some((event.at.as_nanos() / 1000, event.tid.0, vcpu, code.name().to_string()))
            }
            _ => None,
        };
        self.events.iter().filter_map(row).collect()
    }

    /// What the exits' own words say they were about.
    fn subjects(&self) -> Vec<Option<(SubjectKind, bool, u64)>> {
        let subject = |event: &exitscope_model::Event| match event.kind {
            EventKind::Exit { code, words, .. } => {
                Some(words.subject(code).map(|about| (about.kind, about.write, about.key)))
            }
            _ => None,
        };
        self.events.iter().filter_map(subject).collect()
    }

    fn entries(&self) -> Vec<i64> {
        let of = |event: &exitscope_model::Event| match event.vcpu {
            _ if event.kind != EventKind::Enter => None,
            VcpuId::UNKNOWN => Some(-1),
            vcpu => Some(i64::from(vcpu.0)),
        };
        self.events.iter().filter_map(of).collect()
    }

    fn details(&self) -> Vec<Subject> {
        let detail = |event: &exitscope_model::Event| match event.kind {
            EventKind::Detail(detail) => Some(detail),
            _ => None,
        };
        self.events.iter().filter_map(detail).collect()
    }

    fn bad(&self) -> (u64, u64) {
        (self.ledger.get(LedgerLine::BadText), self.ledger.get(LedgerLine::UnreadFields))
    }
}

fn exits(rows: &[(u64, u32, i64, &str)]) -> Vec<(u64, u32, i64, String)> {
    rows.iter().map(|row| (row.0, row.1, row.2, row.3.to_string())).collect()
}

/// <b893745e-96c1-d8e4-85ec-9da257d0d44e@redhat.com>, lore.kernel.org/kvm, 2019: VMX, `trace-cmd report` quoted in an answer;
/// one line was wrapped and put together by hand.
#[test]
fn a_quoted_trace_cmd_report_of_linux_5() {
    let said = read(
        "the ring is full after 447 of them\n\
         >   ring_test-2903 [001]  4503.384328: kvm_entry:            vcpu 1\n\
         >   ring_test-2903 [001]  4503.384329: kvm_exit:             reason EPT_VIOLATION rip 0x40359f info 582 0\n\
         >   ring_test-2903 [001]  4503.384329: kvm_page_fault:       address 7fc036d000 error_code 582\n\
         >   ring_test-2903 [001]  4503.384331: kvm_entry:            vcpu 1\n\
         >   ring_test-2903 [001]  4503.384332: kvm_exit: reason EPT_VIOLATION rip 0x40359f info 582 0\n\
         >   ring_test-2903 [001]  4503.384332: kvm_dirty_ring_push:  ring 1: dirty 0x37f reset 0x1c0 slot 1\n\
         >   ring_test-2903 [001]  4503.384333: kvm_entry:            vcpu 1\n\
         Thanks,\n",
    );
    let rows = [(4_503_384_329, 2903, -1, "EPT_VIOLATION"), (4_503_384_332, 2903, -1, "EPT_VIOLATION")];
    assert_eq!(said.exits(), exits(&rows));
    assert_eq!(said.subjects(), [Some((SubjectKind::EptViolation, false, 0x182)); 2]);
    assert_eq!((said.entries(), said.bad()), (vec![1, 1, 1], (2, 0)));
    assert_eq!((said.details()[0].key, said.details()[0].value), (0x582, 0x7f_c036_d000));
    assert_eq!(said.info.comms[&2903], "ring_test");
}

/// <87tv35fv5t.fsf@vitty.brq.redhat.com>, lore.kernel.org/kvm, 2020: VMX, `trace-cmd report`, quoted twice.
#[test]
fn a_quote_of_a_quote() {
    for marks in [">> ", ">>", "> > ", " > > "] {
        let line = |rest: &str| format!("{marks} qemu-system-x86-2357 [005]  2018.775584: {rest}\n");
        let said = read(&format!(
            "On 02/03/20 19:40, somebody wrote:\n{}{}{marks}\n{}",
            line("kvm_exit:             reason EPT_VIOLATION rip 0xfffff802987d6169 info 181 0"),
            line("kvm_nested_vmexit:    rip fffff802987d6169 reason EPT_VIOLATION info1 181 info2 0 int_info 0"),
            line("kvm_emulate_insn:     0:fffff802987d6169: f3 a5 FAIL"),
        ));
        assert_eq!(said.exits(), exits(&[(2_018_775_584, 2357, -1, "EPT_VIOLATION")]), "{marks}");
        assert_eq!((said.events.len(), said.bad()), (3, (1, 0)), "{marks}");
        assert_eq!(said.info.comms[&2357], "qemu-system-x86", "{marks}");
    }
}

/// A patch of QEMU's pckbd on qemu-devel: VMX, ftrace, wrapped behind the time, with remarks between.
#[test]
fn lines_that_are_wrapped_behind_the_time() {
    let said = read(
        "qemu-system-x86-5659  [007] ....   280.971116:\n tracing_mark_write: pckbd_kbd_update_irq kbd=0 aux=1\n \
         # gtk queues a mouse event\n\n\
         qemu-system-x86-5665  [000] ....   280.971121:\n kvm_exit: reason EXTERNAL_INTERRUPT rip 0x22da info 0 800000fd\n\
         qemu-system-x86-5665  [000] d..1   280.971122:\n kvm_entry: vcpu 0, rip 0x22da\n\
         qemu-system-x86-5665  [000] ....   280.971126:\n kvm_exit: reason IO_INSTRUCTION rip 0x110c8c info 640008 0\n",
    );
    let rows = [(280_971_121, 5665, -1, "EXTERNAL_INTERRUPT"), (280_971_126, 5665, -1, "IO_INSTRUCTION")];
    assert_eq!(said.exits(), exits(&rows));
    assert_eq!(said.subjects(), [None, Some((SubjectKind::Port, false, 0x64))]);
    assert_eq!((said.entries(), said.bad()), (vec![0], (1, 0)));
}

/// <CA+BWSia-x86d3+C_zm+B0ZJEJWSne+Q95Z+cy02XHkr+pOtQGQ@mail.gmail.com>, lore.kernel.org/kvm, 2020: trace-cmd, Linux 4.18,
/// wrapped in the fields.
#[test]
fn lines_that_are_wrapped_in_the_fields() {
    let said = read(
        " <...>-6267 [030] 2758596.349023: kvm_entry:            vcpu 0\n \
         <...>-6288 [031] 2758596.349025: kvm_userspace_exit:   reason\nKVM_EXIT_UNKNOWN (0)\n \
         <...>-6267 [030] 2758596.349036: kvm_exit:             reason\nEPT_VIOLATION rip 0xfff0 info 784 0\n \
         <...>-6267 [030] 2758596.349038: kvm_page_fault:       address\nfffffff0 error_code 784\n \
         <...>-6285 [034] 2758596.349040: kvm_fpu:              load\n",
    );
    assert_eq!(said.exits(), exits(&[(2_758_596_349_036, 6267, -1, "EPT_VIOLATION")]));
    assert_eq!(said.subjects(), [Some((SubjectKind::EptViolation, false, 0x184))]);
    assert_eq!((said.events.len(), said.bad()), (5, (0, 0)));
    assert_eq!(said.events[1].kind, EventKind::UserspaceExit { reason: 0, errno: 0 });
    assert!(said.info.comms.is_empty());
}

/// The same report, wrapped where the line before is an event without the rest.
#[test]
fn lines_that_are_wrapped_behind_what_is_an_event_already() {
    let text = " <...>-6267 [030] 2758596.349023: kvm_entry:            vcpu 0,\n rip 0xfff0\n \
         <...>-6267 [030] 2758596.349036: kvm_exit:             reason EPT_VIOLATION\nrip 0xfff0 info 784 0\n \
         <...>-6267 [030] 2758596.349038: kvm_page_fault:       address fffffff0\nerror_code 784\n \
         <...>-6267 [030] 2758596.349039: kvm_entry:            vcpu 0,\n rip 0xfff4\n \
         <...>-6285 [034] 2758596.349040: kvm_fpu:              load\n\
         So it goes on, 9 times of 10.\n Exits: 12\n";
    let said = read(text);
    assert_eq!(said.exits(), exits(&[(2_758_596_349_036, 6267, -1, "EPT_VIOLATION")]));
    assert_eq!(said.subjects(), [Some((SubjectKind::EptViolation, false, 0x184))]);
    let EventKind::Exit { rip, .. } = said.events[1].kind else { panic!("{:?}", said.events[1]) };
    // What is said between is no event's.
    assert_eq!((rip, said.events.len(), said.bad()), (0xfff0, 5, (2, 0)));
    // The rest is of the last event, and of no other one of that thread and time.
    let text = " <...>-6267 [030] 2758596.349036: kvm_exit:             reason EPT_VIOLATION rip 0xfff0 info 784 0\n \
         <...>-6267 [030] 2758596.349036: kvm_entry:            vcpu 0,\nrip 0xfff0\n";
    assert_eq!((read(text).exits().len(), read(text).entries()), (1, vec![0]));
}

/// Mails to kvmarm on nested virtualization: ftrace on arm64, wrapped behind `TRAP:`, and the same in the answers.
#[test]
fn arm64s_exits_wrapped_behind_their_kind() {
    let text = "       kvm-vcpu-0-8877    [001] ...1.  6076.581774: kvm_exit: TRAP: \n\
                HSR_EC: 0x0018 (SYS64), PC: 0x0000000080528a6c\n       \
                kvm-vcpu-0-8877    [001] d..1.  6076.581775: kvm_entry: PC: \n0x0000000080528a6c\n       \
                kvm-vcpu-0-8877    [001] .....  6076.581780: kvm_exit: IRQ:\n\
                HSR_EC: 0x0000 (UNKNOWN), PC: 0x0000000080528a90\n";
    let quoted: String = text.lines().map(|line| format!(">> {line}\n")).collect();
    for text in [text, &quoted] {
        let said = read(text);
        assert_eq!(said.exits(), exits(&[(6_076_581_774, 8877, -1, "SYS64"), (6_076_581_780, 8877, -1, "IRQ")]));
        // The rest of an entry says nothing that is missed, and is no line of its own.
        assert_eq!((said.entries(), said.bad()), (vec![-1], (0, 0)));
        assert_eq!(said.info.comms[&8877], "kvm-vcpu-0");
    }
}

/// A blog post on KVM's tools: trace_pipe of a kernel of 2009 or 2010, VMX, with that time's names and without flags, indented,
/// between the commands.
#[test]
fn the_names_of_linux_2_6_in_an_indented_block() {
    let said = read(
        "    # echo 1 >/sys/kernel/debug/tracing/events/kvm/enable\n    \
         # cat /sys/kernel/debug/tracing/trace_pipe\n    [...]\n    \
         kvm-5664  [000] 11906.220178: kvm_entry: vcpu 0\n    \
         kvm-5664  [000] 11906.220181: kvm_exit: reason apic_access rip 0xc011518c\n    \
         kvm-5664  [000] 11906.220183: kvm_mmio: mmio write len 4 gpa 0xfee000b0 val 0x0\n    \
         kvm-5664  [000] 11906.220183: kvm_apic: apic_write APIC_EOI = 0x0\n    \
         kvm-5664  [000] 11906.220184: kvm_ack_irq: irqchip IOAPIC pin 11\n    \
         kvm-5664  [000] 11906.220188: kvm_exit: reason io_instruction rip 0xc01e4473\n    \
         kvm-5664  [000] 11906.220188: kvm_pio: pio_read at 0xc13e size 2 count 1\n    \
         kvm-5664  [000] 11906.220190: kvm_exit: reason cpuid rip 0xc01e4475\n    ^D\n",
    );
    let at = |micros: u64, name| (11_906_220_000 + micros, 5664, -1, name);
    let rows = [at(181, "APIC_ACCESS"), at(188, "IO_INSTRUCTION"), at(190, "CPUID")];
    assert_eq!(said.exits(), exits(&rows));
    let details: Vec<_> = said.details().iter().map(|detail| (detail.kind, detail.write, detail.key)).collect();
    let expected =
        [(SubjectKind::Mmio, true, 0xfee0_00b0), (SubjectKind::Apic, true, 0xb0), (SubjectKind::Port, false, 0xc13e)];
    assert_eq!((details, said.bad()), (expected.to_vec(), (4, 0)));
}

/// A write-up of a CTF's task, a bare program for KVM: trace_pipe, VMX; runs of blanks became one.
#[test]
fn blanks_that_were_made_one() {
    let said = read(
        " challenge-24797 [003] .... 83184.290314: kvm_fpu: load\n \
         challenge-24797 [003] d..1 83184.290326: kvm_entry: vcpu 0\n \
         challenge-24797 [003] .... 83184.290332: kvm_exit: reason EXTERNAL_INTERRUPT rip 0x100 info 0 800000f6\n \
         challenge-24797 [003] .... 83184.290337: kvm_exit: reason IO_INSTRUCTION rip 0xff info e90008 0\n \
         challenge-24797 [003] .... 83184.290341: kvm_userspace_exit: reason KVM_EXIT_IO (2)\n",
    );
    let rows = [(83_184_290_332, 24797, -1, "EXTERNAL_INTERRUPT"), (83_184_290_337, 24797, -1, "IO_INSTRUCTION")];
    assert_eq!((said.exits(), said.entries(), said.bad()), (exits(&rows), vec![0], (0, 0)));
    assert_eq!(said.subjects()[1], Some((SubjectKind::Port, false, 0xe9)));
}

/// The documents of github.com/OpenCloudOS/perf-prof, its kvm-exit: dated lines with flags before the CPU, VMX; sums between.
#[test]
fn perf_profs_dated_lines() {
    let said = read(
        "2021-12-12 16:11:10.214139            <...> 206966 .N.. [017] 15504452.408994: kvm:kvm_exit: reason EXTERNAL_INTERRUPT rip 0xf info 0 800000fd\n\
         2021-12-12 16:11:10.214203            <...> 206966 d..1 [017] 15504452.412981: kvm:kvm_entry: vcpu 20\n\
         2021-12-12 16:11:10.287391        CPU 2/KVM 206967 .... [018] 15504452.473318: kvm:kvm_exit: reason APIC_WRITE rip 0xf info 300 0\n\
         2021-12-12 16:11:10.437325 \n     kvm-exit latency(ns) : count    distribution\n         0 -> 255        : 0        |                |\n",
    );
    let rows =
        [(15_504_452_408_994, 206_966, -1, "EXTERNAL_INTERRUPT"), (15_504_452_473_318, 206_967, -1, "APIC_WRITE")];
    assert_eq!((said.exits(), said.entries()), (exits(&rows), vec![20]));
    assert_eq!(said.subjects()[1], Some((SubjectKind::Apic, true, 0x300)));
    assert_eq!(said.events[0].cpu.0, 17);
    // The date is no part of the name.
    assert_eq!(said.info.comms.into_iter().collect::<Vec<_>>(), [(206_967, "CPU 2/KVM".to_string())]);
}

/// A mail to kvm@vger.kernel.org on Hyper-V in a nested guest: `perf script` with libtraceevent's plugin, which complains of what
/// it does not know; VMX.
#[test]
fn perf_script_with_libtraceevents_plugin() {
    let said = read(
        "      CPU 0/KVM  69987 [020] 18136.763712:                        kvm:kvm_fpu: load\n      \
         CPU 0/KVM  69987 [020] 18136.763714:                      kvm:kvm_entry: vcpu 0, rip 0xfffff8031964a72a\n      \
         CPU 0/KVM  69987 [020] 18136.763716:                       kvm:kvm_exit: reason MSR_WRITE rip 0xf info 0 0\n      \
         CPU 0/KVM  69987 [020] 18136.763717:              kvm:kvm_nested_vmexit: CAN'T FIND FIELD \"rip\"<CANT FIND FIELD exit_code>vcpu 0 reason MSR_WRITE\n      \
         swapper     0 [021] 18136.763718:                 sched:sched_switch: swapper/21:0 [120] R ==> CPU 1/KVM:69988 [120]\n",
    );
    assert_eq!(said.exits(), exits(&[(18_136_763_716, 69987, -1, "MSR_WRITE")]));
    let switch = said.events[4].kind;
    let (prev, next, prev_name) = (Tid(0), Tid(69988), ThreadName::new(b"swapper/21"));
    assert_eq!(switch, EventKind::Switch { prev, sleeps: false, next, prev_name });
    assert_eq!((said.entries(), said.bad()), (vec![0], (0, 0)));
}

/// The test of a Go program that counts entries of Firecracker's vCPUs: `perf script`, whose threads' names end with numbers; the
/// plugin prints no comma.
#[test]
fn firecrackers_threads() {
    let said = read(
        "       fc_vcpu 1  599500 [039] 1377662.550600: kvm:kvm_entry:  vcpu 1 rip 0xffffffff81036706\n \
         fc_vcpu 0 2335220 [069] 12345.679150: kvm:kvm_entry: vcpu 0, rip 0xffffffff81036706\n \
         fc_vcpu 0 2335220 [069] 12345.679200: kvm:kvm_exit: reason EXTERNAL_INTERRUPT rip 0xf info1 0\n \
         fc_vcpu 0 2335220 [069] 12345.679300: kvm:kvm_msr: msr_write 6e0 = 0x1fb1e5ac1f9\n",
    );
    assert_eq!(said.exits(), exits(&[(12_345_679_200, 2_335_220, -1, "EXTERNAL_INTERRUPT")]));
    assert_eq!((said.entries(), said.bad()), (vec![1, 0], (0, 0)));
    assert_eq!((said.info.comms[&599_500].as_str(), said.details()[0].key), ("fc_vcpu 1", 0x6e0));
}

/// <ZDg6w+1v4e/uRDfF@google.com>, lore.kernel.org/kvm, 2023: ftrace of a nested host, VMX, with a kprobe's lines between.
#[test]
fn all_words_of_linux_5_and_a_probes_lines() {
    let said = read(
        ">  qemu-system-x86-1897    [015] d.... 95922.997039: kvm_exit: vcpu 0 reason EXCEPTION_NMI rip 0xfd0bd info1 0x0000000000000000 info2 0x0000000000000413 intr_info 0x80000306 error_code 0x00000000\n\
         >  qemu-system-x86-1897    [015] ..... 95922.997052: p_hv_track_root_tdp_0: (hv_track_root_tdp+0x0/0x70 [kvm]) si=0x18b082000\n\
         >  qemu-system-x86-1897    [015] d.... 95922.997133: kvm_entry: vcpu 0, rip 0xf7d6b\n",
    );
    assert_eq!(said.exits(), exits(&[(95_922_997_039, 1897, 0, "EXCEPTION_NMI")]));
    assert_eq!(said.subjects(), [Some((SubjectKind::Exception, false, 6))]);
    assert_eq!((said.entries(), said.events.len(), said.bad()), (vec![0], 3, (0, 0)));
}

/// <19c4168f-c65b-fc9a-fe4c-152284e18d30@redhat.com>, lore.kernel.org/kvm, 2022: `trace-cmd report` without its kvm plugin, VMX.
#[test]
fn trace_cmd_without_its_plugin() {
    let said = read(
        "         qemu-kvm-1637 [019] 758186.750321: kvm_entry:            vcpu 0, rip 0x4028b7\n         \
         qemu-kvm-1637 [019] 758186.750322: kvm_exit:             vcpu 0 reason EXCEPTION_NMI rip 0x40048d info1 0x0000000000000000 info2 0x0000000000000000 intr_info 0x80000306 error_code 0x00000000\n         \
         qemu-kvm-1637 [019] 758186.750324: kvm_emulate_insn:     0:40048d:0f 01 d1 (prot64)\n         \
         qemu-kvm-1637 [019] 758186.750325: kvm_inj_exception:    #UD (0x0)\n",
    );
    assert_eq!(said.exits(), exits(&[(758_186_750_322, 1637, 0, "EXCEPTION_NMI")]));
    assert_eq!((said.info.format.as_str(), said.bad()), ("trace-cmd report text", (0, 0)));
}

/// <87y2zknlq7.fsf@vitty.brq.redhat.com>, lore.kernel.org/kvm, 2019: `trace-cmd report` of a selftest on SVM.
#[test]
fn trace_cmds_names_of_svm() {
    let said = read(
        "           <...>-4375 [001]  3615.602298: kvm_exit:             reason EXIT_MSR rip 0x4015c2 info 0 0\n           \
         <...>-4375 [001]  3615.602299: kvm_msr:              msr_read ce = 0x0 (#GP)\n           \
         <...>-4375 [001]  3615.602301: kvm_entry:            vcpu 0\n           \
         <...>-4375 [001]  3615.602302: kvm_exit:             reason EXIT_EXCP_GP rip 0x4015c2 info 6a 0\n           \
         <...>-4375 [001]  3615.602308: kvm_emulate_insn:     0:4015c2: 0f 32\n",
    );
    assert_eq!(said.exits(), exits(&[(3_615_602_298, 4375, -1, "msr"), (3_615_602_302, 4375, -1, "GP excp")]));
    assert_eq!(said.details()[0].key, 0xce);
    assert_eq!(said.bad(), (0, 0));
}

/// The README of a program for SEV-SNP guests: trace-cmd, SVM; error codes of more than 32 bits.
#[test]
fn nested_page_faults_of_an_encrypted_guest() {
    let line = " qemu-system-x86-3101 [064] 28714.545983: kvm_exit:             reason EXIT_NPF rip 0x0 info 1680000007 1729a1000\n";
    let said = read(&line.repeat(3));
    assert_eq!(said.exits()[0], exits(&[(28_714_545_983, 3101, -1, "npf")])[0]);
    assert_eq!(said.subjects(), [Some((SubjectKind::PageFault, false, 0x16_0000_0007)); 3]);
}

/// The kernel's commit message about CVE-2025-21839: the author left out what did not matter, and put labels before some lines.
#[test]
fn exits_from_which_words_were_left_out() {
    let said = read(
        "    L1's view:\n    ==========\n           \
         CPU 0/KVM-7289    [023] d....  2925.640961: kvm_entry: vcpu 0\n A:  L1 Writes DR6\n           \
         CPU 0/KVM-7289    [023] d....  2925.640963: <hack>: Set DRs, DR6 = 0xffff0ff1\n\n \
         B:        CPU 0/KVM-7289    [023] d....  2925.640967: kvm_exit: vcpu 0 reason EXTERNAL_INTERRUPT intr_info 0x800000ec\n\n           \
         CPU 0/KVM-7289    [023] d....  2925.640976: kvm_entry: vcpu 0\n           \
         CPU 0/KVM-7289    [023] d....  2925.640980: kvm_exit: vcpu 0 reason DR_ACCESS info1 0x0000000000000216\n",
    );
    assert_eq!(
        said.exits(),
        exits(&[(2_925_640_967, 7289, 0, "EXTERNAL_INTERRUPT"), (2_925_640_980, 7289, 0, "DR_ACCESS")])
    );
    assert_eq!(said.subjects()[0], Some((SubjectKind::HostVector, false, 0xec)));
    assert_eq!(said.entries(), [0, 0]);
}

/// Where the end is cut off, what is left may be the beginning of another name.
#[test]
fn exits_whose_end_is_cut_off_are_counted() {
    let line = |fields: &str| format!(" qemu-1234 [000] d..1.  1716.123456: kvm_exit: {fields}\n");
    for fields in ["reason EPT_VIOLATION ...", "vcpu 0 reason EXCEPTION_NMI", "reason", "vcpu 0, reason CPUID (10)"] {
        let said = read(&line(fields));
        assert_eq!((said.exits(), said.bad()), (vec![], (0, 1)), "{fields}");
    }
    let said = read(&line("reason EPT_VIOLATION rip 0xffffffff81234567 ..."));
    assert_eq!((said.exits().len(), said.subjects()), (1, vec![None]));
}

/// An example of interrupts of a guest in a public repository: ftrace on arm64, with seven flags.
#[test]
fn seven_flags_of_newer_kernels() {
    let said = read(
        "          <idle>-0       [001] d...2..  1000.000032: sched_switch: prev_comm=swapper/1 prev_pid=0 prev_prio=120 prev_state=R ==> next_comm=CPU 0/KVM next_pid=4201 next_prio=120\n       \
         CPU 0/KVM-4201    [001] .......  1000.000038: kvm_vcpu_wakeup: wait time 1900000 ns, polling valid\n       \
         CPU 0/KVM-4201    [001] d...1..  1000.000090: kvm_entry: PC: 0xffff800080010000\n       \
         CPU 0/KVM-4201    [001] d...1..  1000.000190: kvm_exit: TRAP: HSR_EC: 0x0001 (WFx), PC: 0xffff800080010000\n",
    );
    assert_eq!(said.exits(), exits(&[(1_000_000_190, 4201, -1, "WFx")]));
    assert_eq!(said.events[1].kind, EventKind::HaltEnd { ns: 1_900_000, waited: true, valid: true });
}

/// <95c1dc01-4aa0-46a6-95b1-bbc62588ac6e@www.fastmail.com>, lore.kernel.org/kvm, 2022: `perf script` of Linux 5.13, of which only
/// CPU and time were copied.
#[test]
fn lines_without_threads_are_paired_by_vcpu() {
    let said = read(
        "    [001]   770.850287:                      kvm:kvm_entry: vcpu 0, rip 0x100146\n    \
         [001]   770.850307:                       kvm:kvm_exit: vcpu 0 reason TRIPLE_FAULT rip 0x100146 info1 0x0 info2 0x0\n    \
         [001]   770.850313:                        kvm:kvm_fpu: unload\n",
    );
    assert_eq!(said.exits(), [(770_850_307, 1, 0, "TRIPLE_FAULT".to_string())]);
    assert!(said.events.iter().all(|event| event.tid == Tid(1)), "{:?}", said.events);
}

/// Mails to kvm@vger.kernel.org on SVM's idle HLT (times alone) and on VMX's preemption timer (`perf script` with names alone).
#[test]
fn times_and_names_without_threads_are_paired_where_exits_name_their_vcpu() {
    let said = read(
        " 6204.951631: kvm_entry: vcpu 0, rip 0x406a89\n 6204.951632: kvm_exit: vcpu 0 reason hlt rip 0x4004ad info1 0x0\n 6204.951633: kvm_inj_virq: IRQ 0xb0\n",
    );
    assert_eq!(said.exits(), [(6_204_951_632, 1, 0, "hlt".to_string())]);
    // Linux before 5.10 does not print it with exits.
    let error = refusal(
        "preempt_test  20677.199579:      kvm:kvm_exit: reason PREEMPTION_TIMER rip 0x40274d info 0 0 intr 0\n",
    );
    assert!(error.contains("line 1 names no thread"), "{error}");
}

/// <20210628104425.391276-5-vkuznets@redhat.com>, lore.kernel.org/kvm: trace-cmd without any column, wrapped; a README with
/// threads and no times; a drawing.
#[test]
fn lines_without_times_are_refused() {
    for text in [
        "  kvm_exit:             reason EXIT_RSM rip 0x7ffbb280 info 0 0\n  kvm_emulate_insn:     0:7ffbb280: 0f aa\n  kvm_entry:            vcpu 0, rip 0xf\n  kvm_exit:             reason EXIT_NPF rip 0xf info\n    200000006 1ab000\n",
        "# qemu-system-x86-1234 [001] kvm_exit: reason CPUID rip 0x7c00\nqemu-system-x86-1234 [001] kvm_exit: reason HLT rip 0x7c10\n",
        "|  │  kvm_entry: vcpu 0                                        │ |\n|  │  kvm_exit: reason IO_INSTRUCTION info1 0x3f8 info2 0x0       │ |\n",
    ] {
        let error = refusal(text);
        assert!(error.contains("has no time before the tracepoint's name"), "{error}");
    }
}

/// The same mail as quoted-printable: what follows the name is in the next line.
#[test]
fn quoted_printable_lines_are_refused() {
    let error = refusal(
        "      CPU 0/KVM  69987 [020] 18136.763711:             kvm:kvm_userspace_e=\nxit:\nreason KVM_EXIT_MMIO (6)\n      \
         CPU 0/KVM  69987 [020] 18136.763716:                       kvm:kvm_e=\nxit:\nreason MSR_WRITE rip 0xfffff8030f62d36c info 0 0\n",
    );
    assert!(error.contains("does not name its tracepoint"), "{error}");
}

/// The function_graph tracer draws events as comments (`print_graph_comment` of kernel/trace/trace_functions_graph.c).
#[test]
fn graphs_of_functions_are_refused() {
    let graph = " 1)               |  vmx_vcpu_run() {\n 1)   0.450 us    |    vmx_exit_handlers_fastpath();\n \
                 1)               |  /* kvm_exit: vcpu 0 reason HLT rip 0xf info1 0x0 info2 0x0 */\n 1)   1.207 us    |  }\n";
    let header = "# tracer: function_graph\n#\n# CPU  DURATION                  FUNCTION CALLS\n# |     |   |                     |   |   |   |\n";
    let error = refusal(&format!("{header}{graph}"));
    assert!(error.contains("function_graph"), "{error}");
    let comments = " 1)               |  /* kvm_exit: vcpu 0 reason HLT rip 0xf info1 0x0 info2 0x0 */\n \
                    1)               |  /* kvm_entry: vcpu 0, rip 0xf */\n";
    assert!(refusal(comments).contains("function_graph"));
}

/// Sums of `perf top` (notes on exits by address), and columns aligned by hand (a lesson on VMMs), are no traces.
#[test]
fn what_is_no_list_of_events_is_no_trace() {
    for text in [
        "Samples: 887K of event 'kvm:kvm_exit', 1 Hz, Event count (approx.): 47982\nOverhead  Trace output\n  36.22%  reason MSR_WRITE rip 0xffffffff8110ac58 info 0 0\n  34.28%  reason HLT rip 0xffffffff823fa01e info 0 0\n",
        "kvm_entry                 vcpu 0 rip 0x0\nkvm_exit                  vcpu 0 reason npf rip 0x0\n",
        "There is `kvm_exit`, which\nprints lines such as\n    kvm_exit: reason HLT rip 0x4\nand there are\nmany more\nof them.\n",
    ] {
        assert!(is_no_trace(text), "{text}");
    }
}

/// Tables and lists of Markdown, and text in which tabs stand for runs of blanks.
#[test]
fn lists_tables_and_tabs() {
    let plain = " qemu-system-x86-229 [001] d..1. 87.534187: kvm_entry: vcpu 0, rip 0xfff0\n \
                 qemu-system-x86-229 [001] ..... 87.534190: kvm_exit: vcpu 0 reason npf rip 0xfff0 info1 0x14 info2 0xf\n";
    let marked = |mark: &str| plain.lines().map(|line| format!("{mark}{line}\n")).collect::<String>();
    for text in
        [marked("*"), marked("- "), marked("  +"), marked("|"), marked("    "), marked("\t"), plain.replace(' ', "\t")]
    {
        // Within the fields, a tab is none of the kernel's.
        let text = text.replace("vcpu\t0\treason\tnpf\trip\t", "vcpu 0 reason npf rip ").replace("vcpu\t0", "vcpu 0");
        let said = read(&text);
        assert_eq!(said.exits(), exits(&[(87_534_190, 229, 0, "npf")]), "{text}");
        assert_eq!((said.entries(), said.bad()), (vec![0], (0, 0)), "{text}");
        assert_eq!(said.info.comms[&229], "qemu-system-x86", "{text}");
    }
}

/// What the kernel dumps of its buffer when it dies (`ftrace_dump` of kernel/trace/trace.c), behind the log's times.
#[test]
fn a_buffer_dumped_to_the_console() {
    let said = read(
        "[   12.345678] Dumping ftrace buffer:\n[   12.345679] ---------------------------------\n\
         [   12.345680] CPU 0/KV-229       1d..1. 87534187us : kvm_entry: vcpu 0, rip 0xfff0\n\
         [   12.345681] CPU 0/KV-229       1d.... 87534190us+: kvm_exit: vcpu 0 reason npf rip 0xfff0 info1 0x14 info2 0xf\n\
         [   12.345682] ---------------------------------\n",
    );
    assert_eq!(said.exits(), exits(&[(87_534_190, 229, 0, "npf")]));
    assert_eq!((said.entries(), said.info.comms[&229].as_str()), (vec![0], "CPU 0/KV"));
}

/// Lines stamped by a filter (`ts '[%F %T]'` of moreutils).
#[test]
fn lines_stamped_by_a_filter() {
    let said = read(
        "[2024-05-18 10:20:30]  qemu-system-x86-229     [001] d..1.    87.534187: kvm_entry: vcpu 3, rip 0xfff0\n\
         [2024-05-18 10:20:30]  qemu-system-x86-229     [001] .....    87.534190: kvm_exit: vcpu 3 reason npf rip 0xfff0 info1 0x14\n",
    );
    assert_eq!(said.exits(), exits(&[(87_534_190, 229, 3, "npf")]));
    assert_eq!(said.info.comms[&229], "qemu-system-x86");
}
