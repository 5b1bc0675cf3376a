//! Virtual cores that take turns on a CPU of powerpc: for how much of an exit another one was in its guest there.
//!
//! ```text
//! one    kvm_guest_exit SYSCALL ────────────────────────────────────────────── kvm_guest_enter
//! other               kvm_guest_enter ── kvm_guest_exit   enter ── exit
//!                                   taken            +       taken
//! ```
//!
//! The scheduler's events are of threads that record for several vCPUs, so that they do not tell of such waiting.

use crate::DetailKey;
use crate::gangs::Whose;
use exitscope_model::{CodeList, Event, Kind};
use exitscope_units::{Moment, Nanos, PcpuId, VcpuId, VmId};
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;

/// Exits, CPUs and sums that are kept at a time.
const MOST: usize = 1 << 16;

/// Threads of a core that are in the guest together: eight, and as many that another vCPU took over meanwhile.
const MOST_THREADS: usize = 16;

/// A VM, the trap and what it is about.
type Key = (VmId, u16, Option<DetailKey>);

/// An exit that no entry has ended yet.
#[derive(Clone, Debug)]
struct Open {
    cpu: PcpuId,
    trap: u16,
    about: Option<DetailKey>,
    /// What others had had when it began.
    others: u64,
}

/// How long virtual cores were in their guests on a CPU, in nanoseconds.
#[derive(Clone, Debug, Default)]
struct Ran {
    all: u64,
    of: FxHashMap<Whose, u64>,
    /// Who is in the guest now, the threads of a virtual core together, and since when.
    inside: Vec<Whose>,
    since: Moment,
}

impl Ran {
    fn enters(&mut self, whose: Whose, at: Moment) {
        if self.inside.is_empty() {
            self.since = at;
        }
        if self.inside.len() < MOST_THREADS && !self.inside.contains(&whose) {
            self.inside.push(whose);
        }
    }

    fn leaves(&mut self, whose: Whose, vcore: Whose, at: Moment) {
        let Some(place) = self.inside.iter().position(|of| *of == whose) else { return };
        self.inside.swap_remove(place);
        if let (true, Some(long)) = (self.inside.is_empty(), at.since(self.since)) {
            self.all = self.all.saturating_add(long.0);
            let of = self.of.entry(vcore).or_default();
            *of = of.saturating_add(long.0);
        }
    }
}

/// For how long, of exits, other virtual cores had the CPU.
#[derive(Clone, Debug, Default)]
pub struct Turns {
    /// Whether vCPUs run in virtual cores of several threads: up to POWER8.
    has_threads: bool,
    open: FxHashMap<Whose, Open>,
    ran: FxHashMap<PcpuId, Ran>,
    taken: BTreeMap<Key, u64>,
}

impl Turns {
    /// Takes one event; exits of VMs that are not `selected` are left out.
    #[inline]
    pub fn absorb(&mut self, event: &Event, selected: impl Fn(VmId) -> bool) {
        let whose = (event.vm, event.vcpu);
        match event.kind {
            Kind::RunCore { .. } if !self.has_threads => {
                self.end();
                self.has_threads = true;
            }
            Kind::Exit { code, idle, .. } if code.list == CodeList::PpcTrap => {
                let vcore = self.vcore(whose);
                if let Some(ran) = self.ran.get_mut(&event.cpu) {
                    ran.leaves(whose, vcore, event.at);
                }
                if !idle && self.open.len() < MOST {
                    let (cpu, trap) = (event.cpu, code.number as u16);
                    self.open.insert(whose, Open { cpu, trap, about: None, others: self.others(cpu, vcore) });
                }
            }
            Kind::Detail(detail) => {
                if let Some(open) = self.open.get_mut(&whose) {
                    open.about = Some(DetailKey::of(detail));
                }
            }
            Kind::Enter => {
                if self.ran.len() < MOST || self.ran.contains_key(&event.cpu) {
                    self.ran.entry(event.cpu).or_default().enters(whose, event.at);
                }
                let Some(open) = self.open.remove(&whose).filter(|_| selected(event.vm)) else { return };
                let taken = self.others(open.cpu, self.vcore(whose)).saturating_sub(open.others);
                let key = (event.vm, open.trap, open.about);
                if taken > 0 && (self.taken.len() < MOST || self.taken.contains_key(&key)) {
                    *self.taken.entry(key).or_default() += taken;
                }
            }
            Kind::Lost { .. } => {
                self.open.clear();
                self.ran.values_mut().for_each(|ran| ran.inside.clear());
            }
            _ => {}
        }
    }

