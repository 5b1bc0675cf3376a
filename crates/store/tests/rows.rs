//! What is written is what is read, by the columns that the schema says; and a log that was cut says so.

use arrow_array::cast::AsArray;
use arrow_array::types::{Int32Type, UInt32Type, UInt64Type};
use arrow_array::{Array, RecordBatch};
use exitscope_model::{CodeList, Exit, ExitCode, ExitParts, ExitPhases, Handler, SumRow, TimePart, WhoRow};
use exitscope_store::{AddOutcome, RecordingRow, RecordingStats, SCHEMA, Store, StoreError, TABLES, schema};
use exitscope_units::{Moment, Nanos, PcpuId, Tid, VcpuId, VmId};
use std::fs;
use std::path::Path;
use std::sync::Arc;

const DAY: &str = "2026-11-22";

fn run(id: &str, exits: u64) -> RecordingRow {
    let text = String::new;
    RecordingRow {
        id: id.to_string(),
        name: text(),
        host: "a".to_string(),
        day: DAY.to_string(),
        format: text(),
        arch: text(),
        release: text(),
        cpu: text(),
        cpus: 1,
        clock: text(),
        first_ns: 0,
        last_ns: 100,
        events: 3,
        exits,
        timed: exits,
        lost: 0,
        settings: Vec::new(),
        advice: Vec::new(),
    }
}

fn exit(at: u64, timed: bool) -> Exit {
    Exit {
        at: Moment::from_nanos(at),
        who: exitscope_model::VcpuIdentity { vm: VmId(7), vcpu: VcpuId(0), tid: Tid(70) },
        cpu: PcpuId(1),
        code: ExitCode::new(CodeList::Vmx, 12),
        rip: 0,
        info: exitscope_model::ExitInfo::default(),
        handler: Handler::Kernel,
        subject: None,
        injected: None,
        guest: Nanos::ZERO,
        parts: ExitParts::ZERO.with(TimePart::Kernel, Nanos(at * 10)).with(TimePart::Halted, Nanos(3)),
        phases: ExitPhases::default(),
        timed,
        is_halt: true,
        events: 1,
    }
}

/// Adds a recording with the exits of two vCPUs, at these moments, in this order, and a sum.
fn add(store: &Store, id: &str, exits: &[(usize, u64, bool)]) -> AddOutcome {
    let vcpus = [Some(0), None].map(|vcpu| Arc::new(WhoRow { vm: Some(7), vcpu, ..WhoRow::default() }));
    let mut adding = store.add(id, "a", DAY, vcpus.to_vec()).unwrap();
    for &(vcpu, at, timed) in exits {
        adding.absorb(vcpu, &exit(at, timed)).unwrap();
    }
    let lengths = vec![(8, 1), (20, 1)];
    let sum = SumRow {
        reason: "HLT".to_string(),
        count: 2,
        parts: ExitParts::ZERO.with(TimePart::Halted, Nanos(30)),
        exit_times: lengths,
        ..SumRow::default()
    };
    adding
        .finish(&run(id, exits.len() as u64), &RecordingStats { facts: vec![sum], ..RecordingStats::default() })
        .unwrap()
}

fn read(store: &Store, table: &str) -> RecordBatch {
    let contents = store.contents().unwrap();
    let piece = contents.pieces.values().find(|piece| piece.table == table).expect("a file of the table");
    let batch = store.rows(piece).unwrap().next().expect("rows").unwrap();
    assert_eq!(batch.num_rows() as u64, piece.rows);
    batch
}

fn numbers(batch: &RecordBatch, name: &str) -> Vec<Option<u64>> {
    batch.column_by_name(name).expect(name).as_primitive::<UInt64Type>().iter().collect()
}

#[test]
fn exits_are_read_back_by_vcpu_and_moment_and_lack_what_was_not_known() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::make(folder.path()).unwrap();
    add(&store, "r1", &[(1, 9, true), (0, 8, false), (0, 5, true)]);
    let batch = read(&store, "exits");
    assert_eq!(numbers(&batch, "at_ns"), [Some(5), Some(8), Some(9)]);
    // Of an exit of which one end was not seen the times mean nothing.
    assert_eq!(numbers(&batch, "kernel_ns"), [Some(50), None, Some(90)]);
    assert_eq!(numbers(&batch, "halted_ns"), [Some(3), None, Some(3)]);
    let vcpus: Vec<_> = batch.column_by_name("vcpu").unwrap().as_primitive::<UInt32Type>().iter().collect();
    assert_eq!(vcpus, [Some(0), Some(0), None]);
    let reasons = batch.column_by_name("reason").unwrap().as_dictionary::<Int32Type>();
    let reasons: Vec<_> = reasons.downcast_dict::<arrow_array::StringArray>().unwrap().into_iter().collect();
    assert_eq!(reasons, [Some("HLT"); 3]);
    assert_eq!(batch.column_by_name("subject_kind").unwrap().logical_null_count(), 3);
}

