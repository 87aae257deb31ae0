//! Rows into nouns. What the database holds and this code cannot read is named with its table and row.

use chrono::{DateTime, Utc};
use rust_decimal::Decimal;
use serde_json::Value;
use uuid::Uuid;

use super::StoreError;
use crate::account::{AccountStatus, KindTotals};
use crate::command::{Actor, ActorKind, CallFields, KeyStamp, Origin};
use crate::credits::Credits;
use crate::entry::{DebtMark, Direction, Entry, Kind, LedgerAccount, Line, NoteKind, Use, Words};
use crate::grant::{Grant, Pool};
use crate::hold::{Hold, HoldPart, HoldStatus};
use crate::ids::{AccountId, GrantId, HoldId, Seq};
use crate::quota::{Subject, Window};

pub(crate) fn inconsistent(table: &'static str, account: Uuid, what: String) -> StoreError {
    StoreError::Inconsistent { table, account, what }
}

pub(crate) fn credits(table: &'static str, account: Uuid, value: Decimal) -> Result<Credits, StoreError> {
    Credits::exact(value).map_err(|error| inconsistent(table, account, format!("{value} {error}")))
}

pub(crate) fn status(code: i16) -> Option<AccountStatus> {
    AccountStatus::ALL.into_iter().find(|status| status_code(*status) == code)
}

pub(crate) fn status_code(status: AccountStatus) -> i16 {
    match status {
        AccountStatus::Open => 1,
        AccountStatus::ReadOnly => 2,
        AccountStatus::Blocked => 3,
        AccountStatus::Closed => 4,
    }
}

pub(crate) fn hold_status(code: i16) -> Option<HoldStatus> {
    HoldStatus::ALL.into_iter().find(|status| hold_status_code(*status) == code)
}

pub(crate) fn hold_status_code(status: HoldStatus) -> i16 {
    match status {
        HoldStatus::Open => 1,
        HoldStatus::Settled => 2,
        HoldStatus::Released => 3,
        HoldStatus::Reversed => 4,
        HoldStatus::Expired => 5,
    }
}

pub(crate) fn subject_parts(subject: &Subject) -> (i16, &str) {
    match subject {
        Subject::Member(name) => (1, name),
        Subject::KeyRef(name) => (2, name),
    }
}

pub(crate) fn subject(kind: i16, name: String) -> Option<Subject> {
    match kind {
        1 => Some(Subject::Member(name)),
        2 => Some(Subject::KeyRef(name)),
        _ => None,
    }
}

pub(crate) fn window_code(window: Window) -> i16 {
    match window {
        Window::Day => 1,
        Window::Month => 2,
        Window::Total => 3,
    }
}

pub(crate) fn window(code: i16) -> Option<Window> {
    [Window::Day, Window::Month, Window::Total].into_iter().find(|window| window_code(*window) == code)
}

pub(crate) fn totals(account: Uuid, amount: &[Decimal], moved: &[Decimal]) -> Result<KindTotals, StoreError> {
    let mut totals = KindTotals::default();
    if amount.len() != Kind::COUNT || moved.len() != Kind::COUNT {
        return Err(inconsistent("accounts", account, "running totals".to_owned()));
    }
    for (index, (amount, moved)) in amount.iter().zip(moved).enumerate() {
        totals.amount[index] = credits("accounts", account, *amount)?;
        totals.moved[index] = credits("accounts", account, *moved)?;
    }
    Ok(totals)
}

/// The columns of `grants`, in the order of the table.
pub(crate) struct GrantRow {
    pub account_id: Uuid,
    pub id: Uuid,
    pub seq: i64,
    pub pool: i16,
    pub amount: Decimal,
    pub remaining: Decimal,
    pub reserved: Decimal,
    pub expires_at: Option<DateTime<Utc>>,
    pub rolling: bool,
    pub voided_at: Option<DateTime<Utc>>,
    pub source: Option<String>,
    pub granted_at: DateTime<Utc>,
    pub lapsed: Decimal,
    pub lapse_taken: Decimal,
    pub clawed_back: Decimal,
    pub restored: Decimal,
    pub paid_to_debt: Decimal,
    pub given_back_for_debt: Decimal,
}

