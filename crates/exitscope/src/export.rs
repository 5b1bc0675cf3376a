//! `exitscope export`: exits in the formats of other tools.
//!
//! ```text
//! first reading ─► ExportedVcpus, Totals ─► second reading ─► Export ─► a whole file, or standard output
//! ```

use crate::Outcome;
use crate::cli::{ExportArgs, ExportFormat};
use crate::devices::{self, DeviceList};
use crate::output_file::{can_write, is_none_of, replace};
use crate::read::{self, RecordingAccess};
use crate::select::{OutsideNames, SelectedExits};
use crate::totals::Totals;
use anyhow::bail;
use exitscope_analysis::{Selection, TraceSink};
use exitscope_export::{
    CsvExport, Export, ExportCounts, ExportedVcpus, Firefox, Folded, Hdr, MOST_EXITS, MOST_MARKERS, Perfetto,
    Speedscope, VcpuSurvey,
};
use exitscope_exporter::{NamedVm, RecordingMetrics, SeriesLimits};
use exitscope_model::{BesideRow, Exit, Halt, LedgerLine, TraceInfo, VcpuIdentity, VmIdentity, WhoRow};
use exitscope_pipeline::{EarlierFiles, FirstReading, ReadOptions, read_again, read_input};
use exitscope_trace::{Devices, Input};
use exitscope_units::{Moment, Nanos, Tid, VcpuId, VmId};
use exitscope_view::{plural, thousands};
use std::io::{self, BufWriter, IsTerminal, Write};
use std::path::PathBuf;

/// VMs and reasons of which metrics have series of their own.
const SERIES: SeriesLimits = SeriesLimits { vms: 1_000, reasons: 256, per_vcpu: false };

/// Passes the selected exits on.
struct Passing<'a> {
    selection: Selection,
    window: (Moment, Moment),
    lanes: &'a ExportedVcpus,
    export: &'a mut dyn Export,
    failed: Option<io::Error>,
}

impl Passing<'_> {
    fn holds(&self, at: Moment, who: &VcpuIdentity) -> bool {
        self.window.0 <= at && at <= self.window.1 && self.selection.holds_who(who)
    }
}

impl TraceSink for Passing<'_> {
    fn begin(&mut self, first: Moment) {
        self.window = self.selection.window(first);
    }

    fn absorb(&mut self, exit: &Exit) {
        if self.failed.is_some() || !self.holds(exit.at, &exit.who) || !self.selection.holds_exit(exit) {
            return;
        }
        if let Some(lane) = self.lanes.place(&exit.who) {
            self.failed = self.export.exit(lane, exit).err();
        }
    }

    fn beside_row(&mut self, row: BesideRow<'_>) {
        match row {
            BesideRow::Halt(halt) if self.holds(halt.begin, &halt.who) => self.export.halt(halt),
            // Formats have exits and halts.
            _ => {}
        }
    }

    fn is_full(&self) -> bool {
        self.failed.is_some() || self.export.is_full()
    }
}

/// The exporter's metrics.
struct OpenMetrics<'a, W> {
    out: W,
    info: &'a TraceInfo,
    recorded: RecordingMetrics,
    exits: u64,
}

impl<W: Write> Export for OpenMetrics<'_, W> {
    fn exit(&mut self, _: usize, exit: &Exit) -> io::Result<()> {
        self.recorded.absorb(exit);
        self.exits += 1;
        Ok(())
    }

    fn halt(&mut self, halt: &Halt) {
        self.recorded.absorb_halt(halt);
    }

    fn finish(&mut self) -> io::Result<ExportCounts> {
        let named = |vm| {
            let who = VcpuIdentity { vm: VmId(vm), vcpu: VcpuId::UNKNOWN, tid: Tid(0) };
            let identity = VmIdentity::of_settings(&self.info.settings, who.vm);
            NamedVm { name: WhoRow::of(who, self.info).vm_label(), identity }
        };
        self.out.write_all(self.recorded.text(SERIES, named).as_bytes())?;
        self.out.flush()?;
        Ok(ExportCounts { exits: self.exits, ..ExportCounts::default() })
    }
}

/// What is exported, and to where.
struct ExportPlan {
    inputs: Vec<Input>,
    exits: SelectedExits,
    devices: Option<Devices>,
    format: ExportFormat,
    /// Length of the intervals of a log of histograms; without, it has one.
    interval: Option<Nanos>,
    /// The file; else it is standard output.
    to: Option<PathBuf>,
}

