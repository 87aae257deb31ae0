//! Step 5 of a round: all that its decisions changed, over arrays.
//!
//! Entries, lines, heads and changed grants go in one statement, as the guards of the journal ask; new grants, holds,
//! words and signals follow in statements of their own where there are some.

use std::collections::BTreeMap;

use chrono::{DateTime, Utc};
use rust_decimal::Decimal;
use serde_json::{Value, json};
use sqlx::PgConnection;
use uuid::Uuid;

use super::StoreError;
use super::rows::{hold_status_code, status_code};
use crate::account::{AccountStatus, Head, KindTotals};
use crate::chain;
use crate::credits::Credits;
use crate::decide::Signal;
use crate::entry::{Entry, EntrySet};
use crate::grant::Grant;
use crate::hold::Hold;
use crate::ids::{AccountId, GrantId, HoldId, Seq};

/// What a round leaves behind: its entry sets in order, and the last state of all that changed.
#[derive(Default)]
pub(crate) struct Outcome<'a> {
    pub sets: Vec<&'a EntrySet>,
    /// Salts of the words, by entry.
    pub salts: BTreeMap<(AccountId, Seq), [u8; 16]>,
    /// Where calls came from, by entry.
    pub addresses: Vec<(AccountId, Seq, &'a str)>,
    /// What people call the accounts that were opened.
    pub profiles: Vec<Profile<'a>>,
    pub heads: BTreeMap<AccountId, AccountAfter<'a>>,
    pub grants_new: BTreeMap<(AccountId, GrantId), &'a Grant>,
    pub grants_changed: BTreeMap<(AccountId, GrantId), &'a Grant>,
    pub holds_new: BTreeMap<(AccountId, HoldId), &'a Hold>,
    pub holds_changed: BTreeMap<(AccountId, HoldId), &'a Hold>,
    pub signals: Vec<(AccountId, &'a Signal)>,
}

/// What people call an account; kept beside the journal, so that it can be erased.
#[derive(Clone)]
pub(crate) struct Profile<'a> {
    pub account: AccountId,
    pub name: Option<&'a str>,
    pub email: Option<&'a str>,
    /// JSON with sorted keys.
    pub metadata: Option<String>,
}

/// An account's row after the round.
pub(crate) struct AccountAfter<'a> {
    pub head: &'a Head,
    pub status: AccountStatus,
    pub policy: &'a str,
    pub erased: bool,
}

/// Writes a round within its open transaction.
pub(crate) async fn write(connection: &mut PgConnection, outcome: &Outcome<'_>) -> Result<(), StoreError> {
    journal(connection, outcome).await?;
    if !outcome.grants_new.is_empty() {
        grants_new(connection, &outcome.grants_new).await?;
    }
    if !outcome.holds_new.is_empty() {
        holds_new(connection, &outcome.holds_new).await?;
    }
    if !outcome.holds_changed.is_empty() {
        holds_changed(connection, &outcome.holds_changed).await?;
    }
    if !outcome.salts.is_empty() {
        words(connection, outcome).await?;
    }
    if !outcome.addresses.is_empty() {
        addresses(connection, &outcome.addresses).await?;
    }
    if !outcome.profiles.is_empty() {
        profiles(connection, &outcome.profiles).await?;
    }
    if !outcome.signals.is_empty() {
        signals(connection, &outcome.signals).await?;
    }
    Ok(())
}

