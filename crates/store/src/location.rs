//! Where a store lies: a directory of this machine, or a bucket of an S3-compatible store.

use crate::StoreError;
use crate::private_files::{PrivateFiles, shared_with_group};
use bytes::Bytes;
use futures::{StreamExt, TryStreamExt, stream};
use object_store::aws::{AmazonS3, AmazonS3Builder, AmazonS3ConfigKey};
use object_store::local::LocalFileSystem;
use object_store::path::Path;
use object_store::prefix::PrefixStore;
use object_store::{ObjectMeta, ObjectStore, ObjectStoreExt, PutMode, PutPayload, RetryConfig, WriteMultipart};
use rustix::fs::Mode;
use sha2::{Digest, Sha256};
use std::error::Error;
use std::fmt;
use std::io::{self, Write};
use std::ops::Range;
use std::path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};
use tokio::runtime::{Builder, Runtime};

/// Parts of a file that are on their way at once.
const PARTS: usize = 4;

/// Files that are read at once. A bucket answers each only after some 10 ms.
pub const READS: usize = 32;

/// How the address of a bucket begins.
const BUCKET: &str = "s3://";

/// Who is asked for keys if there are none.
const KEYS_OF_MACHINES: &str = "169.254.169.254";

/// How often, and how long, a bucket that does not answer is asked again.
const RETRIES: usize = 4;
const RETRY_FOR: Duration = Duration::from_secs(30);

/// Files by their path below the store.
pub struct StoreLocation {
    name: String,
    url: String,
    prefix: Path,
    objects: Arc<dyn ObjectStore>,
    runtime: Arc<Runtime>,
    directory: Option<Directory>,
}

/// Of a store in a directory.
struct Directory {
    path: path::PathBuf,
    /// What its group may do with files there.
    of_group: Mode,
}

impl fmt::Debug for StoreLocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Place({})", self.name)
    }
}

impl StoreLocation {
    /// A directory, which is made if it is not there and `make`; or `s3://bucket/path`.
    pub fn at(path: &path::Path, make: bool) -> Result<StoreLocation, StoreError> {
        let name = path.display().to_string();
        let name = if name.starts_with(BUCKET) { name.trim_end_matches('/').to_string() } else { name };
        let wrong = |why: String| StoreError::Place { place: name.clone(), why };
        let runtime = Arc::new(Builder::new_current_thread().enable_all().build()?);
        if let Some(rest) = name.strip_prefix(BUCKET) {
            let (of, prefix) = rest.split_once('/').unwrap_or((rest, ""));
            if of.is_empty() {
                return Err(wrong("a bucket is named like s3://bucket/path".to_string()));
            }
            let url = format!("{BUCKET}{of}/");
            let prefix = Path::parse(prefix).map_err(|error| wrong(error.to_string()))?;
            let objects = Arc::new(PrefixStore::new(bucket(&url)?, prefix.clone()));
            return Ok(StoreLocation { name, url, prefix, objects, runtime, directory: None });
        }
        match make {
            true => {
                let _private = PrivateFiles::begin(Mode::empty());
                std::fs::create_dir_all(path).map_err(|error| wrong(error.to_string()))?;
            }
            false if !path.is_dir() => return Err(StoreError::NoStore { place: name }),
            false => {}
        }
        let prefix = Path::from_absolute_path(path::absolute(path)?).map_err(|error| wrong(error.to_string()))?;
        let objects = LocalFileSystem::new_with_prefix(path).map_err(|error| wrong(error.to_string()))?;
        let objects = Arc::new(objects);
        let directory = Some(Directory { path: path.to_path_buf(), of_group: shared_with_group(path) });
        Ok(StoreLocation { name, url: "file:///".to_string(), prefix, objects, runtime, directory })
    }

    /// What it is called.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The address of what holds its files, and the path to them there.
    pub fn address(&self) -> (&str, &Path) {
        (&self.url, &self.prefix)
    }

    /// What holds its files, by their path below the store.
    pub fn objects(&self) -> &Arc<dyn ObjectStore> {
        &self.objects
    }

    /// Waits for work on its files.
    pub fn wait<T>(&self, work: impl Future<Output = T>) -> T {
        self.runtime.block_on(work)
    }

    /// All files below a folder, with their sizes.
    pub fn list(&self, folder: &str) -> Result<Vec<ObjectMeta>, StoreError> {
        let at = Path::from(folder);
        let found = self.objects.list(Some(&at));
        self.runtime.block_on(found.try_collect()).map_err(self.failed("cannot list", folder))
    }

