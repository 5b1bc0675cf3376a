//! The layouts in which perf and trace-cmd print one recording, as their options choose: each is read as what the plain
//! layout says, or refused by name, with what to do.
//!
//! The fixtures `*.layout-*` are ranges of lines that perf 6.1 (`perf script --ns`) and trace-cmd 3.1.6 (`trace-cmd report
//! -t`) print of traces in `corpus/`, with one option more; those of one trace are of the same 250 events.

use exitscope_model::{Event, EventKind, LedgerLine};
use exitscope_trace::{TraceError, open};
use exitscope_units::{PcpuId, Tid, VcpuId, VmId};

mod common;

use common::{Said, drain, fixture, said};

fn read(name: &str) -> Said {
    drain(open(&fixture(name)).unwrap()).unwrap()
}

/// Why a text cannot be read.
fn refusal(name: &str) -> String {
    match open(&fixture(name)).and_then(drain) {
        Err(error @ (TraceError::Unsupported { .. } | TraceError::Damaged { .. })) => error.to_string(),
        Err(error) => panic!("{name}: {error:?}"),
        Ok(said) => panic!("{name} is read as {} events", said.events.len()),
    }
}

/// Events without their names' numbers, which each text gives anew.
fn named(said: &Said) -> Vec<(Event, String)> {
    let name = |event: &Event| said.info.names.get(event.name).to_string();
    said.events.iter().map(|event| (Event { name: said.events[0].name, ..*event }, name(event))).collect()
}

/// `layout` says what `plain` does, but for what it leaves out.
fn assert_same(plain: &str, layout: &str, leaves_out: impl Fn(&mut Event)) {
    let (plain, said) = (read(plain), read(layout));
    let lines: Vec<_> = said.lines().into_iter().filter(|(line, _)| *line != LedgerLine::LossUnknown).collect();
    assert_eq!(lines, [], "{layout}");
    let (mut expected, mut found) = (named(&plain), named(&said));
    assert_eq!(found.len(), expected.len(), "{layout}");
    let first = (found[0].0, expected[0].0);
    for ((event, _), (other, _)) in found.iter_mut().zip(&mut expected) {
        (event.name, other.name) = (first.0.name, first.0.name);
        leaves_out(event);
        leaves_out(other);
    }
    for (event, other) in found.iter().zip(&expected) {
        assert_eq!(event, other, "{layout}");
    }
}

const PERF: &str = "t2.layout-ns.txt.gz";

const TRACE_CMD: &str = "t4-none.layout-t.txt.gz";

#[test]
fn what_perf_is_asked_for_besides_changes_nothing() {
    let exits = read(PERF).events.iter().filter(|event| matches!(event.kind, EventKind::Exit { .. })).count();
    assert_eq!(exits, 45);
    for layout in ["flags-period", "other-records"] {
        assert_same(PERF, &format!("t2.layout-{layout}.txt.gz"), |_| {});
    }
    // These name the process, which the plain layout does not.
    for layout in ["misc", "symbols", "no-comm"] {
        assert_same(PERF, &format!("t2.layout-{layout}.txt.gz"), |event| event.vm = VmId::UNKNOWN);
    }
    let symbols = read("t2.layout-symbols.txt.gz");
    assert!(symbols.events.iter().all(|event| event.vcpu == VcpuId::UNKNOWN || event.vm == VmId(121)));
}

#[test]
fn perfs_columns_may_lack_the_cpu_or_the_threads_name() {
    for layout in ["no-cpu", "misc-no-cpu"] {
        assert_same(PERF, &format!("t2.layout-{layout}.txt.gz"), |event| event.cpu = PcpuId(u32::MAX));
    }
    assert!(read("t2.layout-no-comm.txt.gz").info.comms.is_empty());
    assert_eq!(read("t2.layout-no-cpu.txt.gz").info.comms[&128], "qemu-system-x86");
}

#[test]
fn perfs_latency_columns_are_a_thread_and_a_cpu() {
    assert_same(PERF, "t2.layout-latency.txt.gz", |_| {});
    assert_eq!(read("t2.layout-latency.txt.gz").info.comms[&128], "qemu-sys");
    // As it is where the blanks before the line are gone, and where it names the process.
    for line in [
        "perf   120   0    30.163347:  kvm:kvm_fpu: load\n",
        "qemu-sys   119/120     0    30.163347: kvm:kvm_fpu: load\n",
    ] {
        let said = said(line.as_bytes()).unwrap();
        assert_eq!((said.events[0].tid, said.events[0].cpu), (Tid(120), PcpuId(0)), "{line}");
    }
}

