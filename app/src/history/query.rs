//! The state of a history list. All of it is in the URL, so that a reload, Back and a pasted link give the same
//! rows: `parse(render(state)) == state`.
//!
//! To add a filter: a field here, its line in [`HistoryQuery::pairs`] and in [`parse`], a control in
//! `components::filter_form`, a case in the round-trip test.

use std::collections::{BTreeMap, BTreeSet};

use chrono::{Datelike, Days, NaiveDate};
use chrono_tz::Tz;
use ledger::Credits;
use ledger::credits::AmountError;
use ledger::entry::Kind;
use ledger::service::EntryQuery;

use crate::error::{Field, Reason};
use crate::format::day_start;

/// Characters of a text filter.
const TEXT_MAX: usize = 255;
/// Days outside these years are typing errors.
const YEARS: std::ops::RangeInclusive<i32> = 1970..=2999;

/// The zone in which times are shown and days begin.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ZoneChoice {
    /// The account's own.
    #[default]
    Account,
    Utc,
    /// Any other; never UTC.
    Named(Tz),
}

impl ZoneChoice {
    /// Reads `account`, `utc` or a name of the zone database.
    pub fn parse(text: &str) -> Option<ZoneChoice> {
        match text {
            "" | "account" => Some(ZoneChoice::Account),
            text if text.eq_ignore_ascii_case("utc") => Some(ZoneChoice::Utc),
            text => text.parse().ok().map(ZoneChoice::Named),
        }
    }

    /// A zone of the account that the database of zones does not know counts as UTC.
    pub fn resolve(self, account_zone: &str) -> Tz {
        match self {
            ZoneChoice::Account => account_zone.parse().unwrap_or(Tz::UTC),
            ZoneChoice::Utc => Tz::UTC,
            ZoneChoice::Named(zone) => zone,
        }
    }

    fn name(self) -> Option<&'static str> {
        match self {
            ZoneChoice::Account => None,
            ZoneChoice::Utc => Some("utc"),
            ZoneChoice::Named(zone) => Some(zone.name()),
        }
    }
}

/// Filter, page and zone of a history.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct HistoryQuery {
    pub kinds: BTreeSet<Kind>,
    /// Days of the zone, both inclusive.
    pub from: Option<NaiveDate>,
    pub to: Option<NaiveDate>,
    pub member: Option<String>,
    pub model: Option<String>,
    pub key_ref: Option<String>,
    pub request_ref: Option<String>,
    /// By the absolute change of balance, or what was moved where that is 0.
    pub min: Option<Credits>,
    pub max: Option<Credits>,
    pub zone: ZoneChoice,
    /// Sum up although the filter has to be walked for it.
    pub sum: bool,
    pub cursor: Option<String>,
}

impl HistoryQuery {
    /// What stands in the URL, defaults left out.
    pub fn pairs(&self) -> Vec<(&'static str, String)> {
        let mut pairs: Vec<(&'static str, String)> =
            self.kinds.iter().map(|kind| ("kind", kind.as_str().to_owned())).collect();
        let texts = [
            ("member", &self.member),
            ("model", &self.model),
            ("key_ref", &self.key_ref),
            ("request_ref", &self.request_ref),
        ];
        pairs.extend(
            [("from", self.from), ("to", self.to)]
                .into_iter()
                .filter_map(|(name, day)| Some((name, day?.to_string()))),
        );
        pairs.extend(texts.into_iter().filter_map(|(name, text)| Some((name, text.clone()?))));
        pairs.extend(
            [("min", self.min), ("max", self.max)]
                .into_iter()
                .filter_map(|(name, credits)| Some((name, credits?.to_string()))),
        );
        pairs.extend(self.zone.name().map(|name| ("tz", name.to_owned())));
        pairs.extend(self.sum.then(|| ("sum", "1".to_owned())));
        pairs.extend(self.cursor.clone().map(|cursor| ("cursor", cursor)));
        pairs
    }

    /// The query string, without a question mark.
    pub fn render(&self) -> String {
        form_urlencoded::Serializer::new(String::new()).extend_pairs(self.pairs()).finish()
    }

    /// Whether some entries may be left out.
    pub fn is_filtered(&self) -> bool {
        *self
            != HistoryQuery {
                zone: self.zone,
                sum: self.sum,
                cursor: self.cursor.clone(),
                ..HistoryQuery::default()
            }
    }

    /// Whether the totals come from running sums, so that they cost two rows whatever the filter.
    pub fn is_cheap_to_sum(&self) -> bool {
        *self
            == HistoryQuery {
                kinds: self.kinds.clone(),
                from: self.from,
                to: self.to,
                zone: self.zone,
                sum: self.sum,
                cursor: self.cursor.clone(),
                ..HistoryQuery::default()
            }
    }

    pub fn first_page(&self) -> HistoryQuery {
        HistoryQuery { cursor: None, ..self.clone() }
    }

    pub fn page(&self, cursor: &str) -> HistoryQuery {
        HistoryQuery { cursor: Some(cursor.to_owned()), ..self.clone() }
    }

    pub fn summed(&self) -> HistoryQuery {
        HistoryQuery { sum: true, ..self.clone() }
    }

    /// A cursor is kept, since it names an entry and an entry has no zone; but for a filter of days, which are other
    /// days in another zone.
    pub fn in_zone(&self, zone: ZoneChoice) -> HistoryQuery {
        let has_days = self.from.is_some() || self.to.is_some();
        let cursor = self.cursor.clone().filter(|_| !has_days);
        HistoryQuery { zone, cursor, ..self.clone() }
    }

    pub fn only_zone(&self) -> HistoryQuery {
        HistoryQuery { zone: self.zone, ..HistoryQuery::default() }
    }

    /// What the ledger is asked.
    pub fn entry_query(&self, zone: Tz) -> EntryQuery {
        let after =
            |day: NaiveDate| day.checked_add_days(Days::new(1)).and_then(|next| day_start(next, zone));
        EntryQuery {
            kinds: self.kinds.iter().copied().collect(),
            from: self.from.and_then(|day| day_start(day, zone)),
            to: self.to.and_then(after),
            member: self.member.clone(),
            model: self.model.clone(),
            key_ref: self.key_ref.clone(),
            request_ref: self.request_ref.clone(),
            min: self.min,
            max: self.max,
            ..EntryQuery::default()
        }
    }
}

/// A query as it came in.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Parsed {
    /// What could be read.
    pub query: HistoryQuery,
    /// What could not.
    pub problems: Vec<(Field, Reason)>,
    /// Every single-valued control as it was typed, to show it again.
    pub typed: BTreeMap<String, String>,
}

