//! `exitscope serve`: pages for a browser, of recordings, of what happens now, or of a store.
//!
//! ```text
//! files ─► Library: read when asked for, anew when changed ─┐
//! Capture ─► Feed ─► Ring: the last minutes, in slices ─────┼─► Pages ─► exitscope-http
//! store ─► Fresh: asked anew whenever the page is loaded ───┘
//! ```

mod again;
pub mod feed;
mod fresh;
mod library;
mod live;
mod named_file;
mod pages;
mod ring;

use crate::Outcome;
use crate::access::{access_of, listen, names, scheme, warn};
use crate::cli::{NameArgs, ServeArgs};
use crate::page_file::NOT_BUILT;
use crate::report::symbols;
use crate::{devices, fleet, read};
use anyhow::{Context, bail};
use exitscope_http::{Browsers, Patience, serve};
use exitscope_page::is_built;
use exitscope_signals::{catch_signals, signalled};
use fresh::Fresh;
use library::Library;
use live::Live;
use named_file::NamedFile;
use pages::{Pages, Shown};
use std::path::Path;
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
        bail!("--pid, --vm and --all-cpus say whose exits are shown as they happen, with --live");
    }
    catch_signals()?;
    let files = if args.live || args.dir.is_some() { Vec::new() } else { read::files(&args.files, &[])? };
    let files = files.iter().map(|path| find(path)).collect::<Result<Vec<_>, _>>()?;
    let called = NameArgs { devices: args.devices.clone() };
    // What is wrong with it is said before anybody asks.
    devices::read(&called)?;
    args.guestkallsyms.as_deref().map(symbols).transpose()?;
    if let Some(dir) = &args.dir {
        fleet::check(dir, &args.limits)?;
    }
    let mut access = access_of(&args.access)?;
    let (listener, address) = listen(&args.listen)?;
    warn(address, &access);
    access.patience = Patience { answer: PATIENCE, ..Patience::default() };
    let cookie = Some(format!("exitscope-{}", address.port()));
    access.browsers = Some(Browsers { names: names(&args.access, &args.listen, address), cookie });
    let host = match args.listen.rsplit_once(':') {
        // What was said, unless that is no place to go to.
        Some((host, _)) if !address.ip().is_unspecified() => host.to_string(),
        _ if address.is_ipv6() => "[::1]".to_string(),
        _ => "127.0.0.1".to_string(),
    };
    let live = if args.live { Some(Live::start(args)?) } else { None };
    let token = access.token.as_ref().map(|token| format!("?token={token}")).unwrap_or_default();
    say!("serving {}://{host}:{}/{token}", scheme(&access), address.port());
    let ended = || signalled().is_some() || live.as_ref().is_some_and(Live::has_ended);
    let shown = match (&live, &args.dir) {
        (Some(live), _) => Shown::Live(live.now()),
        (None, Some(dir)) => {
            let (dir, compared, limits) = (dir.clone(), args.compared.clone(), args.limits.clone());
            Shown::Store(Rc::new(Fresh::new(Arc::new(move || fleet::data(&dir, &compared, &limits)))))
        }
        (None, None) => Shown::Files(Library::new(files, args.clock.clone(), called, args.guestkallsyms.clone())),
    };
    serve(listener, access, Pages::new(shown), ended).context("cannot serve")?;
    live.map_or(Ok(()), Live::end)?;
    Ok(Outcome::Fine)
}

/// The file that is called so now, whatever is called so later.
fn find(path: &Path) -> anyhow::Result<NamedFile> {
    if path == Path::new("-") {
        bail!("standard input can be read only once: put it into a file");
    }
    NamedFile::find(path)
}
