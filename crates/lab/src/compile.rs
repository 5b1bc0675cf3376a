//! A scenario's programs as steps of the payload.
//!
//! ```text
//! Op::Compute(5us) ─► COMPUTE 12,345 passes     Op::Port ─► PORT_IN, PORT_OUT, PORT_STRING
//! Op::Compute(exponential 5us) ─► COMPUTE_TABLE  Op::Send ─► (the channel's doorbell) SEND
//! Op::Pick ─► PICK CASE … steps JUMP …           Op::Repeat ─► REPEAT … AGAIN
//! ```

use crate::abi::{self, ProgramStep, op};
use crate::compute_speed::ComputeSpeed;
use crate::{LabError, Payload, step};
use exitscope_scenario::{Channel, Doorbell, Op, TimeDistribution};
use exitscope_units::Picos;
use rand::{Rng, SeedableRng};
use rand_distr::{Distribution, Exp1, StandardNormal};
use rand_pcg::Pcg64Mcg;

/// Entries of a table of random lengths.
const TABLE: usize = 512;

/// The port of a channel's doorbell, by its number. One whose doorbell is an eventfd has one there.
pub const fn doorbell_port(channel: u32) -> u16 {
    0xe700 + 4 * channel as u16
}

/// Turns programs into steps.
pub struct Compiler<'a> {
    /// How fast the compute loop is.
    pub speed: ComputeSpeed,
    /// The scenario's channels.
    pub channels: &'a [Channel],
    /// The first of the VM's locks.
    pub first_lock: u32,
    /// The number of the VM's first vCPU.
    pub first_vcpu: u32,
    /// The number of this vCPU.
    pub number: u32,
    /// Where tables of random lengths come from.
    pub random: Pcg64Mcg,
}

