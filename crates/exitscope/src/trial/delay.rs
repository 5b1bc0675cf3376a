//! `exitscope try --delay`: one VM's exits are delayed on purpose, and the metric's slope over the delays is told.
//!
//! ```text
//! flags ─► DelayedExits, TrialPlan ─► shown ─► yes? ─► ExitDelay ─► run_turns ─► slope
//! ```
//!
//! No watchdog: the program that delays ends with this process, and its lease with a process that hangs. The lock is that of
//! other trials, which these delays would disturb.

use super::{agreed, lock, now, say_missed, seed, start_counting, write_json, write_rules};
use crate::Outcome;
use crate::report::terminal_style;
use crate::trial_args::{Delays, TryArgs};
use anyhow::bail;
use exitscope_apply::{HostLimits, default_path, host_name};
use exitscope_measure::{CountedMetrics, DELAY_METRIC, DelayGuard, DelayedVm, GuardedHost};
use exitscope_model::encode::message;
use exitscope_record::{DelayedExits, ExitDelay, Processes};
use exitscope_trial::{Better, HostTrial, TrialMetric, TrialPlan, TrialRules, TrialVerdict, run_turns};
use exitscope_view::{TrialLeftRow, TrialReport, trial_causes_page, trial_delays_page, write_page};
use std::io::Write;
use std::time::Instant;

pub fn run(args: &TryArgs, delays: &Delays, asks: bool, out: &mut dyn Write) -> anyhow::Result<Outcome> {
    let vm = args.vm.as_deref().unwrap_or_default();
    let Some(source) = args.source().map_err(anyhow::Error::msg)? else {
        bail!(
            "--delay needs a metric that it can change: --metric, --metric-file or --metric-query names one; exits cost more with each delay"
        );
    };
    let decided_by = source.text();
    let delayed = DelayedVm::find(vm, args.reason.as_deref(), &delays.0)?;
    let lock = lock(args, &args.state.clone().unwrap_or_else(default_path), out)?;
    // Counting begins before the program that delays: programs run in that order, and delays are to be within exits.
    let live = match lock {
        Some(_) => start_counting(args, &Processes::These(vec![delayed.process]), true)?,
        None => None,
    };
    let mut metrics = vec![source.metric(args.better.map(Better::from)), DelayGuard::metric()];
    metrics.extend(live.is_some().then(CountedMetrics::metrics).into_iter().flatten());
    let limits = args.metric_limits(&metrics)?;
    let host_limits = args.host_limits()?;
    let plan =
        TrialPlan::of_doses(delayed.labels(), args.lengths(), args.alpha / 100.0, args.seed.unwrap_or_else(seed))?;
    let rules = TrialRules { metrics: metrics.clone(), matters: args.matters, limits };
    let mut trial = HostTrial::of_delays(plan, rules, DELAY_METRIC);
    if args.is_text() {
        write_plan(args, &delayed, &trial, &decided_by, (&metrics, live.as_ref()), &host_limits, out)?;
        out.flush()?;
    }
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
        metric: Some(source),
        counted: live,
        setting: 0,
        began: Instant::now(),
        blocks,
        out: args.is_text().then_some(&mut *out),
    };
    run_turns(&mut trial, &mut host);
    let GuardedHost { guard, counted, .. } = host;
    say_missed(counted.as_ref());
    let mut report = report(&trial, Some(&guard));
    // The program ends here.
    drop(guard);
    report.began = began;
    report.left =
        Some(TrialLeftRow { kept: false, done: vec!["no exit is delayed any more".to_string()], failed: Vec::new() });
    report.causes = counted.as_ref().map(CountedMetrics::causes).unwrap_or_default();
    let verdict = trial.verdict();
    match args.is_text() {
        true => write_verdict(&verdict, &report, out)?,
        false => write_json(&report, out)?,
    }
    Ok(if verdict.is_judged() { Outcome::Fine } else { Outcome::Failed })
}

fn write_plan(
    args: &TryArgs,
    delayed: &DelayedVm,
    trial: &HostTrial,
    decided_by: &str,
    metrics: (&[TrialMetric], Option<&CountedMetrics>),
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
            "interrupts of the host and other threads wait for a delay, where kvm_exit is traced with interrupts disabled"
        )?,
    }
    let (share, lease) = (ExitDelay::MAX_SHARE, ExitDelay::LEASE);
    writeln!(out, "bounds, kept by the kernel: {share}% of each vCPU's time, {} an exit", ExitDelay::MAX_DELAY)?;
    write!(out, "{}", trial.plan())?;
    let matters = format!("the slope is told to a quarter of it; below {}% for 1us it does not matter", args.matters);
    write_rules(args, (decided_by, &matters), metrics, host_limits, out)?;
    writeln!(out, "at the end: nothing is delayed; if this command dies, at once; if it hangs, within {lease}")?;
    Ok(())
}

fn write_verdict(verdict: &TrialVerdict, report: &TrialReport, out: &mut dyn Write) -> anyhow::Result<()> {
    if let (Some(slope), Some(row)) = (&verdict.slope, &report.sensitivity) {
        writeln!(out, "\n{}", slope.sentence(&row.exit(), verdict.matters))?;
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
