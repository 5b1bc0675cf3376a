//! `exitscope replay`: what other settings would have made of a recording.
//!
//! ```text
//! --vary, --set ─► configurations ─► pipeline: every configuration's outcome ─► ReplayTable ─► Replay
//! ```

mod yielding;

use crate::cli::{PolicyName, ReplayArgs, SimFormat};
use crate::read::{self, RecordingAccess};
use crate::select::{OutsideNames, SelectedExits, narrows_exits};
use crate::terminal::terminal_style;
use crate::{Outcome, write_json};
use anyhow::{Context, bail};
use exitscope_analysis::replay::{HaltPolicy, knobs_of};
use exitscope_pipeline::ReadTrace;
use exitscope_pipeline::replay::{KnobValues, PortsAndModel, ReplayInput, replay_halts, replay_ports, replay_vcores};
use exitscope_policy::vcore::Params;
use exitscope_scenario::vary_axis::{self, Axes};
use exitscope_scenario::{CostModel, ScenarioDocument};
use exitscope_units::Nanos;
use exitscope_view::{AxisRow, Coverage, Replay, ReplayTable, SelectionRow, replay_page, write_page, write_replay_csv};
use std::io::Write;

/// Configurations at most.
const MAX_CONFIGURATIONS: u64 = 10_000;

pub fn run(args: &ReplayArgs, out: &mut dyn Write) -> anyhow::Result<Outcome> {
    if narrows_exits(&args.select) {
        bail!("a policy is replayed over all that happened to a vCPU: omit --reason, --longer-than and --where");
    }
    if args.costs.is_some() && args.policy != PolicyName::PortPath {
        bail!(
            "--costs requires --policy port_path: for {}, the recording has all the costs needed, or they are unknown",
            args.policy.name()
        );
    }
    let file = read::files(args.file.as_slice(), args.input.as_slice())?.remove(0);
    let input = RecordingAccess::of(&args.select.clock).open_one(&file)?;
    let grid = Grid::new(args, args.policy.default_vary())?;
    let exits = SelectedExits::of(&args.select, std::slice::from_ref(&input), &OutsideNames::default())?;
    let SelectedExits { selection, options, .. } = exits;
    let of = ReplayInput { input: &input, selection, options };
    let replay = match args.policy {
        PolicyName::HostHaltPoll => halts(args, &of, &grid, HaltPolicy::Host)?,
        PolicyName::GuestHaltPoll => halts(args, &of, &grid, HaltPolicy::Guest)?,
        PolicyName::Vcore => vcores(args, &of, &grid)?,
        PolicyName::PortPath => ports(args, &of, &grid)?,
        PolicyName::Yielding => yielding::replay(args, &of, grid)?,
    };
    match args.format {
        SimFormat::Json => write_json(&replay, out)?,
        SimFormat::Csv => {
            for line in replay.damage() {
                say!("{line}");
            }
            write_replay_csv(&replay, &mut *out)?;
        }
        SimFormat::Text => write_page(&replay_page(&replay), terminal_style(), out)?,
    }
    Ok(Outcome::Fine)
}

