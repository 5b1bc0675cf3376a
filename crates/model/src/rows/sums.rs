//! Tables of sums, and of distributions, which can be added up over recordings: of exits, of halts, of ganged exits.
//!
//! Rows of halts and of ganged exits are generic in how they hold lengths of time: as facts have them, as figures, or as
//! buckets ([`Spread`]).

use super::WhoRow;
use super::who::{OfVcpu, who_columns};
use crate::{Column, ExitParts, Of};
use schemars::JsonSchema;
use serde::Serialize;

/// Lengths of time of one kind, which can be added up.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Spread {
    /// Sum of these lengths, in nanoseconds.
    pub sum_ns: u64,
    /// Longest of these lengths, in nanoseconds; none if there is none.
    pub max_ns: Option<u64>,
    /// Each bucket's shortest, and how many there are in it; 32 buckets to a doubling.
    pub buckets: Vec<(u64, u64)>,
}

/// Exits of one vCPU and one reason, in a stretch of time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SumRow {
    /// The vCPU that these exits are of.
    pub who: WhoRow,
    /// How many vCPUs its VM has in this recording.
    pub vm_vcpus: u32,
    /// When the stretch begins, on the recording's clock.
    pub at_ns: u64,
    /// Length of the stretch, in nanoseconds.
    pub span_ns: u64,
    /// The exit reason.
    pub reason: String,
    /// Number of exits.
    pub count: u64,
    /// Exits of which both ends were seen; all times are of these alone.
    pub timed: u64,
    /// Exits that user space, or Xen's device model, answered.
    pub user_space_exits: u64,
    /// Their time by part.
    pub parts: ExitParts,
    /// The shortest exit of which the two ends bear different moments.
    pub min_ns: Option<u64>,
    /// The longest exit, in nanoseconds.
    pub max_ns: u64,
    /// Lengths from exit to entry: each bucket's shortest, and how many there are in it; 32 buckets to a doubling.
    pub exit_times: Vec<(u64, u64)>,
}

/// The halts of one vCPU, or of all.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(rename = "HaltRow")]
pub struct HaltRow<L> {
    /// The vCPU; its fields are absent in a row of all vCPUs together.
    #[serde(flatten)]
    pub who: WhoRow,
    /// Whether `kvm_vcpu_wakeup` was recorded; if not, halts are the exits for one.
    pub has_wakeup_events: bool,
    /// Number of halts.
    pub halts: u64,
    /// Exits for a halt that found something pending, and did not halt.
    pub pending: u64,
    /// Halts that ended before the vCPU's thread blocked, as in a successful poll. Absent without `kvm_vcpu_wakeup`.
    pub not_blocked: Option<u64>,
    /// Halts whose thread blocked. Absent without `kvm_vcpu_wakeup`.
    pub blocked: Option<u64>,
    /// Wake-ups that nothing came of (s390).
    pub invalid: u64,
    /// Halts that a sibling ended by `KVM_HC_KICK_CPU`: waits for a paravirtual spinlock.
    pub kicked: u64,
    /// Exits for a halt whose end a loss or the recording's end hides.
    pub unfinished: u64,
    /// Halts that user space does (`KVM_EXIT_HLT`): KVM neither polls for them nor traces them.
    pub in_user_space: u64,
    /// Lengths of the gaps: from the exit until something woke the vCPU.
    pub gaps: L,
    /// Gaps that include the way back to the CPU, because nothing says what woke the vCPU when.
    pub inexact_gaps: u64,
    /// Wake-up latencies, of all halts whose gap is exact.
    pub latency: L,
    /// Wake-up latencies of halts that ended before they blocked.
    pub latency_not_blocked: L,
    /// Wake-up latencies of halts that blocked.
    pub latency_blocked: L,
    /// Successful polls: the vCPU's thread did not block.
    pub successful_polls: u64,
    /// CPU time of successful polls.
    pub poll_success_ns: u64,
    /// CPU time of failed polls; absent without `kvm_halt_poll_ns`.
    pub poll_fail_ns: Option<u64>,
    /// Number of failed polls; absent without `kvm_halt_poll_ns`.
    pub failed_polls: Option<u64>,
    /// From the beginning of halts until the thread blocked: what polls that failed took at most; from scheduler events.
    pub before_block_ns: Option<u64>,
    /// Times KVM made its poll longer, as far as it traced that.
    pub grown: u64,
    /// Times KVM made its poll shorter, as far as it traced that.
    pub shrunk: u64,
}

