//! `exitscope record`: this host's virtual machines into a perf.data file.
//!
//! ```text
//! rings ─► Capture::drain, every TURN ─► names of new threads, samples, losses ─► PerfWriter, flushed every BLOCK
//! ```

use crate::Outcome;
use crate::cli::{ClockArgs, NameArgs, ProcessArgs, RecordArgs, StoreAddArgs, StoreCommand};
use crate::host::LiveHost;
use crate::output_file;
use crate::store;
use crate::views::EventsOnRequest;
use anyhow::{Context, bail};
use exitscope_live::CostCycle;
use exitscope_model::{EventNames, HostSetting, recorder};
use exitscope_pipeline::Recording;
use exitscope_record::{
    Capture, CaptureOptions, Processes, TracingBackend, of_calls, of_kvm, of_scheduler, tracefs, vm_names, vms,
};
use exitscope_signals::{Workload, catch_signals, signalled};
use exitscope_units::{Nanos, VmId};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// How often the rings are emptied. At a million records a second, a ring of 4 MiB is full in about 50 ms.
const DRAIN_INTERVAL: Duration = Duration::from_millis(10);

/// How often what was recorded is written even if it is not much.
const BLOCK: Duration = Duration::from_secs(1);

/// For how long what recording costs is measured, and how often. Programs are slower meanwhile.
const MEASURE: Duration = Duration::from_millis(200);
const MEASURE_EVERY: Duration = Duration::from_secs(10);

pub fn run(args: &RecordArgs, out: &mut dyn Write) -> anyhow::Result<Outcome> {
    let Some(times) = args.repeat else { return record_once(args, out) };
    if args.length.is_none() && args.command.is_empty() {
        bail!("--repeat needs --for, or a command that ends: how long is each recording?");
    }
    let mut outcome = Outcome::Fine;
    for number in 1..=times {
        let began = Instant::now();
        let args = RecordArgs { output: numbered(&args.output, number), repeat: None, ..args.clone() };
        outcome = record_once(&args, out)?;
        let next = Duration::from_nanos(args.every.map_or(0, |every| every.0));
        while number < times && began.elapsed() < next && signalled().is_none() {
            sleep(DRAIN_INTERVAL);
        }
        if signalled().is_some() {
            break;
        }
    }
    Ok(outcome)
}

/// `perf.data` is `perf.3.data`; of a name without an extension, `name` is `name.3`.
fn numbered(path: &Path, number: u32) -> PathBuf {
    match path.extension() {
        Some(extension) => path.with_extension(format!("{number}.{}", extension.to_string_lossy())),
        None => path.with_extension(number.to_string()),
    }
}

/// Makes one recording.
fn record_once(args: &RecordArgs, out: &mut dyn Write) -> anyhow::Result<Outcome> {
    #[cfg(not(feature = "store"))]
    if args.store.is_some() {
        bail!(crate::NO_STORE);
    }
    catch_signals()?;
    let tracefs = tracefs()?;
    let mut tracepoints = of_kvm(&tracefs)?;
    if !args.no_sched {
        tracepoints.extend(of_scheduler(&tracefs).unwrap_or_default());
    }
    match args.for_view {
        Some(EventsOnRequest::SystemCalls) => tracepoints
            .extend(of_calls(&tracefs).context("the kernel needs CONFIG_FTRACE_SYSCALLS to trace system calls")?),
        None => {}
    }
    let processes = args.whose.processes()?;
    let mut host = LiveHost::new();
    for vm in vms().iter().filter(|vm| processes.hold(vm.process)) {
        let of = VmId(vm.process);
        host.add(vm.options.settings(of).chain(vm.identity.settings(of)));
    }
    let own = host.add(recorder::ALL.map(|name| HostSetting::new("exitscope", name, "")));
    let names = EventNames::default();
    let head = host.head(&names, !args.no_compress);
    let wanted =
        CaptureOptions { tracepoints: tracepoints.clone(), processes, buffer: args.buffer, without_bpf: args.no_bpf };
    // What may not be recorded leaves no empty file in the place of an older one.
    let mut capture = Capture::start(wanted)?;
    let to = output_file::create(&args.output)?;
    let mut file = Recording::new(to, &head, own, &tracepoints)?;
    file.note(recorder::TRACING_BACKEND, capture.route().name());
    if let TracingBackend::PerfEvents { because } = capture.route() {
        say!("recording by perf events, as BPF may not be used: {because}");
    }
    let began = Instant::now();
    let start = |(program, arguments): (&String, &[String])| {
        Workload::start(program, arguments).with_context(|| format!("cannot run {program}"))
    };
    let mut workload = args.command.split_first().map(start).transpose()?;
    let ended = record(args, &mut capture, &mut file, workload.as_ref(), began);
    let took = began.elapsed();
    // Detaching takes a while, in which a ring might get full: that is after the end.
    let drained = file.drain(&mut capture);
    if let Some(workload) = &mut workload
        && ended.is_err()
    {
        let _ = workload.kill();
    }
    file.note_cost(&capture);
    ended.and(drained.map_err(Into::into)).with_context(|| {
        format!("{} holds what was recorded until then, except for the last second", args.output.display())
    })?;
    finish(file, args, took)?;
    let failed = workload.as_mut().map(Workload::wait).transpose()?.flatten();
    let mut outcome = Outcome::Fine;
    if let Some(dir) = &args.store {
        let (dir, files) = (dir.clone(), vec![args.output.clone()]);
        let add =
            StoreAddArgs { dir, files, host: None, day: None, clock: ClockArgs::default(), names: NameArgs::default() };
        outcome = store::run(&StoreCommand::Add(add), out)?;
    }
    match failed {
        Some(status) => bail!("the recording is whole, but the command ended with {status}"),
        None => Ok(outcome),
    }
}

