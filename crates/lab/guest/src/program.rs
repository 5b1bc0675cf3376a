//! Runs a program: one step after the other, loops on a stack of bounded depth.

use crate::abi::{Control, MAX_DEPTH, ProgramStep, VcpuPage, bell, channel_of, machine, op, trouble};
use crate::idle::{self, Idler};
use crate::lock::Locker;
use crate::{cpu, give_up, memory, policies};
use core::sync::atomic::Ordering::{Acquire, Relaxed, SeqCst};

/// Runs the program of this vCPU to its end.
pub fn run(control: &Control, page: &mut VcpuPage) {
    let policies = policies(control);
    let steps = memory::program(page);
    page.begin_tsc = cpu::now();
    Runner {
        idler: Idler::new(control, policies.guest_halt_poll),
        locker: Locker::new(control, policies.yielding),
        amd: control.machine & machine::VMMCALL != 0,
        interrupts: control.hlt != 0,
        random: page.seed | 1,
        message: (0, 0),
        control_changes: 0,
        page,
    }
    .run(steps);
}

struct Runner<'a> {
    page: &'a mut VcpuPage,
    idler: Idler,
    locker: Locker,
    amd: bool,
    /// Interrupts may come; only ring 0 may let them in.
    interrupts: bool,
    random: u64,
    /// Channel and number of the message taken last from a channel.
    message: (u32, u64),
    /// Changes of `Control` that were taken over.
    control_changes: u64,
}

