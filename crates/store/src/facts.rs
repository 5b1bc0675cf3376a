//! Tables of sums, and of distributions, which can be added up over recordings: of exits, of halts, of ganged exits.

use crate::columns::Columns;
use crate::exits::{Vcpu, properties};
use parquet::arrow::ArrowWriter;
use parquet::errors::ParquetError;
use std::io::Write;

/// Exits of one vCPU and one reason, in a stretch of time.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FactRow {
    /// Whose.
    pub vcpu: Vcpu,
    /// How many vCPUs its VM has in this recording.
    pub vm_vcpus: u32,
    /// When the stretch begins, on the recording's clock.
    pub at_ns: u64,
    /// How long it is.
    pub span_ns: u64,
    /// The exit reason.
    pub reason: String,
    /// Exits.
    pub count: u64,
    /// Exits of which both ends were seen; all times are of these alone.
    pub timed: u64,
    /// Exits that went on to user space, or to Xen's device model.
    pub to_user: u64,
    /// Time handled by the kernel.
    pub kernel_ns: u64,
    /// Time in user space.
    pub user_ns: u64,
    /// Time halted.
    pub idle_ns: u64,
    /// Time runnable but not running.
    pub waiting_ns: u64,
    /// The shortest exit of which the two ends bear different moments.
    pub min_ns: Option<u64>,
    /// The longest.
    pub max_ns: u64,
    /// Lengths from exit to entry: each bucket's shortest, and how many there are in it; 32 buckets to a doubling.
    pub lengths: Vec<(u64, u64)>,
}

/// Lengths of time of one kind.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lengths {
    /// Their sum.
    pub sum_ns: u64,
    /// The longest; none if there are none.
    pub max_ns: Option<u64>,
    /// Each bucket's shortest, and how many there are in it; 32 buckets to a doubling.
    pub buckets: Vec<(u64, u64)>,
}

/// The halts of one vCPU.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HaltRow {
    /// Whose.
    pub vcpu: Vcpu,
    /// Halts.
    pub halts: u64,
    /// Idle exits that did not become halts, because something was pending.
    pub at_once: u64,
    /// Halts that a poll of the host caught; none unless KVM told of halts.
    pub caught: Option<u64>,
    /// Halts that slept, likewise.
    pub slept: Option<u64>,
    /// Wake-ups that nothing came of (s390).
    pub invalid: u64,
    /// From the exit to what woke the vCPU.
    pub gaps: Lengths,
    /// Gaps that include the way back to the CPU, because nothing says what woke the vCPU when.
    pub inexact_gaps: u64,
    /// From what woke the vCPU to its entry.
    pub latencies: Lengths,
    /// CPU time of polls that caught the wake-up.
    pub poll_hit_ns: u64,
    /// CPU time of polls that did not; none unless KVM traced its polls.
    pub poll_miss_ns: Option<u64>,
    /// Polls that did not, likewise.
    pub poll_misses: Option<u64>,
    /// Times KVM made its poll longer, as far as it traced that.
    pub grown: u64,
    /// Times it made it shorter.
    pub shrunk: u64,
}

/// The core runs of one virtual core (powerpc).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GangRow {
    /// The VM's process id.
    pub vm: Option<u32>,
    /// The VM's process name.
    pub vm_name: Option<String>,
    /// The first of its vCPUs.
    pub vcore: Option<u32>,
    /// How many vCPUs of it were seen.
    pub vcpus: u64,
    /// Core runs of which both ends were seen.
    pub runs: u64,
    /// Runs that the rule of the script of 2015 counts.
    pub ganged_script: u64,
    /// Runs that at least two threads left that had not ceded.
    pub two_active: u64,
    /// Of these, runs that ended for all of them with the hypervisor decrementer.
    pub timer: u64,
    /// Of these, the others: one thread's exit took the rest along.
    pub ganged: u64,
    /// Exits of threads that had not ceded.
    pub exits: u64,
    /// Exits that were forced.
    pub forced: u64,
    /// Threads that did not get into the guest, because others were leaving already.
    pub too_late: u64,
    /// vCPUs that joined a run under way.
    pub joined: u64,
    /// From being forced out to the next entry.
    pub lost: Lengths,
}

/// All sums of a recording.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sums {
    /// Exits, by vCPU, reason and stretch of time.
    pub facts: Vec<FactRow>,
    /// Halts, by vCPU.
    pub halts: Vec<HaltRow>,
    /// Ganged exits, by virtual core.
    pub gangs: Vec<GangRow>,
}

pub(crate) fn of_exits() -> Columns<FactRow> {
    Columns::new()
        .vcpu(|row: &FactRow| &row.vcpu)
        .words("reason", |row| &row.reason)
        .number("count", |row| row.count)
        .number("timed", |row| row.timed)
        .number("to_user", |row| row.to_user)
        .number("kernel_ns", |row| row.kernel_ns)
        .number("user_ns", |row| row.user_ns)
        .number("idle_ns", |row| row.idle_ns)
        .number("waiting_ns", |row| row.waiting_ns)
        .maybe_number("min_ns", |row| row.min_ns)
        .number("max_ns", |row| row.max_ns)
        .buckets("length", |row| &row.lengths)
        // Files of before these were thought of have none of them.
        .maybe_small("vm_vcpus", |row| Some(row.vm_vcpus))
        .maybe_number("at_ns", |row| Some(row.at_ns))
        .maybe_number("span_ns", |row| Some(row.span_ns))
}

pub(crate) fn of_halts() -> Columns<HaltRow> {
    Columns::new()
        .vcpu(|row: &HaltRow| &row.vcpu)
        .number("halts", |row| row.halts)
        .number("at_once", |row| row.at_once)
        .maybe_number("caught", |row| row.caught)
        .maybe_number("slept", |row| row.slept)
        .number("invalid", |row| row.invalid)
        .lengths("gap", |row| &row.gaps)
        .number("inexact_gaps", |row| row.inexact_gaps)
        .lengths("latency", |row| &row.latencies)
        .number("poll_hit_ns", |row| row.poll_hit_ns)
        .maybe_number("poll_miss_ns", |row| row.poll_miss_ns)
        .maybe_number("poll_misses", |row| row.poll_misses)
        .number("grown", |row| row.grown)
        .number("shrunk", |row| row.shrunk)
}

pub(crate) fn of_gangs() -> Columns<GangRow> {
    Columns::new()
        .maybe_small("vm", |row: &GangRow| row.vm)
        .maybe_words("vm_name", |row| &row.vm_name)
        .maybe_small("vcore", |row| row.vcore)
        .number("vcpus", |row| row.vcpus)
        .number("runs", |row| row.runs)
        .number("ganged_script", |row| row.ganged_script)
        .number("two_active", |row| row.two_active)
        .number("timer", |row| row.timer)
        .number("ganged", |row| row.ganged)
        .number("exits", |row| row.exits)
        .number("forced", |row| row.forced)
        .number("too_late", |row| row.too_late)
        .number("joined", |row| row.joined)
        .lengths("lost", |row| &row.lost)
}

/// Writes a file of rows of the recording `run`.
pub(crate) fn write<R: 'static, W: Write + Send>(
    out: W,
    columns: &Columns<R>,
    run: &str,
    rows: &[R],
) -> Result<W, ParquetError> {
    let mut writer = ArrowWriter::try_new(out, columns.schema(), Some(properties().build()))?;
    writer.write(&columns.batch(run, rows)?)?;
    writer.into_inner()
}
