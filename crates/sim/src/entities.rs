//! What the machine consists of while it runs. All times are picoseconds.

use exitscope_policy::guest_halt_poll::GuestHaltPoll;
use exitscope_policy::host_halt_poll::HostHaltPoll;
use exitscope_policy::vcore::Vcore;
use exitscope_policy::yielding::{DiagnoseSupport, PleWindow, SpinLoop};
use rand_pcg::Pcg64Mcg;
use std::collections::VecDeque;

/// No index.
pub(crate) const NONE: u32 = u32::MAX;

/// What is planned in the queue. A generation that has passed makes a plan void.
#[derive(Clone, Copy, Debug)]
pub(crate) enum QueuedEvent {
    /// A strand's timed step is over.
    Strand { strand: u32, generation: u32 },
    /// A CPU's timed step in the hypervisor, or of a task without guest, is over.
    Cpu { cpu: u32, generation: u32 },
    /// The running task's time slice is over.
    Slice { cpu: u32 },
    /// The host's timer ticks on a CPU.
    Tick { cpu: u32 },
    /// A strand's timer fires.
    Timer { strand: u32 },
    /// A request to leave the guest reaches a strand's CPU.
    Kick { strand: u32 },
    /// An interrupt reaches a strand that naps inside its gang.
    Nap { strand: u32 },
    /// A message reaches the other side of its channel.
    Arrive { message: u32 },
    /// A client outside sends its next message.
    Client { load: u32, client: u32 },
    /// A disk has done a request of a strand.
    DiskDone { disk: u32, strand: u32 },
    /// Measuring begins.
    Measure,
}

/// A CPU of the scheduler.
#[derive(Debug)]
pub(crate) struct Cpu {
    pub(crate) core: u32,
    /// The task on it, or `NONE`.
    pub(crate) current: u32,
    /// Waiting tasks, next one last.
    pub(crate) queue: Vec<u32>,
    /// Those of them that are in the guest with the task that runs.
    pub(crate) aboard: Vec<u32>,
    /// The task that a yield asked for, to run next.
    pub(crate) buddy: u32,
    pub(crate) resched: bool,
    pub(crate) generation: u32,
    /// Whether the end of a slice and the next tick are planned.
    pub(crate) slice_armed: bool,
    /// By how much its slice ends early, or late if negative: the first one so that its slices have a phase of their own.
    pub(crate) early: i64,
    pub(crate) ticks: bool,
    /// The least run time of what runs or waits here; new tasks begin near it.
    pub(crate) least: u64,
    /// What its hardware threads put on their core, in thousandths of one with ordinary code.
    pub(crate) load: u32,
    /// Whether the current task is halted and the host polls for it.
    pub(crate) polling: bool,
    /// Work outside guests: how fast it is done, in thousandths (0: none is), since when, and what is left of it at full
    /// speed. Kept where a core has several hardware threads.
    pub(crate) work_rate: u32,
    pub(crate) work_since: u64,
    pub(crate) work_left: u64,
    /// When the queue's length changed last, and the sums since measuring began.
    pub(crate) queue_since: u64,
    pub(crate) queue_time: u128,
    pub(crate) empty_time: u64,
    /// Since when it has a task, if it has one, and how long it had one since measuring began.
    pub(crate) busy_since: u64,
    pub(crate) busy_time: u64,
}

impl Cpu {
    /// An idle CPU of this core.
    pub(crate) fn new(core: u32) -> Cpu {
        Cpu {
            core,
            current: NONE,
            queue: Vec::new(),
            aboard: Vec::new(),
            buddy: NONE,
            resched: false,
            generation: 0,
            slice_armed: false,
            early: 0,
            ticks: false,
            least: 0,
            load: 0,
            polling: false,
            work_rate: 0,
            work_since: 0,
            work_left: 0,
            queue_since: 0,
            queue_time: 0,
            empty_time: 0,
            busy_since: 0,
            busy_time: 0,
        }
    }
}

