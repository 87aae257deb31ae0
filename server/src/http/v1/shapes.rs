//! The shapes of answers, as `api.md` names them. Fields may be added; none is renamed or left out.

use std::borrow::Cow;

use chrono::{DateTime, Utc};
use ledger::Credits;
use ledger::command::CallFields;
use ledger::entry::{Entry, EntrySet, LedgerAccount, Line, Returned};
use ledger::grant::GrantView;
use ledger::hold::HoldView;
use ledger::ids::{AccountId, GrantId, HoldId, Seq};
use ledger::service::{AccountView, BalanceView};
use serde::{Serialize, Serializer};
use serde_json::{Map, Value};
use utoipa::ToSchema;

use super::placed::Placed;
use super::schema::{
    AccountState, ActorKindName, Breaker, CreditsText, DirectionName, EntryKind, GrantState, HexText,
    HoldState, LedgerAccountName, MetadataObject, PoolName,
};
use crate::http::problem::breaker_word;

/// What an account can spend, has set aside and owes.
#[derive(Serialize, ToSchema)]
pub struct Balance {
    #[schema(value_type = CreditsText)]
    pub available: Credits,
    #[schema(value_type = CreditsText)]
    pub held: Credits,
    /// available + held.
    #[schema(value_type = CreditsText)]
    pub balance: Credits,
    #[schema(value_type = CreditsText)]
    pub debt: Credits,
    /// `open` while available is below zero: new charges and holds are refused.
    #[schema(value_type = Breaker)]
    pub breaker: &'static str,
    pub as_of: DateTime<Utc>,
    /// Grants that end next, soonest first. Only on `GET …/balance`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub next_expiries: Option<Vec<NextExpiry>>,
}

#[derive(Serialize, ToSchema)]
pub struct NextExpiry {
    #[schema(value_type = uuid::Uuid)]
    pub grant: GrantId,
    #[schema(value_type = CreditsText)]
    pub remaining: Credits,
    pub expires_at: DateTime<Utc>,
}

impl Balance {
    pub fn of(view: &BalanceView) -> Balance {
        Balance {
            available: view.available,
            held: view.held,
            balance: view.balance,
            debt: view.debt,
            breaker: breaker_word(view.breaker_open),
            as_of: view.as_of,
            next_expiries: None,
        }
    }

    pub fn with_expiries(view: &BalanceView) -> Balance {
        let next = view.next_expiries.iter();
        let next = next.map(|next| NextExpiry {
            grant: next.grant,
            remaining: next.remaining,
            expires_at: next.expires_at,
        });
        Balance { next_expiries: Some(next.collect()), ..Balance::of(view) }
    }

    /// As the entry set left it.
    pub fn after(entry: &Entry) -> Balance {
        let (available, held) = (entry.available_after, entry.held_after);
        Balance {
            available,
            held,
            // Both are far within the range, so their sum is.
            balance: available.plus(held).unwrap_or(available),
            debt: entry.debt_after,
            breaker: breaker_word(available.is_negative()),
            as_of: entry.recorded_at,
            next_expiries: None,
        }
    }
}

#[derive(Serialize, ToSchema)]
pub struct Account<'a> {
    #[schema(value_type = uuid::Uuid)]
    pub id: AccountId,
    pub external_ref: Option<&'a str>,
    pub name: Option<&'a str>,
    pub email: Option<&'a str>,
    #[schema(value_type = AccountState)]
    pub state: &'static str,
    pub policy: &'a str,
    pub time_zone: &'a str,
    #[schema(value_type = MetadataObject)]
    pub metadata: Cow<'a, Map<String, Value>>,
    pub created_at: DateTime<Utc>,
    pub balance: Balance,
}

impl<'a> Account<'a> {
    pub fn of(view: &'a AccountView) -> Account<'a> {
        Account {
            id: view.id,
            external_ref: view.external_ref.as_deref(),
            name: view.name.as_deref(),
            email: view.email.as_deref(),
            state: view.status.as_str(),
            policy: &view.policy,
            time_zone: &view.time_zone,
            metadata: Cow::Borrowed(&view.metadata),
            created_at: view.created_at,
            balance: Balance::of(&view.balance),
        }
    }
}

#[derive(Serialize, ToSchema)]
pub struct Grant<'a> {
    #[schema(value_type = uuid::Uuid)]
    pub id: GrantId,
    #[schema(value_type = PoolName)]
    pub pool: &'static str,
    #[schema(value_type = CreditsText)]
    pub amount: Credits,
    /// Spendable.
    #[schema(value_type = CreditsText)]
    pub remaining: Credits,
    /// Set aside by open holds.
    #[schema(value_type = CreditsText)]
    pub reserved: Credits,
    /// Null never ends.
    pub expires_at: Option<DateTime<Utc>>,
    #[schema(value_type = GrantState)]
    pub state: &'static str,
    pub source: Option<&'a str>,
    /// The entry that made it.
    #[schema(value_type = i64)]
    pub seq: Seq,
}

