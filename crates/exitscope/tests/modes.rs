//! What holds exits, names or answers is its owner's alone, whatever the umask: as perf.data is. Who wants others to read it
//! says so, by chmod or by a shell's `>`.

mod common;

use common::{cannot_trace, corpus, exitscope, machine, root, run, stderr, stdout, tiny_guest};
use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::{Command, Output};

/// What writes a file named `out`, or below a folder of that name. INPUT is a recording, VMEXIT what kvm-unit-tests' vmexit
/// printed, SCENARIO a scenario, TRIAL what tries the knob of the tree `host`, and `run.data` a recording for which that knob is
/// advised.
const WRITERS: &[&[&str]] = &[
    &["report", "INPUT", "--html", "out"],
    &["report", "INPUT", "--bundle", "out"],
    &["diff", "INPUT", "INPUT", "--html", "out"],
    &["export", "INPUT", "--format", "folded", "--output", "out"],
    &["export", "INPUT", "--format", "openmetrics", "--output", "out"],
    &["export", "INPUT", "--format", "csv", "--output", "out"],
    &["export", "INPUT", "--format", "perfetto", "--output", "out"],
    &["advise", "run.data", "--apply", "--yes", "--root", "host", "--state", "out/deep/applied.json"],
    &["try", "TRIAL", "--state", "out/deep/applied.json"],
    &["try", "TRIAL", "--state", "state/applied.json", "--html", "out"],
    &["sim", "SCENARIO", "--trace", "out"],
    &["sim", "SCENARIO", "--set", "halt_poll_ns=0", "--set", "duration=50ms", "--predictions", "out"],
    &["advise", "run.data", "--predictions", "out"],
    &["lab", "import", "VMEXIT", "--html", "out"],
    &["sweep", "SCENARIO", "--vary", "halt_poll_ns=0,50us", "--replicates", "1", "--html", "out"],
    // With the feature `store`.
    &["store", "add", "out", "INPUT", "--host", "a"],
    &["try", "TRIAL", "--state", "state/applied.json", "--store", "out"],
    // With the feature `sql`; STORE is a store.
    &["sql", "STORE", "select * from exits", "--format", "csv", "--output", "out"],
    &["sql", "STORE", "select * from exits", "--format", "parquet", "--output", "out"],
    &["fleet", "report", "STORE", "--by", "host", "--html", "out"],
];

/// The same, on a machine where guests can be run and watched; GUEST is one. What one experiment of the lab writes, every one
/// does. `run.json` is one.
const LIVE_WRITERS: &[&[&str]] = &[
    &["record", "--output", "out", "--", "GUEST"],
    &["record", "--output", "perf.data", "--store", "out", "--", "GUEST"],
    &["lab", "pio", "--repeat", "2", "--duration", "2ms", "--trace", "out"],
    &["lab", "pio", "--repeat", "2", "--duration", "2ms", "--html", "out"],
    &["lab", "guests", "ping-pong", "--root", "out", "--for", "200ms"],
    &["lab", "show", "run.json", "--html", "out"],
];

/// Flags that name what is read, whatever the command.
const READ: &[&str] = &[
    "after",
    "against",
    "before",
    "check",
    "cluster-token-file",
    "devices",
    "guestkallsyms",
    "hidden",
    "input",
    "metric-file",
    "tls-cert",
    "tls-key",
    "token-file",
];

/// Flags of one command without a row above.
const NO_ROW: &[(&str, &str)] = &[
    // It goes where --trace goes, but not on the back ends that emulate.
    ("lab", "costs"),
    // The kernel's own files of settings.
    ("advise", "root"),
    ("try", "root"),
    // Simulating all cells takes a minute; the file is written as that of --trace is.
    ("validate", "lab"),
    // A folder: what goes into it is written by `record`.
    ("diff", "into"),
    // The store is read.
    ("serve", "store"),
    // tests/cluster.rs: it takes a cluster.
    ("cluster", "work"),
    // tests/exporter.rs: it is there to be read by another user.
    ("exporter", "textfile"),
];

/// Paths that commands take without a flag. `dir`, a store, has a row; `directory` is that of manual pages, which are for
/// everybody; all others are read.
const POSITIONAL: [&str; 8] = ["a", "b", "dir", "directory", "file", "files", "run", "scenario"];

/// Fails if others than its owner may do anything with it, or with what is in it.
fn is_private(path: &Path, what: &[&str]) {
    let about = path.symlink_metadata().unwrap();
    if about.is_symlink() {
        return;
    }
    let wanted = if about.is_dir() { 0o700 } else { 0o600 };
    assert_eq!(about.mode() & 0o777, wanted, "{what:?}: {}", path.display());
    if about.is_dir() {
        path.read_dir().unwrap().for_each(|entry| is_private(&entry.unwrap().path(), what));
    }
}

/// The scenario of which longer halt polling is advised.
fn scenario() -> String {
    root().join("scenarios/ping-pong.toml").to_str().unwrap().to_string()
}

