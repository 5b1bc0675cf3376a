//! The programs that count exits where they happen. `aggregate/exit_counter.rs` is the same in Rust, event by event.
//!
//! ```text
//! the thread's state? none, and not wanted ─► out          no room for a new one ─► count a loss, out
//! kvm_exit:  since = now, why                              kvm_entry: the count of (thread, why, about what) += 1,
//! about:     what                                                     its bucket of (now - since) += 1
//! sched_switch, sched_wakeup: the thread's time without a CPU, by what it is; kvm_vcpu_wakeup: what of it was a halt's
//! kvm_entry after a halt: time since what woke the vCPU
//! ```
//!
//! States and counts are a thread's own, and a thread is on one CPU at a time: nothing has to be atomic. Who wakes a thread may
//! be on another CPU; the thread itself is on none then.

use super::assembler::{BpfAssembler, Helper, Label, Reg, Width};
use super::program::{count_loss, end};
use crate::aggregate::Traits;
use crate::aggregate::blocks::{COUNTED, POLLING, SLEPT, STEAL, STOPPED, SUMS, TOLD, USER};
use exitscope_model::codes::REGION_BITS;
use exitscope_model::codes::{EAGAIN, EINTR, KVM_EXIT_HLT, KVM_EXIT_INTR};
use exitscope_model::{ExitCode, PORTS_IN_KERNEL, SubjectKind};
use exitscope_stats::CoarseBuckets;
use exitscope_trace::tracefs::{CountRole, FieldLocation, WriteRule};
use std::os::fd::OwnedFd;

/// A key of counts: the thread (8), and from CODE to KEY_SIZE what a state has there, too.
pub const CODE: usize = 8;
pub const ABOUT_KEY: usize = 16;
pub const OPENER: usize = 24;
pub const ABOUT: usize = 26;
pub const KEY_SIZE: usize = 28;

/// A state: since when the exit is open, or zero; what a key has; how it went on.
pub const SINCE: usize = 0;
pub const TO_USER: usize = 28;
/// Length of an exit that is over but for what it was about, and one more; or zero.
pub const CLOSED: usize = 32;
/// Number of the virtual CPU, and one more; or zero.
pub const VCPU: usize = 40;
/// How long KVM polls, and one more; or zero.
pub const POLL: usize = 48;
pub const EVENTS: usize = 56;
/// Where the exit, `KVM_RUN` or the halt in hand begins, the time without a CPU since then, and how long KVM has polled, and one
/// more, or zero.
pub const FROM: usize = 64;
pub const OFF: usize = 72;
pub const POLLED: usize = 80;
/// Without a CPU: what that is, and one more, or zero; and since when. What a sleep would be, and one more.
pub const RUN: usize = 88;
pub const ASLEEP: usize = 92;
pub const OUT_SINCE: usize = 96;
/// Time without a CPU and in polls, of the open exit and of no exit.
pub const WITHIN: usize = 104;
pub const OUTSIDE: usize = WITHIN + 8 * SUMS;
/// When the state was made.
pub const FIRST: usize = OUTSIDE + 8 * SUMS;
/// When a sleep was last seen to end, or zero; when what woke the vCPU came, of a halt that is over, until it enters, or zero.
pub const WOKEN: usize = FIRST + 8;
pub const ENTERS: usize = FIRST + 16;
/// Halts whose wake-up was seen, how long they took from there, and halts whose wake-up was not.
pub const WAKE_UPS: usize = FIRST + 24;
pub const LATENCY: usize = FIRST + 32;
pub const UNSEEN: usize = FIRST + 40;
pub const STATE_SIZE: usize = FIRST + 48;

/// A count.
pub const COUNT: usize = 0;
pub const COUNT_TO_USER: usize = 8;
pub const TOTAL: usize = 16;
pub const SPENT: usize = 24;
pub const BUCKETS: usize = SPENT + 8 * COUNTED;
pub const COUNT_SIZE: usize = BUCKETS + 8 * CoarseBuckets::LEN;

/// In place of the number of the tracepoint that began an exit.
pub const SERVED: u16 = u16::MAX;
pub const HALT: u16 = u16::MAX - 1;

/// What a key says it is about: the kind, and whether the guest wrote.
pub const fn about(kind: SubjectKind) -> u16 {
    (kind as u16 + 1) << 1
}

const R0: Reg = Reg(0);
const R1: Reg = Reg(1);
const R2: Reg = Reg(2);
const R3: Reg = Reg(3);
const R4: Reg = Reg(4);
/// What calls leave alone: the tracepoint's record, two numbers, the state.
pub const CTX: Reg = Reg(6);
const VALUE: Reg = Reg(7);
const LENGTH: Reg = Reg(8);
const STATE: Reg = Reg(9);
const STACK: Reg = Reg(10);

