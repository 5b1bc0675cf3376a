//! What can be chosen: the order of rows, and what is shown below the list.

use crate::columns::TopColumn;
use crate::frame::{Frame, RateFigures};
use exitscope_model::TimePart;

/// What rows are ordered by: what they have in a column, or their names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ListOrder {
    By(TopColumn),
    Name,
}

impl Default for ListOrder {
    fn default() -> ListOrder {
        ListOrder::By(TopColumn::COST)
    }
}

impl ListOrder {
    /// All, with the key that sorts by each at once.
    pub const ALL: [(char, ListOrder); 6] = [
        ('C', ListOrder::By(TopColumn::COST)),
        ('E', ListOrder::By(TopColumn::Exits)),
        ('H', ListOrder::By(TopColumn::Part(TimePart::Halted))),
        ('T', ListOrder::By(TopColumn::Part(TimePart::Steal))),
        ('P', ListOrder::By(TopColumn::P99)),
        ('N', ListOrder::Name),
    ];

    /// What a key sorts by at once.
    pub fn of_key(key: char) -> Option<ListOrder> {
        ListOrder::ALL.into_iter().find(|row| row.0 == key).map(|row| row.1)
    }

    /// The one behind it, or before it.
    pub fn next(self, backwards: bool) -> ListOrder {
        next(&ListOrder::ALL.map(|row| row.1), self, backwards)
    }

    pub fn name(self) -> &'static str {
        match self {
            ListOrder::By(column) => column.title(),
            ListOrder::Name => "name",
        }
    }

    /// What comes first has the largest.
    pub fn of(self, figures: &RateFigures) -> f64 {
        match self {
            ListOrder::By(TopColumn::Exits) => figures.exits_per_s,
            ListOrder::By(TopColumn::P99) => figures.p99_ns.unwrap_or(0) as f64,
            ListOrder::By(TopColumn::Part(part)) => figures.share_of(part).unwrap_or(0.0),
            // Lists are in the order of their names by these.
            ListOrder::By(
                TopColumn::Pid | TopColumn::ToUser | TopColumn::TopReason | TopColumn::Now | TopColumn::Past,
            )
            | ListOrder::Name => 0.0,
        }
    }
}

/// What is shown below the list, where there is no room for all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Panel {
    #[default]
    Reasons,
    About,
    Halts,
    /// Where virtual cores have runs.
    Gangs,
}

impl Panel {
    const ALL: [Panel; 4] = [Panel::Reasons, Panel::About, Panel::Halts, Panel::Gangs];

    /// Those that this frame has.
    pub fn of(frame: &Frame) -> &'static [Panel] {
        let with_gangs = frame.vms.iter().any(|vm| vm.gangs.is_some());
        &Panel::ALL[..if with_gangs { 4 } else { 3 }]
    }

    /// Which this is, if it is there; else the first.
    pub fn on(self, frame: &Frame) -> Panel {
        if Panel::of(frame).contains(&self) { self } else { Panel::Reasons }
    }

    /// Which this is, and those behind it.
    pub fn and_further(self, frame: &Frame) -> Vec<Panel> {
        let all = Panel::of(frame);
        let first = all.iter().position(|&panel| panel == self.on(frame)).unwrap_or(0);
        all.iter().cycle().skip(first).take(all.len()).copied().collect()
    }

    /// The one behind it, or before it.
    pub fn next(self, frame: &Frame, backwards: bool) -> Panel {
        next(Panel::of(frame), self.on(frame), backwards)
    }

    pub fn name(self) -> &'static str {
        match self {
            Panel::Reasons => "reasons",
            Panel::About => "ports, MSRs",
            Panel::Halts => "halts",
            Panel::Gangs => "gang exits",
        }
    }
}

/// The one that is behind `now` in the circle of all, or before it.
fn next<T: Copy + PartialEq>(all: &[T], now: T, backwards: bool) -> T {
    let at = all.iter().position(|&one| one == now).unwrap_or(0);
    all[(at + if backwards { all.len() - 1 } else { 1 }) % all.len()]
}
