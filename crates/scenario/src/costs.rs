//! What each step costs on one machine. Every number has a source, and says whether it was fitted.

use exitscope_units::Picos;

/// Where a number of a cost model comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CostOrigin {
    /// Printed in a publication, or read off one.
    Published,
    /// Fitted to rows of published figures that are then no longer predictions.
    Calibrated,
    /// Taken from a measurement of comparable hardware, or a round number of the right size.
    Assumed,
}

impl CostOrigin {
    /// Its word in files: `published`, `calibrated` or `assumed`.
    pub const fn word(self) -> &'static str {
        match self {
            CostOrigin::Published => "published",
            CostOrigin::Calibrated => "calibrated",
            CostOrigin::Assumed => "assumed",
        }
    }
}

/// One cost: how long, and how that is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CostFigure {
    /// How long it takes.
    pub time: Picos,
    /// How the number is known.
    pub origin: CostOrigin,
    /// Source or reason, for people.
    pub source: String,
}

/// How fast a hardware thread is beside busy siblings, and how that is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SmtSpeed {
    /// Speed of one thread in thousandths of a core of its own, with one, two, … threads of the core busy; the last one
    /// holds for more.
    pub thousandths: Vec<u32>,
    /// How the numbers are known.
    pub origin: CostOrigin,
    /// Source or reason, for people.
    pub source: String,
}

/// How exits are spread about their median: of one exit, everything that the host does for it takes longer or shorter alike.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExitSpread {
    /// Thousandths of the median that one exit in twenty takes less than.
    pub p5: u32,
    /// Thousandths of the median that one exit in twenty takes more than.
    pub p95: u32,
    /// How the numbers are known.
    pub origin: CostOrigin,
    /// Source or reason, for people.
    pub source: String,
}

/// The source of what nobody has measured.
const OF_THE_RIGHT_SIZE: &str = "default, of the right size";

/// What an assumed number may as well be.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct AssumedRange {
    /// The least over what is assumed.
    pub low: f64,
    /// The greatest over what is assumed.
    pub high: f64,
    /// Where the two ends are from, for people.
    pub source: &'static str,
}

impl AssumedRange {
    /// What nothing bounds.
    pub const TWOFOLD: AssumedRange = AssumedRange { low: 0.5, high: 2.0, source: "no source: half and double" };
}

/// The range of a number: as its row has it, or twofold.
macro_rules! range {
    ($nanos:literal) => {
        AssumedRange::TWOFOLD
    };
    ($nanos:literal, $low:literal, $high:literal, $why:literal) => {
        AssumedRange { low: $low as f64 / $nanos as f64, high: $high as f64 / $nanos as f64, source: $why }
    };
}

