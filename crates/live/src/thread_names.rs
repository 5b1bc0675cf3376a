//! Names of threads, as a recording has them.

use exitscope_record::{Tracepoint, TracepointSample, VmProcess, thread_name};
use std::collections::BTreeSet;

/// Threads and processes that are remembered at most; beyond, names are given once more.
const MAX_NAMED: usize = 1 << 14;

/// Gives the names of threads that run virtual CPUs, and of their processes, with the first sample of each.
#[derive(Debug)]
pub struct ThreadNames {
    /// Of each tracepoint, whether it is one of KVM's.
    of_kvm: Vec<bool>,
    known: BTreeSet<u32>,
}

impl ThreadNames {
    /// For samples of these tracepoints.
    pub fn new(tracepoints: &[Tracepoint]) -> ThreadNames {
        let of_kvm = tracepoints.iter().map(|tracepoint| !tracepoint.follows_threads()).collect();
        ThreadNames { of_kvm, known: BTreeSet::new() }
    }

    /// Whether a sample is of one of KVM's tracepoints, which only threads of virtual CPUs reach.
    pub fn is_of_kvm(&self, sample: &TracepointSample) -> bool {
        self.of_kvm[sample.tracepoint]
    }

    /// The sample's thread and its process with their names, the process first, as far as they are new. A process is called as
    /// its VM is.
    pub fn new_in(&mut self, sample: &TracepointSample) -> Vec<(u32, String)> {
        let TracepointSample { process, thread, .. } = *sample;
        if !self.is_of_kvm(sample) || self.known.contains(&thread) {
            return Vec::new();
        }
        if self.known.len() >= MAX_NAMED {
            self.known.clear();
        }
        self.known.insert(thread);
        let mut names = Vec::new();
        if self.known.insert(process) || process == thread {
            names.push((process, VmProcess::of(process).name));
        }
        if process != thread {
            names.push((thread, thread_name(process, thread)));
        }
        names
    }
}
