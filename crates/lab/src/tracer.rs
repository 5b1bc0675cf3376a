//! `lab tracer`: what tracing adds to an exit. The same exits without tracing, with KVM's tracepoints, and with the function
//! tracers, which record every function of the kernel that is called meanwhile.
//!
//! ```text
//! for each round: none ─► kvm tracepoints ─► function ─► function_graph ─► each exit a turn ─► longer than without by …
//! ```
//!
//! All in an instance of tracefs of its own, for the lab's threads alone: no setting of the host is changed. While a function
//! tracer is on, every function of the kernel begins with a call, whoever runs it.
//!
//! After KVM Forum 2016, "As Time Goes By": the function graph tracer makes the exit micro-benchmark slower by more than ten.

use crate::events::Events;
use crate::exits::{Timed, single};
use crate::measure::MeasurePlan;
use crate::session::LabSession;
use crate::tracefs::{TracefsInstance, tracefs};
use crate::{LabError, LabMachine};
use exitscope_model::Event;
use exitscope_scenario::findings::{FindingFigure, FindingRow, Findings, FindingsTable, Unit, noise};
use std::io;

/// The exits that are measured, by their labels in `lab exits`: the least that a tracer may add to, and one with a way to user
/// space and back.
const EXITS: [[&str; 2]; 3] = [["hypercall", "kernel"], ["port read", "kernel"], ["port read", "user space"]];

/// Kilobytes of each CPU's ring, in which new records replace old ones: nobody reads them.
const RING_KB: &str = "512";

/// What traces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Tracing {
    Off,
    Tracepoints,
    Tracer(&'static str),
}

impl Tracing {
    const ALL: [Tracing; 4] =
        [Tracing::Off, Tracing::Tracepoints, Tracing::Tracer("function"), Tracing::Tracer("function_graph")];

    fn name(self) -> &'static str {
        match self {
            Tracing::Off => "none",
            Tracing::Tracepoints => "kvm tracepoints",
            Tracing::Tracer(name) => name,
        }
    }
}

/// Measures it. With `keep_events`, the events of the last round's untraced exits come with it.
pub fn run(machine: &LabMachine, plan: &MeasurePlan, keep_events: bool) -> Result<(Findings, Vec<Event>), LabError> {
    let tracer = LabTracer::new().map_err(LabError::CannotDo)?;
    let mut session = LabSession::new(machine, plan, false)?;
    let wanted = || single(machine).filter(|(labels, _)| EXITS.iter().any(|exit| labels == exit));
    let mut rows = Vec::new();
    for tracing in Tracing::ALL {
        let offered = tracer.offers(tracing);
        let of = |(labels, spec)| {
            let made = match &offered {
                Ok(()) => Timed::new(machine, spec, plan)?,
                Err(why) => Err(why.clone()),
            };
            Ok((labels, made))
        };
        rows.push(wanted().map(of).collect::<Result<TracedExits, LabError>>()?);
    }
    session.take_turns(rows.len(), |session, round, at| {
        if rows[at].iter().all(|(_, timed)| timed.is_err()) {
            return Ok(());
        }
        tracer.set(Tracing::ALL[at]).map_err(|error| LabError::io("an instance of tracefs", error))?;
        for timed in rows[at].iter_mut().filter_map(|(_, timed)| timed.as_mut().ok()) {
            let keep = keep_events && session.is_last(round) && Tracing::ALL[at] == Tracing::Off;
            timed.turn(machine, plan, round, keep)?;
        }
        Ok(())
    })?;
    let traced_before = tracer.host.clone();
    drop(tracer);
    let mut findings = session.findings(
        "tracer",
        "What tracing adds to an exit: KVM's tracepoints into a ring of ftrace, and the tracers of functions",
    )?;
    findings.warnings.extend(traced_before);
    let found = table_rows(machine, &rows);
    findings.summary = summary(&found);
    findings.tables = vec![FindingsTable {
        title: "Exits by what traces them",
        labels: vec!["exit", "handler", "traced by"],
        rows: found,
    }];
    let events = rows.into_iter().flatten().filter_map(|(_, timed)| timed.ok()).flat_map(|timed| timed.events);
    Ok((findings, Events::merge(events.collect())))
}

/// An instance for the lab's threads, and what the host itself traces.
struct LabTracer {
    instance: TracefsInstance,
    host: Option<String>,
}

impl LabTracer {
    /// Makes it, or says why that cannot be.
    fn new() -> Result<LabTracer, String> {
        let tracefs = tracefs().map_err(|forbidden| match forbidden {
            None => {
                "tracers cannot be measured: tracefs is not mounted (mount -t tracefs nodev /sys/kernel/tracing, as root)"
                    .to_string()
            }
            Some(path) => format!("tracers cannot be measured: {} may not be read; run as root", path.display()),
        })?;
        let instance = TracefsInstance::new(&tracefs, "tracer").map_err(|error| {
            format!("tracers cannot be measured: no instance of {} can be made: {error}", tracefs.display())
        })?;
        let host = std::fs::read_to_string(tracefs.join("current_tracer")).unwrap_or_default();
        let host = Some(host.trim()).filter(|tracer| !["nop", ""].contains(tracer)).map(|tracer| {
            format!("the host's own tracer is {tracer} (current_tracer): the rows without tracing have it, too")
        });
        Ok(LabTracer { instance, host })
    }

