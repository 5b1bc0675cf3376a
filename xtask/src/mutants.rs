//! Changes the code in small ways, one at a time, and looks whether the tests notice (cargo-mutants).
//!
//! ```text
//! policy: every change ──────────────────────────────────────┐
//! advice, analysis, model: a sample of all, drawn with a seed ┼─► cargo mutants ─► outcomes.json ─► rows of docs/mutants.md
//! trace, view, serve, apply: such a sample of each ───────────┘
//! ```
//!
//! Not part of CI: it builds and tests a crate once for each change.

use crate::{cargo, root, target};
use anyhow::{Context, bail, ensure};
use rand::seq::SliceRandom;
use rand_pcg::Pcg64;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;

/// Crates in which every change is tried, those of all of which a sample is, and those of each of which one is.
const WHOLE: &[&str] = &["exitscope-policy"];
const TOGETHER: &[&str] = &["exitscope-advice", "exitscope-analysis", "exitscope-model"];
const EACH: &[&str] = &["exitscope-apply", "exitscope-serve", "exitscope-trace", "exitscope-view"];

/// The tests that a mutant is tried with.
#[derive(Clone, Copy)]
enum HeldBy {
    /// All of its crate.
    Own,
    /// Of its crate, those in its modules and in files of these names.
    OwnOf(&'static [&'static str]),
    /// Those in its modules, and its and the command's in files of these names.
    CommandOf(&'static [&'static str]),
}

/// The crates of which not all own tests are run at once: what the first do not notice is tried with the next.
const STAGES: &[(&str, &[HeldBy])] = &[
    // Its own take a second.
    ("exitscope-serve", &[HeldBy::Own, HeldBy::CommandOf(&["serve", "live_page"])]),
    // The others take ten times as long.
    (
        "exitscope-trace",
        &[HeldBy::OwnOf(&["counts", "exit_tables", "perf_records", "text", "tracedat", "xentrace"]), HeldBy::Own],
    ),
    (
        "exitscope-view",
        &[
            HeldBy::CommandOf(&["pages", "examples", "first_screen", "counts", "html"]),
            HeldBy::CommandOf(&["advise", "documents", "twins", "views"]),
        ],
    ),
];

/// What an earlier run found.
const KEPT: &str = "kept.json";

/// What the table says before its rows.
const HEAD: &str = "\
# Mutants

Written by `cargo xtask mutants`; change nothing by hand.

