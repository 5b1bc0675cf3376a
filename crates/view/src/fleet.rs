//! What differs within a fleet, as plain data, and as a page.

use crate::compare::{ChangeRow, ReasonComparison};
use crate::headline::Headline;
use crate::names::{plural, thousands};
use crate::page::{Page, PageSection, Sentence, Table, changes, column};
use exitscope_analysis::fleet::FEWEST;
use exitscope_analysis::{DiffMeasure, FEWEST_RECORDINGS};
use exitscope_stats::holm;
use exitscope_units::Nanos;
use schemars::JsonSchema;
use serde::Serialize;

/// What differs within a fleet. Figures per second are per second of a vCPU.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Fleet {
    /// Name and version of this layout. Fields may be added within a version; none changes its meaning.
    pub schema: &'static str,
    /// The largest certain difference in cost, or that none is certain.
    pub verdict: Headline,
    /// Recordings of the store that are in this report: those from the days that were asked for.
    pub recordings: u64,
    /// Hosts that these recordings were made on.
    pub hosts: u64,
    /// The day of the earliest of these recordings, as YYYY-MM-DD; empty if there is none.
    pub first_day: String,
    /// The day of the latest of these recordings, as YYYY-MM-DD; empty if there is none.
    pub last_day: String,
    /// Exits in these recordings.
    pub exits: u64,
    /// Records that the recorders of these recordings lost: exits are too few by about as many.
    pub lost: u64,
    /// Files of the store that could not be read; nothing in them is counted here.
    pub left_out: Vec<LeftOutFile>,
    /// By what recordings are put on sides: `kernel`, `host`, `week` or `day`.
    pub by: FleetBy,
    /// What the others are compared with; absent if there are no others.
    pub against: Option<String>,
    /// Confidence of the intervals, in per cent.
    pub confidence_percent: f64,
    /// Each of the others, shape by shape.
    pub comparisons: Vec<FleetComparison>,
    /// What is on one side only, and so is not compared.
    pub not_compared: Vec<String>,
    /// Hosts whose VMs cost far more or less than is usual for their shape, the farthest first.
    pub outliers: Vec<Outlier>,
    /// What is advised by the newest recording of each host, on most hosts first.
    pub advice: Vec<FleetAdvice>,
}

/// A file that could not be read.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct LeftOutFile {
    /// Its path, below the store.
    pub path: String,
    /// Why it was left out.
    pub why: String,
}

/// VMs that may be compared with one another.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
pub struct Shape {
    /// Machine architecture; empty if unknown.
    pub arch: String,
    /// The CPU's model; empty if unknown.
    pub cpu: String,
    /// vCPUs that a VM has; 0 if unknown.
    pub vcpus: u32,
}

impl std::fmt::Display for Shape {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.vcpus {
            0 => write!(f, "VMs")?,
            1 => write!(f, "VMs of 1 vCPU")?,
            vcpus => write!(f, "VMs of {vcpus} vCPUs")?,
        }
        match (self.cpu.as_str(), self.arch.as_str()) {
            ("", "") => write!(f, " on unknown CPUs"),
            ("", arch) => write!(f, " on {arch}"),
            (cpu, _) => write!(f, " on {cpu}"),
        }
    }
}

/// Who is on one side of a comparison.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct FleetSide {
    /// Hosts with recordings on this side.
    pub hosts: u64,
    /// Recordings on this side.
    pub recordings: u64,
    /// Time recorded, times the vCPUs that ran, in nanoseconds.
    pub vcpu_ns: u64,
}

impl FleetSide {
    fn units(&self, unit: FleetUnit) -> u64 {
        match unit {
            FleetUnit::Hosts => self.hosts,
            FleetUnit::Recordings => self.recordings,
        }
    }
}

/// By what a fleet is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum FleetBy {
    /// Kernel releases.
    Kernel,
    /// Hosts.
    Host,
    /// Weeks, as 2026-W47.
    Week,
    /// Days.
    Day,
}

