//! The queue of what happens next: earliest first, equal moments in the order in which they were planned.
//!
//! A tournament: every plan has a place among the leaves, every node above has the earlier of its two children, the root
//! what comes next. A plan changes the nodes between its leaf and the root, whichever they have: there is nothing for the
//! processor to guess, and it can fetch them all at once. What is taken leaves its place to what is planned next, since
//! mostly one thing leads to another.
//!
//! ```text
//!            1             node n has the children 2n and 2n + 1, side by side in memory
//!       2         3
//!     4   5     6   7      leaves: the second half
//! ```

use std::hint::select_unpredictable;

/// Things planned for moments, in any unit of time: at most 16 million at once, a trillion in all.
#[derive(Debug)]
pub struct EventQueue<T> {
    /// Nodes 0 and 1, 2 and 3, …; there is no node 0. As many leaves as places.
    tree: Vec<[Key; 2]>,
    plans: Vec<T>,
    /// Places without a plan.
    free: Vec<u32>,
    /// The place of what was taken last, whose key is in the tree still.
    vacant: Option<EventHandle>,
    planned: u64,
}

/// The place of something that is planned, until it is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EventHandle(u32);

/// What orders plans.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Key {
    at: u64,
    /// 40 bits number of the plan, 24 bits its place.
    number: u64,
}

/// The key of no plan: comes after every other.
const NOTHING: Key = Key { at: u64::MAX, number: u64::MAX };

const PLACE_BITS: u32 = 24;
const NUMBER_BITS: u32 = 40;

impl Key {
    #[inline]
    fn plan(self) -> EventHandle {
        EventHandle(self.number as u32 & ((1 << PLACE_BITS) - 1))
    }

    /// The earlier of two. Which one it is cannot be guessed, so a branch would be slow; that both have one moment is
    /// rare.
    #[inline]
    fn min(self, other: Key) -> Key {
        if self.at == other.at {
            return if self.number < other.number { self } else { other };
        }
        let mine = self.at < other.at;
        Key {
            at: select_unpredictable(mine, self.at, other.at),
            number: select_unpredictable(mine, self.number, other.number),
        }
    }
}

impl<T: Copy> EventQueue<T> {
    /// Nothing is planned.
    pub fn new() -> EventQueue<T> {
        EventQueue { tree: vec![[NOTHING; 2]], plans: Vec::new(), free: Vec::new(), vacant: None, planned: 0 }
    }

    /// Plans `what` for the moment `at`. Panics if 16 million things are planned already.
    #[inline]
    pub fn plan(&mut self, at: u64, what: T) -> EventHandle {
        let plan = match self.vacant.take() {
            Some(plan) => plan,
            None => EventHandle(self.free.pop().unwrap_or_else(|| self.new_place(what))),
        };
        self.plans[plan.0 as usize] = what;
        self.place(plan, at);
        plan
    }

    #[inline]
    fn place(&mut self, plan: EventHandle, at: u64) {
        let key = Key { at, number: self.planned << PLACE_BITS | u64::from(plan.0) };
        self.planned = (self.planned + 1) & ((1 << NUMBER_BITS) - 1);
        self.set(plan, key);
    }

    /// Plans `what` for the moment `at`, in place of what was planned before, if anything.
    #[inline]
    pub fn replan(&mut self, before: Option<EventHandle>, at: u64, what: T) -> EventHandle {
        let Some(plan) = before else { return self.plan(at, what) };
        self.plans[plan.0 as usize] = what;
        self.place(plan, at);
        plan
    }

    /// Takes away what is planned.
    #[inline]
    pub fn cancel(&mut self, plan: EventHandle) {
        self.set(plan, NOTHING);
        self.free.push(plan.0);
    }

    /// Takes what comes next, and its moment.
    #[inline]
    pub fn pop(&mut self) -> Option<(u64, T)> {
        if let Some(plan) = self.vacant.take() {
            self.cancel(plan);
        }
        let first = self.tree[0][1];
        if first == NOTHING {
            return None;
        }
        let plan = first.plan();
        self.vacant = Some(plan);
        Some((first.at, self.plans[plan.0 as usize]))
    }

