//! Puts the built front end (web/dist/page.html) into the crate, if it is there: `cargo build` alone still works.

use std::path::Path;
use std::{env, fs};

fn main() {
    // The folder is always there, so that cargo does not run this script at every build.
    let folder = Path::new("../../web/dist");
    println!("cargo:rerun-if-changed={}", folder.display());
    let template = fs::read_to_string(folder.join("page.html")).unwrap_or_default();
    let out = env::var("OUT_DIR").expect("cargo sets OUT_DIR");
    fs::write(Path::new(&out).join("page.html"), template).expect("OUT_DIR can be written to");
}
