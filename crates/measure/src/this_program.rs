//! This program, started once more.

use std::ffi::OsString;
use std::process::Command;
use std::sync::OnceLock;

/// The words that start it where the process is an interpreter's.
static STARTED_BY: OnceLock<Vec<OsString>> = OnceLock::new();

/// Has [`this_program`] begin with these words: a program, and its arguments before those of the command. Without, it is the file that
/// this process runs, which of a Python module is the interpreter. Only the first call counts.
pub fn is_started_by(words: Vec<OsString>) {
    let _ = STARTED_BY.set(words);
}

/// A process of this program, to be given arguments.
pub fn this_program() -> Command {
    match STARTED_BY.get().map(Vec::as_slice) {
        Some([program, words @ ..]) => {
            let mut command = Command::new(program);
            command.args(words);
            command
        }
        _ => Command::new("/proc/self/exe"),
    }
}
