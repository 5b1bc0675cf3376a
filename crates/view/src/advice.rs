//! Advice as plain data.

use crate::exit_bound::ExitBoundRow;
use crate::halt::ClockRow;
use crate::names;
use crate::report::{Coverage, CoverageLine, SelectionRow, TraceRow};
use crate::verdict::VerdictRow;
use exitscope_advice::{
    Advice, AdviceSetting, CauseRow, CauseSubject, CauseVerdict, CitedFact, CitedFactId, CitedValue, Gain, GainMethod,
    GainOf, GoesInto, Judgement, NO_RULE, SettingSide, Topic, advised_rules,
};
use exitscope_analysis::record_commands::HowToRecord;
use exitscope_analysis::{Facts, SubjectKey};
use exitscope_model::{SubjectKind, TimePart, TraceInfo};
use exitscope_units::{Nanos, VmId};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::Serialize;

/// What a recording says would win time back, and why.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct AdviceReport {
    /// Name and version of this layout. Fields may be added within a version; none changes its meaning.
    pub schema: &'static str,
    /// The recording that was read.
    pub trace: TraceRow,
    /// What was seen and not used.
    pub coverage: Vec<CoverageLine>,
    /// Where halts contradict the rate of the clock that was given by hand; left out where they do not.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub clock: Option<ClockRow>,
    /// The selection by which exits were looked at.
    pub selection: SelectionRow,
    /// Number of exits in the recording.
    pub exits: u64,
    /// Those of the vCPUs and moments that are selected.
    pub selected_exits: u64,
    /// What the recording says, as far as advice is made of it.
    pub facts: Vec<CitedFactRow>,
    /// Advice, what wins most first.
    pub advice: Vec<AdviceRow>,
    /// What costs, and is to be left as it is.
    pub accepted_costs: Vec<AcceptedCostRow>,
    /// What could not be judged, for what the recording lacks.
    pub not_judged: Vec<NotJudgedRow>,
    /// How much exits and waiting take at most, where the recording shows all of it and it is little, and what else may slow the guest;
    /// absent otherwise.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exit_bound: Option<ExitBoundRow>,
    /// What takes more than 5 % of the cost of its VM's exits, or 1 % of its vCPUs' time: costliest first, VM by VM.
    pub causes: Vec<AdvisedCauseRow>,
    /// The same of all VMs together, which a report has.
    #[serde(skip)]
    pub causes_of_all: Vec<AdvisedCauseRow>,
}

/// Something that weighs, and what is said of it. Not judged is not "nothing to do": no rule looks at it.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct AdvisedCauseRow {
    /// The VM's process id, or Xen's domain; absent if the trace does not say.
    pub vm: Option<u32>,
    /// The VM's name, or its process's; absent if the recording has none.
    pub vm_name: Option<String>,
    /// `exits`, `steal` (runnable, without a CPU), `forced_out` (out of the guest because another thread of the core had to
    /// leave), `polling` (of the host's, for halted vCPUs), `halt_not_divided` (a halt of which nothing says how long it polled,
    /// was halted and waited) or `unknown`.
    #[schemars(extend("enum" = ["exits", "steal", "forced_out", "polling", "halt_not_divided", "unknown"]))]
    pub kind: &'static str,
    /// The exit reason, as in a report; absent of other kinds than `exits`.
    pub reason: Option<String>,
    /// The exits' subject; absent where nothing tells their subjects apart.
    pub subject: Option<AdviceSubjectRow>,
    /// Number of exits; 0 of other kinds than `exits`.
    pub exits: u64,
    /// What they cost, in the kernel and in user space; of steal and the like, how long.
    pub time_ns: u64,
    /// Of exits, the median of their lengths; null of halts, which are as long as the guest halts.
    pub p50_ns: Option<u64>,
    /// The length that one of a hundred passes.
    pub p99_ns: Option<u64>,
    /// Of exits, part of the cost of all exits of the VM.
    pub share_of_cost: Option<f64>,
    /// Part of the time of the VM's vCPUs.
    pub share_of_time: f64,
    /// `can_be_changed`, `inherent`, `not_recorded` (the recording lacks what would tell) or `not_judged`.
    #[schemars(extend("enum" = ["can_be_changed", "inherent", "not_recorded", "not_judged"]))]
    pub verdict: &'static str,
    /// The numbers of the advice that changes it; none where too little is to be won for one.
    pub advice: Vec<usize>,
    /// Why, or what would change it where there is no advice; absent where there is.
    pub why: Option<String>,
    /// What is said of it, in a sentence.
    pub text: String,
    /// The verdict in few words, as a table of causes has it.
    #[serde(skip)]
    pub short: String,
    /// In a table: the number of the advice that changes it, and what that wins of it; or the verdict. Empty if no rule looked at the
    /// recording.
    pub brief: String,
}

