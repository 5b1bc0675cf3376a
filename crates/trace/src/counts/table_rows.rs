//! Rows of tables of exits that are told one by one: each line has its figures and says what they are of.
//!
//! ```text
//! kvm_stat -l   kvm_entry kvm_exit kvm_exit(HLT)   and below  2026-11-28 10:00:01       812       812       120
//! kvm_stat -l -c        timestamp,kvm_entry,kvm_exit          2026-11-28 10:00:01,812,812
//! KVM's statistics      /sys/kernel/debug/kvm/1712-14/io_exits:812     io_exits (cumulative): 812     in QEMU's `info stats`
//! bpftrace              @[HLT]: 812      @ns[48]:   and below   [512, 1K)       812 |@@@@      |
//! xenalyze              VMEXIT_IOIO              1994  3.43s 57.17% 4470050 cyc {302784|506780|18588948}
//! ```
//!
//! Layouts: `log` of tools/kvm/kvm_stat/kvm_stat, with its two formats; `kvm_vcpu_stats_desc` of arch/x86/kvm/x86.c and
//! arch/arm64/kvm/guest.c; `print_stats_schema_value` of QEMU's stats/stats-hmp-cmds.c; `print_map` and `print_hist` of bpftrace;
//! `hvm_exit_reason_summary` of Xen's tools/xentrace/xenalyze.c.

use super::exit_tables::{decimal, event_and_key, number, percent};
use exitscope_model::{EXIT_EVENT, ExitCode, ExitTableRow, exit_counter};
use exitscope_units::Nanos;

/// A log of kvm_stat has as many columns as this, at least: a line of fewer words may be anything.
const LEAST_COLUMNS: usize = 2;

/// Parts of a map's key that are looked at, and maps of a program.
const MOST_PARTS: usize = 8;
const MOST_MAPS: usize = 16;

/// Longer programs of bpftrace are looked at in part, in bytes.
pub(super) const LONGEST_PROGRAM: usize = 4 << 10;

/// What the columns of a log of kvm_stat are of.
pub(super) type LogColumns = Vec<(String, Option<String>)>;

/// The head of a log of kvm_stat: names of events and counters alone, of which one is KVM's.
pub(super) fn log_columns(line: &str) -> Option<LogColumns> {
    let is_csv = line.trim_start().starts_with("timestamp,");
    let names: Vec<&str> = match is_csv {
        true => line.trim().split(',').skip(1).collect(),
        false => line.split_whitespace().collect(),
    };
    let is_of_kvm = |name: &&str| name.starts_with("kvm_") || exit_counter(name).is_some();
    if names.len() < LEAST_COLUMNS || !names.iter().any(is_of_kvm) {
        return None;
    }
    // In prose, words are no names of events.
    let is_name = |name: &&str| name.contains('_') || name.contains('(') || exit_counter(name).is_some();
    if !is_csv && !names.iter().all(is_name) {
        return None;
    }
    names.into_iter().map(event_and_key).collect()
}

/// A line of a log with so many columns: its moment in seconds of some day, if it has one, and what each column counted since the line
/// before.
pub(super) fn log_row(line: &str, columns: usize) -> Option<(Option<u64>, Vec<u64>)> {
    let words: Vec<&str> = line.split([',', ' ', '\t']).filter(|word| !word.is_empty()).collect();
    let (moment, figures) = match words.len().checked_sub(columns)? {
        0 => (None, &words[..]),
        2 => (Some(moment(words[0], words[1])?), &words[2..]),
        _ => return None,
    };
    Some((moment, figures.iter().map(|word| word.parse().ok()).collect::<Option<_>>()?))
}

/// The seconds of `2026-11-28 10:00:01` since some midnight: days are 24 hours long, and months 31 days, so that only differences within
/// a month are right.
fn moment(date: &str, time: &str) -> Option<u64> {
    let numbers = |text: &str, by: char| -> Option<Vec<u64>> { text.split(by).map(|part| part.parse().ok()).collect() };
    let ([year, month, day], [hour, minute, second]) =
        (<[u64; 3]>::try_from(numbers(date, '-')?).ok()?, <[u64; 3]>::try_from(numbers(time, ':')?).ok()?);
    let is_one = (1..=12).contains(&month) && (1..=31).contains(&day) && hour < 24 && minute < 60 && second < 61;
    (is_one && year < 10_000).then_some((((year * 12 + month) * 31 + day) * 24 + hour) * 3_600 + minute * 60 + second)
}

/// Whose statistics QEMU's `info stats vcpu` prints: those of the vCPU that its monitor is at, which it does not name (`hmp_info_stats`
/// and `print_stats_results` of QEMU's stats/stats-hmp-cmds.c).
const OF_MONITOR: &str = "one vCPU, at QEMU's monitor";

/// One of KVM's statistics: of which VM, its name, its count.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Counter {
    pub of: String,
    pub name: &'static str,
    pub count: u64,
}