impl FleetBy {
    /// As in JSON.
    pub const fn name(self) -> &'static str {
        match self {
            FleetBy::Kernel => "kernel",
            FleetBy::Host => "host",
            FleetBy::Week => "week",
            FleetBy::Day => "day",
        }
    }

    /// What a side consists of.
    pub const fn unit(self) -> FleetUnit {
        match self {
            FleetBy::Host => FleetUnit::Recordings,
            FleetBy::Kernel | FleetBy::Week | FleetBy::Day => FleetUnit::Hosts,
        }
    }
}

/// What a side of a comparison consists of, which is drawn as a whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FleetUnit {
    /// Hosts.
    Hosts,
    /// Recordings, where hosts are compared.
    Recordings,
}

impl FleetUnit {
    const fn name(self) -> &'static str {
        match self {
            FleetUnit::Hosts => "hosts",
            FleetUnit::Recordings => "recordings",
        }
    }
}

/// VMs of one shape, with one kernel (or week, …) and with another.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct FleetComparison {
    /// The kernel, host, week or day that is compared with `against`.
    pub value: String,
    /// The shape of the VMs that are compared: CPU model, architecture and number of vCPUs.
    pub shape: Shape,
    /// What the store has of `against`: VMs of this shape alone.
    pub before: FleetSide,
    /// What the store has of `value`: VMs of this shape alone.
    pub after: FleetSide,
    /// Whether a side has fewer than two hosts (recordings, where hosts are compared). Then no difference is called certain:
    /// verdicts are `too few`, and intervals cover only what differs over time.
    pub too_few: bool,
    /// All reasons together first, then reason by reason, most costly first.
    pub rows: Vec<ReasonComparison>,
    /// Reasons left out by --top.
    pub rows_left_out: usize,
}

impl FleetComparison {
    /// VMs of one shape, of two sides `by` which a fleet is compared. What one host on a side says is not certain.
    pub fn new(
        by: FleetBy,
        value: String,
        shape: Shape,
        sides: [FleetSide; 2],
        mut rows: Vec<ReasonComparison>,
    ) -> FleetComparison {
        let [before, after] = sides;
        let too_few = before.units(by.unit()).min(after.units(by.unit())) < FEWEST_RECORDINGS as u64;
        if too_few {
            for change in rows.iter_mut().flat_map(|row| &mut row.changes) {
                change.verdict = "too few";
            }
        }
        ReasonComparison::set_shares(&mut rows);
        FleetComparison { value, shape, before, after, too_few, rows, rows_left_out: 0 }
    }

    /// Shows so many reasons; all of them together are a row besides.
    pub fn top(mut self, reasons: usize) -> FleetComparison {
        let shown = reasons.saturating_add(1);
        self.rows_left_out = self.rows.len().saturating_sub(shown);
        self.rows.truncate(shown);
        self
    }
}

/// A host that is far from the others.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Outlier {
    /// The host that stands out.
    pub host: String,
    /// The shape of the VMs for which it does.
    pub shape: Shape,
    /// Hosts with VMs of this shape, this one included.
    pub hosts: u64,
    /// What exits of these VMs cost on this host, in nanoseconds per second of a vCPU.
    pub cost_ns_per_s: f64,
    /// The median of that over all hosts with VMs of this shape.
    pub median_ns_per_s: f64,
    /// How far it is from all other hosts with VMs of this shape, by ratios, in parts of what is certain at 95 % for all of these
    /// hosts together: beyond 1 or -1.
    pub score: f64,
    /// The reason that is farthest from its own median.
    pub reason: String,
    /// What exits for that reason cost on this host, in nanoseconds per second of a vCPU.
    pub reason_ns_per_s: f64,
    /// The median of that over all hosts with VMs of this shape.
    pub reason_median_ns_per_s: f64,
}

/// Something to change on many hosts.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct FleetAdvice {
    /// The change that is advised.
    pub change: String,
    /// Hosts whose newest recording has this advice.
    pub hosts: u64,
    /// The kind of time that it wins: `exits`, `wake_ups`, `host_cpu`, `steal`, `forced_out`.
    pub gain_kind: String,
    /// Lower bound of the gain, in nanoseconds per second, all these hosts together.
    pub low_ns_per_s: u64,
    /// Upper bound of the gain, in nanoseconds per second, all these hosts together.
    pub high_ns_per_s: u64,
    /// How the gain was got: `replayed`, `counted`, `simulated`, `published`.
    pub method: String,
}

