//! `exitscope try --delay`: one VM's exits are delayed on purpose, and the metric's slope over the delays is told.
//!
//! ```text
//! flags ─► DelayedExits, TrialPlan ─► shown ─► yes? ─► ExitDelay ─► run_turns ─► slope
//! ```
//!
//! No watchdog: the program that delays ends with this process, and its lease with a process that hangs. The lock is that of
//! other trials, which these delays would disturb.

use super::{
    agreed, cause_row, lock, message, say_missed, seed, start_counting, vm_process, write_counted, write_json,
    write_rules,
};
use crate::Outcome;
use crate::report::terminal_style;
use crate::trial_args::{Delays, TryArgs};
use anyhow::{Context, bail, ensure};
use chrono::{DateTime, SecondsFormat, Utc};
use exitscope_apply::{HostLimits, default_path, host_name};
use exitscope_measure::{CountedMetrics, DelayGuard, DelayedLevel, GuardedHost};
use exitscope_model::{CodeList, ExitCode};
use exitscope_record::{DelayedExits, ExitDelay, Processes, vms};
use exitscope_trial::{
    HostTrial, SlopeFinding, SlopeRuling, TrialEnd, TrialMetric, TrialPlan, TrialRules, TrialVerdict, run_turns,
};
use exitscope_units::Nanos;
use exitscope_view::{
    DelayLevelRow, SensitivityRow, TrialLeftRow, TrialReport, trial_causes_page, trial_delays_page, write_page,
};
use std::io::Write;
use std::path::Path;
use std::time::{Duration, Instant, SystemTime};

/// Where the achieved delay is among the metrics: behind the user's.
const DELAY: usize = 1;

/// Which exits of which VM are delayed.
struct Delayed<'a> {
    vm: &'a str,
    process: u32,
    exits: DelayedExits,
    /// Exits of which reason alone.
    reason: Option<ExitCode>,
    /// Delays, 0 first.
    delays: Vec<Nanos>,
}

pub fn run(args: &TryArgs, delays: &Delays, asks: bool, out: &mut dyn Write) -> anyhow::Result<Outcome> {
    let vm = args.vm.as_deref().unwrap_or_default();
    let Some(source) = args.source().map_err(anyhow::Error::msg)? else {
        bail!(
            "--delay needs a metric that it can change: --metric, --metric-file or --metric-query names one; exits cost more with each delay"
        );
    };
    let delayed = Delayed::find(vm, args.reason.as_deref(), delays)?;
    let lock = lock(args, &args.state.clone().unwrap_or_else(default_path), out)?;
    // Counting begins before the program that delays: programs run in that order, and delays are to be within exits.
    let live = match lock {
        Some(_) => start_counting(args, &Processes::These(vec![delayed.process]), true)?,
        None => None,
    };
    let mut metrics = vec![args.trial_metric(), DelayGuard::metric()];
    metrics.extend(live.is_some().then(CountedMetrics::metrics).into_iter().flatten());
    let limits = args.metric_limits(&metrics)?;
    let host_limits = args.host_limits()?;
    let plan =
        TrialPlan::of_doses(delayed.labels(), args.lengths(), args.alpha / 100.0, args.seed.unwrap_or_else(seed))?;
    let rules = TrialRules { metrics: metrics.clone(), matters: args.matters, limits };
    let mut trial = HostTrial::of_delays(plan, rules, DELAY);
    if args.is_text() {
        write_plan(args, &delayed, &trial, &metrics, &host_limits, out)?;
        write_counted(live.as_ref(), out)?;
        out.flush()?;
    }
    if lock.is_none() {
        if !args.is_text() {
            write_json(&delayed.report(args, &trial, &[], 0), out)?;
        }
        return Ok(Outcome::Fine);
    }
    let number = delayed.reason.and_then(|reason| u32::try_from(reason.number).ok());
    let delay = ExitDelay::start(delayed.process, delayed.exits, number)?;
    if asks && !agreed(out)? {
        writeln!(out, "nothing was delayed")?;
        return Ok(Outcome::Failed);
    }
    let began = DateTime::<Utc>::from(SystemTime::now()).to_rfc3339_opts(SecondsFormat::Secs, true);
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
    let mut report = delayed.report(args, &trial, guard.levels(), guard.missed());
    // The program ends here.
    drop(guard);
    report.began = began;
    report.left =
        Some(TrialLeftRow { kept: false, done: vec!["no exit is delayed any more".to_string()], failed: Vec::new() });
    report.causes = counted.as_ref().map(CountedMetrics::causes).unwrap_or_default().iter().map(cause_row).collect();
    let verdict = trial.verdict();
    match args.is_text() {
        true => write_verdict(&verdict, &report, out)?,
        false => write_json(&report, out)?,
    }
    Ok(if is_judged(&verdict) { Outcome::Fine } else { Outcome::Failed })
}

