//! Whether forgetting a step of ARCHITECTURE.md's "To add something" is noticed: each is forgotten on purpose.
//!
//! ```text
//! probes.toml: a step ─► its probes: edits that add a specimen and forget the step, a command of cargo's, what is to notice
//! the tree, copied below cargo's target directory ─► edited ─► the command ─► it fails as expected: noticed
//!                                                             └► with the step done as well, it passes: the step was the reason
//! ```
//!
//! The steps are those that were silent when this began, by name: a mark (⚠) that is taken out of the text makes none of them noticed.

use crate::additions::Addition;
use crate::{root, target, tidy};
use anyhow::{Context, bail, ensure};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

const FILE: &str = "xtask/probes.toml";

/// Built by hand, and read when pages are built: not tracked, but of the tree.
const FRONT_END: &str = "web/dist/page.html";

/// The front end's packages, which a copy of the tree shares.
const PACKAGES: &str = "web/node_modules";

/// What checks the front end's types, as a probe asks for it, and where its packages have it.
const TSC: (&str, &str) = ("tsc", ".bin/tsc");

/// The rows of probes.toml.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Probes {
    step: Vec<Step>,
}

/// A step that was silent once.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Step {
    /// The kind of addition, as ARCHITECTURE.md names it.
    of: String,
    /// Its place, which its mark in the text has in it: `fn role`.
    step: String,
    #[serde(default)]
    probe: Vec<Probe>,
}

/// A way to forget it.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Probe {
    /// What adds a specimen without the step.
    edit: Vec<Edit>,
    /// What does the step then; if there is something, the command must pass with it.
    #[serde(default)]
    done: Vec<Edit>,
    /// Arguments of cargo, by blanks; or `tsc`, which checks the front end.
    run: String,
    /// What the command prints, among other things, when it fails as it should.
    notices: String,
}

/// A text of a file that is replaced; it is there once.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Edit {
    file: PathBuf,
    find: String,
    replace: String,
}

/// How a step fared.
#[derive(Clone, Debug, PartialEq)]
enum Outcome {
    Noticed,
    /// The command passed.
    Silent,
    /// Something else went wrong; the end of what was printed.
    Unclear(String),
    NoProbe,
}

/// Probes the steps, or those that have a text in their names.
pub fn run(additions: &[Addition], only: Option<&str>) -> anyhow::Result<()> {
    let probes = read()?;
    let scratch = Scratch::new()?;
    let is_meant = |step: &&Step| only.is_none_or(|text| step.name().contains(text));
    let mut outcomes = Vec::new();
    for step in probes.step.iter().filter(is_meant) {
        let outcome = step.probed(&scratch)?;
        println!("{}", described(step, &outcome, is_marked(additions, step)));
        outcomes.push(outcome);
    }
    ensure!(!outcomes.is_empty(), "no step is called so");
    let count = |of: fn(&Outcome) -> bool| outcomes.iter().filter(|outcome| of(outcome)).count();
    let (noticed, without) = (count(|of| *of == Outcome::Noticed), count(|of| *of == Outcome::NoProbe));
    println!("{noticed} of {} steps noticed, {without} without a probe", outcomes.len());
    let unclear = count(|of| matches!(of, Outcome::Unclear(_)));
    ensure!(unclear == 0, "{unclear} probes are not as they should be");
    Ok(())
}

/// What is wrong with the list of steps: marks that are no step, and texts that edits no longer find.
pub fn problems(additions: &[Addition]) -> anyhow::Result<Vec<String>> {
    let probes = read()?;
    let mut problems = marks_without_steps(additions, &probes.step);
    for step in &probes.step {
        for edit in step.probe.iter().flat_map(|probe| &probe.edit) {
            let text = fs::read_to_string(root().join(&edit.file)).unwrap_or_default();
            if let Err(error) = edit.applied(&text) {
                problems.push(format!("{FILE}: {}: {error}", step.name()));
            }
        }
    }
    Ok(problems)
}

