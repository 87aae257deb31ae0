//! The only unit: an exact decimal with six places.
//!
//! `Credits` has no operator that can wrap, round or panic: sums are asked for by name and answer
//! with [`Overflow`] when they leave the range that every column and every sum can hold.

use std::fmt;
use std::str::FromStr;

use rust_decimal::{Decimal, RoundingStrategy};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Decimal places of an amount.
pub const PLACES: u32 = 6;
/// One credit in millionths.
pub const MILLION: i128 = 1_000_000;
/// The largest magnitude any sum may reach: far above every named limit, and small enough that a
/// `Decimal` of six places keeps every digit of it.
const MICROS_MAX: i128 = 100_000_000_000_000_000_000 * MILLION;

/// An exact, signed number of credits with at most six decimal places.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Credits(Decimal);

/// A sum left the range of [`Credits`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the amount is larger than any balance can hold")]
pub struct Overflow;

/// Why a written amount was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AmountError {
    #[error("is not a decimal number such as 12.5")]
    NotANumber,
    #[error("has more than 6 decimal places")]
    TooFine,
    #[error("is larger than any balance can hold")]
    TooLarge,
}

impl Credits {
    pub const ZERO: Credits = Credits(Decimal::ZERO);

    /// Reads plain decimal notation: an optional minus, digits, and at most six places after a point.
    ///
    /// Exponents, spaces, a leading plus, group separators and non-ASCII digits are refused, because a
    /// reader and a writer could disagree about each of them.
    pub fn parse(text: &str) -> Result<Credits, AmountError> {
        let digits = text.strip_prefix('-').unwrap_or(text);
        let (whole, fraction) = match digits.split_once('.') {
            Some((whole, fraction)) if !fraction.is_empty() => (whole, fraction),
            Some(_) => return Err(AmountError::NotANumber),
            None => (digits, ""),
        };
        let is_number = |part: &str| part.bytes().all(|b| b.is_ascii_digit());
        if whole.is_empty() || !is_number(whole) || !is_number(fraction) {
            return Err(AmountError::NotANumber);
        }
        if fraction.trim_end_matches('0').len() > PLACES as usize {
            return Err(AmountError::TooFine);
        }
        if whole.trim_start_matches('0').len() > 20 {
            return Err(AmountError::TooLarge);
        }
        let fraction = &fraction[..fraction.len().min(PLACES as usize)];
        let micros = format!("{whole}{fraction:0<6}").parse::<i128>().map_err(|_| AmountError::TooLarge)?;
        let signed = if text.starts_with('-') { -micros } else { micros };
        Credits::from_micros(signed).map_err(|Overflow| AmountError::TooLarge)
    }

    /// Takes a decimal that already has at most six places.
    pub fn exact(value: Decimal) -> Result<Credits, AmountError> {
        let value = value.normalize();
        if value.scale() > PLACES {
            return Err(AmountError::TooFine);
        }
        Credits::checked(value).map_err(|Overflow| AmountError::TooLarge)
    }

    /// Rounds a computed price once, half away from zero, to six places.
    pub fn rounded(value: Decimal) -> Result<Credits, Overflow> {
        Credits::checked(value.round_dp_with_strategy(PLACES, RoundingStrategy::MidpointAwayFromZero))
    }

    pub fn from_micros(micros: i128) -> Result<Credits, Overflow> {
        if micros.abs() > MICROS_MAX {
            return Err(Overflow);
        }
        Ok(Credits(Decimal::from_i128_with_scale(micros, PLACES).normalize()))
    }

    /// A whole number of credits; every `u32` fits.
    pub fn whole(credits: u32) -> Credits {
        Credits(Decimal::from(credits))
    }

    /// The amount in millionths.
    pub fn micros(self) -> i128 {
        let scale = self.0.scale().min(PLACES);
        let factor = 10_i128.pow(PLACES - scale);
        self.0.mantissa() * factor
    }

    pub fn plus(self, other: Credits) -> Result<Credits, Overflow> {
        Credits::checked(self.0.checked_add(other.0).ok_or(Overflow)?)
    }

