//! Columns of whole numbers as bytes: seven bits a byte, lowest first, the eighth bit set where more follow.

/// Appends a number.
pub fn push(bytes: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        bytes.push(number as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
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
        push(&mut bytes, u64::MAX);
        assert_eq!(bytes.len(), 10);
    }
}