/// In what formats differ, besides the [`Export`] that writes each. No field has a default, so that a new format answers all.
struct FormatTraits {
    /// Whether `--interval` cuts it.
    intervals: bool,
    /// Why it is kept from terminals.
    binary: Option<&'static str>,
    /// Whether exits are at their moments, so that recordings need a common clock and order; else there are sums.
    moments: bool,
    /// How an exit without a length is in it, and how several are, unless they are left out.
    untimed: Option<[&'static str; 2]>,
    /// Exits that its viewer opens at most.
    most: Option<u64>,
}

impl ExportFormat {
    fn traits(self) -> FormatTraits {
        const PROTOBUF: &str = "Perfetto's format is not for a terminal: write to a file (-o trace.pftrace) or a pipe";
        let (instants, without_times) =
            (Some(["is an instant", "are instants"]), Some(["is without times", "are without times"]));
        let of = |intervals, binary, moments, untimed, most| FormatTraits { intervals, binary, moments, untimed, most };
        match self {
            ExportFormat::Perfetto => of(false, Some(PROTOBUF), true, instants, None),
            ExportFormat::Firefox => of(false, None, true, instants, Some(MOST_MARKERS)),
            ExportFormat::Speedscope => of(false, None, true, None, Some(MOST_EXITS)),
            ExportFormat::Folded => of(false, None, false, None, None),
            ExportFormat::Openmetrics => of(false, None, false, None, None),
            ExportFormat::Csv => of(false, None, true, without_times, None),
            ExportFormat::Hdr => of(true, None, true, None, None),
        }
    }
}

/// What the first reading found.
struct Known {
    lanes: ExportedVcpus,
    totals: Totals,
    readings: Vec<FirstReading>,
}

pub fn run(args: &ExportArgs, out: &mut dyn Write) -> anyhow::Result<Outcome> {
    let plan = plan(args)?;
    let known = survey(&plan)?;
    for line in known.totals.damage() {
        say!("{line}");
    }
    let written = match &plan.to {
        None => write(&plan, &known, out)?,
        Some(to) => replace(to, |file| write(&plan, &known, &mut BufWriter::new(file)))?,
    };
    say(&plan, &known, &written);
    Ok(Outcome::Fine)
}

/// The same to something else than a file.
pub fn to<E: Export>(args: &ExportArgs, begin: impl FnOnce(&ExportedVcpus) -> E) -> anyhow::Result<(E, Vec<String>)> {
    let plan = plan(args)?;
    let known = survey(&plan)?;
    let mut export = begin(&known.lanes);
    pass(&plan, &known, &mut export)?;
    Ok((export, known.totals.damage()))
}

/// What the flags ask for. Each is named, so that a new one has an effect.
fn plan(args: &ExportArgs) -> anyhow::Result<ExportPlan> {
    let ExportArgs { files, inputs, format, output, interval, select, names } = args;
    let FormatTraits { intervals, binary, .. } = format.traits();
    if interval.is_some() && !intervals {
        bail!("--interval is the length of the intervals of --format hdr");
    }
    let files = read::files(files, inputs)?;
    match (output, binary) {
        (Some(to), _) => {
            is_none_of(to, &files, "--output")?;
            can_write(to)?;
        }
        (None, Some(why)) if io::stdout().is_terminal() => bail!(why),
        (None, _) => {}
    }
    let inputs = RecordingAccess::of(&select.clock).open(&files)?;
    let names = OutsideNames { devices: DeviceList::of(names), symbols: None };
    let exits = SelectedExits::of(select, &inputs, &names)?;
    let devices = names.devices.into_devices()?;
    Ok(ExportPlan { inputs, exits, devices, format: *format, interval: *interval, to: output.clone() })
}

/// The first reading.
fn survey(plan: &ExportPlan) -> anyhow::Result<Known> {
    let (mut lanes, mut totals, mut readings) = (ExportedVcpus::default(), Totals::default(), Vec::new());
    let (mut earlier, mut before) = (EarlierFiles::of_run(&plan.inputs), None);
    let SelectedExits { selection, options, .. } = &plan.exits;
    // `ExportedVcpus` learns the numbers for --vcpu at the end.
    let need_vcpus = selection.filter.is_some() && selection.needs_vcpus();
    let options = ReadOptions { need_vcpus, ..*options };
    for input in &plan.inputs {
        let (trace, survey) = read_input(input, &mut earlier, options, || VcpuSurvey::new(selection))?;
        trace.has_events()?;
        if plan.format.traits().moments && !trace.is_left_out {
            // Hosts without names are told apart by what they are.
            let info = &trace.info;
            let host = [trace.hostname(), &info.clock, &info.arch, &info.release].map(str::to_string);
            if let Some((earlier_host, (first, last))) = before {
                if host != earlier_host {
                    bail!(
                        "the traces are from different hosts or clocks, and have no common time: export each by itself"
                    );
                }
                if trace.span.is_some_and(|span| span.0.as_nanos() < last && first < span.1.as_nanos()) {
                    bail!("{} and one before it were recorded at the same time: export each for itself", trace.name);
                }
                if trace.span.is_some_and(|span| span.0.as_nanos() < last) {
                    bail!("{} is from an earlier time: name the traces in order of time", trace.name);
                }
            }
            before = Some((host, trace.span.map_or((0, 0), |span| (span.0.as_nanos(), span.1.as_nanos()))));
        }
        lanes.add(survey, &trace.vcpu_of, selection);
        readings.push(trace.first_reading());
        totals.add(trace);
    }
    devices::name(&mut totals.info, plan.devices.as_ref());
    lanes.end(&totals.info);
    Ok(Known { lanes, totals, readings })
}

/// The second reading.
fn write(plan: &ExportPlan, known: &Known, out: &mut dyn Write) -> anyhow::Result<ExportCounts> {
    let Known { lanes, totals, .. } = known;
    let names: Vec<&str> = totals.traces.iter().map(|trace| trace.name.as_str()).collect();
    let title = format!("VM exits of {}", names.join(", "));
    let mut export: Box<dyn Export + '_> = match plan.format {
        ExportFormat::Perfetto => Box::new(Perfetto::begin(out, lanes)?),
        ExportFormat::Firefox => Box::new(Firefox::begin(out, lanes, &title)),
        ExportFormat::Speedscope => Box::new(Speedscope::begin(out, lanes, &title)),
        ExportFormat::Folded => Box::new(Folded::begin(out, lanes)),
        ExportFormat::Csv => Box::new(CsvExport::begin(out, lanes)?),
        ExportFormat::Hdr => Box::new(Hdr::begin(out, lanes, plan.interval)?),
        ExportFormat::Openmetrics => {
            let mut recorded = RecordingMetrics::default();
            recorded.lose(totals.ledger.get(LedgerLine::LostRecords));
            Box::new(OpenMetrics { out, info: &totals.info, recorded, exits: 0 })
        }
    };
    pass(plan, known, export.as_mut())
}

