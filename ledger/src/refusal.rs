//! Why a command was not accepted. A refusal writes nothing and is not remembered.

use chrono::{DateTime, Utc};

use crate::credits::{Credits, Overflow};
use crate::hold::HoldStatus;
use crate::ids::{AccountId, Seq};
use crate::quota::{Subject, Window};

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// `held_elsewhere` is what other open holds of the account have set aside.
    #[error("{short_by} credits short")]
    InsufficientCredits { short_by: Credits, available: Credits, held_elsewhere: Credits, breaker_open: bool },
    #[error("the quota is used up")]
    QuotaExceeded {
        subject: Subject,
        window: Window,
        limit: Credits,
        used: Credits,
        resets_at: Option<DateTime<Utc>>,
    },
    #[error("the account is blocked")]
    AccountBlocked,
    /// `debt` where there is some.
    #[error("the account is read-only")]
    AccountReadOnly { debt: Option<Credits> },
    #[error("the account is closed")]
    AccountClosed,
    #[error("there is no such {what}")]
    NotFound { what: Missing },
    /// The hold has ended; `entry` ended it.
    #[error("the hold has ended as {}", final_state.as_str())]
    HoldEnded { final_state: HoldStatus, entry: Option<Seq> },
    #[error("more than can be given back")]
    RefundExceedsCharge { refundable: Credits },
    #[error("this entry cannot be refunded")]
    NotRefundable,
    #[error("more than this grant has left to claw back")]
    ClawbackExceedsGrant { clawable: Credits },
    #[error("more than was clawed back")]
    RestoreExceedsClawbacks { restorable: Credits },
    #[error("the grant has ended")]
    GrantEnded,
    #[error("the job was refunded")]
    JobRefunded,
    #[error("there is an account with this reference")]
    AlreadyExists { account: AccountId },
    #[error("the idempotency key was used for something else")]
    KeyReused,
    #[error("{limit} would be exceeded")]
    LimitExceeded { limit: Limit },
    /// A value that its type allows and the rules do not.
    #[error("{field}: {reason}")]
    Invalid { field: &'static str, reason: &'static str },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Missing {
    Account,
    Grant,
    Hold,
    Entry,
    Job,
}

impl std::fmt::Display for Missing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Missing::Account => "account",
            Missing::Grant => "grant",
            Missing::Hold => "hold",
            Missing::Entry => "entry",
            Missing::Job => "job",
        })
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    Amount,
    Balance,
    LiveGrants,
    OpenHolds,
}

impl std::fmt::Display for Limit {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Limit::Amount => "the largest amount of one command, 10^12 credits,",
            Limit::Balance => "the largest balance, 10^13 credits,",
            Limit::LiveGrants => "10,000 live grants in one account",
            Limit::OpenHolds => "1,000 open holds in one account",
        })
    }
}

impl From<Overflow> for Refusal {
    fn from(Overflow: Overflow) -> Refusal {
        Refusal::LimitExceeded { limit: Limit::Balance }
    }
}
