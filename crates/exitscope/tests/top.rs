//! `exitscope top` on real guests: its figures, and its screen in a real terminal (tmux).

mod common;

use common::{PATIENCE, Terminal, cannot_trace, kvm, machine, tiny_guest};
use exitscope_skips::{Skipped, or_skip};
use serde_json::Value;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Guests can be watched here.
fn watch() -> Result<(), Skipped> {
    kvm()?;
    let tried = common::run(&["top", "--format", "json", "-d", "100ms", "-n", "1"]);
    if tried.status.success() { Ok(()) } else { Err(cannot_trace(common::stderr(&tried))) }
}

/// A guest that ends with this value at the latest.
struct Guest(Child);

impl Drop for Guest {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn guest(repeat: u64) -> Guest {
    let mut command = Command::new(tiny_guest());
    Guest(command.args(["--repeat", &repeat.to_string()]).stdout(Stdio::null()).spawn().unwrap())
}

/// A guest that runs for long, and has its virtual machine by now: before that `-p` refuses its process.
fn running_guest() -> Guest {
    let guest = guest(1_000_000);
    let folder = format!("/proc/{}/fd", guest.0.id());
    let is_machine = |file: std::fs::DirEntry| {
        std::fs::read_link(file.path()).is_ok_and(|target| target.to_string_lossy().starts_with("anon_inode:kvm-vm"))
    };
    let began = Instant::now();
    while !std::fs::read_dir(&folder).unwrap().flatten().any(is_machine) {
        assert!(began.elapsed() < PATIENCE, "the guest does not come");
        sleep(Duration::from_millis(5));
    }
    guest
}

/// The lines of `top --format json` while these guests run, until it has said that all have ended.
fn lines(flags: &[&str], repeats: &[u64]) -> (Vec<u32>, Vec<Value>) {
    let mut top = common::exitscope();
    top.args(["top", "--format", "json", "-d", "200ms"]).args(flags).stdout(Stdio::piped());
    let mut top = top.spawn().unwrap();
    let mut said = BufReader::new(top.stdout.take().unwrap()).lines();
    let mut lines = vec![serde_json::from_str(&said.next().unwrap().unwrap()).unwrap()];
    let mut guests: Vec<Guest> = repeats.iter().map(|&repeat| guest(repeat)).collect();
    assert!(guests.iter_mut().all(|guest| guest.0.wait().unwrap().success()));
    let pids: Vec<u32> = guests.iter().map(|guest| guest.0.id()).collect();
    let mut left = pids.clone();
    while !left.is_empty() {
        let line: Value = serde_json::from_str(&said.next().unwrap().unwrap()).unwrap();
        let ended = line["vms"].as_array().unwrap().iter().filter(|vm| vm["ended"] == true);
        ended.for_each(|vm| left.retain(|&pid| vm["pid"] != pid));
        lines.push(line);
    }
    assert!(Command::new("kill").args(["-INT", &top.id().to_string()]).status().unwrap().success());
    drop(said);
    top.wait().unwrap();
    (pids, lines)
}

#[test]
fn counts_of_guests_are_exact_to_their_end() {
    let _machine = machine();
    or_skip!(watch());
    for flags in [&[][..], &["--no-bpf"]] {
        let (pids, lines) = lines(flags, &[100, 200]);
        for (pid, repeat) in pids.into_iter().zip([100, 200]) {
            // Each line is of its interval.
            let rows = || lines.iter().flat_map(|line| line["vms"].as_array().unwrap()).filter(|vm| vm["pid"] == pid);
            assert_eq!(rows().filter(|vm| vm["ended"] == true).count(), 1, "{flags:?}");
            // Where the end of a guest is seen late, it has no time in the last.
            for figures in rows().map(|vm| &vm["figures"]).filter(|figures| figures["vcpu_seconds"] != 0.0) {
                let share = |part: &str| figures[part].as_f64().unwrap();
                let all = ["cost", "polling", "halted", "halt_not_divided", "steal", "stopped", "unknown", "guest"];
                let sum: f64 = all.map(share).iter().sum();
                assert!((0.95..1.05).contains(&sum), "{flags:?}: the parts of an interval are all of it: {figures}");
            }
            let count = |kind: &str, name: &str| {
                let rows = rows().flat_map(|vm| vm["figures"]["subjects"].as_array().unwrap());
                rows.filter(|row| row["kind"] == kind && row["name"] == name)
                    .map(|row| row["count"].as_u64().unwrap())
                    .sum::<u64>()
            };
            assert_eq!(count("port", "0x10 out"), 23 * repeat, "{flags:?}");
            assert_eq!(count("port", "0x11 in"), 17 * repeat, "{flags:?}");
            assert_eq!(count("mmio", "0x8000 write"), 13 * repeat, "{flags:?}");
        }
        assert!(lines.iter().all(|line| line["lost"] == 0));
        common::check_json("top", [lines.last().unwrap()]);
    }
}

#[test]
fn a_page_for_each_interval_says_what_it_is_of() {
    let _machine = machine();
    or_skip!(watch());
    let guest = running_guest();
    let pid = guest.0.id().to_string();
    let output = common::run(&["top", "--batch", "-d", "300ms", "-n", "2", "-p", &pid]);
    drop(guest);
    let page = common::stdout(&output);
    assert_eq!(page.matches("exitscope top: 1 VM, 1 vCPU").count(), 2, "{page}");
    for word in ["tiny-guest", "port 0x10 out", "mmio 0x8000 write", &pid] {
        let hardware =
            word.starts_with("KVM_EXIT") && std::path::Path::new("/sys/module/kvm").join("../kvm_intel").exists();
        assert!(hardware || page.contains(word), "{word} is not in\n{page}");
    }
}

#[test]
fn columns_of_text_are_those_that_were_asked_for_and_parts_add_up_to_all() {
    let _machine = machine();
    or_skip!(watch());
    let guest = running_guest();
    let pid = guest.0.id().to_string();
    let table = |flags: &[&str]| {
        let mut command = common::exitscope();
        command.args(["top", "--batch", "-d", "300ms", "-n", "2", "-p", &pid]).args(flags).env("COLUMNS", "200");
        let page = common::stdout(&command.output().unwrap());
        let mut lines = page.lines().skip_while(|line| !line.trim_start().starts_with("VM ")).map(str::to_string);
        let header = lines.next().unwrap_or_else(|| panic!("no table in\n{page}"));
        (header, lines.next().unwrap(), page)
    };
    // The last interval's first row is the VM's.
    let (header, row, page) = table(&["--columns", "steal,exits,cost"]);
    assert_eq!(header.split_whitespace().collect::<Vec<_>>(), ["VM", "steal", "exits/s", "cost"], "{page}");
    assert_eq!(row.split_whitespace().count(), 4, "{page}");
    let all = "cost,guest,polling,halted,undivided,memory,steal,stopped,unknown";
    let (_, row, page) = table(&["--columns", all]);
    let shares: Vec<f64> = row.split_whitespace().skip(1).map(share_of).collect();
    assert_eq!(shares.len(), 9, "{page}");
    assert!((99.0..101.0).contains(&shares.iter().sum::<f64>()), "{page}");
    // What is left out by default is nothing.
    let (header, row, page) = table(&[]);
    let titles = ["cost", "guest", "polling", "halted", "steal", "stopped", "unknown"];
    let shown: Vec<&str> = titles.into_iter().filter(|title| header.contains(title)).collect();
    let shares = row.split_whitespace().filter(|word| word.ends_with('%')).take(shown.len()).map(share_of);
    assert!(shown.contains(&"cost") && (99.0..101.0).contains(&shares.sum::<f64>()), "{page}");
    assert!(page.contains("vCPU time") || page.contains("Doubtful"), "{page}");
}

/// Of `<0.1%` and of `-` nothing.
fn share_of(word: &str) -> f64 {
    word.trim_end_matches('%').parse().unwrap_or(0.0)
}

#[test]
fn what_was_not_measured_is_said_to_be_so() {
    let _machine = machine();
    or_skip!(watch());
    let guest = running_guest();
    let pid = guest.0.id().to_string();
    let top = |flags: &[&str]| {
        let output =
            common::run(&[&["top", "--batch", "-d", "300ms", "-n", "2", "--no-bpf", "-p", &pid], flags].concat());
        common::stdout(&output)
    };
    let page = top(&[]);
    assert_eq!(page.matches("Cost of watching: cost per event not measured; exitscope: ").count(), 2, "{page}");
    for line in top(&["--format", "json"]).lines() {
        let line: Value = serde_json::from_str(line).unwrap();
        assert!(line["overhead"]["events_per_s"].as_f64().unwrap() > 0.0, "{line}");
        assert!(line["overhead"]["ns_per_event"].is_null() && line["overhead"]["vcpu_share"].is_null(), "{line}");
    }
}

#[test]
fn what_is_no_virtual_machine_is_refused_with_those_that_are() {
    let _machine = machine();
    or_skip!(watch());
    let guest = running_guest();
    let there = format!("tiny-guest (pid {})", guest.0.id());
    // Process 1 is no machine, and neither are this test and its threads.
    let own = std::process::id().to_string();
    let thread = std::fs::read_link("/proc/thread-self").unwrap();
    let thread = thread.file_name().unwrap().to_str().unwrap();
    let none = |pid: &str| format!("no virtual machine of KVM runs in process {pid}; there are: ");
    // Where process 1 may not be looked into, debugfs tells of its machines.
    let can_tell = std::fs::read_link("/proc/1/fd/0").is_ok() || Path::new("/sys/kernel/debug/kvm").exists();
    let mut cases =
        vec![(own.as_str(), none(&own)), (thread, format!("{thread} is a thread of process {own}: name that"))];
    cases.extend(can_tell.then(|| ("1", none("1"))));
    for (pid, said) in cases {
        let output = common::run(&["top", "--batch", "-n", "1", "-p", pid]);
        assert_eq!(output.status.code(), Some(2), "-p {pid}");
        let error = common::stderr(&output);
        assert!(error.contains(&said) && (!said.ends_with(": ") || error.contains(&there)), "{error}");
    }
}

#[test]
fn what_cannot_be_done_is_one_line_that_says_what_to_do() {
    let own = std::process::id().to_string();
    for (arguments, said) in [
        (&["top", "-n", "1"][..], "this is not a terminal: use --batch"),
        (&["top", "--batch", "--vm", "no such machine"], "no virtual machine called no such machine"),
        (&["top", "--columns", "cost,colour"], "[possible values: pid, exits, cost, guest, polling"),
        (&["top", "--format", "json", "--columns", "cost"], "JSON always has all columns"),
        (&["top", "--batch", "-d", "1ms"], "an interval is 100ms to 3600s"),
        // This test runs no virtual machine; it may look into itself, as nobody but root may into process 1.
        (&["top", "--batch", "-p", &own], &format!("no virtual machine of KVM runs in process {own}; there are: ")),
        (&["top", "--batch", "-p", "4194305"], "no process 4194305; there are: "),
    ] {
        let output = common::exitscope().args(arguments).stdin(Stdio::null()).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert!(common::stderr(&output).contains(said), "{}", common::stderr(&output));
    }
}

#[test]
fn the_screen_obeys_its_keys_and_leaves_the_terminal_as_it_was() {
    let _machine = machine();
    or_skip!(watch());
    let guest = running_guest();
    let command = format!("{} top -d 300ms -p {}", env!("CARGO_BIN_EXE_exitscope"), guest.0.id());
    let terminal = or_skip!(Terminal::start("keys", (80, 24), &command));
    let screen = terminal.wait_for(&["exitscope top", "tiny-guest", "vCPU 0", "tiny-guest: exits", "an event"]);
    assert!(screen.lines().count() <= 24 && screen.lines().all(|line| line.chars().count() <= 80), "{screen}");
    terminal.keys(&["Tab"]);
    terminal.wait_for(&["port 0x10 out", "port 0x11 in", "mmio 0x8000 write"]);
    terminal.keys(&["Tab"]);
    terminal.wait_for(&["tiny-guest: halts"]);
    terminal.keys(&["BTab"]);
    terminal.keys(&["Down", "Enter"]);
    terminal.wait_for(&["tiny-guest vCPU 0: about what", "Esc back"]);
    terminal.keys(&["Escape"]);
    terminal.wait_for(&["Enter into", "Esc back"]);
    terminal.keys(&["BSpace"]);
    terminal.wait_for(&["/ filter"]);
    terminal.keys(&["/", "n", "o", "n", "e", "Enter"]);
    terminal.wait_for(&["no virtual machine has this in its name", "filter: none"]);
    terminal.keys(&["Escape"]);
    terminal.wait_for(&["tiny-guest", "/ filter  "]);
    terminal.keys(&["s"]);
    terminal.wait_for(&["tiny-guest", "sort: exits/s", "exits/s▼"]);
    terminal.keys(&["p"]);
    let paused = terminal.wait_for(&["PAUSED"]);
    sleep(Duration::from_millis(700));
    assert_eq!(terminal.screen(), paused, "nothing moves");
    terminal.keys(&["p", "?"]);
    terminal.wait_for(&["keys and columns", "steal"]);
    terminal.keys(&["x"]);
    terminal.wait_for(&["port 0x10 out", "? help"]);
    drop(guest);
    terminal.wait_for(&["no VM visible"]);
    terminal.keys(&["q"]);
    terminal.wait_for(&["ended with 0"]);
    // The shell's own terminal again: what is typed is seen, and the screen of before is back.
    terminal.keys(&["echo $((6 * 7))", "Enter"]);
    let screen = terminal.wait_for(&["42"]);
    assert!(screen.contains("echo $((6 * 7))") && !screen.contains("exitscope top  "), "{screen}");
}

/// The recordings in this folder; there is nothing else in it.
fn recordings(folder: &Path) -> Vec<String> {
    let files = std::fs::read_dir(folder).unwrap().flatten();
    let mut names: Vec<String> = files.map(|file| file.file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

/// What a report says of a recording.
fn report_of(file: &Path) -> Value {
    let output = common::run(&["report", "--format", "json", file.to_str().unwrap()]);
    assert!(output.status.success(), "{}", common::stderr(&output));
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn a_key_records_the_chosen_vm_and_shows_its_report_while_the_screen_goes_on() {
    let _machine = machine();
    or_skip!(watch());
    let guest = running_guest();
    let folder = tempfile::tempdir().unwrap();
    let command = format!(
        "cd {} && {} top -d 300ms -p {}",
        folder.path().display(),
        env!("CARGO_BIN_EXE_exitscope"),
        guest.0.id()
    );
    let terminal = or_skip!(Terminal::start("record", (120, 40), &command));
    terminal.wait_for(&["tiny-guest: exits", "tiny-guest: timeline", "3 × 0.3 s"]);
    terminal.keys(&["R"]);
    terminal.wait_for(&["recording tiny-guest: 1 of 5 s, to exitscope-tiny-guest-"]);
    terminal.wait_for(&["recording tiny-guest: 4 of 5 s", " × 0.3 s"]);
    terminal.wait_for(&["recorded: exitscope-tiny-guest-", "--html", "Z.html", "q back"]);
    let [name] = &recordings(folder.path())[..] else { panic!("{:?}", recordings(folder.path())) };
    let file = folder.path().join(name);
    let report = report_of(&file);
    assert!(common::exits_at(&report, "port", 0x10, "out") > 0, "{report}");
    // All of the report is longer than the screen.
    terminal.keys(&["a"]);
    terminal.wait_for(&["a the answer alone"]);
    terminal.keys(&["End"]);
    let end = terminal.wait_for(&["recorded: "]);
    terminal.keys(&["Escape"]);
    let screen = terminal.wait_for(&["tiny-guest: timeline", "? help"]);
    assert!(!end.contains("? help") && !screen.contains("recorded: "), "{screen}");
    // Who leaves meanwhile has a whole recording, under a name of its own.
    terminal.keys(&["R"]);
    terminal.wait_for(&["recording tiny-guest: 1 of 5 s"]);
    terminal.keys(&["C-c"]);
    terminal.wait_for(&["ended with 0", "ending the recording exitscope-tiny-guest-", "Look at it with:"]);
    let names = recordings(folder.path());
    assert_eq!(names.len(), 2, "{names:?}");
    for name in names {
        assert!(common::exits_at(&report_of(&folder.path().join(name)), "port", 0x10, "out") > 0);
    }
}

#[test]
fn what_cannot_be_recorded_is_said_and_the_screen_goes_on() {
    let _machine = machine();
    or_skip!(watch());
    let guest = running_guest();
    let folder = tempfile::tempdir().unwrap();
    let gone = folder.path().join("gone");
    std::fs::create_dir(&gone).unwrap();
    let command =
        format!("cd {} && {} top -d 300ms -p {}", gone.display(), env!("CARGO_BIN_EXE_exitscope"), guest.0.id());
    let terminal = or_skip!(Terminal::start("trouble", (80, 24), &command));
    terminal.wait_for(&["tiny-guest: exits"]);
    std::fs::remove_dir(&gone).unwrap();
    terminal.keys(&["R"]);
    terminal.wait_for(&["cannot record: cannot write exitscope-tiny-guest-", "tiny-guest: exits"]);
    terminal.keys(&["o"]);
    terminal.wait_for(&["[x] cost", "Share of exits that KVM handed on"]);
    terminal.keys(&["Escape"]);
    terminal.wait_for(&["tiny-guest: exits"]);
    terminal.keys(&["q"]);
    terminal.wait_for(&["ended with 0"]);
}

#[test]
fn a_signal_ends_it_and_gives_the_terminal_back() {
    let _machine = machine();
    or_skip!(watch());
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("pid");
    // A shell says which process it is, and becomes it.
    let command =
        format!("sh -c 'echo $$ > {}; exec {} top -d 100ms'", file.display(), env!("CARGO_BIN_EXE_exitscope"));
    for (name, size, signal) in
        [("small", (30, 8), "-TERM"), ("large", (200, 60), "-INT"), ("hangup", (80, 24), "-HUP")]
    {
        let terminal = or_skip!(Terminal::start(name, size, &command));
        terminal.wait_for(&["exitscope top"]);
        let pid = std::fs::read_to_string(&file).unwrap();
        assert!(Command::new("kill").args([signal, pid.trim()]).status().unwrap().success());
        terminal.wait_for(&["ended with 0"]);
        terminal.keys(&["echo $((6 * 7))", "Enter"]);
        assert!(terminal.wait_for(&["42"]).contains("echo $((6 * 7))"), "what is typed is seen");
    }
}

#[test]
fn a_terminal_that_goes_away_leaves_nothing_running() {
    let _machine = machine();
    or_skip!(watch());
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("pid");
    let command = format!("sh -c 'echo $$ > {}; exec {} top'", file.display(), env!("CARGO_BIN_EXE_exitscope"));
    let terminal = or_skip!(Terminal::start("gone", (80, 24), &command));
    terminal.wait_for(&["exitscope top"]);
    let process = format!("/proc/{}", std::fs::read_to_string(&file).unwrap().trim());
    drop(terminal);
    let began = Instant::now();
    // Its programs are gone with its descriptors.
    while std::path::Path::new(&process).exists() {
        assert!(began.elapsed() < PATIENCE, "{process} still runs");
        sleep(Duration::from_millis(50));
    }
}