/// The core runs of one VM or of one virtual core (powerpc).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(rename = "GangRow")]
pub struct GangRow<L> {
    /// The VM's process id; absent if the trace does not say.
    pub vm: Option<u32>,
    /// The VM's name, or its process's; absent if the recording has none.
    pub vm_name: Option<String>,
    /// The virtual core's vCPUs, as far as they were seen to run; absent of a VM.
    pub vcpus: Option<Vec<u32>>,
    /// Core runs of which both ends were seen.
    pub runs: u64,
    /// Runs that the rule of the script of 2015 counts: more than one vCPU runnable at the end, less those that ceded.
    pub ganged_script: u64,
    /// Runs that at least two threads left that had not ceded.
    pub runs_of_several: u64,
    /// Of these, runs that ended for all of them with the hypervisor decrementer: nobody forced anybody.
    pub decrementer: u64,
    /// Of these, the others: one thread's exit took the rest along.
    pub ganged: u64,
    /// Exits of threads that had not ceded.
    pub exits: u64,
    /// Exits that were forced: the thread had no reason of its own.
    pub forced_exits: u64,
    /// Threads that did not get into the guest, because others were leaving already.
    pub entry_refused: u64,
    /// vCPUs that joined a run under way.
    pub joined: u64,
    /// CPUs that recorded the runs: of a core, its first thread.
    pub cpus: Vec<u32>,
    /// From being forced out to the next entry, other VMs' turns on the core included; needs kvm_guest_enter.
    pub forced_out: L,
}

impl OfVcpu for SumRow {
    fn who(&self) -> &WhoRow {
        &self.who
    }
}

impl OfVcpu for HaltRow<Spread> {
    fn who(&self) -> &WhoRow {
        &self.who
    }
}

/// A number of every row; or with `?`, one that rows may lack.
macro_rules! number {
    ($row:ty: $name:expr, $unit:literal, $prose:expr, $($field:ident).+) => {
        Column::new($name, $unit, $prose, Of::U64(|row: &$row| Some(row.$($field).+)))
    };
    ($row:ty: $name:expr, $unit:literal, $prose:expr, $($field:ident).+ ?) => {
        Column::new($name, $unit, $prose, Of::U64(|row: &$row| row.$($field).+)).nullable()
    };
}

/// Two lists: the shortest length of each bucket, and how many are in it.
macro_rules! buckets {
    ($row:ty: $name:literal, $($field:ident).+) => {
        [
            Column::new(
                concat!($name, "_bucket_ns"),
                "ns",
                "Their distribution: the least of each bucket, 32 buckets to a doubling.",
                Of::Numbers(|row: &$row| row.$($field).+.iter().map(|bucket| bucket.0).collect()),
            ),
            Column::new(
                concat!($name, "_bucket_count"),
                "",
                "How many are in each bucket.",
                Of::Numbers(|row: &$row| row.$($field).+.iter().map(|bucket| bucket.1).collect()),
            ),
        ]
    };
}

/// Lengths of one kind: their sum, the longest, their distribution.
macro_rules! spread {
    ($row:ty: $name:literal, $prose:literal, $field:ident) => {
        [
            number!($row: concat!($name, "_sum_ns"), "ns", concat!($prose, ": their sum."), $field.sum_ns),
            number!($row: concat!($name, "_max_ns"), "ns", concat!($prose, ": the longest."), $field.max_ns ?),
        ]
        .into_iter()
        .chain(buckets!($row: $name, $field.buckets))
    };
}

/// The columns of sums of exits.
pub fn sum_columns() -> Vec<Column<SumRow>> {
    let mut columns = who_columns();
    columns.extend([
        Column::new(
            "reason",
            "",
            "The exit reason, in the kernel's spelling.",
            Of::Words(|row: &SumRow| Some(&row.reason)),
        ),
        number!(SumRow: "count", "", "Exits.", count),
        number!(SumRow: "timed", "", "Exits of which both ends were seen; all times are of these alone.", timed),
        number!(
            SumRow: "user_space_exits",
            "",
            "Exits that user space, or Xen's device model, answered.",
            user_space_exits
        ),
    ]);
    columns.extend(super::part_columns!(SumRow, |row| Some(&row.parts)));
    columns.extend([
        number!(SumRow: "min_ns", "ns", "The shortest exit of which the two ends bear different moments.", min_ns ?),
        number!(SumRow: "max_ns", "ns", "The longest exit.", max_ns),
    ]);
    columns.extend(buckets!(SumRow: "exit_time", exit_times));
    // Files of before these were thought of have none of them.
    columns.extend([
        Column::new(
            "vm_vcpus",
            "",
            "How many vCPUs the VM has in this recording.",
            Of::U32(|row: &SumRow| Some(row.vm_vcpus)),
        )
        .nullable(),
        number!(SumRow: "at_ns", "ns", "When the stretch of time begins that the exits are of, on the recording's clock.", at_ns)
            .nullable(),
        number!(SumRow: "span_ns", "ns", "How long it is; a recording has 32 of the same length.", span_ns).nullable(),
    ]);
    columns
}

