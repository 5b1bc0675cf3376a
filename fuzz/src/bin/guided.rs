//! Has libFuzzer make inputs out of those that reached what no other did; the oracle judges each.
#![no_main]

use exitscope_fuzz::damage::{is_text, reordered};
use exitscope_fuzz::oracle::Oracle;
use libfuzzer_sys::{fuzz_mutator, fuzz_target, fuzzer_mutate};
use std::cell::OnceCell;

thread_local!(static ORACLE: OnceCell<Oracle> = const { OnceCell::new() });

fuzz_target!(|bytes: &[u8]| {
    ORACLE.with(|oracle| {
        let oracle = oracle.get_or_init(|| Oracle::new().expect("a place for inputs"));
        if let Err(broken) = oracle.check(bytes) {
            panic!("{broken}");
        }
    });
});

// libFuzzer changes bytes, after which a line of text is seldom an event any more.
fuzz_mutator!(|bytes: &mut [u8], len: usize, most: usize, seed: u32| {
    let changed = match is_text(&bytes[..len]) && seed.is_multiple_of(2) {
        true => reordered(&bytes[..len], seed.into()),
        false => Vec::new(),
    };
    match changed.is_empty() || changed.len() > most {
        true => fuzzer_mutate(bytes, len, most),
        false => {
            bytes[..changed.len()].copy_from_slice(&changed);
            changed.len()
        }
    }
});
