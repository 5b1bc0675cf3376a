//! Figures as people read them, on the screen and in the text of `--batch`.

use crate::frame::{Frame, LiveVerdict, TopCause, TopGangRow, TopOverhead, VmRow};
use exitscope_analysis::VerdictState;
use exitscope_live::KvmHalts;
use exitscope_view::{VerdictRow, length, plural, rate, share, thousands};
use std::collections::BTreeMap;

/// Bars of a histogram: one for each doubling from 1 us to 17 s.
const FIRST_DOUBLING: u32 = 10;
const DOUBLINGS: usize = 24;

/// What the bars stand for, as wide as they are: every fifth doubling.
pub const BARS_TITLE: &str = "1us  33us 1ms  34ms 1s  ";

/// The route and its cost.
pub fn route(frame: &Frame) -> String {
    match &frame.bpf_error {
        None => "counted in the kernel by BPF".to_string(),
        Some(because) => format!("by perf events, as BPF may not be used ({because})"),
    }
}

/// A share; `-` of what was not measured.
pub fn measured(of: Option<f64>) -> String {
    of.map_or("-".to_string(), share)
}

/// What watching costs: where events happen, and besides. Perf events are never measured.
pub fn own(frame: &Frame) -> [String; 2] {
    let TopOverhead { cpus, ns_per_event, vcpu_share, .. } = frame.overhead;
    let cost = match frame.bpf_error {
        Some(_) => "cost per event not measured".to_string(),
        None => {
            let ns = ns_per_event.map_or("-".to_string(), |ns| format!("{ns:.0}"));
            format!("{ns} ns an event, {} of the vCPUs' time", measured(vcpu_share))
        }
    };
    [cost, format!("exitscope: {} of a CPU", share(cpus))]
}

/// The verdict as a sentence, and what makes it doubtful.
pub fn verdict(live: &LiveVerdict) -> (String, Option<String>) {
    let VerdictRow { text, doubts, .. } = &live.verdict;
    let is_told = !VerdictState::UNTOLD.contains(&live.verdict.state);
    let word = if live.verdict.is_doubtful { "Doubtful: " } else { "" };
    let doubts = (is_told && !doubts.is_empty()).then(|| format!("{word}{}", doubts.join("; ")));
    (if is_told { format!("Last {:.1} s: {text}", live.seconds) } else { text.clone() }, doubts)
}

/// The costliest cause in a line, with what may change it; nothing of one of which only a recording tells more.
pub fn cause(live: &LiveVerdict) -> Option<String> {
    let TopCause { name, cost, changes, inherent } = live.costliest_cause.as_ref()?;
    let said = match (&changes[..], inherent) {
        ([], None) => return None,
        ([], Some(why)) => format!("inherent: {why}"),
        ([change], _) => format!("may help: {change} (R records and judges it)"),
        ([change, others @ ..], _) => {
            let others = number_of(others.len(), "other change");
            format!("may help: {change}, or {others} (R records and judges them)")
        }
    };
    Some(format!("{name}, {} of vCPU time; {said}", share(*cost)))
}

/// How long exits took: how many from each doubling on.
fn doublings(lengths: &[(u64, u64)]) -> [u64; DOUBLINGS] {
    let mut counts = [0; DOUBLINGS];
    for &(ns, count) in lengths {
        let doubling = ns.max(1).ilog2().saturating_sub(FIRST_DOUBLING) as usize;
        counts[doubling.min(DOUBLINGS - 1)] += count;
    }
    counts
}

/// The same, from the first doubling of which there are some to the last: below what length they are, and how many.
pub fn by_length(lengths: &[(u64, u64)]) -> Vec<(String, u64)> {
    let counts = doublings(lengths);
    let has_some = |count: &u64| *count > 0;
    let (Some(first), Some(last)) = (counts.iter().position(has_some), counts.iter().rposition(has_some)) else {
        return Vec::new();
    };
    let name = |at: usize| match 1_u64 << (FIRST_DOUBLING as usize + 1 + at) {
        _ if at == DOUBLINGS - 1 => format!("{} and more", length(Some(1 << (FIRST_DOUBLING as usize + at)))),
        below => format!("< {}", length(Some(below))),
    };
    (first..=last).map(|at| (name(at), counts[at])).collect()
}

