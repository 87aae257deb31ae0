//! Reading a body strictly: what is not taken is refused with the place where it stands.
//!
//! Unknown and repeated fields, NUL, lone surrogates and text that is too long all end in 400. Types
//! carry their own limits, so a body that parses is within them.

use std::borrow::Cow;
use std::fmt;

use axum::body::Bytes;
use chrono::{DateTime, Datelike, SubsecRound, Utc};
use ledger::command::Expiry;
use ledger::credits::AmountError;
use ledger::limits::{METADATA_BYTES_MAX, amount_max};
use ledger::{Credits, limits};
use serde::de::value::CowStrDeserializer;
use serde::de::{DeserializeOwned, DeserializeSeed, Error, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;
use serde_json::{Map, Number, Value};

use crate::http::problem::Problem;

/// Reads a whole body. `{}` stands for a body that is not there, so that only what is required is missed.
pub fn parse<'a, T: Deserialize<'a>>(body: &'a Bytes) -> Result<T, Problem> {
    let text = std::str::from_utf8(body).map_err(|_| Problem::field("", "the body is not UTF-8"))?;
    parse_text(if text.is_empty() { "{}" } else { text })
}

pub fn parse_text<'a, T: Deserialize<'a>>(text: &'a str) -> Result<T, Problem> {
    // The derived readers would also take a list, field by field.
    if !text.trim_start_matches([' ', '\t', '\r', '\n']).starts_with('{') {
        return Err(Problem::field("", "is not a JSON object"));
    }
    serde_json::from_str(text).map_err(|error| explain::<T>(text, &error))
}

/// Reads once more, slowly, for the place of the mistake. Only refused requests pay for it.
fn explain<'a, T: Deserialize<'a>>(text: &'a str, first: &serde_json::Error) -> Problem {
    let mut reader = serde_json::Deserializer::from_str(text);
    let (path, reason) = match serde_path_to_error::deserialize::<_, T>(&mut reader) {
        Err(error) => (error.path().clone(), plain(error.inner())),
        Ok(_) => return Problem::field("", plain(first)),
    };
    let mut pointer: String = path.iter().map(pointer_part).collect();
    for lead in ["missing field `", "unknown field `", "duplicate field `"] {
        let named = reason.strip_prefix(lead).and_then(|rest| rest.split_once('`'));
        if let Some((field, _)) = named.filter(|(field, _)| !pointer.ends_with(&format!("/{field}"))) {
            pointer = format!("{pointer}/{}", escaped(field));
        }
    }
    Problem::field(pointer, reason)
}

fn pointer_part(segment: &serde_path_to_error::Segment) -> String {
    use serde_path_to_error::Segment;
    match segment {
        Segment::Seq { index } => format!("/{index}"),
        Segment::Map { key } => format!("/{}", escaped(key)),
        Segment::Enum { variant } => format!("/{}", escaped(variant)),
        Segment::Unknown => String::new(),
    }
}

/// A name as a part of a JSON pointer. Names come from the caller, so they are cut.
fn escaped(name: &str) -> String {
    let name: String = name.chars().take(100).collect();
    name.replace('~', "~0").replace('/', "~1")
}

/// The parser's words, without line and column and not endless.
fn plain(error: &serde_json::Error) -> String {
    let text = error.to_string();
    let text = text.rsplit_once(" at line ").map_or(text.as_str(), |(words, _)| words);
    text.chars().take(300).collect()
}

// ---- amounts

/// Digits before the point of a decimal string, as many as the largest amount has, and after it.
const WHOLE_DIGITS_MAX: usize = 13;
const PLACES_MAX: usize = 6;
/// Exponents beyond it write no amount that is taken, whatever stands before them.
const EXPONENT_MAX: i32 = 30;

/// Whether an amount may go below zero.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Sign {
    Plus,
    Either,
}

/// An amount exactly as written: a decimal string with up to 6 places, or a JSON number. A number may have an exponent,
/// since programs write small ones so; what it comes to must be an amount all the same.
fn credits<'de, D: Deserializer<'de>>(deserializer: D, sign: Sign) -> Result<Credits, D::Error> {
    let raw = <&RawValue>::deserialize(deserializer)?.get();
    let text = match raw.strip_prefix('"').and_then(|rest| rest.strip_suffix('"')) {
        Some(text) => as_string(text).map(Cow::Borrowed),
        None if raw.starts_with(|c: char| c == '-' || c.is_ascii_digit()) => as_number(raw),
        None => return Err(D::Error::custom("is neither a decimal string such as \"12.5\" nor a number")),
    };
    let text = text.map_err(D::Error::custom)?;
    let amount = Credits::parse(&text).map_err(D::Error::custom)?;
    if sign == Sign::Plus && (amount.is_negative() || raw.starts_with("\"-")) {
        return Err(D::Error::custom("is negative"));
    }
    if amount.abs() > amount_max() { Err(D::Error::custom(AmountError::TooLarge)) } else { Ok(amount) }
}

