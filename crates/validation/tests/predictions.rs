//! What is predicted of published figures that are not in the table: whether the file is whole, and what it rests on runs.

use exitscope_validation::{
    BlindPrediction, KeyOverride, Published, later_predictions, prediction_runs, predictions, published,
};
use std::collections::BTreeSet;

/// The published configurations whose figures are to be predicted, with what is given of them.
fn to_predict() -> Vec<Published> {
    let is = |row: &Published| {
        row.experiment.starts_with("SAP HANA") || row.note.contains("the figure is not in this table")
    };
    published().into_iter().filter(is).collect()
}

#[test]
fn every_figure_that_is_not_in_the_table_has_a_prediction_or_the_reason_why_not() {
    let [first, later] = [predictions().unwrap(), later_predictions().unwrap()];
    is_whole(&first);
    is_whole(&later);
    // What no scenario stands behind is as it was.
    let of = |lines: &[BlindPrediction]| lines.iter().filter(|of| of.scenario.is_empty()).cloned().collect::<Vec<_>>();
    assert_eq!(of(&first), of(&later));
}

fn is_whole(lines: &[BlindPrediction]) {
    let wanted = to_predict();
    let [ids, of]: [Vec<&str>; 2] =
        [lines.iter().map(|of| of.id.as_str()).collect(), wanted.iter().map(|of| of.id.as_str()).collect()];
    assert_eq!(ids.len(), 35);
    assert_eq!(BTreeSet::from_iter(ids.iter()), BTreeSet::from_iter(of.iter()), "each once");
    for line in lines {
        let row = wanted.iter().find(|of| of.id == line.id).unwrap();
        assert_eq!(line.unit, row.unit, "{}", line.id);
        assert!(line.because.ends_with('.') && line.because.len() > 30, "{}: {}", line.id, line.because);
        match (line.basis.as_str(), line.value, line.low, line.high) {
            ("given", None, None, None) => assert!(row.number().is_some(), "{} is not known", line.id),
            ("not predicted", None, None, None) => assert!(row.number().is_none() && line.scenario.is_empty()),
            (basis, Some(value), Some(low), Some(high)) => {
                assert!(row.number().is_none(), "{} is known: no prediction", line.id);
                assert!(low <= value && value <= high && low < high, "{}: {low} {value} {high}", line.id);
                assert!(basis.len() > 10, "{}: {basis}", line.id);
                assert!(line.unit != "%" || line.id == "DIAG9C-068" || high <= 100.0, "{}: {high}", line.id);
            }
            other => panic!("{}: {other:?}", line.id),
        }
    }
}

#[test]
fn a_line_with_a_column_too_many_is_an_error() {
    let line = "id,value,low,high,unit,scenario,basis,because,more\nA,1,1,2,%,,b,c,d\n";
    let read = csv::Reader::from_reader(line.as_bytes()).deserialize().collect::<Result<Vec<BlindPrediction>, _>>();
    assert!(read.unwrap_err().to_string().contains("more"));
}

#[test]
fn the_runs_of_each_scenario_named_reach_their_end_and_give_the_figures_that_name_it() {
    let lines = predictions().unwrap();
    let all = prediction_runs().unwrap();
    let known: BTreeSet<&str> = all.iter().map(|of| of.name.as_str()).collect();
    assert!(lines.iter().all(|of| of.scenario.is_empty() || known.contains(of.scenario.as_str())));
    let short = [("duration", "100ms"), ("warmup", "20ms")].map(|(key, value)| KeyOverride { runs: &[], key, value });
    for runs in &all {
        let named: BTreeSet<&str> =
            lines.iter().filter(|of| of.scenario == runs.name).map(|of| of.id.as_str()).collect();
        assert_eq!(BTreeSet::from_iter(runs.ids()), named, "{}", runs.name);
        for figure in runs.simulate(&short).unwrap() {
            let [low, high] = figure.range;
            assert!(low.is_finite() && low <= figure.median && figure.median <= high && high.is_finite(), "{figure:?}");
            assert!(figure.combinations > 1, "{figure:?}");
        }
    }
}
