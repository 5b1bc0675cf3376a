//! The whole check, or of it what a change can touch, with the time that each part takes. What is built runs in lanes.
//!
//! ```text
//! git diff --name-only REV ─► packages with a changed file, and those that depend on them ─► parts, and the packages they test
//! ```
//!
//! A file that no row here knows is of everything. At the end it says which tests were skipped, and fails if one was for what is
//! there (`skips.rs`).

use crate::{cargo, root, skips, target};
use anyhow::{Context, anyhow, bail, ensure};
use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::RwLock;
use std::thread;
use std::time::{Duration, Instant};

/// What to check.
#[derive(clap::Args)]
pub struct Flags {
    /// Run only what changes since this revision, and those not committed, can touch
    #[arg(long, value_name = "REV")]
    since: Option<String>,
    /// List the parts and what they would look at, and run none
    #[arg(long)]
    list: bool,
}

/// What a part of the check looks at.
#[derive(Clone, Copy, PartialEq)]
enum Looks {
    /// The whole tree: it takes seconds.
    Always,
    /// The packages that a change can touch, each for itself.
    AtPackages,
    /// Their test programs: those that run guests, or the others. Who counts what happens on this host counts every guest.
    AtTestPrograms { with_guests: bool },
    /// The documentation of those of the packages that are libraries.
    AtLibraries,
    /// All of it as soon as one of these packages, or a file in one of these folders, is touched.
    At { packages: &'static [&'static str], folders: &'static [&'static str] },
}

/// A part of the check.
struct Part {
    name: &'static str,
    looks: Looks,
    /// Program, and what it is given; `cargo` and `xtask` are these.
    command: &'static [&'static str],
    /// The folder in which it runs, below the repository's.
    folder: &'static str,
    /// Which thread runs it, beside what the others run. None of these may build the command while tests run it: they take it as it is
    /// built, where a change can touch it.
    lane: Option<usize>,
}

/// The command and its tests; what shows or runs it is touched with it.
const COMMAND: &str = "exitscope";

/// Parts that build the command, without its features, unless they are told that it is built.
const BUILDING: [&str; 2] = ["fuzz", "rig"];

/// Test programs that run guests, by package; none named: all of it.
const WITH_GUESTS: [(&str, &[&str]); 4] = [
    (
        COMMAND,
        &[
            "account",
            "advise",
            "arms",
            "capabilities",
            "counting",
            "exit_delay",
            "exporter",
            "lab",
            "live",
            "live_page",
            "mechanisms",
            "modes",
            "serve",
            "top",
        ],
    ),
    ("exitscope-lab", &[]),
    ("exitscope-record", &[]),
    ("tiny-guest", &[]),
];

/// Has cargo compile the workspace by clippy, which compiles as rustc does, and lets no warning pass: `cargo clippy` would compile all
/// dependencies once more, only to look at them. It sets the same (rust-clippy's src/main.rs). Whatever calls cargo
/// beside the tests has to say so, too, or it builds what they run anew.
const BY_CLIPPY: [(&str, &str); 2] =
    [("RUSTC_WORKSPACE_WRAPPER", "clippy-driver"), ("CLIPPY_ARGS", "-D__CLIPPY_HACKERY__warnings__CLIPPY_HACKERY__")];