/// A line of one: as `grep .` prints a file of debugfs, or as QEMU's monitor does.
pub(super) fn counter(line: &str) -> Option<Counter> {
    let line = line.trim_start_matches(['>', '|', ' ', '\t']).trim_end();
    if let Some((name, value)) = line.split_once(" (cumulative):") {
        let (name, count) = (exit_counter(name.trim())?, value.trim().parse().ok()?);
        return Some(Counter { of: OF_MONITOR.to_string(), name, count });
    }
    let end = line.find([':', '=', ' ', '\t'])?;
    let (path, value) = line.split_at(end);
    let (folder, name) = path.rsplit_once('/')?;
    let of = folder.rsplit_once("kvm/").map_or("", |(_, vm)| vm);
    let is_there = folder.contains("kvm/") || folder.ends_with("kvm");
    let (name, count) = (exit_counter(name)?, value.trim_start_matches([':', '=', ' ', '\t']).parse().ok()?);
    is_there.then(|| Counter { of: of.to_string(), name, count })
}

/// A line of a map of bpftrace: its name, the parts of its key, and its count, or `None` where a histogram follows.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct MapLine {
    pub name: String,
    pub key: Vec<String>,
    pub count: Option<u64>,
}

/// A line of one, by its name and the words within brackets.
pub(super) fn map_line(line: &str) -> Option<MapLine> {
    let line = line.trim_start_matches(['>', '|', ' ', '\t']).trim_end();
    let (name, rest) = line.strip_prefix('@')?.split_once('[')?;
    let (key, value) = rest.rsplit_once("]:")?;
    let part = |part: &str| {
        let part = part.trim().trim_matches('"');
        part.strip_prefix("EXIT_REASON_").unwrap_or(part).to_string()
    };
    let count = match value.trim() {
        "" => None,
        count => Some(count.parse().ok()?),
    };
    Some(MapLine { name: name.to_string(), key: key.split(',').take(MOST_PARTS).map(part).collect(), count })
}

/// The unit of times in a map, in nanoseconds, where its name says it.
pub(super) fn unit_of_map(name: &str) -> Option<u64> {
    let is_named = |part: &&str| name.split('_').any(|word| word == *part);
    let is_of = |parts: [&str; 3]| parts.iter().any(is_named);
    match () {
        () if is_of(["ns", "nsec", "nsecs"]) => Some(1),
        () if is_of(["us", "usec", "usecs"]) => Some(1_000),
        () => None,
    }
}

/// A map in which a program of bpftrace counts by the reason of an exit, and which part of its key that is.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct CountedMap {
    pub name: String,
    pub reason: usize,
}

/// Those that a program has: `@ns[@reason[tid]] = hist(…)`. What a program keeps in other maps, as `@start[tid] = nsecs`, is
/// printed as well, and counts nothing.
pub(super) fn counted_maps(program: &str) -> Vec<CountedMap> {
    let line: String = program.chars().filter(|c| !c.is_whitespace()).collect();
    let ends =
        ["]=count()", "]=hist(", "]=lhist("].into_iter().flat_map(|way| line.match_indices(way).map(|(at, _)| at));
    let map = |end: usize| {
        let mut depth = 1_usize;
        let begin = line[..end].char_indices().rev().find_map(|(at, c)| {
            match c {
                ']' => depth += 1,
                '[' => depth -= 1,
                _ => {}
            }
            (depth == 0).then_some(at)
        })?;
        let name = &line[line[..begin].rfind('@')? + 1..begin];
        let reason = line[begin + 1..end].split(',').position(|part| part.contains("reason"))?;
        Some(CountedMap { name: name.to_string(), reason })
    };
    ends.take(MOST_MAPS).filter_map(map).collect()
}

/// A line of a histogram: its bounds and its count. `hist()` prints `[512, 1K)`, and `[0]` and `[1]` of a single value.
pub(super) fn bucket(line: &str) -> Option<([u64; 2], u64)> {
    let line = line.trim_start_matches(['>', ' ', '\t']);
    let (bounds, rest) = line.strip_prefix('[')?.split_once([')', ']'])?;
    let number = |text: &str| -> Option<u64> {
        let text = text.trim();
        let (digits, unit) = match text.chars().last()? {
            'K' => (&text[..text.len() - 1], 1 << 10),
            'M' => (&text[..text.len() - 1], 1 << 20),
            'G' => (&text[..text.len() - 1], 1 << 30),
            _ => (text, 1),
        };
        digits.parse::<u64>().ok()?.checked_mul(unit)
    };
    let count = rest.split_whitespace().next()?.parse().ok()?;
    match bounds.split_once(',') {
        Some((least, end)) => Some(([number(least)?, number(end)?], count)),
        None => Some(([number(bounds)?; 2], count)),
    }
}

/// A row of xenalyze's `Exit reasons:`. Below some of them are parts of theirs, in the same columns: the register, the port, the call.
pub(super) fn xenalyze_row(words: &[&str]) -> Option<ExitTableRow> {
    let [name, count, seconds, share, _mean, "cyc", _] = words else { return None };
    percent(share)?;
    // Of AMD they begin so; of Intel they are the kernel's names, in capitals.
    let is_of_intel = || name.bytes().all(|byte| !byte.is_ascii_lowercase()) && ExitCode::called(name).next().is_some();
    if !name.starts_with("VMEXIT_") && !is_of_intel() {
        return None;
    }
    // Two digits behind the point.
    let seconds = decimal(seconds.strip_suffix('s')?)?;
    let time = [(seconds - 0.005).max(0.0), seconds + 0.005].map(|seconds| Nanos((seconds * 1e9).round() as u64));
    Some(ExitTableRow {
        event: EXIT_EVENT.to_string(),
        key: Some((*name).to_string()),
        count: number(count)?,
        time: Some(time),
        ..ExitTableRow::default()
    })
}
