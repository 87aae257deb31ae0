//! Step 5 of a round: all that its decisions changed, over arrays of the types in [`super::inputs`].
//!
//! Entries, lines, heads, changed grants and holds go in one statement, as the guards of the journal ask; new grants, words
//! and signals follow in statements of their own where there are some.

use std::collections::BTreeMap;

use chrono::{DateTime, Utc};
use serde_json::{Value, json};
use sqlx::PgConnection;
use uuid::Uuid;

use super::StoreError;
use super::accounts::Heard;
use super::inputs::{EntryInput, GrantChangeInput, HeadInput, LineInput};
use super::rows::{GrantRow, HoldRow, subject_parts};
use crate::account::{AccountStatus, Head};
use crate::chain;
use crate::decide::Signal;
use crate::entry::{Entry, EntrySet};
use crate::grant::Grant;
use crate::hold::Hold;
use crate::ids::{AccountId, GrantId, HoldId, Seq};
use crate::quota::Subject;

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
    /// Its last entry before the round.
    pub before: Seq,
    pub head: &'a Head,
    pub status: AccountStatus,
    pub policy: &'a str,
    pub erased: bool,
}

/// What must be so for a round to be written, besides that its accounts are as they were and its idempotency keys free. A
/// round that was decided under its locks asks for nothing.
#[derive(Default)]
pub(crate) struct Gate<'a> {
    /// Policies that have not changed.
    policies: Vec<&'a str>,
    updated_at: Vec<DateTime<Utc>>,
    /// Subjects without quotas.
    unbound: Vec<Uuid>,
    subject_kinds: Vec<i16>,
    subjects: Vec<String>,
    /// The clock is the database's own, and still near the instant of the decision.
    asks_for_clock: bool,
    decided_at: DateTime<Utc>,
}

impl<'a> Gate<'a> {
    pub(crate) fn open() -> Gate<'a> {
        Gate::default()
    }

    /// For a round that was decided on what a lane remembers.
    pub(crate) fn on_memory(
        policies: impl Iterator<Item = (&'a str, DateTime<Utc>)>,
        unbound: impl Iterator<Item = (AccountId, Subject)>,
        decided_at: DateTime<Utc>,
    ) -> Gate<'a> {
        let mut gate = Gate { asks_for_clock: true, decided_at, ..Gate::default() };
        (gate.policies, gate.updated_at) = policies.unzip();
        for (account, subject) in unbound {
            let (kind, name) = subject_parts(&subject);
            gate.unbound.push(account.0);
            gate.subject_kinds.push(kind);
            gate.subjects.push(name.to_owned());
        }
        gate
    }
}

/// What the database said to a round.
pub(crate) struct Written {
    /// False: nothing was written, because something the round asked for is not so.
    pub is_written: bool,
    now: DateTime<Utc>,
}

impl Written {
    /// What the clock said. A round that asked for the database's own was not written under another.
    pub(crate) fn clock(&self) -> Heard {
        Heard { now: self.now, is_test_clock: false }
    }
}

/// Writes a round within its open transaction, or, where [`Outcome::is_journal_alone`], in a transaction of its own.
pub(crate) async fn write(
    connection: &mut PgConnection,
    outcome: &Outcome<'_>,
    gate: &Gate<'_>,
) -> Result<Written, StoreError> {
    let written = journal(connection, outcome, gate).await?;
    if !written.is_written {
        return Ok(written);
    }
    if !outcome.grants_new.is_empty() {
        grants_new(connection, &outcome.grants_new).await?;
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
    Ok(written)
}

impl Outcome<'_> {
    /// Whether one statement writes all of it.
    pub(crate) fn is_journal_alone(&self) -> bool {
        self.grants_new.is_empty()
            && self.salts.is_empty()
            && self.addresses.is_empty()
            && self.profiles.is_empty()
            && self.signals.is_empty()
    }
}

/// The statement of [`journal`] with more of what it writes, and the values for that.
macro_rules! journal_statement {
    ($more:literal, $entries:expr, $lines:expr, $grants:expr, $heads:expr, $gate:expr $(, $argument:expr)*) => {
        sqlx::query!(
            r#"with clock as materialized (
                select t.now as test_now, clock_timestamp() as machine_now from (select 1) as one left join test_clock t on true
            ), gate as materialized (
                select not exists (
                        select from unnest($5::text[], $6::timestamptz[]) as known(name, updated_at)
                        join policies p on p.name = known.name and p.updated_at <> known.updated_at
                    )
                    and not exists (
                        select from unnest($7::uuid[], $8::smallint[], $9::text[]) as asked(a, k, s)
                        join quotas q on q.account_id = asked.a and q.subject_kind = asked.k and q.subject = asked.s
                    )
                    -- A statement that was held up on its way must not write what was right then.
                    and (not $10 or c.test_now is null
                        and c.machine_now between $11::timestamptz - interval '1 second' and $11::timestamptz + interval '2 seconds')
                    as is_open, coalesce(c.test_now, c.machine_now) as now
                from clock c
            ), changed_accounts as (
                update accounts a set status = u.status, policy = u.policy,
                    erased_at = case when u.erased then coalesce(a.erased_at, u.recorded_at) else a.erased_at end,
                    seq = u.seq, hash = u.hash, available = u.available, held = u.held, debt = u.debt, written_off = u.written_off,
                    recorded_at = u.recorded_at, effective_at = u.effective_at, totals = u.totals
                from unnest($4::head_change_input[]) as u
                where (select g.is_open from gate g) and a.id = u.id and a.seq = u.seq_before
                returning a.id
            ), whole as materialized (
                select case when g.is_open then require_accounts((select count(*) from changed_accounts), cardinality($4)) else false end as is_open,
                    g.now
                from gate g
            ), new_entries as (
                insert into entries (account_id, seq, kind, note, set_seq, set_length, is_main, line_count, amount, moved, available_after,
                    held_after, debt_after, amount_total, moved_total, occurred_at, recorded_at, effective_at, actor_kind, actor_id,
                    actor_role, origin, key, content, member, job_id, request_ref, model, key_ref, hold_id, reverses, use_at, use_amount,
                    answer, words_digest, hash)
                select * from unnest($1::entry_input[]) where (select w.is_open from whole w)
            ), new_lines as (
                insert into lines (account_id, seq, position, ledger_account, direction, amount, grant_id, debt_mark, balance_after)
                select * from unnest($2::line_input[]) where (select w.is_open from whole w)
            ), changed_grants as (
                update grants g set remaining = u.remaining, reserved = u.reserved, open = u.remaining > 0 or u.reserved > 0,
                    expires_at = u.expires_at, voided_at = u.voided_at, lapsed = u.lapsed, lapse_taken = u.lapse_taken,
                    clawed_back = u.clawed_back, restored = u.restored, paid_to_debt = u.paid_to_debt,
                    given_back_for_debt = u.given_back_for_debt
                from unnest($3::grant_change_input[]) as u
                -- Whichever index the plan takes, id's or seq's, it finds one row.
                where (select w.is_open from whole w) and g.account_id = u.account_id and g.id = u.id and g.seq = u.seq
            )"#
                + $more
                + r#" select w.is_open as "is_open!", w.now as "now!" from whole w"#,
            $entries as _,
            $lines as _,
            $grants as _,
            $heads as _,
            &$gate.policies as _,
            &$gate.updated_at,
            &$gate.unbound,
            &$gate.subject_kinds,
            &$gate.subjects,
            $gate.asks_for_clock,
            $gate.decided_at
            $(, $argument as _)*
        )
    };
}

