//! From the tree to the scenario: a function for each table.

use super::fields::{Fields, Item};
use super::node::{Node, Value, quoted};
use super::rows::{
    CHANNEL, DISK, HOST, LOAD, MAX_CPUS, MAX_VCPUS, PROGRAM, REGISTER, REGISTERS, SCENARIO, SCHEDULER, SPIN, THREAD, VM,
};
use super::{Fault, Scope, costs, steps};
use crate::{
    Arch, Arrival, Channel, CostModel, Disk, Doorbell, HandlerSpec, HostSpec, HostThread, Load, Op, Policies,
    RegistrationKind, Scenario, Scheduler, SmtSpeed, SpinWait, TimeDistribution, VmSpec, YieldRules,
};
use exitscope_policy::exit_path::Registers;
use exitscope_policy::yielding::DiagnoseSupport;
use exitscope_policy::{all_knobs, knob};
use exitscope_units::Picos;
use std::borrow::Cow;
use std::collections::HashSet;
use std::path::Path;

/// Reads the whole file. `folder` is where paths in it begin.
pub(crate) fn scenario(root: &Node, folder: &Path) -> Result<Scenario, Fault> {
    // Times in cycles anywhere need the clock, so that comes first.
    let item = Item { node: Cow::Borrowed(root), path: String::new(), clock_hz: CostModel::default().clock_hz };
    let file = item.fields(SCENARIO)?;
    let costs = costs::scenario(&file.need("costs")?, folder)?;
    let item = Item { clock_hz: costs.clock_hz, ..item.clone() };
    let file = item.fields(SCENARIO)?;

    let (name, description, seed) = (file.text("name")?, file.text("description")?, file.number("seed")?);
    let (warmup, duration) = (file.time("warmup")?, file.time("duration")?);
    if duration < Picos::from_nanos(1) {
        return Err(file.need("duration")?.fault("too short to measure anything: at least 1ns"));
    }
    let host = host(&file.need("host")?, &costs.smt_speed)?;
    let policies = policies(&file.need("policies")?, &host, Policies::default())?;
    let subcores = subcores(&file, &host, &policies)?;
    let channels = file.need("channel")?.tables()?.iter().map(channel).collect::<Result<Vec<_>, _>>()?;
    unique(&file, "channel", channels.iter().map(|channel| channel.name.as_str()))?;

    let exits_take_time = costs.exit.time > Picos::ZERO || costs.entry.time > Picos::ZERO;
    let scope = Scope { channels: &channels, exits_take_time, ..Scope::default() };
    let world = World { host: &host, policies: &policies, cpus: host.cpus(subcores), scope };
    let mut total = 0;
    let mut vms = Vec::new();
    for item in file.need("vm")?.tables()? {
        vms.push(vm(&item, &world, &mut total)?);
    }
    unique(&file, "vm", vms.iter().map(|vm| vm.name.as_str()))?;
    let mut total = 0;
    let mut threads = Vec::new();
    for item in file.need("thread")?.tables()? {
        threads.push(thread(&item, &world, &mut total)?);
    }
    unique(&file, "thread", threads.iter().map(|thread| thread.name.as_str()))?;
    if vms.is_empty() && threads.is_empty() {
        return Err(item.fault("nothing to run: there is neither a [[vm]] nor a [[thread]]"));
    }
    let received = received(&vms, &threads);
    let mut loads = Vec::new();
    for item in file.need("load")?.tables()? {
        loads.push(load(&item, &world.scope, &received)?);
    }
    let scenario =
        Scenario { name, description, seed, warmup, duration, host, costs, policies, vms, threads, channels, loads };
    enough_speeds(&file, &scenario)?;
    Ok(scenario)
}

