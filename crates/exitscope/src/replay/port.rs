//! Replays of port accesses.

use super::{Figure, Grid, Start, fill, head};
use crate::cli::ReplayArgs;
use crate::read;
use crate::select;
use anyhow::bail;
use exitscope_analysis::replay::{PhaseCosts, PortOutcome, PortReplay, Served};
use exitscope_analysis::{Facts, Selection, TraceSink, TypicalAccesses, Wanted};
use exitscope_model::{DetailKind, Exit};
use exitscope_pipeline::read_alone;
use exitscope_policy::port_path::Phase;
use exitscope_policy::{Knob, Place, Unit};
use exitscope_scenario::{Cost, CostModel, Document};
use exitscope_trace::{Input, Keep};
use exitscope_units::{Moment, Nanos};
use exitscope_view::FigureUnit::{Count, Ns, Share};
use exitscope_view::{Replay, SettingRow, thousands};

/// What the replay can vary besides the policy's knobs.
pub const IN_KERNEL: Knob = Knob {
    name: "in_kernel",
    unit: Unit::Choice(Served::WORDS),
    default: 0,
    min: 0,
    max: Served::WORDS.len() as u64 - 1,
    place: Place::Design,
    about: "What the kernel handles of the port accesses that left it",
};

const FIGURES: [&Figure<PortOutcome>; 7] = [
    &Figure::new(
        0,
        "user_space_accesses",
        Count,
        false,
        "accesses that user space or a device model handles",
        |of, _| Some(of.outside as f64),
    ),
    &Figure::new(0, "exits_avoided", Count, true, "accesses that would not have left the kernel", |of, base| {
        Some(avoided(of, base))
    }),
    &Figure::new(
        3,
        "avoided_share",
        Share,
        true,
        "share of the accesses that would not have left the kernel",
        |of, base| (of.accesses > 0).then(|| avoided(of, base) / of.accesses as f64),
    ),
    &Figure::new(4, "emulations", Count, false, "times that an instruction is emulated", |of, _| {
        Some(of.emulations as f64)
    }),
    &Figure::new(
        5,
        "blocks",
        Count,
        false,
        "times that the vCPU gives its CPU away until a device model has answered",
        |of, _| Some(of.blocks as f64),
    ),
    &Figure::new(2, "cost", Ns, false, "what the accesses cost, in the kernel and in user space", |of, _| {
        (of.unknown == 0).then_some(of.time as f64)
    }),
    &Figure::new(0, "gain", Ns, true, "cost less than as recorded", |of, base| {
        (of.unknown == 0).then_some(base.time as f64 - of.time as f64)
    }),
];

fn avoided(of: &PortOutcome, base: &PortOutcome) -> f64 {
    base.outside.saturating_sub(of.outside) as f64
}

/// What is run over the exits of the second reading.
struct Replays {
    selection: Selection,
    window: (Moment, Moment),
    replays: Vec<PortReplay>,
}

impl TraceSink for Replays {
    fn begin(&mut self, first: Moment) {
        self.window = self.selection.window(first);
    }

    fn absorb(&mut self, exit: &Exit) {
        if self.window.0 <= exit.at && exit.at <= self.window.1 && self.selection.holds_who(&exit.who) {
            self.replays.iter_mut().for_each(|replay| replay.absorb(exit));
        }
    }
}

pub fn replay(args: &ReplayArgs, input: &Input, grid: &Grid) -> anyhow::Result<Replay> {
    let selection = select::selection(&args.select, std::slice::from_ref(input))?;
    let options = read::options(&args.select.clock, Keep::Timed, &selection);
    let wanted = Wanted { by: Vec::new(), slowest: 0, selection: selection.clone() };
    let fresh = || Facts::new(&wanted);
    let (trace, mut facts) = read_alone(input, options, fresh)?;
    let (first, last) = trace.span.unwrap_or_default();
    facts.end(first, last, &trace.vcpu_of);
    let accesses = &facts.accesses;
    let ports: Vec<_> = accesses.cells().into_iter().filter(|(key, _)| key.at.kind == DetailKind::Port).collect();
    let count =
        |outside| ports.iter().filter(|(key, _)| key.outside == outside).map(|(_, of)| of.cell.count).sum::<u64>();
    let (inside, outside) = (count(false), count(true));
    let not_string = ports.iter().filter(|(key, _)| !key.string);
    let untold: u64 = not_string.map(|(_, access)| access.cell.count - access.plain).sum();
    let typical = accesses.typical();
    let arch = &trace.info.arch;
    if inside + outside == 0 && !arch.is_empty() && !arch.starts_with("x86") && !arch.starts_with('i') {
        bail!("{}: no port access to replay: processors of {arch} have no ports", trace.name);
    }
    if inside + outside == 0 {
        bail!("{}: no port access to replay. Record with {}", trace.name, super::how_to_record(&trace));
    }
    let xen = trace.is_xen();
    let recorded = PortReplay::recorded(xen);
    let configurations = grid.configurations(args.policy.name())?;
    let model = args.costs.as_deref().map(cost_model).transpose()?;
    let costs = model.as_ref().map(phase_costs);
    let mut replays = vec![PortReplay::new(recorded, Served::Nothing, xen, &typical, costs.clone())];
    for configuration in &configurations {
        let (mut params, mut served) = (recorded, Served::Nothing);
        for &(name, value) in &configuration.set {
            match name == IN_KERNEL.name {
                true => served = Served::ALL[value as usize],
                false => params.set(name, value).map_err(anyhow::Error::msg)?,
            }
        }
        replays.push(PortReplay::new(params, served, xen, &typical, costs.clone()));
    }
    let fresh =
        || Replays { selection: selection.clone(), window: (Moment::default(), Moment::MAX), replays: replays.clone() };
    let (trace, done) = read_alone(input, options, fresh)?;

    let mut replay = head(args, &trace, &selection);
    replay.over = format!(
        "{} port accesses, {} of them handled in user space, {} long",
        thousands(inside + outside),
        thousands(outside),
        Nanos(last.since(first).unwrap_or_default().0)
    );
    let timed = done.replays.iter().skip(1).any(|replay| replay.outcome.unknown == 0);
    replay.vary = grid.axes();
    let setting = |name: &'static str| {
        recorded.get(name).and_then(|value| Some((super::knobs("port_path").find(|knob| knob.name == name)?, value)))
    };
    replay.in_force = ["quick_path", "device_model"]
        .into_iter()
        .filter_map(setting)
        .map(|(knob, value)| SettingRow { knob: knob.name, value: knob.text(value).to_string() })
        .collect();
    let labels = configurations.into_iter().map(|configuration| configuration.labels);
    let recorded = grid.axes.iter().map(|_| "as recorded".to_string()).collect();
    let outcomes = labels.zip(done.replays[1..].iter().map(|replay| &replay.outcome));
    let best = args.best.as_deref().or(timed.then_some("gain"));
    fill(&mut replay, &FIGURES, best, Start::InForce(recorded, &done.replays[0].outcome), outcomes)?;
    replay.notes = notes(&typical, untold, &done.replays, model.as_ref());
    Ok(replay)
}

