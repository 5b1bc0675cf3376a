//! Perfetto's protobuf trace.
//!
//! ```text
//! clock ─► VM (process) ─► vCPU (thread) ─► exit: a slice, named for its reason, with what it was about
//!                                             └─► its segments: slices in it, where there are several
//! ```
//!
//! Packets are written as they come. Names are written once and then called by number, up to a limit.

mod schema;

use crate::vcpus::end;
use crate::{Export, ExportCounts, ExportedVcpu, ExportedVcpus, Segment, segments};
use exitscope_model::{
    Column, ColumnValue, Exit, ExitCode, ExitPhase, ExitRow, ExitRows, Handler, Spelling, WhoRow, exit_columns,
};
use prost::Message;
use rustc_hash::FxHashMap;
use schema::{
    Clock, ClockSnapshot, DebugAnnotation, InternedData, Name, ProcessDescriptor, SEQ_INCREMENTAL_STATE_CLEARED,
    SEQ_NEEDS_INCREMENTAL_STATE, ThreadDescriptor, Trace, TracePacket, TracePacketDefaults, TrackDescriptor,
    TrackEvent, Type,
};
use std::io::{self, Write};
use std::sync::Arc;

/// Reasons that have a number; the names of others are written out each time.
const MOST_NAMES: u64 = 4096;

/// All packets are of one sequence.
const SEQUENCE: u32 = 1;

/// Numbers of the tracks: those of VMs and of vCPUs.
const VM_TRACKS: u64 = 1 << 32;
const LANE_TRACKS: u64 = 1 << 33;

/// The categories of slices.
const CATEGORIES: [&str; 3] = ["exit handled in the kernel", "exit to user space", "part of an exit"];
const PART: u64 = 3;

/// Writes a trace.
#[derive(Debug)]
pub struct Perfetto<W> {
    out: W,
    bytes: Vec<u8>,
    /// Numbers of the reasons; those of segments come first.
    names: FxHashMap<ExitCode, u64>,
    /// When the last exit of each vCPU was over.
    ends: Vec<u64>,
    lanes: Vec<Arc<WhoRow>>,
    /// What annotations are made of; their names are numbered from 1 on.
    columns: Vec<Column<ExitRow>>,
    rows: ExitRows,
    written: ExportCounts,
}

impl<W: Write> Perfetto<W> {
    /// Begins a trace, with the tracks of all vCPUs.
    pub fn begin(out: W, lanes: &ExportedVcpus) -> io::Result<Perfetto<W>> {
        let mut this = Perfetto {
            out,
            bytes: Vec::new(),
            names: FxHashMap::default(),
            ends: vec![0; lanes.all().len()],
            lanes: lanes.all().iter().map(|lane| lane.row.clone()).collect(),
            columns: exit_columns().into_iter().filter(|column| column.note.is_some()).collect(),
            rows: ExitRows::naming(lanes.names.clone()),
            written: ExportCounts::default(),
        };
        this.write_head(lanes)?;
        let mut last_vm = None;
        for (place, lane) in lanes.all().iter().enumerate() {
            if last_vm.replace(lane.who.vm) != Some(lane.who.vm) {
                this.write_track(vm_track(lane, lanes.xen))?;
            }
            this.write_track(lane_track(place, lane, lanes.xen))?;
        }
        Ok(this)
    }

    /// Which clock, and the names that do not depend on the recording.
    fn write_head(&mut self, lanes: &ExportedVcpus) -> io::Result<()> {
        let clock = clock_id(&lanes.clock);
        if let Some(id) = clock {
            let begin = Clock { clock_id: Some(id), timestamp: Some(lanes.begin().as_nanos()) };
            let snapshot = ClockSnapshot { clocks: vec![begin], primary_trace_clock: Some(id as i32) };
            self.write(TracePacket { clock_snapshot: Some(snapshot), ..TracePacket::default() })?;
        }
        let segments = Segment::ALL.iter().zip(1..).map(|(segment, iid)| name(iid, segment.name_on(lanes.xen)));
        let interned = InternedData {
            event_categories: CATEGORIES.iter().zip(1..).map(|(category, iid)| name(iid, category)).collect(),
            event_names: segments.collect(),
            debug_annotation_names: self.columns.iter().zip(1..).map(|(column, iid)| name(iid, column.name)).collect(),
        };
        self.write(TracePacket {
            sequence_flags: Some(SEQ_INCREMENTAL_STATE_CLEARED),
            first_packet_on_sequence: Some(true),
            trace_packet_defaults: Some(TracePacketDefaults { timestamp_clock_id: clock }),
            interned_data: Some(interned),
            ..TracePacket::default()
        })
    }