#[derive(Default)]
struct EntryColumns {
    account: Vec<Uuid>,
    seq: Vec<i64>,
    kind: Vec<i16>,
    note: Vec<Option<i16>>,
    set_seq: Vec<i64>,
    set_length: Vec<i32>,
    is_main: Vec<bool>,
    line_count: Vec<i16>,
    amount: Vec<Decimal>,
    moved: Vec<Decimal>,
    available_after: Vec<Decimal>,
    held_after: Vec<Decimal>,
    debt_after: Vec<Decimal>,
    amount_total: Vec<Decimal>,
    moved_total: Vec<Decimal>,
    occurred_at: Vec<DateTime<Utc>>,
    recorded_at: Vec<DateTime<Utc>>,
    effective_at: Vec<DateTime<Utc>>,
    actor_kind: Vec<i16>,
    actor_id: Vec<String>,
    actor_role: Vec<Option<String>>,
    origin: Vec<Option<i16>>,
    key: Vec<Option<Vec<u8>>>,
    content: Vec<Option<Vec<u8>>>,
    member: Vec<Option<String>>,
    job_id: Vec<Option<String>>,
    request_ref: Vec<Option<String>>,
    model: Vec<Option<String>>,
    key_ref: Vec<Option<String>>,
    hold_id: Vec<Option<Uuid>>,
    reverses: Vec<Option<i64>>,
    use_at: Vec<Option<DateTime<Utc>>>,
    use_amount: Vec<Option<Decimal>>,
    answer: Vec<Option<Value>>,
    words_digest: Vec<Option<Vec<u8>>>,
    hash: Vec<Vec<u8>>,
    lines: LineColumns,
}

#[derive(Default)]
struct LineColumns {
    account: Vec<Uuid>,
    seq: Vec<i64>,
    position: Vec<i16>,
    ledger_account: Vec<i16>,
    direction: Vec<i16>,
    amount: Vec<Decimal>,
    grant: Vec<Option<Uuid>>,
    debt_mark: Vec<i16>,
    balance_after: Vec<Option<Decimal>>,
}

impl EntryColumns {
    fn of(sets: &[&EntrySet]) -> EntryColumns {
        let mut columns = EntryColumns::default();
        for set in sets {
            for entry in &set.entries {
                columns.push(entry, i32::try_from(set.entries.len()).unwrap_or(i32::MAX));
                columns.lines.push(entry);
            }
        }
        columns
    }

    fn push(&mut self, entry: &Entry, set_length: i32) {
        self.account.push(entry.account.0);
        self.seq.push(entry.seq.0);
        self.kind.push(entry.kind.code());
        self.note.push(entry.note.map(|note| note.code()));
        self.set_seq.push(entry.set_seq.0);
        self.set_length.push(set_length);
        self.is_main.push(entry.is_main);
        self.line_count.push(i16::try_from(entry.lines.len()).unwrap_or(i16::MAX));
        self.amount.push(entry.amount.decimal());
        self.moved.push(entry.moved.decimal());
        self.available_after.push(entry.available_after.decimal());
        self.held_after.push(entry.held_after.decimal());
        self.debt_after.push(entry.debt_after.decimal());
        self.amount_total.push(entry.amount_total.decimal());
        self.moved_total.push(entry.moved_total.decimal());
        self.occurred_at.push(entry.occurred_at);
        self.recorded_at.push(entry.recorded_at);
        self.effective_at.push(entry.effective_at);
        self.actor_kind.push(entry.actor.kind.code());
        self.actor_id.push(entry.actor.id.clone());
        self.actor_role.push(entry.actor.role.clone());
        self.origin.push(entry.key.map(|stamp| stamp.origin.code()));
        self.key.push(entry.key.map(|stamp| stamp.key.to_vec()));
        self.content.push(entry.key.map(|stamp| stamp.content.to_vec()));
        self.member.push(entry.call.member.clone());
        self.job_id.push(entry.call.job_id.clone());
        self.request_ref.push(entry.call.request_ref.clone());
        self.model.push(entry.call.model.clone());
        self.key_ref.push(entry.call.key_ref.clone());
        self.hold_id.push(entry.hold.map(|hold| hold.0));
        self.reverses.push(entry.reverses.map(|seq| seq.0));
        self.use_at.push(entry.usage.map(|usage| usage.at));
        self.use_amount.push(entry.usage.map(|usage| usage.amount.decimal()));
        self.answer.push((!entry.answer.is_empty()).then(|| json!(entry.answer)));
        self.words_digest.push(entry.words_digest.map(|digest| digest.to_vec()));
        self.hash.push(entry.hash.to_vec());
    }
}