impl<'a> Grant<'a> {
    pub fn of(view: &'a GrantView) -> Grant<'a> {
        Grant {
            id: view.id,
            pool: view.pool.as_str(),
            amount: view.amount,
            remaining: view.remaining,
            reserved: view.reserved,
            expires_at: view.expires_at,
            state: if view.live { "live" } else { "ended" },
            source: view.source.as_deref(),
            seq: view.seq,
        }
    }
}

#[derive(Serialize, ToSchema)]
pub struct Hold<'a> {
    #[schema(value_type = uuid::Uuid)]
    pub id: HoldId,
    #[schema(value_type = CreditsText)]
    pub amount: Credits,
    #[schema(value_type = HoldState)]
    pub status: &'static str,
    pub expires_at: DateTime<Utc>,
    #[schema(value_type = CreditsText)]
    pub settled: Credits,
    #[schema(value_type = CreditsText)]
    pub released: Credits,
    #[schema(value_type = CreditsText)]
    pub reversed: Credits,
    /// Reversed while nobody knows whether the work was done.
    pub needs_review: bool,
    /// The entry that placed it.
    #[schema(value_type = i64)]
    pub seq: Seq,
    pub member: Option<&'a str>,
    pub job_id: Option<&'a str>,
    pub request_ref: Option<&'a str>,
    pub model: Option<&'a str>,
    pub key_ref: Option<&'a str>,
    /// When the caller says it was placed.
    pub occurred_at: DateTime<Utc>,
    #[schema(value_type = Option<MetadataObject>)]
    pub metadata: Option<&'a Map<String, Value>>,
}

impl<'a> Hold<'a> {
    pub fn of(view: &'a HoldView, placed: &'a Placed) -> Hold<'a> {
        let CallFields { member, job_id, request_ref, model, key_ref } = &view.call;
        Hold {
            id: view.id,
            amount: view.amount,
            status: view.status.as_str(),
            expires_at: view.expires_at,
            settled: view.settled,
            released: view.released,
            reversed: view.reversed,
            needs_review: view.needs_review,
            seq: view.seq,
            member: member.as_deref(),
            job_id: job_id.as_deref(),
            request_ref: request_ref.as_deref(),
            model: model.as_deref(),
            key_ref: key_ref.as_deref(),
            occurred_at: placed.occurred_at,
            metadata: placed.metadata.as_ref(),
        }
    }
}

/// Who caused an entry.
#[derive(Serialize, ToSchema)]
pub struct ActorShape<'a> {
    #[schema(value_type = ActorKindName)]
    pub kind: ledger::command::ActorKind,
    pub id: &'a str,
    /// The role a staff member acted in.
    pub role: Option<&'a str>,
}

#[derive(Serialize, ToSchema)]
#[schema(as = Entry)]
pub struct EntryShape<'a> {
    #[schema(value_type = i64)]
    pub seq: Seq,
    #[schema(value_type = EntryKind)]
    pub kind: &'static str,
    /// What a NOTE records; null on every other kind.
    pub note: Option<&'static str>,
    /// Of a capped settle: the part above the hold that was not collected.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<CreditsText>)]
    pub uncollected: Option<Credits>,
    /// Signed change of balance.
    #[schema(value_type = CreditsText)]
    pub amount: Credits,
    /// What went between available and held: above 0 into held.
    #[schema(value_type = CreditsText)]
    pub moved: Credits,
    #[schema(value_type = CreditsText)]
    pub available_after: Credits,
    #[schema(value_type = CreditsText)]
    pub held_after: Credits,
    /// When the caller says it happened.
    pub occurred_at: DateTime<Utc>,
    /// This system's clock.
    pub recorded_at: DateTime<Utc>,
    /// What balances in time go by.
    pub effective_at: DateTime<Utc>,
    pub actor: ActorShape<'a>,
    pub reason: Option<&'a str>,
    pub member: Option<&'a str>,
    pub job_id: Option<&'a str>,
    pub model: Option<&'a str>,
    pub key_ref: Option<&'a str>,
    pub request_ref: Option<&'a str>,
    #[schema(value_type = Option<uuid::Uuid>)]
    pub hold: Option<HoldId>,
    /// The entry that it undoes or gives back.
    #[schema(value_type = Option<i64>)]
    pub reverses: Option<Seq>,
    #[schema(value_type = Option<MetadataObject>)]
    pub metadata: Option<&'a Map<String, Value>>,
    /// SHA-256 over the entry and the hash before it.
    #[schema(value_type = HexText)]
    pub hash: Hex<'a>,
    #[schema(value_type = Vec<LineShape>)]
    pub lines: Lines<'a>,
}

