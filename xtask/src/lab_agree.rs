//! Whether the lab's experiments measure the same of the same programs, on this machine.
//!
//! ```text
//! exitscope_lab::agree: pairs of figures, in turns ─► a table ─► the terminal, and with --write docs/lab-agreement.md
//! ```

use crate::root;
use exitscope_lab::LabMachine;
use exitscope_lab::agree::{self, ALIKE, Agreement, AgreementVerdict};
use exitscope_lab::measure::MeasurePlan;
use exitscope_scenario::findings::{Findings, Unit};
use std::fmt::Write;
use std::time::Duration;

/// Flags of `cargo xtask lab-agree`.
#[derive(clap::Args)]
pub struct Flags {
    /// Milliseconds that each side of a pair is measured for, all rounds together
    #[arg(long, default_value_t = 2_000)]
    duration: u64,
    /// Rounds, in which all pairs take turns
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u32).range(2..=100_000))]
    repeat: u32,
    /// Do not keep threads on CPUs
    #[arg(long)]
    no_pin: bool,
    /// Write docs/lab-agreement.md
    #[arg(long)]
    write: bool,
}

const HEAD: &str = "\
# Do the lab's experiments agree?

Written by `cargo xtask lab-agree --write`; change nothing by hand.

`exitscope lab run` runs any program; `haltpoll`, `yield`, `gang` and `pio` run one each, with a run loop or a dispatcher of their
own. Here each experiment and `lab run` measure the same program with the same settings, in turns. The ratio is that of `lab run`
to the experiment: a geometric mean with a 95 % interval over rounds (Student's t of the logarithms). *Agree*: the interval is
within 10 %. *Differ*: not by chance, at 5 % for all pairs together (Holm). *Open*: neither; the machine is too noisy to tell.

The rows on what polling gains compare a ratio within each side, of which the sign decides what is advised. The two sides of a row
differ in this: `yield` puts 8 vCPUs on 2 threads by the lab's dispatcher, `lab run` gives each vCPU a thread of the kernel's
scheduler; `pio` takes single samples, `lab run` a latency of two steps. KVM's own polls before a halt have no row, as halts of
`lab run` wait in user space.

Each side measures the speed of the guests' compute loop right before its turn. Until 2026-11-29 `lab run` alone did, and on this machine,
busy, it had 0.50 to 0.68 times the locks of `yield` with 2 vCPUs. It was not the speed: with one for both sides it was 0.56 to 0.65
times. Nor the programs: on a quiet moment both had 46,000 to 49,000 locks a second. In turns with fewer locks `lab run` had less CPU time, too.
With the speed measured before each turn of `yield` as well, beside six busy loops, 36 rounds gave a ratio of
1.00 (0.94 to 1.07). So what is computed just before a turn may change how much of a busy CPU its threads get. That is not settled:
`lab run` still makes its guests before its turn.

";

pub fn run(flags: &Flags) -> anyhow::Result<()> {
    let machine = LabMachine::new()?;
    let duration = Duration::from_millis(flags.duration);
    let plan = MeasurePlan { rounds: flags.repeat, duration, pin: !flags.no_pin, progress: None };
    let (all, findings) = agree::run(&machine, &plan)?;
    let text = described(&all, &findings);
    println!("{text}");
    if flags.write {
        std::fs::write(root().join("docs/lab-agreement.md"), format!("{HEAD}{text}"))?;
    }
    Ok(())
}

/// The machine, what comes of all pairs in a sentence, and the table.
fn described(all: &[Agreement], findings: &Findings) -> String {
    let m = &findings.manifest;
    let verdicts = agree::verdicts(all);
    let count = |of: AgreementVerdict| verdicts.iter().filter(|verdict| **verdict == of).count();
    let mut text = format!(
        "{} pairs: {} agree within {:.0} %, {} differ, {} open.\n\n",
        all.len(),
        count(AgreementVerdict::Agree),
        (ALIKE - 1.0) * 100.0,
        count(AgreementVerdict::Differ),
        count(AgreementVerdict::Open)
    );
    let _ = writeln!(
        text,
        "Measured on {}, {} CPUs, KVM's back end {}{}, kernel {}; {} rounds of {} ms a side in all, threads {}.\n",
        m.vendor,
        m.cpus,
        m.back_end,
        if m.emulates_ring_0 { " (emulates ring 0)" } else { "" },
        m.kernel,
        m.rounds,
        m.duration_ns / 1_000_000,
        if m.pinned { "kept on a CPU each where there are enough" } else { "on any CPU" }
    );
    for warning in &findings.warnings {
        let _ = writeln!(text, "- {warning}");
    }
    text += "\n| experiment | program | experiment | `lab run` | ratio | |\n| --- | --- | ---: | ---: | ---: | --- |\n";
    for (pair, verdict) in all.iter().zip(verdicts) {
        let (own, run) = pair.means();
        let ratio =
            pair.ratio().map_or("-".to_string(), |(ratio, (low, high))| format!("{ratio:.2} ({low:.2} to {high:.2})"));
        let said = match verdict {
            AgreementVerdict::Agree => "agree",
            AgreementVerdict::Differ => "**differ**",
            AgreementVerdict::Open => "open",
        };
        let (own, run) = (quantity(pair.unit, own), quantity(pair.unit, run));
        let _ = writeln!(text, "| {} | {} | {own} | {run} | {ratio} | {said} |", pair.experiment, pair.setting);
    }
    text
}

fn quantity(unit: Unit, value: f64) -> String {
    match unit {
        Unit::Nanos => format!("{:.2} us", value / 1e3),
        Unit::PerSecond => format!("{value:.0}/s"),
        _ => format!("{value:.2} times"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair(setting: &str, ratios: &[f64]) -> Agreement {
        let rounds = ratios.iter().map(|ratio| (1_000.0, 1_000.0 * ratio)).collect();
        Agreement { experiment: "pio", setting: setting.to_string(), unit: Unit::PerSecond, rounds }
    }

    #[test]
    fn what_differs_is_said_and_noise_is_neither_agreement_nor_difference() {
        let all = [
            pair("the same", &[1.01, 0.99, 1.0, 1.02]),
            pair("twice", &[2.0, 2.1, 1.9, 2.02]),
            pair("noise", &[0.5, 2.0, 1.4, 0.9]),
            // 4 % less in each round: no chance, and too little to count.
            pair("nearly", &[0.96, 0.961, 0.959, 0.96]),
        ];
        let text = described(&all, &Findings::default());
        assert!(text.starts_with("4 pairs: 2 agree within 10 %, 1 differ, 1 open."), "{text}");
        for (setting, verdict) in
            [("the same", "agree"), ("twice", "**differ**"), ("noise", "open"), ("nearly", "agree")]
        {
            let line = text.lines().find(|line| line.contains(setting)).unwrap();
            assert!(line.ends_with(&format!("| {verdict} |")), "{line}");
        }
        assert!(text.contains("| pio | twice | 1000/s | 2004/s | 2.00 (1.88 to 2.14) |"), "{text}");
    }

    #[test]
    fn one_of_many_pairs_is_not_found_by_its_chance() {
        // p 0.02 by itself: no difference among twenty.
        let weak = pair("weak", &[1.2, 1.5, 1.1, 1.4]);
        assert_eq!(agree::verdicts(std::slice::from_ref(&weak)), [AgreementVerdict::Differ]);
        let mut all = vec![weak];
        all.extend((0..19).map(|_| pair("noise", &[0.7, 1.4, 1.3, 0.8])));
        assert_eq!(agree::verdicts(&all)[0], AgreementVerdict::Open);
    }
}