macro_rules! costs {
    ($($(#[doc = $about:literal])+ $name:ident: $nanos:literal $(($low:literal..=$high:literal, $why:literal))?,)+) => {
        /// The costs of one machine, by step.
        #[derive(Clone, Debug, PartialEq, Eq)]
        pub struct CostModel {
            /// Its name.
            pub name: String,
            /// What machine it is, in a sentence or two.
            pub description: String,
            /// Cycles a second, for costs written in cycles.
            pub clock_hz: u64,
            /// What hardware threads of a core take from each other.
            pub smt_speed: SmtSpeed,
            /// How exits are spread about what the costs come to, their median; `None`: all take the same.
            pub exit_spread: Option<ExitSpread>,
            $($(#[doc = $about])+ pub $name: CostFigure,)+
        }

        impl Default for CostModel {
            /// A plain server of about 2020: every number of the right size, none measured.
            fn default() -> CostModel {
                let assumed = |nanos: u64| CostFigure {
                    time: Picos::from_nanos(nanos),
                    origin: CostOrigin::Assumed,
                    source: OF_THE_RIGHT_SIZE.to_string(),
                };
                CostModel {
                    name: "default".to_string(),
                    description: "A plain server of about 2020: every number of the right size, none measured".to_string(),
                    clock_hz: 2_500_000_000,
                    smt_speed: SmtSpeed {
                        thousandths: vec![1000, 650, 550, 475, 400, 350, 310, 275],
                        origin: CostOrigin::Assumed,
                        source: OF_THE_RIGHT_SIZE.to_string(),
                    },
                    exit_spread: None,
                    $($name: assumed($nanos),)+
                }
            }
        }

        impl CostModel {
            /// Every cost's name and meaning.
            pub const ROWS: &'static [(&'static str, &'static str)] =
                &[$((stringify!($name), concat!($($about,)+)),)+];

            /// What the cost of this name may as well be, where it is assumed: as much of whatever it is as of the default.
            pub fn range(name: &str) -> Option<AssumedRange> {
                match name {
                    $(stringify!($name) => Some(range!($nanos $(, $low, $high, $why)?)),)+
                    _ => None,
                }
            }

            /// The cost of this name.
            pub fn get(&self, name: &str) -> Option<&CostFigure> {
                match name {
                    $(stringify!($name) => Some(&self.$name),)+
                    _ => None,
                }
            }

            /// The cost of this name, to change.
            pub fn get_mut(&mut self, name: &str) -> Option<&mut CostFigure> {
                match name {
                    $(stringify!($name) => Some(&mut self.$name),)+
                    _ => None,
                }
            }
        }
    };
}

// A row: what it is; nanoseconds; where it is known better than by half and double, what it may as well be, and why. The
// figures that are named are rows of crates/validation/published.csv, in cycles of the machine's clock in models/.
costs! {
    /// Guest to host: the processor's own switch and the saving of registers.
    exit: 350 (120..=650, "120 ns on s390 (CYCLES-014), 650 ns on x86 of 2019 (HALTPOLL-002)"),
    /// Host to guest.
    entry: 350 (90..=500, "90 ns on s390 (CYCLES-014), 500 ns on x86 of 2019 (HALTPOLL-002)"),
    /// One look whether anything (a timer, a signal, a request) is pending, at every entry.
    look: 2,
    /// The work behind such a look, done to find nothing where there is no early exit.
    look_in_vain: 10,
    /// One kind of request tested for.
    request_test: 1,
    /// Time accounting and tracing hooks on every exit.
    accounting: 20,
    /// Switches interrupts off before the guest runs and on behind it, where the knob `irq_switch` has that told apart.
    irq_off_on: 2,
    /// Saves and restores instead whether they are on.
    irq_save_restore: 10 (5..=40, "28 cycles of 2.5 GHz (CYCLES-012), and up to 20 times what switching off and on costs (CYCLES-013)"),
    /// Injects a pending interrupt at entry.
    inject: 150,
    /// Saves the guest's floating-point state.
    fpu_save: 100,
    /// Loads it.
    fpu_load: 100,
    /// Switches the signal mask, one way.
    signal_mask: 100,
    /// Copies one class of registers to or from the shared page.
    register_copy: 10,
    /// One register ioctl.
    register_ioctl: 80 (40..=1_360, "a system call of 100 cycles (CYCLES-025); 3,400 cycles for each ioctl of a synchronisation (CYCLES-040)"),
    /// KVM_RUN returns to user space.
    kernel_leave: 200 (100..=1_034, "half; 2,585 of 6,000 cycles more than an exit that the kernel handles (CYCLES-021)"),
    /// User space finds out what the exit was.
    user_loop: 150 (40..=300, "a system call of 100 cycles (CYCLES-025); double"),
    /// Takes and gives back a lock in user space that nobody else wants.
    user_lock: 40,
    /// KVM_RUN begins again.
    kernel_enter: 200 (100..=1_034, "as kernel_leave"),
    /// Puts what a device read into the guest's register.
    complete_io: 50,
    /// Resolves a path in the tree of objects of user space.
    object_lookup: 40_000 (20_000..=44_000, "half; 110,000 cycles of 2.5 GHz in the worst case (CYCLES-029)"),
    /// The device model's own work for one access.
    device: 1_000 (200..=2_100, "500 cycles of a device without state; 5,880 cycles of one of Xen's (XENPIO-004)"),
    /// Decodes a port access from what the processor reports.
    port_decode: 100 (23..=200, "64 cycles of 2.8 GHz (XENPIO-002); double"),
    /// Fetches, decodes and executes an instruction in software.
    emulate: 900,
    /// A device in the kernel or the hypervisor answers.
    kernel_device: 200,
    /// Signals an eventfd, without what the woken thread costs.
    eventfd: 150 (75..=856, "half; 856 ns with what the device does for a message (HALTPOLL-002)"),
    /// Puts a write into the ring of coalesced accesses.
    coalesce: 80,
    /// Handles a hypercall.
    hypercall: 100 (44..=200, "44 ns on s390 (CYCLES-014); double"),
    /// Handles CPUID.
    cpuid: 150,
    /// Sets the timer that stands for the guest's (vmx, svm).
    timer_set: 300,
    /// Handles a halt, up to the point where the vCPU polls or sleeps.
    halt: 300,
    /// Handles an exit for a host interrupt, timer tick or kick.
    interrupt: 500,
    /// Handles a yield (PAUSE exit, diagnose X'44' on the normal path, X'9C'), without the switch.
    yielding: 500,
    /// Handles diagnose X'44' on the fast path.
    yield_fast: 100,
    /// Answers whether another vCPU runs (SIGP sense running).
    sense_running: 150,
    /// A task switch on a host CPU.
    switch: 1_000,
    /// Wakes a task: what the waker pays.
    wake: 500,
    /// From a wake-up to the first instruction of the woken task on an idle CPU.
    wake_latency: 2_000 (1_000..=10_000, "half; leaving C1E, 10 us (C1: 2 us; skx_cstates of drivers/idle/intel_idle.c)"),
    /// Sends an inter-processor interrupt.
    ipi_send: 200,
    /// Until an inter-processor interrupt arrives.
    ipi_latency: 500,
    /// Gang exit: until the last sibling thread has left after the first (powerpc).
    gang_latency: 300,
    /// Gang exit: what the runner does for each further thread that left (powerpc).
    gang_thread: 200,
    /// The guest kernel's work for one interrupt.
    guest_interrupt: 800,
    /// The guest kernel's way from its idle loop to the task that was woken.
    guest_wake: 1_000,
    /// The guest kernel's way from the running task into its idle loop.
    guest_idle: 500,
    /// One pass of a guest's spin loop.
    spin_pass: 5,
    /// Until a lock given back is seen by a spinning vCPU.
    lock_transfer: 60,
    /// Between two ticks of the host's timer on a busy CPU; zero: none.
    tick_period: 4_000_000 (1_000_000..=10_000_000, "1,000 to 100 Hz (kernel/Kconfig.hz)"),
    /// An artificial delay after every exit.
    delay: 0,
}