const PARTS: [Part; 12] = [
    Part {
        name: "format",
        looks: Looks::Always,
        command: &["cargo", "fmt", "--all", "--check"],
        folder: "",
        lane: None,
    },
    Part { name: "tidy", looks: Looks::Always, command: &["xtask", "tidy"], folder: "", lane: None },
    Part {
        name: "page",
        looks: Looks::At { packages: &[COMMAND], folders: &["web/"] },
        command: &["make", "page"],
        folder: "",
        lane: None,
    },
    // The command as most people build it, without its features: nothing else looks at that.
    Part {
        name: "quick",
        looks: Looks::At { packages: &[COMMAND], folders: &[] },
        command: &["cargo", "clippy", "--quiet", "--locked", "--package", COMMAND, "--", "-D", "warnings"],
        folder: "",
        lane: None,
    },
    Part {
        name: "build",
        looks: Looks::AtPackages,
        command: &["cargo", "build", "--all-targets"],
        folder: "",
        lane: None,
    },
    Part {
        name: "tests",
        looks: Looks::AtTestPrograms { with_guests: false },
        command: &["cargo", "test"],
        folder: "",
        lane: Some(0),
    },
    Part {
        name: "guests",
        looks: Looks::AtTestPrograms { with_guests: true },
        command: &["cargo", "test"],
        folder: "",
        lane: Some(1),
    },
    Part {
        name: "doctests",
        looks: Looks::AtLibraries,
        command: &["cargo", "test", "--doc"],
        folder: "",
        lane: Some(0),
    },
    Part {
        name: "web",
        looks: Looks::At { packages: &[COMMAND], folders: &["web/"] },
        command: &["npm", "test", "--silent"],
        folder: "web",
        lane: Some(1),
    },
    Part {
        name: "fuzz",
        looks: Looks::At { packages: &[COMMAND], folders: &[] },
        command: &["xtask", "fuzz"],
        folder: "",
        lane: Some(1),
    },
    Part {
        name: "sanitize",
        looks: Looks::At { packages: &["exitscope-lab", "exitscope-record"], folders: &["rig/tiny-guest/"] },
        command: &["xtask", "sanitize"],
        folder: "",
        lane: Some(0),
    },
    Part {
        name: "rig",
        looks: Looks::At { packages: &[COMMAND], folders: &["rig/"] },
        command: &["xtask", "rig", "x86-svm"],
        folder: "",
        lane: Some(0),
    },
];

/// Files outside of packages that tests of packages read, and files that nothing but tidy reads.
const READ_BY: [(&str, &[&str]); 9] = [
    ("corpus/", &["exitscope", "exitscope-pipeline", "exitscope-record", "exitscope-trace"]),
    ("crates/python/exitscope/", &["exitscope"]),
    ("docs/", &["exitscope", "exitscope-page", "exitscope-query", "exitscope-scenario"]),
    ("scenarios/", &["exitscope", "exitscope-scenario"]),
    ("contrib/", &["exitscope", "exitscope-exporter", "xtask"]),
    ("web/", &["exitscope-page"]),
    ("rig/", &[]),
    ("bench/", &[]),
    ("crates/lab/guest/", &["exitscope-lab"]),
];

/// A package of the workspace, as `cargo metadata` says it.
#[derive(Deserialize)]
struct Package {
    name: String,
    manifest_path: PathBuf,
    dependencies: Vec<Dependency>,
    targets: Vec<Target>,
}

#[derive(Deserialize)]
struct Dependency {
    name: String,
}

/// What cargo says of each thing that it has built.
#[derive(Deserialize)]
struct Artifact {
    #[serde(default)]
    manifest_path: PathBuf,
    target: Option<Target>,
    profile: Option<Profile>,
    /// The program, if it is one.
    executable: Option<PathBuf>,
}

#[derive(Deserialize)]
struct Profile {
    test: bool,
}

#[derive(Deserialize)]
struct Target {
    name: String,
    kind: Vec<String>,
}

/// A test program.
struct TestProgram {
    package: String,
    target: String,
    /// The package's.
    folder: PathBuf,
    program: PathBuf,
}

/// What a change can touch.
struct Touched {
    files: Vec<String>,
    /// Packages; none if all are.
    packages: Option<BTreeSet<String>>,
}

