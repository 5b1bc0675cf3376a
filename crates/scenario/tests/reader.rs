//! Scenario files into scenarios, overrides, and texts that nobody meant as one.

use exitscope_policy::exit_path::Registers;
use exitscope_policy::yielding::DiagnoseSupport;
use exitscope_scenario::text::{MAX_NESTING, MAX_OPS, MAX_TEXT};
use exitscope_scenario::{
    Arch, Arrival, Channel, CostFigure, CostModel, CostOrigin, Disk, Doorbell, HandlerSpec, HostSpec, HostThread,
    LIBRARY, Load, Op, Policies, RegistrationKind, Scenario, ScenarioDocument, Scheduler, SpinWait, TimeDistribution,
    VmSpec, YieldRules,
};
use exitscope_units::Picos;
use proptest::prelude::*;

const NS: u64 = 1_000;
const US: u64 = 1_000_000;
const MS: u64 = 1_000_000_000;

/// A file with every key in it.
const WHOLE: &str = r#"
name = "whole"
description = "Everything at once"
seed = 7
warmup = "1ms"
duration = "0.5s"

[host]
arch = "s390"
sockets = 2
cores = 3
threads = 2
smt_speed = [1000, 600]
ganged = false
posted_interrupts = true
scheduler = { time_slice = "2ms", wakeup_granularity = "0ns", steal = false, balance = false, yields = "zvm" }

[costs]
model = "default"
clock_hz = 1_000_000_000
entry = "400 cycles"
exit = { time = "0.2us", origin = "published", source = "a paper" }

[policies]
spin_retry = 5
quick_path = false
halt_poll_ns = "10us"
device_model = "scheduled"

[[channel]]
name = "net"
latency = { normal = ["10us", "2us"] }
doorbell = "device_model"
thread = "3us"

[[channel]]
name = "pipe"
doorbell = "memory"

[[load]]
channel = "net"
clients = 3
think = { exponential = "1ms" }

[[load]]
channel = "net"
every = { uniform = ["1us", "2us"] }

[[vm]]
name = "a"
copies = 2
vcpus = 4
weight = 512
cpus = "0-2,11"
pinned = true
locks = ["l", "m"]
device_model_cpus = [5]
registers = { read = 2, written = 1 }
cpuidle_haltpoll = true
spin = { diag44 = true, lpar = true }
policies = { spin_retry = 0 }

[[vm.register]]
kind = "ioeventfd"
address = 0xfee0_0000
size = 4
datamatch = 9

[[vm.register]]
kind = "coalesced"
port = [0x10, 0x1f]

[[vm.register]]
kind = "kernel"
port = 0x70

[[vm.disk]]
name = "d"
service = "1ms"
parallel = 4
thread = "5us"

[[vm.program]]
vcpus = "2-3"
steps = [
    { compute = "5us" }, { sleep = "1us" }, { lock = "m" }, { unlock = "m" },
    { port_in = 1, size = 2, string = true }, { port_out = 0x3f8 },
    { mmio_read = 16, size = 8 }, { mmio_write = 0xfee0_0000, value = 9 },
    { hypercall = 3 }, "cpuid", { ipi = 0 }, "await_ipi", { submit = "d" }, { await = "d" },
    { send = "pipe" }, "await_reply", { receive = "net" }, "reply", "count", "start", "stop",
    { repeat = 2, steps = ["count"] },
    { pick = [{ steps = [] }, { weight = 3, steps = ["cpuid"] }] },
    { forever = [{ compute = { exponential = "1us" } }] },
]

[[vm.program]]
vcpus = [0]
library = "port_loop"
port = 2
direction = "out"

[[thread]]
name = "t"
copies = 2
cpus = [1, 3]
pinned = true
library = "spin"
"#;

