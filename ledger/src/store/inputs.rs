//! What a round sends to the database: one composite type for each table, filled straight from the crate's nouns. Whole grants and holds are
//! sent as they are read, see [`super::rows`].
//!
//! The fields stand in the order of the types of the migrations. To add one: a new type beside the old, since an older
//! program may still be running with that.

use chrono::{DateTime, Utc};
use sqlx::postgres::{PgHasArrayType, PgTypeInfo};
use sqlx::types::Json;
use sqlx::{Encode, Postgres, Type};
use uuid::Uuid;

use super::rows::status_code;
use super::write::AccountAfter;
use crate::account::KindTotals;
use crate::credits::Credits;
use crate::entry::{Answer, Entry, Line};
use crate::grant::Grant;
use crate::ids::AccountId;

/// Names the composite type that a struct is sent as.
macro_rules! sent_as {
    ($($input:ty = $sql:literal),+ $(,)?) => {$(
        impl Type<Postgres> for $input {
            fn type_info() -> PgTypeInfo {
                PgTypeInfo::with_name($sql)
            }
        }

        impl PgHasArrayType for $input {
            fn array_type_info() -> PgTypeInfo {
                PgTypeInfo::array_of($sql)
            }
        }
    )+};
}
sent_as!(
    EntryInput<'_> = "entry_input",
    LineInput = "line_input",
    HeadInput<'_> = "head_change_input",
    GrantChangeInput = "grant_change_input",
);

#[derive(Encode)]
pub(super) struct EntryInput<'a> {
    account_id: Uuid,
    seq: i64,
    kind: i16,
    note: Option<i16>,
    set_seq: i64,
    set_length: i32,
    is_main: bool,
    line_count: i16,
    amount: Credits,
    moved: Credits,
    available_after: Credits,
    held_after: Credits,
    debt_after: Credits,
    amount_total: Credits,
    moved_total: Credits,
    occurred_at: DateTime<Utc>,
    recorded_at: DateTime<Utc>,
    effective_at: DateTime<Utc>,
    actor_kind: i16,
    actor_id: &'a str,
    actor_role: Option<&'a str>,
    origin: Option<i16>,
    key: Option<&'a [u8]>,
    content: Option<&'a [u8]>,
    member: Option<&'a str>,
    job_id: Option<&'a str>,
    request_ref: Option<&'a str>,
    model: Option<&'a str>,
    key_ref: Option<&'a str>,
    hold_id: Option<Uuid>,
    reverses: Option<i64>,
    use_at: Option<DateTime<Utc>>,
    use_amount: Option<Credits>,
    answer: Option<Json<&'a Answer>>,
    words_digest: Option<&'a [u8]>,
    hash: &'a [u8],
}

impl<'a> EntryInput<'a> {
    pub(super) fn of(entry: &'a Entry, set_length: usize) -> EntryInput<'a> {
        let call = &entry.call;
        EntryInput {
            account_id: entry.account.0,
            seq: entry.seq.0,
            kind: entry.kind.code(),
            note: entry.note.map(|note| note.code()),
            set_seq: entry.set_seq.0,
            set_length: i32::try_from(set_length).unwrap_or(i32::MAX),
            is_main: entry.is_main,
            line_count: i16::try_from(entry.lines.len()).unwrap_or(i16::MAX),
            amount: entry.amount,
            moved: entry.moved,
            available_after: entry.available_after,
            held_after: entry.held_after,
            debt_after: entry.debt_after,
            amount_total: entry.amount_total,
            moved_total: entry.moved_total,
            occurred_at: entry.occurred_at,
            recorded_at: entry.recorded_at,
            effective_at: entry.effective_at,
            actor_kind: entry.actor.kind.code(),
            actor_id: &entry.actor.id,
            actor_role: entry.actor.role.as_deref(),
            origin: entry.key.map(|stamp| stamp.origin.code()),
            key: entry.key.as_ref().map(|stamp| stamp.key.as_slice()),
            content: entry.key.as_ref().map(|stamp| stamp.content.as_slice()),
            member: call.member.as_deref(),
            job_id: call.job_id.as_deref(),
            request_ref: call.request_ref.as_deref(),
            model: call.model.as_deref(),
            key_ref: call.key_ref.as_deref(),
            hold_id: entry.hold.map(|hold| hold.0),
            reverses: entry.reverses.map(|seq| seq.0),
            use_at: entry.usage.map(|usage| usage.at),
            use_amount: entry.usage.map(|usage| usage.amount),
            answer: (!entry.answer.is_empty()).then_some(Json(&entry.answer)),
            words_digest: entry.words_digest.as_ref().map(<[u8; 32]>::as_slice),
            hash: &entry.hash,
        }
    }
}

#[derive(Encode)]
pub(super) struct LineInput {
    account_id: Uuid,
    seq: i64,
    position: i16,
    ledger_account: i16,
    direction: i16,
    amount: Credits,
    grant_id: Option<Uuid>,
    debt_mark: i16,
    balance_after: Option<Credits>,
}

impl LineInput {
    pub(super) fn of(entry: &Entry, line: &Line, position: i16) -> LineInput {
        LineInput {
            account_id: entry.account.0,
            seq: entry.seq.0,
            position,
            ledger_account: line.ledger_account.code(),
            direction: line.direction.code(),
            amount: line.amount,
            grant_id: line.grant.map(|grant| grant.0),
            debt_mark: line.debt.code(),
            balance_after: line.balance_after,
        }
    }
}

#[derive(Encode)]
pub(super) struct HeadInput<'a> {
    id: Uuid,
    seq_before: i64,
    status: i16,
    policy: &'a str,
    erased: bool,
    seq: i64,
    hash: &'a [u8],
    available: Credits,
    held: Credits,
    debt: Credits,
    written_off: Credits,
    recorded_at: DateTime<Utc>,
    effective_at: DateTime<Utc>,
    totals: Vec<Credits>,
}