/// Runs the check.
pub fn run(flags: &Flags) -> anyhow::Result<()> {
    let all = packages()?;
    let touched = match &flags.since {
        Some(revision) => Touched::of(changed_since(revision)?, &all),
        None => Touched { files: Vec::new(), packages: None },
    };
    let is_built = touched.packages.as_ref().is_none_or(|packages| packages.contains(COMMAND));
    let skips = target()?.join("skips.txt");
    let begin = Instant::now();
    let is_library = |name: &String| all.iter().any(|package| package.name == *name && package.is_library());
    let looked_at = |part: &'static Part| match (part.looks, touched.looked_at(part)) {
        (Looks::AtLibraries, Some(named)) if !named.is_empty() => {
            let named: Vec<String> = named.into_iter().filter(is_library).collect();
            (part, (!named.is_empty()).then_some(named))
        }
        (_, packages) => (part, packages),
    };
    let looked: Vec<(&Part, Option<Vec<String>>)> = PARTS.iter().map(looked_at).collect();
    if flags.list {
        for (part, packages) in looked.iter().filter_map(|(part, packages)| Some((part, packages.as_ref()?))) {
            eprintln!("+ {}: {}", part.name, shown(&part.command(packages, is_built)?));
        }
        return Ok(());
    }
    remove_old(&skips)?;
    let (alone, beside): (Vec<_>, Vec<_>) = looked.into_iter().partition(|(part, _)| part.lane.is_none());
    let command = |(part, packages): (&'static Part, Option<Vec<String>>)| -> anyhow::Result<_> {
        let commands = packages.map(|packages| part.command(&packages, is_built).map(|command| vec![command]));
        Ok((part, commands.transpose()?))
    };
    let mut rows = in_turn(alone.into_iter().map(command).collect::<anyhow::Result<_>>()?, Stdio::inherit, &skips)?;
    if !has_failed(&rows) {
        let is_tests = |part: &Part| matches!(part.looks, Looks::AtTestPrograms { .. });
        let tested = beside.iter().filter(|row| is_tests(row.0)).find_map(|row| row.1.as_deref());
        let programs = tested.map_or(Ok(Vec::new()), |packages| test_programs(packages, &all))?;
        let commands = |(part, packages): (&'static Part, Option<Vec<String>>)| -> anyhow::Result<_> {
            let of_part = |packages: Vec<String>| match part.looks {
                Looks::AtTestPrograms { with_guests } => {
                    let programs = programs.iter().filter(|program| program.has_guests() == with_guests);
                    Ok(programs.map(TestProgram::command).collect())
                }
                _ => part.command(&packages, is_built).map(|command| vec![command]),
            };
            Ok((part, packages.map(of_part).transpose()?))
        };
        let beside = beside.into_iter().map(commands).collect::<anyhow::Result<Vec<_>>>()?;
        let mut lanes: BTreeMap<Option<usize>, Vec<_>> = BTreeMap::new();
        beside.into_iter().for_each(|row| lanes.entry(row.0.lane).or_default().push(row));
        let done: Vec<_> = thread::scope(|scope| {
            let lane = |parts| scope.spawn(|| in_turn(parts, Stdio::piped, &skips));
            let running: Vec<_> = lanes.into_values().map(lane).collect();
            running.into_iter().map(|lane| lane.join()).collect()
        });
        for of_lane in done {
            rows.extend(of_lane.map_err(|_| anyhow!("a part has panicked"))??);
        }
    }
    eprint!("{}", table(&rows, begin.elapsed()));
    let skipped = skips::judge(&skips);
    let failed: Vec<&str> = rows.iter().filter(|row| row.1 == FAILED).map(|row| row.0).collect();
    ensure!(failed.is_empty(), "failed: {}", failed.join(", "));
    skipped
}

/// The list of the last run's skips.
fn remove_old(skips: &Path) -> anyhow::Result<()> {
    match std::fs::remove_file(skips) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            Err(error).with_context(|| skips.display().to_string())
        }
        _ => Ok(()),
    }
}

const FAILED: &str = "FAILED";

/// Parts that run guests on this host, beside the tests of which some count what happens on the whole host.
const BESIDE_COUNTING: [&str; 2] = ["web", "sanitize"];

/// Held by who counts on the whole host to write, by who runs guests to read.
static HOST: RwLock<()> = RwLock::new(());

fn has_failed(rows: &[PartRow]) -> bool {
    rows.iter().any(|row| row.1 == FAILED)
}

/// How a part ended.
type PartRow = (&'static str, &'static str, Duration);

