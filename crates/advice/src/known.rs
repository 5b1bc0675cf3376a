//! What rules look at, as a table for a document: the rows of the tables of devices, registers and calls, and groups of exits; and
//! what is known and not judged.

use crate::cures::cure::{ExitSource, Remedy};
use crate::cures::table::{source, sources};
use crate::evidence::input::RecordedHost;
use crate::rules::device_rules::OTHERWISE;
use crate::rules::known_causes::{KNOWN, UnjudgedExits};
use crate::rules::reasons::{GROUPS, group};
use exitscope_analysis::{ExitCause, SubjectKey};
use exitscope_model::codes::system_register_parts;
use exitscope_model::{ExitCode, SubjectKind};

/// A cause of exits that a rule looks at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KnownCause {
    /// What rules call it.
    pub name: &'static str,
    /// Its ports, addresses, registers or calls; or the reasons of its exits.
    pub exits: Vec<String>,
    /// What is said of it: more than one where it depends on what else the recording shows.
    pub answers: Vec<KnownAnswer>,
}

/// What is said of a cause.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KnownAnswer {
    /// This change is advised.
    Change(&'static str),
    /// Nothing changes it, for this reason.
    Inherent(&'static str),
    /// Nobody can say, for this reason.
    NotJudged(&'static str),
    /// The same, of an MSR that KVM lets guests reach without an exit; this says when.
    Passed(String),
}

impl From<&Remedy> for KnownAnswer {
    fn from(answer: &Remedy) -> KnownAnswer {
        match *answer {
            Remedy::Cure(cure) => KnownAnswer::Change(cure.change),
            Remedy::Leave(why) => KnownAnswer::Inherent(why),
            Remedy::Unjudged(why) => KnownAnswer::NotJudged(why),
            Remedy::Passed(msr) => KnownAnswer::Passed(msr.when()),
        }
    }
}

/// All of them, in the order of the tables; rows of one name and answer together.
pub fn known_causes() -> Vec<KnownCause> {
    let mut causes: Vec<KnownCause> = Vec::new();
    for row in sources() {
        let answers: Vec<KnownAnswer> = answers(row).map(KnownAnswer::from).collect();
        match causes.iter_mut().find(|known| known.name == row.name && known.answers == answers) {
            Some(known) => known.exits.push(exits(row)),
            None => causes.push(KnownCause { name: row.name, exits: vec![exits(row)], answers }),
        }
    }
    causes.extend(GROUPS.iter().map(|group| KnownCause {
        name: group.exits.name,
        exits: vec![group.exits.exits.to_string()],
        answers: group.answers.iter().map(KnownAnswer::from).collect(),
    }));
    causes
}

/// All that may be said of the exits of a row.
fn answers(row: &'static ExitSource) -> impl Iterator<Item = &'static Remedy> {
    [&row.answer].into_iter().chain(OTHERWISE.iter().filter(|of| of.0 == row.name).flat_map(|of| of.1))
}

/// What the tables say of exits that were counted: which of it holds, a recording tells.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CountedCause {
    /// What rules call it.
    pub name: &'static str,
    /// The changes that may be advised, as short imperatives.
    pub changes: Vec<&'static str>,
    /// Why nothing changes it, where no change may be advised.
    pub inherent: Option<&'static str>,
}

impl CountedCause {
    /// Of exits about this, of a VM that is, or is not, known to be QEMU's.
    pub fn of_subject(host: &RecordedHost, is_qemu: bool, key: SubjectKey) -> Option<CountedCause> {
        let row = source(host, is_qemu, key.kind, key.key)?;
        Some(CountedCause::new(row.name, answers(row)))
    }

    /// Of exits for this reason, whatever they are about.
    pub fn of_reason(host: &RecordedHost, code: ExitCode) -> Option<CountedCause> {
        let group = group(host, &ExitCause { code, about: None })?;
        Some(CountedCause::new(group.exits.name, group.answers.iter()))
    }

    fn new(name: &'static str, answers: impl Iterator<Item = &'static Remedy>) -> CountedCause {
        let (mut changes, mut inherent) = (Vec::new(), None);
        for answer in answers {
            match answer {
                Remedy::Cure(cure) if !changes.contains(&cure.title) => changes.push(cure.title),
                Remedy::Leave(why) => inherent = inherent.or(Some(*why)),
                Remedy::Cure(_) | Remedy::Unjudged(_) | Remedy::Passed(_) => {}
            }
        }
        CountedCause { name, inherent: inherent.filter(|_| changes.is_empty()), changes }
    }
}

/// A cause of exits that is known, and that no rule looks at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnjudgedCause {
    /// What advice calls it.
    pub name: &'static str,
    /// Its sign in a recording.
    pub exits: &'static str,
    /// What it is.
    pub what: &'static str,
    /// What tells more.
    pub tells: &'static str,
}

/// All of them, in the order in which they are looked for.
pub fn known_and_unjudged() -> Vec<UnjudgedCause> {
    let cause = |row: &'static UnjudgedExits| UnjudgedCause {
        name: row.exits.name,
        exits: row.exits.exits,
        what: row.what,
        tells: row.tells,
    };
    KNOWN.iter().map(cause).collect()
}

