//! A trace's bytes, wherever they come from: a file, standard input, or either of them compressed.
//!
//! Everything becomes a file that can be read at any offset. Compressed inputs and pipes are unpacked into an unnamed
//! temporary file first, so that memory stays bounded whatever comes.

use crate::TraceError;
use crate::source::{HEAD, check_head};
use liblzma::read::XzDecoder;
use liblzma::stream::{CONCATENATED, Stream};
use std::cell::Cell;
use std::env;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// The most that a compressed input or a pipe may unpack to, in bytes (64 GiB).
pub const MAX_UNPACKED: u64 = 64 << 30;

/// The most that what is packed may grow to, as a multiple of its size. Traces grow ten- to some hundredfold.
const MAX_RATIO: u64 = 1_000;

/// How many bytes are written between two looks at that, and at the room that is left.
const LOOK: u64 = 32 << 20;

/// What stays free of the file system for temporary files: so many bytes, or one part in so many where that is less.
const MIN_ROOM: u64 = 1 << 30;
const MIN_PART: u64 = 20;

/// The most memory that unpacking xz may take, in bytes. `xz -9` asks for 65 MiB; what a file may ask for is 4 GiB.
const MAX_DICTIONARY: u64 = 256 << 20;

/// A trace's bytes.
#[derive(Debug)]
pub struct Input {
    file: File,
    len: u64,
    name: String,
    path: Option<PathBuf>,
    cut: Option<String>,
}

impl Input {
    /// Opens `path` (`-` is standard input), and unpacks it if its first bytes are those of gzip, zstd or xz.
    pub fn open(path: &Path) -> Result<Input, TraceError> {
        if path.as_os_str() == "-" {
            return Input::spool(io::stdin().lock(), "standard input".to_string());
        }
        let file = File::open(path);
        Input::of_file(file.map_err(|source| TraceError::Io { name: path.display().to_string(), source })?, path)
    }

    /// The same of a file that has been opened; `path` is how it is called, and beside what a file would lie that says more.
    pub fn of_file(mut file: File, path: &Path) -> Result<Input, TraceError> {
        let name = path.display().to_string();
        let io_error = |source| TraceError::Io { name: name.clone(), source };
        let meta = file.metadata().map_err(io_error)?;
        if meta.is_dir() {
            return Err(TraceError::Directory { name });
        }
        let mut magic = [0u8; 6];
        let spool = |file| Ok(Input { path: Some(path.to_path_buf()), ..Input::spool(file, name.clone())? });
        if !meta.is_file() {
            return spool(file);
        }
        let got = read_full(&mut file, &mut magic).map_err(io_error)?;
        file.seek(SeekFrom::Start(0)).map_err(io_error)?;
        if packing(&magic[..got]).is_some() {
            return spool(file);
        }
        Ok(Input { file, len: meta.len(), name, path: Some(path.to_path_buf()), cut: None })
    }

    /// The bytes `bytes` as an input, for tests and for traces made in memory.
    pub fn from_bytes(name: &str, bytes: &[u8]) -> Result<Input, TraceError> {
        Input::spool(bytes, name.to_string())
    }

    /// The same bytes once more, for a second reading.
    pub fn try_clone(&self) -> Result<Input, TraceError> {
        let file = self.file.try_clone().map_err(|source| TraceError::Io { name: self.name.clone(), source })?;
        Ok(Input { file, len: self.len, name: self.name.clone(), path: self.path.clone(), cut: self.cut.clone() })
    }

    /// How the input is called in messages.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Where a file would lie that says more about this one: its name, without the ending of a packed file, and
    /// `ending`. None for what is no file.
    pub fn sidecar_path(&self, ending: &str) -> Option<PathBuf> {
        let mut path = self.path.clone()?;
        if path.extension().is_some_and(|packed| packed == "gz" || packed == "zst" || packed == "xz") {
            path.set_extension("");
        }
        path.as_mut_os_string().push(ending);
        Some(path)
    }

    /// Length in bytes, unpacked.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Whether there are no bytes.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// If unpacking stopped before the end of a damaged compressed stream: why.
    pub fn truncation(&self) -> Option<&str> {
        self.cut.as_deref()
    }

    /// Reads at `offset` until `buffer` is full or the input ends; returns how many bytes were read.
    pub fn read_up_to(&self, offset: u64, buffer: &mut [u8]) -> Result<usize, TraceError> {
        let mut done = 0;
        while done < buffer.len() {
            match self.file.read_at(&mut buffer[done..], offset + done as u64) {
                Ok(0) => break,
                Ok(got) => done += got,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(source) => return Err(TraceError::Io { name: self.name.clone(), source }),
            }
        }
        Ok(done)
    }

    /// The bytes from `offset`, at most `len` and at most what the file has: never more memory than the file is long.
    pub fn read_vec(&self, offset: u64, len: u64) -> Result<Vec<u8>, TraceError> {
        let there = self.len.saturating_sub(offset).min(len);
        let mut buffer = vec![0; there as usize];
        let got = self.read_up_to(offset, &mut buffer)?;
        buffer.truncate(got);
        Ok(buffer)
    }

