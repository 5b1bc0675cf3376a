//! The experiments' machines answer other questions in the right direction, too; and the comparison holds together.

use exitscope_sim::{Limits, Unseen, run};
use exitscope_validation::{Experiment, Verdict, experiments, published, validate};
use std::collections::BTreeMap;

fn experiment(name: &str) -> Experiment {
    experiments().unwrap().into_iter().find(|experiment| experiment.name == name).unwrap()
}

/// The figures of a run with some values set otherwise.
fn figures(name: &str, base: &str, sets: &[(&str, &str)]) -> BTreeMap<String, f64> {
    let mut experiment = experiment(name);
    let run_sets = experiment.run.get_mut(base).unwrap();
    run_sets.extend(sets.iter().map(|(key, value)| (key.to_string(), value.to_string())));
    run_sets.insert("duration".to_string(), "300ms".to_string());
    let scenario = experiment.scenario(base).unwrap();
    let (outcome, _) = run(&scenario, Unseen, Limits::default()).unwrap();
    outcome.metrics(&scenario).into_iter().map(|metric| (metric.name, metric.value)).collect()
}

#[test]
fn no_row_goes_in_the_wrong_direction_and_all_are_in_the_table() {
    let list = experiments().unwrap();
    let validation = validate(&list, 1).unwrap();
    let wrong: Vec<_> = validation
        .experiments
        .iter()
        .flat_map(|experiment| &experiment.rows)
        .filter(|row| row.verdict == Verdict::Wrong)
        .map(|row| &row.id)
        .collect();
    assert!(wrong.is_empty(), "{wrong:?}");
    let table = published();
    for experiment in &list {
        for row in &experiment.row {
            assert!(table.iter().any(|published| published.id == row.id), "{}", row.id);
        }
    }
}

#[test]
fn the_same_seeds_give_the_same_comparison_on_any_number_of_threads() {
    let list: Vec<_> =
        experiments().unwrap().into_iter().filter(|e| e.name == "xen-pio" || e.name == "gang-host").collect();
    let simulated = |threads| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        let validation = pool.install(|| validate(&list, 2)).unwrap();
        let rows = validation.experiments.iter().flat_map(|experiment| &experiment.rows);
        rows.map(|row| row.simulated.to_bits()).collect::<Vec<_>>()
    };
    assert_eq!(simulated(1), simulated(3));
}

#[test]
fn splitting_the_core_frees_ebizzy_from_its_neighbours_exits() {
    let whole = figures("gang-ebizzy", "1c", &[]);
    let split = [
        ("subcores_per_core", "2"),
        ("smt_mode", "2"),
        ("vm.ebizzy.cpus", "0-1"),
        ("thread.other-machine.cpus", "[2]"),
    ];
    let split = figures("gang-ebizzy", "1c", &split);
    assert!(
        split["ebizzy.throughput"] > whole["ebizzy.throughput"] * 1.5,
        "{} {}",
        split["ebizzy.throughput"],
        whole["ebizzy.throughput"]
    );
}

#[test]
fn a_string_access_gains_nothing_from_the_quick_path() {
    let string = ("vm.guest.string", "true");
    let (before, after) = (figures("xen-pio", "before", &[string]), figures("xen-pio", "after", &[string]));
    assert_eq!(before["guest.latency_mean"], after["guest.latency_mean"]);
}

#[test]
fn a_delay_after_every_exit_costs_throughput_the_more_the_longer_it_is() {
    let delays = ["0ns", "100ns", "200ns", "1us", "10us", "30us"];
    let throughputs =
        delays.map(|delay| figures("halt-polling", "host_polls", &[("delay", delay)])["load.virtio.throughput"]);
    assert!(throughputs.windows(2).all(|pair| pair[0] > pair[1]), "{throughputs:?}");
}

#[test]
fn polling_costs_cpu_and_a_limit_below_the_gap_wins_nothing() {
    let short = figures("halt-polling", "guest_polls", &[("guest_halt_poll_ns", "5us")]);
    let long = figures("halt-polling", "guest_polls", &[]);
    assert!(long["load.virtio.latency_mean"] < short["load.virtio.latency_mean"]);
    assert!(
        long["guest.polling"] > 0.5 && long["guest.idle"] < 0.1,
        "{} {}",
        long["guest.polling"],
        long["guest.idle"]
    );
}

#[test]
fn without_spin_retry_every_pass_asks_and_naming_the_holder_pays_more_with_more_servers() {
    let default = figures("diagnose-9c", "b_44", &[]);
    let none = figures("diagnose-9c", "b_44", &[("spin_retry", "0")]);
    assert!(none["yields"] > 3.0 * default["yields"], "{} {}", none["yields"], default["yields"]);
    let gain = |set: &str| {
        let [with, without] = ["9c", "44"].map(|kind| figures("diagnose-9c", &format!("{set}_{kind}"), &[]));
        with["client.throughput"] / without["client.throughput"]
    };
    assert!(gain("a") < gain("c"), "{} {}", gain("a"), gain("c"));
}
