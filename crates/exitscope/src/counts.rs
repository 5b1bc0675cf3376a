//! Texts of counts where traces are usual: `report`, `advise` and `diff` of what a monitor or a kernel counted.

use crate::cli::{AdviseArgs, DiffArgs, DiffFormat, EventsFormat, ReportArgs, ReportFormat, SelectArgs};
use crate::html_output;
use crate::terminal::terminal_style;
use crate::views::ViewArg;
use crate::{Outcome, write_json};
use anyhow::{bail, ensure};
use exitscope_model::{Ledger, LedgerLine};
use exitscope_trace::Input;
use exitscope_trace::counts::{is_counts, read};
use exitscope_view::{
    CountedTexts, CountsComparison, CountsReport, Page, counts_advice_page, counts_comparison_page, counts_page,
    write_markdown, write_page, write_page_html,
};
use std::io::Write;
use std::path::PathBuf;

/// What texts of counts hold together.
pub struct CountedFiles(CountedTexts);

impl CountedFiles {
    /// Those of these inputs; `None` if they are traces. Both at once have nothing in common.
    pub fn of(inputs: &[Input]) -> anyhow::Result<Option<CountedFiles>> {
        let are_counts = inputs.iter().map(is_counts).collect::<Result<Vec<_>, _>>()?;
        if !are_counts.contains(&true) {
            return Ok(None);
        }
        if let Some(trace) = are_counts.iter().position(|is_counts| !is_counts) {
            bail!("{} is no text of counts, and others named beside it are: read them apart", inputs[trace].name());
        }
        let mut texts = CountedTexts::default();
        for input in inputs {
            let text = read(input)?;
            texts.files.push(input.name().to_string());
            texts.ledger.merge(&text.ledger);
            add_new(&mut texts.counts, text.counts, &mut texts.ledger);
            add_new(&mut texts.tables, text.tables, &mut texts.ledger);
            add_new(&mut texts.operations, text.operations, &mut texts.ledger);
        }
        Ok(Some(CountedFiles(texts)))
    }

    fn report(&self) -> CountsReport {
        CountsReport::of(&self.0)
    }
}

/// The page, as HTML, of a text of counts that somebody has pasted.
pub fn pasted_page(text: &[u8]) -> anyhow::Result<Vec<u8>> {
    let input = Input::from_bytes("what was pasted", text)?;
    let Some(files) = CountedFiles::of(&[input])? else {
        bail!("this is a trace and no table: save it to a file, and read that with `exitscope report FILE`");
    };
    let (report, mut page) = (files.report(), Vec::new());
    write_page_html(&counts_page(&report), "What was pasted", &mut page)?;
    Ok(page)
}

/// Adds what is not there yet: what is pasted twice was counted once.
fn add_new<T: PartialEq>(known: &mut Vec<T>, more: Vec<T>, ledger: &mut Ledger) {
    for one in more {
        match known.contains(&one) {
            true => ledger.count(LedgerLine::RepeatedScreen),
            false => known.push(one),
        }
    }
}

/// How a report of counts is printed.
pub struct CountsTask {
    files: CountedFiles,
    is_json: bool,
    /// The file that its page goes to.
    html: Option<PathBuf>,
}

impl CountsTask {
    /// What these flags of `report` ask of counts. Each is named, so that a new one is judged, too.
    pub fn of_report(args: &ReportArgs, files: CountedFiles) -> anyhow::Result<CountsTask> {
        let ReportArgs {
            files: _,
            inputs: _,
            all: _,
            mail,
            by,
            event,
            guestkallsyms,
            interval,
            view,
            threads_per_core,
            select,
            names,
            top,
            sort,
            slowest,
            format,
            html,
            bundle: _,
            hidden,
            fail_on,
        } = args;
        check(&[
            ("--mail", *mail),
            ("--by", !by.is_empty()),
            ("--event", event.is_some()),
            ("--guestkallsyms", guestkallsyms.is_some()),
            ("--interval", interval.is_some()),
            ("views other than yield", view.is_some_and(|view| view != ViewArg::Yield)),
            ("--threads-per-core", threads_per_core.is_some()),
            ("a selection", selects(select)),
            ("--devices", names.devices.is_some()),
            ("--top", top.is_some()),
            ("--sort", sort.is_some()),
            ("--slowest", slowest.is_some()),
            ("--format csv", *format == ReportFormat::Csv),
            ("--hidden", hidden.is_some()),
            ("--fail-on", !fail_on.is_empty()),
        ])?;
        Ok(CountsTask { files, is_json: *format == ReportFormat::Json, html: html.clone() })
    }

    /// Prints it.
    pub fn print(self, out: &mut dyn Write) -> anyhow::Result<Outcome> {
        let report = self.files.report();
        let Some(to) = self.html else { return print(&report, self.is_json, counts_page, out) };
        html_output::write(&to, |out| write_page_html(&counts_page(&report), &report.files.join(", "), out))?;
        Ok(Outcome::Fine)
    }
}

/// Prints what rules say of counts.
pub fn advise(args: &AdviseArgs, files: CountedFiles, out: &mut dyn Write) -> anyhow::Result<Outcome> {
    check(&[
        ("--as", args.form.is_some()),
        ("--apply", args.apply),
        ("--try", args.tried.is_some()),
        ("a selection", selects(&args.select)),
        ("--devices", args.names.devices.is_some()),
    ])?;
    print(&files.report(), args.format == EventsFormat::Json, counts_advice_page, out)
}

/// Compares the counts of both sides.
pub fn compare(args: &DiffArgs, [before, after]: [CountedFiles; 2], out: &mut dyn Write) -> anyhow::Result<Outcome> {
    check(&[
        ("a selection", selects(&args.select)),
        ("--top", args.top.is_some()),
        ("--work", args.work.is_some()),
        ("--html", args.html.is_some()),
        ("--fail-on", !args.fail_on.is_empty()),
    ])?;
    let comparison = CountsComparison::of(&before.0, &after.0);
    if args.format == DiffFormat::Markdown {
        write_markdown(&counts_comparison_page(&comparison), out)?;
        return Ok(Outcome::Fine);
    }
    print(&comparison, args.format == DiffFormat::Json, counts_comparison_page, out)
}

fn print<T: serde::Serialize>(
    of: &T,
    is_json: bool,
    page: fn(&T) -> Page,
    out: &mut dyn Write,
) -> anyhow::Result<Outcome> {
    match is_json {
        true => write_json(of, out)?,
        false => write_page(&page(of), terminal_style(), out)?,
    }
    Ok(Outcome::Fine)
}

/// Fails if one of these was asked for.
fn check(flags: &[(&str, bool)]) -> anyhow::Result<()> {
    let asked: Vec<&str> = flags.iter().filter(|flag| flag.1).map(|flag| flag.0).collect();
    ensure!(asked.is_empty(), "counts hold no single exits: omit {}", asked.join(", "));
    Ok(())
}

/// Whether anything narrows what is looked at.
fn selects(select: &SelectArgs) -> bool {
    let SelectArgs { vms, vcpus, reasons, from, to, longer_than, condition, clock: _ } = select;
    let is_named = !vms.is_empty() || !vcpus.is_empty() || !reasons.is_empty();
    is_named || from.is_some() || to.is_some() || longer_than.is_some() || condition.is_some()
}