/// What the scheduler runs.
#[derive(Debug)]
#[repr(C, align(64))]
pub(crate) struct Task {
    pub(crate) state: TaskState,
    /// The timed step that the CPU is in, if it is.
    pub(crate) in_guest: bool,
    /// Whether it was woken and has not run since (KVM's `ready` without `preempted`).
    pub(crate) woken: bool,
    /// Whether it gave its CPU away while it was halted.
    pub(crate) slept: bool,
    pub(crate) cpu: u32,
    /// Which set of CPUs it may run on; `NONE`: all.
    pub(crate) allowed: u32,
    pub(crate) weight: u32,
    /// Run time over weight.
    pub(crate) run: u64,
    /// When its run time was last added up.
    pub(crate) run_since: u64,
    pub(crate) slice_start: u64,
    /// Since when all its strands are halted, or `NEVER`.
    pub(crate) halted_at: u64,
    /// What the CPU has yet to do for it outside the guest, first one last.
    pub(crate) plan: Vec<HostWork>,
    pub(crate) kind: TaskKind,
    pub(crate) poll: HostHaltPoll,
    pub(crate) vcore: Vcore,
}

#[derive(Debug)]
pub(crate) enum TaskKind {
    /// vCPUs that run together: those of a virtual core, or one. Or one program of the host's own (`native`).
    Strands { first: u32, count: u32, native: bool },
    /// A device's thread: work, and what comes of it.
    Device { jobs: VecDeque<(u64, Effect)> },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TaskState {
    Blocked,
    Queued,
    Running,
}

/// Something that a CPU does outside the guest.
#[derive(Clone, Copy, Debug)]
pub(crate) enum HostWork {
    /// Takes time, in the kernel or (`user`) in user space.
    Spend { time: u64, user: bool },
    /// Has an effect, at once.
    Then(Effect),
}

/// What comes of something.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Effect {
    /// The strands that can run enter the guest.
    Enter,
    /// KVM_RUN returns for a strand (the moment counts as its exit to user space), or begins again.
    UserExit {
        strand: u32,
        reason: u32,
    },
    UserEnter {
        strand: u32,
    },
    /// The strand takes the VM's lock of all devices, or waits.
    TakeLock {
        strand: u32,
    },
    DropLock {
        strand: u32,
    },
    /// A strand's message leaves its side.
    Send {
        message: u32,
    },
    /// The message is on its way.
    Depart {
        message: u32,
    },
    /// The message has been taken from the device.
    Deliver {
        message: u32,
    },
    /// The strand's access is handed to the device model's task; it waits.
    Ask {
        strand: u32,
    },
    /// The device model has answered.
    Answer {
        strand: u32,
    },
    /// A disk takes the request of a strand.
    Disk {
        disk: u32,
        strand: u32,
    },
    /// The disk's thread has seen a request through.
    DiskSeen {
        strand: u32,
        disk: u32,
    },
    /// An inter-processor interrupt goes to a strand.
    Ipi {
        to: u32,
    },
    /// The strand yields, to anybody or to the named one.
    Yield {
        strand: u32,
        call: SimYieldCall,
    },
    /// The strand has been told whether another one runs.
    Sensed {
        strand: u32,
        of: u32,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SimYieldCall {
    Pause,
    Diag44,
    Diag9c { to: u32 },
    Confer { to: u32 },
}

/// A thread of control that runs a program: a vCPU, or a thread of the host. What most events
/// touch comes first, in two cache lines.
#[derive(Debug)]
#[repr(C, align(64))]
pub(crate) struct Strand {
    pub(crate) task: u32,
    /// Its VM, or `NONE` for a thread of the host; and which description in the scenario's list of either it is of.
    pub(crate) vm: u32,
    pub(crate) spec: u32,
    pub(crate) program: u32,
    pub(crate) place: u32,
    pub(crate) generation: u32,
    /// Since when it makes progress, and how fast, in thousandths; 0: it does not.
    pub(crate) since: u64,
    pub(crate) rate: u32,
    /// Interrupts to be injected at entry.
    pub(crate) pending: u32,
    /// Work left of the timed step, at full speed.
    pub(crate) left: u64,
    /// Work left in interrupt handlers, which come first.
    pub(crate) interrupt_left: u64,
    pub(crate) status_since: u64,
    pub(crate) rng: Pcg64Mcg,
    pub(crate) exit_at: u64,
    pub(crate) idle_from: u64,
    pub(crate) wait: StrandWait,
    /// How many steps of its program took no time since the last that did.
    pub(crate) free_steps: u32,
    pub(crate) held: u32,
    /// The load that its code puts on its core, in thousandths of what ordinary code does.
    pub(crate) demand: u32,
    pub(crate) doing: StrandActivity,
    pub(crate) status: StrandStatus,
    pub(crate) timer: bool,
    pub(crate) in_spin_loop: bool,
    pub(crate) dy_eligible: bool,
    pub(crate) vcpu: u32,
    pub(crate) counters: Vec<u32>,
    pub(crate) ipis: u32,
    pub(crate) replies: u32,
    /// Done requests, by disk.
    pub(crate) disk_done: Vec<u32>,
    /// The message that it received last.
    pub(crate) message: u32,
    pub(crate) latency_start: u64,
    pub(crate) guest_poll: GuestHaltPoll,
    pub(crate) spin: SpinLoop,
    pub(crate) machine: DiagnoseSupport,
    /// How long the processor lets it spin on PAUSE, where it does.
    pub(crate) pause: PleWindow,
    pub(crate) lock: u32,
    pub(crate) lock_wait_from: u64,
}

impl Strand {
    /// How long a poll in the guest goes on: it looks at the clock, which goes on where the vCPU has no CPU (poll_idle of
    /// drivers/cpuidle/poll_state.c compares local_clock() with where it began).
    pub(crate) fn poll_left(&self, now: u64) -> u64 {
        self.idle_from.saturating_add(self.left).saturating_sub(now)
    }
}

/// What a strand is in the middle of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StrandActivity {
    /// The next step of its program.
    Program,
    /// Guest code, for `left`.
    Compute,
    /// Spins for `lock`; after `left` it has something to say to the hypervisor.
    Spin,
    /// Has the lock, and learns so after `left`.
    Acquire,
    /// The way into the idle loop.
    IdleEnter,
    /// Polls in the guest, until `left` after `idle_from`.
    Poll,
    /// Halted.
    Halted,
    /// The way from the idle loop to the program.
    Wake,
}

/// What a strand idles for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StrandWait {
    Nothing,
    Timer,
    Ipi,
    Message(u32),
    Reply,
    Disk(u32),
    Forever,
}