/// A port, a page, a register, a call, a leaf; or a device or a group of registers that rules have a name for.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct AdviceSubjectRow {
    /// Its id: the same for the same thing in every recording.
    pub id: String,
    /// What kind of thing it is, as in the details of a report: `port`, `mmio`, `msr`, `cpuid`, `hypercall`, …; `exits` where
    /// their reason tells them apart, or their reason and what happened.
    pub kind: &'static str,
    /// Port, first address of the page, MSR, hypercall number, CPUID leaf, …; of a device or a group of registers, that of the
    /// costliest; absent where none tells these exits apart.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key: Option<u64>,
    /// Its name, as text and page show it.
    pub text: String,
}

/// A fact.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct CitedFactRow {
    /// Its number, from 1 on.
    pub number: usize,
    /// `vm`, or `host`: of the host, or of all VMs together.
    pub scope: &'static str,
    /// The VM's process id, or Xen's domain; absent if the trace does not say.
    pub vm: Option<u32>,
    /// The VM's name, or its process's; absent if the recording has none.
    pub vm_name: Option<String>,
    /// Where in a report it can be seen: the id of a page's section.
    #[schemars(schema_with = "topic_ids")]
    pub topic: &'static str,
    /// What the value is of, in words.
    pub what: String,
    /// The value, in `unit`.
    pub value: f64,
    /// Of what: `count`, `per_s`, `ns`, `share` (0 to 1), `cpus`, or `value`: a number that the guest wrote.
    pub unit: &'static str,
    /// How much, for a person.
    pub text: String,
}

/// An advice.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct AdviceRow {
    /// Its number, from 1 on.
    pub number: usize,
    /// Its id, the only one of the recording: the same as long as the same is advised, whatever its figures.
    pub id: String,
    /// What is advised.
    #[schemars(schema_with = "rule_ids")]
    pub rule: &'static str,
    /// What it is about; absent where that is no single thing that exits are about.
    pub subject: Option<AdviceSubjectRow>,
    /// `vm` or `host`: for whom it is.
    pub scope: &'static str,
    /// The VM's process id, or Xen's domain; absent if the trace does not say.
    pub vm: Option<u32>,
    /// The VM's name, or its process's; absent if the recording has none.
    pub vm_name: Option<String>,
    /// For whom it is, for a person: `VM qemu-system-x86 121`, or `the host`.
    pub scope_text: String,
    /// The change as a short imperative, without its conditions.
    pub title: String,
    /// The change, in a sentence.
    pub change: String,
    /// How exactly: alternatives and what belongs together, in the order in which to think of them.
    pub settings: Vec<AdviceSettingRow>,
    /// The expected gain, with its range and how it was got.
    pub gain: GainRow,
    /// The number of better advice to the same end: whoever follows both does not win both.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub instead_of: Option<usize>,
    /// The number of better advice that is the same change, for other exits: whoever follows it wins both.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub same_as: Option<usize>,
    /// The numbers of the facts that say so.
    pub evidence: Vec<usize>,
    /// What can go wrong with the change.
    pub risk: String,
    /// Who has a disadvantage from the change.
    pub who_pays: String,
    /// How to undo the change.
    pub undo: String,
    /// When the change takes effect.
    pub takes_effect: String,
}

