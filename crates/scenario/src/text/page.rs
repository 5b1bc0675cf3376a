//! The documentation of scenario files, from the rows that the reader goes by.

use super::rows::{
    ALTERNATIVE, CHANNEL, COST, COSTS, DISK, EXIT_SPREAD, HOST, LOAD, MAX_CPUS, MAX_INSTANT, MAX_LIST, MAX_NESTING,
    MAX_OPS, MAX_TEXT, MAX_VCPUS, MODEL, PROGRAM, REGISTER, REGISTERS, SCENARIO, SCHEDULER, SMT_SPEED, SPIN, STEPS,
    ScenarioKey, THREAD, VM,
};
use crate::assumptions::assumed_beside_costs;
use crate::{AssumedRange, CostModel, LIBRARY};
use exitscope_policy::POLICIES;
use exitscope_units::Nanos;
use std::fmt::Write;

/// The worked example, which is also a scenario of the examples.
const EXAMPLE: &str = include_str!("../../../../scenarios/first.toml");

/// docs/scenario.md.
pub fn page() -> String {
    let mut page = String::from(INTRODUCTION);
    let _ = write!(page, "```toml\n{EXAMPLE}```\n{VALUES}");
    for (title, rows) in [
        ("The file", SCENARIO),
        ("`[host]`", HOST),
        ("`[host.scheduler]`", SCHEDULER),
        ("`[[channel]]`", CHANNEL),
        ("`[[load]]`", LOAD),
        ("`[[vm]]`", VM),
        ("`[[vm.program]]`", PROGRAM),
        ("`[[vm.disk]]`", DISK),
        ("`[[vm.register]]`", REGISTER),
        ("`[vm.registers]`", REGISTERS),
        ("`spin` of a VM, as a table", SPIN),
        ("`[[thread]]`", THREAD),
    ] {
        let _ = writeln!(page, "\n### {title}\n");
        table(&mut page, rows);
    }
    steps(&mut page);
    let _ = writeln!(page, "\n## Library programs\n\nA program with `library` has their parameters as further keys.");
    for program in LIBRARY {
        let _ = writeln!(page, "\n### `{}`\n\n{}\n", program.name, program.about);
        if !program.parameters.is_empty() {
            table(&mut page, program.parameters);
        }
    }
    costs(&mut page);
    knobs(&mut page);
    let _ = write!(
        page,
        "\n## Bounds\n\n| what | at most |\n| --- | ---: |\n\
         | bytes in a file | {MAX_TEXT} |\n\
         | vCPUs of all VMs, and threads of the host | {MAX_VCPUS} |\n\
         | hardware threads of the host | {MAX_CPUS} |\n\
         | tables of a kind, names in a list | {MAX_LIST} |\n\
         | steps written in a program | {MAX_OPS} |\n\
         | steps in steps | {MAX_NESTING} deep |\n\
         | steps without any that takes time | {MAX_INSTANT} |\n\
         | a time | a day |\n"
    );
    page
}

const INTRODUCTION: &str = "\
# Scenarios

A scenario says what to run: a host, its guests, what they do, what each step costs, and the knobs. It is a TOML file.
Generated from the rows that the reader goes by: `cargo run -p exitscope-scenario --example page > docs/scenario.md`.

## Write your own in ten minutes

Copy this file, change a number, run it. Everything that is left out has a default; what is misspelt, out of bounds or
impossible is an error with its line and column.

";

const VALUES: &str = "
More examples, one for each library program, are in [scenarios/](../scenarios).

## Values

| value | as | |
| --- | --- | --- |
| time | `\"350ns\"`, `\"1.5ms\"`, `\"2616 cycles\"` | units ps, ns, us, ms, s; cycles are of the clock `costs.clock_hz` |
| distribution | `{ exponential = \"12us\" }` | exponential with this mean |
| | `{ uniform = [\"1us\", \"3us\"] }` | evenly spread from the first to the second |
| | `{ normal = [\"10us\", \"2us\"] }` | normal with this mean and standard deviation; below zero counts as zero |
| CPUs, vCPUs | `[0, 1, 2, 8]`, `\"0-2,8\"` | hardware threads, or with `ganged` whole (sub)cores |
| name | `\"net\"` | a name is given once, in the table that it is of, and used elsewhere |

From the command line, `--set key=value` sets any of them: `--set duration=5s`, `--set host.cores=8`,
`--set vm.web.vcpus=4`, `--set channel.net.latency=5us`. Short: a knob by its name alone (`--set spin_retry=0`: for the
scenario, and for the VMs that have their own), `vm.web.spin_retry` for one VM's, `cost.exit`, `delay`, and
`vm.web.section` for a parameter of a VM's library program.

