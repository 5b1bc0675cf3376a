//! Dashboards and rules ask for nothing that the exporter does not serve.

use exitscope_exporter::{FAMILIES, Family, part_label};
use exitscope_model::TimePart;
use exitscope_skips::{Part, or_skip, skip};
use serde_json::Value;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Labels that Prometheus adds, and the one of buckets.
const ADDED: [&str; 3] = ["job", "instance", "le"];

fn contrib() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../contrib")
}

fn dashboard(path: &str) -> Value {
    serde_json::from_str(&fs::read_to_string(contrib().join(path)).unwrap()).unwrap()
}

/// The one that asks for the exporter's metrics, and the one that asks for what rules make of them.
const OF_METRICS: &str = "grafana/exitscope.json";
const OF_RULES: &str = "mixin/dashboard.json";

/// What the rules record.
fn recorded() -> BTreeSet<String> {
    let rules = fs::read_to_string(contrib().join("mixin/rules.yml")).unwrap();
    rules.lines().filter_map(|line| line.trim().strip_prefix("- record: ")).map(str::to_string).collect()
}

/// Whatever a word of a rule or a query may be made of.
fn words(query: &str) -> impl Iterator<Item = &str> {
    query.split(|letter: char| !letter.is_ascii_alphanumeric() && !"_:".contains(letter))
}

/// Every query, of panels and of variables.
fn queries(value: &Value, found: &mut Vec<String>) {
    match value {
        Value::Array(items) => items.iter().for_each(|item| queries(item, found)),
        Value::Object(fields) => {
            for (key, value) in fields {
                match value.as_str() {
                    Some(text) if key == "expr" || key == "definition" => found.push(text.to_string()),
                    Some(_) => {}
                    None => queries(value, found),
                }
            }
        }
        _ => {}
    }
}

/// The metrics that a query names.
fn families(query: &str) -> Vec<(String, &'static Family)> {
    let metrics = words(query).filter(|word| word.starts_with("exitscope_") || word.starts_with("process_"));
    let known = |name: &str| {
        let family = FAMILIES.iter().find(|family| family.samples().iter().any(|sample| sample == name));
        (name.to_string(), *family.unwrap_or_else(|| panic!("the exporter has no {name}: {query}")))
    };
    metrics.map(known).collect()
}

/// The labels that a query names: in braces, behind `by`, and as what `label_values` is to list.
fn labels(query: &str) -> BTreeSet<&str> {
    let mut found = BTreeSet::new();
    for inside in query.split('{').skip(1).filter_map(|rest| rest.split_once('}')).map(|parts| parts.0) {
        let names = inside.split(',').filter_map(|matcher| matcher.split(['=', '!']).next());
        found.extend(names.map(str::trim));
    }
    for inside in query.split("by (").skip(1).filter_map(|rest| rest.split_once(')')).map(|parts| parts.0) {
        found.extend(inside.split(',').map(str::trim));
    }
    if let Some(listed) = query.strip_prefix("label_values(") {
        found.extend(listed.trim_end_matches(')').rsplit(',').next().map(str::trim));
    }
    found
}

#[test]
fn every_metric_and_label_of_the_dashboard_is_served() {
    let mut all = Vec::new();
    queries(&dashboard(OF_METRICS), &mut all);
    assert!(all.len() >= 20, "the dashboard has lost its queries: {all:?}");
    for query in &all {
        let families = families(query);
        assert!(!families.is_empty(), "a query without a metric: {query}");
        for label in labels(query) {
            assert!(!label.is_empty(), "not understood: {query}");
            for (name, family) in &families {
                let has = family.labels.contains(&label) || ADDED.contains(&label);
                assert!(has, "{name} has no label {label}: {query}");
            }
        }
    }
}

#[test]
fn the_dashboard_shows_all_that_is_counted() {
    let mut all = Vec::new();
    queries(&dashboard(OF_METRICS), &mut all);
    let shown: BTreeSet<&str> = all.iter().flat_map(|query| families(query)).map(|(_, family)| family.name).collect();
    // What tells nothing over time, or what another metric shows better.
    let left_out = [
        "exitscope_events",
        "exitscope_missed_scheduler_events",
        "exitscope_scrapes",
        "exitscope_scrape_duration",
        "process_open_fds",
        "process_start_time",
    ];
    let missing: Vec<&str> = FAMILIES.iter().map(|family| family.name).filter(|name| !shown.contains(name)).collect();
    assert_eq!(missing, left_out);
}

