//! `exitscope try`: on a tree of its own, where it is killed at random moments, and on settings of this machine that hardly
//! anything feels, with metrics whose dependence on the setting is known.

mod common;

use common::server::{end, front_end};
use common::{check_json, exitscope, exitscope_on_a_terminal, run, stderr, stdout};
use exitscope_skips::{Part, need, or_skip, skip};
use rand::{Rng, SeedableRng};
use rand_pcg::Pcg64Mcg;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Write};
use std::net::TcpListener;
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// Random kills of each kind, and how many of them at a time.
const KILLS: usize = 100;
const AT_A_TIME: usize = 4;

/// How long restoring may take.
const SOON: Duration = Duration::from_secs(2);

/// A number that has nothing to do with the setting.
const NOISE: &str = "od -An -N2 -tu2 /dev/urandom";

/// A host with one knob, which is 200000.
struct Host(tempfile::TempDir);

impl Host {
    fn new() -> Host {
        let host = Host(tempfile::tempdir().unwrap());
        fs::create_dir_all(host.knob().parent().unwrap()).unwrap();
        fs::write(host.knob(), "200000\n").unwrap();
        host
    }

    fn knob(&self) -> PathBuf {
        self.0.path().join("sys/module/kvm/parameters/halt_poll_ns")
    }

    fn now(&self) -> String {
        fs::read_to_string(self.knob()).unwrap().lines().next().unwrap_or_default().to_string()
    }

    fn state(&self, file: &str) -> PathBuf {
        self.0.path().join("state").join(file)
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = exitscope_on_a_terminal();
        command.args(arguments);
        if arguments.contains(&"--metric") {
            command.args(["--better", "lower"]);
        }
        command.arg("--root").arg(self.0.path()).arg("--state").arg(self.state("applied.json"));
        command.stdin(Stdio::null());
        command
    }

    /// A trial of 0 with short turns; flags of `arguments` come behind.
    fn try_zero(&self, metric: &str, arguments: &[&str]) -> Command {
        let mut command = self.command(&["try", "halt_poll_ns=0", "--no-count", "--yes", "--metric", metric]);
        command.args(["--turn", "30ms", "--settle", "1ms", "--for", "60s", "--seed", "7"]).args(arguments);
        command
    }

    /// A trial of two values that goes on for long.
    fn long_trial(&self) -> Child {
        let mut command = self.command(&["try", "halt_poll_ns=0,50us", "--no-count", "--yes", "--metric", NOISE]);
        // Chance is not to end it.
        command.args(["--turn", "20ms", "--settle", "1ms", "--for", "60s", "--alpha", "0.00001%"]);
        let out = File::create(self.said()).unwrap();
        command.stdout(out.try_clone().unwrap()).stderr(out).spawn().unwrap()
    }

    /// What a long trial prints.
    fn said(&self) -> PathBuf {
        self.0.path().join("said")
    }

    fn is_restored(&self) -> bool {
        self.now() == "200000" && !self.state("tried.json").exists()
    }

    /// Whether nobody holds the lock, so that nobody sets anything any more.
    fn is_let_go(&self) -> bool {
        File::open(self.state("applied.json.lock")).map_or(true, |file| file.try_lock().is_ok())
    }

    /// Waits until a trial has set something.
    fn wait_for_trial(&self) {
        wait_until("a value is set", Duration::from_secs(30), || self.state("tried.json").exists());
    }
}

#[track_caller]
fn wait_until(what: &str, within: Duration, mut is: impl FnMut() -> bool) {
    let until = Instant::now() + within;
    while !is() {
        assert!(Instant::now() < until, "not within {within:?}: {what}");
        thread::sleep(Duration::from_millis(2));
    }
}

fn signal(process: u32, signal: Signal) -> bool {
    kill_process(Pid::from_raw(process as i32).unwrap(), signal).is_ok()
}

/// The watchdog of a trial, if it runs.
fn watchdog(trial: u32) -> Option<u32> {
    let processes = fs::read_dir("/proc").unwrap().flatten();
    let mut ids = processes.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    ids.find(|id| {
        let is_one = fs::read(format!("/proc/{id}/cmdline")).is_ok_and(|line| line.ends_with(b"--watch-trial\0"));
        let stat = || fs::read_to_string(format!("/proc/{id}/stat")).unwrap_or_default();
        is_one && stat().rsplit(')').next().and_then(|rest| rest.split_whitespace().nth(1)) == Some(&trial.to_string())
    })
}

/// Runs `kill` so many times, several at a time, each with random numbers of its own.
fn at_random_moments(kill: impl Fn(&mut Pcg64Mcg) + Sync) {
    let next = AtomicUsize::new(0);
    thread::scope(|scope| {
        for _ in 0..AT_A_TIME {
            scope.spawn(|| {
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number >= KILLS {
                        return;
                    }
                    kill(&mut Pcg64Mcg::seed_from_u64(number as u64));
                }
            });
        }
    });
}

/// Waits until a random moment of a trial: of four in five while values are set, otherwise while it starts.
fn random_moment(host: &Host, random: &mut Pcg64Mcg) {
    let is_starting = random.random_range(0..5) == 0;
    if !is_starting {
        host.wait_for_trial();
    }
    thread::sleep(Duration::from_micros(random.random_range(0..150_000)));
}

