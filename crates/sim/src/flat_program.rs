//! Programs, flattened: nested steps become jumps, so that a strand's place is one number.

use exitscope_scenario::{Op, Program, TimeDistribution};

/// One step of a flat program.
#[derive(Clone, Debug)]
pub(crate) enum Code {
    Compute(TimeDistribution),
    Demand(u32),
    Lock(u32),
    Unlock(u32),
    Port {
        port: u16,
        size: u8,
        write: bool,
        string: bool,
    },
    Mmio {
        address: u64,
        size: u8,
        write: bool,
        value: u64,
    },
    Hypercall(u32),
    Cpuid,
    Sleep(TimeDistribution),
    Ipi(u32),
    AwaitIpi,
    Submit(u32),
    Await(u32),
    Send(u32),
    Receive(u32),
    Reply,
    AwaitReply,
    Count,
    Start,
    Stop,
    /// Sets a loop's counter.
    Begin {
        slot: u32,
        times: u32,
    },
    /// Goes back to `target` while the counter lasts.
    Again {
        slot: u32,
        target: u32,
    },
    Jump(u32),
    /// Goes to the first target whose cumulated weight is above a random number below the last one.
    Pick(Vec<(u32, u32)>),
    /// Idles for good.
    End,
}

/// A flat program.
#[derive(Clone, Debug, Default)]
pub(crate) struct Flat {
    pub(crate) code: Vec<Code>,
    /// How many counters its loops need.
    pub(crate) slots: u32,
}

/// Flattens a program.
pub(crate) fn flatten(program: &Program) -> Flat {
    let mut flat = Flat::default();
    add(program, 0, &mut flat);
    flat.code.push(Code::End);
    flat
}

fn add(steps: &[Op], depth: u32, flat: &mut Flat) {
    for step in steps {
        let code = match step {
            Op::Demand(demand) => Code::Demand(*demand),
            Op::Compute(span) => Code::Compute(*span),
            Op::Lock(lock) => Code::Lock(*lock as u32),
            Op::Unlock(lock) => Code::Unlock(*lock as u32),
            Op::Port { port, size, write, string } => {
                Code::Port { port: *port, size: *size, write: *write, string: *string }
            }
            Op::Mmio { address, size, write, value } => {
                Code::Mmio { address: *address, size: *size, write: *write, value: *value }
            }
            Op::Hypercall(number) => Code::Hypercall(*number),
            Op::Cpuid => Code::Cpuid,
            Op::Sleep(span) => Code::Sleep(*span),
            Op::Ipi(vcpu) => Code::Ipi(*vcpu),
            Op::AwaitIpi => Code::AwaitIpi,
            Op::Submit(disk) => Code::Submit(*disk as u32),
            Op::Await(disk) => Code::Await(*disk as u32),
            Op::Send(channel) => Code::Send(*channel as u32),
            Op::Receive(channel) => Code::Receive(*channel as u32),
            Op::Reply => Code::Reply,
            Op::AwaitReply => Code::AwaitReply,
            Op::Count => Code::Count,
            Op::Start => Code::Start,
            Op::Stop => Code::Stop,
            Op::Repeat(None, body) => {
                let target = flat.code.len() as u32;
                add(body, depth, flat);
                Code::Jump(target)
            }
            Op::Repeat(Some(0), _) => continue,
            Op::Repeat(Some(times), body) => {
                flat.slots = flat.slots.max(depth + 1);
                flat.code.push(Code::Begin { slot: depth, times: *times });
                let target = flat.code.len() as u32;
                add(body, depth + 1, flat);
                Code::Again { slot: depth, target }
            }
            Op::Pick(lists) => {
                pick(lists, depth, flat);
                continue;
            }
        };
        flat.code.push(code);
    }
}

fn pick(lists: &[(u32, Program)], depth: u32, flat: &mut Flat) {
    let at = flat.code.len();
    flat.code.push(Code::End);
    let (mut targets, mut ends, mut weight) = (Vec::new(), Vec::new(), 0u32);
    for (more, steps) in lists {
        weight = weight.saturating_add(*more);
        targets.push((weight, flat.code.len() as u32));
        add(steps, depth, flat);
        ends.push(flat.code.len());
        flat.code.push(Code::End);
    }
    let after = flat.code.len() as u32;
    for end in ends {
        flat.code[end] = Code::Jump(after);
    }
    flat.code[at] = if weight == 0 { Code::Jump(after) } else { Code::Pick(targets) };
}
