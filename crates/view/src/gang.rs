//! Ganged exits as plain data.

use crate::halt::DurationStatsRow;
use exitscope_analysis::{Facts, GangFacts};
use exitscope_model::{CodeList, ExitCode, GangRow, TraceInfo};
use exitscope_units::VmId;
use schemars::JsonSchema;
use serde::Serialize;

/// Ganged exits: threads of a virtual core that had to leave the guest because another did (POWER7 and POWER8).
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct GangRows {
    /// By VM.
    pub vms: Vec<GangRow<DurationStatsRow>>,
    /// By virtual core, as `--threads-per-core` makes them or as the runs show them.
    pub vcores: Vec<GangRow<DurationStatsRow>>,
    /// Exits that forced others out, most forced first.
    pub causes: Vec<ForcingExitsRow>,
    /// Runs of which only one end was seen.
    pub unpaired_runs: u64,
    /// Exits of powerpc guests. Without any run, every vCPU runs by itself: POWER9 and later.
    pub guest_exits: u64,
}

/// Exits that forced others out.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct ForcingExitsRow {
    /// The VM's process id; absent if the trace does not say.
    pub vm: Option<u32>,
    /// The vCPU that had to leave.
    pub vcpu: u32,
    /// Its exit reason.
    pub reason: String,
    /// Ganged runs in which it had it.
    pub runs: u64,
    /// Exits that were forced in these runs; where several threads had a reason, each has them all.
    pub forced_exits: u64,
    /// Time that those lost who were forced out, shared equally where several had a reason.
    pub forced_out_ns: u64,
}

impl GangRows {
    /// The ganged exits of these facts, if they are of a powerpc host; virtual cores of `threads` vCPUs, or as they were
    /// seen.
    pub fn of(facts: &Facts, info: &TraceInfo, threads: Option<u32>) -> Option<GangRows> {
        let gangs: &GangFacts = &facts.gangs;
        if gangs.guest_exits == 0 {
            return None;
        }
        Some(GangRows {
            vms: gangs.vms().iter().map(|(vm, cell)| cell.row(*vm, None, info, DurationStatsRow::of)).collect(),
            vcores: gangs.vcores(threads).iter().map(|vcore| vcore.row(info, DurationStatsRow::of)).collect(),
            causes: gangs
                .causes()
                .into_iter()
                .map(|((vm, vcpu, trap), cause)| ForcingExitsRow {
                    vm: (vm != VmId::UNKNOWN).then_some(vm.0),
                    vcpu: vcpu.0,
                    reason: ExitCode::new(CodeList::PpcTrap, u64::from(trap)).name(),
                    runs: cause.runs,
                    forced_exits: cause.forced,
                    forced_out_ns: cause.lost,
                })
                .collect(),
            unpaired_runs: gangs.unpaired,
            guest_exits: gangs.guest_exits,
        })
    }
}
