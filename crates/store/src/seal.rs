//! The seal of an entry of the log: a hash of its bytes, written before them.
//!
//! ```text
//! {"sha256":"9f86d0…","schema":"exitscope.store/1",…}     the hash of {"schema":"exitscope.store/1",…}
//! {"schema":"exitscope.store/1",…}                        an entry of before there were seals
//! ```
//!
//! The two beginnings differ in many bits, so that no flipped bit makes a sealed entry pass for one without a seal. To JSON,
//! the seal is a field like others.

use crate::location::{HASH_DIGITS, hash};

const BEFORE_HASH: &[u8] = br#"{"sha256":""#;
const AFTER_HASH: &[u8] = br#"","#;
const WITHOUT_SEAL: &[u8] = br#"{"schema":"#;

/// Whether an entry that is as it was written has a seal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seal {
    Intact,
    /// What the entry says cannot be checked.
    None,
}

/// An entry with its seal.
pub fn sealed(entry: &[u8]) -> Vec<u8> {
    let fields = entry.strip_prefix(b"{").unwrap_or(entry);
    [BEFORE_HASH, hash(entry).as_bytes(), AFTER_HASH, fields].concat()
}

/// The seal of an entry; an error says why the entry is not as it was written.
pub fn check(bytes: &[u8]) -> Result<Seal, &'static str> {
    let Some(rest) = bytes.strip_prefix(BEFORE_HASH) else {
        let is_old = bytes.starts_with(WITHOUT_SEAL);
        return if is_old { Ok(Seal::None) } else { Err("it does not begin as an entry does") };
    };
    let changed = "its bytes are not those that were written";
    let (digits, rest) = rest.split_at_checked(HASH_DIGITS).ok_or(changed)?;
    let fields = rest.strip_prefix(AFTER_HASH).ok_or(changed)?;
    let is_same = hash(&[b"{", fields].concat()).as_bytes() == digits;
    if is_same { Ok(Seal::Intact) } else { Err(changed) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_flipped_bit_leaves_a_sealed_entry_intact_or_without_a_seal() {
        let entry = sealed(br#"{"schema":"exitscope.store/1","what":"add"}"#);
        assert_eq!(check(&entry), Ok(Seal::Intact));
        for bit in 0..entry.len() * 8 {
            let mut flipped = entry.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert!(check(&flipped).is_err(), "bit {bit}");
        }
        for cut in 0..entry.len() {
            assert!(check(&entry[..cut]).is_err(), "the first {cut} bytes");
        }
    }
}
