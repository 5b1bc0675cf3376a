//! What is done to a whole file to see that its damage is said: cut, flipped, given numbers that cannot be.

/// Cuts are made at all multiples of this.
const STEP: usize = 4096;

/// Cuts at random places, and flips of a random bit.
const RANDOM: usize = 200;

/// One way to damage a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Damage {
    /// Only so many bytes are left.
    Cut(usize),
    /// This bit of the file is the other one.
    Flip(usize),
    /// The lower half of this number, or all of it, stands at this byte.
    Half(usize, u64),
    Whole(usize, u64),
}

impl Damage {
    /// Every damage that is done to `whole`: cuts at every 4 KB and at 200 places, 200 flips, and huge numbers at all of
    /// `numbers`.
    pub fn all(whole: &[u8], numbers: impl IntoIterator<Item = usize>) -> Vec<Damage> {
        let mut dice = Dice(whole.len() as u64);
        let mut all: Vec<Damage> = (0..whole.len()).step_by(STEP).map(Damage::Cut).collect();
        all.extend((0..RANDOM).map(|_| Damage::Cut(dice.below(whole.len()))));
        all.extend((0..RANDOM).map(|_| Damage::Flip(dice.below(whole.len() * 8))));
        // None has a byte of zeros: that might make a small number of the one beside it.
        for at in numbers {
            all.extend([u64::from(u32::MAX), i32::MAX as u64].map(|number| Damage::Half(at, number)));
            all.extend([u64::MAX, i64::MAX as u64, u64::MAX / 255].map(|number| Damage::Whole(at, number)));
        }
        all
    }

    /// `whole`, damaged.
    pub fn done_to(self, whole: &[u8]) -> Vec<u8> {
        let mut bytes = whole.to_vec();
        let (at, number, width) = match self {
            Damage::Cut(at) => {
                bytes.truncate(at);
                return bytes;
            }
            Damage::Flip(bit) => {
                bytes[bit / 8] ^= 1 << (bit % 8);
                return bytes;
            }
            Damage::Half(at, number) => (at, number, 4),
            Damage::Whole(at, number) => (at, number, 8),
        };
        for (byte, new) in bytes[at..].iter_mut().zip(&number.to_le_bytes()[..width]) {
            *byte = *new;
        }
        bytes
    }
}

/// Numbers that look random and are the same every time (xorshift).
pub struct Dice(pub u64);

impl Dice {
    /// A number below `end`.
    pub fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % end as u64) as usize
    }

    /// Flips one to eight bits of `bytes`.
    pub fn damage(&mut self, bytes: &mut [u8]) {
        for _ in 0..=self.below(8) {
            let at = self.below(bytes.len());
            bytes[at] ^= 1 << self.below(8);
        }
    }
}
