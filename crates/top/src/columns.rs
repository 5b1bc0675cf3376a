//! The columns of the list of VMs and vCPUs: which there are, which are shown, and what each has of a row.
//!
//! ```text
//! --columns, or all ─► choice ─► those of a frame ─┬─► screen (list.rs leaves out what does not fit)
//!           keys in the chooser ─┘                 └─► text of --batch
//! ```

use crate::figure_text::measured;
use crate::frame::RateFigures;
use crate::line::ListLine;
use crate::list::{BARS, Words};
use exitscope_model::TimePart;
use exitscope_view::{length, rate};

/// A column of the list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TopColumn {
    /// Process or thread.
    Pid,
    /// Exits per second.
    Exits,
    /// A part of the vCPUs' time; the kernel's is all of the cost.
    Part(TimePart),
    /// A quantile of exit time.
    P99,
    /// Share of exits that user space answers.
    ToUser,
    /// The costliest reason.
    TopReason,
    /// The open exit.
    Now,
    /// Cost in the last intervals.
    Past,
}

/// Each column, in the order in which they are shown: what it is called where it is chosen, its rank, and what it is.
const COLUMNS: [(TopColumn, &str, u8, &str); 16] = [
    (TopColumn::Pid, "pid", 3, "The VM's process; of a vCPU, its thread"),
    (TopColumn::Exits, "exits", 1, "Exits per second"),
    (TopColumn::COST, "cost", 2, "Share of wall time in exits: kernel and user space"),
    (TopColumn::Part(TimePart::Guest), "guest", 4, "Share of wall time in the guest"),
    (TopColumn::Part(TimePart::Polling), "polling", 7, "Share of wall time polling before a halt blocks"),
    (TopColumn::Part(TimePart::Halted), "halted", 5, "Share of wall time blocked by a guest halt"),
    (
        TopColumn::Part(TimePart::Undivided),
        "undivided",
        7,
        "Share of wall time in halts that cannot be divided (POWER)",
    ),
    (TopColumn::Part(TimePart::Memory), "memory", 7, "Share of wall time blocked until a page is there"),
    (TopColumn::Part(TimePart::Steal), "steal", 6, "Share of wall time runnable without a CPU (run delay)"),
    (TopColumn::Part(TimePart::Stopped), "stopped", 7, "Share of wall time stopped by the VMM"),
    (TopColumn::Part(TimePart::Unknown), "unknown", 7, "Share of wall time that no event explains"),
    (TopColumn::P99, "p99", 9, "99 % of exits were shorter; halts left out"),
    (TopColumn::ToUser, "to-user", BARS + 1, "Share of exits that KVM handed on to QEMU or another VMM"),
    (TopColumn::TopReason, "top-reason", 8, "The reason of exits that costs most"),
    (TopColumn::Now, "now", BARS + 2, "The exit that a vCPU is in, and for how long"),
    (TopColumn::Past, "past", BARS, "Cost in the last intervals"),
];

impl TopColumn {
    /// All exits' cost.
    pub(crate) const COST: TopColumn = TopColumn::Part(TimePart::Kernel);

    /// All, in the order in which they are shown.
    pub fn all() -> impl ExactSizeIterator<Item = TopColumn> {
        COLUMNS.iter().map(|row| row.0)
    }

    /// The column that is called so where it is chosen.
    pub fn named(name: &str) -> Option<TopColumn> {
        COLUMNS.iter().find(|row| row.1 == name).map(|row| row.0)
    }

    fn row(self) -> &'static (TopColumn, &'static str, u8, &'static str) {
        &COLUMNS[self.place()]
    }

    /// Where it stands among all.
    fn place(self) -> usize {
        COLUMNS.iter().position(|row| row.0 == self).unwrap_or(0)
    }

    /// What it is called where it is chosen.
    pub fn name(self) -> &'static str {
        self.row().1
    }

    /// What it is, in a line.
    pub fn help(self) -> &'static str {
        self.row().3
    }

    /// The part of the time that it is.
    pub(crate) fn part(self) -> Option<TimePart> {
        match self {
            TopColumn::Part(part) => Some(part),
            _ => None,
        }
    }

    pub(crate) fn title(self) -> &'static str {
        match self {
            TopColumn::Pid => "PID",
            TopColumn::Exits => "exits/s",
            TopColumn::P99 => "p99",
            TopColumn::ToUser => "to user",
            TopColumn::TopReason => "top reason",
            TopColumn::Now => "in now",
            TopColumn::Past => "cost, the last intervals",
            TopColumn::COST => "cost",
            TopColumn::Part(part) => part.name(),
        }
    }

    /// Columns of a higher rank are left out first where there is no room: the parts of the time stay longest.
    pub(crate) fn rank(self) -> u8 {
        self.row().2
    }

    /// Whether it is words, which begin on the left.
    pub(crate) fn is_words(self) -> bool {
        matches!(self, TopColumn::TopReason | TopColumn::Now | TopColumn::Past)
    }

    /// What it has of a row; of the past, the state knows.
    pub(crate) fn cell(self, line: &ListLine) -> Words {
        let figures: &RateFigures = line.figures();
        match self {
            TopColumn::Pid => {
                let pid = line.vcpu.map_or(Some(line.vm.pid), |vcpu| vcpu.tid);
                pid.map_or(String::new(), |pid| pid.to_string()).into()
            }
            TopColumn::Exits => rate(figures.exits_per_s).into(),
            TopColumn::P99 => length(figures.p99_ns).into(),
            TopColumn::ToUser => measured(figures.to_user_space).into(),
            TopColumn::TopReason => {
                let top = figures.reasons.first().filter(|row| row.per_s > 0.0 || row.cost > Some(0.0));
                Words::name(top.map_or("-", |row| &row.name))
            }
            TopColumn::Now => {
                let open = line.vcpu.and_then(|vcpu| Some((vcpu.open_reason.clone()?, length(vcpu.open_ns))));
                open.map_or(Words::default(), |(reason, since)| Words::new(reason, format!(" {since}")))
            }
            TopColumn::Past => Words::default(),
            TopColumn::Part(part) => measured(figures.share_of(part)).into(),
        }
    }

    /// Whether it is left out where every row has nothing of it, unless it was asked for.
    fn is_seldom(self) -> bool {
        use TimePart::{Halted, Kernel, Steal};
        self.part().is_some_and(|part| !matches!(part, Kernel | Halted | Steal))
    }
}

