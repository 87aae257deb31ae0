//! [`Credits`] as the database's `numeric`, both ways.
//!
//! The general conversion of a decimal works out a power of ten for each digit; a round converts some thirty amounts for
//! each entry, so this one goes by millionths. Format: number of base-10,000 digits, weight of the first, sign, decimal
//! places, digits (PostgreSQL, `src/backend/utils/adt/numeric.c`, `numeric_recv`).

use sqlx::encode::IsNull;
use sqlx::error::BoxDynError;
use sqlx::postgres::{PgArgumentBuffer, PgHasArrayType, PgTypeInfo, PgValueFormat, PgValueRef};
use sqlx::{Decode, Encode, Postgres, Type};

use crate::credits::Credits;

const BASE: u128 = 10_000;
const NEGATIVE: u16 = 0x4000;
const PLACES: u16 = 6;
/// Digits of the largest amount: seven before the point, two behind it.
const DIGITS_MAX: usize = 9;

impl Type<Postgres> for Credits {
    fn type_info() -> PgTypeInfo {
        <rust_decimal::Decimal as Type<Postgres>>::type_info()
    }
}

impl PgHasArrayType for Credits {
    fn array_type_info() -> PgTypeInfo {
        <rust_decimal::Decimal as PgHasArrayType>::array_type_info()
    }
}

impl Encode<'_, Postgres> for Credits {
    fn encode_by_ref(&self, buffer: &mut PgArgumentBuffer) -> Result<IsNull, BoxDynError> {
        encode(self.micros(), buffer)?;
        Ok(IsNull::No)
    }

    fn size_hint(&self) -> usize {
        16
    }
}

impl Decode<'_, Postgres> for Credits {
    fn decode(value: PgValueRef<'_>) -> Result<Credits, BoxDynError> {
        match value.format() {
            PgValueFormat::Binary => Ok(Credits::from_micros(micros(value.as_bytes()?)?)?),
            PgValueFormat::Text => Ok(Credits::parse(value.as_str()?)?),
        }
    }
}

fn encode(micros: i128, buffer: &mut Vec<u8>) -> Result<(), BoxDynError> {
    // Six places are one digit and a half: two digits with 8 places.
    let mut rest = micros.unsigned_abs() * 100;
    let mut digits = [0_u16; DIGITS_MAX];
    let mut first = DIGITS_MAX;
    while rest > 0 {
        first = first.checked_sub(1).ok_or("the amount has more digits than any balance")?;
        digits[first] = u16::try_from(rest % BASE)?;
        rest /= BASE;
    }
    let digits = &digits[first..];
    let weight = i16::try_from(digits.len())? - 3;
    buffer.extend_from_slice(&u16::try_from(digits.len())?.to_be_bytes());
    buffer.extend_from_slice(&weight.to_be_bytes());
    buffer.extend_from_slice(&(if micros < 0 { NEGATIVE } else { 0 }).to_be_bytes());
    buffer.extend_from_slice(&PLACES.to_be_bytes());
    for digit in digits {
        buffer.extend_from_slice(&digit.to_be_bytes());
    }
    Ok(())
}

fn micros(bytes: &[u8]) -> Result<i128, BoxDynError> {
    let (words, []) = bytes.as_chunks::<2>() else { return Err("a numeric of odd length".into()) };
    let words: &[[u8; 2]] = words;
    let [_count, weight, sign, _places, digits @ ..] = words else {
        return Err("a numeric without head".into());
    };
    let weight = i32::from(i16::from_be_bytes(*weight));
    let mut sum: i128 = 0;
    for (digit, place) in digits.iter().zip(0_i32..) {
        let digit = i128::from(u16::from_be_bytes(*digit));
        sum = sum.checked_add(in_micros(digit, weight - place)?).ok_or("a numeric beyond any balance")?;
    }
    match u16::from_be_bytes(*sign) {
        0 => Ok(sum),
        NEGATIVE => Ok(-sum),
        _ => Err("a numeric that is no number".into()),
    }
}

/// A digit of the weight 10,000^`weight`, in millionths.
fn in_micros(digit: i128, weight: i32) -> Result<i128, BoxDynError> {
    let too_fine = || BoxDynError::from("a numeric with more than 6 decimal places");
    match (digit, weight) {
        (0, _) => Ok(0),
        (_, 0..=6) => Ok(digit * 10_i128.pow(u32::try_from(4 * weight + 6)?)),
        (_, -1) => Ok(digit * 100),
        (_, -2) if digit % 100 == 0 => Ok(digit / 100),
        (_, ..0) => Err(too_fine()),
        _ => Err("a numeric beyond any balance".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn encoded(micros: i128) -> Vec<u8> {
        let mut buffer = Vec::new();
        encode(micros, &mut buffer).unwrap();
        buffer
    }

    fn words(numbers: &[u16]) -> Vec<u8> {
        numbers.iter().flat_map(|number| number.to_be_bytes()).collect()
    }

    #[test]
    fn amounts_have_the_digits_that_postgres_gives_them() {
        // As `select numeric_send(12345.67::numeric(30,6))` and its like print them, but for zeros at the end.
        assert_eq!(encoded(12_345_670_000), words(&[4, 1, 0, 6, 1, 2345, 6700, 0]));
        assert_eq!(encoded(-1), words(&[1, (-2_i16).cast_unsigned(), 0x4000, 6, 100]));
        assert_eq!(encoded(0), words(&[0, (-3_i16).cast_unsigned(), 0, 6]));
        assert_eq!(micros(&words(&[2, 0, 0, 6, 3, 5000])).unwrap(), 3_500_000);
        assert_eq!(micros(&words(&[0, 0, 0, 6])).unwrap(), 0);
    }

    #[test]
    fn what_is_written_is_read() {
        let mut micros_now: i128 = 1;
        while micros_now < 100_000_000_000_000_000_000_000_000 {
            for value in [micros_now, -micros_now, micros_now - 1, micros_now * 7 + 3] {
                assert_eq!(micros(&encoded(value)).unwrap(), value);
            }
            micros_now *= 10;
        }
    }

    #[test]
    fn what_is_no_amount_is_refused() {
        assert!(micros(&words(&[1, 0, 0xC000, 0])).is_err(), "NaN");
        assert!(micros(&words(&[1, (-2_i16).cast_unsigned(), 0, 7, 150])).is_err(), "seven places");
        assert!(micros(&words(&[1, 9, 0, 0, 1])).is_err(), "10^36");
        assert!(micros(&[0, 1, 0]).is_err(), "cut short");
    }
}