/// What a change is expected to win.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct GainRow {
    /// Of what: `exits` (time of vCPUs that goes into exits), `wake_ups` (time from a wake-up to the entry), `host_cpu`,
    /// `steal` (runnable, without a CPU), `yields` (their CPU time, and waiting for a CPU meanwhile) or `forced_out` (lost to
    /// other threads' exits).
    pub kind: &'static str,
    /// All of it for a person, but for how it was found out.
    pub text: String,
    /// The headline alone: `about 2.9%` or `up to 2.7%`, of vCPU time; `0.11 CPUs`.
    pub range_text: String,
    /// What is said first: what the change usually wins where it does what it is made for, in each second in which the vCPUs concerned
    /// were seen, all of them together. Advice is ranked by the middle between it and what is won at least.
    pub headline_ns_per_s: u64,
    /// Lower bound of the gain, in nanoseconds per second, of the same vCPUs.
    pub low_ns_per_s: u64,
    /// Upper bound of the gain, in nanoseconds per second, of the same vCPUs.
    pub high_ns_per_s: u64,
    /// Whether waits for a CPU may be in that, as nothing in the recording tells them apart.
    pub high_may_wait: bool,
    /// The headline as a part of the time of the VM's vCPUs, from each one's first event to its last; of all vCPUs' in advice for
    /// the host. Absent of `host_cpu`, and where nothing says which vCPUs there are.
    pub headline_share: Option<f64>,
    /// The lower bound as a share of the same time; absent where `headline_share` is.
    pub low_share: Option<f64>,
    /// The upper bound as a share of the same time; absent where `headline_share` is.
    pub high_share: Option<f64>,
    /// How it was found out: `replayed`, `counted`, `simulated` or `published`.
    pub method: &'static str,
    /// The policy that was replayed, what was counted, what the simulator said of what, or the publication.
    pub source: &'static str,
}

/// A single thing to set.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct AdviceSettingRow {
    /// `knob`, `module`, `libvirt`, `qemu`, `boot` or `by_hand`.
    pub kind: &'static str,
    /// Whose system it is of: `host` or `guest`; absent where the VM's configuration is changed.
    pub side: Option<&'static str>,
    /// Of a knob or a module, its name.
    pub name: Option<String>,
    /// Of a knob, its file.
    pub file: Option<String>,
    /// Of a knob, whether writing the file changes it on a running system; otherwise only loading the module does.
    pub writable: bool,
    /// What to set it to, in the kernel's, libvirt's or QEMU's spelling, or what to do.
    pub value: String,
    /// Of libvirt, the elements below `<domain>` that it is in, with slashes between.
    pub within: Option<&'static str>,
    /// Where alone it is to be set, as the recording does not say: `for a Linux guest`, `for a Windows guest`, `once the guest keeps time
    /// with another clock`; absent where it always is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub condition: Option<&'static str>,
    /// For a person, in one line.
    pub text: String,
}

/// Something that costs, and is to be left as it is.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct AcceptedCostRow {
    /// `vm` or `host`: about whom it is.
    pub scope: &'static str,
    /// The VM's process id, or Xen's domain; absent if the trace does not say.
    pub vm: Option<u32>,
    /// What costs, and why it is to be left as it is.
    pub why: String,
    /// The numbers of the facts that show it.
    pub evidence: Vec<usize>,
}

/// What could not be judged.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct NotJudgedRow {
    /// What could not be judged.
    pub what: &'static str,
    /// Why: what the recording does not have.
    pub missing: String,
    /// How to record it: commands between backquotes. Absent where no recording of such a machine has it.
    pub record: Option<&'static str>,
}

