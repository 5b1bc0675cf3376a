//! Limits on figures and on changes: when they are passed, and what is said then.

mod common;

use common::plain;
use exitscope_analysis::*;
use exitscope_model::{
    AllParts, CodeList, CpuInterval, EventKinds, Exit, ExitCode, ExitParts, Handler, Ledger, LedgerLine, TimePart,
};
use exitscope_stats::Interval;
use exitscope_units::{Moment, Nanos};

const HLT: ExitCode = ExitCode::new(CodeList::Vmx, 12);
const IO: ExitCode = ExitCode::new(CodeList::Vmx, 30);

fn exit(code: ExitCode, kernel: u64, halted: u64) -> Exit {
    let parts = ExitParts::ZERO.with(TimePart::Kernel, Nanos(kernel)).with(TimePart::Halted, Nanos(halted));
    Exit { code, parts, is_halt: code.is_halt(), ..plain() }
}

/// Facts of a recording of so many nanoseconds that tells which exits went on to user space, or not.
fn facts(exits: &[Exit], length: u64, tells_doors: bool) -> Facts {
    let mut facts = Facts::new(&FactsOptions { by: Vec::new(), slowest: 0, selection: Selection::default() });
    facts.begin(Moment::default());
    facts.note_event_kinds(EventKinds { handlers: tells_doors, ..EventKinds::default() });
    exits.iter().for_each(|exit| _ = facts.absorb(exit));
    for exit in exits.iter().take(1) {
        let parts = AllParts::ZERO.with(TimePart::Guest, Nanos(length.saturating_sub(20_000)));
        facts.absorb_stretch(&CpuInterval { who: exit.who, from: Moment::default(), parts });
    }
    facts.end(Moment::default(), Moment::from_nanos(length), &Default::default());
    facts
}

/// Accesses to ports of 100, 200 and 500 ns and one of which an end is missing, one of them by user space; a halt of 9 us at
/// a cost of 10 ns.
fn five_exits() -> Vec<Exit> {
    let outside = Exit { handler: Handler::Userspace(2), ..exit(IO, 200, 0) };
    let cut = Exit { timed: false, ..exit(IO, 0, 0) };
    vec![exit(IO, 100, 0), outside, exit(IO, 500, 0), cut, exit(HLT, 10, 9_000)]
}

/// A ledger of so many events, with these lines.
fn ledger(events: u64, lines: &[(LedgerLine, u64)]) -> Ledger {
    let mut ledger = Ledger::default();
    ledger.events = events;
    lines.iter().for_each(|&(line, count)| ledger.add(line, count));
    ledger
}

/// What is said of a limit: that it was passed and what was found, that it holds, or why neither can be said.
fn said(check: LimitCheck) -> String {
    match check {
        LimitCheck::Holds => "holds".to_string(),
        LimitCheck::Passed(breach) => breach.to_string(),
        LimitCheck::Unknown(unjudged) => unjudged.to_string(),
    }
}

fn checked(limit: &str, facts: &Facts, ledger: &Ledger) -> String {
    let said = said(limit.parse::<Threshold>().unwrap().check(facts, ledger));
    said.strip_prefix(limit).map_or(said.clone(), str::to_string)
}

#[test]
fn a_limit_is_passed_beyond_it_or_from_it_on_as_its_operator_says() {
    let (facts, ledger) = (facts(&five_exits(), 2_000_000_000, true), ledger(50, &[]));
    for (limit, expected) in [
        ("count(io_instruction)>3", ": found 4"),
        ("count(io_instruction)>4", "holds"),
        ("count(io_instruction)>5", "holds"),
        ("count(io_instruction)>=4", ": found 4"),
        ("count(io_instruction)>=5", "holds"),
        ("count(io_instruction)<5", ": found 4"),
        ("count(io_instruction)<4", "holds"),
        ("count(io_instruction)<3", "holds"),
        ("count(io_instruction)<=4", ": found 4"),
        ("count(io_instruction)<=3", "holds"),
        // Of no reason, of any and of none in parentheses: all exits.
        ("count>4", ": found 5"),
        ("count(*)>4", ": found 5"),
        ("count()>4", ": found 5"),
        ("count ( hlt ) > 0", ": found 1"),
        ("count(CPUID)>=0", ": found 0"),
    ] {
        assert_eq!(checked(limit, &facts, &ledger), expected, "{limit}");
    }
}

