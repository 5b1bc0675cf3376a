//! `exitscope try`: the host takes turns between the value in force and others, and what was measured is compared.
//!
//! ```text
//! --delay ─► delay::run
//! flags ─► TriedSetting, TrialPlan ─► shown ─► yes? ─► lock ─► watchdog ─► run_turns ─► verdict ─► kept or restored
//! ```

mod delay;
mod history;

use crate::host::halt_poll_scope;
use crate::html_output;
use crate::output_file::can_write;
use crate::predictions::{PredictionsAgainst, now};
use crate::question::agreed;
use crate::store;
use crate::terminal::terminal_style;
use crate::trial_args::{TryArgs, TryFormat};
use crate::{Outcome, write_json};
use anyhow::{Context, bail};
use exitscope_advice::HaltPollScope;
use exitscope_apply::{
    EarlierSettings, HostLimit, HostLimitError, HostLimits, HostSettings, LEASE, LeftByTrial, PlacedSetting,
    SettingTargets, TaskThread, TrialEnding, TrialLock, TriedSetting, default_path, host_name, tried_path,
};
use exitscope_measure::{
    CountedMetrics, GuardedHost, HostCosts, MetricScale, MetricSource, Predictor, PrometheusQuery, TurnMetrics,
    add_to_history, history_path, start_watchdog,
};
use exitscope_model::encode::message;
use exitscope_page::{ResultPage, write_result_page};
use exitscope_record::{Processes, vcpu_threads, worker_threads};
use exitscope_signals::{catch_signals, signalled};
use exitscope_trial::{
    AbortLimit, AbortLimitError, Better, HostTrial, TrialLengths, TrialMetric, TrialPlan, TrialRules, TrialRuling,
    TrialVerdict, run_turns,
};
use exitscope_units::Nanos;
use exitscope_view::{
    FiledPrediction, TrialCauseRow, TrialLeftRow, TrialReport, thousands, trial_causes_page, write_page,
};
use std::io::{self, IsTerminal, Write};
use std::path::Path;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

const HALT_POLL: &str = "halt_poll_ns";

/// Why exit cost alone does not judge every setting.
const METRIC_NEEDED: &str = "needs a metric of the workload (--metric, --metric-file or --metric-query): exit cost also falls when a VM gets \
                             less CPU time, or waits longer";

