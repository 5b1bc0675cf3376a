//! What one interval was made of: the counts of a vCPU or of a VM, and figures made of them.

use super::frame::{Figures, Row};
use exitscope_model::{DetailKind, ExitCode};
use exitscope_record::{About, Cause, Count, Key};
use exitscope_stats::CoarseBuckets;
use exitscope_view::detail_label;
use std::collections::BTreeMap;

/// What happened in an interval to some vCPUs.
#[derive(Debug, Default)]
pub struct Sums {
    /// vCPUs' wall time in nanoseconds.
    pub wall: u64,
    /// Time in which threads waited for a CPU, and the wall time of those of which the kernel says it, in nanoseconds.
    pub waited: Option<(u64, u64)>,
    /// Idle time where no exit is around halts.
    pub idle_outside: u64,
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
    /// Since watching began.
    count: u64,
    /// In the interval.
    new: Count,
    /// How much longer than at the beginning of the interval the open exit is at its end.
    open: i64,
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
            sum.count += now.count;
            sum.new.add(&new);
        }
    }

    /// An exit was open for so long at the beginning, or is at the end.
    pub fn open(&mut self, code: ExitCode, longer: i64) {
        self.groups.entry(Group::Reason(code)).or_default().open += longer;
    }

    /// Time in exits that ended, or went on, to user space or not.
    pub fn cost(&self) -> u64 {
        self.exits().map(|(group, sum)| sum.cost(group)).sum()
    }

    /// Halts' time.
    pub fn halted(&self) -> u64 {
        let halts = self.groups.iter().filter(|(group, _)| matches!(group, Group::Halt { .. }));
        halts.map(|(_, sum)| sum.new.total).sum()
    }

    /// Adds another vCPU's.
    pub fn merge(&mut self, other: &Sums) {
        self.wall += other.wall;
        self.waited = match (self.waited, other.waited) {
            (Some(mine), Some(theirs)) => Some((mine.0 + theirs.0, mine.1 + theirs.1)),
            (mine, theirs) => mine.or(theirs),
        };
        self.idle_outside += other.idle_outside;
        self.events += other.events;
        self.poll = self.poll.max(other.poll);
        for (group, theirs) in &other.groups {
            let mine = self.groups.entry(*group).or_default();
            mine.count += theirs.count;
            mine.new.add(&theirs.new);
            mine.open += theirs.open;
        }
    }

    fn exits(&self) -> impl Iterator<Item = (&Group, &Sum)> {
        self.groups.iter().filter(|(group, _)| matches!(group, Group::Reason(_)))
    }

    /// Figures of an interval of so many seconds.
    pub fn figures(&self, seconds: f64) -> Figures {
        let rows = |wanted: fn(&Group) -> bool| {
            let mut rows: Vec<Row> = (self.groups.iter())
                .filter(|(group, _)| wanted(group))
                .map(|(group, sum)| self.row(group, sum, seconds))
                .collect();
            // What cost most; of what has no length, what came most often.
            rows.sort_by(|a, b| {
                b.cost.total_cmp(&a.cost).then(b.per_s.total_cmp(&a.per_s)).then(b.count.cmp(&a.count))
            });
            rows
        };
        let (mut new, mut served, mut busy) = (Count::default(), 0, CoarseBuckets::default());
        for (group, sum) in &self.groups {
            match group {
                Group::Reason(code) => {
                    new.add(&sum.new);
                    if !code.is_idle() {
                        busy.merge(&sum.new.lengths);
                    }
                }
                Group::Served(_) => served += sum.new.count,
                _ => {}
            }
        }
        let counted = |(group, sum): (&Group, &Sum)| match group {
            Group::Reason(_) | Group::Served(_) => sum.count,
            _ => 0,
        };
        let idle = self.exits().map(|(group, sum)| sum.idle(group)).sum::<u64>() + self.idle_outside;
        let exits = new.count + served;
        Figures {
            exits: self.groups.iter().map(counted).sum(),
            exits_per_s: exits as f64 / seconds,
            cost: part(self.cost(), self.wall),
            idle: part(idle, self.wall),
            waiting: self.waited.map(|(waited, wall)| part(waited, wall)),
            to_user: part(new.to_user, exits),
            p99_ns: busy.quantile(9_900),
            reasons: rows(|group| matches!(group, Group::Reason(_) | Group::Served(_))),
            about: rows(|group| matches!(group, Group::About(_))),
            halts: rows(|group| matches!(group, Group::Halt { .. })),
            poll_ns: self.poll,
        }
    }

    fn row(&self, group: &Group, sum: &Sum, seconds: f64) -> Row {
        let (of, name, key) = match group {
            Group::Reason(code) => ("reason", code.name(), None),
            Group::Served(of) => ("reason", format!("{} (in the kernel)", of.name().replace('_', " ")), None),
            Group::About(about) => {
                (about.kind.name(), detail_label(about.kind, about.key, about.write), Some(about.key))
            }
            Group::Halt { slept: true } => ("halt", "slept".to_string(), None),
            Group::Halt { slept: false } => ("halt", "caught by polling".to_string(), None),
        };
        let lengths = &sum.new.lengths;
        let ended = lengths.total();
        Row {
            kind: of,
            name,
            key,
            count: sum.count,
            per_s: sum.new.count as f64 / seconds,
            cost: part(sum.cost(group), self.wall),
            idle: part(sum.idle(group), self.wall),
            to_user: part(sum.new.to_user, sum.new.count),
            mean_ns: sum.new.total.checked_div(ended),
            p50_ns: lengths.quantile(5_000),
            p99_ns: lengths.quantile(9_900),
            lengths: lengths.buckets().map(|(low, _, count)| (low, count)).collect(),
        }
    }
}

impl Sum {
    /// Time in the interval, including that of exits that are not over.
    fn time(&self) -> u64 {
        (self.new.total as i64).saturating_add(self.open).max(0) as u64
    }

    fn idle(&self, group: &Group) -> u64 {
        match group {
            Group::Reason(code) if code.is_idle() && self.new.idle == self.new.total => self.time(),
            _ => self.new.idle.min(self.time()),
        }
    }

    fn cost(&self, group: &Group) -> u64 {
        self.time() - self.idle(group)
    }
}

fn part(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { (part as f64 / whole as f64).min(1.0) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_known_of_some_vcpus_is_not_nothing_in_their_sum() {
        let sums = |waited| Sums { wall: 1_000, waited, ..Sums::default() };
        for (vcpus, waiting) in [
            (&[None, None][..], None),
            (&[Some((500, 1_000)), None], Some(0.5)),
            (&[None, Some((500, 1_000)), None], Some(0.5)),
            (&[Some((500, 1_000)), Some((100, 1_000))], Some(0.3)),
        ] {
            let mut all = Sums::default();
            vcpus.iter().for_each(|waited| all.merge(&sums(*waited)));
            assert_eq!((all.figures(1.0).waiting, all.wall), (waiting, 1_000 * vcpus.len() as u64), "{vcpus:?}");
        }
    }
}