impl GrantRow {
    pub(crate) fn grant(self) -> Result<Grant, StoreError> {
        let amount = |value| credits("grants", self.account_id, value);
        Ok(Grant {
            id: GrantId(self.id),
            seq: Seq(self.seq),
            pool: Pool::from_code(self.pool)
                .ok_or_else(|| inconsistent("grants", self.account_id, format!("pool of {}", self.id)))?,
            amount: amount(self.amount)?,
            remaining: amount(self.remaining)?,
            reserved: amount(self.reserved)?,
            expires_at: self.expires_at,
            rolling: self.rolling,
            voided_at: self.voided_at,
            granted_at: self.granted_at,
            lapsed: amount(self.lapsed)?,
            lapse_taken: amount(self.lapse_taken)?,
            clawed_back: amount(self.clawed_back)?,
            restored: amount(self.restored)?,
            paid_to_debt: amount(self.paid_to_debt)?,
            given_back_for_debt: amount(self.given_back_for_debt)?,
            source: self.source,
        })
    }
}

/// The columns of `holds`, in the order of the table.
pub(crate) struct HoldRow {
    pub account_id: Uuid,
    pub id: Uuid,
    pub seq: i64,
    pub amount: Decimal,
    pub status: i16,
    pub part_grants: Vec<Uuid>,
    pub part_amounts: Vec<Decimal>,
    pub placed_at: DateTime<Utc>,
    pub lifetime_s: i32,
    pub renewed_at: DateTime<Utc>,
    pub expires_at: DateTime<Utc>,
    pub settled: Decimal,
    pub released: Decimal,
    pub reversed: Decimal,
    pub needs_review: bool,
    pub ended_by: Option<i64>,
    pub late_settle: Option<i64>,
    pub member: Option<String>,
    pub job_id: Option<String>,
    pub request_ref: Option<String>,
    pub model: Option<String>,
    pub key_ref: Option<String>,
}

impl HoldRow {
    pub(crate) fn hold(self) -> Result<Hold, StoreError> {
        let account = self.account_id;
        let amount = |value| credits("holds", account, value);
        let bad = |what: &str| inconsistent("holds", account, format!("{what} of {}", self.id));
        let parts = self.part_grants.iter().zip(&self.part_amounts);
        Ok(Hold {
            id: HoldId(self.id),
            seq: Seq(self.seq),
            amount: amount(self.amount)?,
            status: hold_status(self.status).ok_or_else(|| bad("status"))?,
            parts: parts
                .map(|(grant, part)| Ok(HoldPart { grant: GrantId(*grant), amount: amount(*part)? }))
                .collect::<Result<_, StoreError>>()?,
            placed_at: self.placed_at,
            lifetime_s: u32::try_from(self.lifetime_s).map_err(|_| bad("lifetime"))?,
            renewed_at: self.renewed_at,
            expires_at: self.expires_at,
            settled: amount(self.settled)?,
            released: amount(self.released)?,
            reversed: amount(self.reversed)?,
            needs_review: self.needs_review,
            ended_by: self.ended_by.map(Seq),
            late_settle: self.late_settle.map(Seq),
            call: CallFields {
                member: self.member,
                job_id: self.job_id,
                request_ref: self.request_ref,
                model: self.model,
                key_ref: self.key_ref,
            },
        })
    }
}

/// The columns of `entries` that an [`Entry`] is made of, with its words beside them.
pub(crate) struct EntryRow {
    pub account_id: Uuid,
    pub seq: i64,
    pub kind: i16,
    pub note: Option<i16>,
    pub set_seq: i64,
    pub is_main: bool,
    pub line_count: i16,
    pub amount: Decimal,
    pub moved: Decimal,
    pub available_after: Decimal,
    pub held_after: Decimal,
    pub debt_after: Decimal,
    pub amount_total: Decimal,
    pub moved_total: Decimal,
    pub occurred_at: DateTime<Utc>,
    pub recorded_at: DateTime<Utc>,
    pub effective_at: DateTime<Utc>,
    pub actor_kind: i16,
    pub actor_id: String,
    pub actor_role: Option<String>,
    pub origin: Option<i16>,
    pub key: Option<Vec<u8>>,
    pub content: Option<Vec<u8>>,
    pub member: Option<String>,
    pub job_id: Option<String>,
    pub request_ref: Option<String>,
    pub model: Option<String>,
    pub key_ref: Option<String>,
    pub hold_id: Option<Uuid>,
    pub reverses: Option<i64>,
    pub use_at: Option<DateTime<Utc>>,
    pub use_amount: Option<Decimal>,
    pub answer: Option<Value>,
    pub words_digest: Option<Vec<u8>>,
    pub hash: Vec<u8>,
    pub reason: Option<String>,
    pub metadata: Option<Value>,
}

