//! What KVM's traced decisions show of the settings of host halt polling that were in force.
//!
//! ```text
//! halt 171 us: poll 160000 ─► 320000 (grow)       grow 2, halt_poll_ns more than 171 us
//! halt 900 us: poll 200000 ─► 100000 (shrink)     cut from 320000 to 200000: halt_poll_ns; shrink 2
//! ```

use exitscope_model::{PollChange, Told, TraceInfo, Who};
use exitscope_policy::Knob;
use exitscope_policy::host_halt_poll::{HALT_POLL_NS_DEFAULTS, HALT_POLL_NS_SHRINK_DEFAULTS, Params, Whose};
use exitscope_units::Nanos;
use std::collections::BTreeMap;

/// A number that decisions showed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Seen {
    /// Not yet.
    #[default]
    Never,
    /// Always this.
    One(u32),
    /// Not always the same: it was changed, or records were lost.
    Many,
}

impl Seen {
    fn note(&mut self, value: u32) {
        *self = match *self {
            Seen::Never => Seen::One(value),
            Seen::One(known) if known == value => Seen::One(value),
            _ => Seen::Many,
        };
    }

    fn merge(&mut self, other: Seen) {
        match other {
            Seen::Never => {}
            Seen::One(value) => self.note(value),
            Seen::Many => *self = Seen::Many,
        }
    }

    /// The one value that was seen.
    pub fn value(self) -> Option<u32> {
        if let Seen::One(value) = self { Some(value) } else { None }
    }
}

/// What was seen of one VM's settings.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PollSettings {
    /// Changes of polls that KVM traced.
    pub changes: u64,
    /// The factor by which polls grew.
    pub grow: Seen,
    /// What polls of zero grew to.
    pub start: Seen,
    /// The divisor by which they shrank.
    pub shrink: Seen,
    /// The longest poll that shrank to zero.
    pub reset_from: u32,
    /// What a poll that had grown beyond `halt_poll_ns` was cut to: that very setting.
    pub cut_to: Seen,
    /// `halt_poll_ns` is more than this: KVM grew a poll after a halt so long, or from a poll so long.
    pub more_than: u64,
    /// `halt_poll_ns` is less than this, because KVM shrank a poll after a halt so long.
    less_than: Option<u64>,
    /// The poll of each vCPU after its last change.
    last: BTreeMap<Who, u32>,
}

impl PollSettings {
    /// Takes note of how one halt ended.
    pub(crate) fn absorb(&mut self, who: Who, told: &Told, change: Option<PollChange>) {
        let Some(PollChange { grow, new, old }) = change else { return };
        self.changes += 1;
        if self.last.insert(who, new).is_some_and(|last| last > old) {
            self.cut_to.note(old);
        }
        match (grow, old, new) {
            (true, 0, _) => self.start.note(new),
            (true, ..) if new % old == 0 => self.grow.note(new / old),
            (true, ..) => self.grow = Seen::Many,
            (false, _, 0) => self.reset_from = self.reset_from.max(old),
            (false, ..) => self.shrink.note(old / new),
        }
        match grow {
            true => self.more_than = self.more_than.max(told.length.0).max(u64::from(old)),
            false if told.valid => self.less_than = Some(self.less_than.unwrap_or(u64::MAX).min(told.length.0)),
            false => {}
        }
    }

    /// The poll of a vCPU after its last change, in nanoseconds.
    pub(crate) fn poll_of(&self, who: Who) -> Option<u32> {
        self.last.get(&who).copied()
    }

    /// Adds what another recording showed.
    pub fn merge(&mut self, other: &PollSettings) {
        self.changes += other.changes;
        self.grow.merge(other.grow);
        self.start.merge(other.start);
        self.shrink.merge(other.shrink);
        self.cut_to.merge(other.cut_to);
        self.reset_from = self.reset_from.max(other.reset_from);
        self.more_than = self.more_than.max(other.more_than);
        self.less_than = [self.less_than, other.less_than].into_iter().flatten().min();
    }

    /// Bounds of `halt_poll_ns`, in nanoseconds: more than the first, less than the second.
    pub fn bounds(&self) -> (u64, Option<u64>) {
        (self.more_than, self.less_than)
    }

