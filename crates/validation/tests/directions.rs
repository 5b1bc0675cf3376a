//! The experiments' machines answer other questions in the right direction, too; and the comparison holds together.

use exitscope_policy::KnobLocation;
use exitscope_scenario::{CostModel, CostOrigin};
use exitscope_sim::{Limits, Unseen, run};
use exitscope_validation::{
    Experiment, ExperimentRow, FigureFormula, FitVerdict, RowRole, Validation, experiments, misfit, published, validate,
};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

fn experiment(name: &str) -> Experiment {
    experiments().unwrap().into_iter().find(|experiment| experiment.name == name).unwrap()
}

/// All experiments with one seed, simulated once for all tests.
static VALIDATION: LazyLock<Validation> = LazyLock::new(|| validate(&experiments().unwrap(), 1).unwrap());

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
fn no_row_goes_in_the_wrong_direction_but_those_that_follow_from_others_that_are_far() {
    let validation = &*VALIDATION;
    let rows = validation.experiments.iter().flat_map(|experiment| &experiment.rows);
    let wrong: Vec<_> = rows.filter(|row| row.verdict == FitVerdict::Wrong).collect();
    let ids: Vec<_> = wrong.iter().map(|row| row.id.as_str()).collect();
    assert_eq!(ids, ["DIAG9C-095", "GANG-044", "GANG-045"], "the remarks of their experiments say why");
    assert!(wrong.iter().all(|row| !row.follows.is_empty()) && !validation.has_failed());
    assert_eq!(validation.wrong, 3);
}

#[test]
fn every_published_row_is_in_an_experiment_or_listed_with_the_reason_why_not() {
    let list = experiments().unwrap();
    let validation = &*VALIDATION;
    let modelled = list.iter().flat_map(|experiment| experiment.row.iter().map(|row| row.id.as_str()));
    let listed = validation.not_modelled.iter().flat_map(|of| of.rows.iter().map(|row| row.id.as_str()));
    let mut ids: Vec<&str> = modelled.chain(listed).collect();
    ids.sort_unstable();
    let table = published();
    let mut all: Vec<&str> = table.iter().map(|row| row.id.as_str()).collect();
    all.sort_unstable();
    assert_eq!(ids, all, "each once");
    for of in &validation.not_modelled {
        assert!(of.because.ends_with('.') && of.because.len() > 30, "{}", of.because);
    }
    let some: Vec<_> = list.into_iter().filter(|of| of.name == "xen-pio").collect();
    assert!(validate(&some, 1).unwrap().not_modelled.is_empty(), "beside some experiments nothing is missing");
}

#[test]
fn published_defaults_and_the_number_of_tunables_are_those_of_the_knobs() {
    for row in published() {
        let name = match row.id.as_str() {
            "DIAG9C-076" => "spin_retry",
            _ if row.experiment == "parameter defaults" => &row.metric,
            _ => continue,
        };
        let knob = exitscope_policy::knob(name).unwrap();
        assert_eq!(knob.text(knob.default).to_string(), row.value, "{}", row.id);
    }
    let governors = exitscope_policy::all_knobs().filter(|knob| knob.location == KnobLocation::BuiltIn("haltpoll"));
    let count = published().into_iter().find(|row| row.id == "HALTPOLL-036").unwrap();
    assert_eq!(governors.count().to_string(), count.value);
}