/// There is a speed for each number of threads of a core that may be busy. How fast more of them are is not known: as
/// fast as the last one that is, they would together be faster than any machine.
fn enough_speeds(file: &Fields, scenario: &Scenario) -> Result<(), Fault> {
    let (busy, speeds) = (scenario.busy_threads(), scenario.host.smt_speed.len());
    if busy as usize <= speeds {
        return Ok(());
    }
    let host = file.need("host")?;
    let what = format!(
        "{busy} threads of a core may be busy, but {} has speeds for {speeds}: give a speed for each number of them",
        match host.get("smt_speed") {
            Some(_) => "this".to_string(),
            None => format!("the cost model {} (smt_speed)", quoted(&scenario.costs.name)),
        }
    );
    let item = host.get("smt_speed").or_else(|| host.get("threads"));
    Err(item.unwrap_or_else(|| host.clone()).fault(what))
}

/// What VMs and threads are read against.
struct World<'a> {
    host: &'a HostSpec,
    policies: &'a Policies,
    /// CPUs of the scheduler.
    cpus: u32,
    scope: Scope<'a>,
}

/// No name twice among the tables of this key.
fn unique<'a>(file: &Fields, key: &str, names: impl Iterator<Item = &'a str>) -> Result<(), Fault> {
    let mut seen = HashSet::new();
    for (at, name) in names.enumerate() {
        if !seen.insert(name) {
            let list = file.need(key)?;
            let item = list.list()?.nth(at);
            let place = item.as_ref().map(|item| item.get("name"));
            let item = place.flatten().unwrap_or_else(|| list.clone());
            return Err(item.fault(format!("a second {key} of the name {}", quoted(name))));
        }
    }
    Ok(())
}

fn host(item: &Item, speed: &SmtSpeed) -> Result<HostSpec, Fault> {
    let fields = item.fields(HOST)?;
    let (sockets, cores, threads) =
        (fields.number::<u32>("sockets")?, fields.number::<u32>("cores")?, fields.number::<u32>("threads")?);
    let total = u64::from(sockets) * u64::from(cores) * u64::from(threads);
    if total > MAX_CPUS {
        let what = format!("{sockets} × {cores} × {threads} hardware threads are too many: at most {MAX_CPUS}");
        return Err(item.fault(what));
    }
    let smt_speed = match fields.find("smt_speed") {
        Some(item) => costs::smt_speed(&item, threads as usize)?,
        None => speed.thousandths.iter().take(threads as usize).copied().collect(),
    };
    let arch = [Arch::Vmx, Arch::Svm, Arch::Powerpc, Arch::S390][fields.word("arch")?];
    let posted_interrupts = match fields.find("posted_interrupts") {
        Some(item) => item.switch()?,
        None => arch.posts_interrupts(),
    };
    let scheduler = fields.need("scheduler")?;
    Ok(HostSpec {
        arch,
        sockets,
        cores,
        threads,
        smt_speed,
        ganged: fields.switch("ganged")?,
        posted_interrupts,
        scheduler: {
            let fields = scheduler.fields(SCHEDULER)?;
            Scheduler {
                time_slice: fields.time("time_slice")?,
                wakeup_granularity: fields.time("wakeup_granularity")?,
                steal: fields.switch("steal")?,
                balance: fields.switch("balance")?,
                yields: [YieldRules::Kvm, YieldRules::Zvm][fields.word("yields")?],
            }
        },
    })
}

/// The knobs of `item`, on top of `policies`.
fn policies(item: &Item, host: &HostSpec, mut policies: Policies) -> Result<Policies, Fault> {
    if host.ganged {
        policies.vcore.threads_per_core = host.threads;
    }
    for entry in item.entries()? {
        let Some(knob) = knob(&entry.key) else {
            return Err(item.unknown(entry, "knob", all_knobs().map(|knob| knob.name)));
        };
        let item = item.entry(entry);
        let text = match &item.node.value {
            Value::Text(text) => text.clone(),
            Value::Number(number) => number.to_string(),
            Value::Switch(switch) => switch.to_string(),
            _ => return Err(item.fault(format!("{} is not a knob's value", item.node.what()))),
        };
        let value = knob.parse(&text).map_err(|error| item.fault(error.to_string()))?;
        policies.set(knob.name, value).map_err(|error| item.fault(error.to_string()))?;
        if host.ganged && policies.vcore.threads_per_core != host.threads {
            return Err(item.fault(format!("the host has {} threads in each core", host.threads)));
        }
    }
    Ok(policies)
}

