//! The site: counts out of a source, as metrics.

use crate::counts::{Counts, NamedVm, SeriesLimits};
use crate::families as f;
use crate::process_metrics::ProcessMetrics;
use crate::scrape::{SampleValue, Scrape};
use exitscope_http::{
    HeaderName, HeaderValue, HttpRequest, PathAccess, Reply, RequestHandler, ServerEvent, StatusCode,
};
use exitscope_live::{CountInterval, LiveCounts};
use std::cell::RefCell;
use std::future::ready;
use std::rc::Rc;
use std::time::{Duration, Instant};

/// How often the source is read if nobody asks: often enough that a VM's name is learnt while it runs.
const COLLECT_INTERVAL: Duration = Duration::from_secs(1);

/// What OpenMetrics calls itself.
const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
/// The text format of before OpenMetrics, for all who do not ask for that.
const PLAIN: &str = "text/plain; version=0.0.4; charset=utf-8";
const HTML: &str = "text/html; charset=utf-8";

/// Where counts come from.
pub trait CountsSource {
    /// What was counted since the last call.
    fn read(&mut self) -> Result<CountInterval, String>;

    /// What the VM of this process is called.
    fn vm(&mut self, process: u32) -> NamedVm;

    /// How events are looked at: `bpf` or `perf_events`.
    fn route(&self) -> &'static str;
}

impl CountsSource for LiveCounts {
    fn read(&mut self) -> Result<CountInterval, String> {
        self.take().map_err(|error| error.to_string())
    }

    fn vm(&mut self, process: u32) -> NamedVm {
        let vm = self.vms.vm(process);
        NamedVm { name: vm.name.clone(), identity: vm.identity.clone() }
    }

    fn route(&self) -> &'static str {
        self.counting.route().name()
    }
}

/// The exporter.
#[derive(Debug)]
pub struct Exporter<S> {
    state: RefCell<State<S>>,
}

#[derive(Debug)]
struct State<S> {
    source: S,
    counts: Counts,
    own: ProcessMetrics,
    read: Instant,
    /// What went wrong when the source was last read.
    trouble: Option<String>,
}

impl<S: CountsSource> Exporter<S> {
    /// Serves the counts of `source`.
    pub fn new(source: S, limits: SeriesLimits) -> Exporter<S> {
        let (counts, own) = (Counts::new(limits), ProcessMetrics::new());
        Exporter { state: RefCell::new(State { source, counts, own, read: Instant::now(), trouble: None }) }
    }

    /// The metrics as node_exporter reads them from a file: without those of this process, whose names are node_exporter's own.
    ///
    /// # Errors
    ///
    /// If the source cannot be read.
    pub fn textfile(&self) -> Result<String, String> {
        let mut state = self.state.borrow_mut();
        state.absorb()?;
        Ok(state.counted().plain())
    }

    /// Reads the source if that was not done for a while, so that names are learnt while VMs run.
    pub fn collect(&self) {
        let mut state = self.state.borrow_mut();
        if state.read.elapsed() >= COLLECT_INTERVAL {
            // An error is kept for /healthz, and the next reading fails, too.
            let _ = state.absorb();
        }
    }
}

impl<S: CountsSource> State<S> {
    fn absorb(&mut self) -> Result<(), String> {
        self.read = Instant::now();
        let read = self.source.read();
        let read = read.map(|new| self.counts.absorb(&new, |process| self.source.vm(process)));
        self.trouble = read.as_ref().err().cloned();
        read
    }

    /// The metrics, as they are now, in either format; an error is what to tell whoever asked.
    fn scrape(&mut self, open_metrics: bool) -> Result<String, String> {
        let began = Instant::now();
        let absorbed = self.absorb();
        let text = absorbed.map(|()| {
            let mut scrape = self.counted();
            self.own.write(&mut scrape);
            if open_metrics { scrape.open_metrics() } else { scrape.plain() }
        });
        self.own.scraped(began.elapsed());
        text
    }

    /// What was counted, as last read.
    fn counted(&self) -> Scrape {
        let mut scrape = Scrape::default();
        self.counts.write(&mut scrape);
        scrape.add(&f::BUILD, [env!("CARGO_PKG_VERSION"), self.source.route()], SampleValue::Info);
        scrape
    }

    /// The page that people see.
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
}

