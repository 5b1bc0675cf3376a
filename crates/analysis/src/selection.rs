//! Which exits are looked at.

use crate::{ExitFilter, TextWord};
use exitscope_model::codes::is_called;
use exitscope_model::{Exit, ExitCode, VcpuIdentity};
use exitscope_units::{Moment, Nanos, VcpuId, VmId};

/// A moment as a person gives it: on the trace's clock, or counted from the trace's first event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MomentSpec {
    /// On the trace's clock.
    At(Moment),
    /// After the first event.
    After(Nanos),
}

impl MomentSpec {
    /// The moment on the trace's clock.
    pub fn resolve(self, first: Moment) -> Moment {
        match self {
            MomentSpec::At(at) => at,
            MomentSpec::After(after) => Moment::from_nanos(first.as_nanos().saturating_add(after.0)),
        }
    }
}

/// Which exits are looked at; an empty list selects everything.
#[derive(Clone, Debug, Default)]
pub struct Selection {
    /// VMs.
    pub vms: Vec<VmId>,
    /// vCPU numbers.
    pub vcpus: Vec<VcpuId>,
    /// Reasons, by the kernel's name without regard to case.
    pub reasons: Vec<String>,
    /// Not before.
    pub from: Option<MomentSpec>,
    /// Not after.
    pub to: Option<MomentSpec>,
    /// Only exits longer than this, everything included.
    pub longer_than: Option<Nanos>,
    /// Only exits of which a condition holds.
    pub filter: Option<ExitFilter>,
    /// The last reason looked up and whether it is selected: names are compared once, not for every exit.
    cached: Option<(ExitCode, bool)>,
}

impl Selection {
    /// Whether the vCPU is selected.
    #[inline]
    pub fn holds_who(&self, who: &VcpuIdentity) -> bool {
        (self.vms.is_empty() || self.vms.contains(&who.vm)) && (self.vcpus.is_empty() || self.vcpus.contains(&who.vcpu))
    }

    /// The same of all VMs and vCPUs; none if all are selected.
    pub fn of_all_vcpus(&self) -> Option<Selection> {
        let is_of_all = self.vms.is_empty() && self.vcpus.is_empty();
        (!is_of_all).then(|| Selection { vms: Vec::new(), vcpus: Vec::new(), ..self.clone() })
    }

    /// First and last moment selected, in a trace whose first event is at `first`.
    pub fn window(&self, first: Moment) -> (Moment, Moment) {
        let of = |when: Option<MomentSpec>, open| when.map_or(open, |when| when.resolve(first));
        (of(self.from, Moment::default()), of(self.to, Moment::MAX))
    }

    /// Whether the exit's reason and length are selected.
    #[inline(always)]
    pub fn holds_exit(&mut self, exit: &Exit) -> bool {
        // Whose and when is looked at elsewhere.
        let Selection { vms: _, vcpus: _, reasons, from: _, to: _, longer_than, filter, cached: _ } = &*self;
        (longer_than.is_none() && reasons.is_empty() && filter.is_none()) || self.finds(exit)
    }

    /// Whether a vCPU's number must be known when its exits are seen.
    pub fn needs_vcpus(&self) -> bool {
        let of_filter = |filter: &ExitFilter| filter.condition().words().any(|word| word == TextWord::Vcpu);
        !self.vcpus.is_empty() || self.filter.as_ref().is_some_and(of_filter)
    }

    fn finds(&mut self, exit: &Exit) -> bool {
        if self.longer_than.is_some_and(|least| !exit.timed || exit.total() <= least) {
            return false;
        }
        self.holds_reason(exit.code) && self.filter.as_mut().is_none_or(|filter| filter.holds(exit))
    }

    fn holds_reason(&mut self, code: ExitCode) -> bool {
        if self.reasons.is_empty() {
            return true;
        }
        if let Some((cached, held)) = self.cached
            && cached == code
        {
            return held;
        }
        let name = code.name();
        let held = self.reasons.iter().any(|wanted| is_called(&name, wanted));
        self.cached = Some((code, held));
        held
    }
}
