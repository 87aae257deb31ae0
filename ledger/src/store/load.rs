//! Step 3 of a round: what its commands need to know, read after the locks are held.

use std::collections::{BTreeMap, BTreeSet};

use chrono::{DateTime, Utc};
use sqlx::PgConnection;
use uuid::Uuid;

use super::StoreError;
use super::accounts::{keyed_grant, keyed_hold};
use super::quota::{self, Counting};
use super::rows::{self, GrantRow, HoldRow, LineRow, entry_rows, grant_rows, hold_rows, inconsistent};
use crate::command::{JobKind, KeyName};
use crate::credits::Credits;
use crate::decide::{DebtPayment, JobEntry, Needs, Original, State};
use crate::entry::{DebtMark, Entry, EntrySet, Kind, NoteKind};
use crate::ids::{AccountId, GrantId, HoldId, Seq};

pub(crate) type States = BTreeMap<AccountId, State>;

/// Fills the states of the locked accounts with all else that `needs` names, and answers whether something was counted that is
/// worth keeping though nothing is decided.
pub(crate) async fn facts(
    connection: &mut PgConnection,
    states: &mut States,
    needs: &BTreeMap<AccountId, Needs>,
    now: DateTime<Utc>,
) -> Result<Counting, StoreError> {
    let mut counting = Counting::AsBefore;
    holds(connection, states, needs).await?;
    let named = |pick: fn(&Needs) -> bool| needs.values().any(pick);
    if named(|needs| !needs.jobs.is_empty()) {
        jobs(connection, states, needs).await?;
    }
    if named(|needs| {
        !needs.entries.is_empty() || !needs.clawbacks_of.is_empty() || !needs.refund_jobs.is_empty()
    }) {
        originals(connection, states, needs).await?;
    }
    if named(|needs| !needs.voids_of.is_empty()) {
        voids(connection, states, needs).await?;
    }
    if named(|needs| !needs.subjects.is_empty()) {
        counting = quota::load(connection, states, needs, now).await?;
    }
    if named(|needs| needs.rolling) {
        rolling_grants(connection, states, needs, now).await?;
    }
    named_grants(connection, states, needs).await?;
    Ok(counting)
}

fn state(states: &mut States, account: Uuid) -> Result<&mut State, StoreError> {
    states
        .get_mut(&AccountId(account))
        .ok_or_else(|| inconsistent("accounts", account, "was not locked".to_owned()))
}