    /// What writers that were stopped left of files below a folder, with the time of the last write: of a directory alone.
    /// `object_store` writes `NAME#1` before it renames it to NAME, and lists no such file (0.13, `new_staged_upload` and
    /// `is_valid_file_path` in src/local.rs).
    pub fn begun(&self, folder: &str) -> Result<Vec<(String, SystemTime)>, StoreError> {
        let Some(directory) = &self.directory else { return Ok(Vec::new()) };
        let (mut begun, mut folders) = (Vec::new(), vec![directory.path.join(folder)]);
        let failed = |error: io::Error| StoreError::Object {
            what: format!("cannot list {}/{folder}", self.name),
            why: error.to_string(),
        };
        while let Some(at) = folders.pop() {
            let entries = match std::fs::read_dir(&at) {
                // Another process may remove what was listed.
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                entries => entries.map_err(failed)?,
            };
            for entry in entries {
                let entry = entry.map_err(failed)?;
                let path = entry.path();
                let Ok(meta) = entry.metadata() else { continue };
                let name = path.strip_prefix(&directory.path).ok().and_then(|path| path.to_str());
                match name {
                    _ if meta.is_dir() => folders.push(path),
                    Some(name) if is_begun(name) => begun.push((name.to_string(), meta.modified().map_err(failed)?)),
                    _ => {}
                }
            }
        }
        begun.sort();
        Ok(begun)
    }

    /// Removes what a writer that was stopped [left](Self::begun).
    pub fn remove_begun(&self, path: &str) -> Result<(), StoreError> {
        let Some(directory) = &self.directory else { return Ok(()) };
        match std::fs::remove_file(directory.path.join(path)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(StoreError::Object { what: format!("cannot remove {}/{path}", self.name), why: error.to_string() })
            }
            _ => Ok(()),
        }
    }

    /// Everything in a file.
    pub fn read(&self, path: &str) -> Result<Bytes, StoreError> {
        self.runtime.block_on(self.get(path, None))
    }

    /// Of each of these files everything, or some of its bytes; in this order.
    pub fn read_each<'a>(
        &self,
        files: impl Iterator<Item = (&'a str, Option<Range<u64>>)>,
    ) -> Vec<Result<Bytes, StoreError>> {
        let reads: Vec<_> = files.map(|(path, range)| self.get(path, range)).collect();
        self.runtime.block_on(stream::iter(reads).buffered(READS).collect())
    }

    async fn get(&self, path: &str, range: Option<Range<u64>>) -> Result<Bytes, StoreError> {
        let at = self.path(path)?;
        let read = async {
            match range {
                Some(range) => self.objects.get_range(&at, range).await,
                None => self.objects.get(&at).await?.bytes().await,
            }
        };
        read.await.map_err(self.failed("cannot read", path))
    }

    /// Writes a file that is not there yet; whether it was not. It is there whole or not at all.
    pub fn create(&self, path: &str, bytes: Vec<u8>) -> Result<bool, StoreError> {
        let at = self.path(path)?;
        let _private = self.directory.as_ref().map(|directory| PrivateFiles::begin(directory.of_group));
        let put = self.objects.put_opts(&at, PutPayload::from(bytes), PutMode::Create.into());
        match self.runtime.block_on(put) {
            Ok(_) => Ok(true),
            Err(object_store::Error::AlreadyExists { .. }) => Ok(false),
            Err(error) => Err(self.failed("cannot write", path)(error)),
        }
    }

    /// Begins a file, which is there when it is [finished](Upload::finish).
    pub fn upload(&self, path: &str) -> Result<Upload, StoreError> {
        let at = self.path(path)?;
        let _private = self.directory.as_ref().map(|directory| PrivateFiles::begin(directory.of_group));
        let begun = self.runtime.block_on(self.objects.put_multipart(&at));
        let upload = WriteMultipart::new(begun.map_err(self.failed("cannot write", path))?);
        Ok(Upload { upload, runtime: self.runtime.clone(), bytes: 0, hash: Sha256::new() })
    }

    /// Removes a file; that it is not there is no error.
    pub fn remove(&self, path: &str) -> Result<(), StoreError> {
        let at = self.path(path)?;
        match self.runtime.block_on(self.objects.delete(&at)) {
            Ok(()) | Err(object_store::Error::NotFound { .. }) => Ok(()),
            Err(error) => Err(self.failed("cannot remove", path)(error)),
        }
    }

    fn path(&self, path: &str) -> Result<Path, StoreError> {
        Path::parse(path).map_err(|error| StoreError::Place { place: path.to_string(), why: error.to_string() })
    }

    fn failed(&self, what: &'static str, path: &str) -> impl FnOnce(object_store::Error) -> StoreError {
        let what = format!("{what} {}/{path}", self.name);
        |error| StoreError::Object { what, why: why(&error) }
    }
}

