//! What the command prints of recordings, as a whole: some of it for docs/, all else to show what a change of the code changes for who
//! reads it. `cargo xtask docs` has these tests write it anew.

mod common;

use common::kept::assert_kept;

/// Files of docs/examples, and the arguments of the command.
const IN_DOCS: &[(&str, &str)] = &[
    ("report.txt", "report corpus/x86-svm/t2.data.gz"),
    ("report-all.txt", "report corpus/x86-svm/t2.data.gz --all"),
    ("xen.txt", "report corpus/xen/hvm1_dm_sched_hvm.xentrace.gz --tsc-hz 2596120000"),
    ("by.txt", "report corpus/x86-svm/t2.data.gz --by vcpu,reason --reason io,npf"),
    ("rip.txt", "report corpus/x86-svm/t2.data.gz --by rip,reason --top 8"),
    ("gang.txt", "report corpus/powerpc/p8_smt4_trace.dat.gz --view gang"),
    ("halt.txt", "report corpus/x86-svm/t4-none.dat.gz --view halt"),
    ("interrupts.txt", "report corpus/x86-svm/t4-none.dat.gz --view interrupts"),
    ("phases.txt", "report corpus/x86-svm/t2.data.gz --view phases --tsc-hz 2596120000"),
    ("pio.txt", "report corpus/x86-svm/t2.data.gz --view pio"),
    ("yield.txt", "report corpus/xen/pvh2_contend_sched_hvm.xentrace.gz --view yield --tsc-hz 2596120000"),
    ("counts.txt", "report crates/trace/tests/fixtures/counts/fcx102.txt --view yield"),
    ("counts-advise.txt", "advise crates/trace/tests/fixtures/counts/fcx102.txt"),
    (
        "counts-diff.txt",
        "diff crates/trace/tests/fixtures/counts/fcx102.txt crates/trace/tests/fixtures/counts/fcx102-after.txt",
    ),
    ("paste-mail.txt", "report crates/trace/tests/fixtures/counts/mail-perf-kvm-stat.txt"),
    ("paste-old-perf.txt", "report crates/trace/tests/fixtures/counts/old-perf-kvm-stat.txt"),
    ("paste-kvm-stat.txt", "report crates/trace/tests/fixtures/counts/kvm-stat.txt"),
    ("paste-perf-stat.txt", "report crates/trace/tests/fixtures/counts/perf-stat.txt"),
    ("paste-vmexit.txt", "report crates/trace/tests/fixtures/counts/vmexit.txt"),
    ("paste-kvmexit.txt", "report crates/trace/tests/fixtures/counts/kvmexit.txt"),
    (
        "paste-diff.txt",
        "diff crates/trace/tests/fixtures/counts/kvm-stat.txt crates/trace/tests/fixtures/counts/kvm-stat-after.txt",
    ),
    ("replay.txt", "replay corpus/x86-svm/t4-none.dat.gz --policy guest_halt_poll"),
    ("replay-host.txt", "replay corpus/arm64/arm.dat.gz --policy host_halt_poll"),
    ("replay-port.txt", "replay corpus/x86-svm/t2.data.gz --policy port_path"),
    (
        "replay-xen.txt",
        "replay corpus/xen/hvm1_dm_sched_hvm.xentrace.gz --policy port_path --tsc-hz 2596120000 --vary quick_path=0,1 --costs nehalem-xen-3.3",
    ),
    ("replay-vcore.txt", "replay corpus/powerpc/p8_smt4_trace.dat.gz --policy vcore"),
    ("replay-yield.txt", "replay corpus/lab/contended.data.gz --policy yielding --from +724ms --to +827ms"),
    ("advise-gang.txt", "advise corpus/powerpc/p8_smt4_two_vms.data.gz"),
    ("advise-as.txt", "advise corpus/x86-svm/t4-none.dat.gz --as libvirt"),
    ("advise.txt", "advise corpus/x86-svm/t4-zstd.data.gz"),
    (
        "diff.txt",
        "diff corpus/x86-svm/t4-zstd.data.gz corpus/x86-svm/t4-pipe.data.gz --before corpus/x86-svm/t4-callchain.data.gz --after corpus/x86-svm/t4-none.dat.gz",
    ),
];

