//! A report as plain data: what JSON shows and every picture is drawn from.

use crate::advice::{AdviceReport, AdvisedCauseRow};
use crate::exit_bound::ExitBoundRow;
use crate::gang::GangRows;
use crate::halt::HaltRows;
use crate::hidden::HiddenTime;
use crate::host_settings::{self, HostSettingRow};
use crate::idle_polls::IdlePollRows;
use crate::interrupts::InterruptRows;
use crate::names;
use crate::phases::PhaseRows;
use crate::pio::PioRows;
use crate::steal_takers::StealTakerRow;
use crate::times::{ExitSums, ExitTimes, VcpuTimes};
use crate::verdict::VerdictRow;
use crate::vm_identities::{self, VmIdentityRow};
use crate::yields::YieldRows;
use exitscope_advice::{RecordedHost, unjudged_causes};
use exitscope_analysis::record_commands::HowToRecord;
use exitscope_analysis::{
    Breach, Dimension, DimensionValue, ExitGroups, ExitStats, Facts, MomentSpec, RecordedHaltPolling, Selection,
    StateTimes, StayStats, SubjectKey, Timeline, VcpuTime,
};
use exitscope_model::{
    EventKinds, Exit, KvmActivity, Ledger, LedgerLine, RunState, Severity, SubjectName, SubjectNames, TraceInfo,
    VcpuIdentity, WhoRow,
};
use exitscope_units::{Moment, Nanos, VmId};
use schemars::JsonSchema;
use serde::{Serialize, Serializer};
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::fmt;

/// Where the time of VM exits went. All lengths are in nanoseconds, all moments in nanoseconds on the trace's clock.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Report {
    /// Name and version of this layout. Fields may be added within a version; none changes its meaning.
    pub schema: &'static str,
    /// The recordings that were read.
    pub traces: Vec<TraceRow>,
    /// What was seen, and what was seen and not used.
    pub coverage: Coverage,
    /// Which kinds of events the recordings have.
    pub event_kinds: EventKindsRow,
    /// Where the time goes, in a sentence, and how sure that is.
    pub verdict: VerdictRow,
    /// What takes more than 5 % of the cost of all exits, or 1 % of the vCPUs' time, of all VMs together: reason and subject, costliest
    /// first; and what rules say of it, if any looked at the recording.
    pub causes: Vec<AdvisedCauseRow>,
    /// Which exits were looked at.
    pub selection: SelectionRow,
    /// How to record what is missed.
    #[serde(skip)]
    pub how: HowToRecord,
    /// Time from the first to the last event, within --from and --to, summed over the traces.
    pub duration_ns: u64,
    /// How the wall time of each virtual CPU divides.
    pub vcpus: Vec<VcpuRow>,
    /// What of the guests' time no tracepoint sees, at most. Absent without --hidden.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hidden: Option<HiddenTime>,
    /// How long Xen's scheduler had each virtual CPU in each run state; empty for traces of others.
    pub run_states: Vec<RunStatesRow>,
    /// Who had the CPUs for which vCPUs waited, by VM; empty without steal, and where no sched_switch says who has a CPU.
    pub steal_takers: Vec<StealTakerRow>,
    /// The dimensions of `rows`.
    #[serde(serialize_with = "dim_names")]
    #[schemars(with = "Vec<String>")]
    pub by: Vec<Dimension>,
    /// All selected exits together; lengths (`min_ns` to `max_ns`) are of those that are not of `total_without`.
    pub total: ExitFigures,
    /// The reasons at which vCPUs halt: how long they do says nothing of how long exits take.
    pub exit_times_without: Vec<String>,
    /// Exits grouped by `by`, in the order of --sort. A last row without any of those fields stands for all groups
    /// beyond those that are kept.
    pub rows: Vec<GroupRow>,
    /// Rows left out by --top.
    pub rows_left_out: usize,
    /// Exits that have no place along one of the dimensions (with `port`: all that are not about a port).
    pub ungrouped_exits: u64,
    /// What exits were about, by kind and number, most costly first; not those of nested guests.
    pub subjects: Vec<SubjectRow>,
    /// Interrupts injected at the entries that ended exits.
    pub injected: Vec<InjectedRow>,
    /// Events that show what KVM does beside exits; not narrowed to vCPUs, reasons or lengths. What was not recorded is not here.
    pub signs: Vec<SignRow>,
    /// The slowest single exits, by cost and steal.
    pub slowest: Vec<SlowExitRow>,
    /// Exits over time, for one trace.
    pub timeline: Option<TimelineRows>,
    /// Ganged exits; not narrowed to vCPUs, reasons or lengths. Absent unless the host is a powerpc.
    pub gang: Option<GangRows>,
    /// Halts; not narrowed to reasons or lengths. Absent if there are none.
    pub halt: Option<HaltRows>,
    /// Polls of idle CPUs by the events of the kernel that recorded, as of a guest; narrowed to moments alone. Left out if there are none, and of
    /// recordings of exits without changes of a guest's limit: CPUs of hosts poll, too.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub idle_polls: Option<IdlePollRows>,
    /// Accesses to ports and to emulated memory. Absent if there are none.
    pub pio: Option<PioRows>,
    /// The steps of exits. Absent if no exit is timed.
    pub phases: Option<PhaseRows>,
    /// Yields, preemptions and the run queue; not narrowed to reasons or lengths. Absent if there are none.
    #[serde(rename = "yield")]
    pub yields: Option<YieldRows>,
    /// What inhibits APICv and AVIC, and exits for the local APIC; not narrowed to reasons or lengths. Absent if there is neither.
    pub interrupts: Option<InterruptRows>,
    /// Thresholds of --fail-on that were passed.
    pub breaches: Vec<BreachRow>,
}