/// The bucket of an address like `s3://bucket/`, with the keys, the region and the endpoint that the environment names as
/// for all tools of AWS (`AWS_ACCESS_KEY_ID`, `AWS_REGION`, `AWS_ENDPOINT_URL`, …).
pub fn bucket(url: &str) -> Result<AmazonS3, StoreError> {
    let retry = RetryConfig { max_retries: RETRIES, retry_timeout: RETRY_FOR, ..RetryConfig::default() };
    let builder = AmazonS3Builder::from_env().with_url(url).with_retry(retry);
    let endpoint = builder.get_config_value(&AmazonS3ConfigKey::Endpoint).unwrap_or_default();
    // Whoever names an endpoint without TLS means it.
    let builder = if endpoint.starts_with("http://") { builder.with_allow_http(true) } else { builder };
    builder.build().map_err(|error| StoreError::Object { what: format!("cannot use {url}"), why: why(&error) })
}

/// What the innermost error says: those around it repeat it, each with more words.
pub fn why(error: &object_store::Error) -> String {
    let mut inner: &dyn Error = error;
    while let Some(source) = inner.source() {
        inner = source;
    }
    let said = inner.to_string();
    let element = |name: &str| {
        let (_, behind) = said.split_once(&format!("<{name}>"))?;
        behind.split_once(&format!("</{name}>")).map(|of| of.0)
    };
    match (element("Code"), element("Message")) {
        (Some(code), Some(message)) => format!("{message} ({code})"),
        // Where machines of Amazon get their keys.
        _ if error.to_string().contains(KEYS_OF_MACHINES) => {
            "no keys: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or give the machine a role".to_string()
        }
        _ => said,
    }
}

/// Whether a file is one that a writer has not finished.
fn is_begun(path: &str) -> bool {
    let Some((file, number)) = path.rsplit_once('#') else { return false };
    let is_number = !number.is_empty() && number.bytes().all(|digit| digit.is_ascii_digit());
    is_number && (file.ends_with(".parquet") || file.ends_with(".json"))
}

/// A file on its way.
#[derive(Debug)]
pub struct Upload {
    upload: WriteMultipart,
    runtime: Arc<Runtime>,
    bytes: u64,
    hash: Sha256,
}

/// What became of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Uploaded {
    /// Its bytes.
    pub bytes: u64,
    /// Their hash.
    pub sha256: String,
}

impl Write for Upload {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let runtime = self.runtime.clone();
        let written = runtime.block_on(async {
            self.upload.wait_for_capacity(PARTS).await?;
            self.upload.write(bytes);
            Ok(())
        });
        written.map_err(|error: object_store::Error| io::Error::other(why(&error)))?;
        self.bytes += bytes.len() as u64;
        self.hash.update(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Upload {
    /// Makes it a file.
    pub fn finish(self) -> Result<Uploaded, object_store::Error> {
        self.runtime.block_on(self.upload.finish())?;
        Ok(Uploaded { bytes: self.bytes, sha256: hex(self.hash) })
    }
}

/// Characters of a hash.
pub const HASH_DIGITS: usize = 64;

/// The hash of a file's bytes, as the log has it.
pub fn hash(bytes: &[u8]) -> String {
    let mut hash = Sha256::new();
    hash.update(bytes);
    hex(hash)
}

/// A hash as the log has it.
pub fn hex(hash: Sha256) -> String {
    hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::{MetadataExt, PermissionsExt};

    #[test]
    fn what_is_in_a_directory_is_its_owners_unless_that_is_shared_with_a_group() {
        let place = tempfile::tempdir().unwrap();
        let mode = |path: &str| fs::metadata(place.path().join(path)).unwrap().mode() & 0o7777;
        for (directory, made_with, folders, files) in [
            ("above/new", None, 0o700, 0o600),
            ("of_others", Some(0o755), 0o700, 0o600),
            ("to_read", Some(0o2750), 0o2750, 0o640),
            ("to_write", Some(0o2775), 0o2770, 0o660),
        ] {
            if let Some(mode) = made_with {
                fs::create_dir(place.path().join(directory)).unwrap();
                fs::set_permissions(place.path().join(directory), fs::Permissions::from_mode(mode)).unwrap();
            }
            let store = StoreLocation::at(&place.path().join(directory), true).unwrap();
            assert!(store.create("log/1.json", b"{}".to_vec()).unwrap());
            let mut upload = store.upload("exits/day/1.parquet").unwrap();
            upload.write_all(b"rows").unwrap();
            upload.finish().unwrap();
            assert_eq!(mode(directory), made_with.unwrap_or(folders), "{directory}");
            for (path, wanted) in [
                ("log", folders),
                ("exits", folders),
                ("exits/day", folders),
                ("log/1.json", files),
                ("exits/day/1.parquet", files),
            ] {
                assert_eq!(mode(&format!("{directory}/{path}")), wanted, "{directory}/{path}");
            }
        }
        assert_eq!(mode("above"), 0o700);
    }
}