    /// Gives a leaf its key, and the nodes above it theirs.
    #[inline]
    fn set(&mut self, plan: EventHandle, key: Key) {
        let mut node = self.tree.len() + plan.0 as usize;
        let mut first = key;
        loop {
            let pair = &mut self.tree[node / 2];
            pair[node % 2] = first;
            if node == 1 {
                break;
            }
            first = first.min(pair[(node + 1) % 2]);
            node /= 2;
        }
    }

    #[cold]
    fn new_place(&mut self, what: T) -> u32 {
        let (place, leaves) = (self.plans.len(), self.tree.len());
        assert!(place < 1 << PLACE_BITS, "too much is planned");
        self.plans.push(what);
        if place == leaves {
            // The old tree becomes the left one of two under a new root.
            let mut tree = vec![[NOTHING; 2]; leaves * 2];
            tree[0][1] = self.tree[0][1];
            for level in (0..=leaves.ilog2()).map(|level| 1 << level) {
                let nodes = (level..level * 2).map(|node| (node + level, self.tree[node / 2][node % 2]));
                nodes.for_each(|(node, key)| tree[node / 2][node % 2] = key);
            }
            self.tree = tree;
        }
        place as u32
    }

    /// How many things are planned.
    pub fn len(&self) -> usize {
        self.plans.len() - self.free.len() - usize::from(self.vacant.is_some())
    }

    /// Whether nothing is planned.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl<T: Copy> Default for EventQueue<T> {
    fn default() -> EventQueue<T> {
        EventQueue::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_moments_keep_the_order_in_which_they_were_planned() {
        let mut queue = EventQueue::new();
        for (at, what) in [(5, 'a'), (3, 'b'), (5, 'c'), (3, 'd'), (0, 'e')] {
            queue.plan(at, what);
        }
        let order: Vec<_> = std::iter::from_fn(|| queue.pop()).collect();
        assert_eq!(order, [(0, 'e'), (3, 'b'), (3, 'd'), (5, 'a'), (5, 'c')]);
    }

    /// What a test does with the queue.
    #[derive(Clone, Copy, Debug)]
    enum Do {
        Plan(u64),
        Pop,
        /// Moves, or without a moment cancels, one of those that are planned.
        Change(usize, Option<u64>),
    }

    fn something() -> impl proptest::strategy::Strategy<Value = Do> {
        use proptest::prelude::*;
        prop_oneof![
            3 => (0u64..50).prop_map(Do::Plan),
            2 => Just(Do::Pop),
            1 => (any::<usize>(), proptest::option::of(0u64..50)).prop_map(|(which, at)| Do::Change(which, at)),
        ]
    }

    proptest::proptest! {
        #[test]
        fn whatever_is_planned_changed_and_taken_comes_in_order(steps in proptest::collection::vec(something(), 0..400)) {
            let (mut queue, mut model) = (EventQueue::new(), std::collections::BTreeMap::new());
            for (number, step) in steps.into_iter().enumerate() {
                match step {
                    Do::Plan(at) => {
                        let plan = queue.plan(at, number);
                        model.insert((at, number), (number, plan));
                    }
                    Do::Pop => {
                        let expected = model.pop_first().map(|((at, _), (what, _))| (at, what));
                        proptest::prop_assert_eq!(queue.pop(), expected);
                    }
                    Do::Change(which, to) => {
                        let Some(key) = model.keys().nth(which % model.len().max(1)).copied() else { continue };
                        let (what, plan) = model.remove(&key).unwrap();
                        match to {
                            Some(at) => {
                                proptest::prop_assert_eq!(queue.replan(Some(plan), at, what), plan);
                                model.insert((at, number), (what, plan));
                            }
                            None => queue.cancel(plan),
                        }
                    }
                }
                proptest::prop_assert_eq!(queue.len(), model.len());
            }
        }
    }
}