/// The columns that are wanted, in their order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ColumnChoice {
    /// With whether it was asked for by its name, and is shown whatever is in it.
    wanted: Vec<(TopColumn, bool)>,
}

impl Default for ColumnChoice {
    /// All, but parts of which there is nothing.
    fn default() -> ColumnChoice {
        ColumnChoice { wanted: TopColumn::all().map(|id| (id, false)).collect() }
    }
}

impl ColumnChoice {
    /// Those of `--columns`, in that order; without any, the default.
    pub fn of(names: &[TopColumn]) -> ColumnChoice {
        let mut wanted: Vec<(TopColumn, bool)> = Vec::new();
        for &id in names {
            if !wanted.contains(&(id, true)) {
                wanted.push((id, true));
            }
        }
        if wanted.is_empty() { ColumnChoice::default() } else { ColumnChoice { wanted } }
    }

    pub fn has(&self, id: TopColumn) -> bool {
        self.wanted.iter().any(|wanted| wanted.0 == id)
    }

    /// Whether it was asked for by its name.
    pub fn is_asked(&self, id: TopColumn) -> bool {
        self.wanted.contains(&(id, true))
    }

    /// Takes a column away, or adds it before the first that comes behind it.
    pub fn toggle(&mut self, id: TopColumn) {
        if self.has(id) {
            return self.wanted.retain(|wanted| wanted.0 != id);
        }
        let at = self.wanted.iter().position(|wanted| wanted.0.place() > id.place()).unwrap_or(self.wanted.len());
        self.wanted.insert(at, (id, true));
    }

    /// Those that these rows have something to show of.
    pub fn of_rows(&self, lines: &[ListLine]) -> Vec<TopColumn> {
        let has_any = |id: TopColumn| {
            id.part()
                .is_none_or(|part| lines.iter().any(|line| line.figures().share_of(part).is_some_and(|of| of > 0.0)))
        };
        let shown = |&&(id, asked): &&(TopColumn, bool)| asked || !id.is_seldom() || has_any(id);
        self.wanted.iter().filter(shown).map(|wanted| wanted.0).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use TopColumn::{Exits, P99};

    const COST: TopColumn = TopColumn::COST;
    const GUEST: TopColumn = TopColumn::Part(TimePart::Guest);
    const POLLING: TopColumn = TopColumn::Part(TimePart::Polling);
    const STEAL: TopColumn = TopColumn::Part(TimePart::Steal);

    #[test]
    fn columns_keep_the_order_in_which_they_were_named_and_return_to_their_place() {
        let mut columns = ColumnChoice::of(&[STEAL, COST, STEAL]);
        assert_eq!(columns.of_rows(&[]), [STEAL, COST]);
        columns.toggle(STEAL);
        assert_eq!(columns.of_rows(&[]), [COST]);
        columns.toggle(P99);
        columns.toggle(POLLING);
        columns.toggle(Exits);
        assert_eq!(columns.of_rows(&[]), [Exits, COST, POLLING, P99]);
        assert_eq!(ColumnChoice::of(&[]), ColumnChoice::default());
    }

    #[test]
    fn parts_of_which_there_is_nothing_are_shown_if_they_were_asked_for() {
        let mut columns = ColumnChoice::default();
        assert!(!columns.of_rows(&[]).contains(&POLLING) && columns.of_rows(&[]).contains(&STEAL));
        columns.toggle(POLLING);
        columns.toggle(POLLING);
        assert!(columns.of_rows(&[]).contains(&POLLING) && !columns.of_rows(&[]).contains(&GUEST));
    }

    #[test]
    fn every_part_of_the_time_is_a_column_with_a_share_of_its_own() {
        let figures = RateFigures {
            cost: Some(0.01),
            guest: Some(0.02),
            polling: Some(0.03),
            halted: Some(0.04),
            halt_not_divided: Some(0.05),
            waiting_for_memory: Some(0.06),
            steal: None,
            stopped: Some(0.08),
            unknown: Some(0.09),
            ..RateFigures::default()
        };
        let shares = TopColumn::all().filter_map(TopColumn::part).map(|part| figures.share_of(part));
        let shares: Vec<f64> = shares.map(|share| share.map_or(7.0, |share| (share * 100.0).round())).collect();
        assert_eq!(shares, [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0]);
        assert_eq!(figures.share_of(TimePart::Steal), None);
    }
}
