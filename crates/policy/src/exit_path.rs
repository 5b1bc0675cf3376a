//! The phases of a VM exit, from the hardware's exit to the next entry: which are there, which are skipped, and which
//! ways around them there are. What a phase costs is not said here.
//!
//! ```text
//!   Exit ─► (SaveFpu) ─► HandleFast ─────────────────────────────────────────────────────────────────────────► Entry
//!                  └───► Handle ─► timer? ─► signal? ─► requests? ─► (LoadFpu) ─────────────────────────────► Entry
//!                           │                  └─ yes ──┐
//!                           └─ needs user space ────────┤
//!                                                       ▼
//!      SaveFpu ─► (CopyOut) ─► LeaveKernel ─► UserLoop ─► lock ─► (GetRegisters) ─► Device ─► (SetRegisters) ─► unlock
//!                                                                                                              │
//!      Entry ◄── requests? ◄── CompleteIo ◄── (CopyIn) ◄── LoadFpu ◄── EnterKernel ◄──────────────────────────┘
//! ```
//!
//! Behind the exit its time is accounted and interrupts are switched, if the knobs say so; a `shortcut` makes a simple exit
//! take the fast path. Each question is one look if `early_exit` is on; if it is off, all the work behind it is done every time, to find
//! nothing. KVM asks so for its requests: one word guards the tests of all of them.
//!
//! Sources: Linux arch/x86/kvm/x86.c (vcpu_run, vcpu_enter_guest, kvm_arch_vcpu_ioctl_run), virt/kvm/kvm_main.c,
//! Documentation/virt/kvm/api.rst (KVM_CAP_SYNC_REGS, KVM_CAP_IMMEDIATE_EXIT); KVM Forum 2016, "As Time Goes By".

use crate::bounded_list::BoundedList;
use crate::knob::{KnobLocation, KnobMachines, KnobUnit, choice, params};

params! {
    /// The choices that make an exit short or long.
    early_exit: bool, KnobUnit::Bool, 1, 0 => 1, KnobLocation::Design, KnobMachines::All,
        "Whether one look decides that no timer, signal or request is pending; otherwise each is tested for";
    request_tests: u32, KnobUnit::Count, 30, 0 => 64, KnobLocation::Design, KnobMachines::All,
        "How many kinds of requests are tested for one by one; x86 has about 30";
    lazy_fpu: bool, KnobUnit::Bool, 1, 0 => 1, KnobLocation::Design, KnobMachines::All,
        "Whether the guest's floating-point state stays loaded until KVM_RUN returns; otherwise every exit saves and every entry loads it";
    signal_mask: bool, KnobUnit::Bool, 0, 0 => 1, KnobLocation::Ioctl("KVM_SET_SIGNAL_MASK"), KnobMachines::All,
        "Whether KVM_RUN switches to a signal mask of its own and back, instead of being told by immediate_exit";
    register_sync: RegisterSync, KnobUnit::Choice(RegisterSync::WORDS), RegisterSync::Needed, 0 => RegisterSync::ALL.len() - 1,
        KnobLocation::Ioctl("KVM_CAP_SYNC_REGS"), KnobMachines::All, "How user space gets at a vCPU's registers: all by ioctl, those needed by ioctl, or through the shared page";
    register_ioctls: u32, KnobUnit::Count, 15, 0 => 64, KnobLocation::Design, KnobMachines::All,
        "System calls of synchronising all registers, reading and writing together; x86 needs 14 to 16";
    device_lock: DeviceLock, KnobUnit::Choice(DeviceLock::WORDS), DeviceLock::Big, 0 => DeviceLock::ALL.len() - 1,
        KnobLocation::Design, KnobMachines::All, "Whether user space holds one lock for all devices, registers included, or each device's own";
    object_lookups: u32, KnobUnit::Count, 0, 0 => 64, KnobLocation::Design, KnobMachines::All,
        "Paths in its tree of objects that user space resolves for an exit, before the device acts";
    time_accounting: bool, KnobUnit::Bool, 1, 0 => 1, KnobLocation::Design, KnobMachines::All,
        "Whether each exit accounts for the time of guest and host (CONFIG_VIRT_CPU_ACCOUNTING_NATIVE, or _GEN on CPUs with nohz_full); otherwise the tick does";
    irq_switch: IrqSwitch, KnobUnit::Choice(IrqSwitch::WORDS), IrqSwitch::InExit, 0 => IrqSwitch::ALL.len() - 1,
        KnobLocation::Design, KnobMachines::All, "How interrupts are switched around the guest: not told apart from exit and entry, off and on, or by saving and restoring their state";
    shortcut: Shortcut, KnobUnit::Choice(Shortcut::WORDS), Shortcut::None, 0 => Shortcut::ALL.len() - 1,
        KnobLocation::Design, KnobMachines::All, "What answers an exit that the kernel handles: its whole loop, a shortcut in C, or one in the entry code";
}

