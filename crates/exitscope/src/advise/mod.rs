//! `exitscope advise`: what to change, and why; as a page, as files, or done.
//!
//! ```text
//! first reading ─► Material ─► Trials ─► second reading ─┬─► judge ─► page, JSON, --as       judge asks the simulator, too
//!                                                        └─► --apply: plan, question, lock, state file, write, read back
//! ```

mod apply;
mod knob_file;
mod simulated;
mod state;

use crate::Outcome;
use crate::cli::{AdviseArgs, EventsFormat};
use crate::devices;
use crate::read::{self, Earlier, Sink};
use crate::report::look;
use crate::select;
use anyhow::bail;
use exitscope_analysis::advice::{Judgement, Material, Trials, judge};
use exitscope_model::{Event, EventKinds, Exit, Halt, PleUpdate, Preemption, Signed, Stretch, TraceInfo, Yield};
use exitscope_trace::Keep;
use exitscope_units::Moment;
use exitscope_view::{Advised, Coverage, SelectionRow, TraceRow, advice_page, write_page, write_settings};
use simulated::Simulations;
use std::io::Write;

impl Sink for Material {
    fn begin(&mut self, first: Moment) {
        Material::begin(self, first);
    }

    fn heard(&mut self, kinds: EventKinds) {
        Material::heard(self, kinds);
    }

    fn schedule(&mut self, event: &Event) {
        self.facts.schedule(event);
    }

    #[inline]
    fn absorb(&mut self, exit: &Exit) {
        Material::absorb(self, exit);
    }

    fn stretch(&mut self, stretch: &Stretch) {
        self.facts.absorb_stretch(stretch);
    }

    fn halt(&mut self, halt: &Halt) {
        self.absorb_halt(halt);
    }

    fn yielded(&mut self, of: &Yield) {
        self.absorb_yield(of);
    }

    fn preempted(&mut self, of: &Preemption) {
        self.absorb_preemption(of);
    }

    fn ple_update(&mut self, of: &PleUpdate) {
        self.absorb_ple_update(of);
    }

    fn sign(&mut self, of: &Signed) {
        self.absorb_sign(of);
    }

    fn runner_events(&mut self, events: &[Event]) {
        events.iter().for_each(|event| self.facts.absorb_runner_event(event));
    }
}

impl Sink for Trials {
    fn begin(&mut self, first: Moment) {
        Trials::begin(self, first);
    }

    fn absorb(&mut self, _: &Exit) {}

    fn halt(&mut self, halt: &Halt) {
        self.absorb_halt(halt);
    }

    fn yielded(&mut self, of: &Yield) {
        self.absorb_yield(of);
    }

    fn runner_events(&mut self, events: &[Event]) {
        events.iter().for_each(|event| self.absorb_runner_event(event));
    }
}

/// What the rules make of a recording. `again` takes trials through it once more, if there is something to try.
pub fn judgement(
    material: &Material,
    row: &TraceRow,
    info: &TraceInfo,
    again: impl FnOnce(Trials) -> anyhow::Result<Trials>,
) -> anyhow::Result<(Judgement, Trials)> {
    let machine = row.machine(info);
    let mut trials = Trials::new(material, &machine);
    if trials.need_reading() {
        trials = again(trials)?;
        trials.end();
    }
    let simulations = Simulations::of(&machine);
    let judgement = judge(material, &trials, &machine, &|kind, way| simulations.shares(kind, way));
    simulations.check()?;
    Ok((judgement, trials))
}

pub fn run(args: &AdviseArgs, out: &mut dyn Write) -> anyhow::Result<Outcome> {
    if args.undo {
        return apply::undo(args, out);
    }
    if args.select.narrows_exits() {
        bail!("advice is about all that happened to a vCPU: --reason, --longer-than and --where have no meaning here");
    }
    let file = read::files(args.file.as_slice(), args.input.as_slice())?.remove(0);
    let input = read::open_one(&file, &args.select.clock)?;
    let selection = select::selection(&args.select, std::slice::from_ref(&input))?;
    let (need_vcpus, options) = (selection.needs_vcpus(), args.select.clock.options(Keep::Timed));
    let fresh = || Material::new(&selection);
    let devices = devices::read(&args.names)?;
    let (mut trace, mut material) =
        read::read_input(input.try_clone()?, &mut Earlier::default(), need_vcpus, options, fresh)?;
    read::has_events(&trace)?;
    devices::name(&mut trace.info, devices.as_ref());
    let (first, last) = trace.span.unwrap_or_default();
    material.end(first, last, &trace.vcpu_of);
    let (judgement, _) = judgement(&material, &trace.row, &trace.info, |trials| {
        Ok(read::read_input(input, &mut Earlier::default(), need_vcpus, options, || trials.clone())?.1)
    })?;
    let coverage = Coverage::of(&trace.ledger, trace.exits, trace.timed_exits);
    let of = (&material.facts, &trace.info);
    let advised = Advised::of(&judgement, trace.row.clone(), coverage, SelectionRow::of(&selection), of);
    match (args.form, args.format) {
        (Some(form), _) => write_settings(&advised, form.into(), args.side.name(), out)?,
        (None, EventsFormat::Json) => {
            serde_json::to_writer(&mut *out, &advised)?;
            writeln!(out)?;
        }
        (None, EventsFormat::Text) => write_page(&advice_page(&advised), look(), out)?,
    }
    match args.apply {
        true => apply::apply(args, &judgement, &trace.row.hostname, out),
        false => Ok(Outcome::Fine),
    }
}
