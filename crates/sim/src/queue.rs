//! The queue of what happens next: earliest first, equal moments in the order in which they were planned.
//!
//! A heap with four children to a parent: half as deep as one with two, and the children of one parent lie side by side.
//! What is taken leaves its place at the top vacant, for what is planned next: mostly one thing leads to one other.
//!
//! ```text
//! key: 64 bits moment │ 40 bits number of the plan │ 24 bits slot ─► slots[slot]: what
//! ```

/// Things planned for moments, in any unit of time: at most 16 million at once, a trillion in all.
#[derive(Debug)]
pub struct Queue<T> {
    /// Keys; one is less than another exactly if it comes first.
    heap: Vec<u128>,
    /// Whether the place at the top is free.
    vacant: bool,
    planned: u64,
    slots: Vec<T>,
    free: Vec<u32>,
}

/// Children of a parent.
const WIDTH: usize = 4;

const SLOT_BITS: u32 = 24;
const NUMBER_BITS: u32 = 40;

impl<T: Copy> Queue<T> {
    /// Nothing is planned.
    pub fn new() -> Queue<T> {
        Queue { heap: Vec::new(), vacant: false, planned: 0, slots: Vec::new(), free: Vec::new() }
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
            self.heap.push(key);
            self.rise(self.heap.len() - 1, key);
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
            let last = self.heap.pop()?;
            if !self.heap.is_empty() {
                self.sink(last);
            }
        }
        let first = *self.heap.first()?;
        self.vacant = true;
        let slot = first as u32 & ((1 << SLOT_BITS) - 1);
        self.free.push(slot);
        Some(((first >> 64) as u64, self.slots[slot as usize]))
    }

    /// Puts a key where it belongs, from the vacant top down.
    #[inline]
    fn sink(&mut self, key: u128) {
        let heap = self.heap.as_mut_slice();
        let mut place = 0;
        loop {
            let child = place * WIDTH + 1;
            let (least, next) = if let Some(&[a, b, c, d]) = heap.get(child..child + WIDTH) {
                let (one, left) = if b < a { (1, b) } else { (0, a) };
                let (other, right) = if d < c { (3, d) } else { (2, c) };
                if right < left { (other, right) } else { (one, left) }
            } else {
                let children = heap.get(child..).unwrap_or_default().iter().copied().enumerate();
                match children.min_by_key(|(_, key)| *key) {
                    Some(least) => least,
                    None => break,
                }
            };
            if key < next {
                break;
            }
            heap[place] = next;
            place = child + least;
        }
        heap[place] = key;
    }

    /// Puts a key where it belongs, from a place up.
    #[inline]
    fn rise(&mut self, mut place: usize, key: u128) {
        while place > 0 {
            let parent = (place - 1) / WIDTH;
            if self.heap[parent] < key {
                break;
            }
            self.heap[place] = self.heap[parent];
            place = parent;
        }
        self.heap[place] = key;
    }

    /// How many things are planned.
    pub fn len(&self) -> usize {
        self.heap.len() - usize::from(self.vacant)
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