#[test]
fn the_parts_of_time_in_exits_are_stacked_in_the_order_of_the_account() {
    let dashboard = dashboard(OF_METRICS);
    let panels = dashboard["panels"].as_array().unwrap();
    // The kernel's time stands for the cost, which has user space's in it.
    let of_vms = TimePart::ALL.into_iter().filter(|&part| part != TimePart::User).map(part_label).collect::<Vec<_>>();
    for (title, expected) in [
        ("Time in exits that is no cost, by part", TimePart::BESIDE_COST.map(part_label).to_vec()),
        ("Where the time of vCPUs goes", of_vms),
    ] {
        let panel = panels.iter().find(|panel| panel["title"] == title).unwrap();
        let mut all = Vec::new();
        queries(panel, &mut all);
        let parts: Vec<&str> =
            all.iter().map(|query| query.split("part=\"").nth(1).unwrap().split('"').next().unwrap()).collect();
        assert_eq!(parts, expected);
        assert_eq!(panel["fieldConfig"]["defaults"]["custom"]["stacking"]["mode"], "normal");
    }
}

#[test]
fn rules_are_made_of_what_is_served_and_dashboard_and_alerts_of_rules() {
    let recorded = recorded();
    assert!(recorded.len() >= 7, "{recorded:?}");
    let rules = fs::read_to_string(contrib().join("mixin/rules.yml")).unwrap();
    let of_rules: Vec<&str> = rules.lines().filter(|line| !line.trim().starts_with(['#', '-'])).collect();
    let sources = families(&of_rules.join("\n"));
    assert!(sources.iter().any(|(name, _)| name == "exitscope_vm_time_seconds_total"), "{sources:?}");
    let mut asked = Vec::new();
    queries(&dashboard(OF_RULES), &mut asked);
    asked.retain(|query| !query.starts_with("label_values("));
    let by_dashboard = asked.clone();
    let alerts = fs::read_to_string(contrib().join("mixin/alerts.yml")).unwrap();
    asked.extend(alerts.lines().map(str::to_string));
    let names: BTreeSet<&str> =
        asked.iter().flat_map(|query| words(query)).filter(|word| word.contains(":exitscope_")).collect();
    let unknown: Vec<&&str> = names.iter().filter(|name| !recorded.contains(**name)).collect();
    assert!(unknown.is_empty(), "no rule records {unknown:?}");
    let unused: Vec<&String> = recorded.iter().filter(|name| !names.contains(name.as_str())).collect();
    assert!(unused.is_empty(), "nothing shows {unused:?}");
    assert!(by_dashboard.iter().all(|query| query.contains(":exitscope_")), "{by_dashboard:?}");
    families(&alerts);
}

#[test]
fn alerts_fire_for_series_that_they_are_for_and_for_no_others() {
    let mixin = contrib().join("mixin");
    for (arguments, file) in [(["check", "rules"], "rules.yml"), (["test", "rules"], "tests.yml")] {
        let output = Command::new("promtool").args(arguments).arg(mixin.join(file)).output();
        match output {
            Ok(output) => assert!(output.status.success(), "{file}: {output:?}"),
            Err(error) => {
                or_skip!(Err(skip(Part::Promtool, format!("promtool, of Debian's package prometheus: {error}"))))
            }
        }
    }
}

#[test]
fn legends_name_labels_that_their_query_keeps() {
    fn targets(value: &Value, found: &mut Vec<(String, String)>) {
        match value {
            Value::Array(items) => items.iter().for_each(|item| targets(item, found)),
            Value::Object(fields) => {
                if let (Some(query), Some(legend)) = (fields.get("expr"), fields.get("legendFormat")) {
                    found.push((query.as_str().unwrap().into(), legend.as_str().unwrap().into()));
                }
                fields.values().for_each(|value| targets(value, found));
            }
            _ => {}
        }
    }
    let mut found = Vec::new();
    [OF_METRICS, OF_RULES].iter().for_each(|path| targets(&dashboard(path), &mut found));
    assert!(found.len() > 30, "{found:?}");
    for (query, legend) in found {
        for label in legend.split("{{").skip(1).filter_map(|rest| rest.split_once("}}")).map(|parts| parts.0) {
            let by = query.split("by (").nth(1).and_then(|rest| rest.split_once(')')).map(|parts| parts.0);
            let kept = !query.contains("sum") || by.is_some_and(|by| by.split(", ").any(|kept| kept == label));
            assert!(kept, "{label} is summed away: {query}");
        }
    }
}
