//! What a reader asks of a verdict: is that much, which vCPU is worst, how sure is it, and what was not seen.

use crate::names::{all_the_time, percent, share, thousands};
use exitscope_analysis::{Facts, VcpuTime, Verdict, VerdictState};
use exitscope_model::{TimePart, TraceInfo, VcpuIdentity, WhoRow};
use exitscope_units::Nanos;
use std::collections::BTreeMap;

/// vCPUs, or VMs, differ if one loses so many quarters of what another does, …
const QUARTERS: f64 = 1.25;

/// … and so much more of its time.
const APART: f64 = 0.01;

/// A vCPU that was seen for less than one in so many of the longest is compared with none.
const SEEN: u64 = 10;

/// What the texts are of.
pub(crate) struct VerdictContext<'a> {
    pub facts: &'a Facts,
    pub info: &'a TraceInfo,
    pub verdict: &'a Verdict,
    /// CPUs of the machine; 0 if unknown, or if other vCPUs than those selected use them, too.
    pub cpus: u32,
    /// Whether steal was recorded, all of it.
    pub has_steal: bool,
    /// Whether the trace does not say how many events were lost.
    pub untold_losses: bool,
    /// What rules could not judge.
    pub not_judged: Vec<&'static str>,
}

impl VerdictContext<'_> {
    fn is_timed(&self) -> bool {
        !matches!(self.verdict.state, VerdictState::NoExits | VerdictState::NoLengths)
    }

    /// What is compared: how it is called, with its verb, and how much of it a vCPU lost.
    fn measure(&self) -> (&'static str, fn(&VcpuTime) -> Nanos) {
        match self.verdict.state {
            VerdictState::StealDominates => ("steal takes", |of| of.parts.get(TimePart::Steal)),
            VerdictState::PollingBurns => ("polling takes", |of| of.parts.get(TimePart::Polling)),
            _ if self.has_steal => ("cost takes", VcpuTime::cost),
            _ => ("cost and steal take", VcpuTime::cost),
        }
    }

    /// Is that much?
    pub fn amount(&self) -> Option<String> {
        let Verdict { state, time, cost, wall, .. } = *self.verdict;
        if !self.is_timed() {
            return None;
        }
        let seen = self.facts.seen().0.max(1) as f64;
        let cpus = |time: Nanos| all_the_time(Nanos((time.0 as f64 / seen * 1e9) as u64));
        let of = match (self.cpus, self.facts.divisions.len() as u64) {
            (0, 1) => "the one CPU that its vCPU can use".to_string(),
            (0, vcpus) => format!("the {} CPUs that the vCPUs can use", thousands(vcpus)),
            (1, _) => "the host's one CPU".to_string(),
            (cpus, _) => format!("the host's {} CPUs", thousands(u64::from(cpus))),
        };
        let amount = match state {
            VerdictState::MostlyUnknown => format!("exits cost {} CPUs, out of {of}", cpus(cost)),
            VerdictState::Healthy | VerdictState::MostlyHalted => {
                format!("exits cost {} of vCPU time, {} CPUs out of {of}", percent(cost.0, wall.0), cpus(cost))
            }
            VerdictState::StealDominates => {
                let vcpus = self.facts.divisions.len() as u64;
                format!(
                    "on average {} of {} {} for a CPU",
                    cpus(time),
                    thousands(vcpus),
                    if vcpus == 1 { "vCPU waits" } else { "vCPUs wait" }
                )
            }
            _ => format!("that is {} CPUs, out of {of}", cpus(time)),
        };
        Some(self.other_vms().map_or(amount.clone(), |vms| format!("{amount}; {vms}")))
    }

    /// The VM that loses most, beside the others.
    fn other_vms(&self) -> Option<String> {
        let (what, lost) = self.measure();
        let mut vms: BTreeMap<String, (u64, u64)> = BTreeMap::new();
        for (who, of) in &self.facts.divisions {
            let (time, wall) = vms.entry(WhoRow::of(*who, self.info).vm_label()).or_default();
            *time = time.saturating_add(lost(of).0);
            *wall = wall.saturating_add(of.span().0);
        }
        let shares = vms.into_iter().filter(|(_, (_, wall))| *wall > 0);
        let shares = shares.map(|(name, (time, wall))| (name, time as f64 / wall as f64)).collect();
        compared(shares).map(|found| match found {
            Compared::Alike(low, high) => format!("{what} {} of the VMs' time alike", range(low, high)),
            Compared::Worst(name, most, (low, high), _) => {
                format!("{what} {} of {name}'s time, {} of the other VMs'", share(most), range(low, high))
            }
        })
    }

    /// The vCPU that loses most, if they differ.
    pub fn worst_vcpu(&self) -> Option<String> {
        let (what, lost) = self.measure();
        let longest = self.facts.divisions.values().map(|of| of.span().0).max().unwrap_or(0);
        let is_seen = |of: &VcpuTime| of.span().0 > 0 && of.span().0.saturating_mul(SEEN) >= longest;
        let row = |(who, of): (&VcpuIdentity, &VcpuTime)| {
            let row = WhoRow::of(*who, self.info);
            let vm = if row.vm.is_some() { format!(" of {}", row.vm_label()) } else { String::new() };
            (format!("{}{vm}", row.vcpu_label()), lost(of).0 as f64 / of.span().0 as f64)
        };
        let shares = self.facts.divisions.iter().filter(|(_, of)| is_seen(of)).map(row).collect();
        compared(shares).filter(|_| self.is_timed()).map(|found| match found {
            Compared::Alike(low, high) => format!("none: {what} {} of each one's time", range(low, high)),
            Compared::Worst(name, most, (low, high), others) => {
                let others = if others == 1 { "the other's".to_string() } else { format!("the other {others} vCPUs'") };
                format!("{name}: {what} {} of its time, {} of {others}", share(most), range(low, high))
            }
        })
    }

    /// Why the verdict is not doubtful.
    pub fn sure(&self) -> String {
        let Verdict { wall, hidden, unknown, .. } = *self.verdict;
        match hidden.0.saturating_add(unknown.0) {
            0 if self.untold_losses => {
                "no part of vCPU time is unknown; whether events were lost is not recorded".to_string()
            }
            0 => "no part of vCPU time is unknown or lost".to_string(),
            some => format!("the {} of vCPU time that is unknown or lost cannot change it", percent(some, wall.0)),
        }
    }

    /// What was not recorded, and what no rule could judge for that.
    pub fn not_seen(&self) -> Vec<String> {
        // A simulation has nothing that it does not record.
        if self.info.is_simulated() || self.verdict.state == VerdictState::NoExits {
            return Vec::new();
        }
        let kinds = self.facts.event_kinds;
        let missing = [
            (!kinds.tell_steal(), "steal"),
            (kinds.tell_steal() && !kinds.tell_all_steal(), "a part of steal"),
            (!kinds.handlers, "which exits go on to user space"),
            (self.verdict.undivided.0.saturating_mul(100) >= self.verdict.wall.0.max(1), "what halts consist of"),
        ];
        let mut seen: Vec<String> = missing.iter().filter(|row| row.0).map(|row| row.1.to_string()).collect();
        for what in &self.not_judged {
            if !seen.iter().any(|of| of == what) {
                seen.push(what.to_string());
            }
        }
        seen
    }
}

