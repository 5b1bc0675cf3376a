//! The steps of exits as plain data.

use exitscope_analysis::{Facts, PhaseStats};
use exitscope_model::{Architecture, ExitPhase, PhaseBoundary, TimePart};
use schemars::JsonSchema;
use serde::Serialize;

/// How the cost of exits divides into steps, and what would take steps away.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct PhaseRows {
    /// By reason and by whether they left the kernel (or Xen), most costly first; without reasons of which no exit is timed.
    pub rows: Vec<PhaseRow>,
    /// All exits together that user space handled (on Xen, the device model).
    pub in_user_space: PhaseRow,
    /// All exits together that the kernel (or Xen) handled alone.
    pub in_kernel: PhaseRow,
    /// Changes that would avoid phases of these exits.
    pub removable: Vec<RemovableRow>,
    /// Whether the host is Xen.
    pub xen: bool,
    /// Cycles of the processor per second, as `--tsc-hz` gives it; absent without it.
    pub cycles_per_s: Option<u64>,
}

/// The steps of exits of one reason that went the same way; lengths are sums over the timed ones.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct PhaseRow {
    /// The reason; absent for all together.
    pub reason: Option<String>,
    /// Whether they left the kernel, or Xen.
    pub in_user_space: bool,
    /// Number of exits.
    pub exits: u64,
    /// Exits of which both ends were seen.
    pub timed: u64,
    /// Until the first event of the handler; of exits without one, the time is in `handler_ns`.
    pub to_handler_ns: u64,
    /// Time in the kernel's (or Xen's) handler.
    pub handler_ns: u64,
    /// From where KVM puts the guest's floating-point state aside until the system call returns; without events of system
    /// calls only until kvm_userspace_exit.
    pub to_user_space_ns: u64,
    /// In user space; on Xen, waiting for the device model.
    pub user_space_ns: u64,
    /// In user space, asleep: the vCPU's thread waits for another.
    pub user_space_asleep_ns: u64,
    /// From the call of KVM_RUN until the entry.
    pub reentry_ns: u64,
    /// In halts: polling, halted and not divided; in no step.
    pub in_halts_ns: u64,
    /// Runnable, without a CPU; in no step.
    pub steal_ns: u64,
    /// Exits with an event of their handler.
    pub with_handler_event: u64,
    /// Exits of which it was seen when KVM began to leave.
    pub with_fpu_put: u64,
    /// Exits of which it was seen when the system call returned.
    pub with_syscall_return: u64,
    /// Exits of which it was seen when KVM_RUN was called again.
    pub with_syscall_entry: u64,
    /// Exits for which the kernel emulated an instruction.
    pub emulated: u64,
    /// System calls that user space made for them.
    pub syscalls: u64,
    /// Time in these; part of `user_space_ns` and `user_space_asleep_ns`.
    pub syscall_ns: u64,
    /// Of these, ioctls that read or write registers.
    pub register_ioctls: u64,
    /// Time in these ioctls, a part of `syscall_ns`.
    pub register_ioctl_ns: u64,
}

/// A change that takes steps of exits away.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct RemovableRow {
    /// `ioeventfd`, `synced_registers`, `split_lock`.
    pub change: &'static str,
    /// Exits that it would change.
    pub exits: u64,
    /// What it would take away, at most; absent if the trace does not say.
    pub avoidable_ns: Option<u64>,
    /// The same in cycles of the processor, for each of those exits; absent if nobody said how many make a second.
    pub avoidable_cycles_per_exit: Option<u64>,
    /// How `avoidable_ns` was got: `counted` in this recording.
    pub method: &'static str,
    /// The rule by which these exits were chosen, in words.
    pub rule: &'static str,
}

impl PhaseRows {
    /// The steps of these facts, if any exit is timed.
    /// `arch` is the host's.
    pub fn of(facts: &Facts, xen: bool, arch: &str, cycles_per_s: Option<u64>) -> Option<PhaseRows> {
        let (inside, outside) = (facts.phases.all(false), facts.phases.all(true));
        if inside.stats.timed + outside.stats.timed == 0 {
            return None;
        }
        let row = |reason, outside, phases: &PhaseStats| PhaseRow::of(reason, outside, phases, xen);
        let cells = facts.phases.cells();
        let cells = cells.iter().filter(|(_, phases)| phases.stats.timed > 0);
        let mut rows: Vec<PhaseRow> =
            cells.map(|(key, phases)| row(Some(key.code.name()), key.outside, phases)).collect();
        rows.sort_by_key(|row| (std::cmp::Reverse((row.cost_ns(), row.exits)), row.reason.clone(), row.in_user_space));
        let mut removable = if xen { Vec::new() } else { removable(facts, &outside, arch) };
        removable.iter_mut().for_each(|row| row.count_cycles(cycles_per_s));
        let (inside, outside) = (row(None, false, &inside), row(None, true, &outside));
        Some(PhaseRows { rows, in_user_space: outside, in_kernel: inside, removable, xen, cycles_per_s })
    }
}