#[test]
fn what_is_found_is_said_in_the_unit_of_the_figure() {
    let (all, ledger) = (facts(&five_exits(), 2_000_000_000, true), ledger(50, &[]));
    let timed: Vec<Exit> = five_exits().into_iter().filter(|exit| exit.timed).collect();
    let timed = facts(&timed, 2_000_000_000, true);
    for (limit, expected) in [
        // Two and a half.
        ("rate>1/s", ": found 2/s"),
        ("rate>2", "holds"),
        ("exit_time>9.8us", ": found 9.81us"),
        ("cost>809ns", ": found 810ns"),
        ("cost>810ns", "holds"),
        // How long exits of all reasons take is not how long vCPUs idle.
        ("max>499ns", ": found 500ns"),
        ("max>500ns", "holds"),
        ("max(hlt)>1us", ": found 9.01us"),
        ("mean>265ns", ": found 266ns"),
        ("p50>100ns", ": found 200ns"),
        ("p99(HLT)>9us", ": found 9.01us"),
        ("share(hlt)>=1.23%", ": found 1.23%"),
        ("share(hlt)>1.23%", "holds"),
        ("share(hlt)>1.2 %", ": found 1.23%"),
        ("share(hlt)<1.24", ": found 1.23%"),
        ("share(hlt)>=2%", "holds"),
        ("share>99.99%", ": found 100.00%"),
        ("share(hlt)>0.05%", ": found 1.23%"),
    ] {
        assert_eq!(checked(limit, &timed, &ledger), expected, "{limit}");
    }
    const HIDDEN: &str = " cannot be judged: records were lost, or exits have no length; what these hide could change \
        the result";
    const UNTIMED: &str = " cannot be judged: more than a tenth of these exits have no length";
    for (limit, expected) in [
        ("user_space(IO_INSTRUCTION)>24.99%", ": found 25.00%"),
        ("user_space>20%", "holds"),
        ("user_space>19.9%", ": found 20.00%"),
        // One of the five has no length: it may have cost as much as the others, and have taken the longest.
        ("cost>809ns", ": found 810ns"),
        ("cost>810ns", HIDDEN),
        ("cost>2us", "holds"),
        ("exit_time(hlt)>10us", "holds"),
        ("max>499ns", UNTIMED),
        ("p99(HLT)>9us", ": found 9.01us"),
        ("p50(io_instruction)>1ms", UNTIMED),
        ("share(hlt)>1%", UNTIMED),
        ("count>5", "holds"),
    ] {
        assert_eq!(checked(limit, &all, &ledger), expected, "{limit}");
    }
    // A tenth of the records is lost, and with it a tenth of what grows with each exit.
    let lossy = self::ledger(50, &[(LedgerLine::LostRecords, 10)]);
    for (limit, expected) in [
        ("count>5", HIDDEN),
        ("count>4", ": found 5"),
        ("count>6", "holds"),
        ("rate>3", "holds"),
        ("cost(hlt)>11ns", HIDDEN),
        ("user_space>20%", "holds"),
    ] {
        assert_eq!(checked(limit, &all, &lossy), expected, "{limit}");
    }
}

#[test]
fn lost_is_all_that_lines_of_a_loss_or_worse_count() {
    let facts = facts(&five_exits(), 2_000_000_000, true);
    let all = [
        (LedgerLine::LostRecords, 3),
        (LedgerLine::SpansLoss, 2),
        (LedgerLine::BadText, 4),
        (LedgerLine::UncertainLoss, 50),
        (LedgerLine::Scheduler, 700),
    ];
    assert_eq!(checked("lost>8", &facts, &ledger(900, &all)), ": found 9");
    assert_eq!(checked("lost>9", &facts, &ledger(900, &all)), "holds");
    assert_eq!(checked("lost>=0", &facts, &ledger(900, &all[3..])), ": found 0");
    let unsaid = ledger(900, &[(LedgerLine::LossUnknown, 1)]);
    assert_eq!(
        checked("lost>0", &facts, &unsaid),
        " cannot be judged: the text does not say whether records were lost"
    );
    // Of a text that lacks lines nobody knows whether they were lost: what is lost for certain is the least.
    let why = " cannot be judged: lines are missing that the header of the text counts: it is cut or filtered, or they were lost";
    let of = |lost: u64| ledger(900, &[(LedgerLine::LostRecords, lost), (LedgerLine::MissingLines, 23)]);
    for (limit, lost, expected) in [
        ("lost>0", 0, why),
        ("lost>0", 7, ": found 7"),
        ("lost>7", 7, why),
        ("lost>=7", 7, ": found 7"),
        ("lost<8", 7, why),
        ("lost<=7", 7, why),
        ("lost<7", 7, "holds"),
        ("lost<=6", 7, "holds"),
    ] {
        assert_eq!(checked(limit, &facts, &of(lost)), expected, "{limit} {lost}");
    }
    // A recording that is cut, or of which nothing could be read, has lost something for certain.
    assert_eq!(checked("lost>0", &facts, &ledger(0, &[(LedgerLine::TruncatedBytes, 7)])), ": found 7");
}

