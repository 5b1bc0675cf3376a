//! The examples and the documentation are what the reader reads.

use exitscope_scenario::{LIBRARY, Scenario, ScenarioDocument, text};
use std::path::PathBuf;

fn top() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Name and text of every file in scenarios/.
fn examples() -> Vec<(String, String)> {
    let folder = std::fs::read_dir(top().join("scenarios")).unwrap();
    let paths = folder.map(|entry| entry.unwrap().path()).filter(|path| path.extension().unwrap() == "toml");
    let read = |path: PathBuf| {
        (path.file_stem().unwrap().to_str().unwrap().to_string(), std::fs::read_to_string(path).unwrap())
    };
    let mut examples: Vec<_> = paths.map(read).collect();
    examples.sort();
    examples
}

#[test]
fn every_example_is_a_scenario_of_its_own_name() {
    for (name, text) in examples() {
        let scenario = ScenarioDocument::parse(&name, &text).and_then(|document| document.scenario());
        let scenario = scenario.unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(scenario.name, name);
        assert!(!scenario.description.is_empty(), "{name}");
    }
}

#[test]
fn every_library_program_has_an_example() {
    let all: String = examples().into_iter().map(|(_, text)| text).collect();
    for program in LIBRARY {
        assert!(all.contains(&format!("library = {:?}", program.name)), "{}", program.name);
    }
}

#[test]
fn what_the_examples_tell_to_try_can_be_set() {
    for (name, text) in examples() {
        for (_, set) in text.match_indices("--set ").map(|(at, found)| text[at..].split_at(found.len())) {
            let set = set.split([',', ' ', '\n']).next().unwrap().trim_end_matches('.');
            let (key, value) = set.split_once('=').unwrap();
            let mut document = ScenarioDocument::parse(&name, &text).unwrap();
            let before = document.scenario().unwrap();
            document.set(key, value).unwrap_or_else(|error| panic!("{name}: {error}"));
            let after = document.scenario().unwrap_or_else(|error| panic!("{name}: {error}"));
            assert_ne!(before, after, "{name}: {set} changes nothing");
        }
    }
}

#[test]
fn the_documentation_is_current() {
    let page = std::fs::read_to_string(top().join("docs/scenario.md")).unwrap_or_default();
    assert!(
        page == text::page(),
        "docs/scenario.md: `cargo run -p exitscope-scenario --example page > docs/scenario.md` writes it anew"
    );
}

#[test]
fn every_default_of_the_documentation_is_one() {
    // Each program with nothing but what it must be given; what it leaves out comes from its rows.
    for program in LIBRARY {
        let more = match program.name {
            "ping_pong" => "role = \"client\"",
            "ping_flood" => "channel = \"c\"",
            _ => "",
        };
        let text = format!(
            "name = \"x\"\n[[channel]]\nname = \"c\"\n[[vm]]\nname = \"v\"\nlocks = [\"l\"]\n[[vm.disk]]\nname = \"d\"\n\
             service = \"1ms\"\n[[vm.program]]\nlibrary = {:?}\n{more}\n",
            program.name
        );
        let scenario = Scenario::from_toml(&text).unwrap_or_else(|error| panic!("{text}{error}"));
        assert_eq!(scenario.vms[0].programs.len(), 1);
    }
}
