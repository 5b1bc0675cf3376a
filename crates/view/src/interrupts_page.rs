//! The page of what inhibits APICv and AVIC, and what the default report says of it.

use crate::interrupts::{ApicExitRow, ApicExitSums, InhibitRow, InterruptRows, VmApicvRow};
use crate::names::{percent, rate, thousands, trimmed};
use crate::sections::{PageSection, Sentence, Table, column, length, plain};
use exitscope_analysis::record_commands::{HowToRecord, Missed};
use exitscope_model::APICV_DISABLED;
use exitscope_units::{Moment, Nanos};

/// The page `--view interrupts`; `lost` events may have been changes.
pub(crate) fn interrupts_sections(
    rows: Option<&InterruptRows>,
    how: &HowToRecord,
    lost: Option<u64>,
) -> Vec<PageSection> {
    let mut sections = vec![untold(rows, how, lost)];
    for vm in rows.iter().flat_map(|rows| &rows.vms) {
        sections.push(inhibits(vm));
        sections.extend((!vm.exits.is_empty()).then(|| exits(vm)));
    }
    if let (Some(rows), Some(last)) = (rows, sections.last_mut())
        && rows.unnamed_msrs > 0
    {
        last.notes.push(format!(
            "Exits for an MSR that the recording does not name (kvm_msr), some of them perhaps the APIC's: {}",
            thousands(rows.unnamed_msrs)
        ));
    }
    sections.retain(|section| !section.sentences.is_empty() || section.table.is_some());
    sections
}

/// The same of a recording that cannot have any.
pub(crate) fn of_x86_alone() -> PageSection {
    let text = "APICv and AVIC exist only on x86, and only KVM has an event that shows what inhibits them.".to_string();
    PageSection { title: "APICv and AVIC".into(), sentences: vec![plain(text)], ..PageSection::default() }
}

/// What the default report says: a few lines, if something was inhibited.
pub(crate) fn interrupts_summary(rows: &InterruptRows) -> Option<PageSection> {
    let told = |vm: &&VmApicvRow| vm.inhibited_ns > 0;
    let sentence = |vm: &VmApicvRow| plain(format!("VM {}: {}; {}", label(vm), state(vm), in_short(vm)));
    let sentences: Vec<Sentence> = rows.vms.iter().filter(told).map(sentence).collect();
    (!sentences.is_empty()).then(|| PageSection {
        title: "APICv and AVIC".into(),
        sentences,
        notes: vec!["by reason, and exits for the local APIC: --view interrupts".to_string()],
        ..PageSection::default()
    })
}

/// What the recording does not tell.
fn untold(rows: Option<&InterruptRows>, how: &HowToRecord, lost: Option<u64>) -> PageSection {
    let has_events = rows.is_some_and(|rows| rows.vms.iter().any(|vm| vm.events > 0));
    let mut sentences = Vec::new();
    if !has_events {
        let what = match how.was_recorded(Missed::ApicvChanges) {
            true => "kvm_apicv_inhibit_changed was recorded and never occurred: nothing changed meanwhile",
            false => "No kvm_apicv_inhibit_changed in the recording (KVM on x86 has it from Linux 5.18 on)",
        };
        sentences
            .push(plain(format!("{what}. Whether APICv or AVIC is inhibited is not known: KVM traces only changes.")));
        sentences.push(plain(how.sentence(&[Missed::ApicvChanges], "from before a VM starts")));
    } else if let Some(lost @ 1..) = lost {
        let text =
            format!("{} events were lost: a change among them shows only at the VM's next change", thousands(lost));
        sentences.push(Sentence { text, warning: true });
    }
    PageSection { title: "APICv and AVIC".into(), sentences, ..PageSection::default() }
}

fn label(vm: &VmApicvRow) -> String {
    match (&vm.vm_name, vm.vm) {
        (Some(name), Some(number)) => format!("{name} {number}"),
        (None, Some(number)) => number.to_string(),
        _ => "-".to_string(),
    }
}

/// Of whom it is, where the recording says.
fn title(of: &str, vm: &VmApicvRow) -> String {
    if vm.vm.is_some() { format!("{of}: VM {}", label(vm)) } else { of.to_string() }
}

/// `inhibited for 1.2s of 9.9s (12.1%), not known for 0.1s`
fn state(vm: &VmApicvRow) -> String {
    let all = vm.inhibited_ns + vm.allowed_ns + vm.unknown_ns;
    let mut text =
        format!("inhibited for {} of {} ({})", Nanos(vm.inhibited_ns), Nanos(all), percent(vm.inhibited_ns, all));
    if vm.unknown_ns > 0 {
        text += &format!("; not known for {}", Nanos(vm.unknown_ns));
    }
    text
}

