//! Views of one mechanism, a row each: `report --view`, and what `record --for-view` adds.
//!
//! ```text
//! ViewArg ─► ViewNeeds ─┬─► report: the text, and the events that are read for it
//!                       └─► record: the events that nothing else needs
//! ```

use clap::ValueEnum;
use clap::builder::{PossibleValuesParser, Resettable, TypedValueParser};
use exitscope_trace::EventFilter;
use exitscope_view::MechanismView;

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ViewArg {
    /// Halts: gaps, successful and failed polls, wake-up latency
    Halt,
    /// Gang exits on POWER7 and POWER8: who forced whom out of the guest, and the time lost
    Gang,
    /// Accesses to ports and emulated memory: handlers, latencies, and gains of cheaper ways
    Pio,
    /// The phases of exits, from leaving the guest to entering it, and which are avoidable
    Phases,
    /// Yields: by vCPU, by the vCPU that they name; who was preempted while siblings yielded; how many vCPUs wait for CPUs
    Yield,
    /// What inhibits APICv and AVIC, by VM: for how long, why, and exits for the local APIC meanwhile
    Interrupts,
}

/// Events that `record` leaves out unless a view that needs them is named: they are many.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventsOnRequest {
    /// System calls of vCPU threads.
    SystemCalls,
}

/// What a view needs.
struct ViewNeeds {
    /// Its text.
    text: MechanismView,
    /// The events of a trace that it is made of.
    read: EventFilter,
    /// The events that are recorded only if the view is named.
    on_request: Option<EventsOnRequest>,
}

impl ViewArg {
    fn needs(self) -> ViewNeeds {
        let (text, read, on_request) = match self {
            ViewArg::Halt => (MechanismView::Halt, EventFilter::Used, None),
            ViewArg::Gang => (MechanismView::Gang, EventFilter::Used, None),
            ViewArg::Pio => (MechanismView::Pio, EventFilter::Used, None),
            ViewArg::Phases => (MechanismView::Phases, EventFilter::Used, Some(EventsOnRequest::SystemCalls)),
            ViewArg::Yield => (MechanismView::Yield, EventFilter::Used, None),
            ViewArg::Interrupts => (MechanismView::Interrupts, EventFilter::Used, None),
        };
        ViewNeeds { text, read, on_request }
    }

    /// How the view's text is made.
    pub fn text(self) -> MechanismView {
        self.needs().text
    }
}

/// The events that are read for these views.
pub fn read_for(views: &[ViewArg]) -> EventFilter {
    views.iter().map(|view| view.needs().read).max().unwrap_or(EventFilter::Used)
}

/// Parses the name of a view of which not all is recorded unless it is named.
pub fn on_request() -> impl TypedValueParser<Value = EventsOnRequest> {
    let names = ViewArg::value_variants().iter().filter(|view| view.needs().on_request.is_some());
    let names = names.filter_map(ViewArg::to_possible_value).map(|name| name.help(Resettable::Reset));
    PossibleValuesParser::new(names).try_map(|name| {
        ViewArg::from_str(&name, false)
            .and_then(|view| view.needs().on_request.ok_or("nothing more is recorded".into()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_view_has_a_flag_and_a_place_in_the_report() {
        let flags: Vec<MechanismView> = ViewArg::value_variants().iter().map(|view| view.text()).collect();
        assert!(MechanismView::ALL.iter().all(|view| flags.contains(view)), "{flags:?}");
        assert_eq!(flags.len(), MechanismView::ALL.len(), "{flags:?}");
    }
}
