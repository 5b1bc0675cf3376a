//! A short list without a heap: the steps that something takes, in order.

use core::ops::Deref;

/// Steps in order, at most `MOST` of them. Read it as a slice.
#[derive(Clone, Copy, Debug)]
pub struct BoundedList<T, const MOST: usize> {
    steps: [T; MOST],
    count: usize,
}

impl<T: Copy, const MOST: usize> BoundedList<T, MOST> {
    /// No step; `filler` is what the unused places hold.
    pub(crate) const fn new(filler: T) -> BoundedList<T, MOST> {
        BoundedList { steps: [filler; MOST], count: 0 }
    }

    /// One more. Every list's length follows from a few switches, and a test goes through them all.
    pub(crate) fn push(&mut self, step: T) {
        self.steps[self.count] = step;
        self.count += 1;
    }

    /// Some more, in this order.
    pub(crate) fn extend<const N: usize>(&mut self, steps: [T; N]) {
        steps.into_iter().for_each(|step| self.push(step));
    }
}

impl<T, const MOST: usize> Deref for BoundedList<T, MOST> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        &self.steps[..self.count]
    }
}