/// `port 0x70 to 0x71`, `MSR 0x6e0`, `any CPUID leaf`.
fn exits(row: &ExitSource) -> String {
    let kind = match row.kind {
        SubjectKind::Port => "port",
        SubjectKind::Mmio => "MMIO page",
        SubjectKind::Msr => "MSR",
        SubjectKind::Apic => "APIC register",
        SubjectKind::Hypercall => "KVM's hypercall",
        SubjectKind::HypervHypercall => "Hyper-V's hypercall",
        SubjectKind::PpcHcall => "pseries hypercall",
        SubjectKind::Vmgexit => "VMGEXIT",
        SubjectKind::GhcbMsr => "request by the GHCB's MSR",
        SubjectKind::Cpuid => "CPUID leaf",
        SubjectKind::Hvc => "HVC or SMC",
        SubjectKind::SystemRegister => {
            // As assemblers write them.
            let [op0, op1, crn, crm, op2] = system_register_parts(row.range.0);
            let [_, last_op1, last_crn, last_crm, last_op2] = system_register_parts(row.range.1);
            return format!(
                "system register s{op0}_{op1}_c{crn}_c{crm}_{op2} to s{op0}_{last_op1}_c{last_crn}_c{last_crm}_{last_op2}"
            );
        }
        other => other.name(),
    };
    let places = match row.range {
        (0, u64::MAX) => return format!("any {kind}"),
        (first, last) if first == last => format!("{kind} {first:#x}"),
        (first, last) => format!("{kind} {first:#x} to {last:#x}"),
    };
    if row.of_qemu { format!("{places} (QEMU)") } else { places }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_cause_is_there_once_with_all_that_is_said_of_it() {
        let causes = known_causes();
        let of = |name: &str| causes.iter().filter(|known| known.name == name).collect::<Vec<_>>();
        let [timer] = of("timer")[..] else { panic!("{causes:#?}") };
        assert_eq!(timer.exits[..2], ["MSR 0x6e0", "MSR 0x832"]);
        assert!(timer.exits.contains(&"APIC register 0x380 to 0x390".to_string()));
        let [faults] = of("memory faults")[..] else { panic!("{causes:#?}") };
        assert!(faults.answers.len() == 14 && faults.answers.iter().all(|of| matches!(of, KnownAnswer::Change(_))));
        let [windows] = of("interrupt windows")[..] else { panic!("{causes:#?}") };
        assert!(matches!(windows.answers[..], [KnownAnswer::Change(_), KnownAnswer::NotJudged(_)]));
        let [ipis] = of("IPIs")[..] else { panic!("{causes:#?}") };
        assert_eq!(
            ipis.answers.len(),
            4,
            "of their receivers: any, the sender, one that has halted, with and without free CPUs"
        );
        assert!(OTHERWISE.iter().all(|(name, _)| !of(name).is_empty()));
        assert_eq!(of("ID registers")[0].exits, ["system register s3_0_c0_c1_0 to s3_0_c0_c7_7"]);
        assert_eq!(of("CPUID")[0].exits, ["any CPUID leaf"]);
        assert_eq!(of("ACPI PM timer")[0].exits, ["port 0x608 to 0x60b (QEMU)", "port 0xb008 to 0xb00b (QEMU)"]);
        assert!(matches!(of("PCI configuration")[0].answers[..], [KnownAnswer::Inherent(_)]));
    }

    #[test]
    fn of_counts_the_tables_tell_what_may_change_them() {
        let host = RecordedHost { arch: "x86_64".to_string(), ..RecordedHost::default() };
        let about = |kind, key| SubjectKey { kind, key, write: true };
        let of = |kind, key| CountedCause::of_subject(&host, true, about(kind, key)).unwrap();
        let serial = of(SubjectKind::Port, 0x3f8);
        assert!(serial.name == "serial port" && serial.changes.len() > 1 && serial.inherent.is_none(), "{serial:?}");
        assert!(serial.changes.iter().all(|title| title.starts_with(char::is_uppercase)), "{serial:?}");
        let pci = of(SubjectKind::Port, 0xcf8);
        assert!(pci.name == "PCI configuration" && pci.changes.is_empty() && pci.inherent.is_some(), "{pci:?}");
        let other = about(SubjectKind::Port, 0x608);
        assert_eq!(CountedCause::of_subject(&host, false, other), None, "a port of QEMU's own");
        let windows = CountedCause::of_reason(&host, ExitCode::new(exitscope_model::CodeList::Vmx, 7)).unwrap();
        assert!(windows.name == "interrupt windows" && !windows.changes.is_empty(), "{windows:?}");
        let io = ExitCode::new(exitscope_model::CodeList::Vmx, 30);
        assert_eq!(CountedCause::of_reason(&host, io), None, "the port tells");
    }

    #[test]
    fn what_is_not_judged_has_a_name_of_its_own_and_says_what_tells() {
        let (judged, unjudged) = (known_causes(), known_and_unjudged());
        for (at, row) in unjudged.iter().enumerate() {
            let is_new = |name| name != row.name;
            assert!(judged.iter().map(|known| known.name).all(is_new), "{}", row.name);
            assert!(unjudged[at + 1..].iter().map(|other| other.name).all(is_new), "{}", row.name);
            assert!(row.tells.contains('`') || row.tells.contains('/'), "a command or a file: {}", row.tells);
        }
    }
}
