//! The queue of what happens next: earliest first, equal moments in the order in which they were planned.
//!
//! A heap with four children to a parent: half as deep as one with two, and the children of one parent lie side by side.

/// Things planned for moments, in any unit of time.
#[derive(Debug)]
pub struct Queue<T> {
    heap: Vec<Planned<T>>,
    planned: u32,
}

#[derive(Clone, Copy, Debug)]
struct Planned<T> {
    at: u64,
    /// Counts on and around: what is planned for one moment is never planned two billion plans apart.
    number: u32,
    what: T,
}

impl<T> Planned<T> {
    #[inline]
    fn is_before(&self, other: &Planned<T>) -> bool {
        self.at < other.at || (self.at == other.at && (self.number.wrapping_sub(other.number) as i32) < 0)
    }
}

/// Children of a parent.
const WIDTH: usize = 4;

impl<T: Copy> Queue<T> {
    /// Nothing is planned.
    pub fn new() -> Queue<T> {
        Queue { heap: Vec::new(), planned: 0 }
    }

    /// Plans `what` for the moment `at`.
    #[inline]
    pub fn plan(&mut self, at: u64, what: T) {
        self.planned = self.planned.wrapping_add(1);
        let planned = Planned { at, number: self.planned, what };
        self.heap.push(planned);
        let mut place = self.heap.len() - 1;
        while place > 0 {
            let parent = (place - 1) / WIDTH;
            if !planned.is_before(&self.heap[parent]) {
                break;
            }
            self.heap[place] = self.heap[parent];
            place = parent;
        }
        self.heap[place] = planned;
    }

    /// Takes what comes next, and its moment.
    #[inline]
    pub fn pop(&mut self) -> Option<(u64, T)> {
        let last = self.heap.pop()?;
        let Some(first) = self.heap.first().copied() else { return Some((last.at, last.what)) };
        let heap = self.heap.as_mut_slice();
        let mut place = 0;
        loop {
            let child = place * WIDTH + 1;
            let Some(children) = heap.get(child..(child + WIDTH).min(heap.len())) else { break };
            let mut least = 0;
            for at in 1..children.len() {
                if children[at].is_before(&children[least]) {
                    least = at;
                }
            }
            match children.get(least) {
                Some(next) if next.is_before(&last) => heap[place] = *next,
                _ => break,
            }
            place = child + least;
        }
        heap[place] = last;
        Some((first.at, first.what))
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
