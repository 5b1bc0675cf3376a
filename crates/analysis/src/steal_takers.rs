//! Who had the CPUs for which the vCPUs of each VM waited: what steal is made of.
//!
//! ```text
//! StealPiece{who, from, to, taker} ─► time by VM and thread ─► StealTaker, by what kind of thing and under which name
//! ```

use crate::vcpu_time::within;
use exitscope_model::{CpuTaker, StealPiece, ThreadName, is_kernel_thread, vcpu_by_name};
use exitscope_units::{Moment, Tid, VmId};
use rustc_hash::FxHashMap;
use std::collections::{BTreeMap, BTreeSet};

/// Threads that are told apart at most, of all VMs together; of further ones the names (1 MB).
const MOST_THREADS: usize = 1 << 14;

/// With their names.
const MOST: usize = 2 * MOST_THREADS;

/// In place of the thread, where only the name is kept.
const ANY: Tid = Tid(u32::MAX);

/// What kind of thing had a CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TakerKind {
    /// vCPUs of another VM.
    OtherVm,
    /// Other vCPUs of the same VM.
    SameVm,
    /// vCPUs, and the recording does not say of which VM.
    SomeVcpu,
    /// Another thread of the VM's own VMM.
    OwnVmm,
    /// A thread of another process.
    Process,
    /// A thread of the kernel, as its name says.
    KernelThread,
    /// Nobody: the vCPU was woken, and the CPU was idle for no longer than it takes to wake up.
    WakingUp,
    /// Nobody: it was idle.
    Idle,
    /// Further threads than are told apart.
    Others,
    /// It is not known who.
    Unknown,
}

impl TakerKind {
    /// All of them.
    pub const ALL: [TakerKind; 10] = [
        TakerKind::OtherVm,
        TakerKind::SameVm,
        TakerKind::SomeVcpu,
        TakerKind::OwnVmm,
        TakerKind::Process,
        TakerKind::KernelThread,
        TakerKind::WakingUp,
        TakerKind::Idle,
        TakerKind::Others,
        TakerKind::Unknown,
    ];

    /// Its name in JSON.
    pub fn name(self) -> &'static str {
        match self {
            TakerKind::OtherVm => "other_vm",
            TakerKind::SameVm => "same_vm",
            TakerKind::SomeVcpu => "some_vcpu",
            TakerKind::OwnVmm => "own_vmm",
            TakerKind::Process => "process",
            TakerKind::KernelThread => "kernel_thread",
            TakerKind::WakingUp => "waking_up",
            TakerKind::Idle => "idle",
            TakerKind::Others => "others",
            TakerKind::Unknown => "unknown",
        }
    }
}

/// Who had the CPUs for which a VM's vCPUs waited, for a part of that time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StealTaker {
    /// What kind of thing it is.
    pub kind: TakerKind,
    /// The other VM.
    pub vm: Option<VmId>,
    /// The name of the thread; of kernel threads that each CPU has the name that these share.
    pub name: Option<String>,
    /// The processes, where they are known: one row is of all that have one name.
    pub processes: BTreeSet<u32>,
    /// One of the threads, where a thread had it.
    pub tid: Option<Tid>,
    /// For how long, in nanoseconds.
    pub time: u64,
}

impl StealTaker {
    fn of(kind: TakerKind, time: u64) -> StealTaker {
        StealTaker { kind, vm: None, name: None, processes: BTreeSet::new(), tid: None, time }
    }