    /// The divisor by which polls shrink, 0 for a reset, if it was seen.
    pub fn shrink(&self) -> Option<u32> {
        // Half of it would have been enough to go on polling.
        let reset =
            self.reset_from / 2 >= self.start.value().unwrap_or(Params::default().halt_poll_ns_grow_start.0 as u32);
        self.shrink.value().or((self.shrink == Seen::Never && reset && self.reset_from > 0).then_some(0))
    }

    /// Settings under which KVM would have decided as it did; where it showed nothing, those that the recording tells of
    /// its host.
    pub fn params(&self, host: &PollHost) -> Params {
        let mut params = host.params;
        let fits = |poll: u64| poll > self.more_than && self.less_than.is_none_or(|less| poll < less);
        if let Some(cut) = self.cut_to.value() {
            params.halt_poll_ns = Nanos(u64::from(cut));
        } else if self.changes > 0 && !fits(params.halt_poll_ns.0) {
            let most =
                self.less_than.map_or(u64::from(u32::MAX), |less| less.saturating_sub(1)).min(u64::from(u32::MAX));
            params.halt_poll_ns = Nanos(most.max(self.more_than));
        }
        params.halt_poll_ns_grow = self.grow.value().unwrap_or(params.halt_poll_ns_grow);
        params.halt_poll_ns_grow_start =
            self.start.value().map_or(params.halt_poll_ns_grow_start, |start| Nanos(u64::from(start)));
        params.halt_poll_ns_shrink = self.shrink().unwrap_or(params.halt_poll_ns_shrink);
        params
    }
}

/// What a recording tells of its host's polling, besides decisions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PollHost {
    /// The settings of module kvm that were recorded; of the others, the defaults of architecture and kernel. A VM may have had
    /// others: a limit of its own, or the one of when it was made.
    pub params: Params,
    /// `halt_poll_ns` as it was recorded, if it was.
    pub told: Option<Nanos>,
    /// Who polls: vCPUs, or virtual cores.
    pub whose: Whose,
}

impl PollHost {
    /// Of the machine on which this was recorded.
    pub fn of(info: &TraceInfo) -> PollHost {
        let mut params = Params { halt_poll_ns: default_poll(&info.arch), ..Params::default() };
        let version = exitscope_model::version(&info.release);
        let shrink = HALT_POLL_NS_SHRINK_DEFAULTS.iter().find(|row| version.is_some_and(|version| version >= row.0));
        // A release that does not say (a simulated host) is as new ones are.
        params.halt_poll_ns_shrink = shrink.map_or(params.halt_poll_ns_shrink, |row| row.1);
        let told = |knob: &'static Knob| Some((knob.name, knob.parse(info.setting("kvm", knob.name)?).ok()?));
        for (name, value) in Params::KNOBS.iter().filter_map(told) {
            // A value that the policy does not take was not in force.
            let _ = params.set(name, value);
        }
        let told = info.setting("kvm", "halt_poll_ns").and(Some(params.halt_poll_ns));
        let whose = if info.arch.starts_with("ppc") { Whose::Vcore } else { Whose::Vcpu };
        PollHost { params, told, whose }
    }

    /// Whether virtual cores poll, as on powerpc, whose guests have no governor of their own that does.
    pub fn is_of_vcores(&self) -> bool {
        self.whose == Whose::Vcore
    }
}

