//! `exitscope report --bundle`: a recording for somebody else, as a perf.data file.

use crate::Outcome;
use crate::cli::ReportArgs;
use crate::output_file::{can_write, is_none_of, replace};
use crate::read;
use anyhow::{Context, bail};
use exitscope_pipeline::BundleSurvey;
use exitscope_trace::EventFilter;
use exitscope_view::{plural, thousands};
use std::io::Write;
use std::path::{Path, PathBuf};

/// The one recording.
fn the_file(args: &ReportArgs) -> anyhow::Result<PathBuf> {
    let files = read::files(&args.files, &args.inputs)?;
    let [file] = &files[..] else { bail!("--bundle holds one recording, and {} are named", files.len()) };
    match file.metadata() {
        Ok(about) if about.is_file() => Ok(file.clone()),
        Ok(_) => bail!("--bundle reads the recording twice, and {} is no file", file.display()),
        Err(why) => Err(why).with_context(|| file.display().to_string()),
    }
}

pub fn run(args: &ReportArgs, to: &Path, out: &mut dyn Write) -> anyhow::Result<Outcome> {
    let file = the_file(args)?;
    is_none_of(to, std::slice::from_ref(&file), "--bundle")?;
    can_write(to)?;
    let (input, options) = (read::open_one(&file, &args.select.clock)?, args.select.clock.options(EventFilter::All));
    let survey = BundleSurvey::of(&input, options)?;
    if survey.info.by_vcpu {
        bail!(
            "{}: of Xen's logs there are no bundles: they name no process; domains have numbers alone",
            file.display()
        );
    }
    if survey.events == 0 {
        bail!("{}: no event could be read", file.display());
    }
    let (written, foreign) = replace(to, |new| Ok(survey.write(&input, options, new)?))?;
    let (events, size) = (thousands(written.events), thousands(written.bytes.div_ceil(1000)));
    writeln!(out, "{}: {events} events in {size} kB", to.display())?;
    for (count, why) in [
        (foreign, "of tracepoints that are not the kernel's own"),
        (written.left_out, "that have no place in perf.data"),
    ] {
        if count > 0 {
            writeln!(out, "Left out: {} {} {why}", thousands(count), plural(count, "event"))?;
        }
    }
    writeln!(
        out,
        "Replaced: the host's name, names of threads, numbers of processes, addresses; left out: what was read and written.\n\
         Look through it before you send it (`exitscope events {}`); docs/bundle.md says what it holds.",
        to.display()
    )?;
    Ok(Outcome::Fine)
}