/// A trace that was read.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct TraceRow {
    /// The file, as it was given; `-` is standard input.
    pub name: String,
    /// The format of the file, such as `perf.data`.
    pub format: String,
    /// Machine architecture, as `uname -m` says it; where the trace does not say it, what that begins with, as the exits show;
    /// empty if unknown.
    pub arch: String,
    /// Host name; empty if unknown.
    pub hostname: String,
    /// Kernel release; empty if unknown.
    pub release: String,
    /// The clock's name; empty if unknown.
    pub clock: String,
    /// Ticks of the clock in a second, where they were given by hand (`--tsc-hz`); left out where the trace says them, or needs none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub given_hz: Option<u64>,
    /// The CPU's model; empty if unknown.
    pub cpu: String,
    /// CPUs of the machine; 0 if unknown.
    pub cpus: u32,
    /// What was in force on the machine, and what the recorder says of itself; empty unless the recorder says.
    pub settings: Vec<HostSettingRow>,
    /// What the VMs are called by those who run them, as the recorder found them when it began; left out unless it says.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub vms: Vec<VmIdentityRow>,
    /// The moment of the first event, in nanoseconds on the trace's clock.
    pub first_ns: u64,
    /// The moment of the last event, in nanoseconds on the trace's clock.
    pub last_ns: u64,
    /// Number of events that were read.
    pub events: u64,
}

/// Which exits were looked at; an empty list or an absent field leaves nothing out.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct SelectionRow {
    /// The process ids of the VMs (`--vm`); on Xen their domains' numbers.
    pub vms: Vec<u32>,
    /// The numbers of the vCPUs (`--vcpu`).
    pub vcpus: Vec<u32>,
    /// Exit reasons, as they were given.
    pub reasons: Vec<String>,
    /// Not before.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from: Option<MomentSpecRow>,
    /// Not after.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub to: Option<MomentSpecRow>,
    /// Only exits longer than this, whatever they hold.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub longer_than_ns: Option<u64>,
    /// Only exits of which this condition holds.
    #[serde(rename = "where", skip_serializing_if = "Option::is_none")]
    pub condition: Option<String>,
}

/// A moment as it was given.
#[derive(Clone, Copy, Debug, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum MomentSpecRow {
    /// On the trace's clock.
    AtNs(u64),
    /// After the trace's first event.
    AfterFirstNs(u64),
}

/// What was seen, and what was seen and not used.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Coverage {
    /// Number of events that were read.
    pub events: u64,
    /// Number of exits that these events make up.
    pub exits: u64,
    /// Exits of which both ends were seen, so that they have a length.
    pub timed_exits: u64,
    /// Records that were lost, as the recorder and the kernel's own counts say; null if a recording does not say whether any
    /// was, and no other lost one.
    pub lost: Option<u64>,
    /// Whether a part of a recording is missing, nobody knows how much: its recorder did not end in order, the file has less
    /// than it says, or it does not unpack.
    pub truncated: bool,
    /// Everything that was seen and not used.
    pub lines: Vec<CoverageLine>,
}

/// What the traces tell at all. Where one does not, figures of it are zero and mean nothing, and that time is in others.
#[derive(Clone, Copy, Debug, Serialize, JsonSchema)]
pub struct EventKindsRow {
    /// Which exits went on to user space (kvm_userspace_exit), or to Xen's device model (run states). If not, the time there
    /// is counted as the kernel's.
    pub user_space: bool,
    /// When vCPUs had no CPU (sched_switch; on Xen, run states; on powerpc, when other virtual cores had it). If not, that time is
    /// counted as whatever they were doing.
    pub scheduler: bool,
    /// Whether that is all such time: on powerpc without sched_switch other tasks' is not, and without sched_wakeup what ends a sleep is
    /// not. If not, the rest is counted as whatever they were doing.
    pub all_steal: bool,
    /// When user space entered KVM_RUN again (kvm_fpu, sys_enter_ioctl; of Xen always). If not, the kernel's way from there into the
    /// guest is counted as user space's.
    pub kvm_run: bool,
    /// powerpc: threads record for several vCPUs.
    #[serde(skip)]
    pub by_runner: bool,
    /// Whether there was `sched_switch`, or run states.
    #[serde(skip)]
    pub switches: bool,
    /// Sleeps that ended, and how many of them without a wake-up.
    #[serde(skip)]
    pub sleeps: (u64, u64),
}

impl EventKindsRow {
    /// Those of facts.
    pub fn of(kinds: EventKinds, is_xen: bool) -> EventKindsRow {
        EventKindsRow {
            user_space: kinds.handlers,
            scheduler: kinds.tell_steal(),
            all_steal: kinds.tell_all_steal(),
            kvm_run: kinds.runs || is_xen,
            by_runner: kinds.by_runner,
            switches: kinds.switches,
            sleeps: (kinds.sleeps, kinds.unwoken_sleeps),
        }
    }

    /// Whether this much steal says how much there was: none of what is a part of it does not say none.
    pub(crate) fn tells_steal(&self, steal: u64) -> bool {
        self.scheduler && (self.all_steal || steal > 0)
    }
}