/// How many steps there are, how many of them are still marked, and how many have a probe.
pub fn counts(additions: &[Addition]) -> anyhow::Result<(usize, usize, usize)> {
    let steps = read()?.step;
    let marked = steps.iter().filter(|step| is_marked(additions, step)).count();
    Ok((steps.len(), marked, steps.iter().filter(|step| !step.probe.is_empty()).count()))
}

fn read() -> anyhow::Result<Probes> {
    toml::from_str(&fs::read_to_string(root().join(FILE)).context(FILE)?).context(FILE)
}

/// Whether the text still has the step's mark.
fn is_marked(additions: &[Addition], step: &Step) -> bool {
    let marks = additions.iter().filter(|addition| addition.name == step.of).flat_map(|addition| &addition.silent);
    marks.into_iter().any(|mark| mark.text.contains(&step.step))
}

fn marks_without_steps(additions: &[Addition], steps: &[Step]) -> Vec<String> {
    let mut problems = Vec::new();
    for addition in additions {
        let of_addition: Vec<&Step> = steps.iter().filter(|step| step.of == addition.name).collect();
        for mark in addition.silent.iter().filter(|mark| !of_addition.iter().any(|step| mark.text.contains(&step.step)))
        {
            problems.push(format!("ARCHITECTURE.md:{}: no step of {FILE}: {}", mark.line, mark.text));
        }
    }
    problems
}

/// A step's line.
fn described(step: &Step, outcome: &Outcome, is_marked: bool) -> String {
    let (said, end) = match (outcome, is_marked) {
        (Outcome::Noticed, true) => ("noticed", "; its mark in ARCHITECTURE.md can go"),
        (Outcome::Noticed, false) => ("noticed", ""),
        (Outcome::Silent, true) => ("silent", ""),
        (Outcome::Silent, false) => ("silent", "; ARCHITECTURE.md does not mark it any more"),
        (Outcome::Unclear(_), _) => ("unclear", ""),
        (Outcome::NoProbe, true) => ("no probe", ""),
        (Outcome::NoProbe, false) => ("no probe", "; ARCHITECTURE.md does not mark it any more"),
    };
    let printed = match outcome {
        Outcome::Unclear(printed) => format!("\n{printed}"),
        _ => String::new(),
    };
    format!("{said:<8}  {}{end}{printed}", step.name())
}

impl Step {
    fn name(&self) -> String {
        format!("{}: {}", self.of, self.step)
    }

    /// Noticed if all of its probes are.
    fn probed(&self, scratch: &Scratch) -> anyhow::Result<Outcome> {
        let mut outcome = Outcome::NoProbe;
        for probe in &self.probe {
            outcome = scratch.probed(probe).with_context(|| self.name())?;
            if outcome != Outcome::Noticed {
                break;
            }
        }
        Ok(outcome)
    }
}

impl Edit {
    /// The text with the edit.
    fn applied(&self, text: &str) -> anyhow::Result<String> {
        let count = text.matches(&self.find).count();
        if count != 1 {
            bail!("{} has {count} times: {}", self.file.display(), self.find);
        }
        Ok(text.replacen(&self.find, &self.replace, 1))
    }
}

/// A copy of the tree, in which probes are made.
struct Scratch {
    tree: PathBuf,
    target: PathBuf,
}

impl Scratch {
    /// Copies what is tracked, or would be. What has not changed since the last time keeps its time, for which cargo looks.
    fn new() -> anyhow::Result<Scratch> {
        let folder = target()?.join("probes");
        let scratch = Scratch { tree: folder.join("tree"), target: folder.join("target") };
        let mut files = tidy::files()?;
        if root().join(FRONT_END).exists() {
            files.insert(PathBuf::from(FRONT_END));
        }
        for file in &files {
            let bytes = fs::read(root().join(file)).with_context(|| file.display().to_string())?;
            scratch.write(file, &bytes)?;
        }
        let is_gone = |file: &Path| !files.contains(file);
        remove_gone(&scratch.tree, Path::new(""), &is_gone)?;
        std::os::unix::fs::symlink(root().join(PACKAGES), scratch.tree.join(PACKAGES)).context(PACKAGES)?;
        Ok(scratch)
    }