#[test]
fn a_configuration_after_another_changes_in_the_published_direction_or_is_counted() {
    let list: Vec<_> = experiments().unwrap().into_iter().filter(|of| of.name == "redis").collect();
    let validation = validate(&list, 1).unwrap();
    let row = |id: &str| validation.experiments[0].rows.iter().find(|row| row.id == id).unwrap();
    // Published: SET gains a fifth, MSET loses a tenth.
    let directions = ["GANG-023", "GANG-030"].map(|id| row(id).previous.as_ref().unwrap().direction);
    assert_eq!(directions, [Some(true), Some(false)]);
    let [copied] = &validation.copied[..] else { panic!("{:?}", validation.copied) };
    assert_eq!((copied.rows, copied.moved, copied.direction_right), (3, 3, 2));
    assert_eq!(row("GANG-031").verdict, FitVerdict::Near, "none were published, and none happen");
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
        long["guest.guest_polling"] > 0.5 && long["guest.halted"] < 0.1,
        "{} {}",
        long["guest.guest_polling"],
        long["guest.halted"]
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

/// The same figure of runs that differ in one key.
fn each(name: &str, base: &str, key: &str, values: &[&str], figure: &str) -> Vec<f64> {
    values.iter().map(|value| figures(name, base, &[(key, value)])[figure]).collect()
}

fn falls(values: &[f64]) -> bool {
    values.windows(2).all(|pair| pair[0] > pair[1])
}

#[test]
fn the_gains_of_naming_the_holder_do_not_hang_on_the_time_slice() {
    for slice in ["1ms", "10ms"] {
        let throughput =
            |run: &str| figures("diagnose-9c", run, &[("host.scheduler.time_slice", slice)])["client.throughput"];
        let gain = throughput("b_9c") / throughput("b_44") - 1.0;
        assert!((0.05..0.15).contains(&gain), "{slice}: {gain}");
    }
}

#[test]
fn spinning_longer_before_asking_asks_less() {
    let yields = each("diagnose-9c", "e_44", "spin_retry", &["0", "100", "1000", "10000"], "yields");
    assert!(falls(&yields), "{yields:?}");
}

#[test]
fn a_faster_clock_serves_more_pages_and_reads_ports_sooner() {
    let pages = each("diagnose-9c", "c_44", "costs.model", &["z9-zvm-5.3", "z990-zvm-5.3"], "client.throughput");
    assert!(falls(&pages), "{pages:?}");
    let clocks = ["1400000000", "2800000000", "5600000000"];
    let reads = each("xen-pio", "before", "costs.clock_hz", &clocks, "guest.latency_mean");
    assert!(falls(&reads), "{reads:?}");
}

#[test]
fn redis_without_gangs_leaves_no_gang_exits_and_serves_more() {
    let (whole, split) = (figures("redis", "payload", &[]), figures("redis", "split", &[]));
    assert!(split["redis.throughput"] > whole["redis.throughput"]);
    assert!(whole["redis.gang_exits_by_script"] > 10_000.0 && split["redis.gang_exits_by_script"] == 0.0);
}

#[test]
fn a_dearer_exit_costs_ebizzy_beside_ping_and_not_beside_nothing() {
    let exits = ["1us", "2us", "4us"];
    let beside_ping = each("gang-ebizzy", "1c", "costs.exit", &exits, "ebizzy.throughput");
    assert!(falls(&beside_ping), "{beside_ping:?}");
    let alone = each("gang-ebizzy", "1a", "costs.exit", &exits, "ebizzy.throughput");
    assert!(alone[2] > 0.99 * alone[0], "{alone:?}");
}

#[test]
fn a_sibling_that_takes_more_of_the_core_leaves_less() {
    let throughput = each("gang-host", "2b", "thread.neighbour.demand", &["100", "500", "1000"], "ebizzy.throughput");
    assert!(falls(&throughput), "{throughput:?}");
}

#[test]
fn what_is_marked_calibrated_is_fitted_and_the_other_way_round() {
    for experiment in experiments().unwrap() {
        let calibrated = experiment.row.iter().filter(|row| row.role == RowRole::Calibrated).map(|row| &row.id);
        let models = experiment.run.keys().map(|run| experiment.scenario(run).unwrap().costs);
        let mut fitted: BTreeSet<String> = experiment.fit.iter().flat_map(|fit| fit.rows.clone()).collect();
        for model in models {
            for (name, _) in CostModel::ROWS {
                let cost = model.get(name).unwrap();
                if cost.origin == CostOrigin::Calibrated {
                    let ids = cost.source.split(|c: char| !c.is_ascii_alphanumeric() && c != '-');
                    let ids: Vec<&str> = ids.filter(|word| published().iter().any(|row| row.id == *word)).collect();
                    assert!(!ids.is_empty(), "{}: {name} does not say which row it was fitted to", model.name);
                    fitted.extend(ids.into_iter().map(str::to_string));
                }
            }
        }
        for id in calibrated {
            assert!(fitted.contains(id), "{}: nothing says what was fitted to {id}", experiment.name);
        }
        for row in experiment.row.iter().filter(|row| row.role == RowRole::Predicted) {
            assert!(!fitted.contains(&row.id), "{}: {} is fitted to, so no prediction", experiment.name, row.id);
        }
    }
}

#[test]
fn what_follows_from_other_rows_is_their_arithmetic_and_is_marked() {
    let list = experiments().unwrap();
    let validation = &*VALIDATION;
    for (experiment, result) in list.iter().zip(&validation.experiments) {
        let at = |id: &String| experiment.row.iter().position(|row| row.id == *id).unwrap_or_else(|| panic!("{id}"));
        for (row, own) in experiment.row.iter().zip(&result.rows) {
            assert!(row.follows.is_empty() || row.previous.is_none(), "{}", row.id);
            let followed = |row: &ExperimentRow| &experiment.row[at(&row.follows[0])];
            let of: Vec<f64> = row.follows.iter().map(|id| result.rows[at(id)].simulated).collect();
            let worked_out = match (&of[..], &row.figure) {
                ([], _) => continue,
                // Of requests one after the other, each takes what is left of a second for it.
                ([rate], FigureFormula::Value(_))
                    if row.metric.ends_with("latency_mean") && followed(row).metric.ends_with("throughput") =>
                {
                    1e9 / rate * row.scale
                }
                // The same in another unit.
                ([same], FigureFormula::Value(_) | FigureFormula::Gain(_)) => same * row.scale / followed(row).scale,
                ([plain, ratio], FigureFormula::Value(_)) => plain * ratio,
                ([a, b], FigureFormula::Per(_)) => a / b,
                ([a, b], FigureFormula::Ratio(_)) => a / b * row.scale,
                ([all, percent], FigureFormula::Difference(_)) if row.over.is_some() => all * (1.0 - percent / 100.0),
                ([a, b], FigureFormula::Drop(_)) => (1.0 - a / b) * 100.0,
                ([a, b], FigureFormula::Difference(_)) => a - b,
                // One step after the other.
                ([a, b, c], FigureFormula::Difference(_)) => a + b + c,
                other => panic!("{}: {other:?}", row.id),
            };
            // HALTPOLL-001 is of the same thread of the host, in another run; XENPIO-007 counts whole requests of a few seconds.
            assert!((worked_out / own.simulated - 1.0).abs() < 0.003, "{}: {worked_out} {}", row.id, own.simulated);
        }
        // The other way round: what is made of figures that other rows have is marked.
        let figure = |row: &ExperimentRow, run: &String, metric: &String| {
            let has =
                |other: &ExperimentRow| other.figure == FigureFormula::Value(run.clone()) && other.metric == *metric;
            experiment.row.iter().take_while(|other| other.id != row.id).any(has)
        };
        for row in experiment.row.iter().filter(|row| row.follows.is_empty()) {
            let over = row.over.as_ref().unwrap_or(&row.metric);
            let runs = row.figure.runs();
            let repeats = match runs[..] {
                [run] => matches!(row.figure, FigureFormula::Value(_)) && figure(row, run, &row.metric),
                [a, b] => figure(row, a, &row.metric) && figure(row, b, over),
                _ => false,
            };
            assert!(!repeats, "{}: all that it is made of is in other rows", row.id);
        }
    }
}

#[test]
fn what_is_given_comes_out_as_published_whatever_locks_and_costs_are() {
    for experiment in experiments().unwrap() {
        for row in experiment.row.iter().filter(|row| row.given.is_some()) {
            let FigureFormula::Value(run) = &row.figure else { panic!("{}", row.id) };
            for costs in ["6 cycles", "24 cycles"] {
                let figures = figures(&experiment.name, run, &[("costs.spin_pass", costs)]);
                let table = published();
                let wanted = table.iter().find(|of| of.id == row.id).unwrap().number().unwrap();
                assert_eq!(figures[&row.metric] * row.scale, wanted, "{} with {costs}", row.id);
            }
        }
    }
}

#[test]
fn the_published_figure_before_predicts_rates_of_diagnoses_as_well_as_the_simulation() {
    let list: Vec<_> = experiments().unwrap().into_iter().filter(|of| of.name == "diagnose-9c").collect();
    let validation = validate(&list, 1).unwrap();
    let of = |figure: &str| validation.copied.iter().find(|of| of.figure == figure).unwrap();
    // 110729 from 119868 and 111904 from 100015 are within 25 %, 78542 from 110729 and what follows is not.
    let rates = of("yields");
    assert_eq!((rates.rows, rates.copied_near), (6, 2));
    assert!(rates.copied_near >= rates.simulated_near, "if not, docs/validation.md may say so: {rates:?}");
    assert_eq!(of("queues.empty").copied_near, 0);
    assert_eq!(validation.copied.iter().map(|of| of.rows).sum::<u32>(), 19);
}

#[test]
fn rows_that_follow_or_are_given_are_no_predictions() {
    let validation = &*VALIDATION;
    assert_eq!((validation.predicted.rows, validation.independent.rows), (107, 44));
    assert!(validation.independent.near < validation.predicted.near);
    let (all, of) = (validation.predicted, validation.independent);
    assert!(of.changes_near <= of.changes && of.changes <= all.changes && of.near <= of.rows);
}

#[test]
fn refitting_begins_from_a_good_fit() {
    for name in ["xen-pio", "halt-polling", "exit-cost", "exit-cost-x86", "redis", "gang-host"] {
        let off = misfit(&experiment(name), 1, &[]).unwrap();
        assert!(off < 0.01, "{name}: {off}");
    }
}