#[test]
fn every_key_comes_where_it_belongs() {
    let fixed = |picos| TimeDistribution::Fixed(Picos(picos));
    let mut costs = CostModel { clock_hz: 1_000_000_000, ..CostModel::default() };
    costs.entry = CostFigure { time: Picos(400 * NS), origin: CostOrigin::Assumed, source: "the scenario".to_string() };
    costs.exit = CostFigure { time: Picos(200 * NS), origin: CostOrigin::Published, source: "a paper".to_string() };
    let mut policies = Policies::default();
    for (knob, value) in [("spin_retry", 5), ("quick_path", 0), ("halt_poll_ns", 10_000), ("device_model", 1)] {
        policies.set(knob, value).unwrap();
    }
    let mut own = policies;
    own.set("spin_retry", 0).unwrap();
    let steps = vec![
        Op::Compute(fixed(5 * US)),
        Op::Sleep(fixed(US)),
        Op::Lock(1),
        Op::Unlock(1),
        Op::Port { port: 1, size: 2, write: false, string: true },
        Op::Port { port: 0x3f8, size: 1, write: true, string: false },
        Op::Mmio { address: 16, size: 8, write: false, value: 0 },
        Op::Mmio { address: 0xfee0_0000, size: 4, write: true, value: 9 },
        Op::Hypercall(3),
        Op::Cpuid,
        Op::Ipi(0),
        Op::AwaitIpi,
        Op::Submit(0),
        Op::Await(0),
        Op::Send(1),
        Op::AwaitReply,
        Op::Receive(0),
        Op::Reply,
        Op::Count,
        Op::Start,
        Op::Stop,
        Op::Repeat(Some(2), vec![Op::Count]),
        Op::Pick(vec![(1, vec![]), (3, vec![Op::Cpuid])]),
        Op::Repeat(None, vec![Op::Compute(TimeDistribution::Exponential(Picos(US)))]),
    ];
    let port = Op::Port { port: 2, size: 1, write: true, string: false };
    let wanted = Scenario {
        name: "whole".to_string(),
        description: "Everything at once".to_string(),
        seed: 7,
        warmup: Picos(MS),
        duration: Picos(500 * MS),
        host: HostSpec {
            arch: Arch::S390,
            sockets: 2,
            cores: 3,
            threads: 2,
            smt_speed: vec![1000, 600],
            ganged: false,
            posted_interrupts: true,
            scheduler: Scheduler {
                time_slice: Picos(2 * MS),
                wakeup_granularity: Picos::ZERO,
                steal: false,
                balance: false,
                yields: YieldRules::Zvm,
            },
        },
        costs,
        policies,
        vms: vec![VmSpec {
            name: "a".to_string(),
            copies: 2,
            vcpus: 4,
            weight: 512,
            cpus: vec![0, 1, 2, 11],
            pinned: true,
            locks: vec!["l".to_string(), "m".to_string()],
            device_model_cpus: vec![5],
            registers: Registers { read: 2, written: 1 },
            registrations: vec![
                HandlerSpec {
                    port: false,
                    first: 0xfee0_0000,
                    last: 0xfee0_0000,
                    kind: RegistrationKind::Ioeventfd { size: 4, datamatch: Some(9) },
                },
                HandlerSpec { port: true, first: 0x10, last: 0x1f, kind: RegistrationKind::Coalesced },
                HandlerSpec { port: true, first: 0x70, last: 0x70, kind: RegistrationKind::Kernel },
            ],
            disks: vec![Disk { name: "d".to_string(), service: fixed(MS), parallel: 4, thread: Picos(5 * US) }],
            programs: vec![
                (vec![2, 3], steps),
                (vec![0], vec![Op::Repeat(None, vec![Op::Start, port, Op::Stop, Op::Count])]),
            ],
            policies: own,
            cpuidle_haltpoll: true,
            spin: SpinWait::Diagnose(DiagnoseSupport { diag44: true, diag9c: false, sense_running: false, lpar: true }),
        }],
        threads: vec![HostThread {
            name: "t".to_string(),
            copies: 2,
            cpus: vec![1, 3],
            pinned: true,
            program: vec![Op::Repeat(None, vec![Op::Compute(fixed(100 * US)), Op::Count])],
        }],
        channels: vec![
            Channel {
                name: "net".to_string(),
                latency: TimeDistribution::Normal(Picos(10 * US), Picos(2 * US)),
                doorbell: Doorbell::DeviceModel,
                thread: Picos(3 * US),
            },
            Channel::new("pipe"),
        ],
        loads: vec![
            Load {
                channel: 0,
                arrival: Arrival::Closed { clients: 3, think: TimeDistribution::Exponential(Picos(MS)) },
            },
            Load { channel: 0, arrival: Arrival::Open { every: TimeDistribution::Uniform(Picos(US), Picos(2 * US)) } },
        ],
    };
    assert_eq!(WHOLE.parse(), Ok(wanted));
}

#[test]
fn defaults_are_those_of_the_values() {
    let scenario = Scenario::from_toml("name = 'x'\n[[vm]]\nname = 'v'").unwrap();
    let mut wanted = Scenario::new("x", HostSpec::new(4));
    wanted.vms.push(VmSpec::new("v", 1));
    assert_eq!(scenario, wanted);
}

