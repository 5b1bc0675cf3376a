//! What can go wrong.

/// Damaged files that an error names at most.
const NAMED: usize = 5;

/// A file that is not as the log says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DamagedFile {
    /// Its path, below the store.
    pub path: String,
    /// What is wrong with it.
    pub why: String,
}

/// Why something was not done.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// There is no store.
    #[error("{place} is no store: it has no _log; `exitscope store add` makes one")]
    NoStore {
        /// Its path or address.
        place: String,
    },
    /// It cannot be named so.
    #[error("{place}: {why}")]
    Place {
        /// What was named.
        place: String,
        /// Why not.
        why: String,
    },
    /// The log was written by a later version.
    #[error("{entry} is of schema {schema}, and this exitscope knows {}: use a later one", crate::SCHEMA)]
    Newer {
        /// Which entry.
        entry: String,
        /// Its schema.
        schema: String,
    },
    /// An entry of the log cannot be read.
    #[error("{entry} of the log is damaged: {why}")]
    Entry {
        /// The entry's name.
        entry: String,
        /// What is wrong with it.
        why: String,
    },
    /// Files are not as the log says.
    #[error("{}: nothing is answered from damaged files; `exitscope store check` lists all, --no-verify leaves the comparison out", named(.0))]
    Damaged(Vec<DamagedFile>),
    /// An entry of the log is missing.
    #[error("{entry} of the log is missing")]
    Missing {
        /// The entry's name.
        entry: String,
    },
    /// So many others wrote meanwhile.
    #[error("others wrote to the store {0} times meanwhile: try again")]
    Busy(u32),
    /// The place where it lies.
    #[error("{what}: {why}")]
    Object {
        /// What was done.
        what: String,
        /// Why it failed.
        why: String,
    },
    /// Rows could not be written or read.
    #[error("{file}: {source}")]
    Parquet {
        /// The file.
        file: String,
        /// The error of the Parquet library.
        source: parquet::errors::ParquetError,
    },
    /// Threads or descriptors are missing.
    #[error("cannot begin: {0}")]
    Runtime(#[from] std::io::Error),
}

fn named(damaged: &[DamagedFile]) -> String {
    let mut named: Vec<String> =
        damaged.iter().take(NAMED).map(|file| format!("{}: {}", file.path, file.why)).collect();
    named.extend(damaged.len().checked_sub(NAMED + 1).map(|more| format!("and {} more", more + 1)));
    named.join("; ")
}
