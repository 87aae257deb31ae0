//! Exact dollars: whole units and a number of decimal places, and no operation that rounds.
//!
//! `rust_decimal` quietly rounds a product that needs more than 28 places, and published prices per token already
//! have up to 24. Here a product that does not fit is an error.

use std::fmt;

use ledger::Credits;
use rust_decimal::Decimal;

use super::error::{NumberError, PriceError};

/// 10^38 is the largest power of ten in an `i128`.
const PLACES_MAX: u32 = 38;
/// Digits of a written price; the longest published ones have 17.
const DIGITS_MAX: usize = 30;

/// An exact number of US dollars: `units` / 10^`places`, normalised so that equal amounts are equal values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Dollars {
    units: i128,
    places: u32,
}

impl Dollars {
    pub const ZERO: Dollars = Dollars { units: 0, places: 0 };

    /// Reads a price exactly as a JSON number writes it, exponents included: `1.9e-08` is 0.000000019.
    pub fn parse_price(text: &str) -> Result<Dollars, NumberError> {
        let (mantissa, exponent) = match text.split_once(['e', 'E']) {
            Some((mantissa, exponent)) => (mantissa, parse_exponent(exponent)?),
            None => (text, 0),
        };
        let (sign, digits) = mantissa.strip_prefix('-').map_or((1, mantissa), |digits| (-1, digits));
        let (whole, fraction) = match digits.split_once('.') {
            Some((_, "")) => return Err(NumberError::NotANumber),
            Some(parts) => parts,
            None => (digits, ""),
        };
        let is_number = |part: &str| part.bytes().all(|b| b.is_ascii_digit());
        let has_padding = whole.len() > 1 && whole.starts_with('0');
        if whole.is_empty() || has_padding || !is_number(whole) || !is_number(fraction) {
            return Err(NumberError::NotANumber);
        }
        let kept = fraction.trim_end_matches('0');
        if whole.len() + kept.len() > DIGITS_MAX {
            return Err(NumberError::TooLong);
        }
        let units: i128 = format!("{whole}{kept}").parse().map_err(|_| NumberError::TooLong)?;
        if sign < 0 && units != 0 {
            return Err(NumberError::Negative);
        }
        let places = i64::try_from(kept.len()).map_err(|_| NumberError::TooLong)? - exponent;
        Dollars::scaled(units, places).ok_or(NumberError::TooLong)
    }

    pub fn plus(self, other: Dollars) -> Result<Dollars, PriceError> {
        let places = self.places.max(other.places);
        let sum = self.units_at(places).zip(other.units_at(places)).and_then(|(a, b)| a.checked_add(b));
        sum.and_then(|units| Dollars::scaled(units, i64::from(places))).ok_or(PriceError::TooLong)
    }

    /// The price of `count` tokens at this price for one.
    pub fn times(self, count: u64) -> Result<Dollars, PriceError> {
        let units = self.units.checked_mul(i128::from(count));
        units.and_then(|units| Dollars::scaled(units, i64::from(self.places))).ok_or(PriceError::TooLong)
    }

    /// By a factor such as 1.2, exactly.
    pub fn by(self, factor: Decimal) -> Result<Dollars, PriceError> {
        let factor = factor.normalize();
        let units = self.units.checked_mul(factor.mantissa());
        let places = i64::from(self.places) + i64::from(factor.scale());
        units.and_then(|units| Dollars::scaled(units, places)).ok_or(PriceError::TooLong)
    }

    /// The number as credits, rounded half away from zero to their six places: the one rounding of a price.
    pub(super) fn rounded(self) -> Result<Credits, PriceError> {
        let credit_places = ledger::credits::PLACES;
        let micros = match self.places.checked_sub(credit_places) {
            Some(surplus) if surplus > 0 => halves_away(self.units, 10_i128.pow(surplus)),
            _ => self.units_at(credit_places).ok_or(PriceError::TooLong)?,
        };
        Credits::from_micros(micros).map_err(|_| PriceError::TooLong)
    }

    /// The units this amount has when written with `places`, which must not be fewer than it needs.
    fn units_at(self, places: u32) -> Option<i128> {
        let missing = places.checked_sub(self.places)?;
        10_i128.checked_pow(missing)?.checked_mul(self.units)
    }