impl Fleet {
    /// The name and version of the layout.
    pub const SCHEMA: &'static str = "exitscope.fleet/1";

    /// What is certain of the cost, the largest difference first: of all exits together, and of reasons, each of these corrected for all
    /// comparisons.
    fn certain(&self) -> Vec<(&FleetComparison, &ReasonComparison, &ChangeRow)> {
        let level = 1.0 - self.confidence_percent / 100.0;
        let cost = |row: &'_ ReasonComparison| row.changes.iter().position(|change| change.of == DiffMeasure::Cost);
        let mut certain = Vec::new();
        for of_reasons in [false, true] {
            let rows = self.comparisons.iter().flat_map(|of| of.rows.iter().map(move |row| (of, row)));
            let rows = rows.filter(|(_, row)| row.reason.is_some() == of_reasons);
            let costs: Vec<_> = rows.filter_map(|(of, row)| Some((of, row, &row.changes[cost(row)?]))).collect();
            let p_values: Vec<_> = costs.iter().map(|(.., change)| change.p_value).collect();
            let of_all = costs.into_iter().zip(holm(&p_values, level));
            certain.extend(of_all.filter(|(of, is)| *is && of.2.verdict_is_clear()).map(|of| of.0));
        }
        let size = |change: &ChangeRow| (change.after.unwrap_or(0.0) - change.before.unwrap_or(0.0)).abs();
        certain.sort_by(|a, b| size(b.2).total_cmp(&size(a.2)));
        certain
    }

    /// What it comes to.
    pub fn headline(&self) -> Headline {
        let certain = self.certain();
        let against = self.against.as_deref().unwrap_or_default();
        let none = certain.is_empty();
        let few = uncertain(self, none);
        let (state, text) = match certain.first() {
            Some((of, row, change)) => {
                let state = if change.verdict == "more" { "worse" } else { "better" };
                (state, verdict(of, against, row, change))
            }
            None => {
                let is_judged = self.comparisons.iter().any(|of| !of.too_few);
                let state = if is_judged { "no_clear_difference" } else { "cannot_tell" };
                (state, few.clone().unwrap_or_default().trim_end_matches('.').to_string())
            }
        };
        let rest = certain.len().saturating_sub(1);
        let more = (rest > 0).then(|| {
            let noun = plural(rest as u64, "difference");
            format!("{} more {noun} in cost certain, listed below, largest first", thousands(rest as u64))
        });
        let mut doubts = Vec::new();
        if self.lost > 0 {
            let were = if self.lost == 1 { "record was" } else { "records were" };
            doubts.push(format!("{} {were} lost", thousands(self.lost)));
        }
        if !self.left_out.is_empty() {
            let noun = plural(self.left_out.len() as u64, "file");
            doubts.push(format!("{} {noun} could not be read", thousands(self.left_out.len() as u64)));
        }
        Headline {
            state: state.to_string(),
            text,
            details: more.into_iter().chain(few.filter(|_| !none)).collect(),
            is_doubtful: !doubts.is_empty(),
            doubts,
        }
    }
}

/// The page of a fleet.
pub fn fleet_page(fleet: &Fleet) -> Page {
    let mut sections = vec![fleet.verdict.section(), head(fleet), verdicts(fleet)];
    for of in &fleet.comparisons {
        let against = fleet.against.as_deref().unwrap_or_default();
        let (before, after) = (&of.before, &of.after);
        let title = format!(
            "{against} and {}, {} ({} and {} {}), {} % confidence",
            of.value,
            of.shape,
            before.hosts,
            after.hosts,
            plural(after.hosts, "host"),
            fleet.confidence_percent
        );
        let unit = fleet.by.unit();
        let note = match (unit, before.units(unit).min(after.units(unit))) {
            (FleetUnit::Recordings, 1) => {
                "With one recording on a side, the intervals cover variation over time in it, but not variation from \
                 one recording to the next. Rates and cost are per second of a vCPU."
            }
            (FleetUnit::Hosts, 1) => {
                "With one host on a side, the intervals cover variation over time there, but not variation from host \
                 to host. Rates and cost are per second of a vCPU."
            }
            _ => "Rates and cost are per second of a vCPU.",
        };
        sections.push(changes(title, &of.rows, of.rows_left_out, true, note));
    }
    sections.push(outliers(fleet));
    sections.extend(advice(fleet));
    Page { sections }
}

