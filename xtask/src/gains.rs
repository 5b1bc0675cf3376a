//! Whether what `exitscope advise` says that a change wins is what it would win, in made recordings of which the truth is known.
//!
//! ```text
//! seed ─► guests, their exits, waits for CPUs ─┬─► ftrace text ─► exitscope advise ─► low, headline ─┐
//!                                              └─► what the change spares ───────────────────────────┴─► rows of docs/gains.md
//! ```
//!
//! The recordings share no code with the rules: what a change spares is known of each exit as it is made.

mod cases;
mod made_trace;

use crate::{cargo, root, target};
use anyhow::{Context, ensure};
use cases::{CASES, GainCase, Habits, Turn};
use made_trace::{Lengths, MadeExit, MadeTrace, MadeVcpu, Taken};
use rand::Rng;
use rand_pcg::Pcg64;
use serde::Deserialize;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Recordings of each cause.
const RECORDINGS: u64 = 100;

/// Of a hundred recordings, the truth is not below the lower bound in so many at least, and the headline is within a factor of
/// [`FACTOR`] of the truth in so many.
const SURE: f64 = 95.0;
const NEAR: f64 = 80.0;
const FACTOR: f64 = 2.0;

/// Of bounds that are the truth itself, rounding decides: times have nanoseconds, gains a second.
const ROUNDING: f64 = 1.0001;

/// The VM that makes the exits of the cause; others are beside it.
const PID: u32 = 4000;

const HEAD: &str = "\
# Gains

Written by `cargo xtask gains`; change nothing by hand.

What `exitscope advise` says that a change wins, held against what it would win. Each row is of made recordings: 1 to 4 VMs of 1
to 4 vCPUs, rates and lengths drawn anew for each, lengths lognormal or with Pareto's tail, halts and exits for other causes
beside. In most recordings another task takes the CPU within a part of the exits, for 0.1 to 1 ms in the median. Half of the
recordings have `sched_switch`, which says so. The truth is what the exits of the cause take by themselves, without waits for a
CPU, less those that stay and less what takes their place.

*Sure*: the truth is not below the lower bound; 95 of 100 are wanted. *Near*: the headline is within a factor of two of the truth;
80 of 100 are wanted. *With* and *without* are recordings that have `sched_switch`, and that do not. The last columns are the
median of the headline's ratio to the truth.

The lower bound counts each exit with one median at most. Where waits are not told apart, the headline counts each with two at most:
fewer lose the tail of lengths, more count waits. What the kernel takes in the place of user space, where the recording has no such
access to compare with, is the simulator's, whose hosts are others than these.

";

/// Flags of `cargo xtask gains`.
#[derive(clap::Args)]
pub struct Flags {
    /// Only causes whose name has this in it; then nothing is written
    only: Option<String>,
    /// Where the random numbers begin
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Take this program instead of building one; then nothing is written
    #[arg(long, value_name = "PROGRAM")]
    built: Option<PathBuf>,
    /// Keep the recordings in this folder
    #[arg(long, value_name = "FOLDER")]
    keep: Option<PathBuf>,
}

/// What `exitscope advise --format json` says, as far as it is held against the truth.
#[derive(Deserialize)]
struct Advised {
    advice: Vec<AdvisedChange>,
}

#[derive(Deserialize)]
struct AdvisedChange {
    id: String,
    gain: AdvisedGain,
}

#[derive(Clone, Copy, Deserialize)]
struct AdvisedGain {
    low_ns_per_s: u64,
    headline_ns_per_s: u64,
}

/// A recording, and what is true of it.
struct Made {
    text: String,
    /// What the change wins, in nanoseconds of each second.
    truth: f64,
    has_switches: bool,
}

/// A recording that was judged.
struct Judged {
    gain: Option<AdvisedGain>,
    truth: f64,
    has_switches: bool,
}

