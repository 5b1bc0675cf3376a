//! What is shown of an interval, as plain data: the screen, the text and the JSON of `--batch` are all of this.
//!
//! ```text
//! Frame ─┬─ own: what watching costs      RateFigures: counts, rates and shares of the interval
//!        ├─ verdict, of the last intervals
//!        ├─ figures, of all VMs
//!        └─ vms: VmRow ─┬─ figures ─┬─ reasons, about, halts
//!                       ├─ kvm_halts or no_kvm_halts, gangs
//!                       └─ vcpus: TopVcpuRow ─ figures
//! ```

use exitscope_live::KvmHalts;
use exitscope_model::TimePart;
use exitscope_view::VerdictRow;
use schemars::JsonSchema;
use serde::Serialize;

/// An interval.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct Frame {
    /// Name and version of this layout. Fields may be added within a version; none changes its meaning.
    pub schema: &'static str,
    /// Its end, in seconds since 1970.
    pub time: f64,
    /// Length of the interval, in seconds.
    pub seconds: f64,
    /// The host's name, as `uname -n` prints it.
    pub host: String,
    /// The host kernel's release, as `uname -r` prints it.
    pub kernel: String,
    /// How events are counted: by BPF programs (`bpf`) or by perf events (`perf_events`).
    pub tracing_backend: &'static str,
    /// Why they are not counted by BPF; null where they are.
    pub bpf_error: Option<String>,
    /// Whether `kvm_exit` fires here; else exits are those that go to user space, and what the kernel tells of the others.
    pub has_kvm_exit: bool,
    /// Events since watching began that are in no figure, as a map or a ring was full.
    pub lost: u64,
    /// Events of the scheduler that were missed since watching began; by them, halted and steal may be cost, and cost these.
    pub missed: u64,
    /// What this watching costs the host.
    pub overhead: TopOverhead,
    /// What the last intervals come to, all VMs together; nothing until a vCPU was seen.
    pub verdict: Option<LiveVerdict>,
    /// The figures of all VMs together.
    pub figures: RateFigures,
    /// Every VM that is watched, by process.
    pub vms: Vec<VmRow>,
}

/// What watching costs.
#[derive(Clone, Copy, Debug, Default, Serialize, JsonSchema)]
pub struct TopOverhead {
    /// CPUs that exitscope itself keeps busy.
    pub cpus: f64,
    /// Events that were looked at, in a second.
    pub events_per_s: f64,
    /// Mean time of a BPF program for an event, in nanoseconds, of all runs that the kernel has measured; nothing before the
    /// first, and by perf events.
    pub ns_per_event: Option<f64>,
    /// The share of the vCPUs' time that this is.
    pub vcpu_share: Option<f64>,
}

/// What the last intervals come to, all VMs together.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct LiveVerdict {
    /// How long these intervals were together.
    pub seconds: f64,
    /// As of a report. Counts bear no advice: there is never a best change.
    #[serde(flatten)]
    pub verdict: VerdictRow,
    /// The cause of exits that costs most; null if the tables of advice do not have it, or it takes less than a hundredth of the vCPUs'
    /// time.
    pub costliest_cause: Option<TopCause>,
}

/// A cause of exits, and what the tables of advice know of it.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct TopCause {
    /// What advice calls it.
    pub name: String,
    /// Share of the vCPUs' wall time that its exits cost.
    pub cost: f64,
    /// The changes that may be advised, as short imperatives. Which of them helps, or whether any does, a recording tells.
    pub changes: Vec<String>,
    /// Why nothing changes it; null where changes may be advised, and where nobody can say without a recording.
    pub inherent: Option<String>,
}

/// A VM.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct VmRow {
    /// The process id of its VMM.
    pub pid: u32,
    /// The VM's name by its VMM's command line; where that has none, the name of the process.
    pub name: String,
    /// Whether the threads of all its vCPUs have ended.
    pub ended: bool,
    /// The figures of all its vCPUs together.
    pub figures: RateFigures,
    /// What KVM itself counts of its halts.
    pub kvm_halts: Option<KvmHalts>,
    /// Why there is no `kvm_halts`; null where there is.
    pub no_kvm_halts: Option<String>,
    /// Its virtual cores' runs, if they have any (POWER7 and POWER8).
    pub gangs: Option<TopGangRow>,
    /// Each vCPU that left its guest since watching began, by number.
    pub vcpus: Vec<TopVcpuRow>,
}

/// A virtual CPU.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct TopVcpuRow {
    /// Its number, as far as its thread's name, KVM or an event has it.
    pub vcpu: Option<u32>,
    /// The id of its thread; null if it is not known.
    pub tid: Option<u32>,
    /// Whether its thread has ended.
    pub ended: bool,
    /// The reason of the exit that it was in at the end of the interval; null if it was in none.
    pub open_reason: Option<String>,
    /// For how long it had been in that exit at the end of the interval, in nanoseconds.
    pub open_ns: Option<u64>,
    /// The figures of this vCPU.
    pub figures: RateFigures,
}

/// Runs of a VM's virtual cores: their threads leave the guest together, whoever had to.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct TopGangRow {
    /// Core runs per second.
    pub runs_per_s: f64,
    /// Share of them that one thread's exit ended for others that worked.
    pub ganged: Option<f64>,
    /// Exits in a second that were forced: the thread had no reason of its own.
    pub forced_exits_per_s: f64,
    /// Share of the exits of threads that worked that this is.
    pub forced_exits: Option<f64>,
    /// Share of the vCPUs' wall time from being forced out to the next entry.
    pub forced_out: Option<f64>,
    /// What forced others out, most forced first.
    pub causes: Vec<GangCause>,
}

