//! The functions of a guest's kernel, by address.
//!
//! ```text
//! ffffffff81c2e1a0 t pv_native_safe_halt ─► 0xffffffff81c2e1ab is in pv_native_safe_halt
//! ```

use std::io::{self, BufRead, Read};

/// Bytes of a line at most.
const LINE: u64 = 4096;

/// How far the last function may reach.
const LAST: u64 = 4096;

/// Functions at most: a kernel with all its modules has some hundred thousand.
const MOST: usize = 1 << 22;

/// Functions by their first address.
#[derive(Clone, Debug, Default)]
pub struct GuestSymbols {
    /// Sorted by address, each address once.
    rows: Vec<(u64, Box<str>)>,
}

/// Why there are none.
#[derive(Debug, thiserror::Error)]
pub enum SymbolsError {
    /// It cannot be read.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// A line is not one of kallsyms.
    #[error("line {line} is not `address type name`, as lines of /proc/kallsyms are")]
    NotKallsyms {
        /// Which, from 1.
        line: u64,
    },
    /// There are more than any kernel has.
    #[error("more than {MOST} functions")]
    TooMany,
    /// Addresses are hidden from who read them.
    #[error("all addresses are zero: read /proc/kallsyms as root, in the guest")]
    Hidden,
    /// No function in it.
    #[error("no function in it")]
    Empty,
}

impl GuestSymbols {
    /// Reads what a guest's `/proc/kallsyms` holds.
    pub fn read(mut text: impl BufRead) -> Result<GuestSymbols, SymbolsError> {
        let mut rows: Vec<(u64, Box<str>)> = Vec::new();
        let (mut line, mut hidden, mut number) = (Vec::new(), false, 0);
        loop {
            line.clear();
            number += 1;
            if text.by_ref().take(LINE).read_until(b'\n', &mut line)? == 0 {
                break;
            }
            let words = std::str::from_utf8(&line).ok().map(|line| line.split_ascii_whitespace());
            let mut words = words.ok_or(SymbolsError::NotKallsyms { line: number })?;
            let [address, kind, name] = [words.next(), words.next(), words.next()];
            let address = address.and_then(|address| u64::from_str_radix(address, 16).ok());
            match (address, kind, name) {
                // Of text, weak or not.
                (Some(0), Some("t" | "T" | "w" | "W"), Some(_)) => hidden = true,
                (Some(_), Some("t" | "T" | "w" | "W"), Some(_)) if rows.len() >= MOST => {
                    return Err(SymbolsError::TooMany);
                }
                (Some(at), Some("t" | "T" | "w" | "W"), Some(name)) => rows.push((at, name.into())),
                (Some(_), Some(kind), Some(_)) if kind.len() == 1 => {}
                _ => return Err(SymbolsError::NotKallsyms { line: number }),
            }
        }
        // Of several names for an address the first stays.
        rows.sort_by_key(|row| row.0);
        rows.dedup_by_key(|row| row.0);
        match rows.is_empty() {
            false => Ok(GuestSymbols { rows }),
            true if hidden => Err(SymbolsError::Hidden),
            true => Err(SymbolsError::Empty),
        }
    }

    /// The function that holds this address: where it begins, and its name.
    pub fn function(&self, address: u64) -> Option<(u64, &str)> {
        let at = self.rows.partition_point(|row| row.0 <= address).checked_sub(1)?;
        let (start, name) = &self.rows[at];
        (at + 1 < self.rows.len() || address - start < LAST).then_some((*start, name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_of_the_function_before_it() {
        let text = "ffffffff81000000 T _stext\nffffffff81000000 t first\nffffffff81000040 t second\n\
            ffffffff81000080 D data\nffffffffc0000000 t of_a_module\t[kvm]\n";
        let symbols = GuestSymbols::read(text.as_bytes()).unwrap();
        let of = |address| symbols.function(address).map(|(start, name)| (start & 0xffff_ffff, name));
        assert_eq!(of(0xffff_ffff_8100_003f), Some((0x8100_0000, "_stext")));
        assert_eq!(of(0xffff_ffff_8100_0040), Some((0x8100_0040, "second")));
        assert_eq!(of(0xffff_ffff_c000_0fff), Some((0xc000_0000, "of_a_module")));
        assert_eq!([of(0xffff_ffff_c000_1000), of(0x40_1000), of(0)], [None; 3]);
    }

    #[test]
    fn what_is_no_kallsyms_is_told_from_one_that_hides_addresses() {
        let error = |text: &str| GuestSymbols::read(text.as_bytes()).unwrap_err().to_string();
        assert!(error("0000000000000000 T _stext\n0000000000000000 t first\n").contains("as root"));
        assert!(error("ffffffff81000000 D data\n").contains("no function"));
        assert!(error("ffffffff81000000 T _stext\n# tracer: nop\n").starts_with("line 2 is not"));
        assert!(error(&"f".repeat(10_000)).starts_with("line 1 is not"));
        assert!(GuestSymbols::read(&b"\xff\xfe T x\n"[..]).is_err());
        assert_eq!(error(&"1 t f\n".repeat(MOST + 1)), "more than 4194304 functions");
    }
}
