//! The price of a call: tokens by class, dollars per token, and the rate at which dollars become credits.

use ledger::Credits;
use rust_decimal::Decimal;

use super::dollars::Dollars;
use super::error::PriceError;

/// What a vendor prices apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TokenClass {
    Input,
    /// Input read from the vendor's prompt cache.
    CachedInput,
    /// Input written to the vendor's prompt cache.
    CacheWrite,
    Output,
}

impl TokenClass {
    pub const ALL: [TokenClass; 4] =
        [TokenClass::Input, TokenClass::CachedInput, TokenClass::CacheWrite, TokenClass::Output];

    pub fn as_str(self) -> &'static str {
        match self {
            TokenClass::Input => "input",
            TokenClass::CachedInput => "cached input",
            TokenClass::CacheWrite => "cache write",
            TokenClass::Output => "output",
        }
    }
}

/// How many tokens a call used, class by class; no token is counted in two.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tokens {
    pub input: u64,
    pub cached_input: u64,
    pub cache_write: u64,
    pub output: u64,
}

impl Tokens {
    pub fn of(self, class: TokenClass) -> u64 {
        match class {
            TokenClass::Input => self.input,
            TokenClass::CachedInput => self.cached_input,
            TokenClass::CacheWrite => self.cache_write,
            TokenClass::Output => self.output,
        }
    }
}

/// Dollars for one token of each class. A class without a price is not free: tokens of it have no price.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ModelPrice {
    pub input: Option<Dollars>,
    pub cached_input: Option<Dollars>,
    pub cache_write: Option<Dollars>,
    pub output: Option<Dollars>,
}

impl ModelPrice {
    pub fn of(&self, class: TokenClass) -> Option<Dollars> {
        match class {
            TokenClass::Input => self.input,
            TokenClass::CachedInput => self.cached_input,
            TokenClass::CacheWrite => self.cache_write,
            TokenClass::Output => self.output,
        }
    }

    /// The exact dollars of a call.
    pub fn dollars(&self, tokens: Tokens) -> Result<Dollars, PriceError> {
        TokenClass::ALL.into_iter().filter(|class| tokens.of(*class) > 0).try_fold(
            Dollars::ZERO,
            |sum, class| {
                let price = self.of(class).ok_or(PriceError::NoPrice(class))?;
                sum.plus(price.times(tokens.of(class))?)
            },
        )
    }
}

/// How dollars become credits: `credits_per_dollar` × the policy's multiplier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    pub credits_per_dollar: Decimal,
    pub multiplier: Decimal,
}

impl Rate {
    /// Dollars are never rounded; the price in credits is, once, half away from zero to 6 places.
    pub fn credits(&self, dollars: Dollars) -> Result<Credits, PriceError> {
        dollars.by(self.credits_per_dollar)?.by(self.multiplier)?.rounded()
    }

    /// The price of a call in credits.
    pub fn price(&self, model: &ModelPrice, tokens: Tokens) -> Result<Credits, PriceError> {
        self.credits(model.dollars(tokens)?)
    }

    /// What to hold before a call: its prompt and the most it may answer, times the policy's estimate factor.
    pub fn estimate(&self, model: &ModelPrice, most: Tokens, factor: Decimal) -> Result<Credits, PriceError> {
        self.credits(model.dollars(most)?.by(factor)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn dollars(text: &str) -> Dollars {
        Dollars::parse_price(text).unwrap()
    }

    fn credits(text: &str) -> Credits {
        Credits::parse(text).unwrap()
    }

    fn rate(credits_per_dollar: i64) -> Rate {
        Rate { credits_per_dollar: Decimal::from(credits_per_dollar), multiplier: Decimal::ONE }
    }

    fn model() -> ModelPrice {
        ModelPrice {
            input: Some(dollars("1.5e-07")),
            output: Some(dollars("6e-07")),
            ..ModelPrice::default()
        }
    }

    // 4,808 × 0.00000015 + 10 × 0.0000006 = 0.0007272 dollars; (4,808 × 0.00000015 + 100 × 0.0000006) × 1.2 = 0.00093744.
    #[test]
    fn a_call_is_priced_to_the_last_digit_and_rounded_once() {
        let tokens = Tokens { input: 4808, output: 10, ..Tokens::default() };
        assert_eq!(model().dollars(tokens).unwrap().to_string(), "0.0007272");
        assert_eq!(rate(1000).price(&model(), tokens).unwrap(), credits("0.7272"));
        assert_eq!(rate(1).price(&model(), tokens).unwrap(), credits("0.000727"));
        let most = Tokens { output: 100, ..tokens };
        let factor = Decimal::new(12, 1);
        assert_eq!(rate(1000).estimate(&model(), most, factor).unwrap(), credits("0.93744"));
        assert_eq!(rate(1).estimate(&model(), most, factor).unwrap(), credits("0.000937"));
    }

    // 3 × 0.00000015 + 0 = 0.00000045 dollars at 1.5 × 1 = 0.000000675 credits: 0.000001. Rounding the dollars first
    // would have given 0.
    #[test]
    fn the_multiplier_comes_before_the_rounding() {
        let tokens = Tokens { input: 3, ..Tokens::default() };
        let dear = Rate { credits_per_dollar: Decimal::ONE, multiplier: Decimal::new(15, 1) };
        assert_eq!(dear.price(&model(), tokens).unwrap(), credits("0.000001"));
        assert_eq!(rate(1).price(&model(), tokens).unwrap(), credits("0"));
    }

    #[test]
    fn a_class_without_a_price_is_not_free() {
        let tokens = Tokens { input: 10, cached_input: 1, ..Tokens::default() };
        assert_eq!(model().dollars(tokens), Err(PriceError::NoPrice(TokenClass::CachedInput)));
        let input_only = ModelPrice { output: None, ..model() };
        assert_eq!(
            input_only.dollars(Tokens { input: 10, ..Tokens::default() }).unwrap(),
            dollars("0.0000015")
        );
    }
}