/// Judges recordings of each cause, and prints and writes the table.
pub fn run(flags: &Flags) -> anyhow::Result<()> {
    let program = match &flags.built {
        Some(program) => program.clone(),
        None => {
            ensure!(
                cargo()?.args(["build", "--quiet", "--package", "exitscope"]).status()?.success(),
                "it does not build"
            );
            target()?.join("debug/exitscope")
        }
    };
    let folder = tempfile::tempdir()?;
    let folder = flags.keep.as_deref().unwrap_or(folder.path());
    let is_asked = |case: &&GainCase| flags.only.as_ref().is_none_or(|only| case.name.contains(only.as_str()));
    let mut rows = Vec::new();
    for case in CASES.iter().filter(is_asked) {
        let judged: anyhow::Result<Vec<Judged>> =
            (0..RECORDINGS).map(|number| judge(case, number, flags.seed, &program, folder)).collect();
        rows.push(Row::of(case.name, &judged?));
    }
    let table = table(&rows, flags.seed);
    print!("{table}");
    if flags.only.is_none() && flags.built.is_none() {
        std::fs::write(root().join("docs/gains.md"), HEAD.to_string() + &table)?;
    }
    let below: Vec<&str> = rows.iter().filter(|row| !row.is_enough()).map(|row| row.name).collect();
    ensure!(below.is_empty(), "not as sure or as near as wanted: {}", below.join(", "));
    Ok(())
}

fn judge(case: &GainCase, number: u64, seed: u64, program: &Path, folder: &Path) -> anyhow::Result<Judged> {
    let Made { text, truth, has_switches } = make(case, number, seed);
    let path = folder.join(format!("{}-{number}.txt", case.advice.replace('/', "-")));
    std::fs::write(&path, text)?;
    let output = Command::new(program).args(["advise", "--format", "json"]).arg(&path).output()?;
    ensure!(output.status.success(), "{}: {}", path.display(), String::from_utf8_lossy(&output.stderr).trim());
    let advised: Advised = serde_json::from_slice(&output.stdout).with_context(|| path.display().to_string())?;
    let id = format!("vm/{PID}/{}", case.advice);
    let gain = advised.advice.iter().find(|change| change.id == id).map(|change| change.gain);
    Ok(Judged { gain, truth, has_switches })
}

/// A recording: the same for the same seed.
fn make(case: &GainCase, number: u64, seed: u64) -> Made {
    let case_number = CASES.iter().position(|of| of.name == case.name).unwrap_or_default() as u64;
    let rng = &mut Pcg64::new(u128::from(seed) << 64 | u128::from(case_number << 32 | number), 0);
    let has_switches = number.is_multiple_of(2);
    let part = if rng.random::<f64>() < 0.2 { 0.0 } else { rng.random_range(0.0..0.3) };
    let wait = log_uniform(rng, 100e3, 1e6);
    let taken = Taken { part, lengths: Lengths::lognormal(wait, 0.7), is_recorded: has_switches };
    let mut trace = MadeTrace::new(taken);
    let habits = habits(rng);
    // What each request takes, as a part of the time beside it.
    let mean_guest = log_uniform(rng, 20e3, 200e3);
    let length = rng.random_range(300_000_000..500_000_000);
    let has_cheap_ones = rng.random::<f64>() < 0.5;
    let mut truth = 0;
    let mut cpu = 0;
    for vm in 0..rng.random_range(1..=4) {
        let pid = PID + 100 * vm;
        for number in 0..rng.random_range(1..=4) {
            let at = rng.random_range(0..100_000);
            let mut vcpu = MadeVcpu { pid, tid: pid + 1 + number, number, cpu, at };
            cpu += 1;
            trace.begin(&vcpu);
            while vcpu.at < length {
                trace.run_guest(&mut vcpu, if vm == 0 { mean_guest } else { 400e3 }, rng);
                let turn = &mut Turn { trace: &mut trace, vcpu: &mut vcpu, habits: &habits, rng };
                if vm > 0 || turn.rng.random::<f64>() < 0.2 {
                    beside(turn, has_cheap_ones);
                } else {
                    truth += (case.turn)(turn);
                }
            }
        }
    }
    let truth = truth as f64 * 1e9 / trace.span(PID).max(1) as f64;
    Made { text: trace.text(), truth, has_switches }
}

fn log_uniform(rng: &mut Pcg64, low: f64, high: f64) -> f64 {
    (rng.random_range(low.ln()..high.ln())).exp()
}

