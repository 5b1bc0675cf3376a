//! Idling: messages, and what a vCPU does until one comes. Polls as guest halt polling decides, then halts.

use crate::abi::{Control, FIRST_CLIENT, MAX_VCPUS, QUEUE, VcpuPage, bell, channel_of, machine, reply_box};
use crate::cpu;
use crate::memory::shared;
use core::sync::atomic::Ordering::{Relaxed, SeqCst};
use exitscope_policy::guest_halt_poll::{IdleOutcome, GuestHaltPoll, IdleState, Params, RELAX_COUNT};
use exitscope_units::Nanos;

/// What a vCPU needs to idle.
pub struct Idler {
    params: Params,
    governor: GuestHaltPoll,
    polls: bool,
    hlt: bool,
    ticks_per_2_20_ns: u64,
}

impl Idler {
    pub fn new(control: &Control, params: Params) -> Idler {
        Idler {
            params,
            governor: GuestHaltPoll::new(),
            polls: control.machine & machine::HALTPOLL != 0,
            hlt: control.hlt != 0,
            ticks_per_2_20_ns: control.ticks_per_2_20_ns,
        }
    }

    /// Takes over knobs that have changed; the governor keeps its limit until it adjusts it, as the kernel's does.
    pub fn set_params(&mut self, params: Params) {
        self.params = params;
    }

    fn ticks(&self, nanos: Nanos) -> u64 {
        (u128::from(nanos.0) * u128::from(self.ticks_per_2_20_ns) >> 20) as u64
    }

    fn nanos(&self, ticks: u64) -> Nanos {
        Nanos(((u128::from(ticks) << 20) / u128::from(self.ticks_per_2_20_ns.max(1))) as u64)
    }

    /// Takes a message out of the box; idles until there is one. Its number.
    pub fn receive(&mut self, page: &mut VcpuPage, number: u32) -> u64 {
        loop {
            if let Some(message) = take(page, number) {
                return message;
            }
            self.idle(page, number);
        }
    }

    /// Idles until there is a message in the box, or an interrupt woke this vCPU for nothing.
    fn idle(&mut self, page: &mut VcpuPage, number: u32) {
        let has_come = || has_message(number);
        let own = &shared().boxes[number as usize];
        let bit = 1 << page.index;
        if self.polls
            && let IdleState::Poll { limit } = self.governor.select()
        {
            page.polls += 1;
            let begin = cpu::now();
            own.polling.fetch_or(bit, SeqCst);
            let expired = self.poll(begin, limit, &has_come);
            own.polling.fetch_and(!bit, SeqCst);
            page.poll_ticks += cpu::now() - begin;
            self.governor.reflect(&self.params, IdleOutcome::Polled { expired });
            if !expired {
                page.polls_paid += 1;
                return;
            }
        }
        let begin = cpu::now();
        let waiting = &own.waiting;
        waiting.fetch_or(bit, SeqCst);
        if has_come() {
            waiting.fetch_and(!bit, SeqCst);
            return;
        }
        page.halts += 1;
        match self.hlt {
            true => {
                let halted = u64::from(cpu::halt_unless(has_come));
                page.halts -= 1 - halted;
                page.hlts += halted;
            }
            false => cpu::ring(page, bell::HALT, 0),
        }
        waiting.fetch_and(!bit, SeqCst);
        if self.polls {
            self.governor.reflect(&self.params, IdleOutcome::Halted { residency: self.nanos(cpu::now() - begin) });
            page.poll_limit_ns = self.governor.limit().0;
        }
    }

    /// Polls as the kernel does: looks at the clock in every 201st round only. Whether the limit passed.
    fn poll(&self, begin: u64, limit: Nanos, has_come: &impl Fn() -> bool) -> bool {
        let end = begin + self.ticks(limit);
        loop {
            for _ in 0..RELAX_COUNT {
                if has_come() {
                    return false;
                }
                cpu::relax();
            }
            if cpu::now() > end {
                return true;
            }
        }
    }

    /// Puts a message into the box, in the name of `sender`, and wakes one who halted to wait for it.
    pub fn send(&self, page: &mut VcpuPage, number: u32, sender: u32) {
        let to = &shared().boxes[number as usize];
        to.chain.fetch_max(page.chain, SeqCst);
        if let Some(channel) = channel_of(number) {
            let message = to.sent.load(SeqCst);
            while message.wrapping_sub(to.taken.load(SeqCst)) >= QUEUE as u64 {
                cpu::relax();
            }
            // Claims a number first, so that two senders never write the same place; the receiver waits for the name.
            let message = to.sent.fetch_add(1, SeqCst);
            shared().senders[channel as usize][message as usize % QUEUE].store(sender + 1, SeqCst);
        } else {
            to.sent.fetch_add(1, SeqCst);
        }
        // Who clears a bit has to wake; who has seen the message by itself meanwhile has cleared its own.
        let target = loop {
            let waiting = to.waiting.load(SeqCst);
            if waiting == 0 {
                page.wakes_saved += 1;
                page.ipis_spared += u64::from(to.polling.load(SeqCst) != 0);
                return;
            }
            let target = waiting.trailing_zeros();
            if to.waiting.fetch_and(!(1 << target), SeqCst) & 1 << target != 0 {
                break target;
            }
        };
        page.wakes_sent += 1;
        match self.hlt {
            true => cpu::send_wake_interrupt(target),
            false => cpu::ring(page, bell::WAKE, target),
        }
    }

    /// Answers whoever sent message `message` of a channel.
    pub fn reply(&self, page: &mut VcpuPage, channel: u32, message: u64) {
        let place = &shared().senders[channel as usize][message as usize % QUEUE];
        let sender = loop {
            match place.swap(0, SeqCst) {
                0 => cpu::relax(),
                sender => break sender - 1,
            }
        };
        if sender >= FIRST_CLIENT {
            cpu::ring(page, bell::REPLY, sender - FIRST_CLIENT);
        } else if (sender as usize) < MAX_VCPUS {
            self.send(page, reply_box(sender), sender);
        }
    }
}

/// Whether there is a message in the box.
pub fn has_message(number: u32) -> bool {
    let from = &shared().boxes[number as usize];
    from.taken.load(Relaxed) < from.sent.load(SeqCst)
}

/// Takes a message, if there is one. Its number.
pub fn take(page: &mut VcpuPage, number: u32) -> Option<u64> {
    let from = &shared().boxes[number as usize];
    let taken = from.taken.load(SeqCst);
    let there = taken < from.sent.load(SeqCst);
    let took = there && from.taken.compare_exchange(taken, taken + 1, SeqCst, SeqCst).is_ok();
    if took {
        // Whatever is in it was computed before this moment, also by who sent a later message.
        page.chain = page.chain.max(from.chain.load(SeqCst));
    }
    took.then_some(taken)
}
