//! How advice becomes a page.

use crate::advice::{AdviceReport, AdviceRow, AdvisedCauseRow, GainRow, scope_name};
use crate::exit_bound::{ExitBoundRow, GuestCheckRow};
use crate::names::{self, thousands};
use crate::page::{Page, PageSection, Sentence, Table, by_hand, column, plain};
use exitscope_advice::Judgement;
use exitscope_units::Nanos;

/// The page of a judgement.
pub fn advice_page(advised: &AdviceReport) -> Page {
    let mut sections = vec![head(advised)];
    sections.extend(advised.advice.iter().map(advice));
    if !advised.facts.is_empty() {
        sections.push(facts(advised));
    }
    if !advised.accepted_costs.is_empty() {
        let sentence = |row: &crate::advice::AcceptedCostRow| {
            plain(format!("{}, {} (facts {})", scope_name(row.scope, row.vm, None), row.why, list(&row.evidence)))
        };
        sections.push(PageSection {
            title: "Accepted costs".into(),
            sentences: advised.accepted_costs.iter().map(sentence).collect(),
            ..PageSection::default()
        });
    }
    sections.extend(causes(advised));
    sections.extend(not_judged(advised));
    sections.extend(advised.exit_bound.as_ref().map(guest_checks));
    Page { sections }
}

fn head(advised: &AdviceReport) -> PageSection {
    let trace = &advised.trace;
    let length = Nanos(trace.last_ns.saturating_sub(trace.first_ns));
    let mut head = PageSection { title: "Advice".into(), ..PageSection::default() };
    let exits = match advised.selected_exits {
        all if all == advised.exits => thousands(all),
        some => format!("{} of {}", thousands(some), thousands(advised.exits)),
    };
    head.sentences.push(plain(format!("{}: {exits} exits, {length} long", trace.name)));
    head.sentences.extend(by_hand(trace));
    head.sentences.extend(advised.clock.map(|clock| clock.warning()));
    let selection = advised.selection.to_string();
    if !selection.is_empty() {
        head.sentences.push(plain(format!("Selected: {selection}")));
    }
    head.sentences.extend(advised.damage().map(|line| Sentence { text: line.to_string(), warning: true }));
    head.sentences.extend(advised.exit_bound.as_ref().map(|bound| plain(format!("{}.", bound.text))));
    head.sentences.push(plain(match (advised.advice.len(), advised.exits) {
        (0, 1..) if lacks(advised, Judgement::ANYTHING) => "The selection contains no exit.".to_string(),
        (0, 1..) if lacks(advised, Judgement::COST) => {
            "No advice: the recording has too little to judge costs by.".to_string()
        }
        (0, 0) => "No exit of a guest is in this recording, so there is nothing to judge.".to_string(),
        (0, _) if advised.causes.is_empty() => {
            "No advice: nothing takes 5 % of the cost of its VM's exits, or 1 % of its vCPUs' time.".to_string()
        }
        (0, _) => "No advice. Causes lists what costs most, and whether a rule judges it.".to_string(),
        (1, _) => "One thing to do:".to_string(),
        (things, _) => format!("{things} things to do, largest gain first:"),
    }));
    head
}

/// Whether this could not be judged.
fn lacks(advised: &AdviceReport, what: &str) -> bool {
    advised.not_judged.iter().any(|row| row.what == what)
}

fn advice(row: &AdviceRow) -> PageSection {
    let mut sentences = vec![plain(row.change.clone()), plain(format!("Gain: {}", gain(&row.gain)))];
    sentences.extend(row.instead_of.map(|better| {
        plain(format!(
            "Alternative to {better} for the same problem: apply one or \
            the other, not both"
        ))
    }));
    let is_same = |number| plain(format!("The same change as {number}, for other exits: whoever makes it wins both"));
    sentences.extend(row.same_as.map(is_same));
    sentences.extend(row.settings.iter().map(|setting| plain(format!("- {}", setting.text))));
    sentences.push(plain(format!("Evidence: facts {}", list(&row.evidence))));
    sentences.push(plain(format!("Takes effect: {}", row.takes_effect)));
    sentences.push(plain(format!("Risk: {}", row.risk)));
    sentences.push(plain(format!("Who pays: {}", row.who_pays)));
    sentences.push(plain(format!("Undo: {}", row.undo)));
    PageSection {
        title: format!("{}. {}, for {}", row.number, row.title, row.scope_text),
        sentences,
        ..PageSection::default()
    }
}

/// What a change wins, and how that was found out.
pub(crate) fn gain(row: &GainRow) -> String {
    let how = match row.method {
        "replayed" => format!("replayed: {} over this recording, 95 % confidence", row.source),
        how => format!("{how}: {}", row.source),
    };
    format!("{}; {how}", row.text)
}

