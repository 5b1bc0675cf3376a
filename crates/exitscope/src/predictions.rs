//! Predictions that are written down before anybody tries them, what became of them, and `exitscope predictions`.

use crate::cli::{PredictionsArgs, PredictionsFormat};
use crate::output_file::is_none_of;
use crate::terminal::terminal_style;
use crate::{Outcome, write_json};
use anyhow::{Context, bail};
use chrono::{DateTime, SecondsFormat, Utc};
use exitscope_advice::PredictedFigure;
use exitscope_measure::{CountedMetrics, add_predictions, read_predictions};
use exitscope_model::encode::message;
use exitscope_pipeline::AdvicePrediction;
use exitscope_trial::MetricUnit;
use exitscope_view::{
    FiledPrediction, PredictionLine, PredictionScore, PredictionTally, TrialEffectRow, TrialReport, plural,
    predictions_page, unit_name, write_page,
};
use std::collections::BTreeSet;
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// Counts what became of predictions.
pub fn run(args: &PredictionsArgs, out: &mut dyn Write) -> anyhow::Result<Outcome> {
    let mut lines = Vec::new();
    for file in &args.files {
        lines.extend(read(file)?);
    }
    if lines.is_empty() {
        bail!("there is no prediction: `exitscope advise RECORDING --predictions FILE` writes them");
    }
    let tally = PredictionTally::of(lines);
    match args.format {
        PredictionsFormat::Json => write_json(&tally, out)?,
        PredictionsFormat::Text => write_page(&predictions_page(&tally), terminal_style(), out)?,
    }
    Ok(Outcome::Fine)
}

/// The lines of a file; says how many were none.
fn read(file: &Path) -> anyhow::Result<Vec<PredictionLine>> {
    let (lines, unread) = read_predictions(file).with_context(|| format!("cannot read {}", file.display()))?;
    if unread > 0 {
        let lines = if unread == 1 { "line is" } else { "lines are" };
        say!("{}: {unread} {lines} no prediction of this version: cut by a kill, or of another", file.display());
    }
    Ok(lines)
}

/// What a figure is predicted to come to.
pub struct NewPrediction {
    /// The change.
    pub change: String,
    /// The setting, where it is one.
    pub setting: Option<String>,
    /// Of a scenario, the SHA-256 of its text.
    pub scenario_sha256: Option<String>,
    /// The figure's name.
    pub metric: String,
    /// Its unit.
    pub unit: MetricUnit,
    /// What it comes to.
    pub figure: PredictedFigure,
}

impl From<AdvicePrediction> for NewPrediction {
    fn from(of: AdvicePrediction) -> NewPrediction {
        let metric = CountedMetrics::metrics().into_iter().find(|metric| metric.name == of.metric);
        let unit = metric.map_or(MetricUnit::Number, |metric| metric.unit);
        NewPrediction {
            change: of.change,
            setting: of.setting,
            scenario_sha256: None,
            metric: of.metric.to_string(),
            unit,
            figure: of.figure,
        }
    }
}

/// Adds predictions that are made from a recording or a scenario, for this host.
pub fn add(to: &Path, predicted: Vec<NewPrediction>, (source, host): (&Path, &str)) -> anyhow::Result<()> {
    let written = now();
    let source = source.file_name().unwrap_or_default().to_string_lossy();
    let line = |of: NewPrediction| {
        PredictionLine::Prediction(FiledPrediction {
            written: written.clone(),
            version: VERSION.to_string(),
            source: source.to_string(),
            host: host.to_string(),
            scenario_sha256: of.scenario_sha256,
            change: of.change,
            setting: of.setting,
            metric: of.metric,
            unit: unit_name(of.unit).into(),
            in_force: of.figure.recorded,
            with: of.figure.with,
            low: of.figure.low,
            high: of.figure.high,
        })
    };
    let lines: Vec<PredictionLine> = predicted.into_iter().map(line).collect();
    if lines.is_empty() {
        say!("{}: nothing is added: there is nothing to change whose effect a trial would measure", to.display());
        return Ok(());
    }
    add_predictions(to, &lines).with_context(|| format!("cannot write {}", to.display()))?;
    let (count, predictions) = (lines.len(), plural(lines.len() as u64, "prediction"));
    say!("{count} {predictions} added to {}", to.display());
    Ok(())
}

/// The version that predicts and scores.
const VERSION: &str = env!("CARGO_PKG_VERSION");