impl<S: CountsSource + 'static> RequestHandler for Exporter<S> {
    fn path_access(&self, path: &str) -> PathAccess {
        match path {
            "/healthz" => PathAccess::Open,
            "/" | "/metrics" => PathAccess::Guarded,
            _ => PathAccess::None,
        }
    }

    fn is_watching(&self, path: &str) -> bool {
        matches!(path, "/healthz" | "/metrics")
    }

    fn answer(self: Rc<Self>, asked: HttpRequest) -> impl Future<Output = Reply> + 'static {
        let mut state = self.state.borrow_mut();
        ready(match asked.path.as_str() {
            "/healthz" => match &state.trouble {
                None => Reply::text(StatusCode::OK, "ok\n"),
                Some(trouble) => Reply::text(StatusCode::SERVICE_UNAVAILABLE, format!("{trouble}\n")),
            },
            "/metrics" => {
                let open_metrics = asks_for_open_metrics(&asked.accept);
                match state.scrape(open_metrics) {
                    Ok(text) => Reply::of(StatusCode::OK, if open_metrics { OPEN_METRICS } else { PLAIN }, text)
                        .with(HeaderName::from_static("vary"), HeaderValue::from_static("accept")),
                    Err(trouble) => Reply::text(StatusCode::INTERNAL_SERVER_ERROR, format!("{trouble}\n")),
                }
            }
            _ => Reply::of(StatusCode::OK, HTML, state.index()),
        })
    }

    fn poll_changes(self: &Rc<Self>) {
        self.collect();
    }

    fn count(&self, what: ServerEvent) {
        self.state.borrow_mut().own.count(what);
    }
}

/// Whether who takes these types asks for OpenMetrics, and not rather for plain text. Prometheus asks for both, by name.
fn asks_for_open_metrics(accept: &str) -> bool {
    let (mut open_metrics, mut plain) = (0.0, 0.0);
    for range in accept.split(',') {
        let mut parts = range.split(';').map(str::trim);
        let kind = parts.next().unwrap_or_default();
        let (mut version, mut quality) = ("1.0.0", 1.0);
        for (name, value) in parts.filter_map(|part| part.split_once('=')) {
            match name.trim() {
                name if name.eq_ignore_ascii_case("q") => quality = value.trim().parse::<f64>().unwrap_or(0.0),
                name if name.eq_ignore_ascii_case("version") => version = value.trim().trim_matches('"'),
                _ => {}
            }
        }
        if kind.eq_ignore_ascii_case("application/openmetrics-text") && version == "1.0.0" {
            open_metrics = f64::max(open_metrics, quality);
        } else if kind.eq_ignore_ascii_case("text/plain") {
            plain = f64::max(plain, quality);
        }
    }
    open_metrics > 0.0 && open_metrics >= plain
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn open_metrics_is_for_who_asks_for_it() {
        // What Prometheus sends, earlier and later: scrape/scrape.go, `scrapeAcceptHeader` and `acceptHeader`.
        let prometheus_2 = "application/openmetrics-text;version=1.0.0,\
            application/openmetrics-text;version=0.0.1;q=0.75,text/plain;version=0.0.4;q=0.5,*/*;q=0.1";
        let prometheus_3 = "application/openmetrics-text;version=1.0.0;escaping=allow-utf-8;q=0.5,\
            application/openmetrics-text;version=0.0.1;q=0.4,text/plain;version=1.0.0;escaping=allow-utf-8;q=0.3,\
            text/plain;version=0.0.4;q=0.2,*/*;q=0.1";
        for (accept, expected) in [
            (prometheus_2, true),
            (prometheus_3, true),
            ("application/openmetrics-text", true),
            ("Application/OpenMetrics-Text; Version=\"1.0.0\"", true),
            ("application/openmetrics-text;version=0.0.1", false),
            ("application/openmetrics-text;q=0", false),
            ("application/openmetrics-text;q=0.5, text/plain;q=0.9", false),
            ("application/openmetrics-text;q=nonsense", false),
            ("text/plain;version=0.0.4;q=1,*/*;q=0.1", false),
            ("text/html,application/xhtml+xml,*/*;q=0.8", false),
            ("*/*", false),
            ("", false),
        ] {
            assert_eq!(asks_for_open_metrics(accept), expected, "{accept}");
        }
    }
}