/// A tree like a host's, with one knob, and a recording of it.
fn prepare(folder: &Path) {
    for (path, text) in [
        ("proc/sys/kernel/hostname", "simulated\n"),
        ("proc/sys/kernel/osrelease", "6.12.0\n"),
        ("proc/sys/kernel/random/boot_id", "first-boot\n"),
        ("sys/module/kvm/parameters/halt_poll_ns", "777\n"),
    ] {
        let path = folder.join("host").join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    let mut sim = exitscope();
    sim.args(["sim", &scenario(), "--trace", "run.data"]);
    for set in ["vm.pair.cpuidle_haltpoll=false", "halt_poll_ns=0", "costs.wake_latency=20us"] {
        sim.args(["--set", set]);
    }
    done(sim.current_dir(folder).output().unwrap(), &["sim"]);
}

fn done(output: Output, what: &[&str]) -> Output {
    assert!(output.status.success(), "{what:?}: {}{}", stdout(&output), stderr(&output));
    output
}

/// What a word of a row stands for.
fn words(word: &str) -> Vec<String> {
    let metric = "[ $(cat host/sys/module/kvm/parameters/halt_poll_ns) = 0 ] && echo 8 || echo 10";
    match word {
        "INPUT" => vec![corpus("x86-svm/t2.data.gz").to_str().unwrap().to_string()],
        "SCENARIO" => vec![scenario()],
        "VMEXIT" => vec![root().join("crates/trace/tests/fixtures/counts/vmexit.txt").to_str().unwrap().to_string()],
        "GUEST" => vec![tiny_guest().to_str().unwrap().to_string()],
        "STORE" => vec!["fleet".to_string()],
        "TRIAL" => ["halt_poll_ns=0", "--root", "host", "--no-count", "--yes", "--metric", metric, "--better", "lower"]
            .into_iter()
            .chain(["--turn", "30ms", "--settle", "1ms", "--for", "60s", "--seed", "7"])
            .map(str::to_string)
            .collect(),
        word => vec![word.to_string()],
    }
}

/// Whether this build has what a row needs: pages, stores, SQL.
fn can_write(writer: &[&str]) -> bool {
    let needs_sql = writer.contains(&"STORE");
    let needs_store = needs_sql || writer[0] == "store" || writer.contains(&"--store");
    (exitscope_page::is_built() || !writer.contains(&"--html"))
        && (cfg!(feature = "store") || !needs_store)
        && (cfg!(feature = "sql") || !needs_sql)
}

/// Runs a row in a folder, with an umask that leaves all rights.
fn write(writer: &[&str], folder: &Path) -> Output {
    let mut shell = Command::new("sh");
    shell.args(["-c", "umask 0; exec \"$@\"", "sh"]).arg(exitscope().get_program());
    shell.args(writer.iter().flat_map(|word| words(word))).current_dir(folder).output().unwrap()
}

#[test]
fn whatever_the_umask_what_is_written_is_its_owners_alone() {
    for &writer in WRITERS {
        if !can_write(writer) {
            continue;
        }
        let folder = tempfile::tempdir().unwrap();
        if writer.contains(&"TRIAL") || writer.contains(&"run.data") {
            prepare(folder.path());
        }
        if writer.contains(&"STORE") {
            for (host, trace) in [("a", "x86-svm/t2.data.gz"), ("b", "x86-svm/t4-kvmstat.data.gz")] {
                let trace = corpus(trace);
                let add = ["store", "add", "fleet", trace.to_str().unwrap(), "--host", host];
                done(exitscope().args(add).current_dir(folder.path()).output().unwrap(), &add);
            }
        }
        done(write(writer, folder.path()), writer);
        is_private(&folder.path().join("out"), writer);
    }
}

#[test]
fn what_recorders_and_the_lab_write_is_their_owners_alone() {
    let _machine = machine();
    for &writer in LIVE_WRITERS {
        if !can_write(writer) {
            continue;
        }
        let folder = tempfile::tempdir().unwrap();
        if writer.contains(&"run.json") {
            let lab =
                exitscope().args(["lab", "pio", "--repeat", "2", "--duration", "2ms", "--format", "json"]).output();
            fs::write(folder.path().join("run.json"), lab.unwrap().stdout).unwrap();
        }
        let output = write(writer, folder.path());
        if !output.status.success() {
            let _skipped = cannot_trace(format!("{writer:?}: {}", stderr(&output)));
            continue;
        }
        is_private(&folder.path().join("out"), writer);
    }
}

#[test]
fn each_flag_that_names_a_file_is_read_or_has_a_row() {
    let completions = stdout(&run(&["completions", "fish"]));
    let rows: Vec<&&[&str]> = [WRITERS, LIVE_WRITERS].into_iter().flatten().collect();
    let mut found = BTreeSet::new();
    for line in completions.lines().filter(|line| line.ends_with(" -r -F")) {
        let (_, rest) = line.split_once("__fish_exitscope_using_subcommand ").unwrap();
        let command = rest.split([' ', ';', '"']).next().unwrap();
        let flag = line.split_once(" -l ").unwrap().1.split(' ').next().unwrap();
        // The name that `perf kvm` has for it.
        let command = if command == "stat" { "report" } else { command };
        found.insert((command, flag));
        let long = format!("--{flag}");
        let has_row = rows.iter().any(|row| row[0] == command && row.contains(&long.as_str()));
        let is_known = READ.contains(&flag) || NO_ROW.contains(&(command, flag)) || has_row;
        assert!(is_known, "{command} --{flag} writes a file, and has no row in WRITERS; or it reads one");
    }
    // The list is that of the flags there are.
    for (command, flag) in [("report", "html"), ("record", "output"), ("cluster", "work"), ("lab", "costs")] {
        assert!(found.contains(&(command, flag)), "{command} --{flag}: {found:?}");
    }
    for known in NO_ROW {
        assert!(found.contains(known), "{known:?} is no flag any more");
    }
    let completions = stdout(&run(&["completions", "zsh"]));
    let positional = completions.lines().filter(|line| line.contains(":_files'"));
    let positional = positional.filter_map(|line| line.trim().trim_start_matches(['\'', '*', ':']).split_once(" -- "));
    let positional: BTreeSet<&str> = positional.map(|(name, _)| name).filter(|name| !name.contains('=')).collect();
    assert_eq!(positional, POSITIONAL.into_iter().collect::<BTreeSet<_>>(), "paths without a flag");
}