/// Something that was seen and not used.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct CoverageLine {
    /// What it is, as docs/losses.md lists it.
    pub id: &'static str,
    /// `info`, `notice`, `loss` or `error`.
    #[schemars(extend("enum" = ["info", "notice", "loss", "error"]))]
    pub severity: &'static str,
    /// Events, exits, vCPUs or files, as the line says.
    pub count: u64,
    /// Where the first was met: byte offset, or line number for text traces.
    pub first_at: Option<u64>,
    /// When the first few were, in nanoseconds on the trace's clock; empty where that is not kept.
    pub moments_ns: Vec<u64>,
    /// One sentence.
    pub text: &'static str,
}

/// How the wall time of one virtual CPU divides.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct VcpuRow {
    /// The vCPU.
    #[serde(flatten)]
    pub who: WhoRow,
    /// From its first entry or exit to the last event that tells of it.
    pub span_ns: u64,
    /// The parts of this time.
    #[serde(flatten)]
    pub times: VcpuTimes,
    /// What its exits cost: kernel and user space; null if no exit of the recording has a length.
    pub cost_ns: Option<u64>,
    /// Number of its exits.
    pub exits: u64,
}

/// How long Xen's scheduler had a virtual CPU in each run state. Stays that the recording's begin cuts are left out,
/// and what follows the last record of those that its end cuts.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct RunStatesRow {
    /// The vCPU.
    #[serde(flatten)]
    pub who: WhoRow,
    /// Running on a physical CPU.
    pub running: StayStatsRow,
    /// Runnable after it had been blocked or offline: waiting for a physical CPU.
    pub woken: StayStatsRow,
    /// Preempted: runnable, waiting for a physical CPU.
    pub preempted: StayStatsRow,
    /// Blocked, as when its guest has halted.
    pub blocked: StayStatsRow,
    /// Offline: waiting for the device model, or paused without a record that shows it.
    pub offline: StayStatsRow,
    /// Paused, as a record of the scheduler shows.
    pub paused: StayStatsRow,
    /// Unknown: records were lost, or contradict one another.
    pub unknown: StayStatsRow,
}

/// Stays in a run state.
#[derive(Clone, Copy, Debug, Serialize, JsonSchema)]
pub struct StayStatsRow {
    /// Number of stays.
    pub count: u64,
    /// Time in this state, all stays together, in nanoseconds.
    pub ns: u64,
}

/// The figures of a group of exits.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct ExitFigures {
    /// Number of exits.
    pub count: u64,
    /// Exits of which both ends were seen; all times are of these alone.
    pub timed: u64,
    /// Exits per second of the time in which vCPUs were seen; in a bucket of time, of the bucket.
    pub rate_per_s: f64,
    /// From exit to entry, everything included; null if there are exits and none has a length, as all times.
    pub exit_time_ns: Option<u64>,
    /// What the exits cost: kernel and user space, nothing else.
    pub cost_ns: Option<u64>,
    /// Share of the cost of all selected exits, 0 to 1.
    pub share_of_cost: Option<f64>,
    /// The parts of this time.
    #[serde(flatten)]
    pub times: ExitSums,
    /// Shortest, from exit to entry; without exits whose two timestamps are equal.
    pub min_ns: Option<u64>,
    /// Mean, from exit to entry.
    pub mean_ns: Option<u64>,
    /// Median; exact of up to 32, else to within 1/32 of its value, as all percentiles.
    pub p50_ns: Option<u64>,
    /// 90th percentile.
    pub p90_ns: Option<u64>,
    /// 99th percentile.
    pub p99_ns: Option<u64>,
    /// 99.9th percentile.
    pub p999_ns: Option<u64>,
    /// Longest, from exit to entry.
    pub max_ns: Option<u64>,
    /// Share that user space, or Xen's device model, answered, 0 to 1.
    pub user_space_share: f64,
}

/// A group of exits.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct GroupRow {
    /// Which group.
    #[serde(flatten)]
    pub place: GroupKeyRow,
    /// Its figures.
    #[serde(flatten)]
    pub figures: ExitFigures,
}

/// Which group: one field for each dimension of `by`.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct GroupKeyRow {
    /// The virtual CPU or VM.
    #[serde(flatten)]
    pub who: WhoRow,
    /// The exit reason, in the kernel's spelling.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Who answered: `kernel`, user space with this KVM_EXIT_* reason, or `device model`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub handler: Option<String>,
    /// The port.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub port: Option<u64>,
    /// First address of the 4 KiB page.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mmio: Option<u64>,
    /// The MSR.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub msr: Option<u64>,
    /// The hypercall's number.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hypercall: Option<u64>,
    /// The CPUID leaf.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpuid: Option<u64>,
    /// The guest's instruction pointer; with --guestkallsyms, where its function begins.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rip: Option<u64>,
    /// The guest's function, of --guestkallsyms.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub function: Option<String>,
    /// The kind of subject: `port`, `mmio`, `msr`, `host_vector`, …; absent of exits without subject.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub subject_kind: Option<&'static str>,
    /// Port, first address of the page, MSR, hypercall number, CPUID leaf, error code, …
    #[serde(skip_serializing_if = "Option::is_none")]
    pub subject_key: Option<u64>,
    /// What the subject is called.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub subject_name: Option<SubjectName>,
    /// `in`/`out`, `read`/`write`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub direction: Option<&'static str>,
    /// The physical CPU.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu: Option<u32>,
    /// Beginning of the bucket of time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub time_ns: Option<u64>,
    /// For a person: the parts in the order of `by`.
    #[serde(skip)]
    pub labels: Vec<String>,
}