#[test]
fn what_the_architecture_has_is_the_default() {
    let of = |arch: &str| {
        let text = format!("name = 'x'\n[host]\narch = '{arch}'\n[[vm]]\nname = 'v'");
        let scenario = Scenario::from_toml(&text).unwrap();
        (scenario.host.posted_interrupts, scenario.vms[0].spin)
    };
    assert_eq!(of("vmx"), (true, SpinWait::PauseLoop));
    assert_eq!(of("svm"), (true, SpinWait::PauseLoop));
    assert_eq!(of("powerpc"), (false, SpinWait::Confer));
    let (posted, spin) = of("s390");
    assert!(!posted && matches!(spin, SpinWait::Diagnose(_)));
}

/// What `--set` makes of WHOLE.
fn set(key: &str, value: &str) -> Result<Scenario, String> {
    let mut document = ScenarioDocument::parse("whole.toml", WHOLE).map_err(|error| error.to_string())?;
    document.set(key, value).map_err(|error| error.to_string())?;
    document.scenario().map_err(|error| error.to_string())
}

#[test]
fn what_is_set_is_as_if_it_stood_in_the_file() {
    let original = Scenario::from_toml(WHOLE).unwrap();
    type Change = fn(&mut Scenario);
    let cases: &[(&str, &str, Change)] = &[
        ("seed", "9", |s| s.seed = 9),
        ("duration", "2s", |s| s.duration = Picos(2_000 * MS)),
        ("warmup", "\"2ms\"", |s| s.warmup = Picos(2 * MS)),
        ("description", "1.5", |s| s.description = "1.5".to_string()),
        ("host.cores", "8", |s| s.host.cores = 8),
        ("host.scheduler.steal", "true", |s| s.host.scheduler.steal = true),
        ("host.scheduler.balance", "true", |s| s.host.scheduler.balance = true),
        ("host.smt_speed", "[1000, 500]", |s| s.host.smt_speed = vec![1000, 500]),
        ("delay", "1us", |s| {
            s.costs.delay =
                CostFigure { time: Picos(US), origin: CostOrigin::Assumed, source: "the scenario".to_string() };
        }),
        ("cost.exit.source", "a book", |s| s.costs.exit.source = "a book".to_string()),
        ("costs.halt", "{ time = \"1us\", source = \"S\" }", |s| {
            s.costs.halt = CostFigure { time: Picos(US), origin: CostOrigin::Assumed, source: "S".to_string() };
        }),
        ("spin_retry", "9", |s| {
            s.policies.yielding.spin_retry = 9;
            s.vms[0].policies.yielding.spin_retry = 9;
        }),
        ("policies.spin_retry", "9", |s| s.policies.yielding.spin_retry = 9),
        ("quick_path", "Y", |s| {
            s.policies.port_path.quick_path = true;
            s.vms[0].policies.port_path.quick_path = true;
        }),
        ("vm.a.quick_path", "Y", |s| s.vms[0].policies.port_path.quick_path = true),
        ("vm.0.weight", "3", |s| s.vms[0].weight = 3),
        ("vm.a.copies", "5", |s| s.vms[0].copies = 5),
        ("vm.a.cpus", "0-3", |s| s.vms[0].cpus = vec![0, 1, 2, 3]),
        ("vm.a.disk.d.parallel", "1", |s| s.vms[0].disks[0].parallel = 1),
        ("vm.a.size", "4", |s| {
            let port = Op::Port { port: 2, size: 4, write: true, string: false };
            s.vms[0].programs[1].1 = vec![Op::Repeat(None, vec![Op::Start, port, Op::Stop, Op::Count])];
        }),
        ("channel.pipe.latency", "{ exponential = \"1us\" }", |s| {
            s.channels[1].latency = TimeDistribution::Exponential(Picos(US))
        }),
        ("load.0.clients", "4", |s| {
            s.loads[0].arrival = Arrival::Closed { clients: 4, think: TimeDistribution::Exponential(Picos(MS)) };
        }),
        ("thread.t.copies", "1", |s| s.threads[0].copies = 1),
        ("thread.t.chunk", "1us", |s| {
            s.threads[0].program =
                vec![Op::Repeat(None, vec![Op::Compute(TimeDistribution::Fixed(Picos(US))), Op::Count])];
        }),
    ];
    for (key, value, change) in cases {
        let mut wanted = original.clone();
        change(&mut wanted);
        match set(key, value) {
            Ok(scenario) => assert!(scenario == wanted, "--set {key}={value}"),
            Err(error) => panic!("{error}"),
        }
    }
}

