//! Collapsed stacks, as flamegraph.pl, inferno and speedscope read them: `VM;vCPU;reason;segment nanoseconds`.

use crate::{Export, ExportCounts, ExportedVcpus, Segment, segments};
use exitscope_model::encode::frame;
use exitscope_model::{Exit, ExitCode};
use rustc_hash::FxHashMap;
use std::io::{self, Write};

/// Stacks at most (some 20 MB); what is beyond has `other reasons` for its reason. No recording of a host has so many, a
/// forged one may.
const MOST: usize = 1 << 18;

/// Writes sums.
#[derive(Debug)]
pub struct Folded<W> {
    out: W,
    /// What the stacks of each vCPU begin with.
    names: Vec<String>,
    xen: bool,
    sums: FxHashMap<(usize, Option<ExitCode>, Segment), u64>,
    written: ExportCounts,
}

impl<W: Write> Folded<W> {
    /// Creates empty sums, to be written to `out`.
    pub fn begin(out: W, lanes: &ExportedVcpus) -> Folded<W> {
        let name = |lane: &crate::ExportedVcpu| format!("{};{}", frame(&lane.row.vm_label()), frame(&lane.name));
        let names = lanes.all().iter().map(name).collect();
        Folded { out, names, xen: lanes.xen, sums: FxHashMap::default(), written: ExportCounts::default() }
    }
}

impl<W: Write> Export for Folded<W> {
    fn exit(&mut self, lane: usize, exit: &Exit) -> io::Result<()> {
        if !exit.timed {
            self.written.untimed += 1;
            return Ok(());
        }
        self.written.exits += 1;
        for (segment, length) in segments(exit) {
            let key = (lane, Some(exit.code), segment);
            let has_room = self.sums.len() < MOST || self.sums.contains_key(&key);
            let key = if has_room { key } else { (lane, None, segment) };
            let sum = self.sums.entry(key).or_default();
            *sum = sum.saturating_add(length);
        }
        Ok(())
    }

    fn finish(&mut self) -> io::Result<ExportCounts> {
        let mut stacks: Vec<_> = self.sums.iter().collect();
        stacks.sort_unstable_by_key(|((lane, code, segment), _)| (*lane, *code, segment.place()));
        for ((lane, code, segment), sum) in stacks {
            let reason = code.map_or("other reasons".to_string(), |code| frame(&code.name()).into_owned());
            writeln!(self.out, "{};{reason};{} {sum}", self.names[*lane], segment.name_on(self.xen))?;
        }
        self.out.flush()?;
        Ok(self.written)
    }
}
