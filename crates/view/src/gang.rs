//! Ganged exits as plain data.

use crate::halt::LengthsRow;
use exitscope_analysis::{Facts, GangCell, Gangs};
use exitscope_model::{CodeList, ExitCode, TraceInfo};
use exitscope_units::VmId;
use schemars::JsonSchema;
use serde::Serialize;

/// Ganged exits: threads of a virtual core that had to leave the guest because another did (POWER7 and POWER8).
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct GangRows {
    /// By VM.
    pub vms: Vec<GangRow>,
    /// By virtual core, as `--threads-per-core` makes them or as the runs show them.
    pub vcores: Vec<GangRow>,
    /// Exits that forced others out, most forced first.
    pub causes: Vec<CauseRow>,
    /// Runs of which only one end was seen.
    pub unpaired_runs: u64,
    /// Exits of powerpc guests. Without any run, every vCPU runs by itself: POWER9 and later.
    pub guest_exits: u64,
}

/// The core runs of one VM or of one virtual core.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct GangRow {
    /// The VM's process id; absent if the trace does not say.
    pub vm: Option<u32>,
    /// The VM's process name.
    pub vm_name: Option<String>,
    /// The virtual core's vCPUs, as far as they were seen to run; absent of a VM.
    pub vcpus: Option<Vec<u32>>,
    /// Core runs of which both ends were seen.
    pub runs: u64,
    /// Runs that the rule of the script of 2015 counts: more than one vCPU runnable at the end, less those that ceded.
    pub ganged_script: u64,
    /// Runs that at least two threads left that had not ceded.
    pub two_active: u64,
    /// Of these, runs that ended for all of them with the hypervisor decrementer: nobody forced anybody.
    pub timer: u64,
    /// Of these, the others: one thread's exit took the rest along.
    pub ganged: u64,
    /// Exits of threads that had not ceded.
    pub exits: u64,
    /// Exits that were forced: the thread had no reason of its own.
    pub forced: u64,
    /// Threads that did not get into the guest, because others were leaving already.
    pub too_late: u64,
    /// vCPUs that joined a run under way.
    pub joined: u64,
    /// CPUs that recorded the runs: of a core, its first thread.
    pub cpus: Vec<u32>,
    /// From being forced out to the next entry, other VMs' turns on the core included; needs kvm_guest_enter.
    pub lost: LengthsRow,
}

/// Exits that forced others out.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct CauseRow {
    /// The VM's process id; absent if the trace does not say.
    pub vm: Option<u32>,
    /// The vCPU that had to leave.
    pub vcpu: u32,
    /// Its exit reason.
    pub reason: String,
    /// Ganged runs in which it had it.
    pub runs: u64,
    /// Exits that were forced in these runs; where several threads had a reason, each has them all.
    pub forced: u64,
    /// Time that those lost who were forced out, shared equally where several had a reason.
    pub lost_ns: u64,
}

impl GangRows {
    /// The ganged exits of these facts, if they are of a powerpc host; virtual cores of `threads` vCPUs, or as they were
    /// seen.
    pub fn of(facts: &Facts, info: &TraceInfo, threads: Option<u32>) -> Option<GangRows> {
        let gangs: &Gangs = &facts.gangs;
        if gangs.guest_exits == 0 {
            return None;
        }
        let row = |vm: VmId, vcpus: Option<Vec<u32>>, cell: &GangCell| GangRow {
            vm: (vm != VmId::UNKNOWN).then_some(vm.0),
            vm_name: info.comms.get(&vm.0).filter(|_| vm != VmId::UNKNOWN).cloned(),
            vcpus,
            runs: cell.runs,
            ganged_script: cell.script,
            two_active: cell.two_active,
            timer: cell.timer,
            ganged: cell.ganged,
            exits: cell.exits,
            forced: cell.forced,
            too_late: cell.too_late,
            joined: cell.joined,
            cpus: cell.cpus.iter().map(|cpu| cpu.0).collect(),
            lost: LengthsRow::of(&cell.lost),
        };
        let vcores = gangs.vcores(threads);
        Some(GangRows {
            vms: gangs.vms().iter().map(|(vm, cell)| row(*vm, None, cell)).collect(),
            vcores: vcores
                .iter()
                .map(|vcore| row(vcore.vm, Some(vcore.vcpus.iter().map(|vcpu| vcpu.0).collect()), &vcore.cell))
                .collect(),
            causes: gangs
                .causes()
                .into_iter()
                .map(|((vm, vcpu, trap), cause)| CauseRow {
                    vm: (vm != VmId::UNKNOWN).then_some(vm.0),
                    vcpu: vcpu.0,
                    reason: ExitCode::new(CodeList::PpcTrap, u64::from(trap)).name(),
                    runs: cause.runs,
                    forced: cause.forced,
                    lost_ns: cause.lost,
                })
                .collect(),
            unpaired_runs: gangs.unpaired,
            guest_exits: gangs.guest_exits,
        })
    }
}
