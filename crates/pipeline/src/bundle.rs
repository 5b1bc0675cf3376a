//! A recording for somebody else, as a perf.data file.
//!
//! ```text
//! first reading ─► names of tracepoints and threads, whose codes ─► second reading ─► Anonymous ─► PerfWriter
//! ```
//!
//! Only what events say in the words of the model is written: of fields that are not read, nothing is.

use exitscope_model::{
    Anonymous, BOOT_ID, CodeList, Event, EventKind, EventNames, HostSetting, Ledger, LedgerLine, NameId, QemuOptions,
    Severity, TraceInfo, is_of_vm,
};
use exitscope_trace::tracepoints::recorded;
use exitscope_trace::{Input, PerfHead, PerfWriter, SourceOptions, TraceError, WrittenTrace, open_input};
use exitscope_units::{Tid, VmId};
use rustc_hash::{FxHashMap, FxHashSet};
use std::collections::BTreeSet;
use std::fs::File;
use std::io;

/// Systems of the kernel's own tracepoints that are recorded beside those that are read. Tracepoints of probes, people name.
const OTHER_SYSTEMS: &[&str] =
    &["kvmmmu", "irq", "irq_vectors", "ipi", "timer", "power", "exceptions", "hyperv", "csd", "workqueue"];

/// Why there is no bundle.
#[derive(Debug, thiserror::Error)]
pub enum BundleError {
    /// The recording cannot be read.
    #[error(transparent)]
    Trace(#[from] TraceError),
    /// The bundle cannot be written.
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// What the first reading says.
pub struct BundleSurvey {
    /// What the recording says of itself.
    pub info: TraceInfo,
    /// The tracepoints that are written.
    names: EventNames,
    process_of: FxHashMap<Tid, VmId>,
    list: Option<CodeList>,
    /// Events that could be read.
    pub events: u64,
    /// Records that the recording says were lost, of which no event says when.
    lost: u64,
    is_whole: bool,
}

impl BundleSurvey {
    /// Reads a recording once.
    pub fn of(input: &Input, options: SourceOptions) -> Result<BundleSurvey, BundleError> {
        let mut survey = BundleSurvey {
            info: TraceInfo::default(),
            names: EventNames::default(),
            process_of: FxHashMap::default(),
            list: None,
            events: 0,
            lost: 0,
            is_whole: true,
        };
        let mut told = 0u64;
        let (ledger, info) = read_events(input, options, |event, _| {
            survey.events += 1;
            if let EventKind::Lost { count } = event.kind {
                // As whoever reads the bundle will count them.
                told = told.saturating_add(count.max(1));
            }
            if event.vm != VmId::UNKNOWN {
                survey.process_of.entry(event.tid).or_insert(event.vm);
            }
            if let EventKind::Exit { code, .. } = event.kind {
                survey.list.get_or_insert(code.list);
            }
            Ok(())
        })?;
        let read = recorded(|_| true);
        let system = |name: &'static str| name.split_once(':').map(|(system, _)| system);
        let known: BTreeSet<&str> = read.into_iter().filter_map(system).chain(OTHER_SYSTEMS.iter().copied()).collect();
        for name in (0..info.names.len() as u16).map(|id| info.names.get(NameId(id))) {
            if name.split_once(':').is_some_and(|(system, _)| known.contains(system)) {
                survey.names.intern(name);
            }
        }
        survey.info = info;
        survey.lost = ledger.get(LedgerLine::LostRecords).saturating_sub(told);
        survey.is_whole = LedgerLine::ALL
            .iter()
            .all(|line| ledger.get(*line) == 0 || line.severity() < Severity::Error && !LedgerLine::CUT.contains(line));
        Ok(survey)
    }

    /// The machine, for what a `kvm_exit` looks like, and the vendor whose codes they are, as perf spells it.
    fn machine(&self) -> (&str, &str) {
        let (arch, cpuid) = match self.list {
            Some(CodeList::Svm) => ("x86_64", "AuthenticAMD,0,0,0"),
            Some(CodeList::Arm64Exit | CodeList::Arm64Ec) => ("aarch64", ""),
            Some(CodeList::S390) => ("s390x", ""),
            Some(CodeList::PpcTrap) => ("ppc64le", ""),
            Some(CodeList::PpcBooke) => ("ppc64", ""),
            Some(CodeList::Riscv) => ("riscv64", ""),
            Some(CodeList::Loongarch) => ("loongarch64", ""),
            Some(CodeList::Vmx) => ("x86_64", "GenuineIntel,0,0,0"),
            Some(CodeList::KvmExit | CodeList::Text) | None => ("x86_64", ""),
        };
        (if self.info.arch.is_empty() { arch } else { &self.info.arch }, cpuid)
    }

    /// Writes the bundle; also how many events were of tracepoints that are not written.
    pub fn write(&self, input: &Input, options: SourceOptions, to: &File) -> Result<(WrittenTrace, u64), BundleError> {
        let made_of = |name, value: &str| HostSetting::new("bundle", name, value);
        let mut anonymous = Anonymous::default();
        let mut settings: Vec<HostSetting> =
            self.info.settings.iter().filter(|of| !is_of_vm(of) && of.name != BOOT_ID).cloned().collect();
        // What is kept under a process's number is kept under its new one; of VMs without an event, nothing is.
        let vms: BTreeSet<VmId> = self.process_of.values().copied().collect();
        for vm in vms {
            let options = QemuOptions::of_settings(&self.info.settings, vm);
            if options.are_known() {
                settings.extend(options.settings(anonymous.vm(vm)));
            }
        }
        settings.extend([made_of("format", &self.info.format), made_of("clock", &self.info.clock)]);
        let (arch, cpuid) = self.machine();
        let head = PerfHead {
            arch,
            cpuid,
            cpu: &self.info.cpu,
            settings: &settings,
            hostname: "",
            release: &self.info.release,
            cpus: self.info.cpus,
            command: &["exitscope", "report", "--bundle"].map(String::from),
            names: &self.names,
            compressed: true,
        };
        let mut writer = PerfWriter::new(to, &head)?;
        let mut named: FxHashSet<Tid> = FxHashSet::default();
        let mut lost = Some(self.lost).filter(|&lost| lost > 0);
        let mut foreign = 0;
        read_events(input, options, |event, names| {
            let is_known = event.name == NameId::NONE || self.names.has(names.get(event.name));
            if !is_known {
                foreign += 1;
                return Ok(());
            }
            let mut new = anonymous.event(event);
            if let Some(count) = lost.take() {
                writer.event(&Event::lost(new.at, new.cpu, count))?;
            }
            for tid in threads(event) {
                let Some(name) = self.info.comms.get(&tid.0).filter(|_| named.insert(tid)) else { continue };
                let process = self.process_of.get(&tid).copied().unwrap_or(VmId(tid.0));
                let (name, process) = (anonymous.name(tid, name), anonymous.vm(process));
                writer.thread(new.at, process, anonymous.tid(tid), &name)?;
            }
            new.name = self.names.find(names.get(event.name));
            Ok(writer.event(&new)?)
        })?;
        match self.is_whole {
            true => Ok((writer.finish()?, foreign)),
            // It says of itself what can be said of what it was made of: that something is missing.
            false => Ok((writer.leave()?, foreign)),
        }
    }
}

/// The threads that an event is of or names, and the first of their process.
fn threads(event: &Event) -> impl Iterator<Item = Tid> {
    let others = match event.kind {
        EventKind::Switch { prev, next, .. } => [prev, next],
        EventKind::Wakeup { tid } => [tid, event.tid],
        _ => [event.tid, event.tid],
    };
    let process = event.vm.number().map_or(event.tid, Tid);
    [process, event.tid].into_iter().chain(others)
}

/// Reads a recording from its beginning to its end.
fn read_events(
    input: &Input,
    options: SourceOptions,
    mut each: impl FnMut(&Event, &EventNames) -> Result<(), BundleError>,
) -> Result<(Ledger, TraceInfo), BundleError> {
    let mut source = open_input(input.try_clone()?, options)?;
    let (mut ledger, mut events) = (Ledger::default(), Vec::new());
    loop {
        events.clear();
        let more = source.read(&mut events, &mut ledger)?;
        let names = &source.info().names;
        events.iter().try_for_each(|event| each(event, names))?;
        if !more {
            return Ok((ledger, source.info().clone()));
        }
    }
}
