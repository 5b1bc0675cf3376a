//! Who has its turn when: blocks in which each setting is measured twice, in random order and then in the reverse of it.
//!
//! ```text
//!   block 1              block 2
//! ┌───────────────────┐┌───────────────────┐
//!  ~A── ~B── ~B── ~A──  ~B── ~A── ~A── ~B──       ~ settling   ── measured
//! ```

use exitscope_stats::ConfidenceSequence;
use exitscope_units::Nanos;
use rand::{Rng, SeedableRng};
use rand_pcg::Pcg64Mcg;
use std::fmt;

/// Settings that a trial compares at most, with the one in force.
pub const MAX_SETTINGS: usize = 5;

/// Blocks that a plan has at most.
const MAX_BLOCKS: u64 = 10_000;

/// Blocks that turns are made for where nobody says how long they are.
const USUAL_BLOCKS: u64 = 25;

/// Blocks that are printed.
const SHOWN_BLOCKS: usize = 3;

/// How long the parts of a trial are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TrialLengths {
    /// From setting a value until its turn is measured.
    pub settle: Nanos,
    /// The measured part of a turn.
    pub turn: Nanos,
    /// The whole trial at most; what is left of it after the last whole block is not used.
    pub total: Nanos,
}

impl TrialLengths {
    /// So that `total` has 25 blocks of so many settings, of which a sixth is for settling.
    pub fn within(total: Nanos, settings: usize) -> TrialLengths {
        let each = total.0 / USUAL_BLOCKS / (2 * settings.max(1) as u64);
        TrialLengths { settle: Nanos(each / 6), turn: Nanos(each - each / 6), total }
    }

    /// A turn with its settling.
    fn each(&self) -> Nanos {
        self.settle.plus(self.turn)
    }
}

/// What a trial will do.
#[derive(Clone, Debug, PartialEq)]
pub struct TrialPlan {
    /// What each setting is called, as whoever sets it understands it. The first is in force before the trial.
    pub settings: Vec<String>,
    /// How long its parts are.
    pub lengths: TrialLengths,
    /// The chance of any false alarm in the whole trial, above 0 and below 1.
    pub alpha: f64,
    /// What the order was drawn with; the same seed draws the same.
    pub seed: u64,
    /// The turns of each block, as positions in `settings`: a permutation, and its reverse.
    pub blocks: Vec<Vec<usize>>,
    /// What the chance of a false alarm is divided among: comparisons with the setting in force, or one slope.
    pub comparisons: usize,
}

/// One turn of one setting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TrialTurn {
    /// Its block's number, from 0.
    pub block: usize,
    /// Whose turn it is, as a position in the plan's settings.
    pub setting: usize,
    /// When the setting is set, from the trial's beginning; it settles from then on.
    pub set_at: Nanos,
    /// When measuring begins, from the trial's beginning.
    pub from: Nanos,
    /// When measuring ends, from the trial's beginning.
    pub until: Nanos,
}

/// Why there is no plan.
#[derive(Debug, PartialEq, thiserror::Error)]
pub enum TrialPlanError {
    /// Nothing to compare, or too much.
    #[error("{0} settings; a trial compares 2 to {MAX_SETTINGS}, with the one in force")]
    Settings(usize),
    /// The same setting again.
    #[error("{0} is given twice")]
    Twice(String),
    /// Turns in which nothing is measured.
    #[error("turns must be longer than 0")]
    NoTurn,
    /// Not a chance.
    #[error("the chance of a false alarm must be above 0% and at most 50%, not {percent}%", percent = .0 * 100.0)]
    Alpha(f64),
    /// Too few blocks to be certain of anything.
    #[error(
        "{total} is too short: {blocks} blocks of {turns} turns of {each} are the least that can be certain, which is {needed}; \
             allow more time or make turns shorter"
    )]
    TooShort {
        /// The time that was given.
        total: Nanos,
        /// The fewest blocks.
        blocks: u64,
        /// Turns of a block.
        turns: usize,
        /// A turn with its settling.
        each: Nanos,
        /// The time that they take.
        needed: Nanos,
    },
    /// Turns of less than is sensible.
    #[error("{0} blocks are more than {MAX_BLOCKS}: make turns longer")]
    TooMany(u64),
}

