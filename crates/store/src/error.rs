//! What can go wrong.

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
    #[error("{entry} of the log is damaged: {source}")]
    Entry {
        /// The entry's name.
        entry: String,
        /// The parser's error.
        source: serde_json::Error,
    },
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
