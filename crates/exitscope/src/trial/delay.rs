//! `exitscope try --delay`: one VM's exits are delayed on purpose, and the metric's slope over the delays is told.
//!
//! ```text
//! flags ─► DelayedExits, TrialPlan ─► shown ─► yes? ─► ExitDelay ─► run_turns ─► slope
//! ```
//!
//! No watchdog: the program that delays ends with this process, and its lease with a process that hangs. The lock is that of
//! other trials, which these delays would disturb.

use super::{agreed, hand_on, lock, measured, now, say_missed, seed, write_json, write_rules};
use crate::Outcome;
use crate::terminal::terminal_style;
use crate::trial_args::{Delays, TryArgs};
use anyhow::bail;
use exitscope_apply::{HostLimits, default_path, host_name};
use exitscope_measure::{DELAY_METRIC, DelayGuard, DelayedVm, GuardedHost, TurnMetrics};
use exitscope_model::encode::message;
use exitscope_record::{DelayedExits, ExitDelay, Processes};
use exitscope_trial::{Better, HostTrial, TrialPlan, TrialRules, TrialVerdict, run_turns};
use exitscope_view::{TrialLeftRow, TrialReport, trial_causes_page, trial_delays_page, write_page};
use std::io::Write;
use std::time::Instant;

pub fn run(args: &TryArgs, delays: &Delays, asks: bool, out: &mut dyn Write) -> anyhow::Result<Outcome> {
    let vm = args.vm.as_deref().unwrap_or_default();
    let Some(source) = args.source().map_err(anyhow::Error::msg)? else {
        bail!(
            "--delay needs a metric of the workload (--metric, --metric-file or --metric-query): the cost of exits \
             rises with every delay"
        );
    };
    let delayed = DelayedVm::find(vm, args.reason.as_deref(), &delays.0)?;
    let state = args.state.clone().unwrap_or_else(default_path);
    let lock = lock(args, &state, out)?;
    // Counting begins before the program that delays: programs run in that order, and delays are to be within exits.
    let measured = measured(args, Some(source), &Processes::These(vec![delayed.process]), lock.is_some())?;
    let metrics = measured.list(args.better.map(Better::from), Some(DelayGuard::metric()));
    let limits = args.metric_limits(&metrics)?;
    let host_limits = args.host_limits()?;
    let plan =
        TrialPlan::of_doses(delayed.labels(), args.lengths(), args.alpha / 100.0, args.seed.unwrap_or_else(seed))?;
    let rules = TrialRules { metrics, matters: args.matters, limits };
    let mut trial = HostTrial::of_delays(plan, rules, DELAY_METRIC);
    if args.is_text() {
        write_plan(args, &delayed, &trial, &measured, &host_limits, out)?;
        out.flush()?;
    }
    let decided_by = measured.decided_by();
    let report = |trial: &HostTrial, guard: Option<&DelayGuard>| {
        delayed.report(&host_name(&args.root), decided_by.clone(), trial, guard)
    };
    if lock.is_none() {
        if !args.is_text() {
            write_json(&report(&trial, None), out)?;
        }
        return Ok(Outcome::Fine);
    }
    let number = delayed.reason.and_then(|reason| u32::try_from(reason.number).ok());
    let delay = ExitDelay::start(delayed.process, delayed.exits, number)?;
    if asks && !agreed(out)? {
        writeln!(out, "nothing was delayed")?;
        return Ok(Outcome::Failed);
    }
    let began = now();
    let blocks = trial.plan().blocks.len();
    let mut host = GuardedHost {
        guard: DelayGuard::new(delay, &delayed.delays, &args.root, host_limits),
        metrics: measured,
        setting: 0,
        began: Instant::now(),
        blocks,
        out: args.is_text().then_some(&mut *out),
    };
    run_turns(&mut trial, &mut host);
    let GuardedHost { guard, metrics, .. } = host;
    say_missed(&metrics);
    let mut report = report(&trial, Some(&guard));
    // The program ends here.
    drop(guard);
    report.began = began;
    report.left =
        Some(TrialLeftRow { done: vec!["no exit is delayed any more".to_string()], ..TrialLeftRow::default() });
    report.causes = metrics.causes();
    let verdict = trial.verdict();
    hand_on(args, &state, &report, out, |out| write_verdict(&verdict, &report, out))?;
    Ok(if verdict.is_judged() { Outcome::Fine } else { Outcome::Failed })
}

fn write_plan(
    args: &TryArgs,
    delayed: &DelayedVm,
    trial: &HostTrial,
    measured: &TurnMetrics,
    host_limits: &HostLimits,
    out: &mut dyn Write,
) -> anyhow::Result<()> {
    let longest = delayed.delays.last().copied().unwrap_or_default();
    writeln!(out, "Trial on {}", host_name(&args.root))?;
    writeln!(
        out,
        "this slows the VM {} down on purpose, by up to {longest} in each exit that is delayed",
        message(&delayed.vm)
    )?;
    writeln!(out, "delayed: {}", delayed.text())?;
    match (delayed.exits, DelayedExits::All.check()) {
        (DelayedExits::ToUserSpace, Err(why)) => writeln!(out, "not delayed: exits that stay in the kernel: {why}")?,
        (DelayedExits::ToUserSpace, Ok(())) => writeln!(out, "not delayed: exits that stay in the kernel")?,
        (DelayedExits::All, _) => writeln!(
            out,
            "where kvm_exit is traced with interrupts disabled, interrupts of the host and other threads wait during \
             a delay"
        )?,
    }
    let (share, lease) = (ExitDelay::MAX_SHARE, ExitDelay::LEASE);
    writeln!(out, "bounds, kept by the kernel: {share}% of each vCPU's time, {} an exit", ExitDelay::MAX_DELAY)?;
    write!(out, "{}", trial.plan())?;
    let matters =
        format!("the slope is measured to within a quarter of it; below {}% per 1us it does not matter", args.matters);
    write_rules(args, &matters, trial, measured, host_limits, out)?;
    writeln!(out, "at the end: delays stop; if this command dies, they stop at once; if it hangs, within {lease}")?;
    Ok(())
}

fn write_verdict(verdict: &TrialVerdict, report: &TrialReport, out: &mut dyn Write) -> anyhow::Result<()> {
    writeln!(out)?;
    if let Some(why) = verdict.not_judged() {
        writeln!(out, "not judged: {why}")?;
    }
    if let Some(row) = &report.sensitivity {
        writeln!(out, "{}", row.text)?;
    }
    let end = verdict.end.as_ref().map_or_else(|| "the trial is not over".to_string(), |end| end.to_string());
    writeln!(out, "{} blocks in {}: {end}", verdict.blocks, verdict.took)?;
    for line in report.left.iter().flat_map(|left| &left.done) {
        writeln!(out, "{line}")?;
    }
    writeln!(out)?;
    write_page(&trial_delays_page(report), terminal_style(), out)?;
    if !report.causes.is_empty() {
        writeln!(out)?;
    }
    Ok(write_page(&trial_causes_page(report), terminal_style(), out)?)
}