impl TrialPlan {
    /// A plan with as many whole blocks as there is time for. The order of each is drawn with `seed`.
    pub fn new(
        settings: Vec<String>,
        lengths: TrialLengths,
        alpha: f64,
        seed: u64,
    ) -> Result<TrialPlan, TrialPlanError> {
        let comparisons = settings.len().saturating_sub(1);
        TrialPlan::with_comparisons(settings, lengths, alpha, seed, comparisons)
    }

    /// The same of settings that are doses of one cause: they are not compared one by one, but have one slope.
    pub fn of_doses(
        settings: Vec<String>,
        lengths: TrialLengths,
        alpha: f64,
        seed: u64,
    ) -> Result<TrialPlan, TrialPlanError> {
        TrialPlan::with_comparisons(settings, lengths, alpha, seed, 1)
    }

    fn with_comparisons(
        settings: Vec<String>,
        lengths: TrialLengths,
        alpha: f64,
        seed: u64,
        comparisons: usize,
    ) -> Result<TrialPlan, TrialPlanError> {
        if !(2..=MAX_SETTINGS).contains(&settings.len()) {
            return Err(TrialPlanError::Settings(settings.len()));
        }
        if let Some(at) = (1..settings.len()).find(|&at| settings[..at].contains(&settings[at])) {
            return Err(TrialPlanError::Twice(settings[at].clone()));
        }
        if lengths.turn == Nanos::ZERO {
            return Err(TrialPlanError::NoTurn);
        }
        if !(alpha > 0.0 && alpha <= 0.5) {
            return Err(TrialPlanError::Alpha(alpha));
        }
        let mut plan = TrialPlan { settings, lengths, alpha, seed, blocks: Vec::new(), comparisons };
        let (count, fewest) = (lengths.total.0 / plan.block_length().0, plan.fewest_blocks());
        if count < fewest {
            let (turns, each) = (plan.turns_of_a_block(), lengths.each());
            let needed = Nanos(plan.block_length().0.saturating_mul(fewest));
            return Err(TrialPlanError::TooShort { total: lengths.total, blocks: fewest, turns, each, needed });
        }
        if count > MAX_BLOCKS {
            return Err(TrialPlanError::TooMany(count));
        }
        let mut random = Pcg64Mcg::seed_from_u64(seed);
        plan.blocks = (0..count).map(|_| draw_block(plan.settings.len(), &mut random)).collect();
        Ok(plan)
    }

    /// How many turns a block has: each setting has two.
    pub fn turns_of_a_block(&self) -> usize {
        2 * self.settings.len()
    }

    /// How long a block is.
    pub fn block_length(&self) -> Nanos {
        Nanos(self.lengths.each().0.saturating_mul(self.turns_of_a_block() as u64))
    }

    /// How long all blocks are.
    pub fn length(&self) -> Nanos {
        Nanos(self.block_length().0.saturating_mul(self.blocks.len() as u64))
    }

    /// The chance of a false alarm that each comparison with the setting in force has; of doses, their slope.
    pub fn alpha_of_each(&self) -> f64 {
        self.alpha / self.comparisons as f64
    }

    /// Blocks before which nothing is certain.
    pub fn fewest_blocks(&self) -> u64 {
        ConfidenceSequence::fewest(self.alpha_of_each())
    }

