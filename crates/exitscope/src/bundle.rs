//! `exitscope report --bundle`: a recording for somebody else, as a perf.data file.
//!
//! ```text
//! first reading ─► names of tracepoints and threads, whose codes ─► second reading ─► Anonymous ─► PerfWriter
//! ```
//!
//! Only what events say in the words of the model is written: of fields that are not read, nothing is.

use crate::Outcome;
use crate::cli::ReportArgs;
use crate::new_file::{can_write, is_none_of, replace};
use crate::read;
use anyhow::{Context, bail};
use exitscope_model::{
    Anonymous, CodeList, Event, EventNames, Kind, Ledger, Line, NameId, QemuOptions, Setting, Severity, TraceInfo,
    is_of_vm,
};
use exitscope_trace::{Keep, PerfHead, PerfWriter, Written};
use exitscope_units::{Tid, VmId};
use exitscope_view::thousands;
use rustc_hash::{FxHashMap, FxHashSet};
use std::collections::BTreeSet;
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};

/// Of what is recorded besides KVM, the kernel's own tracepoints: those of probes, people name.
const SYSTEMS: &[&str] = &[
    "kvm",
    "kvmmmu",
    "kvm_hv",
    "sched",
    "syscalls",
    "raw_syscalls",
    "irq",
    "irq_vectors",
    "ipi",
    "timer",
    "power",
    "exceptions",
    "hyperv",
    "csd",
    "workqueue",
];

/// The one recording.
fn the_file(args: &ReportArgs) -> anyhow::Result<PathBuf> {
    let files = read::files(&args.files, &args.inputs)?;
    let [file] = &files[..] else { bail!("--bundle holds one recording, and {} are named", files.len()) };
    match file.metadata() {
        Ok(about) if about.is_file() => Ok(file.clone()),
        Ok(_) => bail!("--bundle reads the recording twice, and {} is no file", file.display()),
        Err(why) => Err(why).with_context(|| file.display().to_string()),
    }
}

pub fn run(args: &ReportArgs, to: &Path, out: &mut dyn Write) -> anyhow::Result<Outcome> {
    let file = the_file(args)?;
    is_none_of(to, std::slice::from_ref(&file), "--bundle")?;
    can_write(to)?;
    let survey = Survey::of(&file, args)?;
    if survey.info.by_vcpu {
        bail!(
            "{}: of Xen's logs there are no bundles: they name no process; domains have numbers alone",
            file.display()
        );
    }
    if survey.events == 0 {
        bail!("{}: no event could be read", file.display());
    }
    let (written, foreign) = replace(to, |new| survey.write(&file, args, new))?;
    let (events, size) = (thousands(written.events), thousands(written.bytes.div_ceil(1000)));
    writeln!(out, "{}: {events} events in {size} kB", to.display())?;
    for (count, why) in [
        (foreign, "of tracepoints that are not the kernel's own"),
        (written.left_out, "that have no place in perf.data"),
    ] {
        if count > 0 {
            writeln!(out, "Left out: {} events {why}", thousands(count))?;
        }
    }
    writeln!(
        out,
        "Replaced: the host's name, names of threads, numbers of processes, addresses; left out: what was read and written.\n\
         Look through it before you send it (`exitscope events {}`); docs/bundle.md says what it holds.",
        to.display()
    )?;
    Ok(Outcome::Fine)
}

/// What the first reading says.
struct Survey {
    info: TraceInfo,
    /// The tracepoints that are written.
    names: EventNames,
    process_of: FxHashMap<Tid, VmId>,
    list: Option<CodeList>,
    events: u64,
    /// Records that the recording says were lost, of which no event says when.
    lost: u64,
    is_whole: bool,
}

impl Survey {
    fn of(file: &Path, args: &ReportArgs) -> anyhow::Result<Survey> {
        let mut survey = Survey {
            info: TraceInfo::default(),
            names: EventNames::default(),
            process_of: FxHashMap::default(),
            list: None,
            events: 0,
            lost: 0,
            is_whole: true,
        };
        let mut told = 0u64;
        let (ledger, info) = read_all(file, args, |event, _| {
            survey.events += 1;
            if let Kind::Lost { count } = event.kind {
                // As whoever reads the bundle will count them.
                told = told.saturating_add(count.max(1));
            }
            if event.vm != VmId::UNKNOWN {
                survey.process_of.entry(event.tid).or_insert(event.vm);
            }
            if let Kind::Exit { code, .. } = event.kind {
                survey.list.get_or_insert(code.list);
            }
            Ok(())
        })?;
        for name in (0..info.names.len() as u16).map(|id| info.names.get(NameId(id))) {
            if name.split_once(':').is_some_and(|(system, _)| SYSTEMS.contains(&system)) {
                survey.names.intern(name);
            }
        }
        survey.info = info;
        survey.lost = ledger.get(Line::LostRecords).saturating_sub(told);
        survey.is_whole = Line::ALL
            .iter()
            .all(|line| ledger.get(*line) == 0 || line.severity() < Severity::Error && !Line::CUT.contains(line));
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
    fn write(&self, file: &Path, args: &ReportArgs, to: &File) -> anyhow::Result<(Written, u64)> {
        let made_of = |name, value: &str| Setting::new("bundle", name, value);
        let mut anonymous = Anonymous::default();
        let mut settings: Vec<Setting> =
            self.info.settings.iter().filter(|setting| !is_of_vm(setting)).cloned().collect();
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
        read_all(file, args, |event, names| {
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
        Kind::Switch { prev, next, .. } => [prev, next],
        Kind::Wakeup { tid } => [tid, event.tid],
        _ => [event.tid, event.tid],
    };
    let process = event.vm.number().map_or(event.tid, Tid);
    [process, event.tid].into_iter().chain(others)
}

/// Reads a recording from its beginning to its end.
fn read_all(
    file: &Path,
    args: &ReportArgs,
    mut each: impl FnMut(&Event, &EventNames) -> anyhow::Result<()>,
) -> anyhow::Result<(Ledger, TraceInfo)> {
    let clock = &args.select.clock;
    let mut source = exitscope_trace::open_input(read::open_one(file, clock)?, clock.options(Keep::All))?;
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
