//! Where a store lies: a directory of this machine, or what else `object_store` knows.

use crate::StoreError;
use futures::TryStreamExt;
use object_store::local::LocalFileSystem;
use object_store::path::Path;
use object_store::{ObjectMeta, ObjectStore, ObjectStoreExt, PutMode, PutPayload, WriteMultipart};
use sha2::{Digest, Sha256};
use std::fmt;
use std::io::{self, Write};
use std::ops::Range;
use std::path;
use std::sync::Arc;
use tokio::runtime::{Builder, Runtime};

/// Parts of a file that are on their way at once.
const PARTS: usize = 4;

/// Files by their path below the store.
pub struct Place {
    name: String,
    url: String,
    prefix: Path,
    objects: Arc<dyn ObjectStore>,
    runtime: Arc<Runtime>,
}

impl fmt::Debug for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Place({})", self.name)
    }
}

impl Place {
    /// A directory, which is made if it is not there and `make`.
    pub fn directory(path: &std::path::Path, make: bool) -> Result<Place, StoreError> {
        let name = path.display().to_string();
        let wrong = |why: String| StoreError::Place { place: name.clone(), why };
        if make {
            std::fs::create_dir_all(path).map_err(|error| wrong(error.to_string()))?;
        }
        let prefix = Path::from_absolute_path(path::absolute(path)?).map_err(|error| wrong(error.to_string()))?;
        let objects = LocalFileSystem::new_with_prefix(path).map_err(|error| wrong(error.to_string()))?;
        let objects = Arc::new(objects);
        let runtime = Arc::new(Builder::new_current_thread().enable_all().build()?);
        Ok(Place { name, url: "file:///".to_string(), prefix, objects, runtime })
    }

    /// What it is called.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The address of what holds its files, and the path to them there.
    pub fn address(&self) -> (&str, &Path) {
        (&self.url, &self.prefix)
    }

    /// All files below a folder, with their sizes.
    pub fn list(&self, folder: &str) -> Result<Vec<ObjectMeta>, StoreError> {
        let at = Path::from(folder);
        let found = self.objects.list(Some(&at));
        self.runtime.block_on(found.try_collect()).map_err(self.failed("cannot list", folder))
    }

    /// Everything in a file.
    pub fn read(&self, path: &str) -> Result<Vec<u8>, StoreError> {
        let at = self.at(path)?;
        let read = async { self.objects.get(&at).await?.bytes().await };
        let bytes = self.runtime.block_on(read).map_err(self.failed("cannot read", path))?;
        Ok(bytes.to_vec())
    }

    /// Some bytes of a file.
    pub fn read_range(&self, path: &str, range: Range<u64>) -> Result<Vec<u8>, StoreError> {
        let at = self.at(path)?;
        let bytes =
            self.runtime.block_on(self.objects.get_range(&at, range)).map_err(self.failed("cannot read", path))?;
        Ok(bytes.to_vec())
    }

    /// Writes a file that is not there yet; whether it was not. It is there whole or not at all.
    pub fn create(&self, path: &str, bytes: Vec<u8>) -> Result<bool, StoreError> {
        let at = self.at(path)?;
        let put = self.objects.put_opts(&at, PutPayload::from(bytes), PutMode::Create.into());
        match self.runtime.block_on(put) {
            Ok(_) => Ok(true),
            Err(object_store::Error::AlreadyExists { .. }) => Ok(false),
            Err(error) => Err(self.failed("cannot write", path)(error)),
        }
    }

    /// Begins a file, which is there when it is [finished](Upload::finish).
    pub fn upload(&self, path: &str) -> Result<Upload, StoreError> {
        let at = self.at(path)?;
        let begun = self.runtime.block_on(self.objects.put_multipart(&at));
        let upload = WriteMultipart::new(begun.map_err(self.failed("cannot write", path))?);
        Ok(Upload { upload, runtime: self.runtime.clone(), bytes: 0, hash: Sha256::new() })
    }

    /// Removes a file; that it is not there is no error.
    pub fn remove(&self, path: &str) -> Result<(), StoreError> {
        let at = self.at(path)?;
        match self.runtime.block_on(self.objects.delete(&at)) {
            Ok(()) | Err(object_store::Error::NotFound { .. }) => Ok(()),
            Err(error) => Err(self.failed("cannot remove", path)(error)),
        }
    }

    fn at(&self, path: &str) -> Result<Path, StoreError> {
        Path::parse(path).map_err(|error| StoreError::Place { place: path.to_string(), why: error.to_string() })
    }

    fn failed(&self, what: &'static str, path: &str) -> impl FnOnce(object_store::Error) -> StoreError {
        let what = format!("{what} {}/{path}", self.name);
        |source| StoreError::Object { what, source }
    }
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
        runtime.block_on(async {
            self.upload.wait_for_capacity(PARTS).await?;
            self.upload.write(bytes);
            Ok::<_, object_store::Error>(())
        })?;
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

/// The hash of a file's bytes, as the log has it.
pub fn hash(bytes: &[u8]) -> String {
    let mut hash = Sha256::new();
    hash.update(bytes);
    hex(hash)
}

fn hex(hash: Sha256) -> String {
    hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect()
}