    fn write_track(&mut self, track: TrackDescriptor) -> io::Result<()> {
        self.write(TracePacket { track_descriptor: Some(track), ..TracePacket::default() })
    }

    fn write_event(&mut self, at: u64, event: TrackEvent, interned_data: Option<InternedData>) -> io::Result<()> {
        self.write(TracePacket {
            timestamp: Some(at),
            track_event: Some(event),
            interned_data,
            sequence_flags: Some(SEQ_NEEDS_INCREMENTAL_STATE),
            ..TracePacket::default()
        })
    }

    fn write(&mut self, packet: TracePacket) -> io::Result<()> {
        let packet = TracePacket { trusted_packet_sequence_id: Some(SEQUENCE), ..packet };
        self.bytes.clear();
        Trace { packet: vec![packet] }.encode(&mut self.bytes).map_err(io::Error::other)?;
        self.out.write_all(&self.bytes)
    }

    /// What is known of an exit besides its reason and, unless no slice shows it, its length.
    fn notes(&mut self, lane: usize, exit: &Exit, with_length: bool) -> Vec<DebugAnnotation> {
        let row = self.rows.of(exit, &self.lanes[lane]);
        let noted = self.columns.iter().zip(1..).filter_map(|(column, number)| match column.name {
            // Its category says so.
            "handler" if exit.handler == Handler::Kernel => None,
            "exit_time_ns" if !with_length => None,
            _ => annotation(number, &column.value(row), column.note?),
        });
        noted.collect()
    }

    /// The number of a reason's name, or the name; and the name with its number where it is new.
    fn name(&mut self, code: ExitCode) -> (Option<u64>, Option<String>, Option<InternedData>) {
        if let Some(&iid) = self.names.get(&code) {
            return (Some(iid), None, None);
        }
        let next = (Segment::ALL.len() + self.names.len()) as u64 + 1;
        if next > MOST_NAMES {
            return (None, Some(code.name()), None);
        }
        self.names.insert(code, next);
        let new = InternedData { event_names: vec![name(next, &code.name())], ..InternedData::default() };
        (Some(next), None, Some(new))
    }
}