/// What `halt_poll_ns` is unless it was set, on a machine that `uname -m` calls `arch`.
fn default_poll(arch: &str) -> Nanos {
    let kernel = match arch {
        "aarch64" => "arm64",
        "s390x" => "s390",
        _ if arch.starts_with("ppc") => "powerpc",
        _ if arch.starts_with("riscv") => "riscv",
        _ => "x86",
    };
    HALT_POLL_NS_DEFAULTS.iter().find(|row| row.0 == kernel).map_or(Nanos(0), |row| row.1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use exitscope_model::Setting;
    use exitscope_units::{Tid, VcpuId, VmId};

    fn seen(halts: &[(u64, bool, u32, u32)]) -> PollSettings {
        let who = Who { vm: VmId(1), vcpu: VcpuId(0), tid: Tid(2) };
        let mut settings = PollSettings::default();
        for &(length, grow, old, new) in halts {
            let told = Told { length: Nanos(length), waited: true, valid: true };
            settings.absorb(who, &told, Some(PollChange { grow, new, old }));
        }
        settings
    }

    fn x86(told: &[(&str, &str)]) -> PollHost {
        let settings = told.iter().map(|(name, value)| Setting::new("kvm", name, *value)).collect();
        PollHost::of(&TraceInfo { arch: "x86_64".to_string(), settings, ..TraceInfo::default() })
    }

    #[test]
    fn what_the_recording_tells_stands_until_decisions_speak_against_it() {
        let told = x86(&[("halt_poll_ns", "400000"), ("halt_poll_ns_shrink", "2"), ("halt_poll_ns_grow", "many")]);
        let silent = PollSettings::default().params(&told);
        assert_eq!((silent.halt_poll_ns, silent.halt_poll_ns_shrink), (Nanos(400_000), 2));
        assert_eq!(silent.halt_poll_ns_grow, Params::default().halt_poll_ns_grow, "not a number");
        let fitting = seen(&[(300_000, true, 160_000, 320_000)]);
        assert_eq!(fitting.params(&told).halt_poll_ns, Nanos(400_000));
        let of_its_own = seen(&[(300_000, true, 160_000, 320_000), (350_000, false, 320_000, 0)]);
        assert_eq!(of_its_own.params(&told).halt_poll_ns, Nanos(349_999), "the VM has a limit of its own");
    }

    #[test]
    fn the_divisor_that_nothing_tells_is_the_default_of_the_kernel() {
        // Linux, virt/kvm/kvm_main.c: halt_poll_ns_shrink = 2 since 6.11.
        for (release, shrink) in [
            ("6.1.0-56-cloud-amd64", 0),
            ("6.10.14", 0),
            ("6.11.0", 2),
            ("6.18.1", 2),
            ("5.15.0", 0),
            ("simulated", 2),
            ("", 2),
        ] {
            let info = TraceInfo { arch: "x86_64".to_string(), release: release.to_string(), ..TraceInfo::default() };
            let host = PollHost::of(&info);
            assert_eq!(host.params.halt_poll_ns_shrink, shrink, "{release}");
        }
    }

    #[test]
    fn settings_are_read_off_decisions() {
        let grown = [(15_000, true, 0, 20_000), (30_000, true, 20_000, 60_000), (170_000, true, 160_000, 480_000)];
        let settings = seen(&grown);
        assert_eq!(
            (settings.start, settings.grow, settings.bounds()),
            (Seen::One(20_000), Seen::One(3), (170_000, None))
        );
        assert_eq!(settings.params(&x86(&[])).halt_poll_ns, Nanos(200_000), "the default, which fits");
        let cut = seen(&[&grown[..], &[(900_000, false, 250_000, 62_500)]].concat());
        assert_eq!((cut.cut_to, cut.shrink()), (Seen::One(250_000), Some(4)));
        assert_eq!(cut.params(&x86(&[])).halt_poll_ns, Nanos(250_000));
    }

    #[test]
    fn a_default_that_does_not_fit_is_not_assumed() {
        let settings = seen(&[(350_000, true, 10_000, 20_000), (420_000, false, 20_000, 0)]);
        assert_eq!(settings.bounds(), (350_000, Some(420_000)));
        assert_eq!(settings.params(&x86(&[])).halt_poll_ns, Nanos(419_999));
    }

    #[test]
    fn a_reset_is_told_from_a_shrink_below_the_smallest_poll() {
        assert_eq!(seen(&[(900_000, false, 15_000, 0)]).shrink(), None, "half of it would be too little as well");
        assert_eq!(seen(&[(900_000, false, 80_000, 0)]).shrink(), Some(0));
        assert_eq!(seen(&[(900_000, false, 80_000, 40_000), (900_000, false, 15_000, 0)]).shrink(), Some(2));
    }
}