/// Reads a raw query string. Unknown names are left alone (`account` and `theme` are read elsewhere); of a
/// repeated name the last counts, except for `kind`.
pub fn parse(raw: &str) -> Parsed {
    let mut parsed = Parsed::default();
    for (name, value) in form_urlencoded::parse(raw.as_bytes()) {
        if name == "kind" {
            match Kind::parse(&value) {
                Some(kind) => drop(parsed.query.kinds.insert(kind)),
                None if value.is_empty() => {}
                None => parsed.problems.push((Field::Kind, Reason::Unknown)),
            }
        } else {
            parsed.typed.insert(name.into_owned(), value.trim().to_owned());
        }
    }
    let typed = std::mem::take(&mut parsed.typed);
    let text = |name: &str| typed.get(name).filter(|value| !value.is_empty());
    let words = |name: &str| text(name).map(|value| value.chars().take(TEXT_MAX).collect::<String>());
    let mut note = |field: Field, reason: Reason| parsed.problems.push((field, reason));
    let query = HistoryQuery {
        kinds: std::mem::take(&mut parsed.query.kinds),
        from: text("from").and_then(|value| day(value).map_err(|reason| note(Field::From, reason)).ok()),
        to: text("to").and_then(|value| day(value).map_err(|reason| note(Field::To, reason)).ok()),
        member: words("member"),
        model: words("model"),
        key_ref: words("key_ref"),
        request_ref: words("request_ref"),
        min: text("min").and_then(|value| credits(value).map_err(|reason| note(Field::Min, reason)).ok()),
        max: text("max").and_then(|value| credits(value).map_err(|reason| note(Field::Max, reason)).ok()),
        zone: zone(text("tz")).unwrap_or_else(|reason| {
            note(Field::Zone, reason);
            ZoneChoice::Account
        }),
        sum: text("sum").is_some_and(|value| value == "1"),
        cursor: text("cursor").cloned(),
    };
    if query.from.zip(query.to).is_some_and(|(from, to)| to < from) {
        note(Field::To, Reason::BeforeStart);
    }
    if query.min.zip(query.max).is_some_and(|(min, max)| max < min) {
        note(Field::Max, Reason::BelowMin);
    }
    Parsed { query, problems: parsed.problems, typed }
}

fn day(text: &str) -> Result<NaiveDate, Reason> {
    let day = text.parse::<NaiveDate>().map_err(|_| Reason::NotADate)?;
    if YEARS.contains(&day.year()) { Ok(day) } else { Err(Reason::NotADate) }
}

fn credits(text: &str) -> Result<Credits, Reason> {
    match Credits::parse(text) {
        Ok(credits) if credits.is_negative() => Err(Reason::BelowZero),
        Ok(credits) => Ok(credits),
        Err(AmountError::NotANumber) => Err(Reason::NotAnAmount),
        Err(AmountError::TooFine) => Err(Reason::TooFine),
        Err(AmountError::TooLarge) => Err(Reason::TooLarge),
    }
}