#[test]
fn what_the_recording_does_not_tell_is_not_judged() {
    let readable = ledger(50, &[]);
    let whole = facts(&five_exits(), 2_000_000_000, true);
    let none = facts(&[], 2_000_000_000, true);
    let free = facts(&[exit(IO, 0, 0)], 0, false);
    for (limit, facts, ledger, why) in [
        ("count>0", &whole, &ledger(4, &[(LedgerLine::BadText, 4)]), "nothing could be read"),
        ("p99>1us", &whole, &ledger(4, &[(LedgerLine::BadText, 4)]), "nothing could be read"),
        (
            "count>0",
            &whole,
            &ledger(50, &[(LedgerLine::UnfinishedFile, 1)]),
            "the recording is cut, and nobody knows how much is missing",
        ),
        ("count>0", &none, &readable, "no exit was recorded, or none is selected"),
        ("max>0ns", &none, &readable, "no exit was recorded, or none is selected"),
        ("max(CPUID)>=0ns", &whole, &readable, "of no such exit both ends were seen"),
        ("mean(CPUID)>=0ns", &whole, &readable, "of no such exit both ends were seen"),
        ("p50(CPUID)>=0ns", &whole, &readable, "of no such exit both ends were seen"),
        ("user_space(CPUID)>=0%", &whole, &readable, "there is no such exit"),
        ("user_space>=0%", &free, &readable, "it does not tell which exits went on to user space"),
        ("share>=0%", &free, &readable, "no exit had a cost"),
        ("rate>=0/s", &free, &readable, "the recording has no length"),
    ] {
        assert_eq!(checked(limit, facts, ledger), format!(" cannot be judged: {why}"), "{limit}");
    }
    // Of an exit without any length both ends were seen, nevertheless.
    assert_eq!(checked("max>=0ns", &free, &readable), ": found 0ns");
}

#[test]
fn a_limit_that_is_not_understood_is_refused_with_what_to_write() {
    for (limit, why) in [
        ("cost", "\"cost\" compares nothing: write a figure, an operator and a limit, like 'p99(io)>200us'"),
        (
            "p98(io)>1us",
            "\"p98\" is no figure; there are count, rate, exit_time, cost, mean, p50, p90, p99, p99.9, max, share, user_space, lost",
        ),
        ("p99(io>1us", "\"p99(io\" is no figure of a reason: write it like p99(io)"),
        ("p99(io=1)>1us", "\"p99(io=1)\" is no figure of a reason: write it like p99(io)"),
        ("p99(io)>200", "\"200\" is no limit for p99, which is a length of time, like 200us"),
        ("count>1.5", "\"1.5\" is no limit for count, which is a whole number"),
        ("rate>5us", "\"5us\" is no limit for rate, which is exits per second"),
        (
            "share>12.345%",
            "\"12.345%\" is no limit for share, which is a share in per cent, with at most two decimals, like 30%",
        ),
        (
            "user_space>184467440737095517%",
            "\"184467440737095517%\" is no limit for user_space, which is a share in per cent, with at most two decimals, like 30%",
        ),
    ] {
        assert_eq!(limit.parse::<Threshold>().unwrap_err().to_string(), why, "{limit}");
    }
}

#[test]
fn limits_say_which_reason_they_are_about() {
    for (limit, reason) in [("cost(io)>1us", Some("io")), ("cost(*)>1us", None), ("cost>1us", None)] {
        assert_eq!(limit.parse::<Threshold>().unwrap().reason(), reason, "{limit}");
    }
    for (limit, reason) in [("cost(io)>+1%", Some("io")), ("cost(*)>+1%", None), ("cost>+1%", None)] {
        assert_eq!(limit.parse::<ChangeLimit>().unwrap().reason(), reason, "{limit}");
    }
}

