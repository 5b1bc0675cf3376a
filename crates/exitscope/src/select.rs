//! Which exits the flags select. A VM is named by what its process is called, or by its number; names are in the trace.

use crate::cli::SelectArgs;
use crate::read::{self, Earlier, Sink};
use crate::report::check_reason;
use anyhow::bail;
use exitscope_analysis::Selection;
use exitscope_model::{Event, Exit, is_called};
use exitscope_trace::{Input, Keep};
use exitscope_units::{Moment, VcpuId, VmId};
use rustc_hash::FxHashSet;
use std::collections::BTreeMap;

/// The VMs that a trace has.
struct Vms<'a> {
    found: FxHashSet<VmId>,
    /// Those that are looked for; once they are found, the rest of the trace need not be read.
    wanted: Option<&'a [VmId]>,
}

impl Sink for Vms<'_> {
    fn begin(&mut self, _: Moment) {}

    // Xen's domain 0 never leaves a guest.
    fn schedule(&mut self, event: &Event) {
        self.found.insert(event.vm);
    }

    #[inline]
    fn absorb(&mut self, exit: &Exit) {
        self.found.insert(exit.who.vm);
    }

    fn is_full(&self) -> bool {
        self.wanted.is_some_and(|wanted| wanted.iter().all(|vm| self.found.contains(vm)))
    }
}

/// The selection that the flags ask for, of what these traces hold.
pub fn selection(args: &SelectArgs, inputs: &[Input]) -> anyhow::Result<Selection> {
    let mut selection = Selection::default();
    for reason in &args.reasons {
        check_reason(reason)?;
    }
    selection.reasons = args.reasons.clone();
    selection.vcpus = args.vcpus.iter().map(|&vcpu| VcpuId(vcpu)).collect();
    selection.from = args.from;
    selection.to = args.to;
    selection.longer_than = args.longer_than;
    if !args.vms.is_empty() {
        selection.vms = vms(args, inputs)?;
    }
    Ok(selection)
}

/// The VMs of these names and numbers; each must be there.
fn vms(args: &SelectArgs, inputs: &[Input]) -> anyhow::Result<Vec<VmId>> {
    let numbers: Option<Vec<VmId>> = args.vms.iter().map(|of| of.parse().ok().map(VmId::domain)).collect();
    let mut there: BTreeMap<VmId, Option<String>> = BTreeMap::new();
    for input in inputs {
        let fresh = || Vms { found: FxHashSet::default(), wanted: numbers.as_deref() };
        let options = args.clock.options(Keep::Timed);
        let (trace, vms) = read::read_input(input.try_clone()?, &mut Earlier::default(), false, options, fresh)?;
        for vm in vms.found.into_iter().filter(|&vm| vm != VmId::UNKNOWN && vm != VmId::IDLE_DOMAIN) {
            let name = there.entry(vm).or_default();
            *name = name.take().or_else(|| trace.info.comms.get(&vm.0).cloned());
        }
    }
    let mut found = Vec::new();
    for wanted in &args.vms {
        let before = found.len();
        let is_named = |name: &String| is_called(name, wanted);
        match wanted.parse().map(VmId::domain) {
            Ok(number) => found.extend(there.contains_key(&number).then_some(number)),
            Err(_) => found.extend(there.iter().filter(|row| row.1.as_ref().is_some_and(is_named)).map(|row| *row.0)),
        }
        if found.len() == before {
            bail!("no VM {wanted:?} in {}; {}", names(inputs), list(&there));
        }
    }
    Ok(found)
}

fn names(inputs: &[Input]) -> String {
    inputs.iter().map(Input::name).collect::<Vec<_>>().join(", ")
}

/// What VMs there are.
fn list(there: &BTreeMap<VmId, Option<String>>) -> String {
    /// Of them are named at most.
    const MOST: usize = 20;
    let label = |(vm, name): (&VmId, &Option<String>)| match (vm.number(), name) {
        (Some(number), Some(name)) => format!("{number} ({name})"),
        (Some(number), None) => number.to_string(),
        (None, _) => "one without a number".to_string(),
    };
    let mut labels: Vec<String> = there.iter().take(MOST).map(label).collect();
    if there.len() > MOST {
        labels.push(format!("and {} more", there.len() - MOST));
    }
    match labels.is_empty() {
        true => "it names none".to_string(),
        false => format!("there are {}", labels.join(", ")),
    }
}
