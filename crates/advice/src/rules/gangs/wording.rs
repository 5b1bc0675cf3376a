//! What is said of virtual cores whose threads are forced out.

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

/// There would be `count` of them, which keep `busy` cores busy, of those of the host.
pub(super) fn too_few(threads: u32, count: u64, busy: f64, cores: u32) -> String {
    format!(
        "virtual cores of {threads} threads would lose less to other threads' exits, but there would be {count} of them, \
         which would run on or wait for {busy:.1} cores at most, and the host has {cores}: they would wait for one another instead, as a core runs \
         one at a time, and threads of a core that is split leave together, too. Fewer exits of the threads that \
         force others out, which the facts name, would win it, too"
    )
}

pub(super) fn cores_wanted(threads: u32) -> String {
    match threads {
        1 => "cores that virtual cores of one thread would run on or wait for, at most".to_string(),
        _ => format!("cores that virtual cores of {threads} threads would run on or wait for, at most"),
    }
}

/// Virtual cores of `threads` threads instead of `width`.
pub(super) fn narrower(threads: u32, width: usize, vmm: &Vmm) -> AdviceWords {
    let change = match threads {
        1 => format!(
            "make virtual cores narrower: one thread each, so that no exit takes another vCPU along, instead of {width}"
        ),
        _ => format!(
            "make virtual cores narrower: {threads} threads each instead of {width}; subcores_per_core makes cores of that width"
        ),
    };
    let topology = format!("<topology sockets='1' cores='…' threads='{threads}'/>");
    let settings = vec![
        AdviceSetting::Qemu(format!("-smp …,threads={threads}").into()),
        AdviceSetting::Libvirt { within: "cpu", xml: topology.into() },
        by_hand(
            "or keep them and move the work that leaves often (the causes among the facts) to vCPUs of another \
             virtual core",
        ),
    ];
    AdviceWords {
        change,
        settings: for_vmm(vmm, settings),
        risk: "threads of one core then belong to several virtual cores, which take turns unless dynamic_mt_modes or \
            subcores let them run at a time"
            .into(),
        payer: "the host's cores: as many vCPUs need more virtual cores, and a core runs one (or, split, up to four) \
            at a time"
            .into(),
        undo: "give the VM its old topology and restart it".into(),
        acts: "at the next VM start".into(),
    }
}
