//! Gangs: the hardware threads of a powerpc core share one MMU context, so a virtual core's threads enter the guest
//! together, and when one has to leave, all must.
//!
//! ```text
//!            enter, as long as nobody leaves           exit(trap): the first to leave interrupts
//!   outside ─────────────────────────────────► in the ───────────────────────────────────────► leaving
//!    ▲  ▲                                      guest ◄─┐    all other entered threads             │
//!    │  └── enter: too late, somebody leaves     │     │ wake                                     │
//!    │                                     cede ▼     │                                           │
//!    │                                       napping ──┘ (still entered: interrupted as well)     │
//!    └────────────── finish, once all have left: the runner goes on ◄─────────────────────────────┘
//! ```
//!
//! A thread that leaves for the hypervisor decrementer interrupts nobody: all threads share that deadline. A core that
//! is split for one run only (dynamic micro-threading) pulls its other subcores' guests out, too; a core split for good
//! does not. On POWER9 and later every vCPU runs by itself and nobody is ganged out.
//!
//! Sources: Linux arch/powerpc/kvm/book3s_hv_builtin.c (kvmhv_commence_exit), book3s_hv.c (kvmppc_run_core,
//! subcore_config_ok), book3s_hv_rmhandlers.S (H_CEDE); the gang-exits script posted to linuxppc-dev in May 2015.

use crate::knob::{KnobLocation, KnobMachines, KnobUnit, params};
use exitscope_units::VcpuId;

params! {
    /// The topology of cores and virtual cores.
    threads_per_core: u32, KnobUnit::Count, 8, 1 => 8, KnobLocation::Machine, KnobMachines::Of("powerpc"),
        "Hardware threads of a core";
    subcores_per_core: u32, KnobUnit::Count, 1, 1 => 4, KnobLocation::File("/sys/devices/system/cpu/subcores_per_core"), KnobMachines::Of("powerpc"),
        "Into how many subcores each core is split for good: 1, 2 or 4";
    smt_mode: u32, KnobUnit::Count, 1, 1 => 8, KnobLocation::Ioctl("KVM_CAP_PPC_SMT"), KnobMachines::Of("powerpc"),
        "Consecutive vCPUs that form a virtual core: 1, 2, 4 or 8";
    dynamic_mt_modes: u32, KnobUnit::Count, 6, 0 => 6, KnobLocation::Module("kvm_hv"), KnobMachines::Of("powerpc"),
        "Into how many subcores a core may be split for one run: 0 none, 2, 4, or 6 for either";
    one_vm_per_core: bool, KnobUnit::Bool, 0, 0 => 1, KnobLocation::Module("kvm_hv"), KnobMachines::Of("powerpc"),
        "Only virtual cores of the same VM may share a core for one run";
}

/// The most threads a core has.
pub const MAX_THREADS: usize = 8;
/// The most subcores a core is split into.
pub const MAX_SUBCORES: usize = 4;
/// The trap number of the hypervisor decrementer.
pub const HV_DECREMENTER: u16 = 0x980;
/// The trap number of a thread that was interrupted by a sibling on POWER8: a hypervisor doorbell.
pub const H_DOORBELL: u16 = 0xe80;
/// The same on POWER7: an external interrupt.
pub const EXTERNAL: u16 = 0x500;

impl Params {
    /// Threads of a subcore; what a virtual core may use.
    pub fn threads_per_subcore(&self) -> u32 {
        self.threads_per_core / self.subcores_per_core.max(1)
    }

    /// Whether numbers of threads and subcores are such as the hardware has, and a virtual core fits into a subcore. If
    /// it does not, KVM_RUN fails with EBUSY.
    pub fn fits(&self) -> bool {
        let powers = [self.threads_per_core, self.subcores_per_core, self.smt_mode];
        powers.iter().all(|n| n.is_power_of_two()) && self.smt_mode <= self.threads_per_subcore()
    }

    /// The virtual core that a vCPU belongs to.
    pub fn vcore_of(&self, vcpu: VcpuId) -> u32 {
        vcpu.0 / self.smt_mode.max(1)
    }

    /// The hardware thread of its (sub)core that a vCPU runs on.
    pub fn thread_of(&self, vcpu: VcpuId) -> u32 {
        vcpu.0 % self.smt_mode.max(1)
    }