#[test]
fn times_since_the_beginning_are_moments() {
    for (plain, layout) in [(PERF, "t2.layout-reltime.txt.gz"), (TRACE_CMD, "t4-none.layout-aligned.txt.gz")] {
        let (plain, said) = (read(plain), read(layout));
        let since = |said: &Said| -> Vec<u64> {
            said.events.iter().map(|event| event.at.as_nanos() - said.events[0].at.as_nanos()).collect()
        };
        assert_eq!(since(&said), since(&plain), "{layout}");
        assert!(said.events.iter().map(|event| event.kind).eq(plain.events.iter().map(|event| event.kind)));
    }
}

#[test]
fn trace_cmds_latency_columns_differences_and_summaries_change_nothing() {
    for layout in ["latency", "difference", "difference-latency", "wakeups"] {
        assert_same(TRACE_CMD, &format!("t4-none.layout-{layout}.txt.gz"), |_| {});
    }
    // Without its plugins, trace-cmd prints the vCPU of kvm_exit.
    assert_same(TRACE_CMD, "t4-none.layout-kernels-own.txt.gz", |event| {
        if let EventKind::Exit { words, .. } = &mut event.kind {
            (*words, event.vcpu) = (exitscope_model::SubjectWord::NONE, VcpuId::UNKNOWN);
        }
    });
    let said = read("t4-none.layout-verbose.txt.gz");
    assert!(said.events.len() > 20 && said.lines().is_empty(), "{:?}", said.lines());
    let summary = "cpus=1\n   x-1   [000]     1.0: kvm_fpu:              load\n\nRT task timings:\n\n\
                   Average wakeup latency: 119.538 usecs\nMaximum Latency: 199.948 usecs at timestamp: 77.286789\n\
                   Minimum Latency: 39.128 usecs at timestamp: 77.091609\n\n";
    assert_eq!(said_lines(summary), []);
}

fn said_lines(text: &str) -> Vec<(LedgerLine, u64)> {
    said(text.as_bytes()).unwrap().lines()
}

#[test]
fn trace_cmds_latency_columns_of_other_architectures_are_read() {
    let arm = read("arm.layout-latency.txt.gz");
    assert_eq!((arm.events.len(), arm.events[0].tid, arm.events[0].cpu), (249, Tid(120), PcpuId(0)));
    assert!(arm.events.iter().any(|event| matches!(event.kind, EventKind::Exit { .. })));
    // A name that has dashes and numbers of its own.
    let power = read("p8_smt4.layout-latency.txt.gz");
    assert_eq!((power.events.len(), power.events[0].tid), (249, Tid(460)));
    assert_eq!(power.info.comms[&460], "CPU 3/KV");
    for (comm, line) in [
        ("a-1 2d. ", "a-1 2d. -77       1d..1.   5.000001: kvm_fpu: load\n"),
        ("<...>", "   <...>-1048576  12dNh2.   5.000001: kvm_fpu: load\n"),
        ("x-1", "     x-1-77       1.....   5.000001: kvm_fpu: load\n"),
    ] {
        let said = said(line.as_bytes()).unwrap();
        assert_eq!(said.events[0].at.as_nanos(), 5_000_001_000, "{line}");
        assert!(said.info.comms.values().all(|name| name == comm), "{line}");
    }
}

#[test]
fn the_kernels_latency_format_counts_microseconds_since_its_buffer_began() {
    // As `lat_print_generic` and `lat_print_timestamp` of kernel/trace/trace_output.c print it: Linux 6.x, and 2.6.
    let newer = "# tracer: nop\n#\n# latency: 0 us, #4/4, CPU#0 | (M:desktop VP:0, KP:0, SP:0 HP:0 #P:2)\n\
                 qemu-sys-229       1d..1.   87us!: kvm_entry: vcpu 0, rip 0xfff0\n\
                 qemu-sys-229       1.....  187us*: kvm_exit: vcpu 0 reason npf rip 0xfff0 info1 0x0 info2 0x0\n\
                 qemu-sys-229       1..... 12345us : kvm_fpu: unload\n";
    let older = "qemu-sys-229     1d..1   87us!: kvm_entry: vcpu 0, rip 0xfff0\n\
                 qemu-sys-229     1....  187us+: kvm_exit: reason npf rip 0xfff0 info 0 0\n\
                 qemu-sys-229     1.... 12345us : kvm_fpu: unload\n";
    for text in [newer, older] {
        let said = said(text.as_bytes()).unwrap();
        let rows: Vec<_> = said.events.iter().map(|event| (event.at.as_nanos(), event.tid.0, event.cpu.0)).collect();
        assert_eq!(rows, [(87_000, 229, 1), (187_000, 229, 1), (12_345_000, 229, 1)], "{text}");
    }
}