    /// What a person calls it; `comms` are the names of threads that the trace knows.
    pub fn label(&self, comms: &FxHashMap<u32, String>) -> String {
        let known = |number: u32| comms.get(&number).cloned();
        let name = || self.name.clone().or_else(|| known(self.tid?.0));
        let named = || match (name(), self.tid) {
            (Some(name), _) => name,
            (None, Some(tid)) => format!("thread {}", tid.0),
            (None, None) => "a thread without a name".to_string(),
        };
        match self.kind {
            TakerKind::OtherVm => match self.vm.map(|vm| (vm.0, known(vm.0))) {
                Some((vm, Some(name))) => format!("vCPUs of VM {name} {vm}"),
                Some((vm, None)) => format!("vCPUs of VM {vm}"),
                None => "vCPUs of another VM".to_string(),
            },
            TakerKind::SameVm => "other vCPUs of the same VM".to_string(),
            TakerKind::SomeVcpu => "vCPUs of this VM or of another".to_string(),
            TakerKind::OwnVmm => format!("{} of the VM's own VMM", named()),
            TakerKind::Process => match (self.processes.len(), self.processes.first()) {
                (1, Some(process)) => format!("{} (PID {process})", named()),
                (0, _) => named(),
                (many, _) => format!("{} ({many} processes)", named()),
            },
            TakerKind::KernelThread => format!("{} of the kernel", named()),
            TakerKind::WakingUp => "nobody: the CPU was waking up".to_string(),
            TakerKind::Idle => "nobody: the CPU was idle".to_string(),
            TakerKind::Others => "further threads".to_string(),
            TakerKind::Unknown => "not known".to_string(),
        }
    }

    /// Whether it is known who had the CPU, or that nobody had.
    pub fn is_known(&self) -> bool {
        !matches!(self.kind, TakerKind::Unknown | TakerKind::Others)
    }
}

/// What one row is of: a kind, the other VM, a name, and without any of these the thread.
type RowKey = (TakerKind, Option<VmId>, Option<String>, Option<Tid>);

/// Time that vCPUs waited, by VM and by who had the CPU meanwhile.
#[derive(Clone, Debug, Default)]
pub struct StealTakers {
    times: FxHashMap<(VmId, CpuTaker), u64>,
    /// By VM: that of further takers.
    others: BTreeMap<VmId, u64>,
}

/// What the recording knows of threads and VMs.
pub struct KnownThreads<'a> {
    /// The VMs whose vCPUs threads run.
    pub vm_of: &'a FxHashMap<Tid, VmId>,
    /// The numbers whose vCPUs may be of several VMs.
    pub several: &'a BTreeSet<VmId>,
}

impl StealTakers {
    /// Adds a piece, as far as it is within these moments.
    pub(crate) fn absorb(&mut self, piece: &StealPiece, window: (Moment, Moment)) {
        let time = within(window, piece.from.as_nanos(), piece.to.as_nanos()).0;
        if time > 0 {
            self.add(piece.who.vm, piece.taker, time);
        }
    }

    fn add(&mut self, vm: VmId, taker: CpuTaker, time: u64) {
        let full = |most: usize, key: &(VmId, CpuTaker)| self.times.len() >= most && !self.times.contains_key(key);
        let mut key = (vm, taker);
        if let CpuTaker::Thread { name, .. } = taker
            && full(MOST_THREADS, &key)
        {
            key.1 = CpuTaker::Thread { tid: ANY, process: VmId::UNKNOWN, name };
        }
        let sum = match full(MOST, &key) {
            true => self.others.entry(vm).or_default(),
            false => self.times.entry(key).or_default(),
        };
        *sum = sum.saturating_add(time);
    }

    /// Adds what another stretch or recording gave.
    pub(crate) fn merge(&mut self, other: &StealTakers) {
        let StealTakers { times, others } = other;
        // In one order, as it decides who is told apart.
        let times: BTreeMap<_, _> = times.iter().collect();
        times.into_iter().for_each(|((vm, taker), time)| self.add(*vm, *taker, *time));
        for (vm, time) in others {
            let sum = self.others.entry(*vm).or_default();
            *sum = sum.saturating_add(*time);
        }
    }

