//! `export`: every format of every trace of the corpus, read back by what knows nothing of the writer, holds what the report
//! counts.

#[path = "../../export/tests/common/decode.rs"]
#[allow(dead_code)]
mod decode;

mod common;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use common::{corpus, exitscope, report, run, stderr, traces, unpacked};
use exitscope_model::TimePart;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::Deserializer;
use hdrhistogram::serialization::interval_log::{IntervalLogIterator, LogEntry};
use openmetrics_parser::OpenMetricsValue;
use openmetrics_parser::openmetrics::parse_openmetrics;
use rayon::prelude::*;
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Stdio;

/// Xen's logs count cycles.
const HZ: [&str; 2] = ["--tsc-hz", "2596120000"];

/// Every trace of the corpus, Xen's too.
fn all_traces() -> Vec<PathBuf> {
    let xen = [
        "hvm1_boot_mem",
        "hvm1_dm_sched_hvm",
        "pvh1_hvm",
        "pvh1_smallbuf_credit1",
        "pvh2_contend_sched_hvm",
        "pvh64_all",
    ];
    traces().into_iter().chain(xen.iter().map(|name| corpus(&format!("xen/{name}.xentrace.gz")))).collect()
}

fn flags(trace: &Path) -> Vec<&'static str> {
    if trace.to_str().unwrap().contains("/xen/") { HZ.to_vec() } else { Vec::new() }
}

/// An export to standard output.
fn export(trace: &Path, to: &str, arguments: &[&str]) -> Vec<u8> {
    let output = exitscope().arg("export").arg(trace).args(["--format", to]).args(arguments).output().unwrap();
    assert!(output.status.success(), "{}: {}", trace.display(), stderr(&output));
    output.stdout
}

/// Exits, those of which both ends were seen, and their time in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Sums {
    count: u64,
    timed: u64,
    kernel: u64,
    user: u64,
    /// The other parts, in the order of [`TimePart::BESIDE_COST`].
    others: [u64; OTHERS],
}

/// Parts of exits that are no cost.
const OTHERS: usize = TimePart::BESIDE_COST.len();

/// Those, and what `name` makes of each.
fn others<T: Copy + Default>(name: impl Fn(TimePart) -> T) -> [T; OTHERS] {
    TimePart::BESIDE_COST.map(name)
}

impl Sums {
    fn of(report: &Value) -> Sums {
        // Of exits without lengths there are no sums.
        let of = |name: &str| report["total"][name].as_u64().unwrap_or(0);
        Sums {
            count: of("count"),
            timed: of("timed"),
            kernel: of("kernel_ns"),
            user: of("user_space_ns"),
            others: others(|part| of(part.column())),
        }
    }

    /// Adds a part of an exit.
    fn add(&mut self, part: &str, length: u64) {
        match part {
            "user space" | "user space, asleep" | "device model" => self.user += length,
            other => match others(|part| part.name()).iter().position(|name| *name == other) {
                Some(at) => self.others[at] += length,
                None => {
                    assert!(other.starts_with("kernel: "), "{other}");
                    self.kernel += length;
                }
            },
        }
    }

    fn total(&self) -> u64 {
        self.cost() + self.others.iter().sum::<u64>()
    }

    fn cost(&self) -> u64 {
        self.kernel + self.user
    }
}

fn in_csv(bytes: &[u8]) -> Sums {
    let mut sums = Sums::default();
    for row in csv::Reader::from_reader(bytes).deserialize() {
        let row: BTreeMap<String, String> = row.unwrap();
        let of = |name: &str| row[name].parse::<u64>().unwrap();
        sums.count += 1;
        assert!(row["vm"].is_empty() || of("vm") < 1 << 31);
        if row["timed"] == "false" {
            assert_eq!(row["exit_time_ns"], "");
            continue;
        }
        sums.timed += 1;
        sums.kernel += of("kernel_ns");
        sums.user += of("user_space_ns");
        let rest = others(|part| of(part.column()));
        sums.others.iter_mut().zip(rest).for_each(|(sum, more)| *sum += more);
        assert_eq!(of("exit_time_ns"), of("kernel_ns") + of("user_space_ns") + rest.iter().sum::<u64>());
        assert!(of("to_handler_ns") + of("to_user_space_ns") + of("reentry_ns") <= of("kernel_ns"), "{row:?}");
        assert!(of("user_space_asleep_ns") <= of("user_space_ns"), "{row:?}");
    }
    sums
}

