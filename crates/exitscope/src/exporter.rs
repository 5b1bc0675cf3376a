//! `exitscope exporter`: counts of this host's exits for Prometheus.

use crate::Outcome;
use crate::access::{access_of, listen, names, scheme, warn};
use crate::cli::ExporterArgs;
use anyhow::Context;
use exitscope_exporter::{Exporter, SeriesLimits};
use exitscope_http::{BrowserIsolation, serve};
use exitscope_live::{CostCycle, LiveCounts, VmWatch};
use exitscope_record::{CountingOptions, TracingBackend};
use exitscope_signals::{catch_signals, signalled};
use std::time::Duration;

/// Exit reasons with series of their own. Hosts show less than thirty.
const REASONS: usize = 64;

/// For how long what counting costs is measured, and how often: counting is slower meanwhile.
const MEASURE: Duration = Duration::from_secs(1);
const MEASURE_EVERY: Duration = Duration::from_secs(60);

pub fn run(args: &ExporterArgs) -> anyhow::Result<Outcome> {
    catch_signals()?;
    let mut access = access_of(&args.access)?;
    let (listener, address) = listen(args.listen)?;
    warn(address, &access);
    // Who scrapes is no browser, but the pages in one can reach whatever its machine can.
    let names = names(&args.access, &args.listen.to_string(), address);
    access.browsers = Some(BrowserIsolation { names, cookie: None });
    let processes = args.whose.processes()?;
    let vms = VmWatch::new(&processes, args.whose.vm.clone(), false);
    let options = CountingOptions { processes, without_bpf: args.no_bpf, ..CountingOptions::default() };
    let counts = LiveCounts::start(&options, vms, CostCycle::new(MEASURE, MEASURE_EVERY))?;
    if let TracingBackend::PerfEvents { because } = counts.counting.route() {
        say!("counting by perf events, as BPF may not be used: {because}");
    }
    say!("serving {}://{address}/metrics", scheme(&access));
    let exporter = Exporter::new(counts, SeriesLimits { vms: args.max_vms, reasons: REASONS });
    serve(listener, access, exporter, || signalled().is_some()).context("cannot serve")?;
    Ok(Outcome::Fine)
}
