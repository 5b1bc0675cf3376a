//! Fits the free parameters of experiments to their calibrated rows, anew: `refit [EXPERIMENT…]`.
//!
//! ```text
//! [[fit]] keys, from, to ─► pattern search: each parameter up, down, by smaller and smaller steps ─► values, misfit
//! ```
//!
//! The values that it prints belong into the scenario, or, of costs, into the model that the scenario names. Nothing but
//! calibrated rows is looked at.

use exitscope_validation::{Experiment, ExperimentError, Fit, KeyOverride, experiments, misfit};

/// Steps on the way between the bounds of a parameter, first and last.
const STEPS: [f64; 6] = [0.25, 0.12, 0.06, 0.03, 0.015, 0.008];
const REPLICATES: u32 = 2;

fn main() -> Result<(), ExperimentError> {
    let asked: Vec<String> = std::env::args().skip(1).collect();
    for experiment in experiments()? {
        if experiment.fit.is_empty() || !asked.is_empty() && !asked.contains(&experiment.name) {
            continue;
        }
        println!("{}: misfit {:.4} as it is", experiment.name, misfit(&experiment, REPLICATES, &[])?);
        let (places, best) = search(&experiment)?;
        println!("{}: misfit {best:.4} with", experiment.name);
        for (fit, place) in experiment.fit.iter().zip(&places) {
            println!("    {} = {}  {}", fit.keys.join(", "), value(fit, *place), fit.description);
        }
    }
    Ok(())
}

/// Where between its bounds (0 to 1) each parameter fits best, and the misfit there.
fn search(experiment: &Experiment) -> Result<(Vec<f64>, f64), ExperimentError> {
    let mut places = vec![0.5; experiment.fit.len()];
    let mut best = at(experiment, &places)?;
    for step in STEPS {
        let mut better = true;
        while std::mem::take(&mut better) {
            for parameter in 0..places.len() {
                for step in [step, -step] {
                    let mut other = places.clone();
                    other[parameter] = (other[parameter] + step).clamp(0.0, 1.0);
                    let found = at(experiment, &other)?;
                    if found < best {
                        (places, best, better) = (other, found, true);
                        break;
                    }
                }
            }
        }
    }
    Ok((places, best))
}

fn at(experiment: &Experiment, places: &[f64]) -> Result<f64, ExperimentError> {
    let values: Vec<String> = experiment.fit.iter().zip(places).map(|(fit, place)| value(fit, *place)).collect();
    let pairs = experiment.fit.iter().zip(&values);
    let settings =
        pairs.flat_map(|(fit, value)| fit.keys.iter().map(|key| KeyOverride { runs: &fit.runs, key, value }));
    misfit(experiment, REPLICATES, &settings.collect::<Vec<_>>())
}

/// The value of a parameter, each step the same factor.
fn value(fit: &Fit, place: f64) -> String {
    format!("{:.0}{}", fit.from * (fit.to / fit.from).powf(place), fit.unit)
}
