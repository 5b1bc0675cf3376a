//! How often a comparison of recordings of an unchanged guest finds a change, and how often one of a changed guest misses it: by
//! the pool of corpus/nulls, which the script there made. docs/nulls.md has the counts.

use exitscope_analysis::{
    ComparedSide, Diff, DiffBlock, DiffState, DiffUnit, DiffVerdict, ExitStats, RecordedWhen, TraceSink,
};
use exitscope_model::{BesideRow, EventKinds, Exit, ExitParts, TimePart};
use exitscope_pipeline::{ReadOptions, read_alone};
use exitscope_trace::{Input, SourceOptions};
use exitscope_units::{Moment, Nanos};
use rand::{Rng, SeedableRng};
use rand_pcg::Pcg64Mcg;
use std::fmt::Write;
use std::path::{Path, PathBuf};

/// Where the draws begin.
const SEED: u64 = 52;

/// Comparisons of each row of the first table, of all groups of the pool together.
const NULLS: usize = 200;

/// Comparisons of each row of the second one.
const PLANTED: usize = 100;

/// False changes of [`NULLS`] at most. Five of a hundred are promised; of 200 that are independent, chance makes 19 or more of that in
/// one of a hundred cases.
const MOST_FALSE: usize = 18;

const HEAD: &str = "\
# False alarms of diff

Written by `cargo xtask nulls`; change nothing by hand.

`exitscope diff` at its default confidence of 95 %, on real recordings of guests of which none was changed. Of the lab's, 40 each of
`scenarios/port-loop.toml` and `scenarios/redis.toml`, quiet (at real-time priority, so that other programs do not delay the guest)
and loaded (beside programs of which there are now more, now fewer), all on a host that also built software. Of the rig's (a KVM host
on SVM under software emulation, whose exits are hardware's; rig/README.md), 40 each of `tiny-guest`, alone and loaded likewise.
`corpus/nulls` holds them in the order in which they were made, and the scripts that made them. Each comparison takes recordings that
follow one another, from a place that is drawn at random: as many for each side, in turns (a b a b …) or all of before first. The six
groups take equal parts.

A false alarm is a headline *Better* or *Worse*. Draws overlap: with 40 recordings of a group, 20 of which are compared, neighbouring
draws have most of theirs in common, so that the counts scatter more than as many independent ones would.

";

/// The figures of one recording, as it is and with every exit longer.
struct Recorded {
    /// By what exits were made longer, in per cent, and what they came to.
    blocks: Vec<(u64, DiffBlock)>,
}

/// Per cent by which exits are longer.
const LONGER: [u64; 3] = [0, 10, 30];

struct Sums([DiffBlock; 3]);

impl TraceSink for Sums {
    fn begin(&mut self, _first: Moment) {}

    fn note_event_kinds(&mut self, _kinds: EventKinds) {}

    fn absorb(&mut self, exit: &Exit) {
        for (block, longer) in self.0.iter_mut().zip(LONGER) {
            let mut parts = ExitParts::ZERO;
            for part in TimePart::ALL {
                let of = exit.parts.get(part).0;
                if of > 0 {
                    parts.add(part, Nanos(of + of * longer / 100));
                }
            }
            block.groups.entry(exit.code.name()).or_insert_with(ExitStats::default).absorb(&Exit { parts, ..*exit });
        }
    }

    fn beside_row(&mut self, _row: BesideRow<'_>) {}
}

fn read(path: &Path) -> Recorded {
    let options = ReadOptions { source: SourceOptions::default(), need_vcpus: false, progress: |_| None };
    let input = Input::open(path).unwrap();
    let (trace, mut sums) = read_alone(&input, options, || Sums(Default::default())).unwrap();
    let time: u64 = trace.lanes.iter().map(|lane| lane.last.as_nanos() - lane.first.as_nanos()).sum();
    assert!(time > 0 && trace.exits > 0, "{}: {} exits", path.display(), trace.exits);
    sums.0.iter_mut().for_each(|block| block.duration = time);
    Recorded { blocks: LONGER.into_iter().zip(sums.0).collect() }
}

/// The recordings of a guest and a load, in the order in which they were made.
fn group(name: &str) -> Vec<Recorded> {
    let pool = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../corpus/nulls");
    let mut files: Vec<PathBuf> = std::fs::read_dir(pool).unwrap().map(|file| file.unwrap().path()).collect();
    files.retain(|path| path.file_name().unwrap().to_str().unwrap().starts_with(name));
    files.sort();
    assert_eq!(files.len(), 40, "{name}");
    files.iter().map(|path| read(path)).collect()
}

#[derive(Clone, Copy)]
struct Comparison {
    each: usize,
    in_turns: bool,
    longer: u64,
}

impl Comparison {
    /// The headline's state, of recordings from the place on.
    fn state(self, recorded: &[Recorded]) -> DiffState {
        let mut sides = [Diff::default(), Diff::default()];
        for (at, recorded) in recorded[..2 * self.each].iter().enumerate() {
            let side = usize::from(if self.in_turns { at % 2 == 1 } else { at >= self.each });
            let longer = if side == 1 { self.longer } else { 0 };
            let block = recorded.blocks.iter().find(|of| of.0 == longer).unwrap().1.clone();
            let moment = |seconds: usize| Moment::from_nanos(seconds as u64 * 1_000_000_000);
            let clock = ("lab".to_string(), "monotonic".to_string());
            sides[side].add(vec![block]);
            sides[side].describe(DiffUnit {
                recorded: Some(RecordedWhen { clock, first: moment(at), last: moment(at + 1) }),
                ..DiffUnit::default()
            });
        }
        let [before, after] = sides;
        let (total, rows) = (after.total_against(&before, 9_500), after.against(&before, 9_500));
        let recordings = (0..self.each).map(|at| at.to_string()).collect();
        let side = ComparedSide { recordings, ..ComparedSide::default() };
        DiffVerdict::of(&total, &rows, [&side, &side]).state
    }