/// Runs parts one after the other, each with all its commands. What is piped is printed when a command is over, so that it stays
/// together. Tests list in `skips` what they leave out.
fn in_turn(
    parts: Vec<(&'static Part, Option<Vec<Command>>)>,
    output: fn() -> Stdio,
    skips: &Path,
) -> anyhow::Result<Vec<PartRow>> {
    let mut rows = Vec::new();
    for (part, commands) in parts {
        let Some(commands) = commands else {
            rows.push((part.name, "not touched", Duration::ZERO));
            continue;
        };
        let counts = matches!(part.looks, Looks::AtTestPrograms { with_guests: true });
        let _counting = counts.then(|| HOST.write());
        let _running = BESIDE_COUNTING.contains(&part.name).then(|| HOST.read());
        let (begin, mut result) = (Instant::now(), "passed");
        for mut command in commands {
            eprintln!("+ {}: {}", part.name, shown(&command));
            command.env(exitscope_skips::FILE_VARIABLE, skips).envs(BY_CLIPPY);
            let child = command.stdout(output()).stderr(output()).spawn();
            let done = child.and_then(|child| child.wait_with_output());
            let done = done.with_context(|| format!("cannot run {}", shown(&command)))?;
            let mut stderr = io::stderr().lock();
            stderr.write_all(&done.stdout).and_then(|()| stderr.write_all(&done.stderr))?;
            if !done.status.success() {
                result = FAILED;
            }
        }
        rows.push((part.name, result, begin.elapsed()));
    }
    Ok(rows)
}

/// The test programs of these packages, or of all if none are named; they are built if they are not.
fn test_programs(packages: &[String], all: &[Package]) -> anyhow::Result<Vec<TestProgram>> {
    let mut command = cargo()?;
    command.args(["test", "--no-run", "--message-format=json"]).envs(BY_CLIPPY);
    let output = of_packages(&mut command, packages).stderr(Stdio::inherit()).output()?;
    ensure!(output.status.success(), "the tests do not build");
    let mut programs = Vec::new();
    for line in output.stdout.split(|&byte| byte == b'\n').filter(|line| !line.is_empty()) {
        let Artifact { manifest_path, target, profile, executable } =
            serde_json::from_slice(line).context("cargo's messages")?;
        let is_test = profile.is_some_and(|profile| profile.test);
        let (Some(target), Some(program), true) = (target, executable, is_test) else { continue };
        let package = all.iter().find(|package| package.manifest_path == manifest_path);
        let (Some(package), Some(folder)) = (package, manifest_path.parent()) else { continue };
        programs.push(TestProgram {
            package: package.name.clone(),
            target: target.name,
            folder: folder.to_path_buf(),
            program,
        });
    }
    // Python's module has none.
    ensure!(!programs.is_empty() || !packages.is_empty(), "cargo names no test program");
    programs.sort_by(|a, b| (&a.package, &a.target).cmp(&(&b.package, &b.target)));
    Ok(programs)
}

/// Has cargo look at these packages with all their features; at all packages if none are named.
fn of_packages<'a>(command: &'a mut Command, packages: &[String]) -> &'a mut Command {
    command.args(["--all-features", "--quiet", "--locked"]);
    match packages {
        [] => command.arg("--workspace"),
        named => command.args(named.iter().flat_map(|name| ["--package", name])),
    }
}

impl Package {
    fn is_library(&self) -> bool {
        self.targets.iter().any(|target| target.kind.iter().any(|kind| kind == "lib"))
    }
}

impl TestProgram {
    fn has_guests(&self) -> bool {
        let is_in =
            |row: &(&str, &[&str])| row.0 == self.package && (row.1.is_empty() || row.1.contains(&&*self.target));
        WITH_GUESTS.iter().any(is_in)
    }

    /// As `cargo test` runs it.
    fn command(&self) -> Command {
        let mut command = Command::new(&self.program);
        command.arg("--quiet").current_dir(&self.folder).env("CARGO_MANIFEST_DIR", &self.folder);
        command
    }
}

impl Part {
    /// With the packages that it looks at; all of them if none are named. `is_built`: an earlier part builds the command.
    fn command(&self, packages: &[String], is_built: bool) -> anyhow::Result<Command> {
        let mut command = match self.command[0] {
            "cargo" => cargo()?,
            // cargo would build it anew; of what it has replaced since, the name in /proc is another.
            "xtask" => Command::new(std::env::current_exe()?.with_file_name("xtask")),
            program => Command::new(program),
        };
        command.current_dir(root().join(self.folder)).args(&self.command[1..]);
        if matches!(self.looks, Looks::AtPackages | Looks::AtTestPrograms { .. } | Looks::AtLibraries) {
            of_packages(&mut command, packages);
        }
        if BUILDING.contains(&self.name) && is_built {
            command.arg("--built");
        }
        Ok(command)
    }
}

