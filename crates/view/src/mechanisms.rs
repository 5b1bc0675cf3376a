//! What shows each item of the mechanisms, in a trace, by replay and advice, in the simulator and in the lab: `docs/mechanisms.md`.
//!
//! A test runs every command of the table and asks for what its cell claims.

use std::io::{self, Write};

/// One item of a mechanism.
#[derive(Clone, Copy, Debug)]
pub struct MechanismRow {
    /// The mechanism.
    pub mechanism: &'static str,
    /// What of it.
    pub item: &'static str,
    /// By what it is shown, in the order of [`MECHANISM_COLUMNS`].
    pub cells: [&'static [MechanismCell]; 4],
}

/// Where an item is looked for.
pub const MECHANISM_COLUMNS: [&str; 4] = ["trace", "replay and advice", "simulator", "lab"];

/// Whether an item is shown there.
#[derive(Clone, Copy, Debug)]
pub enum MechanismCell {
    /// A command shows it.
    Shown {
        /// The command's arguments, in the repository's top directory.
        arguments: &'static str,
        /// What it shows, in words.
        what: &'static str,
        /// What it prints then, among other things.
        prints: &'static [&'static str],
    },
    /// Nothing does, for this reason.
    NotShown(&'static str),
}

use MechanismCell::NotShown;

const fn shown(arguments: &'static str, what: &'static str, prints: &'static [&'static str]) -> MechanismCell {
    MechanismCell::Shown { arguments, what, prints }
}

/// A host's recording of a guest's governor.
const GOVERNOR: MechanismCell = NotShown(
    "no event of the host has the limit of a guest's governor; `report --view halt` shows it of a recording made in the guest \
     (`power:guest_halt_poll_ns`), of which the corpus has none",
);

/// What the running kernel is built to do.
const BUILT_IN: MechanismCell = NotShown("the running kernel does what it was built to do, and has no switch for it");

const NO_POLICY: MechanismCell =
    NotShown("there is no policy to replay: each exit of a recording took the path that its kernel has");

const GANGS: &str = "Ganged exits";
const PIO: &str = "PIO quick path";
const GUEST_POLL: &str = "Guest halt polling";
const HOST_POLL: &str = "Host halt polling";
const YIELD: &str = "Directed yield";
const ANATOMY: &str = "Anatomy of exit cost";

