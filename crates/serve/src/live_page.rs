//! The page of what happens now.

use exitscope_analysis::Selection;
use exitscope_page::{Compression, PageContents, finish_page_parts, write_data};
use exitscope_pipeline::{AdviceError, Judged, MergedSlices, SliceSnapshot, judgement};
use exitscope_view::{AdviceReport, Coverage, Report, ReportOptions, SelectionRow, SortKey, TraceRow};
use std::collections::BTreeMap;
use std::io::{self, Write};

/// Why there is no page of what happens now.
#[derive(Debug, thiserror::Error)]
pub enum LivePageError {
    /// There is no advice.
    #[error(transparent)]
    Advice(#[from] AdviceError),
    /// It cannot be written.
    #[error(transparent)]
    Write(#[from] io::Error),
}

/// Writes what the page shows, packed.
pub fn write_live_page(kept: SliceSnapshot, out: &mut dyn Write) -> Result<(), LivePageError> {
    let MergedSlices { page, over_time, ledger, exits, timed_exits, info, ends } = kept.merged();
    let selection = Selection::default();
    let name = format!("live on {}", info.hostname);
    let trace = TraceRow::of(name, &info, &info.hostname, ends, ledger.events);
    let facts = &page.advice_input.facts;
    let advised = || {
        let tried = |trials| Ok(page.replay_kept_only(trials));
        let host = trace.recorded_host(&info);
        let (judgement, trials) = judgement(Judged::all(&page.advice_input, &host), tried)?;
        let coverage = Coverage::of(&ledger, exits, timed_exits);
        let selection = SelectionRow::of(&selection);
        let advised = AdviceReport::of(&judgement, trace.clone(), coverage, selection, (facts, &info));
        Ok::<_, AdviceError>((advised, trials.limits()))
    };
    let traces = std::slice::from_ref(&trace);
    let (advice, polls, over_time) = finish_page_parts(&page, advised, || over_time, traces, &info)?;
    let made = ReportOptions {
        exits,
        timed_exits,
        selection,
        sort: SortKey::Cost,
        top: usize::MAX,
        breaches: Vec::new(),
        threads_per_core: None,
        cycles_per_s: None,
        functions: BTreeMap::new(),
    };
    let mut report = Report::of(facts, &ledger, vec![trace], &info, made);
    report.add_advice(facts, &info, &advice);
    let contents = PageContents { report, advice: Some(&advice), polls: polls.as_ref(), over_time, forced_out: None };
    Ok(write_data(contents, Compression::fast(), out)?)
}