## Keys
";

fn table(page: &mut String, rows: &[ScenarioKey]) {
    page.push_str("| key | takes | without it | |\n| --- | --- | --- | --- |\n");
    for ScenarioKey { key, kind, absent, about } in rows {
        let _ = writeln!(page, "| `{key}` | {kind} | {absent} | {about} |");
    }
}

fn steps(page: &mut String) {
    page.push_str(
        "\n## Steps\n\nA program is a list of steps, done once from first to last; the vCPU then idles for good. A step is a \
         bare word, `\"count\"`, or a table, `{ compute = \"5us\" }`. Threads of the host only compute, sleep, send and \
         receive.\n\n| step | takes | further keys | |\n| --- | --- | --- | --- |\n",
    );
    for step in STEPS {
        let takes = step.rows.first().map_or("a bare word".to_string(), |row| row.kind.to_string());
        let more = |row: &ScenarioKey| format!("`{}`: {} ({})", row.key, row.kind, row.absent);
        let more: Vec<String> = step.rows.iter().skip(1).map(more).collect();
        let _ = writeln!(page, "| `{}` | {takes} | {} | {} |", step.word, more.join("; "), step.about);
    }
    page.push_str("\nAn alternative of `pick`:\n\n");
    table(page, ALTERNATIVE);
}

fn costs(page: &mut String) {
    page.push_str(
        "\n## `[costs]`\n\nCosts are those of a machine, and where it has none, the default's. `costs.model` names one of \
         [models.md](models.md), or a file of one's own; its path begins at the scenario's folder.\n\n",
    );
    table(page, COSTS);
    page.push_str(
        "\nand a row for each cost, as a time, `exit = \"350ns\"`, or with where it is from, \
         `exit = { time = \"900 cycles\", origin = \"published\", source = \"…\" }`:\n\n",
    );
    table(page, COST);
    page.push_str("\nA file of a cost model has these keys, and rows for costs, as above but without `[costs]`:\n\n");
    table(page, MODEL);
    page.push_str("\n### `smt_speed` of a cost model\n\n");
    table(page, SMT_SPEED);
    page.push_str(
        "\n### `exit_spread`\n\nWithout it every exit takes what its costs come to, and vCPUs that do the same keep out of each other's \
         way for ever: a lock for all devices costs eight of them no more than one, until it is always taken. With it, each exit draws \
         one factor for all that the host does for it, but not for what a virtual core's other threads, a device's own thread or the \
         wait for a lock add. Half of the factors are below 1; both halves are normal by their logarithm. `lab exits` measures it, \
         *p5 to p95*.\n\n",
    );
    table(page, EXIT_SPREAD);
    page.push_str(
        "\n### Costs\n\nA cost whose origin is `assumed` may as well be anything between the ends that are given here; one that differs \
         from the default, as much of itself. `sim --uncertainty` and `sweep --uncertainty` try them.\n\n\
         | cost | default | may as well be | because | |\n| --- | ---: | --- | --- | --- |\n",
    );
    let model = CostModel::default();
    for (name, about) in CostModel::ROWS {
        let time = model.get(name).map_or(0, |cost| cost.time.as_nanos());
        let range =
            CostModel::range(name).filter(|_| time > 0).unwrap_or(AssumedRange { low: 1.0, high: 1.0, source: "-" });
        let ends = [range.low, range.high].map(|of| Nanos((time as f64 * of).round() as u64));
        let ends = if range.low < range.high { format!("{} to {}", ends[0], ends[1]) } else { "-".to_string() };
        let _ = writeln!(page, "| `{name}` | {} | {ends} | {} | {} |", Nanos(time), range.source, about.trim());
    }
    page.push_str("\nThe same of the scheduler, and of the threads of a core:\n\n| key | may as well be | because |\n| --- | --- | --- |\n");
    for (key, ends, why) in assumed_beside_costs() {
        let _ = writeln!(page, "| `{key}` | {ends} | {why} |");
    }
}

fn knobs(page: &mut String) {
    page.push_str(
        "\n## `[policies]` and `[vm.policies]`\n\nKnobs have the kernel's names and units; a time is a number of nanoseconds \
         or a text such as `\"80us\"`.\n\n| knob | default | unit | from – to | |\n| --- | ---: | --- | --- | --- |\n",
    );
    for (_, knobs) in POLICIES {
        for knob in *knobs {
            let [default, min, max] = [knob.default, knob.min, knob.max].map(|value| knob.text(value));
            let _ = writeln!(page, "| `{}` | {default} | {} | {min} – {max} | {} |", knob.name, knob.unit, knob.about);
        }
    }
}
