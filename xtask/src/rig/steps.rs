//! What runs inside the machine, and what must come out: the kernel's trace has to show what the workload says it did.

use super::{lab, live, trials, waits};
use anyhow::{Context, ensure};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;

/// One thing to run inside, and how to judge it.
#[derive(Clone, Copy)]
pub struct Step<'a> {
    /// What it is called.
    pub name: &'a str,
    /// A line for the shell, in a folder of its own; every file that it leaves there comes out.
    pub line: &'a str,
    /// Judges what came out of a step that exited with 0, and says in a few words what was right.
    pub check: Option<fn(&Outcome) -> anyhow::Result<String>>,
}

/// The steps of `cargo xtask rig x86-svm`.
pub const STEPS: &[Step] = &[
    Step {
        name: "tiny-guest-perf",
        line: "perf record -q -a -N -m 2048 -e 'kvm:*' -o trace -- tiny-guest --repeat 101",
        check: Some(trace_shows_the_tiny_guest),
    },
    Step {
        name: "tiny-guest-trace-cmd",
        line: "trace-cmd record -q -b 8192 -e kvm -o trace tiny-guest --repeat 103",
        check: Some(trace_shows_the_tiny_guest),
    },
    Step { name: "doctor", line: "exitscope doctor --format json", check: Some(lab::doctor_says_svm) },
    Step {
        name: "lab-exits",
        line: "perf record -q -a -N -m 4096 -e 'kvm:*' -o trace -- \
               exitscope lab exits --duration 2ms --repeat 1 --format json",
        check: Some(lab::trace_shows_what_the_guests_executed),
    },
    Step {
        name: "lab-run-ping-pong",
        line: "perf record -q -a -N -m 4096 -e 'kvm:*' -o trace -- \
               exitscope lab run /scenarios/ping-pong.toml --duration 500ms --retries 0 --format json",
        check: Some(lab::trace_shows_the_labs_counts),
    },
    Step {
        name: "lab-run-random-io",
        line: "perf record -q -a -N -m 4096 -e 'kvm:*' -o trace -- \
               exitscope lab run /scenarios/random-io.toml --duration 300ms --retries 0 --format json",
        check: Some(lab::trace_shows_the_labs_counts),
    },
    Step {
        name: "record-perf-kvm-stat",
        line: "exitscope record -o trace -- perf kvm --host stat record -a -o theirs -- tiny-guest --repeat 107 && \
               perf kvm --host -i theirs stat report >theirs.txt 2>&1; \
               perf kvm --host -i trace stat report >ours.txt 2>&1",
        check: Some(live::record_counts_what_perf_counts),
    },
    Step {
        name: "record-no-bpf",
        line: "exitscope record --no-bpf -m 16M -o trace -- tiny-guest --repeat 109",
        check: Some(live::trace_has_the_prime_counts),
    },
    Step {
        name: "top",
        line: "exitscope top --format json >frames & \
               until [ -s frames ]; do sleep 0.2; done; \
               exitscope record -m 16M -o trace -- tiny-guest --repeat 113; \
               seen=$(wc -l <frames); until [ $(wc -l <frames) -gt $((seen + 1)) ]; do sleep 0.2; done; \
               kill $!; wait",
        check: Some(live::top_counts_what_is_recorded),
    },
    Step {
        name: "record-hotplug",
        line: "cpu=/sys/devices/system/cpu/cpu1/online; for flag in '' --no-bpf; do \
               exitscope record $flag -m 16M -o trace$flag -- sh -c \"\
               taskset 2 tiny-guest --repeat 11; echo 0 >$cpu; tiny-guest --repeat 13; echo 1 >$cpu; sleep 1; \
               taskset 2 tiny-guest --repeat 17\" || exit 1; done",
        check: Some(live::a_cpu_that_comes_back_is_recorded),
    },
    Step {
        name: "try-parameter",
        line: "echo 0 >/sys/module/kvm/parameters/halt_poll_ns; mkdir g; exitscope lab guests ping-pong --root g --gap 50us >guests 2>&1 & \
               until grep -qs '[1-9]' g/throughput; do sleep 0.2; done; \
               exitscope try halt_poll_ns=5ms --vm $! --turn 150ms --settle 50ms --for 12s --yes --seed 1 \
               --metric-file g/throughput --state applied.json --format json; \
               ended=$?; cat /sys/module/kvm/parameters/halt_poll_ns >after; kill $!; wait; \
               echo 200000 >/sys/module/kvm/parameters/halt_poll_ns; [ $ended = 0 ] || [ $ended = 2 ]",
        check: Some(trials::the_parameter_is_tried_and_restored),
    },
    Step {
        name: "try-delay",
        line: "mkdir g; exitscope lab guests ping-pong --root g --gap 50us >guests 2>&1 & \
               until grep -qs '[1-9]' g/throughput; do sleep 0.2; done; \
               exitscope try --delay 10us --vm $! --turn 150ms --settle 50ms --for 12s --yes --seed 1 \
               --metric-file g/throughput --state applied.json --format json; \
               ended=$?; kill $!; wait; [ $ended = 0 ] || [ $ended = 2 ]",
        check: Some(trials::exits_in_the_kernel_are_delayed),
    },
    Step {
        name: "waits-pending",
        line: "exitscope record -m 16M -o trace -- tiny-guest --pending --repeat 11",
        check: Some(waits::halts_that_found_an_event_pending),
    },
    Step {
        name: "waits-sleep",
        line: "exitscope record -m 16M -o trace -- tiny-guest --sleep 100",
        check: Some(waits::halts_of_a_known_length),
    },
    Step {
        name: "waits-stop",
        line: "exitscope record -m 16M -o trace -- tiny-guest --stop 500",
        check: Some(waits::stops_of_a_known_length),
    },
    Step {
        name: "buffer-gone",
        line: "trace-cmd record -q -b 8192 --file-version 6 -e kvm -o trace \
               sh -c 'taskset 1 tiny-guest --repeat 37; taskset 2 tiny-guest --repeat 41'",
        check: Some(waits::nothing_stands_in_for_a_buffer_that_is_gone),
    },
];

