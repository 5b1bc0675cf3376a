//! Halts as plain data.

use crate::report::WhoRow;
use exitscope_analysis::{Facts, HaltCell, Lengths, PollHost, PollSettings};
use exitscope_model::TraceInfo;
use exitscope_units::Nanos;
use schemars::JsonSchema;
use serde::Serialize;

/// What vCPUs do when they have nothing to do. A gap is from the exit with which a vCPU says so until something wakes
/// it; the wake-up latency is from there to its entry into the guest.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct HaltRows {
    /// All vCPUs together.
    pub all: HaltRow,
    /// By vCPU.
    pub vcpus: Vec<HaltRow>,
    /// Gaps by length, all vCPUs together.
    pub gaps: Vec<GapRow>,
    /// What KVM's decisions show of the settings of its polling, by VM.
    pub settings: Vec<PollSettingsRow>,
    /// Whether a guest switched the host's polling off (a write of 0 to MSR_KVM_POLL_CONTROL): it polls itself.
    pub guest_polls: bool,
    /// Whether these are the halts of virtual cores (powerpc), each under the vCPU that ran it.
    pub of_vcores: bool,
}

/// The halts of one vCPU, or of all.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct HaltRow {
    /// Whose; nobody's fields for all together.
    #[serde(flatten)]
    pub who: WhoRow,
    /// Whether KVM told of its halts (`kvm_vcpu_wakeup`); if not, they are its idle exits.
    pub told: bool,
    /// Halts.
    pub halts: u64,
    /// Idle exits that did not become halts, because something was pending.
    pub at_once: u64,
    /// Halts that ended before the thread gave its CPU away. Absent unless KVM told.
    pub caught: Option<u64>,
    /// Halts that slept. Absent unless KVM told.
    pub slept: Option<u64>,
    /// Wake-ups that nothing came of (s390).
    pub invalid: u64,
    /// Idle exits that a loss or the recording's end cut off.
    pub cut: u64,
    /// Lengths of the gaps.
    pub gaps: LengthsRow,
    /// Gaps that include the way back to the CPU, because nothing says what woke the vCPU when.
    pub inexact_gaps: u64,
    /// Wake-up latencies, of all halts whose gap is exact.
    pub latency: LengthsRow,
    /// Wake-up latencies of halts that were caught.
    pub latency_caught: LengthsRow,
    /// Wake-up latencies of halts that slept.
    pub latency_slept: LengthsRow,
    /// CPU time of polls that caught the wake-up.
    pub poll_hit_ns: u64,
    /// CPU time of polls that did not; absent unless KVM traced its polls (`kvm_halt_poll_ns`).
    pub poll_miss_ns: Option<u64>,
    /// Polls that did not catch the wake-up, likewise.
    pub poll_misses: Option<u64>,
    /// From KVM's beginning of halts until the thread slept: what polls that failed took at most; from scheduler events.
    pub before_sleep_ns: Option<u64>,
    /// Times KVM made its poll longer, as far as it traced that.
    pub grown: u64,
    /// Times it made it shorter.
    pub shrunk: u64,
}

/// Lengths of time of one kind.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct LengthsRow {
    /// How many.
    pub count: u64,
    /// Their sum.
    pub sum_ns: u64,
    /// Mean.
    pub mean_ns: Option<u64>,
    /// Median; exact of up to 32, else to within 1/32 of its value, as all percentiles.
    pub p50_ns: Option<u64>,
    /// 90th percentile.
    pub p90_ns: Option<u64>,
    /// 99th percentile.
    pub p99_ns: Option<u64>,
    /// Longest.
    pub max_ns: Option<u64>,
}

/// Gaps of about one length.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct GapRow {
    /// The longest of them; absent for all that are longer than the row before.
    pub up_to_ns: Option<u64>,
    /// Of halts that ended before the thread gave its CPU away.
    pub caught: u64,
    /// Of others.
    pub slept: u64,
}