impl LineColumns {
    fn push(&mut self, entry: &Entry) {
        for (line, position) in entry.lines.iter().zip(1..) {
            self.account.push(entry.account.0);
            self.seq.push(entry.seq.0);
            self.position.push(position);
            self.ledger_account.push(line.ledger_account.code());
            self.direction.push(line.direction.code());
            self.amount.push(line.amount.decimal());
            self.grant.push(line.grant.map(|grant| grant.0));
            self.debt_mark.push(line.debt.code());
            self.balance_after.push(line.balance_after.map(Credits::decimal));
        }
    }
}

#[derive(Default)]
struct HeadColumns {
    account: Vec<Uuid>,
    status: Vec<i16>,
    policy: Vec<String>,
    erased: Vec<bool>,
    seq: Vec<i64>,
    hash: Vec<Vec<u8>>,
    available: Vec<Decimal>,
    held: Vec<Decimal>,
    debt: Vec<Decimal>,
    written_off: Vec<Decimal>,
    recorded_at: Vec<DateTime<Utc>>,
    effective_at: Vec<DateTime<Utc>>,
    amount_totals: Vec<String>,
    moved_totals: Vec<String>,
}

impl HeadColumns {
    fn of(heads: &BTreeMap<AccountId, AccountAfter<'_>>) -> HeadColumns {
        let mut columns = HeadColumns::default();
        for (account, after) in heads {
            let head = after.head;
            columns.account.push(account.0);
            columns.status.push(status_code(after.status));
            columns.policy.push(after.policy.to_owned());
            columns.erased.push(after.erased);
            columns.seq.push(head.seq.0);
            columns.hash.push(head.hash.to_vec());
            columns.available.push(head.available.decimal());
            columns.held.push(head.held.decimal());
            columns.debt.push(head.debt.decimal());
            columns.written_off.push(head.written_off.decimal());
            columns.recorded_at.push(head.recorded_at);
            columns.effective_at.push(head.effective_at);
            let (amount, moved) = totals_text(&head.totals);
            columns.amount_totals.push(amount);
            columns.moved_totals.push(moved);
        }
        columns
    }
}

/// Arrays within an array cannot be unnested one by one, so they cross as text.
fn totals_text(totals: &KindTotals) -> (String, String) {
    let text = |amounts: &[Credits]| {
        format!("{{{}}}", amounts.iter().map(Credits::to_string).collect::<Vec<_>>().join(","))
    };
    (text(&totals.amount), text(&totals.moved))
}

#[derive(Default)]
struct GrantColumns {
    account: Vec<Uuid>,
    id: Vec<Uuid>,
    seq: Vec<i64>,
    pool: Vec<i16>,
    amount: Vec<Decimal>,
    remaining: Vec<Decimal>,
    reserved: Vec<Decimal>,
    expires_at: Vec<Option<DateTime<Utc>>>,
    rolling: Vec<bool>,
    voided_at: Vec<Option<DateTime<Utc>>>,
    source: Vec<Option<String>>,
    granted_at: Vec<DateTime<Utc>>,
    lapsed: Vec<Decimal>,
    lapse_taken: Vec<Decimal>,
    clawed_back: Vec<Decimal>,
    restored: Vec<Decimal>,
    paid_to_debt: Vec<Decimal>,
    given_back_for_debt: Vec<Decimal>,
}