/// The same in tests/examples.
const KEPT: &[(&str, &str)] = &[
    ("screen-vms.txt", "report corpus/powerpc/p9_smt2_two_vms.data.gz"),
    ("screen-powerpc.txt", "report corpus/powerpc/p8_smt4_cede_all.data.gz"),
    ("all-lab.txt", "report corpus/lab/contended.data.gz --all"),
    ("all-arm.txt", "report corpus/arm64/arm.dat.gz --all"),
    ("all-powerpc.txt", "report corpus/powerpc/p8_smt4_two_vms.data.gz --all"),
    ("all-xen.txt", "report corpus/xen/pvh1_hvm.xentrace.gz --all --tsc-hz 2596120000"),
    ("all-haltpoll-cap.txt", "report corpus/reports/r13b-haltpoll-cap.txt.gz --all"),
    ("halt-guest-tick.txt", "report corpus/reports/r05-guest-tick.txt.gz --view halt"),
    ("halt-arm.txt", "report corpus/arm64/arm.dat.gz --view halt"),
    ("halt-powerpc.txt", "report corpus/powerpc/p8_smt4_cede_all.data.gz --view halt"),
    ("halt-xen.txt", "report corpus/xen/pvh2_contend_sched_hvm.xentrace.gz --view halt --tsc-hz 2596120000"),
    ("phases-arm.txt", "report corpus/arm64/arm.dat.gz --view phases"),
    ("phases-lab.txt", "report corpus/lab/contended.data.gz --view phases"),
    ("interrupts-arm.txt", "report corpus/arm64/arm.dat.gz --view interrupts"),
    ("interrupts-hpet.txt", "report corpus/reports/r03-hpet-clocksource.txt.gz --view interrupts"),
    ("interrupts-synic.txt", "report corpus/reports/r16-hyperv-synic-apicv-off.txt.gz --view interrupts"),
    ("yield-ple.txt", "report corpus/reports/r04b-ple-pinned.txt.gz --view yield"),
    ("yield-lab.txt", "report corpus/lab/contended.data.gz --view yield"),
    ("gang.txt", "report corpus/powerpc/p8_smt4_gang_exits_rfc.data.gz --view gang"),
    ("gang-script.txt", "report corpus/powerpc/p8_smt4_gang_exits_rfc.data.gz --view gang --format script"),
    ("pio-arm.txt", "report corpus/arm64/arm.dat.gz --view pio"),
    ("mail.txt", "report corpus/x86-svm/t2.data.gz --mail"),
    ("by.csv", "report corpus/x86-svm/t2.data.gz --by vcpu,reason --format csv"),
    ("by-port.csv", "report corpus/x86-svm/t2.data.gz --by port --format csv"),
    ("hpet.json", "report corpus/reports/r03-hpet-clocksource.txt.gz --format json"),
    ("synic.json", "report corpus/reports/r16-hyperv-synic-apicv-off.txt.gz --format json"),
    ("tail.json", "report corpus/found/min-tail-guest-beyond-span.txt --format json"),
    ("svm.json", "report corpus/x86-svm/t4-none.dat.gz --from +800ms --to +830ms --format json"),
    ("events-tail.txt", "events corpus/found/min-tail-guest-beyond-span.txt"),
    ("events-svm.txt", "events corpus/x86-svm/t4-none.dat.gz --from +742ms --to +743ms"),
    ("events-powerpc.txt", "events corpus/powerpc/p8_smt4_trace.dat.gz --from +570ms --to +580ms"),
    (
        "events-xen.txt",
        "events corpus/xen/pvh2_contend_sched_hvm.xentrace.gz --tsc-hz 2596120000 --from +100ms --to +101ms",
    ),
    (
        "diff-null.txt",
        "diff --before corpus/nulls/redis-loaded-01.data.zst corpus/nulls/redis-loaded-02.data.zst --after corpus/nulls/redis-loaded-03.data.zst corpus/nulls/redis-loaded-04.data.zst",
    ),
    (
        "diff-null.json",
        "diff --before corpus/nulls/redis-loaded-01.data.zst corpus/nulls/redis-loaded-02.data.zst --after corpus/nulls/redis-loaded-03.data.zst corpus/nulls/redis-loaded-04.data.zst --format json",
    ),
    ("diff.md", "diff corpus/x86-svm/t2.data.gz corpus/x86-svm/t4-none.dat.gz --format markdown"),
    ("diff.json", "diff corpus/x86-svm/t2.data.gz corpus/x86-svm/t4-none.dat.gz --format json"),
    ("diff-powerpc.txt", "diff corpus/powerpc/p8_smt4_two_vms.data.gz corpus/powerpc/p8_smt4_one_thread.data.gz"),
    ("diff-xen.txt", "diff corpus/xen/pvh1_hvm.xentrace.gz corpus/xen/hvm1_boot_mem.xentrace.gz --tsc-hz 2596120000"),
    ("advise-hpet-clocksource.txt", "advise corpus/reports/r03-hpet-clocksource.txt.gz"),
    ("advise-ple-pinned.txt", "advise corpus/reports/r04b-ple-pinned.txt.gz"),
    ("advise-guest-tick.txt", "advise corpus/reports/r05-guest-tick.txt.gz"),
    ("advise-spec-ctrl.txt", "advise corpus/reports/r09-spec-ctrl.txt.gz"),
    ("advise-guest-perf-pmu.txt", "advise corpus/reports/r10-guest-perf-pmu.txt.gz"),
    ("advise-haltpoll-cap.txt", "advise corpus/reports/r13b-haltpoll-cap.txt.gz"),
    ("advise-arm64-timer-storm.txt", "advise corpus/reports/r15-arm64-timer-storm.txt.gz"),
    ("advise-hyperv-synic-apicv-off.txt", "advise corpus/reports/r16-hyperv-synic-apicv-off.txt.gz"),
    ("advise-windows-timerefcount.txt", "advise corpus/reports/r17-windows-timerefcount.txt.gz"),
    ("advise-numa-balancing.txt", "advise corpus/reports/r18-numa-balancing.txt.gz"),
    ("advise-lab.txt", "advise corpus/lab/contended.data.gz"),
    ("advise-arm.txt", "advise corpus/arm64/arm.dat.gz"),
    ("advise-xen.txt", "advise corpus/xen/pvh2_contend_sched_hvm.xentrace.gz --tsc-hz 2596120000"),
    ("advise.json", "advise corpus/x86-svm/t4-zstd.data.gz --format json"),
    ("advise-as-qemu.txt", "advise corpus/x86-svm/t4-zstd.data.gz --as qemu"),
    ("advise-as-tuned.txt", "advise corpus/x86-svm/t4-zstd.data.gz --as tuned"),
    ("advise-as-modprobe.txt", "advise corpus/x86-svm/t4-zstd.data.gz --as modprobe"),
    ("advise-as-sysfs.txt", "advise corpus/x86-svm/t4-zstd.data.gz --as sysfs"),
    ("advise-as-script.txt", "advise corpus/x86-svm/t4-zstd.data.gz --as script"),
    ("advise-as-guest-script.txt", "advise corpus/x86-svm/t4-zstd.data.gz --as script --side guest"),
    ("advise-as-tuned-cap.txt", "advise corpus/reports/r13b-haltpoll-cap.txt.gz --as tuned"),
    ("advise-as-guest-script-cap.txt", "advise corpus/reports/r13b-haltpoll-cap.txt.gz --as script --side guest"),
    ("replay-guest.json", "replay corpus/x86-svm/t4-none.dat.gz --policy guest_halt_poll --format json"),
    ("replay-host.json", "replay corpus/arm64/arm.dat.gz --policy host_halt_poll --format json"),
    ("replay-least.txt", "replay corpus/arm64/arm.dat.gz --policy host_halt_poll --best -polling"),
    ("replay-host.csv", "replay corpus/arm64/arm.dat.gz --policy host_halt_poll --format csv"),
    ("replay-port.json", "replay corpus/x86-svm/t2.data.gz --policy port_path --format json"),
    (
        "replay-yield.json",
        "replay corpus/lab/contended.data.gz --policy yielding --from +724ms --to +827ms --format json",
    ),
    ("replay-vcore.json", "replay corpus/powerpc/p8_smt4_trace.dat.gz --policy vcore --format json"),
    ("sim.txt", "sim scenarios/first.toml"),
    ("sim.json", "sim scenarios/first.toml --format json"),
    ("sim-idle.txt", "sim scenarios/idle.toml"),
    ("sim-spin.txt", "sim scenarios/spin.toml"),
    ("sim-port-loop.txt", "sim scenarios/port-loop.toml"),
    ("sim-wake-ups.txt", "sim scenarios/wake-ups.toml"),
    ("sweep.txt", "sweep scenarios/spin.toml --vary spin_retry=0,1000 --metric throughput,yields"),
    ("sweep.json", "sweep scenarios/wake-ups.toml --vary halt_poll_ns=0,200us --format json"),
    ("lab.txt", "lab show crates/exitscope/tests/releases/0.1.0/lab.json"),
    ("predictions.txt", "predictions crates/validation/tried/rig.jsonl crates/validation/tried/lab.jsonl"),
    ("counts-histogram.txt", "report crates/trace/tests/fixtures/counts/rig-bpftrace-hist.txt"),
    ("counts-query-stats.txt", "report crates/trace/tests/fixtures/counts/query-stats.json"),
    ("counts-perf-stat.txt", "report crates/trace/tests/fixtures/counts/rig-perf-stat.txt"),
    ("counts-info-stats.txt", "report crates/trace/tests/fixtures/counts/info-stats.txt"),
    ("counts.json", "report crates/trace/tests/fixtures/counts/fcx102.txt --format json"),
    ("counts-advise.json", "advise crates/trace/tests/fixtures/counts/linux.txt --format json"),
    (
        "counts-diff.json",
        "diff crates/trace/tests/fixtures/counts/fcx102.txt crates/trace/tests/fixtures/counts/fcx102-after.txt --format json",
    ),
];

#[test]
fn examples_in_docs_are_what_the_command_prints() {
    assert_kept("docs/examples", IN_DOCS);
}

#[test]
fn what_the_command_prints_of_recordings_is_as_it_was() {
    assert_kept("crates/exitscope/tests/examples", KEPT);
}