/// On the stack: a key of counts, whose beginning is the thread; behind it two small numbers; before it a state.
const KEY: i16 = -40;
const SMALL: i16 = -4;
const ZERO: i16 = -8;
const NEW_STATE: i16 = KEY - STATE_SIZE as i16;

/// `BPF_ANY`, `BPF_NOEXIST`.
const ANY: i32 = 0;
const NO_EXIST: i32 = 1;

/// What user space may do for the guest.
const HANDED_OVER: [SubjectKind; 4] = [SubjectKind::Port, SubjectKind::Mmio, SubjectKind::Msr, SubjectKind::Hypercall];

/// Beyond the reasons of `kvm_userspace_exit` that matter.
const MAX_REASON: u32 = 64;

/// The maps that programs use.
#[derive(Debug)]
pub struct CountMaps {
    /// By thread, its state.
    pub states: OwnedFd,
    /// By a thread's number, process and number, if it has a state.
    pub threads: OwnedFd,
    /// What was counted.
    pub counts: OwnedFd,
    /// A count of nothing.
    pub blank: OwnedFd,
    /// One number for each CPU: what was not counted.
    pub lost: OwnedFd,
    /// The processes that are wanted, if not all are.
    pub processes: Option<OwnedFd>,
}

/// The program for the tracepoint number `number`.
pub fn count_program(role: CountRole, number: u16, vcpu: FieldLocation, traits: Traits, maps: &CountMaps) -> Vec<u64> {
    let is_software = traits.is_software;
    let mut a = BpfAssembler::default();
    let [out, full] = [a.label(), a.label()];
    let mut p = Program { a: &mut a, maps, out, full };
    p.a.copy(CTX, R1);
    match role {
        CountRole::Switch { prev, state, next } => {
            p.goes_out(prev, state);
            p.comes_back(next);
            a.jump(out);
            return end(a, full, out, &maps.lost);
        }
        CountRole::Wakeup(thread) => {
            p.is_woken(thread);
            a.jump(out);
            return end(a, full, out, &maps.lost);
        }
        CountRole::RunEnter(load) => {
            p.field(R1, load);
            p.a.jump_if(R1, 0, out);
        }
        _ => {}
    }
    let begins =
        matches!(role, CountRole::Exit(_) | CountRole::Enter | CountRole::UserspaceExit(_) | CountRole::About { .. });
    p.find_state(begins);
    p.a.grow(STATE, EVENTS as i16, 1);
    p.runs();
    if vcpu.size > 0 {
        p.field(R1, vcpu);
        p.a.add(R1, 1);
        p.a.store(Width::Double, STATE, VCPU as i16, R1);
    }
    match role {
        CountRole::Exit(code) => p.exit(number, code),
        CountRole::Enter => p.enter(traits.switches),
        CountRole::UserspaceExit(code) if is_software => p.leave_software(number, code),
        CountRole::UserspaceExit(code) => p.leave(code),
        CountRole::RunEnter(_) => p.enter_software(),
        CountRole::About { kind, key, write } => p.about(kind, key, write, is_software),
        CountRole::HaltEnd { ns, waited, valid } => p.halt(ns, waited, valid, traits),
        CountRole::HaltPoll([new, old]) => {
            for (place, field) in [(POLL, new), (POLLED, old)] {
                p.field(R1, field);
                p.a.add(R1, 1);
                p.a.store(Width::Double, STATE, place as i16, R1);
            }
        }
        CountRole::Switch { .. } | CountRole::Wakeup(_) => {}
    }
    a.jump(out);
    end(a, full, out, &maps.lost)
}

struct Program<'a> {
    a: &'a mut BpfAssembler,
    maps: &'a CountMaps,
    out: Label,
    full: Label,
}

