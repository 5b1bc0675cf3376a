//! What KVM's traced decisions show of the settings of host halt polling that were in force.
//!
//! ```text
//! halt 171 us: poll 160000 ─► 320000 (grow)       grow 2, halt_poll_ns more than 171 us
//! halt 900 us: poll 200000 ─► 100000 (shrink)     cut from 320000 to 200000: halt_poll_ns; shrink 2
//! ```

use exitscope_model::{Architecture, PollChange, TraceInfo, VcpuIdentity, VcpuWakeup};
use exitscope_policy::Knob;
use exitscope_policy::host_halt_poll::{HALT_POLL_NS_SHRINK_DEFAULTS, Params, PollOwner};
use exitscope_units::Nanos;
use std::collections::{BTreeMap, BTreeSet};

/// A number that decisions showed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ObservedValue {
    /// Not yet.
    #[default]
    Never,
    /// Always this.
    One(u32),
    /// Not always the same: it was changed, or records were lost.
    Many,
}

impl ObservedValue {
    fn note(&mut self, value: u32) {
        *self = match *self {
            ObservedValue::Never => ObservedValue::One(value),
            ObservedValue::One(known) if known == value => ObservedValue::One(value),
            _ => ObservedValue::Many,
        };
    }

    fn merge(&mut self, other: ObservedValue) {
        match other {
            ObservedValue::Never => {}
            ObservedValue::One(value) => self.note(value),
            ObservedValue::Many => *self = ObservedValue::Many,
        }
    }

    /// The one value that was seen.
    pub fn value(self) -> Option<u32> {
        if let ObservedValue::One(value) = self { Some(value) } else { None }
    }
}

/// What was seen of one VM's settings.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PollSettings {
    /// Changes of polls that KVM traced.
    pub changes: u64,
    /// The factor by which polls grew.
    pub grow: ObservedValue,
    /// What polls of zero grew to.
    pub start: ObservedValue,
    /// The divisor by which they shrank.
    pub shrink: ObservedValue,
    /// The longest poll that shrank to zero.
    pub reset_from: u32,
    /// What polls that had grown beyond `halt_poll_ns` seem to have been cut to: that very setting. The longest two.
    cut_to: BTreeSet<u32>,
    /// `halt_poll_ns` is more than this: KVM grew a poll after a halt so long, or from a poll so long.
    pub more_than: u64,
    /// `halt_poll_ns` is less than this, because KVM shrank a poll after a halt so long.
    less_than: Option<u64>,
    /// The poll of each vCPU after its last change.
    last: BTreeMap<VcpuIdentity, u32>,
}

impl PollSettings {
    /// Takes note of how one halt ended.
    pub(crate) fn absorb(&mut self, who: VcpuIdentity, wakeup: &VcpuWakeup, change: Option<PollChange>) {
        let Some(PollChange { grow, new, old }) = change else { return };
        self.changes += 1;
        if self.last.insert(who, new).is_some_and(|last| last > old) {
            self.note_cuts([old]);
        }
        match (grow, old, new) {
            (true, 0, _) => self.start.note(new),
            (true, ..) if new % old == 0 => self.grow.note(new / old),
            (true, ..) => self.grow = ObservedValue::Many,
            (false, _, 0) => self.reset_from = self.reset_from.max(old),
            (false, ..) => self.shrink.note(old / new),
        }
        match grow {
            true => self.more_than = self.more_than.max(wakeup.length.0).max(u64::from(old)),
            false if wakeup.valid => self.less_than = Some(self.less_than.unwrap_or(u64::MAX).min(wakeup.length.0)),
            false => {}
        }
    }

    /// Takes note of what polls seem to have been cut to. Which of them can be is known at the end: here, the two longest are kept,
    /// as more than one that can be says as little as many.
    fn note_cuts(&mut self, cuts: impl IntoIterator<Item = u32>) {
        self.cut_to.extend(cuts);
        while self.cut_to.len() > 2 {
            self.cut_to.pop_first();
        }
    }

    /// The poll of a vCPU after its last change, in nanoseconds.
    pub(crate) fn poll_of(&self, who: VcpuIdentity) -> Option<u32> {
        self.last.get(&who).copied()
    }

    /// Adds what another recording showed.
    pub fn merge(&mut self, other: &PollSettings) {
        let PollSettings { changes, grow, start, shrink, reset_from, cut_to, more_than, less_than, last: _ } = other;
        self.changes += changes;
        self.grow.merge(*grow);
        self.start.merge(*start);
        self.shrink.merge(*shrink);
        self.reset_from = self.reset_from.max(*reset_from);
        self.more_than = self.more_than.max(*more_than);
        self.note_cuts(cut_to.iter().copied());
        self.less_than = [self.less_than, *less_than].into_iter().flatten().min();
    }