pub fn run(args: &TryArgs, out: &mut dyn Write) -> anyhow::Result<Outcome> {
    if let Some(to) = &args.html {
        html_output::check(to, &[])?;
        can_write(to)?;
    }
    if args.history {
        return history::show(args, out);
    }
    if let Some(dir) = &args.store {
        store::for_trials(dir)?;
    }
    // Without --history clap asks for it.
    let setting = args.setting.as_deref().unwrap_or_default();
    catch_signals()?;
    let is_text = args.is_text();
    let asks = !args.dry_run && !args.yes;
    if asks && (!is_text || !io::stdin().is_terminal()) {
        bail!("there is no terminal to ask on: --yes starts without asking, --dry-run shows the plan");
    }
    if let Some(delays) = &args.delay {
        return delay::run(args, delays, asks, out);
    }
    if args.reason.is_some() {
        bail!("--reason names exits to delay: it needs --delay");
    }
    let source = args.source().map_err(anyhow::Error::msg)?;
    if args.keep && source.is_none() {
        bail!("--keep {METRIC_NEEDED}");
    }
    let state = args.state.clone().unwrap_or_else(default_path);
    if args.keep {
        // Where a value that is kept could not be noted is told before anything is set.
        HostSettings::earlier(&args.root, &state)?;
    }
    let lock = lock(args, &state, out)?;
    let (processes, targets) = targets(args)?;
    let tried = TriedSetting::find(setting, &args.root, &targets)?;
    if source.is_none() && !tried.places.iter().all(PlacedSetting::is_judged_by_cost) {
        bail!("{} {METRIC_NEEDED}", tried.name());
    }
    let measured = measured(args, source, &processes, true)?;
    let metrics = measured.list(args.better.map(Better::from), None);
    let limits = args.metric_limits(&metrics)?;
    let host_limits = args.host_limits()?;
    let plan = TrialPlan::new(tried.labels(), args.lengths(), args.alpha / 100.0, args.seed.unwrap_or_else(seed))?;
    let mut trial = HostTrial::new(plan, TrialRules { metrics, matters: args.matters, limits });
    let host = host_name(&args.root);
    let against = against(args, &tried, &host)?;
    let predictor = match measured.counted.is_some() && !args.no_predict && against.is_none() {
        true => Predictor::new(&tried, args.turn, &processes, args.guest.is_some() || args.root != Path::new("/")),
        false => Ok(None),
    };
    if is_text {
        write_plan(args, &tried, &trial, &measured, &host_limits, out)?;
        if let Ok(Some(predictor)) = &predictor {
            write_first(args, predictor, out)?;
        }
        out.flush()?;
    }
    let places: Vec<String> = tried.places.iter().map(|place| place.to_string()).collect();
    let decided_by = measured.decided_by();
    let report = |trial: &HostTrial| TrialReport::of(&host, places, decided_by, trial);
    let Some(lock) = lock else {
        if !is_text {
            write_json(&report(&trial), out)?;
        }
        return Ok(Outcome::Fine);
    };
    if asks && !agreed(out)? {
        writeln!(out, "nothing was changed")?;
        return Ok(Outcome::Failed);
    }
    if TriedSetting::find(setting, &args.root, &targets)? != tried {
        bail!("the value in force has changed since the plan was shown: start again");
    }
    let began = now();
    let predicted = predictor.and_then(|of| of.map(|predictor| predictor.predict(&mut trial)).transpose());
    let predicted_from = predicted.unwrap_or_else(|why| {
        say!("nothing is predicted: {}", message(&why));
        None
    });
    if let Some(name) = signalled() {
        say!("{name} came: nothing was changed");
        return Ok(Outcome::Failed);
    }
    let (trial, ending, causes) = run_guarded(args, trial, &tried, measured, lock, is_text.then_some(&mut *out))?;
    let (verdict, mut report) = (trial.verdict(), report(&trial));
    report.began = began;
    report.predicted_from = predicted_from;
    report.left = Some(TrialLeftRow {
        kept: ending.kept,
        unchanged: ending.unchanged,
        done: ending.done.clone(),
        failed: ending.failed.clone(),
    });
    report.causes = causes;
    hand_on(args, &state, &report, out, |out| write_verdict(&verdict, &report, &tried_path(&state), out))?;
    if let Some(against) = &against {
        against.score_trial(&report, is_text.then_some(&mut *out))?;
    }
    Ok(match verdict.is_judged() && ending.failed.is_empty() && ending.why.is_none() {
        true => Outcome::Fine,
        false => Outcome::Failed,
    })
}

/// The predictions of what is tried on this host, where they are to be scored.
fn against(args: &TryArgs, tried: &TriedSetting, host: &str) -> anyhow::Result<Option<PredictionsAgainst>> {
    let labels = tried.labels();
    let is_tried = |of: &FiledPrediction| labels[1..].iter().any(|label| of.is_of(label)).then_some(()).ok_or("");
    args.against.as_deref().map(|path| PredictionsAgainst::read(path, host, is_tried)).transpose()
}

/// What is done with a trial that was made: it is kept in the history, shown, added to a store, written as a page.
fn hand_on(
    args: &TryArgs,
    state: &Path,
    report: &TrialReport,
    out: &mut dyn Write,
    write_text: impl FnOnce(&mut dyn Write) -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    let history = history_path(state);
    let is_kept = add_to_history(&history, report);
    if let Err(error) = &is_kept {
        say!("the trial is not in the history of this host: {error}");
    }
    match args.is_text() {
        true => write_text(out)?,
        false => write_json(report, out)?,
    }
    out.flush()?;
    if let Some(dir) = &args.store {
        let added = store::add_trial(dir, report);
        let (dir, history) = (dir.display(), history.display());
        added.with_context(|| match &is_kept {
            Ok(()) => format!("the trial is not in the store; `exitscope store add {dir} {history}` adds it later"),
            Err(_) => "the trial is not in the store".to_string(),
        })?;
    }
    match &args.html {
        Some(to) => write_html(to, std::slice::from_ref(report)),
        None => Ok(()),
    }
}

