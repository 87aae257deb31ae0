//! A hold: credits set aside under a time limit, ended exactly once.

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};

use crate::command::CallFields;
use crate::credits::Credits;
use crate::ids::{GrantId, HoldId, Seq};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HoldStatus {
    Open,
    Settled,
    Released,
    Reversed,
    Expired,
}

impl HoldStatus {
    pub const ALL: [HoldStatus; 5] = [
        HoldStatus::Open,
        HoldStatus::Settled,
        HoldStatus::Released,
        HoldStatus::Reversed,
        HoldStatus::Expired,
    ];

    pub fn as_str(self) -> &'static str {
        match self {
            HoldStatus::Open => "open",
            HoldStatus::Settled => "settled",
            HoldStatus::Released => "released",
            HoldStatus::Reversed => "reversed",
            HoldStatus::Expired => "expired",
        }
    }

    pub fn parse(text: &str) -> Option<HoldStatus> {
        HoldStatus::ALL.into_iter().find(|status| status.as_str() == text)
    }
}

/// What a hold reserved of one grant, in the order reserved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HoldPart {
    pub grant: GrantId,
    pub amount: Credits,
}

/// A hold as its account's last entry left it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hold {
    pub id: HoldId,
    /// Its AUTH_HOLD entry.
    pub seq: Seq,
    pub amount: Credits,
    pub status: HoldStatus,
    /// Sums to `amount`; fixed when placed.
    pub parts: Vec<HoldPart>,
    pub placed_at: DateTime<Utc>,
    /// The longest time from a renewal to the new end.
    pub lifetime_s: u32,
    /// Of the placing or the last renewal.
    pub renewed_at: DateTime<Utc>,
    /// Exclusive: open while `now < expires_at`.
    pub expires_at: DateTime<Utc>,
    /// Out of the hold; together they are `amount` once it has ended.
    pub settled: Credits,
    pub released: Credits,
    pub reversed: Credits,
    /// Reversed with its outcome unknown.
    pub needs_review: bool,
    /// The entry that ended it.
    pub ended_by: Option<Seq>,
    /// Its one late settle.
    pub late_settle: Option<Seq>,
    pub call: CallFields,
}

impl Hold {
    /// Stored as open, and not yet due.
    pub fn is_open(&self, now: DateTime<Utc>) -> bool {
        self.status == HoldStatus::Open && now < self.expires_at
    }
}

/// A hold as an answer shows it, stored with the entry so that a replay needs no live state.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HoldView {
    pub id: HoldId,
    pub amount: Credits,
    pub status: HoldStatus,
    pub expires_at: DateTime<Utc>,
    pub settled: Credits,
    pub released: Credits,
    pub reversed: Credits,
    pub needs_review: bool,
    pub seq: Seq,
    pub call: CallFields,
}

impl HoldView {
    pub fn of(hold: &Hold) -> HoldView {
        HoldView {
            id: hold.id,
            amount: hold.amount,
            status: hold.status,
            expires_at: hold.expires_at,
            settled: hold.settled,
            released: hold.released,
            reversed: hold.reversed,
            needs_review: hold.needs_review,
            seq: hold.seq,
            call: hold.call.clone(),
        }
    }
}
