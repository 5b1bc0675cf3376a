//! Real traces, and the damage done to them.

use crate::root;
use anyhow::Context;
use exitscope_trace::Input;
use exitscope_trace::counts::is_counts;
use flate2::read::MultiGzDecoder;
use rand::Rng;
use rand_pcg::Pcg64;
use std::fs;
use std::io::Read;
use std::path::Path;

/// What is small enough to be the usual input, in bytes.
const SMALL: usize = 1 << 20;
/// Larger traces are used now and then: those that keep what is needed to read them at their end.
const LARGE: usize = 10 << 20;
/// One run in so many damages a large trace.
const LARGE_ONE_IN: u32 = 24;
/// A packed file of at most this size is also damaged as it is.
const PACKED: usize = 16 << 10;
/// The longest piece that is copied or cut out.
const PIECE: usize = 8 << 10;
/// Where formats have their headers and tables.
const EDGE: usize = 2 << 10;

/// A reader of exitscope-trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Reader {
    /// perf.data
    Perf,
    /// trace.dat
    Tracedat,
    /// xentrace logs
    Xentrace,
    /// Text traces
    Text,
    /// Texts of counts: tables of other tools
    Counts,
}

impl Reader {
    fn of(trace: &[u8]) -> Reader {
        let is_counts = || Input::from_bytes("original", trace).and_then(|input| is_counts(&input));
        if trace.starts_with(b"PERFILE2") {
            Reader::Perf
        } else if trace.starts_with(b"\x17\x08\x44tracing") {
            Reader::Tracedat
        } else if trace.starts_with(b"\x03\xf0\x01\x20") {
            Reader::Xentrace
        } else if is_counts().unwrap_or(false) {
            Reader::Counts
        } else {
            Reader::Text
        }
    }
}

/// A trace, not yet damaged.
pub struct Original {
    /// Its path in the repository.
    pub name: String,
    /// Who reads it.
    pub reader: Reader,
    bytes: Vec<u8>,
}

/// The traces of the corpus and of the readers' tests, unpacked; of those that can be read without their end, the beginning.
pub fn originals(only: Option<Reader>) -> anyhow::Result<Vec<Original>> {
    let mut originals = Vec::new();
    let mut directories = vec![root().join("corpus"), root().join("crates/trace/tests/fixtures")];
    while let Some(directory) = directories.pop() {
        let entries = fs::read_dir(&directory).with_context(|| directory.display().to_string())?;
        for entry in entries {
            let path = entry?.path();
            if path.is_dir() && !path.ends_with("found") {
                directories.push(path);
            } else if path.extension().is_some_and(|extension| extension == "gz") {
                add(&path, only, &mut originals)?;
            } else {
                add_counts(&path, only, &mut originals)?;
            }
        }
    }
    originals.sort_by(|a: &Original, b| a.name.cmp(&b.name));
    Ok(originals)
}

fn add(path: &Path, only: Option<Reader>, originals: &mut Vec<Original>) -> anyhow::Result<()> {
    let packed = fs::read(path)?;
    let mut bytes = Vec::new();
    MultiGzDecoder::new(packed.as_slice()).read_to_end(&mut bytes)?;
    let reader = Reader::of(&bytes);
    if only.is_some_and(|only| only != reader) {
        return Ok(());
    }
    // In pipe layout (a header of 16 bytes) and in text, all that is needed comes first.
    if reader == Reader::Text || bytes.get(8..16) == Some(&16u64.to_le_bytes()) {
        bytes.truncate(SMALL / 4);
    }
    let name = path.strip_prefix(root()).unwrap_or(path).display().to_string();
    if packed.len() <= PACKED {
        originals.push(Original { name: format!("{name}, packed"), reader, bytes: packed });
    }
    if bytes.len() <= LARGE {
        originals.push(Original { name, reader, bytes });
    }
    Ok(())
}

/// Adds a text of counts; what other tools print of the corpus lies there beside the traces.
fn add_counts(path: &Path, only: Option<Reader>, originals: &mut Vec<Original>) -> anyhow::Result<()> {
    let is_text = path.extension().is_some_and(|extension| extension == "txt" || extension == "json");
    if !is_text || only.is_some_and(|only| only != Reader::Counts) {
        return Ok(());
    }
    let bytes = fs::read(path)?;
    if Reader::of(&bytes) == Reader::Counts {
        let name = path.strip_prefix(root()).unwrap_or(path).display().to_string();
        originals.push(Original { name, reader: Reader::Counts, bytes });
    }
    Ok(())
}

