//! The program that makes exits of one process longer, by a busy loop.
//!
//! ```text
//! another process's, or another reason's ─► out          no lease, or it has run out ─► out
//! the thread's state: exits += 1
//! would this delay be more than the thread may spend in this window? ─► skipped += 1, out
//! ask for the time until it is start + min(delay, MAX_DELAY), MAX_ROUNDS times at most ─► delayed += 1, spun += that time
//! ```
//!
//! The bounds are here, so that no value of a map can go beyond them. A delay of 0 does all of this but the loop: exits that are
//! compared with delayed ones cost the same, but for the delay.
//!
//! States are a thread's own, and a thread is on one CPU at a time: nothing has to be atomic.

use super::assembler::{BpfAssembler, Helper, Label, Reg, Width};
use super::program::end;
use exitscope_model::codes::KVM_EXIT_INTR;
use exitscope_trace::tracefs::{CountRole, FieldLocation};
use std::os::fd::OwnedFd;

/// The longest delay of one exit, in nanoseconds. Where `kvm_exit` fires with interrupts disabled, it is also by how much those
/// of the host come later on that CPU.
pub const MAX_DELAY: u64 = 20_000;

/// Looks at the clock for one delay at most. One takes 10 to 50 ns, so that the time ends a delay first, unless the clock
/// stands still. The kernel's verifier goes through all of them, 5 instructions each, of a million that it allows.
pub const MAX_ROUNDS: i32 = 4_096;

/// In each window, in nanoseconds, a thread is delayed by a fifth of it at most.
pub const WINDOW: u64 = 10_000_000;
pub const BUDGET: u64 = WINDOW / 5;

/// What user space controls: the delay, in nanoseconds, and until when there are any.
pub const DELAY: usize = 0;
pub const UNTIL: usize = 8;
pub const CONTROL_SIZE: usize = 16;

/// A thread's state: when its window began and what it spent in that; then what is counted.
pub const SINCE: usize = 0;
pub const SPENT: usize = 8;
pub const EXITS: usize = 16;
pub const DELAYED: usize = 24;
pub const SPUN: usize = 32;
pub const SKIPPED: usize = 40;
pub const LONGEST: usize = 48;
pub const STATE_SIZE: usize = 56;

const R0: Reg = Reg(0);
const R1: Reg = Reg(1);
const R2: Reg = Reg(2);
const R3: Reg = Reg(3);
const R4: Reg = Reg(4);
/// What calls leave alone: first the tracepoint's record, then until when; when the program began; the delay, then the rounds;
/// the state.
const CTX: Reg = Reg(6);
const UNTIL_WHEN: Reg = Reg(6);
const BEGAN: Reg = Reg(7);
const LENGTH: Reg = Reg(8);
const ROUNDS: Reg = Reg(8);
const STATE: Reg = Reg(9);
const STACK: Reg = Reg(10);

/// On the stack: the number of an array's only element; process and thread; a new state.
const ONLY: i16 = -4;
const THREAD: i16 = -16;
const NEW_STATE: i16 = THREAD - STATE_SIZE as i16;

/// `BPF_NOEXIST`.
const NO_EXIST: i32 = 1;

/// The maps that the program uses.
#[derive(Debug)]
pub struct DelayMaps {
    /// One element: the delay, and until when.
    pub control: OwnedFd,
    /// By process and thread, its state.
    pub states: OwnedFd,
    /// One number for each CPU: exits of threads for which there was no room.
    pub lost: OwnedFd,
}

/// Exits for which a program is: of this process, and of this reason if one is given with where it is found.
#[derive(Clone, Copy, Debug)]
pub struct DelayedBy {
    pub process: u32,
    pub reason: Option<(CountRole, u32)>,
}

