//! What conditions mean: the same as in a page's query box, which `web/test/condition.test.mjs` asks the same.

mod common;

use common::plain;
use exitscope_analysis::*;
use exitscope_model::*;
use exitscope_units::{Nanos, PcpuId};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// By what is asked, and what comes of it.
const CASES: &str = include_str!("conditions.tsv");

/// With 3 us in the kernel, 2 us in user space and 7 us without a CPU.
fn exit() -> Exit {
    let parts = [(TimePart::Kernel, 3_000), (TimePart::User, 2_000), (TimePart::Steal, 7_000)];
    Exit { parts: parts.iter().fold(ExitParts::ZERO, |all, (part, ns)| all.with(*part, Nanos(*ns))), ..plain() }
}

fn text(key: TextKey) -> String {
    let text = match key {
        TextKey::Vm(_) => "qemu-system-x86 121",
        TextKey::Vcpu(_) => "vCPU 1",
        TextKey::Reason(_) => "io",
        TextKey::Subject(_) => "port 0xcf8 out PCI config address",
        TextKey::Handler { .. } => "user space",
        TextKey::Cpu(_) => "CPU 13",
        TextKey::Rip(_) => "0xffff1234 putc+0x4",
        TextKey::Function(_) => "putc",
    };
    text.to_string()
}

#[test]
fn conditions_mean_what_they_mean_in_a_pages_query_box() {
    for case in CASES.lines() {
        let (expected, condition) = case.split_once('\t').unwrap();
        let holds = |condition| ExitFilter::new(condition, Arc::new(text)).holds(&exit());
        let found = match condition.parse().map(holds) {
            Ok(true) => "holds",
            Ok(false) => "fails",
            Err(_) => "wrong",
        };
        assert_eq!(found, expected, "{condition}");
    }
    assert!(CASES.lines().count() > 50);
}

#[test]
fn what_is_wrong_with_a_condition_is_said_with_the_words_that_there_are() {
    let wrong = |text: &str| text.parse::<Condition>().unwrap_err().to_string();
    assert_eq!(
        wrong("reason = io and cots > 1ms"),
        "\"cots\" is unknown: there are vm, vcpu, reason, subject, handler, cpu, rip, function, cost, exit_time, kernel, \
         user_space, polling, halted, halt_not_divided, waiting_for_memory, steal, stopped, unknown"
    );
    assert_eq!(wrong("cost > 5"), "\"5\" is no length: write it like 100us or 1.5ms");
    assert_eq!(wrong("cost ~ 5us"), "cost is a length: ~ finds parts of texts");
    assert_eq!(wrong("reason > io"), "reason is a text: compare it by =, != or ~");
    assert_eq!(wrong("io"), "\"io\" is no comparison: write it like cost > 100us");
    assert_eq!(wrong(" "), "\"\" is no comparison: write it like cost > 100us");
}

#[test]
fn exits_without_length_are_within_no_limit() {
    for (condition, timed, expected) in
        [("cost != 1us", true, true), ("cost != 1us", false, false), ("reason = io", false, true)]
    {
        let mut filter = ExitFilter::new(condition.parse().unwrap(), Arc::new(text));
        assert_eq!(filter.holds(&Exit { timed, ..exit() }), expected, "{condition}");
    }
}

#[test]
fn each_thing_is_named_once_and_told_from_others() {
    let asked = Arc::new(AtomicUsize::new(0));
    let count = asked.clone();
    let texts: Texts = Arc::new(move |key| {
        count.fetch_add(1, Ordering::Relaxed);
        match key {
            TextKey::Cpu(cpu) => format!("CPU {}", cpu.0),
            other => text(other),
        }
    });
    let mut filter = ExitFilter::new("cpu = 1 and cpu != 11 and reason = io".parse().unwrap(), texts);
    let mut holds = |cpu| filter.holds(&Exit { cpu: PcpuId(cpu), ..exit() });
    for _ in 0..3 {
        assert_eq!([1, 11, 2].map(&mut holds), [true, false, false]);
    }
    // Of CPU 1 three comparisons, of the others one.
    assert_eq!(asked.load(Ordering::Relaxed), 5);
}
