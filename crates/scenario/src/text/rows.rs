//! The keys of a scenario file, a row each: the reader takes no other, and the documentation prints these.
//!
//! ```text
//! ScenarioKey { key, kind: what it takes and its bounds, absent: what holds without it, about }
//! ```

use std::fmt;

/// The most vCPUs of all VMs together, and the most threads of the host.
pub const MAX_VCPUS: u64 = 100_000;
/// The most hardware threads of a host.
pub const MAX_CPUS: u64 = 16_384;
/// The most steps written in one program.
pub const MAX_OPS: usize = 10_000;
/// How deep steps may be in steps. The TOML reader goes no deeper than 80 brackets, and each level takes two.
pub const MAX_NESTING: usize = 32;
/// The most `[[vm]]`, `[[thread]]`, `[[channel]]` or `[[load]]`, and the most disks, locks or registrations of a VM.
pub const MAX_LIST: usize = 1_000;
/// The most steps that a program may do without taking any time.
pub const MAX_INSTANT: u64 = 1_000_000;
/// The largest file, in bytes.
pub const MAX_TEXT: usize = 4 << 20;

/// A key of a table of the file, or a parameter of a library program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScenarioKey {
    /// As it is written in the file.
    pub key: &'static str,
    /// What it takes.
    pub kind: KeyType,
    /// What holds if it is not there.
    pub absent: KeyDefault,
    /// What it is, in a sentence.
    pub about: &'static str,
}

/// What a key takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyType {
    /// Any text.
    Text,
    /// A name: letters, digits, `-` and `_`.
    Name,
    /// `true` or `false`.
    Switch,
    /// A whole number: what of, the least, the most.
    Number(&'static str, u64, u64),
    /// One of these numbers; what of.
    OneOf(&'static str, &'static [u64]),
    /// A time, of which the least is zero.
    Time,
    /// A time longer than zero.
    SomeTime,
    /// A time or a distribution of times, of which the least is zero.
    Span,
    /// A time longer than zero, or a distribution.
    SomeSpan,
    /// One of these words.
    Word(&'static [&'static str]),
    /// Numbers of CPUs of the host's scheduler.
    Cpus,
    /// Numbers of vCPUs of the VM.
    Vcpus,
    /// The name of a channel.
    Channel,
    /// The name of a lock of the VM.
    Lock,
    /// The name of a disk of the VM.
    Disk,
    /// A list of steps.
    Steps,
    /// Something else, in words.
    Other(&'static str),
}

/// What holds if a key is not there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyDefault {
    /// It must be there.
    Error,
    /// The same as if this was written.
    Means(&'static str),
    /// This, in words.
    Says(&'static str),
}

impl fmt::Display for KeyType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            KeyType::Text => f.write_str("text"),
            KeyType::Name => f.write_str("name: letters, digits, - and _"),
            KeyType::Switch => f.write_str("true or false"),
            KeyType::Number(of, min, max) if *max >= i64::MAX as u64 => write!(f, "{of}, at least {min}"),
            KeyType::Number(of, min, max) => write!(f, "{of}, {min} to {max}"),
            KeyType::OneOf(of, numbers) => write!(f, "{of}, {}", Numbers(numbers)),
            KeyType::Time => f.write_str("time"),
            KeyType::SomeTime => f.write_str("time, not zero"),
            KeyType::Span => f.write_str("time or distribution"),
            KeyType::SomeSpan => f.write_str("time or distribution, not zero"),
            KeyType::Word(words) => {
                for (at, word) in words.iter().enumerate() {
                    write!(f, "{}{word:?}", if at == 0 { "" } else { ", " })?;
                }
                Ok(())
            }
            KeyType::Cpus => f.write_str("list of CPUs, [0, 1, 2] or \"0-2\""),
            KeyType::Vcpus => f.write_str("list of vCPUs, [0, 1, 2] or \"0-2\", or \"all\""),
            KeyType::Channel => f.write_str("name of a channel"),
            KeyType::Lock => f.write_str("name of a lock of the VM"),
            KeyType::Disk => f.write_str("name of a disk of the VM"),
            KeyType::Steps => f.write_str("list of steps"),
            KeyType::Other(words) => f.write_str(words),
        }
    }
}

