//! Events without what tells whose they are: a recording to be handed to somebody else.
//! `docs/bundle.md` says what becomes of what.

use crate::common_names::{Behind, COMMON};
use crate::{Event, EventKind, IrqName, Subject, SubjectKind, ThreadName, codes};
use exitscope_units::{Moment, Tid, VmId};
use rustc_hash::FxHashMap;
use std::hash::Hash;

/// Different ones at most of each thing; further ones are told apart no more. Bounds memory (about 50 MB), and keeps pages within
/// their part of it: 2 GiB of them fit between 1 MiB and 3 GiB.
const MOST: usize = 1 << 19;

/// How far instruction pointers are apart.
const RIP_STEP: u64 = 16;

/// Bits of an address within its page.
const IN_PAGE: u64 = (1 << codes::REGION_BITS) - 1;

/// What all PCs have below 1 MiB, and below 4 GiB: IOAPIC, HPET, TPM, local APIC, firmware.
const LEGACY: std::ops::Range<u64> = 0..0x10_0000;
const PLATFORM: std::ops::Range<u64> = 0xfec0_0000..0x1_0000_0000;

/// Where parts of a guest's memory begin: RAM, the gap for devices below 4 GiB, what is above.
const PARTS: [u64; 3] = [0x10_0000, 0xc000_0000, 0x1_0000_0000];

/// MSRs of the local APIC: `APIC_BASE_MSR` and the 256 from there, of `arch/x86/include/asm/apicdef.h`.
const APIC_MSRS: std::ops::RangeInclusive<u64> = 0x800..=0x8ff;

/// Numbers in the order in which things come.
#[derive(Clone, Debug)]
struct Numbers<T>(FxHashMap<T, u64>);

impl<T> Default for Numbers<T> {
    fn default() -> Self {
        Numbers(FxHashMap::default())
    }
}

impl<T: Eq + Hash> Numbers<T> {
    /// From 1 on; 0 for what comes after too many.
    fn of(&mut self, thing: T) -> u64 {
        let next = self.0.len() as u64 + 1;
        if self.0.len() >= MOST {
            return self.0.get(&thing).copied().unwrap_or(0);
        }
        *self.0.entry(thing).or_insert(next)
    }
}

/// Replaces what tells whose events are, the same thing by the same thing.
#[derive(Clone, Debug, Default)]
pub struct Anonymous {
    first: Option<Moment>,
    tasks: Numbers<u32>,
    rips: Numbers<u64>,
    /// By the part of memory that a page is in.
    pages: [Numbers<u64>; PARTS.len()],
}

impl Anonymous {
    /// The event. Events come in the order of their moments.
    pub fn event(&mut self, event: &Event) -> Event {
        let first = *self.first.get_or_insert(event.at);
        let at = Moment::from_nanos(event.at.as_nanos().saturating_sub(first.as_nanos()));
        let kind = match event.kind {
            EventKind::Exit { code, idle, words, rip } => EventKind::Exit { code, idle, words, rip: self.rip(rip) },
            EventKind::Detail(detail) => EventKind::Detail(self.detail(detail)),
            EventKind::Switch { prev, sleeps, next, prev_name } => {
                let name = prev_name.text().map(|name| self.name(prev, &name));
                let prev_name = name.map_or(ThreadName::NONE, |name| ThreadName::new(name.as_bytes()));
                EventKind::Switch { prev: self.tid(prev), sleeps, next: self.tid(next), prev_name }
            }
            EventKind::Wakeup { tid } => EventKind::Wakeup { tid: self.tid(tid) },
            // Interfaces of a network, after which interrupts are called, have the names that their owners gave them.
            EventKind::HostIrq { irq, .. } => EventKind::HostIrq { irq, name: IrqName::NONE },
            // What an exit says besides is not looked through.
            EventKind::ExitInfo(_) => EventKind::Other,
            kind @ (EventKind::Refine { .. }
            | EventKind::Enter
            | EventKind::KvmOut
            | EventKind::UserspaceExit { .. }
            | EventKind::Fpu { .. }
            | EventKind::RunEnter
            | EventKind::Syscall { .. }
            | EventKind::SyscallExit
            | EventKind::Emulate
            | EventKind::Inject { .. }
            | EventKind::KvmActivity(_)
            | EventKind::ApicvChange(_)
            | EventKind::Nested
            | EventKind::Reflect
            | EventKind::HaltEnd { .. }
            | EventKind::HaltPoll { .. }
            | EventKind::Idle(_)
            | EventKind::Wfx { .. }
            | EventKind::PleWindow { .. }
            | EventKind::Yield
            | EventKind::VcpuHint
            | EventKind::RunCore { .. }
            | EventKind::RunState { .. }
            | EventKind::VcpuWake { .. }
            | EventKind::Lost { .. }
            | EventKind::Other) => kind,
        };
        Event { at, tid: self.tid(event.tid), vm: self.vm(event.vm), kind, ..*event }
    }