/// The damaged input number `run`, and the name of what was damaged.
pub fn damaged(originals: &[Original], seed: u64, run: u64) -> (String, Vec<u8>) {
    let mut rng = Pcg64::new(u128::from(seed), u128::from(run));
    let large = rng.random_ratio(1, LARGE_ONE_IN);
    let fitting: Vec<&Original> = originals.iter().filter(|one| (one.bytes.len() > SMALL) == large).collect();
    let fitting = if fitting.is_empty() { originals.iter().collect() } else { fitting };
    let original = fitting[rng.random_range(0..fitting.len())];
    let kin: Vec<&Original> = fitting.iter().copied().filter(|one| one.reader == original.reader).collect();
    let donor = kin[rng.random_range(0..kin.len())];
    let mut bytes = original.bytes.clone();
    for _ in 0..1 << rng.random_range(0..4) {
        damage(&mut rng, &mut bytes, &donor.bytes);
    }
    (original.name.clone(), bytes)
}

fn damage(rng: &mut Pcg64, bytes: &mut Vec<u8>, donor: &[u8]) {
    if bytes.is_empty() {
        return;
    }
    let at = place(rng, bytes.len());
    let piece = |rng: &mut Pcg64, from: &[u8]| {
        let start = place(rng, from.len());
        let len = rng.random_range(1..=PIECE).min(from.len() - start);
        start..start + len
    };
    // What moves everything behind it makes most offsets wrong at once, so it is rare.
    match rng.random_range(0..32) {
        0 => bytes.truncate(at),
        1..=8 => bytes[at] ^= 1 << rng.random_range(0..8),
        9..=11 => bytes[at] = rng.random(),
        12..=25 => set_number(rng, bytes, at),
        26..=28 => {
            // Write a piece of another trace over this one.
            let from = &donor[piece(rng, donor)];
            let len = from.len().min(bytes.len() - at);
            bytes[at..at + len].copy_from_slice(&from[..len]);
        }
        29 => {
            let from = donor[piece(rng, donor)].to_vec();
            bytes.splice(at..at, from);
        }
        30 => {
            let again = bytes[piece(rng, bytes)].to_vec();
            bytes.splice(at..at, again);
        }
        _ => {
            let gone = piece(rng, bytes);
            bytes.drain(gone);
        }
    }
}

/// Whether an input has lines, whose order [`reordered`] can change.
pub fn is_text(bytes: &[u8]) -> bool {
    Reader::of(bytes) == Reader::Text && bytes.is_ascii()
}

/// A text trace in which events come in another order, again or not at all, or at other moments: each line is still one
/// that a recorder could have written.
pub fn reordered(text: &[u8], seed: u64) -> Vec<u8> {
    let mut rng = Pcg64::new(u128::from(seed), 0);
    let mut lines: Vec<Vec<u8>> = text.split_inclusive(|&byte| byte == b'\n').map(<[u8]>::to_vec).collect();
    for _ in 0..1 << rng.random_range(0..4) {
        if lines.is_empty() {
            break;
        }
        let [from, to] = [0; 2].map(|_| rng.random_range(0..lines.len()));
        match rng.random_range(0..5) {
            0 => lines.swap(from, to),
            1 => lines.insert(to, lines[from].clone()),
            2 => drop(lines.remove(from)),
            3 => {
                let line = lines.remove(from);
                lines.insert(to.min(lines.len()), line);
            }
            _ => {
                // Another number: a moment, a vCPU, a thread, a code.
                let digits: Vec<usize> =
                    (0..lines[from].len()).filter(|&at| lines[from][at].is_ascii_digit()).collect();
                if !digits.is_empty() {
                    lines[from][digits[rng.random_range(0..digits.len())]] = rng.random_range(b'0'..=b'9');
                }
            }
        }
    }
    lines.concat()
}

/// An offset below `len`, more often than by chance near the beginning or the end, and often aligned.
fn place(rng: &mut Pcg64, len: usize) -> usize {
    let near = EDGE.min(len);
    let at = match rng.random_range(0..4) {
        0 => rng.random_range(0..near),
        1 => len - 1 - rng.random_range(0..near),
        _ => rng.random_range(0..len),
    };
    if rng.random_ratio(1, 2) { at & !7 } else { at }
}

/// Puts a number that sizes, offsets and counts do not expect at `at`.
fn set_number(rng: &mut Pcg64, bytes: &mut [u8], at: usize) {
    let width = [2, 4, 8][rng.random_range(0..3)];
    let file_len = bytes.len() as u64;
    let Some(place) = bytes.get_mut(at..at + width) else { return };
    let mut old = [0; 8];
    old[..width].copy_from_slice(place);
    let old = u64::from_le_bytes(old);
    let new = match rng.random_range(0..9) {
        0 => 0,
        1 => u64::MAX,
        2 => u64::MAX >> 1,
        3 => old.wrapping_add(1),
        4 => old.wrapping_sub(1),
        5 => 1 << rng.random_range(0..64),
        6 => file_len.wrapping_sub(at as u64),
        7 => old.wrapping_mul(2),
        _ => rng.random_range(0..=file_len),
    };
    place.copy_from_slice(&new.to_le_bytes()[..width]);
    if rng.random_ratio(1, 8) {
        place.reverse();
    }
}
