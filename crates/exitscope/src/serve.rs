//! `exitscope serve`: what its flags ask for, and how recordings and stores are read for its pages.

use crate::Outcome;
use crate::access::{access_of, listen, names, scheme, warn};
use crate::cli::{NameArgs, ServeArgs};
use crate::devices::DeviceList;
use crate::host::LiveHost;
use crate::html::write_page_of;
use crate::html_output::NOT_BUILT;
use crate::read::{self, RecordingAccess};
use crate::report_plan::{ReportPlan, symbols};
use crate::select::{OutsideNames, SelectedExits};
use crate::{counts, diff, fleet};
use anyhow::{Context, bail};
use exitscope_http::{BrowserIsolation, Timeouts, serve};
use exitscope_page::{Compression, Question, Reread, is_built, write_data};
use exitscope_pipeline::read_alone;
use exitscope_serve::{
    CachedPage, LiveCapture, LiveOptions, NamedFile, Pages, RecordingPage, RecordingSummary, Recordings, ServedContent,
    ServedFiles,
};
use exitscope_signals::{catch_signals, signalled};
use exitscope_trace::{GuestSymbols, Input};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

/// How long a browser may take to read an answer, in which the time is that a file is read first.
const PATIENCE: Duration = Duration::from_secs(90);

pub fn run(args: &ServeArgs) -> anyhow::Result<Outcome> {
    if !is_built() {
        bail!("{NOT_BUILT}");
    }
    if !args.live && (!args.whose.pid.is_empty() || args.whose.vm.is_some() || args.whose.all) {
        bail!("--pid, --vm and --all-cpus require --live");
    }
    catch_signals()?;
    let files = if args.live || args.dir.is_some() { Vec::new() } else { read::files(&args.files, &[])? };
    let files = files.iter().map(|path| find(path)).collect::<Result<Vec<_>, _>>()?;
    let recordings = FilesRead::of(args);
    // What is wrong with names is said before anybody asks.
    DeviceList::of(&recordings.names).get()?;
    recordings.symbols()?;
    if let Some(dir) = &args.dir {
        fleet::check(dir, &args.limits)?;
    }
    let mut access = access_of(&args.access)?;
    let (listener, address) = listen(&args.listen)?;
    warn(address, &access);
    access.patience = Timeouts { answer: PATIENCE, ..Timeouts::default() };
    let cookie = Some(format!("exitscope-{}", address.port()));
    access.browsers = Some(BrowserIsolation { names: names(&args.access, &args.listen, address), cookie });
    let host = match args.listen.rsplit_once(':') {
        // What was said, unless that is no place to go to.
        Some((host, _)) if !address.ip().is_unspecified() => host.to_string(),
        _ if address.is_ipv6() => "[::1]".to_string(),
        _ => "127.0.0.1".to_string(),
    };
    let live = if args.live { Some(LiveCapture::start(live_options(args)?)?) } else { None };
    let token = access.token.as_ref().map(|token| format!("?token={token}")).unwrap_or_default();
    say!("serving {}://{host}:{}/{token}", scheme(&access), address.port());
    let ended = || signalled().is_some() || live.as_ref().is_some_and(LiveCapture::has_ended);
    let shown = match (&live, &args.dir) {
        (Some(live), _) => ServedContent::Live(live.view()),
        (None, Some(dir)) => {
            let (dir, compared, limits) = (dir.clone(), args.compared.clone(), args.limits.clone());
            ServedContent::Store(Rc::new(CachedPage::new(Arc::new(move || {
                said(fleet::data(&dir, &compared, &limits))
            }))))
        }
        (None, None) => ServedContent::Files(ServedFiles::new(files, Arc::new(recordings))),
    };
    serve(listener, access, Pages::new(shown), ended).context("cannot serve")?;
    live.map_or(Ok(()), LiveCapture::end)?;
    Ok(Outcome::Fine)
}

/// The file that is called so now, whatever is called so later.
fn find(path: &Path) -> anyhow::Result<NamedFile> {
    if path == Path::new("-") {
        bail!("standard input can be read only once: put it into a file");
    }
    Ok(NamedFile::find(path)?)
}

fn live_options(args: &ServeArgs) -> anyhow::Result<LiveOptions> {
    Ok(LiveOptions {
        info: LiveHost::new().info(),
        processes: args.whose.processes()?,
        keep: args.keep,
        buffer: args.buffer,
        scheduler: !args.no_sched,
        without_bpf: args.no_bpf,
        say: |text| say!("{text}"),
    })
}

/// Reads recordings as for the page of a report. Lists of names are read anew with each, as they may have changed.
struct FilesRead {
    access: RecordingAccess,
    names: NameArgs,
    guestkallsyms: Option<PathBuf>,
}

impl FilesRead {
    fn of(args: &ServeArgs) -> FilesRead {
        FilesRead {
            access: RecordingAccess::of(&args.clock),
            names: NameArgs { devices: args.devices.clone() },
            guestkallsyms: args.guestkallsyms.clone(),
        }
    }

    fn input(&self, file: &NamedFile) -> anyhow::Result<Input> {
        self.access.open_file(file.open()?, file.name())
    }

    fn names(&self) -> anyhow::Result<OutsideNames> {
        Ok(OutsideNames { devices: DeviceList::of(&self.names), symbols: self.symbols()?.map(Arc::new) })
    }

    fn symbols(&self) -> anyhow::Result<Option<GuestSymbols>> {
        self.guestkallsyms.as_deref().map(symbols).transpose()
    }
}

impl Recordings for FilesRead {
    fn page(&self, file: &NamedFile) -> Result<RecordingPage, String> {
        let (mut summary, mut data) = (None, Vec::new());
        let plan = || ReportPlan::of_page(self.input(file)?, self.access, self.names()?);
        let read = plan().and_then(|plan| {
            write_page_of(&plan, |contents| {
                summary = Some(RecordingSummary::of(&contents.report));
                Ok(write_data(contents, Compression::new(6), &mut data)?)
            })
        });
        said(read)?;
        Ok(RecordingPage { summary: summary.ok_or("nothing was read")?, data })
    }

    fn comparison(&self, before: &NamedFile, after: &NamedFile) -> Result<Vec<u8>, String> {
        let inputs = || Ok((self.input(before)?, self.input(after)?));
        said(inputs().and_then(|(before, after)| diff::data(before, after, self.access)))
    }

    fn answer(&self, file: &NamedFile, version: String, question: &Question) -> Result<Vec<u8>, String> {
        let answer = || {
            let symbols = self.symbols()?.unwrap_or_default();
            let options = SelectedExits::all(self.access).options;
            let (trace, read) = read_alone(&self.input(file)?, options, || Reread::numbered(question.clone()))?;
            let vcpus = (&trace.lanes[..], &trace.vcpu_of);
            Ok(Reread::finish(read, version, vcpus, &trace.info, |rip| GuestSymbols::function(&symbols, rip))?)
        };
        said(answer())
    }

    fn pasted(&self, text: &[u8]) -> Result<Vec<u8>, String> {
        said(counts::pasted_page(text))
    }
}

/// What was made, or why it was not, in one text.
fn said<T>(made: anyhow::Result<T>) -> Result<T, String> {
    made.map_err(|error| format!("{error:#}"))
}
