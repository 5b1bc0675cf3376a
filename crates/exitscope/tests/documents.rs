//! The files of docs/ that the command itself prints: schemas, tables, examples. `cargo xtask docs` has this test write
//! them anew.

mod common;

use common::{exitscope, stderr};
use rayon::prelude::*;

/// Set, this has files written instead of compared.
const WRITE: &str = "EXITSCOPE_WRITE_DOCUMENTS";

/// Each file, and the arguments of the command, in the repository's top directory.
const DOCUMENTS: &[(&str, &str)] = &[
    ("report.schema.json", "docs report-schema"),
    ("diff.schema.json", "docs diff-schema"),
    ("counts.schema.json", "docs counts-schema"),
    ("counts-diff.schema.json", "docs counts-diff-schema"),
    ("events.schema.json", "docs events-schema"),
    ("top.schema.json", "docs top-schema"),
    ("replay.schema.json", "docs replay-schema"),
    ("advise.schema.json", "docs advise-schema"),
    ("try.schema.json", "docs try-schema"),
    ("predictions.schema.json", "docs predictions-schema"),
    ("sim.schema.json", "docs sim-schema"),
    ("sweep.schema.json", "docs sweep-schema"),
    ("validate.schema.json", "docs validate-schema"),
    ("lab.schema.json", "docs lab-schema"),
    ("fleet.schema.json", "docs fleet-schema"),
    ("doctor.schema.json", "docs doctor-schema"),
    ("page.schema.json", "docs page-schema"),
    ("../crates/python/exitscope/schemas.py", "docs python-types"),
    ("validation.md", "validate --format markdown"),
    ("losses.md", "docs losses"),
    ("causes.md", "docs causes"),
    ("counts.md", "docs counts"),
    ("knobs.md", "docs knobs"),
    ("mechanisms.md", "docs mechanisms"),
    ("settings.md", "docs settings"),
    ("figures.md", "docs figures"),
    ("models.md", "docs models"),
    ("metrics.md", "docs metrics"),
    ("columns.md", "docs columns"),
    ("examples/report.txt", "report corpus/x86-svm/t2.data.gz"),
    ("examples/report-all.txt", "report corpus/x86-svm/t2.data.gz --all"),
    ("examples/xen.txt", "report corpus/xen/hvm1_dm_sched_hvm.xentrace.gz --tsc-hz 2596120000"),
    ("examples/by.txt", "report corpus/x86-svm/t2.data.gz --by vcpu,reason --reason io,npf"),
    ("examples/rip.txt", "report corpus/x86-svm/t2.data.gz --by rip,reason --top 8"),
    ("examples/gang.txt", "report corpus/powerpc/p8_smt4_trace.dat.gz --view gang"),
    ("examples/halt.txt", "report corpus/x86-svm/t4-none.dat.gz --view halt"),
    ("examples/interrupts.txt", "report corpus/x86-svm/t4-none.dat.gz --view interrupts"),
    ("examples/phases.txt", "report corpus/x86-svm/t2.data.gz --view phases --tsc-hz 2596120000"),
    ("examples/pio.txt", "report corpus/x86-svm/t2.data.gz --view pio"),
    ("examples/yield.txt", "report corpus/xen/pvh2_contend_sched_hvm.xentrace.gz --view yield --tsc-hz 2596120000"),
    ("examples/counts.txt", "report crates/trace/tests/fixtures/counts/fcx102.txt --view yield"),
    ("examples/counts-advise.txt", "advise crates/trace/tests/fixtures/counts/fcx102.txt"),
    (
        "examples/counts-diff.txt",
        "diff crates/trace/tests/fixtures/counts/fcx102.txt crates/trace/tests/fixtures/counts/fcx102-after.txt",
    ),
    ("examples/paste-mail.txt", "report crates/trace/tests/fixtures/counts/mail-perf-kvm-stat.txt"),
    ("examples/paste-old-perf.txt", "report crates/trace/tests/fixtures/counts/old-perf-kvm-stat.txt"),
    ("examples/paste-kvm-stat.txt", "report crates/trace/tests/fixtures/counts/kvm-stat.txt"),
    ("examples/paste-perf-stat.txt", "report crates/trace/tests/fixtures/counts/perf-stat.txt"),
    ("examples/paste-vmexit.txt", "report crates/trace/tests/fixtures/counts/vmexit.txt"),
    ("examples/paste-kvmexit.txt", "report crates/trace/tests/fixtures/counts/kvmexit.txt"),
    (
        "examples/paste-diff.txt",
        "diff crates/trace/tests/fixtures/counts/kvm-stat.txt crates/trace/tests/fixtures/counts/kvm-stat-after.txt",
    ),
    ("examples/replay.txt", "replay corpus/x86-svm/t4-none.dat.gz --policy guest_halt_poll"),
    ("examples/replay-host.txt", "replay corpus/arm64/arm.dat.gz --policy host_halt_poll"),
    ("examples/replay-port.txt", "replay corpus/x86-svm/t2.data.gz --policy port_path"),
    (
        "examples/replay-xen.txt",
        "replay corpus/xen/hvm1_dm_sched_hvm.xentrace.gz --policy port_path --tsc-hz 2596120000 --vary quick_path=0,1 --costs nehalem-xen-3.3",
    ),
    ("examples/replay-vcore.txt", "replay corpus/powerpc/p8_smt4_trace.dat.gz --policy vcore"),
    ("examples/replay-yield.txt", "replay corpus/lab/contended.data.gz --policy yielding --from +724ms --to +827ms"),
    ("examples/advise-gang.txt", "advise corpus/powerpc/p8_smt4_two_vms.data.gz"),
    ("examples/advise-as.txt", "advise corpus/x86-svm/t4-none.dat.gz --as libvirt"),
    ("examples/advise.txt", "advise corpus/x86-svm/t4-zstd.data.gz"),
    ("examples/sim.txt", "sim scenarios/ping-pong.toml --set guest_halt_poll_ns=0"),
    ("examples/sweep.txt", "sweep scenarios/web.toml --vary spin_retry=0,10..100000:*10 --metric throughput,yields"),
    (
        "examples/diff.txt",
        "diff corpus/x86-svm/t4-zstd.data.gz corpus/x86-svm/t4-pipe.data.gz --before corpus/x86-svm/t4-callchain.data.gz --after corpus/x86-svm/t4-none.dat.gz",
    ),
];

