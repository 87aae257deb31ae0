//! Random choices from a seed.

use std::time::Duration;

/// A small generator of its own (splitmix64), so that a seed names a plan for good.
#[derive(Clone)]
pub struct Dice(u64);

impl Dice {
    pub fn new(seed: u64) -> Dice {
        Dice(seed)
    }

    /// Another generator, of its own sequence.
    pub fn split(&mut self) -> Dice {
        Dice(self.roll())
    }

    fn roll(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// 0 to `end` - 1.
    pub fn below(&mut self, end: u64) -> u64 {
        self.roll() % end
    }

    /// A place in a list that has `length` places.
    pub fn place(&mut self, length: usize) -> usize {
        let end = u64::try_from(length).expect("a list is shorter than 2^64");
        usize::try_from(self.below(end)).expect("it is below a usize")
    }

    pub fn percent(&mut self, chance: u64) -> bool {
        self.below(100) < chance
    }

    pub fn wait_ms(&mut self, from: u64, to: u64) -> Duration {
        Duration::from_millis(from + self.below(to - from + 1))
    }
}
