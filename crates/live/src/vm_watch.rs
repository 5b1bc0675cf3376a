//! Which VMs are watched, and what they are called.

use exitscope_record::{Aggregation, Processes, RecordError, VmProcess, vms, vms_called};
use std::collections::{BTreeSet, HashMap};
use std::path::Path;
use std::time::{Duration, Instant};

/// How long there is between two looks at all processes, at least; and how many times as long as one took: with many processes
/// a look takes long, and it is to take 2 % of a CPU at most.
const REST: Duration = Duration::from_secs(1);
const REST_TIMES: u32 = 50;

/// The VMs of this host that are watched. They come and go.
#[derive(Debug)]
pub struct VmWatch {
    /// Watched as they come, if one name is wanted.
    name: Option<String>,
    /// Whether it looks for VMs.
    looks: bool,
    next: Option<Instant>,
    known: BTreeSet<u32>,
    named: HashMap<u32, VmProcess>,
}

impl VmWatch {
    /// Watches `processes`; of one name, further ones as they come. With `idle`, all VMs of the host are found if all are
    /// watched, also those without exits.
    pub fn new(processes: &Processes, name: Option<String>, idle: bool) -> VmWatch {
        let known = match processes {
            Processes::All => BTreeSet::new(),
            Processes::These(these) => these.iter().copied().collect(),
        };
        let looks = name.is_some() || idle && *processes == Processes::All;
        VmWatch { name, looks, next: None, known, named: HashMap::new() }
    }

    /// Looks for VMs if it is time to, and has those counted that came with the wanted name.
    pub fn look(&mut self, counting: &mut Aggregation) -> Result<(), RecordError> {
        if let Some(found) = self.scan() {
            let before = std::mem::take(&mut self.known);
            let meant = match &self.name {
                Some(name) => vms_called(found, name),
                None => found,
            };
            for vm in meant {
                if self.name.is_some() && !before.contains(&vm.process) {
                    counting.watch(vm.process)?;
                }
                self.known.insert(vm.process);
                self.named.insert(vm.process, vm);
            }
        }
        self.known.retain(|process| Path::new(&format!("/proc/{process}")).exists());
        Ok(())
    }

    /// Processes of VMs that were named or found, and are there.
    pub fn processes(&self) -> &BTreeSet<u32> {
        &self.known
    }

    /// What the VM of a process is called; the name is empty if the process was gone before somebody asked.
    pub fn vm(&mut self, process: u32) -> &VmProcess {
        self.named.entry(process).or_insert_with(|| VmProcess::of(process))
    }

    /// Forgets the names of processes that are neither known nor kept.
    pub fn forget_names(&mut self, keep: impl Fn(u32) -> bool) {
        self.named.retain(|process, _| self.known.contains(process) || keep(*process));
    }

    /// All VMs of this host; `None` if it is not time yet to look.
    fn scan(&mut self) -> Option<Vec<VmProcess>> {
        let began = Instant::now();
        if !self.looks || self.next.is_some_and(|next| began < next) {
            return None;
        }
        let found = vms();
        let took = began.elapsed();
        self.next = Some(began + took + REST.max(took * REST_TIMES));
        Some(found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_looks_again_at_once() {
        let mut watch = VmWatch::new(&Processes::All, None, true);
        assert!(watch.scan().is_some());
        assert!(watch.scan().is_none());
        let mut watch = VmWatch::new(&Processes::These(vec![1]), None, true);
        assert!(watch.scan().is_none(), "whose processes are named need not be found");
    }

    #[test]
    fn a_name_is_kept_as_long_as_somebody_wants_it() {
        let mut watch = VmWatch::new(&Processes::All, None, false);
        let own = std::process::id();
        watch.named.insert(own, VmProcess { name: "web".to_string(), ..VmProcess::of(own) });
        watch.forget_names(|process| process == own);
        assert_eq!(watch.vm(own).name, "web");
        watch.forget_names(|_| false);
        assert_ne!(watch.vm(own).name, "web", "another may have its number");
    }
}
