//! The steps of exits as plain data.

use exitscope_analysis::{Facts, WayCell};
use exitscope_model::{Mark, Step, TimePart};
use schemars::JsonSchema;
use serde::Serialize;

/// How the cost of exits divides into steps, and what would take steps away.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct PhaseRows {
    /// By reason and by whether they left the kernel (or Xen), most costly first; without reasons of which no exit is timed.
    pub rows: Vec<PhaseRow>,
    /// All that left the kernel.
    pub outside: PhaseRow,
    /// All that did not.
    pub inside: PhaseRow,
    /// What would take steps away.
    pub removable: Vec<RemovableRow>,
    /// Whether the host is Xen.
    pub xen: bool,
    /// Cycles of the processor in a second, if somebody said.
    pub cycles_per_s: Option<u64>,
}

/// The steps of exits of one reason that went the same way; lengths are sums over the timed ones.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct PhaseRow {
    /// The reason; absent for all together.
    pub reason: Option<String>,
    /// Whether they left the kernel, or Xen.
    pub outside: bool,
    /// Exits.
    pub exits: u64,
    /// Exits of which both ends were seen.
    pub timed: u64,
    /// Until the first event of the handler; of exits without one, the time is in `handling_ns`.
    pub reaching_ns: u64,
    /// In the kernel's handler.
    pub handling_ns: u64,
    /// From where KVM puts the guest's floating-point state aside until the system call returns; without events of system
    /// calls only until kvm_userspace_exit.
    pub leaving_ns: u64,
    /// In user space; on Xen, waiting for the device model.
    pub user_ns: u64,
    /// In user space, asleep: the vCPU's thread waits for another.
    pub asleep_ns: u64,
    /// From the call of KVM_RUN until the entry.
    pub entering_ns: u64,
    /// In halts: polling, halted and not divided; in no step.
    pub in_halts_ns: u64,
    /// Runnable, without a CPU; in no step.
    pub steal_ns: u64,
    /// Exits with an event of their handler.
    pub reached: u64,
    /// Exits of which it was seen when KVM began to leave.
    pub left: u64,
    /// Exits of which it was seen when the system call returned.
    pub returned: u64,
    /// Exits of which it was seen when KVM_RUN was called again.
    pub called: u64,
    /// Exits for which the kernel emulated an instruction; absent where that was not looked at (pages).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub emulated: Option<u64>,
    /// System calls that user space made for them.
    pub calls: u64,
    /// Time in these; part of `user_ns` and `asleep_ns`.
    pub in_calls_ns: u64,
    /// Of these, ioctls that read or write registers.
    pub register_calls: u64,
    /// Time in those.
    pub in_register_calls_ns: u64,
}

/// A change that takes steps of exits away.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct RemovableRow {
    /// `ioeventfd`, `synced_registers`, `split_lock`.
    pub change: &'static str,
    /// Exits that it would change.
    pub exits: u64,
    /// What it would take away, at most; absent if the trace does not say.
    pub removes_ns: Option<u64>,
    /// The same in cycles of the processor, for each of those exits; absent if nobody said how many make a second.
    pub removes_cycles_an_exit: Option<u64>,
    /// How that was found out: `counted` in this recording.
    pub how: &'static str,
    /// By which rule.
    pub rule: &'static str,
}

impl PhaseRows {
    /// The steps of these facts, if any exit is timed.
    /// Whether `kvm_emulate_insn` was looked at, `emulations` says; `arch` is the host's.
    pub fn of(facts: &Facts, xen: bool, emulations: bool, arch: &str, cycles_per_s: Option<u64>) -> Option<PhaseRows> {
        let (inside, outside) = (facts.ways.all(false), facts.ways.all(true));
        if inside.cell.timed + outside.cell.timed == 0 {
            return None;
        }
        let row = |reason, outside, way: &WayCell| PhaseRow::of(reason, outside, way, xen, emulations);
        let cells = facts.ways.cells();
        let cells = cells.iter().filter(|(_, way)| way.cell.timed > 0);
        let mut rows: Vec<PhaseRow> = cells.map(|(key, way)| row(Some(key.code.name()), key.outside, way)).collect();
        rows.sort_by_key(|row| (std::cmp::Reverse((row.cost_ns(), row.exits)), row.reason.clone(), row.outside));
        let mut removable = if xen { Vec::new() } else { removable(facts, &outside, arch) };
        removable.iter_mut().for_each(|row| row.count_cycles(cycles_per_s));
        let (inside, outside) = (row(None, false, &inside), row(None, true, &outside));
        Some(PhaseRows { rows, outside, inside, removable, xen, cycles_per_s })
    }
}

