//! What happens in the demo: pure data, four weeks of it, ending shortly before the given instant.

use chrono::{DateTime, Datelike, Duration, NaiveTime, Utc, Weekday};
use ledger::Credits;
use ledger::command::{CallFields, JobMarker};
use ledger::grant::Pool;

use crate::drive::generator::Generator;

const SEED: u64 = 20;
const DAYS: i64 = 27;
/// Nothing happens in the last minutes, so that the clock never has to be ahead of the machine's.
const MARGIN: Duration = Duration::minutes(10);

/// A demo customer.
pub struct Customer {
    pub external_ref: &'static str,
    pub name: &'static str,
    pub email: &'static str,
    pub time_zone: &'static str,
}

pub const CUSTOMERS: [Customer; 2] = [
    Customer {
        external_ref: "demo-alder",
        name: "Alder Studio",
        email: "billing@alder.example",
        time_zone: "Europe/Berlin",
    },
    Customer {
        external_ref: "demo-brook",
        name: "Brook Analytics",
        email: "accounts@brook.example",
        time_zone: "America/New_York",
    },
];

/// One thing that happens to one account.
pub struct Step {
    pub at: DateTime<Utc>,
    /// Place in [`CUSTOMERS`].
    pub account: usize,
    pub act: Act,
}

pub enum Act {
    Open,
    Grant {
        amount: Credits,
        pool: Pool,
        source: &'static str,
        ends_after_days: Option<i64>,
    },
    Charge {
        amount: Credits,
        call: Call,
    },
    /// Held, then settled at the true price.
    Call {
        hold: Credits,
        settle: Credits,
        call: Call,
    },
    /// Held, then nothing was heard of it.
    TimeOut {
        hold: Credits,
        call: Call,
    },
    /// Held, then not needed.
    GiveUp {
        hold: Credits,
        call: Call,
    },
    /// Of the account's latest charge.
    Refund {
        reason: &'static str,
    },
    Goodwill {
        amount: Credits,
        reason: &'static str,
    },
    Mark {
        marker: JobMarker,
        job: &'static str,
    },
}

/// A call to a model.
#[derive(Clone, Copy)]
pub struct Call {
    pub model: &'static str,
    pub member: &'static str,
    /// How long it takes.
    pub seconds: i64,
}

impl Call {
    pub fn fields(&self, number: usize) -> CallFields {
        CallFields {
            member: Some(self.member.to_owned()),
            model: Some(self.model.to_owned()),
            request_ref: Some(format!("req-{number:05}")),
            ..CallFields::default()
        }
    }
}

/// All steps, in the order of their instants.
pub fn steps(now: DateTime<Utc>) -> Vec<Step> {
    let first = now.with_time(NaiveTime::MIN).single().unwrap_or(now) - Duration::days(DAYS);
    let mut steps = turning_points(first);
    for day in 0..=DAYS {
        steps.extend(calls_of_day(first, day));
    }
    steps.retain(|step| step.at + MARGIN <= now);
    steps.sort_by_key(|step| step.at);
    steps
}

/// What is not everyday use.
fn turning_points(first: DateTime<Utc>) -> Vec<Step> {
    let at = |day: i64, hour: i64, minute: i64| {
        first + Duration::days(day) + Duration::hours(hour) + Duration::minutes(minute)
    };
    let step = |at, account, act| Step { at, account, act };
    let grant = |credits, pool, source, ends_after_days| Act::Grant {
        amount: Credits::whole(credits),
        pool,
        source,
        ends_after_days,
    };
    let large = Call { model: "chat-large", member: "m-oak", seconds: 40 };
    let job = "job-catalogue-1";
    vec![
        step(at(0, 6, 40), 0, Act::Open),
        step(at(0, 6, 41), 0, grant(100, Pool::Trial, "sign-up", None)),
        step(at(1, 10, 5), 0, grant(1_000, Pool::Paid, "order-1001", None)),
        step(at(8, 6, 30), 0, grant(300, Pool::Promo, "spring promotion", Some(7))),
        step(at(10, 13, 20), 0, Act::TimeOut { hold: Credits::whole(14), call: large }),
        step(at(12, 9, 10), 0, Act::Mark { marker: JobMarker::Started, job }),
        step(
            at(12, 9, 52),
            0,
            Act::Charge {
                amount: Credits::whole(64),
                call: Call { model: "embed-small", member: "m-elm", seconds: 0 },
            },
        ),
        step(at(12, 9, 53), 0, Act::Mark { marker: JobMarker::Completed, job }),
        step(at(14, 15, 2), 0, Act::GiveUp { hold: Credits::whole(9), call: large }),
        step(at(16, 11, 30), 0, Act::Refund { reason: "half of the catalogue was embedded twice" }),
        step(
            at(18, 8, 15),
            0,
            Act::Goodwill { amount: Credits::whole(25), reason: "slow answers on Tuesday" },
        ),
        step(at(21, 10, 45), 0, grant(500, Pool::Paid, "order-1044", None)),
        step(at(5, 13, 0), 1, Act::Open),
        step(at(5, 13, 4), 1, grant(200, Pool::Paid, "order-1017", None)),
        // Far above its hold: all that is left goes, and the rest is owed.
        step(
            at(25, 16, 30),
            1,
            Act::Call { hold: Credits::whole(5), settle: Credits::whole(230), call: large },
        ),
    ]
}

