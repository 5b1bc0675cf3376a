//! The table of exits.

use super::WhoRow;
use super::who::{OfVcpu, who_columns};
use crate::{
    Column, Exit, ExitCode, ExitPhase, ExitWord, Handler, Of, Spelling, SubjectKind, SubjectName, SubjectNames,
};
use exitscope_units::{PcpuId, VmId};
use rustc_hash::FxHashMap;
use std::sync::Arc;

/// Names that are kept, at most; then they are made anew.
const MOST_NAMES: usize = 4096;

/// One exit, and what of it is words.
#[derive(Clone, Debug)]
pub struct ExitRow {
    /// The exit.
    pub exit: Exit,
    /// The vCPU that left its guest.
    pub who: Arc<WhoRow>,
    /// Its reason, in the kernel's spelling.
    pub reason: Arc<str>,
    /// Where the vCPU left to.
    pub handler: Arc<str>,
    /// Its subject is called so.
    pub name: Option<SubjectName>,
}

/// Makes rows of exits; names are made once.
#[derive(Debug, Default)]
pub struct ExitRows {
    reasons: FxHashMap<ExitCode, Arc<str>>,
    handlers: FxHashMap<Handler, Arc<str>>,
    subjects: FxHashMap<(VmId, bool, SubjectKind, u64), Option<SubjectName>>,
    names: SubjectNames,
    last: Option<ExitRow>,
}

impl ExitRows {
    /// Rows whose subjects are called so.
    pub fn naming(names: SubjectNames) -> ExitRows {
        ExitRows { names, ..ExitRows::default() }
    }

    /// The row of an exit of this vCPU.
    pub fn of(&mut self, exit: &Exit, who: &Arc<WhoRow>) -> &ExitRow {
        if self.reasons.len().max(self.handlers.len()) > MOST_NAMES {
            (self.reasons, self.handlers) = Default::default();
        }
        if self.subjects.len() > MOST_NAMES {
            self.subjects.clear();
        }
        let last = self.last.take();
        let (mut reason, mut handler) = (None, None);
        if let Some(last) = last {
            reason = (last.exit.code == exit.code).then_some(last.reason);
            handler = (last.exit.handler == exit.handler).then_some(last.handler);
        }
        let reason =
            reason.unwrap_or_else(|| self.reasons.entry(exit.code).or_insert_with(|| exit.code.name().into()).clone());
        let handler = handler
            .unwrap_or_else(|| self.handlers.entry(exit.handler).or_insert_with(|| exit.handler.name().into()).clone());
        let name = exit.subject.and_then(|of| {
            let key = (exit.who.vm, exit.code.nested, of.kind, of.key);
            self.subjects.entry(key).or_insert_with(|| self.names.of_exit(exit)).clone()
        });
        self.last.insert(ExitRow { exit: *exit, who: who.clone(), reason, handler, name })
    }
}

impl OfVcpu for ExitRow {
    fn who(&self) -> &WhoRow {
        &self.who
    }
}

/// A length of time, which means something only if both ends were seen.
macro_rules! time {
    ($name:literal, $prose:literal, $of:expr) => {
        Column::new(
            $name,
            "ns",
            $prose,
            Of::U64(|row: &ExitRow| {
                let of: fn(&Exit) -> u64 = $of;
                row.exit.timed.then(|| of(&row.exit))
            }),
        )
        .nullable()
    };
}

/// A word of `kvm_exit`, as the kernel calls it.
macro_rules! word {
    ($word:expr, $prose:literal) => {
        Column::new($word.name(), "", $prose, Of::U64(|row: &ExitRow| row.exit.info.get($word)))
            .nullable()
            .spelling(Spelling::Hex)
    };
}