impl GrantColumns {
    fn of(grants: &BTreeMap<(AccountId, GrantId), &Grant>) -> GrantColumns {
        let mut columns = GrantColumns::default();
        for ((account, id), grant) in grants {
            columns.account.push(account.0);
            columns.id.push(id.0);
            columns.seq.push(grant.seq.0);
            columns.pool.push(grant.pool.code());
            columns.amount.push(grant.amount.decimal());
            columns.remaining.push(grant.remaining.decimal());
            columns.reserved.push(grant.reserved.decimal());
            columns.expires_at.push(grant.expires_at);
            columns.rolling.push(grant.rolling);
            columns.voided_at.push(grant.voided_at);
            columns.source.push(grant.source.clone());
            columns.granted_at.push(grant.granted_at);
            columns.lapsed.push(grant.lapsed.decimal());
            columns.lapse_taken.push(grant.lapse_taken.decimal());
            columns.clawed_back.push(grant.clawed_back.decimal());
            columns.restored.push(grant.restored.decimal());
            columns.paid_to_debt.push(grant.paid_to_debt.decimal());
            columns.given_back_for_debt.push(grant.given_back_for_debt.decimal());
        }
        columns
    }
}

/// The one statement that writes the journal.
async fn journal(connection: &mut PgConnection, outcome: &Outcome<'_>) -> Result<(), StoreError> {
    let e = EntryColumns::of(&outcome.sets);
    let l = &e.lines;
    let h = HeadColumns::of(&outcome.heads);
    let g = GrantColumns::of(&outcome.grants_changed);
    sqlx::query!(
        r#"with new_entries as (
            insert into entries (account_id, seq, kind, note, set_seq, set_length, is_main, line_count, amount, moved, available_after,
                held_after, debt_after, amount_total, moved_total, occurred_at, recorded_at, effective_at, actor_kind, actor_id,
                actor_role, origin, key, content, member, job_id, request_ref, model, key_ref, hold_id, reverses, use_at, use_amount,
                answer, words_digest, hash)
            select * from unnest($1::uuid[], $2::bigint[], $3::smallint[], $4::smallint[], $5::bigint[], $6::integer[], $7::boolean[],
                $8::smallint[], $9::numeric[], $10::numeric[], $11::numeric[], $12::numeric[], $13::numeric[], $14::numeric[],
                $15::numeric[], $16::timestamptz[], $17::timestamptz[], $18::timestamptz[], $19::smallint[], $20::text[], $21::text[],
                $22::smallint[], $23::bytea[], $24::bytea[], $25::text[], $26::text[], $27::text[], $28::text[], $29::text[],
                $30::uuid[], $31::bigint[], $32::timestamptz[], $33::numeric[], $34::jsonb[], $35::bytea[], $36::bytea[])
        ), new_lines as (
            insert into lines (account_id, seq, position, ledger_account, direction, amount, grant_id, debt_mark, balance_after)
            select * from unnest($37::uuid[], $38::bigint[], $39::smallint[], $40::smallint[], $41::smallint[], $42::numeric[],
                $43::uuid[], $44::smallint[], $45::numeric[])
        ), changed_grants as (
            update grants g set remaining = u.remaining, reserved = u.reserved, open = u.remaining > 0 or u.reserved > 0,
                expires_at = u.expires_at, voided_at = u.voided_at,
                lapsed = u.lapsed, lapse_taken = u.lapse_taken, clawed_back = u.clawed_back, restored = u.restored,
                paid_to_debt = u.paid_to_debt, given_back_for_debt = u.given_back_for_debt
            from unnest($46::uuid[], $47::uuid[], $48::numeric[], $49::numeric[], $50::timestamptz[], $51::timestamptz[], $52::numeric[],
                $53::numeric[], $54::numeric[], $55::numeric[], $56::numeric[], $57::numeric[], $72::bigint[])
                as u(account_id, id, remaining, reserved, expires_at, voided_at, lapsed, lapse_taken, clawed_back, restored, paid_to_debt,
                    given_back_for_debt, seq)
            -- Whichever index the plan takes, id's or seq's, it finds one row.
            where g.account_id = u.account_id and g.id = u.id and g.seq = u.seq
        )
        update accounts a set status = u.status, policy = u.policy,
            erased_at = case when u.erased then coalesce(a.erased_at, u.recorded_at) else a.erased_at end,
            seq = u.seq, hash = u.hash, available = u.available, held = u.held, debt = u.debt, written_off = u.written_off,
            recorded_at = u.recorded_at, effective_at = u.effective_at, amount_totals = u.amount_totals::numeric[],
            moved_totals = u.moved_totals::numeric[]
        from unnest($58::uuid[], $59::smallint[], $60::text[], $61::boolean[], $62::bigint[], $63::bytea[], $64::numeric[], $65::numeric[],
            $66::numeric[], $67::numeric[], $68::timestamptz[], $69::timestamptz[], $70::text[], $71::text[])
            as u(id, status, policy, erased, seq, hash, available, held, debt, written_off, recorded_at, effective_at, amount_totals,
                moved_totals)
        where a.id = u.id"#,
        &e.account,
        &e.seq,
        &e.kind,
        &e.note as &[Option<i16>],
        &e.set_seq,
        &e.set_length,
        &e.is_main,
        &e.line_count,
        &e.amount,
        &e.moved,
        &e.available_after,
        &e.held_after,
        &e.debt_after,
        &e.amount_total,
        &e.moved_total,
        &e.occurred_at,
        &e.recorded_at,
        &e.effective_at,
        &e.actor_kind,
        &e.actor_id,
        &e.actor_role as &[Option<String>],
        &e.origin as &[Option<i16>],
        &e.key as &[Option<Vec<u8>>],
        &e.content as &[Option<Vec<u8>>],
        &e.member as &[Option<String>],
        &e.job_id as &[Option<String>],
        &e.request_ref as &[Option<String>],
        &e.model as &[Option<String>],
        &e.key_ref as &[Option<String>],
        &e.hold_id as &[Option<Uuid>],
        &e.reverses as &[Option<i64>],
        &e.use_at as &[Option<DateTime<Utc>>],
        &e.use_amount as &[Option<Decimal>],
        &e.answer as &[Option<Value>],
        &e.words_digest as &[Option<Vec<u8>>],
        &e.hash,
        &l.account,
        &l.seq,
        &l.position,
        &l.ledger_account,
        &l.direction,
        &l.amount,
        &l.grant as &[Option<Uuid>],
        &l.debt_mark,
        &l.balance_after as &[Option<Decimal>],
        &g.account,
        &g.id,
        &g.remaining,
        &g.reserved,
        &g.expires_at as &[Option<DateTime<Utc>>],
        &g.voided_at as &[Option<DateTime<Utc>>],
        &g.lapsed,
        &g.lapse_taken,
        &g.clawed_back,
        &g.restored,
        &g.paid_to_debt,
        &g.given_back_for_debt,
        &h.account,
        &h.status,
        &h.policy,
        &h.erased,
        &h.seq,
        &h.hash,
        &h.available,
        &h.held,
        &h.debt,
        &h.written_off,
        &h.recorded_at,
        &h.effective_at,
        &h.amount_totals,
        &h.moved_totals,
        &g.seq,
    )
    .execute(connection)
    .await?;
    Ok(())
}