fn habits(rng: &mut Pcg64) -> Habits {
    let user = log_uniform(rng, 5e3, 40e3);
    let kernel = log_uniform(rng, 1.5e3, 5e3);
    let mut tail = |median| match rng.random::<bool>() {
        true => Lengths::lognormal(median, rng.random_range(0.2..1.0)),
        false => Lengths::pareto(median, rng.random_range(1.5..3.5)),
    };
    let (kernel, user) = (tail(kernel), tail(user));
    let in_kernel = Lengths::lognormal(log_uniform(rng, 1.2e3, 2.5e3), 0.3);
    Habits { kernel, user, in_kernel, mix: rng.random_range(0.0..0.4), kind: rng.random() }
}

/// An exit for another cause; of the kind that the cause's may become, where there are such.
fn beside(turn: &mut Turn<'_>, has_cheap_ones: bool) {
    let Turn { trace, vcpu, habits, rng } = turn;
    let (reason, about) = match rng.random_range(0..if has_cheap_ones { 6 } else { 3 }) {
        0 => return trace.halt(vcpu, rng),
        1 => ("CPUID", "kvm_cpuid: func 1 idx 0 rax 1 rbx 1 rcx 1 rdx 1, cpuid entry found"),
        2 => ("EXTERNAL_INTERRUPT", ""),
        3 => ("EPT_MISCONFIG", "kvm_fast_mmio: fast mmio at gpa 0xfe800000"),
        4 => ("EPT_MISCONFIG", "kvm_mmio: mmio write len 4 gpa 0xfe900000 val 0x10"),
        _ => ("IO_INSTRUCTION", "kvm_pio: pio_write at 0xc050 size 2 count 1 val 0x0 "),
    };
    let exit = MadeExit { reason, about, user_space: None, is_read: false };
    let kernel = habits.in_kernel.draw(rng);
    trace.exit(vcpu, &exit, (kernel, 0), rng);
}

/// What came of a cause's recordings.
struct Row {
    name: &'static str,
    recordings: usize,
    advised: usize,
    sure: usize,
    /// Near the truth, of so many: with the scheduler's events, and without.
    near: [(usize, usize); 2],
    /// The median of the headline's ratio to the truth, with and without them.
    ratio: [f64; 2],
}

impl Row {
    fn of(name: &'static str, judged: &[Judged]) -> Row {
        let said = |judged: &Judged| judged.gain.map(|gain| (gain, judged.truth));
        let sure = |(gain, truth): &(AdvisedGain, f64)| gain.low_ns_per_s as f64 <= truth * ROUNDING;
        let ratios = |has_switches: bool| -> Vec<f64> {
            let of = judged.iter().filter(|judged| judged.has_switches == has_switches).filter_map(said);
            let mut ratios: Vec<f64> = of.map(|(gain, truth)| gain.headline_ns_per_s as f64 / truth).collect();
            ratios.sort_by(f64::total_cmp);
            ratios
        };
        let is_near = |ratio: &&f64| (1.0 / FACTOR..=FACTOR).contains(*ratio);
        let ratios = [true, false].map(ratios);
        Row {
            name,
            recordings: judged.len(),
            advised: judged.iter().filter_map(said).count(),
            sure: judged.iter().filter_map(said).filter(sure).count(),
            near: ratios.each_ref().map(|ratios| (ratios.iter().filter(is_near).count(), ratios.len())),
            ratio: ratios.each_ref().map(|ratios| ratios.get(ratios.len() / 2).copied().unwrap_or(f64::NAN)),
        }
    }

    fn near(&self) -> usize {
        self.near.iter().map(|of| of.0).sum()
    }

    /// Whether it is as often right as wanted; a cause that is never advised is not.
    fn is_enough(&self) -> bool {
        let percent = |part: usize| 100.0 * part as f64 / self.advised as f64;
        percent(self.sure) >= SURE && percent(self.near()) >= NEAR
    }
}

