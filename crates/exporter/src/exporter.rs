//! The site: counts out of a source, as metrics.

use crate::counts::{Counts, Limits};
use crate::families as f;
use crate::own::Own;
use crate::sheet::{Sheet, Value};
use crate::{Count, Site};
use exitscope_record::Snapshot;
use std::time::{Duration, Instant};

/// How often the source is read if nobody asks: often enough that a VM's name is learnt while it runs.
const TURN: Duration = Duration::from_secs(1);

/// Where counts come from.
pub trait Source {
    /// Everything that was counted until now.
    fn read(&mut self) -> Result<&Snapshot, String>;

    /// Has the source forget what ended and was read.
    fn forget_ended(&mut self);

    /// How this process calls its VM.
    fn name(&self, process: u32) -> String;

    /// How events are looked at: `bpf` or `perf_events`.
    fn route(&self) -> &'static str;
}

/// The exporter.
#[derive(Debug)]
pub struct Exporter<S> {
    source: S,
    counts: Counts,
    own: Own,
    read: Instant,
    /// What went wrong when the source was last read.
    trouble: Option<String>,
}

impl<S: Source> Exporter<S> {
    /// Serves the counts of `source`.
    pub fn new(source: S, limits: Limits) -> Exporter<S> {
        Exporter { source, counts: Counts::new(limits), own: Own::new(), read: Instant::now(), trouble: None }
    }

    fn absorb(&mut self) -> Result<(), String> {
        self.read = Instant::now();
        // A copy, as the source is asked for names meanwhile.
        let read = self.source.read().cloned();
        let read = read.map(|snapshot| self.counts.absorb(&snapshot, |process| self.source.name(process)));
        self.source.forget_ended();
        self.trouble = read.as_ref().err().cloned();
        read
    }
}

impl<S: Source> Site for Exporter<S> {
    fn scrape(&mut self) -> Result<String, String> {
        self.absorb()?;
        let mut sheet = Sheet::default();
        self.counts.write(&mut sheet);
        sheet.add(&f::BUILD, [env!("CARGO_PKG_VERSION"), self.source.route()], Value::Info);
        self.own.write(&mut sheet);
        Ok(sheet.text())
    }

    fn health(&self) -> Result<(), String> {
        self.trouble.clone().map_or(Ok(()), Err)
    }

    fn index(&self) -> String {
        format!(
            "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>exitscope</title></head><body>\n\
             <h1>exitscope exporter</h1>\n<p>Version {}, VMs with exits: {}.</p>\n\
             <ul><li><a href=\"/metrics\">/metrics</a>: counts of VM exits, for Prometheus</li>\n\
             <li><a href=\"/healthz\">/healthz</a>: whether all is well</li></ul>\n</body></html>\n",
            env!("CARGO_PKG_VERSION"),
            self.counts.running(),
        )
    }

    fn turn(&mut self) {
        if self.read.elapsed() >= TURN {
            // An error is kept for /healthz.
            let _ = self.absorb();
        }
    }

    fn count(&mut self, what: Count) {
        self.own.count(what);
    }
}