#[test]
fn a_trial_that_is_killed_leaves_the_old_value_within_two_seconds() {
    let changed = AtomicUsize::new(0);
    at_random_moments(|random| {
        let host = Host::new();
        let mut trial = host.long_trial();
        random_moment(&host, random);
        trial.kill().unwrap();
        changed.fetch_add(usize::from(host.now() != "200000"), Ordering::Relaxed);
        wait_until("the watchdog restores", SOON, || host.is_restored() && host.is_let_go());
        trial.wait().unwrap();
    });
    // Two of three turns have another value.
    let changed = changed.into_inner();
    assert!(changed > KILLS / 4, "only {changed} of {KILLS} kills came while another value was in force");
}

#[test]
fn a_trial_whose_watchdog_is_killed_restores_within_two_seconds_and_ends() {
    let killed = AtomicUsize::new(0);
    at_random_moments(|random| {
        let host = Host::new();
        let mut trial = host.long_trial();
        random_moment(&host, random);
        if watchdog(trial.id()).is_some_and(|watchdog| signal(watchdog, Signal::KILL)) {
            killed.fetch_add(1, Ordering::Relaxed);
            wait_until("the trial restores", SOON, || host.is_restored() && host.is_let_go());
            let code = trial.wait().unwrap().code();
            assert_eq!(code, Some(2), "{}", fs::read_to_string(host.said()).unwrap());
        } else {
            trial.kill().unwrap();
            trial.wait().unwrap();
        }
        assert!(!host.state("applied.json").exists());
    });
    let killed = killed.into_inner();
    assert!(killed >= KILLS * 3 / 4, "only {killed} of {KILLS} watchdogs were there to be killed");
}

#[test]
fn if_both_are_killed_the_next_start_restores_and_says_so() {
    let mut random = Pcg64Mcg::seed_from_u64(1);
    let mut left = 0;
    for number in 0..10 {
        let host = Host::new();
        kill_both(&host, &mut random);
        let plan = host.try_zero("exit 3", &["--dry-run"]).output().unwrap();
        assert!(stderr(&plan).contains("they are restored first"), "{}", stderr(&plan));
        assert!(host.state("tried.json").exists());
        left += usize::from(host.now() != "200000");
        let next = match number % 2 {
            0 => host.command(&["advise", "--undo"]).output().unwrap(),
            _ => host.try_zero("exit 3", &[]).output().unwrap(),
        };
        let said = stdout(&next);
        assert!(said.contains("a trial was killed before it could restore: "), "{said}{}", stderr(&next));
        assert_eq!(next.status.code(), Some(if number % 2 == 0 { 0 } else { 2 }), "{said}");
        assert!(host.is_restored(), "{said}");
    }
    assert!(left > 2, "only {left} kills left another value in force");
}

/// Kills a trial and its watchdog at a random moment, so that neither restores.
fn kill_both(host: &Host, random: &mut Pcg64Mcg) {
    let mut trial = host.long_trial();
    host.wait_for_trial();
    thread::sleep(Duration::from_micros(random.random_range(0..100_000)));
    let watchdog = watchdog(trial.id()).expect("a watchdog");
    assert!(signal(watchdog, Signal::STOP));
    trial.kill().unwrap();
    trial.wait().unwrap();
    assert!(signal(watchdog, Signal::KILL));
    wait_until("the lock is let go", SOON, || host.is_let_go());
    assert!(host.state("tried.json").exists());
}

#[test]
fn what_a_killed_trial_left_is_restored_in_its_own_tree_alone() {
    let mut random = Pcg64Mcg::seed_from_u64(2);
    let trace = common::corpus("x86-svm/t2.data.gz");
    for number in 0..8 {
        let (host, other) = (Host::new(), Host::new());
        kill_both(&host, &mut random);
        // The other tree has what the trial has set: as if it were the trial's own.
        let (left, noted) = (host.now(), fs::read(host.state("tried.json")).unwrap());
        fs::write(other.knob(), format!("{left}\n")).unwrap();
        let state = host.state("applied.json");
        let zero = ["try", "halt_poll_ns=7", "--no-count", "--metric", NOISE, "--better", "lower"];
        for (arguments, last) in [
            (&zero[..], &["--yes", "--turn", "20ms", "--settle", "1ms", "--for", "1s"][..]),
            (&zero, &["--dry-run"]),
            (&zero, &["--keep", "--yes"]),
            (&["advise", "--undo"], &[]),
            (&["advise", "--undo", "--force"], &[]),
            (&["advise", trace.to_str().unwrap(), "--apply", "--yes", "--any-host"], &[]),
        ] {
            let mut command = exitscope();
            command.args(arguments).args(last).arg("--root").arg(other.0.path()).arg("--state").arg(&state);
            let output = command.stdin(Stdio::null()).output().unwrap();
            let said = stdout(&output) + &stderr(&output);
            assert_eq!((output.status.code(), other.now()), (Some(2), left.clone()), "{arguments:?}: {said}");
            assert_eq!(fs::read(host.state("tried.json")).unwrap(), noted, "{arguments:?}: {said}");
            assert_eq!(host.now(), left, "{arguments:?}: {said}");
            let remedy = format!("`exitscope advise --undo --root {}`", host.0.path().display());
            assert!(said.contains(&remedy), "{arguments:?}: {said}");
        }
        // The same tree by another path: a link, or from where one stands.
        let link = other.0.path().join("link");
        std::os::unix::fs::symlink(host.0.path(), &link).unwrap();
        let mut undo = exitscope();
        undo.args(["advise", "--undo", "--state"]).arg(&state).arg("--root");
        match number % 2 {
            0 => undo.arg(&link),
            _ => undo.arg(".").current_dir(host.0.path()),
        };
        let undone = undo.output().unwrap();
        assert!(undone.status.success() && host.is_restored(), "{}{}", stdout(&undone), stderr(&undone));
        assert_eq!(other.now(), left);
    }
}

