//! Library programs: well-known workloads as steps, with named parameters.
//!
//! ```text
//! library = "redis"  ┐                      ┌ Receive, Start, Pick [SET …, GET …], Stop, Reply, Count
//! channel = "net"    ┴─► parameters ─ build ┴─► steps, as if they were written in the file
//! ```
//!
//! None has anything measured in it: the defaults are round numbers of the right size.

use crate::text::{DEMAND, Fault, Fields, ScenarioKey, Scope, row};
use crate::text::{
    KeyDefault::{Error, Means, Says},
    KeyType,
};
use crate::{Op, Program, TimeDistribution};

/// A workload of the library.
pub struct LibraryProgram {
    /// Its name, as `library` has it.
    pub name: &'static str,
    /// What it does, what one `Count` of it is, and what it needs.
    pub about: &'static str,
    /// Its parameters.
    pub parameters: &'static [ScenarioKey],
    pub(crate) build: fn(&Fields, &Scope) -> Result<Program, Fault>,
}

const CHANNEL: ScenarioKey = row("channel", KeyType::Channel, Says("the only one"), "The channel for requests");
const LOCK: ScenarioKey = row("lock", KeyType::Lock, Says("the only one"), "The lock of the critical sections");
const SECTIONS: ScenarioKey = row(
    "sections",
    KeyType::Number("number of sections", 0, 100_000),
    Means("20"),
    "Critical sections in each request",
);
const SECTION: ScenarioKey = row("section", KeyType::Span, Means("\"2us\""), "How long the lock is held");
const BETWEEN: ScenarioKey = row(
    "between",
    KeyType::Span,
    Means("{ exponential = \"20us\" }"),
    "Computing before each section, without the lock",
);

const COUNTED: ScenarioKey =
    row("count", KeyType::Switch, Means("true"), "Whether it counts; a VM's counts are added up");