    /// The states of so many comparisons, of all groups alike.
    fn states(self, groups: &[Vec<Recorded>], count: usize) -> Vec<DiffState> {
        let mut random = Pcg64Mcg::seed_from_u64(SEED);
        let draw = |at: usize| {
            let group = &groups[at % groups.len()];
            self.state(&group[random.random_range(0..=(group.len() - 2 * self.each) as u32) as usize..])
        };
        (0..count).map(draw).collect()
    }
}

fn order(in_turns: bool) -> &'static str {
    if in_turns { "in turns" } else { "before first" }
}

fn is_change(state: &DiffState) -> bool {
    matches!(state, DiffState::Better | DiffState::Worse)
}

/// Counts of what comparisons of unchanged guests say.
fn nulls(groups: &[Vec<Recorded>], page: &mut String) {
    page.push_str("| recordings a side | order | comparisons | false alarms | cannot tell | no clear difference |\n");
    page.push_str("| ---: | --- | ---: | ---: | ---: | ---: |\n");
    for each in [2, 3, 5, 10] {
        for in_turns in [true, false] {
            let states = Comparison { each, in_turns, longer: 0 }.states(groups, NULLS);
            let count = |of: &dyn Fn(&DiffState) -> bool| states.iter().filter(|state| of(state)).count();
            let found = count(&is_change);
            let cannot = count(&|state| matches!(state, DiffState::CannotTell(_)));
            let unclear = count(&|state| matches!(state, DiffState::NoClearDifference | DiffState::Same));
            assert_eq!(found + cannot + unclear, NULLS, "{states:?}");
            writeln!(page, "| {each} | {} | {NULLS} | {found} | {cannot} | {unclear} |", order(in_turns)).unwrap();
            assert!(found <= MOST_FALSE, "{each} a side, {}: {found} of {NULLS}", order(in_turns));
        }
    }
}

/// Counts of what comparisons of changed guests say: of the lab's, which are held to a least share, and of the rig's, which vary with
/// what the machine around the emulator does.
fn planted(lab: &[Vec<Recorded>], rig: &[Vec<Recorded>], page: &mut String) {
    page.push_str("| guests | exits longer by | recordings a side | order | comparisons | Worse | Better |\n");
    page.push_str("| --- | ---: | ---: | --- | ---: | ---: | ---: |\n");
    for (guests, groups, is_held) in [("lab", lab, true), ("rig", rig, false)] {
        for (longer, least) in [(10, 80), (30, 99)] {
            for in_turns in [true, false] {
                let states = Comparison { each: 5, in_turns, longer }.states(groups, PLANTED);
                let count = |of: DiffState| states.iter().filter(|state| **state == of).count();
                let (worse, better) = (count(DiffState::Worse), count(DiffState::Better));
                let order = order(in_turns);
                writeln!(page, "| {guests} | {longer} % | 5 | {order} | {PLANTED} | {worse} | {better} |").unwrap();
                let is_missed = is_held && in_turns && worse < least;
                assert!(better == 0 && !is_missed, "{guests}, {longer} %: {worse} of {PLANTED}");
            }
        }
    }
}

#[test]
fn unchanged_guests_raise_no_more_alarms_than_said_and_changed_ones_do() {
    let quiet = ["port-loop-quiet", "redis-quiet", "tiny-guest-quiet"];
    let names = quiet.into_iter().chain(["port-loop-loaded", "redis-loaded", "tiny-guest-loaded"]);
    let groups: Vec<Vec<Recorded>> = names.map(group).collect();
    let mut page = HEAD.to_string();
    nulls(&groups, &mut page);
    page.push_str(
        "\nThe same with every exit of after longer, on the quiet host alone, five recordings a side. A comparison of which all of before \
         came\nfirst tells less: a drift may have made what differs. The rig's host is emulated by a machine that also built software: what \
         its\nguests' exits take varies with that.\n\n",
    );
    planted(&groups[..2], &groups[2..quiet.len()], &mut page);
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/nulls.md");
    if std::env::var_os("EXITSCOPE_WRITE_DOCUMENTS").is_some() {
        std::fs::write(&path, &page).unwrap();
        println!("seed {SEED}\n{page}");
    }
    assert_eq!(std::fs::read_to_string(&path).unwrap(), page, "`cargo xtask nulls` writes it");
}