/// The time, as files and reports have it.
pub fn now() -> String {
    DateTime::<Utc>::from(SystemTime::now()).to_rfc3339_opts(SecondsFormat::Secs, true)
}

/// A figure as it was measured, with a setting and without.
pub struct MeasuredFigure {
    /// Its name.
    pub metric: String,
    /// Without the setting.
    pub in_force: f64,
    /// With it.
    pub with: f64,
    /// The bounds of the latter, as far as there are any.
    pub interval: (Option<f64>, Option<f64>),
}

/// Predictions of a file that are to be scored.
pub struct PredictionsAgainst {
    path: PathBuf,
    /// The last of each setting and figure.
    predictions: Vec<FiledPrediction>,
}

impl PredictionsAgainst {
    /// Those for this host, of settings that are meant; an error where there are none, with why each is not where that is not plain.
    pub fn read(
        path: &Path,
        host: &str,
        is_meant: impl Fn(&FiledPrediction) -> Result<(), &'static str>,
    ) -> anyhow::Result<Self> {
        let mut predictions: Vec<FiledPrediction> = Vec::new();
        let mut others = BTreeSet::new();
        for line in read(path)? {
            let PredictionLine::Prediction(of) = line else { continue };
            let Some(setting) = of.setting.clone() else { continue };
            let meant = is_meant(&of);
            if of.host == host && meant.is_ok() {
                predictions.retain(|other| !(other.is_of(&setting) && other.metric == of.metric));
                predictions.push(of);
            } else {
                let why = meant.err().unwrap_or_default();
                others.insert(message(&format!("{setting} of {} on {}{why}", of.source, of.host)).to_string());
            }
        }
        if predictions.is_empty() {
            let has = others.into_iter().reduce(|all, one| format!("{all}, {one}"));
            let has = has.unwrap_or_else(|| "no setting".to_string());
            bail!("{} predicts nothing of this on {}; it has {has}", path.display(), message(host));
        }
        Ok(PredictionsAgainst { path: path.to_path_buf(), predictions })
    }

    /// The settings that are predicted.
    pub fn settings(&self) -> Vec<&str> {
        let mut settings: Vec<&str> = self.predictions.iter().filter_map(|of| of.setting.as_deref()).collect();
        settings.dedup();
        settings
    }

    /// Scores what was measured with a setting, adds that to the file, and says it.
    pub fn score(
        &self,
        by: &'static str,
        setting: &str,
        measured: &[MeasuredFigure],
        out: &mut dyn Write,
    ) -> anyhow::Result<()> {
        let scored = now();
        let score = |of: &FiledPrediction| {
            let figure = measured.iter().find(|figure| figure.metric == of.metric)?;
            Some(PredictionScore {
                scored: scored.clone(),
                version: VERSION.to_string(),
                by: by.into(),
                prediction: of.clone(),
                in_force: figure.in_force,
                with: figure.with,
                low: figure.interval.0,
                high: figure.interval.1,
            })
        };
        for of in self.predictions.iter().filter(|of| of.is_of(setting)) {
            let written = format!("{} on {}", message(&of.source), message(&of.written));
            let Some(score) = score(of) else {
                writeln!(out, "{}: predicted from {written}, and not measured", message(&of.metric))?;
                continue;
            };
            writeln!(out, "{}; predicted from {written}", message(&score.sentence()))?;
            add_predictions(&self.path, &[PredictionLine::Score(score)])
                .with_context(|| format!("cannot write {}", self.path.display()))?;
        }
        Ok(())
    }

    /// Scores what a trial has measured of each setting, and says it: on standard error where the output is for a program.
    pub fn score_trial(&self, report: &TrialReport, out: Option<&mut dyn Write>) -> anyhow::Result<()> {
        let mut said = Vec::new();
        for setting in &report.verdict.settings {
            let figure = |effect: &TrialEffectRow| {
                let (in_force, with) = effect.in_force.zip(effect.with)?;
                Some(MeasuredFigure { metric: effect.metric.clone(), in_force, with, interval: effect.bounds() })
            };
            let measured: Vec<MeasuredFigure> = setting.effects.iter().filter_map(figure).collect();
            self.score("try", &setting.setting, &measured, &mut said)?;
        }
        match out {
            Some(out) => out.write_all(&said)?,
            None => String::from_utf8_lossy(&said).lines().for_each(|line| say!("{line}")),
        }
        Ok(())
    }
}

