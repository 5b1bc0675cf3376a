//! How often `exitscope diff` finds a change where there is none, by a pool of real recordings of unchanged guests.
//!
//! ```text
//! corpus/nulls/record.sh: exitscope lab run, again and again ─► GUEST-LOAD-NUMBER.data.zst
//! crates/pipeline/tests/nulls.rs: neighbours in the pool as two sides, 200 times ─► rows of docs/nulls.md
//! ```

use crate::cargo;
use anyhow::ensure;

/// Compares, and writes docs/nulls.md.
pub fn run() -> anyhow::Result<()> {
    let mut test = cargo()?;
    test.args(["test", "--quiet", "--package", "exitscope-pipeline", "--test", "nulls", "--", "--nocapture"]);
    ensure!(test.env("EXITSCOPE_WRITE_DOCUMENTS", "1").status()?.success(), "{test:?} failed");
    Ok(())
}