impl Step<'_> {
    /// The name of its script and of its folder; `at` is its place among the steps.
    pub fn id(&self, at: usize) -> String {
        format!("{at:02}-{}", self.name)
    }
}

/// What a step left.
pub struct Outcome<'a> {
    /// The step.
    pub step: &'a Step<'a>,
    /// Where its files are.
    pub folder: PathBuf,
    /// Its exit code.
    pub code: u8,
    /// How long it took, in seconds.
    pub took: u64,
    /// What it printed.
    pub stdout: Vec<u8>,
    /// What it complained of.
    pub stderr: Vec<u8>,
    /// The command that its traces are read with.
    exitscope: &'a Path,
}

impl<'a> Outcome<'a> {
    /// Reads what `step` left in `folder`; fails if it did not come to its end.
    pub fn read(folder: &Path, step: &'a Step, exitscope: &'a Path) -> anyhow::Result<Outcome<'a>> {
        let read = |name: &str| std::fs::read(folder.join(name)).with_context(|| format!("{}: {name}", step.name));
        let number = |name: &str| anyhow::Ok(String::from_utf8_lossy(&read(name)?).trim().parse::<u64>()?);
        let (code, took) = (number("code")?.try_into()?, number("took")?);
        let (stdout, stderr) = (read("stdout")?, read("stderr")?);
        Ok(Outcome { step, folder: folder.to_path_buf(), code, took, stdout, stderr, exitscope })
    }

    /// Judges it.
    pub fn check(&self) -> anyhow::Result<String> {
        let stderr = String::from_utf8_lossy(&self.stderr);
        ensure!(self.code == 0, "`{}` exited with {}: {}", self.step.line, self.code, stderr.trim());
        self.step.check.map_or(Ok("exited with 0".to_string()), |check| check(self))
    }

    /// What it printed, where that is JSON.
    pub fn json(&self) -> anyhow::Result<Value> {
        serde_json::from_slice(&self.stdout).with_context(|| format!("what `{}` printed", self.step.line))
    }

    /// What `exitscope report` counts in one of its files. A trace that is not whole is no evidence.
    pub fn report(&self, name: &str) -> anyhow::Result<Report> {
        Ok(Report(serde_json::from_slice(&self.read_with(&["report", "--fail-on", "lost>0"], name)?)?))
    }

    /// The same, whatever is missing.
    pub fn report_of_damaged(&self, name: &str) -> anyhow::Result<Report> {
        Ok(Report(serde_json::from_slice(&self.read_with(&["report"], name)?)?))
    }

    /// The events of one of its files.
    pub fn events(&self, name: &str) -> anyhow::Result<Vec<Value>> {
        let lines = self.read_with(&["events"], name)?;
        Ok(serde_json::Deserializer::from_slice(&lines).into_iter().collect::<Result<_, _>>()?)
    }

    fn read_with(&self, command: &[&str], name: &str) -> anyhow::Result<Vec<u8>> {
        let path = self.folder.join(name);
        let output = Command::new(self.exitscope).args(command).args(["--format", "json"]).arg(&path).output()?;
        let complaint = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "exitscope {} {}: {}", command[0], path.display(), complaint.trim());
        Ok(output.stdout)
    }

    /// How many page faults of guests at these guest-physical addresses are in one of its files.
    pub fn page_faults(&self, name: &str, addresses: &std::ops::Range<u64>) -> anyhow::Result<u64> {
        let is_there = |event: &Value| event["value"].as_u64().is_some_and(|address| addresses.contains(&address));
        let events = self.events(name)?;
        let faults = events.iter().filter(|event| event["event"] == "kvm:kvm_page_fault" && is_there(event));
        Ok(faults.count() as u64)
    }
}

