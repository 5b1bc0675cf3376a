//! Perfetto's trace read back, by the published schema and a library that knows nothing of the writer.

use prost_reflect::{DescriptorPool, DynamicMessage, ReflectMessage, Value};
use std::collections::BTreeMap;
use std::path::Path;

/// A slice, or a moment, which ends where it begins.
#[derive(Debug)]
pub struct Slice {
    pub name: String,
    pub begin: u64,
    pub end: u64,
    /// Slices around it.
    pub depth: usize,
    pub is_moment: bool,
    pub notes: BTreeMap<String, String>,
}

/// A trace.
#[derive(Debug, Default)]
pub struct Decoded {
    pub slices: Vec<Slice>,
    /// Names of tracks: of processes, of threads, of others; and the process or the track that they are under.
    pub tracks: BTreeMap<u64, (String, i64)>,
    /// The clock that moments are on, if it is said.
    pub clock: Option<u64>,
}

/// Reads a trace. Panics at whatever Perfetto would not understand.
pub fn perfetto(bytes: &[u8]) -> Decoded {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../export/tests/common");
    let files = protox::compile([folder.join("perfetto_trace.proto")], [folder]).unwrap();
    let pool = DescriptorPool::from_file_descriptor_set(files).unwrap();
    let trace = pool.get_message_by_name("perfetto.protos.Trace").unwrap();
    let trace = DynamicMessage::decode(trace, bytes).unwrap();
    let mut decoded = Decoded::default();
    let mut names: BTreeMap<(&str, u64), String> = BTreeMap::new();
    let mut open: BTreeMap<u64, Vec<usize>> = BTreeMap::new();
    let mut cleared = false;
    for packet in messages(&trace, "packet") {
        assert_eq!(packet.unknown_fields().count(), 0, "{packet:?}");
        assert_eq!(number(&packet, "trusted_packet_sequence_id"), Some(1));
        let flags = number(&packet, "sequence_flags").unwrap_or(0);
        cleared |= flags & 1 != 0;
        if let Some(snapshot) = message(&packet, "clock_snapshot") {
            assert_eq!(messages(&snapshot, "clocks").len(), 1);
            decoded.clock = number(&messages(&snapshot, "clocks")[0], "clock_id");
            assert_eq!(number(&snapshot, "primary_trace_clock"), decoded.clock);
        }
        if let Some(defaults) = message(&packet, "trace_packet_defaults") {
            assert_eq!(number(&defaults, "timestamp_clock_id"), decoded.clock);
        }
        if let Some(interned) = message(&packet, "interned_data") {
            for kind in ["event_categories", "event_names", "debug_annotation_names"] {
                for row in messages(&interned, kind) {
                    let iid = number(&row, "iid").unwrap();
                    assert!(iid > 0 && names.insert((kind, iid), text(&row, "name")).is_none());
                }
            }
        }
        if let Some(track) = message(&packet, "track_descriptor") {
            let (name, under) = match (message(&track, "process"), message(&track, "thread")) {
                (Some(process), _) => (text(&process, "process_name"), integer(&process, "pid")),
                (_, Some(thread)) => (text(&thread, "thread_name"), integer(&thread, "tid")),
                _ => (text(&track, "name"), number(&track, "parent_uuid").unwrap_or(0) as i64),
            };
            decoded.tracks.insert(number(&track, "uuid").unwrap(), (name, under));
        }
        let Some(event) = message(&packet, "track_event") else { continue };
        assert!(cleared && flags & 2 != 0, "names are used before they are begun");
        let (at, track) = (number(&packet, "timestamp").unwrap(), number(&event, "track_uuid").unwrap());
        assert!(decoded.tracks.contains_key(&track), "a track without a description");
        let open = open.entry(track).or_default();
        let kind = number(&event, "type").unwrap();
        if kind == 2 {
            let slice = &mut decoded.slices[open.pop().expect("an end has a beginning")];
            assert!(slice.begin <= at);
            slice.end = at;
            continue;
        }
        if let Some(&around) = open.last() {
            assert!(decoded.slices[around].begin <= at);
        }
        let name = match number(&event, "name_iid") {
            Some(iid) => names[&("event_names", iid)].clone(),
            None => text(&event, "name"),
        };
        for category in event.get_field_by_name("category_iids").unwrap().as_list().unwrap() {
            assert!(names.contains_key(&("event_categories", category.as_u64().unwrap())));
        }
        let note = |note: DynamicMessage| {
            let name = names[&("debug_annotation_names", number(&note, "name_iid").unwrap())].clone();
            let value = ["uint_value", "pointer_value"].iter().find_map(|field| number(&note, field));
            (name, value.map_or_else(|| text(&note, "string_value"), |value| value.to_string()))
        };
        let notes = messages(&event, "debug_annotations").into_iter().map(note).collect();
        let (depth, is_moment) = (open.len(), kind == 3);
        if !is_moment {
            open.push(decoded.slices.len());
        }
        decoded.slices.push(Slice { name, begin: at, end: at, depth, is_moment, notes });
    }
    assert!(open.values().all(Vec::is_empty), "slices without an end");
    decoded
}

fn message(of: &DynamicMessage, field: &str) -> Option<DynamicMessage> {
    let message = of.has_field_by_name(field).then(|| of.get_field_by_name(field).unwrap())?;
    let message = message.as_message().unwrap().clone();
    assert_eq!(message.unknown_fields().count(), 0, "{} in {message:?}", message.descriptor().name());
    Some(message)
}

fn messages(of: &DynamicMessage, field: &str) -> Vec<DynamicMessage> {
    let list = of.get_field_by_name(field).unwrap();
    let list = list.as_list().unwrap().iter().map(|message| message.as_message().unwrap().clone());
    list.inspect(|message| assert_eq!(message.unknown_fields().count(), 0, "{message:?}")).collect()
}

fn number(of: &DynamicMessage, field: &str) -> Option<u64> {
    let value = of.has_field_by_name(field).then(|| of.get_field_by_name(field).unwrap().into_owned())?;
    Some(match value {
        Value::U32(number) => number.into(),
        Value::U64(number) => number,
        Value::EnumNumber(number) => number as u64,
        other => panic!("{field} is {other:?}"),
    })
}

fn integer(of: &DynamicMessage, field: &str) -> i64 {
    match of.get_field_by_name(field).unwrap().into_owned() {
        Value::I32(number) => number.into(),
        Value::I64(number) => number,
        other => panic!("{field} is {other:?}"),
    }
}

fn text(of: &DynamicMessage, field: &str) -> String {
    of.get_field_by_name(field).unwrap().as_str().unwrap().to_string()
}
