//! What the tests share: the corpus and the command.
#![allow(dead_code)]

pub mod kept;
pub mod server;

use exitscope_skips::{Part, Skipped, skip};
use flate2::read::{GzDecoder, MultiGzDecoder};
use serde_json::Value;
use std::fmt::Display;
use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::{Mutex, MutexGuard, OnceLock};
use std::time::{Duration, Instant};

/// The repository's top directory.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// A file of the corpus.
pub fn corpus(path: &str) -> PathBuf {
    let path = root().join("corpus").join(path);
    assert!(path.is_file(), "{} is missing", path.display());
    path
}

/// The bytes of a file of the corpus, unpacked.
pub fn unpacked(path: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    MultiGzDecoder::new(File::open(corpus(path)).unwrap()).read_to_end(&mut bytes).unwrap();
    bytes
}

/// The JSON in a page's data.
pub fn page_data(packed: &[u8]) -> Value {
    let mut bytes = Vec::new();
    GzDecoder::new(packed).read_to_end(&mut bytes).unwrap();
    let (length, rest) = bytes.split_first_chunk::<4>().unwrap();
    serde_json::from_slice(&rest[..u32::from_le_bytes(*length) as usize]).unwrap()
}

/// The JSON in a page that was written into a file.
pub fn data_of(page: &Path) -> Value {
    let text = std::fs::read_to_string(page).unwrap();
    let (_, data) = text.split_once("id=\"data\">").unwrap();
    let (data, _) = data.split_once('<').unwrap();
    page_data(&base64::Engine::decode(&base64::engine::general_purpose::STANDARD, data).unwrap())
}

/// Every trace of the corpus.
pub fn traces() -> Vec<PathBuf> {
    let root = root().join("corpus");
    let mut traces: Vec<PathBuf> = ["x86-svm", "arm64", "powerpc"]
        .iter()
        .flat_map(|folder| std::fs::read_dir(root.join(folder)).unwrap())
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "gz"))
        .collect();
    traces.sort();
    assert!(traces.len() >= 18, "the corpus has shrunk to {} traces", traces.len());
    traces
}

/// The command.
pub fn exitscope() -> Command {
    as_tests_have_it(Command::new(env!("CARGO_BIN_EXE_exitscope")))
}

/// The command, which a hang-up ends also where these tests run under nohup.
pub fn exitscope_on_a_terminal() -> Command {
    as_tests_have_it(ended_by_hangups(env!("CARGO_BIN_EXE_exitscope")))
}

/// A program that does not inherit that SIGHUP is ignored.
pub fn ended_by_hangups(program: &str) -> Command {
    let mut command = Command::new("env");
    command.args(["--default-signal=HUP", program]);
    command
}

fn as_tests_have_it(mut command: Command) -> Command {
    command.env_remove("NO_COLOR").env_remove("COLUMNS").env("CLICOLOR", "0").env("LC_ALL", "C.UTF-8");
    command
}

/// Runs the command with these arguments.
pub fn run(arguments: &[&str]) -> Output {
    exitscope().args(arguments).output().unwrap()
}

/// What the command wrote to standard output, as text.
pub fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

/// What it wrote to standard error.
pub fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

/// The JSON report of these files.
pub fn report(files: &[&Path], arguments: &[&str]) -> Value {
    let output = exitscope().arg("report").args(files).args(["--format", "json"]).args(arguments).output().unwrap();
    assert!(output.status.success(), "{}", stderr(&output));
    let report = serde_json::from_slice(&output.stdout).unwrap();
    check_json("report", [&report]);
    report
}

/// Who watches the whole machine sees the guests of every test, so only one test runs guests at a time.
pub fn machine() -> MutexGuard<'static, ()> {
    static MACHINE: Mutex<()> = Mutex::new(());
    MACHINE.lock().unwrap_or_else(|failed| failed.into_inner())
}

/// Processes beside a test, until it is over or has failed.
pub struct Beside(pub Vec<std::process::Child>);

impl Drop for Beside {
    fn drop(&mut self) {
        self.0.iter_mut().for_each(|child| {
            let _ = child.kill();
            let _ = child.wait();
        });
    }
}

/// The guest of rig/tiny-guest, built once. In one run it does 23 writes to port 0x10, 17 reads of port 0x11, 13 writes to
/// memory at 0x8000 and 1 halt.
pub fn tiny_guest() -> &'static Path {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| {
        let target = Path::new(env!("CARGO_BIN_EXE_exitscope")).ancestors().nth(2).unwrap();
        let mut command = Command::new(env!("CARGO"));
        let built = command.args(["build", "-q", "-p", "tiny-guest", "--target-dir"]).arg(target).status().unwrap();
        assert!(built.success(), "tiny-guest does not build");
        target.join("debug/tiny-guest")
    })
}

