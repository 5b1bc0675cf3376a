//! What an exit says besides its reason: only to those who ask, and the same from bytes and from text.

use exitscope_model::{Assembler, Event, EventKind, ExitInfo, ExitWord, Ledger};
use exitscope_trace::{Input, SourceOptions, open_input};

mod common;

use common::{corpus, fixture};

fn events(input: Input, exit_info: bool) -> Vec<Event> {
    let mut source = open_input(input, SourceOptions { exit_info, ..SourceOptions::default() }).unwrap();
    let (mut events, mut ledger) = (Vec::new(), Ledger::default());
    while source.read(&mut events, &mut ledger).unwrap() {}
    events
}

fn file(path: &std::path::Path, exit_info: bool) -> Vec<Event> {
    events(Input::open(path).unwrap(), exit_info)
}

fn infos(events: &[Event]) -> Vec<ExitInfo> {
    let info = |event: &Event| if let EventKind::ExitInfo(info) = event.kind { Some(info) } else { None };
    events.iter().filter_map(info).collect()
}

#[test]
fn it_follows_every_exit_of_x86_and_is_the_same_from_bytes_and_from_text() {
    for (binary, text) in [
        ("x86-svm/t2.data.gz", "t2.perf-script-ns.txt.gz"),
        ("x86-svm/t4-none.dat.gz", "t4-none.trace-cmd-report-t.txt.gz"),
    ] {
        let (bytes, printed) = (file(&corpus(binary), true), file(&fixture(text), true));
        for pair in bytes.windows(2) {
            let is_told = matches!(pair[1].kind, EventKind::ExitInfo(_));
            assert_eq!(matches!(pair[0].kind, EventKind::Exit { .. }), is_told, "{binary} at {}", pair[0].at);
            if is_told {
                assert_eq!(Event { kind: pair[0].kind, ..pair[1] }, pair[0], "{binary}: it is of the same record");
            }
        }
        // The text is of a part of the recording.
        let span = printed[0].at..=printed[printed.len() - 1].at;
        let bytes: Vec<Event> = bytes.into_iter().filter(|event| span.contains(&event.at)).collect();
        let words = |events: &[Event]| -> Vec<_> {
            infos(events).into_iter().map(|info| WORDS_OF_PLUGIN.map(|word| info.get(word))).collect()
        };
        assert!(words(&bytes).len() >= 200, "{binary}");
        assert_eq!(words(&bytes), words(&printed), "{binary}");
        assert!(words(&bytes).iter().any(|words| words[0].is_some_and(|word| word > 0)), "{binary}");
    }
}

/// What libtraceevent's plugin prints of them, too.
const WORDS_OF_PLUGIN: [ExitWord; 2] = [ExitWord::Info1, ExitWord::Info2];

#[test]
fn nobody_else_hears_of_it() {
    let path = corpus("x86-svm/t2.data.gz");
    let (quiet, mut told) = (file(&path, false), file(&path, true));
    told.retain(|event| !matches!(event.kind, EventKind::ExitInfo(_)));
    assert_eq!(quiet, told);
    assert_eq!(infos(&file(&corpus("arm64/arm.dat.gz"), true)), []);
}

#[test]
fn rows_have_it_and_are_otherwise_the_same() {
    let rows = |exit_info| {
        let (mut rows, mut ledger, mut assembler) = (Vec::new(), Ledger::default(), Assembler::default());
        assembler.push(&file(&corpus("x86-svm/t2.data.gz"), exit_info), &mut rows, &mut ledger);
        assembler.finish(&mut rows, &mut ledger);
        (rows, ledger)
    };
    let ((quiet, ledger), (mut told, of_told)) = (rows(false), rows(true));
    assert!(told.iter().all(|exit| exit.info.get(ExitWord::Info1).is_some()));
    told.iter_mut().for_each(|exit| exit.info = ExitInfo::default());
    assert_eq!(quiet, told);
    assert_eq!(ledger.lines().collect::<Vec<_>>(), of_told.lines().collect::<Vec<_>>());
}

#[test]
fn every_form_of_text_is_read_as_far_as_it_goes() {
    for (fields, expected) in [
        (
            "vcpu 0 reason npf rip 0xfff0 info1 0x0000000100000014 info2 0x00000000fffffff0 intr_info 0x80000306 error_code 0x00000009 requests 0x0000000000000041",
            "1: 100000014, 2: fffffff0, 3: 80000306, 4: 9, 5: 41",
        ),
        (
            "vcpu 0 reason npf rip 0xfff0 info1 0x0000000100000014 info2 0x00000000fffffff0 intr_info 0x00000000 error_code 0x00000000",
            "1: 100000014, 2: fffffff0, 3: 0, 4: 0",
        ),
        ("reason npf rip 0xfff0 info 100000014 fffffff0", "1: 100000014, 2: fffffff0"),
        ("reason EXIT_NPF rip 0xfff0 info 100000014 fffffff0", "1: 100000014, 2: fffffff0"),
        ("reason npf rip 0xfff0", ""),
        ("reason npf rip 0xfff0 info1 nonsense", ""),
    ] {
        let line = format!(" qemu-system-x86-229     [001] d..1.    87.534187: kvm_exit: {fields}\n");
        let text = format!("# tracer: nop\n#\n{line}");
        let said: Vec<String> = infos(&events(Input::from_bytes("made", text.as_bytes()).unwrap(), true))
            .iter()
            .flat_map(|info| ExitWord::ALL.map(|word| Some(format!("{}: {:x}", word as u8 + 1, info.get(word)?))))
            .flatten()
            .collect();
        assert_eq!(said.join(", "), expected, "{fields}");
    }
}
