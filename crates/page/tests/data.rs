//! The data of a page: what is unpacked is what went in, and what its schema says.

use exitscope_advice::Attribution;
use exitscope_analysis::over_time::Timelines;
use exitscope_analysis::{Dimension, ExitCause, Facts, FactsOptions, MomentSpec, Selection, TraceSink};
use exitscope_model::{
    AllParts, BesideRow, CodeList, CpuInterval, Exit, ExitCode, ExitParts, ExitPhases, Handler, LaneSpan, Ledger,
    PortAccessForm, Subject, SubjectKind, TimePart, TraceInfo, VcpuIdentity,
};
use exitscope_page::{Compression, PageContents, TimelineTables, is_built, write_data, write_page};
use exitscope_skips::{Part, need, or_skip};
use exitscope_units::{Moment, Nanos, PcpuId, Tid, VcpuId, VmId};
use exitscope_view::{Report, ReportOptions, SortKey, TraceRow};
use flate2::read::GzDecoder;
use serde_json::Value;
use std::collections::BTreeMap;
use std::io::Read;

/// 23 writes to a port, each finished by user space, all but the first of which had to wait for a CPU, and 17 halts, which
/// nobody saw the end of; on two vCPUs.
fn exits() -> Vec<Exit> {
    let written =
        Subject { kind: SubjectKind::Port, write: true, form: PortAccessForm::NonString, size: 1, key: 0x10, value: 0 };
    let exit = |number: u64, is_write: bool| Exit {
        at: Moment::from_nanos(1_000_000_000 + number * 70_000),
        who: VcpuIdentity { vm: VmId(7), vcpu: VcpuId((number % 2) as u32), tid: Tid(70 + (number % 2) as u32) },
        cpu: PcpuId(0),
        code: ExitCode::new(CodeList::Vmx, if is_write { 30 } else { 12 }),
        rip: 0,
        info: exitscope_model::ExitInfo::default(),
        handler: if is_write { Handler::Userspace(2) } else { Handler::Kernel },
        subject: is_write.then_some(written),
        injected: None,
        guest: Nanos(5_000),
        parts: ExitParts::ZERO
            .with(TimePart::Kernel, Nanos(2_000))
            .with(TimePart::User, Nanos(300))
            .with(TimePart::Steal, Nanos(if number == 0 { 0 } else { 11 })),
        phases: ExitPhases::default(),
        timed: is_write,
        is_halt: false,
        events: 2,
    };
    (0..40).map(|number| exit(number, number < 23)).collect()
}

fn after(at: Moment, nanos: u64) -> Moment {
    Moment::from_nanos(at.as_nanos() + nanos)
}

/// 6 us of the first vCPU that are of no exit.
fn stretch(exits: &[Exit]) -> CpuInterval {
    let parts = AllParts::ZERO.with(TimePart::Unknown, Nanos(4_000)).with(TimePart::Excluded, Nanos(2_000));
    CpuInterval { who: exits[0].who, from: after(exits[38].at, 9_000), parts }
}

/// What a page of these exits shows, of a trace of this name.
fn contents(name: &str, in_time: bool) -> PageContents<'static> {
    contents_of(name, in_time, Selection::default())
}

/// The same of what is selected.
fn contents_of(name: &str, in_time: bool, selection: Selection) -> PageContents<'static> {
    let (info, exits) = (TraceInfo::default(), exits());
    let (first, last) = (exits[0].at, exits[exits.len() - 1].at);
    let mut facts = Facts::new(&FactsOptions { by: vec![Dimension::Reason], slowest: 3, selection: selection.clone() });
    let mut over_time = Timelines::new(&selection);
    facts.begin(first);
    over_time.begin(first);
    for exit in &exits {
        facts.absorb(exit);
        over_time.absorb(exit);
    }
    facts.absorb_stretch(&stretch(&exits));
    over_time.beside_row(BesideRow::CpuInterval(&stretch(&exits)));
    let span = |who| LaneSpan { who, first, last };
    let lanes = [span(exits[0].who), span(exits[1].who)];
    facts.end(first, last, &Default::default());
    over_time.end(&lanes, &Default::default());
    let made = ReportOptions {
        exits: exits.len() as u64,
        timed_exits: 23,
        selection,
        sort: SortKey::Cost,
        top: usize::MAX,
        breaches: Vec::new(),
        threads_per_core: None,
        cycles_per_s: None,
        functions: BTreeMap::new(),
    };
    let trace = TraceRow::of(name.to_string(), &info, "", (first, last), 80);
    let report = Report::of(&facts, &Ledger::default(), vec![trace], &info, made);
    // As rules tell ports from other exits.
    let apart =
        |cause: &ExitCause| if cause.about.is_some() { Attribution::ByName("serial port") } else { Attribution::No };
    let over_time = TimelineTables::of(over_time, in_time, &info, apart);
    PageContents { report, advice: None, polls: None, over_time, forced_out: None }
}

