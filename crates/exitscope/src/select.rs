//! Which exits the flags select. A VM is named by what its process is called, or by its number; names are in the trace.
//!
//! ```text
//! --vm, --where on names ─► the traces are read once for their names ─► Selection
//! ```

use crate::cli::{ClockArgs, SelectArgs};
use crate::devices::DeviceList;
use crate::read::RecordingAccess;
use crate::totals::Totals;
use anyhow::bail;
use exitscope_analysis::{Condition, ExitFilter, Selection, SubjectKey, TextKey, TextWord, Texts};
use exitscope_model::codes::is_called;
use exitscope_model::{TraceInfo, WhoRow};
use exitscope_pipeline::{ReadOptions, check_reasons, read_all, vms_named};
use exitscope_trace::{EventFilter, GuestSymbols, Input};
use exitscope_units::{VcpuId, VmId};
use exitscope_view::{NO_SUBJECT, TraceRow, detail_of_kind};
use std::collections::BTreeSet;
use std::sync::Arc;

/// The exits that are looked at, and how traces are read for them.
pub struct SelectedExits {
    pub selection: Selection,
    pub options: ReadOptions,
    /// Whether exits of the selected vCPUs and moments are left out.
    pub is_narrowed: bool,
}

/// Names that recordings do not have.
#[derive(Default)]
pub struct OutsideNames {
    /// Of ports and addresses.
    pub devices: DeviceList,
    /// Of the guest's functions.
    pub symbols: Option<Arc<GuestSymbols>>,
}

impl SelectedExits {
    /// All exits.
    pub fn all(access: RecordingAccess) -> SelectedExits {
        let selection = Selection::default();
        let options = access.options(EventFilter::Used, &selection);
        SelectedExits { selection, options, is_narrowed: false }
    }

    /// Those that the flags ask for, of what these traces hold.
    pub fn of(args: &SelectArgs, inputs: &[Input], names: &OutsideNames) -> anyhow::Result<SelectedExits> {
        let SelectArgs { vms, vcpus, reasons, from, to, longer_than, condition, clock } = args;
        let access = RecordingAccess::of(clock);
        let for_names = SelectedExits::all(access).options;
        let mut selection = Selection::default();
        let of_condition: Vec<&str> = condition.iter().flat_map(Condition::reasons).collect();
        check_reasons(reasons, &of_condition, inputs, for_names)?;
        selection.reasons = reasons.clone();
        selection.vcpus = vcpus.iter().map(|&vcpu| VcpuId(vcpu)).collect();
        (selection.from, selection.to) = (*from, *to);
        selection.longer_than = *longer_than;
        if !vms.is_empty() {
            selection.vms = vms_named(vms, inputs, for_names)?;
        }
        if let Some(condition) = condition {
            let texts = texts(condition, for_names, inputs, &selection.vms, names)?;
            selection.filter = Some(ExitFilter::new(condition.clone(), texts));
        }
        let options = access.options(EventFilter::Used, &selection);
        Ok(SelectedExits { selection, options, is_narrowed: narrows_exits(args) })
    }
}

/// Whether the flags leave out exits of the vCPUs and moments that they select.
pub fn narrows_exits(args: &SelectArgs) -> bool {
    // Each flag is named, so that a new one is judged, too.
    let SelectArgs { vms: _, vcpus: _, reasons, from: _, to: _, longer_than, condition, clock } = args;
    let ClockArgs { tsc_hz: _, force: _, xen_mode: _ } = clock;
    !reasons.is_empty() || longer_than.is_some() || condition.is_some()
}

/// Whether the reasons that limits name are a hypervisor's: a misspelt name must not pass for a reason that did not occur.
pub fn check_limits<'a>(
    reasons: impl Iterator<Item = &'a str>,
    args: &SelectArgs,
    inputs: &[Input],
) -> anyhow::Result<()> {
    let reasons: Vec<&str> = reasons.collect();
    let is_selected = |wanted: &&str| args.reasons.iter().any(|of| is_called(wanted, of));
    if !args.reasons.is_empty()
        && let Some(left_out) = reasons.iter().find(|wanted| !is_selected(wanted))
    {
        bail!("--fail-on has a limit on {left_out}, which --reason leaves out");
    }
    Ok(check_reasons(&[], &reasons, inputs, SelectedExits::all(RecordingAccess::of(&args.clock)).options)?)
}