/// What exits were about.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct SubjectRow {
    /// `port`, `mmio`, `msr`, `hypercall`, `cpuid`, `page_fault`, …
    pub subject_kind: &'static str,
    /// Port, first address of the page, MSR, hypercall number, CPUID leaf, error code, …
    pub subject_key: u64,
    /// What it is called, where it has a name.
    pub subject_name: Option<SubjectName>,
    /// `in`/`out`, `read`/`write`, where that has a meaning.
    pub direction: Option<&'static str>,
    /// Its figures.
    #[serde(flatten)]
    pub figures: ExitFigures,
    /// For a person.
    #[serde(skip)]
    pub label: String,
    /// The heading under which a person finds it.
    #[serde(skip)]
    pub heading: &'static str,
}

/// Interrupts injected with one vector.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct InjectedRow {
    /// The interrupt's vector, as the guest sees it.
    pub vector: u32,
    /// What it is called, where somebody said which Linux the guests are.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<SubjectName>,
    /// How often an interrupt with this vector was injected.
    pub count: u64,
}

/// Events of one kind that show what KVM does.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct SignRow {
    /// The process in whose threads they were: the VMM, or a thread of the kernel (khugepaged, ksmd, kswapd), which does not say
    /// whose memory it worked on. Absent if the trace does not say.
    pub process: Option<u32>,
    /// The name of that process; absent if the recording has none.
    pub process_name: Option<String>,
    /// The tracepoint.
    pub event: &'static str,
    /// What the event shows of KVM, in words.
    pub what: String,
    /// Number of events.
    pub count: u64,
}

impl SignRow {
    fn of(vm: VmId, sign: KvmActivity, count: u64, info: &TraceInfo) -> SignRow {
        SignRow {
            process: (vm != VmId::UNKNOWN).then_some(vm.0),
            process_name: info.vm_name(vm),
            event: sign.event(),
            what: sign.what(&info.release),
            count,
        }
    }
}

/// One of the slowest exits.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct SlowExitRow {
    /// When it left its guest, in nanoseconds on the trace's clock.
    pub at_ns: u64,
    /// The vCPU that left its guest.
    #[serde(flatten)]
    pub who: WhoRow,
    /// The CPU on which it left.
    pub cpu: u32,
    /// The exit reason.
    pub reason: String,
    /// Who finished the exit: the kernel, user space, the device model, …
    pub handler: String,
    /// The subject of the exit, in words; absent if it has none.
    pub subject: Option<String>,
    /// What `detail` is about: `port`, `mmio`, `msr`, …
    pub subject_kind: Option<&'static str>,
    /// Port, address, MSR, hypercall number, CPUID leaf, error code, …
    pub subject_key: Option<u64>,
    /// What it is called, where it has a name.
    pub subject_name: Option<SubjectName>,
    /// `in`/`out`, `read`/`write`, where that has a meaning.
    pub direction: Option<&'static str>,
    /// From exit to entry, everything included.
    pub exit_time_ns: u64,
    /// The parts of this time.
    #[serde(flatten)]
    pub times: ExitTimes,
}

/// Exits over time.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct TimelineRows {
    /// Width of each bucket, in nanoseconds.
    pub width_ns: u64,
    /// Beginning of the first bucket, in nanoseconds on the trace's clock.
    pub first_ns: u64,
    /// Number of exits in each bucket.
    pub counts: Vec<u64>,
    /// What the exits of each bucket cost, in nanoseconds; null if no exit has a length.
    pub cost_ns: Option<Vec<u64>>,
}

/// A threshold that was passed.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct BreachRow {
    /// As it was given to --fail-on.
    pub threshold: String,
    /// The value that was found, in words.
    pub found: String,
}

impl BreachRow {
    fn of(breach: Breach) -> BreachRow {
        BreachRow { threshold: breach.threshold, found: breach.found }
    }
}

/// By what the rows are ordered, largest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SortKey {
    /// What the exits cost.
    Cost,
    /// Everything included.
    Total,
    /// Exits.
    Count,
    /// Mean length.
    Mean,
    /// Median.
    P50,
    /// 99th percentile.
    P99,
    /// Longest.
    Max,
    /// Shortest.
    Min,
    /// The group's own order.
    Key,
}

impl Report {
    /// The name and version of the layout.
    pub const SCHEMA: &'static str = "exitscope.report/1";

