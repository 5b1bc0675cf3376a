//! Who forced whom out of the guest, when, as a page holds it: POWER7 and POWER8, whose virtual cores leave it together.

use exitscope_analysis::over_time::ForcedOutTimeline;
use exitscope_model::{CodeList, ExitCode};
use exitscope_units::VmId;
use schemars::JsonSchema;
use serde::Serialize;

/// It as JSON; columns of equal length.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct ForcedOutColumns {
    /// The width of a bucket of time.
    width_ns: u64,
    /// The moment that buckets are counted from, on the trace's clock. As text, for it may be more than a double holds.
    base_ns: String,
    /// Every vCPU that was forced out with who forced it; the last one, without a VM, stands for all further.
    forced_pairs: Vec<TripleRow>,
    /// Of each row: its bucket, less that of the row before.
    bucket: Vec<u64>,
    /// The number of its triple.
    triple: Vec<u32>,
    /// How often. Where several had a reason, once for each.
    forced: Vec<u64>,
    /// Time from being forced out to the next entry, in nanoseconds; shared where several had a reason.
    lost: Vec<u64>,
}

/// A vCPU that was forced out, and who forced it.
#[derive(Clone, Debug, Serialize, JsonSchema)]
struct TripleRow {
    vm: Option<u32>,
    vcpu: Option<u32>,
    cause: Option<u32>,
    reason: Option<String>,
}

impl ForcedOutColumns {
    /// What there is to show; `None` if nobody was forced out.
    pub fn of(timeline: ForcedOutTimeline) -> Option<ForcedOutColumns> {
        let (width_ns, rows, keys) = timeline.finish();
        let base = rows.first()?.bucket;
        let keys = keys.iter().map(|&(vm, vcpu, cause)| TripleRow {
            vm: (vm != VmId::UNKNOWN).then_some(vm.0),
            vcpu: Some(vcpu.0),
            cause: cause.map(|cause| cause.0.0),
            reason: cause.map(|cause| ExitCode::new(CodeList::PpcTrap, u64::from(cause.1)).name()),
        });
        let further = TripleRow { vm: None, vcpu: None, cause: None, reason: None };
        let keys: Vec<TripleRow> = keys.chain([further]).collect();
        let last = keys.len() as u32 - 1;
        let before = [base].into_iter().chain(rows.iter().map(|row| row.bucket));
        Some(ForcedOutColumns {
            width_ns,
            base_ns: (u128::from(base) * u128::from(width_ns)).to_string(),
            bucket: rows.iter().zip(before).map(|(row, before)| row.bucket - before).collect(),
            triple: rows.iter().map(|row| row.key.min(last.into()) as u32).collect(),
            forced: rows.iter().map(|row| row.sums[0]).collect(),
            lost: rows.iter().map(|row| row.sums[1]).collect(),
            forced_pairs: keys,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use exitscope_analysis::{ForcedOutExit, GangMember, Selection};
    use exitscope_policy::vcore::ThreadExit;
    use exitscope_units::{Moment, Nanos, VcpuId};

    #[test]
    fn time_lost_is_shared_by_those_who_had_a_reason() {
        let mut timeline = ForcedOutTimeline::new(&Selection::default());
        let cause = |vcpu, trap| GangMember { vcpu: VcpuId(vcpu), left: ThreadExit { trap, ceded: false } };
        let forced_out = |at, causes| ForcedOutExit {
            vm: VmId(7),
            vcpu: VcpuId(1),
            at: Moment::from_nanos(at),
            lost: Nanos(900),
            causes,
        };
        timeline.add(&forced_out(5_000_500, vec![cause(0, 0xc00), cause(2, 0x500)]));
        timeline.add(&forced_out(5_003_000, vec![cause(0, 0xc00)]));
        timeline.add(&forced_out(5_003_100, vec![]));
        let head = ForcedOutColumns::of(timeline).unwrap();
        assert_eq!((head.width_ns, head.base_ns.as_str()), (1_000, "5000000"));
        assert_eq!(head.bucket, [0, 0, 3, 0]);
        assert_eq!(head.triple, [0, 1, 0, 2]);
        assert_eq!((head.forced, head.lost), (vec![1; 4], vec![450, 450, 900, 900]));
        assert_eq!(head.forced_pairs.len(), 4);
        assert_eq!((head.forced_pairs[2].vcpu, head.forced_pairs[2].cause), (Some(1), None));
    }
}