#[test]
fn what_an_older_version_left_is_restored_only_by_force() {
    let host = Host::new();
    kill_both(&host, &mut Pcg64Mcg::seed_from_u64(3));
    let tried = host.state("tried.json");
    let mut record: Value = serde_json::from_slice(&fs::read(&tried).unwrap()).unwrap();
    record.as_object_mut().unwrap().remove("tree").expect("a tree");
    let (left, noted) = (host.now(), record.to_string());
    fs::write(&tried, &noted).unwrap();
    for refused in [host.command(&["advise", "--undo"]).output(), host.try_zero(NOISE, &[]).output()] {
        let said = stderr(&refused.unwrap());
        assert!(said.contains("an earlier version, which did not note the --root of its settings"), "{said}");
        assert_eq!((host.now(), fs::read_to_string(&tried).unwrap()), (left.clone(), noted.clone()), "{said}");
    }
    let undone = host.command(&["advise", "--undo", "--force"]).output().unwrap();
    assert!(undone.status.success() && host.is_restored(), "{}{}", stdout(&undone), stderr(&undone));
}

#[test]
fn a_host_has_one_trial_at_a_time_whatever_its_state_file() {
    let host = Host::new();
    let mut trial = host.long_trial();
    host.wait_for_trial();
    let with_state = |arguments: &[&str]| {
        let mut command = exitscope();
        command.args(arguments).arg("--root").arg(host.0.path()).arg("--state").arg(host.state("other/applied.json"));
        command.stdin(Stdio::null()).output().unwrap()
    };
    let mut other = vec!["try", "halt_poll_ns=7", "--no-count", "--yes", "--metric", NOISE];
    other.extend(["--better", "lower", "--turn", "20ms", "--settle", "1ms", "--for", "2s"]);
    let refused = with_state(&other);
    assert_eq!(refused.status.code(), Some(2));
    let said = stderr(&refused);
    let holder = format!("process {} (`", trial.id());
    assert!(said.contains(&holder) && said.contains(" try halt_poll_ns=0,50us "), "{said}");
    // The watchdog alone holds it, too.
    let watchdog = watchdog(trial.id()).expect("a watchdog");
    assert!(signal(watchdog, Signal::STOP));
    trial.kill().unwrap();
    trial.wait().unwrap();
    let said = stderr(&with_state(&other));
    assert!(said.contains(&format!("already by process {watchdog} (`")), "{said}");
    assert!(signal(watchdog, Signal::KILL));
    wait_until("the lock is let go", SOON, || host.is_let_go());
    let next = with_state(&other);
    assert!(!stderr(&next).contains("by process"), "{}", stderr(&next));
    assert!(stdout(&next).contains("Trial on "), "{}", stderr(&next));
}

#[test]
fn a_sick_host_ends_a_trial_also_one_whose_command_is_stopped() {
    for is_stopped in [false, true] {
        let host = Host::new();
        let pressure = host.0.path().join("proc/pressure/memory");
        fs::create_dir_all(pressure.parent().unwrap()).unwrap();
        let full = |share: &str| {
            fs::write(pressure.with_extension("new"), format!("full avg10={share} avg60=0.00\n")).unwrap();
            fs::rename(pressure.with_extension("new"), &pressure).unwrap();
        };
        full("0.00");
        let mut trial = host.try_zero(NOISE, &[]);
        let mut trial = trial.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        wait_until("another value is set", Duration::from_secs(60), || host.now() == "0");
        if is_stopped {
            assert!(signal(trial.id(), Signal::STOP));
        }
        full("12.50");
        wait_until("the watchdog restores", SOON, || host.is_restored());
        assert!(signal(trial.id(), Signal::CONT));
        let _ = trial.wait();
        let mut said = String::new();
        io::Read::read_to_string(&mut trial.stdout.take().unwrap(), &mut said).unwrap();
        assert!(said.contains("aborted if: host_memory_pressure>10%"), "{said}");
        let why = ["memory pressure (full) was 12.5% in the last 10 s, more than 10%", "nothing came from the trial"];
        assert!(said.contains(why[0]) || is_stopped && said.contains(why[1]), "{said}");
    }
    let host = Host::new();
    let refused = host.try_zero(NOISE, &["--abort-on", "host_io_pressure>10%"]).output().unwrap();
    assert!(stderr(&refused).contains("pressure needs a kernel with CONFIG_PSI"), "{}", stderr(&refused));
}

