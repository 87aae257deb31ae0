//! Step 5 of a round: all that its decisions changed, over arrays of the types in [`super::inputs`].
//!
//! Entries, lines, heads and changed grants go in one statement, as the guards of the journal ask; new grants, holds,
//! words and signals follow in statements of their own where there are some.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use sqlx::PgConnection;

use super::StoreError;
use super::inputs::{
    EntryInput, GrantChangeInput, GrantInput, HeadInput, HoldChangeInput, HoldInput, LineInput,
};
use crate::account::{AccountStatus, Head};
use crate::chain;
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

/// The one statement that writes the journal.
async fn journal(connection: &mut PgConnection, outcome: &Outcome<'_>) -> Result<(), StoreError> {
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
    sqlx::query!(
        r#"with new_entries as (
            insert into entries (account_id, seq, kind, note, set_seq, set_length, is_main, line_count, amount, moved, available_after,
                held_after, debt_after, amount_total, moved_total, occurred_at, recorded_at, effective_at, actor_kind, actor_id,
                actor_role, origin, key, content, member, job_id, request_ref, model, key_ref, hold_id, reverses, use_at, use_amount,
                answer, words_digest, hash)
            select * from unnest($1::entry_input[])
        ), new_lines as (
            insert into lines (account_id, seq, position, ledger_account, direction, amount, grant_id, debt_mark, balance_after)
            select * from unnest($2::line_input[])
        ), changed_grants as (
            update grants g set remaining = u.remaining, reserved = u.reserved, open = u.remaining > 0 or u.reserved > 0,
                expires_at = u.expires_at, voided_at = u.voided_at, lapsed = u.lapsed, lapse_taken = u.lapse_taken,
                clawed_back = u.clawed_back, restored = u.restored, paid_to_debt = u.paid_to_debt,
                given_back_for_debt = u.given_back_for_debt
            from unnest($3::grant_change_input[]) as u
            -- Whichever index the plan takes, id's or seq's, it finds one row.
            where g.account_id = u.account_id and g.id = u.id and g.seq = u.seq
        )
        update accounts a set status = u.status, policy = u.policy,
            erased_at = case when u.erased then coalesce(a.erased_at, u.recorded_at) else a.erased_at end,
            seq = u.seq, hash = u.hash, available = u.available, held = u.held, debt = u.debt, written_off = u.written_off,
            recorded_at = u.recorded_at, effective_at = u.effective_at, totals = u.totals
        from unnest($4::head_input[]) as u
        where a.id = u.id"#,
        &entries as _,
        &lines as _,
        &grants as _,
        &heads as _
    )
    .execute(connection)
    .await?;
    Ok(())
}

async fn grants_new(
    connection: &mut PgConnection,
    grants: &BTreeMap<(AccountId, GrantId), &Grant>,
) -> Result<(), StoreError> {
    let grants: Vec<GrantInput<'_>> =
        grants.iter().map(|((account, _), grant)| GrantInput::of(*account, grant)).collect();
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

async fn holds_new(
    connection: &mut PgConnection,
    holds: &BTreeMap<(AccountId, HoldId), &Hold>,
) -> Result<(), StoreError> {
    let holds: Vec<HoldInput<'_>> =
        holds.iter().map(|((account, _), hold)| HoldInput::of(*account, hold)).collect();
    sqlx::query!(
        "insert into holds (account_id, id, seq, amount, status, part_grants, part_amounts, placed_at, lifetime_s, renewed_at, expires_at,
            settled, released, reversed, needs_review, ended_by, late_settle, member, job_id, request_ref, model, key_ref)
        select * from unnest($1::hold_input[])",
        &holds as _
    )
    .execute(connection)
    .await?;
    Ok(())
}

async fn holds_changed(
    connection: &mut PgConnection,
    holds: &BTreeMap<(AccountId, HoldId), &Hold>,
) -> Result<(), StoreError> {
    let holds: Vec<HoldChangeInput> =
        holds.iter().map(|((account, _), hold)| HoldChangeInput::of(*account, hold)).collect();
    sqlx::query!(
        "update holds h set status = u.status, renewed_at = u.renewed_at, expires_at = u.expires_at, settled = u.settled,
            released = u.released, reversed = u.reversed, needs_review = u.needs_review, ended_by = u.ended_by, late_settle = u.late_settle
        from unnest($1::hold_change_input[]) as u
        where h.account_id = u.account_id and h.id = u.id",
        &holds as _
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
