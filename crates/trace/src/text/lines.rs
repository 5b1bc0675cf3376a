//! A file as lines, one at a time. However long a line is, memory stays bounded.

use crate::{Input, TraceError};
use std::io::BufRead;

/// Longer lines are passed over, in bytes. The kernel's own limit for one line is 8 KiB.
pub(super) const MAX_LINE: usize = 64 * 1024;

/// Bytes read at a time.
const CHUNK: usize = 256 * 1024;

/// The next line of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NextLine<'a> {
    /// Its bytes, without the line end.
    Line(&'a [u8]),
    /// It was longer than [`MAX_LINE`].
    TooLong,
    /// There is none.
    End,
}

/// Hands out a file's lines.
#[derive(Debug)]
pub(crate) struct Lines {
    /// Where they come from.
    pub input: Input,
    /// How many lines were handed out: the number of the last one, counted from 1.
    pub number: u64,
    /// Bytes of a last line that has no line end: the file was cut there. Programs end every line.
    pub unended: u64,
    buffer: Vec<u8>,
    /// What is read and not yet handed out: `buffer[start..end]`.
    start: usize,
    end: usize,
    /// Up to where the file is read.
    offset: u64,
    /// The beginning of the current line was thrown away, because the line is too long.
    skipping: bool,
}

impl Lines {
    /// The lines of `input`.
    pub fn new(input: Input) -> Lines {
        Lines { input, number: 0, unended: 0, buffer: vec![0; CHUNK], start: 0, end: 0, offset: 0, skipping: false }
    }

    /// Bytes of the file handed out so far.
    pub fn done(&self) -> u64 {
        self.offset - (self.end - self.start) as u64
    }

    /// The next line.
    pub fn next_line(&mut self) -> Result<NextLine<'_>, TraceError> {
        let (from, to) = loop {
            let mut unread = &self.buffer[self.start..self.end];
            let held = unread.len();
            // The standard library's byte search is the fastest there is without a crate.
            let passed = unread.skip_until(b'\n').unwrap_or(0);
            let from = self.start;
            if passed > 0 && self.buffer[from + passed - 1] == b'\n' {
                self.start += passed;
                break (from, from + passed - 1);
            }
            if held > MAX_LINE {
                self.skipping = true;
                self.start = self.end;
            }
            self.buffer.copy_within(self.start..self.end, 0);
            self.end -= self.start;
            self.start = 0;
            let got = self.input.read_up_to(self.offset, &mut self.buffer[self.end..])?;
            self.offset += got as u64;
            self.end += got;
            if got == 0 {
                if self.end == 0 && !self.skipping {
                    return Ok(NextLine::End);
                }
                self.unended = self.end as u64;
                self.start = self.end;
                break (0, self.end);
            }
        };
        self.number += 1;
        if std::mem::take(&mut self.skipping) || to - from > MAX_LINE {
            return Ok(NextLine::TooLong);
        }
        let line = &self.buffer[from..to];
        Ok(NextLine::Line(line.strip_suffix(b"\r").unwrap_or(line)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lengths(bytes: &[u8]) -> Vec<Option<usize>> {
        let mut lines = Lines::new(Input::from_bytes("lines", bytes).unwrap());
        let mut lengths = Vec::new();
        loop {
            match lines.next_line().unwrap() {
                NextLine::Line(line) => lengths.push(Some(line.len())),
                NextLine::TooLong => lengths.push(None),
                NextLine::End => break,
            }
        }
        assert_eq!((lines.number, lines.done()), (lengths.len() as u64, bytes.len() as u64));
        lengths
    }

    #[test]
    fn lines_end_with_lf_or_crlf_or_the_file() {
        assert_eq!(lengths(b"ab\ncd\r\n\n\r\ne"), [Some(2), Some(2), Some(0), Some(0), Some(1)]);
        assert_eq!(lengths(b"\n"), [Some(0)]);
        assert_eq!(lengths(b"x"), [Some(1)]);
    }

    #[test]
    fn long_lines_are_passed_over_wherever_they_lie() {
        for long in [MAX_LINE + 1, CHUNK - 1, CHUNK, CHUNK + 1, 3 * CHUNK + 7] {
            let mut bytes = b"first\n".to_vec();
            bytes.resize(bytes.len() + long, b'x');
            assert_eq!(lengths(&bytes), [Some(5), None], "{long}");
            bytes.extend(b"\nlast");
            assert_eq!(lengths(&bytes), [Some(5), None, Some(4)], "{long}");
        }
        let longest = vec![b'y'; MAX_LINE];
        assert_eq!(lengths(&longest), [Some(MAX_LINE)]);
    }

    #[test]
    fn lines_that_cross_chunks_are_whole() {
        let line = [b'z'; 1000];
        let mut bytes = Vec::new();
        for _ in 0..1000 {
            bytes.extend(line);
            bytes.push(b'\n');
        }
        assert!(lengths(&bytes).iter().all(|&length| length == Some(1000)));
    }
}