impl AdviceReport {
    /// The name and version of the layout.
    pub const SCHEMA: &'static str = "exitscope.advise/1";

    /// A judgement of a trace, whose threads `info` names.
    pub fn of(
        judgement: &Judgement,
        trace: TraceRow,
        coverage: Coverage,
        selection: SelectionRow,
        (facts_of, info): (&Facts, &TraceInfo),
    ) -> AdviceReport {
        let numbers = |facts: &[CitedFactId]| facts.iter().map(|fact| fact.number()).collect();
        let row = |(at, fact): (usize, &CitedFact)| CitedFactRow::of(at + 1, fact, info);
        let facts: Vec<CitedFactRow> = judgement.facts().iter().enumerate().map(row).collect();
        let about = |evidence: &[CitedFactId]| {
            let fact = evidence.first().and_then(|fact| facts.get(fact.number() - 1));
            fact.map_or(("host", None), |fact| (fact.scope, fact.vm))
        };
        let advice = AdviceRow::all(judgement, info);
        let causes = |rows: &[CauseRow]| -> Vec<AdvisedCauseRow> {
            rows.iter().map(|row| AdvisedCauseRow::of(row, info).with_brief(&advice)).collect()
        };
        let (each, all) = (causes(&judgement.causes), causes(&judgement.causes_of_all));
        let how = HowToRecord::of(info).with(facts_of);
        let bound = coverage.exit_bound(facts_of, &selection, Some(&trace), None);
        let verdict = VerdictRow::of(facts_of, info, &selection, &how, None).bounded(bound);
        AdviceReport {
            schema: AdviceReport::SCHEMA,
            trace,
            exits: coverage.exits,
            selected_exits: facts_of.all.count,
            coverage: coverage.lines,
            clock: ClockRow::of(&facts_of.halts, info),
            selection,
            advice,
            causes: each,
            causes_of_all: all,
            accepted_costs: judgement
                .left_alone
                .iter()
                .map(|row| {
                    let (scope, vm) = about(row.evidence());
                    AcceptedCostRow { scope, vm, why: row.why.clone(), evidence: numbers(row.evidence()) }
                })
                .collect(),
            not_judged: judgement
                .not_judged
                .iter()
                .map(|row| NotJudgedRow { what: row.what, missing: row.missing.to_string(), record: row.record })
                .collect(),
            exit_bound: verdict.exit_bound,
            facts,
        }
    }

    /// The lines of the coverage that say that figures are affected.
    pub fn damage(&self) -> impl Iterator<Item = &CoverageLine> {
        self.coverage.iter().filter(|line| matches!(line.severity, "loss" | "error"))
    }
}

fn name_of(vm: Option<VmId>, info: &TraceInfo) -> (Option<u32>, Option<String>) {
    (vm.and_then(VmId::number), vm.and_then(|vm| info.vm_name(vm)))
}

impl CitedFactRow {
    fn of(number: usize, fact: &CitedFact, info: &TraceInfo) -> CitedFactRow {
        let (vm, vm_name) = name_of(fact.vm, info);
        let (value, unit, text) = figure(fact.figure);
        let (topic, what) = (fact.topic.id(), fact.what.clone());
        CitedFactRow { number, scope: scope(fact.vm), vm, vm_name, topic, what, value, unit, text }
    }
}

/// A figure as a number, its unit, and for a person.
pub(crate) fn figure(figure: CitedValue) -> (f64, &'static str, String) {
    match figure {
        CitedValue::Count(count) => (count as f64, "count", names::thousands(count)),
        CitedValue::Rate(rate) => (rate, "per_s", format!("{}/s", names::rate(rate))),
        CitedValue::Time(time) => (time.0 as f64, "ns", time.to_string()),
        CitedValue::Share(share) => (share, "share", names::share(share)),
        CitedValue::Cpus(cpus) => (cpus, "cpus", format!("{cpus:.2}")),
        CitedValue::Value(value) => (value as f64, "value", format!("{value:#x}")),
    }
}