    /// A report of these facts. `info` names threads; it is the last trace's where there are several.
    pub fn of(facts: &Facts, ledger: &Ledger, traces: Vec<TraceRow>, info: &TraceInfo, made: ReportOptions) -> Report {
        let figures = |stats: &ExitStats| ExitFigures::of(stats, facts.all.cost(), facts.seen());
        let (without_halts, halts) = facts.without_halts();
        let (group, mut cells) = (&facts.by, facts.by.cells());
        let (names, vms) = (info.subject_names(), facts.vms());
        sort(&mut cells, made.sort);
        let left_out = cells.len().saturating_sub(made.top);
        let mut rows: Vec<GroupRow> = cells
            .iter()
            .take(made.top)
            .map(|(key, stats)| GroupRow {
                place: GroupKeyRow::of(group, key, info, (&names, &vms), &made.functions),
                // A bucket of time has its own length.
                figures: ExitFigures::of(stats, facts.all.cost(), group.bucket().unwrap_or(facts.seen())),
            })
            .collect();
        if group.other.count > 0 {
            let labels = vec!["(more groups than are kept)".to_string(); group.dims().len()];
            rows.push(GroupRow {
                place: GroupKeyRow { labels, ..GroupKeyRow::default() },
                figures: figures(&group.other),
            });
        }
        let (one, xen) = (traces.len() == 1, traces.iter().any(TraceRow::is_xen));
        let how = HowToRecord::of(info).with(facts);
        let host = traces.first().map_or(RecordedHost::default(), |trace| trace.recorded_host(info));
        let causes = unjudged_causes(facts, &host).iter().map(|row| AdvisedCauseRow::of(row, info)).collect();
        let selection = SelectionRow::of(&made.selection);
        let coverage = Coverage::of(ledger, made.exits, made.timed_exits);
        let bound = coverage.exit_bound(facts, &selection, traces.first(), None);
        Report {
            schema: Report::SCHEMA,
            traces,
            coverage,
            event_kinds: EventKindsRow::of(facts.event_kinds, xen),
            verdict: VerdictRow::of(facts, info, &selection, &how, None).bounded(bound),
            causes,
            selection,
            how,
            duration_ns: facts.duration.0,
            vcpus: VcpuRow::all(facts, info, &made),
            hidden: None,
            run_states: facts.run_states.times().map(|(who, times)| RunStatesRow::of(*who, times, info)).collect(),
            steal_takers: StealTakerRow::all(facts, info),
            by: group.dims().to_vec(),
            total: figures(&facts.all).with_lengths_of(&figures(&without_halts)),
            exit_times_without: halts,
            rows,
            rows_left_out: left_out,
            ungrouped_exits: group.elsewhere,
            subjects: facts
                .details()
                .into_iter()
                .map(|(key, stats)| {
                    let name = names.of_key(&vms, key.kind, key.key);
                    SubjectRow {
                        subject_kind: key.kind.name(),
                        subject_key: key.key,
                        direction: key.kind.direction(key.write),
                        figures: figures(&stats),
                        label: names::detail(name.as_deref(), key.kind, key.key, key.write),
                        heading: key.kind.heading(),
                        subject_name: name,
                    }
                })
                .collect(),
            injected: facts
                .injected
                .iter()
                .map(|(&vector, &count)| InjectedRow { vector, name: names.guest_vector(&vms, vector), count })
                .collect(),
            signs: facts.kvm_activity.iter().map(|((vm, sign), count)| SignRow::of(*vm, *sign, *count, info)).collect(),
            slowest: facts.slowest.list().iter().map(|exit| SlowExitRow::of(exit, info)).collect(),
            timeline: TimelineRows::of(&facts.timeline)
                .filter(|_| one)
                .map(|rows| TimelineRows { cost_ns: rows.cost_ns.filter(|_| facts.all.timed > 0), ..rows }),
            gang: GangRows::of(facts, info, made.threads_per_core),
            halt: HaltRows::of(facts, info),
            idle_polls: IdlePollRows::of(facts),
            pio: PioRows::of(facts, xen, &names, &vms),
            phases: PhaseRows::of(facts, xen, &info.arch, made.cycles_per_s),
            yields: YieldRows::of(facts, info, one),
            interrupts: InterruptRows::of(facts, info),
            breaches: made.breaches.into_iter().map(BreachRow::of).collect(),
        }
    }
}

impl Report {
    /// Puts what rules say into the verdict and the causes.
    pub fn add_advice(&mut self, facts: &Facts, info: &TraceInfo, advised: &AdviceReport) {
        let bound = self.verdict.exit_bound.take();
        self.verdict = VerdictRow::of(facts, info, &self.selection, &self.how, Some(advised)).bounded(bound);
        self.causes.clone_from(&advised.causes_of_all);
    }

    /// A moment as pages count it and `--from` takes it, since the recording's first event: `+0.801305s`; of several recordings,
    /// which have no common first event, in seconds on their clock.
    pub(crate) fn moment(&self, at_ns: u64, exact_to: Nanos) -> String {
        match &self.traces[..] {
            [one] if one.first_ns <= at_ns => {
                format!("+{}s", names::moment(Moment::from_nanos(at_ns - one.first_ns), exact_to))
            }
            _ => names::moment(Moment::from_nanos(at_ns), exact_to),
        }
    }

    /// Adds what is hidden of guest time, by which exits are bounded anew.
    pub fn add_hidden(&mut self, hidden: HiddenTime, facts: &Facts) {
        let bound = self.coverage.exit_bound(facts, &self.selection, self.traces.first(), Some(&hidden));
        self.verdict = self.verdict.clone().bounded(bound);
        self.hidden = Some(hidden);
    }

    /// Whether a host may have been KVM's on x86: where no trace says its architecture, its exits do.
    pub(crate) fn is_kvm_on_x86(&self) -> bool {
        let is_other =
            |trace: &TraceRow| !trace.arch.is_empty() && !["x86", "i"].iter().any(|of| trace.arch.starts_with(of));
        !self.is_xen() && !self.traces.iter().all(is_other)
    }

    /// Whether a host was Xen.
    pub(crate) fn is_xen(&self) -> bool {
        self.traces.iter().any(TraceRow::is_xen)
    }
}

impl TimelineRows {
    /// The buckets of a timeline; `None` if it has none.
    pub fn of(timeline: &Timeline) -> Option<TimelineRows> {
        let (width_ns, buckets) = timeline.buckets();
        let counts = buckets.iter().map(|row| row.1.count).collect();
        let cost_ns = Some(buckets.iter().map(|row| row.1.cost).collect());
        Some(TimelineRows { width_ns, first_ns: buckets.first()?.0.as_nanos(), counts, cost_ns })
    }
}