    /// The turn of this number, from 0; `None` after the last.
    pub fn turn(&self, number: usize) -> Option<TrialTurn> {
        let turns = self.turns_of_a_block();
        let block = number / turns;
        let setting = *self.blocks.get(block)?.get(number % turns)?;
        let set_at = Nanos(self.lengths.each().0 * number as u64);
        let from = set_at.plus(self.lengths.settle);
        Some(TrialTurn { block, setting, set_at, from, until: from.plus(self.lengths.turn) })
    }

    /// All turns, in order.
    pub fn turns(&self) -> impl Iterator<Item = TrialTurn> + '_ {
        (0..).map_while(|number| self.turn(number))
    }

    /// The letter that stands for a setting in a printed plan: `A` is the one in force.
    pub fn letter(setting: usize) -> char {
        char::from(b'A' + setting as u8)
    }
}

/// A permutation of so many settings, each as likely as any other, and its reverse (R. A. Fisher and F. Yates, 1938).
fn draw_block(settings: usize, random: &mut Pcg64Mcg) -> Vec<usize> {
    let mut order: Vec<usize> = (0..settings).collect();
    for last in (1..settings).rev() {
        order.swap(last, random.random_range(0..=last as u32) as usize);
    }
    order.extend_from_within(..);
    order[settings..].reverse();
    order
}