/// The JSON of a page's data, and its columns by table and name, read as the front end reads them.
fn unpacked(packed: &[u8]) -> (Value, BTreeMap<(String, String), Vec<u64>>) {
    let mut bytes = Vec::new();
    GzDecoder::new(packed).read_to_end(&mut bytes).unwrap();
    let (length, rest) = bytes.split_first_chunk::<4>().unwrap();
    let (json, columns) = rest.split_at(u32::from_le_bytes(*length) as usize);
    let json: Value = serde_json::from_slice(json).unwrap();
    let mut columns = columns.iter();
    let next = |columns: &mut std::slice::Iter<u8>| {
        let (mut number, mut shift) = (0, 0);
        loop {
            let byte = *columns.next().unwrap();
            number |= u64::from(byte & 0x7f) << shift;
            shift += 7;
            if byte < 0x80 {
                return number;
            }
        }
    };
    let mut found = BTreeMap::new();
    for table in json["timelines"]["tables"].as_array().unwrap() {
        for column in table["columns"].as_array().unwrap() {
            let numbers: Vec<u64> = (0..table["rows"].as_u64().unwrap()).map(|_| next(&mut columns)).collect();
            let [table, column] = [&table["name"], column].map(|name| name.as_str().unwrap().to_string());
            found.insert((table, column), numbers);
        }
    }
    if let Some(singles) = json["timelines"]["singles"].as_object() {
        for chunk in singles["chunks"].as_array().unwrap() {
            let rows = chunk["rows"].as_u64().unwrap() as usize;
            for column in singles["columns"].as_array().unwrap() {
                let numbers: Vec<u64> = if singles["planes"].as_array().unwrap().contains(column) {
                    let planes = next(&mut columns);
                    let mut numbers = vec![0; rows];
                    for plane in 0..planes {
                        numbers
                            .iter_mut()
                            .for_each(|number| *number |= u64::from(*columns.next().unwrap()) << (8 * plane));
                    }
                    numbers
                } else {
                    (0..rows).map(|_| next(&mut columns)).collect()
                };
                found.entry(("singles".to_string(), column.as_str().unwrap().to_string())).or_default().extend(numbers);
            }
            let others: u64 = found[&("singles".to_string(), "others".to_string())]
                .iter()
                .map(|bits| u64::from(bits.count_ones()))
                .sum();
            let others = (0..others).map(|_| next(&mut columns)).collect();
            found.insert(("singles".to_string(), "of others".to_string()), others);
        }
    }
    assert_eq!(columns.next(), None);
    (json, found)
}

fn packed(contents: PageContents) -> Vec<u8> {
    let mut packed = Vec::new();
    write_data(contents, Compression::fast(), &mut packed).unwrap();
    packed
}

/// What the report says of all vCPUs together.
fn of_vcpus(json: &Value, column: &str) -> u64 {
    json["report"]["vcpus"].as_array().unwrap().iter().map(|row| row[column].as_u64().unwrap()).sum()
}

