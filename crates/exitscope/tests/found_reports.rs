//! Recordings made after public complaints: what `report` and `advise` say of each, and what they must not.
//!
//! The first line of each file is what whoever made it asked for; this says it in the product's words.

mod common;

use common::{corpus, run, stdout};

/// A recording, what has to be said of it, and what must not.
const REPORTS: &[(&str, &[&str], &[&str])] = &[
    (
        "r03-hpet-clocksource",
        &[
            "HPET (51.6%)",
            "fallen back from the TSC or kvm-clock",
            "for a Linux guest: libvirt, in <clock>: <timer name='kvmclock' present='yes'/>",
            "for a Windows guest: QEMU: -cpu …,hv-time,hv-vpindex,hv-synic,hv-stimer",
            "once the guest keeps time with another clock: QEMU: -machine hpet=off",
        ],
        &["doorbell", "ioeventfd"],
    ),
    (
        "r04b-ple-pinned",
        &[
            "try without PAUSE exits (ple_gap=0), or with fewer",
            "ple_gap=0",
            "ple_window=16384",
            "when the module is reloaded",
            "perf lock contention",
        ],
        &["keep lock holders running", "Accepted costs", "not judged: the guest's locks"],
    ),
    (
        "r05-guest-tick",
        &[
            "Guests run 99.3% of vCPU time, and no part of the rest is large",
            "nohz_full=",
            "lower HZ",
            "a timer that the guest armed",
        ],
        &["Best change"],
    ),
    (
        "r09-spec-ctrl",
        &[
            "MSR_IA32_SPEC_CTRL",
            "switches IBRS on and off",
            "retbleed=",
            "first write on that is not zero",
            "nested guest's",
            "filter",
        ],
        &["timer (", "APIC", "ask for MSR"],
    ),
    (
        "r10-guest-perf-pmu",
        &["MSR_CORE_PERF_GLOBAL_CTRL", "stop counting in the guest", "nmi_watchdog=0", "end `perf` and profilers"],
        &["timer (", "arm its timer"],
    ),
    (
        "r13b-haltpoll-cap",
        &[
            "takes 84.4% of their time (1.69 CPUs)",
            "shorten host halt polling",
            "host: halt_poll_ns=50000",
            "KVM_CAP_HALT_POLL",
            "wake-ups a second come later",
            "halts a second of each vCPU",
        ],
        &["no rule looks at it", "none is advised"],
    ),
    ("r15-arm64-timer-storm", &["a timer storm", "kvm_timer_emulate"], &["no rule looks at it"]),
    (
        "r16-hyperv-synic-apicv-off",
        &["IPIs (x2APIC_ICR)", "other half of the guest's IPIs", "APICv inhibited: Hyper-V's AutoEOI", "hv-apicv"],
        &["/proc/irq"],
    ),
    (
        "r17-windows-timerefcount",
        &["HV_X64_MSR_TIME_REF_COUNT", "reference TSC page", "hv-time", "invtsc"],
        &["synthetic timer", "powercfg"],
    ),
    (
        "r18-numa-balancing",
        &[
            "vCPU threads themselves change mappings (kvm_unmap_hva_range, of KVM's MMU notifier)",
            "NUMA balancing, writes to pages that KSM merged",
            "where NUMA balancing is on: `grep numa_ /proc/vmstat`",
            "kernel.numa_balancing",
            "<numatune>",
        ],
        // No thread of theirs did it.
        &["touches most of these pages for the first time", "pages_collapsed", "kcompactd", "<hugepages/>"],
    ),
];

#[test]
fn what_was_complained_of_is_named_and_what_would_mislead_is_not_said() {
    for (name, says, does_not_say) in REPORTS {
        let path = corpus(&format!("reports/{name}.txt.gz")).display().to_string();
        let all: String = [&["report", &path][..], &["report", "--all", &path], &["advise", &path]]
            .into_iter()
            .map(|command| stdout(&run(command)))
            .collect();
        // Lines are broken where the terminal ends.
        let all = all.split_whitespace().collect::<Vec<_>>().join(" ");
        for words in *says {
            assert!(all.contains(words), "{name} says {words}: {all}");
        }
        for words in *does_not_say {
            assert!(!all.contains(words), "{name} does not say {words}: {all}");
        }
    }
}

/// Polls at their cap change nothing, so that KVM says nothing of its polls but at their ends: without the scheduler's events, too, they
/// are judged.
#[test]
fn polls_at_their_cap_are_judged_without_the_schedulers_events() {
    let folder = tempfile::tempdir().unwrap();
    let whole = String::from_utf8(common::unpacked("reports/r13b-haltpoll-cap.txt.gz")).unwrap();
    let without: String =
        whole.lines().filter(|line| !line.contains("sched_")).map(|line| format!("{line}\n")).collect();
    let path = folder.path().join("polls.txt");
    std::fs::write(&path, without).unwrap();
    let report = stdout(&run(&["report", path.to_str().unwrap()]));
    let words = report.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(
        words.contains("Polling for halted vCPUs takes") && words.contains("Shorten host halt polling"),
        "{report}"
    );
}