    /// Bounds of `halt_poll_ns`, in nanoseconds: more than the first, less than the second.
    pub fn bounds(&self) -> (u64, Option<u64>) {
        (self.more_than, self.less_than)
    }

    /// `halt_poll_ns`, if a poll that had grown beyond it was seen to be cut to it. One that is no longer than others which KVM still
    /// made longer (`kvm_vcpu_halt` of virt/kvm/kvm_main.c: only below `halt_poll_ns`) was not: the change between was lost.
    pub fn cut(&self) -> Option<Nanos> {
        let mut cuts = self.cut_to.iter().map(|cut| u64::from(*cut)).filter(|cut| *cut > self.more_than);
        cuts.next().filter(|_| cuts.next().is_none()).map(Nanos)
    }

    /// `halt_poll_ns`, if decisions leave little else: a poll was cut to it, or what the recording tells of the host, or else the kernel's
    /// default, lies between bounds of which the upper one is a quarter more than the lower one at most.
    pub fn shown(&self, host: &RecordedHaltPolling) -> Option<Nanos> {
        let (more, likely) = (self.more_than, host.params.halt_poll_ns);
        let is_near =
            |less: u64| less.saturating_sub(more).saturating_mul(4) <= more && (more + 1..less).contains(&likely.0);
        self.cut().or(self.less_than.filter(|less| is_near(*less)).map(|_| likely))
    }

    /// The divisor by which polls shrink, 0 for a reset, if it was seen.
    pub fn shrink(&self) -> Option<u32> {
        // Half of it would have been enough to go on polling.
        let reset =
            self.reset_from / 2 >= self.start.value().unwrap_or(Params::default().halt_poll_ns_grow_start.0 as u32);
        self.shrink.value().or((self.shrink == ObservedValue::Never && reset && self.reset_from > 0).then_some(0))
    }

