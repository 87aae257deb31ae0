//! A small seeded generator (SplitMix64): the same seed gives the same run on every machine, which is all that is
//! asked of it. Nothing secret is made with it.

/// A stream of numbers that follows from its seed alone.
#[derive(Clone, Debug)]
pub struct Generator(u64);

impl Generator {
    /// The stream of one call. Each call has its own, so that what happens to it depends on neither the number of
    /// calls before it nor the order in which threads come to it.
    pub fn for_call(seed: u64, number: u64) -> Generator {
        let mut whitened = Generator(seed);
        let base = whitened.next();
        Generator(base ^ number.wrapping_mul(0x9E37_79B9_7F4A_7C15))
    }

    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut word = self.0;
        word = (word ^ (word >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        word = (word ^ (word >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        word ^ (word >> 31)
    }

    /// A number below `bound`, which is small beside 2^64: the bias is of no concern here. 0 for a bound of 0.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.next().checked_rem(bound).unwrap_or(0)
    }

    /// True in `percent` of 100 draws.
    pub fn chance(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    // The first three numbers of the published reference implementation for seed 1234567.
    #[test]
    fn the_stream_is_that_of_the_reference() {
        let mut stream = Generator(1_234_567);
        assert_eq!(
            [stream.next(), stream.next(), stream.next()],
            [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423]
        );
    }

    #[test]
    fn a_call_has_the_same_stream_every_time_and_another_than_its_neighbour() {
        let draw = |number| Generator::for_call(1, number).next();
        assert_eq!(draw(7), draw(7));
        assert_ne!(draw(7), draw(8));
    }
}