impl<W: Write> Export for Perfetto<W> {
    fn exit(&mut self, lane: usize, exit: &Exit) -> io::Result<()> {
        let (begin, over) = (exit.at.as_nanos(), end(exit).as_nanos());
        let track = LANE_TRACKS + lane as u64;
        let overlaps = begin < self.ends[lane];
        let is_slice = exit.timed && !overlaps;
        match (exit.timed, overlaps) {
            (true, false) => self.written.exits += 1,
            (true, true) => self.written.overlapping += 1,
            (false, _) => self.written.untimed += 1,
        }
        let (name_iid, name, interned) = self.name(exit.code);
        let event = TrackEvent {
            category_iids: vec![if exit.handler == Handler::Kernel { 1 } else { 2 }],
            debug_annotations: self.notes(lane, exit, exit.timed && overlaps),
            r#type: Some(if is_slice { Type::SliceBegin } else { Type::Instant } as i32),
            name_iid,
            track_uuid: Some(track),
            name,
        };
        self.write_event(begin, event, interned)?;
        if !is_slice {
            return Ok(());
        }
        self.ends[lane] = over;
        let segments: Vec<(Segment, u64)> = segments(exit).collect();
        let ended =
            TrackEvent { r#type: Some(Type::SliceEnd as i32), track_uuid: Some(track), ..TrackEvent::default() };
        if !matches!(segments[..], [] | [(Segment::Step(ExitPhase::Handling), _)]) {
            let mut at = begin;
            for (segment, length) in segments {
                let event = TrackEvent {
                    category_iids: vec![PART],
                    r#type: Some(Type::SliceBegin as i32),
                    name_iid: Some(segment.place() as u64 + 1),
                    track_uuid: Some(track),
                    ..TrackEvent::default()
                };
                self.write_event(at, event, None)?;
                at = at.saturating_add(length);
                self.write_event(at, ended.clone(), None)?;
            }
        }
        self.write_event(over, ended, None)
    }

    fn finish(&mut self) -> io::Result<ExportCounts> {
        self.out.flush()?;
        Ok(self.written)
    }
}

fn name(iid: u64, text: &str) -> Name {
    Name { iid: Some(iid), name: Some(text.to_string()) }
}

/// Perfetto's number of a clock that it knows, by its names in perf.data and in ftrace. Moments on others are on the clock
/// that Perfetto takes when none is named.
fn clock_id(name: &str) -> Option<u32> {
    match name {
        "realtime" => Some(1),
        "monotonic" | "mono" => Some(3),
        "monotonic_raw" | "mono_raw" => Some(5),
        "boottime" | "boot" => Some(6),
        _ => None,
    }
}

/// The process of a lane's VM, if it is one.
fn process(lane: &ExportedVcpu, xen: bool) -> Option<i32> {
    lane.row.vm.filter(|_| !xen).and_then(|vm| i32::try_from(vm).ok())
}

fn vm_track(lane: &ExportedVcpu, xen: bool) -> TrackDescriptor {
    let uuid = Some(VM_TRACKS + u64::from(lane.who.vm.0));
    match process(lane, xen) {
        Some(pid) => TrackDescriptor {
            uuid,
            process: Some(ProcessDescriptor { pid: Some(pid), process_name: lane.row.vm_name.clone() }),
            ..TrackDescriptor::default()
        },
        None => {
            let name =
                if xen { format!("domain {}", lane.row.vm_label()) } else { "VM of unknown process".to_string() };
            TrackDescriptor { uuid, name: Some(name), ..TrackDescriptor::default() }
        }
    }
}

fn lane_track(place: usize, lane: &ExportedVcpu, xen: bool) -> TrackDescriptor {
    const EXPLAINED: &str = "Exits of a virtual CPU. The parts of an exit are as long as they were; a part that happened in \
                             several pieces is drawn as one.";
    let track = TrackDescriptor {
        uuid: Some(LANE_TRACKS + place as u64),
        description: Some(EXPLAINED.to_string()),
        ..TrackDescriptor::default()
    };
    match (process(lane, xen), lane.row.tid) {
        (Some(pid), Some(tid)) => {
            let name = Some(lane.name.clone());
            let thread = ThreadDescriptor { pid: Some(pid), tid: Some(tid.into()), thread_name: name };
            TrackDescriptor { thread: Some(thread), ..track }
        }
        _ => TrackDescriptor {
            name: Some(lane.name.clone()),
            parent_uuid: Some(VM_TRACKS + u64::from(lane.who.vm.0)),
            ..track
        },
    }
}

/// The annotation of a value in the column of this number.
fn annotation(number: u64, value: &ColumnValue<'_>, note: Spelling) -> Option<DebugAnnotation> {
    let empty = DebugAnnotation { name_iid: Some(number), ..DebugAnnotation::default() };
    match value {
        // No column of exits that is shown holds, or has several.
        ColumnValue::Lacks | ColumnValue::Flag(_) | ColumnValue::Numbers(_) => None,
        ColumnValue::Words(words) => Some(DebugAnnotation { string_value: Some((*words).to_string()), ..empty }),
        ColumnValue::Number(number) => Some(match note {
            Spelling::Plain => DebugAnnotation { uint_value: Some(*number), ..empty },
            Spelling::Hex => DebugAnnotation { pointer_value: Some(*number), ..empty },
        }),
    }
}