/// The lock of a trial; of a dry run, none.
fn lock(args: &TryArgs, state: &Path, out: &mut dyn Write) -> anyhow::Result<Option<TrialLock>> {
    match args.dry_run {
        true => say_what_is_left(&args.root, state).map(|()| None),
        false => take_lock(&args.root, state, args.is_text(), out).map(Some),
    }
}

/// Takes the lock, and says what an earlier trial had left.
fn take_lock(root: &Path, state: &Path, is_text: bool, out: &mut dyn Write) -> anyhow::Result<TrialLock> {
    let (lock, left) = TrialLock::take(root, state)?;
    for line in left.lines() {
        match is_text {
            true => writeln!(out, "{line}")?,
            false => say!("{line}"),
        }
    }
    match left {
        LeftByTrial::Restored(ending) if !ending.failed.is_empty() => {
            bail!("an earlier trial cannot be undone, so no new one begins: {}", ending.failed.join("; "))
        }
        _ => Ok(lock),
    }
}

/// Says without changing anything that a trial would first restore what a killed one has left: what is in force now would not
/// be what is compared.
fn say_what_is_left(root: &Path, state: &Path) -> anyhow::Result<()> {
    let path = tried_path(state);
    if HostSettings::earlier(root, &path)? == EarlierSettings::ThisBoot {
        let path = path.display();
        say!(
            "{path} holds values of another trial: if that was killed, they are restored first; while it runs, no other can begin"
        );
    }
    Ok(())
}

/// The VM's process, and what is set of it, of a control group or of a guest.
fn targets(args: &TryArgs) -> anyhow::Result<(Processes, SettingTargets)> {
    let (cgroup, guest) = (args.cgroup.clone(), args.guest.clone());
    let targets = SettingTargets { cgroup, guest, ..SettingTargets::default() };
    let Some(name) = &args.vm else { return Ok((Processes::All, targets)) };
    let (process, threads) = vcpu_threads(name)?;
    let of = |(process, thread)| TaskThread::of(process, thread);
    let workers = worker_threads(process).into_iter().filter_map(of).collect();
    let threads = threads.into_iter().filter_map(|thread| of((process, thread))).collect();
    Ok((Processes::These(vec![process]), SettingTargets { threads, workers, ..targets }))
}

/// What is measured: exits are counted if that is wanted and possible, and `is_run`; if not, there must be a metric of the user.
fn measured(
    args: &TryArgs,
    user: Option<MetricSource>,
    processes: &Processes,
    is_run: bool,
) -> anyhow::Result<TurnMetrics> {
    let vm = match processes {
        Processes::These(these) => these.first().copied(),
        Processes::All => None,
    };
    let counted = match is_run && !args.no_count {
        true => CountedMetrics::start(processes.clone()),
        false => Err("--no-count".to_string()),
    };
    if let (Err(why), None) = (&counted, &user) {
        bail!(
            "exits are not counted ({why}), so there is nothing to compare: name a metric by --metric, --metric-file \
             or --metric-query"
        );
    }
    Ok(TurnMetrics { user, counted: counted.ok(), host_costs: HostCosts::new(&args.root, vm) })
}

impl TryArgs {
    /// Whether it is shown to people.
    pub fn is_text(&self) -> bool {
        self.format == TryFormat::Text
    }

