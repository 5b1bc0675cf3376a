//! Sums of a store's exits, by shape of VM and recording, over time.

use crate::Runs;
use exitscope_analysis::{DiffBlock, ExitStats};
use exitscope_model::{ExitParts, TimePart};
use exitscope_query::{Array, QueryEngine, QueryError, RecordBatch, ResultColumns};
use exitscope_stats::FineBuckets;
use exitscope_store::RecordingRow;
use exitscope_units::Nanos;
use exitscope_view::Shape;
use std::collections::BTreeMap;

/// Sums by recording, shape, reason and time bucket.
fn facts_query() -> String {
    let parts: String = TimePart::OF_EXITS.map(|part| format!("sum({0}) as {0}, ", part.column())).concat();
    format!(
        "select recording, vm_vcpus, reason, at_ns, span_ns, sum(count) as count, sum(timed) as timed, sum(user_space_exits) as user_space_exits, \
         {parts}min(min_ns) as min_ns, max(max_ns) as max_ns, histogram_merge(exit_time_bucket_ns, exit_time_bucket_count) as lengths \
         from reason_stats group by recording, vm_vcpus, reason, at_ns, span_ns"
    )
}

/// How many VMs a recording has of each shape, and how many vCPUs were seen of them.
const VMS: &str = "select recording, vm_vcpus, count(distinct coalesce(vm, 0)) as vms, \
    count(distinct struct(vm, vcpu, on_cpu, tid)) as vcpus from reason_stats group by recording, vm_vcpus";

/// The VMs of one shape in one recording, over time.
#[derive(Default)]
pub(crate) struct Recorded {
    /// vCPUs.
    vcpus: u64,
    /// Their exits, by time bucket.
    pub blocks: Vec<DiffBlock>,
}

/// By shape, and the id of the recording.
pub(crate) type RecordedByShape = BTreeMap<(Shape, String), Recorded>;

/// Everything that sums say of these recordings.
pub(crate) fn read(engine: &QueryEngine, runs: &Runs<'_>) -> Result<RecordedByShape, QueryError> {
    let mut all = RecordedByShape::new();
    let shape =
        |run: &RecordingRow, vcpus: u64| Shape { arch: run.arch.clone(), cpu: run.cpu.clone(), vcpus: vcpus as u32 };
    let mut read = |sql: &str, of: &mut dyn FnMut(&mut RecordedByShape, &RecordBatch) -> Result<(), QueryError>| {
        let mut failed = Ok(());
        engine.query(sql, &mut |_, batch| {
            failed = batch.map_or(Ok(()), |batch| of(&mut all, batch));
            Ok(failed.is_ok())
        })?;
        failed
    };
    read(VMS, &mut |all, batch| {
        let columns = ResultColumns(batch);
        let (run, vm_vcpus) = (columns.words("recording")?, columns.numbers("vm_vcpus")?);
        let (vms, vcpus) = (columns.numbers("vms")?, columns.numbers("vcpus")?);
        for row in 0..batch.num_rows() {
            let Some(of) = runs.get(run.value(row)) else { continue };
            let known = vm_vcpus.is_valid(row).then(|| vm_vcpus.value(row));
            let recorded = all.entry((shape(of, known.unwrap_or(0)), of.id.clone())).or_default();
            // A vCPU that never left its guest was there nevertheless.
            recorded.vcpus += known.map_or(vcpus.value(row), |each| each * vms.value(row));
        }
        Ok(())
    })?;
    read(&facts_query(), &mut |all, batch| {
        let columns = ResultColumns(batch);
        let (run, reason) = (columns.words("recording")?, columns.words("reason")?);
        let names = ["vm_vcpus", "at_ns", "span_ns", "count", "timed", "user_space_exits", "min_ns", "max_ns"];
        let parts = TimePart::OF_EXITS.map(TimePart::column);
        let numbers: Result<Vec<_>, _> = names.iter().chain(&parts).map(|name| columns.numbers(name)).collect();
        let numbers = numbers?;
        for row in 0..batch.num_rows() {
            let Some(of) = runs.get(run.value(row)) else { continue };
            let number = |at: usize| numbers[at].is_valid(row).then(|| numbers[at].value(row));
            let sum = |at: usize| number(at).unwrap_or(0);
            let Some(recorded) = all.get_mut(&(shape(of, sum(0)), of.id.clone())) else { continue };
            let length = of.last_ns.saturating_sub(of.first_ns).max(1);
            let span = number(2).unwrap_or(length).max(1);
            let at = (number(1).unwrap_or(of.first_ns).saturating_sub(of.first_ns) / span) as usize;
            if recorded.blocks.is_empty() {
                let blocks = length.div_ceil(span).clamp(1, MOST_BLOCKS);
                let duration = (length / blocks).max(1).saturating_mul(recorded.vcpus);
                recorded.blocks = vec![DiffBlock { duration, ..DiffBlock::default() }; blocks as usize];
            }
            let last = recorded.blocks.len() - 1;
            let mut lengths = FineBuckets::default();
            columns.lengths("lengths", row).into_iter().for_each(|(low, count)| lengths.record_many(low, count));
            let cell = ExitStats {
                count: sum(3),
                timed: sum(4),
                user_count: sum(5),
                min: number(6),
                max: sum(7),
                parts: (8..)
                    .zip(TimePart::OF_EXITS)
                    .fold(ExitParts::ZERO, |parts, (at, part)| parts.with(part, Nanos(sum(at)))),
                durations: lengths.into(),
            };
            recorded.blocks[at.min(last)].groups.entry(reason.value(row).to_string()).or_default().merge(&cell);
        }
        Ok(())
    })?;
    Ok(all)
}

/// Time buckets that a recording has at most, whatever a file says.
const MOST_BLOCKS: u64 = 1024;
