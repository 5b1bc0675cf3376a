//! The program that copies a tracepoint's record into the ring of the CPU on which it fires.
//!
//! ```text
//! nobody's that is wanted? ─► out          room in this CPU's ring? no ─► count a loss, out
//! time · process and thread · CPU, tracepoint · the record without its common fields ─► the ring; nobody is woken
//! ```

use super::assembler::{BpfAssembler, Helper, Label, Reg, Width};
use crate::tracepoints::{COMMON, FOLLOWED_SWITCHES, Tracepoint};
use std::os::fd::OwnedFd;

/// Where a ring's record has what, and where the copy begins.
pub const TIME: usize = 0;
pub const THREAD: usize = 8;
pub const CPU: usize = 16;
pub const NUMBER: usize = 20;
pub const PAYLOAD: usize = 24;

/// `BPF_RB_NO_WAKEUP`.
const NO_WAKEUP: i32 = 1;

const R0: Reg = Reg(0);
const R1: Reg = Reg(1);
const R2: Reg = Reg(2);
const R3: Reg = Reg(3);
/// What calls leave alone: the tracepoint's record, process and thread, the CPU, the place in the ring.
const CTX: Reg = Reg(6);
const RUNS: Reg = Reg(7);
const CPU_NUMBER: Reg = Reg(8);
const PLACE: Reg = Reg(9);
const STACK: Reg = Reg(10);

/// The maps that programs use.
#[derive(Clone, Copy)]
pub struct Maps<'a> {
    /// By CPU, its ring.
    pub rings: &'a OwnedFd,
    /// One number for each CPU: records lost.
    pub lost: &'a OwnedFd,
    /// Threads whose scheduling and system calls are wanted.
    pub threads: &'a OwnedFd,
    /// One number for each CPU: how many switches between others are wanted there.
    pub follows: &'a OwnedFd,
}

/// The program for the tracepoint number `number`. `processes`: only of these, if any are named. The events of scheduler and
/// system calls are wanted if a thread in question is in [`Maps::threads`].
pub fn program(tracepoint: &Tracepoint, number: u16, processes: &[u32], maps: Maps) -> Vec<u64> {
    let mut a = BpfAssembler::default();
    let [out, full] = [a.label(), a.label()];
    a.copy(CTX, R1);
    a.call(Helper::GetCurrentPidTgid);
    a.copy(RUNS, R0);
    if tracepoint.follows_threads() {
        wanted_thread(&mut a, tracepoint, maps, out);
    } else if !processes.is_empty() {
        let wanted = a.label();
        a.copy(R1, R0);
        a.shift_right(R1, 32);
        for &process in processes {
            a.jump_if(R1, process as i32, wanted);
        }
        a.jump(out);
        a.here(wanted);
    }

    a.call(Helper::GetSmpProcessorId);
    a.copy(CPU_NUMBER, R0);
    a.store(Width::Word, STACK, -4, R0);
    a.lookup(maps.rings, -4);
    a.jump_if(R0, 0, out);

    let size = PAYLOAD + tracepoint.size.saturating_sub(COMMON);
    a.copy(R1, R0);
    a.set(R2, size.next_multiple_of(8) as i32);
    a.set(R3, 0);
    a.call(Helper::RingbufReserve);
    a.jump_if(R0, 0, full);
    a.copy(PLACE, R0);

    a.call(Helper::KtimeGetNs);
    a.store(Width::Double, PLACE, TIME as i16, R0);
    a.store(Width::Double, PLACE, THREAD as i16, RUNS);
    a.store(Width::Word, PLACE, CPU as i16, CPU_NUMBER);
    a.store_number(Width::Word, PLACE, NUMBER as i16, number.into());
    let mut at = COMMON;
    while at < tracepoint.size {
        // Records are aligned to 8 bytes, and loads have to be to their width.
        let width = Width::of(tracepoint.size - at);
        a.load(width, R1, CTX, at as i16);
        a.store(width, PLACE, (PAYLOAD + at - COMMON) as i16, R1);
        at += width.bytes();
    }
    a.copy(R1, PLACE);
    a.set(R2, NO_WAKEUP);
    a.call(Helper::RingbufSubmit);
    a.jump(out);

    end(a, full, out, maps.lost)
}

/// The end of any program: from `full` on a loss is counted, from `out` on nothing is done.
pub fn end(mut a: BpfAssembler, full: Label, out: Label, lost: &OwnedFd) -> Vec<u64> {
    // The kernel refuses what is never reached.
    if a.is_target(full) {
        a.here(full);
        count_loss(&mut a, lost, out);
    }
    a.here(out);
    // Zero would keep the event from whoever else records it by perf.
    a.set(R0, 1);
    a.exit();
    a.finish()
}

/// Counts a loss; goes to `out` if that is not possible.
pub fn count_loss(a: &mut BpfAssembler, lost: &OwnedFd, out: Label) {
    a.store_number(Width::Word, STACK, -8, 0);
    a.lookup(lost, -8);
    a.jump_if(R0, 0, out);
    // The number is this CPU's own, and tracepoints of the same CPU do not interrupt this sequence but from an interrupt, in
    // which a loss might go uncounted by one.
    a.grow(R0, 0, 1);
}

/// Goes to `out` unless a thread that the event is about is wanted, or it is one of the switches that follow one of such a thread.
fn wanted_thread(a: &mut BpfAssembler, tracepoint: &Tracepoint, maps: Maps, out: Label) {
    let wanted = a.label();
    let look_up = |a: &mut BpfAssembler, thread| {
        a.store(Width::Word, STACK, -4, thread);
        a.lookup(maps.threads, -4);
        a.jump_unless(R0, 0, wanted);
    };
    for &at in &tracepoint.threads {
        a.load(Width::Word, R1, CTX, at as i16);
        look_up(a, R1);
    }
    if tracepoint.threads.is_empty() {
        look_up(a, RUNS);
    }
    if tracepoint.is_switch() {
        let [recorded, follows] = [a.label(), a.label()];
        find_follows(a, maps, out);
        a.load(Width::Double, R1, R0, 0);
        a.jump_unless(R1, 0, follows);
        a.jump(out);
        a.here(follows);
        a.grow(R0, 0, -1);
        a.jump(recorded);
        a.here(wanted);
        find_follows(a, maps, out);
        a.store_number(Width::Double, R0, 0, FOLLOWED_SWITCHES as i32);
        a.here(recorded);
    } else {
        a.jump(out);
        a.here(wanted);
    }
}

/// Has R0 point at the CPU's number of switches that are wanted.
fn find_follows(a: &mut BpfAssembler, maps: Maps, out: Label) {
    a.store_number(Width::Word, STACK, -4, 0);
    a.lookup(maps.follows, -4);
    a.jump_if(R0, 0, out);
}
