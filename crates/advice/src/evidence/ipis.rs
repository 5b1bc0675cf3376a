//! To whom a guest's IPIs go: to their sender, to vCPUs that run, or to halted ones, which only the host can wake.
//!
//! ```text
//! write of ICR{vector 0xfd, to 1} at 10 ─┐
//! HLT of vCPU 1 from 5 to 12 ────────────┴─► at the end: to one that had halted
//! ```
//!
//! An IPI is told of when its sender goes on, and its receiver may have done much by then, in this stretch of the recording or in
//! another: both are kept, and compared at the end.

use exitscope_model::{CodeList, Exit, SubjectKind};
use exitscope_units::{Moment, VcpuId, VmId};
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;

/// Halts, and IPIs to a single vCPU, at most; what comes later is not looked at. Bounds memory (about 10 MB).
const MOST: usize = 1 << 18;

/// x2APIC's ICR and SELF_IPI; the APIC's ICR, low half.
const ICR: u64 = 0x830;
const SELF_IPI: u64 = 0x83f;
const APIC_ICR: u64 = 0x300;

/// To whom IPIs went, as far as the recording tells.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Ipis {
    /// To the vCPU that sent it.
    pub itself: u64,
    /// To a single one that had halted.
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
pub(crate) struct SentIpis {
    /// Those that are told by their register alone.
    by_vm: BTreeMap<VmId, Ipis>,
    /// Those to a single other vCPU, and when.
    sent: Vec<(VmId, VcpuId, Moment)>,
    /// Who halted, from when until when.
    halts: Vec<(VmId, VcpuId, Moment, Moment)>,
}

impl SentIpis {
    /// Which subjects of exits it looks at, beside halts.
    #[inline(always)]
    pub fn looks_at(kind: SubjectKind) -> bool {
        matches!(kind, SubjectKind::Msr | SubjectKind::Apic)
    }

    /// Looks at an exit; those of one vCPU come in their order.
    #[inline]
    pub fn absorb(&mut self, exit: &Exit) {
        if exit.is_halt && exit.timed && self.halts.len() < MOST {
            self.halt(exit);
        }
        let sends = exit.subject().is_some_and(|detail| {
            detail.write
                && SentIpis::looks_at(detail.kind)
                && matches!(
                    (detail.kind, detail.key),
                    (SubjectKind::Msr, ICR | SELF_IPI) | (SubjectKind::Apic, APIC_ICR)
                )
        });
        if sends {
            self.send(exit);
        }
    }

    fn halt(&mut self, exit: &Exit) {
        if matches!(exit.code.list, CodeList::Vmx | CodeList::Svm) {
            let to = Moment::from_nanos(exit.at.as_nanos().saturating_add(exit.total().0));
            self.halts.push((exit.who.vm, exit.who.vcpu, exit.at, to));
        }
    }

    fn send(&mut self, exit: &Exit) {
        let Some(detail) = exit.subject() else { return };
        let vm = exit.who.vm;
        match to(detail.kind, detail.key, detail.value) {
            To::Itself => self.by_vm.entry(vm).or_default().itself += 1,
            To::One(vcpu) if vcpu == exit.who.vcpu => self.by_vm.entry(vm).or_default().itself += 1,
            To::One(vcpu) if self.sent.len() < MOST => self.sent.push((vm, vcpu, exit.at)),
            To::One(_) => {}
            To::Several => self.by_vm.entry(vm).or_default().others += 1,
        }
    }

    /// Adds what a later stretch of the recording gave.
    pub fn merge(&mut self, later: &SentIpis) {
        for (vm, ipis) in &later.by_vm {
            let own = self.by_vm.entry(*vm).or_default();
            own.itself += ipis.itself;
            own.others += ipis.others;
        }
        self.sent.extend(later.sent.iter().take(MOST - self.sent.len()));
        self.halts.extend(later.halts.iter().take(MOST - self.halts.len()));
    }