#[test]
fn a_knob_of_a_guest_is_tried_through_its_command_and_restored_after_a_kill() {
    let host = Host::new();
    let guest = host.0.path().join("guest");
    let knob = guest.join("sys/module/haltpoll/parameters/guest_halt_poll_ns");
    fs::create_dir_all(knob.parent().unwrap()).unwrap();
    fs::write(&knob, "200000\n").unwrap();
    let now = || fs::read_to_string(&knob).unwrap().trim().to_string();
    // As ssh: it has one text, which is the guest's shell's.
    let reach = guest.join("reach");
    let script = format!("sh -c \"$(printf '%s' \"$*\" | sed 's|/sys/|{}/sys/|')\"", guest.display());
    fs::write(&reach, script).unwrap();
    let command = format!("sh '{}'", reach.display());
    let tried = ["try", "guest_halt_poll_ns=0,50us", "--guest", &command, "--no-count", "--yes", "--metric", NOISE];
    let mut trial = host.command(&tried);
    trial.args(["--turn", "30ms", "--settle", "1ms", "--for", "60s"]).stdout(Stdio::null()).stderr(Stdio::null());
    let mut trial = trial.spawn().unwrap();
    wait_until("a value is set", Duration::from_secs(30), || now() == "50000");
    trial.kill().unwrap();
    trial.wait().unwrap();
    wait_until("the watchdog restores", SOON, || {
        now() == "200000" && !host.state("tried.json").exists() && host.is_let_go()
    });
    assert_eq!(host.now(), "200000", "that of the host is left alone");
    let refused =
        host.command(&["try", "halt_poll_ns=0", "--guest", &command, "--no-count", "--yes"]).output().unwrap();
    assert!(stderr(&refused).contains("halt_poll_ns cannot be set in a guest"), "{}", stderr(&refused));
    // Where others could put a command of theirs, none would be believed when it is to restore.
    fs::set_permissions(host.state(""), fs::Permissions::from_mode(0o775)).unwrap();
    let refused = host.command(&tried).output().unwrap();
    assert_eq!((refused.status.code(), now().as_str()), (Some(2), "200000"));
    let said = stdout(&refused) + &stderr(&refused);
    assert!(said.contains("other users can write to this folder"), "{said}");
}

#[test]
fn no_difference_of_what_running_vms_do_not_feel_is_no_judgement() {
    let host = Host::new();
    let release = host.0.path().join("proc/sys/kernel/osrelease");
    fs::create_dir_all(release.parent().unwrap()).unwrap();
    let metric = "echo $((100000 + $(od -An -N1 -tu1 /dev/urandom)))";
    for (text, code) in [("6.1.0\n", 0), ("5.15.0\n", 2)] {
        fs::write(&release, text).unwrap();
        let output = host.try_zero(metric, &["--matters", "5%"]).output().unwrap();
        let said = stdout(&output);
        assert_eq!((output.status.code(), host.is_restored()), (Some(code), true), "{said}");
        assert_eq!(
            said.contains("on kernels like this one, halt_poll_ns takes effect only in VMs started afterwards"),
            code == 2,
            "{said}"
        );
    }
}