/// `select` of the columns of [`EntryRow`] with a tail that names `e` and `w`.
macro_rules! entry_rows {
    ($tail:literal $(, $argument:expr)* $(,)?) => {
        sqlx::query_as!(
            $crate::store::rows::EntryRow,
            r#"select e.account_id, e.seq, e.kind, e.note, e.set_seq, e.is_main, e.line_count, e.amount, e.moved, e.available_after,
                e.held_after, e.debt_after, e.amount_total, e.moved_total, e.occurred_at, e.recorded_at, e.effective_at, e.actor_kind,
                e.actor_id, e.actor_role, e.origin, e.key, e.content, e.member, e.job_id, e.request_ref, e.model, e.key_ref, e.hold_id,
                e.reverses, e.use_at, e.use_amount, e.answer, e.words_digest, e.hash, w.reason as "reason?", w.metadata as "metadata?: serde_json::Value" "# + $tail
            $(, $argument)*
        )
    };
}
pub(crate) use entry_rows;

impl EntryRow {
    /// The entry without its lines.
    pub(crate) fn entry(self) -> Result<Entry, StoreError> {
        let account = self.account_id;
        let seq = self.seq;
        let amount = |value| credits("entries", account, value);
        let bad = |what: &str| inconsistent("entries", account, format!("{what} of entry {seq}"));
        let key = match (self.origin, self.key, self.content) {
            (Some(origin), Some(key), Some(content)) => Some(KeyStamp {
                origin: Origin::from_code(origin).ok_or_else(|| bad("origin"))?,
                key: key.try_into().map_err(|_| bad("key"))?,
                content: content.try_into().map_err(|_| bad("content"))?,
            }),
            _ => None,
        };
        let usage = match (self.use_at, self.use_amount) {
            (Some(at), Some(value)) => Some(Use { at, amount: amount(value)? }),
            _ => None,
        };
        let metadata = match self.metadata {
            None => None,
            Some(Value::Object(object)) => Some(object),
            Some(_) => return Err(bad("metadata")),
        };
        Ok(Entry {
            account: AccountId(account),
            seq: Seq(seq),
            kind: Kind::from_code(self.kind).ok_or_else(|| bad("kind"))?,
            note: self.note.map(|code| NoteKind::from_code(code).ok_or_else(|| bad("note"))).transpose()?,
            set_seq: Seq(self.set_seq),
            is_main: self.is_main,
            amount: amount(self.amount)?,
            moved: amount(self.moved)?,
            lines: Vec::with_capacity(usize::try_from(self.line_count).unwrap_or(0)),
            available_after: amount(self.available_after)?,
            held_after: amount(self.held_after)?,
            debt_after: amount(self.debt_after)?,
            amount_total: amount(self.amount_total)?,
            moved_total: amount(self.moved_total)?,
            occurred_at: self.occurred_at,
            recorded_at: self.recorded_at,
            effective_at: self.effective_at,
            actor: Actor {
                kind: ActorKind::from_code(self.actor_kind).ok_or_else(|| bad("actor"))?,
                id: self.actor_id,
                role: self.actor_role,
            },
            key,
            call: CallFields {
                member: self.member,
                job_id: self.job_id,
                request_ref: self.request_ref,
                model: self.model,
                key_ref: self.key_ref,
            },
            hold: self.hold_id.map(HoldId),
            reverses: self.reverses.map(Seq),
            usage,
            answer: self
                .answer
                .map(serde_json::from_value)
                .transpose()
                .map_err(|error| bad(&format!("answer ({error})")))?
                .unwrap_or_default(),
            words: Words { reason: self.reason, metadata },
            words_digest: self
                .words_digest
                .map(|digest| digest.try_into().map_err(|_| bad("words digest")))
                .transpose()?,
            hash: self.hash.try_into().map_err(|_| bad("hash"))?,
        })
    }
}

/// The columns of `lines`.
pub(crate) struct LineRow {
    pub account_id: Uuid,
    pub seq: i64,
    pub ledger_account: i16,
    pub direction: i16,
    pub amount: Decimal,
    pub grant_id: Option<Uuid>,
    pub debt_mark: i16,
    pub balance_after: Option<Decimal>,
}

impl LineRow {
    pub(crate) fn line(self) -> Result<Line, StoreError> {
        let account = self.account_id;
        let bad = |what: &str| inconsistent("lines", account, format!("{what} of entry {}", self.seq));
        Ok(Line {
            ledger_account: LedgerAccount::from_code(self.ledger_account)
                .ok_or_else(|| bad("ledger account"))?,
            direction: Direction::from_code(self.direction).ok_or_else(|| bad("direction"))?,
            amount: credits("lines", account, self.amount)?,
            grant: self.grant_id.map(GrantId),
            debt: DebtMark::from_code(self.debt_mark).ok_or_else(|| bad("debt mark"))?,
            balance_after: self.balance_after.map(|value| credits("lines", account, value)).transpose()?,
        })
    }
}
