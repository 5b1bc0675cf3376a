//! To whom a guest's IPIs go: to their sender, to vCPUs that run, or to halted ones, which only the host can wake.
//!
//! ```text
//! write of ICR{vector 0xfd, to 1} at 10 ─► waits for what vCPU 1 did at 10 ─► its HLT from 5 to 12: halted
//! ```

use exitscope_model::{DetailKind, Exit};
use exitscope_units::{Moment, VcpuId, VmId};
use rustc_hash::FxHashMap;
use std::collections::{BTreeMap, VecDeque};

/// IPIs to one vCPU at most that wait to be decided; further ones are of unknown targets.
const MOST_WAITING: usize = 64;

/// Exits of a receiver that are looked back for.
const MOST_BACK: usize = 32;

/// x2APIC's ICR and SELF_IPI; the APIC's ICR, low half.
const ICR: u64 = 0x830;
const SELF_IPI: u64 = 0x83f;
const APIC_ICR: u64 = 0x300;

/// To whom IPIs went, as far as the recording tells.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Ipis {
    /// To the vCPU that sent it.
    pub itself: u64,
    /// To a single one that had halted, or was about to.
    pub halted: u64,
    /// To any others.
    pub others: u64,
}

impl Ipis {
    /// All.
    pub fn all(self) -> u64 {
        self.itself.saturating_add(self.halted).saturating_add(self.others)
    }
}

/// The IPIs of all VMs.
#[derive(Clone, Debug, Default)]
pub(super) struct SentIpis {
    by_vm: BTreeMap<VmId, Ipis>,
    targets: FxHashMap<(VmId, VcpuId), Target>,
}

/// What a vCPU did last, and IPIs to it after that.
#[derive(Clone, Debug, Default)]
struct Target {
    /// The exits that ended last, in their order: from, to, whether it is a halt. An IPI is told of when its sender goes on, and its
    /// receiver may have done much by then.
    last: VecDeque<(Moment, Moment, bool)>,
    waiting: Vec<Moment>,
}

impl Target {
    /// Whether it had halted then; none if that is still to come.
    fn had_halted(&self, at: Moment) -> Option<bool> {
        let (_, end, _) = self.last.back()?;
        (at <= *end).then(|| self.last.iter().any(|&(from, to, halted)| halted && from <= at && at < to))
    }
}

impl SentIpis {
    /// Looks at an exit; those of one vCPU come in their order.
    #[inline]
    pub fn absorb(&mut self, exit: &Exit) {
        let sends = exit.subject().is_some_and(|detail| {
            detail.write
                && matches!((detail.kind, detail.key), (DetailKind::Msr, ICR | SELF_IPI) | (DetailKind::Apic, APIC_ICR))
        });
        if sends {
            self.send(exit);
        }
        if !self.targets.is_empty() && exit.timed {
            self.end(exit);
        }
    }

    fn send(&mut self, exit: &Exit) {
        let Some(detail) = exit.subject() else { return };
        let ipis = self.by_vm.entry(exit.who.vm).or_default();
        match to(detail.kind, detail.key, detail.value) {
            To::Itself => ipis.itself += 1,
            To::One(vcpu) if vcpu == exit.who.vcpu => ipis.itself += 1,
            To::Several => ipis.others += 1,
            To::One(vcpu) => {
                let target = self.targets.entry((exit.who.vm, vcpu)).or_default();
                match target.had_halted(exit.at) {
                    Some(true) => ipis.halted += 1,
                    None if target.waiting.len() < MOST_WAITING => target.waiting.push(exit.at),
                    Some(false) | None => ipis.others += 1,
                }
            }
        }
    }

    /// Decides about what was sent to the vCPU before this exit of it ended.
    fn end(&mut self, exit: &Exit) {
        let Some(target) = self.targets.get_mut(&(exit.who.vm, exit.who.vcpu)) else { return };
        let to = Moment::from_nanos(exit.at.as_nanos().saturating_add(exit.total().0));
        if target.last.len() == MOST_BACK {
            target.last.pop_front();
        }
        target.last.push_back((exit.at, to, exit.is_halt));
        let ipis = self.by_vm.entry(exit.who.vm).or_default();
        target.waiting.retain(|&at| {
            let halted = exit.is_halt && exit.at <= at && at < to;
            ipis.halted += u64::from(halted);
            ipis.others += u64::from(!halted && at <= to);
            at > to
        });
    }

    /// Adds what a later stretch of the recording gave.
    pub fn merge(&mut self, later: &SentIpis) {
        for ((vm, vcpu), target) in &later.targets {
            let own = self.targets.entry((*vm, *vcpu)).or_default();
            own.last.clone_from(&target.last);
            // What was sent before, the later stretch has not seen.
            self.by_vm.entry(*vm).or_default().others += own.waiting.len() as u64;
            own.waiting.clone_from(&target.waiting);
        }
        for (vm, ipis) in &later.by_vm {
            let own = self.by_vm.entry(*vm).or_default();
            own.itself += ipis.itself;
            own.halted += ipis.halted;
            own.others += ipis.others;
        }
    }