impl AdviceSubjectRow {
    fn of(subject: CauseSubject, vm: Option<VmId>, info: &TraceInfo) -> Option<AdviceSubjectRow> {
        let (SubjectKey { kind, key, .. }, name) = match subject {
            CauseSubject::None => return None,
            CauseSubject::Group(name) => {
                let id = format!("exits/{}", id_of(name));
                return Some(AdviceSubjectRow { id, kind: "exits", key: None, text: name.to_string() });
            }
            CauseSubject::Named(name, of) => (of, Some(name)),
            CauseSubject::Key(of) => (of, None),
        };
        let of_kind = kind.name();
        let called = info.subject_names().of_key(vm.as_slice(), kind, key);
        let text = match (name, kind, called.as_deref()) {
            (Some(name), ..) => name.to_string(),
            (_, SubjectKind::Port, None) => format!("port {key:#x}"),
            (_, SubjectKind::Msr, None) => format!("MSR {key:#x}"),
            (_, SubjectKind::Mmio, None) => format!("MMIO page {key:#x}"),
            (_, kind, Some(name)) if kind.is_place_of_devices() => format!("{name} ({key:#x})"),
            (_, _, Some(name)) => name.to_string(),
            (_, kind, None) => names::detail(None, kind, key, false),
        };
        let id = name.map_or(format!("{of_kind}/{key:#x}"), |name| format!("{of_kind}/{}", id_of(name)));
        Some(AdviceSubjectRow { id, kind: of_kind, key: Some(key), text })
    }
}

/// A name as an id: `APIC's EOI and TPR` is `apic-s-eoi-and-tpr`.
fn id_of(name: &str) -> String {
    name.chars().map(|of| if of.is_alphanumeric() { of.to_ascii_lowercase() } else { '-' }).collect()
}

impl AdvisedCauseRow {
    pub(crate) fn of(row: &CauseRow, info: &TraceInfo) -> AdvisedCauseRow {
        let (vm, vm_name) = name_of(row.vm, info);
        let (verdict, why, short) = match &row.verdict {
            CauseVerdict::Changed(numbers) => {
                let numbers: Vec<String> = numbers.iter().map(usize::to_string).collect();
                ("can_be_changed", None, format!("can be changed: see {}", numbers.join(", ")))
            }
            CauseVerdict::Small(change) => {
                ("can_be_changed", Some(change.to_string()), "can be changed, with little to win".to_string())
            }
            CauseVerdict::Inherent(why) => ("inherent", Some(why.clone()), "inherent".to_string()),
            CauseVerdict::NotRecorded(why) => ("not_recorded", Some(why.clone()), "not recorded".to_string()),
            CauseVerdict::NotJudged(why) if why == NO_RULE => {
                ("not_judged", Some(why.clone()), format!("not judged: {NO_RULE}"))
            }
            CauseVerdict::NotJudged(why) => ("not_judged", Some(why.clone()), "not judged".to_string()),
        };
        let text = match &why {
            Some(why) if why != NO_RULE => format!("{short}: {why}"),
            _ => short.clone(),
        };
        let (kind, reason) = match row.into {
            GoesInto::Exits(code) => ("exits", Some(code.name())),
            GoesInto::Steal => ("steal", None),
            GoesInto::ForcedOut => ("forced_out", None),
            GoesInto::Polling => ("polling", None),
            GoesInto::Undivided => ("halt_not_divided", None),
            GoesInto::Unknown => ("unknown", None),
        };
        AdvisedCauseRow {
            vm,
            vm_name,
            kind,
            reason,
            subject: AdviceSubjectRow::of(row.subject, row.vm, info),
            exits: row.exits,
            time_ns: row.time.0,
            p50_ns: row.lengths.map(|lengths| lengths.0.0),
            p99_ns: row.lengths.map(|lengths| lengths.1.0),
            share_of_cost: row.of_cost,
            share_of_time: row.of_time,
            verdict,
            advice: if let CauseVerdict::Changed(numbers) = &row.verdict { numbers.clone() } else { Vec::new() },
            why,
            text,
            short,
            brief: String::new(),
        }
    }

