//! A profile for the Firefox Profiler.
//!
//! ```text
//! VM ─► process, vCPU ─► thread     exit ─► marker, from exit to entry; what it cost ─► samples, a nanosecond each
//! ```
//!
//! The profile is made as a whole, in memory: of a bounded number of exits.

use crate::vcpus::end;
use crate::{Export, ExportCounts, ExportedVcpus, Segment, segments};
use exitscope_model::{EXIT_PARTS, Exit, ExitCode, SubjectNames, TimePart};
use exitscope_view::detail_label;
use fxprof_processed_profile::{
    CategoryColor, CategoryHandle, CategoryPairHandle, CpuDelta, Frame, FrameFlags, FrameInfo, MarkerFieldFlags,
    MarkerFieldFormat, MarkerLocations, MarkerTiming, ProcessHandle, Profile, ReferenceTimestamp, SamplingInterval,
    StackHandle, StaticSchemaMarker, StaticSchemaMarkerField, StringHandle, ThreadHandle, Timestamp,
};
use rustc_hash::FxHashMap;
use std::io::{self, Write};

/// Exits that are written at most (some 300 MB of memory, 100 MB of file).
pub const MOST_MARKERS: u64 = 500_000;

/// Samples that are written at most.
const MOST_SAMPLES: u64 = 4 * MOST_MARKERS;

/// Nanoseconds that one sample can stand for.
const LONGEST: u64 = i32::MAX as u64;

/// Writes a profile.
#[derive(Debug)]
pub struct Firefox<W> {
    out: W,
    profile: Profile,
    begin: u64,
    xen: bool,
    names: SubjectNames,
    threads: Vec<ThreadHandle>,
    category: CategoryHandle,
    /// Of the segments: in the kernel, and outside.
    places: [CategoryPairHandle; 2],
    stacks: FxHashMap<(usize, ExitCode, Segment), StackHandle>,
    samples: u64,
    written: ExportCounts,
}

/// An exit.
struct Marker {
    reason: StringHandle,
    category: CategoryHandle,
    /// Door, and what it was about.
    texts: [StringHandle; 2],
    /// The parts of the exit in their order, in milliseconds; the physical CPU.
    numbers: [f64; EXIT_PARTS + 1],
}

impl<W: Write> Firefox<W> {
    /// Begins a profile, with the threads of all vCPUs. `title` is what the recording is called.
    pub fn begin(out: W, lanes: &ExportedVcpus, title: &str) -> Firefox<W> {
        // A recording does not say when it was made. Its first exit is at zero.
        let reference = ReferenceTimestamp::from_millis_since_unix_epoch(0.0);
        let mut profile = Profile::new(title, reference, SamplingInterval::from_nanos(1));
        let category = profile.add_category("VM exits", CategoryColor::Blue);
        let places = ["kernel", "user space"].map(|name| profile.add_subcategory(category, name));
        let zero = Timestamp::from_nanos_since_reference(0);
        let mut threads = Vec::new();
        let mut vm: Option<(_, ProcessHandle)> = None;
        for lane in lanes.all() {
            let process = match vm {
                Some((known, process)) if known == lane.who.vm => process,
                _ => profile.add_process(&lane.row.vm_label(), lane.row.vm.unwrap_or(0), zero),
            };
            vm = Some((lane.who.vm, process));
            // None is the main one, which would be called as its process is.
            let thread = profile.add_thread(process, lane.row.tid.unwrap_or(0), zero, false);
            profile.set_thread_name(thread, &lane.name);
            profile.set_thread_show_markers_in_timeline(thread, true);
            threads.push(thread);
        }
        Firefox {
            out,
            profile,
            begin: lanes.begin().as_nanos(),
            xen: lanes.xen,
            names: lanes.names.clone(),
            threads,
            category,
            places,
            stacks: FxHashMap::default(),
            samples: 0,
            written: ExportCounts::default(),
        }
    }

    fn at(&self, nanos: u64) -> Timestamp {
        Timestamp::from_nanos_since_reference(nanos.saturating_sub(self.begin))
    }

    /// The stack of a segment: the reason, and in it the segment.
    fn stack(&mut self, lane: usize, code: ExitCode, segment: Segment) -> Option<StackHandle> {
        if let Some(&stack) = self.stacks.get(&(lane, code, segment)) {
            return Some(stack);
        }
        let (profile, thread) = (&mut self.profile, self.threads[lane]);
        let frames = [
            (code.name(), CategoryPairHandle::from(self.category)),
            (segment.name_on(self.xen).to_string(), self.places[usize::from(segment.is_user())]),
        ];
        let mut stack = None;
        for (name, category_pair) in frames {
            let frame = Frame::Label(profile.intern_string(&name));
            let frame = profile.intern_frame(thread, FrameInfo { frame, category_pair, flags: FrameFlags::empty() });
            stack = Some(profile.intern_stack(thread, stack, frame));
        }
        if let Some(stack) = stack {
            self.stacks.insert((lane, code, segment), stack);
        }
        stack
    }