/// The digits as the API description draws them, zeros that say nothing included.
fn as_string(text: &str) -> Result<&str, AmountError> {
    let digits = text.strip_prefix('-').unwrap_or(text);
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    match () {
        () if whole.len() > WHOLE_DIGITS_MAX => Err(AmountError::TooLarge),
        () if fraction.len() > PLACES_MAX => Err(AmountError::TooFine),
        () => Ok(text),
    }
}

/// A JSON number in plain notation.
fn as_number(raw: &str) -> Result<Cow<'_, str>, AmountError> {
    let Some((mantissa, exponent)) = raw.split_once(['e', 'E']) else { return Ok(Cow::Borrowed(raw)) };
    let exponent = exponent.parse::<i32>().ok().filter(|exponent| exponent.abs() <= EXPONENT_MAX);
    let exponent = exponent.ok_or(AmountError::TooLarge)?;
    let (minus, digits) = match mantissa.strip_prefix('-') {
        Some(digits) => ("-", digits),
        None => ("", mantissa),
    };
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let shift = usize::try_from(exponent.unsigned_abs()).unwrap_or_default();
    Ok(Cow::Owned(if exponent < 0 {
        let (kept, moved) = whole.split_at(whole.len().saturating_sub(shift));
        let zeros = "0".repeat(shift.saturating_sub(whole.len()));
        format!("{minus}0{kept}.{zeros}{moved}{fraction}")
    } else {
        let (moved, kept) = fraction.split_at(shift.min(fraction.len()));
        let zeros = "0".repeat(shift - moved.len());
        let point = if kept.is_empty() { "" } else { "." };
        format!("{minus}{whole}{moved}{zeros}{point}{kept}")
    }))
}

/// 0 to 10^12.
#[derive(Clone, Copy, Debug)]
pub struct Amount(pub Credits);

/// Above 0, up to 10^12.
#[derive(Clone, Copy, Debug)]
pub struct PositiveAmount(pub Credits);

/// Up to 10^12 either way, not 0.
#[derive(Clone, Copy, Debug)]
pub struct SignedAmount(pub Credits);

impl<'de> Deserialize<'de> for Amount {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Amount, D::Error> {
        credits(deserializer, Sign::Plus).map(Amount)
    }
}

impl<'de> Deserialize<'de> for PositiveAmount {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<PositiveAmount, D::Error> {
        let amount = credits(deserializer, Sign::Plus)?;
        if amount.is_positive() {
            Ok(PositiveAmount(amount))
        } else {
            Err(D::Error::custom("is not above 0"))
        }
    }
}

impl<'de> Deserialize<'de> for SignedAmount {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<SignedAmount, D::Error> {
        let amount = credits(deserializer, Sign::Either)?;
        if amount.is_zero() { Err(D::Error::custom("is 0")) } else { Ok(SignedAmount(amount)) }
    }
}

// ---- text

/// 1 to `MAX` characters, none of them NUL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Text<const MAX: usize>(pub String);

/// An id of the caller's own: members, jobs, models, keys, references.
pub type Name = Text<255>;
/// Why something was done, for people.
pub type Reason = Text<2000>;

impl<const MAX: usize> Text<MAX> {
    pub fn checked(text: &str) -> Result<Text<MAX>, String> {
        if text.is_empty() {
            return Err("is empty".to_owned());
        }
        // Spaces, and what is as wide as nothing, say nothing.
        let is_blank =
            |c: char| c.is_whitespace() || matches!(c, '\u{200b}'..='\u{200d}' | '\u{2060}' | '\u{feff}');
        if text.chars().all(is_blank) {
            return Err("is blank".to_owned());
        }
        if text.contains('\0') {
            return Err("contains NUL".to_owned());
        }
        // Bytes first: a text of few enough bytes needs no counting.
        if text.len() > MAX && text.chars().count() > MAX {
            return Err(format!("has more than {MAX} characters"));
        }
        Ok(Text(text.to_owned()))
    }
}