#[test]
fn what_cannot_be_set_says_so() {
    for (key, value, says) in [
        ("vm.a.vcpus", "0", "vm[0].vcpus: 0 is not a number of vCPUs: at least 1"),
        ("vm.b.vcpus", "1", "there is no vm \"b\": there is a"),
        ("vm.1.vcpus", "1", "there is no vm \"1\": there is a"),
        ("vm.a.vcpu", "1", "vm[0].vcpu: there is no key \"vcpu\"; did you mean \"vcpus\"?"),
        ("spin_rety", "1", "there is no key or knob \"spin_rety\"; did you mean \"spin_retry\"?"),
        ("spin_retry", "many", "policies.spin_retry: spin_retry is a whole number from 0 to 2147483647 (count)"),
        ("duration", "2", "duration: the number 2 is not a time: a time is a text with a unit, such as \"12us\""),
        ("duration.s", "2", "\"duration\" is not a table, and has no \"s\""),
        ("host", "{ cores = 0 }", "host.cores: 0 is not a number of cores: at least 1"),
        ("", "1", "\"\" is not a key"),
        ("host..cores", "1", "\"host..cores\" is not a key"),
        ("thread.t.chnk", "1us", "thread[0].chnk: there is no key \"chnk\"; did you mean \"chunk\"?"),
        ("cost.exti", "1us", "costs.exti: there is no cost \"exti\"; did you mean \"exit\"?"),
    ] {
        assert_eq!(set(key, value).unwrap_err(), format!("--set {key}={value}: {says}"));
    }
    // What it makes wrong elsewhere is told there.
    let says = "whole.toml:84:9: vm[0].program[0].vcpus: there is no vCPU 3: they are 0 to 2 (with --set vm.a.vcpus=3)";
    assert_eq!(set("vm.a.vcpus", "3").unwrap_err(), says);
}

#[test]
fn names_of_parameters_knobs_and_keys_do_not_meet() {
    // `--set vm.<name>.<word>` and the tables that hold both need it.
    use exitscope_scenario::text::page;
    let page = page();
    let keys = |title: &str| {
        let part = page.split(&format!("\n### {title}\n")).nth(1).and_then(|rest| rest.split("\n#").next()).unwrap();
        part.lines()
            .filter_map(|line| Some(line.strip_prefix("| `")?.split_once('`')?.0.to_string()))
            .collect::<Vec<_>>()
    };
    let taken: Vec<String> = ["`[[vm]]`", "`[[vm.program]]`", "`[[thread]]`"].into_iter().flat_map(keys).collect();
    assert!(taken.iter().any(|key| key == "vcpus"));
    for program in LIBRARY {
        for parameter in program.parameters {
            assert!(!taken.iter().any(|key| key == parameter.key), "{}.{}", program.name, parameter.key);
            assert!(exitscope_policy::knob(parameter.key).is_none(), "{}.{}", program.name, parameter.key);
        }
    }
    for knob in exitscope_policy::all_knobs() {
        assert!(!taken.iter().any(|key| key == knob.name), "{}", knob.name);
    }
}

/// The error of a scenario with these steps.
fn error_of(steps: &str) -> String {
    let text = format!("name = 'x'\n[[vm]]\nname = 'v'\n[[vm.program]]\nsteps = {steps}\n");
    Scenario::from_toml(&text).map_or_else(|error| error.to_string(), |_| "none".to_string())
}

#[test]
fn what_is_too_much_is_told() {
    let deep = |levels: usize| format!("[{}'count'{}]", "{ repeat = 1, steps = [".repeat(levels), "] }".repeat(levels));
    assert_eq!(error_of(&deep(MAX_NESTING)), "none");
    assert!(error_of(&deep(MAX_NESTING + 1)).ends_with(": steps in steps, more than 32 deep"));
    assert!(error_of(&deep(50)).ends_with(": cannot recurse further; max recursion depth met"));
    let many = |steps: usize| format!("[{}]", "'count', ".repeat(steps));
    assert_eq!(error_of(&many(MAX_OPS)), "none");
    assert!(error_of(&many(MAX_OPS + 1)).ends_with("steps[10000]: a program has at most 10000 steps"));
    let large = "#".repeat(MAX_TEXT + 1);
    let says = Scenario::from_toml(&large).unwrap_err().to_string();
    assert_eq!(says, "scenario.toml:1:1: 4194305 bytes are too much for a scenario: at most 4194304");
    let vms = format!("name = 'x'\n{}", "[[vm]]\nname = 'v'\n".repeat(1_001));
    assert_eq!(Scenario::from_toml(&vms).unwrap_err().to_string(), "scenario.toml:2:1: vm: more than 1000");
}

