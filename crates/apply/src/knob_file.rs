//! The file of a setting on a running host: read and written; and what to do where that cannot be done.

use rustix::fs::OFlags;
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// Bytes of a knob's file that are read. The kernel writes one number or word into it.
const MOST: u64 = 4096;

/// Letters of a value.
const VALUE: usize = 32;

/// Why a setting was not read or set, and what to do about it. Each begins with the place of the setting.
#[derive(Debug, thiserror::Error)]
pub enum KnobFileError {
    /// There is none; the module that has it.
    #[error("{0} is not there: `modprobe {1}` loads its module, unless this processor or kernel does not have it")]
    NotThere(String, &'static str),
    /// There is none, and no module brings it: a knob of the kernel or of some processors.
    #[error("{0} is not there: this kernel or processor does not have it")]
    NotInKernel(String),
    /// Machines of another architecture have it; that one, and this machine's.
    #[error("{0} is not there: {1} has it, and this machine is {2}")]
    OfOtherMachines(String, &'static str, String),
    /// There is none of a setting.
    #[error("{0} is not there: this kernel was built without it, or what it belongs to has ended")]
    NotBuilt(String),
    /// Only another user may.
    #[error("{0}: permission denied; run as root")]
    PermissionDenied(String),
    /// Its file system cannot be written.
    #[error(
        "{0} is on a file system that is read-only here, as in a container: run on the host, or name its /sys with --root"
    )]
    ReadOnlyFilesystem(String),
    /// What else the kernel says.
    #[error("{0}: {1}")]
    Other(String, io::Error),
    /// Only loading the module sets it; the module, the knob, and the value to set.
    #[error(
        "{0} cannot be written while the module is loaded: put `options {1} {2}={3}` into \
         /etc/modprobe.d/exitscope.conf, end all VMs, `modprobe -r` the modules that use {1} (as /proc/modules lists them) and {1}, and \
         load them again; where it is built in, boot with {1}.{2}={3}"
    )]
    AtLoad(String, &'static str, &'static str, String),
    /// Only the kernel's command line sets it; the words there.
    #[error("{0} cannot be written on this kernel: boot with {1}")]
    AtBoot(String, String),
    /// The value in force is none that could be restored.
    #[error("{0} is {1:?}, not a value that could be restored")]
    NotRestorable(String, String),
    /// Somebody else has set it since the change was planned; the value then, and now.
    #[error("{0} was {1} when shown and is {2:?} now; plan again")]
    ChangedSince(String, String, String),
    /// It was written, and has another value nevertheless; the value written, and the one in force.
    #[error("{0}: wrote {1}, and it is {2:?}")]
    NotTaken(String, String, String),
}

/// Whether a text is a value that may have been a knob's: a number or a word. Not whether it makes sense: what was in force
/// is restored, whatever it was.
pub fn is_value(text: &str) -> bool {
    let is_part = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '-' | '_');
    !text.is_empty() && text.len() <= VALUE && text.chars().all(is_part)
}

/// The value that is in force: the file's first line.
pub fn read(path: &Path) -> io::Result<String> {
    let mut text = String::new();
    open(path, OpenOptions::new().read(true))?.take(MOST).read_to_string(&mut text)?;
    Ok(text.lines().next().unwrap_or_default().trim().to_string())
}

/// Writes a value as a line. Whoever is killed in between leaves the old first line or the new one: the line is written at
/// once, and what is behind it is cut off afterwards. Files of the kernel take the line as a whole.
pub fn write(path: &Path, value: &str) -> io::Result<()> {
    // Never creates a file: what is not there is not a setting.
    let mut file = open(path, OpenOptions::new().write(true))?;
    let line = format!("{value}\n");
    if file.write(line.as_bytes())? != line.len() {
        return Err(io::Error::other("the value was written in part"));
    }
    file.set_len(line.len() as u64)
}

/// Opens a regular file; no link to one, and nothing at which one waits.
pub fn open(path: &Path, options: &mut OpenOptions) -> io::Result<File> {
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let file = options.custom_flags(flags.bits() as i32).open(path)?;
    match file.metadata()?.is_file() {
        true => Ok(file),
        false => Err(io::Error::other("not a regular file")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::PlacedSetting;
    use exitscope_policy::knob;
    use std::fs;

    fn placed(name: &str, root: &Path) -> PlacedSetting {
        PlacedSetting::of_knob(knob(name).unwrap(), root).unwrap()
    }

    #[test]
    fn values_are_compared_as_values() {
        let bool = placed("guest_halt_poll_allow_shrink", Path::new("/"));
        assert!(bool.is_same("Y", "1") && !bool.is_same("Y", "N"));
        let time = placed("halt_poll_ns", Path::new("/"));
        assert!(time.is_same("50000", "50000") && !time.is_same("50000", "0"));
    }

    #[test]
    fn what_cannot_be_written_says_what_to_do() {
        let root = tempfile::tempdir().unwrap();
        for (name, value, says) in [
            ("ple_gap", "0", "options kvm_intel ple_gap=0"),
            ("guest_halt_poll_ns", "0", "cannot be written on this kernel: boot with haltpoll.guest_halt_poll_ns=0"),
            ("spin_retry", "0", "cannot be written on this kernel: boot with spin_retry=0"),
            ("subcores_per_core", "2", "permission denied"),
        ] {
            let said = placed(name, root.path()).at_load(value.to_string()).to_string();
            assert!(said.contains(says) && (says.contains("options") || !said.contains("modprobe")), "{said}");
        }
    }

    #[test]
    fn only_a_regular_file_is_written_and_only_what_is_there() {
        let folder = tempfile::tempdir().unwrap();
        let [file, link, none] = ["file", "link", "none"].map(|name| folder.path().join(name));
        fs::write(&file, "200000\n").unwrap();
        std::os::unix::fs::symlink(&file, &link).unwrap();
        for path in [&link, &none, &folder.path().to_path_buf()] {
            assert!(write(path, "7").is_err() && read(path).is_err(), "{}", path.display());
        }
        assert!(!none.exists());
        assert_eq!(read(&file).unwrap(), "200000");
        write(&file, "7").unwrap();
        assert_eq!((read(&file).unwrap().as_str(), fs::read_to_string(&file).unwrap().as_str()), ("7", "7\n"));
    }

    #[test]
    fn a_value_is_a_number_or_a_word() {
        for (text, is) in [
            ("200000", true),
            ("-1", true),
            ("Y", true),
            ("big_core", true),
            ("", false),
            ("1\n2", false),
            ("1 2", false),
            ("\u{202e}1", false),
            (&"1".repeat(33), false),
        ] {
            assert_eq!(is_value(text), is, "{text:?}");
        }
    }
}