choice! {
    /// How interrupts are switched off before the guest runs, and on behind it.
    IrqSwitch {
        /// As part of what exit and entry cost.
        InExit = "in_exit",
        /// Off and on, whatever they were.
        OffOn = "off_on",
        /// Their state is saved and restored.
        SaveRestore = "save_restore",
    }
}

choice! {
    /// Where the way of an exit that the kernel handles turns back to the guest.
    Shortcut {
        /// Nowhere but at its end.
        None = "none",
        /// In C: interrupts stay off, and nothing pending is looked for.
        C = "c",
        /// In the entry code, which does not account for time, either.
        Entry = "entry",
    }
}

choice! {
    /// How user space gets at a vCPU's registers.
    RegisterSync {
        /// All of them, one ioctl for each class and direction, at every exit to user space.
        All = "all",
        /// Only the classes that the device reads or writes, by ioctl.
        Needed = "needed",
        /// Copied to and from the page that kernel and user space share: no system call.
        Page = "page",
    }
}

choice! {
    /// What user space locks while a device acts.
    DeviceLock {
        /// One lock for everything, held over reading and writing registers as well.
        Big = "big",
        /// The device's own, held while it acts.
        Split = "split",
    }
}

/// What an exit needs, as far as the way out and back depends on it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ExitNeeds {
    /// KVM's fast path handles it with interrupts off, and enters again at once.
    pub fast: bool,
    /// A device in user space is needed.
    pub user: Option<Registers>,
    /// A timer's interrupt waits to be injected.
    pub timer: bool,
    /// A signal is pending: KVM_RUN returns with EINTR.
    pub signal: bool,
    /// Requests that others made of this vCPU.
    pub requests: u32,
    /// The thread was switched out meanwhile, which put the guest's floating-point state aside.
    pub switched_out: bool,
}

impl ExitNeeds {
    /// Whether the kernel alone answers, and nothing else is pending: what a shortcut may take.
    fn is_simple(&self) -> bool {
        let ExitNeeds { fast: _, user, timer, signal, requests, switched_out } = self;
        user.is_none() && !timer && !signal && *requests == 0 && !switched_out
    }
}

/// The classes of registers that a device needs, each got or set as one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Registers {
    /// Classes that it reads.
    pub read: u32,
    /// Classes that it writes.
    pub written: u32,
}

/// A phase of an needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExitPathWork {
    /// The hardware leaves the guest.
    Exit,
    /// Interrupts are switched off before the guest and on behind it.
    SwitchInterrupts,
    /// The same by saving and restoring whether they are on.
    SaveInterrupts,
    /// Time is accounted to guest and host.
    Account,
    /// The guest's floating-point state is put aside and the host's loaded.
    SaveFpu,
    /// KVM handles the exit in its fast path.
    HandleFast,
    /// KVM handles the needs.
    Handle,
    /// One look for a timer's interrupt.
    LookForTimer,
    /// The code that injects a timer's interrupt runs.
    ServeTimer,
    /// One look for a signal or other work.
    LookForSignal,
    /// The code that serves signals and other work runs.
    ServeSignal,
    /// One look at the word of all requests.
    LookForRequests,
    /// One request is tested for.
    TestRequest,
    /// One request is served.
    ServeRequest,
    /// One class of registers is copied to the shared page.
    CopyOut,
    /// The signal mask is switched.
    SwitchSignalMask,
    /// The system call returns.
    LeaveKernel,
    /// User space finds out what to do.
    UserLoop,
    /// The lock of all devices is taken; there may be others who hold it.
    TakeBigLock,
    /// The device's own lock is taken.
    TakeDeviceLock,
    /// One class of registers is read: a system call.
    GetRegisters,
    /// A path in the tree of objects is resolved.
    ResolveObject,
    /// The device acts.
    Device,
    /// One class of registers is written: a system call.
    SetRegisters,
    /// The device's own lock is released.
    ReleaseDeviceLock,
    /// The lock of all devices is released.
    ReleaseBigLock,
    /// The system call KVM_RUN begins.
    EnterKernel,
    /// The guest's floating-point state is loaded.
    LoadFpu,
    /// One class of registers is copied from the shared page.
    CopyIn,
    /// What the device read reaches the guest's register.
    CompleteIo,
    /// The hardware enters the guest.
    Entry,
}

