//! What may be recorded without being root: by each set of capabilities what SECURITY.md says, tried.

mod common;

use common::{Beside, report, tiny_guest};
use exitscope_record::{CAPABILITIES, Without};
use exitscope_skips::{Part, Skipped, need, or_skip};
use std::path::Path;
use std::process::{Command, Output, Stdio};

/// Runs it as nobody, with these capabilities and no others.
fn as_nobody(program: &Path, capabilities: &[&str], arguments: &[&str]) -> Output {
    as_nobody_under(&mut Command::new("setpriv"), program, capabilities, arguments)
}

fn as_nobody_under(setpriv: &mut Command, program: &Path, capabilities: &[&str], arguments: &[&str]) -> Output {
    let set = capabilities.iter().map(|name| format!(",+{}", name.trim_start_matches("cap_")));
    let set = format!("-all{}", set.collect::<String>());
    setpriv.args(["--reuid=65534", "--regid=65534", "--clear-groups"]);
    setpriv.args(["inh-caps", "ambient-caps", "bounding-set"].map(|kind| format!("--{kind}={set}")));
    setpriv.arg(program).args(arguments).current_dir(program.parent().unwrap()).output().unwrap()
}

fn may_drop() -> Result<(), Skipped> {
    need(rustix::process::geteuid().is_root(), Part::Root, "not root: nobody else can be given capabilities")
}

#[test]
fn each_capability_allows_what_it_is_said_to() {
    or_skip!(may_drop());
    let machine = common::machine();
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    // The build's folder may be one that only root may enter.
    let program = at("exitscope");
    std::fs::copy(env!("CARGO_BIN_EXE_exitscope"), &program).unwrap();
    assert!(Command::new("chown").arg("65534").arg(folder.path()).status().unwrap().success());
    let guest = Command::new(tiny_guest()).args(["--repeat", "1000000"]).stdout(Stdio::null()).spawn().unwrap();
    let guest = Beside(vec![guest]);
    let names = |leave: &[Without]| -> Vec<&str> {
        CAPABILITIES.iter().filter(|of| !leave.contains(&of.without)).map(|of| of.name).collect()
    };
    let paranoid = std::fs::read_to_string("/proc/sys/kernel/perf_event_paranoid").unwrap();
    let mut tried = Vec::new();
    for (held, route) in [
        (names(&[Without::Less]), Some("bpf")),
        (names(&[Without::Less, Without::Dearer]), Some("perf_events")),
        (names(&[Without::Nothing, Without::Less]), None),
        (vec![], None),
    ] {
        let data = at(&format!("{}.data", held.len()));
        let recorded = as_nobody(&program, &held, &["record", "--for", "300ms", "-o", data.to_str().unwrap()]);
        let found = data.exists().then(|| report(&[&data], &["-f"]));
        let doctor = as_nobody(&program, &held, &["doctor", "--format", "json"]);
        let doctor: serde_json::Value = serde_json::from_slice(&doctor.stdout).unwrap();
        tried.push((held, route, recorded, found, doctor));
    }
    // Nobody's RLIMIT_MEMLOCK is that of this process, and at most that much more than perf_event_mlock_kb.
    let perf_events = names(&[Without::Less, Without::Dearer]);
    let limited = ["--memlock=65536:65536", "--", "setpriv"];
    let buffers = as_nobody_under(
        Command::new("prlimit").args(limited),
        &program,
        &perf_events,
        &["record", "--for", "100ms", "-o", "large.data", "--buffer", "64M"],
    );
    drop((guest, machine));
    assert!(common::stderr(&buffers).contains("may not be locked: a smaller --buffer"), "{buffers:?}");
    for (held, route, recorded, found, doctor) in tried {
        let said = common::stderr(&recorded);
        let setting = |report: &serde_json::Value| {
            let rows = report["traces"][0]["settings"].as_array().unwrap().clone();
            let row = rows.into_iter().find(|row| row["name"] == "tracing_backend");
            row.map(|row| row["value"].as_str().unwrap().to_string())
        };
        match route {
            Some(route) => {
                let found = found.unwrap_or_else(|| panic!("{held:?}: {said}"));
                assert!(found["total"]["count"].as_u64().unwrap() > 0, "{held:?}: {said}");
                assert_eq!(setting(&found).as_deref(), Some(route), "{held:?}: {said}");
            }
            None if paranoid.trim() == "-1" => {}
            None => {
                assert_eq!(recorded.status.code(), Some(2), "{held:?}: {said}");
                assert!(found.is_none(), "{held:?}: a recording that never began left a file");
            }
        }
        let checks = doctor["checks"].as_array().unwrap();
        let state = |of: &str| {
            let row = checks.iter().find(|row| row["area"] == "Capabilities" && row["what"] == of).unwrap();
            row["state"].as_str().unwrap().to_string()
        };
        for of in &CAPABILITIES {
            assert_eq!(state(of.name) == "good", held.contains(&of.name), "{held:?} {}", of.name);
        }
    }
}

#[test]
fn security_md_has_a_row_for_each() {
    let text = std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../SECURITY.md")).unwrap();
    for of in &CAPABILITIES {
        assert!(text.contains(&format!("| {} |", of.name.to_uppercase())), "{}", of.name);
    }
    let given = exitscope_record::Capability::remedy();
    let setcap = given.split('`').nth(1).unwrap();
    assert!(text.contains(&format!("sudo {setcap} /usr/bin/exitscope")), "{setcap}");
}