/// Prints `1, 2 or 4`.
pub(crate) struct Numbers(pub &'static [u64]);

impl fmt::Display for Numbers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, number) in self.0.iter().enumerate() {
            let before = match at {
                0 => "",
                _ if at + 1 == self.0.len() => " or ",
                _ => ", ",
            };
            write!(f, "{before}{number}")?;
        }
        Ok(())
    }
}

impl fmt::Display for KeyDefault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            KeyDefault::Error => f.write_str("must be given"),
            KeyDefault::Means(value) => write!(f, "`{value}`"),
            KeyDefault::Says(words) => f.write_str(words),
        }
    }
}

/// Makes a row.
pub(crate) const fn row(key: &'static str, kind: KeyType, absent: KeyDefault, about: &'static str) -> ScenarioKey {
    ScenarioKey { key, kind, absent, about }
}

use KeyDefault::{Error, Means, Says};

/// The most copies of anything.
const COPIES: KeyType = KeyType::Number("number of copies", 1, MAX_VCPUS);
const STEPS_OR_LIBRARY: &str = "`steps` or `library` must be given";

/// The file as a whole.
pub const SCENARIO: &[ScenarioKey] = &[
    row("name", KeyType::Text, Error, "Its name"),
    row("description", KeyType::Text, Means("\"\""), "What it stands for, for people"),
    row("seed", KeyType::Number("seed", 0, i64::MAX as u64), Means("1"), "All randomness comes from this"),
    row("warmup", KeyType::Time, Means("\"100ms\""), "Simulated time before measuring begins"),
    row("duration", KeyType::SomeTime, Means("\"1s\""), "Simulated time that is measured"),
    row("host", KeyType::Other("table"), Means("{}"), "Processors and hypervisor"),
    row("costs", KeyType::Other("table"), Means("{}"), "What each step costs"),
    row("policies", KeyType::Other("table"), Means("{}"), "Knobs that hold where a VM does not say otherwise"),
    row("vm", KeyType::Other("tables"), Means("[]"), "VMs"),
    row("thread", KeyType::Other("tables"), Means("[]"), "Threads of the host that run programs"),
    row("channel", KeyType::Other("tables"), Means("[]"), "Ways for messages"),
    row("load", KeyType::Other("tables"), Means("[]"), "Load from outside the host"),
];

/// `[host]`.
pub const HOST: &[ScenarioKey] = &[
    row(
        "arch",
        KeyType::Word(&["vmx", "svm", "powerpc", "s390"]),
        Means("\"vmx\""),
        "Whose exits these are: Intel's, AMD's, powerpc's (book3s HV) or s390's",
    ),
    row("sockets", KeyType::Number("number of sockets", 1, 256), Means("1"), "Sockets"),
    row("cores", KeyType::Number("number of cores", 1, MAX_CPUS), Means("4"), "Cores in each socket"),
    row(
        "threads",
        KeyType::OneOf("number of threads of a core", &[1, 2, 4, 8]),
        Means("1"),
        "Hardware threads in each core",
    ),
    row(
        "smt_speed",
        KeyType::Other("list of thousandths, the first 1000, falling"),
        Says("the cost model's"),
        "Speed of one thread with one, two, … threads of its core busy, in thousandths of a core of its own; \
         as many as may be busy at once",
    ),
    row(
        "ganged",
        KeyType::Switch,
        Means("false"),
        "A core's threads enter and leave guests together (powerpc before POWER9)",
    ),
    row(
        "posted_interrupts",
        KeyType::Switch,
        Says("`true` with `vmx` and `svm`"),
        "A device's interrupt reaches a running vCPU without an exit",
    ),
    row("scheduler", KeyType::Other("table"), Means("{}"), "How CPUs are shared out"),
];