    /// Normalises; `None` where the digits do not fit.
    fn scaled(mut units: i128, mut places: i64) -> Option<Dollars> {
        if units == 0 {
            return Some(Dollars::ZERO);
        }
        while places > 0 && units % 10 == 0 {
            units /= 10;
            places -= 1;
        }
        if places < 0 {
            let factor = u32::try_from(-places).ok().and_then(|power| 10_i128.checked_pow(power))?;
            units = units.checked_mul(factor)?;
            places = 0;
        }
        let places = u32::try_from(places).ok().filter(|places| *places <= PLACES_MAX)?;
        Some(Dollars { units, places })
    }
}

/// `units` / `divisor`, a half rounded away from zero. The divisor is a power of ten up to 10^32, so that doubling
/// the remainder fits.
fn halves_away(units: i128, divisor: i128) -> i128 {
    let (quotient, remainder) = (units / divisor, units % divisor);
    if remainder.abs() * 2 >= divisor { quotient + units.signum() } else { quotient }
}

fn parse_exponent(text: &str) -> Result<i64, NumberError> {
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
        return Err(NumberError::NotANumber);
    }
    // Anything longer is far outside what fits; the limit keeps the arithmetic on it small.
    let significant = digits.trim_start_matches('0');
    if significant.len() > 4 {
        return Err(NumberError::TooLong);
    }
    let size: i64 = format!("0{significant}").parse().map_err(|_| NumberError::NotANumber)?;
    Ok(if text.starts_with('-') { -size } else { size })
}

impl fmt::Display for Dollars {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let places = usize::try_from(self.places).unwrap_or_default();
        let sign = if self.units < 0 { "-" } else { "" };
        let digits = format!("{:0>width$}", self.units.unsigned_abs(), width = places + 1);
        let (whole, fraction) = digits.split_at(digits.len() - places);
        if fraction.is_empty() { write!(f, "{sign}{whole}") } else { write!(f, "{sign}{whole}.{fraction}") }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prices_are_read_exactly_as_written() {
        for (text, shown) in [
            ("1.9e-08", "0.000000019"),
            ("1.5e-07", "0.00000015"),
            ("0.0", "0"),
            ("-0", "0"),
            ("0", "0"),
            ("1E+2", "100"),
            ("1e2", "100"),
            ("2.50", "2.5"),
            ("0.000001", "0.000001"),
            // The nearest binary fraction of each of these is another number.
            ("3.2000000000000003e-06", "0.0000032000000000000003"),
            ("1.1428571428571428e-06", "0.0000011428571428571428"),
            ("0e-9999", "0"),
        ] {
            assert_eq!(Dollars::parse_price(text).unwrap().to_string(), shown, "{text}");
        }
    }

    #[test]
    fn everything_else_is_refused_and_nothing_is_cut_off() {
        for text in [
            "", "-", ".5", "5.", "+1", "01", "1e", "1e+", "e5", "1 ", "\"1\"", "NaN", "null", "1.2.3",
            "1e1.5", "1,5",
        ] {
            assert_eq!(Dollars::parse_price(text), Err(NumberError::NotANumber), "{text:?}");
        }
        for text in
            ["1e-39", "1e40", "1e-99999", "1.0000000000000000000000000000001", "1e99999999999999999999"]
        {
            assert_eq!(Dollars::parse_price(text), Err(NumberError::TooLong), "{text:?}");
        }
        assert_eq!(Dollars::parse_price("-1e-6"), Err(NumberError::Negative));
    }

    #[test]
    fn equal_amounts_are_equal_values() {
        assert_eq!(Dollars::parse_price("1.50e-07"), Dollars::parse_price("0.00000015"));
        let sum = Dollars::parse_price("0.4").unwrap().plus(Dollars::parse_price("0.6").unwrap()).unwrap();
        assert_eq!(sum, Dollars::parse_price("1").unwrap());
    }

    #[test]
    fn a_product_that_does_not_fit_is_an_error() {
        let tiny = Dollars::parse_price("1.234567890123456789e-18").unwrap();
        let factor = Decimal::from_i128_with_scale(1_234_567_890_123_456_789, 18);
        assert_eq!(tiny.by(factor), Err(PriceError::TooLong));
        let large = Dollars::parse_price("999999999999999999999999999999").unwrap();
        assert_eq!(large.times(u64::MAX), Err(PriceError::TooLong));
    }

    #[test]
    fn the_one_rounding_takes_a_half_away_from_zero() {
        for (text, credits) in [
            ("0.0000005", "0.000001"),
            ("0.00000049999", "0"),
            ("2.0000015", "2.000002"),
            ("2.0000014999", "2.000001"),
            ("7", "7"),
        ] {
            assert_eq!(
                Dollars::parse_price(text).unwrap().rounded().unwrap(),
                Credits::parse(credits).unwrap(),
                "{text}"
            );
        }
    }
}