impl Delayed<'_> {
    fn find<'a>(vm: &'a str, reason: Option<&str>, delays: &Delays) -> anyhow::Result<Delayed<'a>> {
        let process = vm_process(vm)?;
        ensure!(
            vms().iter().any(|of| of.process == process),
            "process {process} has no virtual machine of KVM, or one of another user's: root sees all"
        );
        let widest = DelayedExits::widest()?;
        let (exits, reason) = match reason {
            None => (widest, None),
            Some(name) => {
                let (exits, code) = find_reason(name, widest, hardware_codes()).with_context(|| reasons(widest))?;
                exits.check()?;
                (exits, Some(code))
            }
        };
        let delays = std::iter::once(Nanos::ZERO).chain(delays.0.iter().copied()).collect();
        Ok(Delayed { vm, process, exits, reason, delays })
    }

    fn labels(&self) -> Vec<String> {
        self.delays.iter().map(|&delay| format!("delay={}", plain(delay))).collect()
    }

    /// The exits in words.
    fn text(&self) -> String {
        let reason = self.reason.map_or(String::new(), |reason| format!(", {} alone", reason.name()));
        format!("{} of process {}{reason}", self.exits, self.process)
    }

    fn report(&self, args: &TryArgs, trial: &HostTrial, measured: &[DelayedLevel], missed: u64) -> TrialReport {
        let verdict = trial.verdict();
        let mut report = TrialReport::of(&host_name(&args.root), vec![self.text()], args.decided_by(), trial);
        let length: Duration = measured.iter().map(|level| level.length).sum();
        let exits: u64 = measured.iter().map(|level| level.counts.exits + level.counts.lost).sum();
        let mut row = SensitivityRow {
            vm: self.vm.to_string(),
            exits: if self.exits == DelayedExits::All { "all" } else { "to_user_space" }.into(),
            reason: self.reason.map(ExitCode::name),
            ruling: "undecided".into(),
            percent_per_100ns: None,
            low_percent: None,
            high_percent: None,
            exits_per_s: (!length.is_zero()).then(|| exits as f64 / length.as_secs_f64()),
            missed,
            levels: (0..self.delays.len()).map(|at| self.level_row(at, measured, &verdict)).collect(),
        };
        if let Some(slope) = &verdict.slope {
            row.note(slope);
        }
        report.sensitivity = Some(row);
        report
    }

    fn level_row(&self, at: usize, measured: &[DelayedLevel], verdict: &TrialVerdict) -> DelayLevelRow {
        let mean = |metric: usize| match at {
            0 => verdict.settings[0].effects[metric].in_force,
            _ => verdict.settings[at - 1].effects[metric].with,
        };
        let counts = measured.get(at).map(|level| level.counts).unwrap_or_default();
        DelayLevelRow {
            asked_ns: self.delays[at].0,
            achieved_ns: mean(DELAY),
            mean: mean(0),
            exits: counts.exits,
            delayed: counts.delayed,
            skipped: counts.skipped,
            lost: counts.lost,
        }
    }
}

/// A length without digits that are 0: `1us`, `1500ns`.
fn plain(delay: Nanos) -> String {
    match delay.0 {
        0 => "0".to_string(),
        nanos if nanos % 1_000 == 0 => format!("{}us", nanos / 1_000),
        nanos => format!("{nanos}ns"),
    }
}

/// The list of codes that this host's `kvm_exit` has.
fn hardware_codes() -> Option<CodeList> {
    let lists = [("kvm_intel", CodeList::Vmx), ("kvm_amd", CodeList::Svm)];
    lists.into_iter().find(|(module, _)| Path::new("/sys/module").join(module).exists()).map(|of| of.1)
}

/// The exits of this reason: a reason of the hardware's where all exits can be delayed, otherwise one of `KVM_EXIT_*`.
fn find_reason(name: &str, widest: DelayedExits, hardware: Option<CodeList>) -> Option<(DelayedExits, ExitCode)> {
    let code = |list| {
        let named = if list == CodeList::Vmx && name.eq_ignore_ascii_case("io") { "IO_INSTRUCTION" } else { name };
        let spellings = [named.to_ascii_uppercase(), named.to_ascii_lowercase()];
        let code = spellings.iter().find_map(|name| ExitCode::from_name(list, name))?;
        u32::try_from(code.number).is_ok().then_some(code)
    };
    let of_hardware = || Some((DelayedExits::All, code(hardware?)?));
    let of_kvm = || Some((DelayedExits::ToUserSpace, code(CodeList::KvmExit)?));
    of_hardware().filter(|_| widest == DelayedExits::All).or_else(of_kvm)
}

