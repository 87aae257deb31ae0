//! Quotas: how much a member or `key_ref` may use of an account in a day, a month, or ever.

use chrono::{DateTime, Datelike, Days, LocalResult, Months, NaiveDate, NaiveTime, TimeZone, Utc};
use chrono_tz::Tz;
use serde::{Deserialize, Serialize};

use crate::command::CallFields;
use crate::credits::Credits;

/// Whom a quota binds.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Subject {
    Member(String),
    KeyRef(String),
}

impl Subject {
    /// The subjects a command names.
    pub fn of(call: &CallFields) -> impl Iterator<Item = Subject> {
        let member = call.member.clone().map(Subject::Member);
        member.into_iter().chain(call.key_ref.clone().map(Subject::KeyRef))
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Window {
    Day,
    Month,
    Total,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Quota {
    pub subject: Subject,
    pub window: Window,
    pub limit: Credits,
}

impl Window {
    pub fn as_str(self) -> &'static str {
        match self {
            Window::Day => "day",
            Window::Month => "month",
            Window::Total => "total",
        }
    }

    pub fn parse(text: &str) -> Option<Window> {
        [Window::Day, Window::Month, Window::Total].into_iter().find(|window| window.as_str() == text)
    }

    /// The window's first instant that holds `at`, in the account's zone.
    pub fn start(self, at: DateTime<Utc>, zone: Tz) -> DateTime<Utc> {
        let day = at.with_timezone(&zone).date_naive();
        match self {
            Window::Day => midnight(day, zone),
            Window::Month => midnight(day.with_day(1).unwrap_or(day), zone),
            Window::Total => DateTime::UNIX_EPOCH,
        }
    }

    /// The first instant after the window that holds `at`; `None` for a total.
    pub fn end(self, at: DateTime<Utc>, zone: Tz) -> Option<DateTime<Utc>> {
        let day = at.with_timezone(&zone).date_naive();
        let next = match self {
            Window::Day => day.checked_add_days(Days::new(1)),
            Window::Month => day.with_day(1).and_then(|first| first.checked_add_months(Months::new(1))),
            Window::Total => None,
        }?;
        Some(midnight(next, zone))
    }
}

/// The first instant of a day in a zone. Where midnight is skipped by a clock change, the day begins with the
/// first minute that exists.
pub fn midnight(day: NaiveDate, zone: Tz) -> DateTime<Utc> {
    let start = day.and_time(NaiveTime::MIN);
    (0..=180)
        .map(|minutes| start + chrono::Duration::minutes(minutes))
        .find_map(|local| match zone.from_local_datetime(&local) {
            LocalResult::Single(at) | LocalResult::Ambiguous(at, _) => Some(at.with_timezone(&Utc)),
            LocalResult::None => None,
        })
        .unwrap_or_else(|| start.and_utc())
}