fn in_perfetto(bytes: &[u8]) -> Sums {
    let mut sums = Sums::default();
    let decoded = decode::perfetto(bytes);
    let mut whole: Option<(u64, u64)> = None;
    let settle = |whole: Option<(u64, u64)>, sums: &mut Sums| {
        // What no part says is handling; where there are parts, they are all of it.
        let Some((length, in_parts)) = whole else { return };
        assert!(in_parts == 0 || in_parts == length, "parts of {in_parts} in {length}");
        sums.kernel += length - in_parts;
    };
    for slice in &decoded.slices {
        let length = slice.end - slice.begin;
        match (slice.is_moment, slice.depth) {
            (true, _) => sums.count += 1,
            (false, 0) => {
                settle(whole.replace((length, 0)), &mut sums);
                sums.count += 1;
                sums.timed += 1;
            }
            (false, _) => {
                sums.add(&slice.name, length);
                whole = whole.map(|(all, parts)| (all, parts + length));
            }
        }
    }
    settle(whole, &mut sums);
    sums
}

fn in_folded(bytes: &[u8]) -> Sums {
    let mut sums = Sums::default();
    for line in std::str::from_utf8(bytes).unwrap().lines() {
        let (stack, length) = line.rsplit_once(' ').unwrap();
        let frames: Vec<&str> = stack.split(';').collect();
        assert_eq!(frames.len(), 4, "{line}");
        sums.add(frames[3], length.parse().unwrap());
    }
    sums
}

fn in_speedscope(bytes: &[u8]) -> Sums {
    let file: Value = serde_json::from_slice(bytes).unwrap();
    let frames = file["shared"]["frames"].as_array().unwrap();
    let mut sums = Sums::default();
    assert_eq!(file["$schema"], "https://www.speedscope.app/file-format-schema.json");
    for profile in file["profiles"].as_array().unwrap() {
        assert_eq!((profile["type"].as_str(), profile["unit"].as_str()), (Some("evented"), Some("nanoseconds")));
        let (mut open, mut last) = (Vec::new(), profile["startValue"].as_u64().unwrap());
        for event in profile["events"].as_array().unwrap() {
            let (frame, at) = (event["frame"].as_u64().unwrap(), event["at"].as_u64().unwrap());
            assert!(at >= last, "{event}");
            last = at;
            if event["type"] == "O" {
                open.push((frame, at));
                continue;
            }
            let (opened, begin) = open.pop().unwrap();
            assert_eq!((event["type"].as_str(), opened), (Some("C"), frame));
            match open.len() {
                0 => sums.timed += 1,
                _ => sums.add(frames[frame as usize]["name"].as_str().unwrap(), at - begin),
            }
        }
        assert!(open.is_empty() && profile["endValue"].as_u64().unwrap() >= last);
    }
    sums
}

/// Cost is not told by part; it is all in `kernel`.
fn in_firefox(bytes: &[u8]) -> Sums {
    let profile: Value = serde_json::from_slice(bytes).unwrap();
    let mut sums = Sums::default();
    for thread in profile["threads"].as_array().unwrap() {
        let column = |table: &str, name: &str| thread[table][name].as_array().unwrap().clone();
        // 0 is a moment, 1 an interval.
        let phases = column("markers", "phase");
        sums.count += phases.len() as u64;
        sums.timed += phases.iter().map(|phase| phase.as_u64().unwrap()).sum::<u64>();
        let weights = column("samples", "weight");
        sums.kernel += weights.iter().map(|weight| weight.as_u64().unwrap()).sum::<u64>();
        for data in column("markers", "data") {
            // Milliseconds, of which a double holds each nanosecond.
            let of = |name: &str| (data[name].as_f64().unwrap() * 1e6).round() as u64;
            let rest = others(|part| of(part.column().trim_end_matches("_ns")));
            sums.others.iter_mut().zip(rest).for_each(|(sum, more)| *sum += more);
        }
    }
    sums
}

/// Exits with a length by reason, and the sum of their lengths to within what three digits leave.
fn in_hdr(bytes: &[u8]) -> BTreeMap<String, (u64, f64)> {
    let mut reasons: BTreeMap<String, (u64, f64)> = BTreeMap::new();
    for entry in IntervalLogIterator::new(bytes) {
        let LogEntry::Interval(row) = entry.unwrap() else { continue };
        let packed = STANDARD.decode(row.encoded_histogram()).unwrap();
        let histogram: Histogram<u64> = Deserializer::new().deserialize(&mut &packed[..]).unwrap();
        let sum = reasons.entry(row.tag().unwrap().as_str().to_string()).or_default();
        sum.0 += histogram.len();
        sum.1 += histogram.mean() * histogram.len() as f64;
    }
    reasons
}