/// `[host.scheduler]`.
pub const SCHEDULER: &[ScenarioKey] = &[
    row(
        "time_slice",
        KeyType::SomeTime,
        Means("\"3ms\""),
        "How long a task runs before the next waiting one gets its turn",
    ),
    row(
        "wakeup_granularity",
        KeyType::Time,
        Means("\"1ms\""),
        "By how much less a woken task must have run, to take the CPU from the running one",
    ),
    row("steal", KeyType::Switch, Means("true"), "An idle CPU takes waiting tasks from other CPUs' queues"),
    row(
        "balance",
        KeyType::Switch,
        Means("true"),
        "A busy CPU, at every tick, takes a waiting task over from one where at least two more wait",
    ),
    row("yields", KeyType::Word(&["kvm", "zvm"]), Means("\"kvm\""), "Whose rules yields follow"),
];

/// `[costs]`, without the costs themselves.
pub const COSTS: &[ScenarioKey] = &[
    row(
        "model",
        MODEL_NAME,
        Means("\"default\""),
        "The machine whose costs the rows below change: one of [models.md](models.md), or a file like those",
    ),
    CLOCK,
    SPREAD,
];

const SPREAD: ScenarioKey = row(
    "exit_spread",
    KeyType::Other("table"),
    Says("the model's; without one all take the same"),
    "How exits are spread about what the costs come to, which is their median then",
);

const MODEL_NAME: KeyType = KeyType::Other("name of a cost model, or path of a file: `\"machines/mine.toml\"`");
const CLOCK: ScenarioKey = row(
    "clock_hz",
    KeyType::Number("clock in Hz", 1_000_000, 1_000_000_000_000),
    Says("the model's"),
    "Cycles a second, for times in cycles, the model's as well",
);

/// A cost model's file, without the costs themselves.
pub const MODEL: &[ScenarioKey] = &[
    row("description", KeyType::Text, Error, "What machine it is"),
    row("base", MODEL_NAME, Means("\"default\""), "The cost model that this one changes"),
    CLOCK,
    row("smt_speed", KeyType::Other("table"), Says("the base's"), "Speed of a hardware thread beside busy siblings"),
    SPREAD,
];

/// `smt_speed` of a cost model.
pub const SMT_SPEED: &[ScenarioKey] = &[
    row(
        "thousandths",
        KeyType::Other("list of thousandths, the first 1000, falling"),
        Error,
        "With one, two, … threads of a core busy, in thousandths of a core of its own",
    ),
    ORIGIN,
    SOURCE,
];

/// `exit_spread` of costs.
pub const EXIT_SPREAD: &[ScenarioKey] = &[
    row(
        "p5",
        KeyType::Number("number of thousandths of the median", 1, 1_000),
        Error,
        "Of twenty exits, one takes less",
    ),
    row(
        "p95",
        KeyType::Number("number of thousandths of the median", 1_000, 100_000),
        Error,
        "Of twenty exits, one takes more",
    ),
    ORIGIN,
    SOURCE,
];

/// A cost that says where it is from.
pub const COST: &[ScenarioKey] = &[row("time", KeyType::Time, Error, "How long it takes"), ORIGIN, SOURCE];

const ORIGIN: ScenarioKey = row(
    "origin",
    KeyType::Word(&["published", "calibrated", "assumed"]),
    Means("\"assumed\""),
    "Printed in a publication, fitted to published figures, or of the right size",
);
const SOURCE: ScenarioKey = row("source", KeyType::Text, Means("\"the scenario\""), "Source or reason, for people");

