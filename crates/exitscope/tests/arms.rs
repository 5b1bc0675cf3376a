//! Two arms, one body: a scenario in the simulator and on real guests. Counts that do not depend on time are the same.

mod common;

use common::{exitscope, kvm, stderr};
use std::collections::BTreeMap;
use std::io::Write;

/// Ways to run a scenario.
const ARMS: [&[&str]; 2] = [&["sim"], &["lab", "run"]];

/// Runs a scenario on an arm: exits by VM and reason, and the work done by VM.
fn run(arm: &[&str], scenario: &str) -> (BTreeMap<(String, String), u64>, BTreeMap<String, u64>) {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(scenario.as_bytes()).unwrap();
    let output = exitscope().args(arm).arg(file.path()).args(["--format", "json"]).output().unwrap();
    assert!(output.status.success(), "{arm:?}: {}", stderr(&output));
    let found: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let text = |value: &serde_json::Value| value.as_str().unwrap().to_string();
    let mut exits = BTreeMap::new();
    let mut done = BTreeMap::new();
    if arm == ["sim"] {
        for vm in found["vms"].as_array().unwrap() {
            done.insert(text(&vm["name"]), vm["done"].as_u64().unwrap());
            for row in vm["reasons"].as_array().unwrap() {
                exits.insert((text(&vm["name"]), text(&row["reason"])), row["count"].as_u64().unwrap());
            }
        }
    } else {
        for table in found["tables"].as_array().unwrap() {
            for row in table["rows"].as_array().unwrap() {
                let figure = |name: &str| {
                    let figures = row["figures"].as_array().unwrap();
                    figures
                        .iter()
                        .find(|figure| figure["name"] == name)
                        .map(|figure| figure["value"].as_f64().unwrap() as u64)
                };
                let (first, second) = (text(&row["labels"][0]), text(&row["labels"][1]));
                if let Some(count) = figure("by the guest") {
                    // What came out to user space is what the guest did, where nothing else answers.
                    let in_kernel = ["hypercall", "CPUID"].contains(&second.as_str());
                    assert!(in_kernel || figure("to user space").unwrap() >= count, "{row}");
                    exits.insert((first, second), count);
                } else if second == "VM" {
                    done.insert(first, figure("done").unwrap());
                }
            }
        }
    }
    (exits, done)
}

const PRIMES: &str = r#"
name = "primes"
warmup = "0s"
duration = "2s"

[host]
cores = 2

[[vm]]
name = "guest"
copies = 2
vcpus = 2
locks = ["one", "two"]

[[vm.program]]
vcpus = [0]
steps = [
    { repeat = 23, steps = [{ port_in = 0x70 }] },
    { repeat = 17, steps = [{ port_out = 0x80, size = 2 }] },
    { repeat = 13, steps = [{ mmio_write = 0xfeb00000, size = 4, value = 7 }] },
    { repeat = 11, steps = ["cpuid"] },
    { repeat = 7, steps = [{ hypercall = 100 }] },
    { repeat = 5, steps = [{ sleep = "100us" }, "count"] },
    { repeat = 29, steps = [{ lock = "one" }, { compute = "2us" }, { unlock = "one" }] },
]

[[vm.program]]
vcpus = [1]
steps = [
    { repeat = 19, steps = [{ mmio_read = 0xfeb00010, size = 8 }, "count"] },
    { repeat = 3, steps = [{ sleep = "50us" }] },
    { repeat = 31, steps = [{ lock = "two" }, { compute = "1us" }, { unlock = "two" }] },
]
"#;

#[test]
fn prime_numbers_of_exits_are_the_same_on_both_arms() {
    let arms = if kvm().is_ok() { &ARMS[..] } else { &ARMS[..1] };
    for arm in arms {
        let (exits, done) = run(arm, PRIMES);
        let count = |reason: &str| exits.get(&("guest".to_string(), reason.to_string())).copied().unwrap_or(0);
        assert_eq!(count("port access"), 2 * (23 + 17), "{arm:?}");
        assert_eq!(count("MMIO access"), 2 * (13 + 19), "{arm:?}");
        assert_eq!(count("CPUID"), 2 * 11, "{arm:?}");
        assert_eq!(count("hypercall"), 2 * 7, "{arm:?}");
        // At the end of its program, each of the two vCPUs halts for good; real ones tell the lab instead.
        assert_eq!(count("halt") + count("end of program"), 2 * (5 + 3 + 2), "{arm:?}");
        assert!(*arm == ["sim"] || count("end of program") == 2 * 2, "{arm:?}");
        assert_eq!(done["guest"], 2 * (5 + 19), "{arm:?}");
    }
}

/// How often each of them takes it: for so long that both run at a time, on a busy machine, too.
const TURNS: u64 = 2_111;

/// Two vCPUs that want one lock most of the time.
fn contended(spin_retry: u32) -> String {
    format!(
        r#"
name = "contended"
warmup = "0s"
duration = "10s"

[host]
arch = "s390"
cores = 2

[policies]
spin_generation = "L2"
spin_retry = {spin_retry}

[[vm]]
name = "guest"
vcpus = 2
locks = ["one"]
spin = {{ diag44 = true, diag9c = true }}

[[vm.program]]
steps = [{{ repeat = {TURNS}, steps = [{{ lock = "one" }}, {{ compute = "30us" }}, {{ unlock = "one" }}, {{ compute = "1us" }}, "count"] }}]
"#
    )
}

#[test]
fn a_guest_that_never_stops_spinning_never_yields_and_one_that_does_not_spin_does() {
    let arms = if kvm().is_ok() { &ARMS[..] } else { &ARMS[..1] };
    for arm in arms {
        let yields = |spin_retry| {
            let (exits, done) = run(arm, &contended(spin_retry));
            assert_eq!(done["guest"], 2 * TURNS, "{arm:?}");
            let yields = exits.iter().filter(|((_, reason), _)| reason.starts_with("diagnose"));
            yields.map(|(_, count)| count).sum::<u64>()
        };
        assert_eq!(yields(i32::MAX as u32), 0, "{arm:?}");
        assert!(yields(0) > 0, "{arm:?}");
    }
}