fn calls_of_day(first: DateTime<Utc>, day: i64) -> Vec<Step> {
    let date = first + Duration::days(day);
    let is_weekend = matches!(date.weekday(), Weekday::Sat | Weekday::Sun);
    let mut stream = Generator::for_call(SEED, u64::try_from(day).unwrap_or(0));
    let mut steps = Vec::new();
    let calls = if is_weekend { 1 + stream.below(2) } else { 5 + stream.below(5) };
    for _ in 0..calls {
        steps.push(everyday_call(date, 0, &mut stream));
    }
    let has_second = (6..25).contains(&day) && !is_weekend;
    if has_second {
        steps.push(everyday_call(date, 1, &mut stream));
    }
    steps
}

fn everyday_call(date: DateTime<Utc>, account: usize, stream: &mut Generator) -> Step {
    let seconds = |bound: u64, stream: &mut Generator| i64::try_from(stream.below(bound)).unwrap_or(0);
    // Office hours, from 7 to 17 UTC.
    let at = date + Duration::hours(7) + Duration::milliseconds(seconds(36_000_000, stream));
    let (model, micros_max) = match stream.below(10) {
        0..=5 => ("chat-small", 2_400_000),
        6..=8 => ("chat-large", 11_000_000),
        _ => ("embed-small", 600_000),
    };
    let member = ["m-ash", "m-elm", "m-oak"][usize::try_from(stream.below(3)).unwrap_or(0)];
    let settle = 20_000 + stream.below(micros_max);
    // Estimates are mostly too high, and now and then too low.
    let hold = if stream.chance(8) { settle * 3 / 4 } else { settle * (105 + stream.below(40)) / 100 };
    let credits = |micros: u64| Credits::from_micros(i128::from(micros)).unwrap_or_default();
    let call = Call { model, member, seconds: 1 + seconds(20, stream) };
    Step { at, account, act: Act::Call { hold: credits(hold), settle: credits(settle), call } }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn instant(text: &str) -> DateTime<Utc> {
        DateTime::parse_from_rfc3339(text).unwrap().to_utc()
    }

    #[test]
    fn the_story_is_in_order_ends_in_time_and_opens_accounts_before_it_uses_them() {
        for now in ["2026-03-29T00:05:00Z", "2026-03-01T23:59:59Z", "2028-02-29T12:00:00Z"] {
            let now = instant(now);
            let steps = steps(now);
            assert!(steps.len() > 100);
            assert!(steps.is_sorted_by_key(|step| step.at));
            assert!(steps.iter().all(|step| step.at + MARGIN <= now));
            for account in 0..CUSTOMERS.len() {
                let first = steps.iter().find(|step| step.account == account).unwrap();
                assert!(matches!(first.act, Act::Open));
            }
        }
    }

    #[test]
    fn the_same_day_tells_the_same_story() {
        let sums = |now: &str| {
            let settled = steps(instant(now)).into_iter().filter_map(|step| match step.act {
                Act::Call { settle, .. } => Some(settle),
                _ => None,
            });
            Credits::sum(settled).unwrap()
        };
        assert_eq!(sums("2026-03-29T20:00:00Z"), sums("2026-03-29T23:00:00Z"));
    }
}
