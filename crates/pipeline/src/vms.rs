//! The VMs of traces: by their numbers, by what their processes are called, or by what those who run them call them.

use crate::{ReadError, ReadOptions, read_alone};
use exitscope_analysis::TraceSink;
use exitscope_model::{BesideRow, Exit};
use exitscope_trace::Input;
use exitscope_units::VmId;
use rustc_hash::FxHashSet;
use std::collections::{BTreeMap, BTreeSet};

/// Why a VM is not found.
#[derive(Debug, thiserror::Error)]
pub enum VmError {
    /// A trace cannot be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// None is called so.
    #[error("no VM {wanted:?} in {inputs}; {there}")]
    None {
        /// The name or number.
        wanted: String,
        /// The traces.
        inputs: String,
        /// Which VMs there are.
        there: String,
    },
}

/// The VMs that a trace has.
struct Vms<'a> {
    found: FxHashSet<VmId>,
    /// Those that are looked for; once they are found, the rest of the trace need not be read.
    wanted: Option<&'a [VmId]>,
}

impl TraceSink for Vms<'_> {
    fn beside_row(&mut self, row: BesideRow<'_>) {
        // Xen's domain 0 never leaves a guest.
        if let BesideRow::SchedulerEvent(event) = row {
            self.found.insert(event.vm);
        }
    }

    #[inline]
    fn absorb(&mut self, exit: &Exit) {
        self.found.insert(exit.who.vm);
    }

    fn is_full(&self) -> bool {
        self.wanted.is_some_and(|wanted| wanted.iter().all(|vm| self.found.contains(vm)))
    }
}

/// The VMs of these numbers, names, UUIDs, …; each must be there.
pub fn vms_named(names: &[String], inputs: &[Input], options: ReadOptions) -> Result<Vec<VmId>, VmError> {
    let numbers: Option<Vec<VmId>> = names.iter().map(|of| of.parse().ok().map(VmId::domain)).collect();
    let mut there: BTreeMap<VmId, Option<String>> = BTreeMap::new();
    let mut called: Vec<BTreeSet<VmId>> = vec![BTreeSet::new(); names.len()];
    for input in inputs {
        let fresh = || Vms { found: FxHashSet::default(), wanted: numbers.as_deref() };
        let (trace, vms) = read_alone(input, options, fresh)?;
        names.iter().zip(&mut called).for_each(|(wanted, called)| called.extend(trace.info.vms_called(wanted)));
        for vm in vms.found.into_iter().filter(|&vm| vm != VmId::UNKNOWN && vm != VmId::IDLE_DOMAIN) {
            let name = there.entry(vm).or_default();
            *name = name.take().or_else(|| trace.info.comms.get(&vm.0).cloned());
        }
    }
    let mut found = Vec::new();
    for (wanted, called) in names.iter().zip(&called) {
        let before = found.len();
        // A number is first a process's, then whatever else is called so, as Proxmox' VMs are.
        match wanted.parse().map(VmId::domain) {
            Ok(number) if there.contains_key(&number) => found.push(number),
            _ => found.extend(called.iter().filter(|&vm| there.contains_key(vm))),
        }
        if found.len() == before {
            let inputs = inputs.iter().map(Input::name).collect::<Vec<_>>().join(", ");
            return Err(VmError::None { wanted: wanted.clone(), inputs, there: list(&there) });
        }
    }
    Ok(found)
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
