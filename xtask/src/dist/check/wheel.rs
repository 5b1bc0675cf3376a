//! The wheel in an environment of its own, as a new user has it, and its tests; what is shown becomes docs/examples/python.txt.

use super::super::wheel::{PACKAGE, environment, wheel_in};
use super::{folder, output, root, unpacked};
use anyhow::{Context, ensure};
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use wait4::Wait4;

/// Where the transcript is kept.
const SHOWN: &str = "docs/examples/python.txt";

/// What takes tables, and what runs the tests; of fixed versions.
const WITH: [&str; 6] =
    ["duckdb==2.0.1", "mypy==2.4.1", "pandas==3.1.1", "polars==2.1.0", "pyarrow==26.0.1", "pytest==9.2.0"];

/// Python takes so many times as long as the command, at most.
const AT_MOST: f64 = 2.0;

/// Of so many runs of each the shortest is taken.
const RUNS: usize = 5;

/// What the recording of these runs is simulated from.
const SCENARIO: &str = "scenarios/port-loop.toml";

/// What both are asked, and how the command is.
const ASKED: [(&str, &str, &[&str]); 4] = [
    ("report()", "recording.report()", &["report", "--format", "json"]),
    ("facts()", "recording.facts(by=['vcpu', 'reason'])", &["report", "--by", "vcpu,reason", "--format", "csv"]),
    ("exits()", "recording.exits()", &["export", "--format", "csv"]),
    ("advise()", "recording.advise()", &["advise", "--format", "json"]),
];

/// What a new user does, in an environment with the wheel alone.
const FIRST: &[&str] = &["exitscope report corpus/x86-svm/t2.data.gz | head -4"];

/// The same, where polars is, too.
const ANSWERS: &[&str] = &[
    "python crates/python/examples/since_yesterday.py corpus/x86-svm/t4-zstd.data.gz corpus/x86-svm/t4-pipe.data.gz",
    "python -c \"import exitscope; exitscope.read('no/such.data')\" 2>&1 | tail -1",
];

pub fn check() -> anyhow::Result<String> {
    let wheel = wheel_in(&folder())?;
    let name = wheel.file_name().context("a wheel without a name")?.to_string_lossy().into_owned();
    ensure!(name.contains("-cp39-abi3-"), "{name} is not of every Python from 3.9 on");
    names_no_path(&wheel)?;
    let place = tempfile::tempdir()?;
    let began = Instant::now();
    output(Command::new("python3").args(["-m", "venv"]).arg(place.path()))?;
    let clean = place.path().join("bin");
    install(&clean, &wheel)?;
    let first = shown(&clean, FIRST)?;
    let seconds = began.elapsed().as_secs_f64();
    ensure!(seconds <= super::AT_MOST_SECONDS, "the first report came after {seconds:.1} s");
    let full = environment("wheel-tests", &WITH)?.join("bin");
    install(&full, &wheel)?;
    let (_unpacked, program) = unpacked()?;
    let program = program.join("exitscope");
    let tested = tests(&full, &program)?;
    let (slowest, table) = times(&full, &program)?;
    ensure!(slowest <= AT_MOST, "Python takes {slowest:.2} times as long as the command:\n{table}");
    let text = format!(
        "# A wheel, in an environment of its own\n$ pip install ./dist/{name}\n{first}\n# Where polars is, too\n{}\n\
         # From nothing to the first report: {seconds:.1} s, making the environment included; at most {} s\n\n\
         # Seconds of CPU time for the same of a recording of a simulated second, starting the interpreter included; at most {AT_MOST:.0} \
         times the command's\n{table}",
        shown(&full, ANSWERS)?,
        super::AT_MOST_SECONDS
    );
    fs::write(root().join(SHOWN), text)?;
    Ok(format!("{tested}; first report after {seconds:.1} s; {slowest:.2} times the command's CPU time at most"))
}

