//! What can be done on a machine, as plain data and as a page.

use crate::page::{Page, PageSection, Sentence, Table, column, plain};
use exitscope_scenario::findings::{Check, CheckState};
use schemars::JsonSchema;
use serde::Serialize;

/// What KVM and tracing can do on this machine.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct DoctorReport {
    /// Name and version of this layout. Fields may be added within a version; none changes its meaning.
    pub schema: &'static str,
    /// The checks that were made, in the order of their areas.
    pub checks: Vec<CheckRow>,
}

/// One thing that was looked at.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct CheckRow {
    /// The heading under which it is listed, such as `Recording`.
    pub area: String,
    /// What was checked: a device, a tracepoint, a permission, a tool.
    pub what: String,
    /// `good`, `limited` (it works in part) or `missing`.
    pub state: &'static str,
    /// What was found, in words.
    pub found: String,
    /// How to get what is missing or limited; absent where the state is `good`, or nothing helps.
    pub remedy: Option<String>,
}

impl DoctorReport {
    /// What was found, as plain data.
    pub fn of(checks: &[Check]) -> DoctorReport {
        let row = |check: &Check| CheckRow {
            area: check.area.to_string(),
            what: check.what.clone(),
            state: match check.state {
                CheckState::Good => "good",
                CheckState::Limited => "limited",
                CheckState::Missing => "missing",
            },
            found: check.found.clone(),
            remedy: check.remedy.clone(),
        };
        DoctorReport { schema: "exitscope.doctor/1", checks: checks.iter().map(row).collect() }
    }
}

/// The page: a table for each area, then what is missing and how to get it.
pub fn doctor_page(checkup: &DoctorReport) -> Page {
    let mut sections: Vec<PageSection> = Vec::new();
    for check in &checkup.checks {
        if sections.last().is_none_or(|section| section.title != check.area) {
            let columns = vec![column("", true, 0), column("", true, 0), column("", true, 0)];
            let table = Some(Table { columns, rows: Vec::new() });
            sections.push(PageSection { title: check.area.clone(), table, ..PageSection::default() });
        }
        if let Some(table) = sections.last_mut().and_then(|section| section.table.as_mut()) {
            table.rows.push(vec![check.state.to_string(), check.what.clone(), check.found.clone()]);
        }
    }
    let missing: Vec<Sentence> = checkup
        .checks
        .iter()
        .filter_map(|check| {
            let text = format!("{}: {}", check.what, check.remedy.as_ref()?);
            Some(Sentence { text, warning: check.state == "missing" })
        })
        .collect();
    let sentences = if missing.is_empty() { vec![plain("Nothing is missing.".to_string())] } else { missing };
    sections.push(PageSection {
        title: "What is missing, and how to get it".into(),
        sentences,
        ..PageSection::default()
    });
    Page { sections }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(area: &str, what: &str, state: &'static str, remedy: Option<&str>) -> CheckRow {
        let found = format!("{what} found");
        CheckRow { area: area.into(), what: what.into(), state, found, remedy: remedy.map(str::to_string) }
    }

    #[test]
    fn each_area_is_a_table_and_what_is_missing_comes_last() {
        let of = |checks: Vec<CheckRow>| doctor_page(&DoctorReport { schema: "", checks }).sections;
        let sections = of(vec![
            check("KVM", "/dev/kvm", "good", None),
            check("KVM", "nested", "limited", Some("load it")),
            check("Recording", "perf", "missing", Some("install it")),
        ]);
        let tables: Vec<(&str, usize)> = sections
            .iter()
            .filter_map(|section| Some((section.title.as_str(), section.table.as_ref()?.rows.len())))
            .collect();
        assert_eq!(tables, [("KVM", 2), ("Recording", 1)]);
        assert_eq!(sections[0].table.as_ref().unwrap().rows[1], ["limited", "nested", "nested found"]);
        let said = |sections: &[PageSection]| -> Vec<(String, bool)> {
            sections.last().unwrap().sentences.iter().map(|of| (of.text.clone(), of.warning)).collect()
        };
        let missing = [("nested: load it", false), ("perf: install it", true)];
        assert_eq!(said(&sections), missing.map(|(text, warns)| (text.to_string(), warns)));
        let well = of(vec![check("KVM", "/dev/kvm", "good", None)]);
        assert_eq!(said(&well), [("Nothing is missing.".to_string(), false)]);
    }
}