/// Exits, those with a length, and cost and length in seconds.
fn in_openmetrics(bytes: &[u8]) -> (u64, u64, f64, f64) {
    let text = std::str::from_utf8(bytes).unwrap();
    // This reader knows units only of counters and gauges.
    let text: String = text.lines().filter(|line| !line.starts_with("# UNIT ")).flat_map(|line| [line, "\n"]).collect();
    let families = parse_openmetrics(&text).unwrap().families;
    let mut sums = (0, 0, 0.0, 0.0);
    for sample in families["exitscope_exits"].iter_samples() {
        let OpenMetricsValue::Counter(count) = &sample.value else { panic!("{sample:?}") };
        sums.0 += count.value.as_f64() as u64;
    }
    for sample in families["exitscope_exit_cost_seconds"].iter_samples() {
        let OpenMetricsValue::Counter(count) = &sample.value else { panic!("{sample:?}") };
        sums.2 += count.value.as_f64();
    }
    for sample in families["exitscope_exit_time_seconds"].iter_samples() {
        let OpenMetricsValue::Histogram(histogram) = &sample.value else { panic!("{sample:?}") };
        sums.1 += histogram.count.unwrap();
        sums.3 += histogram.sum.unwrap().as_f64();
    }
    sums
}

fn check(trace: &Path, arguments: &[&str]) {
    let arguments = [&flags(trace)[..], arguments].concat();
    let report = report(&[trace], &arguments);
    let name = format!("{} {arguments:?}", trace.display());
    let sums = Sums::of(&report);
    assert!(sums.count > 0, "{name}");
    let export = |to| export(trace, to, &arguments);
    assert_eq!(in_csv(&export("csv")), sums, "csv of {name}");
    assert_eq!(in_perfetto(&export("perfetto")), sums, "perfetto of {name}");
    let uncounted = Sums { count: 0, ..sums };
    assert_eq!(in_speedscope(&export("speedscope")), uncounted, "speedscope of {name}");
    assert_eq!(in_folded(&export("folded")), Sums { timed: 0, ..uncounted }, "folded of {name}");
    let unparted = Sums { kernel: sums.cost(), user: 0, ..sums };
    assert_eq!(in_firefox(&export("firefox")), unparted, "firefox of {name}");
    let reasons = in_hdr(&export("hdr"));
    let rows = report["rows"].as_array().unwrap().iter().filter(|row| row["timed"] != 0);
    let counted: BTreeMap<String, u64> =
        rows.map(|row| (row["reason"].as_str().unwrap().replace(' ', "_"), row["timed"].as_u64().unwrap())).collect();
    assert_eq!(
        reasons.iter().map(|(reason, row)| (reason.clone(), row.0)).collect::<BTreeMap<_, _>>(),
        counted,
        "{name}"
    );
    let length: f64 = reasons.values().map(|row| row.1).sum();
    let total = sums.total() as f64;
    assert!((length - total).abs() <= 1e-3 * total, "hdr of {name}: {length} of {}", sums.total());
    let (exits, timed, cost, length) = in_openmetrics(&export("openmetrics"));
    assert_eq!((exits, timed), (sums.count, sums.timed), "openmetrics of {name}");
    let near = |seconds: f64, ns: u64| (seconds * 1e9 - ns as f64).abs() < 1e-6 * ns as f64 + 1.0;
    assert!(near(cost, sums.cost()) && near(length, sums.total()), "{name}: {cost} {length} {sums:?}");
}

#[test]
fn every_format_holds_what_the_report_counts() {
    all_traces().par_iter().for_each(|trace| check(trace, &[]));
}

#[test]
fn filters_are_those_of_the_report() {
    let trace = corpus("x86-svm/t2.data.gz");
    check(&trace, &["--vcpu", "1", "--reason", "io,npf"]);
    check(&trace, &["--longer-than", "1ms"]);
    let sums = Sums::of(&report(&[&trace], &["--from", "+2s", "--to", "+5s"]));
    assert_eq!(in_csv(&export(&trace, "csv", &["--from", "+2s", "--to", "+5s"])), sums);
    let output = run(&["export", trace.to_str().unwrap(), "--format", "csv", "--vcpu", "99"]);
    assert_eq!(output.status.code(), Some(0));
    assert!(stderr(&output).contains("no exit is selected"), "{}", stderr(&output));
    assert_eq!(output.stdout.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()).count(), 1);
}

