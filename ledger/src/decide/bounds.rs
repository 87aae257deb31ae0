//! What is asked of every amount and every account before anything else.

use super::draft::Draft;
use crate::account::AccountStatus;
use crate::credits::Credits;
use crate::limits::amount_max;
use crate::quota::{Quota, Subject};
use crate::refusal::{Limit, Refusal};

/// An amount where 0 is taken: charges, holds and settles.
pub(super) fn zero_or_more(amount: Credits) -> Result<(), Refusal> {
    if amount.is_negative() {
        return Err(Refusal::Invalid { field: "amount", reason: "must not be negative" });
    }
    at_most_amount_max(amount)
}

/// An amount where 0 makes no sense: grants, refunds, clawbacks, restores.
pub(super) fn above_zero(amount: Credits) -> Result<(), Refusal> {
    if !amount.is_positive() {
        return Err(Refusal::Invalid { field: "amount", reason: "must be above 0" });
    }
    at_most_amount_max(amount)
}

/// A signed amount: adjustments.
pub(super) fn not_zero(amount: Credits) -> Result<(), Refusal> {
    if amount.is_zero() {
        return Err(Refusal::Invalid { field: "amount", reason: "must not be 0" });
    }
    at_most_amount_max(amount.abs())
}

fn at_most_amount_max(amount: Credits) -> Result<(), Refusal> {
    if amount > amount_max() { Err(Refusal::LimitExceeded { limit: Limit::Amount }) } else { Ok(()) }
}

impl Draft<'_> {
    /// New charges and holds only when open; asked before the balance.
    pub fn require_open(&self) -> Result<(), Refusal> {
        match self.status {
            AccountStatus::Open => Ok(()),
            AccountStatus::Blocked => Err(Refusal::AccountBlocked),
            AccountStatus::Closed => Err(Refusal::AccountClosed),
            AccountStatus::ReadOnly => {
                let debt = Some(self.head.debt).filter(|debt| debt.is_positive());
                Err(Refusal::AccountReadOnly { debt })
            }
        }
    }

    /// Rules 4 and 5: while available is below zero nothing new is taken, not even 0.
    pub fn require_enough(&self, amount: Credits) -> Result<(), Refusal> {
        let available = self.head.available;
        if available >= amount {
            return Ok(());
        }
        Err(Refusal::InsufficientCredits {
            short_by: amount.minus(available)?,
            available,
            held_elsewhere: self.head.held,
            breaker_open: available.is_negative(),
        })
    }

    /// Every quota of the member and the `key_ref` that the command names, in the account's zone.
    pub fn require_quota(&self, amount: Credits) -> Result<(), Refusal> {
        if self.state.quotas.is_empty() {
            return Ok(());
        }
        let Some(author) = self.author else { return Ok(()) };
        for subject in Subject::of(&author.command.call) {
            for quota in self.state.quotas.iter().filter(|quota| quota.subject == subject) {
                let used = self.used(quota)?;
                if used.plus(amount)? > quota.limit {
                    let resets_at = quota.window.end(self.now, self.state.time_zone);
                    let (window, limit) = (quota.window, quota.limit);
                    return Err(Refusal::QuotaExceeded { subject, window, limit, used, resets_at });
                }
            }
        }
        Ok(())
    }

    /// What a quota's subject has used in the window that holds now. Holds that expired give back what they booked,
    /// whether or not that is written.
    fn used(&self, quota: &Quota) -> Result<Credits, Refusal> {
        let (window, zone) = (quota.window, self.state.time_zone);
        let start = window.start(self.now, zone);
        let mut used =
            self.state.uses.get(&(quota.subject.clone(), window, start)).copied().unwrap_or_default();
        for (call, lapsed) in self.lapsed_uses() {
            if Subject::of(call).any(|subject| subject == quota.subject)
                && window.start(lapsed.at, zone) == start
            {
                used = used.plus(lapsed.amount)?;
            }
        }
        Ok(used)
    }
}
