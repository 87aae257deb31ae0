//! Rows into nouns. What the database holds and this code cannot read is named with its table and row.

use chrono::{DateTime, Utc};
use rust_decimal::Decimal;
use serde_json::Value;
use uuid::Uuid;

use super::StoreError;
use crate::account::{AccountStatus, KindTotals};
use crate::command::{Actor, ActorKind, CallFields, KeyName, KeyStamp, Origin};
use crate::credits::{Credits, MILLION};
use crate::decide::KeyUse;
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

/// An idempotency key that is taken.
pub(crate) fn key_use(
    account: Uuid,
    seq: i64,
    origin: i16,
    key: Vec<u8>,
    content: Vec<u8>,
) -> Result<(AccountId, KeyName, KeyUse), StoreError> {
    let bad = || inconsistent("entries", account, format!("key of entry {seq}"));
    let name = (Origin::from_code(origin).ok_or_else(bad)?, key.try_into().map_err(|_| bad())?);
    Ok((AccountId(account), name, KeyUse { seq: Seq(seq), content: content.try_into().map_err(|_| bad())? }))
}

/// Running totals from threes of kind, total of `amount`, total of `moved`.
pub(crate) fn totals(account: Uuid, threes: &[Credits]) -> Result<KindTotals, StoreError> {
    let bad = || inconsistent("accounts", account, "running totals".to_owned());
    let mut totals = KindTotals::default();
    let (threes, []) = threes.as_chunks::<3>() else { return Err(bad()) };
    for [kind, amount, moved] in threes {
        let code = i16::try_from(kind.micros() / MILLION).map_err(|_| bad())?;
        let kind = Kind::from_code(code).ok_or_else(bad)?;
        totals.amount[kind.index()] = *amount;
        totals.moved[kind.index()] = *moved;
    }
    Ok(totals)
}

/// The columns of `grants`, in the order of the table and of the type `grant_input`.
#[derive(Debug, sqlx::Type)]
#[sqlx(type_name = "grant_input")]
pub(crate) struct GrantRow {
    pub account_id: Uuid,
    pub id: Uuid,
    pub seq: i64,
    pub pool: i16,
    pub amount: Credits,
    pub remaining: Credits,
    pub reserved: Credits,
    pub expires_at: Option<DateTime<Utc>>,
    pub rolling: bool,
    pub voided_at: Option<DateTime<Utc>>,
    pub source: Option<String>,
    pub granted_at: DateTime<Utc>,
    pub lapsed: Credits,
    pub lapse_taken: Credits,
    pub clawed_back: Credits,
    pub restored: Credits,
    pub paid_to_debt: Credits,
    pub given_back_for_debt: Credits,
}

/// `select` of the columns of [`GrantRow`] with a tail that names `g`.
macro_rules! grant_rows {
    ($tail:literal $(, $argument:expr)* $(,)?) => {
        sqlx::query_as!(
            $crate::store::rows::GrantRow,
            r#"select g.account_id, g.id, g.seq, g.pool, g.amount as "amount: _", g.remaining as "remaining: _",
                g.reserved as "reserved: _", g.expires_at, g.rolling, g.voided_at, g.source, g.granted_at, g.lapsed as "lapsed: _",
                g.lapse_taken as "lapse_taken: _", g.clawed_back as "clawed_back: _", g.restored as "restored: _",
                g.paid_to_debt as "paid_to_debt: _", g.given_back_for_debt as "given_back_for_debt: _" "# + $tail
            $(, $argument)*
        )
    };
}
pub(crate) use grant_rows;

impl GrantRow {
    pub(super) fn of(account: AccountId, grant: &Grant) -> GrantRow {
        GrantRow {
            account_id: account.0,
            id: grant.id.0,
            seq: grant.seq.0,
            pool: grant.pool.code(),
            amount: grant.amount,
            remaining: grant.remaining,
            reserved: grant.reserved,
            expires_at: grant.expires_at,
            rolling: grant.rolling,
            voided_at: grant.voided_at,
            source: grant.source.clone(),
            granted_at: grant.granted_at,
            lapsed: grant.lapsed,
            lapse_taken: grant.lapse_taken,
            clawed_back: grant.clawed_back,
            restored: grant.restored,
            paid_to_debt: grant.paid_to_debt,
            given_back_for_debt: grant.given_back_for_debt,
        }
    }

    pub(crate) fn grant(self) -> Result<Grant, StoreError> {
        Ok(Grant {
            id: GrantId(self.id),
            seq: Seq(self.seq),
            pool: Pool::from_code(self.pool)
                .ok_or_else(|| inconsistent("grants", self.account_id, format!("pool of {}", self.id)))?,
            amount: self.amount,
            remaining: self.remaining,
            reserved: self.reserved,
            expires_at: self.expires_at,
            rolling: self.rolling,
            voided_at: self.voided_at,
            granted_at: self.granted_at,
            lapsed: self.lapsed,
            lapse_taken: self.lapse_taken,
            clawed_back: self.clawed_back,
            restored: self.restored,
            paid_to_debt: self.paid_to_debt,
            given_back_for_debt: self.given_back_for_debt,
            source: self.source,
        })
    }
}