/// What the command prints with these arguments.
fn printed(arguments: &str) -> String {
    let output = exitscope().args(arguments.split(' ')).current_dir(common::root()).output().unwrap();
    assert!(output.status.success(), "exitscope {arguments}: {}", stderr(&output));
    String::from_utf8(output.stdout).unwrap()
}

/// The first line in which two texts differ, by number.
fn difference(of: &str, other: &str) -> Option<String> {
    let end = [""];
    let (lines, others) = (of.lines().chain(end), other.lines().chain(end));
    let (at, (line, other)) = lines.zip(others).enumerate().find(|(_, (line, other))| line != other)?;
    Some(format!("{}: {line:?} is now {other:?}", at + 1))
}

#[test]
fn documents_are_what_the_command_prints() {
    let folder = common::root().join("docs");
    let writes = std::env::var_os(WRITE).is_some();
    let stale = DOCUMENTS.par_iter().filter_map(|(name, arguments)| {
        let (path, new) = (folder.join(name), printed(arguments));
        if writes {
            std::fs::write(&path, &new).unwrap();
        }
        let old = std::fs::read_to_string(&path).unwrap_or_default();
        (old != new).then(|| format!("docs/{name}:{}", difference(&old, &new).unwrap_or_default()))
    });
    let stale: Vec<String> = stale.collect();
    assert!(stale.is_empty(), "`cargo xtask docs` writes these anew:\n{}", stale.join("\n"));
}