fn head(fleet: &Fleet) -> PageSection {
    let days = match fleet.first_day == fleet.last_day {
        true => fleet.first_day.clone(),
        false => format!("{} to {}", fleet.first_day, fleet.last_day),
    };
    let mut sentences = vec![Sentence {
        text: format!(
            "{} {} of {} {}, {days}: {} exits, {} lost",
            thousands(fleet.recordings),
            plural(fleet.recordings, "recording"),
            thousands(fleet.hosts),
            plural(fleet.hosts, "host"),
            thousands(fleet.exits),
            thousands(fleet.lost)
        ),
        warning: fleet.lost > 0,
    }];
    let left_out =
        |file: &LeftOutFile| Sentence { text: format!("left out: {}: {}", file.path, file.why), warning: true };
    sentences.extend(fleet.left_out.iter().map(left_out));
    sentences.extend(fleet.not_compared.iter().map(|text| Sentence { text: text.clone(), warning: false }));
    PageSection { title: "Fleet".into(), sentences, ..PageSection::default() }
}

/// What is certain, in words, the largest difference first.
fn verdicts(fleet: &Fleet) -> PageSection {
    let against = fleet.against.as_deref().unwrap_or_default();
    let certain = fleet.certain();
    let mut sentences: Vec<Sentence> = certain
        .iter()
        .map(|(of, row, change)| Sentence {
            text: verdict(of, against, row, change),
            warning: change.verdict == "more",
        })
        .collect();
    sentences.extend(uncertain(fleet, certain.is_empty()).map(|text| Sentence { text, warning: false }));
    PageSection { title: format!("What differs by {}", fleet.by.name()), sentences, ..PageSection::default() }
}

/// What is not certain, and why, if `none` is or some are not.
fn uncertain(fleet: &Fleet, none: bool) -> Option<String> {
    let few = fleet.comparisons.iter().filter(|of| of.too_few).count();
    let too_few = format!("fewer than {FEWEST_RECORDINGS} {} on a side", fleet.by.unit().name());
    match (&fleet.against, fleet.comparisons.len()) {
        (Some(_), all) if few > 0 && few == all => {
            Some(format!("Doubtful: {too_few}{}.", if all > 1 { " in every comparison" } else { "" }))
        }
        (Some(_), all) if few > 0 => Some(format!("Doubtful in {few} of {all} comparisons: {too_few}.")),
        (Some(_), all) if all > 0 => none.then(|| format!("No difference in cost is certain{}.", needed(fleet))),
        _ => Some(format!("There is nothing to compare by {}.", fleet.by.name())),
    }
}

/// How many hosts or recordings a side would make the differences that were seen clear.
fn needed(fleet: &Fleet) -> String {
    let cost = |of: &FleetComparison| of.rows.iter().find(|row| row.reason.is_none())?.changes.first()?.needed;
    let needed: Vec<usize> = fleet.comparisons.iter().filter_map(cost).collect();
    let unit = fleet.by.unit().name();
    match (needed.iter().min(), needed.iter().max()) {
        (Some(least), Some(most)) if least == most => {
            format!("; one as large as that seen would take {least} {unit} a side")
        }
        (Some(least), Some(most)) => format!("; those as large as seen would take {least} to {most} {unit} a side"),
        _ => String::new(),
    }
}

fn verdict(of: &FleetComparison, against: &str, row: &ReasonComparison, change: &ChangeRow) -> String {
    let whose = match &row.reason {
        Some(reason) => format!("{reason} exits"),
        None if row.without.is_empty() => "all exits together".to_string(),
        None => format!("{} together", row.name()),
    };
    let how_much = match change.percent().trim_start_matches(['+', '-']) {
        "" => String::new(),
        percent => format!("{percent} "),
    };
    format!(
        "{} costs {how_much}{} in {whose} than {against}, {}: {} with {against}, {} with {} ({})",
        of.value,
        change.verdict,
        of.shape,
        change.text(change.before),
        change.text(change.after),
        of.value,
        change.interval_text(),
    )
}

