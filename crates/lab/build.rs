//! Builds the guest's payload: a bare static program, in a workspace of its own, for the target that the lab is built for.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

fn main() {
    let here = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets it"));
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets it"));
    for input in [
        "guest/src",
        "guest/Cargo.toml",
        "guest/Cargo.lock",
        "guest/link.ld",
        "src/abi.rs",
        "../policy/src",
        "../units/src",
    ] {
        println!("cargo::rerun-if-changed={}", here.join(input).display());
    }
    let is = |key, value| env::var(key).is_ok_and(|found| found == value);
    if !is("CARGO_CFG_TARGET_OS", "linux") || !is("CARGO_CFG_TARGET_ARCH", "x86_64") {
        return;
    }
    let target = env::var("TARGET").expect("cargo sets it");
    build(&here.join("guest"), &out, &target);
    let built = out.join("guest").join(&target).join("release/exitscope-lab-guest");
    std::fs::copy(&built, out.join("guest.elf")).unwrap_or_else(|error| panic!("{}: {error}", built.display()));
}

fn build(guest: &Path, out: &Path, target: &str) {
    let script = format!("-Clink-arg=-Wl,-T,{}", guest.join("link.ld").display());
    let mut cargo = Command::new(env::var_os("CARGO").expect("cargo sets it"));
    cargo
        .current_dir(guest)
        .args(["rustc", "--quiet", "--release", "--locked", "--offline", "--target", target, "--target-dir"])
        .arg(out.join("guest"))
        .args(["--", "-Crelocation-model=static", "-Clink-arg=-nostartfiles", "-Clink-arg=-nostdlib"])
        .args(["-Clink-arg=-static", "-Clink-arg=-Wl,--build-id=none", &script]);
    // Flags and wrappers (clippy's, coverage's) of the outer build are not for a program without an operating system.
    for key in ["RUSTFLAGS", "CARGO_ENCODED_RUSTFLAGS", "RUSTC_WRAPPER", "RUSTC_WORKSPACE_WRAPPER", "CARGO_TARGET_DIR"]
    {
        cargo.env_remove(key);
    }
    for (key, _) in env::vars_os() {
        let key = key.to_string_lossy();
        if key.starts_with("CARGO_PROFILE_") || key.starts_with("CARGO_BUILD_") || key.starts_with("CARGO_TARGET_X86") {
            cargo.env_remove(&*key);
        }
    }
    let status = cargo.status().unwrap_or_else(|error| panic!("cannot run cargo for the guest's payload: {error}"));
    assert!(status.success(), "the guest's payload does not build");
}
