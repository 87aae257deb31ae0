//! Reads accounts for verify, each as one snapshot.

use std::collections::BTreeSet;

use sqlx::{PgConnection, PgPool};

use super::StoreError;
use super::entries::journal;
use super::quota;
use super::rows::{self, GrantRow, HoldRow, grant_rows, hold_rows};
use crate::account::Head;
use crate::chain;
use crate::credits::Credits;
use crate::entry::Entry;
use crate::grant::Grant;
use crate::hold::Hold;
use crate::ids::{AccountId, Seq};
use crate::verify::{Audit, Particulars, Problem, VerifyReport};

/// Entries read at a time.
const PAGE: i64 = 1_000;

/// What belongs to nobody: journal rows without their account or tombstone, and lines without their entry. At most 100 of
/// each.
pub(crate) async fn strays(pool: &PgPool, report: &mut VerifyReport) -> Result<(), StoreError> {
    let gone = sqlx::query!(
        r#"select distinct e.account_id from entries e
        where not exists (select from accounts a where a.id = e.account_id)
            and not exists (select from purges p where p.account_id = e.account_id)
        limit 100"#
    )
    .fetch_all(pool)
    .await?;
    report.problems.extend(gone.into_iter().map(|row| Problem {
        account: AccountId(row.account_id),
        seq: None,
        what: "has entries and neither an account nor a tombstone".to_owned(),
    }));
    let lines = sqlx::query!(
        r#"select distinct l.account_id, l.seq from lines l
        where not exists (select from entries e where e.account_id = l.account_id and e.seq = l.seq)
        limit 100"#
    )
    .fetch_all(pool)
    .await?;
    report.problems.extend(lines.into_iter().map(|row| Problem {
        account: AccountId(row.account_id),
        seq: Some(Seq(row.seq)),
        what: "has lines and no entry".to_owned(),
    }));
    Ok(())
}

/// Verifies one account and adds what it found to the report.
pub(crate) async fn account(
    pool: &PgPool,
    account: AccountId,
    report: &mut VerifyReport,
) -> Result<(), StoreError> {
    let mut transaction = pool.begin_with("begin isolation level repeatable read read only").await?;
    let found = audit_account(&mut transaction, account, report).await;
    transaction.rollback().await?;
    report.accounts += 1;
    match found {
        Ok(problem) => report.problems.extend(problem),
        // A row that cannot be read is as broken as one that does not add up.
        Err(StoreError::Inconsistent { table, what, .. }) => {
            report.problems.push(Problem { account, seq: None, what: format!("{table}: {what}") });
        }
        Err(error) => return Err(error),
    }
    Ok(())
}

async fn audit_account(
    connection: &mut PgConnection,
    account: AccountId,
    report: &mut VerifyReport,
) -> Result<Option<Problem>, StoreError> {
    let mut audit = Audit::new(account, reversed(connection, account).await?);
    let walked = walk(connection, &mut audit, report).await;
    report.lines += audit.lines;
    if let Some(problem) = walked? {
        return Ok(Some(problem));
    }
    if let Some(problem) = set_length(connection, account).await? {
        return Ok(Some(problem));
    }
    let Some((head, particulars)) = head(connection, account).await? else { return Ok(None) };
    let grants = grants(connection, account).await?;
    let holds = holds(connection, account).await?;
    if let Err(problem) = audit.finish(&head, &particulars, &grants, &holds) {
        return Ok(Some(problem));
    }
    if let Some(problem) = rows_for_reading(connection, account).await? {
        return Ok(Some(problem));
    }
    // That the zone is what the journal says was seen above.
    let zone = particulars.time_zone.parse().unwrap_or_default();
    let what = quota::miscounted(connection, account, zone).await?;
    Ok(what.map(|what| Problem { account, seq: None, what }))
}

async fn walk(
    connection: &mut PgConnection,
    audit: &mut Audit,
    report: &mut VerifyReport,
) -> Result<Option<Problem>, StoreError> {
    let account = audit.account();
    loop {
        let entries = journal(connection, account, audit.seq(), PAGE).await?;
        if entries.is_empty() {
            return Ok(None);
        }
        let digests = words_digests(connection, account, &entries).await?;
        for entry in &entries {
            report.entries += 1;
            let digest = digests.iter().find(|(seq, _)| *seq == entry.seq).map(|(_, digest)| *digest);
            if let Err(problem) = audit.entry(entry, digest) {
                return Ok(Some(problem));
            }
        }
    }
}

