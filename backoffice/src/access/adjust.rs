//! Limits of corrections by hand: how much at once, and how much in a day.
//!
//! The day's sum is reserved here, in a short transaction of its own, before the ledger is asked; a refusal
//! gives it back. So no transaction stands open while the ledger works, and two requests at one instant
//! cannot both use the last of it.

use chrono::{DateTime, NaiveDate, Utc};
use ledger::Credits;
use ledger::ids::AccountId;

use super::rights::MayAdjust;
use super::{Access, AccessError, Role, UserId, repo};

/// What a role may correct. `None`: no such limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// A single correction above it is refused.
    pub refused_above: Option<Credits>,
    /// A single correction above it needs a second person.
    pub second_person_above: Option<Credits>,
    /// Of one staff member in one UTC day over all accounts, without signs.
    pub daily_sum: Option<Credits>,
}

impl Limits {
    pub fn of(role: Role) -> Limits {
        match role {
            Role::Customer => {
                Limits { refused_above: Some(Credits::ZERO), second_person_above: None, daily_sum: None }
            }
            Role::Support => Limits {
                refused_above: Some(Credits::whole(1_000)),
                second_person_above: None,
                daily_sum: Some(Credits::whole(5_000)),
            },
            Role::Finance | Role::Admin => Limits {
                refused_above: None,
                second_person_above: Some(Credits::whole(10_000)),
                daily_sum: None,
            },
        }
    }

    fn check(&self, amount: Credits) -> Result<(), AdjustError> {
        match (self.refused_above, self.second_person_above) {
            (Some(limit), _) if amount > limit => Err(AdjustError::AboveLimit { limit }),
            (_, Some(limit)) if amount > limit => Err(AdjustError::NeedsSecondPerson { limit }),
            _ => Ok(()),
        }
    }
}

#[derive(Clone, Debug, thiserror::Error)]
pub enum AdjustError {
    #[error("corrections above {limit} credits are beyond this role")]
    AboveLimit { limit: Credits },
    #[error("corrections above {limit} credits need a second person")]
    NeedsSecondPerson { limit: Credits },
    #[error("the day's corrections would exceed {limit} credits; {used} are used")]
    DailySum { limit: Credits, used: Credits },
    #[error(transparent)]
    Unavailable(#[from] AccessError),
}

/// One correction that is about to be posted.
#[derive(Clone, Copy, Debug)]
pub struct Adjusting {
    /// Signed.
    pub amount: Credits,
    /// Of the idempotency key; a retry is counted once.
    pub key_digest: [u8; 32],
}

/// A part of the day's sum, taken for one correction.
#[derive(Clone, Copy, Debug)]
pub struct Reservation {
    pub(super) user: UserId,
    pub(super) account: AccountId,
    pub(super) key_digest: [u8; 32],
    pub(super) day: NaiveDate,
    pub(super) amount: Credits,
    /// False when an earlier request with this key took it.
    is_new: bool,
}

impl Access {
    pub async fn reserve_adjustment(
        &self,
        may: &MayAdjust,
        what: Adjusting,
        now: DateTime<Utc>,
    ) -> Result<Reservation, AdjustError> {
        let limits = Limits::of(may.role());
        let amount = what.amount.abs();
        limits.check(amount)?;
        let mut reservation = Reservation {
            user: may.user(),
            account: may.account(),
            key_digest: what.key_digest,
            day: now.date_naive(),
            amount,
            is_new: true,
        };
        let fits = |used: Credits| match limits.daily_sum {
            Some(limit) if used.plus(amount).is_ok_and(|sum| sum <= limit) => Ok(()),
            Some(limit) => Err(AdjustError::DailySum { limit, used }),
            None => Ok(()),
        };
        reservation.is_new = repo::reserve_adjustment(&self.pool, &reservation, fits).await??;
        Ok(reservation)
    }

    /// Gives back what a refused correction had reserved.
    pub async fn give_back_adjustment(&self, reservation: Reservation) -> Result<(), AccessError> {
        if reservation.is_new {
            repo::delete_adjustment(&self.pool, &reservation).await?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn support_is_refused_above_1000_and_finance_needs_a_second_person_above_10000() {
        let check = |role, amount: &str| Limits::of(role).check(Credits::parse(amount).unwrap());
        assert!(check(Role::Support, "1000").is_ok());
        assert!(matches!(check(Role::Support, "1000.000001"), Err(AdjustError::AboveLimit { .. })));
        assert!(check(Role::Finance, "10000").is_ok());
        assert!(matches!(check(Role::Finance, "10000.000001"), Err(AdjustError::NeedsSecondPerson { .. })));
        assert!(matches!(check(Role::Customer, "0.000001"), Err(AdjustError::AboveLimit { .. })));
        assert_eq!(Limits::of(Role::Support).daily_sum, Some(Credits::whole(5_000)));
    }
}
