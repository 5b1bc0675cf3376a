//! Halts as plain data.

use crate::names::thousands;
use crate::page::Sentence;
use exitscope_analysis::{ClockCheck, DurationStats, Facts, Halts, PollSettings, RecordedHaltPolling};
use exitscope_model::{HaltRow, TraceInfo};
use exitscope_units::Nanos;
use schemars::JsonSchema;
use serde::Serialize;

/// What vCPUs do when they have nothing to do. A gap is from the exit with which a vCPU says so until something wakes
/// it; the wake-up latency is from there to its entry into the guest.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct HaltRows {
    /// Halts of all vCPUs together.
    pub all: HaltRow<DurationStatsRow>,
    /// Halts by vCPU.
    pub vcpus: Vec<HaltRow<DurationStatsRow>>,
    /// Gaps by length, all vCPUs together.
    pub gaps: Vec<GapRow>,
    /// What KVM's decisions show of the settings of its polling, by VM.
    pub settings: Vec<PollSettingsRow>,
    /// Whether a guest switched the host's polling off (a write of 0 to MSR_KVM_POLL_CONTROL): it polls itself.
    pub guest_polls: bool,
    /// Whether these are the halts of virtual cores (powerpc), each under the vCPU that ran it.
    pub of_vcores: bool,
    /// Where halts contradict the rate of the clock that was given by hand; left out where they do not, or the trace says the rate.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub clock: Option<ClockRow>,
}

/// Halts of more than 1 ms that are not as long on the trace's clock as `kvm_vcpu_wakeup` says.
#[derive(Clone, Copy, Debug, Serialize, JsonSchema)]
pub struct ClockRow {
    /// Halts that were compared.
    pub compared: u64,
    /// Those that are more than 2 % too short, or too long even with 50 us from the exit until KVM begins the halt.
    pub mismatched: u64,
    /// Ticks of the clock in a second, at most, as no halt is longer than the time from its exit to its end; to within the 0.05 % by
    /// which NTP may slew the host's own clock.
    pub at_most_hz: u64,
}

impl ClockRow {
    /// Whether halts contradict the rate that was given by hand.
    pub(crate) fn of(halts: &Halts, info: &TraceInfo) -> Option<ClockRow> {
        let ClockCheck { compared, off, .. } = halts.clock;
        Some(ClockRow { compared, mismatched: off, at_most_hz: halts.clock.instead_of(info.given_hz?)? })
    }

    /// What that means for whoever reads lengths.
    pub(crate) fn warning(&self) -> Sentence {
        let text = format!(
            "--tsc-hz is not the clock's rate: {} of {} halts of more than 1 ms differ from the length in \
             kvm_vcpu_wakeup by more than 2 %. By these halts, the rate is at most about {} MHz",
            thousands(self.mismatched),
            thousands(self.compared),
            thousands(self.at_most_hz.saturating_add(500_000) / 1_000_000)
        );
        Sentence { text, warning: true }
    }
}

/// Lengths of time of one kind.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct DurationStatsRow {
    /// Number of lengths of time.
    pub count: u64,
    /// Sum of these lengths, in nanoseconds.
    pub sum_ns: u64,
    /// Mean length in nanoseconds; absent if there is none.
    pub mean_ns: Option<u64>,
    /// Median; exact of up to 32, else to within 1/32 of its value, as all percentiles.
    pub p50_ns: Option<u64>,
    /// 90th percentile.
    pub p90_ns: Option<u64>,
    /// 99th percentile.
    pub p99_ns: Option<u64>,
    /// Longest, in nanoseconds; absent if there is none.
    pub max_ns: Option<u64>,
}

/// Gaps of about one length.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct GapRow {
    /// The longest of them; absent for all that are longer than the row before.
    pub up_to_ns: Option<u64>,
    /// Gaps of halts that ended before the thread blocked, as by a successful poll.
    pub not_blocked: u64,
    /// Gaps of halts whose thread blocked.
    pub blocked: u64,
}

/// The settings of host halt polling that KVM's decisions show; what they do not show is absent.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct PollSettingsRow {
    /// The VM's process id.
    pub vm: u32,
    /// Decisions that it is read off.
    pub decisions: u64,
    /// The longest poll, where a poll was cut down to it.
    pub halt_poll_ns: Option<u64>,
    /// The longest poll is longer than this.
    pub halt_poll_more_than_ns: u64,
    /// The longest poll is shorter than this.
    pub halt_poll_less_than_ns: Option<u64>,
    /// What replay takes for the longest poll: where it was not seen, the architecture's default if that is within the
    /// bounds.
    pub halt_poll_assumed_ns: u64,
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
        let (halts, host) = (&facts.halts, RecordedHaltPolling::of(info));
        let all = halts.all();
        if all.halts() + all.cut + all.in_user_space == 0 {
            return None;
        }
        let (vcpus, of_all) = halts.rows(info, DurationStatsRow::of);
        Some(HaltRows {
            vcpus,
            gaps: all
                .buckets()
                .into_iter()
                .map(|row| GapRow {
                    up_to_ns: row.up_to.map(|up_to| up_to.0),
                    not_blocked: row.caught,
                    blocked: row.slept,
                })
                .collect(),
            all: of_all,
            settings: halts
                .settings
                .iter()
                .filter(|(_, settings)| settings.changes > 0)
                .map(|(vm, settings)| PollSettingsRow::of(vm.0, settings, &host))
                .collect(),
            guest_polls: halts.guest_polls,
            of_vcores: host.is_of_vcores(),
            clock: ClockRow::of(halts, info),
        })
    }
}

impl DurationStatsRow {
    /// The figures of these lengths.
    pub fn of(lengths: &DurationStats) -> DurationStatsRow {
        let rank = |per_10_000| lengths.quantile(per_10_000).map(|length: Nanos| length.0);
        DurationStatsRow {
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
    fn of(vm: u32, settings: &PollSettings, host: &RecordedHaltPolling) -> PollSettingsRow {
        let (more_than, less_than) = settings.bounds();
        PollSettingsRow {
            vm,
            decisions: settings.changes,
            halt_poll_ns: settings.cut().map(|cut| cut.0),
            halt_poll_more_than_ns: more_than,
            halt_poll_less_than_ns: less_than,
            halt_poll_assumed_ns: settings.params(host).halt_poll_ns.0,
            grow: settings.grow.value(),
            grow_start_ns: settings.start.value().map(u64::from),
            shrink: settings.shrink(),
        }
    }
}
