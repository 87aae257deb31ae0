//! How amounts and instants look. Amounts are never rounded: what is shown is what is kept.

use chrono::{DateTime, Duration, NaiveDate, NaiveTime, TimeZone, Utc};
use chrono_tz::Tz;
use ledger::Credits;

/// With the thousands set apart: `-12,345.0768`.
pub fn amount(credits: Credits) -> String {
    let text = credits.to_string();
    let (minus, digits) = text.strip_prefix('-').map_or(("", text.as_str()), |digits| ("-", digits));
    let (whole, fraction) =
        digits.split_once('.').map_or((digits, None), |(whole, fraction)| (whole, Some(fraction)));
    let mut out = String::with_capacity(text.len() + whole.len() / 3 + 1);
    out.push_str(minus);
    for (place, digit) in whole.chars().enumerate() {
        if place > 0 && (whole.len() - place).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    if let Some(fraction) = fraction {
        out.push('.');
        out.push_str(fraction);
    }
    out
}

/// With its sign, also when it is above zero. Zero has none.
pub fn signed(credits: Credits) -> String {
    if credits.is_positive() { format!("+{}", amount(credits)) } else { amount(credits) }
}

/// Decimal places that the amount shows.
pub fn places(credits: Credits) -> usize {
    credits.to_string().split_once('.').map_or(0, |(_, fraction)| fraction.len())
}

/// The class of a number cell. It is padded on the right as if it had `most` places, so that the points of a
/// column stand below each other; the padding is the stylesheet's and no text.
pub fn number_class(credits: Credits, most: usize) -> String {
    let own = places(credits);
    match most.saturating_sub(own) {
        0 => "n".to_owned(),
        // Without a point of its own it lacks that too.
        missing if own == 0 => format!("n q{missing}"),
        missing => format!("n p{missing}"),
    }
}

/// The most decimal places of a column.
pub fn most_places(column: impl Iterator<Item = Credits>) -> usize {
    column.map(places).max().unwrap_or(0)
}

/// `30 Nov 2026`.
pub fn day(date: NaiveDate) -> String {
    date.format("%-d %b %Y").to_string()
}

/// The parts of an instant as a person of the zone reads it.
pub struct Local {
    pub day: String,
    /// To the second, with the zone's short name: `22:13:05 CET`.
    pub time: String,
    /// For machines, in UTC.
    pub utc: String,
}

impl Local {
    pub fn of(at: DateTime<Utc>, zone: Tz) -> Local {
        let local = at.with_timezone(&zone);
        Local {
            day: day(local.date_naive()),
            time: local.format("%H:%M:%S %Z").to_string(),
            utc: at.format("%Y-%m-%dT%H:%M:%SZ").to_string(),
        }
    }

    pub fn line(&self) -> String {
        format!("{}, {}", self.day, self.time)
    }
}

/// A hint beside an absolute time: `in 12 days`, `3 hours ago`.
pub fn relative(at: DateTime<Utc>, now: DateTime<Utc>) -> String {
    let (distance, is_ahead) = if at >= now { (at - now, true) } else { (now - at, false) };
    let (count, unit) = rough(distance);
    if count == 0 {
        return "now".to_owned();
    }
    let plural = if count == 1 { "" } else { "s" };
    if is_ahead { format!("in {count} {unit}{plural}") } else { format!("{count} {unit}{plural} ago") }
}

fn rough(distance: Duration) -> (i64, &'static str) {
    match distance.num_seconds() {
        seconds if seconds < 60 => (seconds, "second"),
        seconds if seconds < 3_600 => (distance.num_minutes(), "minute"),
        seconds if seconds < 48 * 3_600 => (distance.num_hours(), "hour"),
        _ => (distance.num_days(), "day"),
    }
}

/// The first instant of a day in a zone. Where the clock jumps over midnight, it is the instant after the jump.
pub fn day_start(date: NaiveDate, zone: Tz) -> Option<DateTime<Utc>> {
    let midnight = date.and_time(NaiveTime::MIN);
    // No zone jumps by more than a day; a quarter of an hour is the finest step there has been since 1970.
    (0..=96).find_map(|quarters| {
        let local = midnight.checked_add_signed(Duration::minutes(15 * quarters))?;
        zone.from_local_datetime(&local).earliest().map(|at| at.with_timezone(&Utc))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn credits(text: &str) -> Credits {
        Credits::parse(text).unwrap()
    }

    fn at(text: &str) -> DateTime<Utc> {
        text.parse().unwrap()
    }

    #[test]
    fn c15_a_small_charge_is_shown_with_all_its_digits() {
        assert_eq!(signed(credits("-0.0768")), "-0.0768");
        assert_eq!(signed(credits("-0.000001")), "-0.000001");
        assert_eq!(signed(credits("0.000001")), "+0.000001");
    }

    #[test]
    fn thousands_are_set_apart_and_zero_has_no_sign() {
        for (given, shown) in [
            ("1234567.5", "1,234,567.5"),
            ("-1000", "-1,000"),
            ("999", "999"),
            ("0", "0"),
            ("-123456.000001", "-123,456.000001"),
        ] {
            assert_eq!(amount(credits(given)), shown);
        }
        assert_eq!(signed(credits("0")), "0");
    }

    #[test]
    fn number_cells_are_padded_to_the_column() {
        assert_eq!(number_class(credits("1"), 0), "n");
        assert_eq!(number_class(credits("1"), 4), "n q4");
        assert_eq!(number_class(credits("1.5"), 4), "n p3");
        assert_eq!(number_class(credits("1.0768"), 4), "n");
    }

    #[test]
    fn days_begin_where_the_zone_says() {
        let start = |day: &str, zone: Tz| day_start(day.parse().unwrap(), zone).unwrap();
        assert_eq!(start("2026-07-01", Tz::Europe__Berlin), at("2026-06-30T22:00:00Z"));
        // Clocks go back at 03:00 that day: it has 25 hours.
        assert_eq!(start("2026-10-25", Tz::Europe__Berlin), at("2026-10-24T22:00:00Z"));
        assert_eq!(start("2026-10-26", Tz::Europe__Berlin), at("2026-10-25T23:00:00Z"));
        // Midnight did not exist in Cairo on 28 April 2023.
        assert_eq!(start("2023-04-28", Tz::Africa__Cairo), at("2023-04-27T22:00:00Z"));
    }

    #[test]
    fn hints_name_the_largest_sensible_unit() {
        let now = at("2026-11-30T12:00:00Z");
        assert_eq!(relative(at("2026-12-12T12:00:00Z"), now), "in 12 days");
        assert_eq!(relative(at("2026-11-30T11:59:00Z"), now), "1 minute ago");
        assert_eq!(relative(now, now), "now");
    }
}
