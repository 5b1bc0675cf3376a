//! Programs for guests: writes them, with the knobs, into a VM's memory, and reads what became of them.
//!
//! ```text
//! Payload::new(&vm, &policies, flags) ─ load(vcpu, &steps) ─► run ─► page(vcpu), samples(vcpu)
//! ```

use crate::abi::{self, Control, ProgramStep, Shared, VcpuPage, op};
use crate::boot::{self, PrivilegeRing};
use crate::instruction_counts::InstructionCounts;
use crate::{GuestMemory, LabError, LabMachine, LabVm, Span};
use exitscope_policy::{Policies, all_knobs};
use std::mem::offset_of;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

const _: () = assert!(size_of::<Shared>() as u64 <= abi::SHARED_SIZE);

/// The programs of a VM.
#[derive(Debug)]
pub struct Payload {
    memory: Arc<GuestMemory>,
    shared: Arc<GuestMemory>,
    /// The number of the VM's first vCPU among all that share memory.
    first: u32,
    vcpus: u32,
    /// vCPUs halt with HLT.
    hlt: bool,
    /// Where the next program or table goes.
    free: u64,
    executed: Arc<InstructionCounts>,
}

impl Payload {
    /// Writes what all vCPUs of the VM are told: the knobs, and `flags` of [`abi::machine`].
    pub fn new(vm: &LabVm, machine: &LabMachine, policies: &Policies, flags: u32) -> Payload {
        let memory = Arc::clone(vm.memory());
        let hlt = vm.config().ring == PrivilegeRing::Zero && vm.config().irqchip;
        let mut control = Control {
            magic: abi::MAGIC,
            ticks_per_2_20_ns: machine.ticks_in(1 << 20),
            vcpus: vm.config().vcpus,
            hlt: u32::from(hlt),
            machine: all_flags(machine, flags),
            knob_count: 0,
            knobs: [0; abi::MAX_KNOBS],
        };
        for (place, value) in control.knobs.iter_mut().zip(values(policies)) {
            *place = value;
            control.knob_count += 1;
        }
        memory.put(abi::CONTROL, &control);
        let payload = Payload {
            memory,
            shared: Arc::clone(vm.shared()),
            first: vm.first_number(),
            vcpus: vm.config().vcpus,
            hlt,
            free: abi::PROGRAMS,
            executed: Arc::clone(&machine.executed),
        };
        payload.reset();
        payload
    }

    /// Writes other knobs and flags while vCPUs run: each takes them over at its next [`op::LOAD_KNOBS`].
    pub fn change_knobs(&self, machine: &LabMachine, policies: &Policies, flags: u32) {
        let flags = all_flags(machine, flags);
        self.memory.u32(abi::CONTROL + offset_of!(Control, machine) as u64).store(flags, Ordering::Relaxed);
        let places = (abi::CONTROL + offset_of!(Control, knobs) as u64..).step_by(size_of::<u64>());
        for (place, value) in places.zip(values(policies)).take(abi::MAX_KNOBS) {
            self.memory.u64(place).store(value, Ordering::Relaxed);
        }
        self.shared(offset_of!(Shared, control_changes)).fetch_add(1, Ordering::Release);
    }

    /// Puts locks, boxes and counters back to their beginning. No vCPU that shares them may be running.
    pub fn reset(&self) {
        self.count_interrupts();
        self.shared.clear(0, abi::SHARED_SIZE);
    }

    /// Has the interrupts that were served counted for good. Of VMs that share memory, the first one does it for all.
    fn count_interrupts(&self) {
        if self.first == 0 {
            let served = self.shared(offset_of!(Shared, interrupts)).swap(0, Ordering::SeqCst);
            self.executed.add_interrupts(served);
        }
    }

    /// Has what a vCPU's program did counted for good. Its page is as before it was loaded.
    fn count_program(&self, vcpu: u32) {
        let page = self.page(vcpu);
        if page.steps > 0 {
            self.executed.add(&page, self.hlt);
            self.memory.put(boot::area(vcpu), &VcpuPage::default());
        }
    }

    /// Forgets all programs, to load others.
    pub fn unload(&mut self) {
        self.free = abi::PROGRAMS;
    }

    fn place(&mut self, bytes: u64) -> Result<u64, LabError> {
        let at = self.free;
        self.free = (at + bytes).next_multiple_of(64);
        match self.free <= abi::PROGRAMS_END {
            true => Ok(at),
            false => Err(LabError::CannotDo("the programs do not fit into a guest's memory".into())),
        }
    }

    /// Gives a vCPU its program, which [`op::END`] is put behind, and begins its page anew.
    pub fn load(&mut self, vcpu: u32, steps: &[ProgramStep], seed: u64) -> Result<(), LabError> {
        self.count_program(vcpu);
        let program = self.place((steps.len() as u64 + 1) * size_of::<ProgramStep>() as u64)?;
        let page =
            VcpuPage { index: self.first + vcpu, steps: steps.len() as u32 + 1, program, seed, ..VcpuPage::default() };
        for (at, step) in steps.iter().chain([&step(op::END)]).enumerate() {
            self.memory.put(program + (at * size_of::<ProgramStep>()) as u64, step);
        }
        self.memory.put(boot::area(vcpu), &page);
        Ok(())
    }