impl<'de, const MAX: usize> Deserialize<'de> for Text<MAX> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Text<MAX>, D::Error> {
        struct Words<const MAX: usize>;

        impl<const MAX: usize> Visitor<'_> for Words<MAX> {
            type Value = Text<MAX>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string")
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<Text<MAX>, E> {
                Text::checked(text).map_err(E::custom)
            }
        }

        deserializer.deserialize_str(Words)
    }
}

/// The text within, of a field that may be absent.
pub fn text<const MAX: usize>(field: Option<Text<MAX>>) -> Option<String> {
    field.map(|Text(text)| text)
}

/// One word of a few, written as a string. The derived readers would also take `{"word":null}`.
#[derive(Clone, Copy, Debug)]
pub struct Word<T>(pub T);

impl<'de, T: DeserializeOwned> Deserialize<'de> for Word<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Word<T>, D::Error> {
        let text = Cow::<str>::deserialize(deserializer)?;
        T::deserialize(CowStrDeserializer::new(text)).map(Word)
    }
}

// ---- times

/// RFC 3339 with an offset, kept to the microsecond.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Time(pub DateTime<Utc>);

impl Time {
    pub fn checked(text: &str) -> Result<Time, &'static str> {
        let at =
            DateTime::parse_from_rfc3339(text).map_err(|_| "is not a time such as 2026-01-31T12:00:00Z")?;
        let at = at.with_timezone(&Utc).trunc_subsecs(6);
        if (1970..=9999).contains(&at.year()) {
            Ok(Time(at))
        } else {
            Err("is not between the years 1970 and 9999")
        }
    }
}

impl<'de> Deserialize<'de> for Time {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Time, D::Error> {
        let text = Cow::<str>::deserialize(deserializer)?;
        Time::checked(&text).map_err(D::Error::custom)
    }
}

/// `expires_at` of what makes a grant: absent goes by policy, null never ends.
#[derive(Clone, Copy, Debug, Default)]
pub struct ExpiresAt(pub Expiry);

impl<'de> Deserialize<'de> for ExpiresAt {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<ExpiresAt, D::Error> {
        let at = Option::<Time>::deserialize(deserializer)?;
        Ok(ExpiresAt(at.map_or(Expiry::Never, |Time(at)| Expiry::At(at))))
    }
}

// ---- metadata

/// An object of strings, numbers and booleans, with objects of the same one level down; 8 KiB as JSON.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Metadata(pub Map<String, Value>);

impl<'de> Deserialize<'de> for Metadata {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Metadata, D::Error> {
        let object = Level { may_nest: true }.deserialize(deserializer)?;
        let Value::Object(object) = object else { return Err(D::Error::custom("is not an object")) };
        // Counting what is stored, not what was sent.
        let bytes = serde_json::to_string(&object).map_or(usize::MAX, |text| text.len());
        if bytes > METADATA_BYTES_MAX {
            Err(D::Error::custom("is larger than 8 KiB"))
        } else {
            Ok(Metadata(object))
        }
    }
}

/// The metadata within, of a field that may be absent. An empty object says nothing.
pub fn metadata(field: Option<Metadata>) -> Option<Map<String, Value>> {
    field.map(|Metadata(object)| object).filter(|object| !object.is_empty())
}

/// One level of metadata.
#[derive(Clone, Copy)]
struct Level {
    may_nest: bool,
}