    /// The virtual core of a vCPU. Of those of several threads all of a VM are taken for one: which threads are of one is not known
    /// at first.
    fn vcore(&self, (vm, vcpu): Whose) -> Whose {
        (vm, if self.has_threads { VcpuId::UNKNOWN } else { vcpu })
    }

    /// What all virtual cores but this one have had of a CPU.
    fn others(&self, cpu: PcpuId, vcore: Whose) -> u64 {
        self.ran.get(&cpu).map_or(0, |ran| ran.all - ran.of.get(&vcore).copied().unwrap_or_default())
    }

    /// For how long others had the CPU, of the exits that are `of` it.
    pub fn taken(&self, of: impl Fn(VmId, u16, Option<DetailKey>) -> bool) -> Nanos {
        let those = self.taken.iter().filter(|((vm, trap, about), _)| of(*vm, *trap, *about));
        Nanos(those.map(|(_, taken)| *taken).fold(0, u64::saturating_add))
    }

    /// Adds what another recording gave.
    pub fn merge(&mut self, other: &Turns) {
        for (key, taken) in &other.taken {
            let of = self.taken.entry(*key).or_default();
            *of = of.saturating_add(*taken);
        }
    }

    /// The recording ends: what is open is of no exit.
    pub fn end(&mut self) {
        *self = Turns { taken: std::mem::take(&mut self.taken), ..Turns::default() };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use exitscope_model::{Detail, DetailKind, ExitCode, Form, SubjectWord};

    #[test]
    fn what_other_virtual_cores_had_of_the_cpu_is_told_by_vm_trap_and_subject() {
        const SYSCALL: u64 = 0xc00;
        let of = |vm: u32, at: u64, kind| Event {
            at: Moment::from_nanos(at),
            vm: VmId(vm),
            vcpu: VcpuId(0),
            ..Event::nameless(Moment::default(), PcpuId(8), kind)
        };
        let leaves = Kind::Exit {
            code: ExitCode::new(CodeList::PpcTrap, SYSCALL),
            idle: false,
            words: SubjectWord::NONE,
            rip: 0,
        };
        let hcall =
            Detail { kind: DetailKind::PpcHcall, write: false, form: Form::default(), size: 0, key: 0x58, value: 0 };
        let elsewhere = |event: Event| Event { cpu: PcpuId(16), ..event };
        let thread = |event: Event| Event { vcpu: VcpuId(1), ..event };
        let core = Kind::RunCore { exit: false, runnable: 1 };
        let events = [
            of(1, 0, core),
            of(1, 0, Kind::Enter),
            of(1, 100, leaves),
            of(1, 120, Kind::Detail(hcall)),
            of(2, 200, Kind::Enter),
            thread(of(2, 210, Kind::Enter)),
            elsewhere(of(3, 200, Kind::Enter)),
            of(2, 490, leaves),
            thread(of(2, 500, leaves)),
            elsewhere(of(3, 900, leaves)),
            of(1, 1_000, Kind::Enter),
            of(1, 1_600, leaves),
            of(2, 2_000, Kind::Enter),
        ];
        let mut turns = Turns::default();
        events.iter().for_each(|event| turns.absorb(event, |_| true));
        turns.end();
        let about = |is: Option<u64>| turns.taken(|vm, _, about| vm == VmId(1) && about.map(|key| key.key) == is);
        assert_eq!((about(Some(0x58)), about(None)), (Nanos(300), Nanos(0)));
        assert_eq!(turns.taken(|vm, trap, _| vm == VmId(2) && u64::from(trap) == SYSCALL), Nanos(600));
        let mut one = Turns::default();
        events.iter().for_each(|event| one.absorb(event, |vm| vm == VmId(2)));
        assert_eq!(one.taken(|_, _, _| true), Nanos(600));
        one.merge(&turns);
        assert_eq!(one.taken(|_, _, _| true), Nanos(1_500));
        // On POWER9 each vCPU is a virtual core.
        let mut turns = Turns::default();
        let events = [
            of(1, 0, Kind::Enter),
            of(1, 100, leaves),
            thread(of(1, 150, Kind::Enter)),
            thread(of(1, 200, leaves)),
            of(1, 300, Kind::Enter),
        ];
        events.iter().for_each(|event| turns.absorb(event, |_| true));
        assert_eq!(turns.taken(|_, _, _| true), Nanos(50));
    }
}