async fn grants_new(
    connection: &mut PgConnection,
    grants: &BTreeMap<(AccountId, GrantId), &Grant>,
) -> Result<(), StoreError> {
    let g = GrantColumns::of(grants);
    sqlx::query!(
        "insert into grants (account_id, id, seq, pool, amount, remaining, reserved, expires_at, rolling, voided_at, source, granted_at,
            lapsed, lapse_taken, clawed_back, restored, paid_to_debt, given_back_for_debt, open)
        select u.*, u.remaining > 0 or u.reserved > 0 from unnest($1::uuid[], $2::uuid[], $3::bigint[], $4::smallint[], $5::numeric[], $6::numeric[], $7::numeric[],
            $8::timestamptz[], $9::boolean[], $10::timestamptz[], $11::text[], $12::timestamptz[], $13::numeric[], $14::numeric[],
            $15::numeric[], $16::numeric[], $17::numeric[], $18::numeric[]) as u(account_id, id, seq, pool, amount, remaining, reserved,
            expires_at, rolling, voided_at, source, granted_at, lapsed, lapse_taken, clawed_back, restored, paid_to_debt,
            given_back_for_debt)",
        &g.account,
        &g.id,
        &g.seq,
        &g.pool,
        &g.amount,
        &g.remaining,
        &g.reserved,
        &g.expires_at as &[Option<DateTime<Utc>>],
        &g.rolling,
        &g.voided_at as &[Option<DateTime<Utc>>],
        &g.source as &[Option<String>],
        &g.granted_at,
        &g.lapsed,
        &g.lapse_taken,
        &g.clawed_back,
        &g.restored,
        &g.paid_to_debt,
        &g.given_back_for_debt
    )
    .execute(connection)
    .await?;
    Ok(())
}