/// Every library program.
pub const LIBRARY: &[LibraryProgram] = &[
    LibraryProgram {
        name: "ebizzy",
        about: "Allocates a chunk of memory, copies and searches it, again and again. Counts records.",
        parameters: &[
            row("allocate", KeyType::Span, Means("\"5us\""), "Allocating a chunk, in the kernel"),
            row("search", KeyType::SomeSpan, Means("{ uniform = [\"40us\", \"60us\"] }"), "Copying and searching it"),
            row("lock", KeyType::Lock, Says("none"), "The lock held while allocating"),
        ],
        build: ebizzy,
    },
    LibraryProgram {
        name: "redis",
        about: "Serves requests, each one of several commands. Counts requests; the latency is that of serving.",
        parameters: &[
            CHANNEL,
            row(
                "mix",
                KeyType::Other("list of { weight, time, name }"),
                Means(
                    "[{ name = \"GET\", weight = 8, time = \"10us\" }, { name = \"SET\", weight = 2, time = \"12us\" }]",
                ),
                "The commands: how often, and how long each computes",
            ),
        ],
        build: redis,
    },
    LibraryProgram {
        name: "ping_pong",
        about: "Two vCPUs, of one VM or of two, that exchange small messages: one runs the client, one the server. The \
                client counts round trips; the latency is that of a round trip.",
        parameters: &[
            row("role", KeyType::Word(&["client", "server"]), Error, "Which side it is"),
            CHANNEL,
            row("compute", KeyType::Span, Means("\"2us\""), "Computing for each message"),
        ],
        build: ping_pong,
    },
    LibraryProgram {
        name: "random_io",
        about: "Random reads and writes of a disk, one at a time. Counts requests; the latency is that of a request.",
        parameters: &[
            row("read_disk", KeyType::Disk, Says("the only one"), "The disk for reads"),
            row("write_disk", KeyType::Disk, Says("`read_disk`"), "The disk for writes, if they take another time"),
            row("read_percent", KeyType::Number("percentage", 0, 100), Means("67"), "Reads among the requests"),
            row(
                "access",
                KeyType::Word(&["ports", "doorbell"]),
                Means("\"ports\""),
                "Programs a controller through its ports, as IDE's, or writes one doorbell, as virtio does",
            ),
            row("port", KeyType::Number("port", 0, 0xffff), Means("0x1f0"), "With ports: the port"),
            row(
                "writes",
                KeyType::Number("number of accesses", 0, 1_000),
                Means("10"),
                "With ports: writes before a request",
            ),
            row(
                "reads",
                KeyType::Number("number of accesses", 0, 1_000),
                Means("3"),
                "With ports: reads after a request",
            ),
            row(
                "doorbell",
                KeyType::Number("guest-physical address", 0, i64::MAX as u64),
                Means("0xfeb00000"),
                "With a doorbell: its address",
            ),
            row("compute", KeyType::Span, Means("\"20us\""), "Computing for each request"),
        ],
        build: random_io,
    },
    LibraryProgram {
        name: "web_server",
        about: "Serves pages; its kernel takes a spinlock many times for each. Counts requests.",
        parameters: &[
            CHANNEL,
            LOCK,
            SECTIONS,
            SECTION,
            BETWEEN,
            row(
                "serve",
                KeyType::Span,
                Means("{ exponential = \"200us\" }"),
                "Computing for each request, beside the sections",
            ),
        ],
        build: web_server,
    },
    LibraryProgram {
        name: "web_client",
        about: "Asks for a page, takes it in with the critical sections of its own kernel, asks for the next. With one \
                connection, the latency is that of a page. Counts nothing: the server does.",
        parameters: &[
            CHANNEL,
            row(
                "connections",
                KeyType::Number("number of connections", 1, 1_000),
                Means("1"),
                "Pages asked for at once, by each vCPU",
            ),
            LOCK,
            SECTIONS,
            SECTION,
            BETWEEN,
            row("think", KeyType::Span, Means("\"0ns\""), "Idling between two pages"),
        ],
        build: web_client,
    },
    LibraryProgram {
        name: "ping_flood",
        about: "Sends a message, waits for the answer, sends the next at once: a storm of exits and interrupts. What \
                answers is a program that receives from the channel, or, for another machine, a device. Counts answers.",
        parameters: &[
            row(
                "channel",
                KeyType::Channel,
                Says("one of `channel`, `device` must be given"),
                "The channel to the other side",
            ),
            row(
                "device",
                KeyType::Disk,
                Says("one of `channel`, `device` must be given"),
                "A disk that stands for the network: its `service` is the time until the answer",
            ),
            row(
                "doorbell",
                KeyType::Number("guest-physical address", 0, i64::MAX as u64),
                Means("0xfeb00000"),
                "With a device: the address written to send",
            ),
            row("compute", KeyType::Span, Means("\"1us\""), "Computing for each message"),
            COUNTED,
        ],
        build: ping_flood,
    },
    LibraryProgram {
        name: "spin",
        about: "Computes for ever. Counts chunks.",
        parameters: &[
            row("chunk", KeyType::SomeSpan, Means("\"100us\""), "Computing for each count"),
            row(
                "demand",
                DEMAND,
                Means("1000"),
                "What it takes from its siblings in a core, in thousandths of what ordinary code takes",
            ),
            COUNTED,
        ],
        build: spin,
    },
    LibraryProgram {
        name: "port_loop",
        about: "Accesses a port again and again. Counts accesses; the latency is that of one.",
        parameters: &[
            row("port", KeyType::Number("port", 0, 0xffff), Means("0x3f8"), "The port"),
            row("size", KeyType::OneOf("size", &[1, 2, 4]), Means("1"), "Bytes"),
            row("direction", KeyType::Word(&["in", "out"]), Means("\"in\""), "Reads or writes"),
            row("string", KeyType::Switch, Means("false"), "INS or OUTS"),
            row("compute", KeyType::Span, Means("\"0ns\""), "Computing between two accesses"),
        ],
        build: port_loop,
    },
    LibraryProgram {
        name: "tick",
        about: "Sleeps, works a little, sleeps: an almost idle system. Counts ticks.",
        parameters: &[
            row("period", KeyType::SomeSpan, Means("\"4ms\""), "Between two ticks"),
            row("work", KeyType::Span, Means("\"5us\""), "Computing at each"),
            COUNTED,
        ],
        build: tick,
    },
    LibraryProgram {
        name: "idle",
        about: "Does nothing, as a vCPU without a program. Counts nothing.",
        parameters: &[],
        build: |_, _| Ok(Vec::new()),
    },
];