    /// Whether it can be had here, found out by having it for a moment; an error says what the kernel refuses.
    fn offers(&self, tracing: Tracing) -> Result<(), String> {
        let of = match tracing {
            Tracing::Off => return Ok(()),
            Tracing::Tracepoints => vec![("options/event-fork", "1".to_string()), ("set_event_pid", own())],
            Tracing::Tracer(name) => {
                let offered = self.instance.read("available_tracers").unwrap_or_default();
                if !offered.split_whitespace().any(|offered| offered == name) {
                    return Err(format!("this kernel has no tracer {name} (available_tracers: {})", offered.trim()));
                }
                vec![("options/function-fork", "1".to_string()), ("set_ftrace_pid", own())]
            }
        };
        let refused = |(file, text): &(&str, String)| {
            let error = self.instance.write(file, text).err()?;
            Some(format!("{file} of an instance of tracefs cannot be written: {error}"))
        };
        // Before anything is traced it is limited to the lab's threads: those made later inherit it.
        let ring = ("buffer_size_kb", RING_KB.to_string());
        if let Some(why) = [ring].iter().chain(&of).find_map(refused) {
            return Err(why);
        }
        let tried = self.set(tracing).and_then(|()| self.set(Tracing::Off));
        tried.map_err(|error| format!("{} cannot be switched on: {error}", tracing.name()))
    }

    /// Has this alone trace.
    fn set(&self, tracing: Tracing) -> io::Result<()> {
        let tracer = if let Tracing::Tracer(name) = tracing { name } else { "nop" };
        let events = if tracing == Tracing::Tracepoints { "1" } else { "0" };
        self.instance.write("events/kvm/enable", events)?;
        self.instance.write("current_tracer", tracer)
    }
}

/// The lab's process.
fn own() -> String {
    std::process::id().to_string()
}

/// What one tracer was measured with: each exit's labels, and what it gave or why it cannot.
type TracedExits = Vec<(Vec<String>, Result<Timed, String>)>;

/// A row for each exit and what traces it, exits first.
fn table_rows(machine: &LabMachine, rows: &[TracedExits]) -> Vec<FindingRow> {
    let exits = rows.first().map_or(0, Vec::len);
    let row = |exit: usize, (tracing, own): (&Tracing, &TracedExits)| {
        let (labels, timed) = &own[exit];
        let labels = [&labels[..], &[tracing.name().to_string()]].concat();
        let timed = match timed {
            Err(why) => return FindingRow { labels, cannot: Some(why.clone()), ..FindingRow::default() },
            Ok(timed) => timed,
        };
        let mut row = timed.row(machine, labels);
        if let (true, Ok(off)) = (*tracing != Tracing::Off, &rows[0][exit].1) {
            let pairs = || timed.series.rounds().iter().zip(off.series.rounds());
            let added: Vec<f64> = pairs().map(|(on, off)| machine.ns_in(on - off)).collect();
            let times: Vec<f64> = pairs().map(|(on, off)| on / off).filter(|times| times.is_finite()).collect();
            row.figures.extend(FindingFigure::of_rounds("added", Unit::Nanos, &added));
            row.add_unless_open(FindingFigure::of_ratios("times as long", &times, 1));
        }
        row
    };
    (0..exits).flat_map(|exit| Tracing::ALL.iter().zip(rows).map(move |each| row(exit, each))).collect()
}

/// What each adds, and of which more than half of what is measured is its own.
fn summary(rows: &[FindingRow]) -> Vec<String> {
    let mut said = Vec::new();
    let [.., told] = EXITS;
    for row in rows.iter().filter(|row| row.labels[..2] == told) {
        let (Some(added), Some(times)) = (row.figure("added"), row.figure("times as long")) else { continue };
        said.push(format!(
            "Traced by {}, a {} that {} answers takes {} longer{}: {} times as long.",
            row.labels[2],
            row.labels[0],
            row.labels[1],
            added.micros(),
            noise(added.may_be(0.0)),
            times.between()
        ));
    }
    for tracing in &Tracing::ALL[1..] {
        let own = |row: &&FindingRow| row.labels[2] == tracing.name();
        // Twice as long for certain: more than half of it is tracing.
        let twice = |row: &&FindingRow| {
            row.figure("times as long").and_then(|times| times.interval).is_some_and(|interval| interval.0 > 2.0)
        };
        let most: Vec<String> =
            rows.iter().filter(own).filter(twice).map(|row| format!("{}, {}", row.labels[0], row.labels[1])).collect();
        if !most.is_empty() {
            said.push(format!(
                "With {}, most of what is measured is tracing itself ({}): its lengths are not those of exits.",
                tracing.name(),
                most.join("; ")
            ));
        }
    }
    said
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(exit: [&str; 2], tracing: &str, times: f64) -> FindingRow {
        let figure = |name, unit, value: f64, half: f64| FindingFigure {
            interval: Some((value - half, value + half)),
            ..FindingFigure::plain(name, unit, value)
        };
        FindingRow {
            labels: [exit[0], exit[1], tracing].map(str::to_string).into(),
            figures: vec![
                figure("added", Unit::Nanos, 1_000.0 * (times - 1.0), 100.0),
                figure("times as long", Unit::Count, times, 0.1),
            ],
            ..FindingRow::default()
        }
    }

    #[test]
    fn a_tracer_that_takes_more_than_the_exit_is_named() {
        let user = EXITS[2];
        let said =
            summary(&[row(user, "kvm tracepoints", 1.02), row(user, "function", 2.3), row(EXITS[0], "function", 2.05)]);
        assert_eq!(
            said,
            [
                "Traced by kvm tracepoints, a port read that user space answers takes 0.02 ±0.10 us longer (within the noise): \
                 0.92 to 1.12 times as long.",
                "Traced by function, a port read that user space answers takes 1.30 ±0.10 us longer: 2.20 to 2.40 times as long.",
                "With function, most of what is measured is tracing itself (port read, user space): its lengths are not those of \
                 exits.",
            ]
        );
    }
}
