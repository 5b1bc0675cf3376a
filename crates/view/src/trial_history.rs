//! The trials of a host: what was found, and how good predictions were.

use crate::names::{plural, thousands};
use crate::page::{Page, PageSection, Table, column, plain};
use crate::trial_report::{PredictionRow, TrialEffectRow, TrialReport};

/// What a metric was predicted to come to, and what it came to.
struct Predicted<'a> {
    report: &'a TrialReport,
    setting: &'a str,
    effect: &'a TrialEffectRow,
    prediction: &'a PredictionRow,
    /// Means of the turns, of the setting in force and of the other.
    achieved: (f64, f64),
}

impl Predicted<'_> {
    /// How far the predicted change is from the achieved one, in per cent of the latter.
    fn error(&self) -> Option<f64> {
        let (in_force, with) = self.achieved;
        let (predicted, achieved) = (self.prediction.with - self.prediction.in_force, with - in_force);
        (achieved != 0.0).then(|| (predicted - achieved).abs() * 100.0 / achieved.abs())
    }

    fn is_within(&self) -> bool {
        (self.prediction.low..=self.prediction.high).contains(&self.achieved.1)
    }
}

/// Trials as a page, oldest first.
pub fn trial_history_page(trials: &[TrialReport]) -> Page {
    let predicted: Vec<Predicted> = trials.iter().flat_map(of_trial).collect();
    let mut sections = vec![found(trials)];
    if !predicted.is_empty() {
        sections.push(foreseen(&predicted));
    }
    Page { sections }
}

fn of_trial(report: &TrialReport) -> impl Iterator<Item = Predicted<'_>> {
    report.verdict.settings.iter().flat_map(move |setting| {
        setting.effects.iter().filter_map(move |effect| {
            let achieved = effect.in_force.zip(effect.with)?;
            let prediction = effect.predicted.as_ref()?;
            Some(Predicted { report, setting: &setting.setting, effect, prediction, achieved })
        })
    })
}

fn found(trials: &[TrialReport]) -> PageSection {
    let columns = vec![
        column("began", true, 2),
        column("setting", true, 0),
        column("instead of", true, 1),
        column("metric", true, 3),
        column("change", true, 0),
        column("verdict", true, 0),
        column("left", true, 1),
    ];
    let mut rows = Vec::new();
    for report in trials {
        let in_force = report.plan.settings.first().cloned().unwrap_or_default();
        for setting in &report.verdict.settings {
            let effect = setting.effects.first();
            let is_kept = report.left.as_ref().is_some_and(|left| left.kept);
            let is_left = is_kept && report.verdict.keep.as_ref() == Some(&setting.setting);
            rows.push(vec![
                report.began.clone(),
                setting.setting.clone(),
                in_force.clone(),
                effect.map(|effect| effect.metric.clone()).unwrap_or_default(),
                effect.map(TrialEffectRow::change).unwrap_or_default(),
                setting.ruling.replace('_', " "),
                if is_left { "kept" } else { "restored" }.to_string(),
            ]);
        }
    }
    let count = trials.len() as u64;
    let title = format!("{} {}", thousands(count), plural(count, "trial"));
    PageSection { title, table: Some(Table { columns, rows }), ..PageSection::default() }
}

fn foreseen(predicted: &[Predicted]) -> PageSection {
    let columns = vec![
        column("began", true, 2),
        column("setting", true, 0),
        column("metric", true, 0),
        column("predicted", true, 0),
        column("achieved", true, 0),
        column("error of the change", false, 1),
    ];
    let row = |of: &Predicted| {
        let text = |value: f64| of.effect.text(value);
        let PredictionRow { in_force, with, low, high } = of.prediction;
        vec![
            of.report.began.clone(),
            of.setting.to_string(),
            of.effect.metric.clone(),
            format!("{} to {} ({} to {})", text(*in_force), text(*with), text(*low), text(*high)),
            format!("{} to {}", text(of.achieved.0), text(of.achieved.1)),
            of.error().map_or("-".to_string(), |error| format!("{error:.0}%")),
        ]
    };
    let within = predicted.iter().filter(|of| of.is_within()).count();
    let mut errors: Vec<f64> = predicted.iter().filter_map(Predicted::error).collect();
    errors.sort_by(f64::total_cmp);
    let median = errors.get(errors.len() / 2).map(|error| format!("; the median error of a change is {error:.0}%"));
    let text = format!(
        "{within} of {} {} within the interval that was predicted{}.",
        predicted.len(),
        if predicted.len() == 1 { "figure was" } else { "figures were" },
        median.unwrap_or_default()
    );
    PageSection {
        title: "Predicted and achieved".to_string(),
        sentences: vec![plain(text)],
        table: Some(Table { columns, rows: predicted.iter().map(row).collect() }),
        ..PageSection::default()
    }
}
