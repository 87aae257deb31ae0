//! An account: its state and the head of its journal.

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};

use crate::credits::Credits;
use crate::entry::Kind;
use crate::ids::Seq;

/// What an account may do. What ends, corrects or gives back goes on in every state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum AccountStatus {
    #[default]
    Open,
    ReadOnly,
    Blocked,
    Closed,
}

impl AccountStatus {
    pub const ALL: [AccountStatus; 4] =
        [AccountStatus::Open, AccountStatus::ReadOnly, AccountStatus::Blocked, AccountStatus::Closed];

    pub fn as_str(self) -> &'static str {
        match self {
            AccountStatus::Open => "open",
            AccountStatus::ReadOnly => "read_only",
            AccountStatus::Blocked => "blocked",
            AccountStatus::Closed => "closed",
        }
    }

    pub fn parse(text: &str) -> Option<AccountStatus> {
        AccountStatus::ALL.into_iter().find(|status| status.as_str() == text)
    }
}

/// The head of an account's journal: what its last entry left behind.
///
/// `available` is what grants have left minus `debt`; it still holds what fell due since the last entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Head {
    /// 0 before the account's first entry.
    pub seq: Seq,
    pub hash: [u8; 32],
    pub available: Credits,
    pub held: Credits,
    pub debt: Credits,
    /// Debt written off (ADJUST against `bad_debt`) and not given back since; rule 9 returns to it.
    pub written_off: Credits,
    /// Of the last entry; neither ever falls.
    pub recorded_at: DateTime<Utc>,
    pub effective_at: DateTime<Utc>,
    pub totals: KindTotals,
}

impl Head {
    /// The head of an account that has no entry yet.
    pub fn empty() -> Head {
        Head {
            seq: Seq(0),
            hash: [0; 32],
            available: Credits::ZERO,
            held: Credits::ZERO,
            debt: Credits::ZERO,
            written_off: Credits::ZERO,
            recorded_at: DateTime::UNIX_EPOCH,
            effective_at: DateTime::UNIX_EPOCH,
            totals: KindTotals::default(),
        }
    }
}

/// Running totals of `amount` and `moved` by kind, so that a list's totals need two rows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct KindTotals {
    pub amount: [Credits; Kind::COUNT],
    pub moved: [Credits; Kind::COUNT],
}
