//! Policies, quotas, the test clock, profiles, erasure and the purge: what is asked for now and then.

use chrono::{DateTime, Utc};
use sqlx::PgPool;

use super::StoreError;
use super::lock::read_policy;
use super::rows::{self, inconsistent};
use crate::ids::{AccountId, Seq};
use crate::policy::Policy;
use crate::quota::{Quota, Subject, Window};

pub(crate) async fn policy(pool: &PgPool, name: &str) -> Result<Option<Policy>, StoreError> {
    read_policy(pool, name).await
}

pub(crate) async fn policies(pool: &PgPool) -> Result<Vec<Policy>, StoreError> {
    let rows = sqlx::query_scalar!("select rules from policies order by name").fetch_all(pool).await?;
    let parse = |rules| {
        serde_json::from_value(rules).map_err(|error: serde_json::Error| {
            inconsistent("policies", uuid::Uuid::nil(), error.to_string())
        })
    };
    rows.into_iter().map(parse).collect()
}

/// Makes a policy or changes its rules; accounts that point at it follow them from their next command on.
pub(crate) async fn set_policy(pool: &PgPool, policy: &Policy) -> Result<(), StoreError> {
    let rules = serde_json::to_value(policy).unwrap_or_default();
    sqlx::query!(
        "insert into policies (name, rules, updated_at) values ($1, $2, clock_timestamp())
        on conflict (name) do update set rules = excluded.rules, updated_at = clock_timestamp()",
        policy.name,
        rules
    )
    .execute(pool)
    .await?;
    Ok(())
}

pub(crate) async fn quotas(pool: &PgPool, account: AccountId) -> Result<Vec<Quota>, StoreError> {
    let rows = sqlx::query!(
        "select subject_kind, subject, window_kind, amount_max from quotas where account_id = $1 order by 1, 2, 3",
        account.0
    )
    .fetch_all(pool)
    .await?;
    rows.into_iter()
        .map(|row| {
            let bad = || inconsistent("quotas", account.0, "subject or window".to_owned());
            Ok(Quota {
                subject: rows::subject(row.subject_kind, row.subject).ok_or_else(bad)?,
                window: rows::window(row.window_kind).ok_or_else(bad)?,
                limit: rows::credits("quotas", account.0, row.amount_max)?,
            })
        })
        .collect()
}

pub(crate) async fn set_quota(pool: &PgPool, account: AccountId, quota: &Quota) -> Result<(), StoreError> {
    let (kind, name) = rows::subject_parts(&quota.subject);
    sqlx::query!(
        "insert into quotas (account_id, subject_kind, subject, window_kind, amount_max) values ($1, $2, $3, $4, $5)
        on conflict (account_id, subject_kind, subject, window_kind) do update set amount_max = excluded.amount_max",
        account.0,
        kind,
        name,
        rows::window_code(quota.window),
        quota.limit.decimal()
    )
    .execute(pool)
    .await?;
    Ok(())
}

/// Whether there was one.
pub(crate) async fn remove_quota(
    pool: &PgPool,
    account: AccountId,
    subject: &Subject,
    window: Window,
) -> Result<bool, StoreError> {
    let (kind, name) = rows::subject_parts(subject);
    let done = sqlx::query!(
        "delete from quotas where account_id = $1 and subject_kind = $2 and subject = $3 and window_kind = $4",
        account.0,
        kind,
        name,
        rows::window_code(window)
    )
    .execute(pool)
    .await?;
    Ok(done.rows_affected() == 1)
}

/// Sets the test clock, never backwards; the instant it stands at now.
pub(crate) async fn set_test_clock(pool: &PgPool, now: DateTime<Utc>) -> Result<DateTime<Utc>, StoreError> {
    let stands_at = sqlx::query_scalar!(
        "insert into test_clock (now) values ($1) on conflict (singleton) do update set now = greatest(test_clock.now, excluded.now) returning now",
        now
    )
    .fetch_one(pool)
    .await?;
    Ok(stands_at)
}

pub(crate) async fn remove_test_clock(pool: &PgPool) -> Result<(), StoreError> {
    sqlx::query!("delete from test_clock").execute(pool).await?;
    Ok(())
}

/// The instant a test clock stands at, if there is one.
pub(crate) async fn test_clock(pool: &PgPool) -> Result<Option<DateTime<Utc>>, StoreError> {
    Ok(sqlx::query_scalar!("select now from test_clock").fetch_optional(pool).await?)
}

/// Deletes all words of an account: texts with their salts, addresses, profile, reference. The chain still verifies.
pub(crate) async fn erase_words(pool: &PgPool, account: AccountId) -> Result<(), StoreError> {
    let mut transaction = pool.begin().await?;
    sqlx::query!("delete from entry_words where account_id = $1", account.0)
        .execute(&mut *transaction)
        .await?;
    sqlx::query!("delete from entry_addresses where account_id = $1", account.0)
        .execute(&mut *transaction)
        .await?;
    sqlx::query!("delete from account_profiles where account_id = $1", account.0)
        .execute(&mut *transaction)
        .await?;
    sqlx::query!("delete from account_refs where account_id = $1", account.0)
        .execute(&mut *transaction)
        .await?;
    transaction.commit().await?;
    Ok(())
}

/// Deletes source addresses that have been kept for 30 days; how many.
pub(crate) async fn forget_addresses(pool: &PgPool) -> Result<u64, StoreError> {
    let done = sqlx::query!(
        "delete from entry_addresses where recorded_at < (select ledger_now()) - interval '30 days'"
    )
    .execute(pool)
    .await?;
    Ok(done.rows_affected())
}

/// Deletes one account with its journal and leaves a tombstone; `None` if there is no such account. The database does
/// it whole: this role may not delete journal rows.
pub(crate) async fn purge(
    pool: &PgPool,
    account: AccountId,
    who: &str,
    why: &str,
) -> Result<Option<Seq>, StoreError> {
    let seq =
        sqlx::query_scalar!("select purge_account($1, $2, $3)", account.0, who, why).fetch_one(pool).await?;
    Ok(seq.map(Seq))
}

/// The last entry's number and hash of a purged account.
pub(crate) async fn tombstone(
    pool: &PgPool,
    account: AccountId,
) -> Result<Option<(Seq, [u8; 32])>, StoreError> {
    let row = sqlx::query!("select last_seq, last_hash from purges where account_id = $1", account.0)
        .fetch_optional(pool)
        .await?;
    let Some(row) = row else { return Ok(None) };
    let hash =
        row.last_hash.try_into().map_err(|_| inconsistent("purges", account.0, "last_hash".to_owned()))?;
    Ok(Some((Seq(row.last_seq), hash)))
}
