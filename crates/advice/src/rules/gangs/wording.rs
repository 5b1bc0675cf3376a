//! What is said of virtual cores whose threads are forced out.

use super::forcers::Forcer;
use super::room::{VcoreRoom, Vcores};
use super::smt_speed;
use crate::cures::cure::by_hand;
use crate::cures::vmm_settings::for_vmm;
use crate::evidence::input::Vmm;
use crate::judgement::AdviceWords;
use crate::setting::AdviceSetting;

pub(super) const LITTLE: &str =
    "the vCPUs lose less than 1 % of their time to other threads' exits: no rule looks at so little";
pub(super) const UNTRIED: &str = "only sums of the core runs were kept: narrower virtual cores could not be replayed";
pub(super) const NONE_WINS: &str = "in a replay with narrower virtual cores no gain is certain";

/// What recordings lack.
pub(super) const NO_ENTRIES: &str = "the recording has no kvm_guest_enter after forced exits";
pub(super) const RUNS_UNTRIED: &str = "only sums of the core runs were kept, and a replay needs each run";

/// How the range of a gain was got where no entries were recorded.
pub(super) const AT_MOST: &str = "from 0, as without entries the recording does not show when forced-out threads were back, to all the \
    time until each thread's next run, times the share of forced exits that the replay avoids";

/// A fact in place of the time lost.
pub(super) const UNTIL_NEXT_RUN: &str = "time from a forced exit to the thread's next run, an upper bound of the time lost, as a share \
    of its vCPUs' time";

/// What narrower virtual cores avoid.
pub(super) fn avoided(threads: u32) -> String {
    format!("share of the forced exits that virtual cores of {} avoid, replayed", of_threads(threads))
}

/// What a kind of exits forced.
pub(super) fn forced_by(kind: Forcer, is_timed: bool) -> String {
    let kind = kind.text();
    match is_timed {
        true => format!("share of the time lost to known causes: {kind}"),
        false => format!("share of the forced exits with known causes: {kind}"),
    }
}

fn of_threads(threads: u32) -> String {
    if threads == 1 { "one thread".to_string() } else { format!("{threads} threads") }
}

/// What taking turns on a core does to threads that ran on it together.
fn in_turns(width: usize) -> String {
    smt_speed::of_each(width).map_or(String::new(), |speed| {
        format!(
            " ({width} threads that take turns on a core do {:.0} % of what they do when they run together, by the SMT speeds that the \
             cost model {} assumes)",
            100.0 / (width as f64 * speed),
            smt_speed::MODEL
        )
    })
}

/// There would be too many of them for the host.
pub(super) fn too_few(vcores: &Vcores, cores: u32, width: usize) -> String {
    let &Vcores { threads, count, busy } = vcores;
    format!(
        "virtual cores of {} would lose less to other threads' exits. But there would be {count} of them, running on or waiting for up \
         to {busy:.1} cores, and the host has {cores}, too few even if split into subcores: the virtual cores would wait for one \
         another instead{}. Fewer exits of the threads that force others out (see the facts) would help, too",
        of_threads(threads),
        in_turns(width)
    )
}

pub(super) fn cores_wanted(threads: u32) -> String {
    format!("cores that virtual cores of {} would occupy or wait for, at most", of_threads(threads))
}

/// Whom it helps, and whom not: B and A of redis in the posting of the gang-exits script.
const LOADS: &str = "a load whose threads are seldom forced out gains nothing. Measured with two vCPUs moved from one core to two subcores \
    (linuxppc-dev, May 2015): six of eight redis tests were 18 to 81 % faster, SPOP and MSET 5 and 11 % slower";

/// Who pays where a core runs fewer threads, or its subcores run several virtual cores.
fn payer(vcores: &Vcores, room: VcoreRoom, width: usize) -> String {
    let Vcores { busy, .. } = vcores;
    let speed = smt_speed::of_each(width);
    match (room, speed) {
        (VcoreRoom::Subcores(subcores), Some(speed)) => format!(
            "all VMs of the host, whose virtual cores may then have {2} threads at most. Threads share a core as before, each at about \
             {0:.0} % of the speed that it has alone (as the cost model {1} assumes for {width} threads); but the exit of one is handled \
             while the others run, so at that speed, too",
            speed * 100.0,
            smt_speed::MODEL,
            8 / subcores
        ),
        (_, Some(speed)) => format!(
            "the host: up to {busy:.1} of its cores run fewer threads each, and a core does {:.2} times as much with {width} threads as \
             with one (by the SMT speeds that the cost model {} assumes)",
            width as f64 * speed,
            smt_speed::MODEL
        ),
        (_, None) => format!("the host: up to {busy:.1} of its cores run fewer threads each"),
    }
}