fn zone(text: Option<&String>) -> Result<ZoneChoice, Reason> {
    text.map_or(Ok(ZoneChoice::Account), |text| ZoneChoice::parse(text).ok_or(Reason::Unknown))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Small numbers in a fixed order, so that a failure comes again.
    struct Dice(u64);

    impl Dice {
        fn below(&mut self, bound: u64) -> u64 {
            self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (self.0 >> 33) % bound
        }

        fn maybe<T>(&mut self, make: impl FnOnce(&mut Dice) -> T) -> Option<T> {
            if self.below(2) == 0 { None } else { Some(make(self)) }
        }

        fn text(&mut self) -> String {
            let words = ["gpt-4o-mini", "a b", "=1+1", "50%&more", "ä/ö?#", "x=y", "\"quoted\"", "0", "漢字"];
            words[usize::try_from(self.below(9)).unwrap()].to_owned()
        }

        fn day(&mut self) -> NaiveDate {
            NaiveDate::from_ymd_opt(1970, 1, 1).unwrap() + Days::new(self.below(30_000))
        }

        fn credits(&mut self) -> Credits {
            Credits::from_micros(i128::from(self.below(5_000_000_000))).unwrap()
        }

        fn query(&mut self) -> HistoryQuery {
            let zones = [
                ZoneChoice::Account,
                ZoneChoice::Utc,
                ZoneChoice::Named(Tz::Europe__Berlin),
                ZoneChoice::Named(Tz::America__New_York),
            ];
            let (from, min) = (self.maybe(Dice::day), self.maybe(Dice::credits));
            HistoryQuery {
                kinds: Kind::ALL.iter().copied().filter(|_| self.below(4) == 0).collect(),
                from,
                to: self.maybe(Dice::day).map(|day| from.map_or(day, |from| from.max(day))),
                member: self.maybe(Dice::text),
                model: self.maybe(Dice::text),
                key_ref: self.maybe(Dice::text),
                request_ref: self.maybe(Dice::text),
                min,
                max: self.maybe(Dice::credits).map(|max| min.map_or(max, |min| min.max(max))),
                zone: zones[usize::try_from(self.below(4)).unwrap()],
                sum: self.below(2) == 0,
                cursor: self.maybe(|dice| format!("c{}", dice.below(1_000_000))),
            }
        }
    }

    #[test]
    fn every_state_survives_its_url() {
        let mut dice = Dice(20_261_130);
        for _ in 0..5_000 {
            let query = dice.query();
            let parsed = parse(&query.render());
            assert_eq!(parsed.query, query, "{}", query.render());
            assert_eq!(parsed.problems, [], "{}", query.render());
        }
    }

    #[test]
    fn the_default_is_an_empty_url() {
        assert_eq!(HistoryQuery::default().render(), "");
        assert_eq!(parse(""), Parsed::default());
        assert_eq!(parse("kind=&from=&min=&model=++").query, HistoryQuery::default());
    }

    #[test]
    fn what_cannot_be_read_is_named_and_kept_as_typed() {
        let parsed =
            parse("kind=NONSENSE&from=30.11.2026&min=1e3&max=0.0000001&tz=Mars%2FOlympus&to=2026-11-01");
        assert_eq!(
            parsed.problems,
            [
                (Field::Kind, Reason::Unknown),
                (Field::From, Reason::NotADate),
                (Field::Min, Reason::NotAnAmount),
                (Field::Max, Reason::TooFine),
                (Field::Zone, Reason::Unknown),
            ]
        );
        assert_eq!(parsed.typed["from"], "30.11.2026");
        let turned = parse("from=2026-11-02&to=2026-11-01&min=5&max=-1");
        assert_eq!(turned.problems, [(Field::Max, Reason::BelowZero), (Field::To, Reason::BeforeStart)]);
    }

    #[test]
    fn days_are_those_of_the_zone_and_the_last_one_counts_whole() {
        let query = parse("from=2026-10-25&to=2026-10-25").query.entry_query(Tz::Europe__Berlin);
        assert_eq!(query.from, Some("2026-10-24T22:00:00Z".parse().unwrap()));
        assert_eq!(query.to, Some("2026-10-25T23:00:00Z".parse().unwrap()));
    }

    #[test]
    fn another_zone_keeps_the_page_unless_it_changes_the_days() {
        let moved = |text: &str| parse(text).query.in_zone(ZoneChoice::Utc).render();
        assert_eq!(moved("kind=CONSUME&cursor=c1"), "kind=CONSUME&tz=utc&cursor=c1");
        assert_eq!(moved("from=2026-11-01&cursor=c1"), "from=2026-11-01&tz=utc");
    }

    #[test]
    fn only_time_and_kind_are_summed_up_unasked() {
        assert!(parse("kind=CONSUME&from=2026-11-01&tz=utc&cursor=c1").query.is_cheap_to_sum());
        assert!(!parse("model=gpt").query.is_cheap_to_sum());
        assert!(!parse("tz=utc&cursor=c1&sum=1").query.is_filtered());
        assert!(parse("min=0").query.is_filtered());
    }
}