#[test]
fn columns_hold_every_exit_and_all_its_time_once_in_time_and_without() {
    for in_time in [true, false] {
        let (json, columns) = unpacked(&packed(contents("trace", in_time)));
        let sum = |table: &str, column: &str| columns[&(table.to_string(), column.to_string())].iter().sum::<u64>();
        let sums = ["count", "timed", "kernel_ns", "user_space_ns"].map(|name| sum("exits", name));
        assert_eq!(sums, [40, 23, 23 * 2_000, 23 * 300]);
        let column = |name: &str| &columns[&("exits".to_string(), name.to_string())];
        let counted = |key: &str, wanted: u64| {
            column(key).iter().zip(column("count")).filter(|row| *row.0 == wanted).map(|row| row.1).sum::<u64>()
        };
        assert_eq!([counted("to_user", 1), counted("to_user", 0)], [23, 17]);
        assert_eq!([sum("waits", "steal_ns"), sum("waits", "halted_ns")], [22 * 11, 0]);
        assert_eq!(sum("lengths", "count"), 40);
        let singles = || ["kernel_ns", "user_space_ns", "of others", "to_user"].map(|name| sum("singles", name));
        // That they go to user space is said at the first of them.
        assert!(!in_time || singles() == [23 * 2_000, 23 * 300, 22 * 11, 2], "{:?}", singles());
        assert_eq!(json["timelines"]["singles"].is_null(), !in_time);
        // The writes are one cause, the halts another; then come the further causes of each reason, and those of further reasons.
        assert_eq!([0, 1, 2, 3, 4].map(|cause| counted("cause", cause)), [23, 17, 0, 0, 0]);
        let causes = json["timelines"]["causes"].as_array().unwrap();
        let of = |name: &str| causes.iter().map(|cause| cause[name].clone()).collect::<Vec<Value>>();
        assert_eq!(of("reason"), [0.into(), 1.into(), 0.into(), 1.into(), Value::Null]);
        assert_eq!(of("about"), [0.into(), Value::Null, Value::Null, Value::Null, Value::Null]);
        assert_eq!(of("named"), ["serial port".into(), Value::Null, Value::Null, Value::Null, Value::Null]);
        assert_eq!(of("is_told_apart"), [true, false, false, false, false].map(Value::from));
        assert_eq!(of("is_further"), [false, false, true, true, true].map(Value::from));
        let parts = json["timelines"]["parts"].as_array().unwrap();
        assert_eq!(parts.len(), TimePart::ALL.len());
        let times: BTreeMap<&str, u64> = parts
            .iter()
            .map(|part| part["column"].as_str().unwrap())
            .map(|column| (column, sum("states", column)))
            .filter(|row| row.1 > 0)
            .collect();
        let expected = [
            ("guest_ns", 40 * 5_000),
            ("kernel_ns", 23 * 2_000),
            ("user_space_ns", 23 * 300),
            ("steal_ns", 22 * 11),
            ("unknown_ns", 4_000),
            ("excluded_ns", 2_000),
        ];
        assert_eq!(times, expected.into());
        assert!(times.iter().all(|(column, time)| *time == of_vcpus(&json, column)), "as the report has them");

        assert_eq!([counted("lane", 0), counted("lane", 1)], [20, 20], "a vCPU each");
        // What rises is written as what it rose by.
        let span: u64 = columns[&("exits".to_string(), "bucket".to_string())].iter().skip(1).sum();
        assert_eq!(span, if in_time { 39 * 70 } else { 0 }, "from the first to the last, in microseconds");
        assert_eq!(json["report"]["total"]["count"], 40);
    }
}

#[test]
fn every_part_is_narrowed_to_the_moments_that_are_looked_at_as_in_the_report() {
    let exits = exits();
    let (first, second) = (after(exits[2].at, 1_000), after(exits[38].at, 12_000));
    let mut selection = Selection::default();
    selection.from = Some(MomentSpec::At(first));
    selection.to = Some(MomentSpec::At(second));
    let (json, columns) = unpacked(&packed(contents_of("trace", true, selection)));
    for part in TimePart::ALL {
        let of_page: u64 = columns[&("states".to_string(), part.column().to_string())].iter().sum();
        assert_eq!(of_page, of_vcpus(&json, part.column()), "{}", part.name());
    }
    let unknown: u64 = columns[&("states".to_string(), "unknown_ns".to_string())].iter().sum();
    assert_eq!(unknown, 2_000, "half of the stretch");
}

#[test]
fn data_are_as_their_schema_says() {
    let schema = include_str!("../../../docs/page.schema.json");
    let schema = jsonschema::validator_for(&serde_json::from_str(schema).unwrap()).unwrap();
    let (mut json, _) = unpacked(&packed(contents("trace", true)));
    let misfits: Vec<String> = schema.iter_errors(&json).map(|misfit| misfit.to_string()).collect();
    assert_eq!(misfits, [""; 0]);
    json["timelines"]["vcpus"][0]["vcpu_label"].take();
    assert!(!schema.is_valid(&json), "a label is a text");
}

#[test]
fn no_name_can_end_its_place_in_the_page() {
    const NAME: &str = "</title></script><script>alert(1)</script><!--exitscope:data-->";
    let (json, _) = unpacked(&packed(contents(NAME, true)));
    assert_eq!(json["report"]["traces"][0]["name"], NAME, "data are as they are");
    or_skip!(need(is_built(), Part::FrontEnd, "no front end of pages; `make page` builds it"));
    let [page, harmless] = [NAME, "trace"].map(|name| {
        let mut page = Vec::new();
        write_page(contents(name, true), &mut page).unwrap();
        String::from_utf8(page).unwrap()
    });
    assert!(page.contains("<title>exitscope: &lt;/title&gt;&lt;/script&gt;&lt;script&gt;alert(1)"), "a title is text");
    let tags = |page: &str| page.matches('<').count();
    assert_eq!(tags(&page), tags(&harmless));
}
