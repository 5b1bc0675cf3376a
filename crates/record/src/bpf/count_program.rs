//! The programs that count exits where they happen. `aggregate/fold.rs` is the same in Rust, event by event.
//!
//! ```text
//! the thread's state? none, and not wanted ─► out          no room for a new one ─► count a loss, out
//! kvm_exit:  since = now, why                              kvm_entry: the count of (thread, why, about what) += 1,
//! about:     what                                                     its bucket of (now - since) += 1
//! ```
//!
//! States and counts are a thread's own, and a thread is on one CPU at a time: nothing has to be atomic.

use super::assembler::{Assembler, Helper, Label, Reg, Width};
use super::program::{count_loss, end};
use exitscope_model::DetailKind;
use exitscope_model::codes::REGION_BITS;
use exitscope_stats::CoarseBuckets;
use exitscope_trace::tracefs::{Place, Role, Write};
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
pub const IDLE: usize = 32;
/// Length of an exit that is over but for what it was about, and one more; or zero.
pub const CLOSED: usize = 40;
/// Number of the virtual CPU, and one more; or zero.
pub const VCPU: usize = 48;
/// How long KVM polls, and one more; or zero.
pub const POLL: usize = 56;
pub const EVENTS: usize = 64;
pub const STATE_SIZE: usize = 72;

/// A count.
pub const COUNT: usize = 0;
pub const COUNT_TO_USER: usize = 8;
pub const TOTAL: usize = 16;
pub const COUNT_IDLE: usize = 24;
pub const BUCKETS: usize = 32;
pub const COUNT_SIZE: usize = BUCKETS + 8 * CoarseBuckets::LEN;

/// In place of the number of the tracepoint that began an exit.
pub const SERVED: u16 = u16::MAX;
pub const HALT: u16 = u16::MAX - 1;

/// What a key says it is about: the kind, and whether the guest wrote.
pub const fn about(kind: DetailKind) -> u16 {
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

/// `BPF_NOEXIST`.
const NO_EXIST: i32 = 1;

/// The maps that programs use.
#[derive(Debug)]
pub struct Maps {
    /// By thread, its state.
    pub states: OwnedFd,
    /// What was counted.
    pub counts: OwnedFd,
    /// A count of nothing.
    pub blank: OwnedFd,
    /// One number for each CPU: what was not counted.
    pub lost: OwnedFd,
    /// The processes that are wanted, if not all are.
    pub processes: Option<OwnedFd>,
}

/// The program for the tracepoint number `number`. `is_software`: `kvm_exit` never fires here.
pub fn count_program(role: Role, number: u16, vcpu: Place, is_software: bool, maps: &Maps) -> Vec<u64> {
    let mut a = Assembler::default();
    let [out, full] = [a.label(), a.label()];
    let mut p = Program { a: &mut a, maps, out, full };
    p.a.copy(CTX, R1);
    if let Role::RunEnter(load) = role {
        p.field(R1, load);
        p.a.jump_if(R1, 0, out);
    }
    let begins = matches!(role, Role::Exit(_) | Role::Enter | Role::UserspaceExit(_) | Role::About { .. });
    p.find_state(begins);
    p.a.grow(STATE, EVENTS as i16, 1);
    if vcpu.size > 0 {
        p.field(R1, vcpu);
        p.a.add(R1, 1);
        p.a.store(Width::Double, STATE, VCPU as i16, R1);
    }
    match role {
        Role::Exit(code) => p.exit(number, code),
        Role::Enter => p.enter(),
        Role::UserspaceExit(code) if is_software => p.leave_software(number, code),
        Role::UserspaceExit(_) => p.leave(),
        Role::RunEnter(_) => p.enter_software(),
        Role::About { kind, key, write } => p.about(kind, key, write, is_software),
        Role::HaltEnd { ns, waited, valid } => p.halt(ns, waited, valid),
        Role::HaltPoll(new) => {
            p.field(R1, new);
            p.a.add(R1, 1);
            p.a.store(Width::Double, STATE, POLL as i16, R1);
        }
    }
    a.jump(out);
    end(a, full, out, &maps.lost)
}

struct Program<'a> {
    a: &'a mut Assembler,
    maps: &'a Maps,
    out: Label,
    full: Label,
}