    /// Who had the CPUs of each VM's vCPUs, longest first, and last what is not known: all of it is the VM's `steal` together. Where
    /// pieces come to more than that (a part of the steal counts as something else, as an exit whose end is missing does), each is as
    /// much smaller.
    pub fn of_vms(&self, steal: &BTreeMap<VmId, u64>, known: &KnownThreads) -> BTreeMap<VmId, Vec<StealTaker>> {
        let mut of_vms: BTreeMap<VmId, BTreeMap<RowKey, StealTaker>> = BTreeMap::new();
        for ((vm, taker), time) in &self.times {
            let row = row(*vm, *taker, *time, known);
            let nameless = row.tid.filter(|_| row.name.is_none() && row.vm.is_none());
            let nameless = nameless.filter(|_| !matches!(row.kind, TakerKind::SameVm | TakerKind::SomeVcpu));
            let rows = of_vms.entry(*vm).or_default();
            let sum = rows.entry((row.kind, row.vm, row.name.clone(), nameless));
            let sum = sum.or_insert_with(|| StealTaker { time: 0, ..row.clone() });
            sum.time = sum.time.saturating_add(row.time);
            sum.processes.extend(&row.processes);
            sum.tid = sum.tid.min(row.tid);
        }
        let rows_of = |(vm, steal): (&VmId, &u64)| {
            let rows = of_vms.remove(vm).unwrap_or_default().into_values().collect();
            (*vm, self.ranked(*vm, rows, *steal))
        };
        steal.iter().map(rows_of).collect()
    }

    /// The rows of a VM, which come to `steal` together.
    fn ranked(&self, vm: VmId, mut rows: Vec<StealTaker>, steal: u64) -> Vec<StealTaker> {
        let others = self.others.get(&vm).copied().unwrap_or_default();
        rows.extend((others > 0).then(|| StealTaker::of(TakerKind::Others, others)));
        fit(&mut rows, steal);
        rows.retain(|row| row.time > 0);
        rows.sort_by(|one, other| {
            other.time.cmp(&one.time).then_with(|| (one.kind, &one.name).cmp(&(other.kind, &other.name)))
        });
        let unknown = steal - rows.iter().map(|row| row.time).sum::<u64>();
        rows.extend((unknown > 0).then(|| StealTaker::of(TakerKind::Unknown, unknown)));
        rows
    }
}

/// Lets rows come to `most` at most.
fn fit(rows: &mut [StealTaker], most: u64) {
    let sum: u128 = rows.iter().map(|row| u128::from(row.time)).sum();
    if sum > u128::from(most) {
        rows.iter_mut().for_each(|row| row.time = (u128::from(row.time) * u128::from(most) / sum) as u64);
    }
}

/// A taker for so long.
fn row(vm: VmId, taker: CpuTaker, time: u64, known: &KnownThreads) -> StealTaker {
    let (tid, process, name) = match taker {
        CpuTaker::Thread { tid, process, name } => (tid, process, name),
        CpuTaker::WakingUp => return StealTaker::of(TakerKind::WakingUp, time),
        CpuTaker::Idle => return StealTaker::of(TakerKind::Idle, time),
    };
    let row = StealTaker { tid: Some(tid).filter(|tid| *tid != ANY), ..StealTaker::of(TakerKind::Process, time) };
    // Of vCPUs that are not looked at, their threads' names tell that they are; of which VM, only the process does.
    let by_name = |name: ThreadName| vcpu_by_name(&name.text()?).map(|_| process);
    let looked_at = known.vm_of.get(&tid).copied();
    match looked_at.or_else(|| by_name(name)) {
        Some(of)
            if of == VmId::UNKNOWN && (of != vm || looked_at.is_none()) || of == vm && known.several.contains(&vm) =>
        {
            return StealTaker { kind: TakerKind::SomeVcpu, ..row };
        }
        Some(of) if of == vm => return StealTaker { kind: TakerKind::SameVm, ..row },
        Some(of) => return StealTaker { kind: TakerKind::OtherVm, vm: Some(of), ..row },
        None => {}
    }
    let text = name.text().map(|text| text.into_owned());
    let kernels = text.as_deref().filter(|text| is_kernel_thread(text));
    // A kernel thread is a process of its own, that of the idle CPUs where the recording counts so.
    let is_alone = process == VmId::UNKNOWN || process.0 == tid.0 || process.0 == 0;
    // Before Linux 6.4 vhost's are the kernel's, and named for whom they work (drivers/vhost/vhost.c).
    let works_for = kernels.and_then(|name| name.strip_prefix("vhost-")?.parse().ok()).map(VmId);
    match kernels.filter(|_| is_alone) {
        _ if vm != VmId::UNKNOWN && (process == vm || works_for == Some(vm)) => {
            StealTaker { kind: TakerKind::OwnVmm, name: text, ..row }
        }
        Some(name) => StealTaker { kind: TakerKind::KernelThread, name: Some(shared(name).to_string()), ..row },
        None => StealTaker { name: text, processes: process.number().into_iter().collect(), ..row },
    }
}

