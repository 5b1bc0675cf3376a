//! The Grafana dashboard asks for nothing that the exporter does not serve.

use exitscope_exporter::{FAMILIES, Family, part_label};
use exitscope_model::TimePart;
use serde_json::Value;
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

/// Labels that Prometheus adds, and the one of buckets.
const ADDED: [&str; 3] = ["job", "instance", "le"];

fn dashboard() -> Value {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../contrib/grafana/exitscope.json");
    serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap()
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
    let words = query.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_');
    let metrics = words.filter(|word| word.starts_with("exitscope_") || word.starts_with("process_"));
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
    queries(&dashboard(), &mut all);
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
    queries(&dashboard(), &mut all);
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
    let dashboard = dashboard();
    let panels = dashboard["panels"].as_array().unwrap();
    let panel = panels.iter().find(|panel| panel.to_string().contains("exitscope_exit_part_seconds_total")).unwrap();
    let mut all = Vec::new();
    queries(panel, &mut all);
    let parts: Vec<&str> =
        all.iter().map(|query| query.split("part=\"").nth(1).unwrap().split('"').next().unwrap()).collect();
    assert_eq!(parts, TimePart::BESIDE_COST.map(part_label));
    assert_eq!(panel["fieldConfig"]["defaults"]["custom"]["stacking"]["mode"], "normal");
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
    targets(&dashboard(), &mut found);
    assert!(!found.is_empty());
    for (query, legend) in found {
        for label in legend.split("{{").skip(1).filter_map(|rest| rest.split_once("}}")).map(|parts| parts.0) {
            let kept = !query.contains("sum") || query.contains(&format!("by ({label}"));
            assert!(kept, "{label} is summed away: {query}");
        }
    }
}
