//! Predictions that were made before they were tried, of trials on the rig and of the simulator in the lab: the files beside
//! `tried/*.sh`, which make them.

use exitscope_view::{PredictionLine, PredictionTally};
use std::io::{self, Write};

/// Where predictions were tried, and the files' lines.
const FILES: [(&str, &str); 2] = [
    ("`try` of a knob of halt polling, on the rig", include_str!("../tried/rig.jsonl")),
    ("the simulator, in the lab", include_str!("../tried/lab.jsonl")),
];

fn tally(text: &str) -> serde_json::Result<PredictionTally> {
    let lines: serde_json::Result<Vec<Vec<PredictionLine>>> = text.lines().map(PredictionLine::read).collect();
    Ok(PredictionTally::of(lines?.concat()))
}

/// Writes what became of them.
pub(crate) fn write_tried(out: &mut dyn Write) -> io::Result<()> {
    writeln!(
        out,
        "\n## Predicted, then tried\n\n\
         Who predicted, and where it was tried ([predictions.md](predictions.md)). `crates/validation/tried` has the files and how they are \
         made. *Right way*: of figures that certainly changed and of which a way was predicted. *Near*: the predicted change is within \
         25 % of one that is certain. The lab's back end emulates: its costs are in no cost model of the simulator's, and its machine was \
         busy, so that few of its changes are certain. Predictions are carried over from what was recorded without the setting to what \
         was measured without it.\n\n\
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
    fn every_line_is_read_and_no_score_is_older_than_its_prediction() {
        for (name, text) in FILES {
            let of = tally(text).unwrap();
            assert!(of.scores >= 8, "{name}: {}", of.sentence());
            for score in &of.scored {
                assert!(score.prediction.written <= score.scored, "{name}: {score:?}");
            }
        }
    }
}