/// `[[vm]]`.
pub const VM: &[ScenarioKey] = &[
    row("name", KeyType::Name, Error, "Its name, unique; copies are numbered"),
    row("copies", COPIES, Means("1"), "How many VMs like this there are"),
    row("vcpus", KeyType::Number("number of vCPUs", 1, MAX_VCPUS), Means("1"), "Virtual CPUs of each"),
    row("weight", KeyType::Number("weight", 1, 10_000), Means("1024"), "Share of the CPUs when they are short"),
    row("cpus", KeyType::Cpus, Says("all"), "CPUs on which its vCPUs may run"),
    row("pinned", KeyType::Switch, Means("false"), "vCPU (or virtual core) n stays on the nth of `cpus`"),
    row(
        "locks",
        KeyType::Other("list of names"),
        Means("[]"),
        "Its spinlocks: no other VM's, and of copies each has its own",
    ),
    row(
        "device_model_cpus",
        KeyType::Cpus,
        Says("all"),
        "CPUs on which its device model may run, where the knob `device_model` is `scheduled`",
    ),
    row(
        "registers",
        KeyType::Other("table"),
        Means("{}"),
        "Classes of registers that its device model needs, got and set as the knob `register_sync` says",
    ),
    row(
        "cpuidle_haltpoll",
        KeyType::Switch,
        Means("false"),
        "Its idle loop polls before it halts, by `guest_halt_poll_*`; the host then does not poll for it, whatever `halt_poll_ns` says",
    ),
    row(
        "spin",
        KeyType::Other("\"pause_loop\", \"confer\" or a table"),
        Says(
            "on s390 `{ diag44 = true, diag9c = true, sense_running = true }`, on powerpc `\"confer\"` (H_CONFER for a holder that does not run), else `\"pause_loop\"`",
        ),
        "What its kernel does when spinning for a lock does not help",
    ),
    row("policies", KeyType::Other("table"), Means("{}"), "Knobs that it has for itself"),
    row("register", KeyType::Other("tables"), Means("[]"), "What answers accesses in the hypervisor"),
    row("disk", KeyType::Other("tables"), Means("[]"), "Its disks"),
    row("program", KeyType::Other("tables"), Means("[]"), "What its vCPUs do; a vCPU without a program idles"),
];

/// `[vm.registers]`.
pub const REGISTERS: &[ScenarioKey] = &[
    row("read", KeyType::Number("number of classes", 0, 64), Means("0"), "Classes that it reads"),
    row("written", KeyType::Number("number of classes", 0, 64), Means("0"), "Classes that it writes"),
];

/// `spin` of a VM, as a table.
pub const SPIN: &[ScenarioKey] = &[
    row("diag44", KeyType::Switch, Means("false"), "Diagnose X'44': yield to anybody"),
    row("diag9c", KeyType::Switch, Means("false"), "Diagnose X'9C': yield to the lock's holder"),
    row("sense_running", KeyType::Switch, Means("false"), "SIGP sense running status"),
    row("lpar", KeyType::Switch, Means("false"), "The guest runs directly in a logical partition"),
];

/// `[[vm.register]]`.
pub const REGISTER: &[ScenarioKey] = &[
    row(
        "kind",
        KeyType::Word(&["kernel", "ioeventfd", "coalesced"]),
        Error,
        "A device inside the hypervisor, an ioeventfd, or a zone whose writes are collected in a ring",
    ),
    row("port", KeyType::Other("port, or [first, last]"), Says("one of `port`, `address` must be given"), "Its ports"),
    row(
        "address",
        KeyType::Other("address, or [first, last]"),
        Says("one of `port`, `address` must be given"),
        "Its guest-physical addresses",
    ),
    row("size", KeyType::OneOf("size", &[0, 1, 2, 4, 8]), Means("0"), "ioeventfd: bytes of the access, 0 for any"),
    row(
        "datamatch",
        KeyType::Number("value", 0, i64::MAX as u64),
        Says("any value"),
        "ioeventfd: only for writes of this value",
    ),
];

/// `[[vm.disk]]`.
pub const DISK: &[ScenarioKey] = &[
    row("name", KeyType::Name, Error, "Its name, unique in the VM"),
    row("service", KeyType::SomeSpan, Error, "How long a request takes"),
    row(
        "parallel",
        KeyType::Number("number of requests", 1, 65_536),
        Means("1"),
        "How many requests it works on at once",
    ),
    row(
        "thread",
        KeyType::Time,
        Means("\"0ns\""),
        "Host CPU time of the thread that serves a request, half before, half after; zero: no thread",
    ),
];

