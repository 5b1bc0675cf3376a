//! The queue of what happens next: earliest first, equal moments in the order in which they were planned.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

/// Things planned for moments, in any unit of time.
#[derive(Debug)]
pub struct Queue<T> {
    heap: BinaryHeap<Planned<T>>,
    planned: u64,
}

#[derive(Debug)]
struct Planned<T> {
    at: u64,
    number: u64,
    what: T,
}

impl<T> Queue<T> {
    /// Nothing is planned.
    pub fn new() -> Queue<T> {
        Queue { heap: BinaryHeap::new(), planned: 0 }
    }

    /// Plans `what` for the moment `at`.
    #[inline]
    pub fn plan(&mut self, at: u64, what: T) {
        self.planned += 1;
        self.heap.push(Planned { at, number: self.planned, what });
    }

    /// Takes what comes next, and its moment.
    #[inline]
    pub fn next(&mut self) -> Option<(u64, T)> {
        self.heap.pop().map(|planned| (planned.at, planned.what))
    }

    /// How many things are planned.
    pub fn len(&self) -> usize {
        self.heap.len()
    }

    /// Whether nothing is planned.
    pub fn is_empty(&self) -> bool {
        self.heap.is_empty()
    }
}

impl<T> Default for Queue<T> {
    fn default() -> Queue<T> {
        Queue::new()
    }
}

impl<T> Ord for Planned<T> {
    /// The heap gives its greatest first, so earlier is greater.
    #[inline]
    fn cmp(&self, other: &Planned<T>) -> Ordering {
        (other.at, other.number).cmp(&(self.at, self.number))
    }
}

impl<T> PartialOrd for Planned<T> {
    #[inline]
    fn partial_cmp(&self, other: &Planned<T>) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<T> PartialEq for Planned<T> {
    fn eq(&self, other: &Planned<T>) -> bool {
        self.number == other.number
    }
}

impl<T> Eq for Planned<T> {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_moments_keep_the_order_in_which_they_were_planned() {
        let mut queue = Queue::new();
        for (at, what) in [(5, 'a'), (3, 'b'), (5, 'c'), (3, 'd'), (0, 'e')] {
            queue.plan(at, what);
        }
        let order: Vec<_> = std::iter::from_fn(|| queue.next()).collect();
        assert_eq!(order, [(0, 'e'), (3, 'b'), (3, 'd'), (5, 'a'), (5, 'c')]);
    }
}
