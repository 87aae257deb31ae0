//! A grant: credits that were put in, with their pool, their end and where they came from.

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};

use crate::credits::Credits;
use crate::ids::{GrantId, Seq};

/// Which kind of credits. The order is the spend order: trial before promo, promo before paid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Pool {
    Trial,
    Promo,
    Paid,
}

impl Pool {
    pub const ALL: [Pool; 3] = [Pool::Trial, Pool::Promo, Pool::Paid];

    pub fn as_str(self) -> &'static str {
        match self {
            Pool::Trial => "trial",
            Pool::Promo => "promo",
            Pool::Paid => "paid",
        }
    }

    pub fn parse(text: &str) -> Option<Pool> {
        Pool::ALL.into_iter().find(|pool| pool.as_str() == text)
    }

    pub fn code(self) -> i16 {
        match self {
            Pool::Trial => 1,
            Pool::Promo => 2,
            Pool::Paid => 3,
        }
    }

    pub fn from_code(code: i16) -> Option<Pool> {
        Pool::ALL.into_iter().find(|pool| pool.code() == code)
    }
}

/// A grant as its account's last entry left it. All amounts are ≥ 0.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grant {
    pub id: GrantId,
    /// The entry that made it; older means smaller.
    pub seq: Seq,
    pub pool: Pool,
    pub amount: Credits,
    /// Spendable while the grant lives.
    pub remaining: Credits,
    /// Set aside by open holds.
    pub reserved: Credits,
    /// Exclusive: spendable while `now < expires_at`. `None` never ends.
    pub expires_at: Option<DateTime<Utc>>,
    /// Its end moves with later paid top-ups (rule 10).
    pub rolling: bool,
    /// Set once, by a void or the erasure of its account.
    pub voided_at: Option<DateTime<Utc>>,
    pub source: Option<String>,
    pub granted_at: DateTime<Utc>,
    /// What ended in it unspent: EXPIRE and VOID.
    pub lapsed: Credits,
    /// Of `lapsed`, what clawbacks took out of `expiration_gain`, less what restores put back there.
    pub lapse_taken: Credits,
    /// Everything clawbacks of this grant's payment took, wherever it was found.
    pub clawed_back: Credits,
    /// What restores gave back of `clawed_back`; never above it.
    pub restored: Credits,
    /// What of it paid debt, and what came back of that.
    pub paid_to_debt: Credits,
    pub given_back_for_debt: Credits,
}

impl Grant {
    pub fn is_live(&self, now: DateTime<Utc>) -> bool {
        self.voided_at.is_none() && self.expires_at.is_none_or(|end| now < end)
    }

    /// Rule 3, without the pool's liveness: pool, soonest end (never last), older first, id.
    pub fn spend_order(&self) -> (Pool, bool, Option<DateTime<Utc>>, Seq, GrantId) {
        (self.pool, self.expires_at.is_none(), self.expires_at, self.seq, self.id)
    }
}

/// A grant as an answer shows it, stored with the entry so that a replay needs no live state.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct GrantView {
    pub id: GrantId,
    pub pool: Pool,
    pub amount: Credits,
    pub remaining: Credits,
    pub reserved: Credits,
    pub expires_at: Option<DateTime<Utc>>,
    pub live: bool,
    pub source: Option<String>,
    pub seq: Seq,
}

impl GrantView {
    pub fn of(grant: &Grant, now: DateTime<Utc>) -> GrantView {
        GrantView {
            id: grant.id,
            pool: grant.pool,
            amount: grant.amount,
            remaining: grant.remaining,
            reserved: grant.reserved,
            expires_at: grant.expires_at,
            live: grant.is_live(now),
            source: grant.source.clone(),
            seq: grant.seq,
        }
    }
}
