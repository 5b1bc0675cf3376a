//! `exitscope lab`: experiments on real KVM guests.

use crate::cli::{
    LabArgs, LabCommand, LabFormat, LabGuestsArgs, LabGuestsProgram, LabImportArgs, LabRunArgs, LabRunDelay,
    LabRunFormat,
};
use crate::host::LiveHost;
use crate::output_file::{can_write, replace};
use crate::saved_run::{saved, saved_of};
use crate::terminal::terminal_style;
use crate::{Outcome, html_output, lab_against, scenario_file, sim, write_json};
use anyhow::bail;
use exitscope_lab::events::event_names;
use exitscope_lab::hidden;
use exitscope_lab::measure::MeasurePlan;
use exitscope_lab::run::RunOptions;
use exitscope_lab::running_guests::{GuestProgram, GuestsPlan, RunningGuests};
use exitscope_lab::{LabError, LabMachine, delay, exits, gang, haltpoll, others, pio, tracer, vmexit, yielding};
use exitscope_model::Event;
use exitscope_page::{ResultPage, write_result_page};
use exitscope_pipeline::{ExitTracer, write_events};
use exitscope_scenario::findings::Findings;
use exitscope_signals::catch_signals;
use exitscope_trace::{Input, counts};
use exitscope_view::{LabReport, lab_comparison_page, lab_costs, lab_page, write_benchstat, write_lab_csv, write_page};
use indicatif::{ProgressBar, ProgressStyle};
use std::io::{IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::sync::LazyLock;
use std::time::Duration;

/// Every experiment: its name and what it shows.
const EXPERIMENTS: &[(&str, &str)] = &[
    ("exits", "what an exit costs, by its cause and its handler; also registers, locks and numbers of devices"),
    ("delay", "how throughput falls when every exit takes 0 to 30,000 ns longer"),
    ("tracer", "what tracing adds to an exit: KVM's tracepoints, and the tracers of functions"),
    (
        "run",
        "a scenario's programs on real guests, as far as that can be done; with --delay others, what cheaper exits would win",
    ),
    (
        "pio",
        "what a port access costs, by its way: emulated or decoded from the exit, a device thread or in place, \
        ioeventfd",
    ),
    ("haltpoll", "what polling before a halt gains and costs, by who polls and how long: two vCPUs play ping-pong"),
    ("yield", "vCPUs contend for a spinlock over few threads: no yield, X'44', X'9C', X'9C' with sense-running"),
    ("vmexit", "the operations of kvm-unit-tests' vmexit that a bare guest can do, on one vCPU and on all"),
    ("gang", "a compute loop beside idle, spinning and exiting vCPUs of its virtual core"),
];

pub fn run(command: &LabCommand, out: &mut dyn Write) -> anyhow::Result<Outcome> {
    match command {
        LabCommand::List => {
            for (name, about) in EXPERIMENTS {
                writeln!(out, "{name:<9} {about}")?;
            }
            Ok(Outcome::Fine)
        }
        LabCommand::Exits(args) => experiment("exits", &args.lab, args.costs.as_deref(), out, exits_and_hidden),
        LabCommand::Delay(args) => experiment("delay", args, None, out, delay::run),
        LabCommand::Tracer(args) => experiment("tracer", args, None, out, tracer::run),
        LabCommand::Run(args) => run_scenario(args, out),
        LabCommand::Pio(args) => experiment("pio", args, None, out, pio::run),
        LabCommand::Haltpoll(args) => experiment("haltpoll", args, None, out, haltpoll::run),
        LabCommand::Yield(args) => experiment("yield", args, None, out, yielding::run),
        LabCommand::Gang(args) => experiment("gang", args, None, out, gang::run),
        LabCommand::Vmexit(args) => experiment("vmexit", args, None, out, vmexit::run),
        LabCommand::Import(args) => import(args, out),
        LabCommand::Guests(args) => run_guests(args, out),
        LabCommand::Show(args) => {
            check_page(args.html.as_deref(), std::slice::from_ref(&args.run))?;
            let report = saved(&args.run)?;
            show(&report, args.format, args.html.as_deref(), out)
        }
    }
}

/// What exits cost, and what no tracepoint sees of them.
fn exits_and_hidden(
    machine: &LabMachine,
    plan: &MeasurePlan,
    keep_events: bool,
) -> Result<(Findings, Vec<Event>), LabError> {
    let (mut findings, events) = exits::run(machine, plan, keep_events)?;
    // After all else, which tracing would make longer.
    let mut tracer = ExitTracer::start();
    let traced = || tracer.as_mut().map_err(|why| why.clone())?.exits();
    findings.tables.push(hidden::table(machine, plan, traced)?);
    Ok((findings, events))
}

static BAR: LazyLock<ProgressBar> = LazyLock::new(|| {
    let style = ProgressStyle::with_template("turns {bar:40} {pos}/{len}, {eta} left");
    ProgressBar::new(0).with_style(style.unwrap_or(ProgressStyle::default_bar()))
});

/// Draws how many turns are over, between two of them; nothing draws during one.
fn tell_progress(over: u64, all: u64) {
    BAR.set_length(all);
    BAR.set_position(over);
}

/// Who is told how far an experiment is: a terminal.
pub(crate) fn progress() -> Option<fn(u64, u64)> {
    std::io::stderr().is_terminal().then_some(tell_progress)
}

/// What an experiment gave, without the bar that it drew.
pub(crate) fn bar_cleared<T>(plan: &MeasurePlan, found: T) -> T {
    if plan.progress.is_some() {
        BAR.finish_and_clear();
    }
    found
}

/// An experiment that needs no more than a machine and a plan.
type Experiment = fn(&LabMachine, &MeasurePlan, bool) -> Result<(Findings, Vec<Event>), LabError>;

fn experiment(
    name: &str,
    args: &LabArgs,
    model: Option<&Path>,
    out: &mut dyn Write,
    run: Experiment,
) -> anyhow::Result<Outcome> {
    // What may be wrong with the command line is found before anything is measured.
    if !args.against.is_empty() && args.format != LabFormat::Text {
        bail!("--against compares as text only; save this run with --format json, and compare it the next time");
    }
    check_page(args.html.as_deref(), &[])?;
    let before = earlier_runs(&args.against, name)?;
    catch_signals()?;
    let machine = LabMachine::new()?;
    if model.is_some() && machine.emulates_ring_0 {
        // What lab_costs() would say at the end.
        bail!(
            "no cost model is made here: KVM's back end ({}) emulates ring 0 of guests, so that its costs are not those of \
             hardware",
            machine.back_end
        );
    }
    args.trace.as_deref().into_iter().chain(model).chain(args.html.as_deref()).try_for_each(can_write)?;
    let plan = MeasurePlan {
        rounds: args.repeat,
        duration: Duration::from_nanos(args.duration.0),
        pin: !args.no_pin,
        progress: progress(),
    };
    let (mut findings, events) = bar_cleared(&plan, run(&machine, &plan, args.trace.is_some()))?;
    findings.executed = machine.executed.rows();
    if let Some(path) = &args.trace {
        write_trace(path, &events)?;
    }
    let report = LabReport::of(&findings);
    if let Some(path) = model {
        let costs = lab_costs(&report)?;
        replace(path, |mut to| Ok(to.write_all(costs.as_bytes())?))?;
    }
    if !before.is_empty() {
        write_page(&lab_comparison_page(&before, &report), terminal_style(), out)?;
        return Ok(Outcome::Fine);
    }
    show(&report, args.format, args.html.as_deref(), out)
}

/// Earlier runs of this experiment. A copy of one is none besides: between the two there is no difference from run to run,
/// and any other run would be outside.
fn earlier_runs(paths: &[PathBuf], experiment: &str) -> anyhow::Result<Vec<LabReport>> {
    let mut runs: Vec<LabReport> = Vec::new();
    for path in paths {
        let run = saved_of(path, experiment)?;
        if let Some(at) = runs.iter().position(|other| *other == run) {
            bail!("{} and {} are the same run: give --against each run once", paths[at].display(), path.display());
        }
        runs.push(run);
    }
    Ok(runs)
}

/// Shows what an experiment found, or writes the page.
fn show(report: &LabReport, format: LabFormat, html: Option<&Path>, out: &mut dyn Write) -> anyhow::Result<Outcome> {
    match (html, format) {
        (Some(to), _) => html_output::write(to, |out| write_result_page(&ResultPage::Lab { lab: report }, out))?,
        (None, LabFormat::Json) => write_json(report, out)?,
        (None, LabFormat::Csv) => write_lab_csv(report, out)?,
        (None, LabFormat::Benchstat) => write_benchstat(report, out)?,
        (None, LabFormat::Text) => write_page(&lab_page(report), terminal_style(), out)?,
    }
    Ok(Outcome::Fine)
}

/// Whether there will be a page, if one is asked for.
fn check_page(html: Option<&Path>, inputs: &[PathBuf]) -> anyhow::Result<()> {
    html.map_or(Ok(()), |to| html_output::check(to, inputs))
}

fn run_scenario(args: &LabRunArgs, out: &mut dyn Write) -> anyhow::Result<Outcome> {
    let options = RunOptions {
        duration: args.duration.map(|length| Duration::from_nanos(length.0)),
        pin: !args.no_pin,
        events: args.trace.is_some(),
        retries: args.retries,
    };
    if let Some(against) = &args.against {
        if args.format != LabRunFormat::Text {
            bail!("--against scores as text only; `exitscope predictions --format json` has all scores of a file");
        }
        return lab_against::score(args, options, against, out);
    }
    check_page(args.html.as_deref(), std::slice::from_ref(&args.scenario.scenario))?;
    let scenario = scenario_file::read(&args.scenario)?.scenario()?;
    catch_signals()?;
    let machine = LabMachine::new()?;
    args.trace.as_deref().into_iter().chain(args.html.as_deref()).try_for_each(can_write)?;
    let (mut findings, events) = match args.delay {
        None => exitscope_lab::run::run(&machine, &scenario, options)?,
        Some(LabRunDelay::Others) => {
            let turn = args.duration.map_or(scenario.duration.as_nanos(), |length| length.0);
            let plan = MeasurePlan {
                rounds: args.repeat,
                duration: Duration::from_nanos(turn) * args.repeat,
                pin: !args.no_pin,
                progress: progress(),
            };
            (bar_cleared(&plan, others::run(&machine, &scenario, &plan, args.by))?, Vec::new())
        }
    };
    findings.executed = machine.executed.rows();
    if let Some(path) = &args.trace {
        write_trace(path, &events)?;
    }
    let report = LabReport::of(&findings);
    let format = match args.format {
        LabRunFormat::Json => LabFormat::Json,
        LabRunFormat::Csv => LabFormat::Csv,
        LabRunFormat::Text => LabFormat::Text,
    };
    show(&report, format, args.html.as_deref(), out)
}

/// Shows what kvm-unit-tests' vmexit printed as if the lab had run it.
fn import(args: &LabImportArgs, out: &mut dyn Write) -> anyhow::Result<Outcome> {
    check_page(args.html.as_deref(), std::slice::from_ref(&args.file))?;
    let text = counts::read(&Input::open(&args.file)?)?;
    if text.operations.is_empty() {
        bail!("{} has no line of kvm-unit-tests' vmexit, like `cpuid 1183`", args.file.display());
    }
    show(&LabReport::of_operations(&text.operations, args.vcpus), args.format, args.html.as_deref(), out)
}

fn run_guests(args: &LabGuestsArgs, out: &mut dyn Write) -> anyhow::Result<Outcome> {
    let program = match args.program {
        LabGuestsProgram::PingPong => GuestProgram::PingPong,
        LabGuestsProgram::Locks => GuestProgram::Locks,
        LabGuestsProgram::Io => GuestProgram::Io,
    };
    catch_signals()?;
    let machine = LabMachine::new()?;
    let plan = GuestsPlan {
        program,
        root: args.root.clone(),
        vcpus: args.vcpus.unwrap_or(program.vcpus()),
        gap_ns: args.gap.0,
        pin: args.pin,
        length: args.length.map(|length| Duration::from_nanos(length.0)),
        until_eof: args.until_eof,
    };
    let mut guests = RunningGuests::new(&machine, plan)?;
    for (file, value) in guests.settings() {
        writeln!(out, "{} is {value}", file.display())?;
    }
    writeln!(out, "{} counts {}", guests.throughput().display(), program.counts())?;
    writeln!(out, "process {} runs them", std::process::id())?;
    out.flush()?;
    let run = guests.run()?;
    writeln!(out, "{} {} in {:.1} s", run.done, program.counts(), run.elapsed.as_secs_f64())?;
    if let Some([polled, paid]) = run.polls {
        writeln!(out, "{polled} polls by KVM, {paid} successful")?;
    }
    let [polled, paid] = run.guest_polls;
    writeln!(out, "{polled} polls by the guest, {paid} successful")?;
    Ok(Outcome::Fine)
}

fn write_trace(path: &Path, events: &[Event]) -> anyhow::Result<()> {
    let (host, names) = (LiveHost::new(), event_names());
    let written = replace(path, |to| Ok(write_events(to, &host.head(&names, false), events)?))?;
    sim::say_left_out(written);
    Ok(())
}