/// Virtual cores of fewer threads than `width`; exits of the kind `forcer` force more than those of any other.
pub(super) fn narrower(
    vcores: &Vcores,
    room: VcoreRoom,
    width: usize,
    forcer: Option<Forcer>,
    vmm: &Vmm,
) -> AdviceWords {
    let threads = vcores.threads;
    let why = match threads {
        1 => "so that no exit forces another vCPU out",
        _ => "so that an exit forces fewer vCPUs out",
    };
    let instead = format!("{} each instead of {width}, {why}", of_threads(threads));
    let on = match room {
        VcoreRoom::Subcores(subcores) => {
            format!(", on cores split into {subcores} subcores (subcores_per_core)")
        }
        VcoreRoom::Cores => "; the host has cores enough for them".to_string(),
        VcoreRoom::Unknown => {
            "; they need free cores, or subcores (subcores_per_core), and the recording does not show how many the host has"
                .to_string()
        }
    };
    let forced =
        forcer.map_or(String::new(), |kind| format!(". The largest cause of forced exits here: {}", kind.text()));
    AdviceWords {
        title: "Make virtual cores narrower".into(),
        change: format!("make virtual cores narrower: {instead}{on}{forced}"),
        settings: for_vmm(vmm, settings(threads, room)),
        risk: match room {
            VcoreRoom::Subcores(_) => format!(
                "a virtual core wider than a subcore does not run at all (KVM_RUN fails with EBUSY); {LOADS}"
            ),
            VcoreRoom::Cores | VcoreRoom::Unknown => {
                format!("where other work needs these cores, virtual cores take turns{}; {LOADS}", in_turns(width))
            }
        }
        .into(),
        payer: payer(vcores, room, width).into(),
        undo: match room {
            VcoreRoom::Subcores(_) => {
                "restore the VM's topology and restart it; to join the cores again, write 1 into subcores_per_core with all VMs off"
            }
            VcoreRoom::Cores | VcoreRoom::Unknown => "restore the VM's topology and restart it",
        }
        .into(),
        acts: match room {
            VcoreRoom::Subcores(_) => {
                "at the next VM start; cores can be split only while no VM runs (otherwise the write fails with EBUSY)"
            }
            VcoreRoom::Cores | VcoreRoom::Unknown => "at the next VM start",
        }
        .into(),
    }
}

/// `set_subcores_per_core` of arch/powerpc/platforms/powernv/subcore.c; `on_primary_thread` of arch/powerpc/kvm/book3s_hv.c.
fn settings(threads: u32, room: VcoreRoom) -> Vec<AdviceSetting> {
    let topology = format!("<topology sockets='1' cores='…' threads='{threads}'/>");
    let split = |subcores: u32| {
        let text = format!(
            "on the host, with all VMs off: echo {subcores} > /sys/devices/system/cpu/subcores_per_core, then leave only the first \
             thread of each subcore online. If the file already has more than 1, which the recording does not show, the host has less \
             room than is assumed here"
        );
        AdviceSetting::ByHand(text.into())
    };
    let split = if let VcoreRoom::Subcores(subcores) = room { Some(split(subcores)) } else { None };
    let topology = [
        AdviceSetting::Qemu(format!("-smp …,threads={threads}").into()),
        AdviceSetting::Libvirt { within: "cpu", xml: topology.into() },
    ];
    let others = [
        by_hand(
            "or keep the width, and move the work that forces others out (see the facts) to vCPUs of another virtual core",
        ),
        by_hand(
            "or use only one vCPU of each virtual core (a Linux guest: ppc64_cpu --smt=off): a single active thread is never forced \
             out and has its core to itself, but the guest has fewer vCPUs",
        ),
    ];
    split.into_iter().chain(topology).chain(others).collect()
}
