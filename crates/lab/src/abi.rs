//! What the lab and its guest's payload agree on: where things are in the guest's memory, the steps of a program, and
//! the doorbells. Compiled into both.
//!
//! ```text
//! 0x0000_0000  nothing: a null pointer faults
//! 0x0000_1000  Control, one for all vCPUs: knobs, machine
//! 0x0000_2000  GDT, IDT, page tables (4 GiB mapped to themselves)
//! 0x0010_0000  the payload
//! 0x0020_0000  Shared: locks, boxes, counters
//! 0x0022_0000  programs and their tables
//! 0x0040_0000  for each vCPU: its page, task state segment, stack
//! 0x00c0_0000  for each vCPU: its samples
//! 0x0100_0000  the arena: pages to fault in
//! 0x0200_0000  end of memory; above it, accesses leave the guest as MMIO
//! ```

use core::sync::atomic::{AtomicU32, AtomicU64};

/// The page that all vCPUs read first.
pub const CONTROL: u64 = 0x1000;
/// Segment descriptors.
pub const GDT: u64 = 0x2000;
/// Interrupt descriptors.
pub const IDT: u64 = 0x3000;
/// Page tables: PML4, PDPT, four page directories, one page table for the first 2 MiB.
pub const PAGE_TABLES: u64 = 0x4000;
/// Where the payload is linked.
pub const PAYLOAD: u64 = 0x10_0000;
/// Where the payload serves the interrupt that wakes a vCPU: its first bytes.
pub const WAKE_INTERRUPT: u64 = PAYLOAD;
/// Locks, boxes and counters: a memory of its own, which several VMs may share.
pub const SHARED: u64 = 0x20_0000;
/// The size of that memory, in bytes.
pub const SHARED_SIZE: u64 = PROGRAMS - SHARED;
/// Programs and tables of random lengths.
pub const PROGRAMS: u64 = 0x22_0000;
/// Where programs end.
pub const PROGRAMS_END: u64 = VCPUS;
/// The areas of the vCPUs.
pub const VCPUS: u64 = 0x40_0000;
/// Bytes of a vCPU's area.
pub const VCPU_SIZE: u64 = 0x2_0000;
/// In a vCPU's area: its task state segment with an I/O bitmap that allows every port.
pub const TSS_OFFSET: u64 = 0x1000;
/// In a vCPU's area: the end of its stack.
pub const STACK_END: u64 = 0x1_8000;
/// The sample buffers of the vCPUs.
pub const SAMPLES: u64 = 0xc0_0000;
/// Samples that a vCPU's buffer holds, 32 bits each.
pub const MAX_SAMPLES: u64 = 16_384;
/// Pages that nobody uses but who measures page faults.
pub const ARENA: u64 = SAMPLES + MAX_VCPUS as u64 * MAX_SAMPLES * 4;
/// Bytes of the arena.
pub const ARENA_SIZE: u64 = 0x100_0000;
/// Size of the guest's memory.
pub const MEMORY_SIZE: u64 = ARENA + ARENA_SIZE;

/// vCPUs of a VM at most.
pub const MAX_VCPUS: usize = 64;
/// Spinlocks of a VM at most.
pub const MAX_LOCKS: usize = 64;
/// Knobs at most.
pub const MAX_KNOBS: usize = 128;
/// Loops within loops at most.
pub const MAX_DEPTH: usize = 16;

/// The interrupt that wakes a vCPU from HLT.
pub const WAKE_VECTOR: u8 = 0x40;

/// Ports that the payload writes to tell the run loop something: `BELLS + Bell`.
pub const BELLS: u16 = 0xe5c0;

/// What a doorbell says. All are 32-bit writes but for `Sense`, which is a read.
pub mod bell {
    /// The program is over.
    pub const DONE: u16 = 0;
    /// Halt until somebody wakes this vCPU; returns at once if somebody has since the last halt.
    pub const HALT: u16 = 1;
    /// Wake the vCPU of this number.
    pub const WAKE: u16 = 2;
    /// Sleep until the moment in the vCPU's page (`sleep_ns` from now).
    pub const SLEEP: u16 = 3;
    /// Diagnose X'44': let somebody else run.
    pub const YIELD: u16 = 4;
    /// Diagnose X'9C': let the vCPU of this number run.
    pub const YIELD_TO: u16 = 5;
    /// SIGP sense running: whether the vCPU whose number was last written to `SENSE_WHOM` runs.
    pub const SENSE: u16 = 6;
    /// The payload met something that it cannot do; the value says what.
    pub const PANIC: u16 = 7;
    /// An answer for the client of this number outside.
    pub const REPLY: u16 = 8;
    /// A request for disk `value`, of this vCPU.
    pub const SUBMIT: u16 = 9;
    /// The number of doorbells.
    pub const COUNT: u16 = 10;
}