    /// Whether a core may be split for one run into `subcores`, the largest of whose virtual cores has `threads`
    /// threads (subcore_config_ok). With `dynamic_mt_modes` 4, two subcores take the room of four.
    pub fn splits_for_one_run(&self, subcores: u32, threads: u32) -> bool {
        let two_ways = self.dynamic_mt_modes & 2 != 0;
        let ways = if subcores == 2 && !two_ways { 4 } else { subcores };
        let allowed = match ways {
            1 => true,
            2 => two_ways,
            3 | 4 => self.dynamic_mt_modes & 4 != 0,
            _ => false,
        };
        // A core that is split for good already cannot be split further.
        let splits = subcores == 1 || self.threads_per_subcore() == MAX_THREADS as u32;
        let most = MAX_THREADS as u32;
        splits && allowed && threads <= most && ways * threads.next_power_of_two() <= most
    }
}

/// Some threads of a core: bit n is thread n.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ThreadMask(pub u8);

impl ThreadMask {
    /// No thread.
    pub const NONE: ThreadMask = ThreadMask(0);

    /// One thread. None, if a core has no such thread.
    pub const fn one(thread: u32) -> ThreadMask {
        if thread < MAX_THREADS as u32 { ThreadMask(1 << thread) } else { ThreadMask::NONE }
    }

    /// Whether all of `other` are among these.
    pub const fn contain(self, other: ThreadMask) -> bool {
        self.0 & other.0 == other.0
    }

    /// These and those.
    pub const fn and(self, other: ThreadMask) -> ThreadMask {
        ThreadMask(self.0 | other.0)
    }

    /// These without those.
    pub const fn without(self, other: ThreadMask) -> ThreadMask {
        ThreadMask(self.0 & !other.0)
    }

    /// Number of threads in the set.
    pub const fn count(self) -> u32 {
        self.0.count_ones()
    }
}

/// Whether a thread got into the guest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Enter {
    /// It runs in the guest.
    Entered,
    /// Others are leaving already: it stays out, with trap 0.
    TooLate,
}

/// What became of an H_CEDE.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cede {
    /// The thread naps, inside the guest's context.
    Naps,
    /// All others nap already: it leaves the guest ([`Vcore::exit`]) and takes the rest along.
    Leaves,
    /// Somebody leaves already: it does not nap, and will be out presently.
    TooLate,
}

/// The state of one virtual core during a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Vcore {
    entered: ThreadMask,
    left: ThreadMask,
    napping: ThreadMask,
    asked_to_leave: bool,
    first: Option<u8>,
}

impl Vcore {
    /// A virtual core with all threads outside the guest.
    pub const fn new() -> Vcore {
        let none = ThreadMask::NONE;
        Vcore { entered: none, left: none, napping: none, asked_to_leave: false, first: None }
    }

    /// A thread is about to enter the guest.
    pub fn enter(&mut self, thread: u32) -> Enter {
        if self.leaves() {
            return Enter::TooLate;
        }
        self.entered = self.entered.and(ThreadMask::one(thread));
        Enter::Entered
    }

    /// A thread leaves the guest for `trap`. The threads it has to interrupt: all others that entered if it is the
    /// first, none if it is not, or if the trap comes to all of them anyway.
    pub fn exit(&mut self, thread: u32, trap: u16) -> ThreadMask {
        let (me, is_first) = (ThreadMask::one(thread), !self.leaves());
        self.left = self.left.and(me);
        self.napping = self.napping.without(me);
        if !is_first {
            return ThreadMask::NONE;
        }
        self.first = Some(thread as u8);
        if trap == HV_DECREMENTER { ThreadMask::NONE } else { self.entered.without(me) }
    }

    /// A subcore of a core that is split for one run is told to leave because another subcore does. The threads to be
    /// interrupted.
    pub fn ask_to_leave(&mut self) -> ThreadMask {
        if self.leaves() {
            return ThreadMask::NONE;
        }
        self.asked_to_leave = true;
        self.entered
    }

    /// A thread has nothing to do: H_CEDE with nothing pending.
    pub fn cede(&mut self, thread: u32) -> Cede {
        let napping = self.napping.and(ThreadMask::one(thread));
        if napping == self.entered {
            return Cede::Leaves;
        }
        if self.leaves() {
            return Cede::TooLate;
        }
        self.napping = napping;
        Cede::Naps
    }

    /// A napping thread is prodded or has an interrupt: it goes on in the guest.
    pub fn wake(&mut self, thread: u32) {
        self.napping = self.napping.without(ThreadMask::one(thread));
    }

    /// Threads in the guest's context, awake or napping, that have not left.
    pub const fn inside(&self) -> ThreadMask {
        self.entered.without(self.left)
    }

    /// Threads that do the guest's work now.
    pub const fn working(&self) -> ThreadMask {
        self.inside().without(self.napping)
    }