/// What a condition compares: the texts that pages show.
fn texts(
    condition: &Condition,
    for_names: ReadOptions,
    inputs: &[Input],
    selected: &[VmId],
    names: &OutsideNames,
) -> anyhow::Result<Texts> {
    let symbols = names.symbols.clone();
    let is_about = |words: &[TextWord]| condition.words().any(|word| words.contains(&word));
    if is_about(&[TextWord::Function]) && symbols.is_none() {
        bail!("--where compares function: name the guest's functions with report --guestkallsyms FILE");
    }
    let (mut totals, mut vms) = (Totals::default(), BTreeSet::new());
    if is_about(&[TextWord::Vm, TextWord::Vcpu, TextWord::Subject, TextWord::Handler]) {
        let (_, traces) = read_all(inputs, for_names, || (), |(), _| (), |(), ()| ())?;
        for trace in traces {
            let of_lanes = trace.lanes.iter().map(|lane| lane.who.vm);
            vms.extend(of_lanes.filter(|vm| selected.is_empty() || selected.contains(vm)));
            totals.add(trace);
        }
        if let Some(devices) = names.devices.get()? {
            totals.info.given = devices.of(&totals.info).0.into();
        }
    }
    let handlers = match totals.traces.iter().any(TraceRow::is_xen) {
        true => ["Xen", "device model"],
        false => ["kernel", "user space"],
    };
    let vms: Vec<VmId> = vms.into_iter().collect();
    let (info, called) = (totals.info.clone(), totals.info.subject_names());
    let is_one = vms.iter().map(|vm| vm_label(*vm, &info)).collect::<BTreeSet<_>>().len() == 1;
    Ok(Arc::new(move |key| {
        let function = |rip| symbols.as_ref()?.function(rip);
        match key {
            TextKey::Vm(vm) => vm_label(vm, &info),
            TextKey::Vcpu(who) if is_one => format!("vCPU {}", WhoRow::of(who, &info).vcpu_label()),
            TextKey::Vcpu(who) => format!("{} / {}", vm_label(who.vm, &info), WhoRow::of(who, &info).vcpu_label()),
            TextKey::Reason(code) => code.name(),
            TextKey::Subject(None) => NO_SUBJECT.to_string(),
            TextKey::Subject(Some(SubjectKey { kind, key, write })) => {
                detail_of_kind(called.of_key(&vms, kind, key).as_deref(), kind, key, write)
            }
            TextKey::Handler { user_space } => handlers[usize::from(user_space)].to_string(),
            TextKey::Cpu(cpu) => format!("CPU {}", cpu.0),
            TextKey::Rip(0) | TextKey::Function(0) => "not recorded".to_string(),
            TextKey::Rip(rip) => match function(rip) {
                Some((start, name)) => format!("{rip:#x} {name}+{:#x}", rip - start),
                None => format!("{rip:#x}"),
            },
            TextKey::Function(rip) => function(rip).map_or("not known", |(_, name)| name).to_string(),
        }
    }))
}

fn vm_label(vm: VmId, info: &TraceInfo) -> String {
    WhoRow { vm: vm.number(), vm_name: info.vm_name(vm), ..WhoRow::default() }.vm_label()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::CommandLine;
    use clap::Args;
    use serde_json::Value;

    /// For each flag that selects, a value by which some exits of the recording are selected.
    const VALUES: [(&str, &str); 7] = [
        ("vms", "121"),
        ("vcpus", "0"),
        ("reasons", "io"),
        ("from", "+1s"),
        ("to", "+2s"),
        ("longer_than", "1us"),
        ("condition", "cost > 1us"),
    ];

    fn selection(flags: &[&str]) -> Value {
        let trace = concat!(env!("CARGO_MANIFEST_DIR"), "/../../corpus/x86-svm/t2.data.gz");
        let arguments = [&["exitscope", "report", trace, "--format", "json"], flags].concat();
        let mut out = Vec::new();
        CommandLine::parse(&arguments).unwrap().run(&mut out).unwrap();
        serde_json::from_slice::<Value>(&out).unwrap()["selection"].take()
    }

    #[test]
    fn a_report_names_each_flag_by_which_exits_were_selected() {
        let flags = SelectArgs::augment_args(clap::Command::new("select"));
        let clock = ClockArgs::augment_args(clap::Command::new("clock"));
        let selects = |id: &clap::Id| clock.get_arguments().all(|arg| arg.get_id() != id);
        let all = selection(&[]);
        for arg in flags.get_arguments().filter(|arg| selects(arg.get_id())) {
            let name = format!("--{}", arg.get_long().unwrap());
            let value = VALUES.iter().find(|(id, _)| arg.get_id() == *id);
            let (_, value) = value.unwrap_or_else(|| panic!("{name}: which value selects?"));
            assert_ne!(selection(&[&name, value]), all, "{name} is not in the report's selection");
        }
    }
}