impl PhaseRow {
    fn of(reason: Option<String>, outside: bool, way: &WayCell, xen: bool, emulations: bool) -> PhaseRow {
        let time = |step| way.time(step).0;
        // Xen's handlers write records without a time of their own.
        let reaching = if xen { 0 } else { time(Step::Reaching) };
        PhaseRow {
            reason,
            outside,
            exits: way.cell.count,
            timed: way.cell.timed,
            reaching_ns: reaching,
            handling_ns: (time(Step::Reaching) - reaching).saturating_add(time(Step::Handling)),
            leaving_ns: time(Step::Leaving),
            user_ns: time(Step::User),
            asleep_ns: time(Step::Asleep),
            entering_ns: time(Step::Entering),
            in_halts_ns: way.cell.parts.in_halts().0,
            steal_ns: way.cell.part(TimePart::Steal).0,
            reached: if xen { 0 } else { way.marked(Mark::Reached) },
            left: way.marked(Mark::Left),
            returned: way.marked(Mark::Returned),
            called: way.marked(Mark::Called),
            emulated: emulations.then(|| way.marked(Mark::Emulated)),
            calls: way.calls,
            in_calls_ns: way.in_calls,
            register_calls: way.register_calls,
            in_register_calls_ns: way.in_register_calls,
        }
    }

    /// All steps together: what the exits cost.
    pub fn cost_ns(&self) -> u64 {
        let steps = [self.handling_ns, self.leaving_ns, self.user_ns, self.asleep_ns, self.entering_ns];
        steps.iter().fold(self.reaching_ns, |sum, step| sum.saturating_add(*step))
    }
}

const COUNTED: &str = "counted";

impl RemovableRow {
    fn count_cycles(&mut self, cycles_per_s: Option<u64>) {
        let cycles = |nanos: u64, hz: u64| u128::from(nanos) * u128::from(hz) / 1_000_000_000;
        let all = self.removes_ns.zip(cycles_per_s).map(|(nanos, hz)| cycles(nanos, hz));
        let an_exit = all.and_then(|cycles| cycles.checked_div(u128::from(self.exits)));
        self.removes_cycles_an_exit = an_exit.and_then(|cycles| u64::try_from(cycles).ok());
    }
}

fn removable(facts: &Facts, outside: &WayCell, arch: &str) -> Vec<RemovableRow> {
    let mut rows = Vec::new();
    let typical = facts.accesses.typical();
    let (mut writes, mut saves) = (0, Some(0u64));
    for (key, access) in facts.accesses.cells() {
        let same = |range: Option<(u64, u64)>| range.is_some_and(|(low, high)| low == high);
        if key.outside && same(access.places) && same(access.written) {
            let then = typical.in_kernel(key.at.kind, true);
            let saving = then.map(|then| access.saving(then).0);
            writes += access.cell.count;
            saves = saves.zip(saving).map(|(sum, saving)| sum.saturating_add(saving));
        }
    }
    if writes > 0 {
        rows.push(RemovableRow {
            change: "ioeventfd",
            exits: writes,
            removes_ns: saves,
            removes_cycles_an_exit: None,
            how: COUNTED,
            rule: "writes to user space of always the same value to one register, which a datamatch passes on, would take what writes \
                   typically take that the kernel serves in this recording; for writes of several values see --view pio",
        });
    }
    // KVM_CAP_SYNC_REGS: kvm_vm_ioctl_check_extension of arch/x86/kvm/x86.c and arch/s390/kvm/kvm-s390.c have it.
    let can_sync = arch.starts_with("x86") || arch.starts_with("s390");
    if outside.cell.timed > 0 && can_sync {
        let calls_seen = outside.marked(Mark::Returned) > 0;
        rows.push(RemovableRow {
            change: "synced_registers",
            exits: outside.cell.timed,
            removes_ns: calls_seen.then_some(outside.in_register_calls),
            removes_cycles_an_exit: None,
            how: COUNTED,
            rule: "time in ioctls that read or write registers, which a page shared with user space (KVM_CAP_SYNC_REGS) replaces",
        });
    }
    if outside.cell.timed > 0 {
        let asleep = outside.time(Step::Asleep).0;
        rows.push(RemovableRow {
            change: "split_lock",
            exits: outside.cell.timed,
            removes_ns: (asleep > 0 || outside.cell.part(TimePart::Steal).0 > 0).then_some(asleep),
            removes_cycles_an_exit: None,
            how: COUNTED,
            rule: "time in which vCPU threads slept in user space, all of it if they waited for a lock of all devices",
        });
    }
    rows
}