/// Exits of a vCPU that forced others out.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct GangCause {
    /// The number of the vCPU that had to leave.
    pub vcpu: u32,
    /// The exit reason for which it had to leave.
    pub reason: String,
    /// Runs in a second that it ended so.
    pub runs_per_s: f64,
    /// Exits in a second that it forced; where several threads had a reason, each has them all.
    pub forced_exits_per_s: f64,
    /// Share of the VM's vCPUs' wall time that it took from those.
    pub forced_out: Option<f64>,
}

/// How vCPUs fared.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct RateFigures {
    /// Number of exits in the interval.
    pub exits: u64,
    /// Exits per second.
    pub exits_per_s: f64,
    /// The vCPUs' wall time in the interval, in seconds: from the first event of each on, and until its thread ended.
    pub vcpu_seconds: f64,
    /// Share of that time that exits cost: in the kernel and in user space; nothing where there were exits and no length of one
    /// is known. This and every other share of that time is nothing where there was none.
    pub cost: Option<f64>,
    /// Share in which the host polled for a wake-up before it blocked a halted vCPU.
    pub polling: Option<f64>,
    /// Share in which they were blocked because the guest had halted.
    pub halted: Option<f64>,
    /// Share of halts that cannot be divided, as nothing tells when the thread slept (POWER).
    pub halt_not_divided: Option<f64>,
    /// Share in which they were blocked until a page was there.
    pub waiting_for_memory: Option<f64>,
    /// Share in which their threads were runnable and had no CPU; nothing where the scheduler does not tell.
    pub steal: Option<f64>,
    /// Share in which the VMM kept them from running.
    pub stopped: Option<f64>,
    /// Share that nothing explains: where `kvm_exit` does not fire, all that runs within `KVM_RUN`.
    pub unknown: Option<f64>,
    /// The rest: in the guest.
    pub guest: Option<f64>,
    /// Share of exits that user space answered; nothing where there was none.
    pub to_user_space: Option<f64>,
    /// The 99th percentile of their lengths in nanoseconds, halts left out.
    pub p99_ns: Option<u64>,
    /// How many of each length ended in the interval, halts left out: lower bound in nanoseconds, count.
    pub histogram: Vec<(u64, u64)>,
    /// By reason, what cost most first.
    pub reasons: Vec<TopGroupRow>,
    /// By what they were about, what cost most first.
    pub subjects: Vec<TopGroupRow>,
    /// Halts that a poll ended, and those that blocked.
    pub halts: Vec<TopGroupRow>,
    /// How long KVM polls when a vCPU halts, in nanoseconds, of the vCPU where that is longest, if it changed since.
    pub poll_ns: Option<u32>,
}

/// A group of exits or halts.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct TopGroupRow {
    /// `reason`; the kind of what it is about, like `port`; or `halt`.
    pub kind: &'static str,
    /// The exit reason, the subject, or the kind of halt.
    pub name: String,
    /// The number of the subject: port, address of the page, MSR, …; null of reasons and halts.
    pub key: Option<u64>,
    /// Number of exits or halts in the interval.
    pub count: u64,
    /// Exits or halts per second.
    pub per_s: f64,
    /// Share of the vCPUs' wall time that they cost: in the kernel and in user space; nothing where no length is known, and of
    /// halts, whose cost is that of the exits that they lie in.
    pub cost: Option<f64>,
    /// Share of the vCPUs' wall time in them, whatever it was; nothing where no length is known.
    pub exit_time: Option<f64>,
    /// Share that user space answered; nothing where none ended, and of halts.
    pub to_user_space: Option<f64>,
    /// Mean length in nanoseconds, of those that ended in the interval; null if none did.
    pub mean_ns: Option<u64>,
    /// Median length in nanoseconds, of those that ended in the interval; null if none did.
    pub p50_ns: Option<u64>,
    /// 99th percentile of their lengths in nanoseconds; null if none ended in the interval.
    pub p99_ns: Option<u64>,
    /// How many of each length ended in the interval: lower bound in nanoseconds, count.
    pub histogram: Vec<(u64, u64)>,
}

impl TopGroupRow {
    /// Its name, with the kind of what exits were about.
    pub(crate) fn label(&self) -> String {
        match self.kind {
            "reason" | "halt" => self.name.clone(),
            kind => format!("{kind} {}", self.name),
        }
    }
}

impl RateFigures {
    /// The share of a part of the vCPUs' time. All of the cost is the kernel's here; of steal there is nothing where the
    /// scheduler does not tell.
    pub(crate) fn share_of(&self, part: TimePart) -> Option<f64> {
        match part {
            TimePart::Kernel => self.cost,
            TimePart::Guest => self.guest,
            TimePart::Polling => self.polling,
            TimePart::Halted => self.halted,
            TimePart::Undivided => self.halt_not_divided,
            TimePart::Memory => self.waiting_for_memory,
            TimePart::Steal => self.steal,
            TimePart::Stopped => self.stopped,
            TimePart::Unknown => self.unknown,
            TimePart::User | TimePart::Excluded => None,
        }
    }
}