impl<'de> DeserializeSeed<'de> for Level {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Level {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Value, A::Error> {
        let mut object = Map::new();
        while let Some(key) = map.next_key::<String>()? {
            if key.contains('\0') {
                return Err(A::Error::custom("a key contains NUL"));
            }
            // The JSON library's own marks: read back, such an object would not be an object.
            if key.starts_with("$serde_json::private") {
                return Err(A::Error::custom("a key begins with a reserved word"));
            }
            let raw: &RawValue = map.next_value()?;
            let value = value(raw.get(), self.may_nest).map_err(A::Error::custom)?;
            if object.insert(key, value).is_some() {
                return Err(A::Error::custom("a key is there twice"));
            }
        }
        Ok(Value::Object(object))
    }
}

fn value(raw: &str, may_nest: bool) -> Result<Value, String> {
    match raw.as_bytes().first() {
        Some(b'"') => {
            let text: String = serde_json::from_str(raw).map_err(|error| plain(&error))?;
            if text.contains('\0') { Err("a value contains NUL".to_owned()) } else { Ok(Value::String(text)) }
        }
        Some(b't') => Ok(Value::Bool(true)),
        Some(b'f') => Ok(Value::Bool(false)),
        Some(b'{') if may_nest => {
            let mut reader = serde_json::Deserializer::from_str(raw);
            Level { may_nest: false }.deserialize(&mut reader).map_err(|error| plain(&error))
        }
        Some(b'-' | b'0'..=b'9') => number(raw).map(Value::Number),
        _ => Err("a value is not a string, a number, a boolean or, on the first level, an object of these"
            .to_owned()),
    }
}

/// A number that every reader reads alike: whole and within 64 bits, or with at most 15 digits. Exponents are
/// refused, and 0 is written in one way, so that what is stored and what is read back have one digest.
fn number(raw: &str) -> Result<Number, String> {
    let digits = raw.bytes().filter(u8::is_ascii_digit);
    if digits.clone().all(|digit| digit == b'0') && !raw.contains(['e', 'E']) {
        return Ok(Number::from(0));
    }
    if let Ok(whole) = raw.parse::<i64>() {
        return Ok(Number::from(whole));
    }
    if raw.contains(['e', 'E']) || digits.count() > 15 {
        return Err("a number has an exponent or more than 15 digits; send it as a string".to_owned());
    }
    serde_json::from_str(raw).map_err(|error| plain(&error))
}

// ---- idempotency keys

/// What a caller chose so that a retry posts nothing twice. Quotes of a structured string are taken off.
pub fn idempotency_key(text: &str) -> Result<String, &'static str> {
    let inner = text.strip_prefix('"').and_then(|rest| rest.strip_suffix('"'));
    let key = match inner {
        Some(inner) if inner.contains('\\') => Cow::Owned(inner.replace("\\\"", "\"").replace("\\\\", "\\")),
        Some(inner) => Cow::Borrowed(inner),
        None => Cow::Borrowed(text),
    };
    let is_visible = key.bytes().all(|byte| byte.is_ascii_graphic());
    match key.len() {
        0 => Err("is empty"),
        length if length > limits::IDEMPOTENCY_KEY_MAX => Err("has more than 255 characters"),
        _ if !is_visible => Err("has characters that are not visible ASCII"),
        _ => Ok(key.into_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[expect(dead_code, reason = "some fields are there for what they refuse")]
    #[derive(Debug, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Body {
        amount: Amount,
        #[serde(default)]
        member: Option<Name>,
        #[serde(default)]
        metadata: Option<Metadata>,
        #[serde(default)]
        expires_at: ExpiresAt,
    }

    fn read(text: &str) -> Result<Body, (String, String)> {
        parse_text::<Body>(text).map_err(|problem| {
            let error = problem.errors[0].clone();
            (error.pointer, error.reason)
        })
    }

    fn pointer(text: &str) -> String {
        read(text).map(|body| format!("taken: {body:?}")).unwrap_or_else(|(pointer, _)| pointer)
    }

    #[test]
    fn an_amount_is_read_as_it_is_written() {
        for (text, amount) in [
            ("\"12.5\"", "12.5"),
            ("12.5", "12.5"),
            ("0", "0"),
            ("0.1", "0.1"),
            ("1000000000000", "1000000000000"),
            ("\"80.000000\"", "80"),
            ("0.5000000", "0.5"),
            ("1e3", "1000"),
            ("1E+2", "100"),
            ("1e-06", "0.000001"),
            ("1.5e-3", "0.0015"),
            ("12345e-2", "123.45"),
            ("1.25e1", "12.5"),
            ("1.250e2", "125"),
            ("0e5", "0"),
            ("0.000001e18", "1000000000000"),
        ] {
            let body = read(&format!("{{\"amount\":{text}}}")).unwrap();
            assert_eq!(body.amount.0.to_string(), amount);
        }
        for text in [
            "-1",
            "\"-1\"",
            "\"-0\"",
            "\"1e3\"",
            "\"0.5000000\"",
            "\"00000000000001\"",
            "1E400",
            "1e-400",
            "0e400",
            "1e99999999999999999999",
            "1e-7",
            "1.5e-6",
            "1e13",
            "-1e0",
            "NaN",
            "Infinity",
            "null",
            "true",
            "[]",
            "{}",
            "\"\"",
            "\" 1\"",
            "0.0000001",
            "1000000000000.000001",
            "99999999999999999999999999999999999999",
            "\"\\u0031\"",
            "\"0x10\"",
        ] {
            assert!(read(&format!("{{\"amount\":{text}}}")).is_err(), "{text}");
        }
        assert_eq!(pointer("{\"amount\":\"-1\"}"), "/amount");
    }

    #[test]
    fn the_pointer_names_the_field() {
        assert_eq!(pointer("{}"), "/amount");
        assert_eq!(pointer("{\"amount\":1,\"nope\":2}"), "/nope");
        assert_eq!(pointer("{\"amount\":1,\"amount\":2}"), "/amount");
        assert_eq!(pointer("{\"amount\":1,\"member\":5}"), "/member");
        assert_eq!(pointer("{\"amount\":1"), "");
        assert_eq!(pointer("[1]"), "");
    }

    #[test]
    fn nul_lone_surrogates_and_long_text_are_refused() {
        for member in ["\\u0000", "a\\u0000b", "\\ud800", "\\udc00x", "", "  ", "\\t", "\\u3000\\u200b"] {
            assert!(read(&format!("{{\"amount\":1,\"member\":\"{member}\"}}")).is_err(), "{member}");
        }
        let long = "ä".repeat(255);
        assert!(read(&format!("{{\"amount\":1,\"member\":\"{long}\"}}")).is_ok());
        assert!(read(&format!("{{\"amount\":1,\"member\":\"{long}a\"}}")).is_err());
        assert!(read(&format!("{}1{}", "[".repeat(5_000), "]".repeat(5_000))).is_err());
    }

    #[test]
    fn metadata_has_one_level_of_nesting_8_kib_and_no_key_twice() {
        let taken = |metadata: &str| read(&format!("{{\"amount\":1,\"metadata\":{metadata}}}")).is_ok();
        assert!(taken("{}") && taken("null"));
        assert!(taken(
            "{\"a\":\"x\",\"b\":1,\"c\":1.25,\"d\":true,\"e\":{\"f\":\"y\"},\"g\":-9223372036854775808}"
        ));
        for metadata in [
            "{\"a\":1,\"a\":2}",
            "{\"e\":{\"f\":1,\"f\":2}}",
            "{\"e\":{\"f\":{}}}",
            "{\"a\":[1]}",
            "{\"a\":null}",
            "[]",
            "\"x\"",
            "{\"a\":1e5}",
            "{\"a\":1e400}",
            "{\"a\":0.12345678901234567}",
            "{\"a\":99999999999999999999}",
            "{\"\\u0000\":1}",
            "{\"$serde_json::private::RawValue\":\"{\"}",
            "{\"a\":{\"$serde_json::private::Number\":\"1\"}}",
            "{\"a\":\"\\u0000\"}",
            "{\"a\":\"\\ud800\"}",
        ] {
            assert!(!taken(metadata), "{metadata}");
        }
        let filled = |bytes: usize| format!("{{\"a\":\"{}\"}}", "x".repeat(bytes - 8));
        assert!(taken(&filled(8_192)));
        assert!(!taken(&filled(8_193)));
    }

    #[test]
    fn an_absent_expiry_goes_by_policy_and_null_never_ends() {
        let expiry = |field: &str| read(&format!("{{\"amount\":1{field}}}")).unwrap().expires_at.0;
        assert_eq!(expiry(""), Expiry::Policy);
        assert_eq!(expiry(",\"expires_at\":null"), Expiry::Never);
        let at = DateTime::parse_from_rfc3339("2026-06-30T22:00:00Z").unwrap().to_utc();
        assert_eq!(expiry(",\"expires_at\":\"2026-07-01T00:00:00+02:00\""), Expiry::At(at));
        for time in [
            "2026-07-01",
            "2026-07-01T00:00:00",
            "2026-13-01T00:00:00Z",
            "10000-01-01T00:00:00Z",
            "0001-01-01T00:00:00Z",
        ] {
            assert!(Time::checked(time).is_err(), "{time}");
        }
    }

    #[test]
    fn an_idempotency_key_loses_the_quotes_of_a_structured_string() {
        assert_eq!(idempotency_key("abc").unwrap(), "abc");
        assert_eq!(idempotency_key("\"abc\"").unwrap(), "abc");
        assert_eq!(idempotency_key("\"a\\\"b\"").unwrap(), "a\"b");
        assert_eq!(idempotency_key(&"k".repeat(255)).unwrap().len(), 255);
        for key in ["", "\"\"", "a b", "ä", &"k".repeat(256)] {
            assert!(idempotency_key(key).is_err(), "{key}");
        }
    }
}
