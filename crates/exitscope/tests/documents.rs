//! The files of docs/ that the command itself prints: schemas, tables, what is simulated. `cargo xtask docs` has this test write
//! them anew.

mod common;

/// Each file, and the arguments of the command.
const DOCUMENTS: &[(&str, &str)] = &[
    ("report.schema.json", "docs report-schema"),
    ("diff.schema.json", "docs diff-schema"),
    ("counts.schema.json", "docs counts-schema"),
    ("counts-diff.schema.json", "docs counts-diff-schema"),
    ("events.schema.json", "docs events-schema"),
    ("top.schema.json", "docs top-schema"),
    ("replay.schema.json", "docs replay-schema"),
    ("advise.schema.json", "docs advise-schema"),
    ("try.schema.json", "docs try-schema"),
    ("predictions.schema.json", "docs predictions-schema"),
    ("sim.schema.json", "docs sim-schema"),
    ("sweep.schema.json", "docs sweep-schema"),
    ("validate.schema.json", "docs validate-schema"),
    ("lab.schema.json", "docs lab-schema"),
    ("fleet.schema.json", "docs fleet-schema"),
    ("doctor.schema.json", "docs doctor-schema"),
    ("page.schema.json", "docs page-schema"),
    ("../crates/python/exitscope/schemas.py", "docs python-types"),
    ("validation.md", "validate --format markdown"),
    ("losses.md", "docs losses"),
    ("causes.md", "docs causes"),
    ("counts.md", "docs counts"),
    ("knobs.md", "docs knobs"),
    ("mechanisms.md", "docs mechanisms"),
    ("settings.md", "docs settings"),
    ("figures.md", "docs figures"),
    ("models.md", "docs models"),
    ("metrics.md", "docs metrics"),
    ("columns.md", "docs columns"),
    ("examples/sim.txt", "sim scenarios/ping-pong.toml --set guest_halt_poll_ns=0"),
    ("examples/sweep.txt", "sweep scenarios/web.toml --vary spin_retry=0,10..100000:*10 --metric throughput,yields"),
];

#[test]
fn documents_are_what_the_command_prints() {
    common::kept::assert_kept("docs", DOCUMENTS);
}
