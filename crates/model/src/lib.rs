//! Events in, exit rows out, and a ledger of everything seen and not used.
//!
//! ```text
//! Event{kvm_exit vcpu 0 io} ─┐
//! Event{kvm_pio 0x3f8 out}  ─┼─► Assembler ─► Exit{reason io, port 0x3f8, 12 us, went to user space}
//! Event{kvm_entry vcpu 0}   ─┘        └─────► Ledger{outside any exit: 0, ...}
//! ```
//!
//! Does not know: files, vendors' byte layouts, Arrow.

mod anonymous;
mod assemble;
pub mod codes;
mod column;
pub mod encode;
mod event;
mod exit;
mod exit_info;
mod given_names;
mod halt;
mod lane;
mod ledger;
mod part;
mod qemu;
mod rows;
mod run_queue;
mod sign;
mod subject;
mod subject_names;
mod turns;
mod way;
mod yields;

pub use anonymous::Anonymous;
pub use assemble::{Assembler, EventKinds};
pub use codes::{CodeList, ExitCode};
pub use column::{Column, ColumnValue, Of, Spelling};
pub use event::{
    Detail, DetailKind, Event, EventNames, Kind, NameId, PORTS_IN_KERNEL, RunState, Setting, TraceInfo, version,
};
pub use exit::{Door, Exit, Rows, Signed, Who};
pub use exit_info::{ExitInfo, ExitWord};
pub use given_names::{GivenByVm, GivenNames, NamedRanges};
pub use halt::{Halt, PollChange, Told, poll_limit};
pub use ledger::{Ledger, Line, Severity};
pub use part::{ALL_PARTS, AllParts, EXIT_PARTS, ExitParts, LaneSpan, Parts, Stretch, TimePart};
pub use qemu::{QemuOptions, is_of_vm, is_qemu, is_qemu_word};
pub use rows::{
    ExitRow, ExitRows, GangRow, HaltRow, Spread, SumRow, WhoRow, exit_columns, gang_columns, halt_columns, is_called,
    sum_columns, vcpu_by_name,
};
pub use sign::Sign;
pub use subject::{Form, SubjectWord};
pub use subject_names::{SubjectName, SubjectNames};
pub use turns::Turns;
pub use way::{Mark, Step, Way};
pub use yields::{Gave, Place, PleUpdate, Preemption, QueueStay, ThreadWakeUp, Waiters, Yield, YieldCall};