/// Whether the module or the processor keeps it off: then KVM sets and clears nothing else (`kvm_set_or_clear_apicv_inhibit` of
/// arch/x86/kvm/x86.c), and what stands beside it says nothing.
fn is_off(vm: &VmApicvRow) -> bool {
    vm.inhibits.iter().any(|row| row.number == APICV_DISABLED && row.at_end)
}

/// Its reasons in a few words.
fn in_short(vm: &VmApicvRow) -> String {
    let says = |row: &&InhibitRow| !is_off(vm) || row.number == APICV_DISABLED;
    let reasons: Vec<&str> = vm.inhibits.iter().filter(says).map(|row| row.reason.as_str()).collect();
    match reasons.as_slice() {
        [one, two, _, more @ ..] => format!("{one}, {two} and {} more", more.len() + 1),
        few => few.join(", "),
    }
}

/// What has to be said of its reasons.
fn notes(vm: &VmApicvRow) -> Vec<String> {
    let mut notes = Vec::new();
    if vm.inhibits.iter().any(|row| row.from_begin) {
        notes.push("*: already in force before the VM's first event, or before the first moment selected".to_string());
    }
    if vm.inhibits.iter().any(|row| row.is_ambiguous) {
        notes.push(
            "a reason's number differs between kernels, and the recording does not show which numbers its kernel has"
                .to_string(),
        );
    }
    if is_off(vm) {
        notes.push(
            "while the module or the processor has APICv or AVIC off, KVM neither sets nor clears other reasons: those shown date \
             from the VM's start"
                .to_string(),
        );
        return notes;
    }
    for row in vm.inhibits.iter().filter(|row| row.at_end) {
        notes.extend(row.cleared_by.map(|by| {
            format!("{} was still in force at the end of the recording; what would clear it is {by}", row.reason)
        }));
    }
    notes
}

fn inhibits(vm: &VmApicvRow) -> PageSection {
    let mut section = PageSection { title: title("What inhibits APICv or AVIC", vm), ..PageSection::default() };
    if vm.of_vms > 1 {
        section.sentences.push(plain(format!(
            "{} events of at least {} VMs: the recording does not show which VM each belongs to, so no state is known",
            thousands(vm.events),
            vm.of_vms
        )));
        return section;
    }
    if vm.events == 0 {
        return section;
    }
    section.sentences.push(plain(state(vm)));
    let columns = vec![
        column("reason", true, 0),
        column("in force", false, 0),
        column("share", false, 2),
        column("set", false, 0),
        column("first set (s)", false, 1),
        column("by vCPU", true, 3),
        column("of", true, 2),
        column("set by", true, 4),
    ];
    let all = vm.inhibited_ns + vm.allowed_ns + vm.unknown_ns;
    let row = |row: &InhibitRow| {
        let begin = if row.from_begin { " *" } else { "" };
        let first = row.first_set_ns.map_or("-".to_string(), |at| trimmed(Moment::from_nanos(at)));
        vec![
            row.reason.clone(),
            format!("{}{begin}", length(Some(row.in_force_ns))),
            percent(row.in_force_ns, all),
            thousands(row.sets),
            first,
            row.first_set_in.as_ref().map_or("-".to_string(), |who| who.vcpu_label()),
            row.avic_alone.map_or("not known", |alone| if alone { "AVIC" } else { "APICv, AVIC" }).to_string(),
            row.set_by.unwrap_or("not known").to_string(),
        ]
    };
    let rows: Vec<Vec<String>> = vm.inhibits.iter().map(row).collect();
    section.notes = notes(vm);
    section.table = (!rows.is_empty()).then_some(Table { columns, rows });
    section.say_hidden = true;
    section
}

fn exits(vm: &VmApicvRow) -> PageSection {
    let columns = vec![
        column("exits for", true, 0),
        column("inhibited", false, 0),
        column("/s", false, 0),
        column("cost", false, 1),
        column("not inhibited", false, 0),
        column("/s", false, 0),
        column("cost", false, 1),
        column("not known", false, 2),
        column("cost", false, 3),
    ];
    let sums = |of: &ApicExitSums| {
        let per_s = of.rate_per_s.map_or("-".to_string(), rate);
        let cost = of.cost_ns.map_or("not recorded".to_string(), |nanos| length(Some(nanos)));
        [thousands(of.count), per_s, cost]
    };
    let row = |row: &ApicExitRow| {
        let [unknown, _, unknown_cost] = sums(&row.unknown);
        let states = [&row.inhibited, &row.allowed].map(sums).concat();
        [vec![row.what.to_string()], states, vec![unknown, unknown_cost]].concat()
    };
    PageSection {
        title: title("Exits for the local APIC", vm),
        table: Some(Table { columns, rows: vm.exits.iter().map(row).collect() }),
        notes: vec![
            "/s: per second of that state; not counted: exits for the APIC's timer, and of nested guests; which of \
             the exits APICv or AVIC avoids depends on the processor"
                .to_string(),
        ],
        say_hidden: true,
        ..PageSection::default()
    }
}