/// Without threads, each exit and entry is its vCPU's, as the same lines with threads say it.
#[test]
fn short_texts_without_threads_are_paired_by_their_vcpus_numbers() {
    let at_vcpus = |said: &Said| -> Vec<(u64, VcpuId, EventKind)> {
        let is_way = |event: &&Event| matches!(event.kind, EventKind::Exit { .. } | EventKind::Enter);
        said.events.iter().filter(is_way).map(|event| (event.at.as_nanos(), event.vcpu, event.kind)).collect()
    };
    let plain = at_vcpus(&read(PERF));
    assert_eq!(plain.len(), 89);
    for layout in ["no-tid", "comm-and-time", "time-only"] {
        let said = read(&format!("t2.layout-{layout}.txt.gz"));
        assert_eq!(at_vcpus(&said), plain, "{layout}");
        let name = |event: &Event| said.info.names.get(event.name).to_string();
        assert!(said.events.iter().all(|event| name(event).contains("kvm_")), "{layout}: no event of the scheduler");
        for event in said.events.iter().filter(|event| event.vcpu != VcpuId::UNKNOWN) {
            assert_eq!(event.tid, Tid(event.vcpu.0 + 1), "{layout}");
        }
        let counted = said.lines().into_iter().find(|(line, _)| *line == LedgerLine::PairedByVcpu);
        assert_eq!(counted.map(|line| line.1), Some(1), "{layout}");
    }
}

#[test]
fn what_a_layout_leaves_out_is_said_with_what_to_do() {
    for (layout, problem, remedy) in [
        ("t2.layout-no-time", "has no time", "perf script -F comm,pid,tid,cpu,time,event,trace"),
        (
            "t2.layout-no-event",
            "line 1 does not name its tracepoint",
            "perf script -F comm,pid,tid,cpu,time,event,trace",
        ),
        ("t2.layout-no-trace", "has nothing behind the tracepoint's name", "-F comm,pid,tid,cpu,time,event,trace"),
        ("t2.layout-pid-only", "one thread is in several vCPUs at once", "-F comm,pid,tid,cpu,time,event,trace"),
        ("t2.layout-deltatime", "its times are not in order", "--deltatime"),
        ("t2.layout-dump", "begins a dump of bytes", "without -D"),
        ("t4-none.layout-raw", "has its fields raw", "without that option"),
        ("arm.layout-raw", "has its fields raw", "without that option"),
        ("p8_smt4.layout-raw", "has its fields raw", "without that option"),
        ("t4-none.layout-two-files", "begins with a file's name", "print each file alone"),
        ("t4-none.layout-raw-time", "has a counter's value for a time", "--raw-ts"),
    ] {
        let error = refusal(&format!("{layout}.txt.gz"));
        assert!(error.contains(problem) && error.contains(remedy), "{layout}: {error}");
    }
}

#[test]
fn a_thread_whose_name_ends_with_a_number_is_not_that_number() {
    // Firecracker names its threads `fc_vcpu 0`.
    for (text, tid) in [
        ("       fc_vcpu 1  599500 [039] 1377662.550600: kvm:kvm_entry:  vcpu 1 rip 0xffffffff81036706\n", 599_500),
        ("       fc_vcpu 0    59 [039] 1377662.550600: kvm:kvm_entry:  vcpu 0, rip 0xffffffff81036706\n", 59),
        ("       fc_vcpu 0  599500 1377662.550600: kvm:kvm_entry:  vcpu 0, rip 0xffffffff81036706\n", 599_500),
    ] {
        let said = said(text.as_bytes()).unwrap();
        assert_eq!((said.events[0].tid, said.info.comms[&tid].len()), (Tid(tid), 9), "{text}");
    }
    for text in [
        "       fc_vcpu 1 [039] 1377662.550600: kvm:kvm_entry:  vcpu 1 rip 0xffffffff81036706\n",
        "       fc_vcpu 1 1377662.550600: kvm:kvm_entry:  vcpu 1 rip 0xffffffff81036706\n",
    ] {
        let error = said(text.as_bytes()).err().unwrap().to_string();
        assert!(error.contains("line 1 names no thread"), "{error}");
    }
}

#[test]
fn a_text_whose_events_are_in_rounds_is_refused() {
    let event = "            qemu   120 [001]    30.000000001: kvm:kvm_entry: vcpu 0, rip 0x1\n";
    let error = said(format!("{event}PERF_RECORD_FINISHED_ROUND\n").as_bytes()).err().unwrap().to_string();
    assert!(error.contains("line 2") && error.contains("--show-round-events"), "{error}");
}

#[test]
fn a_few_lines_that_lack_something_are_damage() {
    let event = "            qemu   120 [001]    30.000000001: kvm:kvm_entry: vcpu 0, rip 0x1\n";
    let text = format!("{event}            qemu [001]    30.1: kvm:kvm_entry: vcpu 0, rip 0x1\n{event}");
    let said = said(text.as_bytes()).unwrap();
    assert_eq!((said.events.len(), said.ledger.get(LedgerLine::BadText)), (2, 1));
}