/// Which reasons there are.
fn reasons(widest: DelayedExits) -> String {
    let of = match widest {
        DelayedExits::All => "a reason of kvm_exit on this host, like io or hlt, or of KVM_EXIT_*, like mmio",
        DelayedExits::ToUserSpace => {
            "one of KVM_EXIT_*, like io, mmio or hlt, as only exits to user space can be delayed here"
        }
    };
    format!("--reason names {of}")
}

fn write_plan(
    args: &TryArgs,
    delayed: &Delayed,
    trial: &HostTrial,
    metrics: &[TrialMetric],
    host_limits: &HostLimits,
    out: &mut dyn Write,
) -> anyhow::Result<()> {
    let longest = delayed.delays.last().copied().unwrap_or_default();
    writeln!(out, "Trial on {}", host_name(&args.root))?;
    writeln!(
        out,
        "this slows the VM {} down on purpose, by up to {longest} in each exit that is delayed",
        message(delayed.vm)
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
    write_rules(args, &matters, metrics, host_limits, out)?;
    writeln!(out, "at the end: nothing is delayed; if this command dies, at once; if it hangs, within {lease}")?;
    Ok(())
}

/// Whether the trial has an answer.
fn is_judged(verdict: &TrialVerdict) -> bool {
    let is_whole = matches!(verdict.end, Some(TrialEnd::SlopeCertain | TrialEnd::TimeOver));
    is_whole && verdict.slope.is_some_and(|slope| slope.ruling != SlopeRuling::Undecided)
}

fn write_verdict(verdict: &TrialVerdict, report: &TrialReport, out: &mut dyn Write) -> anyhow::Result<()> {
    if let (Some(slope), Some(row)) = (&verdict.slope, &report.sensitivity) {
        writeln!(out, "\n{}", sentence(slope, &row.exit(), verdict.matters))?;
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

/// What was found, in words.
fn sentence(slope: &SlopeFinding, exit: &str, matters: f64) -> String {
    let is_worse = slope.percent.is_some_and(|percent| percent < 0.0);
    match slope.ruling {
        SlopeRuling::Found if is_worse => {
            format!("100ns less in each {exit} is worth {slope} of the metric here: longer exits are better for it")
        }
        SlopeRuling::Found => format!("100ns less in each {exit} is worth {slope} of the metric here"),
        SlopeRuling::Negligible => {
            format!("1us less in each {exit} is worth less than {matters}% of the metric here; 100ns {slope}")
        }
        SlopeRuling::Undecided => format!("undecided: what 100ns less in each {exit} is worth is not certain: {slope}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_is_the_hardwares_where_all_exits_can_be_delayed_and_otherwise_kvms() {
        use DelayedExits::{All, ToUserSpace};
        let of = |name, widest, hardware| {
            find_reason(name, widest, hardware).map(|(exits, code): (_, ExitCode)| (exits, code.list, code.number))
        };
        let (vmx, svm) = (Some(CodeList::Vmx), Some(CodeList::Svm));
        for (name, widest, hardware, found) in [
            ("io", ToUserSpace, None, Some((ToUserSpace, CodeList::KvmExit, 2))),
            ("KVM_EXIT_MMIO", ToUserSpace, None, Some((ToUserSpace, CodeList::KvmExit, 6))),
            ("hlt", ToUserSpace, vmx, Some((ToUserSpace, CodeList::KvmExit, 5))),
            ("hlt", All, vmx, Some((All, CodeList::Vmx, 12))),
            ("io", All, vmx, Some((All, CodeList::Vmx, 30))),
            ("io", All, svm, Some((All, CodeList::Svm, 0x7b))),
            ("mmio", All, vmx, Some((ToUserSpace, CodeList::KvmExit, 6))),
            ("msr_write", ToUserSpace, None, None),
            ("io", All, None, Some((ToUserSpace, CodeList::KvmExit, 2))),
            ("nothing", All, svm, None),
        ] {
            assert_eq!(of(name, widest, hardware), found, "{name} {widest} {hardware:?}");
        }
    }

    #[test]
    fn what_was_found_is_a_sentence() {
        let of = |percent, interval, ruling| SlopeFinding { percent: Some(percent), interval, ruling };
        let found = of(0.8, Some((0.6, 1.0)), SlopeRuling::Found);
        assert_eq!(
            sentence(&found, "exit", 1.0),
            "100ns less in each exit is worth 0.80% (0.60% to 1.00%) of the metric here"
        );
        let worse = of(-0.8, Some((-1.0, -0.6)), SlopeRuling::Found);
        assert!(sentence(&worse, "exit", 1.0).ends_with("longer exits are better for it"));
        assert_eq!([0, 200, 1_500, 5_000].map(|nanos| plain(Nanos(nanos))), ["0", "200ns", "1500ns", "5us"]);
    }
}