/// What `exitscope report --format json` prints.
pub struct Report(Value);

impl Report {
    /// The reasons that exits have.
    pub fn reasons(&self) -> impl Iterator<Item = &str> {
        self.0["rows"].as_array().into_iter().flatten().filter_map(|row| row["reason"].as_str())
    }

    /// The exits of a reason.
    pub fn of(&self, reason: &str) -> u64 {
        self.sum("rows", |row| row["reason"] == reason)
    }

    /// The exits that were about those ports or addresses for which `wanted` says so.
    pub fn about(&self, kind: &str, wanted: impl Fn(u64, &str) -> bool) -> u64 {
        self.sum("subjects", |row| {
            let (key, direction) = (row["subject_key"].as_u64(), row["direction"].as_str());
            row["subject_kind"] == kind && key.zip(direction).is_some_and(|(key, direction)| wanted(key, direction))
        })
    }

    /// The time from exit to entry of a reason's exits, in nanoseconds.
    pub fn time_of(&self, reason: &str) -> u64 {
        self.sum_of("exit_time_ns", "rows", |row| row["reason"] == reason)
    }

    /// The same of all exits.
    pub fn time_of_all(&self) -> u64 {
        self.sum_of("exit_time_ns", "rows", |_| true)
    }

    /// Of these lengths of a reason's exits, in nanoseconds, by their columns, all together.
    pub fn parts_of(&self, reason: &str, columns: &[&str]) -> u64 {
        columns.iter().map(|column| self.sum_of(column, "rows", |row| row["reason"] == reason)).sum()
    }

    /// How long all vCPUs were stopped, in nanoseconds.
    pub fn stopped(&self) -> u64 {
        self.sum_of("stopped_ns", "vcpus", |_| true)
    }

    fn sum(&self, list: &str, wanted: impl Fn(&Value) -> bool) -> u64 {
        self.sum_of("count", list, wanted)
    }

    fn sum_of(&self, what: &str, list: &str, wanted: impl Fn(&Value) -> bool) -> u64 {
        let rows = self.0[list].as_array().map(Vec::as_slice).unwrap_or_default();
        rows.iter().filter(|row| wanted(row)).filter_map(|row| row[what].as_u64()).sum()
    }
}

/// `trace` has what tiny-guest says that it did: every port access is an exit of reason io and every halt one of reason
/// hlt, and there are no others. An MMIO write is a nested page fault, and so is the first touch of a page of memory,
/// which the guest does not know of; therefore MMIO is counted by address.
fn trace_shows_the_tiny_guest(outcome: &Outcome) -> anyhow::Result<String> {
    let stdout = String::from_utf8_lossy(&outcome.stdout);
    let said = stdout.lines().find(|line| line.starts_with("out ")).context("tiny-guest printed no counts")?;
    let words: Vec<&str> = said.split(' ').collect();
    let count = |name: &str| -> anyhow::Result<u64> {
        let pair =
            words.chunks(2).find(|pair| pair[0] == name).with_context(|| format!("no count of {name}: {said}"))?;
        Ok(pair.get(1).context("a count has a number")?.parse()?)
    };
    let (out, r#in, mmio, hlt) = (count("out")?, count("in")?, count("mmio_write")?, count("hlt")?);
    ensure!(hlt > 0, "the guest did nothing");

    let report = outcome.report("trace")?;
    let at = |kind: &str, at: u64, way: &str| report.about(kind, |key, direction| (key, direction) == (at, way));
    equal(&[
        ("exits of reason io", report.of("io"), out + r#in),
        ("exits of reason hlt", report.of("hlt"), hlt),
        ("writes to port 0x10", at("port", 0x10, "out"), out),
        ("reads of port 0x11", at("port", 0x11, "in"), r#in),
        ("writes to 0x8000", at("mmio", 0x8000, "write"), mmio),
    ])?;
    ensure!(report.of("npf") >= mmio, "{} exits of reason npf for {mmio} MMIO writes", report.of("npf"));
    Ok(format!("the trace shows the guest's {said}"))
}

/// Every first number is as the second.
pub fn equal<S: std::fmt::Display>(counts: &[(S, u64, u64)]) -> anyhow::Result<()> {
    let unequal = counts.iter().filter(|(_, found, expected)| found != expected);
    let said: Vec<String> = unequal.map(|(what, found, expected)| format!("{found} {what}, not {expected}")).collect();
    ensure!(said.is_empty(), "{}", said.join("; "));
    Ok(())
}