/// Into how many subcores each core is split.
fn subcores(file: &Fields, host: &HostSpec, policies: &Policies) -> Result<u32, Fault> {
    let subcores = policies.vcore.subcores_per_core;
    if host.ganged && !host.threads.is_multiple_of(subcores) {
        let item = file.need("policies")?;
        let item = item.get("subcores_per_core").unwrap_or(item.clone());
        return Err(item.fault(format!("{} threads of a core cannot be split into {subcores} subcores", host.threads)));
    }
    Ok(subcores)
}

fn channel(item: &Item) -> Result<Channel, Fault> {
    let fields = item.fields(CHANNEL)?;
    Ok(Channel {
        name: fields.name("name")?,
        latency: fields.span("latency")?,
        doorbell: [Doorbell::Memory, Doorbell::Eventfd, Doorbell::DeviceModel][fields.word("doorbell")?],
        thread: fields.time("thread")?,
    })
}

/// Adds `copies × each` to what there is, up to the bound.
fn add(item: &Item, what: &str, copies: u32, each: u32, total: &mut u64) -> Result<(), Fault> {
    *total += u64::from(copies) * u64::from(each);
    if *total > MAX_VCPUS {
        return Err(item.fault(format!("with these there are {total} {what}: at most {MAX_VCPUS}")));
    }
    Ok(())
}

/// The CPUs of this key; none: all.
fn cpus(fields: &Fields, key: &str, cpus: u32) -> Result<Vec<u32>, Fault> {
    fields.find(key).map_or(Ok(Vec::new()), |item| item.set("CPU", cpus))
}

/// So many must each have a CPU of their own.
fn fit(fields: &Fields, what: &str, many: u32, listed: &[u32], cpus: u32) -> Result<bool, Fault> {
    let room = if listed.is_empty() { cpus } else { listed.len() as u32 };
    if !fields.switch("pinned")? {
        return Ok(false);
    }
    if many > room {
        return Err(fields.need("pinned")?.fault(format!("{many} {what} cannot be pinned to {room} CPUs")));
    }
    Ok(true)
}

fn vm(item: &Item, world: &World, total: &mut u64) -> Result<VmSpec, Fault> {
    let fields = item.fields(VM)?;
    let (copies, vcpus) = (fields.number("copies")?, fields.number("vcpus")?);
    add(item, "vCPUs", copies, vcpus, total)?;
    let policies = policies(&fields.need("policies")?, world.host, *world.policies)?;
    let smt_mode = if world.host.ganged { smt_mode(&fields, world, &policies)? } else { 1 };
    let device_model_cpus = cpus(&fields, "device_model_cpus", world.cpus)?;
    let cpus = cpus(&fields, "cpus", world.cpus)?;
    let pinned = if smt_mode > 1 {
        fit(&fields, "virtual cores", vcpus.div_ceil(smt_mode), &cpus, world.cpus)?
    } else {
        fit(&fields, "vCPUs", vcpus, &cpus, world.cpus)?
    };
    let mut locks: Vec<String> = Vec::new();
    for item in fields.need("locks")?.short_list()? {
        let name = item.name()?;
        if locks.contains(&name) {
            return Err(item.fault(format!("a second lock of the name {}", quoted(&name))));
        }
        locks.push(name);
    }
    let disks = fields.need("disk")?.tables()?.iter().map(disk).collect::<Result<Vec<_>, _>>()?;
    unique(&fields, "disk", disks.iter().map(|disk| disk.name.as_str()))?;
    let registrations = fields.need("register")?.tables()?.iter().map(registration).collect::<Result<_, _>>()?;
    let scope = Scope { locks: &locks, disks: &disks, vcpus: Some(vcpus), ..world.scope.clone() };
    let mut programs = Vec::new();
    let mut busy = vec![false; vcpus as usize];
    for item in fields.need("program")?.tables()? {
        let program = steps::program(&item, PROGRAM, &scope)?;
        let wanted = item.get("vcpus");
        let wanted = match &wanted {
            Some(item) if item.node.as_text() != Some("all") => item.set("vCPU", vcpus)?,
            _ => (0..vcpus).collect(),
        };
        for vcpu in &wanted {
            if std::mem::replace(&mut busy[*vcpu as usize], true) {
                let item = item.get("vcpus").unwrap_or_else(|| item.clone());
                return Err(item.fault(format!("vCPU {vcpu} has a program already")));
            }
        }
        programs.push((wanted, program));
    }
    Ok(VmSpec {
        name: fields.name("name")?,
        copies,
        vcpus,
        weight: fields.number("weight")?,
        cpus,
        pinned,
        device_model_cpus,
        registers: registers(&fields.need("registers")?)?,
        registrations,
        programs,
        policies,
        cpuidle_haltpoll: fields.switch("cpuidle_haltpoll")?,
        spin: match fields.find("spin") {
            Some(item) => spin(&item)?,
            None if world.host.arch == Arch::S390 => {
                SpinWait::Diagnose(DiagnoseSupport { diag44: true, diag9c: true, sense_running: true, lpar: false })
            }
            None if world.host.arch == Arch::Powerpc => SpinWait::Confer,
            None => SpinWait::PauseLoop,
        },
        locks,
        disks,
    })
}

