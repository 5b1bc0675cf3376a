//! Why the lab could not do something.

use std::io;
use thiserror::Error;

/// Why the lab could not do something.
#[derive(Debug, Error)]
pub enum LabError {
    /// There is no KVM to run guests on.
    #[error("no guest can be run: {0}")]
    NoKvm(String),
    /// A system call failed.
    #[error("{what}: {error}")]
    System {
        /// The call and what it was for.
        what: &'static str,
        /// What the kernel says.
        error: io::Error,
    },
    /// A file cannot be made, read or written.
    #[error("{}: {error}", path.display())]
    File {
        /// The file.
        path: std::path::PathBuf,
        /// What the kernel says.
        error: io::Error,
    },
    /// The guest did something that ends it.
    #[error("the guest crashed: {0}")]
    Crash(String),
    /// The guest did not end within the time that it was given.
    #[error("the guest was stopped: it did not end within {} s", .0.as_secs_f64())]
    TimeOut(std::time::Duration),
    /// SIGINT or SIGTERM arrived.
    #[error("stopped by {0}; every guest is gone")]
    Signal(&'static str),
    /// Another thread of the same run failed first.
    #[error("stopped, as another virtual CPU failed")]
    Stopped,
    /// A figure came out that cannot be, so that none of the run can be relied on.
    #[error("impossible figure: {0}; the run counts for nothing, repeat it on a quieter machine")]
    Impossible(String),
    /// This cannot be done here.
    #[error("{0}")]
    CannotDo(String),
}

impl LabError {
    pub(crate) fn io(what: &'static str, error: io::Error) -> LabError {
        LabError::System { what, error }
    }

    pub(crate) fn file(path: &std::path::Path) -> impl Fn(io::Error) -> LabError {
        move |error| LabError::File { path: path.to_path_buf(), error }
    }

    /// Turns an error of KVM's into one that says which call it was.
    pub(crate) fn kvm(what: &'static str) -> impl Fn(kvm_ioctls::Error) -> LabError {
        move |error| LabError::io(what, io::Error::from_raw_os_error(error.errno()))
    }
}
