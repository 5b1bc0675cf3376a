//! Columns of whole numbers as bytes: seven bits a byte, lowest first, the eighth bit set where more follow. Or byte by byte of their
//! value: numbers whose low bits are as good as random, as lengths in nanoseconds are, pack smaller so.

/// Appends a number.
pub fn push(bytes: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        bytes.push(number as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
}

/// A difference, small for small ones of either sign.
pub fn zigzag(difference: i64) -> u64 {
    ((difference << 1) ^ (difference >> 63)) as u64
}

/// Appends a column.
pub fn push_all(bytes: &mut Vec<u8>, numbers: impl Iterator<Item = u64>) {
    numbers.for_each(|number| push(bytes, number));
}

/// Appends a column of numbers that never fall, as their differences; the first is counted from `base`.
pub fn push_rising(bytes: &mut Vec<u8>, base: u64, numbers: impl Iterator<Item = u64>) {
    let mut before = base;
    for number in numbers {
        push(bytes, number.saturating_sub(before));
        before = number;
    }
}

/// Appends a column: how many bytes the largest number has, then the lowest byte of each number, then the next of each, ….
pub fn push_planes(bytes: &mut Vec<u8>, numbers: &[u64]) {
    let all = numbers.iter().fold(0, |all, number| all | number);
    let planes = (u64::BITS - all.leading_zeros()).div_ceil(8);
    push(bytes, planes.into());
    for plane in 0..planes {
        bytes.extend(numbers.iter().map(|number| (number >> (8 * plane)) as u8));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_take_a_byte_for_each_seven_bits() {
        let mut bytes = Vec::new();
        push_all(&mut bytes, [0, 127, 128, 300].into_iter());
        assert_eq!(bytes, [0, 127, 0x80, 1, 0xac, 2]);
        let mut bytes = Vec::new();
        push_rising(&mut bytes, 10, [10, 10, 13].into_iter());
        assert_eq!(bytes, [0, 0, 3]);
        let mut bytes = Vec::new();
        push_planes(&mut bytes, &[0x0102, 3, 0]);
        push_planes(&mut bytes, &[0, 0]);
        assert_eq!(bytes, [2, 2, 3, 0, 1, 0, 0, 0]);
        let mut bytes = Vec::new();
        push(&mut bytes, u64::MAX);
        assert_eq!(bytes.len(), 10);
    }
}