/// What of a report is not in the facts.
#[derive(Clone, Debug)]
pub struct ReportOptions {
    /// All exits made, selected or not.
    pub exits: u64,
    /// Those of which both ends were seen.
    pub timed_exits: u64,
    /// Which exits were looked at.
    pub selection: Selection,
    /// Order of the rows.
    pub sort: SortKey,
    /// Rows at most.
    pub top: usize,
    /// Thresholds that were passed.
    pub breaches: Vec<Breach>,
    /// vCPUs of a virtual core; unless told, those that were seen to run together.
    pub threads_per_core: Option<u32>,
    /// Cycles of the processor in a second, if somebody said.
    pub cycles_per_s: Option<u64>,
    /// What functions of the guest are called, by where they begin.
    pub functions: BTreeMap<u64, String>,
}

fn sort(cells: &mut [(&[DimensionValue], &ExitStats)], key: SortKey) {
    let by = |stats: &ExitStats| -> u64 {
        match key {
            SortKey::Cost => stats.cost().0,
            SortKey::Total => stats.total().0,
            SortKey::Count => stats.count,
            SortKey::Mean => stats.mean().map_or(0, |mean| mean.0),
            SortKey::P50 => stats.quantile(5_000).map_or(0, |length| length.0),
            SortKey::P99 => stats.quantile(9_900).map_or(0, |length| length.0),
            SortKey::Max => stats.max,
            SortKey::Min => stats.min.unwrap_or(0),
            SortKey::Key => 0,
        }
    };
    // Equal groups by count, then in the order of their keys, in which they come.
    if key != SortKey::Key {
        cells.sort_by_cached_key(|(_, stats)| Reverse((by(stats), stats.count)));
    }
}

impl Coverage {
    /// How much exits and waiting take at most; `None` where it is not known, or not little.
    pub(crate) fn exit_bound(
        &self,
        facts: &Facts,
        selection: &SelectionRow,
        trace: Option<&TraceRow>,
        hidden: Option<&HiddenTime>,
    ) -> Option<ExitBoundRow> {
        // A vCPU that nothing tells of in the end may have waited there.
        let gaps = [LedgerLine::EndsEarly, LedgerLine::NoKvmExit, LedgerLine::MissingLines, LedgerLine::UncertainLoss];
        let is_gap = |line: &CoverageLine| {
            matches!(line.severity, "loss" | "error") || gaps.iter().any(|gap| gap.id() == line.id)
        };
        if self.lost != Some(0) || self.lines.iter().any(is_gap) || selection.narrows_exits() {
            return None;
        }
        let host = trace.map_or(("", 0), |trace| (trace.arch.as_str(), trace.cpus));
        ExitBoundRow::of(facts, host, hidden.map(|hidden| hidden.at_most_ns))
    }

    /// What the ledger says.
    pub fn of(ledger: &Ledger, exits: u64, timed_exits: u64) -> Coverage {
        Coverage {
            events: ledger.events,
            exits,
            timed_exits,
            lost: ledger.lost(),
            truncated: ledger.is_cut(),
            lines: ledger
                .lines()
                .map(|(line, count)| CoverageLine {
                    id: line.id(),
                    severity: match line.severity() {
                        Severity::Info => "info",
                        Severity::Notice => "notice",
                        Severity::Loss => "loss",
                        Severity::Error => "error",
                    },
                    count,
                    first_at: ledger.first(line),
                    moments_ns: ledger.moments(line).map(Moment::as_nanos).collect(),
                    text: line.prose(),
                })
                .collect(),
        }
    }
}

impl Coverage {
    /// The lines that say that figures are affected.
    pub fn damage(&self) -> impl Iterator<Item = &CoverageLine> {
        self.lines.iter().filter(|line| matches!(line.severity, "loss" | "error"))
    }
}

impl CoverageLine {
    /// Whether it says that a part of a recording is missing.
    pub(crate) fn is_cut(&self) -> bool {
        LedgerLine::CUT.iter().any(|line| line.id() == self.id)
    }

    /// Whether it says that a recording does not tell how many events were lost.
    pub(crate) fn leaves_losses_untold(&self) -> bool {
        LedgerLine::UNTOLD_LOSSES.iter().any(|line| line.id() == self.id)
    }
}

/// `Exits open while records were lost; they are counted but not timed: 12 (first at byte 4096)`.
impl fmt::Display for CoverageLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.text.trim_end_matches('.'), names::thousands(self.count))?;
        match (self.first_at, self.id) {
            (None, _) => match self.moments_ns.first() {
                Some(first) => write!(f, " (first at {} s)", names::trimmed(Moment::from_nanos(*first))),
                None => Ok(()),
            },
            (Some(at), "bad_text") => write!(f, " (first at line {at})"),
            (Some(at), _) => write!(f, " (first at byte {at})"),
        }
    }
}

impl SelectionRow {
    /// Whether no VM and no vCPU is left out.
    pub fn is_of_all_vcpus(&self) -> bool {
        self.vms.is_empty() && self.vcpus.is_empty()
    }

