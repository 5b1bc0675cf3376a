//! Every column has of a row what it says, under a name of its own. All values are different, so that none is another's.

use super::*;
use crate::{
    CodeList, Column, ColumnValue, Exit, ExitCode, ExitInfo, ExitParts, ExitPhase, ExitPhases, Handler, PortAccessForm,
    Subject, SubjectKind, TimePart, VcpuIdentity,
};
use exitscope_units::{Moment, Nanos, PcpuId, Tid, VcpuId, VmId};
use std::collections::BTreeSet;

/// `name value` of every column that a row has.
fn text<R>(columns: &[Column<R>], row: &R) -> Vec<String> {
    let names: BTreeSet<&str> = columns.iter().map(|column| column.name).collect();
    assert_eq!(names.len(), columns.len(), "a name stands twice");
    let line = |column: &Column<R>| {
        let value = match column.value(row) {
            ColumnValue::Lacks if column.may_lack => return None,
            ColumnValue::Lacks => panic!("{} lacks what no row lacks", column.name),
            ColumnValue::Words(words) => words.to_string(),
            ColumnValue::Flag(holds) => holds.to_string(),
            ColumnValue::Number(number) => number.to_string(),
            ColumnValue::Numbers(numbers) => format!("{numbers:?}"),
        };
        Some(format!("{} {value}", column.name))
    };
    columns.iter().filter_map(line).collect()
}

fn who() -> WhoRow {
    WhoRow { vm: Some(2), vm_name: Some("qemu".into()), vcpu: Some(3), on_cpu: Some(5), tid: Some(7) }
}

fn spread(prime: u64) -> Spread {
    Spread { sum_ns: prime * 10, max_ns: Some(prime * 7), buckets: vec![(prime * 3, 1), (prime * 7, 1)] }
}

fn exit() -> Exit {
    let mut way = ExitPhases::default();
    let steps = [ExitPhase::ToHandler, ExitPhase::ToUserSpace, ExitPhase::UserSpaceAsleep, ExitPhase::Reentry];
    steps.into_iter().zip([41, 43, 47, 53]).for_each(|(step, time)| way.spend(step, Nanos(time)));
    Exit {
        at: Moment::from_nanos(11),
        who: VcpuIdentity { vm: VmId(2), vcpu: VcpuId(3), tid: Tid(7) },
        cpu: PcpuId(13),
        code: ExitCode::new(CodeList::Svm, 0x7b),
        rip: 17,
        info: ExitInfo::from_words(|word| Some(1009 + word as u64)).unwrap(),
        handler: Handler::Userspace(2),
        subject: Some(Subject {
            kind: SubjectKind::Port,
            write: true,
            form: PortAccessForm::Unknown,
            size: 4,
            key: 0x3f8,
            value: 65,
        }),
        injected: Some(236),
        guest: Nanos(19),
        parts: TimePart::OF_EXITS
            .iter()
            .fold(ExitParts::ZERO, |parts, &part| parts.with(part, Nanos(23 + part as u64 * 2))),
        phases: way,
        timed: true,
        is_halt: false,
        events: 1,
    }
}

#[test]
fn columns_of_exits() {
    let mut rows = ExitRows::default();
    let of = text(&exit_columns(), rows.of(&exit(), &who().into()));
    let expected = "at_ns 11, vm 2, vm_name qemu, vcpu 3, on_cpu 5, tid 7, cpu 13, reason io, handler KVM_EXIT_IO, subject_kind port, \
                    subject_key 1016, subject_name COM1, direction out, size_bytes 4, value 65, injected_vector 236, timed true, exit_time_ns 279, \
                    kernel_ns 23, user_space_ns 25, polling_ns 27, halted_ns 29, halt_not_divided_ns 31, waiting_for_memory_ns 33, \
                    steal_ns 35, stopped_ns 37, unknown_ns 39, to_handler_ns 41, to_user_space_ns 43, user_space_asleep_ns 47, \
                    reentry_ns 53, guest_ns 19, info1 1009, info2 1010, intr_info 1011, error_code 1012, requests 1013";
    assert_eq!(of.join(", "), expected);

    // Of a nested guest.
    let code = exit().code.of_nested();
    let of = text(&exit_columns(), rows.of(&Exit { code, ..exit() }, &who().into()));
    assert!(of.join(", ").contains("reason io (L2), level 2, handler"), "{of:?}");

    // A direction and a size have a meaning of accesses alone.
    let leaf =
        Subject { kind: SubjectKind::Cpuid, write: false, form: PortAccessForm::Unknown, size: 0, key: 1, value: 0 };
    let of = text(&exit_columns(), rows.of(&Exit { subject: Some(leaf), ..exit() }, &who().into()));
    assert!(
        of.join(", ").contains(
            "handler KVM_EXIT_IO, subject_kind cpuid, subject_key 1, subject_name features, value 0, injected"
        ),
        "{of:?}"
    );

    // Only one end was seen, of an exit of which little is known.
    let bare = Exit {
        cpu: PcpuId(u32::MAX),
        handler: Handler::Kernel,
        subject: None,
        injected: None,
        info: ExitInfo::default(),
        timed: false,
        guest: Nanos(0),
        ..exit()
    };
    let of = text(&exit_columns(), rows.of(&bare, &WhoRow::default().into()));
    assert_eq!(of.join(", "), "at_ns 11, reason io, handler kernel, timed false, guest_ns 0");
}

