//! Cost models by name and by path.

use exitscope_scenario::{CostModel, CostOrigin, Scenario, ScenarioDocument, ScenarioError, models};
use exitscope_units::Picos;

const VM: &str = "[[vm]]\nname = \"v\"\n";

fn scenario(costs: &str) -> Result<Scenario, ScenarioError> {
    Scenario::from_toml(&format!("name = \"x\"\n[costs]\n{costs}\n{VM}"))
}

#[test]
fn a_named_model_gives_the_costs_that_the_scenario_does_not_change() {
    let costs = scenario("model = \"nehalem-xen-3.3\"\nentry = \"1us\"").unwrap().costs;
    assert_eq!((costs.name.as_str(), costs.clock_hz), ("nehalem-xen-3.3", 2_800_000_000));
    assert_eq!((costs.exit.time, costs.exit.origin), (Picos(500 * 1_000_000 / 2_800), CostOrigin::Calibrated));
    assert_eq!((costs.entry.time, costs.entry.source.as_str()), (Picos(1_000_000), "the scenario"));
    assert_eq!(costs.halt, CostModel::default().halt, "what neither has is the default's");
}

#[test]
fn another_clock_changes_the_costs_in_cycles_and_no_others() {
    let slow = scenario("model = \"z990-zvm-5.3\"").unwrap().costs;
    let fast = scenario("model = \"z990-zvm-5.3\"\nclock_hz = 2_400_000_000").unwrap().costs;
    assert_eq!(fast.exit.time.0 * 2, slow.exit.time.0);
    assert_eq!(fast.tick_period, slow.tick_period);
    let z9 = scenario("model = \"z9-zvm-5.3\"").unwrap().costs;
    assert!(z9.exit.time < slow.exit.time && z9.exit.source == slow.exit.source, "a model builds on its base");
}

#[test]
fn a_host_has_the_speeds_of_its_machine() {
    let text = format!("name = \"x\"\n[host]\nthreads = 4\n[costs]\nmodel = \"power8-kvm\"\n{VM}");
    assert_eq!(Scenario::from_toml(&text).unwrap().host.smt_speed, [1000, 725, 580, 471]);
}

#[test]
fn a_path_begins_at_the_scenarios_folder_and_faults_are_told_where_they_are() {
    let folder = std::env::temp_dir().join(format!("exitscope-models-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let read = |model: &str, text: &str| {
        std::fs::write(folder.join("mine.toml"), text).unwrap();
        let file = format!("name = \"x\"\n[costs]\nmodel = \"{model}\"\n{VM}");
        ScenarioDocument::parse(folder.join("scenario.toml").to_str().unwrap(), &file).unwrap().scenario()
    };
    let costs = read("mine.toml", "description = \"My machine\"\nbase = \"z9-zvm-5.3\"\nexit = \"7ns\"").unwrap().costs;
    assert_eq!((costs.exit.time, costs.clock_hz), (Picos(7_000), 1_700_000_000));
    let spread = "description = \"a\"\nexit_spread = { p5 = 900, p95 = 1_500, source = \"lab exits\" }";
    assert_eq!(read("mine.toml", spread).unwrap().costs.exit_spread.unwrap().p95, 1_500);
    for (model, text, says) in [
        ("mine.toml", "exit = \"7ns\"", "mine.toml:1:1: \"description\" is missing"),
        (
            "mine.toml",
            "description = \"a\"\nexti = \"7ns\"",
            "mine.toml:2:1: exti: there is no cost \"exti\"; did you mean \"exit\"?",
        ),
        ("mine.toml", "description = \"a\"\nbase = \"mine.toml\"", "more than 8 cost models"),
        (
            "mine.toml",
            "description = \"a\"\n[smt_speed]\nthousandths = [900]",
            "the first speed is that of a core of its own",
        ),
        ("other.toml", "", "cannot read"),
        ("z990-zvm-5.2", "", "did you mean \"z990-zvm-5.3\"?"),
    ] {
        let error = read(model, text).unwrap_err().to_string();
        assert!(error.contains(says), "{model}: {text}: {error}");
    }
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn every_number_of_every_model_says_where_it_is_from() {
    for model in models().unwrap() {
        for (name, _) in CostModel::ROWS {
            let source = &model.get(name).unwrap().source;
            assert!(source != "the scenario", "{}: {name} has no source", model.name);
        }
    }
}