fn table(rows: &[Row], seed: u64) -> String {
    let mut text =
        "| cause | recordings | advised | sure | near | near, with | near, without | ratio, with | ratio, without |\n\
                    | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |\n"
            .to_string();
    for row in rows {
        let Row { name, recordings, advised, sure, near: [with, without], ratio: [exact, robust] } = row;
        let _ = writeln!(
            text,
            "| {name} | {recordings} | {advised} | {sure} | {} | {} of {} | {} of {} | {exact:.2} | {robust:.2} |",
            row.near(),
            with.0,
            with.1,
            without.0,
            without.1
        );
    }
    let _ = writeln!(text, "\n`cargo xtask gains --seed {seed}`");
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    /// A number of nanoseconds, as `1000.000020795:`.
    fn nanos(stamp: &str) -> u64 {
        stamp.trim_end_matches(':').replace('.', "").parse().unwrap()
    }

    /// What exits about `port` take by themselves, by the lines alone, without the time of a switch away and back.
    fn own(text: &str, port: &str) -> u64 {
        let (mut open, mut away) = (BTreeMap::new(), BTreeMap::new());
        let mut own = 0;
        for line in text.lines().filter(|line| line.contains(": ")) {
            let words: Vec<&str> = line.split_whitespace().collect();
            let cpu = words.iter().position(|word| word.starts_with('[')).unwrap();
            let (cpu, at, event) = (words[cpu], nanos(words[cpu + 2]), words[cpu + 3]);
            match event {
                "kvm_exit:" => _ = open.insert(cpu, (at, 0, false)),
                "kvm_pio:" => open.get_mut(cpu).unwrap().2 = line.contains(port),
                "sched_switch:" if line.contains("next_comm=stress") => _ = away.insert(cpu, at),
                "sched_switch:" if line.contains("prev_comm=stress") => open.get_mut(cpu).unwrap().1 += at - away[cpu],
                "kvm_entry:" => {
                    let exit = open.remove(cpu).filter(|exit| exit.2);
                    own += exit.map_or(0, |(from, waited, _)| at - from - waited);
                }
                _ => {}
            }
        }
        own
    }

    #[test]
    fn what_is_true_of_a_recording_is_what_its_lines_say() {
        let case = CASES.iter().find(|case| case.name == "keyboard controller").unwrap();
        let mut waits = 0;
        for number in [0, 2, 4, 6] {
            let made = make(case, number, 1);
            assert_eq!(made.text, make(case, number, 1).text, "the same for the same seed");
            let of_vm: String =
                made.text.lines().filter(|line| is_of_first_vm(line)).map(|line| format!("{line}\n")).collect();
            let stamps = of_vm.lines().filter(|line| line.contains("(4000)")).map(|line| {
                nanos(line.split_whitespace().find(|word| word.ends_with(':') && word.contains('.')).unwrap())
            });
            let (first, last) = stamps.fold((u64::MAX, 0), |(first, last), at| (first.min(at), last.max(at)));
            let truth = own(&of_vm, "0x64") as f64 * 1e9 / (last - first) as f64;
            assert!((truth / made.truth - 1.0).abs() < 1e-6, "{truth} {}", made.truth);
            waits += of_vm.matches("next_comm=stress").count();
        }
        assert!(waits > 0);
    }

    /// The first VM's vCPUs, and who takes their CPUs.
    fn is_of_first_vm(line: &str) -> bool {
        line.contains("(4000)") || line.contains("next_pid=400")
    }

    #[test]
    fn a_cause_is_enough_where_bounds_hold_and_headlines_are_near() {
        let judged = |low, headline, truth, has_switches| Judged {
            gain: Some(AdvisedGain { low_ns_per_s: low, headline_ns_per_s: headline }),
            truth,
            has_switches,
        };
        let good: Vec<Judged> = (0..100).map(|number| judged(100, 150, 100.0, number % 2 == 0)).collect();
        let row = Row::of("good", &good);
        assert_eq!((row.advised, row.sure, row.near(), row.near), (100, 100, 100, [(50, 50), (50, 50)]));
        assert!(row.is_enough());
        let with = |bad: usize, of: fn(&mut Judged)| {
            let mut all: Vec<Judged> = (0..100).map(|_| judged(100, 150, 100.0, true)).collect();
            all[..bad].iter_mut().for_each(of);
            Row::of("", &all).is_enough()
        };
        let unsure = |judged: &mut Judged| judged.gain.as_mut().unwrap().low_ns_per_s = 101;
        let far = |judged: &mut Judged| judged.gain.as_mut().unwrap().headline_ns_per_s = 201;
        assert_eq!((with(5, unsure), with(6, unsure)), (true, false));
        assert_eq!((with(20, far), with(21, far)), (true, false));
        assert!(!with(100, |judged| judged.gain = None), "never advised");
    }
}