#[test]
fn names_of_exits_are_their_own_also_when_others_were_before() {
    let (mut rows, who) = (ExitRows::default(), who().into());
    for number in (0..10_000).chain(0..100) {
        let (code, handler) = (ExitCode::new(CodeList::Svm, number), Handler::Userspace(number as u32 % 40));
        let row = rows.of(&Exit { code, handler, ..exit() }, &who);
        assert_eq!((&*row.reason, &*row.handler), (&*code.name(), &*handler.name()));
    }
}

#[test]
fn columns_of_sums() {
    let row = SumRow {
        who: who(),
        vm_vcpus: 11,
        at_ns: 13,
        span_ns: 17,
        reason: "io".into(),
        count: 19,
        timed: 23,
        user_space_exits: 29,
        parts: exit().parts,
        min_ns: Some(47),
        max_ns: 53,
        exit_times: vec![(59, 61), (67, 71)],
    };
    let expected = "vm 2, vm_name qemu, vcpu 3, on_cpu 5, tid 7, reason io, count 19, timed 23, user_space_exits 29, kernel_ns 23, \
                    user_space_ns 25, polling_ns 27, halted_ns 29, halt_not_divided_ns 31, waiting_for_memory_ns 33, steal_ns 35, \
                    stopped_ns 37, unknown_ns 39, min_ns 47, max_ns 53, exit_time_bucket_ns [59, 67], exit_time_bucket_count [61, 71], \
                    vm_vcpus 11, at_ns 13, span_ns 17";
    assert_eq!(text(&sum_columns(), &row).join(", "), expected);
}

#[test]
fn columns_of_halts() {
    let row = HaltRow {
        who: who(),
        has_wakeup_events: true,
        halts: 11,
        pending: 13,
        not_blocked: Some(17),
        blocked: Some(19),
        invalid: 23,
        kicked: 61,
        unfinished: 29,
        in_user_space: 73,
        gaps: spread(101),
        inexact_gaps: 31,
        latency: spread(103),
        latency_not_blocked: spread(107),
        latency_blocked: spread(109),
        successful_polls: 61,
        poll_success_ns: 37,
        poll_fail_ns: Some(41),
        failed_polls: Some(43),
        before_block_ns: Some(47),
        grown: 53,
        shrunk: 59,
    };
    let expected = "vm 2, vm_name qemu, vcpu 3, on_cpu 5, tid 7, halts 11, pending 13, not_blocked 17, blocked 19, invalid 23, kicked 61, \
                    gap_sum_ns 1010, gap_max_ns 707, gap_bucket_ns [303, 707], gap_bucket_count [1, 1], inexact_gaps 31, \
                    latency_sum_ns 1030, latency_max_ns 721, latency_bucket_ns [309, 721], latency_bucket_count [1, 1], successful_polls 61, \
                    poll_success_ns 37, poll_fail_ns 41, failed_polls 43, grown 53, shrunk 59";
    assert_eq!(text(&halt_columns(), &row).join(", "), expected);
}

#[test]
fn columns_of_ganged_exits() {
    let row = GangRow {
        vm: Some(2),
        vm_name: Some("qemu".into()),
        vcpus: Some(vec![8, 9, 10]),
        runs: 11,
        ganged_script: 13,
        runs_of_several: 17,
        decrementer: 19,
        ganged: 23,
        exits: 29,
        forced_exits: 31,
        entry_refused: 37,
        joined: 41,
        cpus: vec![43],
        forced_out: spread(101),
    };
    let expected = "vm 2, vm_name qemu, vcore 8, vcpus 3, runs 11, ganged_script 13, runs_of_several 17, decrementer 19, ganged 23, \
                    exits 29, forced_exits 31, entry_refused 37, joined 41, forced_out_sum_ns 1010, forced_out_max_ns 707, forced_out_bucket_ns [303, 707], \
                    forced_out_bucket_count [1, 1]";
    assert_eq!(text(&gang_columns(), &row).join(", "), expected);
}