/// Passes the exits on, and ends the export.
fn pass(plan: &ExportPlan, known: &Known, export: &mut dyn Export) -> anyhow::Result<ExportCounts> {
    let ExportPlan { inputs, exits: SelectedExits { selection, options, .. }, .. } = plan;
    let Known { lanes, readings, .. } = known;
    let mut earlier = EarlierFiles::of_run(inputs);
    let mut options = *options;
    options.source.exit_info = true;
    for (input, first) in inputs.iter().zip(readings) {
        let mut passing = Passing {
            selection: selection.clone(),
            window: (Moment::default(), Moment::MAX),
            lanes,
            export: &mut *export,
            failed: None,
        };
        read_again(input, &mut earlier, first, options, &mut passing)?;
        if let Some(error) = passing.failed {
            return Err(error.into());
        }
    }
    Ok(export.finish()?)
}

/// Says what was written where, and what is missing.
fn say(plan: &ExportPlan, known: &Known, written: &ExportCounts) {
    let FormatTraits { untimed, most, .. } = plan.format.traits();
    let exits = |count| format!("{} {}", thousands(count), plural(count, "exit"));
    let all = written.exits + written.untimed + written.overlapping;
    if let Some(to) = &plan.to {
        let size = to.metadata().map_or(0, |file| file.len());
        let count = if untimed.is_some() { all } else { written.exits };
        say!("wrote {}: {}, {} KB", to.display(), exits(count), size.div_ceil(1000));
    }
    if known.lanes.exits() == 0 {
        say!("no exit is selected");
    }
    for (count, why) in [
        (written.untimed, "only one end was seen"),
        (written.overlapping, "the previous exit of the vCPU had not ended"),
    ] {
        match untimed {
            _ if count == 0 => {}
            Some([is, are]) => say!("{} of them {}: {why}", thousands(count), if count == 1 { is } else { are }),
            None => say!("{} left out: {why}", exits(count)),
        }
    }
    let left_out = known.lanes.exits().saturating_sub(all);
    if let Some(most) = most.filter(|_| left_out > 0) {
        say!(
            "{} left out: the viewer opens no more than {} or so; choose others by --from and --to, \
             --vcpu, --reason, --longer-than",
            exits(left_out),
            thousands(most),
        );
    }
    if known.lanes.beyond > 0 {
        say!("{} left out: of more vCPUs than there is room for", exits(known.lanes.beyond));
    }
}