    /// Says in brief what rules do, of which these came of it.
    fn with_brief(mut self, advice: &[AdviceRow]) -> AdvisedCauseRow {
        let of = self.advice.first().and_then(|number| advice.iter().find(|advice| advice.number == *number));
        self.brief = match (of, self.verdict) {
            // Of several, each has a whole of its own.
            _ if self.advice.len() > 1 => {
                let numbers: Vec<String> = self.advice.iter().map(|number| format!("[{number}]")).collect();
                numbers.join(" ")
            }
            // An advice on more than this cause wins more than the cause takes.
            (Some(of), _) if of.gain.high_share.is_some_and(|share| share > self.share_of_time * 1.01) => {
                format!("[{}]", of.number)
            }
            (Some(of), _) => format!("[{}] {}", of.number, of.gain.range_text),
            (None, "can_be_changed") => "little to win".to_string(),
            (None, verdict) => verdict.replace('_', " "),
        };
        self
    }

    /// The reason, or what the time is.
    pub(crate) fn reason_or_part(&self) -> String {
        match (&self.reason, self.kind) {
            (Some(reason), _) => reason.clone(),
            (None, "halt_not_divided") => TimePart::Undivided.name().to_string(),
            (None, kind) => kind.replace('_', " "),
        }
    }

    /// `msr, speculation control` with this between, `steal`.
    pub(crate) fn named(&self, between: &str) -> String {
        let reason = self.reason_or_part();
        self.subject.as_ref().map_or(reason.clone(), |subject| format!("{reason}{between}{}", subject.text))
    }
}

impl AdviceRow {
    /// All that a recording gives.
    pub fn all(judgement: &Judgement, info: &TraceInfo) -> Vec<AdviceRow> {
        judgement
            .advice()
            .iter()
            .enumerate()
            .map(|(at, advice)| AdviceRow::of(at + 1, advice, judgement, info))
            .collect()
    }

    fn of(number: usize, advice: &Advice, judgement: &Judgement, info: &TraceInfo) -> AdviceRow {
        let plan = advice.plan();
        let (vm, vm_name) = name_of(plan.vm, info);
        let (scope, rule, subject) =
            (scope(plan.vm), plan.rule.id(), AdviceSubjectRow::of(plan.subject, plan.vm, info));
        let of_vm = vm.map_or(scope.to_string(), |vm| format!("{scope}/{vm}"));
        let of_subject = subject.as_ref().map_or(String::new(), |subject| format!("/{}", subject.id));
        AdviceRow {
            number,
            id: format!("{of_vm}/{rule}{of_subject}"),
            rule,
            subject,
            scope,
            scope_text: scope_name(scope, vm, vm_name.as_deref()),
            vm,
            vm_name,
            title: plan.title.to_string(),
            change: plan.change.clone(),
            settings: plan.settings.iter().map(AdviceSettingRow::of).collect(),
            gain: GainRow::of(plan.gain, plan.vm, judgement.vcpu_time(plan.vm)),
            instead_of: judgement.instead_of(number),
            same_as: judgement.same_as(number),
            evidence: advice.evidence().iter().map(|fact| fact.number()).collect(),
            risk: plan.risk.to_string(),
            who_pays: plan.payer.to_string(),
            undo: plan.undo.to_string(),
            takes_effect: plan.acts.to_string(),
        }
    }
}

pub(crate) fn scope_name(scope: &str, vm: Option<u32>, name: Option<&str>) -> String {
    match (vm, name) {
        _ if scope == "host" => "the host".to_string(),
        (Some(vm), Some(name)) => format!("VM {name} {vm}"),
        (Some(vm), None) => format!("VM {vm}"),
        _ => "the VM (the trace does not name it)".to_string(),
    }
}

