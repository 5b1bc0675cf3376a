//! The vCPUs of a recording, learnt in a first reading: viewers want their names before their exits.

use exitscope_analysis::{Selection, TraceSink};
use exitscope_model::{BesideRow, Exit, SubjectNames, TraceInfo, VcpuIdentity, WhoRow};
use exitscope_units::{Moment, Tid, VcpuId};
use rustc_hash::FxHashMap;
use std::sync::Arc;

/// vCPUs at most; the exits of others are left out, and counted.
const MOST: usize = 1 << 16;

/// What a first reading learns.
#[derive(Clone, Debug)]
pub struct VcpuSurvey {
    selection: Selection,
    window: (Moment, Moment),
    seen: FxHashMap<VcpuIdentity, Seen>,
    beyond: u64,
}

#[derive(Clone, Copy, Debug)]
struct Seen {
    exits: u64,
    first: Moment,
    last: Moment,
}

/// A vCPU that has exits.
#[derive(Clone, Debug)]
pub struct ExportedVcpu {
    /// The vCPU.
    pub who: VcpuIdentity,
    /// The same as plain data.
    pub row: Arc<WhoRow>,
    /// What it is called: `vCPU 0`, `on CPU 1`, `thread 1234`.
    pub name: String,
    /// Its first exit.
    pub first: Moment,
    /// Its last entry.
    pub last: Moment,
    exits: u64,
}

/// The vCPUs of a recording.
#[derive(Clone, Debug, Default)]
pub struct ExportedVcpus {
    lanes: Vec<ExportedVcpu>,
    places: FxHashMap<VcpuIdentity, usize>,
    /// Exits of more vCPUs than there is room for.
    pub beyond: u64,
    /// The clock of the recording, as it calls it.
    pub clock: String,
    /// Whether the recording is of Xen.
    pub xen: bool,
    /// What subjects are called.
    pub names: SubjectNames,
}

impl VcpuSurvey {
    /// Creates an empty survey of what is selected.
    pub fn new(selection: &Selection) -> VcpuSurvey {
        let mut selection = selection.clone();
        // Numbers may be learnt only at the end.
        selection.vcpus.clear();
        VcpuSurvey { selection, window: (Moment::default(), Moment::MAX), seen: FxHashMap::default(), beyond: 0 }
    }
}

/// When the exit was over; if that was not seen, when it began.
pub(crate) fn end(exit: &Exit) -> Moment {
    let length = if exit.timed { exit.total().0 } else { 0 };
    Moment::from_nanos(exit.at.as_nanos().saturating_add(length))
}

impl TraceSink for VcpuSurvey {
    fn begin(&mut self, first: Moment) {
        self.window = self.selection.window(first);
    }

    #[inline]
    fn absorb(&mut self, exit: &Exit) {
        if exit.at < self.window.0
            || exit.at > self.window.1
            || !self.selection.holds_who(&exit.who)
            || !self.selection.holds_exit(exit)
        {
            return;
        }
        if self.seen.len() >= MOST && !self.seen.contains_key(&exit.who) {
            self.beyond += 1;
            return;
        }
        let last = end(exit);
        let seen = self.seen.entry(exit.who).or_insert(Seen { exits: 0, first: exit.at, last });
        seen.exits += 1;
        seen.first = seen.first.min(exit.at);
        seen.last = seen.last.max(last);
    }

    fn beside_row(&mut self, _row: BesideRow<'_>) {}
}

impl ExportedVcpus {
    /// Adds the vCPUs of a trace: those that are selected, under the numbers that the whole trace gave them.
    pub fn add(&mut self, survey: VcpuSurvey, vcpu_of: &FxHashMap<Tid, VcpuId>, selection: &Selection) {
        self.beyond += survey.beyond;
        for (mut who, seen) in survey.seen {
            if who.vcpu == VcpuId::UNKNOWN {
                who.vcpu = vcpu_of.get(&who.tid).copied().unwrap_or(VcpuId::UNKNOWN);
            }
            if !selection.holds_who(&who) {
                continue;
            }
            let place = *self.places.entry(who).or_insert(self.lanes.len());
            if place == self.lanes.len() {
                let Seen { exits, first, last } = seen;
                self.lanes.push(ExportedVcpu { who, row: Arc::default(), name: String::new(), first, last, exits });
            } else {
                let lane = &mut self.lanes[place];
                lane.exits += seen.exits;
                lane.first = lane.first.min(seen.first);
                lane.last = lane.last.max(seen.last);
            }
        }
    }

    /// All traces were added: vCPUs in order, and their names.
    pub fn end(&mut self, info: &TraceInfo) {
        self.clock = info.clock.clone();
        self.xen = info.by_vcpu;
        self.names = info.subject_names();
        self.lanes.sort_by_key(|lane| lane.who);
        let further = self.lanes.split_off(self.lanes.len().min(MOST));
        self.beyond += further.iter().map(|lane| lane.exits).sum::<u64>();
        self.places = self.lanes.iter().enumerate().map(|(place, lane)| (lane.who, place)).collect();
        for lane in &mut self.lanes {
            lane.row = WhoRow::of(lane.who, info).into();
            lane.name = match lane.row.vcpu {
                Some(number) => format!("vCPU {number}"),
                None => lane.row.vcpu_label(),
            };
        }
    }

    /// The vCPUs, in order.
    pub fn all(&self) -> &[ExportedVcpu] {
        &self.lanes
    }

    /// The place of a vCPU.
    pub fn place(&self, who: &VcpuIdentity) -> Option<usize> {
        self.places.get(who).copied()
    }

    /// The first exit of all.
    pub fn begin(&self) -> Moment {
        self.lanes.iter().map(|lane| lane.first).min().unwrap_or_default()
    }

    /// How many exits they have.
    pub fn exits(&self) -> u64 {
        self.lanes.iter().map(|lane| lane.exits).sum()
    }
}