    /// Those of a VM of which it is known.
    pub fn of(&self, vm: VmId) -> Ipis {
        self.by_vm.get(&vm).copied().unwrap_or_default()
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum To {
    Itself,
    One(VcpuId),
    /// Or nothing says how many.
    Several,
}

/// Whom a write of the ICR names: Intel's SDM, volume 3, "Interrupt Command Register" (the local APIC's chapter). A vCPU's
/// number is that of its APIC: `kvm_lapic_reset` of arch/x86/kvm/lapic.c.
fn to(kind: DetailKind, key: u64, value: u64) -> To {
    let (shorthand, logical, whom) = (value >> 18 & 3, value >> 11 & 1 == 1, value >> 32);
    match (shorthand, logical) {
        _ if key == SELF_IPI => To::Itself,
        (1, _) => To::Itself,
        // The old APIC has the receiver in another register.
        (0, _) if kind == DetailKind::Apic => To::Several,
        (0, false) if whom != u64::from(u32::MAX) => To::One(VcpuId(whom as u32)),
        // A logical one is a cluster of 16, and a bit for each.
        (0, true) if (whom & 0xffff).is_power_of_two() => {
            To::One(VcpuId((whom >> 16) as u32 * 16 + (whom & 0xffff).trailing_zeros()))
        }
        _ => To::Several,
    }
}

#[cfg(test)]
mod tests {
    use super::super::made::{exit, spent, vcpu};
    use super::*;
    use exitscope_model::{CodeList, Detail, ExitCode, Form, TimePart};

    const HLT: ExitCode = ExitCode::new(CodeList::Vmx, 12);
    const WRITE: ExitCode = ExitCode::new(CodeList::Vmx, 32);

    fn sent(from: u32, at: u64, key: u64, value: u64) -> Exit {
        let detail = Detail { kind: DetailKind::Msr, write: true, form: Form::Untold, size: 0, key, value };
        Exit { detail: Some(detail), parts: spent(TimePart::Kernel, 10), ..exit(vcpu(from), at, WRITE) }
    }

    fn stay(of: u32, at: u64, long: u64, code: ExitCode) -> Exit {
        Exit { parts: spent(TimePart::Kernel, long), ..exit(vcpu(of), at, code) }
    }

    #[test]
    fn an_ipi_is_to_whom_its_register_says() {
        let msr = |value| to(DetailKind::Msr, ICR, value);
        assert_eq!(msr(3 << 32 | 0xfd), To::One(VcpuId(3)));
        assert_eq!(msr(0xffff_ffff << 32 | 0xfd), To::Several);
        assert_eq!(msr(0x0002_0010 << 32 | 1 << 11 | 0xfd), To::One(VcpuId(36)));
        assert_eq!(msr(0x0002_0011 << 32 | 1 << 11 | 0xfd), To::Several);
        assert_eq!(msr(0x4_40b0), To::Itself);
        assert_eq!((msr(0x8_00fd), msr(0xc_00fd)), (To::Several, To::Several));
        assert_eq!(to(DetailKind::Msr, SELF_IPI, 0xfd), To::Itself);
        assert_eq!(to(DetailKind::Apic, APIC_ICR, 0x4_00fd), To::Itself);
        assert_eq!(to(DetailKind::Apic, APIC_ICR, 0xfd), To::Several);
    }

    #[test]
    fn whether_its_receiver_had_halted_is_known_before_or_afterwards() {
        let exits = [
            // vCPU 1 halts from 100 to 200: the wake-up at 150 is known when its halt ends, which may be before its sender's.
            sent(0, 150, ICR, 1 << 32),
            stay(1, 100, 100, HLT),
            sent(0, 195, ICR, 1 << 32),
            // It runs at 250, and is outside for something else at 305.
            sent(0, 250, ICR, 1 << 32),
            sent(0, 305, ICR, 1 << 32),
            stay(1, 300, 20, WRITE),
            // To itself by number, and to one of whom nothing more comes.
            sent(1, 330, ICR, 1 << 32),
            sent(0, 400, ICR, 2 << 32),
            stay(1, 400, 20, HLT),
        ];
        let of = |exits: &[Exit]| {
            let mut all = SentIpis::default();
            exits.iter().for_each(|exit| all.absorb(exit));
            all
        };
        let whole = of(&exits);
        assert_eq!(whole.of(vcpu(0).vm), Ipis { itself: 1, halted: 2, others: 2 });
        assert_eq!(whole.of(vcpu(0).vm).all(), 5);
        for cut in 0..=exits.len() {
            let mut first = of(&exits[..cut]);
            first.merge(&of(&exits[cut..]));
            let ipis = first.of(vcpu(0).vm);
            // A halt in whose stretch nothing was sent before is not known there.
            assert!(ipis.itself == 1 && ipis.halted <= 2 && (2..=5).contains(&ipis.all()), "{cut}: {ipis:?}");
        }
        assert_eq!(of(&[stay(1, 0, 5, HLT)]).of(vcpu(0).vm), Ipis::default());
    }
}
