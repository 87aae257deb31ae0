//! A policy: a named set of rules. Every account points at one.

use chrono::{DateTime, Datelike, Days, Months, Utc};
use rust_decimal::Decimal;
use serde::{Deserialize, Serialize};

use crate::credits::Credits;
use crate::grant::Pool;

/// What happens to the part of a settle that is above its hold (rule 6).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Overrun {
    /// Posted in full: drawn from available, the rest becomes debt.
    #[default]
    Full,
    /// Capped at the hold; the uncollected part is a NOTE of its own.
    Cap,
}

/// When a grant of a pool ends, counted from when it was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ExpiryRule {
    Never,
    Days(u32),
    /// Calendar months, clamped to the month's last day.
    Months(u32),
    /// As `Months`, and a later grant of the pool moves the ends of earlier ones that are not yet due (rule 10).
    RollingMonths(u32),
}

impl ExpiryRule {
    /// The end of a grant made at `from`; `None` never ends. A date beyond the calendar never ends either.
    pub fn end(self, from: DateTime<Utc>) -> Option<DateTime<Utc>> {
        match self {
            ExpiryRule::Never => None,
            ExpiryRule::Days(days) => from.checked_add_days(Days::new(u64::from(days))),
            ExpiryRule::Months(months) | ExpiryRule::RollingMonths(months) => {
                from.checked_add_months(Months::new(months))
            }
        }
        .filter(|end| end.year() <= 9999)
    }

    pub fn is_rolling(self) -> bool {
        matches!(self, ExpiryRule::RollingMonths(_))
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Policy {
    pub name: String,
    pub hold_default_s: u32,
    /// The longest a hold may be open without a renewal.
    pub hold_lifetime_s: u32,
    pub overrun: Overrun,
    pub trial: ExpiryRule,
    pub promo: ExpiryRule,
    pub paid: ExpiryRule,
    /// Vendor dollars × `credits_per_dollar` × this.
    pub multiplier: Decimal,
    /// A hold's estimate is the expected price times this.
    pub estimate_factor: Decimal,
    /// Where available falls below this, the outbox says so once, and again only after it was at or above it; absent: never.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub low_balance: Option<Credits>,
}

impl Policy {
    pub fn expiry(&self, pool: Pool) -> ExpiryRule {
        match pool {
            Pool::Trial => self.trial,
            Pool::Promo => self.promo,
            Pool::Paid => self.paid,
        }
    }
}

impl Default for Policy {
    fn default() -> Policy {
        Policy {
            name: "default".to_owned(),
            hold_default_s: 600,
            hold_lifetime_s: 3_600,
            overrun: Overrun::Full,
            trial: ExpiryRule::Days(30),
            promo: ExpiryRule::Days(90),
            paid: ExpiryRule::RollingMonths(12),
            multiplier: Decimal::ONE,
            estimate_factor: Decimal::new(12, 1),
            low_balance: None,
        }
    }
}