#[test]
fn signals_of_the_terminal_and_silence_end_a_trial_and_restore() {
    for (name, number) in [("SIGINT", Signal::INT), ("SIGTERM", Signal::TERM), ("SIGHUP", Signal::HUP)] {
        let host = Host::new();
        let trial = host.try_zero(NOISE, &[]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        host.wait_for_trial();
        // As by a terminal, to both.
        assert!(signal(watchdog(trial.id()).unwrap(), number) && signal(trial.id(), number));
        let output = trial.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{}", stderr(&output));
        assert!(stdout(&output).contains(&format!("stopped: {name} came")), "{}", stdout(&output));
        assert!(host.is_restored() && host.is_let_go());
    }
    let host = Host::new();
    let trial = host.try_zero(NOISE, &[]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    host.wait_for_trial();
    assert!(signal(trial.id(), Signal::STOP));
    // A lease, and what restoring takes.
    wait_until("the watchdog restores", SOON + Duration::from_secs(3), || host.is_restored());
    assert!(signal(trial.id(), Signal::CONT));
    let output = trial.wait_with_output().unwrap();
    assert!(stdout(&output).contains("stopped: nothing came from the trial for 3000 ms"), "{}", stdout(&output));
    assert_eq!((output.status.code(), host.is_restored()), (Some(2), true));
}

#[test]
fn what_somebody_else_sets_ends_a_trial_and_stays() {
    let host = Host::new();
    let trial = host.try_zero(NOISE, &[]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    host.wait_for_trial();
    let held = host.command(&["advise", "--undo"]).output().unwrap();
    assert!(stderr(&held).contains("another `exitscope advise` or `exitscope try`"), "{}", stderr(&held));
    fs::write(host.knob(), "5\n").unwrap();
    let output = trial.wait_with_output().unwrap();
    assert_eq!((output.status.code(), host.now().as_str()), (Some(2), "5"), "{}", stdout(&output));
    assert!(stdout(&output).contains("somebody else has changed it"), "{}", stdout(&output));
    assert!(stdout(&output).contains("left unchanged (it was 200000 before)"), "{}", stdout(&output));
    let history = stdout(&host.command(&["try", "--history"]).output().unwrap());
    assert!(history.contains("set by somebody else") && !history.contains("restored"), "{history}");
    assert!(!host.state("tried.json").exists() && host.is_let_go());
}

/// A command that prints 10000 and up to 255 more, and `less` where the file has this value.
fn planted(file: &Path, value: &str, less: u32) -> String {
    let file = file.display();
    format!(
        "n=$(od -An -N1 -tu1 /dev/urandom); read v < {file}; [ $v = {value} ] && n=$((n - {less})); echo $((10000 + n))"
    )
}

#[test]
fn a_better_value_is_kept_and_undone_and_without_keep_restored() {
    let host = Host::new();
    let metric = planted(&host.knob(), "0", 1500);
    let reverted = host.try_zero(&metric, &[]).output().unwrap();
    assert_eq!((reverted.status.code(), host.now().as_str()), (Some(0), "200000"), "{}", stderr(&reverted));
    let said = stdout(&reverted);
    for words in [
        "A: halt_poll_ns=200000 (in force)",
        "block 8 of at most ",
        "halt_poll_ns=0 instead of halt_poll_ns=200000: better",
    ] {
        assert!(said.contains(words), "{words}: {said}");
    }
    let kept = host.try_zero(&metric, &["--keep"]).output().unwrap();
    assert_eq!((kept.status.code(), host.now().as_str()), (Some(0), "0"), "{}", stdout(&kept));
    assert!(stdout(&kept).contains("`exitscope advise --undo` restores 200000"), "{}", stdout(&kept));
    assert!(!host.state("tried.json").exists());
    let undone = host.command(&["advise", "--undo"]).output().unwrap();
    assert_eq!((undone.status.code(), host.now().as_str()), (Some(0), "200000"), "{}", stdout(&undone));
    // What is worse is not kept, whatever was asked.
    let worse = host.try_zero(&metric, &["--keep", "--better", "higher"]).output().unwrap();
    assert_eq!((worse.status.code(), host.now().as_str()), (Some(0), "200000"), "{}", stdout(&worse));
    assert!(stdout(&worse).contains("worse: revert"), "{}", stdout(&worse));
    // All of them are remembered, and nothing else is left.
    let left: Vec<_> = fs::read_dir(host.state("")).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(left, ["trials.jsonl"]);
    let history = host.command(&["try", "--history"]).output().unwrap();
    let said = stdout(&history);
    assert!(said.starts_with("3 trials") && said.contains("better") && said.contains("worse"), "{said}");
    assert_eq!((said.matches("kept").count(), said.matches("restored").count()), (1, 2), "{said}");
    let lines = stdout(&host.command(&["try", "--history", "--format", "json"]).output().unwrap());
    let trials: Vec<Value> = lines.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    check_json("try", &trials);
    assert!(trials.len() == 3 && trials[0]["began"].as_str().unwrap().ends_with('Z'), "{lines}");
}

#[test]
fn a_per_cent_figure_follows_from_the_figures_beside_it() {
    let host = Host::new();
    let count = host.0.path().join("count");
    fs::write(&count, "0\n").unwrap();
    // In turn a block of small values, which grow by half, and one of large ones, which shrink by a tenth.
    let metric = format!(
        "read n < {count}; echo $((n + 1)) > {count}; read v < {knob}; [ $v = 0 ] && c=1 || c=0; \
         [ $((n / 4 % 2)) = 0 ] && echo $((1000 + c * 500)) || echo $((100000 - c * 10000))",
        count = count.display(),
        knob = host.knob().display()
    );
    let mut trial = host.command(&["try", "halt_poll_ns=0", "--no-count", "--yes", "--metric", &metric]);
    let said = stdout(&trial.args(["--turn", "30ms", "--settle", "1ms", "--for", "2s"]).output().unwrap());
    let line = said.lines().find(|line| line.starts_with("  metric: means ")).unwrap_or_else(|| panic!("{said}"));
    let figure = |text: &str| text.trim_end_matches('%').parse::<f64>().unwrap_or_else(|_| panic!("{text}: {line}"));
    let words: Vec<&str> = line.split([' ', ',', ';']).filter(|word| !word.is_empty()).collect();
    let ["metric:", "means", in_force, "to", with, means, "within", "blocks", within, ..] = words[..] else {
        panic!("{line}")
    };
    let [in_force, with, means, within] = [in_force, with, means, within].map(figure);
    assert!(((with / in_force - 1.0) * 100.0 - means).abs() < 0.1 && means < 0.0, "{line}");
    // Each block counts alike, and so what decides even has the other sign: it is named.
    assert!(within > 10.0, "{line}");
    let history = host.command(&["try", "--history", "--format", "json"]).output().unwrap();
    let report: Value = serde_json::from_slice(&history.stdout).unwrap();
    check_json("try", [&report]);
    let effect = &report["verdict"]["settings"][0]["effects"][0];
    let of = |key: &str| effect[key].as_f64().unwrap();
    assert!((of("means_percent") - (of("with") / of("in_force") - 1.0) * 100.0).abs() < 1e-9, "{effect}");
    assert!((of("change_percent") - within).abs() < 0.01, "{effect}: {line}");
}

#[test]
fn a_trial_has_its_blocks_in_json_and_a_page_as_the_history_has() {
    let host = Host::new();
    let metric = format!("test $(cat {}) = 0 && echo 8 || echo 10", host.knob().display());
    let page = host.0.path().join("trial.html");
    let mut trial = host.try_zero(&metric, &["--format", "json"]);
    let pages = front_end();
    if pages.is_ok() {
        trial.arg("--html").arg(&page);
    }
    let report: Value = serde_json::from_slice(&trial.output().unwrap().stdout).unwrap();
    check_json("try", [&report]);
    let blocks = report["blocks"].as_array().unwrap();
    assert_eq!(blocks.len() as u64, report["verdict"]["blocks"].as_u64().unwrap());
    let (first, last) = (&blocks[0]["settings"][0], &blocks[blocks.len() - 1]["settings"][0]);
    assert!((first["block_percent"].as_f64().unwrap() + 20.0).abs() < 1e-9 && first["low_percent"].is_null());
    for bound in ["change_percent", "low_percent", "high_percent"] {
        assert_eq!(last[bound], report["verdict"]["settings"][0]["effects"][0][bound], "{bound}");
    }
    or_skip!(pages);
    let title = |path: &Path| {
        let text = fs::read_to_string(path).unwrap();
        text.split_once("<title>").unwrap().1.split_once("</title>").unwrap().0.to_string()
    };
    assert!(title(&page).ends_with(": trial on this host"), "{}", title(&page));
    assert!(host.try_zero(&metric, &[]).output().unwrap().status.success());
    let all = host.0.path().join("trials.html");
    let shown = host.command(&["try", "--history"]).arg("--html").arg(&all).output().unwrap();
    assert_eq!((shown.status.code(), stdout(&shown).as_str()), (Some(0), ""), "{}", stderr(&shown));
    assert!(title(&all).ends_with(": 2 trials"), "{}", title(&all));
    // A file that cannot be written is noticed before anything is set.
    let nowhere = host.state("nowhere/trial.html");
    let refused = host.try_zero(&metric, &["--html"]).arg(&nowhere).output().unwrap();
    assert!(stderr(&refused).contains("cannot write") && stdout(&refused).is_empty(), "{}", stderr(&refused));
}

/// A trial that judged nothing says why before anything else, and nothing of more time; the old value is back.
#[track_caller]
fn check_not_judged(host: &Host, output: &Output, says: &str) {
    let text = stdout(output);
    assert_eq!(output.status.code(), Some(2), "{text}{}", stderr(output));
    let verdict = text.split_once("\nnot judged: ").unwrap_or_else(|| panic!("{text}")).1;
    assert!(verdict.starts_with(says), "{says}: {text}");
    assert!(verdict.contains(" instead of halt_poll_ns=200000: not judged\n"), "{text}");
    assert!(!text.contains("undecided") && !text.contains("longer is needed"), "{text}");
    assert!(host.is_restored() && host.is_let_go());
}

#[test]
fn limits_and_metrics_that_fail_end_a_trial_with_the_old_value() {
    for (metric, flags, says) in [
        ("echo 6000000", &["--unit", "ns", "--abort-on", "metric>5ms"][..], "aborted by metric>5ms: found 6.00ms with"),
        ("echo broken >&2; exit 3", &[], "the metric's command ended with exit status: 3: broken"),
        ("sleep 5", &[], "the metric's command has not ended within four turns and two seconds; make --turn longer"),
        (
            "echo 12 ms",
            &[],
            "the metric's command printed \"12 ms\" as its last line, which is not a number from 0 on: let it",
        ),
        ("true", &[], "the metric's command printed nothing"),
        ("echo 1.7e308", &[], "metric is 170000000000000"),
        ("echo 0", &[], "metric was 0 in every turn: whether it would show a change is not known"),
    ] {
        let host = Host::new();
        let output = host.try_zero(metric, flags).output().unwrap();
        check_not_judged(&host, &output, says);
    }
}

#[test]
fn a_counter_that_fails_ends_a_trial_with_the_old_value() {
    for (counter, then, says) in [
        (Some("fast"), "", "/counter does not begin with a counter: a number without sign or point"),
        (None, "", "cannot read "),
        (Some("7"), "rm $0", "cannot read "),
        (
            Some("1000"),
            "for n in 9 8 7 6 5 4 3 2 1 9 8 7 6 5 4 3 2 1; do echo $n > $0.next; mv $0.next $0; sleep 0.05; done",
            "the counter in ",
        ),
    ] {
        let host = Host::new();
        let file = host.0.path().join("counter");
        if let Some(counter) = counter {
            fs::write(&file, counter).unwrap();
        }
        let counter = ["--metric-file", file.to_str().unwrap()];
        let mut command = host.command(&[&["try", "halt_poll_ns=0", "--no-count", "--yes"], &counter[..]].concat());
        command.args(["--turn", "300ms", "--settle", "1ms", "--for", "60s", "--seed", "7"]);
        let trial = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        if !then.is_empty() {
            host.wait_for_trial();
            assert!(Command::new("sh").args(["-c", then]).arg(&file).status().unwrap().success());
        }
        let output = trial.wait_with_output().unwrap();
        let path = file.display().to_string();
        let says = if says.starts_with('/') { says.replacen("/counter", &path, 1) } else { format!("{says}{path}") };
        check_not_judged(&host, &output, &says);
    }
}

/// A server that answers each query of Prometheus's API after a while by what the host's knob is; returns its address.
fn prometheus(knob: PathBuf, after: Duration, answer: impl Fn(&str, &str) -> String + Send + 'static) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut asked = String::new();
            BufReader::new(&stream).read_line(&mut asked).unwrap();
            thread::sleep(after);
            let body = answer(&asked, fs::read_to_string(&knob).unwrap().trim());
            let length = body.len();
            let _ = write!(stream, "HTTP/1.1 200 OK\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}");
        }
    });
    address
}