impl Runner<'_> {
    fn run(&mut self, steps: &mut [ProgramStep]) {
        let mut at = 0;
        // Of each loop: where its body begins, and rounds left (0: for ever).
        let mut loops = [(0usize, 0u64); MAX_DEPTH];
        let mut depth = 0;
        loop {
            let Some(&step) = steps.get(at) else { give_up(trouble::BAD_STEP) };
            at += 1;
            if let Some(done) = self.page.done.0.get_mut(step.op as usize) {
                *done += 1;
            }
            match step.op {
                op::END => break,
                op::REPEAT => {
                    if depth == MAX_DEPTH {
                        give_up(trouble::BAD_LOOP);
                    }
                    loops[depth] = (at, step.b);
                    depth += 1;
                }
                op::AGAIN => {
                    let Some((body, left)) = depth.checked_sub(1).map(|inner| &mut loops[inner]) else {
                        give_up(trouble::BAD_LOOP)
                    };
                    let over = match *left {
                        0 => memory::shared().stop.word.load(Relaxed) != 0,
                        _ => {
                            *left -= 1;
                            *left == 0
                        }
                    };
                    if over {
                        depth -= 1;
                    } else {
                        at = *body;
                    }
                }
                op::PICK => at = self.pick(steps, at, step),
                op::JUMP => at = step.b as usize,
                op::SAMPLE => {
                    let Some(sampled) = steps.get_mut(at) else { give_up(trouble::BAD_STEP) };
                    at += 1;
                    for _ in 0..step.b {
                        let begin = cpu::now();
                        self.step(sampled);
                        let end = cpu::now();
                        memory::sample(self.page, end - begin);
                    }
                    if let Some(done) = self.page.done.0.get_mut(sampled.op as usize) {
                        *done += step.b;
                    }
                }
                _ => {
                    let Some(step) = steps.get_mut(at - 1) else { give_up(trouble::BAD_STEP) };
                    self.step(step);
                }
            }
        }
        self.page.end_tsc = cpu::now();
    }

    fn step(&mut self, step: &mut ProgramStep) {
        let ProgramStep { op, a, b, c } = *step;
        match op {
            op::NOTHING => {}
            op::COMPUTE => self.compute(b),
            op::COMPUTE_TABLE => {
                let random = self.random();
                let table = memory::table(b, a);
                self.compute(u64::from(table[random as usize % table.len().max(1)]));
            }
            op::PORT_IN => {
                core::hint::black_box(cpu::port_in(b as u16, a));
            }
            op::PORT_OUT | op::DOORBELL => cpu::port_out(b as u16, a, c as u32),
            op::PORT_STRING => cpu::port_string(b as u16, a, c != 0),
            op::MMIO_READ => {
                core::hint::black_box(cpu::load(b, a));
            }
            op::MMIO_WRITE => cpu::store(b, a, c),
            op::TOUCH => {
                cpu::store(b, 1, 1);
                step.b += c;
            }
            op::HYPERCALL => cpu::hypercall(self.amd, b),
            op::CPUID => cpu::cpuid(b as u32),
            op::RDMSR => {
                core::hint::black_box(cpu::rdmsr(b as u32));
            }
            op::WRMSR => cpu::wrmsr(b as u32, c),
            op::HALT => {
                self.page.halts += 1;
                cpu::ring(self.page, bell::HALT, 0);
            }
            op::SLEEP => {
                self.page.sleep_ns = b;
                cpu::ring(self.page, bell::SLEEP, 0);
            }
            op::SLEEP_TABLE => {
                let random = self.random();
                let table = memory::table(b, a);
                self.page.sleep_ns = u64::from(table[random as usize % table.len().max(1)]);
                cpu::ring(self.page, bell::SLEEP, 0);
            }
            op::SUBMIT => cpu::ring(self.page, bell::SUBMIT, a),
            op::LOCK => self.locker.lock(self.page, a),
            op::UNLOCK => self.locker.unlock(self.page, a),
            op::SEND => self.idler.send(self.page, a, self.page.index),
            op::RECEIVE => {
                let message = self.idler.receive(self.page, a);
                if let Some(channel) = channel_of(a) {
                    self.message = (channel, message);
                }
            }
            op::RECEIVE_SPIN => {
                while idle::take(self.page, a).is_none() {
                    cpu::relax();
                }
            }
            op::REPLY => self.idler.reply(self.page, self.message.0, self.message.1),
            op::COUNT_ONE => {}
            op::START => self.page.start_tsc = cpu::now(),
            op::STOP => {
                let ticks = cpu::now() - self.page.start_tsc;
                memory::sample(self.page, ticks);
            }
            op::ADD => {
                memory::shared().counters[a as usize % memory::shared().counters.len()].word.fetch_add(1, SeqCst);
            }
            op::AWAIT_COUNTER => {
                let counter = &memory::shared().counters[a as usize % memory::shared().counters.len()].word;
                while counter.load(SeqCst) < b {
                    cpu::relax();
                }
            }
            op::INTERRUPT => self.interrupt(a, c),
            op::SELF_IPI => self.interrupt_itself(a),
            op::PRIVILEGED if cpu::execute(a) => {}
            op::HLT => {
                let halted = cpu::halt_unless(|| memory::shared().stop.word.load(Relaxed) != 0);
                self.page.halts += u64::from(halted);
                self.page.hlts += u64::from(halted);
            }
            op::PAUSE if self.interrupts => cpu::relax_with_interrupts(b),
            op::PAUSE => (0..b).for_each(|_| cpu::relax()),
            op::LOAD_KNOBS => self.load_knobs(),
            _ => give_up(trouble::BAD_STEP),
        }
    }

    /// Sends the wake-up interrupt to a vCPU, waits until one is served, and spins for `after` ticks.
    fn interrupt(&self, vcpu: u32, after: u64) {
        let served = &memory::shared().interrupts.word;
        let before = served.load(SeqCst);
        cpu::send_wake_interrupt(vcpu);
        cpu::await_interrupt(before);
        let begin = cpu::now();
        while after > 0 && cpu::now() - begin < after {}
    }

    /// Sends itself the wake-up interrupt and takes it.
    fn interrupt_itself(&mut self, how: u32) {
        let served = &memory::shared().interrupts.word;
        let before = served.load(SeqCst);
        let halted = u64::from(cpu::interrupt_itself(how));
        self.page.hlts += halted;
        // On a processor it is there by now. An emulated one may let none in between STI and CLI.
        if served.load(SeqCst) == before {
            cpu::await_interrupt(before);
        }
    }

    fn load_knobs(&mut self) {
        let changes = memory::shared().control_changes.word.load(Acquire);
        if changes != self.control_changes {
            self.control_changes = changes;
            let control = memory::control();
            let policies = policies(&control);
            self.idler.set_params(policies.guest_halt_poll);
            self.locker = Locker::new(&control, policies.yielding);
        }
    }

    fn compute(&mut self, passes: u64) {
        cpu::compute(passes);
        self.page.passes += passes;
        self.page.chain += passes;
    }

    /// The step at which one of the `step.a` cases from `at` on goes on.
    fn pick(&mut self, steps: &[ProgramStep], at: usize, step: ProgramStep) -> usize {
        let mut left = self.random() % step.b.max(1);
        for case in steps.iter().skip(at).take(step.a as usize) {
            match left.checked_sub(u64::from(case.a)) {
                Some(less) => left = less,
                None => return case.b as usize,
            }
        }
        give_up(trouble::BAD_STEP)
    }

    /// A cheap generator (xorshift64*): choices need no more.
    fn random(&mut self) -> u64 {
        self.random ^= self.random >> 12;
        self.random ^= self.random << 25;
        self.random ^= self.random >> 27;
        self.random.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 11
    }
}