impl Program<'_> {
    /// dst = a field of the record; zero if there is no such field
    fn field(&mut self, dst: Reg, place: FieldLocation) {
        match place.size {
            0 => self.a.set(dst, 0),
            size => self.a.load(Width::of(size), dst, CTX, place.offset as i16),
        }
    }

    /// STATE = the thread's, and the thread is in KEY. Out if there is none, and there should be none.
    fn find_state(&mut self, begins: bool) {
        let known = self.a.label();
        let a = &mut *self.a;
        a.call(Helper::GetCurrentPidTgid);
        a.store(Width::Double, STACK, KEY, R0);
        a.copy(VALUE, R0);
        a.lookup(&self.maps.states, KEY.into());
        a.jump_unless(R0, 0, known);
        if !begins {
            a.jump(self.out);
        } else {
            if let Some(processes) = &self.maps.processes {
                a.shift_right(VALUE, 32);
                a.store(Width::Word, STACK, SMALL, VALUE);
                a.lookup(processes, SMALL.into());
                a.jump_if(R0, 0, self.out);
            }
            for at in (0..STATE_SIZE as i16).step_by(8) {
                a.store_number(Width::Double, STACK, NEW_STATE + at, 0);
            }
            self.a.call(Helper::KtimeGetNs);
            self.a.store(Width::Double, STACK, NEW_STATE + FIRST as i16, R0);
            self.a.store_number(Width::Word, STACK, NEW_STATE + ASLEEP as i16, SLEPT as i32 + 1);
            self.a.copy(R3, STACK);
            self.a.add(R3, NEW_STATE.into());
            self.insert(&self.maps.states);
            self.a.jump_if(R0, 0, self.full);
            self.a.copy(STATE, R0);
            self.note_thread();
            self.a.copy(R0, STATE);
        }
        self.a.here(known);
        self.a.copy(STATE, R0);
    }

    /// The thread in KEY is known by its number from now on.
    fn note_thread(&mut self) {
        let a = &mut *self.a;
        a.load(Width::Double, R1, STACK, KEY);
        a.store(Width::Word, STACK, SMALL, R1);
        a.map(R1, &self.maps.threads);
        a.copy(R2, STACK);
        a.add(R2, SMALL.into());
        a.copy(R3, STACK);
        a.add(R3, KEY.into());
        a.set(R4, ANY);
        a.call(Helper::MapUpdateElem);
    }

    /// STATE = that of the thread of this number, of which this is an event; goes to `none` if it has none.
    fn find_thread(&mut self, number: FieldLocation, none: Label) {
        self.field(R1, number);
        let a = &mut *self.a;
        a.store(Width::Word, STACK, SMALL, R1);
        a.lookup(&self.maps.threads, SMALL.into());
        a.jump_if(R0, 0, none);
        a.load(Width::Double, R1, R0, 0);
        a.store(Width::Double, STACK, KEY, R1);
        a.lookup(&self.maps.states, KEY.into());
        a.jump_if(R0, 0, none);
        a.copy(STATE, R0);
        a.grow(STATE, EVENTS as i16, 1);
        a.call(Helper::KtimeGetNs);
        a.copy(VALUE, R0);
    }

    fn goes_out(&mut self, thread: FieldLocation, state: FieldLocation) {
        let [done, runs, sleeps] = [self.a.label(), self.a.label(), self.a.label()];
        self.find_thread(thread, done);
        self.spend(runs);
        self.a.here(runs);
        self.field(R1, state);
        self.a.load(Width::Word, R2, STATE, ASLEEP as i16);
        self.a.shift_left(R1, 56);
        self.a.jump_unless(R1, 0, sleeps);
        self.a.set(R2, STEAL as i32 + 1);
        self.a.here(sleeps);
        self.a.store(Width::Word, STATE, RUN as i16, R2);
        self.a.store(Width::Double, STATE, OUT_SINCE as i16, VALUE);
        self.a.here(done);
    }

    fn is_woken(&mut self, thread: FieldLocation) {
        self.find_thread(thread, self.out);
        self.a.load(Width::Word, R1, STATE, RUN as i16);
        self.a.jump_if(R1, STEAL as i32 + 1, self.out);
        self.spend(self.out);
        self.a.store_number(Width::Word, STATE, RUN as i16, STEAL as i32 + 1);
        self.a.store(Width::Double, STATE, OUT_SINCE as i16, VALUE);
        self.a.store(Width::Double, STATE, WOKEN as i16, VALUE);
    }

    fn comes_back(&mut self, thread: FieldLocation) {
        self.find_thread(thread, self.out);
        self.spend(self.out);
        self.a.store_number(Width::Word, STATE, RUN as i16, 0);
    }

    /// This is an event of the thread's own: it runs, whether a switch was seen or not.
    fn runs(&mut self) {
        let known = self.a.label();
        self.a.load(Width::Word, R1, STATE, RUN as i16);
        self.a.jump_if(R1, 0, known);
        self.a.call(Helper::KtimeGetNs);
        self.a.copy(VALUE, R0);
        self.spend(known);
        self.a.store_number(Width::Word, STATE, RUN as i16, 0);
        self.a.here(known);
    }

    /// Adds the time without a CPU up to VALUE to what it is; goes to `runs` if there is none.
    fn spend(&mut self, runs: Label) {
        let a = &mut *self.a;
        a.load(Width::Word, R1, STATE, RUN as i16);
        a.jump_if(R1, 0, runs);
        let known = a.label();
        a.jump_if_less(R1, SUMS as i32 + 1, known);
        // It always is, which the kernel's verifier does not see.
        a.jump(runs);
        a.here(known);
        a.load(Width::Double, R2, STATE, OUT_SINCE as i16);
        a.copy(R3, VALUE);
        a.subtract_down_to_zero(R3, R2);
        a.load(Width::Double, R2, STATE, OFF as i16);
        a.add_of(R2, R3);
        a.store(Width::Double, STATE, OFF as i16, R2);
        self.spent_of(R2);
        let a = &mut *self.a;
        a.shift_left(R1, 3);
        a.add_of(R2, R1);
        a.load(Width::Double, R4, R2, WITHIN as i16 - 8);
        a.add_of(R4, R3);
        a.store(Width::Double, R2, WITHIN as i16 - 8, R4);
    }

    /// dst + WITHIN = where the thread's time is added up now; r4 is used up
    fn spent_of(&mut self, dst: Reg) {
        let a = &mut *self.a;
        let open = a.label();
        a.copy(dst, STATE);
        a.load(Width::Double, R4, STATE, SINCE as i16);
        a.jump_unless(R4, 0, open);
        a.add(dst, (OUTSIDE - WITHIN) as i32);
        a.here(open);
    }

    /// The exit, `KVM_RUN` or a halt begins at r0.
    fn begin_block(&mut self) {
        self.a.store(Width::Double, STATE, FROM as i16, R0);
        self.a.store_number(Width::Double, STATE, OFF as i16, 0);
        self.a.store_number(Width::Double, STATE, POLLED as i16, 0);
    }

    fn sleep_is(&mut self, what: usize) {
        self.a.store_number(Width::Word, STATE, ASLEEP as i16, what as i32 + 1);
    }

    /// User space has the vCPU: what a sleep is, and whether the exit is answered there, `reason` and `errno` tell.
    fn in_user_space(&mut self, [reason, errno]: [FieldLocation; 2]) {
        let [stopped, halted, answers, done] = [self.a.label(), self.a.label(), self.a.label(), self.a.label()];
        for interrupted in [EINTR, EAGAIN] {
            self.field(R1, errno);
            self.a.add(R1, -interrupted);
            self.a.shift_left(R1, 32);
            self.a.jump_if(R1, 0, stopped);
        }
        let user = self.a.label();
        self.field(R1, errno);
        self.a.shift_left(R1, 32);
        self.a.shift_right(R1, 63);
        self.a.jump_unless(R1, 0, user);
        self.field(R1, reason);
        self.a.jump_if(R1, KVM_EXIT_INTR as i32, stopped);
        self.a.jump_if(R1, KVM_EXIT_HLT as i32, halted);
        self.a.here(user);
        self.sleep_is(USER);
        self.a.jump(answers);
        self.a.here(halted);
        self.sleep_is(TOLD);
        self.a.here(answers);
        self.a.store_number(Width::Word, STATE, TO_USER as i16, 1);
        self.a.jump(done);
        self.a.here(stopped);
        self.sleep_is(STOPPED);
        self.a.here(done);
    }

    /// r0 = the new element of the map for KEY, with the value that r3 points to; zero if there is no room.
    fn insert(&mut self, map: &OwnedFd) {
        self.a.map(R1, map);
        self.a.copy(R2, STACK);
        self.a.add(R2, KEY.into());
        self.a.set(R4, NO_EXIST);
        self.a.call(Helper::MapUpdateElem);
        self.a.lookup(map, KEY.into());
    }

    /// The state's exit begins now, for the reason that these fields have.
    fn open(&mut self, number: u16, code: [FieldLocation; 2]) {
        self.a.call(Helper::KtimeGetNs);
        self.a.store(Width::Double, STATE, SINCE as i16, R0);
        self.begin_block();
        self.a.store_number(Width::Double, STATE, ENTERS as i16, 0);
        for sum in 0..SUMS {
            self.a.store_number(Width::Double, STATE, (WITHIN + 8 * sum) as i16, 0);
        }
        self.sleep_is(SLEPT);
        self.field(R1, code[0]);
        // Of a field of 8 bytes, there is no second one.
        if code[1].size > 0 {
            self.field(R2, code[1]);
            self.a.shift_left(R2, 32);
            self.a.or(R1, R2);
        }
        self.a.store(Width::Double, STATE, CODE as i16, R1);
        self.a.store_number(Width::Half, STATE, OPENER as i16, number as i16 as i32);
    }

    fn exit(&mut self, number: u16, code: [FieldLocation; 2]) {
        let closed = self.a.label();
        self.a.load(Width::Double, R1, STATE, SINCE as i16);
        self.a.jump_if(R1, 0, closed);
        // Its end was not seen.
        self.count_state(false);
        self.a.here(closed);
        self.forget_about();
        self.a.store_number(Width::Word, STATE, TO_USER as i16, 0);
        self.open(number, code);
    }

    fn enter(&mut self, switches: bool) {
        let closed = self.a.label();
        self.length_or(closed);
        if switches {
            let told = self.a.label();
            self.a.load(Width::Double, R1, STATE, ENTERS as i16);
            self.a.jump_if(R1, 0, told);
            self.a.store_number(Width::Double, STATE, ENTERS as i16, 0);
            self.add_latency();
            self.a.here(told);
        }
        self.count_state(true);
        self.a.here(closed);
        self.sleep_is(SLEPT);
        self.forget_about();
    }

    fn leave(&mut self, code: [FieldLocation; 2]) {
        self.a.load(Width::Double, R1, STATE, SINCE as i16);
        self.a.jump_if(R1, 0, self.out);
        self.in_user_space(code);
    }

    fn leave_software(&mut self, number: u16, code: [FieldLocation; 2]) {
        let [settled, open] = [self.a.label(), self.a.label()];
        self.a.load(Width::Double, R1, STATE, SINCE as i16);
        self.a.jump_unless(R1, 0, open);
        self.closed_or(settled);
        self.count_state(true);
        self.a.here(settled);
        self.open(number, code);
        self.a.store_number(Width::Word, STATE, TO_USER as i16, 1);
        self.drop_answered();
        self.a.here(open);
        self.in_user_space(code);
    }

    fn enter_software(&mut self) {
        self.length_or(self.out);
        self.begin_block();
        self.sleep_is(SLEPT);
        self.a.add(LENGTH, 1);
        self.a.store(Width::Double, STATE, CLOSED as i16, LENGTH);
    }

    /// LENGTH = that of the open exit, which is open no more, and r0 = now; goes to `none` if there is none.
    fn length_or(&mut self, none: Label) {
        self.a.load(Width::Double, LENGTH, STATE, SINCE as i16);
        self.a.jump_if(LENGTH, 0, none);
        self.a.call(Helper::KtimeGetNs);
        // The kernel's fast clock may step back by a little while it is adjusted (kernel/time/timekeeping.c).
        self.a.copy(R1, R0);
        self.a.subtract_down_to_zero(R1, LENGTH);
        self.a.copy(LENGTH, R1);
        self.a.store_number(Width::Double, STATE, SINCE as i16, 0);
    }

    /// LENGTH = that of the exit that is over but for what it was about, which it is no more; else goes to `none`.
    fn closed_or(&mut self, none: Label) {
        self.a.load(Width::Double, LENGTH, STATE, CLOSED as i16);
        self.a.jump_if(LENGTH, 0, none);
        self.a.add(LENGTH, -1);
        self.a.store_number(Width::Double, STATE, CLOSED as i16, 0);
    }

    fn about(&mut self, kind: SubjectKind, key: FieldLocation, write: WriteRule, is_software: bool) {
        self.field(VALUE, key);
        if kind == SubjectKind::Mmio {
            self.a.shift_right(VALUE, REGION_BITS as i32);
            self.a.shift_left(VALUE, REGION_BITS as i32);
        }
        let [wrote, told, outside] = [self.a.label(), self.a.label(), self.a.label()];
        match write {
            WriteRule::Fixed(write) => self.a.set(LENGTH, i32::from(write)),
            WriteRule::NotZero(place) | WriteRule::Is(place, _) => {
                self.field(R1, place);
                self.a.set(LENGTH, 0);
                match write {
                    WriteRule::Is(_, value) => self.a.jump_if(R1, value, wrote),
                    _ => self.a.jump_unless(R1, 0, wrote),
                }
                self.a.jump(told);
                self.a.here(wrote);
                self.a.set(LENGTH, 1);
            }
        }
        self.a.here(told);
        // LENGTH is what it is about from here on, until a length is wanted.
        self.a.add(LENGTH, about(kind).into());
        self.a.load(Width::Double, R1, STATE, SINCE as i16);
        self.a.jump_if(R1, 0, outside);
        let set = self.a.label();
        // An access that goes on after user space does so in the kernel.
        self.sleep_is(SLEPT);
        self.a.load(Width::Half, R1, STATE, ABOUT as i16);
        self.a.jump_if_less(R1, about(kind).into(), set);
        self.a.jump(self.out);
        self.a.here(outside);
        if is_software {
            self.about_outside(kind, set);
        } else {
            self.a.jump(self.out);
        }
        self.a.here(set);
        self.a.store(Width::Half, STATE, ABOUT as i16, LENGTH);
        self.a.store(Width::Double, STATE, ABOUT_KEY as i16, VALUE);
    }

    /// Goes to `yes` if user space does accesses of this kind in the state's exit, else to `no`.
    fn is_handed_over(&mut self, kind: SubjectKind, yes: Label, no: Label) {
        let a = &mut *self.a;
        a.load(Width::Double, R1, STATE, CODE as i16);
        // The upper half is `errno`: if it is negative, the reason is another's.
        a.copy(R2, R1);
        a.shift_right(R2, 63);
        a.jump_unless(R2, 0, no);
        a.shift_left(R1, 32);
        a.shift_right(R1, 32);
        for reason in (0..MAX_REASON).filter(|&reason| ExitCode::of_userspace(reason, 0).hands_over(kind)) {
            a.jump_if(R1, reason as i32, yes);
        }
        a.jump(no);
    }

    /// What was told before the exit that begins is done with, unless the exit is for that.
    fn drop_answered(&mut self) {
        let [answered, kept] = [self.a.label(), self.a.label()];
        self.a.load(Width::Half, R3, STATE, ABOUT as i16);
        self.a.jump_if(R3, 0, kept);
        self.a.shift_right(R3, 1);
        self.a.shift_left(R3, 1);
        for kind in HANDED_OVER {
            let next = self.a.label();
            self.a.jump_unless(R3, about(kind).into(), next);
            self.is_handed_over(kind, kept, answered);
            self.a.here(next);
        }
        self.a.here(answered);
        self.count_answered();
        self.a.here(kept);
    }

    /// KVM did what the state is about.
    fn count_answered(&mut self) {
        self.a.load(Width::Half, R1, STATE, ABOUT as i16);
        self.a.load(Width::Double, R2, STATE, ABOUT_KEY as i16);
        self.count_served(R1, R2);
        self.forget_about();
    }

    fn count_served(&mut self, about: Reg, key: Reg) {
        let done = self.a.label();
        self.a.store_number(Width::Double, STACK, KEY + CODE as i16, 0);
        self.a.store(Width::Double, STACK, KEY + ABOUT_KEY as i16, key);
        self.a.store_number(Width::Half, STACK, KEY + OPENER as i16, i32::from(SERVED as i16));
        self.a.store(Width::Half, STACK, KEY + ABOUT as i16, about);
        self.find_count(done);
        self.a.grow(R0, COUNT as i16, 1);
        self.a.here(done);
    }

    /// What VALUE and LENGTH say belongs to the exit that is over but for that, or to what comes.
    fn about_outside(&mut self, kind: SubjectKind, set: Label) {
        let [completes, other, settled, fresh] = [self.a.label(), self.a.label(), self.a.label(), self.a.label()];
        self.a.load(Width::Double, R1, STATE, CLOSED as i16);
        self.a.jump_if(R1, 0, settled);
        // The kernel refuses what is never reached.
        if HANDED_OVER.contains(&kind) {
            self.completes(kind, completes, other);
            self.a.here(completes);
            self.a.store(Width::Half, STATE, ABOUT as i16, LENGTH);
            self.a.store(Width::Double, STATE, ABOUT_KEY as i16, VALUE);
            self.closed_or(self.out);
            self.count_state(true);
            self.a.jump(self.out);
        }

        self.a.here(other);
        // What is new has to wait on the stack, as LENGTH is needed.
        self.a.store(Width::Word, STACK, SMALL, LENGTH);
        self.closed_or(self.out);
        self.count_state(true);
        self.a.load(Width::Word, LENGTH, STACK, SMALL);
        self.a.jump(fresh);

        self.a.here(settled);
        self.a.load(Width::Half, R1, STATE, ABOUT as i16);
        self.a.jump_if(R1, 0, fresh);
        // Nothing came of what was said before.
        self.count_answered();
        self.a.here(fresh);
        if kind == SubjectKind::Port {
            self.a.jump_unless(LENGTH, about(kind).into(), set);
            self.count_served(LENGTH, VALUE);
            self.a.jump(self.out);
        } else {
            self.a.jump(set);
        }
    }

    /// Goes to `other` unless VALUE and LENGTH are what user space was to read: see `Subject::completes`.
    fn completes(&mut self, kind: SubjectKind, completes: Label, other: Label) {
        let [handed, wrote] = [self.a.label(), self.a.label()];
        self.a.jump_unless(LENGTH, about(kind).into(), other);
        self.is_handed_over(kind, handed, other);
        self.a.here(handed);
        self.a.load(Width::Half, R1, STATE, ABOUT as i16);
        self.a.jump_if(R1, 0, completes);
        if kind == SubjectKind::Port {
            self.a.jump_if(R1, i32::from(about(kind)) + 1, wrote);
        }
        self.a.jump_unless_same(R1, LENGTH, other);
        self.a.load(Width::Double, R1, STATE, ABOUT_KEY as i16);
        self.a.jump_unless_same(R1, VALUE, other);
        if kind == SubjectKind::Port {
            self.a.jump(completes);
            self.a.here(wrote);
            for ports in PORTS_IN_KERNEL {
                let next = self.a.label();
                self.a.jump_if_less(VALUE, *ports.start() as i32, next);
                self.a.jump_if_less(VALUE, *ports.end() as i32 + 1, other);
                self.a.here(next);
            }
            self.count_answered();
        }
    }

    /// The vCPU enters its guest at r0; what woke it came at r1. Leaves r0 alone.
    fn add_latency(&mut self) {
        let a = &mut *self.a;
        a.copy(R2, R0);
        a.subtract_down_to_zero(R2, R1);
        a.load(Width::Double, R1, STATE, LATENCY as i16);
        a.add_of(R1, R2);
        a.store(Width::Double, STATE, LATENCY as i16, R1);
        a.grow(STATE, WAKE_UPS as i16, 1);
    }

    /// When what woke the vCPU came, whose halt of LENGTH ends at r0, which is left alone. Where no entry is told of, it is one.
    fn end_wait(&mut self, waited: FieldLocation, enters: bool) {
        let [caught, unseen, seen, done] = [self.a.label(), self.a.label(), self.a.label(), self.a.label()];
        self.field(R2, waited);
        self.a.jump_if(R2, 0, caught);
        self.a.copy(R3, R0);
        self.a.subtract_down_to_zero(R3, LENGTH);
        self.a.load(Width::Double, R1, STATE, WOKEN as i16);
        self.a.jump_if(R1, 0, unseen);
        self.a.jump_if_at_most(R3, R1, seen);
        self.a.here(unseen);
        self.a.store_number(Width::Double, STATE, ENTERS as i16, 0);
        self.a.grow(STATE, UNSEEN as i16, 1);
        self.a.jump(done);
        self.a.here(caught);
        self.a.copy(R1, R0);
        self.a.here(seen);
        match enters {
            true => self.a.store(Width::Double, STATE, ENTERS as i16, R1),
            false => self.add_latency(),
        }
        self.a.here(done);
    }

    fn halt(&mut self, ns: FieldLocation, waited: FieldLocation, valid: FieldLocation, traits: Traits) {
        self.a.call(Helper::KtimeGetNs);
        self.field(LENGTH, ns);
        if traits.switches {
            self.end_wait(waited, !traits.is_software);
        }
        self.find_poll(waited, traits.polls);
        self.spent_of(R2);
        self.was_in_run(waited);
        for (of, to) in [(None, POLLING), (Some(SLEPT), TOLD)] {
            let to = (WITHIN + 8 * to) as i16;
            if let Some(of) = of {
                let of = (WITHIN + 8 * of) as i16;
                self.a.load(Width::Double, R3, R2, of);
                self.a.store_number(Width::Double, R2, of, 0);
            }
            self.a.load(Width::Double, R1, R2, to);
            self.a.add_of(R1, R3);
            self.a.store(Width::Double, R2, to, R1);
        }
        self.begin_block();
        self.field(R1, waited);
        match valid.size {
            0 => self.a.set(R2, 1),
            _ => self.field(R2, valid),
        }
        self.a.shift_left(R2, 8);
        self.a.or(R1, R2);
        self.a.store(Width::Double, STACK, KEY + CODE as i16, R1);
        self.a.store_number(Width::Double, STACK, KEY + ABOUT_KEY as i16, 0);
        self.a.store_number(Width::Half, STACK, KEY + OPENER as i16, i32::from(HALT as i16));
        self.a.store_number(Width::Half, STACK, KEY + ABOUT as i16, 0);
        self.find_count(self.out);
        self.a.grow(R0, COUNT as i16, 1);
        self.add_length();
    }

    /// A halt of LENGTH is over, of which r3 was a poll and whose time is added up at r2: if user space had the vCPU for no reason of the
    /// guest's, as far as was told, it has entered KVM_RUN since then, and what it slept is the halt's. Leaves r0, r2 and r3 alone.
    fn was_in_run(&mut self, waited: FieldLocation) {
        let [less, known] = [self.a.label(), self.a.label()];
        let [stopped, told] = [STOPPED, TOLD].map(|sum| (WITHIN + 8 * sum) as i16);
        self.a.load(Width::Word, R1, STATE, ASLEEP as i16);
        self.a.jump_unless(R1, STOPPED as i32 + 1, known);
        self.sleep_is(SLEPT);
        self.field(R1, waited);
        self.a.jump_if(R1, 0, known);
        self.a.copy(R4, LENGTH);
        self.a.subtract_down_to_zero(R4, R3);
        self.a.load(Width::Double, R1, R2, stopped);
        self.a.jump_if_at_most(R4, R1, less);
        self.a.copy(R4, R1);
        self.a.here(less);
        self.a.subtract(R1, R4);
        self.a.store(Width::Double, R2, stopped, R1);
        self.a.load(Width::Double, R1, R2, told);
        self.a.add_of(R1, R4);
        self.a.store(Width::Double, R2, told, R1);
        self.a.here(known);
    }

    /// r3 = how much of the halt of LENGTH that ends at r0 was a poll
    fn find_poll(&mut self, waited: FieldLocation, polls: bool) {
        let [less, slept, none, found] = [self.a.label(), self.a.label(), self.a.label(), self.a.label()];
        self.a.load(Width::Double, R1, STATE, FROM as i16);
        self.a.copy(R3, R0);
        self.a.subtract_down_to_zero(R3, R1);
        self.a.jump_if_at_most(R3, LENGTH, less);
        self.a.copy(R3, LENGTH);
        self.a.here(less);
        self.a.load(Width::Double, R1, STATE, OFF as i16);
        self.a.subtract_down_to_zero(R3, R1);
        // What ran is in r3 now, and r1 is how long KVM said that it has polled, and one more.
        self.field(R2, waited);
        self.a.load(Width::Double, R1, STATE, POLLED as i16);
        self.a.jump_unless(R2, 0, slept);
        self.a.jump_if(R1, 1, none);
        self.a.jump_unless(R1, 0, found);
        self.a.load(Width::Double, R1, STATE, POLL as i16);
        self.a.jump_if(R1, 1, none);
        if !polls {
            self.a.jump_if(R1, 0, none);
        }
        self.a.jump(found);
        self.a.here(slept);
        self.a.jump_if(R1, 0, none);
        self.a.add(R1, -1);
        self.a.jump_if_at_most(R3, R1, found);
        self.a.copy(R3, R1);
        self.a.jump(found);
        self.a.here(none);
        self.a.set(R3, 0);
        self.a.here(found);
    }

    /// Counts the state's exit, with its LENGTH if it is `timed`; what it was about is done with.
    fn count_state(&mut self, timed: bool) {
        for at in [CODE, ABOUT_KEY] {
            self.a.load(Width::Double, R1, STATE, at as i16);
            self.a.store(Width::Double, STACK, KEY + at as i16, R1);
        }
        self.a.load(Width::Word, R1, STATE, OPENER as i16);
        self.a.store(Width::Word, STACK, KEY + OPENER as i16, R1);
        self.forget_about();
        let done = self.a.label();
        self.find_count(done);
        self.a.grow(R0, COUNT as i16, 1);
        self.a.load(Width::Word, R2, STATE, TO_USER as i16);
        self.a.load(Width::Double, R1, R0, COUNT_TO_USER as i16);
        self.a.add_of(R1, R2);
        self.a.store(Width::Double, R0, COUNT_TO_USER as i16, R1);
        if timed {
            for sum in 0..COUNTED {
                let (of, to) = ((WITHIN + 8 * sum) as i16, (SPENT + 8 * sum) as i16);
                let none = self.a.label();
                self.a.load(Width::Double, R1, STATE, of);
                self.a.jump_if(R1, 0, none);
                self.a.load(Width::Double, R2, R0, to);
                self.a.add_of(R2, R1);
                self.a.store(Width::Double, R0, to, R2);
                self.a.here(none);
            }
            self.add_length();
        }
        self.a.here(done);
    }

    fn forget_about(&mut self) {
        self.a.store_number(Width::Half, STATE, ABOUT as i16, 0);
        self.a.store_number(Width::Double, STATE, ABOUT_KEY as i16, 0);
    }

    /// r0 = the count for KEY, made if it is new; where there is no room for it, counts a loss and goes to `none`
    fn find_count(&mut self, none: Label) {
        let found = self.a.label();
        self.a.lookup(&self.maps.counts, KEY.into());
        self.a.jump_unless(R0, 0, found);
        self.a.store_number(Width::Word, STACK, ZERO, 0);
        self.a.lookup(&self.maps.blank, ZERO.into());
        self.a.jump_if(R0, 0, none);
        self.a.copy(R3, R0);
        self.insert(&self.maps.counts);
        self.a.jump_unless(R0, 0, found);
        count_loss(self.a, &self.maps.lost, none);
        self.a.jump(none);
        self.a.here(found);
    }

    /// Adds LENGTH to the count at r0, and to its bucket.
    fn add_length(&mut self) {
        const SUB_BITS: u32 = CoarseBuckets::SUB_BITS;
        const LIMIT_BITS: u32 = CoarseBuckets::LIMIT_BITS;
        let [fits, small, out] = [self.a.label(), self.a.label(), self.a.label()];
        let a = &mut *self.a;
        a.load(Width::Double, R1, R0, TOTAL as i16);
        a.add_of(R1, LENGTH);
        a.store(Width::Double, R0, TOTAL as i16, R1);
        a.copy(R1, LENGTH);
        a.copy(R2, R1);
        a.shift_right(R2, LIMIT_BITS as i32);
        a.jump_if(R2, 0, fits);
        a.set(R1, -1);
        a.shift_right(R1, 64 - LIMIT_BITS as i32);
        a.here(fits);
        a.jump_if_less(R1, 1 << SUB_BITS, small);
        // r3 = how far it has to be shifted, the logarithm of r2
        a.copy(R2, R1);
        a.shift_right(R2, SUB_BITS as i32);
        a.set(R3, 0);
        for bits in [32, 16, 8, 4, 2, 1] {
            let next = a.label();
            a.copy(R4, R2);
            a.shift_right(R4, bits);
            a.jump_if(R4, 0, next);
            a.copy(R2, R4);
            a.add(R3, bits);
            a.here(next);
        }
        a.shift_right_by(R1, R3);
        a.shift_left(R3, SUB_BITS as i32);
        a.add_of(R1, R3);
        a.here(small);
        // It is less, which the kernel's verifier does not see.
        let inside = a.label();
        a.jump_if_less(R1, CoarseBuckets::LEN as i32, inside);
        a.jump(out);
        a.here(inside);
        a.shift_left(R1, 3);
        a.add_of(R0, R1);
        a.grow(R0, BUCKETS as i16, 1);
        a.here(out);
    }
}