#[test]
fn collapsed_stacks_make_a_flame_graph() {
    let stacks = export(&corpus("x86-svm/t2.data.gz"), "folded", &[]);
    let mut picture = Vec::new();
    let lines = std::str::from_utf8(&stacks).unwrap().lines();
    inferno::flamegraph::from_lines(&mut Default::default(), lines, &mut picture).unwrap();
    assert!(String::from_utf8(picture).unwrap().contains("kernel: to user space"));
}

#[test]
fn intervals_add_up_to_the_whole_log() {
    let trace = corpus("x86-svm/t2.data.gz");
    let (whole, parts) = (export(&trace, "hdr", &[]), export(&trace, "hdr", &["--interval", "1s"]));
    let lines = |log: &[u8]| log.split(|byte| *byte == b'\n').filter(|line| line.starts_with(b"Tag=")).count();
    assert!(lines(&parts) > 5 * lines(&whole));
    let counts = |log: &[u8]| in_hdr(log).into_iter().map(|(tag, row)| (tag, row.0)).collect::<Vec<_>>();
    assert_eq!(counts(&parts), counts(&whole));
}

#[test]
fn a_clock_that_perfetto_knows_is_named() {
    // trace.dat on ftrace's clock `mono`; perf's own clock is none of Perfetto's.
    let clock = |trace: &str| {
        let trace = corpus(trace);
        let clock = report(&[&trace], &[])["traces"][0]["clock"].as_str().unwrap().to_string();
        (clock, decode::perfetto(&export(&trace, "perfetto", &[])).clock)
    };
    for trace in ["x86-svm/t4-none.dat.gz", "x86-svm/t2.data.gz", "arm64/arm.dat.gz"] {
        let (name, number) = clock(trace);
        let known = match name.as_str() {
            "mono" | "monotonic" => Some(3),
            "boot" | "boottime" => Some(6),
            _ => None,
        };
        assert_eq!(number, known, "{trace}: {name}");
    }
}