    fn add_marker(&mut self, lane: usize, exit: &Exit) {
        let begin = self.at(exit.at.as_nanos());
        let timing = match exit.timed {
            true => MarkerTiming::Interval(begin, self.at(end(exit).as_nanos())),
            false => MarkerTiming::Instant(begin),
        };
        let subject = exit.subject.map_or(String::new(), |of| {
            let name = self.names.of_exit(exit);
            detail_label(name.as_deref(), of.kind, of.key, of.write)
        });
        let texts = [exit.handler.name(), subject].map(|text| self.profile.intern_string(&text));
        let mut numbers = [exit.cpu.0.into(); EXIT_PARTS + 1];
        for (number, part) in numbers.iter_mut().zip(TimePart::OF_EXITS) {
            *number = if exit.timed { exit.part(part).0 as f64 / 1e6 } else { 0.0 };
        }
        let reason = self.profile.intern_string(&exit.code.name());
        let marker = Marker { reason, category: self.category, texts, numbers };
        self.profile.add_marker(self.threads[lane], timing, marker);
    }
}

impl<W: Write> Export for Firefox<W> {
    fn exit(&mut self, lane: usize, exit: &Exit) -> io::Result<()> {
        let timed = exit.timed;
        let costs = || segments(exit).filter(move |(segment, _)| timed && segment.is_cost());
        let samples: u64 = costs().map(|(_, length)| length.div_ceil(LONGEST)).sum();
        if self.is_full() || self.samples + samples > MOST_SAMPLES {
            self.written.left_out += 1;
            return Ok(());
        }
        self.samples += samples;
        match exit.timed {
            true => self.written.exits += 1,
            false => self.written.untimed += 1,
        }
        self.add_marker(lane, exit);
        let mut at = exit.at.as_nanos();
        for (segment, mut length) in costs() {
            let stack = self.stack(lane, exit.code, segment);
            while length > 0 {
                let one = length.min(LONGEST);
                (at, length) = (at.saturating_add(one), length - one);
                let time = self.at(at);
                self.profile.add_sample(self.threads[lane], time, stack, CpuDelta::from_nanos(one), one as i32);
            }
        }
        Ok(())
    }

    fn is_full(&self) -> bool {
        self.written.exits + self.written.untimed >= MOST_MARKERS
    }

    fn finish(&mut self) -> io::Result<ExportCounts> {
        serde_json::to_writer(&mut self.out, &self.profile)?;
        writeln!(self.out)?;
        self.out.flush()?;
        Ok(self.written)
    }
}

const fn field(key: &'static str, label: &'static str, format: MarkerFieldFormat) -> StaticSchemaMarkerField {
    StaticSchemaMarkerField { key, label, format, flags: MarkerFieldFlags::SEARCHABLE }
}

/// Fields that are text; the others are numbers.
const TEXTS: u32 = 2;

impl StaticSchemaMarker for Marker {
    const UNIQUE_MARKER_TYPE_NAME: &'static str = "VMExit";
    const DESCRIPTION: Option<&'static str> =
        Some("A virtual CPU left its guest, and came back. Kernel and user space are its cost, and nothing else.");
    const LOCATIONS: MarkerLocations =
        MarkerLocations::MARKER_CHART.union(MarkerLocations::MARKER_TABLE).union(MarkerLocations::TIMELINE_OVERVIEW);
    const CHART_LABEL: Option<&'static str> = Some("{marker.data.subject}");
    const TABLE_LABEL: Option<&'static str> = Some("{marker.name} {marker.data.subject}");
    const TOOLTIP_LABEL: Option<&'static str> = Some("{marker.name} {marker.data.subject}");
    const FIELDS: &'static [StaticSchemaMarkerField] = &[
        field("handler", "Handled by", MarkerFieldFormat::String),
        field("subject", "Subject", MarkerFieldFormat::String),
        field("kernel", "Kernel", MarkerFieldFormat::Duration),
        field("user", "User space or device model", MarkerFieldFormat::Duration),
        field("polling", "Polling", MarkerFieldFormat::Duration),
        field("halted", "Halted", MarkerFieldFormat::Duration),
        field("halt_not_divided", "Halt, not divided", MarkerFieldFormat::Duration),
        field("waiting_for_memory", "Waiting for memory", MarkerFieldFormat::Duration),
        field("steal", "Steal", MarkerFieldFormat::Duration),
        field("stopped", "Stopped", MarkerFieldFormat::Duration),
        field("unknown", "Unknown", MarkerFieldFormat::Duration),
        field("cpu", "CPU", MarkerFieldFormat::Integer),
    ];

    fn name(&self, _: &mut Profile) -> StringHandle {
        self.reason
    }

    fn category(&self, _: &mut Profile) -> CategoryHandle {
        self.category
    }

    fn string_field_value(&self, at: u32) -> StringHandle {
        self.texts[at as usize]
    }

    fn number_field_value(&self, at: u32) -> f64 {
        self.numbers[(at - TEXTS) as usize]
    }
}