/// Parts are arrays within an array, so they cross as text.
fn part_texts(hold: &Hold) -> (String, String) {
    let join = |parts: Vec<String>| format!("{{{}}}", parts.join(","));
    (
        join(hold.parts.iter().map(|part| part.grant.to_string()).collect()),
        join(hold.parts.iter().map(|part| part.amount.to_string()).collect()),
    )
}

async fn holds_new(
    connection: &mut PgConnection,
    holds: &BTreeMap<(AccountId, HoldId), &Hold>,
) -> Result<(), StoreError> {
    let keys = holds.keys();
    let column = |pick: fn(&Hold) -> Decimal| holds.values().map(|hold| pick(hold)).collect::<Vec<_>>();
    let texts = |pick: fn(&Hold) -> Option<String>| holds.values().map(|hold| pick(hold)).collect::<Vec<_>>();
    let instants =
        |pick: fn(&Hold) -> DateTime<Utc>| holds.values().map(|hold| pick(hold)).collect::<Vec<_>>();
    let (part_grants, part_amounts): (Vec<String>, Vec<String>) =
        holds.values().map(|hold| part_texts(hold)).unzip();
    sqlx::query!(
        "insert into holds (account_id, id, seq, amount, status, part_grants, part_amounts, placed_at, lifetime_s, renewed_at, expires_at,
            settled, released, reversed, needs_review, ended_by, late_settle, member, job_id, request_ref, model, key_ref)
        select u.account_id, u.id, u.seq, u.amount, u.status, u.part_grants::uuid[], u.part_amounts::numeric[], u.placed_at, u.lifetime_s,
            u.renewed_at, u.expires_at, u.settled, u.released, u.reversed, u.needs_review, u.ended_by, u.late_settle, u.member, u.job_id,
            u.request_ref, u.model, u.key_ref
        from unnest($1::uuid[], $2::uuid[], $3::bigint[], $4::numeric[], $5::smallint[], $6::text[], $7::text[], $8::timestamptz[],
            $9::integer[], $10::timestamptz[], $11::timestamptz[], $12::numeric[], $13::numeric[], $14::numeric[], $15::boolean[],
            $16::bigint[], $17::bigint[], $18::text[], $19::text[], $20::text[], $21::text[], $22::text[])
            as u(account_id, id, seq, amount, status, part_grants, part_amounts, placed_at, lifetime_s, renewed_at, expires_at, settled,
                released, reversed, needs_review, ended_by, late_settle, member, job_id, request_ref, model, key_ref)",
        &keys.clone().map(|(account, _)| account.0).collect::<Vec<_>>(),
        &keys.map(|(_, id)| id.0).collect::<Vec<_>>(),
        &holds.values().map(|hold| hold.seq.0).collect::<Vec<_>>(),
        &column(|hold| hold.amount.decimal()),
        &holds.values().map(|hold| hold_status_code(hold.status)).collect::<Vec<_>>(),
        &part_grants,
        &part_amounts,
        &instants(|hold| hold.placed_at),
        &holds.values().map(|hold| i32::try_from(hold.lifetime_s).unwrap_or(i32::MAX)).collect::<Vec<_>>(),
        &instants(|hold| hold.renewed_at),
        &instants(|hold| hold.expires_at),
        &column(|hold| hold.settled.decimal()),
        &column(|hold| hold.released.decimal()),
        &column(|hold| hold.reversed.decimal()),
        &holds.values().map(|hold| hold.needs_review).collect::<Vec<_>>(),
        &holds.values().map(|hold| hold.ended_by.map(|seq| seq.0)).collect::<Vec<_>>() as &[Option<i64>],
        &holds.values().map(|hold| hold.late_settle.map(|seq| seq.0)).collect::<Vec<_>>() as &[Option<i64>],
        &texts(|hold| hold.call.member.clone()) as &[Option<String>],
        &texts(|hold| hold.call.job_id.clone()) as &[Option<String>],
        &texts(|hold| hold.call.request_ref.clone()) as &[Option<String>],
        &texts(|hold| hold.call.model.clone()) as &[Option<String>],
        &texts(|hold| hold.call.key_ref.clone()) as &[Option<String>]
    )
    .execute(connection)
    .await?;
    Ok(())
}