/// The entries that something was given back of.
async fn reversed(connection: &mut PgConnection, account: AccountId) -> Result<BTreeSet<Seq>, StoreError> {
    let seqs = sqlx::query_scalar!(
        r#"select distinct reverses as "reverses!" from entries where account_id = $1 and reverses is not null"#,
        account.0
    )
    .fetch_all(connection)
    .await?;
    Ok(seqs.into_iter().map(Seq).collect())
}

/// Columns that say again what others of their row say, so that an index can find them.
async fn rows_for_reading(
    connection: &mut PgConnection,
    account: AccountId,
) -> Result<Option<Problem>, StoreError> {
    let what = sqlx::query_scalar!(
        r#"select what as "what!" from (
            select format('grant %s says %s in open, and has %s left and %s reserved', g.id, g.open, g.remaining, g.reserved) as what
            from grants g where g.account_id = $1 and g.open <> (g.remaining > 0 or g.reserved > 0)
            union all
            select format('hold %s has not as many part_amounts as part_grants', h.id)
            from holds h where h.account_id = $1 and cardinality(h.part_grants) <> cardinality(h.part_amounts)
        ) found limit 1"#,
        account.0
    )
    .fetch_optional(connection)
    .await?;
    Ok(what.map(|what| Problem { account, seq: None, what }))
}

/// The first entry that says its set is longer or shorter than it is; replays read by it.
async fn set_length(
    connection: &mut PgConnection,
    account: AccountId,
) -> Result<Option<Problem>, StoreError> {
    let row = sqlx::query!(
        r#"select seq as "seq!", set_length as "set_length!", many as "many!" from (
            select e.seq, e.set_length, count(*) over (partition by e.set_seq) as many from entries e where e.account_id = $1
        ) sets
        where set_length <> many order by seq limit 1"#,
        account.0
    )
    .fetch_optional(connection)
    .await?;
    Ok(row.map(|row| Problem {
        account,
        seq: Some(Seq(row.seq)),
        what: format!("says that its set has {} entries, and it has {}", row.set_length, row.many),
    }))
}

/// The digests of the words that are still there, from their stored text.
async fn words_digests(
    connection: &mut PgConnection,
    account: AccountId,
    entries: &[Entry],
) -> Result<Vec<(Seq, [u8; 32])>, StoreError> {
    let seqs: Vec<i64> = entries.iter().map(|entry| entry.seq.0).collect();
    let rows = sqlx::query!(
        "select seq, reason, metadata::text, salt from entry_words where account_id = $1 and seq = any($2) order by seq",
        account.0,
        &seqs
    )
    .fetch_all(connection)
    .await?;
    let digest = |reason: Option<&str>, metadata: Option<&str>, salt: &[u8]| {
        chain::words_digest(salt, reason, metadata)
    };
    Ok(rows
        .iter()
        .map(|row| (Seq(row.seq), digest(row.reason.as_deref(), row.metadata.as_deref(), &row.salt)))
        .collect())
}

async fn head(
    connection: &mut PgConnection,
    account: AccountId,
) -> Result<Option<(Head, Particulars)>, StoreError> {
    let row = sqlx::query!(
        r#"select status, policy, time_zone, erased_at, seq, hash, available, held, debt, written_off, recorded_at, effective_at, totals as "totals: Vec<Credits>" from accounts where id = $1"#,
        account.0
    )
    .fetch_optional(connection)
    .await?;
    let Some(row) = row else { return Ok(None) };
    let amount = |value| rows::credits("accounts", account.0, value);
    let particulars = Particulars {
        status: rows::status(row.status)
            .ok_or_else(|| rows::inconsistent("accounts", account.0, "status".to_owned()))?,
        policy: row.policy,
        time_zone: row.time_zone,
        erased_at: row.erased_at,
    };
    let head = Head {
        seq: Seq(row.seq),
        hash: row
            .hash
            .try_into()
            .map_err(|_| rows::inconsistent("accounts", account.0, "hash".to_owned()))?,
        available: amount(row.available)?,
        held: amount(row.held)?,
        debt: amount(row.debt)?,
        written_off: amount(row.written_off)?,
        recorded_at: row.recorded_at,
        effective_at: row.effective_at,
        totals: rows::totals(account.0, &row.totals)?,
    };
    Ok(Some((head, particulars)))
}

async fn grants(connection: &mut PgConnection, account: AccountId) -> Result<Vec<Grant>, StoreError> {
    let rows = grant_rows!("from grants g where g.account_id = $1", account.0).fetch_all(connection).await?;
    rows.into_iter().map(GrantRow::grant).collect()
}

async fn holds(connection: &mut PgConnection, account: AccountId) -> Result<Vec<Hold>, StoreError> {
    let rows = hold_rows!("from holds h where h.account_id = $1", account.0).fetch_all(connection).await?;
    rows.into_iter().map(HoldRow::hold).collect()
}
