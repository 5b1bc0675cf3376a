//! Host halt polling decides as a real kernel did: its own tracepoints say after each halt how long the halt was, and
//! before that what it made of it.

use exitscope_policy::host_halt_poll::{HostHaltPoll, Params, PollAdjustment, PollOwner, PollPermission};
use exitscope_units::Nanos;
use std::collections::BTreeMap;

const TRACE: &str = include_str!("host_halt_poll.txt");

/// `vcpu 0: halt_poll_ns 10000 (grow 0)`, as the kernel prints a change.
fn change(text: &str) -> Option<PollAdjustment> {
    let mut words =
        text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').skip_while(|word| *word != "halt_poll_ns");
    let new = Nanos(words.nth(1)?.parse().ok()?);
    let mut rest = words.filter(|word| !word.is_empty());
    let grow = rest.next()? == "grow";
    Some(PollAdjustment { grow, old: Nanos(rest.next()?.parse().ok()?), new })
}

/// `wait time 592688 ns, polling valid`, as the kernel prints the end of a halt.
fn halt(text: &str) -> Option<(Nanos, bool)> {
    let (_, text) = text.split_once(" time ")?;
    let (nanos, validity) = text.split_once(" ns, polling ")?;
    Some((Nanos(nanos.parse().ok()?), validity == "valid"))
}

#[test]
fn every_decision_of_a_real_kernel_is_ours() {
    // Kernels of that age reset instead of halving.
    let params = Params { halt_poll_ns: Nanos(500_000), halt_poll_ns_shrink: 0, ..Params::default() };
    let mut threads: BTreeMap<&str, (Option<HostHaltPoll>, Option<PollAdjustment>)> = BTreeMap::new();
    let (mut grown, mut shrunk, mut kept) = (0, 0, 0);
    for line in TRACE.lines().filter(|line| !line.starts_with('#')) {
        let (thread, text) = line.split_once(' ').unwrap();
        let (vcpu, traced) = threads.entry(thread).or_default();
        if let Some(change) = change(text) {
            *traced = Some(change);
            continue;
        }
        let (length, valid) = halt(text).unwrap();
        let traced = traced.take();
        // The recording begins in the middle: the first change tells where the vCPU is.
        let known = vcpu.or(traced.map(|change| HostHaltPoll::with_poll(PollOwner::Vcpu, change.old.0 as u32)));
        let Some(mut now) = known else { continue };
        now.start(&params, &PollPermission::default());
        assert_eq!(now.finish(&params, &PollPermission::default(), length, valid), traced, "{line}");
        *vcpu = Some(now);
        match traced {
            Some(PollAdjustment { grow: true, .. }) => grown += 1,
            Some(PollAdjustment { grow: false, .. }) => shrunk += 1,
            None => kept += 1,
        }
    }
    // As many of each as the file has lines, but for the first halt of either vCPU.
    assert_eq!((threads.len(), grown, shrunk, kept), (2, 80, 21, 93));
}
