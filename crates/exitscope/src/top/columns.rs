//! The columns of the list of VMs and vCPUs: which there are, which are shown, and what each has of a row.
//!
//! ```text
//! --columns, or all ─► choice ─► those of a frame ─┬─► screen (list.rs leaves out what does not fit)
//!           keys in the chooser ──┘                 └─► text of --batch
//! ```

use super::choices::Sort;
use super::frame::Figures;
use super::history::LivePart;
use super::line::Line;
use super::list::{BARS, Words};
use super::text;
use crate::cli::TopColumn;
use clap::ValueEnum;
use exitscope_view::{rate, share};

impl TopColumn {
    /// All, in the order in which they are shown.
    pub fn all() -> &'static [TopColumn] {
        TopColumn::value_variants()
    }

    /// Its name for `--columns`.
    pub fn name(self) -> String {
        self.to_possible_value().map_or(String::new(), |value| value.get_name().to_string())
    }

    /// What it is, in a line.
    pub fn help(self) -> String {
        let help = self.to_possible_value().and_then(|value| value.get_help().map(ToString::to_string));
        help.unwrap_or_default()
    }

    /// The part of the time that it is.
    pub fn part(self) -> Option<LivePart> {
        match self {
            TopColumn::Cost => Some(LivePart::Cost),
            TopColumn::Guest => Some(LivePart::Guest),
            TopColumn::Polling => Some(LivePart::Polling),
            TopColumn::Halted => Some(LivePart::Halted),
            TopColumn::Undivided => Some(LivePart::Undivided),
            TopColumn::Memory => Some(LivePart::Memory),
            TopColumn::Steal => Some(LivePart::Steal),
            TopColumn::Stopped => Some(LivePart::Stopped),
            TopColumn::Unknown => Some(LivePart::Unknown),
            _ => None,
        }
    }

    /// What the user sorts by it.
    pub fn sort(self) -> Option<Sort> {
        match self {
            TopColumn::Exits => Some(Sort::Exits),
            TopColumn::Cost => Some(Sort::Cost),
            TopColumn::Halted => Some(Sort::Halted),
            TopColumn::Steal => Some(Sort::Steal),
            TopColumn::P99 => Some(Sort::P99),
            _ => None,
        }
    }

    pub fn title(self) -> &'static str {
        match self {
            TopColumn::Pid => "PID",
            TopColumn::Exits => "exits/s",
            TopColumn::P99 => "p99",
            TopColumn::ToUser => "to user",
            TopColumn::TopReason => "top reason",
            TopColumn::Now => "in now",
            TopColumn::Past => "cost, the last intervals",
            part => part.part().map_or("", LivePart::name),
        }
    }

    /// ColumnChoice of a higher rank are left out first where there is no room: the parts of the time stay longest.
    pub fn rank(self) -> u8 {
        match self {
            TopColumn::Exits => 1,
            TopColumn::Cost => 2,
            TopColumn::Pid => 3,
            TopColumn::Guest => 4,
            TopColumn::Halted => 5,
            TopColumn::Steal => 6,
            TopColumn::TopReason => 8,
            TopColumn::P99 => 9,
            TopColumn::Past => BARS,
            TopColumn::ToUser => BARS + 1,
            TopColumn::Now => BARS + 2,
            _ => 7,
        }
    }

    /// Whether it is words, which begin on the left.
    pub fn is_words(self) -> bool {
        matches!(self, TopColumn::TopReason | TopColumn::Now | TopColumn::Past)
    }

    /// What it has of a row; of the past, the state knows.
    pub fn cell(self, line: &Line) -> Words {
        let figures: &Figures = line.figures();
        match self {
            TopColumn::Pid => {
                let pid = line.vcpu.map_or(Some(line.vm.pid), |vcpu| vcpu.tid);
                pid.map_or(String::new(), |pid| pid.to_string()).into()
            }
            TopColumn::Exits => rate(figures.exits_per_s).into(),
            TopColumn::P99 => text::length(figures.p99_ns).into(),
            TopColumn::ToUser => share(figures.to_user_space).into(),
            TopColumn::TopReason => {
                let top = figures.reasons.first().filter(|row| row.per_s > 0.0 || row.cost > 0.0);
                Words::name(top.map_or("-", |row| &row.name))
            }
            TopColumn::Now => {
                let open = line.vcpu.and_then(|vcpu| Some((vcpu.open_reason.clone()?, text::length(vcpu.open_ns))));
                open.map_or(Words::default(), |(reason, since)| Words::new(reason, format!(" {since}")))
            }
            TopColumn::Past => Words::default(),
            part => match part.part() {
                Some(part) => part.of(figures).map_or("-".to_string(), share).into(),
                None => Words::default(),
            },
        }
    }

    /// Whether it is left out where every row has nothing of it, unless it was asked for.
    fn is_seldom(self) -> bool {
        use TopColumn::{Guest, Memory, Polling, Stopped, Undivided, Unknown};
        matches!(self, Guest | Polling | Undivided | Memory | Stopped | Unknown)
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
        ColumnChoice { wanted: TopColumn::all().iter().map(|&id| (id, false)).collect() }
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
        let place = |id: TopColumn| TopColumn::all().iter().position(|&one| one == id);
        let at = self.wanted.iter().position(|wanted| place(wanted.0) > place(id)).unwrap_or(self.wanted.len());
        self.wanted.insert(at, (id, true));
    }

    /// Those that these rows have something to show of.
    pub fn of_rows(&self, lines: &[Line]) -> Vec<TopColumn> {
        let has_any = |id: TopColumn| {
            id.part().is_none_or(|part| lines.iter().any(|line| part.of(line.figures()).is_some_and(|of| of > 0.0)))
        };
        let shown = |&&(id, asked): &&(TopColumn, bool)| asked || !id.is_seldom() || has_any(id);
        self.wanted.iter().filter(shown).map(|wanted| wanted.0).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use TopColumn::{Cost, Exits, Guest, P99, Polling, Steal};

    #[test]
    fn columns_keep_the_order_in_which_they_were_named_and_return_to_their_place() {
        let mut columns = ColumnChoice::of(&[Steal, Cost, Steal]);
        assert_eq!(columns.of_rows(&[]), [Steal, Cost]);
        columns.toggle(Steal);
        assert_eq!(columns.of_rows(&[]), [Cost]);
        columns.toggle(P99);
        columns.toggle(Polling);
        columns.toggle(Exits);
        assert_eq!(columns.of_rows(&[]), [Exits, Cost, Polling, P99]);
        assert_eq!(ColumnChoice::of(&[]), ColumnChoice::default());
    }

    #[test]
    fn parts_of_which_there_is_nothing_are_shown_if_they_were_asked_for() {
        let mut columns = ColumnChoice::default();
        assert!(!columns.of_rows(&[]).contains(&Polling) && columns.of_rows(&[]).contains(&Steal));
        columns.toggle(Polling);
        columns.toggle(Polling);
        assert!(columns.of_rows(&[]).contains(&Polling) && !columns.of_rows(&[]).contains(&Guest));
    }

    #[test]
    fn every_part_of_the_time_is_a_column_under_its_own_name() {
        let parts: Vec<LivePart> = TopColumn::all().iter().filter_map(|id| id.part()).collect();
        assert_eq!(parts, LivePart::ALL);
        for id in TopColumn::all() {
            assert!(!id.title().is_empty() && !id.help().is_empty(), "{id:?}");
            assert!(id.part().is_none_or(|part| part.name() == id.title()), "{id:?}");
        }
    }
}