fn outliers(fleet: &Fleet) -> PageSection {
    let columns = vec![
        column("host", true, 0),
        column("VMs", true, 2),
        column("cost", false, 0),
        column("usual", false, 0),
        column("score", false, 3),
        column("most of it", true, 0),
        column("cost", false, 1),
        column("usual", false, 1),
    ];
    let text = |ns: f64| format!("{}/s", Nanos(ns.round() as u64));
    let row = |of: &Outlier| {
        vec![
            of.host.clone(),
            of.shape.to_string(),
            text(of.cost_ns_per_s),
            text(of.median_ns_per_s),
            format!("{:+.1}", of.score),
            of.reason.clone(),
            text(of.reason_ns_per_s),
            text(of.reason_median_ns_per_s),
        ]
    };
    let title = "Hosts that stand out".into();
    if fleet.outliers.is_empty() {
        let fewest = FEWEST as u64;
        let none = match fleet.hosts < fewest {
            true => format!(
                "not judged: it takes {fewest} hosts with VMs of the same shape to say who stands out, and these are of {} {}.",
                thousands(fleet.hosts),
                plural(fleet.hosts, "host")
            ),
            false => format!("None, among the shapes of VMs that {fewest} hosts or more have."),
        };
        return PageSection { title, notes: vec![none], ..PageSection::default() };
    }
    PageSection {
        title,
        table: Some(Table { columns, rows: fleet.outliers.iter().map(row).collect() }),
        notes: vec![
            "cost: of exits, per second of a vCPU; usual: the median of the hosts with such VMs; score: how far \
             the host is from all others, in parts of what is certain at 95 % for all hosts together; above 1 or below -1 \
             for the hosts listed."
                .to_string(),
        ],
        ..PageSection::default()
    }
}

