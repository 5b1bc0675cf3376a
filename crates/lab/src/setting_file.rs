//! A setting of running guests as a file that is read and written as the kernel's own are.
//!
//! ```text
//! echo 0 > file ─► look() ─┬─ a value ─► in force, said once
//!                          └─ none ────► the value in force is written back, as a write that the kernel refuses changes nothing
//! ```
//!
//! A file of sysfs takes a write at once or refuses it. This one is looked at every few milliseconds. What is not written as the
//! kernel shows it (no end of line, rests of a longer text) is written anew at the second look that finds it, as whoever truncates
//! a file before writing may be between the two. A write between a look and its writing back is lost.

use crate::LabError;
use exitscope_policy::{Knob, KnobUnit};
use std::fs::{self, DirBuilder, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// A setting and its file.
#[derive(Debug)]
pub struct SettingFile {
    /// The setting.
    pub knob: &'static Knob,
    /// The file.
    pub path: PathBuf,
    /// The value in force.
    pub in_force: u64,
    /// What the last look found, if it is not the value in force as the kernel shows it.
    odd: Option<String>,
}

impl SettingFile {
    /// The file of a knob below `root`. A value that is there is in force, otherwise `default` is.
    pub fn new(root: &Path, knob: &'static Knob, default: u64) -> Result<SettingFile, LabError> {
        let name = knob.file().map(|file| file.to_string()).unwrap_or_default();
        let path = root.join(name.trim_start_matches('/'));
        if let Some(folder) = path.parent() {
            create_folder(folder)?;
        }
        let mut file = SettingFile { knob, path, in_force: default, odd: None };
        let there = file.read()?;
        file.in_force = taken(knob, &there).unwrap_or(default);
        if there != file.line() {
            file.write()?;
        }
        Ok(file)
    }

    /// Reads it again. The value that is in force from now on, if that is another one.
    pub fn look(&mut self) -> Result<Option<u64>, LabError> {
        let text = self.read()?;
        let new = taken(self.knob, &text).filter(|&value| value != self.in_force);
        self.in_force = new.unwrap_or(self.in_force);
        if text == self.line() {
            self.odd = None;
        } else if self.odd.as_ref() == Some(&text) {
            self.write()?;
            self.odd = None;
        } else {
            self.odd = Some(text);
        }
        Ok(new)
    }

    fn line(&self) -> String {
        format!("{}\n", self.knob.text(self.in_force))
    }

    /// Nothing where there is no file, or bytes that are no text.
    fn read(&self) -> Result<String, LabError> {
        match fs::read_to_string(&self.path) {
            Ok(text) => Ok(text),
            Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::InvalidData) => {
                Ok(String::new())
            }
            Err(error) => Err(LabError::file(&self.path)(error)),
        }
    }

    /// Whoever reads meanwhile finds a value in the first line.
    fn write(&self) -> Result<(), LabError> {
        let line = self.line();
        let write = || -> io::Result<()> {
            let mut options = OpenOptions::new();
            let mut file = options.write(true).create(true).truncate(false).mode(0o600).open(&self.path)?;
            file.write_all(line.as_bytes())?;
            file.set_len(line.len() as u64)
        };
        write().map_err(LabError::file(&self.path))
    }
}

/// Creates a folder, and those above it, of its owner's alone; one that is there stays as it is.
pub(crate) fn create_folder(path: &Path) -> Result<(), LabError> {
    DirBuilder::new().recursive(true).mode(0o700).create(path).map_err(LabError::file(path))
}

/// The value that a text sets, as the kernel reads it: numbers without a unit.
fn taken(knob: &'static Knob, text: &str) -> Option<u64> {
    let word = text.lines().next().unwrap_or_default().trim();
    match knob.unit {
        KnobUnit::Bool | KnobUnit::Choice(_) => knob.parse(word).ok(),
        _ => knob.check(word.parse().ok()?).ok(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use exitscope_policy::knob;
    use std::os::unix::fs::PermissionsExt;

    fn setting(root: &Path, name: &str) -> SettingFile {
        let knob = knob(name).unwrap();
        SettingFile::new(root, knob, knob.default).unwrap()
    }

    #[test]
    fn a_write_is_in_force_at_the_next_look_and_said_once() {
        let root = tempfile::tempdir().unwrap();
        let mut file = setting(root.path(), "halt_poll_ns");
        assert_eq!(file.path, root.path().join("sys/module/kvm/parameters/halt_poll_ns"));
        assert_eq!(fs::read_to_string(&file.path).unwrap(), "200000\n");
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(&file.path), mode(&root.path().join("sys"))), (0o600, 0o700), "whatever the umask");
        assert_eq!(file.look().unwrap(), None);
        fs::write(&file.path, "0\n").unwrap();
        assert_eq!((file.look().unwrap(), file.look().unwrap(), file.in_force), (Some(0), None, 0));
        // As it was left, for who comes next.
        assert_eq!(setting(root.path(), "halt_poll_ns").in_force, 0);
    }

    #[test]
    fn what_the_kernel_would_refuse_is_replaced_by_the_value_in_force() {
        let root = tempfile::tempdir().unwrap();
        let mut file = setting(root.path(), "halt_poll_ns");
        for wrong in ["many\n", "", "-1\n", "50us\n", "4294967296\n", "\n7\n"] {
            fs::write(&file.path, wrong).unwrap();
            assert_eq!((file.look().unwrap(), fs::read_to_string(&file.path).unwrap().as_str()), (None, wrong));
            assert_eq!(file.look().unwrap(), None, "{wrong:?}");
            assert_eq!(fs::read_to_string(&file.path).unwrap(), "200000\n", "{wrong:?}");
        }
        fs::write(&file.path, [0xff, 0xfe]).unwrap();
        fs::remove_file(&file.path).unwrap();
        assert_eq!((file.look().unwrap(), file.look().unwrap()), (None, None));
        assert_eq!(fs::read_to_string(&file.path).unwrap(), "200000\n");
    }

    #[test]
    fn a_value_is_shown_as_the_kernel_shows_it_however_it_was_written() {
        let root = tempfile::tempdir().unwrap();
        let mut file = setting(root.path(), "halt_poll_ns");
        // Without the end of the line; and over a longer line, before what is behind it is cut off.
        for (written, value) in [("50", 50), ("7\n\n", 7), ("0\n0000\n", 0)] {
            fs::write(&file.path, written).unwrap();
            assert_eq!((file.look().unwrap(), file.look().unwrap()), (Some(value), None));
            assert_eq!(fs::read_to_string(&file.path).unwrap(), format!("{value}\n"));
        }
        let mut file = setting(root.path(), "guest_halt_poll_allow_shrink");
        assert_eq!(fs::read_to_string(&file.path).unwrap(), "Y\n");
        fs::write(&file.path, "0\n").unwrap();
        assert_eq!((file.look().unwrap(), file.look().unwrap()), (Some(0), None));
        assert_eq!(fs::read_to_string(&file.path).unwrap(), "N\n");
    }
}
