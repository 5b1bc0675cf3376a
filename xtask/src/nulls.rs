//! How often `exitscope diff` finds a change where there is none, by a pool of real recordings of unchanged guests.
//!
//! ```text
//! corpus/nulls/record.sh: exitscope lab run, again and again ─► GUEST-LOAD-NUMBER.data.zst
//! crates/pipeline/tests/nulls.rs: neighbours in the pool as two sides, 200 times ─► rows of docs/nulls.md
//! crates/trial/tests/planted.rs: trials of series that are made up ─► a table of docs/try.md
//! ```

use crate::cargo;
use anyhow::ensure;

/// The test that counts the nulls of `diff`, and the one of `try`.
const DIFF: [&str; 4] = ["--package", "exitscope-pipeline", "--test", "nulls"];
const TRY: [&str; 5] = ["--package", "exitscope-trial", "--test", "planted", "the_docs_tell"];

/// Compares recordings, and writes docs/nulls.md; or runs trials, and writes their table in docs/try.md.
pub fn run(of_try: bool) -> anyhow::Result<()> {
    let mut test = cargo()?;
    test.args(["test", "--quiet"]).args(if of_try { &TRY[..] } else { &DIFF[..] }).args(["--", "--nocapture"]);
    ensure!(test.env("EXITSCOPE_WRITE_DOCUMENTS", "1").status()?.success(), "{test:?} failed");
    Ok(())
}