async fn holds_changed(
    connection: &mut PgConnection,
    holds: &BTreeMap<(AccountId, HoldId), &Hold>,
) -> Result<(), StoreError> {
    let keys = holds.keys();
    let column = |pick: fn(&Hold) -> Decimal| holds.values().map(|hold| pick(hold)).collect::<Vec<_>>();
    sqlx::query!(
        "update holds h set status = u.status, renewed_at = u.renewed_at, expires_at = u.expires_at, settled = u.settled,
            released = u.released, reversed = u.reversed, needs_review = u.needs_review, ended_by = u.ended_by, late_settle = u.late_settle
        from unnest($1::uuid[], $2::uuid[], $3::smallint[], $4::timestamptz[], $5::timestamptz[], $6::numeric[], $7::numeric[],
            $8::numeric[], $9::boolean[], $10::bigint[], $11::bigint[])
            as u(account_id, id, status, renewed_at, expires_at, settled, released, reversed, needs_review, ended_by, late_settle)
        where h.account_id = u.account_id and h.id = u.id",
        &keys.clone().map(|(account, _)| account.0).collect::<Vec<_>>(),
        &keys.map(|(_, id)| id.0).collect::<Vec<_>>(),
        &holds.values().map(|hold| hold_status_code(hold.status)).collect::<Vec<_>>(),
        &holds.values().map(|hold| hold.renewed_at).collect::<Vec<_>>(),
        &holds.values().map(|hold| hold.expires_at).collect::<Vec<_>>(),
        &column(|hold| hold.settled.decimal()),
        &column(|hold| hold.released.decimal()),
        &column(|hold| hold.reversed.decimal()),
        &holds.values().map(|hold| hold.needs_review).collect::<Vec<_>>(),
        &holds.values().map(|hold| hold.ended_by.map(|seq| seq.0)).collect::<Vec<_>>() as &[Option<i64>],
        &holds.values().map(|hold| hold.late_settle.map(|seq| seq.0)).collect::<Vec<_>>() as &[Option<i64>]
    )
    .execute(connection)
    .await?;
    Ok(())
}

async fn words(connection: &mut PgConnection, outcome: &Outcome<'_>) -> Result<(), StoreError> {
    let entries = outcome.sets.iter().flat_map(|set| &set.entries);
    let salted: Vec<(&Entry, &[u8; 16])> = entries
        .filter_map(|entry| outcome.salts.get(&(entry.account, entry.seq)).map(|salt| (entry, salt)))
        .collect();
    sqlx::query!(
        "insert into entry_words (account_id, seq, reason, metadata, salt)
        select a, s, r, m::json, salt from unnest($1::uuid[], $2::bigint[], $3::text[], $4::text[], $5::bytea[]) as w(a, s, r, m, salt)",
        &salted.iter().map(|(entry, _)| entry.account.0).collect::<Vec<_>>(),
        &salted.iter().map(|(entry, _)| entry.seq.0).collect::<Vec<_>>(),
        &salted.iter().map(|(entry, _)| entry.words.reason.clone()).collect::<Vec<_>>() as &[Option<String>],
        &salted.iter().map(|(entry, _)| chain::metadata_text(&entry.words)).collect::<Vec<_>>() as &[Option<String>],
        &salted.iter().map(|(_, salt)| salt.to_vec()).collect::<Vec<_>>()
    )
    .execute(connection)
    .await?;
    Ok(())
}

