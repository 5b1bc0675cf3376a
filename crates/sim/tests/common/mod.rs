//! What scenarios of these tests are made of.

use exitscope_scenario::{Op, Program, TimeDistribution};
use exitscope_units::Picos;

pub fn us(micros: u64) -> Picos {
    Picos::from_nanos(micros * 1_000)
}

pub fn compute(micros: u64) -> Op {
    Op::Compute(TimeDistribution::Fixed(us(micros)))
}

pub fn forever(steps: Vec<Op>) -> Program {
    vec![Op::Repeat(None, steps)]
}