fn forever(steps: Vec<Op>) -> Program {
    vec![Op::Repeat(None, steps)]
}

/// Computing, unless it takes no time.
fn compute(span: TimeDistribution) -> Option<Op> {
    (span != TimeDistribution::ZERO).then_some(Op::Compute(span))
}

/// Counting, unless the program is not to count.
fn count(fields: &Fields) -> Result<Option<Op>, Fault> {
    Ok(fields.switch("count")?.then_some(Op::Count))
}

/// The steps so often; nothing at all if never.
fn repeat(times: u32, steps: Vec<Op>) -> Option<Op> {
    (times > 0).then_some(Op::Repeat(Some(times), steps))
}

fn ebizzy(fields: &Fields, scope: &Scope) -> Result<Program, Fault> {
    let allocate = compute(fields.span("allocate")?);
    let mut steps = Vec::new();
    match fields.find("lock") {
        Some(_) => {
            let lock = scope.lock(fields, "lock")?;
            steps.push(Op::Lock(lock));
            steps.extend(allocate);
            steps.push(Op::Unlock(lock));
        }
        None => steps.extend(allocate),
    }
    steps.extend([Op::Compute(fields.span("search")?), Op::Count]);
    Ok(forever(steps))
}

const COMMAND: &[ScenarioKey] = &[
    row("name", KeyType::Text, Means("\"\""), "For people"),
    row("weight", KeyType::Number("weight", 1, 100_000), Means("1"), "How often, compared with the others"),
    row("time", KeyType::Span, Error, "How long it computes"),
];

fn redis(fields: &Fields, scope: &Scope) -> Result<Program, Fault> {
    let channel = scope.channel(fields, "channel")?;
    let mut ways = Vec::new();
    let mix = fields.need("mix")?;
    for command in mix.short_list()? {
        let command = command.fields(COMMAND)?;
        command.text("name")?;
        ways.push((command.number("weight")?, Vec::from_iter(compute(command.span("time")?))));
    }
    if ways.is_empty() {
        return Err(mix.fault("a mix of no commands"));
    }
    Ok(forever(vec![Op::Receive(channel), Op::Start, Op::Pick(ways), Op::Stop, Op::Reply, Op::Count]))
}

fn ping_pong(fields: &Fields, scope: &Scope) -> Result<Program, Fault> {
    let channel = scope.channel(fields, "channel")?;
    let compute = compute(fields.span("compute")?);
    let client = fields.word("role")? == 0;
    let mut steps = Vec::new();
    if client {
        steps.extend([Op::Start, Op::Send(channel), Op::AwaitReply, Op::Stop]);
        steps.extend(compute);
        steps.push(Op::Count);
    } else {
        steps.push(Op::Receive(channel));
        steps.extend(compute);
        steps.push(Op::Reply);
    }
    Ok(forever(steps))
}

fn random_io(fields: &Fields, scope: &Scope) -> Result<Program, Fault> {
    let disk = scope.disk(fields, "read_disk")?;
    let write_disk = fields.find("write_disk").map_or(Ok(disk), |_| scope.disk(fields, "write_disk"))?;
    let (port, doorbell) = (fields.number("port")?, fields.number("doorbell")?);
    let (writes, reads) = (fields.number("writes")?, fields.number("reads")?);
    let ports = fields.word("access")? == 0;
    let access = |write| Op::Port { port, size: 1, write, string: false };
    let before = if ports {
        repeat(writes, vec![access(true)])
    } else {
        Some(Op::Mmio { address: doorbell, size: 2, write: true, value: 0 })
    };
    let after = if ports { repeat(reads, vec![access(false)]) } else { None };
    let read_percent: u32 = fields.number("read_percent")?;
    let ways = [(read_percent, disk), (100 - read_percent, write_disk)];
    let ways = ways.into_iter().filter(|(weight, _)| *weight > 0);
    let ways = ways.map(|(weight, disk)| (weight, vec![Op::Submit(disk), Op::Await(disk)])).collect();
    let mut steps = Vec::from_iter(compute(fields.span("compute")?));
    steps.push(Op::Start);
    steps.extend(before);
    steps.push(Op::Pick(ways));
    steps.extend(after);
    steps.extend([Op::Stop, Op::Count]);
    Ok(forever(steps))
}