/// How long exits took, as bars of [`BARS_TITLE`].
pub fn bars(lengths: &[(u64, u64)]) -> String {
    let counts = doublings(lengths);
    let most = counts.iter().copied().max().unwrap_or(0).max(1);
    counts.into_iter().map(|count| bar(count, most)).collect()
}

/// A bar of a height out of `most`; nothing only for none.
pub fn bar(height: u64, most: u64) -> char {
    const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    match height {
        0 => ' ',
        height => BARS[((height * 8).div_ceil(most) as usize).clamp(1, 8) - 1],
    }
}

/// A bar that lies, of a length out of `most`, in `room` columns; a sliver for little, nothing only for none.
pub fn lying_bar(length: u64, most: u64, room: usize) -> String {
    const PARTS: [char; 8] = ['▏', '▎', '▍', '▌', '▋', '▊', '▉', '█'];
    if length == 0 || most == 0 {
        return String::new();
    }
    let eighths = (u128::from(length) * 8 * room as u128).div_ceil(u128::from(most)) as usize;
    let rest = eighths % 8;
    let mut bar = "█".repeat(eighths / 8);
    bar.extend((rest > 0).then(|| PARTS[rest - 1]));
    bar
}

/// The time of day, in UTC.
pub fn time_of_day(seconds: f64) -> String {
    let seconds = seconds as u64 % 86_400;
    format!("{:02}:{:02}:{:02} UTC", seconds / 3_600, seconds / 60 % 60, seconds % 60)
}

/// `3 VMs, 8 vCPUs`.
pub fn how_many(frame: &Frame) -> String {
    let vcpus: usize = frame.vms.iter().map(|vm| vm.vcpus.len()).sum();
    format!("{}, {}", number_of(frame.vms.len(), "VM"), number_of(vcpus, "vCPU"))
}

/// `1 VM`, `70,000 VMs`.
pub fn number_of(count: usize, what: &str) -> String {
    format!("{} {}", thousands(count as u64), plural(count as u64, what))
}

/// KVM's own count of one way in which halts went.
pub struct KvmHaltRow<'a> {
    pub name: &'static str,
    pub count: String,
    /// Of polls, of how many; asleep, nothing.
    pub share: String,
    pub mean: String,
    pub time: String,
    pub lengths: &'a [(u64, u64)],
}

/// What KVM itself counts of halts.
pub fn kvm_halts(halts: &KvmHalts) -> [KvmHaltRow<'_>; 3] {
    let failed = halts.attempted_polls.saturating_sub(halts.successful_polls);
    // How often it slept only the histogram says.
    let slept = halts.wait_histogram.iter().map(|(_, count)| count).sum::<u64>();
    let row = |name, count: u64, all: u64, ns: u64, lengths| KvmHaltRow {
        name,
        count: if count == 0 && ns > 0 { "-".into() } else { thousands(count) },
        share: if all == 0 { "-".into() } else { share(count as f64 / all as f64) },
        mean: length(ns.checked_div(count)),
        time: length(Some(ns)),
        lengths,
    };
    [
        row(
            "successful poll",
            halts.successful_polls,
            halts.attempted_polls,
            halts.poll_success_ns,
            &halts.poll_success_histogram,
        ),
        row("failed poll", failed, halts.attempted_polls, halts.poll_fail_ns, &halts.poll_fail_histogram),
        row("blocked", slept, 0, halts.wait_ns, &halts.wait_histogram),
    ]
}

/// Where KVM's own counters are from.
pub fn kvm_source(halts: &KvmHalts) -> String {
    match halts.source {
        "descriptors" => "KVM's own: its statistics, by the descriptors that the VMM keeps open".into(),
        _ => "KVM's own: by debugfs, which has no histograms".into(),
    }
}