/// `[[vm.program]]`, without the library program's parameters.
pub const PROGRAM: &[ScenarioKey] = &[
    row("vcpus", KeyType::Vcpus, Means("\"all\""), "Which vCPUs run it"),
    row("steps", KeyType::Steps, Says(STEPS_OR_LIBRARY), "What they do"),
    row(
        "library",
        KeyType::Other("name of a library program"),
        Says(STEPS_OR_LIBRARY),
        "Whose steps they do; its parameters are further keys",
    ),
];

/// `[[thread]]`, without the library program's parameters.
pub const THREAD: &[ScenarioKey] = &[
    row("name", KeyType::Name, Error, "Its name, unique"),
    row("copies", COPIES, Means("1"), "How many there are"),
    row("cpus", KeyType::Cpus, Says("all"), "CPUs on which it may run"),
    row("pinned", KeyType::Switch, Means("false"), "Copy n stays on the nth of `cpus`"),
    row("steps", KeyType::Steps, Says(STEPS_OR_LIBRARY), "What it does: computing, sleeping, sending and receiving"),
    row(
        "library",
        KeyType::Other("name of a library program"),
        Says(STEPS_OR_LIBRARY),
        "Whose steps it does; its parameters are further keys",
    ),
];

/// `[[channel]]`.
pub const CHANNEL: &[ScenarioKey] = &[
    row("name", KeyType::Name, Error, "Its name, unique"),
    row("latency", KeyType::Span, Means("\"0ns\""), "From the sender's device to the receiver's, one way"),
    row(
        "doorbell",
        KeyType::Word(&["memory", "eventfd", "device_model"]),
        Means("\"eventfd\""),
        "What a send costs: a write to memory, an exit that signals an eventfd, or an exit to the device model",
    ),
    row(
        "thread",
        KeyType::Time,
        Means("\"0ns\""),
        "Host CPU time of the device thread for each message on each side; zero: no thread",
    ),
];

/// `[[load]]`.
pub const LOAD: &[ScenarioKey] = &[
    row("channel", KeyType::Channel, Says("the only one"), "Where its messages go"),
    row(
        "clients",
        KeyType::Number("number of clients", 1, MAX_VCPUS),
        Says("one of `clients`, `every` must be given"),
        "So many clients; each sends, waits for the answer, thinks, and sends again",
    ),
    row("think", KeyType::Span, Says("with `clients`: `\"0ns\"`"), "How long each client thinks"),
    row("every", KeyType::SomeSpan, Says("one of `clients`, `every` must be given"), "A message after each such time"),
];

/// A step: its word, and what goes with it. The first row is the word itself; a step without rows is the bare word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StepRow {
    /// The word by which it is known.
    pub word: &'static str,
    /// Its keys.
    pub rows: &'static [ScenarioKey],
    /// What it does.
    pub about: &'static str,
}

const PORT_SIZE: ScenarioKey = row("size", KeyType::OneOf("size", &[1, 2, 4]), Means("1"), "Bytes");
const STRING: ScenarioKey = row("string", KeyType::Switch, Means("false"), "INS or OUTS");
const MMIO_SIZE: ScenarioKey = row("size", KeyType::OneOf("size", &[1, 2, 4, 8]), Means("4"), "Bytes");
const PORT: KeyType = KeyType::Number("port", 0, 0xffff);
const ADDRESS: KeyType = KeyType::Number("guest-physical address", 0, i64::MAX as u64);

/// Makes the keys of a step.
const fn step(word: &'static str, rows: &'static [ScenarioKey], about: &'static str) -> StepRow {
    StepRow { word, rows, about }
}

/// What a program takes from its siblings in a core.
pub(crate) const DEMAND: KeyType = KeyType::Number("number of thousandths", 1, 1_000);

const VALUE: ScenarioKey = row("value", KeyType::Number("value", 0, i64::MAX as u64), Means("0"), "The value written");
const BODY: ScenarioKey = row("steps", KeyType::Steps, Error, "What is done");

