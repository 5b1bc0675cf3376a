//! What is wrong with a program before it runs: steps that cannot be done there, locks taken twice or given back
//! without being held, answers to nothing, and loops that take no time.
//!
//! Only what happens on every path is told: after a `pick` whose ways differ, a lock may be held.

use super::Fault;
use super::rows::MAX_INSTANT;
use super::steps::{Scope, Spot};
use crate::{Doorbell, Op};
use exitscope_units::Picos;
use std::collections::{BTreeMap, BTreeSet};

/// Checks a program. `spots` are the places of its steps, outer before inner, or one for all.
pub(crate) fn program(ops: &[Op], spots: &[Spot], scope: &Scope) -> Result<(), Fault> {
    let check = Check { spots, scope };
    check.steps_fit(ops, 0)?;
    check.walk(ops, 0, &mut State::default(), true)?;
    check.instant(ops, 0)?;
    Ok(())
}

/// What is known at a point of a program.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct State {
    /// Locks that were touched, and whether they are held; `None`: perhaps.
    held: BTreeMap<usize, Option<bool>>,
    /// Whether anything was, perhaps, received.
    received: bool,
    /// Whether anything was, perhaps, sent.
    sent: bool,
    /// Disks to which, perhaps, something was submitted.
    submitted: BTreeSet<usize>,
}

impl State {
    fn held(&self, lock: usize) -> Option<bool> {
        self.held.get(&lock).copied().unwrap_or(Some(false))
    }

    /// What holds after either.
    fn join(&mut self, other: State) {
        let locks: Vec<usize> = self.held.keys().chain(other.held.keys()).copied().collect();
        for lock in locks {
            let held = self.held(lock);
            self.held.insert(lock, if held == other.held(lock) { held } else { None });
        }
        // What happened on one way may have happened.
        self.received |= other.received;
        self.sent |= other.sent;
        self.submitted.extend(other.submitted);
    }
}

struct Check<'a> {
    spots: &'a [Spot],
    scope: &'a Scope<'a>,
}

/// How many places a step has: its own, and those of the steps in it.
fn places(op: &Op) -> usize {
    let all = |ops: &[Op]| ops.iter().map(places).sum::<usize>();
    match op {
        Op::Repeat(_, body) => 1 + all(body),
        Op::Pick(ways) => 1 + ways.iter().map(|(_, ops)| 1 + all(ops)).sum::<usize>(),
        _ => 1,
    }
}