/// The program.
pub fn delay_program(of: DelayedBy, maps: &DelayMaps) -> Vec<u64> {
    let mut a = BpfAssembler::default();
    let [out, full, skip, done] = [a.label(), a.label(), a.label(), a.label()];
    a.copy(CTX, R1);
    a.call(Helper::GetCurrentPidTgid);
    a.store(Width::Double, STACK, THREAD, R0);
    a.shift_right(R0, 32);
    a.jump_unless(R0, of.process as i32, out);
    if let Some((role, reason)) = of.reason {
        only_for(&mut a, role, reason, out);
    }

    a.store_number(Width::Word, STACK, ONLY, 0);
    a.lookup(&maps.control, ONLY.into());
    a.jump_if(R0, 0, out);
    a.load(Width::Double, UNTIL_WHEN, R0, UNTIL as i16);
    a.load(Width::Double, LENGTH, R0, DELAY as i16);
    a.call(Helper::KtimeGetNs);
    a.copy(BEGAN, R0);
    a.jump_if_at_most(UNTIL_WHEN, BEGAN, out);
    let short = a.label();
    a.set(R1, MAX_DELAY as i32);
    a.jump_if_at_most(LENGTH, R1, short);
    a.copy(LENGTH, R1);
    a.here(short);
    find_state(&mut a, maps, full);
    a.grow(STATE, EXITS as i16, 1);
    a.jump_if(LENGTH, 0, out);
    within_budget(&mut a, skip);

    let [again, on] = [a.label(), a.label()];
    a.copy(UNTIL_WHEN, BEGAN);
    a.add_of(UNTIL_WHEN, LENGTH);
    a.set(ROUNDS, 0);
    a.here(again);
    a.call(Helper::KtimeGetNs);
    a.add(ROUNDS, 1);
    a.jump_if_less(ROUNDS, MAX_ROUNDS, on);
    a.jump(done);
    a.here(on);
    // The kernel's verifier first looks at what comes after a jump that is not taken: it then has one way in hand, not thousands.
    a.jump_if_at_most(R0, UNTIL_WHEN, again);
    a.here(done);
    a.subtract_down_to_zero(R0, BEGAN);
    note(&mut a);
    a.jump(out);

    a.here(skip);
    a.grow(STATE, SKIPPED as i16, 1);
    a.jump(out);
    end(a, full, out, &maps.lost)
}

/// Goes to `out` unless the exit is of this reason, of those whose numbers have 32 bits.
fn only_for(a: &mut BpfAssembler, role: CountRole, reason: u32, out: Label) {
    let wanted = a.label();
    let load = |a: &mut BpfAssembler, place: FieldLocation| {
        a.load(Width::of(place.size), R1, CTX, place.offset as i16);
    };
    let place = match role {
        CountRole::UserspaceExit([place, errno]) => {
            // A signal ends KVM_RUN with an error, and the reason is left over from an earlier exit.
            load(a, errno);
            a.shift_left(R1, 32);
            a.shift_right(R1, 63);
            a.jump_unless(R1, 0, if reason == KVM_EXIT_INTR { wanted } else { out });
            place
        }
        CountRole::Exit([place, _]) => place,
        _ => unreachable!("a program is at the tracepoint of an exit"),
    };
    load(a, place);
    a.shift_left(R1, 32);
    a.set(R2, reason as i32);
    a.shift_left(R2, 32);
    a.jump_unless_same(R1, R2, out);
    a.here(wanted);
}

/// STATE = the thread's; goes to `full` if there is no room for a new one.
fn find_state(a: &mut BpfAssembler, maps: &DelayMaps, full: Label) {
    let known = a.label();
    a.lookup(&maps.states, THREAD.into());
    a.jump_unless(R0, 0, known);
    for at in (0..STATE_SIZE as i16).step_by(8) {
        a.store_number(Width::Double, STACK, NEW_STATE + at, 0);
    }
    a.map(R1, &maps.states);
    a.copy(R2, STACK);
    a.add(R2, THREAD.into());
    a.copy(R3, STACK);
    a.add(R3, NEW_STATE.into());
    a.set(R4, NO_EXIST);
    a.call(Helper::MapUpdateElem);
    a.lookup(&maps.states, THREAD.into());
    a.jump_if(R0, 0, full);
    a.here(known);
    a.copy(STATE, R0);
}

/// Goes to `skip` if the thread may not spend LENGTH more in its window, which begins now if the one before has ended.
fn within_budget(a: &mut BpfAssembler, skip: Label) {
    let [inside, allowed] = [a.label(), a.label()];
    a.load(Width::Double, R1, STATE, SINCE as i16);
    a.copy(R2, BEGAN);
    a.subtract_down_to_zero(R2, R1);
    a.jump_if_less(R2, WINDOW as i32, inside);
    a.store(Width::Double, STATE, SINCE as i16, BEGAN);
    a.store_number(Width::Double, STATE, SPENT as i16, 0);
    a.here(inside);
    a.load(Width::Double, R1, STATE, SPENT as i16);
    a.add_of(R1, LENGTH);
    a.set(R2, BUDGET as i32);
    a.jump_if_at_most(R1, R2, allowed);
    a.jump(skip);
    a.here(allowed);
}

/// Counts a delay of R0 nanoseconds.
fn note(a: &mut BpfAssembler) {
    let shorter = a.label();
    for at in [SPENT, SPUN] {
        a.load(Width::Double, R1, STATE, at as i16);
        a.add_of(R1, R0);
        a.store(Width::Double, STATE, at as i16, R1);
    }
    a.grow(STATE, DELAYED as i16, 1);
    a.load(Width::Double, R1, STATE, LONGEST as i16);
    a.jump_if_at_most(R0, R1, shorter);
    a.store(Width::Double, STATE, LONGEST as i16, R0);
    a.here(shorter);
}