/// Why the payload gave up.
pub mod trouble {
    /// A step of no known kind.
    pub const BAD_STEP: u32 = 1;
    /// Loops nested too deep, or not at all where one ends.
    pub const BAD_LOOP: u32 = 2;
    /// A Rust panic.
    pub const PANIC: u32 = 3;
    /// `Control` is of another layout.
    pub const LAYOUT: u32 = 4;
}

/// Marks a `Control` of this layout.
pub const MAGIC: u64 = 0x6c61_6221_0000_0001;

/// What all vCPUs of a VM are told: before they run, and when a program loads the knobs again.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct Control {
    /// [`MAGIC`].
    pub magic: u64,
    /// Ticks of the time stamp counter in 2^20 nanoseconds.
    pub ticks_per_2_20_ns: u64,
    /// How many vCPUs there are.
    pub vcpus: u32,
    /// 1: HLT halts (ring 0); 0: the doorbell does.
    pub hlt: u32,
    /// Flags of [`machine`].
    pub machine: u32,
    /// How many knobs there are.
    pub knob_count: u32,
    /// Values of the knobs, in the order of the policy crate's rows.
    pub knobs: [u64; MAX_KNOBS],
}

/// What the guest's machine has.
pub mod machine {
    /// The calls of `exitscope_policy::yielding::LabMachine`, in its order.
    pub const DIAG44: u32 = 1;
    /// X'9C'.
    pub const DIAG9C: u32 = 2;
    /// SIGP sense running.
    pub const SENSE_RUNNING: u32 = 4;
    /// Directly in a logical partition.
    pub const LPAR: u32 = 8;
    /// Hypercalls are VMMCALL, else VMCALL.
    pub const VMMCALL: u32 = 64;
    /// The idle loop polls before it halts (cpuidle's haltpoll).
    pub const HALTPOLL: u32 = 16;
    /// What runs and what does not is published in `Shared::running`, so that sensing costs no exit.
    pub const RUNNING_IN_MEMORY: u32 = 32;
}

/// A vCPU's page. Written by the lab before the vCPU runs, by the payload while it does.
#[derive(Clone, Copy, Debug, Default)]
#[repr(C)]
pub struct VcpuPage {
    /// This vCPU's number among all that share memory.
    pub index: u32,
    /// Steps of its program.
    pub steps: u32,
    /// Where the program is: `steps` times [`ProgramStep`].
    pub program: u64,
    /// Seed of its choices.
    pub seed: u64,
    /// For `bell::SLEEP`: how long.
    pub sleep_ns: u64,
    /// For `bell::SENSE`: whom.
    pub sense_whom: u32,
    /// Samples in its buffer; those that did not fit are counted in `samples_lost`.
    pub samples: u32,
    /// Samples that found no room.
    pub samples_lost: u64,
    /// How often each kind of step was done, by `op` number.
    pub done: StepCounts,
    /// Halts, with the doorbell or HLT.
    pub halts: u64,
    /// Those with HLT.
    pub hlts: u64,
    /// Doorbells rung.
    pub bells: u64,
    /// Polls before a halt, and those that made the halt unnecessary.
    pub polls: u64,
    /// Polls that made the halt unnecessary.
    pub polls_paid: u64,
    /// Ticks spent polling.
    pub poll_ticks: u64,
    /// The poll limit, in nanoseconds.
    pub poll_limit_ns: u64,
    /// Wake-ups of others that needed a doorbell or an interrupt.
    pub wakes_sent: u64,
    /// Wake-ups of others that were polling, or running, or saw the message before they halted: memory was enough.
    pub wakes_saved: u64,
    /// Of those, wake-ups of others that were polling.
    pub ipis_spared: u64,
    /// Yields without a target.
    pub yields: u64,
    /// Yields to a target.
    pub yields_to: u64,
    /// Questions whether another vCPU runs.
    pub senses: u64,
    /// Locks that were held when asked for.
    pub contended: u64,
    /// Ticks spent waiting for locks.
    pub spin_ticks: u64,
    /// Passes of the compute loop.
    pub passes: u64,
    /// Passes that cannot have been at once: this vCPU's, after those of the vCPUs for whose messages and locks it waited.
    pub chain: u64,
    /// Time stamp of the last `START`.
    pub start_tsc: u64,
    /// Time stamp at which the program began.
    pub begin_tsc: u64,
    /// Time stamp at which the program ended.
    pub end_tsc: u64,
}

/// How often each kind of step was done, by its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(transparent)]
pub struct StepCounts(pub [u64; op::COUNT]);

impl Default for StepCounts {
    fn default() -> StepCounts {
        StepCounts([0; op::COUNT])
    }
}