/// Why some of these VMs have none.
pub fn no_kvm(vms: &[&VmRow]) -> Vec<String> {
    let mut reasons: BTreeMap<&str, usize> = BTreeMap::new();
    vms.iter().filter_map(|vm| vm.no_kvm_halts.as_deref()).for_each(|why| *reasons.entry(why).or_default() += 1);
    let said = |(why, count)| match vms.len() {
        1 => format!("KVM's own counters are not shown: {why}"),
        all => format!("KVM's own counters of {count} of {all} VMs are not shown: {why}"),
    };
    reasons.into_iter().map(said).collect()
}

/// What became of a VM's virtual cores' runs.
pub fn gangs(gangs: &TopGangRow) -> [String; 2] {
    [
        format!(
            "{} core runs/s, {} ended for working threads by another thread's exit",
            rate(gangs.runs_per_s),
            measured(gangs.ganged)
        ),
        format!(
            "{} exits/s were forced, {} of all; {} of the vCPUs' time was lost by that",
            rate(gangs.forced_exits_per_s),
            measured(gangs.forced_exits),
            measured(gangs.forced_out)
        ),
    ]
}

/// What went missing, if anything did.
pub fn lost(frame: &Frame) -> Option<String> {
    (frame.lost > 0)
        .then(|| format!("{} {} lost: map or ring full", thousands(frame.lost), plural(frame.lost, "event")))
}

/// Which events of the scheduler nobody looked at, if there were any.
pub fn missed(frame: &Frame) -> Option<String> {
    (frame.missed > 0).then(|| format!("{} of the scheduler's events missed", thousands(frame.missed)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use exitscope_units::Nanos;

    #[test]
    fn what_the_schedulers_programs_missed_is_said_if_there_is_any() {
        assert_eq!(missed(&Frame::default()), None);
        let said = missed(&Frame { missed: 1_234, ..Frame::default() });
        assert_eq!(said.as_deref(), Some("1,234 of the scheduler's events missed"));
    }

    #[test]
    fn every_tick_of_the_bars_stands_where_its_length_is_counted_and_apart_from_the_next() {
        let mut ticks = 0;
        for tick in BARS_TITLE.split_whitespace() {
            let at = BARS_TITLE.find(&format!("{tick} ")).unwrap();
            let counted = bars(&[(1 << (FIRST_DOUBLING as usize + at), 1)]);
            assert_eq!(counted.trim_end().chars().count(), at + 1, "{tick}");
            // 1.02us, 32.8us, … without their decimals.
            let low = Nanos(1 << (FIRST_DOUBLING as usize + at)).to_string();
            let (number, unit) = low.split_at(low.find(|c: char| c.is_ascii_alphabetic()).unwrap());
            assert_eq!(format!("{:.0}{unit}", number.parse::<f64>().unwrap()), tick);
            ticks += 1;
        }
        assert_eq!(ticks, 5, "each is followed by a space");
    }

    #[test]
    fn what_was_not_measured_is_not_nothing() {
        let unmeasured = TopOverhead { cpus: 0.031, events_per_s: 900.0, ..TopOverhead::default() };
        let by_events = Frame { bpf_error: Some("no".into()), overhead: unmeasured, ..Frame::default() };
        assert_eq!(own(&by_events), ["cost per event not measured", "exitscope: 3.1% of a CPU"]);
        let by_bpf = |ns_per_event, vcpu_share| {
            let overhead = TopOverhead { ns_per_event, vcpu_share, ..unmeasured };
            own(&Frame { overhead, ..Frame::default() })[0].clone()
        };
        assert_eq!(by_bpf(None, None), "- ns an event, - of the vCPUs' time");
        // No vCPU ran in the interval.
        assert_eq!(by_bpf(Some(123.4), None), "123 ns an event, - of the vCPUs' time");
        assert_eq!(by_bpf(Some(123.4), Some(0.004)), "123 ns an event, 0.4% of the vCPUs' time");
    }

    #[test]
    fn bars_are_as_wide_as_their_title() {
        assert_eq!(bars(&[]).chars().count(), BARS_TITLE.len());
        let bars = bars(&[(500, 1), (1_024, 3), (5_000, 8), (1 << 37, 1)]);
        assert_eq!((bars.chars().next(), bars.chars().nth(2), bars.chars().last()), (Some('▄'), Some('█'), Some('▁')));
        assert_eq!(time_of_day(86_399.9), "23:59:59 UTC");
    }
}