    /// Whether somebody leaves or must leave, so that nobody can enter.
    pub const fn leaves(&self) -> bool {
        self.left.0 != 0 || self.asked_to_leave
    }

    /// The thread that began the leaving.
    pub fn first(&self) -> Option<u32> {
        self.first.map(u32::from)
    }

    /// Ends the run if every thread that entered has left: only then may the runner go on, and the virtual core enter
    /// again. `false`: some are still inside.
    #[must_use]
    pub fn finish(&mut self) -> bool {
        let out = self.inside() == ThreadMask::NONE;
        if out {
            *self = Vcore::new();
        }
        out
    }
}

/// A core that runs several virtual cores at once, in subcores.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SplitCore {
    /// The virtual core of each subcore; those beyond the split stay empty.
    pub subcores: [Vcore; MAX_SUBCORES],
    /// Split for one run only: the subcores leave together.
    pub for_one_run: bool,
}

impl SplitCore {
    /// A thread of a subcore leaves the guest. Whom it has to interrupt, in each subcore.
    pub fn exit(&mut self, subcore: usize, thread: u32, trap: u16) -> [ThreadMask; MAX_SUBCORES] {
        let mut interrupted = [ThreadMask::NONE; MAX_SUBCORES];
        let Some(vcore) = self.subcores.get_mut(subcore) else { return interrupted };
        let is_first = !vcore.leaves();
        interrupted[subcore] = vcore.exit(thread, trap);
        if is_first && self.for_one_run {
            for (at, vcore) in self.subcores.iter_mut().enumerate().filter(|(at, _)| *at != subcore) {
                interrupted[at] = vcore.ask_to_leave();
            }
        }
        interrupted
    }
}

/// How one thread left in one run: what the tracepoint `kvm_hv:kvm_guest_exit` says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ThreadExit {
    /// Why; 0 if it never got into the guest, or out of a nap.
    pub trap: u16,
    /// It had ceded: it did no work that could be interrupted.
    pub ceded: bool,
}

/// What a run was, by the rule that looks at every thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CoreRunClass {
    /// At most one thread worked: nobody was forced out.
    Alone,
    /// Several worked, and the hypervisor decrementer ended it for all.
    Timer,
    /// A ganged exit: several worked, and one's exit took the others along.
    Ganged {
        /// Threads that worked and left because of another: they have the trap of an interrupt by a sibling.
        forced: u32,
        /// Threads that worked and had a reason of their own.
        own: u32,
    },
}

/// The rule of the gang-exits script: a run counts if, of the vCPUs runnable at its end, more than one had not ceded
/// since its beginning. vCPUs that need user space are off that number already, so that a run of two threads one of
/// which does is missed.
pub const fn script_counts(runnable_at_exit: u32, ceded: u32) -> bool {
    runnable_at_exit.saturating_sub(ceded) > 1
}