/// A phase, and how often it happens in a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RepeatedWork {
    /// What happens.
    pub phase: ExitPathWork,
    /// How often; at least once.
    pub times: u32,
}

/// The most steps that any exit takes.
pub const MAX_STEPS: usize = 32;

type Path = BoundedList<RepeatedWork, MAX_STEPS>;

/// The phases of one exit, in order.
pub fn phases(params: &Params, needs: &ExitNeeds) -> Path {
    let mut path = BoundedList::new(RepeatedWork { phase: ExitPathWork::Exit, times: 0 });
    once(&mut path, ExitPathWork::Exit);
    let shortcut = if needs.is_simple() { params.shortcut } else { Shortcut::None };
    let fast = needs.fast || shortcut != Shortcut::None;
    push(&mut path, ExitPathWork::Account, u32::from(params.time_accounting && shortcut != Shortcut::Entry));
    if !params.lazy_fpu {
        once(&mut path, ExitPathWork::SaveFpu);
    }
    match params.irq_switch {
        _ if fast => {}
        IrqSwitch::InExit => {}
        IrqSwitch::OffOn => once(&mut path, ExitPathWork::SwitchInterrupts),
        IrqSwitch::SaveRestore => once(&mut path, ExitPathWork::SaveInterrupts),
    }
    let needs_user = match (fast, needs.user) {
        (true, _) => {
            once(&mut path, ExitPathWork::HandleFast);
            false
        }
        (false, user) => {
            once(&mut path, ExitPathWork::Handle);
            user.is_some() || in_kernel(&mut path, params, needs)
        }
    };
    if needs_user {
        through_user_space(&mut path, params, needs);
    }
    if !fast {
        ask(
            &mut path,
            params,
            needs.requests > 0,
            ExitPathWork::LookForRequests,
            (ExitPathWork::TestRequest, params.request_tests),
        );
        push(&mut path, ExitPathWork::ServeRequest, needs.requests);
    }
    // Returning from user space has loaded it already, if it is not done at every entry.
    let put_aside = needs.switched_out && !fast && !needs_user;
    if !params.lazy_fpu || put_aside {
        once(&mut path, ExitPathWork::LoadFpu);
    }
    once(&mut path, ExitPathWork::Entry);
    path
}

/// What KVM's loop asks after an exit that it handled itself. Whether it has to return to user space after all.
fn in_kernel(path: &mut Path, params: &Params, needs: &ExitNeeds) -> bool {
    ask(path, params, needs.timer, ExitPathWork::LookForTimer, (ExitPathWork::ServeTimer, 1));
    ask(path, params, needs.signal, ExitPathWork::LookForSignal, (ExitPathWork::ServeSignal, 1));
    needs.signal
}

