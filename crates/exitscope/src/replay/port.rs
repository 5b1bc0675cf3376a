//! Replays of port accesses.

use super::{Figure, Grid, Start, fill, head};
use crate::cli::ReplayArgs;
use exitscope_analysis::replay::{PortOutcome, PortReplay};
use exitscope_model::DetailKind;
use exitscope_pipeline::replay::{ReplayInput, ReplayedPorts, replay_ports};
use exitscope_scenario::{CostModel, Document};
use exitscope_units::Nanos;
use exitscope_view::FigureUnit::{Count, Ns, Share};
use exitscope_view::{AxisRow, Replay, SettingRow, thousands};

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

pub fn replay(args: &ReplayArgs, of: &ReplayInput, grid: &Grid) -> anyhow::Result<Replay> {
    let configurations = grid.configurations(args.policy.name())?.into_iter();
    let (labels, sets): (Vec<_>, Vec<_>) = configurations.map(|of| (of.labels, of.set)).unzip();
    let model = args.costs.as_deref().map(cost_model).transpose()?;
    let done = replay_ports(of, &sets, model.as_ref())?;
    let trace = &done.trace;
    let (first, last) = trace.span.unwrap_or_default();
    let mut replay = head(args, trace, &of.selection);
    replay.over = format!(
        "{} port accesses, {} of them handled in user space, {} long",
        thousands(done.accesses),
        thousands(done.outside),
        Nanos(last.since(first).unwrap_or_default().0)
    );
    let timed = done.outcomes.iter().any(|outcome| outcome.unknown == 0);
    replay.vary = AxisRow::all(&grid.axes);
    let in_force = PortReplay::recorded(trace.is_xen());
    let setting = |name: &'static str| {
        in_force.get(name).and_then(|value| Some((super::knobs("port_path").find(|knob| knob.name == name)?, value)))
    };
    replay.in_force = ["quick_path", "device_model"]
        .into_iter()
        .filter_map(setting)
        .map(|(knob, value)| SettingRow { knob: knob.name, value: knob.text(value).to_string() })
        .collect();
    let recorded = grid.axes.all().iter().map(|_| "as recorded".to_string()).collect();
    let outcomes = labels.into_iter().zip(&done.outcomes);
    let best = args.best.as_deref().or(timed.then_some("gain"));
    fill(&mut replay, &FIGURES, best, Start::InForce(recorded, &done.in_force), outcomes)?;
    replay.notes = notes(&done, model.as_ref());
    Ok(replay)
}

/// The cost model of this name, or in this file.
fn cost_model(name: &str) -> anyhow::Result<CostModel> {
    let name = serde_json::to_string(name)?;
    let text = format!("name = \"costs\"\n[costs]\nmodel = {name}\n[[vm]]\nname = \"vm\"\n");
    Ok(Document::parse("--costs", &text)?.scenario()?.costs)
}

fn notes(done: &ReplayedPorts, model: Option<&CostModel>) -> Vec<String> {
    let outcomes = || done.outcomes.iter().chain([&done.in_force]);
    let unknown = outcomes().any(|outcome| outcome.unknown > 0);
    let modelled = outcomes().any(|outcome| outcome.modelled > 0);
    let in_kernel = |write| done.typical.in_kernel(DetailKind::Port, write);
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
    if done.untold > 0 {
        notes.push(format!(
            "Of {} accesses the trace does not say whether they are string accesses: they are taken for plain ones",
            thousands(done.untold)
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