    /// The thread.
    pub fn tid(&mut self, tid: Tid) -> Tid {
        Tid(self.task(tid.0))
    }

    /// The process.
    pub fn vm(&mut self, vm: VmId) -> VmId {
        if vm == VmId::UNKNOWN { vm } else { VmId(self.task(vm.0)) }
    }

    /// A process has the number of its first thread.
    fn task(&mut self, number: u32) -> u32 {
        if number == 0 { 0 } else { self.tasks.of(number) as u32 }
    }

    fn rip(&mut self, rip: u64) -> u64 {
        if rip == 0 { 0 } else { self.rips.of(rip) * RIP_STEP }
    }

    fn address(&mut self, address: u64) -> u64 {
        if LEGACY.contains(&address) || PLATFORM.contains(&address) {
            return address;
        }
        let part = PARTS.iter().rposition(|&from| from <= address).unwrap_or(0);
        PARTS[part] + (self.pages[part].of(address & !IN_PAGE) << codes::REGION_BITS) + (address & IN_PAGE)
    }

    fn detail(&mut self, detail: Subject) -> Subject {
        use SubjectKind as D;
        let Subject { key, value, .. } = detail;
        let (key, value) = match detail.kind {
            D::PageFault | D::EptViolation | D::MemoryFault => (key, self.address(value)),
            D::Mmio => (self.address(key), 0),
            // Its value is all of the register, of which the key is a part.
            D::GhcbMsr => (key, key),
            D::Msr if APIC_MSRS.contains(&key) => (key, value),
            // Whom it wakes, by the number of its APIC.
            D::Hypercall if key == codes::KICK_CPU => (key, value),
            D::Apic | D::Cpuid | D::Exception | D::IncompleteIpi | D::TaskSwitch | D::XenHypercall | D::Diag => {
                (key, value)
            }
            D::Vmgexit
            | D::HostVector
            | D::HostIrq
            | D::EoiVector
            | D::DebugRegister
            | D::ControlRegister
            | D::SystemRegister
            | D::Instruction
            | D::Program
            | D::Sigp
            | D::Port
            | D::Msr
            | D::Hypercall
            | D::HypervHypercall
            | D::PpcHcall
            | D::Hvc => (key, 0),
        };
        Subject { key, value, ..detail }
    }
}

impl Anonymous {
    /// What a thread is called: as it is, if that says nothing of whose it is.
    pub fn name(&mut self, tid: Tid, name: &str) -> String {
        for &(front, may, _) in COMMON {
            let Some(behind) = name.strip_prefix(front) else { continue };
            let number = Some(behind).filter(|text| text.bytes().all(|byte| byte.is_ascii_digit()));
            let number: Option<u32> = number.and_then(|text| text.parse().ok());
            match (may, number) {
                (Behind::Process, Some(process)) => return format!("{front}{}", self.task(process)),
                (Behind::Nothing, _) if behind.is_empty() => return name.to_string(),
                (Behind::Number, _) if behind.is_empty() || number.is_some() => return name.to_string(),
                (Behind::Anything, _) if front != "CPU " || is_of_vcpu(behind) => return name.to_string(),
                _ => {}
            }
        }
        format!("task-{}", self.task(tid.0))
    }
}

