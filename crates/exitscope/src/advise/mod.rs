//! `exitscope advise`: what to change, and why; as a page, as files, or done.
//!
//! ```text
//! first reading ─► AdviceInput ─► Trials ─► second reading ─┬─► judge ─► page, JSON, --as       judge asks the simulator, too
//!                                                           └─► --apply: plan, question, lock, state file, write, read back
//! ```

mod apply;
mod tried;

use crate::cli::{AdviseArgs, EventsFormat};
use crate::counts::{self, CountedFiles};
use crate::devices::{self, DeviceList};
use crate::read::{self, RecordingAccess};
use crate::select::{OutsideNames, SelectedExits, narrows_exits};
use crate::terminal::terminal_style;
use crate::{Outcome, predictions, write_json};
use anyhow::bail;
use apply::ChangedHost;
use exitscope_advice::{AdviceInput, Judgement};
use exitscope_pipeline::{Judged, advice_predictions, judgement, read_alone, reread, whole_input};
use exitscope_trace::{Devices, Input};
use exitscope_view::{AdviceReport, Coverage, SelectionRow, advice_page, write_page, write_settings};
use std::io::Write;

/// The recording that rules look at.
struct AdvisePlan {
    input: Input,
    exits: SelectedExits,
    devices: Option<Devices>,
}

/// What rules say of a recording, and the name of the host that it is of.
struct Advised {
    judgement: Judgement,
    report: AdviceReport,
    recorded_on: String,
}

pub fn run(args: &AdviseArgs, out: &mut dyn Write) -> anyhow::Result<Outcome> {
    // Each flag is named, so that a new one has an effect.
    let AdviseArgs {
        file,
        input,
        form,
        side,
        apply,
        undo,
        tried,
        yes,
        any_host,
        trial,
        predictions: predictions_file,
        state,
        root,
        select,
        names,
        format,
    } = args;
    let host = ChangedHost { root: root.clone(), state: state.clone(), any_host: *any_host };
    if *undo {
        return apply::undo(&host, select.clock.force, out);
    }
    if narrows_exits(select) {
        bail!("advice judges all that happened to a vCPU: omit --reason, --longer-than and --where");
    }
    let file = read::files(file.as_slice(), input.as_slice())?.remove(0);
    let input = RecordingAccess::of(&select.clock).open_one(&file)?;
    if let Some(counted) = CountedFiles::of(std::slice::from_ref(&input))? {
        return counts::advise(args, counted, out);
    }
    let names = OutsideNames { devices: DeviceList::of(names), symbols: None };
    let exits = SelectedExits::of(select, std::slice::from_ref(&input), &names)?;
    if let Some(to) = predictions_file {
        predictions::can_add(to, std::slice::from_ref(&file))?;
    }
    let plan = AdvisePlan { input, exits, devices: names.devices.into_devices()? };
    let advised = plan.judge()?;
    if let Some(number) = tried {
        return tried::run(&host, (*number, trial), &advised, out);
    }
    if let Some(to) = predictions_file {
        let SelectedExits { selection, options, .. } = &plan.exits;
        let predicted = advice_predictions(&plan.input, *options, selection, &advised.judgement)?;
        predictions::add(to, predicted.into_iter().map(Into::into).collect(), (&file, &advised.recorded_on))?;
    }
    match (form, format) {
        (Some(form), _) => write_settings(&advised.report, (*form).into(), side.name(), out)?,
        (None, EventsFormat::Json) => write_json(&advised.report, out)?,
        (None, EventsFormat::Text) => write_page(&advice_page(&advised.report), terminal_style(), out)?,
    }
    match apply {
        true => apply::apply(&host, *yes, &advised, out),
        false => Ok(Outcome::Fine),
    }
}

impl AdvisePlan {
    fn judge(&self) -> anyhow::Result<Advised> {
        let AdvisePlan { input, exits: SelectedExits { selection, options, .. }, devices } = self;
        let (mut trace, mut advice_input) = read_alone(input, *options, || AdviceInput::new(selection))?;
        trace.has_events()?;
        let row = read::row(&trace);
        devices::name(&mut trace.info, devices.as_ref());
        let (first, last) = trace.span.unwrap_or_default();
        advice_input.end(first, last, &trace.vcpu_of);
        let whole = whole_input(input, *options, selection)?;
        let judged = Judged {
            whole: whole.as_ref().unwrap_or(&advice_input),
            selected: whole.as_ref().map(|_| &advice_input),
            host: &row.recorded_host(&trace.info),
        };
        let (judgement, _) = judgement(judged, |trials| reread(input, *options, trials))?;
        let coverage = Coverage::of(&trace.ledger, trace.exits, trace.timed_exits);
        let of = (&advice_input.facts, &trace.info);
        let report = AdviceReport::of(&judgement, row, coverage, SelectionRow::of(selection), of);
        Ok(Advised { judgement, report, recorded_on: trace.hostname().to_string() })
    }
}
