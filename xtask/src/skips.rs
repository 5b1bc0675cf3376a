//! Which tests were skipped, by the part of the machine that they lack, and whether the machine lacks it: that is found here by other
//! means than the tests'.

use crate::root;
use anyhow::{Context, ensure};
use exitscope_skips::{Part, SkipLine};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::path::Path;
use std::process::{Command, Stdio};

/// Numbers of capabilities, include/uapi/linux/capability.h.
const CAP_CHOWN: u32 = 0;
const CAP_SYS_ADMIN: u32 = 21;
const CAP_PERFMON: u32 = 38;
const CAP_BPF: u32 = 39;

/// Where tracefs is mounted.
const TRACEFS: [&str; 2] = ["/sys/kernel/tracing", "/sys/kernel/debug/tracing"];

/// Parameters of modules that tests write, by the part that stands for them.
const KVM_PARAMETERS: [&str; 2] = [
    "/sys/module/kvm/parameters/halt_poll_ns_grow_start",
    "/sys/module/haltpoll/parameters/guest_halt_poll_grow_start",
];
const KSM: &str = "/sys/kernel/mm/ksm/pages_to_scan";

/// Prints the skips that a file lists.
///
/// # Errors
///
/// If a line is of no known form, or a test was skipped for a part that is there.
pub fn judge(file: &Path) -> anyhow::Result<()> {
    let text = match fs::read_to_string(file) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
        text => text.with_context(|| file.display().to_string())?,
    };
    let (table, wrong) = table(&text, has);
    eprint!("{table}");
    ensure!(wrong.is_empty(), "skips:\n{}", wrong.join("\n"));
    Ok(())
}

/// A row for each part that is missing, and what is wrong.
fn table(text: &str, has: impl Fn(Part) -> bool) -> (String, Vec<String>) {
    // A test that runs several times, as under the sanitizer, is one.
    let lines: BTreeSet<&str> = text.lines().collect();
    let mut parts: BTreeMap<Part, Vec<SkipLine>> = BTreeMap::new();
    let mut wrong = Vec::new();
    for line in lines {
        match SkipLine::parse(line) {
            Some(skip) => parts.entry(skip.part).or_default().push(skip),
            None => wrong.push(format!("not the line of a skip: {line}")),
        }
    }
    let mut table = String::new();
    for (part, skips) in parts {
        if table.is_empty() {
            table += "\nskipped          tests  the first one's reason\n";
        }
        let tests: BTreeSet<&str> = skips.iter().map(|skip| skip.test).collect();
        table += &format!("{:<15}  {:>5}  {}\n", part.name(), tests.len(), skips[0].reason);
        if has(part) {
            let tests = tests.into_iter().collect::<Vec<_>>().join(", ");
            wrong.push(format!("{} is there, and these were skipped without it: {tests}", part.name()));
        }
    }
    (table, wrong)
}

/// Whether this machine has what tests may need.
fn has(part: Part) -> bool {
    let has_tracefs = || TRACEFS.iter().any(|place| fs::read_dir(Path::new(place).join("events/kvm")).is_ok());
    match part {
        Part::Kvm => fs::File::options().read(true).write(true).open("/dev/kvm").is_ok(),
        Part::Tracing => has(Part::Kvm) && has_tracefs() && (may(CAP_PERFMON) || may(CAP_SYS_ADMIN)),
        Part::Bpf => has_tracefs() && (may(CAP_BPF) || may(CAP_SYS_ADMIN)),
        Part::Btf => Path::new("/sys/kernel/btf/vmlinux").exists(),
        Part::Perf => runs("perf", "--version"),
        Part::TraceCmd => runs("trace-cmd", "--version"),
        Part::Tmux => runs("tmux", "-V"),
        Part::Qemu => runs("qemu-system-x86_64", "--version"),
        Part::Promtool => runs("promtool", "--version"),
        Part::SystemdAnalyze => runs("systemd-analyze", "--version"),
        Part::Root => may(CAP_CHOWN),
        Part::Mount => may(CAP_SYS_ADMIN),
        Part::TwoCpus => std::thread::available_parallelism().is_ok_and(|cpus| cpus.get() > 1),
        Part::KvmParameters => KVM_PARAMETERS.iter().any(|place| is_writable(place)),
        Part::Ksm => is_writable(KSM),
        Part::FrontEnd => root().join("web/dist/page.html").exists(),
        // The tests are built with all features.
        Part::Sql => true,
        Part::SharedTraces => root().ancestors().any(|folder| folder.join("shared/traces").is_dir()),
        Part::Sanitizer => has_sanitizer(),
        // What it needs beside these it fetches.
        Part::Rig => {
            [Part::Qemu, Part::Perf, Part::TraceCmd].into_iter().all(has) && root().join("target/rig/packages").is_dir()
        }
    }
}

/// Whether this process has a capability.
fn may(capability: u32) -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let effective = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    let mask = effective.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    mask.is_some_and(|mask| mask >> capability & 1 == 1)
}

/// Ubuntu's /usr/bin/perf is there without the package for the running kernel, and then fails.
fn runs(program: &str, version: &str) -> bool {
    let status = Command::new(program).arg(version).stdout(Stdio::null()).stderr(Stdio::null()).status();
    status.is_ok_and(|status| status.success())
}

fn is_writable(place: &str) -> bool {
    fs::File::options().write(true).open(place).is_ok()
}

/// Whether the sanitizer's library is beside the standard library.
fn has_sanitizer() -> bool {
    let output = Command::new("rustc").args(["--print", "target-libdir", "--target", crate::sanitize::TARGET]).output();
    let Ok(output) = output else { return false };
    let folder = String::from_utf8_lossy(&output.stdout).trim().to_string();
    fs::read_dir(folder).is_ok_and(|mut files| {
        files.any(|file| file.is_ok_and(|file| file.file_name().to_string_lossy().ends_with("_rt.asan.a")))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINES: &str = "skipped: lab::a: kvm: /dev/kvm: no\nskipped: lab::a: kvm: /dev/kvm: no\n\
                         skipped: lab::b: kvm: /dev/kvm: no\nskipped: serve::c: promtool: not found\n";

    #[test]
    fn skips_are_counted_by_part_and_each_test_once() {
        let (table, wrong) = table(LINES, |_| false);
        assert_eq!(wrong, [""; 0]);
        let rows: Vec<Vec<&str>> = table.lines().map(|line| line.split_whitespace().collect()).collect();
        assert_eq!(rows[2], ["kvm", "2", "/dev/kvm:", "no"]);
        assert_eq!(rows[3], ["promtool", "1", "not", "found"]);
        assert_eq!(super::table("", |_| true), (String::new(), vec![]));
    }

    #[test]
    fn a_skip_for_what_is_there_and_a_line_of_another_form_are_wrong() {
        let (_, wrong) = table(&format!("{LINES}skipped: d: moon: gone\n"), |part| part == Part::Kvm);
        assert_eq!(wrong.len(), 2, "{wrong:?}");
        assert!(wrong[0].contains("moon"), "{wrong:?}");
        assert!(wrong[1].contains("kvm is there") && wrong[1].contains("lab::a, lab::b"), "{wrong:?}");
    }

    #[test]
    fn capabilities_are_those_of_this_process() {
        let status = fs::read_to_string("/proc/self/status").unwrap();
        let uid = status.lines().find_map(|line| line.strip_prefix("Uid:")).unwrap();
        let is_root = uid.split_whitespace().nth(1) == Some("0");
        // Others than root have none, unless they were given one.
        assert!(is_root || !may(CAP_SYS_ADMIN));
        assert!(!may(63), "Linux has no such capability");
    }
}
