//! The journal's rows: entries, their lines, and what an entry stores so that its answer can be rebuilt.

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::account::{AccountStatus, KindTotals};
use crate::command::{Actor, CallFields, KeyStamp, ReasonCode};
use crate::credits::Credits;
use crate::grant::{GrantView, Pool};
use crate::hold::HoldView;
use crate::ids::{AccountId, GrantId, HoldId, Seq};

macro_rules! coded {
    ($(#[$doc:meta])* $name:ident { $($variant:ident = $code:literal $text:literal),+ $(,)? }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum $name { $($variant),+ }

        impl $name {
            pub const ALL: &'static [$name] = &[$($name::$variant),+];

            /// The word of the API and the screens.
            pub fn as_str(self) -> &'static str {
                match self { $($name::$variant => $text),+ }
            }

            /// The number in the database.
            pub fn code(self) -> i16 {
                match self { $($name::$variant => $code),+ }
            }

            pub fn from_code(code: i16) -> Option<$name> {
                match code { $($code => Some($name::$variant),)+ _ => None }
            }

            pub fn parse(text: &str) -> Option<$name> {
                match text { $($text => Some($name::$variant),)+ _ => None }
            }
        }
    };
}

coded!(/// What an entry is; each has its own lines (see the table in ARCHITECTURE.md).
    Kind {
    Topup = 1 "TOPUP", Consume = 2 "CONSUME", AuthHold = 3 "AUTH_HOLD", Settle = 4 "SETTLE", AuthRelease = 5 "AUTH_RELEASE",
    AuthReversal = 6 "AUTH_REVERSAL", Refund = 7 "REFUND", Clawback = 8 "CLAWBACK", Restore = 9 "RESTORE", Expire = 10 "EXPIRE",
    Void = 11 "VOID", Adjust = 12 "ADJUST", Note = 13 "NOTE",
});

impl Kind {
    pub const COUNT: usize = 13;

    /// Its place in arrays by kind.
    pub fn index(self) -> usize {
        usize::try_from(self.code() - 1).unwrap_or(0)
    }
}

coded!(/// A ledger account: the first two are the customer's, the others the house's.
    LedgerAccount {
    Available = 1 "available", Held = 2 "held", PrepaidLiability = 3 "prepaid_liability", PromotionExpense = 4 "promotion_expense",
    Revenue = 5 "revenue", RefundExpense = 6 "refund_expense", ExpirationGain = 7 "expiration_gain", Adjustment = 8 "adjustment",
    BadDebt = 9 "bad_debt",
});

impl LedgerAccount {
    pub fn is_customers(self) -> bool {
        matches!(self, LedgerAccount::Available | LedgerAccount::Held)
    }
}

coded!(/// Which side of a ledger account. A credit raises a customer's account, a debit lowers it.
    Direction { Debit = 1 "debit", Credit = 2 "credit" });

coded!(/// Whether a line of `available` moves the account's debt instead of a grant's remainder.
    DebtMark { None = 0 "none", Makes = 1 "makes", Pays = 2 "pays" });

coded!(/// What a NOTE records.
    NoteKind {
    AccountOpened = 1 "account_opened", JobStarted = 2 "job_started", JobCompleted = 3 "job_completed", JobFailed = 4 "job_failed",
    HoldRenewed = 5 "hold_renewed", GrantExtended = 6 "grant_extended", Uncollected = 7 "uncollected",
    StateChanged = 8 "state_changed", PolicyChanged = 9 "policy_changed", Erased = 10 "erased",
    JobRefunded = 11 "job_refunded",
});

/// One debit or credit of an entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    pub ledger_account: LedgerAccount,
    pub direction: Direction,
    /// Always above 0.
    pub amount: Credits,
    /// The grant it draws on, fills, or that pays the debt.
    pub grant: Option<GrantId>,
    pub debt: DebtMark,
    /// Of the customer's account after this line; `None` on house accounts.
    pub balance_after: Option<Credits>,
}

/// One part of what came back by a REFUND or RESTORE.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Returned {
    /// `None` for the part that paid debt or a write-off.
    pub grant: Option<GrantId>,
    pub amount: Credits,
    /// It came back to a grant that had ended, and ended again at once.
    pub lapsed: bool,
}