/// The one statement that writes the journal with heads, changed grants and holds, if the gate lets it. The accounts come first: nobody else
/// can write an entry of an account whose row this statement has updated from its remembered entry. Where an account has moved on, or
/// a key is taken, the statement fails, and so nothing of it stands.
async fn journal(
    connection: &mut PgConnection,
    outcome: &Outcome<'_>,
    gate: &Gate<'_>,
) -> Result<Written, StoreError> {
    let mut entries = Vec::with_capacity(outcome.sets.len());
    let mut lines = Vec::with_capacity(outcome.sets.len() * 2);
    for set in &outcome.sets {
        for entry in &set.entries {
            entries.push(EntryInput::of(entry, set.entries.len()));
            lines.extend(entry.lines.iter().zip(1..).map(|(line, place)| LineInput::of(entry, line, place)));
        }
    }
    let grants: Vec<GrantChangeInput> = outcome
        .grants_changed
        .iter()
        .map(|((account, _), grant)| GrantChangeInput::of(*account, grant))
        .collect();
    let heads: Vec<HeadInput<'_>> =
        outcome.heads.iter().map(|(account, after)| HeadInput::of(*account, after)).collect();
    if outcome.holds_new.is_empty() && outcome.holds_changed.is_empty() {
        let row =
            journal_statement!("", &entries, &lines, &grants, &heads, gate).fetch_one(connection).await?;
        return Ok(Written { is_written: row.is_open, now: row.now });
    }
    // Changed ones by the key whatever is thought of the table's size: a join planned while it was empty would go through all of it.
    let row = journal_statement!(
        ", new_holds as (
            insert into holds (account_id, id, seq, amount, status, part_grants, part_amounts, placed_at, lifetime_s, renewed_at,
                expires_at, settled, released, reversed, needs_review, ended_by, late_settle, member, job_id, request_ref, model, key_ref)
            select * from unnest($12::hold_input[]) where (select w.is_open from whole w)
        ), changed_holds as (
            insert into holds as h (account_id, id, seq, amount, status, part_grants, part_amounts, placed_at, lifetime_s, renewed_at,
                expires_at, settled, released, reversed, needs_review, ended_by, late_settle, member, job_id, request_ref, model, key_ref)
            select * from unnest($13::hold_input[]) where (select w.is_open from whole w)
            on conflict (account_id, id) do update set status = excluded.status, renewed_at = excluded.renewed_at,
                expires_at = excluded.expires_at, settled = excluded.settled, released = excluded.released,
                reversed = excluded.reversed, needs_review = excluded.needs_review, ended_by = excluded.ended_by,
                late_settle = excluded.late_settle
        )",
        &entries,
        &lines,
        &grants,
        &heads,
        gate,
        &hold_rows(&outcome.holds_new),
        &hold_rows(&outcome.holds_changed)
    )
    .fetch_one(connection)
    .await?;
    Ok(Written { is_written: row.is_open, now: row.now })
}

fn hold_rows(holds: &BTreeMap<(AccountId, HoldId), &Hold>) -> Vec<HoldRow> {
    holds.iter().map(|((account, _), hold)| HoldRow::of(*account, hold)).collect()
}

async fn grants_new(
    connection: &mut PgConnection,
    grants: &BTreeMap<(AccountId, GrantId), &Grant>,
) -> Result<(), StoreError> {
    let grants: Vec<GrantRow> =
        grants.iter().map(|((account, _), grant)| GrantRow::of(*account, grant)).collect();
    sqlx::query!(
        "insert into grants (account_id, id, seq, pool, amount, remaining, reserved, expires_at, rolling, voided_at, source, granted_at,
            lapsed, lapse_taken, clawed_back, restored, paid_to_debt, given_back_for_debt, open)
        select u.*, u.remaining > 0 or u.reserved > 0 from unnest($1::grant_input[]) as u",
        &grants as _
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
