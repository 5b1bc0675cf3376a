//! What `lab exits` measured, as a cost model for the simulator.
//!
//! ```text
//! hypercall, kernel  H ─► exit, entry       port write, ioeventfd ─► eventfd      MMIO write − port write ─► emulate
//! CPUID C − H ─► cpuid                       port write, coalesced ─► coalesce     port write, user space ─► the way out
//! ```
//!
//! Only what hardware did is a model of hardware: a back end that emulates is refused.

use crate::LabReport;
use exitscope_scenario::CostModel;

/// Why no cost model is made of a run.
#[derive(Debug, thiserror::Error)]
pub enum LabCostsError {
    /// The back end is not hardware.
    #[error(
        "no cost model is made of this run: KVM's back end here ({0}) emulates ring 0 of guests, so that its costs are \
         not those of hardware"
    )]
    Emulated(String),
    /// A row is missing: the exit, and who handles it.
    #[error("no cost model is made of this run: {0} by {1} was not measured")]
    NotMeasured(&'static str, &'static str),
}

/// The file of a cost model, which a scenario names as `costs.model`, out of a run of `lab exits`.
pub fn lab_costs(report: &LabReport) -> Result<String, LabCostsError> {
    let m = &report.manifest;
    if m.emulates_ring_0 {
        return Err(LabCostsError::Emulated(m.back_end.clone()));
    }
    let title = report.tables.first().map_or("", |table| &table.title);
    let time = |exit, handler| {
        let row = report.row(title, &[exit, handler].map(str::to_string));
        let figure = row.and_then(|row| row.figures.first());
        figure.map(|figure| figure.value).ok_or(LabCostsError::NotMeasured(exit, handler))
    };
    let default = |name| CostModel::default().get(name).map_or(0.0, |cost| cost.time.as_nanos() as f64);
    let looks = 3.0 * default("look") + default("accounting");
    let hypercall = time("hypercall", "kernel")?;
    // What the handler of an unknown hypercall takes is not seen by itself; the rest is there and back.
    let there_and_back = (hypercall - default("hypercall") - looks).max(2.0);
    let less = |whole: f64, part: f64| (whole - part).max(1.0);
    let base = there_and_back + looks;
    let port = base + default("port_decode");
    let eventfd = less(time("port write", "ioeventfd")?, port);
    let way_out = less(time("port write", "user space")?, port);
    let thirds = way_out / 3.0;
    let rows = [
        ("exit", there_and_back / 2.0, "half of a hypercall without its handler"),
        ("entry", there_and_back / 2.0, "the other half"),
        ("cpuid", less(time("CPUID", "kernel")?, base), "CPUID without the way there and back"),
        ("kernel_device", less(time("port write", "kernel")?, port), "a port write answered by KVM"),
        ("eventfd", eventfd, "a port write to an ioeventfd"),
        ("coalesce", less(time("port write", "coalesced")?, port), "a coalesced port write"),
        ("emulate", less(time("MMIO write", "user space")?, port + way_out), "what MMIO takes more than a port"),
        ("kernel_leave", thirds, "a third of the way to user space and back"),
        ("user_loop", thirds, "a third of the way to user space and back"),
        ("kernel_enter", thirds, "a third of the way to user space and back"),
        ("device", 1.0, "the lab's devices do nothing"),
    ];
    let mut text =
        format!("description = \"{} on {}, kernel {}, by exitscope lab exits\"\n", m.back_end, m.vendor, m.kernel);
    text += &format!("clock_hz = {}\n\n", m.tsc_hz);
    for (name, ns, source) in rows {
        text += &format!("{name} = {{ time = \"{ns:.0}ns\", origin = \"calibrated\", source = \"{source}\" }}\n");
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use exitscope_scenario::ScenarioDocument;
    use exitscope_scenario::findings::{FindingFigure, FindingRow, Findings, FindingsTable, Manifest, Unit};

    fn report(emulates_ring_0: bool) -> LabReport {
        let measured = [
            ("hypercall", "kernel", 700.0),
            ("CPUID", "kernel", 750.0),
            ("port write", "kernel", 950.0),
            ("port write", "ioeventfd", 900.0),
            ("port write", "coalesced", 850.0),
            ("port write", "user space", 2_300.0),
            ("MMIO write", "user space", 3_100.0),
        ];
        let rows = measured.map(|(exit, handler, ns)| FindingRow {
            labels: vec![exit.into(), handler.into()],
            figures: vec![FindingFigure::plain("time", Unit::Nanos, ns)],
            ..FindingRow::default()
        });
        LabReport::of(&Findings {
            experiment: "exits",
            manifest: Manifest {
                back_end: "kvm_amd".into(),
                vendor: "AuthenticAMD".into(),
                tsc_hz: 2_000_000_000,
                emulates_ring_0,
                ..Manifest::default()
            },
            tables: vec![FindingsTable { title: "Exits", labels: vec!["exit", "handler"], rows: rows.into() }],
            ..Findings::default()
        })
    }

    #[test]
    fn a_cost_model_is_read_by_a_scenario_and_adds_up_to_what_was_measured() {
        let file = tempfile::Builder::new().suffix(".toml").tempfile().unwrap();
        std::fs::write(file.path(), lab_costs(&report(false)).unwrap()).unwrap();
        let text = format!("name = \"x\"\n[costs]\nmodel = {:?}\n[[vm]]\nname = \"v\"\n", file.path());
        let scenario = ScenarioDocument::parse("test", &text).unwrap().scenario().unwrap();
        assert!(scenario.costs.description.starts_with("kvm_amd on AuthenticAMD"), "{}", scenario.costs.description);
        let ns = |name| scenario.costs.get(name).unwrap().time.as_nanos();
        let looks = 3 * ns("look") + ns("accounting");
        assert_eq!(ns("exit") + ns("entry") + ns("hypercall") + looks, 700);
        assert_eq!(ns("exit") + ns("entry") + ns("cpuid") + looks, 750);
        assert_eq!(ns("emulate"), 800);
    }

    #[test]
    fn an_emulating_back_end_and_a_missing_row_are_refused_with_the_reason() {
        assert!(lab_costs(&report(true)).unwrap_err().to_string().contains("emulates ring 0"));
        let mut report = report(false);
        report.tables[0].rows.remove(1);
        assert!(lab_costs(&report).unwrap_err().to_string().contains("CPUID by kernel was not measured"));
    }
}