fn vector(values: &[&str]) -> String {
    let series = values.iter().map(|value| serde_json::json!({"metric": {}, "value": [1.5, value]}));
    let result: Vec<Value> = series.collect();
    serde_json::json!({"status": "success", "data": {"resultType": "vector", "result": result}}).to_string()
}

#[test]
fn a_query_to_prometheus_decides_and_its_failures_end_a_trial_with_the_old_value() {
    let flags = |address: &str| {
        let query = ["--metric-query", "rate(a{b=\"c\"}[$__range])", "--unit", "ms", "--prometheus", address];
        query.map(str::to_string)
    };
    let run = |host: &Host, address: &str, length: &str| {
        let mut command = host.command(&["try", "halt_poll_ns=0", "--no-count", "--yes", "--settle", "1ms"]);
        command.args(["--turn", "30ms", "--for", length, "--seed", "7"]).args(flags(address));
        command.output().unwrap()
    };
    let host = Host::new();
    let address = prometheus(host.knob(), Duration::ZERO, |asked, knob| {
        let range = asked.strip_prefix("GET /api/v1/query?query=rate%28a%7Bb%3D%22c%22%7D%5B").expect(asked);
        let milliseconds: u64 = range.split_once("ms%5D%29 HTTP/1.1").expect(asked).0.parse().unwrap();
        assert!((30..10_000).contains(&milliseconds), "{asked}");
        vector(&[if knob == "0" { "12.5" } else { "10" }])
    });
    let decided = run(&host, &address, "60s");
    let (code, text) = (decided.status.code(), stdout(&decided));
    assert_eq!(code, Some(0), "{text}{}", stderr(&decided));
    assert!(text.contains("decided by: `rate(a{b=\"c\"}[$__range])`, asked of http://127.0.0.1:"), "{text}");
    assert!(
        text.contains(
            "worse: revert\n  metric: means 10.0ms to 12.5ms, +25.00%; within blocks +25.00% (+25.00% to +25.00%)"
        ),
        "{text}"
    );
    // A server that is slower than the watchdog's patience and than four turns is waited for.
    let slow = prometheus(host.knob(), Duration::from_millis(1300), |_, _| vector(&["1", "2"]));
    let at_once = |answer: String| prometheus(host.knob(), Duration::ZERO, move |_, _| answer.clone());
    for (address, says) in [
        (slow, "Prometheus: the answer has 2 series"),
        (at_once(vector(&[])), "Prometheus: the answer is empty"),
        (at_once(vector(&["NaN"])), "Prometheus: the answer is \"NaN\", which is not a number from 0 on"),
        ("http://127.0.0.1:1".to_string(), "no answer from Prometheus: "),
    ] {
        check_not_judged(&host, &run(&host, &address, "60s"), says);
    }
    for (arguments, says) in [
        (&["--metric-query", "a"][..], "--prometheus"),
        (&["--metric-query", "a", "--prometheus", "localhost:9090"], "is not the URL of a server"),
        (&["--metric-query", "a[$__interval]", "--prometheus", "http://localhost"], "only $__range is replaced"),
        (&["--metric-query", "rate(a[5m])", "--prometheus", "http://localhost"], "the query looks back for 5m"),
        (&["--metric-query", "a", "--prometheus", "http://localhost"], "--better lower or --better higher says"),
        (&["--metric-query", "a", "--prometheus", "http://localhost", "--unit", "%"], "--better lower or"),
        (&["--metric-query", "a", "--prometheus", "http://localhost", "--metric", "b"], "cannot be used with"),
    ] {
        let output = host.command(&["try", "halt_poll_ns=0", "--no-count", "--yes"]).args(arguments).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{arguments:?}");
        assert!(stderr(&output).contains(says), "{arguments:?}: {}", stderr(&output));
    }
}