/// What the main entry stores so that its answer never needs live state. Part of the hash chain.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Answer {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub grant: Option<GrantView>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hold: Option<HoldView>,
    /// Of a settle: what was collected in all, given back out of the hold, and drawn above it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub settled: Option<Credits>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub released: Option<Credits>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub overrun: Option<Credits>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub late: bool,
    /// Of a refund: what may still be given back of the original, after it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refundable: Option<Credits>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub returned: Vec<Returned>,
    /// Of a refund or restore: how much each part of the reversed entry got back, in the order of its
    /// debit lines, with 0 for none. Later refunds add up from these.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub spread: Vec<Credits>,
    /// Of an uncollected part of a capped settle: its amount.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uncollected: Option<Credits>,
    /// Of an adjustment.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason_code: Option<ReasonCode>,
    /// Of an opened account or a changed state or policy: the values from here on.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub status: Option<AccountStatus>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub policy: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub time_zone: Option<String>,
    /// The reconciler's refund of its job, were it the NOTE that nothing was left to give back; (account, job, refund) is
    /// unique.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub job_refund: bool,
    /// Of a clawback or restore: the payment's id at its provider, as the caller named it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub payment_ref: Option<String>,
    /// The pool of a TOPUP, for the chosen house account and the roll-forward.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pool: Option<Pool>,
}

impl Answer {
    pub fn is_empty(&self) -> bool {
        *self == Answer::default()
    }
}

/// Free text of an entry. It lies beside the journal and can be erased; the entry carries its digest.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Words {
    pub reason: Option<String>,
    pub metadata: Option<Map<String, Value>>,
}

impl Words {
    pub fn is_empty(&self) -> bool {
        self.reason.is_none() && self.metadata.as_ref().is_none_or(Map::is_empty)
    }
}

/// A change of what a member or `key_ref` has used, booked in the window of the charge or hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Use {
    pub at: DateTime<Utc>,
    pub amount: Credits,
}

/// One event in an account's journal, as decided or as read back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    pub account: AccountId,
    pub seq: Seq,
    pub kind: Kind,
    /// Only on a NOTE.
    pub note: Option<NoteKind>,
    /// First entry of its set, and whether it is the main one, which carries the key.
    pub set_seq: Seq,
    pub is_main: bool,
    /// Signed change of balance (available + held).
    pub amount: Credits,
    /// What went between available and held: + into held, − out of it to available; 0 otherwise.
    pub moved: Credits,
    pub lines: Vec<Line>,
    pub available_after: Credits,
    pub held_after: Credits,
    pub debt_after: Credits,
    /// Running totals of this kind after it.
    pub amount_total: Credits,
    pub moved_total: Credits,
    /// When the caller says it happened; our clock if it says nothing.
    pub occurred_at: DateTime<Utc>,
    pub recorded_at: DateTime<Utc>,
    pub effective_at: DateTime<Utc>,
    pub actor: Actor,
    pub key: Option<KeyStamp>,
    pub call: CallFields,
    pub hold: Option<HoldId>,
    /// The entry it undoes or refunds.
    pub reverses: Option<Seq>,
    pub usage: Option<Use>,
    pub answer: Answer,
    pub words: Words,
    /// Salted digest of `words`, covered by the chain; stays when the words are erased.
    pub words_digest: Option<[u8; 32]>,
    /// Set by the chain after deciding.
    pub hash: [u8; 32],
}

impl Entry {
    pub fn debit_lines(&self) -> impl Iterator<Item = &Line> {
        self.lines.iter().filter(|line| line.direction == Direction::Debit)
    }

    pub fn credit_lines(&self) -> impl Iterator<Item = &Line> {
        self.lines.iter().filter(|line| line.direction == Direction::Credit)
    }

    /// Puts this entry's running totals in.
    pub fn stamp_totals(&mut self, totals: &KindTotals) {
        self.amount_total = totals.amount[self.kind.index()];
        self.moved_total = totals.moved[self.kind.index()];
    }
}

/// The consecutive entries of one command: lapses that were due, the main entry, what follows from it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EntrySet {
    pub entries: Vec<Entry>,
}

impl EntrySet {
    /// The entry that holds the key and the answer. A set of lapses alone has none.
    pub fn main(&self) -> Option<&Entry> {
        self.entries.iter().find(|entry| entry.is_main)
    }

    pub fn last(&self) -> Option<&Entry> {
        self.entries.last()
    }
}