fn scope(vm: Option<VmId>) -> &'static str {
    if vm.is_some() { "vm" } else { "host" }
}

impl GainRow {
    fn of(gain: Gain, vm: Option<VmId>, vcpu_time: Nanos) -> GainRow {
        let figures = [gain.headline, gain.low, gain.high];
        let shares = (vcpu_time > Nanos::ZERO).then(|| figures.map(|part| part.0 as f64 / vcpu_time.0 as f64));
        let (how, source) = match gain.how {
            GainMethod::Replayed(policy) => ("replayed", policy),
            GainMethod::Counted(range) => ("counted", range),
            GainMethod::Simulated(source) => ("simulated", source),
            GainMethod::Published(source) => ("published", source),
        };
        let (text, range_text) = gain_texts(gain, vm, shares);
        let share = |at: usize| shares.filter(|_| gain.of != GainOf::HostCpu).map(|shares| shares[at]);
        GainRow {
            kind: gain.of.id(),
            text,
            range_text,
            headline_ns_per_s: gain.headline.0,
            low_ns_per_s: gain.low.0,
            high_ns_per_s: gain.high.0,
            high_may_wait: gain.may_wait,
            headline_share: share(0),
            low_share: share(1),
            high_share: share(2),
            method: how,
            source,
        }
    }
}

/// `about 2.9% of its vCPUs' time, in exits; 2.1% to 9.7%, part of which may be waiting for a CPU`, where nothing says which vCPUs
/// there are `up to 0.11 CPUs, in exits`; and the figures alone: `about 2.9%`.
fn gain_texts(gain: Gain, vm: Option<VmId>, shares: Option<[f64; 3]>) -> (String, String) {
    let Some(shares) = shares.map(|shares| shares.map(names::share)) else {
        let (first, rest) = figures_text(gain, &[gain.headline, gain.low, gain.high].map(names::all_the_time));
        return (format!("{first} CPUs, {}{rest}", gain.of.text()), first + " CPUs");
    };
    // Of a host's advice also where some of its vCPUs are selected.
    let whose = if vm.is_some() { "its" } else { "all" };
    let (first, rest) = figures_text(gain, &shares);
    let text = format!("{first} of {whose} vCPUs' time, {}{rest}", gain.of.text());
    (text, first)
}

/// The headline, and the range as far as that says more.
fn figures_text(gain: Gain, [headline, low, high]: &[String; 3]) -> (String, String) {
    match (gain.low, headline == high) {
        _ if low == high => (high.clone(), String::new()),
        (Nanos::ZERO, true) => (format!("up to {high}"), String::new()),
        // The most that is usual; what is longer may be waits.
        (Nanos::ZERO, false) if gain.may_wait => {
            (format!("up to about {headline}"), format!("; up to {high} if none of it was waiting for a CPU"))
        }
        (Nanos::ZERO, false) => (format!("up to about {headline}"), format!("; at most {high}")),
        (_, same) => {
            let waits = if gain.may_wait && !same { ", part of which may be waiting for a CPU" } else { "" };
            (format!("about {headline}"), format!("; {low} to {high}{waits}"))
        }
    }
}

fn side_name(side: SettingSide) -> &'static str {
    match side {
        SettingSide::Host => "host",
        SettingSide::Guest => "guest",
    }
}

/// How an option of QEMU's begins that adds features to the processor model that a VM has.
pub(crate) const CPU_FEATURES: &str = "-cpu …,";

impl AdviceSettingRow {
    pub(crate) fn of(setting: &AdviceSetting) -> AdviceSettingRow {
        let (set, condition) = setting.parts();
        let row = AdviceSettingRow::unconditional(set);
        match condition {
            None => row,
            Some(condition) => {
                let text = format!("{}: {}", condition.text(), row.text);
                AdviceSettingRow { condition: Some(condition.text()), text, ..row }
            }
        }
    }