#[test]
fn several_traces_need_a_common_time_or_a_sum() {
    let (a, b) = (corpus("powerpc/p8_smt4_two_vms.data.gz"), corpus("x86-svm/t2.data.gz"));
    let (a, b) = (a.to_str().unwrap(), b.to_str().unwrap());
    let output = run(&["export", a, b, "--format", "perfetto"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(stderr(&output).contains("no common time"), "{}", stderr(&output));
    let output = run(&["export", a, b, "--format", "folded"]);
    let report = report(&[Path::new(a), Path::new(b)], &[]);
    assert_eq!(in_folded(&output.stdout), Sums { count: 0, timed: 0, ..Sums::of(&report) });
}

#[test]
fn a_file_is_there_when_it_is_whole() {
    let folder = tempfile::tempdir().unwrap();
    let (trace, to) = (folder.path().join("perf.data"), folder.path().join("out.csv"));
    std::fs::write(&trace, unpacked("x86-svm/t4-kvmstat.data.gz")).unwrap();
    std::fs::write(&to, "old").unwrap();
    let (trace, to) = (trace.to_str().unwrap(), to.to_str().unwrap());
    let missing = run(&["export", "nothing.data", "--format", "csv", "-o", to]);
    assert_eq!((missing.status.code(), std::fs::read(to).unwrap()), (Some(2), b"old".to_vec()));
    let output = run(&["export", trace, "--format", "csv", "-o", to]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert!(stderr(&output).contains("wrote") && output.stdout.is_empty());
    assert_eq!(in_csv(&std::fs::read(to).unwrap()), Sums::of(&report(&[Path::new(trace)], &[])));
    assert_eq!(std::fs::read_to_string(format!("{to}.old")).unwrap(), "old");
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 3);

    // What a shell has put under /dev/stdout may be a file; another one of that name would never be seen.
    let caught = folder.path().join("caught.csv");
    let mut command = exitscope();
    command.args(["export", trace, "--format", "csv", "-o", "/proc/self/fd/1"]);
    let status = command.stdout(std::fs::File::create(&caught).unwrap()).status().unwrap();
    assert_eq!((status.code(), std::fs::read(caught).unwrap()), (Some(0), std::fs::read(to).unwrap()));

    let before = std::fs::read(trace).unwrap();
    let itself = run(&["export", trace, "--format", "csv", "-o", trace]);
    assert_eq!((itself.status.code(), std::fs::read(trace).unwrap()), (Some(2), before));
    let interval = run(&["export", trace, "--format", "csv", "--interval", "1s"]);
    assert_eq!(interval.status.code(), Some(2));
}

#[test]
fn what_is_said_to_be_written_is_what_is_in_the_file() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("out");
    // With some exits of which one end was seen, with many, and with no other.
    let without_ends = folder.path().join("ends.txt");
    std::fs::write(&without_ends, " qemu-229 [001] 87.1: kvm_exit: vcpu 0 reason hlt rip 0x1\n").unwrap();
    for trace in [corpus("x86-svm/t2.data.gz"), corpus("powerpc/p8_smt4_gang_exits_rfc.data.gz"), without_ends] {
        for to in ["csv", "perfetto", "firefox", "speedscope", "hdr", "openmetrics"] {
            let mut command = exitscope();
            command.arg("export").arg(&trace).args(["--format", to, "-o"]).arg(&file).args(flags(&trace));
            let output = command.output().unwrap();
            let said = stderr(&output);
            assert_eq!(output.status.code(), Some(0), "{to}: {said}");
            let bytes = std::fs::read(&file).unwrap();
            let sums = match to {
                "csv" => in_csv(&bytes),
                "perfetto" => in_perfetto(&bytes),
                "firefox" => in_firefox(&bytes),
                "speedscope" => in_speedscope(&bytes),
                "hdr" => Sums { timed: in_hdr(&bytes).values().map(|row| row.0).sum(), ..Sums::default() },
                _ => Sums { count: in_openmetrics(&bytes).0, ..Sums::default() },
            };
            let count = |of: u64| {
                let digits = of.to_string().chars().collect::<Vec<_>>();
                let groups = digits.rchunks(3).rev().map(|group| group.iter().collect::<String>());
                groups.collect::<Vec<_>>().join(",")
            };
            let (written, is_counted) = if sums.count > 0 { (sums.count, true) } else { (sums.timed, false) };
            let name = format!("{} as {to}: {said}", trace.display());
            let exits = if written == 1 { "exit" } else { "exits" };
            assert!(said.contains(&format!("wrote {}: {} {exits}, ", file.display(), count(written))), "{name}");
            // Every exit is said to be written or left out.
            let without = Sums::of(&report(&[&trace], &flags(&trace))).count - sums.timed;
            let marks = match to {
                "openmetrics" => continue,
                _ if is_counted => [" of them is ", " of them are "],
                _ => [" exit left out: ", " exits left out: "],
            };
            // One of them is one thing.
            match (to, without) {
                ("perfetto" | "firefox", 1) => assert!(said.contains("1 of them is an instant: "), "{name}"),
                ("perfetto" | "firefox", 2..) => assert!(said.contains(" of them are instants: "), "{name}"),
                ("csv", 1) => assert!(said.contains("1 of them is without times: "), "{name}"),
                _ => {}
            }
            let told = said.lines().filter_map(|line| {
                let line = line.strip_prefix("exitscope: ")?;
                marks.iter().find_map(|mark| line.split_once(mark))?.0.replace(',', "").parse::<u64>().ok()
            });
            assert_eq!(told.sum::<u64>(), without, "{name}");
        }
    }
}

#[test]
fn who_has_read_enough_may_go() {
    for to in ["perfetto", "firefox", "speedscope", "folded", "openmetrics", "csv", "hdr"] {
        let mut command = exitscope();
        command.args(["export", "--format", to]).arg(corpus("x86-svm/t2.data.gz"));
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        drop(child.stdout.take());
        let output = child.wait_with_output().unwrap();
        assert_eq!((output.status.code(), stderr(&output)), (Some(0), String::new()), "{to}");
    }
}

#[test]
fn damaged_traces_are_exported_as_far_as_they_go() {
    // A pipe's: the formats of its events are at its beginning.
    let whole = unpacked("x86-svm/t4-pipe.data.gz");
    let folder = tempfile::tempdir().unwrap();
    let trace = folder.path().join("cut.data");
    std::fs::write(&trace, &whole[..whole.len() / 2]).unwrap();
    let sums = Sums::of(&report(&[&trace], &[]));
    assert_eq!(in_perfetto(&export(&trace, "perfetto", &[])), sums);
    let output = run(&["export", trace.to_str().unwrap(), "--format", "folded"]);
    assert!(!stderr(&output).is_empty(), "what is missing is said");
}

#[test]
fn the_columns_are_documented() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/columns.md");
    let page = std::fs::read_to_string(page).unwrap();
    let rows = export(&corpus("x86-svm/t4-kvmstat.data.gz"), "csv", &[]);
    for column in csv::Reader::from_reader(&rows[..]).headers().unwrap() {
        assert!(page.contains(&format!("| `{column}` |")), "{column}");
    }
}
