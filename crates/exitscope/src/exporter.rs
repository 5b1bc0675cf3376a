//! `exitscope exporter`: counts of this host's exits for Prometheus.

use crate::Outcome;
use crate::access::{access_of, listen, names, scheme, warn};
use crate::cli::ExporterArgs;
use anyhow::Context;
use exitscope_exporter::{Exporter, Limits, Source};
use exitscope_http::{Browsers, serve};
use exitscope_live::VmWatch;
use exitscope_record::{Aggregation, Counting, Route, Snapshot, process_name};
use exitscope_signals::{catch_signals, signalled};
use std::time::Instant;

/// Exit reasons with series of their own. Hosts show less than thirty.
const REASONS: usize = 64;

/// Seconds from one measurement of what counting costs to the next, each of which takes a second, or until there are events,
/// and makes counting slower meanwhile.
const MEASURE_EVERY: u64 = 60;

/// What is counted on this host.
struct Host {
    counting: Aggregation,
    began: Instant,
    /// Whether the kernel measures what counting costs.
    measured: bool,
    vms: VmWatch,
}

impl Host {
    /// Has the kernel measure what counting costs while that is due, or not known at all.
    fn measure_if_wanted(&mut self) {
        let is_due = self.began.elapsed().as_secs().is_multiple_of(MEASURE_EVERY);
        let wanted = is_due || self.counting.snapshot().cost.is_none();
        if self.measured != wanted {
            // Who may not measure does without; the metrics are not there then.
            let _ = self.counting.measure(wanted);
            self.measured = wanted;
        }
    }
}

impl Source for Host {
    fn read(&mut self) -> Result<&Snapshot, String> {
        self.vms.look(&mut self.counting).map_err(|error| error.to_string())?;
        self.measure_if_wanted();
        self.counting.read().map_err(|error| error.to_string())?;
        // It may be known now.
        self.measure_if_wanted();
        Ok(self.counting.snapshot())
    }

    fn forget_ended(&mut self) {
        self.counting.forget_ended();
    }

    fn name(&self, process: u32) -> String {
        process_name(process)
    }

    fn route(&self) -> &'static str {
        self.counting.route().name()
    }
}

pub fn run(args: &ExporterArgs) -> anyhow::Result<Outcome> {
    catch_signals()?;
    let mut access = access_of(&args.access)?;
    let (listener, address) = listen(args.listen)?;
    warn(address, &access);
    // Who scrapes is no browser, but the pages in one can reach whatever its machine can.
    let names = names(&args.access, &args.listen.to_string(), address);
    access.browsers = Some(Browsers { names, cookie: None });
    let processes = args.whose.processes()?;
    let vms = VmWatch::new(&processes, args.whose.vm.clone(), false);
    let counting = Aggregation::start(&Counting { processes, without_bpf: args.no_bpf, ..Counting::default() })?;
    if let Route::PerfEvents { because } = counting.route() {
        say!("counting by perf events, as BPF may not be used: {because}");
    }
    say!("serving {}://{address}/metrics", scheme(&access));
    let mut host = Host { counting, began: Instant::now(), measured: false, vms };
    // From the first event on, so that it is soon over.
    host.measure_if_wanted();
    let exporter = Exporter::new(host, Limits { vms: args.max_vms, reasons: REASONS });
    serve(listener, access, exporter, || signalled().is_some()).context("cannot serve")?;
    Ok(Outcome::Fine)
}