/// The name that a kernel thread of one CPU shares with those of the others; an interrupt's is its own.
fn shared(name: &str) -> &str {
    if name.starts_with("irq/") { name } else { name.split('/').next().unwrap_or(name) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use exitscope_model::VcpuIdentity;
    use exitscope_units::VcpuId;

    const VM: VmId = VmId(1);

    fn thread(tid: u32, process: u32, name: &str) -> CpuTaker {
        CpuTaker::Thread { tid: Tid(tid), process: VmId(process), name: ThreadName::new(name.as_bytes()) }
    }

    fn absorb(takers: &mut StealTakers, taker: CpuTaker, time: u64) {
        let who = VcpuIdentity { vm: VM, vcpu: VcpuId(0), tid: Tid(11) };
        let (from, to) = (Moment::from_nanos(100), Moment::from_nanos(100 + time));
        takers.absorb(&StealPiece { who, from, to, taker }, (Moment::default(), Moment::MAX));
    }

    fn rows(
        takers: &StealTakers,
        vm: VmId,
        steal: u64,
        is_several: bool,
    ) -> Vec<(TakerKind, Option<u32>, String, usize, u64)> {
        let vm_of =
            [(12, 1), (21, 2), (31, VmId::UNKNOWN.0)].map(|(tid, vm)| (Tid(tid), VmId(vm))).into_iter().collect();
        let several = is_several.then_some(vm).into_iter().collect();
        let known = KnownThreads { vm_of: &vm_of, several: &several };
        let rows = takers.of_vms(&[(vm, steal)].into(), &known).remove(&vm).unwrap_or_default().into_iter();
        rows.map(|row| (row.kind, row.vm.map(|vm| vm.0), row.name.unwrap_or_default(), row.processes.len(), row.time))
            .collect()
    }

    #[test]
    fn each_kind_of_taker_has_its_time_to_the_nanosecond() {
        let mut takers = StealTakers::default();
        for (taker, time) in [
            (thread(12, 1, "CPU 1/KVM"), 1_000),
            (thread(21, 2, "CPU 0/KVM"), 900),
            // Of a VM that is not looked at.
            (thread(41, 4, "CPU 0/KVM"), 800),
            (thread(31, VmId::UNKNOWN.0, "x"), 700),
            (thread(10, 1, "qemu-system-x86"), 600),
            (thread(99, 99, "vhost-1"), 500),
            (thread(98, 98, "vhost-2"), 400),
            (thread(50, 50, "yes"), 300),
            (thread(51, 51, "yes"), 30),
            (thread(5, 5, "kworker/1:2"), 200),
            (thread(6, VmId::UNKNOWN.0, "kworker/0:1H"), 20),
            // A process that has the name of a kernel's thread, and another that has none.
            (thread(61, 60, "kworker/0:9"), 100),
            (thread(70, 70, ""), 90),
            (thread(71, 71, ""), 80),
            (CpuTaker::WakingUp, 70),
            (CpuTaker::Idle, 60),
        ] {
            absorb(&mut takers, taker, time);
        }
        use TakerKind as K;
        let row = |kind, vm, name: &str, processes, time| (kind, vm, name.to_string(), processes, time);
        let expected = [
            row(K::SameVm, None, "", 0, 1_000),
            row(K::OtherVm, Some(2), "", 0, 900),
            row(K::OtherVm, Some(4), "", 0, 800),
            row(K::SomeVcpu, None, "", 0, 700),
            row(K::OwnVmm, None, "qemu-system-x86", 0, 600),
            row(K::OwnVmm, None, "vhost-1", 0, 500),
            row(K::KernelThread, None, "vhost-2", 0, 400),
            row(K::Process, None, "yes", 2, 330),
            row(K::KernelThread, None, "kworker", 0, 220),
            row(K::Process, None, "kworker/0:9", 1, 100),
            row(K::Process, None, "", 1, 90),
            row(K::Process, None, "", 1, 80),
            row(K::WakingUp, None, "", 0, 70),
            row(K::Idle, None, "", 0, 60),
            row(K::Unknown, None, "", 0, 3),
        ];
        assert_eq!(rows(&takers, VM, 5_853, false), expected);
        assert_eq!(rows(&takers, VM, 5_853, true)[0], row(K::SomeVcpu, None, "", 0, 1_700), "any of them");
        assert_eq!(rows(&takers, VmId(9), 7, false), [row(K::Unknown, None, "", 0, 7)]);
        assert_eq!(rows(&takers, VmId(9), 0, false), []);
        // What comes to more than there is becomes smaller, and still comes to all of it.
        let less = rows(&takers, VM, 585, false);
        assert_eq!(less.iter().map(|row| row.4).sum::<u64>(), 585);
        assert_eq!((&less[0].0, less[0].4), (&K::SameVm, 100));
    }

    #[test]
    fn a_vcpu_by_its_name_alone_is_no_sibling_of_a_vm_without_a_name() {
        let mut takers = StealTakers::default();
        for (taker, time) in
            [(thread(31, VmId::UNKNOWN.0, "CPU 1/KVM"), 5), (thread(91, VmId::UNKNOWN.0, "CPU 0/KVM"), 3)]
        {
            let who = VcpuIdentity { vm: VmId::UNKNOWN, vcpu: VcpuId(0), tid: Tid(30) };
            let piece = StealPiece { who, from: Moment::from_nanos(0), to: Moment::from_nanos(time), taker };
            takers.absorb(&piece, (Moment::default(), Moment::MAX));
        }
        let kinds: Vec<_> = rows(&takers, VmId::UNKNOWN, 8, false).into_iter().map(|row| (row.0, row.4)).collect();
        assert_eq!(kinds, [(TakerKind::SameVm, 5), (TakerKind::SomeVcpu, 3)]);
    }

    #[test]
    fn of_too_many_threads_names_remain_and_of_too_many_names_the_time() {
        let mut takers = StealTakers::default();
        for number in 0..MOST as u32 + 10 {
            absorb(&mut takers, thread(1_000 + number, 1_000 + number, "cc1"), 2);
        }
        assert_eq!(takers.times.len(), MOST_THREADS + 1);
        let all = 2 * (MOST as u64 + 10);
        let of = rows(&takers, VM, all, false);
        assert_eq!(of, [(TakerKind::Process, None, "cc1".to_string(), MOST_THREADS, all)]);
        for number in 0..MOST as u32 {
            absorb(&mut takers, thread(1 << 20 | number, 7, &format!("as{number}")), 3);
        }
        assert_eq!(takers.times.len(), MOST);
        let left = 3 * (MOST_THREADS as u64 + 1);
        let rows = rows(&takers, VM, all + 3 * MOST as u64, false);
        assert_eq!(rows.iter().find(|row| row.0 == TakerKind::Others).map(|row| row.4), Some(left));
        let mut merged = StealTakers::default();
        merged.merge(&takers);
        merged.merge(&StealTakers { others: [(VM, 5)].into_iter().collect(), ..StealTakers::default() });
        assert_eq!((merged.times.len(), merged.others[&VM]), (MOST, left + 5));
    }
}
