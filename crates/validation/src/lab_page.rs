//! What became of the cells that were predicted and then run on one machine: `lab/result*.json`, which `exitscope validate --lab
//! lab/predictions*.json --format json` printed there.

use exitscope_view::{LabFigure, LabReport, LabRow};
use std::io::{self, Write};

/// Cells that were predicted, and then tried.
struct Pass {
    name: &'static str,
    /// What is different from the pass before.
    about: &'static str,
    #[cfg(test)]
    predictions: &'static str,
    result: &'static str,
}

const PASSES: [Pass; 2] = [
    Pass {
        name: "The first pass",
        about: "",
        #[cfg(test)]
        predictions: include_str!("../lab/predictions.json"),
        result: include_str!("../lab/result.json"),
    },
    Pass {
        name: "The second pass",
        about: "In the first, more VMs paid more than was predicted: what a switch between tasks takes had been measured as the CPU time of a \
                wake-up, and an idle CPU's way back to work is in that. For the second it was measured with two vCPUs on one CPU, which \
                is never idle. Nothing else was changed, and the cells were drawn anew by another seed.",
        #[cfg(test)]
        predictions: include_str!("../lab/predictions-2.json"),
        result: include_str!("../lab/result-2.json"),
    },
];

/// Writes it as Markdown.
pub(crate) fn write_lab(out: &mut dyn Write) -> io::Result<()> {
    writeln!(
        out,
        "\n## The simulator beside the lab\n\n\
         One program in 48 cells, each a change of one setting, chosen by a seed: host polling, guest polling, VMs on two CPUs, yields, \
         critical sections, who answers a port. `exitscope validate --lab FILE` measured what the machine's KVM takes by experiments of \
         their own, and wrote the predictions into FILE; the same command then ran all cells on real guests, before and after their \
         change, in turns. `crates/validation/lab` has all files. Predictions were committed before any cell was run, and are not made \
         anew.\n\n\
         Wanted are all certain signs, a tau of 0.8, two thirds of the sizes within 25 %, and 70 of 100 within their bounds. Cells within \
         the noise of their rounds are in all of these but the signs; in which order such cells come is chance."
    )?;
    PASSES.iter().try_for_each(|pass| write_pass(pass, out))
}

fn write_pass(pass: &Pass, out: &mut dyn Write) -> io::Result<()> {
    let report: LabReport = serde_json::from_str(pass.result)?;
    let machine = &report.manifest;
    writeln!(
        out,
        "\n### {}\n\n{}{}{} on {}, kernel {}, {} CPUs{}; {:.0} s a side, in {} rounds.\n",
        pass.name,
        pass.about,
        if pass.about.is_empty() { "" } else { " " },
        machine.back_end,
        machine.vendor,
        machine.kernel,
        machine.cpus,
        if machine.emulates_ring_0 { " (costs of an emulating back end are in no cost model)" } else { "" },
        machine.duration_ns as f64 / 1e9,
        machine.rounds
    )?;
    for sentence in &report.summary {
        writeln!(out, "- {sentence}")?;
    }
    let [costs, cells] = &report.tables[..] else {
        return Err(io::Error::other(format!("{} has no cells", pass.name)));
    };
    writeln!(out, "\n| what the machine takes | time | 95 % interval |\n| --- | ---: | --- |")?;
    for row in &costs.rows {
        let time = figure(row, "time").map_or_else(Default::default, |of| {
            let us = |ns: f64| format!("{:.1}", ns / 1e3);
            format!("{} us | {} to {}", us(of.value), us(of.low.unwrap_or(of.value)), us(of.high.unwrap_or(of.value)))
        });
        writeln!(out, "| {} | {time} |", row.labels[1])?;
    }
    writeln!(
        out,
        "\nHow many times as much work is done, the mean of each change's cells:\n\n\
         | change | cells | predicted | measured |\n| --- | ---: | ---: | ---: |"
    )?;
    let changes: Vec<&str> = cells.rows.iter().map(|row| row.labels[0].as_str()).collect();
    for (at, change) in changes.iter().enumerate() {
        if changes[..at].contains(change) {
            continue;
        }
        let rows: Vec<&LabRow> = cells.rows.iter().filter(|row| row.labels[0] == *change).collect();
        let [predicted, measured] = ["predicted", "measured"].map(|name| mean_ratio(&rows, name));
        writeln!(out, "| {change} | {} | {predicted:.2} | {measured:.2} |", rows.len())?;
    }
    writeln!(
        out,
        "\nEach cell:\n\n\
         | change | with | predicted | 80 of 100 | measured | 95 % interval |\n| --- | --- | ---: | --- | ---: | --- |"
    )?;
    for row in &cells.rows {
        let [predicted, measured] =
            ["predicted", "measured"].map(|name| figure(row, name).map_or("– | –".to_string(), ratio));
        writeln!(out, "| {} | {} | {predicted} | {measured} |", row.labels[0], row.labels[1])?;
    }
    Ok(())
}

fn figure<'a>(row: &'a LabRow, name: &str) -> Option<&'a LabFigure> {
    row.figures.iter().find(|figure| figure.name == name)
}

/// The geometric mean of a figure.
fn mean_ratio(rows: &[&LabRow], name: &str) -> f64 {
    let logs: Vec<f64> = rows.iter().filter_map(|row| Some(figure(row, name)?.value.ln())).collect();
    (logs.iter().sum::<f64>() / logs.len() as f64).exp()
}

fn ratio(of: &LabFigure) -> String {
    let [low, high] = [of.low, of.high].map(|end| end.unwrap_or(of.value));
    format!("{:.2} | {low:.2} to {high:.2}", of.value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::lab_agreement::LabPredictions;
    use crate::lab_cells::lab_cells;

    #[test]
    fn the_cells_that_were_run_are_those_that_were_predicted_by_the_seed() {
        for pass in PASSES {
            let predictions: LabPredictions = serde_json::from_str(pass.predictions).unwrap();
            let report: LabReport = serde_json::from_str(pass.result).unwrap();
            let cells: Vec<_> = predictions.cells.iter().map(|of| of.cell).collect();
            assert_eq!(cells, lab_cells(predictions.seed), "{}", pass.name);
            let rows = &report.tables[1].rows;
            assert_eq!(rows.len(), cells.len());
            for (row, of) in rows.iter().zip(&predictions.cells) {
                assert_eq!(row.labels, of.cell.labels());
                // A number that was read and written again may differ in its last digit.
                let written = figure(row, "predicted").unwrap().value;
                assert!((written / of.times - 1.0).abs() < 1e-12, "{written} {}", of.times);
            }
        }
    }
}
