//! `exitscope validate` as a user runs it.

mod common;

use common::{check_json, run, stderr, stdout};

fn validate(arguments: &[&str]) -> (String, String, Option<i32>) {
    let output = run(&[&["validate"], arguments].concat());
    (stdout(&output), stderr(&output), output.status.code())
}

#[test]
fn a_row_says_what_was_published_what_came_out_and_whether_it_was_fitted() {
    let (text, errors, code) = validate(&["xen-pio"]);
    assert_eq!((errors.as_str(), code), ("", Some(0)));
    let row = text.lines().find(|line| line.contains("XENPIO-005")).unwrap();
    assert!(row.contains("13296 cycles") && row.contains("predicted"), "{row}");
    let fitted = text.lines().find(|line| line.contains("XENPIO-001")).unwrap();
    assert!(fitted.contains("calibrated"), "{fitted}");
    assert!(text.contains("0 rows tell of a change in the wrong direction"), "{text}");
    assert!(text.contains("1 of 1 independent predicted rows lie within 25 %"), "{text}");
    let follows = text.lines().find(|line| line.contains("XENPIO-042")).unwrap();
    assert!(follows.contains("follows") && !follows.contains("predicted"), "{follows}");
    assert!(text.contains("copies what was published of the configuration before"), "{text}");
}

#[test]
fn scripts_get_the_same_rows_as_json_and_csv() {
    let (json, _, code) = validate(&["xen-pio", "halt-polling", "--format", "json", "--replicates", "1"]);
    assert_eq!(code, Some(0));
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["schema"], "exitscope.validate/1");
    check_json("validate", [&json]);
    let rows: Vec<_> =
        json["experiments"].as_array().unwrap().iter().flat_map(|e| e["rows"].as_array().unwrap()).collect();
    let (csv, _, _) = validate(&["xen-pio", "halt-polling", "--format", "csv", "--replicates", "1"]);
    assert_eq!(csv.lines().count(), rows.len() + 1);
    for (line, row) in csv.lines().skip(1).zip(rows) {
        assert!(line.contains(row["id"].as_str().unwrap()), "{line}");
    }
}

#[test]
fn an_unknown_experiment_is_an_error_that_lists_the_known_ones() {
    let (_, errors, code) = validate(&["nothing"]);
    assert_eq!(code, Some(2));
    assert!(errors.contains("there is no experiment \"nothing\"") && errors.contains("xen-pio"), "{errors}");
}