/// The settings of host halt polling that KVM's decisions show; what they do not show is absent.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct PollSettingsRow {
    /// The VM's process id.
    pub vm: u32,
    /// Decisions that it is read off.
    pub changes: u64,
    /// The longest poll, where a poll was cut down to it.
    pub halt_poll_ns: Option<u64>,
    /// The longest poll is longer than this.
    pub halt_poll_more_than_ns: u64,
    /// The longest poll is shorter than this.
    pub halt_poll_less_than_ns: Option<u64>,
    /// What replay takes for the longest poll: where it was not seen, the architecture's default if that is within the
    /// bounds.
    pub halt_poll_taken_ns: u64,
    /// The factor by which polls grow.
    pub grow: Option<u32>,
    /// What polls of zero grow to.
    pub grow_start_ns: Option<u64>,
    /// The divisor by which polls shrink; 0: they are reset to zero.
    pub shrink: Option<u32>,
}

impl HaltRows {
    /// The halts of these facts, if there are any.
    pub fn of(facts: &Facts, info: &TraceInfo) -> Option<HaltRows> {
        let (halts, host) = (&facts.halts, PollHost::of(info));
        let all = halts.all();
        if all.halts() + all.cut == 0 {
            return None;
        }
        let polls_traced = halts.settings.values().any(|settings| settings.changes > 0);
        Some(HaltRows {
            vcpus: halts
                .vcpus
                .iter()
                .map(|(who, cell)| HaltRow::of(WhoRow::of(*who, info), cell, polls_traced))
                .collect(),
            gaps: all
                .buckets()
                .into_iter()
                .map(|row| GapRow { up_to_ns: row.up_to.map(|up_to| up_to.0), caught: row.caught, slept: row.slept })
                .collect(),
            all: HaltRow::of(WhoRow::default(), &all, polls_traced),
            settings: halts
                .settings
                .iter()
                .filter(|(_, settings)| settings.changes > 0)
                .map(|(vm, settings)| PollSettingsRow::of(vm.0, settings, &host))
                .collect(),
            guest_polls: halts.guest_polls,
            of_vcores: host.is_of_vcores(),
        })
    }
}

impl HaltRow {
    fn of(who: WhoRow, cell: &HaltCell, polls_traced: bool) -> HaltRow {
        let told = cell.is_told();
        HaltRow {
            who,
            told,
            halts: cell.halts(),
            at_once: cell.at_once(),
            caught: told.then_some(cell.caught.gaps.count),
            slept: told.then_some(cell.slept.gaps.count),
            invalid: cell.invalid,
            cut: cell.cut,
            gaps: LengthsRow::of(&cell.gaps()),
            inexact_gaps: cell.inexact(),
            latency: LengthsRow::of(&cell.latencies()),
            latency_caught: LengthsRow::of(&cell.caught.latencies),
            latency_slept: LengthsRow::of(&cell.slept.latencies),
            poll_hit_ns: cell.poll_hit,
            poll_miss_ns: polls_traced.then_some(cell.poll_miss),
            poll_misses: polls_traced.then_some(cell.misses),
            before_sleep_ns: (cell.before_sleep.count > 0).then_some(cell.before_sleep.sum),
            grown: cell.changes.0,
            shrunk: cell.changes.1,
        }
    }
}

impl LengthsRow {
    /// The figures of these lengths.
    pub fn of(lengths: &Lengths) -> LengthsRow {
        let rank = |per_10_000| lengths.quantile(per_10_000).map(|length: Nanos| length.0);
        LengthsRow {
            count: lengths.count,
            sum_ns: lengths.sum,
            mean_ns: lengths.mean().map(|mean| mean.0),
            p50_ns: rank(5_000),
            p90_ns: rank(9_000),
            p99_ns: rank(9_900),
            max_ns: (lengths.count > 0).then_some(lengths.max),
        }
    }
}

impl PollSettingsRow {
    fn of(vm: u32, settings: &PollSettings, host: &PollHost) -> PollSettingsRow {
        let (more_than, less_than) = settings.bounds();
        PollSettingsRow {
            vm,
            changes: settings.changes,
            halt_poll_ns: settings.cut_to.value().map(u64::from),
            halt_poll_more_than_ns: more_than,
            halt_poll_less_than_ns: less_than,
            halt_poll_taken_ns: settings.params(host).halt_poll_ns.0,
            grow: settings.grow.value(),
            grow_start_ns: settings.start.value().map(u64::from),
            shrink: settings.shrink(),
        }
    }
}
