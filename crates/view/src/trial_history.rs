//! The trials of a host: what was found, and how good predictions were.

use crate::names::{plural, thousands};
use crate::page::{Page, PageSection, Table, column, plain};
use crate::predictions::PredictionScore;
use crate::trial_report::{TrialEffectRow, TrialReport};
use exitscope_stats::quantile_of_sorted;
use exitscope_trial::{Prediction, PredictionOutcome};

/// Trials as a page, oldest first.
pub fn trial_history_page(trials: &[TrialReport]) -> Page {
    let predicted: Vec<PredictionScore> = trials.iter().flat_map(PredictionScore::of_trial).collect();
    let mut sections = vec![found(trials)];
    if !predicted.is_empty() {
        sections.push(foreseen(&predicted));
    }
    Page { sections }
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

fn foreseen(predicted: &[PredictionScore]) -> PageSection {
    let columns = vec![
        column("began", true, 2),
        column("setting", true, 0),
        column("metric", true, 0),
        column("predicted", true, 0),
        column("achieved", true, 0),
        column("prediction", true, 1),
        column("error of the change", false, 1),
    ];
    let row = |of: &PredictionScore| {
        let text = |value: f64| of.prediction.text(value);
        let Prediction { with, interval: (low, high), .. } = of.predicted();
        vec![
            of.prediction.written.clone(),
            of.prediction.what().to_string(),
            of.prediction.metric.clone(),
            format!("{} ({} to {})", text(with), text(low), text(high)),
            format!("{} to {}", text(of.in_force), text(of.with)),
            of.outcome().to_string(),
            of.size_error().map_or("-".to_string(), |error| format!("{error:.0}%")),
        ]
    };
    let within = predicted.iter().filter(|of| of.outcome() == PredictionOutcome::Held).count();
    let mut errors: Vec<f64> = predicted.iter().filter_map(PredictionScore::size_error).collect();
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
    fn how_a_setting_was_left_is_said_of_each() {
        let shown = |keep: Option<&str>, left: Option<serde_json::Value>| {
            let setting = |name: &str| {
                serde_json::json!({
                    "setting": name, "ruling": "undecided", "visible_percent": null, "more_ns": null, "effects": []
                })
            };
            let report: TrialReport = serde_json::from_value(serde_json::json!({
                "schema": TrialReport::SCHEMA, "began": "2026-11-26T12:00:00Z", "host": "vm", "places": ["/a"],
                "plan": {"settings": ["a=1", "a=2", "a=3"], "settle_ns": 1, "turn_ns": 1, "length_ns": 8, "alpha": 0.05,
                         "seed": 1, "blocks": []},
                "verdict": {"end": "time_over", "why": "", "blocks": 8, "turns": 32, "took_ns": 64, "matters_percent": 1.0,
                            "settings": [setting("a=2"), setting("a=3")], "keep": keep},
                "causes": [], "left": left
            }))
            .unwrap();
            let page = trial_history_page(&[report]);
            let rows = page.sections[0].table.as_ref().unwrap().rows.iter();
            rows.map(|row| row.last().unwrap().clone()).collect::<Vec<_>>()
        };
        let left = |kept: bool, unchanged: bool, failed: &[&str]| {
            Some(serde_json::json!({"kept": kept, "unchanged": unchanged, "done": [], "failed": failed}))
        };
        assert_eq!(shown(Some("a=2"), left(true, false, &[])), ["kept", "not kept"]);
        assert_eq!(shown(Some("a=2"), left(false, false, &[])), ["restored", "restored"]);
        assert_eq!(shown(None, left(true, false, &[])), ["not kept", "not kept"]);
        assert_eq!(shown(None, left(false, true, &[])), ["set by somebody else", "set by somebody else"]);
        assert_eq!(shown(None, left(false, true, &["a"])), ["not restored", "not restored"]);
        assert_eq!(shown(None, None), ["restored", "restored"]);
    }

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