    pub fn minus(self, other: Credits) -> Result<Credits, Overflow> {
        Credits::checked(self.0.checked_sub(other.0).ok_or(Overflow)?)
    }

    pub fn sum(amounts: impl IntoIterator<Item = Credits>) -> Result<Credits, Overflow> {
        amounts.into_iter().try_fold(Credits::ZERO, Credits::plus)
    }

    pub fn negated(self) -> Credits {
        Credits((-self.0).normalize())
    }

    pub fn abs(self) -> Credits {
        Credits(self.0.abs())
    }

    pub fn is_zero(self) -> bool {
        self.0.is_zero()
    }

    pub fn is_positive(self) -> bool {
        self.0 > Decimal::ZERO
    }

    pub fn is_negative(self) -> bool {
        self.0 < Decimal::ZERO
    }

    pub fn decimal(self) -> Decimal {
        self.0
    }

    fn checked(value: Decimal) -> Result<Credits, Overflow> {
        let credits = Credits(value.normalize());
        if credits.0.abs() > Decimal::from_i128_with_scale(MICROS_MAX, PLACES) {
            Err(Overflow)
        } else {
            Ok(credits)
        }
    }
}

impl fmt::Display for Credits {
    /// Normalised: no trailing zeros, no minus before zero.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_zero() { f.write_str("0") } else { write!(f, "{}", self.0.normalize()) }
    }
}

impl fmt::Debug for Credits {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for Credits {
    type Err = AmountError;

    fn from_str(text: &str) -> Result<Credits, AmountError> {
        Credits::parse(text)
    }
}

impl Serialize for Credits {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Credits {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Credits, D::Error> {
        let text = String::deserialize(deserializer)?;
        Credits::parse(&text).map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_decimal_notation_is_read_and_written_back_normalised() {
        for (text, shown) in [
            ("12.5", "12.5"),
            ("12.500000", "12.5"),
            ("0", "0"),
            ("-0", "0"),
            ("0.000001", "0.000001"),
            ("-0.0768", "-0.0768"),
            ("007", "7"),
            ("1.0000000", "1"),
        ] {
            assert_eq!(Credits::parse(text).unwrap().to_string(), shown, "{text}");
        }
    }

    #[test]
    fn everything_else_is_refused() {
        for text in [
            "", "-", ".", ".5", "5.", "1e3", "1E3", "+1", " 5", "5 ", "1,5", "NaN", "inf", "1_000", "１２",
            "--1", "0x10", "1.2.3",
        ] {
            assert_eq!(Credits::parse(text), Err(AmountError::NotANumber), "{text:?}");
        }
        assert_eq!(Credits::parse("0.0000001"), Err(AmountError::TooFine));
        assert_eq!(Credits::parse("999999999999999999999"), Err(AmountError::TooLarge));
    }

    #[test]
    fn sums_are_exact_and_end_in_an_error_not_a_wrap() {
        let tenth = Credits::parse("0.1").unwrap();
        assert_eq!(Credits::sum([tenth; 3]).unwrap(), Credits::parse("0.3").unwrap());
        let most = Credits::parse("99999999999999999999.999999").unwrap();
        assert_eq!(
            most.plus(Credits::parse("0.000001").unwrap()).unwrap().to_string(),
            "100000000000000000000"
        );
        assert_eq!(most.plus(Credits::whole(1)), Err(Overflow));
        assert_eq!(most.micros(), 99_999_999_999_999_999_999_999_999);
    }

    #[test]
    fn a_computed_price_is_rounded_half_away_from_zero() {
        let rounded = |text: &str| Credits::rounded(text.parse().unwrap()).unwrap().to_string();
        assert_eq!(rounded("0.0000005"), "0.000001");
        assert_eq!(rounded("-0.0000005"), "-0.000001");
        assert_eq!(rounded("0.00000049"), "0");
        assert_eq!(rounded("2.0000015"), "2.000002");
    }
}
