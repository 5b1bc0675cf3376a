//! What the simulator makes of the figures of docs/predictions.csv, beside what was predicted: `predict [FILE OF RUNS…]`. With
//! `predict --again`, the file anew by what is simulated now: docs/predictions-2.csv.
//!
//! ```text
//! docs/predictions.csv ─┐
//! predictions/*.toml ───┴─► a line for each figure: as predicted │ as simulated now
//! ```

use exitscope_validation::{predicted_again, prediction_runs, predictions};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let asked: Vec<String> = std::env::args().skip(1).collect();
    if asked == ["--again"] {
        return again();
    }
    let kept = predictions()?;
    println!("id,predicted,low,high,simulated: median,tenth,nine tenths,least,greatest,combinations");
    for runs in prediction_runs()?.into_iter().filter(|runs| asked.is_empty() || asked.contains(&runs.name)) {
        for figure in runs.simulate(&[])? {
            let kept = kept.iter().find(|of| of.id == figure.id);
            let number = |of: Option<f64>| of.map_or(String::new(), |value| value.to_string());
            let [value, low, high] =
                [kept.and_then(|of| of.value), kept.and_then(|of| of.low), kept.and_then(|of| of.high)].map(number);
            let [tenth, nine] = figure.tenths;
            let [least, greatest] = figure.range;
            println!(
                "{},{value},{low},{high},{:.4},{tenth:.4},{nine:.4},{least:.4},{greatest:.4},{}",
                figure.id, figure.median, figure.combinations
            );
        }
    }
    Ok(())
}

/// Prints the whole file anew.
fn again() -> Result<(), Box<dyn std::error::Error>> {
    let mut out = csv::Writer::from_writer(std::io::stdout());
    for prediction in predicted_again()? {
        out.serialize(prediction)?;
    }
    Ok(out.flush()?)
}