/// vCPUs in each virtual core.
fn smt_mode(fields: &Fields, world: &World, policies: &Policies) -> Result<u32, Fault> {
    if policies.vcore.subcores_per_core != world.policies.vcore.subcores_per_core {
        let own = fields.need("policies")?;
        let own = own.get("subcores_per_core").unwrap_or_else(|| own.clone());
        return Err(own.fault("a core is split for all VMs: this belongs into [policies] of the scenario"));
    }
    let smt_mode = policies.vcore.smt_mode;
    let threads = world.host.threads / world.policies.vcore.subcores_per_core;
    if smt_mode > threads {
        let what = format!("a virtual core of {smt_mode} threads (smt_mode) does not fit into {threads}");
        let own = fields.find("policies");
        let own = own.as_ref().and_then(|item| item.get("smt_mode"));
        return Err(own.unwrap_or_else(|| fields.item.clone()).fault(what));
    }
    Ok(smt_mode)
}

fn registers(item: &Item) -> Result<Registers, Fault> {
    let fields = item.fields(REGISTERS)?;
    Ok(Registers { read: fields.number("read")?, written: fields.number("written")? })
}

fn spin(item: &Item) -> Result<SpinWait, Fault> {
    if !matches!(item.node.value, Value::Table(_)) {
        return Ok([SpinWait::PauseLoop, SpinWait::Confer][item.word(&["pause_loop", "confer"])?]);
    }
    let fields = item.fields(SPIN)?;
    Ok(SpinWait::Diagnose(DiagnoseSupport {
        diag44: fields.switch("diag44")?,
        diag9c: fields.switch("diag9c")?,
        sense_running: fields.switch("sense_running")?,
        lpar: fields.switch("lpar")?,
    }))
}

fn disk(item: &Item) -> Result<Disk, Fault> {
    let fields = item.fields(DISK)?;
    Ok(Disk {
        name: fields.name("name")?,
        service: fields.span("service")?,
        parallel: fields.number("parallel")?,
        thread: fields.time("thread")?,
    })
}