/// Fails where predictions could not be added, or would be added to what is read, or to what is no file of predictions.
pub fn can_add(to: &Path, inputs: &[PathBuf]) -> anyhow::Result<()> {
    is_none_of(to, inputs, "--predictions")?;
    match to.metadata() {
        Ok(about) if about.is_dir() => bail!("cannot write {}: it is a folder", to.display()),
        Err(error) if error.kind() == ErrorKind::NotFound => crate::output_file::can_write(to),
        Ok(about) if about.is_file() && about.len() > 0 && read(to)?.is_empty() => {
            bail!("--predictions: {} is there, and has no prediction: give a new file", to.display())
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn predicted(setting: &str, metric: &'static str, with: f64) -> NewPrediction {
        let figure = PredictedFigure { recorded: 10.0, with, low: with - 1.0, high: with + 1.0 };
        AdvicePrediction { change: "Poll less".into(), setting: Some(setting.into()), metric, figure }.into()
    }

    /// What a trial has found of halt_poll_ns=0: the polling is halved, and nothing is told of wake-ups.
    fn trial() -> TrialReport {
        let effect = |metric: &str, figures: Value| {
            let mut row = json!({"metric": metric, "unit": "percent", "higher_is_better": false});
            row.as_object_mut().unwrap().extend(figures.as_object().unwrap().clone());
            row
        };
        let none =
            json!({"in_force": null, "with": null, "change_percent": null, "low_percent": null, "high_percent": null});
        let half = json!({"in_force": 20.0, "with": 10.0, "change_percent": -50.0, "low_percent": -60.0, "high_percent": -40.0});
        serde_json::from_value(json!({
            "schema": TrialReport::SCHEMA, "began": "2026-11-26T12:00:00Z", "host": "vm", "places": ["/a"],
            "plan": {"settings": ["halt_poll_ns=200000", "halt_poll_ns=0"], "settle_ns": 1, "turn_ns": 1, "length_ns": 8,
                     "alpha": 0.05, "seed": 1, "blocks": []},
            "verdict": {"end": "decided", "why": "", "blocks": 8, "turns": 32, "took_ns": 64, "matters_percent": 1.0,
                        "settings": [{"setting": "halt_poll_ns=0", "ruling": "better", "visible_percent": null, "more_ns": null,
                                      "effects": [effect("polling", half), effect("wakeup", none)]}],
                        "keep": null},
            "causes": []
        }))
        .unwrap()
    }

    #[test]
    fn a_trial_scores_the_last_prediction_of_each_figure_of_what_it_tried_on_its_host() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("p.jsonl");
        let write = |of: Vec<NewPrediction>, host: &str| add(&file, of, (Path::new("/x/a.data"), host)).unwrap();
        write(vec![predicted("halt_poll_ns=0ns", "polling", 1.0)], "vm");
        write(vec![predicted("halt_poll_ns=0ns", "polling", 5.0), predicted("halt_poll_ns=0ns", "wakeup", 5.0)], "vm");
        write(vec![predicted("halt_poll_ns=50us", "polling", 5.0)], "vm");
        write(vec![predicted("halt_poll_ns=0ns", "polling", 9.0)], "another");
        let is_tried = |of: &FiledPrediction| of.is_of("halt_poll_ns=0").then_some(()).ok_or("");
        let mut said: Vec<u8> = Vec::new();
        PredictionsAgainst::read(&file, "vm", is_tried).unwrap().score_trial(&trial(), Some(&mut said)).unwrap();
        let said = String::from_utf8(said).unwrap();
        let lines: Vec<&str> = said.lines().collect();
        assert!(lines[0].starts_with("polling: 20.00% to 10.00%, predicted 10.00% (8.00% to 12.00%): held;"), "{said}");
        assert!(
            lines[1].starts_with("wakeup: predicted from a.data on ") && lines[1].ends_with(", and not measured"),
            "{said}"
        );
        let tally = PredictionTally::of(read(&file).unwrap());
        let figures = (tally.predictions, tally.untried, tally.scores, tally.within, tally.right_way, tally.near);
        assert_eq!(figures, (5, 4, 1, 1, 1, 1));
        let nothing = PredictionsAgainst::read(&file, "nobody", is_tried).err().unwrap().to_string();
        assert!(
            nothing.contains("predicts nothing of this on nobody; it has")
                && nothing.contains("halt_poll_ns=50us of a.data on vm"),
            "{nothing}"
        );
    }
}
