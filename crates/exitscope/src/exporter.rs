//! `exitscope exporter`: counts of this host's exits for Prometheus.

use crate::Outcome;
use crate::access::{access_of, listen, names, scheme, warn};
use crate::cli::ExporterArgs;
use anyhow::{Context, anyhow, ensure};
use exitscope_exporter::{Exporter, SeriesLimits};
use exitscope_http::{BrowserIsolation, serve};
use exitscope_live::{CostCycle, LiveCounts, VmWatch};
use exitscope_record::{CountingOptions, TracingBackend};
use exitscope_signals::{catch_signals, signalled};
use std::fs::{self, Permissions};
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Exit reasons with series of their own. Hosts show less than thirty.
const REASONS: usize = 64;

/// For how long what counting costs is measured, and how often: counting is slower meanwhile.
const MEASURE: Duration = Duration::from_secs(1);
const MEASURE_EVERY: Duration = Duration::from_secs(60);

/// How often a file of metrics is written: as often as Prometheus scrapes by default, or more often.
const WRITE_EVERY: Duration = Duration::from_secs(15);

/// How often a signal is looked for.
const LOOK_EVERY: Duration = Duration::from_millis(100);

pub fn run(args: &ExporterArgs) -> anyhow::Result<Outcome> {
    catch_signals()?;
    if let Some(file) = &args.textfile {
        return write_textfile(file, args);
    }
    let mut access = access_of(&args.access)?;
    let (listener, address) = listen(args.listen)?;
    warn(address, &access);
    // Who scrapes is no browser, but the pages in one can reach whatever its machine can.
    let names = names(&args.access, &args.listen.to_string(), address);
    access.browsers = Some(BrowserIsolation { names, cookie: None });
    let exporter = start(args)?;
    say!("serving {}://{address}/metrics", scheme(&access));
    serve(listener, access, exporter, || signalled().is_some()).context("cannot serve")?;
    Ok(Outcome::Fine)
}

/// Counts from now on.
fn start(args: &ExporterArgs) -> anyhow::Result<Exporter<LiveCounts>> {
    let processes = args.whose.processes()?;
    let vms = VmWatch::new(&processes, args.whose.vm.clone(), false);
    let options = CountingOptions { processes, without_bpf: args.no_bpf, ..CountingOptions::default() };
    let counts = LiveCounts::start(&options, vms, CostCycle::new(MEASURE, MEASURE_EVERY))?;
    if let TracingBackend::PerfEvents { because } = counts.counting.route() {
        say!("counting by perf events, as BPF may not be used: {because}");
    }
    Ok(Exporter::new(counts, SeriesLimits { vms: args.max_vms, reasons: REASONS, per_vcpu: args.per_vcpu }))
}

/// Keeps the metrics in a file until a signal comes, or it cannot be written. What would be old then is removed.
fn write_textfile(file: &Path, args: &ExporterArgs) -> anyhow::Result<Outcome> {
    // A file of another name is not read, and may be something else's.
    ensure!(
        file.extension().is_some_and(|end| end == "prom"),
        "node_exporter reads files called *.prom, not {}",
        file.display()
    );
    let exporter = start(args)?;
    let written = rewrite_until_signalled(file, &exporter);
    let removed = fs::remove_file(file).with_context(|| format!("cannot remove {}", file.display()));
    written.and(removed)?;
    Ok(Outcome::Fine)
}

fn rewrite_until_signalled(file: &Path, exporter: &Exporter<LiveCounts>) -> anyhow::Result<()> {
    replace_textfile(file, exporter)?;
    say!("writing {} every {} s", file.display(), WRITE_EVERY.as_secs());
    let mut written = Instant::now();
    while signalled().is_none() {
        sleep(LOOK_EVERY);
        exporter.collect();
        if written.elapsed() >= WRITE_EVERY {
            replace_textfile(file, exporter)?;
            written = Instant::now();
        }
    }
    Ok(())
}

/// Puts the metrics of now in the place of those of before, at once: node_exporter never reads half a file. It runs as another user,
/// who must be able to read it.
fn replace_textfile(file: &Path, exporter: &Exporter<LiveCounts>) -> anyhow::Result<()> {
    let text = exporter.textfile().map_err(|trouble| anyhow!("cannot read what was counted: {trouble}"))?;
    let cannot = || format!("cannot write {}", file.display());
    let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let readable = Permissions::from_mode(0o644);
    let mut new = tempfile::Builder::new().permissions(readable).tempfile_in(folder).with_context(cannot)?;
    new.write_all(text.as_bytes()).with_context(cannot)?;
    new.persist(file).with_context(cannot)?;
    Ok(())
}