/// No file of it names a folder of the machine that built it.
fn names_no_path(wheel: &Path) -> anyhow::Result<()> {
    let place = tempfile::tempdir()?;
    output(Command::new("python3").args(["-m", "zipfile", "--extract"]).arg(wheel).arg(place.path()))?;
    let mut names = Command::new("grep");
    names.args(["--recursive", "--files-with-matches", "--fixed-strings"]).arg(root()).arg(place.path());
    let named = names.output()?;
    ensure!(
        named.status.code() == Some(1),
        "these name {}: {}",
        root().display(),
        String::from_utf8_lossy(&named.stdout)
    );
    Ok(())
}

/// Installs the wheel. It needs no other package, and none is looked for.
fn install(bin: &Path, wheel: &Path) -> anyhow::Result<()> {
    let mut install = Command::new(bin.join("pip"));
    install.args(["install", "--quiet", "--no-index", "--force-reinstall", "--disable-pip-version-check"]).arg(wheel);
    output(&mut install).map(drop)
}

/// Lines of a shell in the repository's top directory, with what they print.
fn shown(bin: &Path, lines: &[&str]) -> anyhow::Result<String> {
    let path = format!("{}:{}", bin.display(), std::env::var("PATH")?);
    let mut text = String::new();
    for line in lines {
        let mut shell = Command::new("sh");
        shell.args(["-c", &format!("{line} 2>&1")]).current_dir(root());
        let said = shell.env("PATH", &path).env("LC_ALL", "C.UTF-8").env("COLUMNS", "100").output()?;
        text += &format!("$ {line}\n{}", String::from_utf8_lossy(&said.stdout));
    }
    Ok(text)
}

/// Runs the tests; gives the last line that they print.
fn tests(bin: &Path, program: &Path) -> anyhow::Result<String> {
    let mut test = Command::new(bin.join("python"));
    test.args(["-m", "pytest", "--quiet", "-p", "no:cacheprovider"]).arg(root().join(PACKAGE).join("tests"));
    let said = test.env("EXITSCOPE_BINARY", program).env("PYTHONDONTWRITEBYTECODE", "1").output()?;
    let text = String::from_utf8_lossy(&said.stdout).into_owned();
    ensure!(said.status.success(), "the tests fail: {text}{}", String::from_utf8_lossy(&said.stderr));
    let last = text.lines().next_back().context("the tests print nothing")?;
    Ok(last.split(" in ").next().unwrap_or_default().to_string())
}

/// CPU time of Python and of the command for the same: how many times as long Python takes at most, and a table. CPU time, because others
/// may use the machine meanwhile.
fn times(bin: &Path, program: &Path) -> anyhow::Result<(f64, String)> {
    let place = tempfile::tempdir()?;
    let recording = place.path().join("perf.data");
    let mut simulate = Command::new(program);
    simulate.args(["sim", SCENARIO, "--set", "duration=1s", "--trace"]).arg(&recording);
    output(simulate.current_dir(root()))?;
    let (mut slowest, mut table) = (0.0, "             Python  command  times\n".to_string());
    for (name, asked, arguments) in ASKED {
        let script = format!("import exitscope; recording = exitscope.read({recording:?}); {asked}");
        let (mut python, mut command) = (Duration::MAX, Duration::MAX);
        for _ in 0..RUNS {
            python = python.min(time(Command::new(bin.join("python")).args(["-c", &script]))?);
            command = command.min(time(Command::new(program).args(arguments).arg(&recording))?);
        }
        let times = python.as_secs_f64() / command.as_secs_f64();
        table += &format!("{name:10}{:9.3}{:9.3}{times:7.2}\n", python.as_secs_f64(), command.as_secs_f64());
        slowest = f64::max(slowest, times);
    }
    Ok((slowest, table))
}

/// CPU time of a command, which must succeed.
fn time(command: &mut Command) -> anyhow::Result<Duration> {
    let used = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn()?.wait4()?;
    ensure!(used.status.success(), "{command:?} failed");
    Ok(used.rusage.utime + used.rusage.stime)
}