impl PhaseRow {
    fn of(reason: Option<String>, outside: bool, phases: &PhaseStats, xen: bool) -> PhaseRow {
        let time = |step| phases.time(step).0;
        // Xen's handlers write records without a time of their own.
        let reaching = if xen { 0 } else { time(ExitPhase::ToHandler) };
        PhaseRow {
            reason,
            in_user_space: outside,
            exits: phases.stats.count,
            timed: phases.stats.timed,
            to_handler_ns: reaching,
            handler_ns: (time(ExitPhase::ToHandler) - reaching).saturating_add(time(ExitPhase::Handling)),
            to_user_space_ns: time(ExitPhase::ToUserSpace),
            user_space_ns: time(ExitPhase::UserSpace),
            user_space_asleep_ns: time(ExitPhase::UserSpaceAsleep),
            reentry_ns: time(ExitPhase::Reentry),
            in_halts_ns: phases.stats.parts.in_halts().0,
            steal_ns: phases.stats.part(TimePart::Steal).0,
            with_handler_event: if xen { 0 } else { phases.marked(PhaseBoundary::HandlerEvent) },
            with_fpu_put: phases.marked(PhaseBoundary::FpuPut),
            with_syscall_return: phases.marked(PhaseBoundary::KvmRunReturned),
            with_syscall_entry: phases.marked(PhaseBoundary::KvmRunEntered),
            emulated: phases.marked(PhaseBoundary::Emulated),
            syscalls: phases.calls,
            syscall_ns: phases.in_calls,
            register_ioctls: phases.register_calls,
            register_ioctl_ns: phases.in_register_calls,
        }
    }

    /// All steps together: what the exits cost.
    pub fn cost_ns(&self) -> u64 {
        let steps =
            [self.handler_ns, self.to_user_space_ns, self.user_space_ns, self.user_space_asleep_ns, self.reentry_ns];
        steps.iter().fold(self.to_handler_ns, |sum, step| sum.saturating_add(*step))
    }
}

const COUNTED: &str = "counted";

impl RemovableRow {
    fn count_cycles(&mut self, cycles_per_s: Option<u64>) {
        let cycles = |nanos: u64, hz: u64| u128::from(nanos) * u128::from(hz) / 1_000_000_000;
        let all = self.avoidable_ns.zip(cycles_per_s).map(|(nanos, hz)| cycles(nanos, hz));
        let an_exit = all.and_then(|cycles| cycles.checked_div(u128::from(self.exits)));
        self.avoidable_cycles_per_exit = an_exit.and_then(|cycles| u64::try_from(cycles).ok());
    }
}

fn removable(facts: &Facts, outside: &PhaseStats, arch: &str) -> Vec<RemovableRow> {
    let mut rows = Vec::new();
    let typical = facts.accesses.typical();
    let (mut writes, mut saves) = (0, Some(0u64));
    for (key, access) in facts.accesses.cells() {
        let same = |range: Option<(u64, u64)>| range.is_some_and(|(low, high)| low == high);
        if key.outside && same(access.addresses) && same(access.written) {
            let then = typical.in_kernel(key.at.kind, true);
            let saving = then.map(|then| access.saving(then).0);
            writes += access.stats.count;
            saves = saves.zip(saving).map(|(sum, saving)| sum.saturating_add(saving));
        }
    }
    if writes > 0 {
        rows.push(RemovableRow {
            change: "ioeventfd",
            exits: writes,
            avoidable_ns: saves,
            avoidable_cycles_per_exit: None,
            method: COUNTED,
            rule: "writes to user space that always write the same value to one register, which an ioeventfd with \
                datamatch could take; each would then take as long as writes that the kernel serves in this recording \
                typically do; for writes of several values see --view pio",
        });
    }
    let can_sync = Architecture::of(arch).is_some_and(|of| of.row().shares_registers);
    if outside.stats.timed > 0 && can_sync {
        let calls_seen = outside.marked(PhaseBoundary::KvmRunReturned) > 0;
        rows.push(RemovableRow {
            change: "synced_registers",
            exits: outside.stats.timed,
            avoidable_ns: calls_seen.then_some(outside.in_register_calls),
            avoidable_cycles_per_exit: None,
            method: COUNTED,
            rule: "time in ioctls that read or write registers, which a page shared with user space (KVM_CAP_SYNC_REGS) would replace",
        });
    }
    if outside.stats.timed > 0 {
        let asleep = outside.time(ExitPhase::UserSpaceAsleep).0;
        rows.push(RemovableRow {
            change: "split_lock",
            exits: outside.stats.timed,
            avoidable_ns: (asleep > 0 || outside.stats.part(TimePart::Steal).0 > 0).then_some(asleep),
            avoidable_cycles_per_exit: None,
            method: COUNTED,
            rule: "time in which vCPU threads were asleep in user space; all of it is avoidable only if they waited \
                for a lock of all devices",
        });
    }
    rows
}