/// The rule that looks at how every thread left. `kick` is the trap of an interrupted thread, [`H_DOORBELL`] or
/// [`EXTERNAL`]. One run counts at most once, however many were forced out.
pub fn gang(threads: impl IntoIterator<Item = ThreadExit>, kick: u16) -> CoreRunClass {
    let (mut forced, mut own, mut timer) = (0, 0, 0);
    for ThreadExit { trap, .. } in threads.into_iter().filter(|left| !left.ceded && left.trap != 0) {
        match trap {
            _ if trap == kick => forced += 1,
            HV_DECREMENTER => timer += 1,
            _ => own += 1,
        }
    }
    match forced + own + timer {
        0 | 1 => CoreRunClass::Alone,
        working if working == timer => CoreRunClass::Timer,
        _ => CoreRunClass::Ganged { forced, own: own + timer },
    }
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use proptest::prelude::*;
    use std::vec::Vec;

    const SYSCALL: u16 = 0xc00;

    fn running(threads: u32) -> Vcore {
        let mut vcore = Vcore::new();
        (0..threads).for_each(|thread| assert_eq!(vcore.enter(thread), Enter::Entered));
        vcore
    }

    #[test]
    fn the_first_to_leave_interrupts_all_others_and_only_the_first() {
        let mut vcore = running(4);
        assert_eq!(vcore.exit(2, EXTERNAL), ThreadMask(0b1011));
        assert_eq!(vcore.enter(5), Enter::TooLate);
        assert!(!vcore.finish());
        for thread in [0, 1, 3] {
            assert_eq!(vcore.exit(thread, H_DOORBELL), ThreadMask::NONE);
        }
        assert_eq!((vcore.first(), vcore.finish()), (Some(2), true));
        assert_eq!(vcore.enter(5), Enter::Entered);
    }

    #[test]
    fn the_hypervisor_decrementer_interrupts_nobody() {
        let mut vcore = running(4);
        assert_eq!(vcore.exit(0, HV_DECREMENTER), ThreadMask::NONE);
        assert_eq!(vcore.exit(1, SYSCALL), ThreadMask::NONE);
    }

    #[test]
    fn a_late_thread_joins_a_run_that_nobody_leaves_yet() {
        let mut vcore = running(2);
        assert_eq!(vcore.enter(6), Enter::Entered);
        assert_eq!(vcore.exit(6, SYSCALL), ThreadMask(0b11));
    }

    #[test]
    fn ceded_threads_nap_until_the_last_one_takes_them_all_out() {
        let mut vcore = running(3);
        assert_eq!(vcore.cede(0), Cede::Naps);
        assert_eq!(vcore.cede(2), Cede::Naps);
        assert_eq!(vcore.working(), ThreadMask(0b010));
        vcore.wake(2);
        assert_eq!(vcore.cede(1), Cede::Naps);
        assert_eq!(vcore.cede(2), Cede::Leaves);
        // Napping threads are entered ones: they are interrupted as well.
        assert_eq!(vcore.exit(2, SYSCALL), ThreadMask(0b011));
        assert_eq!(vcore.cede(1), Cede::TooLate);
    }

    #[test]
    fn subcores_leave_together_only_if_split_for_one_run() {
        let core =
            |for_one_run| SplitCore { subcores: [running(2), running(2), Vcore::new(), Vcore::new()], for_one_run };
        let none = ThreadMask::NONE;
        assert_eq!(core(false).exit(0, 1, SYSCALL), [ThreadMask(0b01), none, none, none]);
        let mut split = core(true);
        assert_eq!(split.exit(0, 1, SYSCALL), [ThreadMask(0b01), ThreadMask(0b11), none, none]);
        assert_eq!(split.subcores[1].enter(3), Enter::TooLate);
        // One that is pulled out pulls nobody out.
        assert_eq!(split.exit(1, 0, H_DOORBELL), [none; MAX_SUBCORES]);
        // The other subcores do not share the deadline.
        assert_eq!(core(true).exit(0, 1, HV_DECREMENTER), [none, ThreadMask(0b11), none, none]);
    }

    #[test]
    fn threads_are_a_set() {
        let (some, others) = (ThreadMask(0b0111), ThreadMask(0b0110_0010));
        assert_eq!((some.and(others), some.without(others)), (ThreadMask(0b0110_0111), ThreadMask(0b0101)));
        assert_eq!([ThreadMask::NONE, some, some.and(others)].map(ThreadMask::count), [0, 3, 5]);
        assert!(some.contain(ThreadMask(0b0011)) && !some.contain(others));
    }

    #[test]
    fn a_core_has_no_ninth_thread() {
        assert_eq!([7, 8, 255].map(ThreadMask::one), [ThreadMask(0b1000_0000), ThreadMask::NONE, ThreadMask::NONE]);
    }

    #[test]
    fn vcpus_map_to_virtual_cores_and_those_fit_into_subcores() {
        let params = |subcores_per_core, smt_mode| Params { subcores_per_core, smt_mode, ..Params::default() };
        for (subcores, smt, fits) in
            [(1, 8, true), (2, 4, true), (4, 2, true), (4, 4, false), (2, 8, false), (1, 3, false), (1, 1, true)]
        {
            assert_eq!(params(subcores, smt).fits(), fits, "{subcores} subcores, smt mode {smt}");
        }
        let smt4 = params(1, 4);
        for (vcpu, vcore, thread) in [(0, 0, 0), (3, 0, 3), (6, 1, 2), (9, 2, 1)] {
            assert_eq!((smt4.vcore_of(VcpuId(vcpu)), smt4.thread_of(VcpuId(vcpu))), (vcore, thread), "vCPU {vcpu}");
        }
    }

    #[test]
    fn a_core_is_split_for_one_run_as_far_as_its_threads_and_the_modes_allow() {
        for (modes, subcores, threads, splits) in [
            (6, 2, 4, true),
            (6, 2, 5, false),
            (6, 4, 2, true),
            (6, 3, 2, true),
            (6, 3, 3, false),
            (6, 5, 1, false),
            (2, 3, 1, false),
            (4, 2, 2, true),
            (4, 2, 4, false),
            (0, 2, 1, false),
            (0, 1, 8, true),
        ] {
            let params = Params { dynamic_mt_modes: modes, ..Params::default() };
            assert_eq!(params.splits_for_one_run(subcores, threads), splits, "modes {modes}: {subcores} of {threads}");
        }
        let split_for_good = Params { subcores_per_core: 2, ..Params::default() };
        assert!(!split_for_good.splits_for_one_run(2, 1) && split_for_good.splits_for_one_run(1, 4));
    }

    #[test]
    fn a_run_counts_once_and_never_with_a_single_active_thread() {
        let left = |trap, ceded| ThreadExit { trap, ceded };
        let (own, kicked, napping) = (left(SYSCALL, false), left(H_DOORBELL, false), left(H_DOORBELL, true));
        let (timer, late) = (left(HV_DECREMENTER, false), left(0, false));
        for (threads, expected) in [
            (&[own][..], CoreRunClass::Alone),
            (&[own, napping, napping], CoreRunClass::Alone),
            (&[own, late], CoreRunClass::Alone),
            (&[own, kicked, kicked, napping], CoreRunClass::Ganged { forced: 2, own: 1 }),
            (&[own, own], CoreRunClass::Ganged { forced: 0, own: 2 }),
            (&[timer, timer, napping], CoreRunClass::Timer),
            (&[timer, kicked], CoreRunClass::Ganged { forced: 1, own: 1 }),
            (&[], CoreRunClass::Alone),
        ] {
            assert_eq!(gang(threads.iter().copied(), H_DOORBELL), expected, "{threads:?}");
        }
        assert_eq!(gang([own, left(EXTERNAL, false)], EXTERNAL), CoreRunClass::Ganged { forced: 1, own: 1 });
    }

    #[test]
    fn the_scripts_rule_misses_a_run_of_two_if_one_needs_user_space() {
        assert!(script_counts(4, 2) && script_counts(2, 0));
        assert!(!script_counts(2, 1) && !script_counts(1, 0) && !script_counts(1, 3));
    }

    #[derive(Clone, Copy, Debug)]
    enum Act {
        Enter(u32),
        Exit(u32, u16),
        Cede(u32),
        Wake(u32),
    }

    fn any_act() -> impl Strategy<Value = Act> {
        (0u32..8, 0u32..5, prop_oneof![Just(SYSCALL), Just(HV_DECREMENTER), Just(H_DOORBELL)]).prop_map(
            |(thread, act, trap)| match act {
                0 | 1 => Act::Enter(thread),
                2 => Act::Exit(thread, trap),
                3 => Act::Cede(thread),
                _ => Act::Wake(thread),
            },
        )
    }

    proptest! {
        #[test]
        fn at_most_one_thread_of_a_run_interrupts_and_only_threads_inside(acts in prop::collection::vec(any_act(), 1..200)) {
            let (mut vcore, mut interrupters) = (Vcore::new(), 0);
            for act in acts {
                let (before, inside) = (vcore, vcore.inside());
                let has = |thread| inside.contain(ThreadMask::one(thread));
                match act {
                    Act::Enter(thread) if !before.entered.contain(ThreadMask::one(thread)) => {
                        prop_assert_eq!(vcore.enter(thread) == Enter::TooLate, before.leaves());
                    }
                    Act::Exit(thread, trap) if has(thread) => {
                        let interrupted = vcore.exit(thread, trap);
                        interrupters += u32::from(interrupted != ThreadMask::NONE);
                        prop_assert!(inside.without(ThreadMask::one(thread)).contain(interrupted));
                    }
                    Act::Cede(thread) if before.working().contain(ThreadMask::one(thread)) => {
                        vcore.cede(thread);
                    }
                    Act::Wake(thread) => vcore.wake(thread),
                    _ => {}
                }
                prop_assert!(interrupters <= 1);
                prop_assert!(vcore.entered.contain(vcore.left) && vcore.inside().contain(vcore.napping));
                if vcore.leaves() && vcore.finish() {
                    prop_assert_eq!(vcore, Vcore::new());
                    interrupters = 0;
                }
            }
        }

        #[test]
        fn one_thread_alone_is_never_ganged(trap: u16, others in prop::collection::vec(any::<u16>(), 0..7)) {
            let napping: Vec<_> = others.into_iter().map(|trap| ThreadExit { trap, ceded: true }).collect();
            let threads = napping.iter().copied().chain([ThreadExit { trap, ceded: false }]);
            prop_assert_eq!(gang(threads, H_DOORBELL), CoreRunClass::Alone);
            prop_assert!(!script_counts(napping.len() as u32 + 1, napping.len() as u32));
        }
    }
}
