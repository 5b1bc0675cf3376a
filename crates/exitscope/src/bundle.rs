//! `exitscope report --bundle`: a recording for somebody else, as a perf.data file.

use crate::Outcome;
use crate::output_file::{can_write, is_none_of, replace};
use crate::read::RecordingAccess;
use anyhow::{Context, bail};
use exitscope_pipeline::BundleSurvey;
use exitscope_trace::{EventFilter, Input, SourceOptions};
use exitscope_view::{plural, thousands};
use std::io::Write;
use std::path::{Path, PathBuf};

/// A recording, and where its bundle is written.
pub struct BundlePlan {
    file: PathBuf,
    input: Input,
    options: SourceOptions,
    to: PathBuf,
}

impl BundlePlan {
    pub fn of(files: &[PathBuf], access: RecordingAccess, to: &Path) -> anyhow::Result<BundlePlan> {
        let file = the_file(files)?;
        is_none_of(to, std::slice::from_ref(file), "--bundle")?;
        can_write(to)?;
        let input = access.open_one(file)?;
        Ok(BundlePlan { file: file.clone(), input, options: access.source(EventFilter::All), to: to.to_path_buf() })
    }
}

/// The one recording.
fn the_file(files: &[PathBuf]) -> anyhow::Result<&PathBuf> {
    let [file] = files else { bail!("--bundle holds one recording, and {} are named", files.len()) };
    match file.metadata() {
        Ok(about) if about.is_file() => Ok(file),
        Ok(_) => bail!("--bundle reads the recording twice, and {} is not a regular file", file.display()),
        Err(why) => Err(why).with_context(|| file.display().to_string()),
    }
}

pub fn run(plan: &BundlePlan, out: &mut dyn Write) -> anyhow::Result<Outcome> {
    let BundlePlan { file, input, options, to } = plan;
    let survey = BundleSurvey::of(input, *options)?;
    if survey.info.by_vcpu {
        bail!(
            "{}: a Xen log cannot be bundled: it names no process, and its domains have only numbers",
            file.display()
        );
    }
    if survey.events == 0 {
        bail!("{}: no event could be read", file.display());
    }
    let (written, foreign) = replace(to, |new| Ok(survey.write(input, *options, new)?))?;
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
        "Replaced: the host's name, names of threads, numbers of processes, addresses; left out: values read and \
         written.\nLook through it before you send it (`exitscope events {}`); docs/bundle.md says what it holds.",
        to.display()
    )?;
    Ok(Outcome::Fine)
}