    /// Puts a table of lengths into memory, for [`op::COMPUTE_TABLE`]. Where it is.
    pub fn table(&mut self, entries: &[u32]) -> Result<u64, LabError> {
        let at = self.place(entries.len() as u64 * 4)?;
        for (place, entry) in (at..).step_by(4).zip(entries) {
            self.memory.put(place, entry);
        }
        Ok(at)
    }

    /// A vCPU's page. The figures stand still only while it does not run.
    pub fn page(&self, vcpu: u32) -> VcpuPage {
        self.memory.get(boot::area(vcpu))
    }

    /// From the first step of these vCPUs, whose programs are over, to the last one.
    pub fn span(&self, machine: &LabMachine, vcpus: impl Iterator<Item = u32>) -> Span {
        // Both by the guest's counter, which need not begin where the host's does.
        let (begin, end) = vcpus
            .map(|vcpu| self.page(vcpu))
            .fold((u64::MAX, 0), |(begin, end), page| (begin.min(page.begin_tsc), end.max(page.end_tsc)));
        machine.span(begin, end)
    }

    /// How much these vCPUs have counted ([`op::COUNT_ONE`]) so far, also while they run.
    pub fn counted(&self, vcpus: impl Iterator<Item = u32>) -> u64 {
        let done = offset_of!(VcpuPage, done) as u64 + u64::from(op::COUNT_ONE) * 8;
        vcpus.map(|vcpu| self.memory.u64(boot::area(vcpu) + done).load(Ordering::Relaxed)).sum()
    }

    /// Of these vCPUs, passes of the compute loop that cannot have been at once.
    pub fn chain(&self, vcpus: impl Iterator<Item = u32>) -> u64 {
        vcpus.map(|vcpu| self.page(vcpu).chain).max().unwrap_or(0)
    }

    /// The samples of a vCPU, in ticks.
    pub fn samples(&self, vcpu: u32) -> Vec<u32> {
        let count = u64::from(self.page(vcpu).samples).min(abi::MAX_SAMPLES);
        let begin = abi::SAMPLES + u64::from(self.first + vcpu) * abi::MAX_SAMPLES * 4;
        (0..count).map(|at| self.memory.get(begin + 4 * at)).collect()
    }

    /// The word of the guest that says whether vCPU `vcpu` is on a CPU, for whom it costs no exit to ask.
    pub fn running(&self, vcpu: u32) -> &AtomicU64 {
        self.shared(offset_of!(Shared, running) + vcpu as usize * size_of::<abi::CacheLine>())
    }

    /// A counter that guests add to and wait for.
    pub fn counter(&self, number: usize) -> &AtomicU64 {
        self.shared(offset_of!(Shared, counters) + number * size_of::<abi::CacheLine>())
    }

    /// Has programs that repeat for ever end at their next round.
    pub fn stop(&self) {
        self.shared(offset_of!(Shared, stop)).store(1, Ordering::SeqCst);
    }

    fn shared(&self, offset: usize) -> &AtomicU64 {
        self.shared.u64(offset as u64)
    }

    /// Messages in a box that nobody has taken yet.
    pub fn waiting_messages(&self, number: u32) -> u64 {
        let at = offset_of!(Shared, boxes) + number as usize * size_of::<abi::MessageBox>();
        let taken = self.shared(at + offset_of!(abi::MessageBox, taken)).load(Ordering::SeqCst);
        self.shared(at + offset_of!(abi::MessageBox, sent)).load(Ordering::SeqCst).saturating_sub(taken)
    }

    /// Sends a message into a box, as a client outside of this number or (below [`abi::FIRST_CLIENT`]) a vCPU. Whom to
    /// wake, if somebody halted to wait for it.
    pub fn send(&self, number: u32, sender: u32) -> Option<u32> {
        let at = offset_of!(Shared, boxes) + number as usize * size_of::<abi::MessageBox>();
        let sent = self.shared(at + offset_of!(abi::MessageBox, sent));
        let waiting = self.shared(at + offset_of!(abi::MessageBox, waiting));
        let message = sent.fetch_add(1, Ordering::SeqCst);
        if let Some(channel) = abi::channel_of(number) {
            let row = channel as usize * size_of::<[AtomicU32; abi::QUEUE]>();
            let place = offset_of!(Shared, senders) + row + message as usize % abi::QUEUE * 4;
            self.shared.u32(place as u64).store(sender + 1, Ordering::SeqCst);
        }
        let bits = waiting.load(Ordering::SeqCst);
        let target = (bits != 0).then_some(bits.trailing_zeros())?;
        let bit = 1 << target;
        (waiting.fetch_and(!bit, Ordering::SeqCst) & bit != 0).then_some(target)
    }
}

impl Drop for Payload {
    fn drop(&mut self) {
        (0..self.vcpus).for_each(|vcpu| self.count_program(vcpu));
        self.count_interrupts();
    }
}

fn all_flags(machine: &LabMachine, flags: u32) -> u32 {
    flags | if machine.vmmcall { abi::machine::VMMCALL } else { 0 }
}

/// The knobs' values, in the order of their rows.
fn values(policies: &Policies) -> impl Iterator<Item = u64> {
    all_knobs().map(|knob| policies.get(knob.name).unwrap_or(knob.default))
}

/// A step without arguments.
pub fn step(op: u32) -> ProgramStep {
    ProgramStep { op, ..ProgramStep::default() }
}

/// `count` samples of a step's length.
pub fn sampled(count: u64, step: ProgramStep) -> [ProgramStep; 2] {
    [ProgramStep { op: op::SAMPLE, b: count, ..ProgramStep::default() }, step]
}
