//! Damaged recordings, and what must hold of them all the way: bytes in, report, page, events and advice out.
//!
//! ```text
//! damage: real traces ─► damaged inputs, each a function of seed and number ─┐
//! libFuzzer (src/bin/guided.rs): inputs that reach what none did ────────────┼─► Oracle::check
//! corpus/found/, fuzz/corpus/: what failed once, and what reached something ─┘
//! ```
//!
//! `cargo xtask fuzz` runs all of it; src/main.rs is what it runs. `cargo xtask metamorphic` holds accounts of real traces against those of
//! the same traces with less in them: metamorphic.rs.

pub mod damage;
pub mod metamorphic;
pub mod oracle;

use std::path::Path;

/// The repository's top directory.
pub fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("fuzz is a directory of the repository")
}