impl Touched {
    fn of(files: Vec<String>, packages: &[Package]) -> Touched {
        let folders: Vec<(String, &str)> = packages
            .iter()
            .filter_map(|package| {
                let folder = package.manifest_path.parent()?.strip_prefix(root()).ok()?;
                Some((format!("{}/", folder.display()), package.name.as_str()))
            })
            .collect();
        let mut touched = BTreeSet::new();
        for file in &files {
            let read_by = READ_BY.iter().filter(|row| file.starts_with(row.0));
            let held_by = folders.iter().filter(|folder| file.starts_with(&folder.0));
            let is_page = !file.contains('/') && file.ends_with(".md");
            let (read_by, held_by): (Vec<_>, Vec<_>) = (read_by.collect(), held_by.collect());
            if read_by.is_empty() && held_by.is_empty() && !is_page {
                return Touched { files, packages: None };
            }
            touched.extend(read_by.iter().flat_map(|row| row.1).map(ToString::to_string));
            touched.extend(held_by.iter().map(|(_, package)| package.to_string()));
        }
        let mut touched = with_dependents(touched, packages);
        if touched.contains(COMMAND) {
            // The front end's tests and the rig run both.
            touched.insert("tiny-guest".to_string());
        }
        Touched { packages: Some(touched), files }
    }

    /// The packages that a part is to look at, none for all; `None` if it need not look.
    fn looked_at(&self, part: &Part) -> Option<Vec<String>> {
        let Some(packages) = &self.packages else { return Some(Vec::new()) };
        match part.looks {
            Looks::Always => Some(Vec::new()),
            Looks::AtTestPrograms { with_guests: true } if WITH_GUESTS.iter().all(|row| !packages.contains(row.0)) => {
                None
            }
            Looks::AtPackages | Looks::AtTestPrograms { .. } | Looks::AtLibraries => {
                (!packages.is_empty()).then(|| packages.iter().cloned().collect())
            }
            Looks::At { packages: of, folders } => {
                let is_in = |file: &String| folders.iter().any(|folder| file.starts_with(folder));
                let is_touched = of.iter().any(|name| packages.contains(*name)) || self.files.iter().any(is_in);
                is_touched.then(Vec::new)
            }
        }
    }
}

/// These packages, and those that depend on them.
fn with_dependents(mut touched: BTreeSet<String>, packages: &[Package]) -> BTreeSet<String> {
    let mut dependents: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for package in packages {
        for dependency in &package.dependencies {
            dependents.entry(&dependency.name).or_default().push(&package.name);
        }
    }
    let mut left: Vec<String> = touched.iter().cloned().collect();
    while let Some(name) = left.pop() {
        for dependent in dependents.get(name.as_str()).into_iter().flatten() {
            if touched.insert(dependent.to_string()) {
                left.push(dependent.to_string());
            }
        }
    }
    touched
}

/// The packages of the workspace.
fn packages() -> anyhow::Result<Vec<Package>> {
    #[derive(Deserialize)]
    struct Metadata {
        packages: Vec<Package>,
    }
    let output = cargo()?.args(["metadata", "--format-version", "1", "--no-deps", "--locked"]).output()?;
    ensure!(output.status.success(), "cargo metadata: {}", String::from_utf8_lossy(&output.stderr).trim());
    Ok(serde_json::from_slice::<Metadata>(&output.stdout).context("cargo metadata")?.packages)
}

/// Files that differ from a revision, and files that git does not know yet.
fn changed_since(revision: &str) -> anyhow::Result<Vec<String>> {
    if revision.starts_with('-') {
        bail!("{revision} is no revision");
    }
    let mut files = Vec::new();
    for arguments in
        [&["diff", "--name-only", "--no-renames", revision, "--"][..], &["ls-files", "--others", "--exclude-standard"]]
    {
        let output = Command::new("git").args(arguments).current_dir(root()).output().context("cannot run git")?;
        ensure!(output.status.success(), "git: {}", String::from_utf8_lossy(&output.stderr).trim());
        files.extend(String::from_utf8(output.stdout).context("names of files")?.lines().map(str::to_string));
    }
    Ok(files)
}

/// A command as it would be typed.
fn shown(command: &Command) -> String {
    let program = Path::new(command.get_program()).file_name().unwrap_or_default();
    let words = std::iter::once(program).chain(command.get_args()).map(|word| word.to_string_lossy().into_owned());
    words.collect::<Vec<_>>().join(" ")
}