/// One debit or credit.
#[derive(Serialize, ToSchema)]
#[schema(as = Line)]
pub struct LineShape {
    #[schema(value_type = LedgerAccountName)]
    pub ledger_account: &'static str,
    #[schema(value_type = DirectionName)]
    pub direction: &'static str,
    #[schema(value_type = CreditsText)]
    pub amount: Credits,
    /// The grant it draws on, fills, or that pays debt.
    #[schema(value_type = Option<uuid::Uuid>)]
    pub grant: Option<GrantId>,
    /// Of the customer's account after this line; null on house accounts.
    #[schema(value_type = Option<CreditsText>)]
    pub balance_after: Option<Credits>,
}

/// Lines, written one by one without a list in between.
pub struct Lines<'a>(&'a [Line]);

impl Serialize for Lines<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.0.iter().map(|line| LineShape {
            ledger_account: line.ledger_account.as_str(),
            direction: line.direction.as_str(),
            amount: line.amount,
            grant: line.grant,
            balance_after: line.balance_after,
        }))
    }
}

/// Bytes as lower-case hexadecimal digits.
pub struct Hex<'a>(&'a [u8; 32]);

impl Serialize for Hex<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        const DIGITS: &[u8; 16] = b"0123456789abcdef";
        let mut text = [0; 64];
        for (pair, byte) in text.chunks_exact_mut(2).zip(self.0) {
            pair[0] = DIGITS[usize::from(byte >> 4)];
            pair[1] = DIGITS[usize::from(byte & 15)];
        }
        serializer.serialize_str(std::str::from_utf8(&text).unwrap_or_default())
    }
}

impl<'a> EntryShape<'a> {
    pub fn of(entry: &'a Entry) -> EntryShape<'a> {
        let CallFields { member, job_id, request_ref, model, key_ref } = &entry.call;
        EntryShape {
            seq: entry.seq,
            kind: entry.kind.as_str(),
            note: entry.note.map(ledger::entry::NoteKind::as_str),
            uncollected: entry.answer.uncollected,
            amount: entry.amount,
            moved: entry.moved,
            available_after: entry.available_after,
            held_after: entry.held_after,
            occurred_at: entry.occurred_at,
            recorded_at: entry.recorded_at,
            effective_at: entry.effective_at,
            actor: ActorShape {
                kind: entry.actor.kind,
                id: &entry.actor.id,
                role: entry.actor.role.as_deref(),
            },
            reason: entry.words.reason.as_deref(),
            member: member.as_deref(),
            job_id: job_id.as_deref(),
            model: model.as_deref(),
            key_ref: key_ref.as_deref(),
            request_ref: request_ref.as_deref(),
            hold: entry.hold,
            reverses: entry.reverses,
            metadata: entry.words.metadata.as_ref(),
            hash: Hex(&entry.hash),
            lines: Lines(&entry.lines),
        }
    }
}

/// What a charge drew from one grant.
#[derive(Serialize, ToSchema)]
pub struct Drawn {
    #[schema(value_type = uuid::Uuid)]
    pub grant: GrantId,
    #[schema(value_type = CreditsText)]
    pub amount: Credits,
}

impl Drawn {
    /// The debits of available that name a grant.
    pub fn of(entry: &Entry) -> Vec<Drawn> {
        let drawn = entry.debit_lines().filter(|line| line.ledger_account == LedgerAccount::Available);
        drawn.filter_map(|line| Some(Drawn { grant: line.grant?, amount: line.amount })).collect()
    }
}

/// One part of what came back.
#[derive(Serialize, ToSchema)]
#[schema(as = Returned)]
pub struct ReturnedShape {
    /// Null for the part that was debt.
    #[schema(value_type = Option<uuid::Uuid>)]
    pub grant: Option<GrantId>,
    #[schema(value_type = CreditsText)]
    pub amount: Credits,
    /// It came back to a grant that had ended, and ended again at once.
    pub lapsed: bool,
}

impl From<&Returned> for ReturnedShape {
    fn from(part: &Returned) -> ReturnedShape {
        ReturnedShape { grant: part.grant, amount: part.amount, lapsed: part.lapsed }
    }
}

/// The main entry and what follows from it, without the lapses that were due before.
pub fn from_main(set: &EntrySet) -> Vec<EntryShape<'_>> {
    set.entries.iter().skip_while(|entry| !entry.is_main).map(EntryShape::of).collect()
}

/// A page of a list.
#[derive(Serialize, ToSchema)]
pub struct List<T> {
    pub data: Vec<T>,
    /// Null on the last page.
    pub next_cursor: Option<String>,
}
