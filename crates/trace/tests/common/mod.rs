//! What the tests of the readers share.
#![allow(dead_code)]

use exitscope_model::{Event, EventKind, Ledger, LedgerLine, TraceInfo};
use exitscope_skips::{Part, Skipped, skip};
use exitscope_trace::{EventSource, Input, SourceOptions, TraceError, open_input};
use std::path::{Path, PathBuf};

pub mod damage;
pub mod trace_dat;
pub mod xentrace;

/// All that a source says.
pub struct Said {
    pub info: TraceInfo,
    pub events: Vec<Event>,
    pub ledger: Ledger,
}

/// Reads a source to its end.
pub fn drain(mut source: Box<dyn EventSource>) -> Result<Said, TraceError> {
    let (mut events, mut ledger) = (Vec::new(), Ledger::default());
    let (begun, all) = source.progress();
    while source.read(&mut events, &mut ledger)? {}
    assert!(begun < all || events.is_empty(), "what is read is not done before");
    let lost = events.iter().filter(|event| matches!(event.kind, EventKind::Lost { .. })).count();
    assert_eq!(ledger.events as usize, events.len() - lost, "every event is counted");
    let (done, all) = source.progress();
    assert_eq!(done, all, "at the end all is done");
    Ok(Said { info: source.info().clone(), events, ledger })
}

/// Reads a trace made of these bytes. A xentrace log's cycle is a nanosecond.
pub fn said(bytes: &[u8]) -> Result<Said, TraceError> {
    let rate = bytes.starts_with(b"\x03\xf0\x01\x20").then_some(1_000_000_000);
    drain(open_input(Input::from_bytes("made", bytes)?, SourceOptions { clock_hz: rate, ..SourceOptions::default() })?)
}

impl Said {
    /// What the ledger has, by line.
    pub fn lines(&self) -> Vec<(LedgerLine, u64)> {
        self.ledger.lines().collect()
    }

    /// Time, CPU and kind of every event.
    pub fn told(&self) -> Vec<(u64, u32, EventKind)> {
        self.events.iter().map(|event| (event.at.as_nanos(), event.cpu.0, event.kind)).collect()
    }
}

/// A file of the corpus.
pub fn corpus(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../corpus").join(path)
}

/// A recording that is not ours to give away, where it is found in a directory `shared` beside the checkout.
pub fn shared(path: &str) -> Result<PathBuf, Skipped> {
    let found = Path::new(env!("CARGO_MANIFEST_DIR"))
        .ancestors()
        .map(|dir| dir.join("shared/traces").join(path))
        .find(|path| path.is_file());
    found.ok_or_else(|| skip(Part::SharedTraces, format!("{path} is not beside the checkout")))
}

/// A text of the readers' tests.
pub fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/text").join(name)
}
