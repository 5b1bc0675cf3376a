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
    /// Core runs and exits by VM.
    pub vms: Vec<GangRow<DurationStatsRow>>,
    /// By virtual core, as `--threads-per-core` makes them or as the runs show them.
    pub vcores: Vec<GangRow<DurationStatsRow>>,
    /// Exits that forced others out, most forced first.
    pub causes: Vec<ForcingExitsRow>,
    /// By process, what the script of 2015 prints.
    pub script: Vec<GangScriptRow>,
    /// Time from being forced out until at the latest, of those whose next entry was not recorded: until their next run began, or,
    /// where somebody joined it, until they left it.
    pub forced_out_at_most_ns: u64,
    /// Runs of which only one end was seen.
    pub unpaired_runs: u64,
    /// Exits of powerpc guests. Without any run, every vCPU runs by itself: POWER9 and later.
    pub guest_exits: u64,
}

/// What the script of 2015 prints of one process.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct GangScriptRow {
    /// The process that ran virtual cores; absent if the trace does not say.
    pub process: Option<u32>,
    /// Runs at whose end more than one vCPU was runnable, less those that ceded since a thread of the process last began one.
    pub ganged_exits: u64,
}

/// Exits that forced others out.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct ForcingExitsRow {
    /// The VM's process id; absent if the trace does not say.
    pub vm: Option<u32>,
    /// The vCPU that had to leave.
    pub vcpu: u32,
    /// The exit reason for which it had to leave.
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
            script: gangs
                .script
                .ganged()
                .iter()
                .map(|(process, ganged)| GangScriptRow { process: process.number(), ganged_exits: *ganged })
                .collect(),
            forced_out_at_most_ns: gangs.vms().values().map(|stats| stats.lost_at_most).fold(0, u64::saturating_add),
            unpaired_runs: gangs.unpaired,
            guest_exits: gangs.guest_exits,
        })
    }
}

/// What the script prints, in its form: `perf script -s gang_exits.py` of the posting to linuxppc-dev in May 2015 ("perf/script: Script
/// to display the ganged exits count on powerpc"), whose sample is the reference. It prints processes in the order of a hash table;
/// here they are in the order of their numbers.
pub fn gang_script(rows: &[GangScriptRow]) -> String {
    let mut text = String::from("Ganged exits summary\n\n");
    for GangScriptRow { process, ganged_exits } in rows {
        let process = process.map_or("unknown".to_string(), |process| process.to_string());
        text += &format!("Ganged exits for process {process} : {ganged_exits:>26}\n");
    }
    text + "=======================================\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_scripts_form_is_that_of_its_sample() {
        let rows = [(14000, 535), (13988, 25314)]
            .map(|(process, ganged_exits)| GangScriptRow { process: Some(process), ganged_exits });
        assert_eq!(
            gang_script(&rows),
            "Ganged exits summary\n\
             \n\
             Ganged exits for process 14000 :                        535\n\
             Ganged exits for process 13988 :                      25314\n\
             =======================================\n"
        );
    }
}