fn registration(item: &Item) -> Result<HandlerSpec, Fault> {
    let fields = item.fields(REGISTER)?;
    let (port, range) = match (fields.find("port"), fields.find("address")) {
        (Some(item), None) => (true, range(&item, "port", 0xffff)?),
        (None, Some(item)) => (false, range(&item, "guest-physical address", i64::MAX as u64)?),
        _ => return Err(item.fault("either \"port\" or \"address\" must be given")),
    };
    let (first, last) = range;
    let kind = match fields.word("kind")? {
        1 if first != last => return Err(item.fault("an ioeventfd has a single port or address")),
        1 => {
            let datamatch = fields.find("datamatch").map(|_| fields.number("datamatch")).transpose()?;
            return Ok(HandlerSpec {
                port,
                first,
                last,
                kind: RegistrationKind::Ioeventfd { size: fields.number("size")?, datamatch },
            });
        }
        0 => RegistrationKind::Kernel,
        _ => RegistrationKind::Coalesced,
    };
    match fields.find("size").or_else(|| fields.find("datamatch")) {
        Some(item) => Err(item.fault("only an ioeventfd has this")),
        None => Ok(HandlerSpec { port, first, last, kind }),
    }
}

/// One number, or the first and the last.
fn range(item: &Item, of: &str, max: u64) -> Result<(u64, u64), Fault> {
    if !matches!(item.node.value, Value::List(_)) {
        let one = item.number(of, 0, max)?;
        return Ok((one, one));
    }
    let both = item.short_list()?;
    let both = both.iter().map(|item| item.number(of, 0, max)).collect::<Result<Vec<_>, _>>()?;
    match both[..] {
        [first, last] if first <= last => Ok((first, last)),
        [_, _] => Err(item.fault("the last one is before the first")),
        _ => Err(item.fault(format!("the first and the last {of} are wanted"))),
    }
}

fn thread(item: &Item, world: &World, total: &mut u64) -> Result<HostThread, Fault> {
    let program = steps::program(item, THREAD, &world.scope)?;
    let library = steps::library(item)?.map_or(&[][..], |library| library.parameters);
    let fields = item.fields_of(THREAD.iter().chain(library).collect())?;
    let copies = fields.number("copies")?;
    add(item, "threads", copies, 1, total)?;
    let cpus = cpus(&fields, "cpus", world.cpus)?;
    let pinned = fit(&fields, "threads", copies, &cpus, world.cpus)?;
    Ok(HostThread { name: fields.name("name")?, copies, cpus, pinned, program })
}

/// The channels from which any program receives.
fn received(vms: &[VmSpec], threads: &[HostThread]) -> HashSet<usize> {
    fn collect(ops: &[Op], found: &mut HashSet<usize>) {
        for op in ops {
            match op {
                Op::Receive(channel) => {
                    found.insert(*channel);
                }
                Op::Repeat(_, body) => collect(body, found),
                Op::Pick(ways) => ways.iter().for_each(|(_, ops)| collect(ops, found)),
                _ => {}
            }
        }
    }
    let mut found = HashSet::new();
    vms.iter().flat_map(|vm| &vm.programs).for_each(|(_, program)| collect(program, &mut found));
    threads.iter().for_each(|thread| collect(&thread.program, &mut found));
    found
}

fn load(item: &Item, scope: &Scope, received: &HashSet<usize>) -> Result<Load, Fault> {
    let fields = item.fields(LOAD)?;
    let channel = scope.channel(&fields, "channel")?;
    if !received.contains(&channel) {
        let item = fields.find("channel").unwrap_or_else(|| item.clone());
        let name = scope.channels.get(channel).map_or("", |channel| &channel.name);
        return Err(item.fault(format!("nobody receives from {}", quoted(name))));
    }
    let arrival = match (fields.find("clients"), fields.find("every"), fields.find("think")) {
        (Some(_), None, think) => Arrival::Closed {
            clients: fields.number("clients")?,
            think: think.map_or(Ok(TimeDistribution::ZERO), |item| item.span())?,
        },
        (None, Some(_), None) => Arrival::Open { every: fields.span("every")? },
        (None, Some(_), Some(think)) => return Err(think.fault("only \"clients\" think")),
        _ => return Err(item.fault("either \"clients\" or \"every\" must be given")),
    };
    Ok(Load { channel, arrival })
}