#[test]
fn the_deepest_tree_that_toml_allows_fits_the_stack() {
    let key = ["a"; 79].join(".");
    let text = format!("{key} = {}1{}", format!("{{ {key} = ").repeat(79), "}".repeat(79));
    let says = Scenario::from_toml(&text).unwrap_err().to_string();
    assert!(says.ends_with(": nested deeper than 80 levels"), "{says}");
}

#[test]
fn checking_takes_no_longer_with_loops_in_loops() {
    // Every level changes a lock's state on one way, so that each loop would be gone through twice, and those in it.
    let mut steps = "['cpuid']".to_string();
    let mut locks = Vec::new();
    for level in 0..MAX_NESTING / 2 - 1 {
        locks.push(format!("'l{level}'"));
        let way = format!("{{ pick = [{{ steps = [{{ lock = 'l{level}' }}] }}, {{ steps = [] }}] }}");
        let before = level.checked_sub(1).map_or(String::new(), |level| format!("{{ unlock = 'l{level}' }},"));
        steps = format!("[{{ repeat = 2, steps = {steps} }}, {before} {way}]");
    }
    let text =
        format!("name = 'x'\n[[vm]]\nname = 'v'\nlocks = [{}]\n[[vm.program]]\nsteps = {steps}\n", locks.join(", "));
    Scenario::from_toml(&text).map_or_else(|error| panic!("{error}"), |_| ());
}

/// Words that stand in scenario files, and some that do not.
const WORDS: &[&str] = &[
    "name",
    "vm",
    "[[vm]]",
    "[host]",
    "[[vm.program]]",
    "[[thread]]",
    "[[channel]]",
    "[[load]]",
    "[costs]",
    "[policies]",
    "steps",
    "library",
    "=",
    "[",
    "]",
    "{",
    "}",
    ",",
    "\n",
    "\n",
    "\"x\"",
    "\"spin\"",
    "\"12us\"",
    "\"-1us\"",
    "\"3 cycles\"",
    "0",
    "1",
    "-1",
    "4294967296",
    "99999999999999999999",
    "0x3f8",
    "1.5",
    "nan",
    "true",
    "compute",
    "lock",
    "repeat",
    "forever",
    "pick",
    "\"count\"",
    "\"0-99999999\"",
    "vcpus",
    "cpus",
    "copies",
    "duration",
    "2026-01-01",
    ".",
    "#",
    "'''",
    "\"\"\"",
    "é",
    "\u{0}",
    "spin_retry",
    "threads",
    "smt_speed",
];

/// Reads, sets and reads again; whatever becomes of it, nothing breaks.
fn survives(text: &str) {
    if let Ok(mut document) = ScenarioDocument::parse("x", text) {
        let _ = document.scenario();
        let _ = document.set("vm.0.vcpus", "3");
        let _ = document.set("spin_retry", "3");
        let _ = document.scenario().map_err(|error| error.to_string());
    }
}

proptest! {
    #[test]
    fn no_text_breaks_the_reader(words in prop::collection::vec(prop::sample::select(WORDS), 0..60)) {
        survives(&words.join(" "));
    }

    #[test]
    fn no_damage_to_a_good_file_breaks_the_reader(
        hits in prop::collection::vec((0..WHOLE.len(), 0..WHOLE.len(), prop::sample::select(WORDS), 0..3u8), 1..6),
    ) {
        let mut text: Vec<char> = WHOLE.chars().collect();
        for (at, from, word, how) in hits {
            let at = at.min(text.len());
            match how {
                // A word in between, a piece gone, a piece from elsewhere.
                0 => drop(text.splice(at..at, word.chars())),
                1 => drop(text.splice(at..(at + from % 40).min(text.len()), [])),
                _ => {
                    let from = from.min(text.len());
                    let piece: Vec<char> = text[from..(from + 30).min(text.len())].to_vec();
                    drop(text.splice(at..at, piece));
                }
            }
        }
        survives(&text.into_iter().collect::<String>());
    }

    #[test]
    fn no_override_breaks_the_reader(key in "[a-z_.0-9]{0,30}", at in 0..WORDS.len(), whole in prop::sample::select(WORDS)) {
        let mut document = ScenarioDocument::parse("x", WHOLE).unwrap();
        for (key, value) in [(key.as_str(), whole), (&format!("vm.a.{}", WORDS[at]), whole), (WORDS[at], whole)] {
            let _ = document.set(key, value);
            let _ = document.scenario();
        }
    }
}
