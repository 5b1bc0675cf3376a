//! What this process takes itself.

use crate::families as f;
use crate::scrape::{SampleValue, Scrape};
use exitscope_http::ServerEvent;
use exitscope_live::own_cpu_time;
use std::collections::BTreeMap;
use std::fs;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// What this process did and takes.
#[derive(Debug)]
pub struct ProcessMetrics {
    began: f64,
    scrapes: u64,
    scraping: Duration,
    responses: BTreeMap<u16, u64>,
    cut: u64,
    no_tls: u64,
}

impl ProcessMetrics {
    /// It begins now.
    pub fn new() -> ProcessMetrics {
        let began = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64();
        ProcessMetrics { began, scrapes: 0, scraping: Duration::ZERO, responses: BTreeMap::new(), cut: 0, no_tls: 0 }
    }

    /// Takes note of what the server did.
    pub fn count(&mut self, what: ServerEvent) {
        match what {
            ServerEvent::Answered(status) => *self.responses.entry(status).or_default() += 1,
            ServerEvent::TimedOut => self.cut += 1,
            ServerEvent::TlsFailed => self.no_tls += 1,
        }
    }

    /// Takes note that metrics were made, in this time.
    pub fn scraped(&mut self, took: Duration) {
        self.scrapes += 1;
        self.scraping += took;
    }

    /// Puts it onto a sheet. What /proc does not say is left out.
    pub fn write(&self, scrape: &mut Scrape) {
        scrape.add(&f::SCRAPES, [], SampleValue::Count(self.scrapes));
        scrape.add(&f::SCRAPE_TIME, [], SampleValue::Number(self.scraping.as_secs_f64()));
        for (status, count) in &self.responses {
            scrape.add(&f::HTTP_RESPONSES, [&status.to_string()], SampleValue::Count(*count));
        }
        scrape.add(&f::HTTP_TIMEOUTS, [], SampleValue::Count(self.cut));
        scrape.add(&f::TLS_FAILURES, [], SampleValue::Count(self.no_tls));
        scrape.add(&f::PROCESS_CPU, [], SampleValue::Number(own_cpu_time() as f64 / 1e9));
        if let Some(bytes) = resident_bytes() {
            scrape.add(&f::PROCESS_MEMORY, [], SampleValue::Count(bytes));
        }
        if let Ok(files) = fs::read_dir("/proc/self/fd") {
            // One of them is the directory.
            scrape.add(&f::PROCESS_FDS, [], SampleValue::Count(files.count().saturating_sub(1) as u64));
        }
        scrape.add(&f::PROCESS_START, [], SampleValue::Number(self.began));
    }
}

fn resident_bytes() -> Option<u64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    Some(line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()? * 1024)
}