/// Records until it is time to end.
fn record(
    args: &RecordArgs,
    capture: &mut Capture,
    file: &mut Recording,
    workload: Option<&Workload>,
    began: Instant,
) -> anyhow::Result<()> {
    let mut flushed = Instant::now();
    let mut cycle = CostCycle::new(MEASURE, MEASURE_EVERY);
    loop {
        cycle.turn(capture.route(), true);
        file.drain(capture)?;
        if flushed.elapsed() >= BLOCK {
            file.note_cost(capture);
            file.flush()?;
            flushed = Instant::now();
        }
        let has_ended = workload.map_or(Ok(false), Workload::has_ended)?;
        let is_over = args.length.is_some_and(|length| began.elapsed() >= Duration::from_nanos(length.0));
        if has_ended || is_over || signalled().is_some() {
            return Ok(());
        }
        sleep(DRAIN_INTERVAL);
    }
}

impl ProcessArgs {
    /// The processes that are named; an error if they are not there. Their virtual machines may be still to come, which is
    /// said.
    pub fn processes(&self) -> anyhow::Result<Processes> {
        let (processes, idle) = Processes::named(self.vm.as_deref(), &self.pid)?;
        for pid in idle {
            say!("no virtual machine of KVM runs in process {pid} yet; there are: {}", vm_names());
        }
        Ok(processes)
    }

    /// The same of virtual machines that run; an error if one does not.
    pub fn running(&self) -> anyhow::Result<Processes> {
        let (processes, idle) = Processes::named(self.vm.as_deref(), &self.pid)?;
        match idle.first() {
            Some(pid) => bail!("no virtual machine of KVM runs in process {pid}; there are: {}", vm_names()),
            None => Ok(processes),
        }
    }
}

/// Ends the file, and says what is in it.
fn finish(file: Recording, args: &RecordArgs, took: Duration) -> anyhow::Result<()> {
    let recorded = file.finish().context("cannot write the recording")?;
    let path = args.output.display();
    let look = if recorded.events > 0 { format!(". Look at it with: exitscope report {path}") } else { String::new() };
    say!(
        "{} events, {} lost, in {:.1} s: {:.1} MB in {path}{look}",
        recorded.events,
        recorded.lost,
        took.as_secs_f64(),
        recorded.bytes as f64 / 1e6
    );
    if let Some(cost) = recorded.cost.filter(|_| recorded.kvm_events > 0) {
        let each = (cost as f64 / (recorded.kvm_events + recorded.lost) as f64).round() as u64;
        say!("recording took {} of the guests' time, {} for each event of KVM", Nanos(cost), Nanos(each));
    }
    if recorded.lost > 0 {
        say!("ring buffer overflow: retry with --buffer 16M");
    }
    if !recorded.cpus_online.is_empty() {
        let cpus: Vec<String> = recorded.cpus_online.iter().map(u32::to_string).collect();
        say!(
            "CPU {} came online during the recording: events of its first moments there are missing and not counted \
             (with BPF, none are missing)",
            cpus.join(", ")
        );
    }
    if recorded.events == 0 {
        say!("no virtual machine had an exit; `exitscope doctor` shows what can be seen here");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recordings_of_a_series_are_numbered_before_their_extension() {
        let of = |path: &str| numbered(Path::new(path), 3).display().to_string();
        assert_eq!(
            ["perf.data", "/a.b/x", "old.kernel.data"].map(of),
            ["perf.3.data", "/a.b/x.3", "old.kernel.3.data"]
        );
    }
}