/// Where a strand's time goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum StrandStatus {
    /// In the guest.
    Guest,
    /// In the guest, spinning for a lock.
    Spinning,
    /// In the guest, polling before it halts.
    GuestPolling,
    /// Halted, and the host polls for a wake-up: it has a CPU.
    Polling,
    /// In the hypervisor.
    Kernel,
    /// In user space.
    UserSpace,
    /// Blocked because its guest halted.
    Halted,
    /// Runnable, without a CPU.
    Steal,
    /// Waits for the device model or a lock in user space.
    Blocked,
}

/// How many there are.
pub(crate) const STATUSES: usize = 9;

#[derive(Debug, Default)]
pub(crate) struct SimLock {
    /// The strand that has it, or `NONE`.
    pub(crate) holder: u32,
    /// Strands that spin for it, longest first.
    pub(crate) spinners: Vec<u32>,
}

/// Who sent a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum MessageSender {
    Nobody,
    Strand(u32),
    Client { load: u32, client: u32 },
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Message {
    pub(crate) channel: u32,
    pub(crate) from: MessageSender,
    /// Whom it answers; `Nobody`: it is for whoever receives.
    pub(crate) to: MessageSender,
    /// The strand that takes it, once that is known.
    pub(crate) taker: u32,
}

#[derive(Debug, Default)]
pub(crate) struct ChannelState {
    /// Strands that receive from it, whether or not they wait now.
    pub(crate) receivers: Vec<u32>,
    pub(crate) waiting: VecDeque<u32>,
    pub(crate) arrived: VecDeque<u32>,
    pub(crate) next_receiver: u32,
}

#[derive(Debug, Default)]
pub(crate) struct DiskState {
    pub(crate) busy: u32,
    pub(crate) queued: VecDeque<u32>,
    pub(crate) task: u32,
}
