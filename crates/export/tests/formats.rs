//! What a recording cannot be trusted with: names that end a frame, a tag or a line; exits that overlap; too many of them.

#[path = "common/decode.rs"]
#[allow(dead_code)]
mod decode;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use decode::perfetto;
use exitscope_analysis::{Selection, TraceSink};
use exitscope_export::{
    CsvExport, Export, ExportCounts, ExportedVcpus, Firefox, Folded, Hdr, MOST_EXITS, MOST_MARKERS, Perfetto,
    Speedscope, VcpuSurvey,
};
use exitscope_model::encode::csv_field;
use exitscope_model::{
    CodeList, Exit, ExitCode, ExitParts, ExitPhases, Handler, PortAccessForm, Subject, SubjectKind, TimePart,
    TraceInfo, VcpuIdentity,
};
use exitscope_units::{Moment, Nanos, PcpuId, Tid, VcpuId, VmId};
use hdrhistogram::Histogram;
use hdrhistogram::serialization::Deserializer;
use hdrhistogram::serialization::interval_log::{IntervalLogIterator, LogEntry};
use serde_json::Value;

const NAME: &str = "a;b \"c\",d\n</script>\u{1}é 7";

fn exit(at: u64, number: u64, kernel: u64, halted: u64) -> Exit {
    Exit {
        at: Moment::from_nanos(at),
        who: VcpuIdentity { vm: VmId(70), vcpu: VcpuId(1), tid: Tid(71) },
        cpu: PcpuId(3),
        code: ExitCode::new(CodeList::Svm, number),
        rip: 0,
        info: exitscope_model::ExitInfo::default(),
        handler: Handler::Kernel,
        subject: Some(Subject {
            kind: SubjectKind::Port,
            write: true,
            form: PortAccessForm::NonString,
            size: 1,
            key: 0x3f8,
            value: u64::MAX,
        }),
        injected: Some(0xec),
        guest: Nanos(5),
        parts: ExitParts::ZERO.with(TimePart::Kernel, Nanos(kernel)).with(TimePart::Halted, Nanos(halted)),
        phases: ExitPhases::default(),
        timed: true,
        is_halt: halted > 0,
        events: 2,
    }
}

fn lanes(exits: &[Exit]) -> ExportedVcpus {
    let mut survey = VcpuSurvey::new(&Selection::default());
    survey.begin(Moment::default());
    exits.iter().for_each(|exit| survey.absorb(exit));
    let mut info = TraceInfo { clock: "mono".to_string(), ..TraceInfo::default() };
    info.comms.insert(70, NAME.to_string());
    let mut lanes = ExportedVcpus::default();
    lanes.add(survey, &Default::default(), &Selection::default());
    lanes.end(&info);
    lanes
}

fn run(exits: &[Exit], export: &mut dyn Export) -> ExportCounts {
    exits.iter().for_each(|exit| export.exit(0, exit).unwrap());
    export.finish().unwrap()
}

/// Two that touch, one that begins too early, one without an end, one that lasts for ever.
fn odd() -> Vec<Exit> {
    let mut open = exit(500, 0x7b, 0, 0);
    open.timed = false;
    vec![exit(100, 0x78, 20, 80), exit(200, 0x7b, 10, 0), exit(205, 0x7b, 10, 0), open, exit(1_000, 0x999, u64::MAX, 0)]
}

#[test]
fn perfetto_has_names_as_they_are_and_exits_that_overlap_as_moments() {
    let exits = odd();
    let mut bytes = Vec::new();
    let written = run(&exits, &mut Perfetto::begin(&mut bytes, &lanes(&exits)).unwrap());
    assert_eq!(written, ExportCounts { exits: 3, untimed: 1, overlapping: 1, left_out: 0 });
    let decoded = perfetto(&bytes);
    assert_eq!(decoded.clock, Some(3));
    let names: Vec<_> = decoded.tracks.values().cloned().collect();
    assert_eq!(names, [(NAME.to_string(), 70), ("vCPU 1".to_string(), 71)]);
    let slices: Vec<_> = decoded.slices.iter().map(|of| (of.name.as_str(), of.begin, of.end, of.depth)).collect();
    assert_eq!(
        slices,
        [
            ("hlt", 100, 200, 0),
            ("kernel: handler", 100, 120, 1),
            ("halted", 120, 200, 1),
            ("io", 200, 210, 0),
            ("io", 205, 205, 0),
            ("io", 500, 500, 0),
            ("0x999", 1_000, u64::MAX, 0),
        ]
    );
    let note = |at: usize, name: &str| decoded.slices[at].notes.get(name).map(String::as_str);
    assert_eq!(
        [note(0, "subject_key"), note(0, "subject_name"), note(0, "value")],
        [Some("1016"), Some("COM1"), Some("18446744073709551615")]
    );
    assert_eq!([note(3, "exit_time_ns"), note(4, "exit_time_ns")], [None, Some("10")]);
}

