//! What one interval was made of: the counts of a vCPU or of a VM, and figures made of them.

use super::frame::{Figures, Row};
use exitscope_model::{AllParts, DetailKind, EXIT_PARTS, ExitCode, ExitParts, SubjectNames, TimePart};
use exitscope_record::{About, Cause, Count, Key, Open};
use exitscope_stats::CoarseBuckets;
use exitscope_units::Nanos;
use exitscope_view::detail_label;
use std::collections::BTreeMap;

/// What happened in an interval to some vCPUs.
#[derive(Debug, Default)]
pub struct Sums {
    /// vCPUs' wall time in nanoseconds.
    pub wall: u64,
    /// What of it was polling, halted, steal, … in no exit.
    pub outside: ExitParts,
    /// Whether the scheduler tells when threads have no CPU.
    pub switches: bool,
    /// `kvm_exit` fires: what is in no exit is the guest's.
    pub has_kvm_exit: bool,
    /// Events that were looked at.
    pub events: u64,
    pub poll: Option<u32>,
    groups: BTreeMap<Group, Sum>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Group {
    Reason(ExitCode),
    /// The kernel did it, and tells of nothing but what it was.
    Served(DetailKind),
    About(About),
    Halt {
        slept: bool,
    },
}

#[derive(Debug, Default)]
struct Sum {
    /// What ended in the interval.
    new: Count,
    /// What of exits that are open at its end lies in it, less what of those that ended lies before: whole, and what is no cost.
    open: i64,
    open_beside: [i64; EXIT_PARTS],
}

impl Sums {
    /// Adds what was counted under a key since watching began, and before this interval.
    pub fn add(&mut self, key: &Key, now: &Count, before: Option<&Count>) {
        let new = before.map_or_else(|| now.clone(), |before| now.since(before));
        let group = match (key.cause, key.about) {
            (Cause::Exit(code), _) => Group::Reason(code),
            (Cause::Served, Some(about)) => Group::Served(about.kind),
            (Cause::Served, None) => return,
            (Cause::Halt { slept, .. }, _) => Group::Halt { slept },
        };
        let about = key.about.filter(|about| about.kind != DetailKind::PageFault).map(Group::About);
        for group in [Some(group), about].into_iter().flatten() {
            let sum = self.groups.entry(group).or_default();
            sum.new.add(&new);
        }
    }

    /// An exit is open at `at`: the end of the interval, or, with a `sign` of -1, its beginning.
    pub fn open(&mut self, open: &Open, at: u64, sign: i64) {
        let sum = self.groups.entry(Group::Reason(open.code)).or_default();
        sum.open += sign * at.saturating_sub(open.since) as i64;
        for part in TimePart::OF_EXITS {
            sum.open_beside[part as usize] += sign * open.beside.get(part).0 as i64;
        }
    }

    /// Adds another vCPU's.
    pub fn merge(&mut self, other: &Sums) {
        self.wall += other.wall;
        self.outside.merge(&other.outside);
        self.switches |= other.switches;
        self.has_kvm_exit |= other.has_kvm_exit;
        self.events += other.events;
        self.poll = self.poll.max(other.poll);
        for (group, theirs) in &other.groups {
            let mine = self.groups.entry(*group).or_default();
            mine.new.add(&theirs.new);
            mine.open += theirs.open;
            mine.open_beside.iter_mut().zip(theirs.open_beside).for_each(|(mine, theirs)| *mine += theirs);
        }
    }

    fn exits(&self) -> impl Iterator<Item = &Sum> {
        self.groups.iter().filter(|(group, _)| matches!(group, Group::Reason(_))).map(|(_, sum)| sum)
    }

