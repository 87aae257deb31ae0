//! Dates by hand: ends of grants by policy, and windows of quotas.

use chrono::{Datelike, Duration, NaiveDate, TimeZone, Utc};
use chrono_tz::Tz;
use ledger::grant::Pool;
use ledger::policy::{ExpiryRule, Policy};
use ledger::quota::Window;

use super::Instant;

/// The end of a grant of this pool by policy, and whether later grants move it.
pub fn end_by_policy(policy: &Policy, pool: Pool, from: Instant) -> (Option<Instant>, bool) {
    let rule = match pool {
        Pool::Trial => policy.trial,
        Pool::Promo => policy.promo,
        Pool::Paid => policy.paid,
    };
    match rule {
        ExpiryRule::Never => (None, false),
        ExpiryRule::Days(days) => (Some(from + Duration::seconds(i64::from(days) * 86_400)), false),
        ExpiryRule::Months(months) => (Some(months_later(from, months)), false),
        ExpiryRule::RollingMonths(months) => (Some(months_later(from, months)), true),
    }
}

/// The same day of a later month, or its last one.
fn months_later(from: Instant, months: u32) -> Instant {
    let date = from.date_naive();
    let month = date.month0() + months;
    let year = date.year() + i32::try_from(month / 12).unwrap();
    let exists = |day: u32| NaiveDate::from_ymd_opt(year, month % 12 + 1, day);
    let date = (1..=date.day()).rev().find_map(exists).unwrap();
    date.and_time(from.time()).and_utc()
}

/// Whether two instants lie in one window.
pub fn together(window: Window, one: Instant, other: Instant, zone: Tz) -> bool {
    let (one, other) = (one.with_timezone(&zone).date_naive(), other.with_timezone(&zone).date_naive());
    match window {
        Window::Day => one == other,
        Window::Month => (one.year(), one.month()) == (other.year(), other.month()),
        Window::Total => true,
    }
}

/// The first instant after the window that holds `at`.
pub fn window_end(window: Window, at: Instant, zone: Tz) -> Option<Instant> {
    if window == Window::Total {
        return None;
    }
    let mut day = at.with_timezone(&zone).date_naive();
    loop {
        day = day.succ_opt().unwrap();
        if window == Window::Day || day.day() == 1 {
            let midnight = day.and_hms_opt(0, 0, 0).unwrap();
            return Some(zone.from_local_datetime(&midnight).earliest().unwrap().with_timezone(&Utc));
        }
    }
}
