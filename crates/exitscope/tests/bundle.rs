//! A bundle tells the same of exits as the recording that it is of, and nothing of whose they are.

mod common;

use common::{corpus, report, run, stderr, stdout, unpacked};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// Makes a bundle of a recording.
fn bundle(of: &Path) -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let to = folder.path().join("bundle.data");
    let made = run(&["report", of.to_str().unwrap(), "--bundle", to.to_str().unwrap()]);
    assert!(made.status.success(), "{}", stderr(&made));
    (folder, to)
}

/// What a report says of each reason: how many exits, of which length, what they cost.
fn of_reasons(report: &Value) -> BTreeMap<String, Value> {
    let of = |row: &Value| {
        let told = [
            "count",
            "timed",
            "exit_time_ns",
            "cost_ns",
            "kernel_ns",
            "user_space_ns",
            "polling_ns",
            "p99_ns",
            "max_ns",
        ];
        let told: Vec<Value> = told.iter().map(|name| row[name].clone()).collect();
        (row["reason"].as_str().unwrap().to_string(), Value::from(told))
    };
    report["rows"].as_array().unwrap().iter().map(of).collect()
}

/// What `events` prints, line by line.
fn events(of: &Path) -> Vec<Value> {
    let printed = stdout(&run(&["events", of.to_str().unwrap(), "--format", "json"]));
    printed.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

const RECORDINGS: [&str; 6] = [
    "x86-svm/t2.data.gz",
    "x86-svm/t4-v6.dat.gz",
    "x86-svm/t4-ftrace.txt.gz",
    "arm64/arm.dat.gz",
    "powerpc/p8_smt4_two_vms.data.gz",
    "lab/contended.data.gz",
];

#[test]
fn exits_their_lengths_and_what_was_lost_are_those_of_the_recording() {
    for name in RECORDINGS {
        let of = corpus(name);
        let (_folder, made) = bundle(&of);
        let (was, is) = (report(&[&of], &[]), report(&[&made], &[]));
        assert!(of_reasons(&was).len() > 1, "{name}");
        assert_eq!(of_reasons(&is), of_reasons(&was), "{name}");
        let lost = |report: &Value| report["coverage"]["lost"].clone();
        assert_eq!(lost(&is), lost(&was), "{name}");
    }
}

#[test]
fn no_number_of_a_process_no_address_and_no_value_of_the_recording_is_in_it() {
    for name in &RECORDINGS[2..] {
        let of = corpus(name);
        let (_folder, made) = bundle(&of);
        let (was, is) = (events(&of), events(&made));
        let kinds = |events: &[Value]| {
            let mut kinds: BTreeMap<String, u64> = BTreeMap::new();
            events.iter().for_each(|event| *kinds.entry(event["event"].to_string()).or_default() += 1);
            // A loss of which no event said when is one in the bundle.
            kinds.remove("\"\"");
            kinds
        };
        assert_eq!(kinds(&is), kinds(&was), "{name}");
        for (fields, step) in [(&["tid", "vm", "prev", "next", "woken"][..], 1), (&["rip"], 16)] {
            let values = |events: &[Value]| -> BTreeSet<u64> {
                fields.iter().flat_map(|field| events.iter().filter_map(|event| event[*field].as_u64())).collect()
            };
            let (was, is) = (values(&was), values(&is));
            assert_eq!(is.len(), was.len(), "{name}, {fields:?}: as many");
            assert!(is.last() <= Some(&(was.len() as u64 * step)), "{name}: {is:?}");
        }
    }
}

#[test]
fn names_of_hosts_threads_and_probes_are_not_in_it() {
    let text = "# tracer: nop\n#\n\
         alices-db-7001  [000] d..1.    10.000000: kvm_entry: vcpu 0, rip 0xffffffff81234560\n\
         alices-db-7001  [000] d..1.    10.000100: kvm_exit: reason IO_INSTRUCTION rip 0xffffffff81234567 info 3f80008 0\n\
         alices-db-7001  [000] d..1.    10.000110: kvm_pio: pio_write at 0x3f8 size 1 count 1 val 0x41\n\
         alices-db-7001  [000] d..1.    10.000120: alices_probe: (ffffffff81234567) secret=0x4711\n\
         alices-db-7001  [000] d..1.    10.000200: kvm_entry: vcpu 0, rip 0xffffffff81234569\n";
    let folder = tempfile::tempdir().unwrap();
    let of = folder.path().join("trace.txt");
    std::fs::write(&of, text).unwrap();
    let (_made, to) = bundle(&of);
    let (was, is) = (report(&[&of], &[]), report(&[&to], &[]));
    assert_eq!(of_reasons(&is), of_reasons(&was));
    let printed = format!(
        "{}{}{is}",
        stdout(&run(&["events", to.to_str().unwrap()])),
        stdout(&run(&["events", to.to_str().unwrap(), "--format", "json"]))
    );
    for secret in ["alice", "7001", "8123456", "0x41", "4711", "secret"] {
        assert!(!printed.contains(secret), "{secret}: {printed}");
    }
    assert!(printed.contains("0x3f8"), "{printed}");
}

#[test]
fn exits_of_every_back_end_of_powerpc_are_in_its_bundle() {
    let folder = tempfile::tempdir().unwrap();
    for (name, exit) in [
        ("kvm_pr:kvm_exit", "exit=DECREMENTER | pc=0x1000 | msr=0x2 | dar=0x0 | srr1=0x0 | last_inst=0x0"),
        ("kvm_booke:kvm_exit", "exit=DECREMENTER | pc=0x1000 | msr=0x2 | dar=0x0 | last_inst=0x0"),
    ] {
        let text = |at: u32, event: &str| format!("qemu-system-ppc 4242/4243 [001] 100.{at:06}: {event}\n");
        let lines = (0..9).map(|number| {
            let entry = text(10 * number + 5, "kvm:kvm_entry: pc=0x1000 msr=0x2");
            let entry = if name.starts_with("kvm_pr") {
                text(10 * number + 5, "kvm_pr:kvm_book3s_reenter: reentry r=1 | pc=0x1000")
            } else {
                entry
            };
            text(10 * number, &format!("{name}: {exit}")) + &entry
        });
        let of = folder.path().join("perf.txt");
        std::fs::write(&of, lines.collect::<String>()).unwrap();
        let (_folder, made) = bundle(&of);
        let (was, is) = (report(&[&of], &[]), report(&[&made], &[]));
        assert_eq!(was["coverage"]["exits"], 9, "{was}");
        assert_eq!(of_reasons(&was), of_reasons(&is), "{name}");
    }
}

#[test]
fn a_recording_that_is_cut_gives_a_bundle_that_says_so() {
    let mut bytes = unpacked("x86-svm/t2.data.gz");
    bytes.truncate(bytes.len() / 2);
    let folder = tempfile::tempdir().unwrap();
    let cut = folder.path().join("cut.data");
    std::fs::write(&cut, bytes).unwrap();
    let (_folder, made) = bundle(&cut);
    let said = stdout(&run(&["report", made.to_str().unwrap(), "--all"]));
    assert!(said.contains("Files that their recorder did not finish"), "{said}");
}

#[test]
fn what_cannot_be_bundled_is_refused_and_nothing_is_written() {
    let (t2, p8) = (corpus("x86-svm/t2.data.gz"), corpus("powerpc/p8_smt4_two_vms.data.gz"));
    let xen = corpus("xen/pvh1_hvm.xentrace.gz");
    let [t2, p8, xen] = [&t2, &p8, &xen].map(|path| path.to_str().unwrap());
    let folder = tempfile::tempdir().unwrap();
    let to = folder.path().join("bundle.data");
    let to = to.to_str().unwrap();
    for (arguments, why) in [
        (&[t2, p8, "--bundle", to][..], "one recording, and 2 are named"),
        (&["/dev/null", "--bundle", to], "is not a regular file"),
        (&[xen, "--tsc-hz", "2596120000", "--bundle", to], "a Xen log cannot be bundled"),
        (&[t2, "--vcpu", "0", "--bundle", to], "cannot be used with"),
        (&[t2, "--bundle", t2], "is the file that is read"),
        (&["/nowhere", "--bundle", to], "/nowhere"),
    ] {
        let refused = run(&[&["report"], arguments].concat());
        assert_eq!(refused.status.code(), Some(2), "{arguments:?}");
        assert!(stderr(&refused).contains(why), "{arguments:?}: {}", stderr(&refused));
    }
    assert!(!Path::new(to).exists());
}
