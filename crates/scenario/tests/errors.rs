//! Every error with its exact place and words.

use exitscope_scenario::Scenario;

/// Eleven lines that end in a VM of two vCPUs.
const VM: &str = "name = 'x'
[host]
cores = 2
[[channel]]
name = 'c'
doorbell = 'memory'
[[vm]]
name = 'v'
vcpus = 2
locks = ['a', 'b']
disk = [{ name = 'd', service = '1ms' }]
";

/// A text, and what is wrong with it: line, column, key, reason. `VM;` stands for the lines above, `P;` for these and
/// the head of a program.
const CASES: &[(&str, &str)] = &[
    ("name = ", r#"1:8: string values must be quoted, expected literal string"#),
    ("name = \"x", r#"1:10: invalid basic string, expected `"`"#),
    ("a = 1\na = 2", r#"2:1: duplicate key"#),
    ("[vm", r#"1:4: unclosed table, expected `]`"#),
    ("\u{0}", r#"1:2: key with no value, expected `=`"#),
    ("x😀 = [1, 2", r#"1:11: unclosed array, expected `]`"#),
    ("description = \"x\"", r#"1:1: "name" is missing; it takes: text"#),
    ("name = \"x\"", r#"1:1: nothing to run: there is neither a [[vm]] nor a [[thread]]"#),
    ("name = 3\n[[vm]]\nname = \"v\"", r#"1:8: name: the number 3 is not a text in quotes"#),
    ("name = \"x\"\nnmae = \"y\"", r#"2:1: nmae: there is no key "nmae"; did you mean "name"?"#),
    (
        "name = \"x\"\nmemory = \"y\"",
        r#"2:1: memory: there is no key "memory": there is name, description, seed, warmup, duration, host, costs, policies, vm, thread, channel, load"#,
    ),
    ("name = \"x\"\n[[vms]]\nname = \"y\"", r#"2:3: vms: there is no key "vms"; did you mean "vm"?"#),
    ("name = \"x\"\n[vm]\nname = \"v\"", r#"2:1: vm: there can be several: write [[vm]], not [vm]"#),
    ("name = \"x\"\nvm = 1.5", r#"2:6: vm: 1.5 is not a list"#),
    (
        "name = \"x\"\nwarmup = 2026-11-21",
        r#"2:10: warmup: 2026-11-21 is not a time: a time is a text with a unit, such as "12us""#,
    ),
    ("name = \"x\"\nseed = -1", r#"2:8: seed: -1 is not a seed: at least 0"#),
    (
        "name = \"x\"\nseed = 99999999999999999999999999",
        r#"2:8: seed: this number is not a seed: at most 9223372036854775807"#,
    ),
    ("name = \"x\"\nseed = 1.5", r#"2:8: seed: 1.5 is not a seed"#),
    ("name = \"x\"\nduration = \"0s\"\n[[vm]]\nname = \"v\"", r#"2:12: duration: zero is too short"#),
    ("name = \"x\"\nduration = \"-1s\"\n[[vm]]\nname = \"v\"", r#"2:12: duration: "-1s" is negative; a time is not"#),
    (
        "name = \"x\"\nduration = 5\n[[vm]]\nname = \"v\"",
        r#"2:12: duration: the number 5 is not a time: a time is a text with a unit, such as "12us""#,
    ),
    (
        "name = \"x\"\nduration = \"5\"\n[[vm]]\nname = \"v\"",
        r#"2:12: duration: "5" has no unit: a time is a number and ps, ns, us, ms, s or cycles, such as "12us""#,
    ),
    (
        "name = \"x\"\nduration = \"5 minutes\"\n[[vm]]\nname = \"v\"",
        r#"2:12: duration: "minutes" is not a unit of time: a time is a number and ps, ns, us, ms, s or cycles, such as "12us""#,
    ),
    (
        "name = \"x\"\nwarmup = \"25h\"",
        r#"2:10: warmup: "h" is not a unit of time: a time is a number and ps, ns, us, ms, s or cycles, such as "12us""#,
    ),
    ("name = \"x\"\n[host]\narch = \"x86\"", r#"3:8: host.arch: "x86" is none of vmx, svm, powerpc, s390"#),
    (
        "name = \"x\"\n[host]\narch = \"smv\"",
        r#"3:8: host.arch: "smv" is none of vmx, svm, powerpc, s390; did you mean "svm"?"#,
    ),
    ("name = \"x\"\n[host]\ncores = 0", r#"3:9: host.cores: 0 is not a number of cores: at least 1"#),
    ("name = \"x\"\n[host]\ncores = 16385", r#"3:9: host.cores: 16385 is not a number of cores: at most 16384"#),
    (
        "name = \"x\"\n[host]\nsockets = 256\ncores = 16384\nthreads = 8",
        r#"2:1: host: 256 × 16384 × 8 hardware threads are too many: at most 16384"#,
    ),
    (
        "name = \"x\"\n[host]\nthreads = 3",
        r#"3:11: host.threads: 3 is not a number of threads of a core: 1, 2, 4 or 8"#,
    ),
    (
        "name = \"x\"\n[host]\nthreads = 2\nsmt_speed = [900, 600]",
        r#"4:14: host.smt_speed[0]: the first speed is that of a core of its own, 1000"#,
    ),
    (
        "name = \"x\"\n[host]\nthreads = 2\nsmt_speed = [1000, 1001]",
        r#"4:20: host.smt_speed[1]: 1001 is not a speed in thousandths, not above the one before: at most 1000"#,
    ),
    (
        "name = \"x\"\n[host]\nthreads = 2\nsmt_speed = [1000, 600, 500]",
        r#"4:13: host.smt_speed: 3 speeds, but 2 threads in a core"#,
    ),
    (
        "name = \"x\"\n[host]\nthreads = 2\nsmt_speed = []",
        r#"4:13: host.smt_speed: an empty list: the first speed is 1000"#,
    ),
    (
        "name = \"x\"\n[host]\nthreads = 4\nsmt_speed = [1000, 600]\n[[vm]]\nname = \"v\"\nvcpus = 3",
        r#"4:13: host.smt_speed: 3 threads of a core may be busy, but this has speeds for 2: give a speed for each number of them"#,
    ),
    (
        "name = \"x\"\n[host]\nthreads = 8\n[costs]\nmodel = \"power8-kvm\"\n[[vm]]\nname = \"v\"\ncopies = 2\nvcpus = 4",
        r#"3:11: host.threads: 8 threads of a core may be busy, but the cost model "power8-kvm" (smt_speed) has speeds for 4: give a speed for each number of them"#,
    ),
    ("name = \"x\"\n[host]\nganged = \"yes\"", r#"3:10: host.ganged: the text "yes" is neither true nor false"#),
    ("name = \"x\"\n[host.scheduler]\ntime_slice = \"0ns\"", r#"3:14: host.scheduler.time_slice: zero is too short"#),
    ("name = \"x\"\n[host.scheduler]\nyields = \"xen\"", r#"3:10: host.scheduler.yields: "xen" is none of kvm, zvm"#),
    (
        "name = \"x\"\n[host]\nthreads = 4\nganged = true\n[policies]\nsubcores_per_core = 3\n[[vm]]\nname = \"v\"",
        r#"6:21: policies.subcores_per_core: 4 threads of a core cannot be split into 3 subcores"#,
    ),
    (
        "name = \"x\"\n[host]\nthreads = 4\nganged = true\n[policies]\nsmt_mode = 8\n[[vm]]\nname = \"v\"",
        r#"7:1: vm[0]: a virtual core of 8 threads (smt_mode) does not fit into 4"#,
    ),
    (
        "name = \"x\"\n[host]\nthreads = 4\nganged = true\n[policies]\nsubcores_per_core = 2\n[[vm]]\nname = \"v\"\npolicies.smt_mode = 4",
        r#"9:21: vm[0].policies.smt_mode: a virtual core of 4 threads (smt_mode) does not fit into 2"#,
    ),
    (
        "name = \"x\"\n[host]\nthreads = 4\nganged = true\n[[vm]]\nname = \"v\"\npolicies.subcores_per_core = 4",
        r#"7:30: vm[0].policies.subcores_per_core: a core is split for all VMs: this belongs into [policies] of the scenario"#,
    ),
    (
        "name = \"x\"\n[host]\nthreads = 4\nganged = true\n[policies]\nthreads_per_core = 8",
        r#"6:20: policies.threads_per_core: the host has 4 threads in each core"#,
    ),
    ("name = \"x\"\n[costs]\nexti = \"1us\"", r#"3:1: costs.exti: there is no cost "exti"; did you mean "exit"?"#),
    (
        "name = \"x\"\n[costs]\nexit = 350",
        r#"3:8: costs.exit: the number 350 is not a time: a time is a text with a unit, such as "12us""#,
    ),
    (
        "name = \"x\"\n[costs]\nexit = \"350\"",
        r#"3:8: costs.exit: "350" has no unit: a time is a number and ps, ns, us, ms, s or cycles, such as "12us""#,
    ),
    (
        "name = \"x\"\n[costs]\nexit_spread = { p5 = 1001, p95 = 2000 }",
        r#"3:22: costs.exit_spread.p5: 1001 is not a number of thousandths of the median: at most 1000"#,
    ),
    (
        "name = \"x\"\n[costs]\nexit_spread = { p5 = 800 }",
        r#"3:15: costs.exit_spread: "p95" is missing; it takes: number of thousandths of the median, 1000 to 100000"#,
    ),
    ("name = \"x\"\n[costs]\nexit = { source = \"S\" }", r#"3:8: costs.exit: "time" is missing; it takes: time"#),
    (
        "name = \"x\"\n[costs]\nexit = { time = \"1us\", origin = \"guessed\" }",
        r#"3:33: costs.exit.origin: "guessed" is none of published, calibrated, assumed"#,
    ),
    (
        "name = \"x\"\n[costs]\nmodel = \"xeon\"",
        r#"3:9: costs.model: there is no cost model "xeon": there is default, power8-kvm, nehalem-xen-3.3, small-packet-2019, z990-zvm-5.3, z9-zvm-5.3, s390-2016, broadwell-2016, ivy-bridge-2016"#,
    ),
    ("name = \"x\"\n[costs]\nclock_hz = 0", r#"3:12: costs.clock_hz: 0 is not a clock in Hz: at least 1000000"#),
    (
        "name = \"x\"\n[policies]\nspin_rety = 3",
        r#"3:1: policies.spin_rety: there is no knob "spin_rety"; did you mean "spin_retry"?"#,
    ),
    (
        "name = \"x\"\n[policies]\nguest_halt_poll_ns = \"soon\"",
        r#"3:22: policies.guest_halt_poll_ns: guest_halt_poll_ns is a time from 0 to 4294967295 ns, such as 200000 or 80us"#,
    ),
    (
        "name = \"x\"\n[policies]\nguest_halt_poll_ns = \"1h\"",
        r#"3:22: policies.guest_halt_poll_ns: guest_halt_poll_ns is a time from 0 to 4294967295 ns, such as 200000 or 80us"#,
    ),
    (
        "name = \"x\"\n[policies]\nguest_halt_poll_ns = 5000000000",
        r#"3:22: policies.guest_halt_poll_ns: 5000000000 is out of bounds: guest_halt_poll_ns is a time from 0 to 4294967295 ns, such as 200000 or 80us"#,
    ),
    (
        "name = \"x\"\n[policies]\nspin_generation = \"L9\"",
        r#"3:19: policies.spin_generation: spin_generation is one of L0, L1, L1b, L2, L3, L4, classic"#,
    ),
    ("name = \"x\"\n[policies]\nspin_retry = [1]", r#"3:14: policies.spin_retry: a list is not a knob's value"#),
    ("name = \"x\"\n[[channel]]\nname = \"\"", r#"3:8: channel[0].name: a name cannot be empty"#),
    (
        "name = \"x\"\n[[channel]]\nname = \"a b\"",
        r#"3:8: channel[0].name: "a b" is not a name: only letters, digits, - and _"#,
    ),
    (
        "name = \"x\"\n[[channel]]\nname = \"c\"\n[[channel]]\nname = \"c\"",
        r#"5:8: channel[1].name: a second channel of the name "c""#,
    ),
    (
        "name = \"x\"\n[[channel]]\nname = \"c\"\nlatency = { exponental = \"1us\" }",
        r#"4:13: channel[0].latency.exponental: there is no distribution "exponental"; did you mean "exponential"?"#,
    ),
    (
        "name = \"x\"\n[[channel]]\nname = \"c\"\nlatency = {}",
        r#"4:11: channel[0].latency: one distribution is wanted, such as { exponential = "12us" }"#,
    ),
    (
        "name = \"x\"\n[[channel]]\nname = \"c\"\nlatency = { uniform = [\"1us\"] }",
        r#"4:23: channel[0].latency.uniform: two times are wanted: the shortest and the longest"#,
    ),
    (
        "name = \"x\"\n[[channel]]\nname = \"c\"\nlatency = { uniform = [\"3us\", \"1us\"] }",
        r#"4:23: channel[0].latency.uniform: the second time must be longer than the first"#,
    ),
    (
        "name = \"x\"\n[[channel]]\nname = \"c\"\nlatency = { uniform = [\"3us\", 5] }",
        r#"4:31: channel[0].latency.uniform[1]: the number 5 is not a time: a time is a text with a unit, such as "12us""#,
    ),
    (
        "name = \"x\"\n[[channel]]\nname = \"c\"\nlatency = { exponential = \"0ns\" }",
        r#"4:27: channel[0].latency.exponential: zero is too short"#,
    ),
    (
        "name = \"x\"\n[[channel]]\nname = \"c\"\nlatency = { normal = [\"0ns\", \"1us\"] }",
        r#"4:22: channel[0].latency.normal: a mean of zero is too short"#,
    ),
    (
        "name = \"x\"\n[[channel]]\nname = \"c\"\ndoorbell = \"bell\"",
        r#"4:12: channel[0].doorbell: "bell" is none of memory, eventfd, device_model"#,
    ),
    ("VM;[[vm]]\nname = \"v\"", r#"13:8: vm[1].name: a second vm of the name "v""#),
    ("VM;vcpus = 1", r#"12:1: duplicate key"#),
    ("VM;copies = 100000", r#"7:1: vm[0]: with these there are 200000 vCPUs: at most 100000"#),
    ("VM;weight = 0", r#"12:10: vm[0].weight: 0 is not a weight: at least 1"#),
    ("VM;cpus = [0, 2]", r#"12:12: vm[0].cpus[1]: there is no CPU 2: they are 0 to 1"#),
    ("VM;cpus = [0, 0]", r#"12:12: vm[0].cpus[1]: CPU 0 twice"#),
    ("VM;cpus = []", r#"12:8: vm[0].cpus: a list without any CPU"#),
    ("VM;cpus = \"0-\"", r#"12:8: vm[0].cpus: "0-" is no list such as "0-3,8""#),
    ("VM;cpus = \"0-99999999\"", r#"12:8: vm[0].cpus: there is no CPU 99999999: they are 0 to 1"#),
    ("VM;cpus = [\"0\"]", r#"12:9: vm[0].cpus[0]: the text "0" is not the number of a CPU"#),
    ("VM;cpus = [1]\npinned = true", r#"13:10: vm[0].pinned: 2 vCPUs cannot be pinned to 1 CPUs"#),
    ("VM;[[vm]]\nname = \"w\"\nvcpus = 3\npinned = true", r#"15:10: vm[1].pinned: 3 vCPUs cannot be pinned to 2 CPUs"#),
    ("VM;[[vm]]\nname = \"w\"\nlocks = [\"a\", \"a\"]", r#"14:15: vm[1].locks[1]: a second lock of the name "a""#),
    ("VM;[[vm]]\nname = \"w\"\nlocks = [\"a\", 1]", r#"14:15: vm[1].locks[1]: the number 1 is not a text in quotes"#),
    ("VM;[[vm]]\nname = \"w\"\nspin = \"s390\"", r#"14:8: vm[1].spin: "s390" is none of pause_loop, confer"#),
    (
        "VM;[[vm]]\nname = \"w\"\nspin = { diag9d = true }",
        r#"14:10: vm[1].spin.diag9d: there is no key "diag9d"; did you mean "diag9c"?"#,
    ),
    (
        "VM;[[vm]]\nname = \"w\"\n[[vm.disk]]\nname = \"d\"\nservice = \"0us\"",
        r#"16:11: vm[1].disk[0].service: zero is too short"#,
    ),
    (
        "VM;[[vm]]\nname = \"w\"\n[[vm.disk]]\nname = \"d\"",
        r#"14:1: vm[1].disk[0]: "service" is missing; it takes: time or distribution, not zero"#,
    ),
    (
        "VM;[[vm]]\nname = \"w\"\ndisk = [{ name = \"d\", service = \"1us\" }, { name = \"d\", service = \"2us\" }]",
        r#"14:51: vm[1].disk[1].name: a second disk of the name "d""#,
    ),
    (
        "VM;[[vm.register]]\nkind = \"ioeventfd\"",
        r#"12:1: vm[0].register[0]: either "port" or "address" must be given"#,
    ),
    (
        "VM;[[vm.register]]\nkind = \"ioeventfd\"\nport = [1, 2]",
        r#"12:1: vm[0].register[0]: an ioeventfd has a single port or address"#,
    ),
    (
        "VM;[[vm.register]]\nkind = \"kernel\"\nport = [2, 1]",
        r#"14:8: vm[0].register[0].port: the last one is before the first"#,
    ),
    (
        "VM;[[vm.register]]\nkind = \"kernel\"\nport = 65536",
        r#"14:8: vm[0].register[0].port: 65536 is not a port: at most 65535"#,
    ),
    (
        "VM;[[vm.register]]\nkind = \"kernel\"\nport = 1\nsize = 2",
        r#"15:8: vm[0].register[0].size: only an ioeventfd has this"#,
    ),
    (
        "VM;[[vm.register]]\nkind = \"ioeventfd\"\nport = 1\nsize = 3",
        r#"15:8: vm[0].register[0].size: 3 is not a size: 0, 1, 2, 4 or 8"#,
    ),
    ("P;vcpus = [2]\nsteps = []", r#"13:10: vm[0].program[0].vcpus[0]: there is no vCPU 2: they are 0 to 1"#),
    ("P;vcpus = \"some\"\nsteps = []", r#"13:9: vm[0].program[0].vcpus: "some" is no list such as "0-3,8""#),
    (
        "P;steps = []\n[[vm.program]]\nvcpus = [1]\nsteps = []",
        r#"15:9: vm[0].program[1].vcpus: vCPU 1 has a program already"#,
    ),
    ("P;vcpus = [0]", r#"12:1: vm[0].program[0]: either "steps" or "library" must be given"#),
    ("P;steps = []\nlibrary = \"spin\"", r#"13:9: vm[0].program[0].steps: either "steps" or "library", not both"#),
    (
        "P;library = \"sping\"",
        r#"13:11: vm[0].program[0].library: there is no library program "sping"; did you mean "spin"?"#,
    ),
    (
        "P;library = \"spin\"\nchnk = \"1us\"",
        r#"14:1: vm[0].program[0].chnk: there is no key "chnk"; did you mean "chunk"?"#,
    ),
    ("P;library = \"spin\"\nchunk = \"0us\"", r#"14:9: vm[0].program[0].chunk: zero is too short"#),
    ("P;library = \"ping_pong\"", r#"12:1: vm[0].program[0]: "role" is missing; it takes: "client", "server""#),
    ("P;library = \"ping_flood\"", r#"12:1: vm[0].program[0]: either "channel" or "device" must be given"#),
    ("P;library = \"redis\"\nmix = []", r#"14:7: vm[0].program[0].mix: a mix of no commands"#),
    (
        "P;library = \"redis\"\nchannel = \"net\"",
        r#"14:11: vm[0].program[0].channel: there is no channel "net": there is c"#,
    ),
    ("P;library = \"web_server\"", r#"12:1: vm[0].program[0]: "lock" is missing: there are several, a, b"#),
    (
        "P;library = \"random_io\"\nread_percent = 101",
        r#"14:16: vm[0].program[0].read_percent: 101 is not a percentage: at most 100"#,
    ),
    ("P;steps = { compute = \"1us\" }", r#"13:9: vm[0].program[0].steps: a table is not a list"#),
    ("P;steps = [1]", r#"13:10: vm[0].program[0].steps[0]: the number 1 is not a step"#),
    ("P;steps = [{}]", r#"13:10: vm[0].program[0].steps[0]: an empty table is no step"#),
    ("P;steps = [\"cuont\"]", r#"13:10: vm[0].program[0].steps[0]: there is no step "cuont"; did you mean "count"?"#),
    (
        "P;steps = [\"compute\"]",
        r#"13:10: vm[0].program[0].steps[0]: "compute" takes time or distribution: { compute = … }"#,
    ),
    ("P;steps = [{ count = 1 }]", r#"13:10: vm[0].program[0].steps[0]: "count" takes no value: write "count" alone"#),
    (
        "P;steps = [{ computing = \"1us\" }]",
        r#"13:12: vm[0].program[0].steps[0].computing: there is no step "computing""#,
    ),
    (
        "P;steps = [{ compute = \"1us\", size = 1 }]",
        r#"13:29: vm[0].program[0].steps[0].size: there is no key "size": there is compute"#,
    ),
    ("P;steps = [{ sleep = \"0ns\" }]", r#"13:20: vm[0].program[0].steps[0].sleep: zero is too short"#),
    (
        "P;steps = [{ port_in = 0x10000 }]",
        r#"13:22: vm[0].program[0].steps[0].port_in: 65536 is not a port: at most 65535"#,
    ),
    (
        "P;steps = [{ port_in = 0x3f8, size = 8 }]",
        r#"13:36: vm[0].program[0].steps[0].size: 8 is not a size: 1, 2 or 4"#,
    ),
    (
        "P;steps = [{ mmio_write = -1 }]",
        r#"13:25: vm[0].program[0].steps[0].mmio_write: -1 is not a guest-physical address: at least 0"#,
    ),
    ("P;steps = [{ ipi = 2 }]", r#"13:10: vm[0].program[0].steps[0]: there is no vCPU 2: they are 0 to 1"#),
    ("P;steps = [{ lock = \"c\" }]", r#"13:19: vm[0].program[0].steps[0].lock: there is no lock "c": there is a, b"#),
    ("P;steps = [{ send = \"d\" }]", r#"13:19: vm[0].program[0].steps[0].send: there is no channel "d": there is c"#),
    ("P;steps = [{ submit = \"e\" }]", r#"13:21: vm[0].program[0].steps[0].submit: there is no disk "e": there is d"#),
    (
        "P;steps = [{ repeat = 0, steps = [] }]",
        r#"13:21: vm[0].program[0].steps[0].repeat: 0 is not a number of times: at least 1"#,
    ),
    (
        "P;steps = [{ repeat = 4294967296, steps = [] }]",
        r#"13:21: vm[0].program[0].steps[0].repeat: 4294967296 is not a number of times: at most 4294967295"#,
    ),
    ("P;steps = [{ repeat = 2 }]", r#"13:10: vm[0].program[0].steps[0]: "steps" is missing; it takes: list of steps"#),
    ("P;steps = [{ pick = [] }]", r#"13:19: vm[0].program[0].steps[0].pick: nothing to pick from"#),
    (
        "P;steps = [{ pick = [{ weight = 0, steps = [] }] }]",
        r#"13:31: vm[0].program[0].steps[0].pick[0].weight: 0 is not a weight: at least 1"#,
    ),
    (
        "P;steps = [\n  { lock = \"a\" },\n  { lock = \"a\" },\n]",
        r#"15:3: vm[0].program[0].steps[1]: lock "a" is held already: the vCPU would wait for itself"#,
    ),
    (
        "P;steps = [{ forever = [{ compute = \"1us\" }, { lock = \"a\" }] }]",
        r#"13:44: vm[0].program[0].steps[0].forever[1]: lock "a" is held already: the vCPU would wait for itself"#,
    ),
    ("P;steps = [{ unlock = \"a\" }]", r#"13:10: vm[0].program[0].steps[0]: lock "a" is not held here"#),
    (
        "P;steps = [{ lock = \"a\" }, { unlock = \"a\" }, { unlock = \"a\" }]",
        r#"13:44: vm[0].program[0].steps[2]: lock "a" is not held here"#,
    ),
    (
        "P;steps = [{ lock = \"a\" }, { pick = [{ steps = [{ unlock = \"a\" }] }, { steps = [{ lock = \"b\" }, { lock = \"a\" }] }] }]",
        r#"13:95: vm[0].program[0].steps[1].pick[1].steps[1]: lock "a" is held already: the vCPU would wait for itself"#,
    ),
    (
        "P;steps = [{ repeat = 2, steps = [{ unlock = \"b\" }] }]",
        r#"13:33: vm[0].program[0].steps[0].steps[0]: lock "b" is not held here"#,
    ),
    ("P;steps = [\"reply\"]", r#"13:10: vm[0].program[0].steps[0]: a reply, but nothing was received before"#),
    (
        "P;steps = [\"await_reply\"]",
        r#"13:10: vm[0].program[0].steps[0]: waits for a reply, but nothing was sent before"#,
    ),
    (
        "P;steps = [{ await = \"d\" }]",
        r#"13:10: vm[0].program[0].steps[0]: waits for the disk, but nothing was submitted before"#,
    ),
    (
        "P;steps = [{ forever = [] }]",
        r#"13:10: vm[0].program[0].steps[0]: this goes on for ever, but nothing in it takes time"#,
    ),
    (
        "P;steps = [{ forever = [\"count\", { compute = \"0ns\" }, \"start\", \"stop\", { repeat = 3, steps = [\"count\"] }] }]",
        r#"13:10: vm[0].program[0].steps[0]: this goes on for ever, but nothing in it takes time"#,
    ),
    (
        "P;steps = [{ forever = [{ send = \"c\" }] }]",
        r#"13:10: vm[0].program[0].steps[0]: this goes on for ever, but nothing in it takes time"#,
    ),
    (
        "P;steps = [{ forever = [{ pick = [{ steps = [{ compute = \"1us\" }] }, { steps = [\"count\"] }] }] }]",
        r#"13:10: vm[0].program[0].steps[0]: this goes on for ever, but nothing in it takes time"#,
    ),
    (
        "P;steps = [{ repeat = 1000, steps = [{ repeat = 1001, steps = [\"count\"] }] }]",
        r#"13:10: vm[0].program[0].steps[0]: more than 1000000 steps without any that takes time"#,
    ),
    (
        "VM;[costs]\nexit = \"0ns\"\nentry = \"0ns\"\n[[vm.program]]\nsteps = [{ forever = [\"cpuid\"] }]",
        r#"16:10: vm[0].program[0].steps[0]: this goes on for ever, but nothing in it takes time"#,
    ),
    ("name = \"x\"\n[[thread]]\nname = \"t\"", r#"2:1: thread[0]: either "steps" or "library" must be given"#),
    (
        "name = \"x\"\n[[thread]]\nname = \"t\"\nsteps = [\"cpuid\"]",
        r#"4:10: thread[0].steps[0]: a thread of the host only computes, sleeps, sends and receives"#,
    ),
    (
        "name = \"x\"\n[[thread]]\nname = \"t\"\nsteps = []\n[[thread]]\nname = \"t\"\nsteps = []",
        r#"6:8: thread[1].name: a second thread of the name "t""#,
    ),
    (
        "name = \"x\"\n[[thread]]\nname = \"t\"\nsteps = []\ncopies = 5\npinned = true",
        r#"6:10: thread[0].pinned: 5 threads cannot be pinned to 4 CPUs"#,
    ),
    (
        "name = \"x\"\n[[thread]]\nname = \"t\"\nlibrary = \"ebizzy\"\nlock = \"a\"",
        r#"5:8: thread[0].lock: there is no lock here"#,
    ),
    (
        "name = \"x\"\n[[thread]]\nname = \"t\"\nlibrary = \"port_loop\"",
        r#"4:11: thread[0]: a thread of the host only computes, sleeps, sends and receives"#,
    ),
    ("VM;[[load]]\nevery = \"1us\"", r#"12:1: load[0]: nobody receives from "c""#),
    ("P;steps = [{ receive = \"c\" }]\n[[load]]\nevery = \"0us\"", r#"15:9: load[0].every: zero is too short"#),
    ("P;steps = [{ receive = \"c\" }]\n[[load]]", r#"14:1: load[0]: either "clients" or "every" must be given"#),
    (
        "P;steps = [{ receive = \"c\" }]\n[[load]]\nevery = \"1us\"\nthink = \"1us\"",
        r#"16:9: load[0].think: only "clients" think"#,
    ),
    (
        "P;steps = [{ receive = \"c\" }]\n[[load]]\nclients = 0",
        r#"15:11: load[0].clients: 0 is not a number of clients: at least 1"#,
    ),
    (
        "P;steps = [{ receive = \"c\" }]\n[[load]]\nchannel = \"d\"\nclients = 1",
        r#"15:11: load[0].channel: there is no channel "d": there is c"#,
    ),
    (
        "VM;[vm.program]\nsteps = []",
        r#"12:1: vm[0].program: there can be several: write [[vm.program]], not [vm.program]"#,
    ),
    (
        "P;library = \"redis\"\nmix = [{ weight = 1 }]",
        r#"14:8: vm[0].program[0].mix[0]: "time" is missing; it takes: time or distribution"#,
    ),
    (
        "P;steps = [{ repeat = 2, steps = [{ send = \"c\" }, \"await_reply\", \"reply\"] }]",
        r#"13:64: vm[0].program[0].steps[0].steps[2]: a reply, but nothing was received before"#,
    ),
    ("name = \"x\"\ndescription = \"😀😀\" 😀", r#"2:20: unexpected key or value, expected newline, `#`"#),
    (
        "# 😀\nname = \"x\" # 😀\nabout = [\"😀\", { 😀 = 1 }]",
        r#"3:17: invalid unquoted key, expected letters, numbers, `-`, `_`"#,
    ),
];

#[test]
fn errors_tell_place_key_and_reason() {
    for (text, says) in CASES {
        let text = text.replace("VM;", VM).replace("P;", &format!("{VM}[[vm.program]]\n"));
        match Scenario::from_toml(&text) {
            Ok(_) => panic!("no error, but wanted: {says}\n{text}"),
            Err(error) => assert_eq!(error.to_string(), format!("scenario.toml:{says}"), "\n{text}"),
        }
    }
}