    /// Where the vCPUs' time went. Cost is one figure here: all of it counts as the kernel's.
    pub fn parts(&self) -> AllParts {
        let mut beside = self.outside;
        self.exits().for_each(|sum| beside.merge(&sum.beside()));
        let in_exits: u64 = self.exits().map(Sum::time).sum();
        let rest = self.wall.saturating_sub(in_exits.saturating_add(self.outside.sum().0));
        let (guest, unknown) = if self.has_kvm_exit { (rest, 0) } else { (0, rest) };
        let of_exits = TimePart::BESIDE_COST.into_iter().fold(AllParts::ZERO, |parts, part| {
            let unknown = if part == TimePart::Unknown { unknown } else { 0 };
            parts.with(part, Nanos(beside.get(part).0.saturating_add(unknown)))
        });
        of_exits.with(TimePart::Kernel, Nanos(self.exits().map(Sum::cost).sum())).with(TimePart::Guest, Nanos(guest))
    }

    /// Exits of the interval, and those of which a length is known.
    pub fn exits_and_timed(&self) -> (u64, u64) {
        let counted = |(group, sum): (&Group, &Sum)| match group {
            Group::Reason(_) => (sum.new.count, sum.new.lengths.total()),
            Group::Served(_) => (sum.new.count, 0),
            _ => (0, 0),
        };
        self.groups.iter().map(counted).fold((0, 0), |all, one| (all.0 + one.0, all.1 + one.1))
    }

    /// What exits of each reason cost, in nanoseconds.
    pub fn costs(&self) -> impl Iterator<Item = (ExitCode, u64)> {
        self.groups.iter().filter_map(|(group, sum)| match group {
            Group::Reason(code) => Some((*code, sum.cost())),
            _ => None,
        })
    }

    /// Figures of an interval of so many seconds, whose subjects are called so.
    pub fn figures(&self, seconds: f64, names: &SubjectNames) -> Figures {
        let rows = |wanted: fn(&Group) -> bool| {
            let mut rows: Vec<Row> = (self.groups.iter())
                .filter(|(group, _)| wanted(group))
                .map(|(group, sum)| self.row(group, sum, seconds, names))
                .collect();
            // What cost most; of what has no length, what came most often.
            rows.sort_by(|a, b| {
                b.cost.total_cmp(&a.cost).then(b.per_s.total_cmp(&a.per_s)).then(b.count.cmp(&a.count))
            });
            rows
        };
        let (mut to_user, mut busy) = (0, CoarseBuckets::default());
        for (group, sum) in &self.groups {
            if let Group::Reason(code) = group {
                to_user += sum.new.to_user;
                if !code.is_halt() {
                    busy.merge(&sum.new.lengths);
                }
            }
        }
        let (exits, _) = self.exits_and_timed();
        let parts = self.parts();
        let of = |of: TimePart| part(parts.get(of).0, self.wall);
        Figures {
            exits,
            exits_per_s: exits as f64 / seconds,
            vcpu_seconds: self.wall as f64 / 1e9,
            cost: of(TimePart::Kernel),
            polling: of(TimePart::Polling),
            halted: of(TimePart::Halted),
            halt_not_divided: of(TimePart::Undivided),
            waiting_for_memory: of(TimePart::Memory),
            steal: self.switches.then(|| of(TimePart::Steal)),
            stopped: of(TimePart::Stopped),
            unknown: of(TimePart::Unknown),
            guest: of(TimePart::Guest),
            to_user_space: part(to_user, exits),
            p99_ns: busy.quantile(9_900),
            reasons: rows(|group| matches!(group, Group::Reason(_) | Group::Served(_))),
            subjects: rows(|group| matches!(group, Group::About(_))),
            halts: rows(|group| matches!(group, Group::Halt { .. })),
            poll_ns: self.poll,
        }
    }