#[test]
fn sums_are_read_back_with_their_distributions() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::make(folder.path()).unwrap();
    add(&store, "r1", &[]);
    let batch = read(&store, "reason_stats");
    assert_eq!((numbers(&batch, "count"), numbers(&batch, "halted_ns")), (vec![Some(2)], vec![Some(30)]));
    let list = |name: &str| batch.column_by_name(name).expect(name).as_list::<i32>().value(0);
    assert_eq!(list("exit_time_bucket_ns").as_primitive::<UInt64Type>().values(), &[8, 20]);
    assert_eq!(list("exit_time_bucket_count").as_primitive::<UInt64Type>().values(), &[1, 1]);
}

#[test]
fn files_have_the_columns_of_the_schema_and_times_have_their_unit_in_their_name() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::make(folder.path()).unwrap();
    add(&store, "r1", &[(0, 5, true)]);
    for table in ["exits", "reason_stats"] {
        let (written, said) = (read(&store, table).schema(), schema(table).unwrap());
        let types = |schema: &arrow_schema::Schema| -> Vec<_> {
            schema.fields().iter().map(|field| (field.name().clone(), field.data_type().clone())).collect()
        };
        assert_eq!(types(&written), types(&said), "{table}");
    }
    assert!(TABLES.iter().all(|table| schema(table).is_some()) && schema("exit").is_none());
    for field in schema("exits").unwrap().fields() {
        // The recording is no column of an exit alone.
        let Some(unit) = field.metadata().get("unit").filter(|_| field.name() != "recording") else { continue };
        assert_eq!(field.name().ends_with("_ns"), unit == "ns", "{}", field.name());
        assert!(field.metadata().get("prose").is_some_and(|prose| !prose.is_empty()), "{}", field.name());
    }
}

#[test]
fn a_recording_is_added_once_and_one_that_was_given_up_not_at_all() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::make(folder.path()).unwrap();
    assert!(matches!(add(&store, "r1", &[(0, 5, true)]), AddOutcome::New { exits: 1.., sums: 1.. }));
    assert_eq!(add(&store, "r1", &[(0, 5, true)]), AddOutcome::Already);
    let mut given_up = store.add("r2", "a", DAY, vec![Arc::default()]).unwrap();
    given_up.absorb(0, &exit(5, true)).unwrap();
    drop(given_up);
    let contents = Store::open(folder.path()).unwrap().contents().unwrap();
    assert_eq!((contents.runs.len(), contents.pieces.len(), contents.number), (1, 2, 1));
    assert_eq!(store.check().unwrap().damaged, []);
}

fn entry(folder: &Path, number: u64) -> std::path::PathBuf {
    folder.join(format!("_log/{number:020}.json"))
}

/// What reading the log says after `damage` to a store of three recordings.
fn after(damage: impl Fn(&Path)) -> Result<usize, StoreError> {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::make(folder.path()).unwrap();
    ["r1", "r2", "r3"].iter().for_each(|id| _ = add(&store, id, &[]));
    damage(folder.path());
    store.contents().map(|contents| contents.runs.len())
}

#[test]
fn a_log_that_was_cut_is_read_up_to_there_or_says_what_is_missing() {
    // What no entry's name is belongs to nobody: an entry that was begun elsewhere, or a note.
    assert!(matches!(after(|folder| fs::write(folder.join("_log/4.json.tmp"), "{").unwrap()), Ok(3)));
    // Without its end the log is the one of before.
    assert!(matches!(after(|folder| fs::remove_file(entry(folder, 3)).unwrap()), Ok(2)));
    for number in [1, 2] {
        let missing = after(|folder| fs::remove_file(entry(folder, number)).unwrap());
        assert!(matches!(&missing, Err(StoreError::Missing { entry }) if entry.contains(&format!("{number:020}"))));
    }
    for number in [1, 2, 3] {
        let cut = after(|folder| {
            let text = fs::read_to_string(entry(folder, number)).unwrap();
            fs::write(entry(folder, number), &text[..text.len() / 2]).unwrap();
        });
        assert!(matches!(&cut, Err(StoreError::Entry { entry, .. }) if entry.contains(&format!("{number:020}"))));
    }
    let newer = after(|folder| {
        let schema = format!(r#"{{"schema":"{}9","anything":1}}"#, SCHEMA.replace('1', "9"));
        fs::write(entry(folder, 3), schema).unwrap();
    });
    assert!(matches!(&newer, Err(StoreError::Newer { schema, .. }) if schema == "exitscope.store/99"));
}

#[test]
fn a_folder_without_a_log_is_no_store() {
    let folder = tempfile::tempdir().unwrap();
    assert!(matches!(Store::open(folder.path()), Err(StoreError::NoStore { .. })));
}