impl Check<'_> {
    fn fault(&self, place: usize, what: impl Into<String>) -> Fault {
        let spot = self.spots.get(place).or(self.spots.last());
        match spot {
            Some(Spot { at, path }) => Fault { at: *at, path: path.clone(), what: what.into() },
            None => Fault { at: super::node::ValuePosition::File(0), path: String::new(), what: what.into() },
        }
    }

    fn lock(&self, lock: usize) -> &str {
        self.scope.locks.get(lock).map_or("", String::as_str)
    }

    /// Steps that only a vCPU can do, and vCPUs that are not there.
    fn steps_fit(&self, ops: &[Op], mut place: usize) -> Result<(), Fault> {
        for op in ops {
            match (op, self.scope.vcpus) {
                (Op::Repeat(_, body), _) => self.steps_fit(body, place + 1)?,
                (Op::Pick(ways), _) => {
                    let mut inner = place + 1;
                    for (_, ops) in ways {
                        self.steps_fit(ops, inner + 1)?;
                        inner += 1 + ops.iter().map(places).sum::<usize>();
                    }
                }
                (Op::Ipi(vcpu), Some(vcpus)) if *vcpu >= vcpus => {
                    return Err(self.fault(place, format!("there is no vCPU {vcpu}: they are 0 to {}", vcpus - 1)));
                }
                (Op::Ipi(_) | Op::AwaitIpi | Op::Port { .. } | Op::Mmio { .. }, None)
                | (Op::Hypercall(_) | Op::Cpuid | Op::Lock(_) | Op::Unlock(_) | Op::Submit(_) | Op::Await(_), None) => {
                    return Err(self.fault(place, "a thread of the host only computes, sleeps, sends and receives"));
                }
                _ => {}
            }
            place += places(op);
        }
        Ok(())
    }

    /// Follows the steps. Loops are gone through a second time if the first time changed anything, but with `again`
    /// only: so the work stays within steps times depth.
    fn walk(&self, ops: &[Op], mut place: usize, state: &mut State, again: bool) -> Result<(), Fault> {
        for op in ops {
            match op {
                Op::Lock(lock) => {
                    if state.held(*lock) == Some(true) {
                        let what =
                            format!("lock {:?} is held already: the vCPU would wait for itself", self.lock(*lock));
                        return Err(self.fault(place, what));
                    }
                    state.held.insert(*lock, Some(true));
                }
                Op::Unlock(lock) => {
                    if state.held(*lock) == Some(false) {
                        return Err(self.fault(place, format!("lock {:?} is not held here", self.lock(*lock))));
                    }
                    state.held.insert(*lock, Some(false));
                }
                Op::Receive(_) => state.received = true,
                Op::Reply if !state.received => {
                    return Err(self.fault(place, "a reply, but nothing was received before"));
                }
                Op::Send(_) => state.sent = true,
                Op::AwaitReply if !state.sent => {
                    return Err(self.fault(place, "waits for a reply, but nothing was sent before"));
                }
                Op::Submit(disk) => {
                    state.submitted.insert(*disk);
                }
                Op::Await(disk) if !state.submitted.contains(disk) => {
                    return Err(self.fault(place, "waits for the disk, but nothing was submitted before"));
                }
                Op::Repeat(times, body) => {
                    let before = state.clone();
                    self.walk(body, place + 1, state, again)?;
                    if again && *times != Some(1) && *state != before {
                        self.walk(body, place + 1, state, false)?;
                    }
                }
                Op::Pick(ways) => {
                    let before = state.clone();
                    let mut after: Option<State> = None;
                    let mut inner = place + 1;
                    for (_, ops) in ways {
                        let mut way = before.clone();
                        self.walk(ops, inner + 1, &mut way, again)?;
                        match &mut after {
                            None => after = Some(way),
                            Some(after) => after.join(way),
                        }
                        inner += 1 + ops.iter().map(places).sum::<usize>();
                    }
                    *state = after.unwrap_or(before);
                }
                _ => {}
            }
            place += places(op);
        }
        Ok(())
    }

    /// How many steps are done at most before any takes time; `None` if some step takes time on every way.
    fn instant(&self, ops: &[Op], mut place: usize) -> Result<Option<u64>, Fault> {
        let mut steps = Some(0u64);
        for op in ops {
            let own = match op {
                Op::Repeat(times, body) => match (self.instant(body, place + 1)?, times) {
                    (None, _) => None,
                    (Some(_), None) => {
                        return Err(self.fault(place, "this goes on for ever, but nothing in it takes time"));
                    }
                    (Some(inner), Some(times)) => Some(inner.max(1).saturating_mul(u64::from(*times))),
                },
                Op::Pick(ways) => {
                    let (mut most, mut inner) = (None, place + 1);
                    for (_, ops) in ways {
                        most = most.max(self.instant(ops, inner + 1)?);
                        inner += 1 + ops.iter().map(places).sum::<usize>();
                    }
                    most
                }
                op if self.takes_time(op) => None,
                _ => Some(1),
            };
            steps = steps.zip(own).map(|(steps, own)| steps.saturating_add(own));
            if own.is_some_and(|own| own > MAX_INSTANT) || steps.is_some_and(|steps| steps > MAX_INSTANT) {
                return Err(self.fault(place, format!("more than {MAX_INSTANT} steps without any that takes time")));
            }
            place += places(op);
        }
        Ok(steps)
    }

    /// Whether a step that is no loop takes time, or waits.
    fn takes_time(&self, op: &Op) -> bool {
        match op {
            Op::Compute(span) | Op::Sleep(span) => span.mean() > Picos::ZERO,
            Op::Port { .. } | Op::Mmio { .. } | Op::Hypercall(_) | Op::Cpuid | Op::Ipi(_) => self.scope.exits_take_time,
            Op::Send(channel) => {
                let channel = self.scope.channels.get(*channel);
                self.scope.exits_take_time && channel.is_some_and(|channel| channel.doorbell != Doorbell::Memory)
            }
            Op::AwaitIpi | Op::Await(_) | Op::Receive(_) | Op::AwaitReply => true,
            _ => false,
        }
    }
}
