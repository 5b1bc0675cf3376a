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
    "less than a hundredth of the vCPUs' time is lost to other threads' exits: no rule looks at so little";
pub(super) const UNTRIED: &str = "no core runs are kept to try narrower virtual cores on";
pub(super) const NONE_WINS: &str = "narrower virtual cores, replayed, would not have won beyond doubt";

/// What recordings lack.
pub(super) const NO_ENTRIES: &str = "there is no kvm_guest_enter in it after forced exits";
pub(super) const RUNS_UNTRIED: &str = "no core runs are kept to try them on, only what they came to";

/// What the range of a gain is of where no entries were recorded.
pub(super) const AT_MOST: &str = "from nothing, as no entry says when those that were forced out were back, to the part of the forced \
    exits that does not happen of all time until the next run at which they were back at the latest";

/// A fact in place of the time lost.
pub(super) const UNTIL_NEXT_RUN: &str =
    "time from being forced out to the next run of the thread, at most lost, of its vCPUs' time";

/// What narrower virtual cores avoid.
pub(super) fn avoided(threads: u32) -> String {
    format!("part of the forced exits that virtual cores of {} avoid, replayed", of_threads(threads))
}

/// What a kind of exits forced.
pub(super) fn forced_by(kind: Forcer, is_timed: bool) -> String {
    let kind = kind.text();
    match is_timed {
        true => format!("part of the time lost to causes that are known which {kind} forced"),
        false => format!("part of the forced exits with causes that are known which {kind} forced"),
    }
}

fn of_threads(threads: u32) -> String {
    if threads == 1 { "one thread".to_string() } else { format!("{threads} threads") }
}

/// What taking turns on a core does to threads that ran on it together.
fn in_turns(width: usize) -> String {
    smt_speed::of_each(width).map_or(String::new(), |speed| {
        format!(
            " (in turns, {width} threads of a core do {:.0} % of what they do together, by the SMT speeds that the model {} assumes)",
            100.0 / (width as f64 * speed),
            smt_speed::MODEL
        )
    })
}

/// There would be too many of them for the host.
pub(super) fn too_few(vcores: &Vcores, cores: u32, width: usize) -> String {
    let &Vcores { threads, count, busy } = vcores;
    format!(
        "virtual cores of {} would lose less to other threads' exits, but there would be {count} of them, \
         which would run on or wait for {busy:.1} cores at most, and the host has {cores}: even split into subcores these are too few, \
         and they would wait for one another instead{}. Fewer exits of the threads that force others out, which the facts name, \
         would win it, too",
        of_threads(threads),
        in_turns(width)
    )
}

pub(super) fn cores_wanted(threads: u32) -> String {
    format!("cores that virtual cores of {} would run on or wait for, at most", of_threads(threads))
}

/// Whom it helps, and whom not: published of the same change, two vCPUs as two threads of a core and as one thread each of two
/// subcores (B and A of redis in the posting of the gang-exits script, linuxppc-dev, May 2015).
const LOADS: &str = "a load whose threads are seldom forced out wins nothing: of eight redis tests that were published of two vCPUs, \
    as two threads of a core and as two subcores, six ran 18 to 81 % faster, and two (SPOP and MSET) 5 and 11 % slower";

/// Who pays where a core runs fewer threads, or its subcores run several virtual cores.
fn payer(vcores: &Vcores, room: VcoreRoom, width: usize) -> String {
    let Vcores { busy, .. } = vcores;
    let speed = smt_speed::of_each(width);
    match (room, speed) {
        (VcoreRoom::Subcores(subcores), Some(speed)) => format!(
            "nobody gives up a core: threads share it as before, each with about {:.0} % of the speed that it has alone (as the model {} \
             assumes for {width}); but the exit of one is handled while the others run on, so at that speed, too, and all VMs of the \
             host are limited to virtual cores of {} threads",
            speed * 100.0,
            smt_speed::MODEL,
            8 / subcores
        ),
        (_, Some(speed)) => format!(
            "the host's cores: up to {busy:.1} of them are busy with fewer threads each, and a core does {:.2} times as much with {width} \
             threads as with one (SMT speeds that the model {} assumes)",
            width as f64 * speed,
            smt_speed::MODEL
        ),
        (_, None) => format!("the host's cores: up to {busy:.1} of them are busy with fewer threads each"),
    }
}

/// Virtual cores of fewer threads than `width`; most is forced by exits of this kind.
pub(super) fn narrower(
    vcores: &Vcores,
    room: VcoreRoom,
    width: usize,
    forcer: Option<Forcer>,
    vmm: &Vmm,
) -> AdviceWords {
    let threads = vcores.threads;
    let why = match threads {
        1 => "one thread each, so that no exit takes another vCPU along",
        _ => "so that an exit takes fewer vCPUs along",
    };
    let instead = if threads == 1 {
        format!("{why}, instead of {width}")
    } else {
        format!("{threads} threads each instead of {width}, {why}")
    };
    let on = match room {
        VcoreRoom::Subcores(subcores) => {
            format!(", on cores that are split into {subcores} subcores (subcores_per_core)")
        }
        VcoreRoom::Cores => ", on as many cores of the host".to_string(),
        VcoreRoom::Unknown => ", if the host has as many cores or subcores (subcores_per_core) free".to_string(),
    };
    let forced = forcer.map_or(String::new(), |kind| format!("; here {} force most", kind.text()));
    AdviceWords {
        change: format!("make virtual cores narrower: {instead}{on}{forced}"),
        settings: for_vmm(vmm, settings(threads, room)),
        risk: match room {
            VcoreRoom::Subcores(_) => format!(
                "a virtual core that is wider than a subcore does not run at all (KVM_RUN fails with EBUSY); {LOADS}"
            ),
            VcoreRoom::Cores | VcoreRoom::Unknown => {
                format!("where these cores are not free, virtual cores take turns{}; {LOADS}", in_turns(width))
            }
        }
        .into(),
        payer: payer(vcores, room, width).into(),
        undo: match room {
            VcoreRoom::Subcores(_) => {
                "give the VM its old topology and restart it; with all VMs off, write 1 into subcores_per_core"
            }
            VcoreRoom::Cores | VcoreRoom::Unknown => "give the VM its old topology and restart it",
        }
        .into(),
        acts: match room {
            VcoreRoom::Subcores(_) => {
                "at the next VM start; cores can be split while no VM runs (EBUSY otherwise, set_subcores_per_core)"
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
            "on the host, with all VMs off: echo {subcores} > /sys/devices/system/cpu/subcores_per_core, then have the first thread of \
             each subcore online and all others offline; if the file has more than 1 already, which the recording does not say, \
             there is less room than is assumed here"
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
            "or keep them and move the work that leaves often (the causes among the facts) to vCPUs of another virtual core",
        ),
        by_hand(
            "or use one vCPU of each virtual core alone (a Linux guest: ppc64_cpu --smt=off): one active thread is never forced out, \
             and is alone on its core, but there are fewer vCPUs",
        ),
    ];
    split.into_iter().chain(topology).chain(others).collect()
}