    fn spool(mut from: impl Read, name: String) -> Result<Input, TraceError> {
        let io_error = |source| TraceError::Io { name: name.clone(), source };
        let mut magic = [0u8; 6];
        let got = read_full(&mut from, &mut magic).map_err(io_error)?;
        let whole = io::Cursor::new(magic[..got].to_vec()).chain(from);
        let no_folder = |source| TraceError::NoFolder { name: name.clone(), folder: env::temp_dir(), source };
        let mut to = tempfile::tempfile().map_err(no_folder)?;
        let packed = Cell::new(0);
        let whole = Counted { from: whole, read: &packed };
        let packing = packing(&magic[..got]);
        let mut unpacked: Box<dyn Read> = match packing {
            None => Box::new(whole),
            Some(Packing::Gzip) => Box::new(flate2::read::MultiGzDecoder::new(whole)),
            Some(Packing::Zstd) => Box::new(zstd::Decoder::new(whole).map_err(io_error)?),
            Some(Packing::Xz) => {
                let stream = Stream::new_stream_decoder(MAX_DICTIONARY, CONCATENATED);
                Box::new(XzDecoder::new_stream(whole, stream.map_err(|error| io_error(error.into()))?))
            }
        };
        let (len, cut) = spool_bounded(&mut unpacked, packing.map(|_| &packed), &mut to, &name)?;
        Ok(Input { file: to, len, name, path: None, cut })
    }
}

#[derive(Clone, Copy)]
enum Packing {
    Gzip,
    Zstd,
    Xz,
}

fn packing(magic: &[u8]) -> Option<Packing> {
    match magic {
        [0x1f, 0x8b, ..] => Some(Packing::Gzip),
        [0x28, 0xb5, 0x2f, 0xfd, ..] => Some(Packing::Zstd),
        [0xfd, b'7', b'z', b'X', b'Z', 0] => Some(Packing::Xz),
        _ => None,
    }
}

fn read_full(from: &mut impl Read, buffer: &mut [u8]) -> io::Result<usize> {
    let mut done = 0;
    while done < buffer.len() {
        match from.read(&mut buffer[done..]) {
            Ok(0) => break,
            Ok(got) => done += got,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(done)
}

/// Counts the bytes that are taken.
struct Counted<'a, R> {
    from: R,
    read: &'a Cell<u64>,
}

impl<R: Read> Read for Counted<'_, R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let got = self.from.read(buffer)?;
        self.read.set(self.read.get() + got as u64);
        Ok(got)
    }
}

/// Puts what can be read, or unpacked, into a file. A damaged stream gives what came before the damage, and why it stopped. Of
/// what is packed, `packed` are the bytes that were taken so far; its first bytes are looked at before the rest is unpacked.
fn spool_bounded(
    from: &mut dyn Read,
    packed: Option<&Cell<u64>>,
    to: &mut File,
    name: &str,
) -> Result<(u64, Option<String>), TraceError> {
    let io_error = |source| TraceError::Io { name: name.to_string(), source };
    let problem = |problem| TraceError::Unpack { name: name.to_string(), problem };
    let mut buffer = vec![0; 1 << 16];
    let mut head = Vec::new();
    let (mut len, mut looked) = (0, 0);
    let cut = loop {
        let got = match from.read(&mut buffer) {
            Ok(0) => break None,
            Ok(got) => got,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) if packed.is_none() => return Err(io_error(error)),
            Err(error) if len == 0 => return Err(problem(error.to_string())),
            Err(error) => break Some(error.to_string()),
        };
        if packed.is_some() && head.len() < HEAD {
            head.extend(&buffer[..got.min(HEAD - head.len())]);
            if head.len() == HEAD {
                check_head(&head, name)?;
            }
        }
        len += got as u64;
        if len > MAX_UNPACKED {
            return Err(problem(format!("it is more than {} GiB unpacked", MAX_UNPACKED >> 30)));
        }
        if len - looked > LOOK {
            looked = len;
            check_room(to).map_err(problem)?;
            if packed.is_some_and(|packed| len / MAX_RATIO > packed.get()) {
                return Err(problem(format!(
                    "it unpacks to more than {MAX_RATIO} times its size, as no trace does; if it is one, unpack it first"
                )));
            }
        }
        to.write_all(&buffer[..got]).map_err(io_error)?;
    };
    if packed.is_some() && !head.is_empty() && head.len() < HEAD {
        check_head(&head, name)?;
    }
    Ok((len, cut))
}

/// Fails if there is little room left where the file is.
fn check_room(file: &File) -> Result<(), String> {
    let about = rustix::fs::fstatvfs(file).map_err(|error| error.to_string())?;
    match has_room(about.f_bavail.saturating_mul(about.f_frsize), about.f_blocks.saturating_mul(about.f_frsize)) {
        true => Ok(()),
        false => Err("the file system for temporary files is nearly full; TMPDIR names another place".to_string()),
    }
}

/// Whether a file may grow where so many bytes are free of so many.
fn has_room(free: u64, all: u64) -> bool {
    free >= MIN_ROOM.min(all / MIN_PART)
}

#[cfg(test)]
mod tests {
    use super::has_room;

    /// A large file system is not full at 95 %, and a small one does not need a GiB.
    #[test]
    fn room_is_a_gib_or_a_twentieth() {
        assert!(has_room(12 << 30, 252 << 30));
        assert!(!has_room(1 << 29, 252 << 30));
        assert!(has_room(600 << 20, 10 << 30));
        assert!(!has_room(400 << 20, 10 << 30));
    }
}