    /// Writes a file, unless it is so already.
    fn write(&self, file: &Path, bytes: &[u8]) -> anyhow::Result<()> {
        let path = self.tree.join(file);
        if fs::read(&path).is_ok_and(|old| old == bytes) {
            return Ok(());
        }
        fs::create_dir_all(path.parent().context("a file without a folder")?)?;
        fs::write(&path, bytes).with_context(|| path.display().to_string())
    }

    fn probed(&self, probe: &Probe) -> anyhow::Result<Outcome> {
        let mut originals = BTreeMap::new();
        let outcome = self.edited(probe, &mut originals);
        for (file, text) in originals {
            self.write(&file, text.as_bytes())?;
        }
        outcome
    }

    /// Runs the probe; files that it changes go into `originals` first.
    fn edited(&self, probe: &Probe, originals: &mut BTreeMap<PathBuf, String>) -> anyhow::Result<Outcome> {
        self.edit(&probe.edit, originals)?;
        let (passed, printed) = self.run(&probe.run)?;
        let outcome = judged(passed, &printed, &probe.notices);
        if outcome != Outcome::Noticed || probe.done.is_empty() {
            return Ok(outcome);
        }
        self.edit(&probe.done, originals)?;
        let (passed, printed) = self.run(&probe.run)?;
        Ok(if passed { Outcome::Noticed } else { Outcome::Unclear(format!("with the step done:\n{}", last(&printed))) })
    }

    fn edit(&self, edits: &[Edit], originals: &mut BTreeMap<PathBuf, String>) -> anyhow::Result<()> {
        for edit in edits {
            let path = self.tree.join(&edit.file);
            let text = fs::read_to_string(&path).with_context(|| edit.file.display().to_string())?;
            self.write(&edit.file, edit.applied(&text)?.as_bytes())?;
            originals.entry(edit.file.clone()).or_insert(text);
        }
        Ok(())
    }

    /// Runs cargo or tsc in the copy: whether it passed, and what it printed.
    fn run(&self, arguments: &str) -> anyhow::Result<(bool, String)> {
        if arguments == TSC.0 {
            let mut tsc = Command::new(root().join(PACKAGES).join(TSC.1));
            return finished(tsc.arg("--noEmit").current_dir(self.tree.join("web")));
        }
        let mut cargo = crate::cargo()?;
        // A new snapshot is a difference, not a file.
        cargo.args(arguments.split_whitespace()).env("INSTA_UPDATE", "no").env("CARGO_INCREMENTAL", "1");
        finished(cargo.current_dir(&self.tree).env("CARGO_TARGET_DIR", &self.target))
    }
}

fn finished(command: &mut Command) -> anyhow::Result<(bool, String)> {
    let output = command.output().with_context(|| format!("cannot run {command:?}"))?;
    let printed = [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).concat();
    Ok((output.status.success(), printed))
}

fn judged(passed: bool, printed: &str, notices: &str) -> Outcome {
    match passed {
        true => Outcome::Silent,
        false if printed.contains(notices) => Outcome::Noticed,
        false => Outcome::Unclear(last(printed)),
    }
}

/// The last lines.
fn last(printed: &str) -> String {
    let lines: Vec<&str> = printed.lines().collect();
    lines[lines.len().saturating_sub(25)..].join("\n")
}