type Halts = HaltRow<Spread>;

/// The columns of halts, by vCPU.
pub fn halt_columns() -> Vec<Column<HaltRow<Spread>>> {
    let mut columns = who_columns();
    columns.extend([
        number!(Halts: "halts", "", "Halts.", halts),
        number!(Halts: "pending", "", "Exits for a halt that found something pending, and did not halt.", pending),
        number!(Halts: "not_blocked", "", "Halts that ended before the vCPU's thread blocked, as in a successful poll; absent without `kvm_vcpu_wakeup`.", not_blocked ?),
        number!(Halts: "blocked", "", "Halts that blocked, likewise.", blocked ?),
        number!(Halts: "invalid", "", "Wake-ups that nothing came of (s390).", invalid),
        number!(Halts: "kicked", "", "Halts that a sibling ended by KVM_HC_KICK_CPU: waits for a paravirtual spinlock.", kicked),
    ]);
    columns.extend(spread!(Halts: "gap", "From the exit to what woke the vCPU", gaps));
    columns.push(number!(
        Halts: "inexact_gaps",
        "",
        "Gaps that include the way back to the CPU, because nothing says what woke the vCPU when.",
        inexact_gaps
    ));
    columns.extend(spread!(Halts: "latency", "From what woke the vCPU to its entry, of exact gaps", latency));
    columns.extend([
        number!(Halts: "successful_polls", "", "Successful polls: the vCPU's thread did not block.", successful_polls),
        number!(Halts: "poll_success_ns", "ns", "CPU time of successful polls.", poll_success_ns),
        number!(Halts: "poll_fail_ns", "ns", "CPU time of failed polls; absent without `kvm_halt_poll_ns`.", poll_fail_ns ?),
        number!(Halts: "failed_polls", "", "Failed polls, likewise.", failed_polls ?),
        number!(Halts: "grown", "", "Times KVM made its poll longer.", grown),
        number!(Halts: "shrunk", "", "Times KVM made its poll shorter.", shrunk),
    ]);
    columns
}

type Gangs = GangRow<Spread>;

/// The columns of ganged exits, by virtual core.
pub fn gang_columns() -> Vec<Column<GangRow<Spread>>> {
    let mut columns = vec![
        Column::new("vm", "", "The VM's process id.", Of::U32(|row: &Gangs| row.vm)).nullable(),
        Column::new("vm_name", "", "The VM's process name.", Of::Words(|row: &Gangs| row.vm_name.as_deref()))
            .nullable(),
        Column::new(
            "vcore",
            "",
            "The first vCPU of a virtual core, as the runs show it.",
            Of::U32(|row: &Gangs| row.vcpus.as_ref()?.first().copied()),
        )
        .nullable(),
        Column::new(
            "vcpus",
            "",
            "How many vCPUs of it were seen.",
            Of::U64(|row: &Gangs| Some(row.vcpus.as_ref().map_or(0, Vec::len) as u64)),
        ),
        number!(Gangs: "runs", "", "Core runs of which both ends were seen.", runs),
        number!(Gangs: "ganged_script", "", "Runs that the rule of the script of 2015 counts.", ganged_script),
        number!(Gangs: "runs_of_several", "", "Runs that at least two threads left that had not ceded.", runs_of_several),
        number!(Gangs: "decrementer", "", "Of these, runs that ended for all of them with the hypervisor decrementer.", decrementer),
        number!(Gangs: "ganged", "", "Of these, the others: one thread's exit took the rest along.", ganged),
        number!(Gangs: "exits", "", "Exits of threads that had not ceded.", exits),
        number!(Gangs: "forced_exits", "", "Exits that were forced.", forced_exits),
        number!(
            Gangs: "entry_refused",
            "",
            "Threads that did not get into the guest, because others were leaving already.",
            entry_refused
        ),
        number!(Gangs: "joined", "", "vCPUs that joined a run under way.", joined),
    ];
    columns.extend(spread!(Gangs: "forced_out", "From being forced out to the next entry", forced_out));
    columns
}
