//! What holds exits, names or answers is its owner's alone, whatever the umask: as perf.data is. Who wants others to read it
//! says so, by chmod or by a shell's `>`.

mod common;

use common::{corpus, exitscope, stderr};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::Command;

/// What writes a file named `out`, or below a folder of that name. INPUT is a recording.
const WRITERS: &[&[&str]] = &[
    &["report", "INPUT", "--html", "out"],
    &["diff", "INPUT", "INPUT", "--html", "out"],
    &["report", "INPUT", "--bundle", "out"],
    &["export", "INPUT", "--format", "folded", "-o", "out"],
    &["export", "INPUT", "--format", "openmetrics", "-o", "out"],
    &["export", "INPUT", "--format", "csv", "-o", "out"],
    &["export", "INPUT", "--format", "perfetto", "-o", "out"],
    &["sim", "SCENARIO", "--trace", "out"],
    #[cfg(feature = "store")]
    &["store", "add", "out", "INPUT", "--host", "a"],
];

/// Fails if others than its owner may do anything with it, or with what is in it.
fn is_private(path: &Path, what: &[&str]) {
    let about = path.symlink_metadata().unwrap();
    let wanted = if about.is_dir() { 0o700 } else { 0o600 };
    assert_eq!(about.mode() & 0o777, wanted, "{what:?}: {}", path.display());
    if about.is_dir() {
        path.read_dir().unwrap().for_each(|entry| is_private(&entry.unwrap().path(), what));
    }
}

#[test]
fn whatever_the_umask_what_is_written_is_its_owners_alone() {
    let input = corpus("x86-svm/t2.data.gz");
    let scenario = common::root().join("scenarios/ping-pong.toml");
    for writer in WRITERS {
        let folder = tempfile::tempdir().unwrap();
        let arguments = writer.iter().map(|word| match *word {
            "INPUT" => input.as_os_str(),
            "SCENARIO" => scenario.as_os_str(),
            word => word.as_ref(),
        });
        let mut shell = Command::new("sh");
        shell.args(["-c", "umask 0; exec \"$@\"", "sh"]).arg(exitscope().get_program()).args(arguments);
        let output = shell.current_dir(folder.path()).output().unwrap();
        assert!(output.status.success(), "{writer:?}: {}", stderr(&output));
        is_private(&folder.path().join("out"), writer);
    }
}