async fn addresses(
    connection: &mut PgConnection,
    addresses: &[(AccountId, Seq, &str)],
) -> Result<(), StoreError> {
    sqlx::query!(
        "insert into entry_addresses (account_id, seq, address, recorded_at)
        select a, s, t, ledger_now() from unnest($1::uuid[], $2::bigint[], $3::text[]) as w(a, s, t)",
        &addresses.iter().map(|(account, _, _)| account.0).collect::<Vec<_>>(),
        &addresses.iter().map(|(_, seq, _)| seq.0).collect::<Vec<_>>(),
        &addresses.iter().map(|(_, _, address)| (*address).to_owned()).collect::<Vec<_>>()
    )
    .execute(connection)
    .await?;
    Ok(())
}

async fn profiles(connection: &mut PgConnection, profiles: &[Profile<'_>]) -> Result<(), StoreError> {
    let texts = |pick: fn(&Profile<'_>) -> Option<String>| profiles.iter().map(pick).collect::<Vec<_>>();
    sqlx::query!(
        "insert into account_profiles (account_id, name, email, metadata)
        select a, n, e, coalesce(m, '{}')::jsonb from unnest($1::uuid[], $2::text[], $3::text[], $4::text[]) as p(a, n, e, m)",
        &profiles.iter().map(|profile| profile.account.0).collect::<Vec<_>>(),
        &texts(|profile| profile.name.map(str::to_owned)) as &[Option<String>],
        &texts(|profile| profile.email.map(str::to_owned)) as &[Option<String>],
        &texts(|profile| profile.metadata.clone()) as &[Option<String>]
    )
    .execute(connection)
    .await?;
    Ok(())
}

/// The number, entry and payload of a signal.
fn signal_row(signal: &Signal) -> (i16, Seq, Value) {
    match signal {
        Signal::BelowZero { seq } => (1, *seq, json!({})),
        Signal::AboveZero { seq } => (2, *seq, json!({})),
        Signal::GrantMade { seq, grant } => (3, *seq, json!({"grant": grant})),
        Signal::LateSettle { seq, hold } => (4, *seq, json!({"hold": hold})),
        Signal::Lapsed { seq, grant, amount } => (5, *seq, json!({"grant": grant, "amount": amount})),
        Signal::ThresholdCrossed { seq, threshold, available } => {
            (6, *seq, json!({"threshold": threshold, "available": available}))
        }
    }
}

async fn signals(connection: &mut PgConnection, signals: &[(AccountId, &Signal)]) -> Result<(), StoreError> {
    let rows: Vec<(AccountId, (i16, Seq, Value))> =
        signals.iter().map(|(account, signal)| (*account, signal_row(signal))).collect();
    sqlx::query!(
        "insert into outbox (account_id, seq, signal, payload)
        select * from unnest($1::uuid[], $2::bigint[], $3::smallint[], $4::jsonb[])",
        &rows.iter().map(|(account, _)| account.0).collect::<Vec<_>>(),
        &rows.iter().map(|(_, (_, seq, _))| seq.0).collect::<Vec<_>>(),
        &rows.iter().map(|(_, (signal, _, _))| *signal).collect::<Vec<_>>(),
        &rows.iter().map(|(_, (_, _, payload))| payload.clone()).collect::<Vec<_>>()
    )
    .execute(connection)
    .await?;
    Ok(())
}
