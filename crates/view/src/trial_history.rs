//! The trials of a host: what was found, and how good predictions were.

use crate::names::{plural, thousands};
use crate::page::{Page, PageSection, Table, column, plain};
use crate::trial_report::{PredictionRow, TrialEffectRow, TrialReport};
use exitscope_stats::quantile_of_sorted;

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
    /// How far the predicted change is from the achieved one, in per cent of the latter; `None` where it is not certain that
    /// anything changed.
    fn error(&self) -> Option<f64> {
        let (in_force, with) = self.achieved;
        let (predicted, achieved) = (self.prediction.with - self.prediction.in_force, with - in_force);
        let is_certain = self.effect.low_percent.is_some_and(|low| low > 0.0)
            || self.effect.high_percent.is_some_and(|high| high < 0.0);
        (is_certain && achieved != 0.0).then(|| (predicted - achieved).abs() * 100.0 / achieved.abs())
    }

    /// What became of the prediction, in words.
    fn outcome(&self) -> String {
        match self.prediction.outcome.as_deref() {
            Some("held") => "held",
            Some("more") => "missed: more was measured",
            Some("less") => "missed: less was measured",
            Some("perhaps_more") => "open: perhaps more",
            Some("perhaps_less") => "open: perhaps less",
            _ => "-",
        }
        .to_string()
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
        if let Some(delays) = &report.sensitivity {
            let metric = report.verdict.settings.first().and_then(|setting| setting.effects.first());
            rows.push(vec![
                report.began.clone(),
                format!("delays of each {}", delays.exit()),
                in_force,
                metric.map(|metric| metric.metric.clone()).unwrap_or_default(),
                format!("{} per 100ns", delays.slope()),
                delays.ruling.to_string(),
                "nothing was set".to_string(),
            ]);
            continue;
        }
        for setting in &report.verdict.settings {
            let effect = setting.effects.first();
            let is_keep = report.verdict.keep.as_ref() == Some(&setting.setting);
            let left = match &report.left {
                Some(left) if left.kept && is_keep => "kept",
                Some(left) if left.kept => "not kept",
                Some(left) if !left.failed.is_empty() => "not restored",
                Some(left) if left.unchanged => "set by somebody else",
                _ => "restored",
            };
            rows.push(vec![
                report.began.clone(),
                setting.setting.clone(),
                in_force.clone(),
                effect.map(|effect| effect.metric.clone()).unwrap_or_default(),
                effect.map(TrialEffectRow::change).unwrap_or_default(),
                ruling_in_words(&setting.ruling, report.verdict.end.as_deref()),
                left.to_string(),
            ]);
        }
    }
    let count = trials.len() as u64;
    let title = format!("{} {}", thousands(count), plural(count, "trial"));
    PageSection { title, table: Some(Table { columns, rows }), ..PageSection::default() }
}

/// A ruling in words, and whether the trial was broken off, so that it is no more than what was found until then.
pub fn ruling_in_words(ruling: &str, end: Option<&str>) -> String {
    let ruling = ruling.replace('_', " ");
    match end {
        Some(end @ ("aborted" | "stopped")) => format!("{ruling} ({end})"),
        _ => ruling,
    }
}

fn foreseen(predicted: &[Predicted]) -> PageSection {
    let columns = vec![
        column("began", true, 2),
        column("setting", true, 0),
        column("metric", true, 0),
        column("predicted", true, 0),
        column("achieved", true, 0),
        column("prediction", true, 1),
        column("error of the change", false, 1),
    ];
    let row = |of: &Predicted| {
        let text = |value: f64| of.effect.text(value);
        let PredictionRow { in_force, with, low, high, .. } = of.prediction;
        vec![
            of.report.began.clone(),
            of.setting.to_string(),
            of.effect.metric.clone(),
            format!("{} to {} ({} to {})", text(*in_force), text(*with), text(*low), text(*high)),
            format!("{} to {}", text(of.achieved.0), text(of.achieved.1)),
            of.outcome(),
            of.error().map_or("-".to_string(), |error| format!("{error:.0}%")),
        ]
    };
    let within = predicted.iter().filter(|of| of.is_within()).count();
    let mut errors: Vec<f64> = predicted.iter().filter_map(Predicted::error).collect();
    errors.sort_by(f64::total_cmp);
    let median = quantile_of_sorted(&errors, 5_000)
        .map(|error| format!("; the median error of a certain change is {error:.0}%"));
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prediction_has_an_error_where_something_certainly_changed() {
        let effect = |metric: &str, in_force: f64, with: f64, (low, high): (f64, f64), predicted: f64| {
            serde_json::json!({
                "metric": metric, "unit": "percent", "higher_is_better": false, "in_force": in_force, "with": with,
                "change_percent": (with / in_force - 1.0) * 100.0, "low_percent": low, "high_percent": high,
                "predicted": {"in_force": in_force, "with": predicted, "low": predicted - 1.0, "high": predicted + 1.0, "outcome": "more"}
            })
        };
        let report: TrialReport = serde_json::from_value(serde_json::json!({
            "schema": TrialReport::SCHEMA, "began": "2026-11-26T12:00:00Z", "host": "vm", "places": ["/a"],
            "plan": {"settings": ["a=1", "a=2"], "settle_ns": 1, "turn_ns": 1, "length_ns": 8, "alpha": 0.05, "seed": 1,
                     "blocks": []},
            "verdict": {"end": "time_over", "why": "", "blocks": 8, "turns": 32, "took_ns": 64, "matters_percent": 1.0,
                        "settings": [{"setting": "a=2", "ruling": "undecided", "visible_percent": null, "more_ns": null,
                                      "effects": [effect("polling", 10.0, 30.0, (50.0, 400.0), 20.0),
                                                  effect("wakeup", 10.0, 9.99, (-5.0, 5.0), 1.0)]}],
                        "keep": null},
            "causes": []
        }))
        .unwrap();
        let page = trial_history_page(std::slice::from_ref(&report));
        let predicted = &page.sections[1];
        let errors: Vec<&str> =
            predicted.table.as_ref().unwrap().rows.iter().map(|row| row.last().unwrap().as_str()).collect();
        assert_eq!(errors, ["50%", "-"]);
        assert!(format!("{:?}", predicted.table).contains("missed: more was measured"));
        let said = format!("{:?}", predicted.sentences);
        assert!(said.contains("0 of 2 figures") && said.contains("median error of a certain change is 50%"), "{said}");
    }
}