    fn source(&self) -> Result<Option<MetricSource>, String> {
        let scale = self.unit.unwrap_or(MetricScale::NONE);
        let source = match (&self.metric, &self.metric_file, self.metric_query.as_ref().zip(self.prometheus.as_ref())) {
            (Some(command), _, _) => MetricSource::Command(command.clone(), scale),
            (None, Some(path), _) => MetricSource::Counter(path.clone()),
            (None, None, Some((query, server))) => {
                let query = PrometheusQuery::parse(query, server)?.of_turns(Duration::from_nanos(self.turn.0))?;
                MetricSource::Prometheus(query, scale)
            }
            (None, None, None) => return Ok(None),
        };
        match self.better.is_some() || source.has_usual_direction() {
            true => Ok(Some(source)),
            false => Err("--better lower or --better higher says which values of this metric are better".to_string()),
        }
    }

    fn lengths(&self) -> TrialLengths {
        TrialLengths { settle: self.settle, turn: self.turn, total: self.length }
    }

    /// Limits of these metrics.
    fn metric_limits(&self, metrics: &[TrialMetric]) -> Result<Vec<AbortLimit>, AbortLimitError> {
        let of_metrics = self.abort_on.iter().filter(|text| !HostLimit::is_meant(text));
        of_metrics.map(|text| AbortLimit::parse(text, metrics)).collect()
    }

    /// Limits of the host, with the usual one.
    fn host_limits(&self) -> Result<HostLimits, HostLimitError> {
        let meant = self.abort_on.iter().filter(|text| HostLimit::is_meant(text));
        HostLimits::new(&self.root, meant.map(|text| HostLimit::parse(text)).collect::<Result<_, _>>()?)
    }
}

fn seed() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(1, |now| u64::from(now.subsec_nanos()))
}

fn write_plan(
    args: &TryArgs,
    tried: &TriedSetting,
    trial: &HostTrial,
    measured: &TurnMetrics,
    host_limits: &HostLimits,
    out: &mut dyn Write,
) -> anyhow::Result<()> {
    writeln!(out, "Trial on {}", host_name(&args.root))?;
    for (place, now) in tried.places.iter().zip(&tried.in_force) {
        writeln!(out, "{place} is {now}")?;
    }
    if tried.name() == HALT_POLL {
        writeln!(out, "{HALT_POLL} takes effect {}", halt_poll_scope(&args.root).text())?;
        if acts_on_new_vms_alone(args, tried) {
            writeln!(out, "warning: the VMs that run now will show no difference")?;
        }
    }
    write!(out, "{}{}", trial.plan(), trial.could_find())?;
    let changes = format!("changes from {}% on matter", args.matters);
    write_rules(args, &changes, trial, measured, host_limits, out)?;
    let end = if args.keep { "a value that is certainly better is kept" } else { "the old value is restored" };
    writeln!(out, "at the end: {end}")?;
    writeln!(out, "watchdog: restores if this command dies, or is silent for {} s", LEASE.as_secs())?;
    Ok(())
}

/// Says what is recorded before the trial.
fn write_first(args: &TryArgs, Predictor { length, .. }: &Predictor, out: &mut dyn Write) -> io::Result<()> {
    let (vms, folder) = (args.vm.as_deref().unwrap_or("all VMs"), std::env::temp_dir());
    let (vms, folder) = (message(vms), folder.display());
    writeln!(out, "first: {length} of {vms} are recorded into {folder}, for a prediction; --no-predict leaves that out")
}

/// Says what counting has missed.
fn say_missed(measured: &TurnMetrics) {
    if let Some(missed) = measured.counted.as_ref().map(|counted| counted.missed).filter(|&missed| missed > 0) {
        say!("{missed} wake-ups and switches were missed while counting: halted and steal are off by as many waits");
    }
}