fn through_user_space(path: &mut Path, params: &Params, needs: &ExitNeeds) {
    // A signal takes the vCPU to user space for nothing that a device or a register would be needed for.
    let (get, set) = needs.user.map_or((0, 0), |registers| match params.register_sync {
        RegisterSync::All => (params.register_ioctls.div_ceil(2), params.register_ioctls / 2),
        RegisterSync::Needed => (registers.read, registers.written),
        RegisterSync::Page => (0, 0),
    });
    let shared = needs.user.filter(|_| params.register_sync == RegisterSync::Page).unwrap_or_default();
    if params.lazy_fpu {
        once(path, ExitPathWork::SaveFpu);
    }
    push(path, ExitPathWork::CopyOut, shared.read);
    push(path, ExitPathWork::SwitchSignalMask, u32::from(params.signal_mask));
    once(path, ExitPathWork::LeaveKernel);
    once(path, ExitPathWork::UserLoop);
    if needs.user.is_some() {
        match params.device_lock {
            DeviceLock::Big => {
                once(path, ExitPathWork::TakeBigLock);
                push(path, ExitPathWork::GetRegisters, get);
                push(path, ExitPathWork::ResolveObject, params.object_lookups);
                once(path, ExitPathWork::Device);
                push(path, ExitPathWork::SetRegisters, set);
                once(path, ExitPathWork::ReleaseBigLock);
            }
            DeviceLock::Split => {
                push(path, ExitPathWork::GetRegisters, get);
                push(path, ExitPathWork::ResolveObject, params.object_lookups);
                once(path, ExitPathWork::TakeDeviceLock);
                once(path, ExitPathWork::Device);
                once(path, ExitPathWork::ReleaseDeviceLock);
                push(path, ExitPathWork::SetRegisters, set);
            }
        }
    }
    once(path, ExitPathWork::EnterKernel);
    push(path, ExitPathWork::SwitchSignalMask, u32::from(params.signal_mask));
    if params.lazy_fpu {
        once(path, ExitPathWork::LoadFpu);
    }
    push(path, ExitPathWork::CopyIn, shared.written);
    push(path, ExitPathWork::CompleteIo, u32::from(needs.user.is_some()));
}

/// A question: one look, and the work only if something is pending; without early exits, the work in any case.
fn ask(path: &mut Path, params: &Params, pending: bool, look: ExitPathWork, (work, times): (ExitPathWork, u32)) {
    push(path, look, u32::from(params.early_exit));
    if pending || !params.early_exit {
        push(path, work, times);
    }
}

fn once(path: &mut Path, phase: ExitPathWork) {
    push(path, phase, 1);
}

fn push(path: &mut Path, phase: ExitPathWork, times: u32) {
    if times > 0 {
        path.push(RepeatedWork { phase, times });
    }
}