/// The parts, how they ended and how long they took.
fn table(rows: &[PartRow], all: Duration) -> String {
    let mut text = String::from("\npart      result       min:s\n");
    for (name, result, time) in rows.iter().copied().chain([("all", "", all)]) {
        let seconds = time.as_secs();
        text += &format!("{name:<8}  {result:<11}  {:>2}:{:02}\n", seconds / 60, seconds % 60);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn package(name: &str, folder: &str, dependencies: &[&str]) -> Package {
        let dependencies = dependencies.iter().map(|name| Dependency { name: name.to_string() }).collect();
        let manifest_path = root().join(folder).join("Cargo.toml");
        Package { name: name.to_string(), manifest_path, dependencies, targets: Vec::new() }
    }

    fn touched(files: &[&str]) -> (Vec<String>, Vec<&'static str>) {
        let packages = [
            package("exitscope-model", "crates/model", &["serde"]),
            package("exitscope-lab", "crates/lab", &[]),
            package("exitscope-page", "crates/page", &["exitscope-model"]),
            package("exitscope", "crates/exitscope", &["exitscope-page", "exitscope-lab", "clap"]),
            package("xtask", "xtask", &[]),
        ];
        let touched = Touched::of(files.iter().map(ToString::to_string).collect(), &packages);
        let parts = PARTS.iter().filter(|part| touched.looked_at(part).is_some()).map(|part| part.name).collect();
        (touched.packages.into_iter().flatten().collect(), parts)
    }

    #[test]
    fn a_change_touches_its_package_those_that_depend_on_it_and_their_parts() {
        let all: Vec<&str> = PARTS.iter().map(|part| part.name).collect();
        let (packages, parts) = touched(&["crates/model/src/lane.rs"]);
        assert_eq!(packages, ["exitscope", "exitscope-model", "exitscope-page", "tiny-guest"]);
        assert_eq!(parts, all.iter().copied().filter(|part| *part != "sanitize").collect::<Vec<_>>());
        assert_eq!(touched(&["crates/lab/guest/src/main.rs"]).1, all);
        assert_eq!(
            touched(&["xtask/src/tidy.rs"]),
            (vec!["xtask".into()], vec!["format", "tidy", "build", "tests", "doctests"])
        );
        assert_eq!(touched(&["README.md"]), (vec![], vec!["format", "tidy"]));
        assert_eq!(touched(&["rig/x86-svm/init"]), (vec![], vec!["format", "tidy", "rig"]));
        // What nobody knows may be anything's.
        assert_eq!(touched(&["README.md", "Cargo.lock"]), (vec![], all));
        assert_eq!(touched(&[]), (vec![], vec!["format", "tidy"]));
    }

    #[test]
    fn every_package_of_a_row_is_there() {
        let names: BTreeSet<String> = packages().unwrap().into_iter().map(|package| package.name).collect();
        let of_parts = PARTS.iter().filter_map(|part| match part.looks {
            Looks::At { packages, .. } => Some(packages),
            _ => None,
        });
        let with_guests = WITH_GUESTS.iter().map(|row| &row.0);
        let named = READ_BY.iter().map(|row| row.1).chain(of_parts).flatten().chain(with_guests);
        let missing: Vec<_> = named.filter(|name| !names.contains(**name)).collect();
        assert!(missing.is_empty(), "{missing:?}");
        let own = packages().unwrap().into_iter().find(|package| package.name == "xtask").unwrap();
        assert!(!own.is_library());
    }

    #[test]
    fn tests_of_the_command_that_run_guests_are_known_as_such() {
        let folder = root().join("crates/exitscope/tests");
        let tests = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
        for test in tests.filter(|path| path.extension().is_some_and(|of| of == "rs")) {
            let name = test.file_stem().unwrap().to_str().unwrap();
            let text = std::fs::read_to_string(&test).unwrap();
            let words = [
                "tiny_guest(",
                " machine()",
                "(machine()",
                "held_guest",
                "\"lab\", \"run\"",
                "/dev/kvm",
                "of_the_lab_",
            ];
            let has_guests = words.iter().any(|word| text.contains(word));
            assert!(!has_guests || WITH_GUESTS[0].1.contains(&name), "{name}");
        }
    }
}
