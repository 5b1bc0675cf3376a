//! Where between their ends the assumed numbers of a scenario are tried.

use crate::random::stream;
use rand::seq::SliceRandom;

/// So many points in a space of so many numbers, each from 0 to 1: of each number, every point has another of as many equal parts
/// (a Latin hypercube), in an order of its own. The same seed gives the same points.
pub fn latin_hypercube(points: usize, numbers: usize, seed: u64) -> Vec<Vec<f64>> {
    let mut all = vec![Vec::with_capacity(numbers); points];
    for number in 0..numbers {
        let mut parts: Vec<usize> = (0..points).collect();
        parts.shuffle(&mut stream(seed, number as u64));
        let place = |part: usize| (part as f64 + 0.5) / points as f64;
        all.iter_mut().zip(parts).for_each(|(point, part)| point.push(place(part)));
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_number_is_in_each_of_its_parts_once_and_not_in_the_same_order_as_another() {
        let points = latin_hypercube(20, 3, 7);
        let of = |number: usize| points.iter().map(|point| (point[number] * 20.0) as usize).collect::<Vec<_>>();
        for number in 0..3 {
            let mut parts = of(number);
            parts.sort_unstable();
            assert_eq!(parts, (0..20).collect::<Vec<_>>());
        }
        assert!(of(0) != of(1) && of(1) != of(2));
        assert_eq!(points, latin_hypercube(20, 3, 7));
        assert_ne!(points, latin_hypercube(20, 3, 8));
    }
}