/// What decides, what ends a trial at once, and which exits are counted if not all.
fn write_rules(
    args: &TryArgs,
    matters: &str,
    trial: &HostTrial,
    measured: &TurnMetrics,
    host_limits: &HostLimits,
    out: &mut dyn Write,
) -> anyhow::Result<()> {
    let (metrics, decided_by) = (trial.metrics(), measured.decided_by());
    let better = if metrics[0].better == Better::Lower { "lower" } else { "higher" };
    writeln!(out, "decided by: {}; {better} is better; {matters}", message(&decided_by))?;
    if metrics.len() > 1 {
        let names: Vec<&str> = metrics[1..].iter().map(|metric| metric.name.as_str()).collect();
        writeln!(out, "also reported: {}", names.join(", "))?;
    }
    for limit in args.abort_on.iter().filter(|text| !HostLimit::is_meant(text)).chain(&host_limits.texts()) {
        writeln!(out, "aborted if: {}", message(limit))?;
    }
    if measured.counted.as_ref().is_some_and(|counted| !counted.has_all_exits()) {
        writeln!(out, "kvm_exit does not fire here: user-space exits are complete, in-kernel exits partial")?;
    }
    Ok(())
}

/// Runs the trial with a watchdog, and says how the settings were left.
fn run_guarded(
    args: &TryArgs,
    mut trial: HostTrial,
    tried: &TriedSetting,
    metrics: TurnMetrics,
    lock: TrialLock,
    out: Option<&mut dyn Write>,
) -> anyhow::Result<(HostTrial, TrialEnding, Vec<TrialCauseRow>)> {
    let guard = start_watchdog(tried, lock, args.host_limits()?)?;
    let blocks = trial.plan().blocks.len();
    let mut host = GuardedHost { guard, metrics, setting: 0, began: Instant::now(), blocks, out };
    run_turns(&mut trial, &mut host);
    say_missed(&host.metrics);
    let ending = match trial.verdict().keep.filter(|_| args.keep) {
        // Position 0 of the plan is the value in force.
        Some(setting) => host.guard.keep(setting + 1),
        None => host.guard.restore(),
    };
    if let Some(why) = &ending.why {
        trial.take_back(why.clone());
    }
    if acts_on_new_vms_alone(args, tried) {
        let verdict = trial.verdict();
        if verdict.settings.iter().all(|setting| setting.ruling == TrialRuling::NoDifference) {
            trial.take_back(format!(
                "no difference may mean nothing: on kernels like this one, {HALT_POLL} takes effect only in VMs \
                 started afterwards, unless the distribution has the fix of 6.1"
            ));
        }
    }
    Ok((trial, ending, host.metrics.causes()))
}

fn write_verdict(
    verdict: &TrialVerdict,
    report: &TrialReport,
    state: &Path,
    out: &mut dyn Write,
) -> anyhow::Result<()> {
    write!(out, "\n{verdict}")?;
    if let Some(from) = &report.predicted_from {
        let length = Nanos(from.length_ns);
        writeln!(out, "predicted from {} halts, recorded for {length} before the trial", thousands(from.halts))?;
    }
    let Some(left) = &report.left else { return Ok(()) };
    if verdict.keep.is_some() && !left.kept && left.failed.is_empty() {
        writeln!(out, "restored nevertheless, as --keep was not given")?;
    }
    for line in left.done.iter().chain(&left.failed) {
        writeln!(out, "{line}")?;
    }
    if !left.failed.is_empty() {
        let path = state.display();
        writeln!(
            out,
            "what was not restored is kept in {path}; the next `exitscope try` or `advise --undo` tries again"
        )?;
    }
    Ok(write_page(&trial_causes_page(report), terminal_style(), out)?)
}

/// Whether the setting does nothing to VMs that run already, unless the distribution has mended that.
fn acts_on_new_vms_alone(args: &TryArgs, tried: &TriedSetting) -> bool {
    tried.name() == HALT_POLL && halt_poll_scope(&args.root) == HaltPollScope::NewVms
}

/// Writes the page of trials, the oldest first.
fn write_html(to: &Path, trials: &[TrialReport]) -> anyhow::Result<()> {
    html_output::write(to, |out| write_result_page(&ResultPage::Trial { trials }, out))
}