    fn row(&self, group: &Group, sum: &Sum, seconds: f64, names: &SubjectNames) -> Row {
        let (of, name, key) = match group {
            Group::Reason(code) => ("reason", code.name(), None),
            Group::Served(of) => ("reason", format!("{} (in the kernel)", of.name().replace('_', " ")), None),
            Group::About(about) => {
                let name = names.of_key(&[], about.kind, about.key);
                (about.kind.name(), detail_label(name.as_deref(), about.kind, about.key, about.write), Some(about.key))
            }
            Group::Halt { slept: true } => ("halt", "blocked".to_string(), None),
            Group::Halt { slept: false } => ("halt", "successful poll".to_string(), None),
        };
        let lengths = &sum.new.lengths;
        let ended = lengths.total();
        Row {
            kind: of,
            name,
            key,
            count: sum.new.count,
            per_s: sum.new.count as f64 / seconds,
            // A halt lies in exits, or in no exit: what it costs is theirs.
            cost: if of == "halt" { 0.0 } else { part(sum.cost(), self.wall) },
            exit_time: part(sum.time(), self.wall),
            to_user_space: part(sum.new.to_user, sum.new.count),
            mean_ns: sum.new.total.checked_div(ended),
            p50_ns: lengths.quantile(5_000),
            p99_ns: lengths.quantile(9_900),
            histogram: lengths.buckets().map(|(low, _, count)| (low, count)).collect(),
        }
    }
}

impl Sum {
    /// Time in the interval, including that of exits that are not over.
    fn time(&self) -> u64 {
        (self.new.total as i64).saturating_add(self.open).max(0) as u64
    }

    /// What of it is no cost.
    fn beside(&self) -> ExitParts {
        TimePart::OF_EXITS.iter().fold(ExitParts::ZERO, |parts, &part| {
            let time = (self.new.beside.get(part).0 as i64).saturating_add(self.open_beside[part as usize]);
            parts.with(part, Nanos(time.max(0) as u64))
        })
    }

    fn cost(&self) -> u64 {
        self.time().saturating_sub(self.beside().sum().0)
    }
}

fn part(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { (part as f64 / whole as f64).min(1.0) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use exitscope_model::CodeList;
    use exitscope_record::{Lane, Runner};

    const LANE: Lane = Lane { process: 7, runner: Runner::Thread(70) };
    const HLT: ExitCode = ExitCode::new(CodeList::Vmx, 12);

    fn beside(halted: u64, steal: u64) -> ExitParts {
        ExitParts::ZERO.with(TimePart::Halted, Nanos(halted)).with(TimePart::Steal, Nanos(steal))
    }

    #[test]
    fn the_parts_of_an_interval_are_what_lies_in_it_and_cost_is_neither_halted_nor_steal() {
        // One halt began 300 before the interval and ends in it; the next is open at its end since 400.
        let key = Key { lane: LANE, cause: Cause::Exit(HLT), about: None };
        let ended = Count { count: 1, total: 900, beside: beside(700, 100), ..Count::default() };
        let mut sums = Sums { wall: 1_500, switches: true, has_kvm_exit: true, ..Sums::default() };
        sums.add(&key, &ended, None);
        sums.open(&Open { code: HLT, since: 700, beside: beside(280, 0) }, 1_000, -1);
        sums.open(&Open { code: HLT, since: 2_100, beside: beside(350, 0) }, 2_500, 1);
        let Figures { exits, cost, halted, steal, guest, reasons, .. } = sums.figures(1.0, &SubjectNames::default());
        let shares = [cost, halted, steal.unwrap(), guest].map(|share| (share * 1_500.0).round() as u64);
        assert_eq!((exits, shares), (1, [130, 770, 100, 500]));
        assert_eq!((reasons[0].count, (reasons[0].exit_time * 1_500.0).round()), (1, 1_000.0));
    }

    #[test]
    fn counts_are_of_the_interval() {
        let key = Key { lane: LANE, cause: Cause::Exit(HLT), about: None };
        let count = |count| Count { count, ..Count::default() };
        let mut sums = Sums::default();
        sums.add(&key, &count(50), Some(&count(43)));
        let figures = sums.figures(1.0, &SubjectNames::default());
        assert_eq!((figures.exits, figures.reasons[0].count), (7, 7));
    }

    #[test]
    fn where_kvm_exit_does_not_fire_the_rest_is_unknown() {
        let sums = Sums { wall: 1_000, outside: beside(600, 300), switches: true, ..Sums::default() };
        let Figures { halted, steal, unknown, guest, cost, .. } = sums.figures(1.0, &SubjectNames::default());
        assert_eq!((halted, steal, unknown, guest, cost), (0.6, Some(0.3), 0.1, 0.0, 0.0));
    }
}