/// Starts a command that records, until it is told to end ([`go`]), and waits until it does; what it said, if it cannot.
pub fn recording(mut record: Command) -> Result<Child, String> {
    record.args(["--", "sh", "-c", "echo recording; read stop"]);
    let mut record = record.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut said = String::new();
    BufReader::new(record.stdout.as_mut().unwrap()).read_line(&mut said).unwrap();
    if said == "recording\n" { Ok(record) } else { Err(stderr(&record.wait_with_output().unwrap())) }
}

/// A [`tiny_guest`] that waits until it is told to begin, as the process that it will be then.
pub fn held_guest(repeat: u64) -> Child {
    held(&format!("--repeat {repeat}"))
}

/// The same, with these flags.
pub fn held(flags: &str) -> Child {
    let mut command = Command::new("sh");
    command.args(["-c", &format!("read go; exec \"$0\" {flags}")]).arg(tiny_guest());
    command.stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap()
}

/// Tells a [`held_guest`] to begin, or another process that waits for a line.
pub fn go(held: &mut Child) {
    held.stdin.take().unwrap().write_all(b"go\n").unwrap();
}

/// Guests can be run here.
pub fn kvm() -> Result<(), Skipped> {
    let opened = File::options().read(true).write(true).open("/dev/kvm");
    opened.map(drop).map_err(|error| skip(Part::Kvm, format!("/dev/kvm: {error}")))
}

/// A guest cannot be traced here.
pub fn cannot_trace(trouble: impl Display) -> Skipped {
    skip(Part::Tracing, trouble)
}

/// How long something on a screen may take to come.
pub const PATIENCE: Duration = Duration::from_secs(30);

/// A terminal of tmux, which ends with this value.
pub struct Terminal {
    server: String,
}

impl Terminal {
    /// A terminal of this size in which `command` runs, and then a shell.
    pub fn start(name: &str, size: (u16, u16), command: &str) -> Result<Terminal, Skipped> {
        let terminal = Terminal { server: format!("exitscope-test-{}-{name}", std::process::id()) };
        let (width, height) = (size.0.to_string(), size.1.to_string());
        let shell = format!("{command}; echo ended with $?; exec sh");
        let started = terminal.tmux().args(["new-session", "-d", "-x", &width, "-y", &height, &shell]).output();
        match started {
            Ok(started) if started.status.success() => Ok(terminal),
            Ok(started) => Err(skip(Part::Tmux, stderr(&started))),
            Err(error) => Err(skip(Part::Tmux, format!("tmux cannot be run, install it: {error}"))),
        }
    }

    fn tmux(&self) -> Command {
        let mut tmux = Command::new("tmux");
        tmux.args(["-L", &self.server, "-f", "/dev/null"]).env("LC_ALL", "C.UTF-8").env_remove("TMUX");
        tmux
    }

    /// Types these keys, in tmux's words.
    pub fn keys(&self, keys: &[&str]) {
        assert!(self.tmux().arg("send-keys").args(keys).status().unwrap().success());
    }

    /// What is on the screen.
    pub fn screen(&self) -> String {
        String::from_utf8(self.tmux().args(["capture-pane", "-p"]).output().unwrap().stdout).unwrap()
    }

    /// The screen, once all of these words are on it.
    pub fn wait_for(&self, words: &[&str]) -> String {
        let began = Instant::now();
        loop {
            let screen = self.screen();
            if words.iter().all(|word| screen.contains(word)) {
                return screen;
            }
            assert!(began.elapsed() < PATIENCE, "{words:?} did not come:\n{screen}");
            std::thread::sleep(Duration::from_millis(50));
        }
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = self.tmux().arg("kill-server").status();
    }
}

/// Exits at this place in a report: port and direction, or page and direction.
pub fn exits_at(report: &Value, kind: &str, key: u64, direction: &str) -> u64 {
    let subjects = report["subjects"].as_array().unwrap().iter();
    subjects
        .filter(|row| row["subject_kind"] == kind && row["subject_key"] == key && row["direction"] == direction)
        .map(|row| row["count"].as_u64().unwrap())
        .sum()
}

/// Holds JSON against docs/<name>.schema.json. Nothing may be there that it does not describe.
pub fn check_json<'a>(name: &str, values: impl IntoIterator<Item = &'a Value>) {
    let path = root().join("docs").join(format!("{name}.schema.json"));
    let mut schema = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
    // What a page holds is described in several places at once.
    if name != "page" {
        close(&mut schema);
    }
    let schema = jsonschema::validator_for(&schema).unwrap();
    for value in values {
        let misfits = schema.iter_errors(value).map(|misfit| format!("{}: {misfit}", misfit.instance_path()));
        assert_eq!(misfits.collect::<Vec<_>>(), [""; 0], "{name}");
    }
}

/// Has the objects of a schema hold only what it describes.
fn close(schema: &mut Value) {
    if schema.get("properties").is_some() && schema.get("additionalProperties").is_none() {
        schema["unevaluatedProperties"] = Value::Bool(false);
    }
    match schema {
        Value::Object(of) => of.values_mut().for_each(close),
        Value::Array(of) => of.iter_mut().for_each(close),
        _ => {}
    }
}
