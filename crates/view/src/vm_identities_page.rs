//! The table of who the VMs of a recording are.

use crate::report::Report;
use crate::sections::{PageSection, Table, and_more, column};
use crate::vm_identities::VmIdentityRow;

/// A column of the table, and its cell of a row.
type IdentityColumn = (&'static str, fn(&VmIdentityRow) -> Option<&str>);

/// The columns that a person sees, of which those without a value are left out.
const COLUMNS: [IdentityColumn; 8] = [
    ("manager", |row| row.manager),
    ("VMID", |row| row.vmid.as_deref()),
    ("namespace", |row| row.namespace.as_deref()),
    ("VMI", |row| row.vmi.as_deref()),
    ("pod", |row| row.pod.as_deref()),
    ("display name", |row| row.display_name.as_deref()),
    ("UUID", |row| row.uuid.as_deref()),
    // One is what everybody expects.
    ("VMs of the process", |row| row.vms_of_process.as_deref().filter(|vms| *vms != "1")),
];

/// Who the selected VMs are, `most` rows at most.
pub(crate) fn vm_identities_section(report: &Report, most: usize) -> Option<PageSection> {
    let selected = &report.selection.vms;
    let is_selected = |row: &&VmIdentityRow| selected.is_empty() || selected.contains(&row.vm);
    let all: Vec<&VmIdentityRow> = report.traces.iter().flat_map(|trace| &trace.vms).filter(is_selected).collect();
    if all.is_empty() {
        return None;
    }
    let known: Vec<&IdentityColumn> =
        COLUMNS.iter().filter(|(_, cell)| all.iter().any(|row| cell(row).is_some())).collect();
    let columns = [column("VM", true, 0)].into_iter();
    let columns = columns.chain((0..).zip(&known).map(|(rank, (title, _))| column(*title, true, rank)));
    let rows = all.iter().take(most).map(|row| {
        let name = row.name.as_ref().map_or_else(|| row.vm.to_string(), |name| format!("{name} {}", row.vm));
        let cells = known.iter().map(|(_, cell)| cell(row).unwrap_or("-").to_string());
        [name].into_iter().chain(cells).collect()
    });
    Some(PageSection {
        title: "VMs, by who runs them".into(),
        table: Some(Table { columns: columns.collect(), rows: rows.collect() }),
        notes: and_more(all.len().saturating_sub(most)).into_iter().collect(),
        say_hidden: true,
        ..PageSection::default()
    })
}