#[test]
fn profiles_are_json_whatever_names_hold() {
    let exits = odd();
    let mut bytes = Vec::new();
    run(&exits, &mut Speedscope::begin(&mut bytes, &lanes(&exits), NAME));
    let file: Value = serde_json::from_slice(&bytes).unwrap();
    assert_eq!(file["name"], NAME);
    assert_eq!(file["profiles"][0]["name"], format!("{NAME} 70, vCPU 1"));
    let mut bytes = Vec::new();
    // Its cost alone would be more samples than there may be.
    let written = run(&exits, &mut Firefox::begin(&mut bytes, &lanes(&exits), NAME));
    assert_eq!(written, ExportCounts { exits: 3, untimed: 1, overlapping: 0, left_out: 1 });
    let profile: Value = serde_json::from_slice(&bytes).unwrap();
    assert_eq!(profile["meta"]["product"], NAME);
    assert_eq!(profile["threads"][0]["name"], "vCPU 1");
    assert_eq!(profile["threads"][0]["markers"]["length"], 4);
}

#[test]
fn rows_stay_rows() {
    let exits = odd();
    let mut bytes = Vec::new();
    run(&exits, &mut CsvExport::begin(&mut bytes, &lanes(&exits)).unwrap());
    let mut reader = csv::Reader::from_reader(&bytes[..]);
    let rows: Vec<_> = reader.records().map(Result::unwrap).collect();
    assert_eq!(rows.len(), exits.len());
    let place = reader.headers().unwrap().iter().position(|name| name == "vm_name").unwrap();
    let shown = csv_field(NAME);
    assert!(
        rows.iter().all(|row| row[place] == shown) && rows.iter().all(|row| !row[place].contains(char::is_control))
    );
}

#[test]
fn stacks_have_four_frames_whatever_names_hold() {
    let exits = odd();
    let mut bytes = Vec::new();
    run(&exits, &mut Folded::begin(&mut bytes, &lanes(&exits)));
    let text = String::from_utf8(bytes).unwrap();
    assert!(text.lines().all(|line| line.split(';').count() == 4), "{text}");
    assert!(text.starts_with("a:b \"c\",d\u{fffd}</script>\u{fffd}é 7 70;vCPU 1;hlt;kernel: handler 20\n"), "{text}");
    // inferno adds without a look at its limits.
    let finite = text.lines().filter(|line| !line.ends_with(&u64::MAX.to_string()));
    let mut picture = Vec::new();
    inferno::flamegraph::from_lines(&mut Default::default(), finite, &mut picture).unwrap();
    assert!(String::from_utf8(picture).unwrap().contains("vCPU 1"));
}

#[test]
fn logs_have_an_interval_for_each_second_and_tags_without_spaces() {
    let second = 1_000_000_000;
    // `UD excp`, twice in the first second; one that ends in the third.
    let exits = [exit(second, 70, 100, 0), exit(second + 200, 70, 300, 0), exit(2 * second, 0x7b, second + 5, 0)];
    let mut bytes = Vec::new();
    run(&exits, &mut Hdr::begin(&mut bytes, &lanes(&exits), Some(Nanos(second))).unwrap());
    assert!(bytes.windows(37).any(|line| line == b"\n#[Histogram log format version 1.3]\n"));
    let mut rows = Vec::new();
    for entry in IntervalLogIterator::new(&bytes) {
        if let LogEntry::Interval(row) = entry.unwrap() {
            let packed = STANDARD.decode(row.encoded_histogram()).unwrap();
            let histogram: Histogram<u64> = Deserializer::new().deserialize(&mut &packed[..]).unwrap();
            let tag = row.tag().map(|tag| tag.as_str().to_string()).unwrap();
            rows.push((tag, row.start_timestamp().as_secs(), row.duration().as_secs(), histogram.len(), row.max()));
        }
    }
    let longest = rows[1].4;
    assert!((longest / 1_000_000_005.0 - 1.0).abs() < 1e-3, "{longest}");
    assert_eq!(rows[0], ("UD_excp".to_string(), 1, 1, 2, 300.0));
    assert_eq!((rows[1].0.as_str(), rows[1].1, rows[1].2, rows[1].3), ("io", 3, 1, 1));
}

#[test]
fn what_is_too_much_for_a_viewer_is_left_out_and_counted() {
    let lanes = lanes(&[exit(0, 0x7b, 1, 0)]);
    let (mut firefox, mut speedscope) = (Vec::new(), Vec::new());
    let exports: [(&mut dyn Export, u64); 2] = [
        (&mut Firefox::begin(&mut firefox, &lanes, ""), MOST_MARKERS),
        (&mut Speedscope::begin(&mut speedscope, &lanes, ""), MOST_EXITS),
    ];
    for (export, most) in exports {
        for at in 0..most + 5 {
            assert_eq!(export.is_full(), at >= most);
            export.exit(0, &exit(at * 10, 0x7b, 1, 0)).unwrap();
        }
        let written = export.finish().unwrap();
        assert_eq!((written.exits, written.left_out), (most, 5));
    }
}

#[test]
fn exits_of_more_vcpus_than_there_is_room_for_are_counted() {
    let mut survey = VcpuSurvey::new(&Selection::default());
    survey.begin(Moment::default());
    for thread in 0..65_536 + 3 {
        let mut of = exit(thread.into(), 0x7b, 1, 0);
        of.who.tid = Tid(thread);
        survey.absorb(&of);
    }
    let mut lanes = ExportedVcpus::default();
    lanes.add(survey, &Default::default(), &Selection::default());
    lanes.end(&TraceInfo::default());
    assert_eq!((lanes.all().len(), lanes.exits(), lanes.beyond), (65_536, 65_536, 3));
}
