//! `exitscope advise`: what to change, and why; as a page, as files, or done.
//!
//! ```text
//! first reading ─► AdviceInput ─► Trials ─► second reading ─┬─► judge ─► page, JSON, --as       judge asks the simulator, too
//!                                                           └─► --apply: plan, question, lock, state file, write, read back
//! ```

mod apply;
mod tried;

use crate::cli::{AdviseArgs, EventsFormat};
use crate::devices;
use crate::read;
use crate::select;
use crate::terminal::terminal_style;
use crate::{Outcome, write_json};
use anyhow::bail;
use exitscope_advice::AdviceInput;
use exitscope_pipeline::{Judged, judgement, read_alone, reread, whole_input};
use exitscope_trace::EventFilter;
use exitscope_view::{AdviceReport, Coverage, SelectionRow, advice_page, write_page, write_settings};
use std::io::Write;

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
    let options = read::options(&args.select.clock, EventFilter::Used, &selection);
    let devices = devices::read(&args.names)?;
    let (mut trace, mut advice_input) = read_alone(&input, options, || AdviceInput::new(&selection))?;
    trace.has_events()?;
    let row = read::row(&trace);
    devices::name(&mut trace.info, devices.as_ref());
    let (first, last) = trace.span.unwrap_or_default();
    advice_input.end(first, last, &trace.vcpu_of);
    let whole = whole_input(&input, options, &selection)?;
    let judged = Judged {
        whole: whole.as_ref().unwrap_or(&advice_input),
        selected: whole.as_ref().map(|_| &advice_input),
        host: &row.recorded_host(&trace.info),
    };
    let (judgement, _) = judgement(judged, |trials| reread(&input, options, trials))?;
    let coverage = Coverage::of(&trace.ledger, trace.exits, trace.timed_exits);
    let of = (&advice_input.facts, &trace.info);
    let advised = AdviceReport::of(&judgement, row, coverage, SelectionRow::of(&selection), of);
    if let Some(number) = args.tried {
        return tried::run(args, number, (&judgement, &advised), trace.hostname(), out);
    }
    match (args.form, args.format) {
        (Some(form), _) => write_settings(&advised, form.into(), args.side.name(), out)?,
        (None, EventsFormat::Json) => write_json(&advised, out)?,
        (None, EventsFormat::Text) => write_page(&advice_page(&advised), terminal_style(), out)?,
    }
    match args.apply {
        true => apply::apply(args, &judgement, trace.hostname(), out),
        false => Ok(Outcome::Fine),
    }
}