/// A guest's faults for which KVM_RUN returns, as ftrace and as libtraceevent print them: conversions and memory that cannot be mapped are
/// neither returns for a signal nor memory that huge pages would help.
#[test]
fn faults_that_kvm_could_not_resolve_are_named_and_get_no_huge_pages() {
    let folder = tempfile::tempdir().unwrap();
    for (printed, says) in [
        ("error (14)", "memory that KVM could not map"),
        ("error (133)", "memory that KVM could not map"),
        ("KVM_EXIT_MEMORY_FAULT (39)", "conversions of a confidential guest's memory"),
    ] {
        let mut events = String::new();
        for number in 0..2_000u64 {
            let (at, address) = (number * 100, 0x10_0000 + number * 4_096);
            let line = |after: u64, event: &str| {
                let nanos = 1_000_000 + at + after;
                format!("     CPU 0/KVM-4100 [002] d....  {}.{:06}: {event}\n", nanos / 1_000_000, nanos % 1_000_000)
            };
            events.push_str(&line(
                10,
                "kvm_exit: vcpu 0 reason EPT_VIOLATION rip 0x10 info1 0x182 info2 0x0 intr_info 0x0 error_code 0x0",
            ));
            events.push_str(&line(
                12,
                &format!("kvm_page_fault: vcpu 0 rip 0x10 address {address:#018x} error_code 0x182"),
            ));
            events.push_str(&line(20, &format!("kvm_userspace_exit: reason {printed}")));
            events.push_str(&line(60, "kvm_entry: vcpu 0, rip 0x10"));
        }
        let path = folder.path().join("trace.txt");
        std::fs::write(&path, format!("# tracer: nop\n{events}")).unwrap();
        let all = ["report", "advise"].map(|command| stdout(&run(&[command, path.to_str().unwrap()]))).join("\n");
        assert!(all.contains(says), "{printed}: {all}");
        for wrong in ["hugepages", "returns for a signal", "KVM_EXIT_INTR"] {
            assert!(!all.contains(wrong), "{printed}: {wrong}: {all}");
        }
    }
}

/// Writes that KVM answers by itself, after each of which a signal ends KVM_RUN, as the kernel and libtraceevent print it: user space
/// answers none of them.
#[test]
fn exits_that_a_signal_takes_to_user_space_get_no_ioeventfd() {
    let folder = tempfile::tempdir().unwrap();
    for returns in ["reason error (4)", "reason restart (4)"] {
        let mut events = String::new();
        for number in 0..2_000u64 {
            let line = |after: u64, event: &str| {
                let nanos = 1_000_000 + number * 100 + after;
                format!("     CPU 0/KVM-4100 [002] d....  {}.{:06}: {event}\n", nanos / 1_000_000, nanos % 1_000_000)
            };
            events.push_str(&line(10, "kvm_exit: vcpu 0 reason IO_INSTRUCTION rip 0x10 info1 0xc0500001 info2 0x0"));
            events.push_str(&line(15, "kvm_pio: pio_write at 0xc050 size 2 count 1 val 0x1"));
            events.push_str(&line(40, &format!("kvm_userspace_exit: {returns}")));
            events.push_str(&line(70, "kvm_entry: vcpu 0, rip 0x10"));
        }
        let path = folder.path().join("trace.txt");
        std::fs::write(&path, format!("# tracer: nop\n{events}")).unwrap();
        let advice = stdout(&run(&["advise", path.to_str().unwrap()]));
        assert!(!advice.contains("ioeventfd") && !advice.contains("answers: 100%"), "{advice}");
        let report = common::report(&[&path], &["--by", "reason"]);
        assert_eq!(report["rows"][0]["user_space_share"], 0.0, "{}", report["rows"][0]);
        assert_eq!(report["coverage"]["exits"], 2_000);
    }
}

/// Doorbells that an ioeventfd takes within the kernel, as text has them, with and without returns to user space in the recording:
/// nothing is to be moved into the kernel, and who answers is known.
#[test]
fn doorbells_that_the_kernel_takes_are_left_alone_whatever_else_was_recorded() {
    let folder = tempfile::tempdir().unwrap();
    for returns in [false, true] {
        let mut events = String::new();
        for number in 0..2_000u64 {
            let line = |after: u64, event: &str| {
                let nanos = 1_000_000 + number * 100 + after;
                format!("     CPU 0/KVM-4100 [002] d....  {}.{:06}: {event}\n", nanos / 1_000_000, nanos % 1_000_000)
            };
            if returns && number % 100 == 0 {
                events.push_str(&line(0, "kvm_exit: vcpu 0 reason IO_INSTRUCTION rip 0x10 info1 0x3f80001 info2 0x0"));
                events.push_str(&line(1, "kvm_pio: pio_write at 0x3f8 size 2 count 1 val 0x1"));
                events.push_str(&line(2, "kvm_userspace_exit: reason KVM_EXIT_IO (2)"));
                events.push_str(&line(3, "kvm_entry: vcpu 0, rip 0x10"));
            }
            events.push_str(&line(10, "kvm_exit: vcpu 0 reason EPT_MISCONFIG rip 0x10 info1 0x0 info2 0x0"));
            events.push_str(&line(15, "kvm_fast_mmio: fast mmio at gpa 0xfe003000"));
            events.push_str(&line(40, "kvm_entry: vcpu 0, rip 0x10"));
        }
        let path = folder.path().join("trace.txt");
        std::fs::write(&path, format!("# tracer: nop\n{events}")).unwrap();
        let advice = stdout(&run(&["advise", "--format", "json", path.to_str().unwrap()]));
        let advised: serde_json::Value = serde_json::from_str(&advice).unwrap();
        let rows = advised["causes"].as_array().unwrap().iter();
        let [row] = rows.filter(|row| row["reason"] == "EPT_MISCONFIG").collect::<Vec<_>>()[..] else {
            panic!("{advice}")
        };
        assert_eq!(row["verdict"], "inherent", "{row}");
        assert!(
            row["why"].as_str().unwrap().contains("a doorbell that the kernel already takes by an ioeventfd"),
            "{row}"
        );
    }
}