/// Every step.
pub const STEPS: &[StepRow] = &[
    step(
        "compute",
        &[row("compute", KeyType::Span, Error, "Runs guest code that takes this long on a core of its own")],
        "Runs guest code that takes this long on a core of its own",
    ),
    step(
        "sleep",
        &[row("sleep", KeyType::SomeSpan, Error, "Sets a timer and idles until it fires")],
        "Sets a timer and idles until it fires",
    ),
    step(
        "demand",
        &[row("demand", DEMAND, Error, "How much its code takes from its siblings in a core")],
        "From here on, code takes so many thousandths of what ordinary code takes from its siblings in a core: less if it \
         leaves the core's units and caches alone",
    ),
    step("lock", &[row("lock", KeyType::Lock, Error, "Takes a spinlock of the VM")], "Takes a spinlock of the VM"),
    step("unlock", &[row("unlock", KeyType::Lock, Error, "Gives it back")], "Gives it back"),
    step("port_in", &[row("port_in", PORT, Error, "Reads an I/O port"), PORT_SIZE, STRING], "Reads an I/O port"),
    step("port_out", &[row("port_out", PORT, Error, "Writes an I/O port"), PORT_SIZE, STRING], "Writes an I/O port"),
    step(
        "mmio_read",
        &[row("mmio_read", ADDRESS, Error, "Reads a guest-physical address outside memory"), MMIO_SIZE],
        "Reads a guest-physical address outside memory",
    ),
    step(
        "mmio_write",
        &[row("mmio_write", ADDRESS, Error, "Writes a guest-physical address outside memory"), MMIO_SIZE, VALUE],
        "Writes a guest-physical address outside memory",
    ),
    step(
        "hypercall",
        &[row(
            "hypercall",
            KeyType::Number("hypercall", 0, u32::MAX as u64),
            Error,
            "Calls the hypervisor with this number; handled in the kernel",
        )],
        "Calls the hypervisor with this number; handled in the kernel",
    ),
    step("cpuid", &[], "Executes CPUID; handled in the kernel"),
    step(
        "ipi",
        &[row(
            "ipi",
            KeyType::Number("vCPU", 0, MAX_VCPUS - 1),
            Error,
            "Wakes this vCPU of the same VM by an inter-processor interrupt; one that polls needs none",
        )],
        "Wakes this vCPU of the same VM by an inter-processor interrupt; one that polls needs none",
    ),
    step("await_ipi", &[], "Idles until an inter-processor interrupt arrives; goes on at once if one is pending"),
    step(
        "submit",
        &[row("submit", KeyType::Disk, Error, "Hands a request to a disk of the VM")],
        "Hands a request to a disk of the VM",
    ),
    step(
        "await",
        &[row("await", KeyType::Disk, Error, "Idles until a request that this vCPU submitted to the disk is done")],
        "Idles until a request that this vCPU submitted to the disk is done",
    ),
    step(
        "send",
        &[row("send", KeyType::Channel, Error, "Sends a message into a channel")],
        "Sends a message into a channel",
    ),
    step(
        "receive",
        &[row("receive", KeyType::Channel, Error, "Idles until a message comes out of the channel, and takes it")],
        "Idles until a message comes out of the channel, and takes it",
    ),
    step("reply", &[], "Sends an answer to whoever sent the last message received"),
    step("await_reply", &[], "Idles until the answer to an earlier message arrives"),
    step("count", &[], "One unit of work is done: throughput counts these"),
    step("start", &[], "A latency begins"),
    step("stop", &[], "The latency that began last ends, and is recorded"),
    step(
        "repeat",
        &[
            row("repeat", KeyType::Number("number of times", 1, u32::MAX as u64), Error, "Does `steps` this often"),
            BODY,
        ],
        "Does `steps` this often",
    ),
    step("forever", &[row("forever", KeyType::Steps, Error, "Does the steps for ever")], "Does the steps for ever"),
    step(
        "pick",
        &[row(
            "pick",
            KeyType::Other("list of { weight, steps }"),
            Error,
            "Does one of the lists, chosen at random by weight",
        )],
        "Does one of the lists, chosen at random by weight",
    ),
];

/// An alternative of a `pick` step.
pub const ALTERNATIVE: &[ScenarioKey] = &[
    row("weight", KeyType::Number("weight", 1, 100_000), Means("1"), "How often this one, compared with the others"),
    row("steps", KeyType::Steps, Error, "What is done then"),
];
