//! The file of a knob on a running host: read, written and read back; and what to do where that cannot be done.

use anyhow::{Context, bail};
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
pub fn set(knob: &'static Knob, path: &Path, value: &str) -> anyhow::Result<()> {
    let write = || -> io::Result<()> {
        // Never creates a file: what is not there is not a knob.
        let mut file = open(path, OpenOptions::new().write(true))?;
        file.set_len(0)?;
        file.write_all(value.as_bytes())?;
        file.flush()
    };
    write().map_err(|error| anyhow::anyhow!(remedy(knob, path, &error)))?;
    let now = read(path).with_context(|| format!("cannot read {}", path.display()))?;
    match same(knob, &now, value) {
        true => Ok(()),
        false => bail!("{}: wrote {value}, and it is {now:?}", path.display()),
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

/// What to do about a knob that cannot be read or written.
pub fn remedy(knob: &Knob, path: &Path, error: &io::Error) -> String {
    let path = path.display();
    let boot = knob.boot(knob.default).map(|boot| boot.to_string()).unwrap_or_default();
    let module = boot.split('.').next().filter(|_| boot.contains('.')).unwrap_or("kvm");
    match error.kind() {
        io::ErrorKind::NotFound => {
            format!(
                "{path} is not there: `modprobe {module}` loads its module, unless this processor or kernel does not \
                    have it"
            )
        }
        io::ErrorKind::PermissionDenied => format!("{path}: permission denied; run as root"),
        io::ErrorKind::ReadOnlyFilesystem => {
            format!(
                "{path} is on a file system that is read-only here, as in a container: run on the host, or name its \
                    /sys with --root"
            )
        }
        _ => format!("{path}: {error}"),
    }
}

/// What to do about a knob that only loading the module sets.
pub fn at_load(knob: &Knob, path: &Path, new: &str) -> String {
    let module = path.iter().rev().nth(2).map_or_else(Default::default, |name| name.to_string_lossy());
    format!(
        "{} cannot be written while the module is loaded: put `options {module} {}={new}` into \
         /etc/modprobe.d/exitscope.conf, end all VMs, then `modprobe -r {module} && modprobe {module}`; where it is built \
         in, boot with {module}.{}={new}",
        path.display(),
        knob.name,
        knob.name
    )
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
            assert!(remedy(knob, path, &kind.into()).contains(says), "{kind:?}");
        }
        let gap = exitscope_policy::knob("ple_gap").unwrap();
        let said = at_load(gap, Path::new("/sys/module/kvm_intel/parameters/ple_gap"), "0");
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