/// The columns of `holds`, in the order of the table and of the type `hold_input`.
#[derive(Debug, sqlx::Type)]
#[sqlx(type_name = "hold_input")]
pub(crate) struct HoldRow {
    pub account_id: Uuid,
    pub id: Uuid,
    pub seq: i64,
    pub amount: Credits,
    pub status: i16,
    pub part_grants: Vec<Uuid>,
    pub part_amounts: Vec<Credits>,
    pub placed_at: DateTime<Utc>,
    pub lifetime_s: i32,
    pub renewed_at: DateTime<Utc>,
    pub expires_at: DateTime<Utc>,
    pub settled: Credits,
    pub released: Credits,
    pub reversed: Credits,
    pub needs_review: bool,
    pub ended_by: Option<i64>,
    pub late_settle: Option<i64>,
    pub member: Option<String>,
    pub job_id: Option<String>,
    pub request_ref: Option<String>,
    pub model: Option<String>,
    pub key_ref: Option<String>,
}

/// `select` of the columns of [`HoldRow`] with a tail that names `h`.
macro_rules! hold_rows {
    ($tail:literal $(, $argument:expr)* $(,)?) => {
        sqlx::query_as!(
            $crate::store::rows::HoldRow,
            r#"select h.account_id, h.id, h.seq, h.amount as "amount: _", h.status, h.part_grants, h.part_amounts as "part_amounts: _",
                h.placed_at, h.lifetime_s, h.renewed_at, h.expires_at, h.settled as "settled: _", h.released as "released: _",
                h.reversed as "reversed: _", h.needs_review, h.ended_by, h.late_settle, h.member, h.job_id, h.request_ref, h.model,
                h.key_ref "# + $tail
            $(, $argument)*
        )
    };
}
pub(crate) use hold_rows;

impl HoldRow {
    pub(super) fn of(account: AccountId, hold: &Hold) -> HoldRow {
        let CallFields { member, job_id, request_ref, model, key_ref } = hold.call.clone();
        HoldRow {
            account_id: account.0,
            id: hold.id.0,
            seq: hold.seq.0,
            amount: hold.amount,
            status: hold_status_code(hold.status),
            part_grants: hold.parts.iter().map(|part| part.grant.0).collect(),
            part_amounts: hold.parts.iter().map(|part| part.amount).collect(),
            placed_at: hold.placed_at,
            lifetime_s: i32::try_from(hold.lifetime_s).unwrap_or(i32::MAX),
            renewed_at: hold.renewed_at,
            expires_at: hold.expires_at,
            settled: hold.settled,
            released: hold.released,
            reversed: hold.reversed,
            needs_review: hold.needs_review,
            ended_by: hold.ended_by.map(|seq| seq.0),
            late_settle: hold.late_settle.map(|seq| seq.0),
            member,
            job_id,
            request_ref,
            model,
            key_ref,
        }
    }

    pub(crate) fn hold(self) -> Result<Hold, StoreError> {
        let account = self.account_id;
        let bad = |what: &str| inconsistent("holds", account, format!("{what} of {}", self.id));
        let parts = self.part_grants.iter().zip(&self.part_amounts);
        Ok(Hold {
            id: HoldId(self.id),
            seq: Seq(self.seq),
            amount: self.amount,
            status: hold_status(self.status).ok_or_else(|| bad("status"))?,
            parts: parts.map(|(grant, part)| HoldPart { grant: GrantId(*grant), amount: *part }).collect(),
            placed_at: self.placed_at,
            lifetime_s: u32::try_from(self.lifetime_s).map_err(|_| bad("lifetime"))?,
            renewed_at: self.renewed_at,
            expires_at: self.expires_at,
            settled: self.settled,
            released: self.released,
            reversed: self.reversed,
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
    pub amount: Credits,
    pub moved: Credits,
    pub available_after: Credits,
    pub held_after: Credits,
    pub debt_after: Credits,
    pub amount_total: Credits,
    pub moved_total: Credits,
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
    pub use_amount: Option<Credits>,
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
            r#"select e.account_id, e.seq, e.kind, e.note, e.set_seq, e.is_main, e.line_count, e.amount as "amount: _", e.moved as "moved: _", e.available_after as "available_after: _",
                e.held_after as "held_after: _", e.debt_after as "debt_after: _", e.amount_total as "amount_total: _", e.moved_total as "moved_total: _", e.occurred_at, e.recorded_at, e.effective_at, e.actor_kind,
                e.actor_id, e.actor_role, e.origin, e.key, e.content, e.member, e.job_id, e.request_ref, e.model, e.key_ref, e.hold_id,
                e.reverses, e.use_at, e.use_amount as "use_amount: _", e.answer, e.words_digest, e.hash, w.reason as "reason?", w.metadata as "metadata?: serde_json::Value" "# + $tail
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
            (Some(at), Some(amount)) => Some(Use { at, amount }),
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
            amount: self.amount,
            moved: self.moved,
            lines: Vec::with_capacity(usize::try_from(self.line_count).unwrap_or(0)),
            available_after: self.available_after,
            held_after: self.held_after,
            debt_after: self.debt_after,
            amount_total: self.amount_total,
            moved_total: self.moved_total,
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
    pub amount: Credits,
    pub grant_id: Option<Uuid>,
    pub debt_mark: i16,
    pub balance_after: Option<Credits>,
}

impl LineRow {
    pub(crate) fn line(self) -> Result<Line, StoreError> {
        let account = self.account_id;
        let bad = |what: &str| inconsistent("lines", account, format!("{what} of entry {}", self.seq));
        Ok(Line {
            ledger_account: LedgerAccount::from_code(self.ledger_account)
                .ok_or_else(|| bad("ledger account"))?,
            direction: Direction::from_code(self.direction).ok_or_else(|| bad("direction"))?,
            amount: self.amount,
            grant: self.grant_id.map(GrantId),
            debt: DebtMark::from_code(self.debt_mark).ok_or_else(|| bad("debt mark"))?,
            balance_after: self.balance_after,
        })
    }
}
