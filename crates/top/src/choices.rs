//! What can be chosen: the order of rows, and what is shown below the list.

use crate::frame::{Figures, Frame};

/// What rows are ordered by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Sort {
    #[default]
    Cost,
    Exits,
    Halted,
    Steal,
    P99,
    Name,
}

impl Sort {
    /// The key that sorts by it at once.
    pub fn of_key(key: char) -> Option<Sort> {
        match key {
            'C' => Some(Sort::Cost),
            'E' => Some(Sort::Exits),
            'H' => Some(Sort::Halted),
            'T' => Some(Sort::Steal),
            'P' => Some(Sort::P99),
            'N' => Some(Sort::Name),
            _ => None,
        }
    }

    pub const ALL: [Sort; 6] = [Sort::Cost, Sort::Exits, Sort::Halted, Sort::Steal, Sort::P99, Sort::Name];

    pub fn name(self) -> &'static str {
        match self {
            Sort::Cost => "cost",
            Sort::Exits => "exits/s",
            Sort::Halted => "halted",
            Sort::Steal => "steal",
            Sort::P99 => "p99",
            Sort::Name => "name",
        }
    }

    /// What comes first has the largest.
    pub fn of(self, figures: &Figures) -> f64 {
        match self {
            Sort::Cost => figures.cost,
            Sort::Exits => figures.exits_per_s,
            Sort::Halted => figures.halted,
            Sort::Steal => figures.steal.unwrap_or(0.0),
            Sort::P99 => figures.p99_ns.unwrap_or(0) as f64,
            Sort::Name => 0.0,
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

    /// The one `steps` behind it.
    pub fn next(self, frame: &Frame, steps: usize) -> Panel {
        next(Panel::of(frame), self.on(frame), steps)
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

/// The one that is `steps` behind `now` in the circle of all.
pub fn next<T: Copy + PartialEq>(all: &[T], now: T, steps: usize) -> T {
    let at = all.iter().position(|&one| one == now).unwrap_or(0);
    all[(at + steps) % all.len()]
}