/// The critical sections of one request.
fn sections(fields: &Fields, scope: &Scope) -> Result<Option<Op>, Fault> {
    let times = fields.number("sections")?;
    if times == 0 {
        return Ok(None);
    }
    let lock = scope.lock(fields, "lock")?;
    let mut steps = Vec::from_iter(compute(fields.span("between")?));
    steps.push(Op::Lock(lock));
    steps.extend(compute(fields.span("section")?));
    steps.push(Op::Unlock(lock));
    Ok(repeat(times, steps))
}

fn web_server(fields: &Fields, scope: &Scope) -> Result<Program, Fault> {
    let mut steps = vec![Op::Receive(scope.channel(fields, "channel")?)];
    steps.extend(sections(fields, scope)?);
    steps.extend(compute(fields.span("serve")?));
    steps.extend([Op::Reply, Op::Count]);
    Ok(forever(steps))
}

fn web_client(fields: &Fields, scope: &Scope) -> Result<Program, Fault> {
    let send = Op::Send(scope.channel(fields, "channel")?);
    let sections = sections(fields, scope)?;
    let think = fields.span("think")?;
    let think = (think != TimeDistribution::ZERO).then_some(Op::Sleep(think));
    let connections = fields.number("connections")?;
    if connections == 1 {
        let mut steps = vec![Op::Start, send, Op::AwaitReply];
        steps.extend(sections);
        steps.push(Op::Stop);
        steps.extend(think);
        return Ok(forever(steps));
    }
    let mut steps = vec![Op::AwaitReply];
    steps.extend(sections);
    steps.extend(think);
    steps.push(send.clone());
    Ok(vec![Op::Repeat(Some(connections), vec![send]), Op::Repeat(None, steps)])
}

fn ping_flood(fields: &Fields, scope: &Scope) -> Result<Program, Fault> {
    let mut steps = match (fields.find("channel"), fields.find("device")) {
        (Some(_), None) => vec![Op::Send(scope.channel(fields, "channel")?), Op::AwaitReply],
        (None, Some(_)) => {
            let device = scope.disk(fields, "device")?;
            let doorbell = Op::Mmio { address: fields.number("doorbell")?, size: 2, write: true, value: 0 };
            vec![doorbell, Op::Submit(device), Op::Await(device)]
        }
        _ => return Err(fields.item.fault("either \"channel\" or \"device\" must be given")),
    };
    steps.extend(compute(fields.span("compute")?));
    steps.extend(count(fields)?);
    Ok(forever(steps))
}

fn spin(fields: &Fields, _: &Scope) -> Result<Program, Fault> {
    let mut steps = vec![Op::Compute(fields.span("chunk")?)];
    steps.extend(count(fields)?);
    let demand = fields.number("demand")?;
    let demand = (demand != 1_000).then_some(Op::Demand(demand));
    Ok(demand.into_iter().chain([Op::Repeat(None, steps)]).collect())
}

fn port_loop(fields: &Fields, _: &Scope) -> Result<Program, Fault> {
    let access = Op::Port {
        port: fields.number("port")?,
        size: fields.number("size")?,
        write: fields.word("direction")? == 1,
        string: fields.switch("string")?,
    };
    let mut steps = vec![Op::Start, access, Op::Stop, Op::Count];
    steps.extend(compute(fields.span("compute")?));
    Ok(forever(steps))
}

fn tick(fields: &Fields, _: &Scope) -> Result<Program, Fault> {
    let mut steps = vec![Op::Sleep(fields.span("period")?)];
    steps.extend(compute(fields.span("work")?));
    steps.extend(count(fields)?);
    Ok(forever(steps))
}