impl fmt::Display for TrialPlan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, setting) in self.settings.iter().enumerate() {
            writeln!(f, "{}: {setting}{}", TrialPlan::letter(at), if at == 0 { " (in force)" } else { "" })?;
        }
        let TrialLengths { settle, turn, .. } = self.lengths;
        let (blocks, turns) = (self.blocks.len(), self.turns_of_a_block());
        writeln!(f, "turns: {settle} to settle, then {turn} measured")?;
        writeln!(f, "blocks: {blocks} of {turns} turns, {} each, {} in all", self.block_length(), self.length())?;
        let fewest = self.fewest_blocks();
        writeln!(f, "certain after {fewest} blocks ({}) at the earliest", Nanos(self.block_length().0 * fewest))?;
        write!(f, "false alarms: about {}% of trials at most", self.alpha * 100.0)?;
        if self.comparisons > 1 {
            write!(f, ", {:.2}% for each of {} comparisons with A", self.alpha_of_each() * 100.0, self.comparisons)?;
        }
        write!(f, "\norder (seed {}):", self.seed)?;
        for (at, block) in self.blocks.iter().take(SHOWN_BLOCKS).enumerate() {
            f.write_str(if at == 0 { " " } else { " | " })?;
            let letters: Vec<String> = block.iter().map(|&setting| TrialPlan::letter(setting).to_string()).collect();
            f.write_str(&letters.join(" "))?;
        }
        writeln!(f, "{}", if blocks > SHOWN_BLOCKS { " | …" } else { "" })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    fn plan(settings: usize, seed: u64) -> TrialPlan {
        let settings: Vec<String> = (0..settings).map(|at| at.to_string()).collect();
        let lengths = TrialLengths { settle: Nanos(SECOND), turn: Nanos(5 * SECOND), total: Nanos(1_000 * SECOND) };
        TrialPlan::new(settings, lengths, 0.05, seed).unwrap()
    }

    #[test]
    fn each_block_has_each_setting_twice_and_is_its_own_mirror_image() {
        for settings in 2..=MAX_SETTINGS {
            for block in plan(settings, 1).blocks {
                assert!(block.iter().eq(block.iter().rev()), "{block:?}");
                let mut half = block[..settings].to_vec();
                half.sort_unstable();
                assert_eq!(half, (0..settings).collect::<Vec<_>>());
            }
        }
    }

    #[test]
    fn each_order_comes_as_often_after_any_other() {
        let mut random = Pcg64Mcg::seed_from_u64(7);
        let blocks: Vec<Vec<usize>> = (0..36_000).map(|_| draw_block(3, &mut random)).collect();
        let mut counts = std::collections::BTreeMap::<&[Vec<usize>], u32>::new();
        blocks.windows(2).for_each(|two| *counts.entry(two).or_default() += 1);
        assert_eq!(counts.len(), 36, "each of 6 orders after each of 6");
        // Four standard deviations of a count of 1,000.
        assert!(counts.values().all(|count| (875..=1_125).contains(count)), "{counts:?}");
    }

    #[test]
    fn the_same_seed_gives_the_same_plan_and_another_another() {
        assert_eq!(plan(2, 1), plan(2, 1));
        assert_ne!(plan(2, 1).blocks, plan(2, 2).blocks);
    }

    #[test]
    fn turns_follow_each_other_without_a_gap() {
        let plan = plan(3, 1);
        assert_eq!((plan.blocks.len(), plan.block_length()), (27, Nanos(36 * SECOND)));
        let turns: Vec<TrialTurn> = plan.turns().collect();
        assert_eq!(turns.len(), 27 * 6);
        assert_eq!(turns[0].from, Nanos(SECOND));
        assert!(turns.windows(2).all(|two| two[0].until == two[1].set_at && two[1].from.0 - two[1].set_at.0 == SECOND));
        assert_eq!(turns.last().map(|turn| (turn.block, turn.until)), Some((26, plan.length())));
        assert!(turns.iter().all(|turn| plan.blocks[turn.block].contains(&turn.setting)));
    }

    #[test]
    fn the_usual_lengths_make_25_blocks() {
        for settings in 2..=MAX_SETTINGS {
            let lengths = TrialLengths::within(Nanos(600 * SECOND), settings);
            let names = (0..settings).map(|at| at.to_string()).collect();
            let plan = TrialPlan::new(names, lengths, 0.05, 1).unwrap();
            assert_eq!(plan.blocks.len(), 25, "{settings}");
        }
        let of_two = TrialLengths::within(Nanos(600 * SECOND), 2);
        assert_eq!((of_two.settle, of_two.turn), (Nanos(SECOND), Nanos(5 * SECOND)));
    }

    #[test]
    fn what_cannot_be_planned_is_refused_with_what_to_do() {
        let lengths = |turn, total| TrialLengths { settle: Nanos(SECOND), turn: Nanos(turn), total: Nanos(total) };
        let of = |names: &str, lengths, alpha| {
            let names = names.split_whitespace().map(str::to_string).collect();
            TrialPlan::new(names, lengths, alpha, 1).unwrap_err().to_string()
        };
        let fine = lengths(SECOND, 100 * SECOND);
        assert_eq!(of("0", fine, 0.05), "1 settings; a trial compares 2 to 5, with the one in force");
        assert_eq!(of("0 1 0", fine, 0.05), "0 is given twice");
        assert_eq!(of("0 1", lengths(0, SECOND), 0.05), "turns must be longer than 0");
        assert_eq!(of("0 1", fine, 1.5), "the chance of a false alarm must be above 0% and at most 50%, not 150%");
        assert_eq!(
            of("0 1", lengths(SECOND, 60 * SECOND), 0.05),
            "60.0s is too short: 8 blocks of 4 turns of 2.00s are the least that can be certain, which is 64.0s; \
             allow more time or make turns shorter"
        );
        assert_eq!(
            of("0 1", TrialLengths { settle: Nanos(0), turn: Nanos(10), total: Nanos(SECOND) }, 0.05),
            "25000000 blocks are more than 10000: make turns longer"
        );
    }

    #[test]
    fn a_plan_is_printed_as_it_will_be_run() {
        assert_eq!(
            plan(3, 1).to_string(),
            "A: 0 (in force)\nB: 1\nC: 2\n\
             turns: 1.00s to settle, then 5.00s measured\n\
             blocks: 27 of 6 turns, 36.0s each, 972s in all\n\
             certain after 9 blocks (324s) at the earliest\n\
             false alarms: about 5% of trials at most, 2.50% for each of 2 comparisons with A\n\
             order (seed 1): B A C C A B | B A C C A B | B A C C A B | …\n"
        );
    }
}