/// Removes files of a copy that are no longer of the tree.
fn remove_gone(tree: &Path, folder: &Path, is_gone: &impl Fn(&Path) -> bool) -> anyhow::Result<()> {
    for entry in fs::read_dir(tree.join(folder))? {
        let entry = entry?;
        let path = folder.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            remove_gone(tree, &path, is_gone)?;
        } else if is_gone(&path) {
            fs::remove_file(tree.join(&path))?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::additions::SilentStep;

    fn edit(find: &str) -> Edit {
        Edit { file: PathBuf::from("a.rs"), find: find.to_string(), replace: "x".to_string() }
    }

    #[test]
    fn steps_are_of_additions_that_there_are_and_each_is_listed_once() {
        let map = fs::read_to_string(root().join("ARCHITECTURE.md")).unwrap();
        let names: Vec<String> = crate::additions::read(&map).into_iter().map(|addition| addition.name).collect();
        let steps = read().unwrap().step;
        let unknown: Vec<String> = steps.iter().filter(|step| !names.contains(&step.of)).map(Step::name).collect();
        assert_eq!(unknown, [""; 0]);
        let different: std::collections::BTreeSet<String> = steps.iter().map(Step::name).collect();
        assert_eq!(different.len(), steps.len());
    }

    #[test]
    fn an_edit_replaces_what_is_there_once() {
        assert_eq!(edit("b").applied("a b c").unwrap(), "a x c");
        assert!(edit("b").applied("b b").is_err());
        assert!(edit("b").applied("a").unwrap_err().to_string().contains("a.rs has 0 times: b"));
    }

    #[test]
    fn a_command_that_passes_notices_nothing_and_one_that_fails_for_another_reason_neither() {
        assert_eq!(judged(true, "error[E0004]", "E0004"), Outcome::Silent);
        assert_eq!(judged(false, "error[E0004]", "E0004"), Outcome::Noticed);
        assert_eq!(judged(false, "error[E0432]", "E0004"), Outcome::Unclear("error[E0432]".to_string()));
    }

    #[test]
    fn a_mark_is_of_a_step_or_is_found() {
        let step = |of: &str, step: &str| Step { of: of.to_string(), step: step.to_string(), probe: Vec::new() };
        let silent = vec![SilentStep { line: 7, text: "`a/b.rs` `fn role`".to_string() }];
        let additions = [Addition { name: "A view".to_string(), begin: String::new(), silent }];
        assert_eq!(marks_without_steps(&additions, &[step("A view", "fn role")]), [""; 0]);
        for other in [step("A view", "fn end"), step("A flag", "fn role")] {
            assert_eq!(marks_without_steps(&additions, &[other]).len(), 1);
        }
        assert!(is_marked(&additions, &step("A view", "fn role")) && !is_marked(&additions, &step("A view", "fn end")));
        // A mark that is only deleted leaves the step.
        let said = described(&step("A view", "fn role"), &Outcome::Silent, false);
        assert!(said.starts_with("silent") && said.contains("does not mark it"), "{said}");
    }

    #[test]
    fn a_probe_leaves_the_copy_as_it_was_and_the_step_is_its_only_reason() {
        let folder = tempfile::tempdir().unwrap();
        let scratch = Scratch { tree: folder.path().join("tree"), target: folder.path().join("target") };
        let manifest = "[package]\nname = \"a\"\nversion = \"0.1.0\"\nedition = \"2024\"\n[workspace]\n";
        let source = "pub enum E { A }\npub fn f(e: E) -> u8 { match e { E::A => 1 } }\n";
        scratch.write(Path::new("Cargo.toml"), manifest.as_bytes()).unwrap();
        scratch.write(Path::new("src/lib.rs"), source.as_bytes()).unwrap();
        let change = |find: &str, replace: &str| {
            vec![Edit { file: PathBuf::from("src/lib.rs"), find: find.to_string(), replace: replace.to_string() }]
        };
        let probe = |edit, done| Probe { edit, done, run: "check --quiet".to_string(), notices: "E0004".to_string() };
        let added = || change("{ A }", "{ A, B }");
        for (edit, done, outcome) in [
            (added(), change("=> 1", "=> 1, E::B => 2"), "Noticed"),
            (added(), Vec::new(), "Noticed"),
            (change("=> 1", "=> 2"), Vec::new(), "Silent"),
            (added(), change("=> 1", "=> 2"), "Unclear(\"with the step done:"),
        ] {
            let found = format!("{:?}", scratch.probed(&probe(edit, done)).unwrap());
            assert!(found.starts_with(outcome), "{outcome}: {found}");
            assert_eq!(fs::read_to_string(scratch.tree.join("src/lib.rs")).unwrap(), source);
        }
        remove_gone(&scratch.tree, Path::new(""), &|file| file == Path::new("src/lib.rs")).unwrap();
        assert!(!scratch.tree.join("src/lib.rs").exists() && scratch.tree.join("Cargo.toml").exists());
    }
}