/// Two columns of pairs (account, name) for `unnest`.
fn pairs<'a, T: Copy + 'a, N>(
    needs: &'a BTreeMap<AccountId, Needs>,
    names: impl Fn(&'a Needs) -> &'a BTreeSet<T>,
    name: impl Fn(T) -> N,
) -> (Vec<Uuid>, Vec<N>) {
    needs.iter().flat_map(|(account, needs)| names(needs).iter().map(|each| (account.0, name(*each)))).unzip()
}

/// Which of the idempotency keys that commands on these accounts bring are taken.
pub(crate) async fn keys(
    connection: &mut PgConnection,
    states: &mut States,
    needs: &BTreeMap<AccountId, Needs>,
) -> Result<(), StoreError> {
    let names: Vec<(AccountId, KeyName)> = needs
        .iter()
        .filter(|(account, _)| states.contains_key(account))
        .flat_map(|(account, needs)| needs.keys.iter().map(|key| (*account, *key)))
        .collect();
    let accounts: Vec<Uuid> = names.iter().map(|(account, _)| account.0).collect();
    let origins: Vec<i16> = names.iter().map(|(_, (origin, _))| origin.code()).collect();
    let digests: Vec<&[u8]> = names.iter().map(|(_, (_, key))| key.as_slice()).collect();
    let rows = sqlx::query!(
        r#"select e.account_id, e.seq, e.origin as "origin!", e.key as "key!", e.content as "content!"
        from unnest($1::uuid[], $2::smallint[], $3::bytea[]) as wanted(a, o, k)
        join entries e on e.account_id = wanted.a and e.origin = wanted.o and e.key = wanted.k"#,
        &accounts,
        &origins,
        &digests as _
    )
    .fetch_all(connection)
    .await?;
    for row in rows {
        let (_, name, used) = rows::key_use(row.account_id, row.seq, row.origin, row.key, row.content)?;
        state(states, row.account_id)?.keys.insert(name, used);
    }
    Ok(())
}

fn keep_grants(states: &mut States, rows: Vec<GrantRow>) -> Result<(), StoreError> {
    for row in rows {
        let account = row.account_id;
        state(states, account)?.grants.extend([keyed_grant(row)?]);
    }
    Ok(())
}

/// Holds that commands name, as far as they are not open.
async fn holds(
    connection: &mut PgConnection,
    states: &mut States,
    needs: &BTreeMap<AccountId, Needs>,
) -> Result<(), StoreError> {
    let named: BTreeSet<(AccountId, HoldId)> = needs
        .iter()
        .flat_map(|(account, needs)| needs.holds.iter().map(|hold| (*account, *hold)))
        .filter(|(account, hold)| states.get(account).is_some_and(|state| !state.holds.contains_key(hold)))
        .collect();
    named_holds(connection, states, &named).await
}

async fn named_holds(
    connection: &mut PgConnection,
    states: &mut States,
    named: &BTreeSet<(AccountId, HoldId)>,
) -> Result<(), StoreError> {
    if named.is_empty() {
        return Ok(());
    }
    let (accounts, ids): (Vec<Uuid>, Vec<Uuid>) =
        named.iter().map(|(account, hold)| (account.0, hold.0)).unzip();
    let rows = hold_rows!(
        "from unnest($1::uuid[], $2::uuid[]) as wanted(a, h)
        join holds h on h.account_id = wanted.a and h.id = wanted.h",
        &accounts,
        &ids
    )
    .fetch_all(connection)
    .await?;
    keep_holds(states, rows)
}

fn keep_holds(states: &mut States, rows: Vec<HoldRow>) -> Result<(), StoreError> {
    for row in rows {
        let account = row.account_id;
        state(states, account)?.holds.extend([keyed_hold(row)?]);
    }
    Ok(())
}

/// The entries of the named jobs, and the holds that stand for their charge.
async fn jobs(
    connection: &mut PgConnection,
    states: &mut States,
    needs: &BTreeMap<AccountId, Needs>,
) -> Result<(), StoreError> {
    let (accounts, names): (Vec<Uuid>, Vec<String>) = needs
        .iter()
        .flat_map(|(account, needs)| needs.jobs.iter().map(|job| (account.0, job.clone())))
        .unzip();
    let rows = sqlx::query!(
        r#"select e.account_id, e.seq, e.kind, e.note, e.job_id as "job_id!", e.hold_id, e.recorded_at, e.actor_kind, e.is_main,
            coalesce((e.answer->>'job_refund')::boolean, false) as "job_refund!"
        from unnest($1::uuid[], $2::text[]) as wanted(a, j)
        join entries e on e.account_id = wanted.a and e.job_id = wanted.j
        where e.is_main
        order by e.account_id, e.seq"#,
        &accounts,
        &names
    )
    .fetch_all(&mut *connection)
    .await?;
    let mut held = BTreeSet::new();
    for row in rows {
        let bad =
            |what: &str| inconsistent("entries", row.account_id, format!("{what} of entry {}", row.seq));
        let kind = Kind::from_code(row.kind).ok_or_else(|| bad("kind"))?;
        let note = row.note.map(|code| NoteKind::from_code(code).ok_or_else(|| bad("note"))).transpose()?;
        let Some(job_kind) = job_kind(kind, note, row.job_refund) else { continue };
        let hold = (kind == Kind::AuthHold).then_some(row.hold_id).flatten().map(HoldId);
        held.extend(hold.map(|hold| (AccountId(row.account_id), hold)));
        let entry = JobEntry { seq: Seq(row.seq), hold, recorded_at: row.recorded_at };
        state(states, row.account_id)?.jobs.insert((row.job_id, job_kind), entry);
    }
    held.retain(|(account, hold)| states.get(account).is_some_and(|state| !state.holds.contains_key(hold)));
    named_holds(connection, states, &held).await
}

/// What of a job an entry is, if anything.
fn job_kind(kind: Kind, note: Option<NoteKind>, job_refund: bool) -> Option<JobKind> {
    match (kind, note) {
        (Kind::Consume | Kind::AuthHold, _) => Some(JobKind::Charge),
        (_, Some(NoteKind::JobStarted)) => Some(JobKind::Started),
        (_, Some(NoteKind::JobCompleted)) => Some(JobKind::Completed),
        (_, Some(NoteKind::JobFailed)) => Some(JobKind::Failed),
        _ => job_refund.then_some(JobKind::Refund),
    }
}

/// Entries to be given back, with what came back of each part so far, and who paid debt.
async fn originals(
    connection: &mut PgConnection,
    states: &mut States,
    needs: &BTreeMap<AccountId, Needs>,
) -> Result<(), StoreError> {
    let mut wanted: BTreeSet<(AccountId, Seq)> =
        needs.iter().flat_map(|(account, needs)| needs.entries.iter().map(|seq| (*account, *seq))).collect();
    wanted.extend(job_charges(connection, states, needs).await?);
    let clawbacks = clawbacks(connection, needs).await?;
    wanted.extend(clawbacks.iter().map(|(account, _, seq)| (*account, *seq)));
    let entries = entries(connection, &wanted).await?;
    let mut given_back = given_back(connection, &wanted).await?;
    for entry in entries {
        let (account, seq) = (entry.account, entry.seq);
        let parts = entry.debit_lines().count();
        let mut back = given_back.remove(&(account, seq)).unwrap_or_default();
        back.resize(parts, Credits::ZERO);
        let original = Original { entry, given_back: back };
        let state = state(states, account.0)?;
        for (_, grant, _) in clawbacks.iter().filter(|(of, _, claw)| *of == account && *claw == seq) {
            state.clawbacks.entry(*grant).or_default().push(original.clone());
        }
        state.originals.insert(seq, original);
    }
    debt_payments(connection, states).await
}

/// The charge or settle of each job that is to be refunded.
async fn job_charges(
    connection: &mut PgConnection,
    states: &mut States,
    needs: &BTreeMap<AccountId, Needs>,
) -> Result<Vec<(AccountId, Seq)>, StoreError> {
    let (accounts, names): (Vec<Uuid>, Vec<String>) = needs
        .iter()
        .flat_map(|(account, needs)| needs.refund_jobs.iter().map(|job| (account.0, job.clone())))
        .unzip();
    if accounts.is_empty() {
        return Ok(Vec::new());
    }
    let rows = sqlx::query!(
        "select e.account_id, e.seq from unnest($1::uuid[], $2::text[]) as wanted(a, j)
        join entries e on e.account_id = wanted.a and e.job_id = wanted.j
        where e.kind in (2, 4)",
        &accounts,
        &names
    )
    .fetch_all(connection)
    .await?;
    let charges = rows.into_iter().map(|row| (AccountId(row.account_id), Seq(row.seq)));
    Ok(charges.filter(|(account, _)| states.contains_key(account)).collect())
}

/// The clawbacks of the named grants, oldest first. A CLAWBACK stores its grant in its answer.
async fn clawbacks(
    connection: &mut PgConnection,
    needs: &BTreeMap<AccountId, Needs>,
) -> Result<Vec<(AccountId, GrantId, Seq)>, StoreError> {
    let (accounts, grants) = pairs(needs, |needs| &needs.clawbacks_of, |grant: GrantId| grant.0);
    if accounts.is_empty() {
        return Ok(Vec::new());
    }
    let rows = sqlx::query!(
        r#"select e.account_id, e.seq, wanted.g as "grant_id!" from unnest($1::uuid[], $2::uuid[]) as wanted(a, g)
        join entries e on e.account_id = wanted.a and e.kind = 8 and e.answer->'grant'->>'id' = wanted.g::text
        order by e.account_id, e.seq"#,
        &accounts,
        &grants
    )
    .fetch_all(connection)
    .await?;
    Ok(rows.into_iter().map(|row| (AccountId(row.account_id), GrantId(row.grant_id), Seq(row.seq))).collect())
}

/// Entries with their lines and words, by account and number.
pub(crate) async fn entries(
    connection: &mut PgConnection,
    wanted: &BTreeSet<(AccountId, Seq)>,
) -> Result<Vec<Entry>, StoreError> {
    let (accounts, seqs): (Vec<Uuid>, Vec<i64>) =
        wanted.iter().map(|(account, seq)| (account.0, seq.0)).unzip();
    let rows = entry_rows!(
        "from unnest($1::uuid[], $2::bigint[]) as wanted(a, s)
        join entries e on e.account_id = wanted.a and e.seq = wanted.s
        left join entry_words w on w.account_id = e.account_id and w.seq = e.seq
        order by e.account_id, e.seq",
        &accounts,
        &seqs
    )
    .fetch_all(&mut *connection)
    .await?;
    let entries = rows.into_iter().map(rows::EntryRow::entry).collect::<Result<Vec<_>, _>>()?;
    with_lines(connection, entries).await
}

/// Reads the lines of entries that are in the order of account and number.
pub(crate) async fn with_lines(
    connection: &mut PgConnection,
    mut entries: Vec<Entry>,
) -> Result<Vec<Entry>, StoreError> {
    let (accounts, seqs): (Vec<Uuid>, Vec<i64>) =
        entries.iter().map(|entry| (entry.account.0, entry.seq.0)).unzip();
    let rows = sqlx::query_as!(
        LineRow,
        r#"select l.account_id, l.seq, l.ledger_account, l.direction, l.amount as "amount: _", l.grant_id, l.debt_mark, l.balance_after as "balance_after: _"
        from unnest($1::uuid[], $2::bigint[]) as wanted(a, s)
        join lines l on l.account_id = wanted.a and l.seq = wanted.s
        order by l.account_id, l.seq, l.position"#,
        &accounts,
        &seqs
    )
    .fetch_all(connection)
    .await?;
    let places: BTreeMap<(Uuid, i64), usize> =
        entries.iter().enumerate().map(|(place, entry)| ((entry.account.0, entry.seq.0), place)).collect();
    for row in rows {
        let place = places.get(&(row.account_id, row.seq)).copied();
        if let Some(entry) = place.and_then(|place| entries.get_mut(place)) {
            entry.lines.push(row.line()?);
        }
    }
    Ok(entries)
}

/// What earlier refunds and restores gave back of each part of the wanted entries.
async fn given_back(
    connection: &mut PgConnection,
    wanted: &BTreeSet<(AccountId, Seq)>,
) -> Result<BTreeMap<(AccountId, Seq), Vec<Credits>>, StoreError> {
    let (accounts, seqs): (Vec<Uuid>, Vec<i64>) =
        wanted.iter().map(|(account, seq)| (account.0, seq.0)).unzip();
    let rows = sqlx::query!(
        r#"select e.account_id, e.reverses as "reverses!", e.answer->'spread' as spread
        from unnest($1::uuid[], $2::bigint[]) as wanted(a, s)
        join entries e on e.account_id = wanted.a and e.reverses = wanted.s
        where e.kind in (7, 9)
        order by e.account_id, e.seq"#,
        &accounts,
        &seqs
    )
    .fetch_all(connection)
    .await?;
    let mut sums: BTreeMap<(AccountId, Seq), Vec<Credits>> = BTreeMap::new();
    for row in rows {
        let bad = || {
            inconsistent("entries", row.account_id, format!("what was given back of entry {}", row.reverses))
        };
        let spread: Vec<Credits> =
            serde_json::from_value(row.spread.unwrap_or_default()).map_err(|_| bad())?;
        let sum = sums.entry((AccountId(row.account_id), Seq(row.reverses))).or_default();
        sum.resize(spread.len().max(sum.len()), Credits::ZERO);
        for (total, part) in sum.iter_mut().zip(spread) {
            *total = total.plus(part).map_err(|_| bad())?;
        }
    }
    Ok(sums)
}

/// The lines that paid debt out of a grant that has not got all of it back: whoever may be given back for debt. Asked
/// only where a loaded original made debt.
async fn debt_payments(connection: &mut PgConnection, states: &mut States) -> Result<(), StoreError> {
    let makes_debt =
        |original: &Original| original.entry.lines.iter().any(|line| line.debt == DebtMark::Makes);
    let accounts: Vec<Uuid> = states
        .values()
        .filter(|state| state.originals.values().any(makes_debt))
        .map(|state| state.account.0)
        .collect();
    if accounts.is_empty() {
        return Ok(());
    }
    let rows = sqlx::query!(
        r#"select l.account_id, l.seq, l.grant_id as "grant_id!", l.amount
        from lines l join grants g on g.account_id = l.account_id and g.id = l.grant_id
        where l.account_id = any($1) and l.debt_mark = 2 and l.grant_id is not null and g.paid_to_debt > g.given_back_for_debt
        order by l.account_id, l.seq, l.position"#,
        &accounts
    )
    .fetch_all(connection)
    .await?;
    for row in rows {
        let amount = rows::credits("lines", row.account_id, row.amount)?;
        let payment = DebtPayment { seq: Seq(row.seq), grant: GrantId(row.grant_id), amount };
        state(states, row.account_id)?.debt_payments.push(payment);
    }
    Ok(())
}

async fn voids(
    connection: &mut PgConnection,
    states: &mut States,
    needs: &BTreeMap<AccountId, Needs>,
) -> Result<(), StoreError> {
    let (accounts, grants) = pairs(needs, |needs| &needs.voids_of, |grant: GrantId| grant.0);
    let rows = sqlx::query!(
        r#"select e.account_id, e.seq, wanted.g as "grant_id!" from unnest($1::uuid[], $2::uuid[]) as wanted(a, g)
        join entries e on e.account_id = wanted.a and e.kind = 11 and e.answer->'grant'->>'id' = wanted.g::text"#,
        &accounts,
        &grants
    )
    .fetch_all(connection)
    .await?;
    for row in rows {
        state(states, row.account_id)?.voids.insert(GrantId(row.grant_id), Seq(row.seq));
    }
    Ok(())
}

/// Spent grants too have an end that moves with a rolling top-up: their usage may come back.
async fn rolling_grants(
    connection: &mut PgConnection,
    states: &mut States,
    needs: &BTreeMap<AccountId, Needs>,
    now: DateTime<Utc>,
) -> Result<(), StoreError> {
    let accounts: Vec<Uuid> =
        needs.iter().filter(|(_, needs)| needs.rolling).map(|(account, _)| account.0).collect();
    let rows = grant_rows!(
        "from grants g where g.account_id = any($1) and g.rolling and not g.open and g.voided_at is null and g.expires_at > $2",
        &accounts,
        now
    )
    .fetch_all(connection)
    .await?;
    keep_grants(states, rows)
}

/// Grants that commands name or that what they undo touched, as far as they are not loaded yet.
async fn named_grants(
    connection: &mut PgConnection,
    states: &mut States,
    needs: &BTreeMap<AccountId, Needs>,
) -> Result<(), StoreError> {
    let mut wanted: BTreeSet<(AccountId, GrantId)> = needs
        .iter()
        .flat_map(|(account, needs)| needs.grants.iter().map(|grant| (*account, *grant)))
        .collect();
    for (account, state) in states.iter() {
        let of_originals = state
            .originals
            .values()
            .flat_map(|original| original.entry.lines.iter().filter_map(|line| line.grant));
        let of_payments = state.debt_payments.iter().map(|payment| payment.grant);
        // Parts of a hold that has ended keep no grant open; its late settle does not touch them.
        wanted.extend(of_originals.chain(of_payments).map(|grant| (*account, grant)));
    }
    wanted.retain(|(account, grant)| {
        states.get(account).is_some_and(|state| !state.grants.contains_key(grant))
    });
    if wanted.is_empty() {
        return Ok(());
    }
    let (accounts, ids): (Vec<Uuid>, Vec<Uuid>) =
        wanted.iter().map(|(account, grant)| (account.0, grant.0)).unzip();
    let rows = grant_rows!(
        "from unnest($1::uuid[], $2::uuid[]) as wanted(a, g)
        join grants g on g.account_id = wanted.a and g.id = wanted.g",
        &accounts,
        &ids
    )
    .fetch_all(connection)
    .await?;
    keep_grants(states, rows)
}

/// The whole sets of the given main entries, for replays.
pub(crate) async fn sets(
    connection: &mut PgConnection,
    mains: &BTreeSet<(AccountId, Seq)>,
) -> Result<BTreeMap<(AccountId, Seq), EntrySet>, StoreError> {
    let (accounts, seqs): (Vec<Uuid>, Vec<i64>) =
        mains.iter().map(|(account, seq)| (account.0, seq.0)).unzip();
    let rows = entry_rows!(
        "from unnest($1::uuid[], $2::bigint[]) as wanted(a, s)
        join entries main on main.account_id = wanted.a and main.seq = wanted.s
        join entries e on e.account_id = main.account_id and e.seq >= main.set_seq and e.seq < main.set_seq + main.set_length
        left join entry_words w on w.account_id = e.account_id and w.seq = e.seq
        order by e.account_id, e.seq",
        &accounts,
        &seqs
    )
    .fetch_all(&mut *connection)
    .await?;
    let entries = rows.into_iter().map(rows::EntryRow::entry).collect::<Result<Vec<_>, _>>()?;
    let mut sets: BTreeMap<(AccountId, Seq), EntrySet> = BTreeMap::new();
    for entry in with_lines(connection, entries).await? {
        sets.entry((entry.account, entry.set_seq))
            .or_insert_with(|| EntrySet { entries: Vec::new() })
            .entries
            .push(entry);
    }
    let by_main = sets
        .into_values()
        .filter_map(|set| set.main().map(|main| (main.account, main.seq)).map(|key| (key, set)));
    Ok(by_main.collect())
}