/// The cost model of this name, or in this file.
fn cost_model(name: &str) -> anyhow::Result<CostModel> {
    let name = serde_json::to_string(name)?;
    let text = format!("name = \"costs\"\n[costs]\nmodel = {name}\n[[vm]]\nname = \"vm\"\n");
    Ok(Document::parse("--costs", &text)?.scenario()?.costs)
}

/// What each step of a port access takes.
fn phase_costs(model: &CostModel) -> PhaseCosts {
    let rows: [(Phase, &[&Cost]); 14] = [
        (Phase::Exit, &[&model.exit]),
        (Phase::Decode, &[&model.port_decode]),
        (Phase::Emulate, &[&model.emulate]),
        (Phase::Device, &[&model.kernel_device]),
        (Phase::Signal, &[&model.eventfd]),
        (Phase::Store, &[&model.coalesce]),
        (Phase::LeaveToUser, &[&model.kernel_leave, &model.user_loop]),
        (Phase::WakeDeviceModel, &[&model.wake]),
        (Phase::Block, &[&model.switch]),
        (Phase::DeviceModel, &[&model.device]),
        (Phase::ReturnFromUser, &[&model.kernel_enter]),
        (Phase::Resume, &[&model.wake_latency, &model.switch]),
        (Phase::Complete, &[&model.complete_io]),
        (Phase::Entry, &[&model.entry]),
    ];
    rows.into_iter().map(|(phase, costs)| (phase, costs.iter().map(|cost| cost.time.as_nanos()).sum())).collect()
}

fn notes(typical: &TypicalAccesses, untold: u64, done: &[PortReplay], model: Option<&CostModel>) -> Vec<String> {
    let unknown = done.iter().any(|replay| replay.outcome.unknown > 0);
    let modelled = done.iter().any(|replay| replay.outcome.modelled > 0);
    let in_kernel = |write| typical.in_kernel(DetailKind::Port, write);
    let mut notes = vec![match (in_kernel(false), in_kernel(true)) {
        (Some(read), Some(write)) => format!(
            "an access that the kernel then serves takes what those typically take (median) that it serves in this recording: a read \
             {read}, a write {write}"
        ),
        _ => "The kernel served no port access in this recording, so what serving more of them there would cost is not known"
            .to_string(),
    }];
    if unknown {
        notes.push(
            "- where the recording has no cost of that way: of another device model, or of an instruction that is emulated \
             instead of decoded from the exit; --costs takes it from a cost model"
                .to_string(),
        );
    }
    if let Some(model) = model.filter(|_| modelled) {
        notes.push(format!(
            "what the recording has no cost of is what it was, changed by what the cost model {} says of the steps that differ: {}",
            model.name, model.description
        ));
    }
    if untold > 0 {
        notes.push(format!(
            "Of {} accesses the trace does not say whether they are string accesses: they are taken for plain ones",
            thousands(untold)
        ));
    }
    notes.push(
        "ioeventfd and coalesced: all plain writes, whether or not their devices can do without the data or the answer; what \
         the device then does is another thread's time"
            .to_string(),
    );
    notes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_figure_of_port_accesses_is_its_own() {
        let outcome =
            PortOutcome { accesses: 20, outside: 3, emulations: 5, blocks: 7, time: 110, ..PortOutcome::default() };
        let base = PortOutcome { outside: 13, time: 300, ..outcome };
        let wanted = [
            ("user_space_accesses", 3.0),
            ("exits_avoided", 10.0),
            ("avoided_share", 0.5),
            ("emulations", 5.0),
            ("blocks", 7.0),
            ("cost", 110.0),
            ("gain", 190.0),
        ];
        super::super::tests::check(&FIGURES, &outcome, &base, &wanted);
    }
}
