//! Whether the bytes of a file are those that were written. Pages of Parquet files can have checksums, but the `parquet`
//! crate writes none (59, `crc` in src/column/page.rs), and footers have none: the whole file is held against the hash in
//! the log.

use crate::error::DamagedFile;
use crate::location::{READS, hex, why};
use crate::log::{DataFile, SCHEMA};
use bytes::Bytes;
use futures::{StreamExt, stream};
use object_store::path::Path;
use object_store::{Error, ObjectMeta, ObjectStore, ObjectStoreExt};
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use parquet::file::metadata::FileMetaData;
use sha2::{Digest, Sha256};
use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, PoisonError};

/// Bytes of a file that are read and hashed at once.
const CHUNK: u64 = 2 << 20;

/// What is wrong with a file of the right size and another hash.
pub const CHANGED: &str = "its bytes are not those that were written";

/// What was read to compare files with their hashes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct VerifiedBytes {
    /// Files.
    pub files: u64,
    /// Their bytes.
    pub bytes: u64,
}

/// Files that were found to be as they were written. Clones share what they know.
#[derive(Clone, Debug, Default)]
pub struct VerifiedFiles(Arc<Mutex<BTreeSet<FileVersion>>>);

/// A file, and what changes when it is written again.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct FileVersion {
    /// The address of what holds it.
    holder: String,
    path: String,
    sha256: String,
    bytes: u64,
    /// Its tag, or when it was written.
    version: String,
}

impl VerifiedFiles {
    /// Compares files below `prefix` with the log, but for those that were compared before and are the same since. Returns
    /// what was read; or every file that is not as the log says.
    pub async fn verify(
        &self,
        objects: &Arc<dyn ObjectStore>,
        (holder, prefix): (&str, &str),
        files: impl IntoIterator<Item = DataFile>,
    ) -> Result<VerifiedBytes, Vec<DamagedFile>> {
        let compared = files.into_iter().map(|file| {
            let (known, objects, holder) = (self.clone(), objects.clone(), holder.to_string());
            let path = format!("{prefix}/{}", file.path).trim_start_matches('/').to_string();
            let name = file.path.clone();
            // On a runtime of several threads, several files are hashed at once.
            let task = tokio::spawn(async move { known.compare(objects.as_ref(), holder, path, &file).await });
            async move {
                let done = task.await.unwrap_or_else(|error| Err(format!("its check broke off: {error}")));
                done.map_err(|why| DamagedFile { path: name, why })
            }
        });
        let (mut verified, mut damaged) = (VerifiedBytes::default(), Vec::new());
        let mut compared = stream::iter(compared).buffered(READS);
        while let Some(done) = compared.next().await {
            match done {
                Ok(None) => {}
                Ok(Some(bytes)) => {
                    verified.files += 1;
                    verified.bytes += bytes;
                }
                Err(damage) => damaged.push(damage),
            }
        }
        if damaged.is_empty() { Ok(verified) } else { Err(damaged) }
    }

    /// Compares one file; its bytes, if it had to be read.
    async fn compare(
        self,
        objects: &dyn ObjectStore,
        holder: String,
        path: String,
        file: &DataFile,
    ) -> Result<Option<u64>, String> {
        let at = Path::parse(&path).map_err(|error| error.to_string())?;
        let meta = objects.head(&at).await.map_err(unread)?;
        if meta.size != file.bytes {
            return Err(of_size(file, meta.size));
        }
        let (sha256, bytes, version) = (file.sha256.clone(), meta.size, version(&meta));
        let version = FileVersion { holder, path, sha256, bytes, version };
        if self.0.lock().unwrap_or_else(PoisonError::into_inner).contains(&version) {
            return Ok(None);
        }
        if file.sha256.is_empty() {
            let bytes = objects.get(&at).await.map_err(unread)?.bytes().await.map_err(unread)?;
            decodes(file, bytes)?;
        } else if hash_of(objects, &at, bytes).await.map_err(unread)? != file.sha256 {
            return Err(CHANGED.to_string());
        }
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(version);
        Ok(Some(bytes))
    }
}

fn version(meta: &ObjectMeta) -> String {
    meta.e_tag.clone().unwrap_or_else(|| meta.last_modified.to_rfc3339())
}

fn unread(error: Error) -> String {
    match error {
        Error::NotFound { .. } => "it is not there".to_string(),
        error => why(&error),
    }
}

async fn hash_of(objects: &dyn ObjectStore, at: &Path, size: u64) -> Result<String, Error> {
    let mut hash = Sha256::new();
    for from in (0..size).step_by(CHUNK as usize) {
        hash.update(objects.get_range(at, from..size.min(from + CHUNK)).await?);
    }
    Ok(hex(hash))
}

/// Reads every row of a file of before hashes were kept: there is nothing else to tell damage by.
fn decodes(file: &DataFile, bytes: Bytes) -> Result<(), String> {
    let read = || -> Result<(), String> {
        let reader = ParquetRecordBatchReaderBuilder::try_new(bytes).map_err(|error| error.to_string())?;
        is_of(file, reader.metadata().file_metadata())?;
        let mut rows = reader.build().map_err(|error| error.to_string())?;
        rows.try_for_each(|batch| batch.map(drop)).map_err(|error| error.to_string())
    };
    // The decoders of `parquet` and `arrow` take some damage for an error of the program.
    catch_unwind(AssertUnwindSafe(read)).unwrap_or_else(|_| Err("it cannot be decoded".to_string()))
}

/// Whether the end of a file is that of this one.
pub fn is_of(file: &DataFile, end: &FileMetaData) -> Result<(), String> {
    let schema = end.key_value_metadata().and_then(|all| all.iter().find(|of| of.key == "exitscope.schema"));
    match schema.and_then(|of| of.value.as_deref()) {
        Some(SCHEMA) => {}
        Some(other) => return Err(format!("it is of schema {other}")),
        None => return Err("it was not written by exitscope".to_string()),
    }
    let rows = end.num_rows() as u64;
    if rows == file.rows { Ok(()) } else { Err(of_rows(file, rows)) }
}

/// What is wrong with a file of so many bytes.
pub fn of_size(file: &DataFile, size: u64) -> String {
    format!("it has {size} bytes instead of {}", file.bytes)
}

/// What is wrong with a file of so many rows.
pub fn of_rows(file: &DataFile, rows: u64) -> String {
    format!("it has {rows} rows instead of {}", file.rows)
}