fn list(numbers: &[usize]) -> String {
    numbers.iter().map(usize::to_string).collect::<Vec<_>>().join(", ")
}

fn facts(advised: &AdviceReport) -> PageSection {
    let columns =
        vec![column("", false, 0), column("VM", true, 1), column("fact", true, 0), column("figure", false, 0)];
    let rows = advised.facts.iter().map(|fact| {
        let vm = match fact.scope {
            "host" => "all".to_string(),
            _ => fact.vm.map_or("-".to_string(), |vm| vm.to_string()),
        };
        vec![fact.number.to_string(), vm, fact.what.clone(), fact.text.clone()]
    });
    PageSection {
        title: "Facts".into(),
        table: Some(Table { columns, rows: rows.collect() }),
        ..PageSection::default()
    }
}

/// Rows of the table of what weighs.
const MOST_CAUSES: usize = 40;

/// What weighs, and what is said of it.
fn causes(advised: &AdviceReport) -> Option<PageSection> {
    let several = advised.causes.iter().any(|row| row.vm != advised.causes[0].vm);
    let columns = vec![
        column(if several { "VM" } else { "" }, true, 1),
        column("reason", true, 0),
        column("subject", true, 0),
        column("exits", false, 2),
        column("of cost", false, 0),
        column("of vCPU time", false, 0),
        column("what rules say", true, 0),
    ];
    let row = |row: &AdvisedCauseRow| {
        let vm = row.vm.map_or("-".to_string(), |vm| vm.to_string());
        vec![
            if several { vm } else { String::new() },
            row.reason_or_part(),
            row.subject.as_ref().map_or(String::new(), |subject| subject.text.clone()),
            if row.reason.is_some() { thousands(row.exits) } else { String::new() },
            row.share_of_cost.map_or(String::new(), names::share),
            names::share(row.share_of_time),
            row.short.clone(),
        ]
    };
    let rows: Vec<Vec<String>> = advised.causes.iter().take(MOST_CAUSES).map(row).collect();
    let mut notes = vec![
        "listed: causes above 5 % of the cost of their VM's exits, or 1 % of its vCPUs' time; what is not judged \
         may have a remedy all the same"
            .to_string(),
    ];
    let more = advised.causes.len().saturating_sub(MOST_CAUSES);
    if more > 0 {
        notes.insert(0, format!("and {} more: --format json", thousands(more as u64)));
    }
    // Of accepted costs, the facts say more above.
    let is_above = |why: &str| advised.accepted_costs.iter().any(|row| row.why.contains(why));
    let more_to_say = advised.causes.iter().take(MOST_CAUSES).filter(|row| row.text != row.short);
    let mut said: Vec<(String, &str, Vec<String>)> = Vec::new();
    for row in more_to_say.filter(|row| row.why.as_deref().is_some_and(|why| !is_above(why))) {
        let (name, vm) = (row.named(", "), row.vm.map(|vm| vm.to_string()));
        match said.iter_mut().find(|of| (&of.0, of.1) == (&name, &row.text)) {
            Some(of) => of.2.extend(vm),
            None => said.push((name, &row.text, vm.into_iter().collect())),
        }
    }
    let said = said.into_iter().map(|(name, text, vms)| match &vms[..] {
        _ if !several => format!("{name}: {text}"),
        [] => format!("{name}: {text}"),
        [vm] => format!("VM {vm}, {name}: {text}"),
        vms => format!("VMs {}, {name}: {text}", vms.join(", ")),
    });
    notes.splice(0..0, said.collect::<Vec<String>>());
    (!rows.is_empty()).then(|| PageSection {
        title: "Causes".into(),
        table: Some(Table { columns, rows }),
        notes,
        ..PageSection::default()
    })
}

/// What else may slow a guest.
fn guest_checks(bound: &ExitBoundRow) -> PageSection {
    let sentence = |row: &GuestCheckRow| plain(format!("{}: {}", row.what, row.check));
    PageSection {
        title: "Not judged here, in no order: what may slow the guest's own running".into(),
        sentences: bound.not_judged.iter().map(sentence).collect(),
        ..PageSection::default()
    }
}

fn not_judged(advised: &AdviceReport) -> Option<PageSection> {
    let mut sentences = Vec::new();
    let mut records: Vec<Option<&str>> = Vec::new();
    for row in &advised.not_judged {
        if !records.contains(&row.record) {
            records.push(row.record);
        }
    }
    for record in records {
        let rows = advised.not_judged.iter().filter(|row| row.record == record);
        sentences.extend(rows.map(|row| plain(format!("{}: {}", row.what, row.missing))));
        sentences.extend(record.map(|record| plain(format!("Record with {record}"))));
    }
    (!sentences.is_empty()).then(|| PageSection {
        title: "Not judged, because the recording lacks data".into(),
        sentences,
        ..PageSection::default()
    })
}
