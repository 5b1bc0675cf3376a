//! What this process takes itself.

use crate::families as f;
use crate::sheet::{Sheet, Value};
use exitscope_http::Count;
use exitscope_live::own_cpu_time;
use std::collections::BTreeMap;
use std::fs;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// What this process did and takes.
#[derive(Debug)]
pub struct Own {
    began: f64,
    scrapes: u64,
    scraping: Duration,
    responses: BTreeMap<u16, u64>,
    cut: u64,
    no_tls: u64,
}

impl Own {
    /// It begins now.
    pub fn new() -> Own {
        let began = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64();
        Own { began, scrapes: 0, scraping: Duration::ZERO, responses: BTreeMap::new(), cut: 0, no_tls: 0 }
    }

    /// Takes note of what the server did.
    pub fn count(&mut self, what: Count) {
        match what {
            Count::Answered(status) => *self.responses.entry(status).or_default() += 1,
            Count::Cut => self.cut += 1,
            Count::NoTls => self.no_tls += 1,
        }
    }

    /// Takes note that metrics were made, in this time.
    pub fn scraped(&mut self, took: Duration) {
        self.scrapes += 1;
        self.scraping += took;
    }

    /// Puts it onto a sheet. What /proc does not say is left out.
    pub fn write(&self, sheet: &mut Sheet) {
        sheet.add(&f::SCRAPES, [], Value::Count(self.scrapes));
        sheet.add(&f::SCRAPE_TIME, [], Value::Number(self.scraping.as_secs_f64()));
        for (status, count) in &self.responses {
            sheet.add(&f::HTTP_RESPONSES, [&status.to_string()], Value::Count(*count));
        }
        sheet.add(&f::HTTP_TIMEOUTS, [], Value::Count(self.cut));
        sheet.add(&f::TLS_FAILURES, [], Value::Count(self.no_tls));
        sheet.add(&f::PROCESS_CPU, [], Value::Number(own_cpu_time() as f64 / 1e9));
        if let Some(bytes) = resident_bytes() {
            sheet.add(&f::PROCESS_MEMORY, [], Value::Count(bytes));
        }
        if let Ok(files) = fs::read_dir("/proc/self/fd") {
            // One of them is the directory.
            sheet.add(&f::PROCESS_FDS, [], Value::Count(files.count().saturating_sub(1) as u64));
        }
        sheet.add(&f::PROCESS_START, [], Value::Number(self.began));
    }
}

fn resident_bytes() -> Option<u64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    Some(line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()? * 1024)
}