impl<'a> HeadInput<'a> {
    pub(super) fn of(account: AccountId, after: &AccountAfter<'a>) -> HeadInput<'a> {
        let head = after.head;
        HeadInput {
            id: account.0,
            seq_before: after.before.0,
            status: status_code(after.status),
            policy: after.policy,
            erased: after.erased,
            seq: head.seq.0,
            hash: &head.hash,
            available: head.available,
            held: head.held,
            debt: head.debt,
            written_off: head.written_off,
            recorded_at: head.recorded_at,
            effective_at: head.effective_at,
            totals: totals(&head.totals),
        }
    }
}

/// Three numbers for each kind that moved something: its number, the total of `amount`, the total of `moved`.
fn totals(totals: &KindTotals) -> Vec<Credits> {
    let kinds = (1_u32..).zip(totals.amount).zip(totals.moved);
    let moved = kinds.filter(|((_, amount), moved)| !amount.is_zero() || !moved.is_zero());
    moved.flat_map(|((kind, amount), moved)| [Credits::whole(kind), amount, moved]).collect()
}

/// What of a grant can change.
#[derive(Encode)]
pub(super) struct GrantChangeInput {
    account_id: Uuid,
    id: Uuid,
    seq: i64,
    remaining: Credits,
    reserved: Credits,
    expires_at: Option<DateTime<Utc>>,
    voided_at: Option<DateTime<Utc>>,
    lapsed: Credits,
    lapse_taken: Credits,
    clawed_back: Credits,
    restored: Credits,
    paid_to_debt: Credits,
    given_back_for_debt: Credits,
}

impl GrantChangeInput {
    pub(super) fn of(account: AccountId, grant: &Grant) -> GrantChangeInput {
        GrantChangeInput {
            account_id: account.0,
            id: grant.id.0,
            seq: grant.seq.0,
            remaining: grant.remaining,
            reserved: grant.reserved,
            expires_at: grant.expires_at,
            voided_at: grant.voided_at,
            lapsed: grant.lapsed,
            lapse_taken: grant.lapse_taken,
            clawed_back: grant.clawed_back,
            restored: grant.restored,
            paid_to_debt: grant.paid_to_debt,
            given_back_for_debt: grant.given_back_for_debt,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::entry::Kind;

    #[test]
    fn totals_name_the_kinds_that_moved_something() {
        let mut known = KindTotals::default();
        known.amount[Kind::Topup.index()] = Credits::whole(100);
        known.moved[Kind::AuthHold.index()] = Credits::whole(7);
        let numbers = |numbers: [u32; 6]| numbers.map(Credits::whole).to_vec();
        assert_eq!(totals(&known), numbers([1, 100, 0, 3, 0, 7]));
    }
}