Each mutant is one small change of the code: a comparison turned round, a function that returns a constant. It is caught if a
test of its crate fails with it, or hangs; for `serve` and `view`, whose work is what the command shows, some of the command's own
tests (`STAGES` in xtask/src/mutants.rs). What does not build says nothing. Of `policy` every mutant is tried, of `advice`,
`analysis` and `model` a sample of all together, of `apply`, `serve`, `trace` and `view` one of each. The tool is [cargo-mutants](https://mutants.rs) (`cargo install cargo-mutants --locked`).

| crate | mutants | caught | missed | unviable | timeouts | noticed |
| --- | ---: | ---: | ---: | ---: | ---: | ---: |
";

/// Flags of `cargo xtask mutants`.
#[derive(clap::Args)]
pub struct Flags {
    /// Only these crates, by their package's name; the rows of others stay as they are
    crates: Vec<String>,
    /// So many mutants of a sample
    #[arg(long, default_value_t = 150)]
    sample: usize,
    /// Where the random numbers begin that draw the sample
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// So many are tried at a time, each in a copy of its own; a test that times out for want of CPUs counts as noticed
    #[arg(long, default_value_t = 1)]
    jobs: usize,
    /// Keep what earlier runs found of the same mutants, and try those again that were missed: after a run was ended, or tests were
    /// added
    #[arg(long)]
    go_on: bool,
}

/// A mutant, as `cargo mutants --list --json` says it.
#[derive(Clone, Debug, Serialize, Deserialize, PartialEq, Eq, PartialOrd, Ord)]
struct Mutant {
    package: String,
    name: String,
}

/// What `outcomes.json` says.
#[derive(Default, Serialize, Deserialize)]
struct Outcomes {
    outcomes: Vec<MutantOutcome>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct MutantOutcome {
    scenario: Scenario,
    summary: String,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
enum Scenario {
    Baseline,
    Mutant(Mutant),
}

/// What came of the mutants of one crate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Counts {
    caught: u64,
    missed: u64,
    unviable: u64,
    timeouts: u64,
}

/// Tries the mutants, prints those that were missed, and writes the rows.
pub fn run(flags: &Flags) -> anyhow::Result<()> {
    let all = [WHOLE, TOGETHER, EACH].concat();
    if let Some(unknown) = flags.crates.iter().find(|name| !all.contains(&name.as_str())) {
        bail!("{unknown} is none of {}", all.join(", "));
    }
    let wanted = |package: &&str| flags.crates.is_empty() || flags.crates.iter().any(|name| name == package);
    let listed = all.iter().copied().filter(wanted).map(|package| Ok((package, list(package)?)));
    let listed: BTreeMap<&str, Vec<Mutant>> = listed.collect::<anyhow::Result<_>>()?;
    let of = |packages: &[&str]| packages.iter().filter_map(|package| listed.get(package)).flatten().cloned().collect();
    let mut mutants: Vec<Mutant> = of(WHOLE);
    mutants.extend(sample(of(TOGETHER), flags.sample, flags.seed));
    for package in EACH {
        mutants.extend(sample(of(&[package]), flags.sample, flags.seed));
    }

    let folder = target()?.join("mutants");
    let mut tried: BTreeMap<String, Counts> = BTreeMap::new();
    for of_package in mutants.chunk_by(|a, b| a.package == b.package) {
        let package = &of_package[0].package;
        for outcome in found(&listed[package.as_str()], of_package, &folder.join(package), flags)? {
            let Some(mutant) = outcome.mutant() else { continue };
            tried.entry(package.clone()).or_default().count(&outcome.summary)?;
            if outcome.is_missed() {
                println!("missed: {}", mutant.name);
            }
        }
    }
    let path = root().join("docs/mutants.md");
    let table = table(&std::fs::read_to_string(&path).unwrap_or_default(), &tried);
    print!("{table}");
    Ok(std::fs::write(path, table)?)
}

/// What came of these mutants of `all` of a package, with all tests that hold it.
fn found(all: &[Mutant], mutants: &[Mutant], folder: &Path, flags: &Flags) -> anyhow::Result<Vec<MutantOutcome>> {
    let stages = STAGES.iter().find(|of| of.0 == mutants[0].package).map_or(&[HeldBy::Own][..], |of| of.1);
    let mut outcomes = if flags.go_on { kept(folder, mutants) } else { Vec::new() };
    for held_by in stages {
        outcomes.retain(|of| !of.is_missed());
        write_kept(folder, &outcomes)?;
        let has = |mutant: &Mutant| outcomes.iter().any(|of| of.mutant() == Some(mutant));
        let left: Vec<Mutant> = mutants.iter().filter(|mutant| !has(mutant)).cloned().collect();
        if !left.is_empty() {
            outcomes.extend(try_mutants(all, &left, folder, flags.jobs, *held_by)?);
        }
    }
    Ok(outcomes)
}

/// All mutants of a package.
fn list(package: &str) -> anyhow::Result<Vec<Mutant>> {
    let output = cargo()?.args(["mutants", "--list", "--json", "--package", package]).output()?;
    ensure!(output.status.success(), "cargo mutants fails: `cargo install cargo-mutants --locked` installs it");
    serde_json::from_slice(&output.stdout).with_context(|| format!("the mutants of {package}"))
}

/// So many of them, the same for the same seed, in the order of their packages.
fn sample(mut mutants: Vec<Mutant>, most: usize, seed: u64) -> Vec<Mutant> {
    mutants.sort();
    mutants.shuffle(&mut Pcg64::new(u128::from(seed), 0));
    mutants.truncate(most);
    mutants.sort();
    mutants
}

/// Tries these mutants of `all` of a package. The tool is told that it caught all others before: by their names alone it leaves out
/// no deletion of a field.
fn try_mutants(
    all: &[Mutant],
    mutants: &[Mutant],
    folder: &Path,
    jobs: usize,
    held_by: HeldBy,
) -> anyhow::Result<Vec<MutantOutcome>> {
    let package = &mutants[0].package;
    let out = folder.join("mutants.out");
    if out.exists() {
        std::fs::remove_dir_all(&out)?;
    }
    std::fs::create_dir_all(&out)?;
    let others = all.iter().filter(|of| !mutants.contains(of)).map(|of| format!("{}\n", of.name));
    std::fs::write(out.join("previously_caught.txt"), others.collect::<String>())?;
    let mut command = cargo()?;
    // The copy that is changed has a target directory of its own.
    command.env_remove("CARGO_TARGET_DIR");
    command.args(["mutants", "--cap-lints=true", "--iterate", "--package", package, "--output"]).arg(folder);
    // A test that others leave no CPU to is not one that hangs.
    command.args(["--jobs", &jobs.to_string(), "--minimum-test-timeout=60"]);
    // In all that cargo is told: what is built is what is run, also before anything is changed.
    let mut also = |of: String| _ = command.arg(format!("--cargo-arg={of}"));
    match held_by {
        HeldBy::Own => {}
        HeldBy::OwnOf(files) => {
            also("--lib".to_string());
            files.iter().for_each(|file| also(format!("--test={file}")));
        }
        HeldBy::CommandOf(files) => {
            also("--package=exitscope".to_string());
            also("--lib".to_string());
            files.iter().for_each(|file| also(format!("--test={file}")));
            // The command has the page in it, which git ignores.
            command.arg("--gitignore=false");
            // What is built anew for each is built fast; what is not, is fast.
            for built in ["exitscope", package] {
                command.arg(format!("--cargo-arg=--config=profile.dev.package.{built}.opt-level=0"));
            }
            command.env("CARGO_PROFILE_DEV_DEBUG", "0");
            // Of what depends on the package, little changes with one of its functions.
            command.env("CARGO_INCREMENTAL", "1");
        }
    }
    // 2: mutants were missed, 3: some timed out.
    let status = command.status()?;
    ensure!(matches!(status.code(), Some(0 | 2 | 3)), "cargo mutants: {status}");
    let said = std::fs::read(out.join("outcomes.json"))?;
    asked_for(serde_json::from_slice::<Outcomes>(&said)?.outcomes, mutants, package)
}

/// What earlier runs found of these mutants, without those that no test noticed.
fn kept(folder: &Path, mutants: &[Mutant]) -> Vec<MutantOutcome> {
    let read = |path: &str| -> Outcomes {
        let text = std::fs::read(folder.join(path)).unwrap_or_default();
        serde_json::from_slice(&text).unwrap_or_default()
    };
    let found = [KEPT, "mutants.out/outcomes.json"].map(read).into_iter().flat_map(|of| of.outcomes);
    let found = found.filter(|of| !of.is_missed()).filter_map(|of| Some((of.mutant()?.clone(), of)));
    let found: BTreeMap<Mutant, MutantOutcome> = found.filter(|(mutant, _)| mutants.contains(mutant)).collect();
    found.into_values().collect()
}

fn write_kept(folder: &Path, outcomes: &[MutantOutcome]) -> anyhow::Result<()> {
    std::fs::create_dir_all(folder)?;
    Ok(std::fs::write(folder.join(KEPT), serde_json::to_vec(&Outcomes { outcomes: outcomes.to_vec() })?)?)
}

/// Of what came of a package's mutants, that of those that were asked for.
fn asked_for(outcomes: Vec<MutantOutcome>, mutants: &[Mutant], package: &str) -> anyhow::Result<Vec<MutantOutcome>> {
    let is_one = |of: &MutantOutcome| of.mutant().is_some_and(|mutant| mutants.contains(mutant));
    let asked: Vec<MutantOutcome> = outcomes.into_iter().filter(is_one).collect();
    ensure!(asked.len() == mutants.len(), "cargo mutants tried {} of the {} of {package}", asked.len(), mutants.len());
    Ok(asked)
}

impl MutantOutcome {
    fn mutant(&self) -> Option<&Mutant> {
        match &self.scenario {
            Scenario::Baseline => None,
            Scenario::Mutant(mutant) => Some(mutant),
        }
    }

    fn is_missed(&self) -> bool {
        self.summary == "MissedMutant"
    }
}

impl Counts {
    fn count(&mut self, summary: &str) -> anyhow::Result<()> {
        *match summary {
            "CaughtMutant" => &mut self.caught,
            "MissedMutant" => &mut self.missed,
            "Unviable" => &mut self.unviable,
            "Timeout" => &mut self.timeouts,
            other => bail!("cargo mutants says {other} of a mutant"),
        } += 1;
        Ok(())
    }

    fn row(self, package: &str) -> String {
        let Counts { caught, missed, unviable, timeouts } = self;
        let (noticed, built) = (caught + timeouts, caught + timeouts + missed);
        let share = 100.0 * noticed as f64 / built.max(1) as f64;
        let all = built + unviable;
        format!("| `{package}` | {all} | {caught} | {missed} | {unviable} | {timeouts} | {share:.1} % |")
    }
}

/// The document, with new rows for the crates that were tried.
fn table(before: &str, tried: &BTreeMap<String, Counts>) -> String {
    let old = before.lines().filter_map(|line| {
        let package = line.strip_prefix("| `")?.split('`').next()?;
        Some((package.to_string(), line.to_string()))
    });
    let mut rows: BTreeMap<String, String> = old.collect();
    rows.extend(tried.iter().map(|(package, counts)| (package.clone(), counts.row(package))));
    let mut table = HEAD.to_string();
    for row in rows.values() {
        let _ = writeln!(table, "{row}");
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mutants() -> Vec<Mutant> {
        let of = |at: u32| Mutant { package: format!("p{}", at % 2), name: format!("{at}: replace < with <=") };
        (0..100).map(of).collect()
    }

    #[test]
    fn a_sample_is_the_same_for_the_same_seed() {
        let drawn = sample(mutants(), 10, 1);
        assert_eq!((drawn.len(), &drawn), (10, &sample(mutants(), 10, 1)));
        assert_ne!(drawn, sample(mutants(), 10, 2));
        assert!(drawn.is_sorted() && drawn.iter().all(|mutant| mutants().contains(mutant)));
        assert_eq!(sample(mutants(), 1_000, 1).len(), 100);
    }

    #[test]
    fn rows_of_crates_that_were_not_tried_stay() {
        let counts = Counts { caught: 17, missed: 2, unviable: 5, timeouts: 1 };
        let first = table("", &BTreeMap::from([("b".to_string(), counts)]));
        assert!(first.ends_with("| `b` | 25 | 17 | 2 | 5 | 1 | 90.0 % |\n"), "{first}");
        let both = table(&first, &BTreeMap::from([("a".to_string(), Counts { caught: 1, ..Counts::default() })]));
        assert!(both.contains("| `a` | 1 | 1 | 0 | 0 | 0 | 100.0 % |\n| `b` | 25 |"), "{both}");
    }

    #[test]
    fn only_what_was_asked_for_counts_and_all_of_it_was_tried() {
        let of = |mutant: &Mutant| MutantOutcome {
            scenario: Scenario::Mutant(mutant.clone()),
            summary: "CaughtMutant".to_string(),
        };
        let all = mutants();
        let tried = || all[..7].iter().map(of).collect();
        assert_eq!(asked_for(tried(), &all[2..5], "p").unwrap().len(), 3);
        assert!(asked_for(tried(), &all[5..8], "p").is_err(), "one was not tried");
    }

    #[test]
    fn what_was_found_is_kept_once_and_what_was_missed_is_tried_again() {
        let folder = tempfile::tempdir().unwrap();
        let of = |at: usize, summary: &str| MutantOutcome {
            scenario: Scenario::Mutant(mutants()[at].clone()),
            summary: summary.to_string(),
        };
        let [caught, other, missed] = [of(1, "CaughtMutant"), of(2, "Timeout"), of(3, "MissedMutant")];
        assert!(kept(folder.path(), &mutants()).is_empty());
        write_kept(folder.path(), std::slice::from_ref(&caught)).unwrap();
        let outcomes = vec![caught.clone(), other.clone(), missed, of(4, "CaughtMutant")];
        std::fs::create_dir(folder.path().join("mutants.out")).unwrap();
        let said = serde_json::to_vec(&Outcomes { outcomes }).unwrap();
        std::fs::write(folder.path().join("mutants.out/outcomes.json"), said).unwrap();
        // By package.
        assert_eq!(kept(folder.path(), &mutants()[..4]), [other, caught]);
    }

    #[test]
    fn what_the_tool_says_is_counted() {
        let said = r#"{"outcomes": [
            {"scenario": "Baseline", "summary": "Success"},
            {"scenario": {"Mutant": {"package": "p", "name": "n", "file": "f"}}, "summary": "CaughtMutant"}
        ]}"#;
        let outcomes = serde_json::from_str::<Outcomes>(said).unwrap().outcomes;
        assert!(matches!(outcomes[0].scenario, Scenario::Baseline));
        let mut counts = Counts::default();
        counts.count(&outcomes[1].summary).unwrap();
        assert_eq!(counts, Counts { caught: 1, ..Counts::default() });
        assert!(counts.count("Exploded").is_err());
    }
}