    fn unconditional(setting: &AdviceSetting) -> AdviceSettingRow {
        let plain = |kind, value: &str, text: String| AdviceSettingRow {
            kind,
            side: None,
            name: None,
            file: None,
            writable: false,
            value: value.to_string(),
            within: None,
            condition: None,
            text,
        };
        match setting {
            AdviceSetting::Knob { side, knob, value } => {
                let (side, name, value) = (side_name(*side), knob.name, knob.text(*value).to_string());
                let file = knob.file().map(|file| file.to_string());
                let text = match knob.is_writable() {
                    true => format!("{side}: {name}={value} in {}", file.as_deref().unwrap_or("the kernel")),
                    false => format!("{side}: {name}={value} when the module is loaded (modprobe.d)"),
                };
                AdviceSettingRow {
                    side: Some(side),
                    name: Some(name.to_string()),
                    file,
                    writable: knob.is_writable(),
                    ..plain("knob", &value, text)
                }
            }
            AdviceSetting::Module { side, name, parameters } => {
                let side = side_name(*side);
                let text = format!("{side}: load the module {name} with {parameters}");
                AdviceSettingRow { side: Some(side), name: Some(name.to_string()), ..plain("module", parameters, text) }
            }
            AdviceSetting::Libvirt { within, xml } => {
                let mut elements = xml.lines();
                let (first, more) = (elements.next().unwrap_or_default(), elements.count());
                let more = if more > 0 { format!(" and {more} more like it (--as libvirt)") } else { String::new() };
                let text = format!("libvirt, in <{}>: {first}{more}", within.replace('/', "><"));
                AdviceSettingRow { within: Some(within), ..plain("libvirt", xml, text) }
            }
            AdviceSetting::Qemu(option) => {
                let why = match option.starts_with(CPU_FEATURES) {
                    true => {
                        " (… stands for the VM's own CPU model; another model would change the hosts that it can \
                        migrate to)"
                    }
                    false => "",
                };
                plain("qemu", option, format!("QEMU: {option}{why}"))
            }
            AdviceSetting::GuestBoot(words) => {
                let text = format!("guest kernel's command line: {words}");
                AdviceSettingRow { side: Some("guest"), ..plain("boot", words, text) }
            }
            AdviceSetting::ByHand(text) => plain("by_hand", text, text.to_string()),
            AdviceSetting::When { set, .. } => AdviceSettingRow::of(set),
        }
    }
}

fn topic_ids(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "string", "enum": Topic::ALL.iter().map(|topic| topic.id()).collect::<Vec<_>>() })
}

fn rule_ids(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "string", "enum": advised_rules() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use exitscope_advice::{GainMethod, GainOf};

    #[test]
    fn a_gain_says_how_much_is_usual_and_how_much_is_the_most() {
        let said = |low: u64, may_wait: bool, figures: [&str; 3]| {
            let [headline, high] = [Nanos(30), Nanos(90)];
            let how = GainMethod::Counted("");
            let gain = Gain { of: GainOf::Exits, headline, low: Nanos(low), high, may_wait, how };
            let (first, rest) = figures_text(gain, &figures.map(str::to_string));
            first + &rest
        };
        for (low, may_wait, figures, is) in [
            (90, false, ["9%", "9%", "9%"], "9%"),
            (0, false, ["9%", "0%", "9%"], "up to 9%"),
            (0, true, ["3%", "0%", "9%"], "up to about 3%; up to 9% if none of it was waiting for a CPU"),
            (0, false, ["3%", "0%", "9%"], "up to about 3%; at most 9%"),
            (10, false, ["3%", "1%", "9%"], "about 3%; 1% to 9%"),
            (10, true, ["3%", "1%", "9%"], "about 3%; 1% to 9%, part of which may be waiting for a CPU"),
            (10, true, ["9%", "1%", "9%"], "about 9%; 1% to 9%"),
        ] {
            assert_eq!(said(low, may_wait, figures), is);
        }
    }
}