/// All items.
pub const MECHANISMS: &[MechanismRow] = &[
    MechanismRow {
        mechanism: GANGS,
        item: "threads of a virtual core that leave because a sibling has to",
        cells: [
            &[shown(
                "report corpus/powerpc/p8_smt4_trace.dat.gz --view gang",
                "who forced whom out, and the time lost by it",
                &["Exits that forced others out", "several active"],
            )],
            &[
                shown(
                    "replay corpus/powerpc/p8_smt4_one_vm_two_threads.data.gz --policy vcore --vary smt_mode=1,4",
                    "forced exits with other virtual cores",
                    &["556", "49.8ms"],
                ),
                shown(
                    "advise corpus/powerpc/p8_smt4_two_vms.data.gz",
                    "the exits that force others out",
                    &["these exits force other vCPUs out"],
                ),
            ],
            &[shown(
                "sim scenarios/ping-flood.toml",
                "ganged exits, by either rule",
                &["Gang exits: two or more threads of a core left", "/s by the script of 2015"],
            )],
            &[shown(
                "lab gang --duration 5ms --repeat 1",
                "ganged and forced exits beside siblings that exit",
                &["A compute loop, by its neighbours", "forced exits"],
            )],
        ],
    },
    MechanismRow {
        mechanism: PIO,
        item: "plain port accesses decoded from the exit",
        cells: [
            &[shown(
                "report corpus/xen/hvm1_dm_sched_hvm.xentrace.gz --tsc-hz 2596120000 --view pio",
                "which accesses qualify, and the time to the handover",
                &["1,965 of 1,993 port accesses are plain and qualify", "to handover p50"],
            )],
            &[shown(
                "replay corpus/xen/hvm1_dm_sched_hvm.xentrace.gz --policy port_path --tsc-hz 2596120000 --vary quick_path=Y,N",
                "emulations with and without it",
                &["3,874", "56"],
            )],
            &[shown(
                "sweep scenarios/port-loop.toml --vary quick_path=Y,N",
                "accesses a second with and without it",
                &["Best: quick_path=Y"],
            )],
            &[shown(
                "lab pio --duration 5ms --repeat 1",
                "an access by its way, and what this back end cannot do",
                &["A port access by its way", "emulated"],
            )],
        ],
    },
    MechanismRow {
        mechanism: GUEST_POLL,
        item: "`guest_halt_poll_ns`",
        cells: [
            &[GOVERNOR],
            &[shown(
                "replay corpus/x86-svm/t4-none.dat.gz --policy guest_halt_poll --vary guest_halt_poll_ns=0,200us",
                "exits that polls would have avoided",
                &["616", "exits avoided"],
            )],
            &[shown(
                "sweep scenarios/wake-ups.toml --vary guest_halt_poll_ns=0,200us --metric throughput",
                "work done, by the longest poll",
                &["Best: guest_halt_poll_ns=200us"],
            )],
            &[shown(
                "lab haltpoll --duration 5ms --repeat 1",
                "round trips, CPU time, halts and wake-ups by who polls how long",
                &["guest_halt_poll_ns=200us", "wake-ups each"],
            )],
        ],
    },
    MechanismRow {
        mechanism: GUEST_POLL,
        item: "`guest_halt_poll_grow`",
        cells: [
            &[GOVERNOR],
            &[shown(
                "replay corpus/x86-svm/t4-none.dat.gz --policy guest_halt_poll --vary guest_halt_poll_grow=1,2,8",
                "exits that polls would have avoided",
                &["616", "807"],
            )],
            &[shown(
                "sweep scenarios/wake-ups.toml --vary guest_halt_poll_grow=1,2 --metric guest_polls.success_share",
                "successful polls",
                &["Best: guest_halt_poll_grow=2"],
            )],
            &[shown(
                "lab run scenarios/wake-ups.toml --set guest_halt_poll_grow=8 --duration 300ms",
                "polls of a guest that obeys it",
                &["polls before a halt"],
            )],
        ],
    },
    MechanismRow {
        mechanism: GUEST_POLL,
        item: "`guest_halt_poll_grow_start`",
        cells: [
            &[GOVERNOR],
            &[shown(
                "replay corpus/x86-svm/t4-none.dat.gz --policy guest_halt_poll --vary guest_halt_poll_grow_start=50us,150us",
                "exits that polls would have avoided",
                &["616", "882"],
            )],
            &[shown(
                "sweep scenarios/wake-ups.toml --vary guest_halt_poll_grow_start=50us,190us --metric guest_polls.success_share",
                "successful polls",
                &["Best: guest_halt_poll_grow_start=190us"],
            )],
            &[shown(
                "lab run scenarios/wake-ups.toml --set guest_halt_poll_grow_start=190us --duration 300ms",
                "polls of a guest that obeys it",
                &["polls before a halt"],
            )],
        ],
    },
    MechanismRow {
        mechanism: GUEST_POLL,
        item: "`guest_halt_poll_shrink`",
        cells: [
            &[GOVERNOR],
            &[shown(
                "replay corpus/x86-svm/t4-none.dat.gz --policy guest_halt_poll --vary guest_halt_poll_shrink=0,1,2",
                "exits that polls would have avoided",
                &["453", "1,421", "616"],
            )],
            &[shown(
                "sweep scenarios/wake-ups.toml --vary guest_halt_poll_shrink=1,2 --metric guest_polls.success_share",
                "successful polls",
                &["Best: guest_halt_poll_shrink=1"],
            )],
            &[shown(
                "lab run scenarios/wake-ups.toml --set guest_halt_poll_shrink=1 --duration 300ms",
                "polls of a guest that obeys it",
                &["polls before a halt"],
            )],
        ],
    },
    MechanismRow {
        mechanism: GUEST_POLL,
        item: "`guest_halt_poll_allow_shrink`",
        cells: [
            &[GOVERNOR],
            &[shown(
                "replay corpus/x86-svm/t4-none.dat.gz --policy guest_halt_poll --vary guest_halt_poll_allow_shrink=Y,N",
                "exits that polls would have avoided",
                &["616", "1,421"],
            )],
            &[shown(
                "sweep scenarios/wake-ups.toml --vary guest_halt_poll_allow_shrink=Y,N --metric guest_polls.success_share",
                "successful polls",
                &["Best: guest_halt_poll_allow_shrink=N"],
            )],
            &[shown(
                "lab run scenarios/wake-ups.toml --set guest_halt_poll_allow_shrink=N --duration 300ms",
                "polls of a guest that obeys it",
                &["polls before a halt"],
            )],
        ],
    },
    MechanismRow {
        mechanism: GUEST_POLL,
        item: "interrupts spared as a vCPU says that it polls",
        cells: [
            &[NotShown(
                "a spared interrupt leaves nothing in a host's recording; `report --view halt` counts those of a recording made in the \
                 guest (`sched:sched_wake_idle_without_ipi`), of which the corpus has none",
            )],
            &[shown(
                "replay corpus/x86-svm/t2.data.gz --policy guest_halt_poll --vary guest_halt_poll_ns=200us,1ms",
                "polls that would have spared an IPI of a sibling",
                &["ipis spared", "of 408 halts"],
            )],
            &[shown(
                "sim scenarios/wake-ups.toml",
                "wake-ups whose wakers sent no interrupt",
                &["their wakers sent no interrupt"],
            )],
            &[shown(
                "lab run scenarios/wake-ups.toml --set guest_halt_poll_ns=20ms --set guest_halt_poll_grow_start=20ms --duration 300ms",
                "messages to a vCPU that polled",
                &["of these, to a vCPU that polled"],
            )],
        ],
    },
    MechanismRow {
        mechanism: HOST_POLL,
        item: "KVM's polls before it blocks a vCPU",
        cells: [
            &[shown(
                "report corpus/x86-svm/t4-none.dat.gz --view halt",
                "gaps, polls, and the parameters in force by KVM's decisions",
                &["failed polls", "inferred from kvm_halt_poll_ns", "from 1,826 decisions"],
            )],
            &[shown(
                "replay corpus/x86-svm/t4-none.dat.gz --policy host_halt_poll --vary halt_poll_ns=0,200us,1ms",
                "polls, wake-up latency and CPU time with other limits",
                &["reproduces 1,826 of 1,826 traced changes", "679"],
            )],
            &[shown(
                "sweep scenarios/ping-pong.toml --set vm.pair.cpuidle_haltpoll=false --vary halt_poll_ns=0,200us",
                "round trips with and without",
                &["Best: halt_poll_ns=200us"],
            )],
            &[shown(
                "lab haltpoll --duration 5ms --repeat 1",
                "KVM beside the guest and the lab's own run loop",
                &["the run loop", "halt_poll_ns=800us"],
            )],
        ],
    },
    MechanismRow {
        mechanism: YIELD,
        item: "X'44', X'9C', sense-running, spin_retry",
        cells: [
            &[shown(
                "report corpus/lab/contended.data.gz --view yield",
                "yields by call, and whether a sibling was preempted",
                &["at 2,672 of 2,899 yields (92.2%) a sibling was preempted", "X'9C'"],
            )],
            &[
                shown(
                    "replay corpus/lab/contended.data.gz --policy yielding",
                    "yields and time with other calls and spin_retry",
                    &["X'9C' sensing", "X'44'"],
                ),
                shown("advise corpus/lab/contended.data.gz", "preempted lock holders", &["keep lock holders running"]),
            ],
            &[shown(
                "sweep scenarios/web.toml --vary spin_retry=0,1000 --metric throughput,yields",
                "yields and throughput, by spin_retry",
                &["Figures by spin_retry", "yields"],
            )],
            &[shown(
                "lab yield --duration 5ms --repeat 1",
                "locks taken by what waiters say",
                &["High contention: no vCPU ever sleeps", "X'9C' with sense-running"],
            )],
        ],
    },
    MechanismRow {
        mechanism: ANATOMY,
        item: "early exit: one look decides that nothing is pending",
        cells: [
            &[shown(
                "report corpus/x86-svm/t2.data.gz --view phases --tsc-hz 2596120000",
                "the phase that holds these looks, as no tracepoint lies between them",
                &["re-entry"],
            )],
            &[NO_POLICY],
            &[shown(
                "sweep scenarios/port-loop.toml --vary early_exit=Y,N",
                "accesses a second with and without it",
                &["Best: early_exit=Y"],
            )],
            &[BUILT_IN],
        ],
    },
    MechanismRow {
        mechanism: ANATOMY,
        item: "eventfd",
        cells: [
            &[shown(
                "report corpus/x86-svm/t2.data.gz --view pio",
                "accesses that an ioeventfd could take",
                &["ioeventfd"],
            )],
            &[shown(
                "replay corpus/x86-svm/t2.data.gz --policy port_path",
                "exits to user space that ioeventfds avoid, and the time",
                &["ioeventfd", "2,114"],
            )],
            &[shown("validate exit-cost", "a kick with and without one, as published", &["CYCLES-023", "CYCLES-022"])],
            &[shown("lab exits --duration 2ms --repeat 1", "a port write to one, and to user space", &["ioeventfd"])],
        ],
    },
    MechanismRow {
        mechanism: ANATOMY,
        item: "synchronised registers",
        cells: [
            &[NotShown(
                "no tracepoint of KVM shows a VMM's ioctls: their time is part of user space, and its share is unknown",
            )],
            &[NO_POLICY],
            &[shown(
                "sweep scenarios/port-loop.toml --vary register_sync=all,needed,page",
                "accesses a second by how registers are read",
                &["Best: register_sync=page"],
            )],
            &[shown(
                "lab exits --duration 2ms --repeat 1",
                "what reading and writing registers adds, by ioctl and through the shared page",
                &["through the shared page"],
            )],
        ],
    },
    MechanismRow {
        mechanism: ANATOMY,
        item: "one big lock in user space",
        cells: [
            &[NotShown(
                "the lock is the VMM's own: waiting for it is user space that sleeps (*asleep* of --view phases), as other waits are",
            )],
            &[NO_POLICY],
            &[shown(
                "sweep scenarios/port-loop.toml --set vm.guest.vcpus=2 --set costs.device=5us --vary device_lock=big,split --metric throughput,big_lock_waits",
                "accesses and waits a second under one lock, and under a lock for each device",
                &["Best: device_lock=split", "big_lock_waits"],
            )],
            &[shown(
                "lab exits --duration 2ms --repeat 1",
                "a port read by locks and vCPUs",
                &["one big lock", "a lock for each device"],
            )],
        ],
    },
    MechanismRow {
        mechanism: ANATOMY,
        item: "a delay after each exit",
        cells: [
            &[NotShown(
                "a recording holds exits as they were: `exitscope try --delay` delays them on the running host, and asks for a metric",
            )],
            &[NO_POLICY],
            &[shown(
                "sweep scenarios/ping-flood.toml --vary costs.delay=0ns,1us",
                "throughput by the delay",
                &["Best: costs.delay=0ns"],
            )],
            &[shown(
                "lab delay --duration 5ms --repeat 1",
                "round trips by the delay",
                &["Round trips by the delay after each exit, in ns"],
            )],
        ],
    },
];

/// Writes the table as a document (Markdown).
pub fn write_mechanisms(out: &mut dyn Write) -> io::Result<()> {
    writeln!(
        out,
        "# Mechanisms\n\nBy what each item of the mechanisms is shown: a command, or the reason why there is none. A test runs each \
         command, in the repository's top directory, and asks for what it is said to show; those of the lab where KVM can be used. \
         Generated by `exitscope docs mechanisms`."
    )?;
    let mut last = "";
    for MechanismRow { mechanism, item, cells } in MECHANISMS {
        if *mechanism != last {
            writeln!(out, "\n## {mechanism}\n\n| item | {} |", MECHANISM_COLUMNS.join(" | "))?;
            writeln!(out, "| --- | --- | --- | --- | --- |")?;
            last = mechanism;
        }
        let cell = |cell: &MechanismCell| match cell {
            MechanismCell::Shown { arguments, what, .. } => format!("`exitscope {arguments}`: {what}"),
            NotShown(why) => format!("none: {why}"),
        };
        let cells = cells.map(|cells| cells.iter().map(cell).collect::<Vec<_>>().join("; "));
        writeln!(out, "| {item} | {} |", cells.join(" | "))?;
    }
    Ok(())
}
