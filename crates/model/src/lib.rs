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
mod apicv_inhibit;
mod architecture;
mod assemble;
mod beside_row;
pub mod codes;
mod column;
mod common_names;
pub mod encode;
mod event;
mod exit;
mod exit_info;
mod exit_phases;
mod exit_tables;
mod given_names;
mod halt;
mod idle;
mod ipi;
mod irq_names;
mod kvm_activity;
mod lane;
mod ledger;
mod operation_costs;
mod part;
mod poll_change;
mod qemu;
mod release;
mod rows;
mod run_queue;
mod short_name;
mod steal_pieces;
mod subject;
mod subject_names;
mod switch_history;
mod turns;
mod vm_identity;
mod yield_counts;
mod yields;

pub use anonymous::Anonymous;
pub use apicv_inhibit::{APICV_DISABLED, APICV_HYPERV, ApicvInhibit, apicv_inhibit_words, apicv_inhibits};
pub use architecture::{Architecture, ArchitectureRow};
pub use assemble::{Assembler, EventKinds};
pub use beside_row::BesideRow;
pub use codes::{CodeList, ExitCode};
pub use column::{Column, ColumnValue, Of, Spelling};
pub use common_names::is_kernel_thread;
pub use event::{
    BOOT_ID, Event, EventKind, EventNames, HostSetting, NameId, PORTS_IN_KERNEL, RunState, SIMULATED, Subject,
    SubjectKind, TraceInfo, host_memory, recorder,
};
pub use exit::{ApicvChangeEvent, Exit, ExitSink, Handler, KvmActivityEvent, VcpuIdentity, least_vms};
pub use exit_info::{ExitInfo, ExitWord};
pub use exit_phases::{ExitPhase, ExitPhases, PhaseBoundary};
pub use exit_tables::{EXIT_EVENT, EXITS_COUNTER, ExitTable, ExitTableRow, ExitTableSource, exit_counter};
pub use given_names::{GivenByVm, GivenNames, NamedRanges};
pub use halt::{Halt, VcpuWakeup, poll_limit};
pub use idle::{IdleCpuEvent, IdleEvent};
pub use ipi::is_spared_by_polls;
pub use kvm_activity::{ApicvChange, KvmActivity};
pub use ledger::{Ledger, LedgerLine, Severity};
pub use operation_costs::{OperationCost, OperationCosts, TIMED_OPERATIONS, TimedOperation, timed_operation};
pub use part::{ALL_PARTS, AllParts, CpuInterval, EXIT_PARTS, ExitParts, LaneSpan, Parts, TimePart};
pub use poll_change::PollChange;
pub use qemu::{QemuOptions, is_of_vm, is_qemu, is_qemu_word};
pub use release::version;
pub use rows::{
    ExitRow, ExitRows, GangRow, HaltRow, Spread, SumRow, WhoRow, exit_columns, gang_columns, halt_columns, is_called,
    sum_columns, vcpu_by_name,
};
pub use short_name::{IrqName, ShortName, ThreadName};
pub use steal_pieces::{CpuTaker, LONGEST_WAKE_UP, StealPiece};
pub use subject::{PortAccessForm, SubjectWord};
pub use subject_names::{SubjectName, SubjectNames};
pub use turns::Turns;
pub use vm_identity::{IdentityField, IdentitySource, VmIdentity, VmManager, is_of_identity};
pub use yield_counts::{COUNTERS, CountSource, CounterRow, YieldCount, YieldCounter, YieldCounts, counters_of};
pub use yields::{
    PleUpdate, Preemption, RunQueueInterval, RunnableSiblings, TargetState, ThreadWakeUp, Yield, YieldCall,
    YieldRecipient,
};