/// What vCPUs tell each other through memory.
#[repr(C)]
pub struct Shared {
    /// A word for each lock: 0 free, otherwise the holder's number + 1; a cache line each.
    pub locks: [CacheLine; MAX_LOCKS],
    /// Where messages wait: for each vCPU one for interrupts ([`ipi_box`]) and one for answers ([`reply_box`]), then the
    /// scenario's channels ([`channel_box`]).
    pub boxes: [MessageBox; BOXES],
    /// Who sent the messages that wait in a channel, by number modulo [`QUEUE`].
    pub senders: [[AtomicU32; QUEUE]; CHANNELS],
    /// For each vCPU whether the lab's dispatcher has it on a CPU.
    pub running: [CacheLine; MAX_VCPUS],
    /// Counters that everybody may add to.
    pub counters: [CacheLine; COUNTERS],
    /// Set: programs that repeat for ever end at their next round.
    pub stop: CacheLine,
    /// Wake-up interrupts served, by all vCPUs.
    pub interrupts: CacheLine,
    /// How often `Control` was written while vCPUs ran.
    pub control_changes: CacheLine,
}

/// Channels at most.
pub const CHANNELS: usize = 32;
/// Messages that wait in a channel at most; a sender waits for room.
pub const QUEUE: usize = 256;
/// Boxes.
pub const BOXES: usize = 2 * MAX_VCPUS + CHANNELS + MAX_VCPUS;
/// Shared counters.
pub const COUNTERS: usize = 16;
/// Senders from here on are not vCPUs but clients outside: an answer to one is told with `bell::REPLY`.
pub const FIRST_CLIENT: u32 = 0x1_0000;

/// The box of interrupts for a vCPU.
pub const fn ipi_box(vcpu: u32) -> u32 {
    vcpu
}

/// The box of answers for a vCPU.
pub const fn reply_box(vcpu: u32) -> u32 {
    MAX_VCPUS as u32 + vcpu
}

/// The box of a channel.
pub const fn channel_box(channel: u32) -> u32 {
    2 * MAX_VCPUS as u32 + channel
}

/// The channel whose box this is, if it is one's.
pub const fn channel_of(number: u32) -> Option<u32> {
    let first = channel_box(0);
    if number >= first && number < first + CHANNELS as u32 { Some(number - first) } else { None }
}

/// The box of finished disk requests of a vCPU.
pub const fn disk_box(vcpu: u32) -> u32 {
    (2 * MAX_VCPUS + CHANNELS) as u32 + vcpu
}

/// A word with a cache line of its own.
#[repr(C, align(64))]
pub struct CacheLine {
    /// The word.
    pub word: AtomicU64,
    /// Of a lock: the longest [`VcpuPage::chain`] of those who gave it back.
    pub chain: AtomicU64,
}

/// Messages, which are only counted.
#[repr(C, align(64))]
pub struct MessageBox {
    /// Messages sent so far.
    pub sent: AtomicU64,
    /// Messages taken so far.
    pub taken: AtomicU64,
    /// A bit for each vCPU that is about to halt, or halted, until a message comes: whoever sends has to wake one.
    pub waiting: AtomicU64,
    /// A bit for each vCPU that polls for a message: whoever sends need not wake it, as with Linux's TIF_POLLING_NRFLAG.
    pub polling: AtomicU64,
    /// The longest [`VcpuPage::chain`] of those who sent.
    pub chain: AtomicU64,
}

/// One step of a program.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct ProgramStep {
    /// One of [`op`].
    pub op: u32,
    /// A small argument: size, count, index.
    pub a: u32,
    /// Port, address, length, …
    pub b: u64,
    /// Value, limit, …
    pub c: u64,
}

/// Instructions of `op::PRIVILEGED`.
pub mod privileged {
    /// Reads CR8.
    pub const READ_CR8: u32 = 0;
    /// Writes 0 to CR8.
    pub const WRITE_CR8: u32 = 1;
    /// Clears CR0.WP and sets it again: two writes.
    pub const TOGGLE_CR0_WP: u32 = 2;
    /// Changes CR4.PGE and changes it back: two writes.
    pub const TOGGLE_CR4_PGE: u32 = 3;
    /// Writes DR7, with no breakpoint in it.
    pub const WRITE_DR7: u32 = 4;
    /// WBINVD.
    pub const WBINVD: u32 = 5;
}

/// Flags of `op::SELF_IPI`. The interrupt is taken with STI and NOP, unless one says otherwise.
pub mod self_ipi {
    /// By x2APIC's self IPI register, else by its interrupt command register.
    pub const REGISTER: u32 = 1;
    /// The task priority holds it back, and is lowered.
    pub const TASK_PRIORITY: u32 = 2;
    /// It is taken with STI and HLT.
    pub const HLT: u32 = 4;
    /// Interrupts are on throughout: it is taken as soon as it is there.
    pub const ENABLED: u32 = 8;
}