/// The columns of exits. Times of an exit of which only one end was seen mean nothing, and are absent. Stores do not keep what
/// is a sum of other columns, or between two exits, nor the phases of a cost.
pub fn exit_columns() -> Vec<Column<ExitRow>> {
    let mut columns = vec![Column::new(
        "at_ns",
        "ns",
        "When the vCPU left its guest, on the trace's clock.",
        Of::U64(|row: &ExitRow| Some(row.exit.at.as_nanos())),
    )];
    columns.extend(who_columns());
    columns.extend([
        Column::new(
            "cpu",
            "",
            "The physical CPU.",
            Of::U32(|row: &ExitRow| Some(row.exit.cpu.0).filter(|_| row.exit.cpu != PcpuId(u32::MAX))),
        )
        .nullable()
        .spelling(Spelling::Plain),
        Column::new(
            "reason",
            "",
            "The exit reason, in the kernel's spelling.",
            Of::Words(|row: &ExitRow| Some(&row.reason)),
        ),
        Column::new(
            "level",
            "",
            "2 if it was a nested guest (L2) that the vCPU left, as its own events say (`kvm_nested_vmexit`, \
                `kvm_forward_sysreg_trap`, Xen's `hvm_nested_…_exit`); absent where none does.",
            Of::U32(|row: &ExitRow| row.exit.code.nested.then_some(2)),
        )
        .nullable()
        .spelling(Spelling::Plain),
        Column::new(
            "handler",
            "",
            "Who answered: `kernel`, user space with this KVM_EXIT_* reason, or `device model`.",
            Of::Words(|row: &ExitRow| Some(&row.handler)),
        )
        .spelling(Spelling::Plain),
        Column::new(
            "subject_kind",
            "",
            "What kind of subject it had: `port`, `mmio`, `msr`, …",
            Of::Words(|row: &ExitRow| row.exit.subject.map(|of| of.kind.name())),
        )
        .nullable()
        .spelling(Spelling::Plain),
        Column::new(
            "subject_key",
            "",
            "Port, address, MSR, hypercall number, CPUID leaf, error code, …",
            Of::U64(|row: &ExitRow| row.exit.subject.map(|of| of.key)),
        )
        .nullable()
        .spelling(Spelling::Hex),
        Column::new(
            "subject_name",
            "",
            "What the subject is called, where it has a name.",
            Of::Words(|row: &ExitRow| row.name.as_deref()),
        )
        .nullable()
        .spelling(Spelling::Plain),
        Column::new(
            "direction",
            "",
            "`in`, `out`, `read`, `write`, where that has a meaning.",
            Of::Words(|row: &ExitRow| row.exit.subject.and_then(|of| of.kind.direction(of.write))),
        )
        .nullable()
        .spelling(Spelling::Plain),
        Column::new(
            "size_bytes",
            "bytes",
            "Size of the access.",
            Of::U16(|row: &ExitRow| row.exit.subject.map(|of| of.size).filter(|size| *size > 0)),
        )
        .nullable()
        .spelling(Spelling::Plain),
        Column::new(
            "value",
            "",
            "Value read or written, CPUID index, fault address, …",
            Of::U64(|row: &ExitRow| row.exit.subject.map(|of| of.value)),
        )
        .nullable()
        .spelling(Spelling::Hex),
        Column::new(
            "injected_vector",
            "",
            "Interrupt vector injected at the entry that ended it.",
            Of::U32(|row: &ExitRow| row.exit.injected),
        )
        .nullable()
        .spelling(Spelling::Hex),
        Column::new("timed", "", "`true` if both ends were seen.", Of::Flag(|row: &ExitRow| Some(row.exit.timed))),
        time!("exit_time_ns", "From exit to entry, whatever it holds.", |exit| exit.total().0)
            .passing()
            .spelling(Spelling::Plain),
    ]);
    columns
        .extend(super::part_columns!(ExitRow, |row| row.exit.timed.then_some(&row.exit.parts)).map(Column::nullable));
    columns.extend([
        time!("to_handler_ns", "Of kernel_ns, until the first event of the exit's handler.", |exit| {
            exit.phases.time(ExitPhase::ToHandler).0
        })
        .passing(),
        time!("to_user_space_ns", "Of kernel_ns, on the way to user space.", |exit| exit
            .phases
            .time(ExitPhase::ToUserSpace)
            .0)
        .passing(),
        time!("user_space_asleep_ns", "Of user_space_ns, asleep: the vCPU's thread waits for another.", |exit| exit
            .phases
            .time(ExitPhase::UserSpaceAsleep)
            .0)
        .passing(),
        time!("reentry_ns", "Of kernel_ns, from the call of KVM_RUN until the entry.", |exit| {
            exit.phases.time(ExitPhase::Reentry).0
        })
        .passing(),
        Column::new(
            "guest_ns",
            "ns",
            "In the guest, before this exit.",
            Of::U64(|row: &ExitRow| Some(row.exit.guest.0)),
        )
        .passing(),
        word!(ExitWord::Info1, "What x86's exit says of itself: VMX's exit qualification, SVM's EXITINFO1."),
        word!(ExitWord::Info2, "The same, further: VMX's IDT-vectoring information, SVM's EXITINFO2."),
        word!(ExitWord::IntrInfo, "Of x86: the interrupt or exception that the exit was for, or that it interrupted."),
        word!(ExitWord::ErrorCode, "Of x86: the error code of that."),
        word!(ExitWord::Requests, "Of x86: what others had asked of the vCPU (`KVM_REQ_*`), as bits."),
    ]);
    columns
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{CodeList, ExitInfo, ExitParts, ExitPhases, VcpuIdentity};
    use exitscope_units::{Moment, Nanos, Tid, VcpuId, VmId};

    /// The words of the row of an exit with this code and handler.
    fn words(rows: &mut ExitRows, number: u64, handler: Handler) -> (Arc<str>, Arc<str>) {
        let exit = Exit {
            at: Moment::from_nanos(3),
            who: VcpuIdentity { vm: VmId(5), vcpu: VcpuId(7), tid: Tid(11) },
            cpu: PcpuId(13),
            code: ExitCode::new(CodeList::Svm, number),
            rip: 0,
            info: ExitInfo::default(),
            handler,
            subject: None,
            injected: None,
            guest: Nanos::ZERO,
            parts: ExitParts::ZERO,
            phases: ExitPhases::default(),
            timed: true,
            is_halt: false,
            events: 1,
        };
        let row = rows.of(&exit, &Arc::default());
        (row.reason.clone(), row.handler.clone())
    }

    #[test]
    fn names_are_made_once_until_there_are_too_many() {
        let most = MOST_NAMES as u64;
        let mut rows = ExitRows::default();
        let (first, kernel) = words(&mut rows, 0, Handler::Kernel);
        for number in 1..most {
            assert!(Arc::ptr_eq(&words(&mut rows, number, Handler::Kernel).1, &kernel), "{number}");
        }
        let again = words(&mut rows, 0, Handler::Kernel).0;
        assert!(Arc::ptr_eq(&again, &first), "all of them are still known");
        words(&mut rows, most, Handler::Kernel);
        words(&mut rows, 1, Handler::Kernel);
        let anew = words(&mut rows, 0, Handler::Kernel).0;
        assert!(!Arc::ptr_eq(&anew, &first) && anew == first, "one more, and they are made anew");
        assert_eq!(rows.reasons.len(), 2);
    }

    #[test]
    fn many_doors_are_too_many_names_as_well() {
        let mut rows = ExitRows::default();
        (0..=MOST_NAMES as u32).for_each(|handler| _ = words(&mut rows, 7, Handler::Userspace(handler)));
        assert_eq!((rows.reasons.len(), rows.handlers.len()), (1, MOST_NAMES + 1));
        let (_, handler) = words(&mut rows, 9, Handler::Userspace(6));
        assert_eq!((rows.reasons.len(), rows.handlers.len(), &*handler), (1, 1, "KVM_EXIT_MMIO"));
    }
}