    /// Settings under which KVM would have decided as it did; where it showed nothing, those that the recording tells of
    /// its host.
    pub fn params(&self, host: &RecordedHaltPolling) -> Params {
        let mut params = host.params;
        let fits = |poll: u64| poll > self.more_than && self.less_than.is_none_or(|less| poll < less);
        if let Some(cut) = self.cut() {
            params.halt_poll_ns = cut;
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
pub struct RecordedHaltPolling {
    /// The settings of module kvm that were recorded; of the others, the defaults of architecture and kernel. A VM may have had
    /// others: a limit of its own, or the one of when it was made.
    pub params: Params,
    /// `halt_poll_ns` as it was recorded, if it was.
    pub in_force: Option<Nanos>,
    /// Who polls: vCPUs, or virtual cores.
    pub whose: PollOwner,
}

impl RecordedHaltPolling {
    /// Of the machine on which this was recorded.
    pub fn of(info: &TraceInfo) -> RecordedHaltPolling {
        let architecture = Architecture::or_x86(&info.arch).row();
        let mut params = Params { halt_poll_ns: architecture.halt_poll_ns, ..Params::default() };
        let version = exitscope_model::version(&info.release);
        let shrink = HALT_POLL_NS_SHRINK_DEFAULTS.iter().find(|row| version.is_some_and(|version| version >= row.0));
        // A release that does not say (a simulated host) is as new ones are.
        params.halt_poll_ns_shrink = shrink.map_or(params.halt_poll_ns_shrink, |row| row.1);
        let in_force = |knob: &'static Knob| Some((knob.name, knob.parse(info.setting("kvm", knob.name)?).ok()?));
        for (name, value) in Params::KNOBS.iter().filter_map(in_force) {
            // A value that the policy does not take was not in force.
            let _ = params.set(name, value);
        }
        let in_force = info.setting("kvm", "halt_poll_ns").and(Some(params.halt_poll_ns));
        let whose = if architecture.vcores_poll { PollOwner::Vcore } else { PollOwner::Vcpu };
        RecordedHaltPolling { params, in_force, whose }
    }

    /// Whether virtual cores poll, as on powerpc, whose guests have no governor of their own that does.
    pub fn is_of_vcores(&self) -> bool {
        self.whose == PollOwner::Vcore
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use exitscope_model::HostSetting;
    use exitscope_units::{Tid, VcpuId, VmId};

    fn seen(halts: &[(u64, bool, u32, u32)]) -> PollSettings {
        let who = VcpuIdentity { vm: VmId(1), vcpu: VcpuId(0), tid: Tid(2) };
        let mut settings = PollSettings::default();
        for &(length, grow, old, new) in halts {
            let wakeup = VcpuWakeup { length: Nanos(length), waited: true, valid: true, may_poll: true };
            settings.absorb(who, &wakeup, Some(PollChange { grow, new, old }));
        }
        settings
    }

    fn x86(in_force: &[(&str, &str)]) -> RecordedHaltPolling {
        let settings = in_force.iter().map(|(name, value)| HostSetting::new("kvm", name, *value)).collect();
        RecordedHaltPolling::of(&TraceInfo { arch: "x86_64".to_string(), settings, ..TraceInfo::default() })
    }

    #[test]
    fn what_the_recording_tells_stands_until_decisions_speak_against_it() {
        let in_force = x86(&[("halt_poll_ns", "400000"), ("halt_poll_ns_shrink", "2"), ("halt_poll_ns_grow", "many")]);
        let silent = PollSettings::default().params(&in_force);
        assert_eq!((silent.halt_poll_ns, silent.halt_poll_ns_shrink), (Nanos(400_000), 2));
        assert_eq!(silent.halt_poll_ns_grow, Params::default().halt_poll_ns_grow, "not a number");
        let fitting = seen(&[(300_000, true, 160_000, 320_000)]);
        assert_eq!(fitting.params(&in_force).halt_poll_ns, Nanos(400_000));
        let of_its_own = seen(&[(300_000, true, 160_000, 320_000), (350_000, false, 320_000, 0)]);
        assert_eq!(of_its_own.params(&in_force).halt_poll_ns, Nanos(349_999), "the VM has a limit of its own");
        assert_eq!(of_its_own.shown(&in_force), None);
        assert_eq!(fitting.shown(&in_force), None, "nothing says that it was no longer");
        let grows = (180_001, true, 80_000, 160_000);
        let narrow = |less| seen(&[grows, (less, false, 160_000, 0)]).shown(&x86(&[]));
        assert_eq!([narrow(225_001), narrow(225_003), narrow(199_000)], [Some(Nanos(200_000)), None, None]);
    }

    #[test]
    fn each_architecture_has_the_limit_of_its_kernel() {
        for (arch, ns) in [
            ("x86_64", 200_000),
            ("aarch64", 500_000),
            ("s390x", 50_000),
            ("ppc64le", 10_000),
            ("riscv64", 500_000),
            ("loongarch64", 500_000),
            ("", 200_000),
        ] {
            let info = TraceInfo { arch: arch.to_string(), ..TraceInfo::default() };
            assert_eq!(RecordedHaltPolling::of(&info).params.halt_poll_ns, Nanos(ns), "{arch}");
        }
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
            let host = RecordedHaltPolling::of(&info);
            assert_eq!(host.params.halt_poll_ns_shrink, shrink, "{release}");
        }
    }

    #[test]
    fn settings_are_read_off_decisions() {
        let grown = [(15_000, true, 0, 20_000), (30_000, true, 20_000, 60_000), (170_000, true, 160_000, 480_000)];
        let settings = seen(&grown);
        assert_eq!(
            (settings.start, settings.grow, settings.bounds()),
            (ObservedValue::One(20_000), ObservedValue::One(3), (170_000, None))
        );
        assert_eq!(settings.params(&x86(&[])).halt_poll_ns, Nanos(200_000), "the default, which fits");
        let cut = seen(&[&grown[..], &[(900_000, false, 250_000, 62_500)]].concat());
        assert_eq!((cut.cut(), cut.shrink()), (Some(Nanos(250_000)), Some(4)));
        assert_eq!(cut.params(&x86(&[])).halt_poll_ns, Nanos(250_000));
        // It seems to be cut to nothing where the change between was lost.
        let lost = seen(&[&grown[..], &[(15_000, true, 0, 20_000)]].concat());
        assert_eq!((lost.cut(), lost.params(&x86(&[])).halt_poll_ns), (None, Nanos(200_000)));
        // That hides no true one, whichever came first, and in whichever recording.
        let (change_lost, too_long) = ((15_000, true, 0, 20_000), (900_000, false, 250_000, 62_500));
        let regrown = [&grown[..], &[change_lost], &grown[1..], &[too_long]].concat();
        assert_eq!(seen(&regrown).cut(), Some(Nanos(250_000)));
        let (early, late) = (seen(&[(9_000, true, 0, 10_000), (9_500, true, 0, 10_000)]), seen(&regrown));
        assert_eq!(early.cut(), None, "a halt as long was followed by a longer poll");
        for (mut one, other) in [(early.clone(), &late), (late.clone(), &early)] {
            one.merge(other);
            assert_eq!(one.cut(), Some(Nanos(250_000)));
        }
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

    /// The longest poll that is taken to have been in force where decisions show these bounds.
    fn longest(halts: &[(u64, bool, u32, u32)]) -> u64 {
        seen(halts).params(&x86(&[])).halt_poll_ns.0
    }

    #[test]
    fn what_is_told_fits_between_the_bounds_that_decisions_show() {
        // The default is 200 us.
        for (what, halts, longest_poll) in [
            ("nothing was changed", &[][..], 200_000),
            ("grown after a halt just shorter", &[(199_999, true, 10_000, 20_000)][..], 200_000),
            ("grown after a halt as long", &[(200_000, true, 10_000, 20_000)], u64::from(u32::MAX)),
            ("grown from a poll as long", &[(9_000, true, 200_000, 400_000)], u64::from(u32::MAX)),
            ("shrunk after a halt just longer", &[(200_001, false, 20_000, 10_000)], 200_000),
            ("shrunk after a halt as long", &[(200_000, false, 20_000, 10_000)], 199_999),
            ("the shortest of both", &[(150_000, false, 20_000, 10_000), (170_000, false, 20_000, 10_000)], 149_999),
            (
                "the longest of both",
                &[(300_000, true, 20, 40), (250_000, true, 40, 80), (310_000, false, 80, 40)],
                309_999,
            ),
            ("bounds that contradict one another", &[(500_000, true, 20, 40), (300_000, false, 40, 20)], 500_000),
            ("beyond what a setting can be", &[(1 << 40, false, 40, 20), (300_000, true, 20, 40)], u64::from(u32::MAX)),
        ] {
            assert_eq!(longest(halts), longest_poll, "{what}");
        }
        // Who does not poll at all fits unless a decision shows that he does.
        let off = x86(&[("halt_poll_ns", "0")]);
        assert_eq!(PollSettings::default().params(&off).halt_poll_ns, Nanos(0));
        assert_eq!(seen(&[(900, false, 40, 20)]).params(&off).halt_poll_ns, Nanos(899));
    }

    #[test]
    fn a_wake_up_that_nothing_came_of_shrinks_polls_of_any_length() {
        let who = VcpuIdentity { vm: VmId(1), vcpu: VcpuId(0), tid: Tid(2) };
        let mut settings = PollSettings::default();
        let wakeup = VcpuWakeup { length: Nanos(700), waited: true, valid: false, may_poll: true };
        settings.absorb(who, &wakeup, Some(PollChange { grow: false, new: 40_000, old: 80_000 }));
        assert_eq!((settings.bounds(), settings.shrink, settings.changes), ((0, None), ObservedValue::One(2), 1));
        assert_eq!(settings.poll_of(who), Some(40_000));
        settings.absorb(who, &wakeup, None);
        assert_eq!((settings.changes, settings.poll_of(VcpuIdentity { vcpu: VcpuId(1), ..who })), (1, None));
    }

    #[test]
    fn a_factor_is_seen_once_never_or_as_many() {
        let grown = |old, new| (9_000, true, old, new);
        let shrunk = |old, new| (900_000, false, old, new);
        assert_eq!(seen(&[]).grow, ObservedValue::Never);
        assert_eq!(seen(&[grown(20_000, 60_000), grown(60_000, 180_000)]).grow, ObservedValue::One(3));
        assert_eq!(
            seen(&[grown(20_000, 60_000), grown(60_000, 120_000), grown(20_000, 60_000)]).grow,
            ObservedValue::Many
        );
        assert_eq!(seen(&[grown(20_000, 50_000)]).grow, ObservedValue::Many, "no factor");
        assert_eq!(seen(&[grown(0, 10_000), grown(0, 20_000)]).start, ObservedValue::Many);
        assert_eq!(seen(&[shrunk(70_000, 10_000)]).shrink, ObservedValue::One(7));
        assert_eq!(
            [ObservedValue::Never, ObservedValue::One(7), ObservedValue::Many].map(ObservedValue::value),
            [None, Some(7), None]
        );
        // A poll is cut to the longest if it was longer after the change before.
        assert_eq!(seen(&[grown(20_000, 60_000), grown(60_000, 180_000)]).cut(), None);
        assert_eq!(seen(&[grown(20_000, 60_000), grown(60_001, 180_003)]).cut(), None);
        assert_eq!(seen(&[grown(20_000, 60_000), shrunk(59_999, 0)]).cut(), Some(Nanos(59_999)));
        assert_eq!(seen(&[grown(20_000, 60_000), grown(59_999, 119_998)]).cut(), None, "KVM grows none so long");
    }

    #[test]
    fn a_reset_needs_a_poll_of_which_half_is_a_poll_still() {
        let reset = |old| (900_000, false, old, 0);
        let start = |new| (9_000, true, 0, new);
        for (what, halts, shrink) in [
            ("half of it is the smallest by default", &[reset(20_000)][..], Some(0)),
            ("half of it is too little", &[reset(19_999)][..], None),
            ("half of it is the smallest that was seen", &[start(7_000), reset(14_000)], Some(0)),
            ("half of it is less than the smallest that was seen", &[start(7_000), reset(13_998)], None),
            ("the longest of those that were reset counts", &[reset(30_000), reset(400)], Some(0)),
            ("another was divided", &[reset(30_000), (900_000, false, 30_000, 10_000)], Some(3)),
            (
                "others were divided by several",
                &[reset(30_000), (900_000, false, 30_000, 10_000), (900_000, false, 30_000, 15_000)],
                None,
            ),
            ("none was reset, and the smallest is nothing", &[start(0)], None),
        ] {
            assert_eq!(seen(halts).shrink(), shrink, "{what}");
        }
    }

    #[test]
    fn what_two_recordings_show_is_what_one_of_both_would_have() {
        let first = [(30_000, true, 0, 20_000), (170_000, true, 160_000, 480_000), (900_000, false, 470_000, 0)];
        let second = [(50_000, true, 0, 20_000), (25_000, true, 20_000, 60_000), (800_000, false, 90_000, 30_000)];
        for (left, right) in [(&first[..], &second[..]), (&second[..], &first[..])] {
            let mut both = seen(left);
            both.merge(&seen(right));
            assert_eq!((both.changes, both.grow, both.start), (6, ObservedValue::One(3), ObservedValue::One(20_000)));
            assert_eq!(
                (both.shrink, both.cut(), both.reset_from),
                (ObservedValue::One(3), Some(Nanos(470_000)), 470_000)
            );
            assert_eq!(both.bounds(), (170_000, Some(800_000)));
            both.merge(&PollSettings::default());
            assert_eq!((both.changes, both.bounds()), (6, (170_000, Some(800_000))), "nothing adds nothing");
        }
        let mut many = seen(&[(9_000, true, 20_000, 60_000)]);
        many.merge(&seen(&[(9_000, true, 20_000, 40_000)]));
        many.merge(&seen(&[(9_000, true, 20_000, 40_000)]));
        assert_eq!(many.grow, ObservedValue::Many);
        let mut of_many = seen(&[(9_000, true, 20_000, 40_000)]);
        of_many.merge(&many);
        assert_eq!(of_many.grow, ObservedValue::Many);
    }

    /// arch/*/include/asm/kvm_host.h, KVM_HALT_POLL_NS_DEFAULT.
    #[test]
    fn hosts_poll_as_long_as_their_architecture_does_by_default() {
        for (arch, poll, is_of_vcores) in [
            ("x86_64", 200_000, false),
            ("aarch64", 500_000, false),
            ("riscv64", 500_000, false),
            ("s390x", 50_000, false),
            ("ppc64le", 10_000, true),
            ("ppc64", 10_000, true),
        ] {
            let host = RecordedHaltPolling::of(&TraceInfo { arch: arch.to_string(), ..TraceInfo::default() });
            assert_eq!(
                (host.params.halt_poll_ns.0, host.is_of_vcores(), host.in_force),
                (poll, is_of_vcores, None),
                "{arch}"
            );
        }
        let in_force =
            x86(&[("halt_poll_ns", "70000"), ("halt_poll_ns_grow", "5"), ("halt_poll_ns_grow_start", "3000")]);
        assert_eq!((in_force.in_force, in_force.params.halt_poll_ns_grow), (Some(Nanos(70_000)), 5));
        // What decisions show stands above it, one by one.
        let params = seen(&[(9_000, true, 0, 4_000), (9_000, true, 4_000, 12_000)]).params(&in_force);
        assert_eq!((params.halt_poll_ns_grow, params.halt_poll_ns_grow_start), (3, Nanos(4_000)));
        assert_eq!((params.halt_poll_ns, params.halt_poll_ns_shrink), (Nanos(70_000), 2));
    }
}
