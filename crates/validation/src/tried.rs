//! Predictions that were written down before they were tried, of advice on the rig and of the simulator in the lab: the files beside
//! `tried/*.sh`, which make them.

use exitscope_view::{PredictionLine, PredictionTally};
use std::io::{self, Write};

/// Where predictions were tried, and the files' lines.
const FILES: [(&str, &str); 1] = [("the simulator, in the lab", include_str!("../tried/lab.jsonl"))];

fn tally(text: &str) -> serde_json::Result<PredictionTally> {
    let lines: serde_json::Result<Vec<Vec<PredictionLine>>> = text.lines().map(PredictionLine::read).collect();
    Ok(PredictionTally::of(lines?.concat()))
}

/// Writes what became of them.
pub(crate) fn write_tried(out: &mut dyn Write) -> io::Result<()> {
    writeln!(
        out,
        "\n## Predicted, then tried\n\n\
         Of whom, and where; of `exitscope advise --predictions` and `sim --predictions`, measured afterwards by `try --against` and \
         `lab run --against` ([predictions.md](predictions.md)). `crates/validation/tried` has the files and how they are made. *Right \
         way*: of figures that certainly changed and of which a way was predicted. *Near*: the predicted change is within 25 % of one \
         that is certain. The lab's back end emulates: its costs are in no cost model of the simulator's.\n\n\
         | of whom | predictions | measured | within the bounds | certainly beyond | right way | near | median error of the change |\n\
         | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |"
    )?;
    for (name, text) in FILES {
        let of = tally(text)?;
        let ways = of.right_way + of.wrong_way;
        let error = of.median_error_percent.map_or("–".to_string(), |error| format!("{error:.0} %"));
        writeln!(
            out,
            "| {name} | {} | {} | {} | {} | {} of {ways} | {} of {} | {error} |",
            of.predictions, of.scores, of.within, of.missed, of.right_way, of.near, of.changed
        )?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_line_is_read_and_each_score_is_of_a_prediction_that_was_written_before() {
        for (name, text) in FILES {
            let of = tally(text).unwrap();
            assert!(of.scores >= 8, "{name}: {}", of.sentence());
            for score in &of.scored {
                assert!(score.prediction.written < score.scored, "{name}: {score:?}");
            }
        }
    }
}