impl Compiler<'_> {
    /// The steps of a program. Tables go into the payload's memory.
    pub fn program(&mut self, program: &[Op], payload: &mut Payload) -> Result<Vec<ProgramStep>, LabError> {
        let mut steps = Vec::new();
        self.steps(program, payload, &mut steps)?;
        Ok(steps)
    }

    fn steps(&mut self, program: &[Op], payload: &mut Payload, steps: &mut Vec<ProgramStep>) -> Result<(), LabError> {
        for op in program {
            self.one(op, payload, steps)?;
        }
        Ok(())
    }

    fn one(&mut self, op: &Op, payload: &mut Payload, steps: &mut Vec<ProgramStep>) -> Result<(), LabError> {
        let with = |op, a: u32, b: u64| ProgramStep { op, a, b, c: 0 };
        let step = match *op {
            Op::Compute(span) => {
                let speed = self.speed;
                self.lengths(span, |ns| speed.passes_in(ns), [op::COMPUTE, op::COMPUTE_TABLE], payload)?
            }
            // What code takes from the siblings of a core is the real processor's affair.
            Op::Demand(_) => return Ok(()),
            Op::Sleep(span) => self.lengths(span, |ns| ns.round() as u64, [op::SLEEP, op::SLEEP_TABLE], payload)?,
            Op::Lock(lock) => with(op::LOCK, self.first_lock + lock as u32, 0),
            Op::Unlock(lock) => with(op::UNLOCK, self.first_lock + lock as u32, 0),
            Op::Port { port, size, write, string: true } => {
                ProgramStep { c: u64::from(write), ..with(op::PORT_STRING, size.into(), port.into()) }
            }
            Op::Port { port, size, write: false, .. } => with(op::PORT_IN, size.into(), port.into()),
            Op::Port { port, size, write: true, .. } => with(op::PORT_OUT, size.into(), port.into()),
            Op::Mmio { address, size, write, value } => {
                let outside = abi::MEMORY_SIZE..=u64::from(u32::MAX) - 7;
                if !outside.contains(&address) {
                    return Err(LabError::CannotDo(format!(
                        "the lab's guests have MMIO from {:#x} to 0xffffffff; the scenario has {address:#x}",
                        abi::MEMORY_SIZE
                    )));
                }
                let kind = if write { op::MMIO_WRITE } else { op::MMIO_READ };
                ProgramStep { c: value, ..with(kind, size.into(), address) }
            }
            Op::Hypercall(number) => with(op::HYPERCALL, 0, number.into()),
            Op::Cpuid => step(op::CPUID),
            Op::Ipi(vcpu) => with(op::SEND, abi::ipi_box(self.first_vcpu + vcpu), 0),
            Op::AwaitIpi => with(op::RECEIVE, abi::ipi_box(self.number), 0),
            Op::Submit(disk) => with(op::SUBMIT, disk as u32, 0),
            Op::Await(_) => with(op::RECEIVE, abi::disk_box(self.number), 0),
            Op::Send(channel) => {
                if self.channels.get(channel).is_some_and(|channel| channel.doorbell != Doorbell::Memory) {
                    steps.push(ProgramStep { c: 1, ..with(op::DOORBELL, 2, doorbell_port(channel as u32).into()) });
                }
                with(op::SEND, abi::channel_box(channel as u32), 0)
            }
            Op::Receive(channel) => with(op::RECEIVE, abi::channel_box(channel as u32), 0),
            Op::Reply => step(op::REPLY),
            Op::AwaitReply => with(op::RECEIVE, abi::reply_box(self.number), 0),
            Op::Count => step(op::COUNT_ONE),
            Op::Start => step(op::START),
            Op::Stop => step(op::STOP),
            Op::Repeat(Some(0), _) => return Ok(()),
            Op::Repeat(times, ref inner) => {
                steps.push(with(op::REPEAT, 0, times.map_or(0, u64::from)));
                self.steps(inner, payload, steps)?;
                step(op::AGAIN)
            }
            Op::Pick(ref ways) => return self.pick(ways, payload, steps),
        };
        steps.push(step);
        Ok(())
    }

    /// PICK, a CASE for each way, then the ways, each of which jumps to the end.
    fn pick(
        &mut self,
        ways: &[(u32, Vec<Op>)],
        payload: &mut Payload,
        steps: &mut Vec<ProgramStep>,
    ) -> Result<(), LabError> {
        let weights = ways.iter().map(|(weight, _)| u64::from(*weight)).sum();
        steps.push(ProgramStep { a: ways.len() as u32, b: weights, ..step(op::PICK) });
        let cases = steps.len();
        steps.extend(ways.iter().map(|(weight, _)| ProgramStep { a: *weight, ..step(op::CASE) }));
        let mut ends = Vec::new();
        for (at, (_, inner)) in ways.iter().enumerate() {
            steps[cases + at].b = steps.len() as u64;
            self.steps(inner, payload, steps)?;
            ends.push(steps.len());
            steps.push(step(op::JUMP));
        }
        let end = steps.len() as u64;
        ends.into_iter().for_each(|jump| steps[jump].b = end);
        Ok(())
    }

    /// A length as a step: fixed, or by a table of random ones. `of_ns` turns nanoseconds into the step's unit.
    fn lengths(
        &mut self,
        span: TimeDistribution,
        of_ns: impl Fn(f64) -> u64,
        ops: [u32; 2],
        payload: &mut Payload,
    ) -> Result<ProgramStep, LabError> {
        let units = |picos: f64| of_ns(picos.max(0.0) / 1e3);
        if let TimeDistribution::Fixed(length) = span {
            return Ok(ProgramStep { b: units(length.0 as f64), ..step(ops[0]) });
        }
        let draws: Vec<u32> =
            (0..TABLE).map(|_| u32::try_from(units(draw(span, &mut self.random))).unwrap_or(u32::MAX)).collect();
        Ok(ProgramStep { a: TABLE as u32, b: payload.table(&draws)?, ..step(ops[1]) })
    }
}

/// A random length, in picoseconds.
pub fn draw(span: TimeDistribution, random: &mut impl Rng) -> f64 {
    let picos = |length: Picos| length.0 as f64;
    match span {
        TimeDistribution::Fixed(length) => picos(length),
        TimeDistribution::Uniform(low, high) => picos(low) + (picos(high) - picos(low)) * random.random::<f64>(),
        TimeDistribution::Exponential(mean) => picos(mean) * Distribution::<f64>::sample(&Exp1, random),
        TimeDistribution::Normal(mean, deviation) => {
            picos(mean) + picos(deviation) * Distribution::<f64>::sample(&StandardNormal, random)
        }
    }
}

/// The generator of a scenario's seed, for thing number `thing`.
pub fn generator(seed: u64, thing: u64) -> Pcg64Mcg {
    Pcg64Mcg::seed_from_u64(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(thing))
}