    /// Plain data of a selection.
    pub fn of(selection: &Selection) -> SelectionRow {
        let when = |when: MomentSpec| match when {
            MomentSpec::At(at) => MomentSpecRow::AtNs(at.as_nanos()),
            MomentSpec::After(after) => MomentSpecRow::AfterFirstNs(after.0),
        };
        SelectionRow {
            vms: selection.vms.iter().map(|vm| vm.0).collect(),
            vcpus: selection.vcpus.iter().map(|vcpu| vcpu.0).collect(),
            reasons: selection.reasons.clone(),
            from: selection.from.map(when),
            to: selection.to.map(when),
            longer_than_ns: selection.longer_than.map(|length| length.0),
            condition: selection.filter.as_ref().map(|filter| filter.condition().to_string()),
        }
    }

    /// Whether not all exits of the selected vCPUs and moments are looked at.
    pub(crate) fn narrows_exits(&self) -> bool {
        // Each field is named, so that a new one is judged, too.
        let SelectionRow { vms: _, vcpus: _, reasons, from: _, to: _, longer_than_ns, condition } = self;
        !reasons.is_empty() || longer_than_ns.is_some() || condition.is_some()
    }
}

/// `VM 121; vCPU 0, 1; reason io; from 30.5 s; to +2 s; longer than 200us; where cost > 1ms`; empty if everything is selected.
impl fmt::Display for SelectionRow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let SelectionRow { vms, vcpus, reasons, from, to, longer_than_ns, condition } = self;
        let numbers = |numbers: &[u32]| numbers.iter().map(u32::to_string).collect::<Vec<_>>().join(", ");
        let mut parts = vec![];
        if !vms.is_empty() {
            parts.push(format!("VM {}", numbers(vms)));
        }
        if !vcpus.is_empty() {
            parts.push(format!("vCPU {}", numbers(vcpus)));
        }
        if !reasons.is_empty() {
            parts.push(format!("reason {}", reasons.join(", ")));
        }
        parts.extend(from.map(|from| format!("from {from}")));
        parts.extend(to.map(|to| format!("to {to}")));
        parts.extend(longer_than_ns.map(|length| format!("longer than {}", names::exact_length(length))));
        parts.extend(condition.as_ref().map(|condition| format!("where {condition}")));
        f.write_str(&parts.join("; "))
    }
}

/// `30.5 s`, or `+1.5 s`.
impl fmt::Display for MomentSpecRow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (sign, nanos) = match *self {
            MomentSpecRow::AtNs(nanos) => ("", nanos),
            MomentSpecRow::AfterFirstNs(nanos) => ("+", nanos),
        };
        write!(f, "{sign}{} s", names::trimmed(Moment::from_nanos(nanos)))
    }
}

impl TraceRow {
    /// A trace of this name, as it describes itself, with its first and last moment.
    pub fn of(
        name: String,
        info: &TraceInfo,
        hostname: &str,
        (first, last): (Moment, Moment),
        events: u64,
    ) -> TraceRow {
        TraceRow {
            name,
            format: info.format.clone(),
            arch: info.arch.clone(),
            hostname: hostname.to_string(),
            release: info.release.clone(),
            clock: info.clock.clone(),
            given_hz: info.given_hz,
            cpu: info.cpu.clone(),
            cpus: info.cpus,
            settings: host_settings::rows(info),
            vms: vm_identities::rows(info),
            first_ns: first.as_nanos(),
            last_ns: last.as_nanos(),
            events,
        }
    }

    /// What the recording says of the machine, for rules.
    pub fn recorded_host(&self, info: &TraceInfo) -> RecordedHost {
        RecordedHost {
            arch: self.arch.clone(),
            release: self.release.clone(),
            cpus: info.cpus,
            xen: info.by_vcpu,
            comms: info.comms.clone(),
            polling: RecordedHaltPolling::of(info),
            settings: info.settings.clone(),
            names: info.subject_names(),
            how_recorded: HowToRecord::of(info),
        }
    }

    /// Whether a log of Xen's.
    pub fn is_xen(&self) -> bool {
        self.format.starts_with("xentrace")
    }
}

impl VcpuRow {
    fn all(facts: &Facts, info: &TraceInfo, made: &ReportOptions) -> Vec<VcpuRow> {
        let row = |(who, division): (&VcpuIdentity, &VcpuTime)| VcpuRow {
            who: WhoRow::of(*who, info),
            span_ns: division.span().0,
            times: VcpuTimes::of(|part| division.parts.get(part).0),
            cost_ns: if_timed(made.exits, made.timed_exits, division.cost().0),
            exits: division.exits,
        };
        facts.divisions.iter().map(row).collect()
    }
}

impl RunStatesRow {
    fn of(who: VcpuIdentity, times: &StateTimes, info: &TraceInfo) -> RunStatesRow {
        let stays = |times: StayStats| StayStatsRow { count: times.count, ns: times.total };
        let state = |state: RunState| stays(times.states[state as usize]);
        RunStatesRow {
            who: WhoRow::of(who, info),
            running: state(RunState::Running),
            woken: stays(times.woken()),
            preempted: stays(times.preempted),
            blocked: state(RunState::Blocked),
            offline: state(RunState::Offline),
            paused: state(RunState::Paused),
            unknown: stays(times.lost),
        }
    }
}