/// Shares, compared.
#[derive(Debug, PartialEq)]
enum Compared {
    /// From the smallest to the largest.
    Alike(f64, f64),
    /// The largest, its size, from the smallest to the largest of the others, and how many these are.
    Worst(String, f64, (f64, f64), usize),
}

/// `None` of fewer than two.
fn compared(mut shares: Vec<(String, f64)>) -> Option<Compared> {
    shares.sort_by(|a, b| b.1.total_cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
    let [(name, most), others @ ..] = &shares[..] else { return None };
    let ((_, high), (_, low)) = (others.first()?, others.last()?);
    Some(match *most >= low * QUARTERS && most - low >= APART {
        true => Compared::Worst(name.clone(), *most, (*low, *high), others.len()),
        false => Compared::Alike(*low, *most),
    })
}

/// `3.0%`, `3.0% to 4.1%`.
fn range(low: f64, high: f64) -> String {
    let (low, high) = (share(low), share(high));
    if low == high { low } else { format!("{low} to {high}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worst_is_named_only_where_they_differ() {
        let of =
            |shares: &[f64]| compared(shares.iter().enumerate().map(|(at, share)| (at.to_string(), *share)).collect());
        assert_eq!(of(&[0.2]), None);
        assert_eq!(of(&[0.2, 0.19]), Some(Compared::Alike(0.19, 0.2)));
        assert_eq!(of(&[0.001, 0.004]), Some(Compared::Alike(0.001, 0.004)), "less than a hundredth apart");
        assert_eq!(of(&[0.1, 0.3, 0.2]), Some(Compared::Worst("1".into(), 0.3, (0.1, 0.2), 2)));
        assert_eq!((range(0.1, 0.1), range(0.1, 0.2)), ("10.0%".to_string(), "10.0% to 20.0%".to_string()));
    }
}
