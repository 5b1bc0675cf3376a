//! Fills a store with as many exits as are wanted, of as many hosts and days: those of a recording that is in another store,
//! over and over, with other lengths each time, up to a tenth more or less. For benchmarks.
//!
//! `cargo run --release --package exitscope-query --example generate -- FROM TO EXITS HOSTS DAYS`

use exitscope_analysis::SumsByTime;
use exitscope_model::{
    CodeList, Exit, ExitCode, ExitParts, ExitPhases, Handler, PortAccessForm, Subject, SubjectKind, TimePart,
    VcpuIdentity, WhoRow,
};
use exitscope_query::{Array, EngineLimits, QueryEngine, ResultColumns};
use exitscope_store::{FileCheck, RecordingRow, RecordingStats, Store};
use exitscope_units::{Moment, Nanos, PcpuId, Tid, VcpuId, VmId};
use std::error::Error;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// An exit of the recording.
struct Seen {
    vcpu: usize,
    exit: Exit,
}

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [from, to, exits, hosts, days] = &arguments[..] else {
        return Err("generate FROM TO EXITS HOSTS DAYS".into());
    };
    let (exits, hosts, days): (u64, u64, u64) = (exits.parse()?, hosts.parse()?, days.parse()?);
    let (run, seen) = recording(Path::new(from))?;
    let store = Store::make(Path::new(to))?;
    let who = |vcpu| WhoRow {
        vm: Some(1000),
        vm_name: Some("qemu".to_string()),
        vcpu: Some(vcpu as u32),
        ..WhoRow::default()
    };
    let vcpus: Vec<Arc<WhoRow>> =
        (0..=seen.iter().map(|of| of.vcpu).max().unwrap_or(0)).map(|vcpu| who(vcpu).into()).collect();
    let files = hosts * days;
    for file in 0..files {
        let (host, day) = (format!("host-{:03}", file / days), format!("2026-11-{:02}", 1 + file % days));
        let count = exits / files + u64::from(file < exits % files);
        let id = format!("{host}-{day}");
        let mut adding = store.add(&id, &host, &day, vcpus.clone())?;
        let length = run.last_ns - run.first_ns + 1;
        let last_ns = run.first_ns + length * count.div_ceil(seen.len() as u64) - 1;
        let mut sums = SumsByTime::new(run.first_ns, last_ns);
        let mut chance = 0x9e37_79b9_7f4a_7c15 ^ file;
        for number in 0..count {
            let of = &seen[(number % seen.len() as u64) as usize];
            chance = chance.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let per_mille = 900 + (chance >> 33) % 201;
            let longer =
                |parts: ExitParts, part: TimePart| parts.with(part, Nanos(of.exit.part(part).0 * per_mille / 1000));
            let exit = Exit {
                at: Moment::from_nanos(of.exit.at.as_nanos() + number / seen.len() as u64 * length),
                parts: TimePart::OF_EXITS.into_iter().fold(ExitParts::ZERO, longer),
                ..of.exit
            };
            adding.absorb(of.vcpu, &exit)?;
            sums.absorb(of.vcpu, &exit);
        }
        let stats = RecordingStats { facts: sums.rows(&vcpus), ..RecordingStats::default() };
        let run = RecordingRow { id, host, day, last_ns, exits: count, timed: count, ..run.clone() };
        adding.finish(&run, &stats)?;
    }
    Ok(())
}

/// The only recording of a store.
fn recording(at: &Path) -> Result<(RecordingRow, Vec<Seen>), Box<dyn Error>> {
    let store = Store::open(at)?;
    let limits = EngineLimits { memory: 1 << 30, time: Duration::from_secs(60), threads: 1 };
    let engine = QueryEngine::open(&store, limits, FileCheck::Hashes)?;
    let run = engine.runs().first().ok_or("the store has no recording")?.clone();
    let mut seen = Vec::new();
    let mut failed = Ok(());
    engine.query("select * from exits order by at_ns", &mut |_, batch| {
        failed = batch.map_or(Ok(()), |batch| read(ResultColumns(batch), &mut seen));
        Ok(failed.is_ok())
    })?;
    failed?;
    Ok((run, seen))
}

fn read(columns: ResultColumns<'_>, seen: &mut Vec<Seen>) -> Result<(), Box<dyn Error>> {
    let names = ["reason", "handler", "subject_kind", "direction"];
    let words: Result<Vec<_>, _> = names.iter().map(|name| columns.words(name)).collect();
    let parts = TimePart::OF_EXITS.map(TimePart::column);
    let names = ["vcpu", "at_ns", "cpu", "subject_key", "value", "size_bytes"];
    let numbers: Result<Vec<_>, _> = names.iter().chain(&parts).map(|name| columns.numbers(name)).collect();
    let (words, numbers) = (words?, numbers?);
    for row in 0..columns.0.num_rows() {
        let number = |at: usize| numbers[at].is_valid(row).then(|| numbers[at].value(row));
        let or_zero = |at: usize| number(at).unwrap_or(0);
        let word = |at: usize| if words[at].is_valid(row) { words[at].value(row) } else { "" };
        let kind = SubjectKind::ALL.into_iter().find(|kind| kind.name() == word(2));
        let detail = kind.zip(number(3)).map(|(kind, key)| Subject {
            kind,
            write: ["out", "write"].contains(&word(3)),
            form: PortAccessForm::Unknown,
            size: or_zero(5) as u16,
            key,
            value: or_zero(4),
        });
        let exit = Exit {
            at: Moment::from_nanos(or_zero(1)),
            who: VcpuIdentity { vm: VmId::UNKNOWN, vcpu: VcpuId(or_zero(0) as u32), tid: Tid(0) },
            cpu: PcpuId(or_zero(2) as u32),
            code: ExitCode::of_unlisted(word(0)),
            rip: 0,
            info: exitscope_model::ExitInfo::default(),
            handler: ExitCode::from_name(CodeList::KvmExit, word(1))
                .map_or(Handler::Kernel, |of| Handler::Userspace(of.number as u32)),
            subject: detail,
            injected: None,
            guest: Nanos(0),
            parts: (6..)
                .zip(TimePart::OF_EXITS)
                .fold(ExitParts::ZERO, |parts, (at, part)| parts.with(part, Nanos(or_zero(at)))),
            phases: ExitPhases::default(),
            timed: number(6).is_some(),
            is_halt: false,
            events: 1,
        };
        seen.push(Seen { vcpu: or_zero(0) as usize, exit });
    }
    Ok(())
}