impl ExitFigures {
    fn of(stats: &ExitStats, all_cost: Nanos, duration: Nanos) -> ExitFigures {
        let length = |rank| stats.quantile(rank).map(|length| length.0);
        let sum = |sum: u64| if_timed(stats.count, stats.timed, sum);
        ExitFigures {
            count: stats.count,
            timed: stats.timed,
            rate_per_s: ratio(stats.count, duration.0) * 1e9,
            exit_time_ns: sum(stats.total().0),
            cost_ns: sum(stats.cost().0),
            share_of_cost: sum(stats.cost().0).map(|cost| ratio(cost, all_cost.0)),
            times: ExitSums::of(|part| sum(stats.parts.get(part).0)),
            min_ns: stats.min,
            mean_ns: stats.mean().map(|mean| mean.0),
            p50_ns: length(5_000),
            p90_ns: length(9_000),
            p99_ns: length(9_900),
            p999_ns: length(9_990),
            max_ns: (stats.timed > 0).then_some(stats.max),
            user_space_share: ratio(stats.user_count, stats.count),
        }
    }

    /// The same, but with the lengths of others.
    fn with_lengths_of(self, others: &ExitFigures) -> ExitFigures {
        ExitFigures {
            min_ns: others.min_ns,
            mean_ns: others.mean_ns,
            p50_ns: others.p50_ns,
            p90_ns: others.p90_ns,
            p99_ns: others.p99_ns,
            p999_ns: others.p999_ns,
            max_ns: others.max_ns,
            ..self
        }
    }
}

fn dim_names<S: Serializer>(dims: &[Dimension], to: S) -> Result<S::Ok, S::Error> {
    to.collect_seq(dims.iter().map(|dim| dim.name()))
}

/// A sum over the lengths of exits; `None` where there are exits and none has a length: that is not zero.
fn if_timed(exits: u64, timed: u64, sum: u64) -> Option<u64> {
    (exits == 0 || timed > 0).then_some(sum)
}

fn ratio(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}

impl GroupKeyRow {
    fn of(
        group: &ExitGroups,
        key: &[DimensionValue],
        info: &TraceInfo,
        (names, vms): (&SubjectNames, &[VmId]),
        functions: &BTreeMap<u64, String>,
    ) -> GroupKeyRow {
        let mut place = GroupKeyRow::default();
        let of_vm = key.iter().find_map(|part| if let DimensionValue::Vm(vm) = part { Some(*vm) } else { None });
        let vms = of_vm.as_ref().map_or(vms, std::slice::from_ref);
        for (dim, part) in group.dims().iter().zip(key) {
            let label = match *part {
                DimensionValue::Vm(vm) => {
                    place.who.vm = vm.number();
                    place.who.vm_name = info.vm_name(vm);
                    place.who.vm_label()
                }
                DimensionValue::Vcpu(vcpu) => {
                    place.who.vcpu = vcpu.number();
                    place.who.on_cpu = vcpu.known_by().map(|cpu| cpu.0);
                    place.who.vcpu_label()
                }
                DimensionValue::Thread(tid) => {
                    place.who.tid = Some(tid.0);
                    place.who.vcpu_label()
                }
                DimensionValue::Reason(code) => place.reason.insert(code.name()).clone(),
                DimensionValue::Handler(handler) => place.handler.insert(handler.name()).clone(),
                DimensionValue::Rip(rip) => {
                    place.rip = Some(rip);
                    place.function = functions.get(&rip).cloned();
                    place.function.clone().unwrap_or_else(|| format!("{rip:#x}"))
                }
                DimensionValue::Cpu(cpu) => place.cpu.insert(cpu.0).to_string(),
                DimensionValue::Time(at) => {
                    place.time_ns = Some(at.as_nanos());
                    names::moment(at, group.width())
                }
                DimensionValue::Subject(None) => names::NO_SUBJECT.to_string(),
                DimensionValue::Subject(Some(SubjectKey { kind, key, write })) => {
                    (place.subject_kind, place.subject_key) = (Some(kind.name()), Some(key));
                    (place.subject_name, place.direction) = (names.of_key(vms, kind, key), kind.direction(write));
                    names::detail_of_kind(place.subject_name.as_deref(), kind, key, write)
                }
                DimensionValue::Detail(SubjectKey { kind, key, write }) => {
                    match dim {
                        Dimension::Port => place.port = Some(key),
                        Dimension::Mmio => place.mmio = Some(key),
                        Dimension::Msr => place.msr = Some(key),
                        Dimension::Hypercall => place.hypercall = Some(key),
                        Dimension::Cpuid => place.cpuid = Some(key),
                        _ => {}
                    }
                    (place.subject_name, place.direction) = (names.of_key(vms, kind, key), kind.direction(write));
                    names::detail(place.subject_name.as_deref(), kind, key, write)
                }
            };
            place.labels.push(label);
        }
        place
    }
}

impl SlowExitRow {
    /// Plain data of an exit.
    pub fn of(exit: &Exit, info: &TraceInfo) -> SlowExitRow {
        let name = info.subject_names().of_exit(exit);
        SlowExitRow {
            at_ns: exit.at.as_nanos(),
            who: WhoRow::of(exit.who, info),
            cpu: exit.cpu.0,
            reason: exit.code.name(),
            handler: exit.handler.name(),
            subject: exit.subject.map(|of| names::detail(name.as_deref(), of.kind, of.key, of.write)),
            subject_kind: exit.subject.map(|detail| detail.kind.name()),
            subject_key: exit.subject.map(|detail| detail.key),
            subject_name: name,
            direction: exit.subject.and_then(|detail| detail.kind.direction(detail.write)),
            exit_time_ns: exit.total().0,
            times: ExitTimes::of(|part| exit.parts.get(part).0),
        }
    }

    /// The moment as traces print it.
    pub fn at(&self) -> Moment {
        Moment::from_nanos(self.at_ns)
    }
}
