//! The small recordings of the corpus, one of each host: what is left out of them is billed nowhere else. `cargo xtask metamorphic`
//! looks at all of them.

use exitscope_fuzz::metamorphic::{Case, Recorded, cases};
use exitscope_fuzz::root;

#[track_caller]
fn check(name: &str) -> Vec<Case> {
    let recorded = Recorded::read(&root().join("corpus").join(name)).expect("a recording of the corpus");
    let (_, cases) = cases(&recorded).expect("it can be read again");
    let wrong = cases.iter().flat_map(|case| case.wrong.iter().map(move |wrong| format!("{}: {wrong}", case.what)));
    assert_eq!(wrong.collect::<Vec<_>>(), Vec::<String>::new(), "{name}");
    assert!(cases.iter().any(|case| !case.changes.is_empty()), "{name}: nothing changes anything");
    cases
}

#[test]
fn x86() {
    let cases = check("x86-svm/t4-none.dat.gz");
    // It is no oracle that sees nothing.
    let of = |what: &str| cases.iter().find(|case| case.what == what).map(|case| case.changes.len());
    assert!(of("without sched:sched_switch") > Some(3), "{:?}", of("without sched:sched_switch"));
    check("x86-svm/t4-ftrace.txt.gz");
}

#[test]
fn arm64() {
    check("arm64/arm.dat.gz");
}

#[test]
fn powerpc() {
    check("powerpc/p8_smt4_cede_all.data.gz");
    check("powerpc/p8_smt4_callgraph.data.gz");
    check("powerpc/p9_smt2_two_vms.data.gz");
    let cases = check("powerpc/p8_smt4_two_vms.data.gz");
    assert!(cases.iter().any(|case| case.what == "in one VM"));
}

#[test]
fn xen() {
    check("xen/pvh2_contend_sched_hvm.xentrace.gz");
}
