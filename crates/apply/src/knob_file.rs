//! The file of a knob on a running host: read, written and read back; and what to do where that cannot be done.

use exitscope_policy::Knob;
use rustix::fs::OFlags;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// Bytes of a knob's file that are read. The kernel writes one number or word into it.
const MOST: u64 = 4096;

/// Letters of a value.
const VALUE: usize = 32;

/// Why a knob's file was not read or set, and what to do about it. Each begins with the file.
#[derive(Debug, thiserror::Error)]
pub enum KnobFileError {
    /// There is none; the module that has it.
    #[error("{path} is not there: `modprobe {1}` loads its module, unless this processor or kernel does not have it", path = .0.display())]
    NotThere(PathBuf, String),
    /// Only another user may.
    #[error("{path}: permission denied; run as root", path = .0.display())]
    PermissionDenied(PathBuf),
    /// Its file system cannot be written.
    #[error(
        "{path} is on a file system that is read-only here, as in a container: run on the host, or name its /sys with --root",
        path = .0.display()
    )]
    ReadOnlyFilesystem(PathBuf),
    /// What else the kernel says.
    #[error("{path}: {1}", path = .0.display())]
    Other(PathBuf, io::Error),
    /// Only loading the module sets it; the module, the knob, and the value to set.
    #[error(
        "{path} cannot be written while the module is loaded: put `options {1} {2}={3}` into \
         /etc/modprobe.d/exitscope.conf, end all VMs, then `modprobe -r {1} && modprobe {1}`; where it is built \
         in, boot with {1}.{2}={3}",
        path = .0.display()
    )]
    AtLoad(PathBuf, String, &'static str, String),
    /// The value in force is none that could be restored.
    #[error("{path} is {1:?}, not a value that --undo could restore", path = .0.display())]
    NotRestorable(PathBuf, String),
    /// Somebody else has set it since the change was planned; the value then, and now.
    #[error("{path} was {1} when shown and is {2:?} now; run `advise --apply` again", path = .0.display())]
    ChangedSince(PathBuf, String, String),
    /// It was written, and has another value nevertheless; the value written, and the one in force.
    #[error("{path}: wrote {1}, and it is {2:?}", path = .0.display())]
    NotTaken(PathBuf, String, String),
}

/// The knob's file below `root`, if it can be written on a running host: nothing else is ever opened.
pub fn file(knob: &'static Knob, root: &Path) -> Option<PathBuf> {
    Some(root.join(knob.file()?.to_string().trim_start_matches('/')))
}

/// Whether a text is a value that may have been a knob's: a number or a word. Not whether it makes sense: what was in force
/// is restored, whatever it was.
pub fn is_value(text: &str) -> bool {
    let is_part = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '-' | '_');
    !text.is_empty() && text.len() <= VALUE && text.chars().all(is_part)
}

/// The value that is in force.
pub fn read(path: &Path) -> io::Result<String> {
    let mut text = String::new();
    open(path, OpenOptions::new().read(true))?.take(MOST).read_to_string(&mut text)?;
    Ok(text.trim().to_string())
}

pub fn is_read_only(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|metadata| metadata.permissions().readonly())
}

/// Whether two texts are the same value of a knob: the kernel says `Y` where `1` was written.
pub fn same(knob: &'static Knob, a: &str, b: &str) -> bool {
    a == b || matches!((knob.parse(a), knob.parse(b)), (Ok(a), Ok(b)) if a == b)
}

/// Writes a value, and reads it back.
pub fn set(knob: &'static Knob, path: &Path, value: &str) -> Result<(), KnobFileError> {
    let write = || -> io::Result<()> {
        // Never creates a file: what is not there is not a knob.
        let mut file = open(path, OpenOptions::new().write(true))?;
        file.set_len(0)?;
        file.write_all(value.as_bytes())?;
        file.flush()
    };
    write().map_err(|error| cannot(knob, path, error))?;
    let now = read(path).map_err(|error| cannot(knob, path, error))?;
    match same(knob, &now, value) {
        true => Ok(()),
        false => Err(KnobFileError::NotTaken(path.to_path_buf(), value.to_string(), now)),
    }
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

/// Why a knob cannot be read or written.
pub fn cannot(knob: &Knob, path: &Path, error: io::Error) -> KnobFileError {
    let path = path.to_path_buf();
    match error.kind() {
        io::ErrorKind::NotFound => {
            let boot = knob.boot(knob.default).map(|boot| boot.to_string()).unwrap_or_default();
            let module = boot.split_once('.').map_or("kvm", |(module, _)| module).to_string();
            KnobFileError::NotThere(path, module)
        }
        io::ErrorKind::PermissionDenied => KnobFileError::PermissionDenied(path),
        io::ErrorKind::ReadOnlyFilesystem => KnobFileError::ReadOnlyFilesystem(path),
        _ => KnobFileError::Other(path, error),
    }
}

/// Why a knob that only loading the module sets cannot be set now.
pub fn at_load(knob: &'static Knob, path: PathBuf, new: String) -> KnobFileError {
    let module = path.iter().rev().nth(2).map_or_else(String::new, |name| name.to_string_lossy().into_owned());
    KnobFileError::AtLoad(path, module, knob.name, new)
}

#[cfg(test)]
mod tests {
    use super::*;
    use exitscope_policy::knob;

    #[test]
    fn values_are_compared_as_values() {
        let bool = knob("guest_halt_poll_allow_shrink").unwrap();
        assert!(same(bool, "Y", "1") && !same(bool, "Y", "N"));
        let time = knob("halt_poll_ns").unwrap();
        assert!(same(time, "50000", "50000") && !same(time, "50000", "0"));
    }

    #[test]
    fn what_cannot_be_written_says_what_to_do() {
        let knob = knob("halt_poll_ns").unwrap();
        let path = Path::new("/sys/module/kvm/parameters/halt_poll_ns");
        for (kind, says) in [
            (io::ErrorKind::NotFound, "modprobe kvm"),
            (io::ErrorKind::PermissionDenied, "run as root"),
            (io::ErrorKind::ReadOnlyFilesystem, "--root"),
        ] {
            assert!(cannot(knob, path, kind.into()).to_string().contains(says), "{kind:?}");
        }
        let gap = exitscope_policy::knob("ple_gap").unwrap();
        let path = PathBuf::from("/sys/module/kvm_intel/parameters/ple_gap");
        let said = at_load(gap, path, "0".to_string()).to_string();
        assert!(said.contains("options kvm_intel ple_gap=0"), "{said}");
    }

    #[test]
    fn only_a_regular_file_is_written_and_only_what_is_there() {
        let folder = tempfile::tempdir().unwrap();
        let knob = knob("halt_poll_ns").unwrap();
        let [file, link, none] = ["file", "link", "none"].map(|name| folder.path().join(name));
        fs::write(&file, "200000\n").unwrap();
        std::os::unix::fs::symlink(&file, &link).unwrap();
        for path in [&link, &none, &folder.path().to_path_buf()] {
            assert!(set(knob, path, "7").is_err() && read(path).is_err(), "{}", path.display());
        }
        assert!(!none.exists());
        assert_eq!(read(&file).unwrap(), "200000");
        set(knob, &file, "7").unwrap();
        assert_eq!(read(&file).unwrap(), "7");
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