/// How many system calls user space makes for an exit: KVM_RUN and those for registers.
pub fn system_calls(path: &[RepeatedWork]) -> u32 {
    let calls = |step: &&RepeatedWork| {
        matches!(step.phase, ExitPathWork::EnterKernel | ExitPathWork::GetRegisters | ExitPathWork::SetRegisters)
    };
    path.iter().filter(calls).map(|step| step.times).sum()
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use ExitPathWork::*;
    use proptest::prelude::*;
    use std::vec::Vec;

    const IN_KERNEL: ExitNeeds =
        ExitNeeds { fast: false, user: None, timer: false, signal: false, requests: 0, switched_out: false };
    const DEVICE: ExitNeeds = ExitNeeds { user: Some(Registers { read: 0, written: 0 }), ..IN_KERNEL };
    const VMPORT: ExitNeeds = ExitNeeds { user: Some(Registers { read: 2, written: 1 }), ..IN_KERNEL };

    fn path(params: &Params, needs: &ExitNeeds) -> Vec<(ExitPathWork, u32)> {
        phases(params, needs).iter().map(|step| (step.phase, step.times)).collect()
    }

    fn names(params: &Params, needs: &ExitNeeds) -> Vec<ExitPathWork> {
        phases(params, needs).iter().map(|step| step.phase).collect()
    }

    #[test]
    fn an_exit_with_nothing_pending_pays_three_looks() {
        let quiet = [Exit, Account, Handle, LookForTimer, LookForSignal, LookForRequests, Entry];
        assert_eq!(names(&Params::default(), &IN_KERNEL), quiet);
        let long = Params { early_exit: false, request_tests: 5, ..Params::default() };
        let tests =
            [(Exit, 1), (Account, 1), (Handle, 1), (ServeTimer, 1), (ServeSignal, 1), (TestRequest, 5), (Entry, 1)];
        assert_eq!(path(&long, &IN_KERNEL), tests);
    }

    #[test]
    fn what_is_pending_is_served_behind_its_look() {
        let busy = ExitNeeds { timer: true, requests: 2, switched_out: true, ..IN_KERNEL };
        let params = Params { request_tests: 5, ..Params::default() };
        let served = [
            (Exit, 1),
            (Account, 1),
            (Handle, 1),
            (LookForTimer, 1),
            (ServeTimer, 1),
            (LookForSignal, 1),
            (LookForRequests, 1),
            (TestRequest, 5),
            (ServeRequest, 2),
            (LoadFpu, 1),
            (Entry, 1),
        ];
        assert_eq!(path(&params, &busy), served);
    }

    #[test]
    fn the_fast_path_asks_nothing() {
        let fast = ExitNeeds { fast: true, requests: 3, ..IN_KERNEL };
        assert_eq!(names(&Params::default(), &fast), [Exit, Account, HandleFast, Entry]);
        let eager = Params { lazy_fpu: false, ..Params::default() };
        assert_eq!(names(&eager, &fast), [Exit, Account, SaveFpu, HandleFast, LoadFpu, Entry]);
    }

    #[test]
    fn user_space_costs_the_floating_point_state_and_the_way_there_and_back() {
        let way = [
            Exit,
            Account,
            Handle,
            SaveFpu,
            LeaveKernel,
            UserLoop,
            TakeBigLock,
            Device,
            ReleaseBigLock,
            EnterKernel,
            LoadFpu,
            CompleteIo,
            LookForRequests,
            Entry,
        ];
        assert_eq!(names(&Params::default(), &DEVICE), way);
        let masked = Params { signal_mask: true, ..Params::default() };
        let switches = names(&masked, &DEVICE).iter().filter(|phase| **phase == SwitchSignalMask).count();
        assert_eq!(switches, 2);
    }

    #[test]
    fn a_signal_takes_the_vcpu_to_user_space_and_to_no_device() {
        let signalled = ExitNeeds { signal: true, ..IN_KERNEL };
        let way = [
            Exit,
            Account,
            Handle,
            LookForTimer,
            LookForSignal,
            ServeSignal,
            SaveFpu,
            LeaveKernel,
            UserLoop,
            EnterKernel,
            LoadFpu,
            LookForRequests,
            Entry,
        ];
        assert_eq!(names(&Params::default(), &signalled), way);
    }

    #[test]
    fn registers_cost_system_calls_unless_they_are_shared() {
        for (register_sync, needs, calls, copies) in [
            (RegisterSync::All, DEVICE, 16, 0),
            (RegisterSync::All, VMPORT, 16, 0),
            (RegisterSync::Needed, DEVICE, 1, 0),
            (RegisterSync::Needed, VMPORT, 4, 0),
            (RegisterSync::Page, VMPORT, 1, 3),
            (RegisterSync::All, IN_KERNEL, 0, 0),
        ] {
            let params = Params { register_sync, ..Params::default() };
            let steps = phases(&params, &needs);
            assert_eq!(system_calls(&steps), calls, "{register_sync:?} {needs:?}");
            let copied = steps.iter().filter(|step| matches!(step.phase, CopyIn | CopyOut)).map(|step| step.times);
            assert_eq!(copied.sum::<u32>(), copies, "{register_sync:?} {needs:?}");
        }
    }

    #[test]
    fn split_locks_are_held_for_the_device_alone() {
        let held = |device_lock| {
            let steps = names(&Params { device_lock, ..Params::default() }, &VMPORT);
            let at = |phases: [ExitPathWork; 2]| steps.iter().position(|step| phases.contains(step)).unwrap();
            steps[at([TakeBigLock, TakeDeviceLock]) + 1..at([ReleaseBigLock, ReleaseDeviceLock])].to_vec()
        };
        assert_eq!(held(DeviceLock::Big), [GetRegisters, Device, SetRegisters]);
        assert_eq!(held(DeviceLock::Split), [Device]);
    }

    #[test]
    fn each_step_of_the_ladder_leaves_something_out() {
        let whole = Params { irq_switch: IrqSwitch::SaveRestore, ..Params::default() };
        let ladder = [
            whole,
            Params { irq_switch: IrqSwitch::InExit, ..whole },
            Params { shortcut: Shortcut::C, ..whole },
            Params { shortcut: Shortcut::Entry, ..whole },
        ];
        let [whole, without, c, entry] = ladder.map(|params| names(&params, &IN_KERNEL));
        let looks = [Handle, LookForTimer, LookForSignal, LookForRequests, Entry];
        assert_eq!(whole, [&[Exit, Account, SaveInterrupts], &looks[..]].concat());
        assert_eq!(without, [&[Exit, Account], &looks[..]].concat());
        assert_eq!(c, [Exit, Account, HandleFast, Entry]);
        assert_eq!(entry, [Exit, HandleFast, Entry]);
        let unaccounted = Params { time_accounting: false, ..ladder[2] };
        assert_eq!(names(&unaccounted, &IN_KERNEL), [Exit, HandleFast, Entry]);
        // What is pending, and what user space has to answer, takes no shortcut.
        for needs in [ExitNeeds { signal: true, ..IN_KERNEL }, ExitNeeds { requests: 1, ..IN_KERNEL }, DEVICE] {
            assert_eq!(names(&ladder[3], &needs), names(&ladder[0], &needs), "{needs:?}");
        }
    }

    #[test]
    fn paths_are_resolved_before_the_device_acts() {
        let lookups = Params { object_lookups: 2, ..Params::default() };
        let steps = path(&lookups, &DEVICE);
        let device = steps.iter().position(|step| step.0 == Device).unwrap();
        assert_eq!(steps[device - 1], (ResolveObject, 2));
        assert!(!names(&lookups, &IN_KERNEL).contains(&ResolveObject));
    }

    fn any_params() -> impl Strategy<Value = Params> {
        let choices = (prop::sample::select(RegisterSync::ALL), prop::sample::select(DeviceLock::ALL));
        (any::<[bool; 3]>(), 0u32..40, 0u32..20, choices).prop_map(
            |([early_exit, lazy_fpu, signal_mask], request_tests, register_ioctls, (register_sync, device_lock))| {
                Params {
                    early_exit,
                    request_tests,
                    lazy_fpu,
                    signal_mask,
                    register_sync,
                    register_ioctls,
                    device_lock,
                    ..Params::default()
                }
            },
        )
    }

    fn any_needs() -> impl Strategy<Value = ExitNeeds> {
        let user = prop::option::of((0u32..4, 0u32..4).prop_map(|(read, written)| Registers { read, written }));
        (any::<[bool; 4]>(), user, 0u32..5).prop_map(|([fast, timer, signal, switched_out], user, requests)| {
            ExitNeeds { fast, user, timer, signal, requests, switched_out }
        })
    }

    fn times(params: &Params, needs: &ExitNeeds) -> u32 {
        phases(params, needs).iter().map(|step| step.times).sum()
    }

    proptest! {
        #[test]
        fn every_exit_begins_and_ends_and_balances_what_it_takes(params in any_params(), needs in any_needs()) {
            let steps = phases(&params, &needs);
            prop_assert_eq!((steps[0].phase, steps[steps.len() - 1].phase), (Exit, Entry));
            let count = |phase| steps.iter().filter(|step| step.phase == phase).count();
            prop_assert_eq!(count(LeaveKernel), count(EnterKernel));
            prop_assert_eq!(count(TakeBigLock), count(ReleaseBigLock));
            prop_assert_eq!(count(TakeDeviceLock), count(ReleaseDeviceLock));
            prop_assert!(count(SaveFpu) <= count(LoadFpu) && count(LoadFpu) <= 1);
            prop_assert!(steps.iter().all(|step| step.times > 0));
        }

        #[test]
        fn no_way_around_makes_a_quiet_exit_longer(params in any_params(), needs in any_needs()) {
            let quiet = ExitNeeds { timer: false, signal: false, requests: 0, ..needs };
            let looks = |early_exit| Params { early_exit, request_tests: params.request_tests.max(1), ..params };
            prop_assert!(times(&looks(true), &quiet) <= times(&looks(false), &quiet));
            let fpu = |lazy_fpu| times(&Params { lazy_fpu, ..params }, &needs);
            prop_assert!(fpu(true) <= fpu(false));
            let calls = |register_sync| system_calls(&phases(&Params { register_sync, ..params }, &needs));
            prop_assert!(calls(RegisterSync::Page) <= calls(RegisterSync::Needed).min(calls(RegisterSync::All)));
        }
    }
}