impl Program<'_> {
    /// dst = a field of the record; zero if there is no such field
    fn field(&mut self, dst: Reg, place: Place) {
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
            a.copy(R3, STACK);
            a.add(R3, NEW_STATE.into());
            self.insert(&self.maps.states);
            self.a.jump_if(R0, 0, self.full);
        }
        self.a.here(known);
        self.a.copy(STATE, R0);
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
    fn open(&mut self, number: u16, code: [Place; 2]) {
        self.a.call(Helper::KtimeGetNs);
        self.a.store(Width::Double, STATE, SINCE as i16, R0);
        self.field(R1, code[0]);
        // Of a field of 8 bytes, there is no second one.
        if code[1].size > 0 {
            self.field(R2, code[1]);
            self.a.shift_left(R2, 32);
            self.a.or(R1, R2);
        }
        self.a.store(Width::Double, STATE, CODE as i16, R1);
        self.a.store_number(Width::Half, STATE, OPENER as i16, number as i16 as i32);
        self.a.store_number(Width::Double, STATE, IDLE as i16, 0);
    }

    fn exit(&mut self, number: u16, code: [Place; 2]) {
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

    fn enter(&mut self) {
        let closed = self.a.label();
        self.length_or(closed);
        self.count_state(true);
        self.a.here(closed);
        self.forget_about();
    }

    fn leave(&mut self) {
        self.a.load(Width::Double, R1, STATE, SINCE as i16);
        self.a.jump_if(R1, 0, self.out);
        self.a.store_number(Width::Word, STATE, TO_USER as i16, 1);
    }

    fn leave_software(&mut self, number: u16, code: [Place; 2]) {
        let settled = self.a.label();
        self.a.load(Width::Double, R1, STATE, SINCE as i16);
        self.a.jump_unless(R1, 0, self.out);
        self.closed_or(settled);
        self.count_state(true);
        self.a.here(settled);
        self.a.store_number(Width::Word, STATE, TO_USER as i16, 1);
        self.open(number, code);
    }

    fn enter_software(&mut self) {
        let waits = self.a.label();
        self.length_or(self.out);
        self.a.load(Width::Half, R1, STATE, ABOUT as i16);
        // The lowest bit: the guest wrote.
        self.a.copy(R2, R1);
        self.a.shift_right(R2, 1);
        self.a.shift_left(R2, 1);
        self.a.subtract(R1, R2);
        self.a.jump_if(R1, 0, waits);
        self.count_state(true);
        self.a.jump(self.out);
        self.a.here(waits);
        self.a.add(LENGTH, 1);
        self.a.store(Width::Double, STATE, CLOSED as i16, LENGTH);
    }

    /// LENGTH = that of the open exit, which is open no more; goes to `none` if there is none.
    fn length_or(&mut self, none: Label) {
        self.a.load(Width::Double, LENGTH, STATE, SINCE as i16);
        self.a.jump_if(LENGTH, 0, none);
        self.a.call(Helper::KtimeGetNs);
        // The kernel's fast clock may step back by a little while it is adjusted (kernel/time/timekeeping.c).
        let forward = self.a.label();
        self.a.jump_if_at_most(LENGTH, R0, forward);
        self.a.copy(R0, LENGTH);
        self.a.here(forward);
        self.a.subtract(R0, LENGTH);
        self.a.copy(LENGTH, R0);
        self.a.store_number(Width::Double, STATE, SINCE as i16, 0);
    }

    /// LENGTH = that of the exit that is over but for what it was about, which it is no more; else goes to `none`.
    fn closed_or(&mut self, none: Label) {
        self.a.load(Width::Double, LENGTH, STATE, CLOSED as i16);
        self.a.jump_if(LENGTH, 0, none);
        self.a.add(LENGTH, -1);
        self.a.store_number(Width::Double, STATE, CLOSED as i16, 0);
    }

    fn about(&mut self, kind: DetailKind, key: Place, write: Write, is_software: bool) {
        self.field(VALUE, key);
        if kind == DetailKind::Mmio {
            self.a.shift_right(VALUE, REGION_BITS as i32);
            self.a.shift_left(VALUE, REGION_BITS as i32);
        }
        let [wrote, told, outside] = [self.a.label(), self.a.label(), self.a.label()];
        match write {
            Write::Fixed(write) => self.a.set(LENGTH, i32::from(write)),
            Write::NotZero(place) | Write::Is(place, _) => {
                self.field(R1, place);
                self.a.set(LENGTH, 0);
                match write {
                    Write::Is(_, value) => self.a.jump_if(R1, value, wrote),
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
        self.a.load(Width::Half, R1, STATE, ABOUT as i16);
        self.a.jump_if_less(R1, about(kind).into(), set);
        self.a.jump(self.out);
        self.a.here(outside);
        if is_software {
            self.about_outside(set);
        } else {
            self.a.jump(self.out);
        }
        self.a.here(set);
        self.a.store(Width::Half, STATE, ABOUT as i16, LENGTH);
        self.a.store(Width::Double, STATE, ABOUT_KEY as i16, VALUE);
    }

    /// What VALUE and LENGTH say belongs to the exit that is over but for that, or to what comes.
    fn about_outside(&mut self, set: Label) {
        let [completes, other, settled] = [self.a.label(), self.a.label(), self.a.label()];
        let a = &mut *self.a;
        a.load(Width::Double, R1, STATE, CLOSED as i16);
        a.jump_if(R1, 0, settled);
        // A read is told of when its value has come.
        a.copy(R2, LENGTH);
        a.shift_right(R2, 1);
        a.shift_left(R2, 1);
        a.jump_unless_same(R2, LENGTH, other);
        a.load(Width::Half, R1, STATE, ABOUT as i16);
        a.jump_if(R1, 0, completes);
        a.jump_unless_same(R1, LENGTH, other);
        a.load(Width::Double, R1, STATE, ABOUT_KEY as i16);
        a.jump_unless_same(R1, VALUE, other);
        a.here(completes);
        a.store(Width::Half, STATE, ABOUT as i16, LENGTH);
        a.store(Width::Double, STATE, ABOUT_KEY as i16, VALUE);
        self.closed_or(self.out);
        self.count_state(true);
        self.a.jump(self.out);

        self.a.here(other);
        // What is new has to wait on the stack, as LENGTH is needed.
        self.a.store(Width::Word, STACK, SMALL, LENGTH);
        self.closed_or(self.out);
        self.count_state(true);
        self.a.load(Width::Word, LENGTH, STACK, SMALL);
        self.a.jump(set);

        self.a.here(settled);
        self.a.load(Width::Half, R1, STATE, ABOUT as i16);
        self.a.jump_if(R1, 0, set);
        // Nothing came of what was said before.
        self.a.store_number(Width::Double, STACK, KEY + CODE as i16, 0);
        self.a.load(Width::Double, R2, STATE, ABOUT_KEY as i16);
        self.a.store(Width::Double, STACK, KEY + ABOUT_KEY as i16, R2);
        self.a.store_number(Width::Half, STACK, KEY + OPENER as i16, i32::from(SERVED as i16));
        self.a.store(Width::Half, STACK, KEY + ABOUT as i16, R1);
        self.find_count(set);
        self.a.grow(R0, COUNT as i16, 1);
    }

    fn halt(&mut self, ns: Place, waited: Place, valid: Place) {
        let outside = self.a.label();
        self.field(LENGTH, ns);
        self.a.load(Width::Double, R1, STATE, SINCE as i16);
        self.a.jump_if(R1, 0, outside);
        self.a.load(Width::Double, R1, STATE, IDLE as i16);
        self.a.add_of(R1, LENGTH);
        self.a.store(Width::Double, STATE, IDLE as i16, R1);
        self.a.here(outside);
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
        self.a.load(Width::Double, R1, R0, COUNT_IDLE as i16);
        self.a.add_of(R1, LENGTH);
        self.a.store(Width::Double, R0, COUNT_IDLE as i16, R1);
        self.add_length();
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
            let [busy, less] = [self.a.label(), self.a.label()];
            self.a.load(Width::Double, R1, STATE, IDLE as i16);
            self.a.jump_if(R1, 0, busy);
            self.a.jump_if_at_most(R1, LENGTH, less);
            self.a.copy(R1, LENGTH);
            self.a.here(less);
            self.a.load(Width::Double, R2, R0, COUNT_IDLE as i16);
            self.a.add_of(R2, R1);
            self.a.store(Width::Double, R0, COUNT_IDLE as i16, R2);
            self.a.here(busy);
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