/// QEMU's `CPU 0/KVM`, behind its first word.
fn is_of_vcpu(behind: &str) -> bool {
    let number = behind.strip_suffix("/KVM").or_else(|| behind.strip_suffix("/TCG"));
    number.is_some_and(|number| number.parse::<u32>().is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{CodeList, ExitCode, NameId, PortAccessForm, SubjectWord};
    use exitscope_units::{PcpuId, VcpuId};

    fn event(at: u64, tid: u32, kind: EventKind) -> Event {
        Event {
            at: Moment::from_nanos(at),
            tid: Tid(tid),
            vm: VmId(4711),
            vcpu: VcpuId(3),
            cpu: PcpuId(5),
            name: NameId(7),
            kind,
        }
    }

    fn detail(kind: SubjectKind, key: u64, value: u64) -> Subject {
        Subject { kind, write: true, form: PortAccessForm::NonString, size: 4, key, value }
    }

    #[test]
    fn moments_count_from_the_first_and_processes_and_threads_in_the_order_in_which_they_come() {
        let mut anonymous = Anonymous::default();
        let exit = |rip| EventKind::Exit {
            code: ExitCode::new(CodeList::Vmx, 12),
            idle: false,
            words: SubjectWord::NONE,
            rip,
        };
        let first = anonymous.event(&event(1_000, 4712, exit(0xffff_ffff_8100_0000)));
        let told = |of: &Event| (of.at.as_nanos(), of.tid.0, of.vm.0, of.vcpu.0, of.cpu.0, of.name.0);
        assert_eq!(told(&first), (0, 1, 2, 3, 5, 7));
        assert_eq!(first.kind, exit(16));
        let prev_name = ThreadName::new(b"secret");
        let switch = EventKind::Switch { prev: Tid(4712), sleeps: true, next: Tid(0), prev_name };
        let second = anonymous.event(&event(1_250, 4711, switch));
        assert_eq!(told(&second), (250, 2, 2, 3, 5, 7));
        let prev_name = ThreadName::new(b"task-1");
        assert_eq!(second.kind, EventKind::Switch { prev: Tid(1), sleeps: true, next: Tid(0), prev_name });
        let woken = anonymous.event(&event(1_300, 0, EventKind::Wakeup { tid: Tid(99) }));
        assert_eq!((woken.tid, woken.kind), (Tid(0), EventKind::Wakeup { tid: Tid(3) }));
        for (rip, number) in [(0, 0), (0xffff_ffff_8100_0000, 16), (1, 32), (0xffff_ffff_8100_0000, 16)] {
            assert_eq!(anonymous.event(&event(1_300, 4712, exit(rip))).kind, exit(number));
        }
        assert_eq!(anonymous.vm(VmId::UNKNOWN), VmId::UNKNOWN);
    }

    #[test]
    fn addresses_keep_their_page_apart_and_the_part_of_memory_that_it_is_in() {
        let mut anonymous = Anonymous::default();
        for (address, becomes) in [
            // VGA, IOAPIC, HPET, local APIC, firmware.
            (0xb_8000, 0xb_8000),
            (0xfec0_0010, 0xfec0_0010),
            (0xfee0_00b0, 0xfee0_00b0),
            (0xffff_fff0, 0xffff_fff0),
            // Of RAM, of devices, above 4 GiB.
            (0x7654_3210, 0x10_1210),
            (0x7654_3ff8, 0x10_1ff8),
            (0x1234_5678, 0x10_2678),
            (0xfebf_b000, 0xc000_1000),
            (0x12_3456_7890, 0x1_0000_1890),
            (u64::MAX, 0x1_0000_2fff),
            (0x7654_3000, 0x10_1000),
        ] {
            let fault = anonymous.detail(detail(SubjectKind::EptViolation, 0x182, address));
            assert_eq!(fault, detail(SubjectKind::EptViolation, 0x182, becomes), "{address:#x}");
            let access = anonymous.detail(detail(SubjectKind::Mmio, address, 0xdead_beef));
            assert_eq!(access, detail(SubjectKind::Mmio, becomes, 0), "{address:#x}");
        }
    }

    #[test]
    fn what_was_read_or_written_is_left_out_but_where_it_tells_the_cause() {
        let mut anonymous = Anonymous::default();
        for kind in SubjectKind::ALL {
            let is = anonymous.detail(detail(kind, 0x10, 0x4142_4344));
            let kept = match kind {
                SubjectKind::Cpuid
                | SubjectKind::Apic
                | SubjectKind::Exception
                | SubjectKind::IncompleteIpi
                | SubjectKind::TaskSwitch
                | SubjectKind::XenHypercall
                | SubjectKind::Diag => 0x4142_4344,
                SubjectKind::GhcbMsr => 0x10,
                SubjectKind::PageFault => 0x10_1344,
                SubjectKind::EptViolation | SubjectKind::MemoryFault => 0x10_1344,
                _ => 0,
            };
            assert_eq!(is, detail(kind, 0x10, kept), "{kind:?}");
        }
        for (key, kept) in [(0x830, 7), (0x8ff, 7), (0x7ff, 0), (0x900, 0), (0xc000_0082, 0)] {
            assert_eq!(anonymous.detail(detail(SubjectKind::Msr, key, 7)), detail(SubjectKind::Msr, key, kept));
        }
        for (key, kept) in [(codes::KICK_CPU, 7), (codes::KICK_CPU + 1, 0)] {
            let call = anonymous.detail(detail(SubjectKind::Hypercall, key, 7));
            assert_eq!(call, detail(SubjectKind::Hypercall, key, kept));
        }
    }

    #[test]
    fn names_that_are_the_same_everywhere_stay_and_all_others_become_numbers() {
        let mut anonymous = Anonymous::default();
        for (name, becomes) in [
            ("CPU 0/KVM", "CPU 0/KVM"),
            ("CPU 12/TCG", "CPU 12/TCG"),
            ("CPU alice/KVM", "task-1"),
            ("CPU 1/alice", "task-1"),
            ("qemu-system-x86", "qemu-system-x86"),
            ("kvm", "kvm"),
            ("kvm-of-alice", "task-1"),
            ("vcpu3", "vcpu3"),
            ("vcpu3 of alice", "task-1"),
            ("kworker/1:1-mm_", "kworker/1:1-mm_"),
            ("swapper/3", "swapper/3"),
            ("swapper/alice", "task-1"),
            ("vhost-4711", "vhost-2"),
            ("vhost-alice", "task-1"),
            ("perf", "perf"),
            ("perfume", "task-1"),
            ("alice's job", "task-1"),
            ("", "task-1"),
        ] {
            assert_eq!(anonymous.name(Tid(99), name), becomes, "{name}");
        }
    }
}