#[test]
fn nothing_is_changed_without_consent_and_what_makes_no_sense_is_refused() {
    let host = Host::new();
    for (path, text) in [
        ("proc/sys/kernel/numa_balancing", "1\n"),
        ("sys/kernel/mm/transparent_hugepage/defrag", "always defer defer+madvise [madvise] never\n"),
    ] {
        let path = host.0.path().join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
    for (arguments, code, says) in [
        (&["halt_poll_ns=0", "--metric", NOISE][..], 2, "there is no terminal to ask on"),
        (&["halt_poll_ns=0", "--metric", NOISE, "--dry-run"], 0, ""),
        (&["halt_poll_ns=200us", "--metric", NOISE, "--yes"], 2, "halt_poll_ns is 200000 already"),
        (&["halt_poll_ns=0", "--metric", NOISE, "--yes", "--for", "1s"], 2, "1.00s is too short"),
        (&["affinity=0", "--metric", NOISE, "--yes"], 2, "affinity needs --vm"),
        (&["halt_poll_ns=0", "--metric", NOISE, "--yes", "--alpha", "0"], 2, "above 0% and at most 50%, not 0%"),
        (&["halt_poll_ns=0", "--yes"], 2, "halt_poll_ns needs a metric of the workload"),
        (&["numa_balancing=0", "--yes"], 2, "numa_balancing needs a metric of the workload"),
        (&["thp_defrag=always", "--yes"], 2, "there is nothing to compare"),
        (&["thp_defrag=always", "--yes", "--keep"], 2, "--keep needs a metric of the workload"),
        (&["halt_poll_ns=0", "--metric", NOISE, "--yes", "--abort-on", "p98>5"], 2, "\"p98\" is not measured"),
        (&["thp_enabled=always", "--metric", NOISE, "--yes"], 2, "enabled is not there"),
    ] {
        let arguments: Vec<&str> = ["try", "--no-count"].iter().chain(arguments).copied().collect();
        let output = host.command(&arguments).output().unwrap();
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {}", stderr(&output));
        assert!(stderr(&output).contains(says), "{arguments:?}: {}", stderr(&output));
        assert!(host.is_restored(), "{arguments:?}");
    }
    let host = Host::new();
    let plan =
        host.command(&["try", "halt_poll_ns=0", "--metric", NOISE, "--no-count", "--dry-run", "--format", "json"]);
    let plan: Value = serde_json::from_slice(&{ plan }.output().unwrap().stdout).unwrap();
    check_json("try", [&plan]);
    assert_eq!(plan["plan"]["settings"], serde_json::json!(["halt_poll_ns=200000", "halt_poll_ns=0"]));
    assert!(plan["left"].is_null() && !host.state("").exists());
}

#[test]
fn a_terminal_that_has_hung_up_is_no_reason_to_panic() {
    let host = Host::new();
    let (gone, theirs) = UnixStream::pair().unwrap();
    drop(gone);
    let mut trial = host.try_zero(NOISE, &[]);
    let theirs = Stdio::from(OwnedFd::from(theirs));
    let code = trial.stdout(Stdio::null()).stderr(theirs).args(["--alpha", "0"]).status().unwrap().code();
    assert_eq!((code, host.is_restored()), (Some(2), true));
}

/// A trial of a setting of this machine, with a state file of its own, as JSON.
fn real_trial(folder: &Path, setting: &str, metric: &str, flags: &[&str]) -> (Output, Value) {
    let state = folder.join("applied.json");
    let mut arguments =
        vec!["try", setting, "--metric", metric, "--better", "lower", "--no-count", "--yes", "--format", "json"];
    arguments.extend(["--turn", "30ms", "--settle", "1ms", "--for", "6s", "--seed", "33"]);
    arguments.extend(["--state", state.to_str().unwrap()].iter().chain(flags));
    // This machine has one trial at a time, also of other tests.
    let until = Instant::now() + Duration::from_secs(60);
    let mut output = run(&arguments);
    while stderr(&output).contains("settings of this host are being tried") && Instant::now() < until {
        thread::sleep(Duration::from_millis(200));
        output = run(&arguments);
    }
    assert!(!output.stdout.is_empty(), "{}", stderr(&output));
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    check_json("try", [&report]);
    (output, report)
}

#[test]
fn an_effect_that_was_planted_on_a_setting_of_this_machine_is_found_and_none_is_not() {
    // ksmd does not run on machines that do not ask for it, and one page more hardly anything feels.
    let file = Path::new("/sys/kernel/mm/ksm/pages_to_scan");
    let old = fs::read_to_string(file).ok().filter(|_| fs::OpenOptions::new().write(true).open(file).is_ok());
    let old =
        or_skip!(old.ok_or_else(|| skip(Part::Ksm, format!("{} cannot be written by this user", file.display()))));
    let new = (old.trim().parse::<u64>().unwrap() + 1).to_string();
    let (folder, setting) = (tempfile::tempdir().unwrap(), format!("ksm_pages_to_scan={new}"));
    let (output, report) = real_trial(folder.path(), &setting, &planted(file, &new, 1000), &[]);
    assert_eq!(output.status.code(), Some(0), "{report:#}");
    let tried = &report["verdict"]["settings"][0];
    assert_eq!(tried["ruling"], "better");
    let [low, high] = ["low_percent", "high_percent"].map(|bound| tried["effects"][0][bound].as_f64().unwrap());
    // A tenth of 10,127, on average.
    assert!(low < -9.87 && -9.87 < high, "{tried:#}");
    assert_eq!(fs::read_to_string(file).unwrap(), old);
    let (_, report) = real_trial(folder.path(), &setting, &planted(file, &new, 0), &[]);
    let ruling = report["verdict"]["settings"][0]["ruling"].as_str().unwrap();
    assert!(["no_difference", "undecided"].contains(&ruling), "{report:#}");
    assert_eq!(fs::read_to_string(file).unwrap(), old);
}

#[test]
fn affinity_of_a_vcpu_thread_is_tried_and_restored() {
    // A process that has named itself as QEMU names its vCPU threads, and waits.
    let script = "printf 'CPU 0/KVM' > /proc/$$/comm; echo named; read end";
    let mut vm = Command::new("sh");
    let mut vm = vm.args(["-c", script]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let status = PathBuf::from(format!("/proc/{}/status", vm.id()));
    let named = || fs::read_to_string(&status).unwrap().contains("CPU 0/KVM");
    wait_until("the process is named", Duration::from_secs(10), named);
    let allowed = || {
        let status = fs::read_to_string(&status).unwrap();
        status
            .lines()
            .find_map(|line| line.strip_prefix("Cpus_allowed_list:").map(str::trim).map(str::to_string))
            .unwrap()
    };
    let old = allowed();
    let several =
        need(old.contains(['-', ',']), Part::TwoCpus, "this machine has one CPU, so there is no other affinity");
    or_skip!(several.inspect_err(|_| end(&mut vm)));
    let first = old.split(['-', ',']).next().unwrap().to_string();
    let metric = format!(
        "n=$(od -An -N1 -tu1 /dev/urandom); grep -q '^Cpus_allowed_list:.{first}$' {} && n=$((n + 1000)); echo $((10000 + n))",
        status.display()
    );
    let (folder, vm_id) = (tempfile::tempdir().unwrap(), vm.id().to_string());
    let flags = ["--vm", vm_id.as_str()];
    let (output, report) = real_trial(folder.path(), &format!("affinity={first}"), &metric, &flags);
    assert_eq!(output.status.code(), Some(0), "{report:#}");
    assert_eq!(report["verdict"]["settings"][0]["ruling"], "worse");
    assert!(report["places"][0].as_str().unwrap().starts_with("affinity of thread "), "{report:#}");
    assert_eq!(allowed(), old);
    vm.kill().unwrap();
    vm.wait().unwrap();
}