    /// Those of a VM.
    pub fn of(&self, vm: VmId) -> Ipis {
        let mut ipis = self.by_vm.get(&vm).copied().unwrap_or_default();
        let mut halts: FxHashMap<VcpuId, Vec<(Moment, Moment)>> = FxHashMap::default();
        for (_, vcpu, from, to) in self.halts.iter().filter(|halt| halt.0 == vm) {
            halts.entry(*vcpu).or_default().push((*from, *to));
        }
        // Of later ones nothing says who had halted.
        let last = self.halts.last().filter(|_| self.halts.len() == MOST).map_or(Moment::MAX, |halt| halt.3);
        for (_, vcpu, at) in self.sent.iter().filter(|sent| sent.0 == vm && sent.2 <= last) {
            let of = halts.get(vcpu).map_or(&[][..], Vec::as_slice);
            let before = of.partition_point(|(from, _)| from <= at);
            match before.checked_sub(1).and_then(|number| of.get(number)) {
                Some((_, to)) if at < to => ipis.halted += 1,
                _ => ipis.others += 1,
            }
        }
        ipis
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
fn to(kind: SubjectKind, key: u64, value: u64) -> To {
    let (shorthand, logical, whom) = (value >> 18 & 3, value >> 11 & 1 == 1, value >> 32);
    match (shorthand, logical) {
        _ if key == SELF_IPI => To::Itself,
        (1, _) => To::Itself,
        // The old APIC has the receiver in another register.
        (0, _) if kind == SubjectKind::Apic => To::Several,
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
    use super::*;
    use crate::test_exits::{exit, spent, vcpu};
    use exitscope_model::{CodeList, ExitCode, PortAccessForm, Subject, TimePart};

    const HLT: ExitCode = ExitCode::new(CodeList::Vmx, 12);
    const WRITE: ExitCode = ExitCode::new(CodeList::Vmx, 32);

    fn sent(from: u32, at: u64, key: u64, value: u64) -> Exit {
        let detail =
            Subject { kind: SubjectKind::Msr, write: true, form: PortAccessForm::Unknown, size: 0, key, value };
        Exit { subject: Some(detail), parts: spent(TimePart::Kernel, 10), ..exit(vcpu(from), at, WRITE) }
    }

    fn stay(of: u32, at: u64, long: u64, code: ExitCode) -> Exit {
        Exit { parts: spent(TimePart::Kernel, long), ..exit(vcpu(of), at, code) }
    }

    #[test]
    fn an_ipi_is_to_whom_its_register_says() {
        let msr = |value| to(SubjectKind::Msr, ICR, value);
        assert_eq!(msr(3 << 32 | 0xfd), To::One(VcpuId(3)));
        assert_eq!(msr(0xffff_ffff << 32 | 0xfd), To::Several);
        assert_eq!(msr(0x0002_0010 << 32 | 1 << 11 | 0xfd), To::One(VcpuId(36)));
        assert_eq!(msr(0x0002_0011 << 32 | 1 << 11 | 0xfd), To::Several);
        assert_eq!(msr(0x4_40b0), To::Itself);
        assert_eq!((msr(0x8_00fd), msr(0xc_00fd)), (To::Several, To::Several));
        assert_eq!(to(SubjectKind::Msr, SELF_IPI, 0xfd), To::Itself);
        assert_eq!(to(SubjectKind::Apic, APIC_ICR, 0x4_00fd), To::Itself);
        assert_eq!(to(SubjectKind::Apic, APIC_ICR, 0xfd), To::Several);
    }

    #[test]
    fn whether_its_receiver_had_halted_is_known_however_the_recording_is_cut() {
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
        for cut in 0..=exits.len() {
            let mut first = of(&exits[..cut]);
            first.merge(&of(&exits[cut..]));
            assert_eq!(first.of(vcpu(0).vm), Ipis { itself: 1, halted: 2, others: 3 }, "{cut}");
            assert_eq!(first.of(vcpu(0).vm).all(), 6);
        }
        assert_eq!(of(&[stay(1, 0, 5, HLT)]).of(vcpu(0).vm), Ipis::default());
    }
}
