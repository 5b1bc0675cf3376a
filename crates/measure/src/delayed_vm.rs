//! Which exits of which VM a trial delays, and what it reports of them.

use crate::{DelayGuard, DelayedLevel};
use exitscope_model::{CodeList, ExitCode};
use exitscope_record::{DelayedExits, RecordError, VmLookupError, one_vm, vms};
use exitscope_trial::{HostTrial, TrialVerdict};
use exitscope_units::Nanos;
use exitscope_view::{DelayLevelRow, SensitivityRow, TrialReport};
use std::path::Path;
use std::time::Duration;

/// Where the achieved delay is among the metrics: behind the user's.
pub const DELAY_METRIC: usize = 1;

/// Why nothing is delayed.
#[derive(Debug, thiserror::Error)]
pub enum DelayedVmError {
    /// There is no such VM.
    #[error(transparent)]
    Vm(#[from] VmLookupError),
    /// The process has none.
    #[error("process {0} has no virtual machine of KVM, or one of another user's: root sees all")]
    NoVm(u32),
    /// These exits cannot be delayed here.
    #[error(transparent)]
    Exits(#[from] RecordError),
    /// There is no such reason; which there are.
    #[error("--reason names {0}")]
    Reason(&'static str),
}

/// Which exits of which VM are delayed.
pub struct DelayedVm {
    /// The VM, as it was named.
    pub vm: String,
    /// Its process.
    pub process: u32,
    /// Which of its exits.
    pub exits: DelayedExits,
    /// Exits of which reason alone.
    pub reason: Option<ExitCode>,
    /// Delays, 0 first.
    pub delays: Vec<Nanos>,
}

impl DelayedVm {
    /// The VM of this name or process, whose exits are delayed by each of `delays`, and in other turns not.
    pub fn find(vm: &str, reason: Option<&str>, delays: &[Nanos]) -> Result<DelayedVm, DelayedVmError> {
        let process = one_vm(vm)?;
        if vms().iter().all(|of| of.process != process) {
            return Err(DelayedVmError::NoVm(process));
        }
        let widest = DelayedExits::widest()?;
        let (exits, reason) = match reason {
            None => (widest, None),
            Some(name) => {
                let found = find_reason(name, widest, hardware_codes());
                let (exits, code) = found.ok_or(DelayedVmError::Reason(reasons(widest)))?;
                exits.check()?;
                (exits, Some(code))
            }
        };
        let delays = std::iter::once(Nanos::ZERO).chain(delays.iter().copied()).collect();
        Ok(DelayedVm { vm: vm.to_string(), process, exits, reason, delays })
    }

    /// What the settings of the plan are called.
    pub fn labels(&self) -> Vec<String> {
        self.delays.iter().map(|&delay| format!("delay={}", plain(delay))).collect()
    }

    /// The exits in words.
    pub fn text(&self) -> String {
        let reason = self.reason.map_or(String::new(), |reason| format!(", {} alone", reason.name()));
        format!("{} of process {}{reason}", self.exits, self.process)
    }

    /// The trial as plain data: on this host, decided by this metric, with what was delayed if it was begun.
    pub fn report(&self, host: &str, decided_by: String, trial: &HostTrial, guard: Option<&DelayGuard>) -> TrialReport {
        let measured: &[DelayedLevel] = guard.map_or(&[], DelayGuard::levels);
        let verdict = trial.verdict();
        let mut report = TrialReport::of(host, vec![self.text()], decided_by, trial);
        let length: Duration = measured.iter().map(|level| level.length).sum();
        let exits: u64 = measured.iter().map(|level| level.counts.exits + level.counts.lost).sum();
        let mut row = SensitivityRow {
            vm: self.vm.clone(),
            exits: if self.exits == DelayedExits::All { "all" } else { "to_user_space" }.into(),
            reason: self.reason.map(ExitCode::name),
            ruling: "undecided".into(),
            percent_per_100ns: None,
            low_percent: None,
            high_percent: None,
            text: String::new(),
            exits_per_s: (!length.is_zero()).then(|| exits as f64 / length.as_secs_f64()),
            missed: guard.map_or(0, DelayGuard::missed),
            levels: (0..self.delays.len()).map(|at| self.level_row(at, measured, &verdict)).collect(),
        };
        if let Some(slope) = &verdict.slope {
            row.note(slope, verdict.matters);
        }
        report.sensitivity = Some(row);
        report
    }

    fn level_row(&self, at: usize, measured: &[DelayedLevel], verdict: &TrialVerdict) -> DelayLevelRow {
        let mean = |metric: usize| match at {
            0 => verdict.settings[0].effects[metric].in_force,
            _ => verdict.settings[at - 1].effects[metric].with,
        };
        let counts = measured.get(at).map(|level| level.counts).unwrap_or_default();
        DelayLevelRow {
            asked_ns: self.delays[at].0,
            achieved_ns: mean(DELAY_METRIC),
            mean: mean(0),
            exits: counts.exits,
            delayed: counts.delayed,
            skipped: counts.skipped,
            lost: counts.lost,
        }
    }
}

/// A length without digits that are 0: `1us`, `1500ns`.
fn plain(delay: Nanos) -> String {
    match delay.0 {
        0 => "0".to_string(),
        nanos if nanos % 1_000 == 0 => format!("{}us", nanos / 1_000),
        nanos => format!("{nanos}ns"),
    }
}

/// The list of codes that this host's `kvm_exit` has.
fn hardware_codes() -> Option<CodeList> {
    let lists = [("kvm_intel", CodeList::Vmx), ("kvm_amd", CodeList::Svm)];
    lists.into_iter().find(|(module, _)| Path::new("/sys/module").join(module).exists()).map(|of| of.1)
}

/// The exits of this reason: a reason of the hardware's where all exits can be delayed, otherwise one of `KVM_EXIT_*`.
fn find_reason(name: &str, widest: DelayedExits, hardware: Option<CodeList>) -> Option<(DelayedExits, ExitCode)> {
    let code = |list| {
        let named = if list == CodeList::Vmx && name.eq_ignore_ascii_case("io") { "IO_INSTRUCTION" } else { name };
        let spellings = [named.to_ascii_uppercase(), named.to_ascii_lowercase()];
        let code = spellings.iter().find_map(|name| ExitCode::from_name(list, name))?;
        u32::try_from(code.number).is_ok().then_some(code)
    };
    let of_hardware = || Some((DelayedExits::All, code(hardware?)?));
    let of_kvm = || Some((DelayedExits::ToUserSpace, code(CodeList::KvmExit)?));
    of_hardware().filter(|_| widest == DelayedExits::All).or_else(of_kvm)
}

/// Which reasons there are.
fn reasons(widest: DelayedExits) -> &'static str {
    match widest {
        DelayedExits::All => "a reason of kvm_exit on this host, like io or hlt, or of KVM_EXIT_*, like mmio",
        DelayedExits::ToUserSpace => {
            "one of KVM_EXIT_*, like io, mmio or hlt, as only exits to user space can be delayed here"
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_is_the_hardwares_where_all_exits_can_be_delayed_and_otherwise_kvms() {
        use DelayedExits::{All, ToUserSpace};
        let of = |name, widest, hardware| {
            find_reason(name, widest, hardware).map(|(exits, code): (_, ExitCode)| (exits, code.list, code.number))
        };
        let (vmx, svm) = (Some(CodeList::Vmx), Some(CodeList::Svm));
        for (name, widest, hardware, found) in [
            ("io", ToUserSpace, None, Some((ToUserSpace, CodeList::KvmExit, 2))),
            ("KVM_EXIT_MMIO", ToUserSpace, None, Some((ToUserSpace, CodeList::KvmExit, 6))),
            ("hlt", ToUserSpace, vmx, Some((ToUserSpace, CodeList::KvmExit, 5))),
            ("hlt", All, vmx, Some((All, CodeList::Vmx, 12))),
            ("io", All, vmx, Some((All, CodeList::Vmx, 30))),
            ("io", All, svm, Some((All, CodeList::Svm, 0x7b))),
            ("mmio", All, vmx, Some((ToUserSpace, CodeList::KvmExit, 6))),
            ("msr_write", ToUserSpace, None, None),
            ("io", All, None, Some((ToUserSpace, CodeList::KvmExit, 2))),
            ("nothing", All, svm, None),
        ] {
            assert_eq!(of(name, widest, hardware), found, "{name} {widest} {hardware:?}");
        }
    }

    #[test]
    fn a_delay_is_named_without_digits_that_are_0() {
        assert_eq!([0, 200, 1_500, 5_000].map(|nanos| plain(Nanos(nanos))), ["0", "200ns", "1500ns", "5us"]);
    }
}