/// A knob and its value.
type ReplaySetting = (&'static str, u64);

/// Every combination of the values asked for.
struct Grid {
    axes: Axes,
    set: KnobValues,
}

/// One combination.
struct Configuration {
    /// The values as they were written, in the order of the axes.
    labels: Vec<String>,
    /// All knobs that are set.
    set: KnobValues,
}

impl Grid {
    /// What was asked for, or `default`.
    fn new(args: &ReplayArgs, default: &str) -> anyhow::Result<Grid> {
        let policy = args.policy.name();
        let axes = match args.vary.is_empty() {
            true => vec![vary_axis::parse(default).map_err(anyhow::Error::msg)?],
            false => args.vary.clone(),
        };
        let axes = Axes::new(axes).map_err(anyhow::Error::msg)?;
        let size = axes.combinations();
        if size > MAX_CONFIGURATIONS {
            bail!("{size} configurations are too many: at most {MAX_CONFIGURATIONS}");
        }
        let set = args.set.iter().map(|(key, value)| setting(policy, key, value)).collect::<anyhow::Result<_>>()?;
        for axis in axes.all() {
            axis.values.iter().try_for_each(|value| setting(policy, &axis.key, value).map(|_| ()))?;
        }
        Ok(Grid { axes, set })
    }

    /// Every configuration, the first axis changing slowest.
    fn configurations(&self, policy: &str) -> anyhow::Result<Vec<Configuration>> {
        let one = |number| {
            let values = self.axes.combination(number as usize);
            let own = values.iter().map(|(key, value)| setting(policy, key, value));
            let set = self.set.iter().map(|of| Ok(*of)).chain(own).collect::<anyhow::Result<_>>()?;
            Ok(Configuration { labels: values.iter().map(|row| row.1.to_string()).collect(), set })
        };
        (0..self.axes.combinations()).map(one).collect()
    }

    fn labels_and_sets(&self, policy: &str) -> anyhow::Result<(Vec<Vec<String>>, Vec<KnobValues>)> {
        Ok(self.configurations(policy)?.into_iter().map(|of| (of.labels, of.set)).unzip())
    }
}

fn setting(policy: &str, key: &str, value: &str) -> anyhow::Result<ReplaySetting> {
    let knob = knobs_of(policy).find(|knob| knob.name == key).with_context(|| {
        let names: Vec<&str> = knobs_of(policy).map(|knob| knob.name).collect();
        format!("{policy} has no knob {key}; it has {}", names.join(", "))
    })?;
    Ok((knob.name, knob.parse(value).map_err(anyhow::Error::msg)?))
}

fn halts(args: &ReplayArgs, of: &ReplayInput, grid: &Grid, policy: HaltPolicy) -> anyhow::Result<Replay> {
    let (labels, sets) = grid.labels_and_sets(args.policy.name())?;
    let (trace, done) = replay_halts(of, policy, &sets)?;
    Ok(table(args, of, &trace, AxisRow::all(&grid.axes), labels).halts(policy, &trace.info.arch, &done)?)
}

fn ports(args: &ReplayArgs, of: &ReplayInput, grid: &Grid) -> anyhow::Result<Replay> {
    let (labels, sets) = grid.labels_and_sets(args.policy.name())?;
    let model = args.costs.as_deref().map(cost_model).transpose()?;
    let (trace, PortsAndModel { ports, model }) = replay_ports(of, &sets, model)?;
    let table = table(args, of, &trace, AxisRow::all(&grid.axes), labels);
    Ok(table.ports(model.as_ref(), trace.is_xen(), of.options.source.clock_hz, &ports)?)
}

fn vcores(args: &ReplayArgs, of: &ReplayInput, grid: &Grid) -> anyhow::Result<Replay> {
    if !of.selection.vcpus.is_empty() {
        bail!("the threads of a virtual core leave together: omit --vcpu with the policy vcore");
    }
    let (labels, sets) = grid.labels_and_sets(args.policy.name())?;
    let mut topologies = Vec::new();
    for (labels, set) in labels.iter().zip(&sets) {
        let mut params = Params::default();
        for (name, value) in set {
            params.set(name, *value)?;
        }
        if !params.fits() {
            bail!("{}: a virtual core of so many threads does not fit into a subcore", labels.join(", "));
        }
        topologies.push(params);
    }
    let (trace, done) = replay_vcores(of, &topologies)?;
    Ok(table(args, of, &trace, AxisRow::all(&grid.axes), labels).vcores(&done)?)
}

/// The cost model of this name, or in this file.
fn cost_model(name: &str) -> anyhow::Result<CostModel> {
    let name = serde_json::to_string(name)?;
    let text = format!("name = \"costs\"\n[costs]\nmodel = {name}\n[[vm]]\nname = \"vm\"\n");
    Ok(ScenarioDocument::parse("--costs", &text)?.scenario()?.costs)
}

/// What all replays have in common; the table is still to be filled.
fn table<'a>(
    args: &'a ReplayArgs,
    of: &ReplayInput,
    trace: &ReadTrace,
    vary: Vec<AxisRow>,
    labels: Vec<Vec<String>>,
) -> ReplayTable<'a> {
    let coverage = Coverage::of(&trace.ledger, trace.exits, trace.timed_exits);
    let (first, last) = trace.span.unwrap_or_default();
    let replay = Replay {
        schema: Replay::SCHEMA,
        trace: read::row(trace),
        coverage: coverage.lines,
        selection: SelectionRow::of(&of.selection),
        policy: args.policy.name(),
        over: String::new(),
        in_force: Vec::new(),
        decisions: None,
        vary,
        figures: Vec::new(),
        best_by: None,
        rows: Vec::new(),
        notes: Vec::new(),
    };
    let length = Nanos(last.since(first).unwrap_or_default().0);
    ReplayTable { replay, length, labels, best: args.best.as_deref(), record: trace.how_to_record() }
}
