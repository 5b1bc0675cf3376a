//! `report --view interrupts` on recordings made up with known counts, and on real ones.

mod common;

use common::{corpus, exitscope, report, run, stderr, stdout};
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

/// A vCPU that ends an interrupt each millisecond for a second, by an exit of 2 us while `inhibited` says so (milliseconds), and that
/// halts for 900 us between.
fn perf_script(folder: &Path, inhibited: std::ops::Range<u64>, changes: &[(u64, &str)]) -> PathBuf {
    let mut text = String::new();
    let mut line = |us: u64, tid: u32, words: &str| {
        let (s, us) = (10 + us / 1_000_000, us % 1_000_000);
        writeln!(text, "       CPU {}/KVM  4100/{tid} [00{}] {s:5}.{us:06}000: {words}", tid - 4101, tid - 4101)
            .unwrap();
    };
    for ms in 0..1_000 {
        let at = ms * 1_000;
        for (_, change) in changes.iter().filter(|(when, _)| *when == ms) {
            line(at, 4101, &format!("kvm:kvm_apicv_inhibit_changed: {change}"));
        }
        let exit = |reason| {
            format!(
                "kvm:kvm_exit: vcpu 0 reason {reason} rip 0x401000 info1 0x0 info2 0x0 intr_info 0x0 error_code 0x0"
            )
        };
        if inhibited.contains(&ms) {
            line(at + 10, 4101, &exit("MSR_WRITE"));
            line(at + 11, 4101, "kvm:kvm_msr: msr_write 80b = 0x0");
            line(at + 12, 4101, "kvm:kvm_entry: vcpu 0, rip 0x401002");
        }
        line(at + 50, 4101, &exit("HLT"));
        line(at + 950, 4101, "kvm:kvm_entry: vcpu 0, rip 0x401004");
    }
    let path = folder.join("perf.txt");
    std::fs::write(&path, text).unwrap();
    path
}

/// The view, in a terminal of this width.
fn view(trace: &Path, width: &str) -> String {
    let output =
        exitscope().env("COLUMNS", width).args(["report", "--view", "interrupts"]).arg(trace).output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    stdout(&output)
}

fn vm_of(report: &Value) -> &Value {
    let vms = report["interrupts"]["vms"].as_array().unwrap();
    assert_eq!(vms.len(), 1);
    &vms[0]
}

const TOGGLED: [(u64, &str); 2] =
    [(400, "set reason=9, inhibits=0x200 PIT_REINJ"), (800, "cleared reason=9, inhibits=0x0")];

#[test]
fn exits_are_counted_while_inhibited_and_while_not() {
    let folder = tempfile::tempdir().unwrap();
    let trace = perf_script(folder.path(), 400..800, &TOGGLED);
    let report = report(&[&trace], &[]);
    let vm = vm_of(&report);
    assert_eq!((&vm["vm"], &vm["events"]), (&json!(4100), &json!(2)));
    // The first exit is 50 us after the recording's first moment at which anything of the VM was seen.
    let ns = |name: &str| vm[name].as_u64().unwrap();
    assert_eq!((ns("unknown_ns"), ns("inhibited_ns")), (399_950_000, 400_000_000));
    let eoi = &vm["exits"].as_array().unwrap()[0];
    let sums = |state: &str| (eoi[state]["count"].as_u64().unwrap(), eoi[state]["cost_ns"].as_u64().unwrap());
    assert_eq!(eoi["kind"], "eoi");
    assert_eq!([sums("inhibited"), sums("allowed"), sums("unknown")], [(400, 800_000), (0, 0), (0, 0)]);
    assert_eq!(
        (eoi["inhibited"]["rate_per_s"].as_f64(), eoi["allowed"]["rate_per_s"].as_f64()),
        (Some(1_000.0), Some(0.0))
    );
    let inhibit = &vm["inhibits"].as_array().unwrap()[0];
    assert_eq!(
        [
            &inhibit["number"],
            &inhibit["sets"],
            &inhibit["from_begin"],
            &inhibit["at_end"],
            &inhibit["first_set_in"]["vcpu"]
        ],
        [&json!(9), &json!(1), &json!(false), &json!(false), &json!(0)]
    );
    // Text of perf script has no kernel's release.
    assert_eq!((&inhibit["name"], &inhibit["set_by"]), (&Value::Null, &Value::Null));
    assert_eq!(inhibit["reason"], "reason 9 (PIT_REINJ, SEV or X2APIC)");
}

#[test]
fn the_view_says_how_long_why_and_which_exits_and_fits_the_terminal() {
    let folder = tempfile::tempdir().unwrap();
    let trace = perf_script(folder.path(), 400..800, &TOGGLED);
    for width in ["80", "100"] {
        let text = view(&trace, width);
        for words in [
            "inhibited for 400ms of",
            "not known for 400ms",
            "reason 9 (PIT_REINJ, SEV or X2APIC)",
            "10.4",
            "EOI",
            "1,000",
        ] {
            assert!(text.contains(words), "{words}: {text}");
        }
        let too_long = text.lines().find(|line| line.chars().count() > width.parse().unwrap());
        assert_eq!(too_long, None, "{text}");
    }
    let whole = stdout(&run(&["report", trace.to_str().unwrap(), "--all"]));
    assert!(whole.contains("--view interrupts"), "{whole}");
}

#[test]
fn a_reason_all_kernels_number_alike_is_named_and_one_in_force_before_is_marked() {
    let folder = tempfile::tempdir().unwrap();
    let trace = perf_script(folder.path(), 0..1_000, &[(500, "cleared reason=5, inhibits=0x2 HYPERV")]);
    let report = report(&[&trace], &[]);
    let inhibit = &vm_of(&report)["inhibits"].as_array().unwrap()[0];
    assert_eq!(
        [&inhibit["name"], &inhibit["sets"], &inhibit["from_begin"], &inhibit["at_end"]],
        [&json!("HYPERV"), &json!(0), &json!(true), &json!(true)]
    );
    let text = view(&trace, "120").split_whitespace().collect::<Vec<_>>().join(" ");
    for words in ["Hyper-V's AutoEOI", "*: already in force before", "no vCPU uses AutoEOI any more"] {
        assert!(text.contains(words), "{words}: {text}");
    }
}

#[test]
fn a_recording_without_the_event_says_so_and_how_to_record_it() {
    let folder = tempfile::tempdir().unwrap();
    let text = view(&perf_script(folder.path(), 0..1_000, &[]), "120");
    for words in [
        "No kvm_apicv_inhibit_changed",
        "is not known",
        "Record with `exitscope record",
        "from before a VM starts",
        "EOI",
    ] {
        assert!(text.contains(words), "{words}: {text}");
    }
    assert!(!text.contains("inhibited for"), "{text}");
    // A perf.data of kvm_exit and kvm_entry alone.
    let text = view(&corpus("x86-svm/t4-kvmstat.data.gz"), "120");
    assert!(text.contains("No kvm_apicv_inhibit_changed") && text.contains("Record with `exitscope"), "{text}");
    for other in ["arm64/arm.dat.gz", "powerpc/p8_smt4_cede_all.data.gz"] {
        let text = view(&corpus(other), "120");
        assert!(text.contains("only on x86") && !text.contains("Record with"), "{other}: {text}");
    }
}