fn advice(fleet: &Fleet) -> Option<PageSection> {
    let sentence = |of: &FleetAdvice| {
        let (low, high) = (Nanos(of.low_ns_per_s), Nanos(of.high_ns_per_s));
        let gain = match (low.0, high.0) {
            (low_ns, high_ns) if low_ns == high_ns => format!("{low}/s"),
            (0, _) => format!("up to {high}/s"),
            _ => format!("{low} to {high}/s"),
        };
        let hosts = format!("on {} {}", thousands(of.hosts), plural(of.hosts, "host"));
        let text = format!("{hosts}, gain {gain} of {} ({}): {}", of.gain_kind.replace('_', " "), of.method, of.change);
        Sentence { text, warning: false }
    };
    (!fleet.advice.is_empty()).then(|| PageSection {
        title: "What is advised".into(),
        sentences: fleet.advice.iter().map(sentence).collect(),
        notes: vec![
            "From the newest recording of each host. Run `exitscope advise` on that recording for the steps, the \
             evidence and who pays."
                .to_string(),
        ],
        ..PageSection::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A comparison of which the bootstrap of whatever hosts there are says "more".
    fn comparison(by: FleetBy, hosts: [u64; 2], recordings: [u64; 2]) -> FleetComparison {
        let side = |at: usize| FleetSide { hosts: hosts[at], recordings: recordings[at], vcpu_ns: 1_000_000_000 };
        let change = ChangeRow {
            measure: "cost_ns_per_s",
            of: DiffMeasure::Cost,
            before: Some(100.0),
            after: Some(120.0),
            low: Some(10.0),
            high: Some(30.0),
            p_value: Some(0.001),
            needed: Some(4),
            verdict: "more",
        };
        let row = ReasonComparison {
            reason: Some("msr".to_string()),
            without: Vec::new(),
            count_before: 100,
            count_after: 100,
            share_of_cost: None,
            changes: vec![change],
        };
        let shape = Shape { arch: "x86_64".to_string(), cpu: "A CPU".to_string(), vcpus: 4 };
        FleetComparison::new(by, "6.8.0".to_string(), shape, [side(0), side(1)], vec![row])
    }

    fn fleet(by: FleetBy, comparisons: Vec<FleetComparison>) -> Fleet {
        Fleet {
            schema: Fleet::SCHEMA,
            verdict: Headline::default(),
            recordings: 10,
            hosts: 10,
            first_day: String::new(),
            last_day: String::new(),
            exits: 0,
            lost: 0,
            left_out: Vec::new(),
            by,
            against: Some("6.1.0".to_string()),
            confidence_percent: 95.0,
            comparisons,
            not_compared: Vec::new(),
            outliers: Vec::new(),
            advice: Vec::new(),
        }
    }

    #[test]
    fn nothing_is_certain_of_one_host_on_a_side_and_the_headline_says_so() {
        for (by, hosts, recordings, says) in [
            (FleetBy::Kernel, [5, 5], [5, 5], "6.8.0 costs 20.0% more in msr exits than 6.1.0"),
            (FleetBy::Week, [1, 2], [9, 9], "Doubtful: fewer than 2 hosts on a side."),
            (FleetBy::Kernel, [900, 1], [900, 1], "Doubtful: fewer than 2 hosts on a side."),
            (FleetBy::Host, [1, 1], [1, 40], "Doubtful: fewer than 2 recordings on a side."),
            (FleetBy::Host, [1, 1], [5, 5], "6.8.0 costs 20.0% more in msr exits than 6.1.0"),
        ] {
            let of = comparison(by, hosts, recordings);
            let verdict = of.rows[0].changes[0].verdict;
            assert_eq!(verdict, if of.too_few { "too few" } else { "more" }, "{by:?} {hosts:?} {recordings:?}");
            let sentences = verdicts(&fleet(by, vec![of])).sentences;
            assert_eq!(sentences.len(), 1, "{by:?} {hosts:?} {recordings:?}");
            assert!(sentences[0].text.starts_with(says), "{by:?} {hosts:?} {recordings:?}: {}", sentences[0].text);
        }
        let both = vec![comparison(FleetBy::Kernel, [6, 6], [6, 6]), comparison(FleetBy::Kernel, [6, 1], [6, 1])];
        let texts: Vec<String> =
            verdicts(&fleet(FleetBy::Kernel, both)).sentences.into_iter().map(|of| of.text).collect();
        assert!(texts[0].contains("more in msr exits"), "{texts:?}");
        assert_eq!(texts[1..], ["Doubtful in 1 of 2 comparisons: fewer than 2 hosts on a side."]);
        let few = vec![comparison(FleetBy::Day, [1, 1], [1, 1]), comparison(FleetBy::Day, [1, 3], [1, 3])];
        let few = fleet(FleetBy::Day, few);
        assert_eq!(few.headline().state, "cannot_tell");
        let texts = verdicts(&few).sentences;
        assert_eq!(texts[0].text, "Doubtful: fewer than 2 hosts on a side in every comparison.");
    }

    #[test]
    fn a_page_says_what_was_compared_and_what_is_advised() {
        let by_kernel = [
            comparison(FleetBy::Kernel, [6, 6], [6, 6]),
            comparison(FleetBy::Kernel, [1, 6], [9, 9]),
            comparison(FleetBy::Host, [1, 1], [1, 40]),
        ];
        let note = |by: FleetBy, of: &FleetComparison| {
            let page = fleet_page(&fleet(by, vec![of.clone()]));
            let of_comparison = page.sections.iter().find(|section| section.title.starts_with("6.1.0 and 6.8.0"));
            of_comparison.unwrap().notes.iter().find(|note| note.contains("per second of a vCPU")).unwrap().clone()
        };
        assert_eq!(note(FleetBy::Kernel, &by_kernel[0]), "Rates and cost are per second of a vCPU.");
        assert!(note(FleetBy::Kernel, &by_kernel[1]).starts_with("With one host on a side"));
        assert!(note(FleetBy::Host, &by_kernel[2]).starts_with("With one recording on a side"));
        let advice = |hosts, low_ns_per_s, high_ns_per_s| FleetAdvice {
            change: "poll less".to_string(),
            hosts,
            gain_kind: "host_cpu".to_string(),
            low_ns_per_s,
            high_ns_per_s,
            method: "replayed".to_string(),
        };
        let mut found = fleet(FleetBy::Kernel, vec![by_kernel[0].clone()]);
        found.advice = vec![advice(1, 0, 2_000), advice(3, 2_000, 2_000), advice(1_200, 1_000, 2_000)];
        found.left_out = vec![LeftOutFile { path: "a.parquet".to_string(), why: "is cut".to_string() }];
        let page = fleet_page(&found);
        let said = |title: &str| -> Vec<String> {
            let section = page.sections.iter().find(|section| section.title == title).unwrap();
            section.sentences.iter().map(|of| of.text.clone()).collect()
        };
        assert_eq!(
            said("What is advised"),
            [
                "on 1 host, gain up to 2.00us/s of host cpu (replayed): poll less",
                "on 3 hosts, gain 2.00us/s of host cpu (replayed): poll less",
                "on 1,200 hosts, gain 1.00us to 2.00us/s of host cpu (replayed): poll less",
            ]
        );
        assert_eq!(said("Fleet").last().unwrap(), "left out: a.parquet: is cut");
        let differs = said("What differs by kernel");
        assert_eq!(differs.len(), 1, "{differs:?}");
        assert!(differs[0].starts_with("6.8.0 costs 20.0% more in msr exits than 6.1.0"), "{differs:?}");
    }

    #[test]
    fn what_was_lost_and_who_is_not_judged_is_said() {
        let mut found = fleet(FleetBy::Kernel, Vec::new());
        for (lost, says) in [(0, None), (1, Some("1 record was lost")), (1_002, Some("1,002 records were lost"))] {
            found.lost = lost;
            let headline = found.headline();
            assert_eq!(headline.doubts.first().map(String::as_str), says, "{lost}");
            assert_eq!(headline.is_doubtful, says.is_some(), "{lost}");
        }
        let fewest = FEWEST as u64;
        for (hosts, says) in [
            (
                1,
                "not judged: it takes 5 hosts with VMs of the same shape to say who stands out, and these are of 1 host.",
            ),
            (
                fewest - 1,
                "not judged: it takes 5 hosts with VMs of the same shape to say who stands out, and these are of 4 hosts.",
            ),
            (fewest, "None, among the shapes of VMs that 5 hosts or more have."),
            (fewest + 1, "None, among the shapes of VMs that 5 hosts or more have."),
        ] {
            found.hosts = hosts;
            assert_eq!(outliers(&found).notes, [says], "{hosts}");
        }
    }

    /// Of many comparisons, one in twenty would be certain by chance.
    #[test]
    fn a_headline_is_corrected_for_all_comparisons() {
        let with = |p: f64, count: usize| {
            let mut all = vec![comparison(FleetBy::Week, [6, 6], [6, 6]); count];
            all.iter_mut().skip(1).for_each(|of| of.rows[0].changes[0].p_value = Some(0.7));
            all[0].rows[0].changes[0].p_value = Some(p);
            fleet(FleetBy::Week, all).headline().state
        };
        assert_eq!([with(0.04, 1), with(0.04, 10), with(0.004, 10)], ["worse", "no_clear_difference", "worse"]);
    }

    #[test]
    fn the_largest_certain_difference_comes_first() {
        let mut small = comparison(FleetBy::Kernel, [6, 6], [6, 6]);
        small.rows[0].changes[0].after = Some(101.0);
        let mut large = comparison(FleetBy::Kernel, [6, 6], [6, 6]);
        large.value = "6.12.0".to_string();
        large.rows[0].changes[0].verdict = "less";
        large.rows[0].changes[0].after = Some(50.0);
        let found = fleet(FleetBy::Kernel, vec![small.clone(), large]);
        let headline = found.headline();
        assert!(headline.text.starts_with("6.12.0 costs 50.0% less in msr exits than 6.1.0"), "{}", headline.text);
        assert!(headline.text.contains(": 100ns/s with 6.1.0, 50ns/s with 6.12.0 ("), "{}", headline.text);
        assert_eq!((headline.state.as_str(), headline.details.len()), ("better", 1));
        small.rows[0].changes[0].verdict = "unclear";
        let headline = fleet(FleetBy::Kernel, vec![small]).headline();
        assert_eq!(
            (headline.state.as_str(), headline.text.as_str()),
            ("no_clear_difference", "No difference in cost is certain")
        );
    }
}