/// Steps of programs.
pub mod op {
    /// Ends the program.
    pub const END: u32 = 0;
    /// Runs the compute loop for `b` passes.
    pub const COMPUTE: u32 = 1;
    /// Runs it for as many passes as the next entry of a table says: at `b`, of `a` 32-bit entries.
    pub const COMPUTE_TABLE: u32 = 2;
    /// Reads port `b`, `a` bytes.
    pub const PORT_IN: u32 = 3;
    /// Writes `c` to port `b`, `a` bytes.
    pub const PORT_OUT: u32 = 4;
    /// Reads `a` bytes at address `b`.
    pub const MMIO_READ: u32 = 5;
    /// Writes `c` as `a` bytes to address `b`.
    pub const MMIO_WRITE: u32 = 6;
    /// VMCALL or VMMCALL, as the machine has it, with number `b`.
    pub const HYPERCALL: u32 = 7;
    /// CPUID of leaf `b`.
    pub const CPUID: u32 = 8;
    /// RDMSR of `b`.
    pub const RDMSR: u32 = 9;
    /// WRMSR of `c` to `b`.
    pub const WRMSR: u32 = 10;
    /// Halts until woken.
    pub const HALT: u32 = 11;
    /// Idles for `b` nanoseconds.
    pub const SLEEP: u32 = 12;
    /// Takes lock `a`.
    pub const LOCK: u32 = 13;
    /// Gives lock `a` back.
    pub const UNLOCK: u32 = 14;
    /// Sends a message into box `a`, waking one who halted to wait for it.
    pub const SEND: u32 = 15;
    /// Waits for a message in box `a`, polling and halting as the knobs say, and takes it.
    pub const RECEIVE: u32 = 16;
    /// Spins for a message in box `a` without ever halting, and takes it.
    pub const RECEIVE_SPIN: u32 = 17;
    /// Adds 1 to the program's count.
    pub const COUNT_ONE: u32 = 18;
    /// A latency begins.
    pub const START: u32 = 19;
    /// It ends, and is a sample.
    pub const STOP: u32 = 20;
    /// Repeats the steps up to the matching `AGAIN` `b` times; 0: until told to stop.
    pub const REPEAT: u32 = 21;
    /// Ends a `REPEAT`.
    pub const AGAIN: u32 = 22;
    /// Chooses one of the next `a` steps, all of them `CASE`s, by their weights, which add up to `b`.
    pub const PICK: u32 = 23;
    /// Of weight `a`: goes on at step `b`.
    pub const CASE: u32 = 24;
    /// Goes on at step `b`.
    pub const JUMP: u32 = 25;
    /// Does the next step `b` times, each a sample of its length in ticks.
    pub const SAMPLE: u32 = 26;
    /// Nothing: what sampling itself costs.
    pub const NOTHING: u32 = 27;
    /// Adds 1 to shared counter `a`.
    pub const ADD: u32 = 28;
    /// Writes one byte at address `b`, then adds `c` to the step's own `b`: the next time, the next page.
    pub const TOUCH: u32 = 29;
    /// Spins until shared counter `a` is at least `b`.
    pub const AWAIT_COUNTER: u32 = 30;
    /// PAUSE, `b` times.
    pub const PAUSE: u32 = 31;
    /// Answers whoever sent the message that this vCPU took last from a channel.
    pub const REPLY: u32 = 32;
    /// Sends the wake-up interrupt to vCPU `a` and spins until some vCPU has served it, and then for `c` ticks. Ring 0 only.
    pub const INTERRUPT: u32 = 33;
    /// Waits with HLT for an interrupt. Ring 0 only.
    pub const HLT: u32 = 34;
    /// Reads (`c` 0) or writes (`c` 1) port `b`, `a` bytes, to or from memory: INS or OUTS.
    pub const PORT_STRING: u32 = 35;
    /// Idles for as many nanoseconds as the next entry of a table says: at `b`, of `a` 32-bit entries.
    pub const SLEEP_TABLE: u32 = 36;
    /// Hands a request to disk `a`.
    pub const SUBMIT: u32 = 37;
    /// As `PORT_OUT`: the doorbell of a channel.
    pub const DOORBELL: u32 = 38;
    /// Takes over the knobs and flags of `Control`, if they have changed since (`Shared::control_changes`).
    pub const LOAD_KNOBS: u32 = 39;
    /// Executes an instruction of ring 0's, `a` of [`super::privileged`].
    pub const PRIVILEGED: u32 = 40;
    /// Sends the wake-up interrupt to its own vCPU, as `a` has it ([`super::self_ipi`]). Ring 0 only.
    pub const SELF_IPI: u32 = 41;
    /// The number of kinds of steps.
    pub const COUNT: usize = 42;
}