/// A change from 400 to 430 in every measure of all reasons, and from 0 to 50 of one reason.
fn changes() -> Vec<DiffRow> {
    let row = |reason: Option<&str>, before, after, low, high| DiffRow {
        reason: reason.map(str::to_string),
        without: Vec::new(),
        timed: (100, 100),
        counts: (100, 100),
        changes: DiffMeasure::ALL
            .map(|measure| {
                let interval = Some(Interval { low, high });
                MeasureChange::of_blocks(measure, Some(before), Some(after), interval)
            })
            .to_vec(),
    };
    let mut rows = vec![row(None, 400, 430, 10, 70), row(Some("MSR_WRITE"), 0, 50, 40, 60)];
    rows.push(row(Some("HLT"), 0, 0, 0, 0));
    // Of 99th percentiles, something is missing: the side before, and an interval.
    rows[1].changes[4].before = None;
    rows[2].changes[4].interval = None;
    rows[2].changes.remove(3);
    // Only the median fell.
    let fell = Some(Interval { low: -120, high: -40 });
    rows[0].changes[3] = MeasureChange::of_blocks(DiffMeasure::P50, Some(400), Some(300), fell);
    rows
}

/// Of sides with several recordings each, which can be compared.
fn judged() -> DiffVerdict {
    let side = ComparedSide { recordings: ["a", "b"].map(str::to_string).into(), ..ComparedSide::default() };
    DiffVerdict::of(&changes()[0], &[], [&side, &side])
}

#[test]
fn a_change_beyond_its_limit_is_said_in_per_cent_of_what_was_before() {
    for (limit, expected) in [
        ("cost>+2%", ": found +7.5% (+2.5% to +17.5%)"),
        ("cost>+2.5%", "holds"),
        ("cost>=+2.5%", ": found +7.5% (+2.5% to +17.5%)"),
        ("cost<+17.5%", "holds"),
        ("cost<=+17.5%", ": found +7.5% (+2.5% to +17.5%)"),
        ("mean(*)>+1%", ": found +7.5% (+2.5% to +17.5%)"),
        ("p50>+1%", "holds"),
        ("p50<-5%", ": found -25.0% (-30.0% to -10.0%)"),
        // What was nothing has grown without bounds, unless it is nothing still.
        ("rate(msr_write)>+1000%", ": found +inf% (+inf% to +inf%)"),
        ("rate(HLT)>=0%", ": found +0.0% (+0.0% to +0.0%)"),
        ("rate(HLT)>0%", "holds"),
        ("p99(msr_write)>+1%", " cannot be judged: there is nothing to compare on one side"),
        (
            "p99(hlt)>+1%",
            " cannot be judged: there are too few exits, or too short recordings, for a confidence interval",
        ),
        ("p50(hlt)>+1%", " cannot be judged: there is no such exit on either side"),
        ("cost(CPUID)>+1%", " cannot be judged: there is no such exit on either side"),
    ] {
        let check = limit.parse::<ChangeLimit>().unwrap().check(&changes(), false, &judged());
        let said = said(check);
        assert_eq!(said.strip_prefix(limit).unwrap_or(&said), expected, "{limit}");
    }
    let cut = "cost>+2%".parse::<ChangeLimit>().unwrap().check(&changes(), true, &judged());
    assert_eq!(said(cut), "cost>+2% cannot be judged: the recording is cut, and nobody knows how much is missing");
}

#[test]
fn a_limit_on_a_change_that_is_not_understood_is_refused_with_what_to_write() {
    for (limit, why) in [
        ("p98>+1%", "\"p98\" is no figure of a comparison; there are cost, rate, mean, p50, p99"),
        ("cost>5%", "\"cost>5%\" is no change: write it in per cent with its sign, like +5% or -10%"),
        ("cost>+5us", "\"cost>+5us\" is no change: write it in per cent with its sign, like +5% or -10%"),
        ("cost+5%", "\"cost+5%\" compares nothing: write a figure, an operator and a limit, like 'p99(io)>200us'"),
    ] {
        assert_eq!(limit.parse::<ChangeLimit>().unwrap_err().to_string(), why, "{limit}");
    }
}
