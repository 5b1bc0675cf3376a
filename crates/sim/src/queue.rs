//! The queue of what happens next: earliest first, equal moments in the order in which they were planned.
//!
//! A heap with four children to a parent: half as deep as one with two, and all children of one parent in one line of the
//! cache. What is taken leaves its place at the top vacant, for what is planned next: mostly one thing leads to another.
//!
//! ```text
//! key: 64 bits moment │ 40 bits number of the plan │ 24 bits slot ─► slots[slot]: what
//! ```

/// Things planned for moments, in any unit of time: at most 16 million at once, a trillion in all.
#[derive(Debug)]
pub struct Queue<T> {
    /// The keys of the root, as the last of its line, and of the children of node 0, 1, 2, …: a line of the cache each.
    lines: Vec<Line>,
    /// Nodes of the heap.
    nodes: usize,
    /// Whether the root is free.
    vacant: bool,
    planned: u64,
    slots: Vec<T>,
    free: Vec<u32>,
}

#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
struct Line([u128; WIDTH]);

/// Children of a parent.
const WIDTH: usize = 4;

/// The key of no node: comes after every other.
const NOTHING: u128 = u128::MAX;

const SLOT_BITS: u32 = 24;
const NUMBER_BITS: u32 = 40;

impl<T: Copy> Queue<T> {
    /// Nothing is planned.
    pub fn new() -> Queue<T> {
        let lines = vec![Line([NOTHING; WIDTH])];
        Queue { lines, nodes: 0, vacant: false, planned: 0, slots: Vec::new(), free: Vec::new() }
    }

    /// A node's key.
    #[inline]
    fn key(&mut self, node: usize) -> &mut u128 {
        let place = node + WIDTH - 1;
        &mut self.lines[place / WIDTH].0[place % WIDTH]
    }

    /// Plans `what` for the moment `at`. Panics if 16 million things are planned already.
    #[inline]
    pub fn plan(&mut self, at: u64, what: T) {
        let slot = match self.free.pop() {
            Some(slot) => {
                self.slots[slot as usize] = what;
                slot
            }
            None => self.new_slot(what),
        };
        let key = u128::from(at) << 64 | u128::from(self.planned << SLOT_BITS | u64::from(slot));
        self.planned = (self.planned + 1) & ((1 << NUMBER_BITS) - 1);
        if std::mem::take(&mut self.vacant) {
            self.sink(key);
        } else {
            let node = self.nodes;
            self.nodes += 1;
            if node.div_ceil(WIDTH) == self.lines.len() {
                self.lines.push(Line([NOTHING; WIDTH]));
            }
            self.rise(node, key);
        }
    }

    #[cold]
    fn new_slot(&mut self, what: T) -> u32 {
        let slot = self.slots.len();
        assert!(slot < 1 << SLOT_BITS, "too much is planned");
        self.slots.push(what);
        slot as u32
    }

    /// Takes what comes next, and its moment.
    #[inline]
    pub fn pop(&mut self) -> Option<(u64, T)> {
        if std::mem::take(&mut self.vacant) {
            self.nodes -= 1;
            let last = std::mem::replace(self.key(self.nodes), NOTHING);
            if self.nodes > 0 {
                self.sink(last);
            }
        }
        let first = *self.key(0);
        if first == NOTHING {
            return None;
        }
        self.vacant = true;
        let slot = first as u32 & ((1 << SLOT_BITS) - 1);
        self.free.push(slot);
        Some(((first >> 64) as u64, self.slots[slot as usize]))
    }

    /// Puts a key where it belongs, from the vacant root down.
    #[inline]
    fn sink(&mut self, key: u128) {
        let mut node = 0;
        while let Some(&Line([a, b, c, d])) = self.lines.get(node + 1) {
            let (one, left) = if b < a { (2, b) } else { (1, a) };
            let (other, right) = if d < c { (4, d) } else { (3, c) };
            let (child, next) = if right < left { (other, right) } else { (one, left) };
            if key < next {
                break;
            }
            *self.key(node) = next;
            node = node * WIDTH + child;
        }
        *self.key(node) = key;
    }

    /// Puts a key where it belongs, from a node up.
    #[inline]
    fn rise(&mut self, mut node: usize, key: u128) {
        while node > 0 {
            let parent = (node - 1) / WIDTH;
            let above = *self.key(parent);
            if above < key {
                break;
            }
            *self.key(node) = above;
            node = parent;
        }
        *self.key(node) = key;
    }

    /// How many things are planned.
    pub fn len(&self) -> usize {
        self.nodes - usize::from(self.vacant)
    }

    /// Whether nothing is planned.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl<T: Copy> Default for Queue<T> {
    fn default() -> Queue<T> {
        Queue::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_moments_keep_the_order_in_which_they_were_planned() {
        let mut queue = Queue::new();
        for (at, what) in [(5, 'a'), (3, 'b'), (5, 'c'), (3, 'd'), (0, 'e')] {
            queue.plan(at, what);
        }
        let order: Vec<_> = std::iter::from_fn(|| queue.pop()).collect();
        assert_eq!(order, [(0, 'e'), (3, 'b'), (3, 'd'), (5, 'a'), (5, 'c')]);
    }

    proptest::proptest! {
        #[test]
        fn what_is_planned_and_taken_in_any_mixture_comes_in_order(steps in proptest::collection::vec(proptest::option::of(0u64..50), 0..400)) {
            let (mut queue, mut model) = (Queue::new(), std::collections::BTreeMap::new());
            for (number, step) in steps.into_iter().enumerate() {
                match step {
                    Some(at) => {
                        queue.plan(at, number as u32);
                        model.insert((at, number), number as u32);
                    }
                    None => {
                        let expected = model.pop_first().map(|((at, _), what)| (at, what));
                        proptest::prop_assert_eq!(queue.pop(), expected);
                    }
                }
                proptest::prop_assert_eq!(queue.len(), model.len());
            }
        }
    }
}
