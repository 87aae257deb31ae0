//! All SQL of users, API keys, sign-in counters and sessions.

use chrono::{DateTime, Utc};
use ledger::Credits;
use ledger::ids::AccountId;
use rust_decimal::Decimal;
use serde_json::Value;
use sqlx::PgPool;
use uuid::Uuid;

use super::adjust::Reservation;
use super::api_key::{ApiKey, Scope, StoredKey};
use super::session::{Columns, SessionDigest, SessionView, Stored};
use super::throttle::{Count, Subject};
use super::{AccessError, Role, User, UserId};

/// A stored word that the code does not know: a row of a newer version, or a broken one.
fn unknown_word(what: &str) -> AccessError {
    tracing::error!(column.name = what, "a stored value has no meaning in this version");
    AccessError::Internal
}

fn role(text: &str) -> Result<Role, AccessError> {
    Role::parse(text).ok_or_else(|| unknown_word("users.role"))
}

fn accounts(ids: Vec<Uuid>) -> Vec<AccountId> {
    ids.into_iter().map(AccountId).collect()
}

fn scopes(words: &[String]) -> Result<Vec<Scope>, AccessError> {
    words.iter().map(|word| Scope::parse(word).ok_or_else(|| unknown_word("api_keys.scopes"))).collect()
}

// ---- users

/// False when the e-mail address is taken.
pub(super) async fn insert_user(
    pool: &PgPool,
    user: &User,
    password_hash: &str,
) -> Result<bool, AccessError> {
    let mut tx = pool.begin().await?;
    let inserted = sqlx::query!(
        "insert into users (id, email, role, password_hash, created_at) values ($1, $2, $3, $4, $5)
         on conflict (email) do nothing",
        user.id.0,
        user.email,
        user.role.as_str(),
        password_hash,
        user.created_at,
    )
    .execute(&mut *tx)
    .await?;
    if inserted.rows_affected() == 0 {
        return Ok(false);
    }
    let ids: Vec<Uuid> = user.accounts.iter().map(|account| account.0).collect();
    sqlx::query!(
        "insert into user_accounts (user_id, account_id) select $1, account_id from unnest($2::uuid[]) as own (account_id)
         on conflict do nothing",
        user.id.0,
        &ids,
    )
    .execute(&mut *tx)
    .await?;
    tx.commit().await?;
    Ok(true)
}

struct UserRow {
    id: Uuid,
    email: String,
    role: String,
    accounts: Vec<Uuid>,
    created_at: DateTime<Utc>,
    disabled_at: Option<DateTime<Utc>>,
    password_hash: String,
}

impl UserRow {
    fn into_user(self) -> Result<(User, String), AccessError> {
        let user = User {
            id: UserId(self.id),
            role: role(&self.role)?,
            email: self.email,
            accounts: accounts(self.accounts),
            disabled: self.disabled_at.is_some(),
            created_at: self.created_at,
        };
        Ok((user, self.password_hash))
    }
}

pub(super) async fn user(pool: &PgPool, id: UserId) -> Result<Option<User>, AccessError> {
    let row = sqlx::query_as!(
        UserRow,
        r#"select id, email, role, created_at, disabled_at, password_hash,
                  array(select account_id from user_accounts where user_id = users.id order by account_id) as "accounts!"
           from users where id = $1"#,
        id.0,
    )
    .fetch_optional(pool)
    .await?;
    Ok(row.map(UserRow::into_user).transpose()?.map(|(user, _)| user))
}

pub(super) async fn user_by_email(pool: &PgPool, email: &str) -> Result<Option<User>, AccessError> {
    Ok(user_with_hash(pool, email).await?.map(|(user, _)| user))
}

pub(super) async fn user_with_hash(
    pool: &PgPool,
    email: &str,
) -> Result<Option<(User, String)>, AccessError> {
    let row = sqlx::query_as!(
        UserRow,
        r#"select id, email, role, created_at, disabled_at, password_hash,
                  array(select account_id from user_accounts where user_id = users.id order by account_id) as "accounts!"
           from users where email = $1"#,
        email,
    )
    .fetch_optional(pool)
    .await?;
    row.map(UserRow::into_user).transpose()
}

pub(super) async fn users_exist(pool: &PgPool) -> Result<bool, AccessError> {
    Ok(sqlx::query_scalar!(r#"select exists (select from users) as "exists!""#).fetch_one(pool).await?)
}

pub(super) async fn update_password(pool: &PgPool, id: UserId, hash: &str) -> Result<(), AccessError> {
    sqlx::query!("update users set password_hash = $2 where id = $1", id.0, hash).execute(pool).await?;
    Ok(())
}

/// Leaves a password alone that was changed meanwhile.
pub(super) async fn replace_password_hash(
    pool: &PgPool,
    id: UserId,
    old: &str,
    new: &str,
) -> Result<(), AccessError> {
    sqlx::query!("update users set password_hash = $3 where id = $1 and password_hash = $2", id.0, old, new)
        .execute(pool)
        .await?;
    Ok(())
}

pub(super) async fn set_disabled(
    pool: &PgPool,
    id: UserId,
    at: Option<DateTime<Utc>>,
) -> Result<bool, AccessError> {
    let updated =
        sqlx::query!("update users set disabled_at = $2 where id = $1", id.0, at).execute(pool).await?;
    Ok(updated.rows_affected() > 0)
}

// ---- API keys

pub(super) async fn insert_key(pool: &PgPool, key: &ApiKey, secret_digest: &[u8]) -> Result<(), AccessError> {
    let words: Vec<String> = key.scopes.iter().map(|scope| scope.as_str().to_owned()).collect();
    sqlx::query!(
        "insert into api_keys (id, name, owner_id, scopes, secret_digest, created_at, expires_at) values ($1, $2, $3, $4, $5, $6, $7)",
        key.id,
        key.name,
        key.owner.0,
        &words,
        secret_digest,
        key.created_at,
        key.expires_at,
    )
    .execute(pool)
    .await?;
    Ok(())
}

pub(super) async fn keys(pool: &PgPool, owner: Option<UserId>) -> Result<Vec<ApiKey>, AccessError> {
    let rows = sqlx::query!(
        "select id, name, owner_id, scopes, created_at, expires_at, revoked_at, last_used_at from api_keys
         where $1::uuid is null or owner_id = $1 order by created_at desc, id",
        owner.map(|owner| owner.0),
    )
    .fetch_all(pool)
    .await?;
    rows.into_iter()
        .map(|row| {
            Ok(ApiKey {
                scopes: scopes(&row.scopes)?,
                id: row.id,
                name: row.name,
                owner: UserId(row.owner_id),
                created_at: row.created_at,
                expires_at: row.expires_at,
                revoked_at: row.revoked_at,
                last_used_at: row.last_used_at,
            })
        })
        .collect()
}

pub(super) async fn revoke_key(pool: &PgPool, id: &str, now: DateTime<Utc>) -> Result<bool, AccessError> {
    let revoked =
        sqlx::query!("update api_keys set revoked_at = $2 where id = $1 and revoked_at is null", id, now)
            .execute(pool)
            .await?;
    Ok(revoked.rows_affected() > 0)
}

/// Writes when keys were last used; an earlier instant of another instance does not undo a later one.
pub(super) async fn record_key_uses(
    pool: &PgPool,
    uses: &[(String, DateTime<Utc>)],
) -> Result<(), AccessError> {
    let (ids, used_at): (Vec<String>, Vec<DateTime<Utc>>) = uses.iter().cloned().unzip();
    sqlx::query!(
        "update api_keys set last_used_at = uses.at from unnest($1::text[], $2::timestamptz[]) as uses (id, at)
         where api_keys.id = uses.id and (last_used_at is null or last_used_at < uses.at)",
        &ids,
        &used_at,
    )
    .execute(pool)
    .await?;
    Ok(())
}

/// Neither revoked nor of a disabled owner. Whether it has expired is asked at each use.
pub(super) async fn valid_key(pool: &PgPool, id: &str) -> Result<Option<StoredKey>, AccessError> {
    let row = sqlx::query!(
        r#"select key.secret_digest, key.scopes, key.owner_id, key.expires_at, owner.role,
                  array(select account_id from user_accounts where user_id = owner.id) as "accounts!"
           from api_keys key join users owner on owner.id = key.owner_id
           where key.id = $1 and key.revoked_at is null and owner.disabled_at is null"#,
        id,
    )
    .fetch_optional(pool)
    .await?;
    row.map(|row| {
        Ok(StoredKey {
            secret_digest: row
                .secret_digest
                .try_into()
                .map_err(|_| unknown_word("api_keys.secret_digest"))?,
            scopes: scopes(&row.scopes)?,
            owner: UserId(row.owner_id),
            role: role(&row.role)?,
            accounts: accounts(row.accounts),
            expires_at: row.expires_at,
        })
    })
    .transpose()
}

// ---- sign-in counters

/// Locks the counters in order, changes each by `change`, and writes them all or, if one change is refused,
/// none.
pub(super) async fn count_tries<E>(
    pool: &PgPool,
    subjects: &[Subject],
    change: impl Fn(&Subject, Count) -> Result<Count, E>,
) -> Result<Result<(), E>, AccessError> {
    let mut sorted: Vec<Vec<u8>> = subjects.iter().map(|subject| subject.digest.to_vec()).collect();
    sorted.sort_unstable();
    let mut tx = pool.begin().await?;
    sqlx::query!(
        "insert into sign_in_throttles (subject, failures, failed_at)
         select subject, 0, 'epoch' from unnest($1::bytea[]) as named (subject) order by subject on conflict do nothing",
        &sorted,
    )
    .execute(&mut *tx)
    .await?;
    let rows = sqlx::query!(
        "select subject, failures, failed_at, blocked_until from sign_in_throttles
         where subject = any($1) order by subject for update",
        &sorted,
    )
    .fetch_all(&mut *tx)
    .await?;
    for row in rows {
        let stored =
            Count { failures: row.failures, failed_at: row.failed_at, blocked_until: row.blocked_until };
        let named = subjects.iter().find(|subject| subject.digest.as_slice() == row.subject.as_slice());
        let Some(subject) = named else { continue };
        let count = match change(subject, stored) {
            Ok(count) => count,
            Err(refused) => return Ok(Err(refused)),
        };
        sqlx::query!(
            "update sign_in_throttles set failures = $2, failed_at = $3, blocked_until = $4 where subject = $1",
            row.subject,
            count.failures,
            count.failed_at,
            count.blocked_until,
        )
        .execute(&mut *tx)
        .await?;
    }
    tx.commit().await?;
    Ok(Ok(()))
}

pub(super) async fn forget_tries(pool: &PgPool, subject: &Subject) -> Result<(), AccessError> {
    sqlx::query!("delete from sign_in_throttles where subject = $1", subject.digest.as_slice())
        .execute(pool)
        .await?;
    Ok(())
}

pub(super) async fn delete_old_throttles(pool: &PgPool, before: DateTime<Utc>) -> Result<u64, AccessError> {
    Ok(sqlx::query!("delete from sign_in_throttles where failed_at < $1", before)
        .execute(pool)
        .await?
        .rows_affected())
}

// ---- sessions

/// False when there is one with this digest.
pub(super) async fn insert_session(
    pool: &PgPool,
    digest: &SessionDigest,
    columns: &Columns,
    now: DateTime<Utc>,
    expires_at: DateTime<Utc>,
) -> Result<bool, AccessError> {
    let inserted = sqlx::query!(
        "insert into sessions (digest, user_id, address, data, created_at, seen_at, expires_at)
         values ($1, $2, $3, $4, $5, $5, $6) on conflict (digest) do nothing",
        digest.0.as_slice(),
        columns.user.map(|user| user.0),
        columns.address,
        columns.data,
        now,
        expires_at,
    )
    .execute(pool)
    .await?;
    Ok(inserted.rows_affected() > 0)
}

pub(super) async fn update_session(
    pool: &PgPool,
    digest: &SessionDigest,
    columns: &Columns,
    now: DateTime<Utc>,
) -> Result<(), AccessError> {
    sqlx::query!(
        "update sessions set user_id = $2, address = $3, data = $4, seen_at = greatest(seen_at, $5) where digest = $1",
        digest.0.as_slice(),
        columns.user.map(|user| user.0),
        columns.address,
        columns.data,
        now,
    )
    .execute(pool)
    .await?;
    Ok(())
}

pub(super) async fn session(pool: &PgPool, digest: &SessionDigest) -> Result<Option<Stored>, AccessError> {
    let row = sqlx::query!(
        r#"select session.data as "data: Value", session.created_at, session.seen_at,
                  owner.role as "role?", owner.disabled_at is not null as "is_disabled!"
           from sessions session left join users owner on owner.id = session.user_id where session.digest = $1"#,
        digest.0.as_slice(),
    )
    .fetch_optional(pool)
    .await?;
    row.map(|row| {
        let role = row.role.as_deref().map(role).transpose()?;
        Ok(Stored {
            data: row.data,
            role,
            is_disabled: row.is_disabled,
            created_at: row.created_at,
            seen_at: row.seen_at,
        })
    })
    .transpose()
}

pub(super) async fn touch_session(
    pool: &PgPool,
    digest: &SessionDigest,
    seen_at: DateTime<Utc>,
    expires_at: DateTime<Utc>,
) -> Result<(), AccessError> {
    sqlx::query!(
        "update sessions set seen_at = $2, expires_at = $3 where digest = $1 and seen_at < $2",
        digest.0.as_slice(),
        seen_at,
        expires_at,
    )
    .execute(pool)
    .await?;
    Ok(())
}

pub(super) async fn delete_session(pool: &PgPool, digest: &SessionDigest) -> Result<(), AccessError> {
    sqlx::query!("delete from sessions where digest = $1", digest.0.as_slice()).execute(pool).await?;
    Ok(())
}

pub(super) async fn delete_session_of(
    pool: &PgPool,
    user: UserId,
    digest: &SessionDigest,
) -> Result<bool, AccessError> {
    let deleted =
        sqlx::query!("delete from sessions where user_id = $1 and digest = $2", user.0, digest.0.as_slice())
            .execute(pool)
            .await?;
    Ok(deleted.rows_affected() > 0)
}

pub(super) async fn delete_sessions_of(pool: &PgPool, user: UserId) -> Result<u64, AccessError> {
    Ok(sqlx::query!("delete from sessions where user_id = $1", user.0).execute(pool).await?.rows_affected())
}

pub(super) async fn sessions_of(
    pool: &PgPool,
    user: UserId,
    now: DateTime<Utc>,
) -> Result<Vec<SessionView>, AccessError> {
    let rows = sqlx::query!(
        "select digest, created_at, seen_at, address from sessions where user_id = $1 and expires_at > $2
         order by seen_at desc, digest",
        user.0,
        now,
    )
    .fetch_all(pool)
    .await?;
    rows.into_iter()
        .map(|row| {
            let digest = row.digest.try_into().map_err(|_| unknown_word("sessions.digest"))?;
            let digest = SessionDigest(digest);
            Ok(SessionView { digest, created_at: row.created_at, seen_at: row.seen_at, address: row.address })
        })
        .collect()
}

pub(super) async fn delete_ended_sessions(pool: &PgPool, now: DateTime<Utc>) -> Result<u64, AccessError> {
    Ok(sqlx::query!("delete from sessions where expires_at <= $1", now).execute(pool).await?.rows_affected())
}

// ---- corrections by hand

/// Takes a part of the day's sum under a lock on the staff member's row. False when this key has taken it before, be it
/// with another amount or on another day, which is then counted anew; `fits` is asked with what the day has used so far.
pub(super) async fn reserve_adjustment<E>(
    pool: &PgPool,
    reservation: &Reservation,
    fits: impl Fn(Credits) -> Result<(), E>,
) -> Result<Result<bool, E>, AccessError> {
    let mut tx = pool.begin().await?;
    sqlx::query!("select id from users where id = $1 for update", reservation.user.0)
        .fetch_optional(&mut *tx)
        .await?;
    let known = sqlx::query!(
        "select day, amount from adjustment_uses where user_id = $1 and account_id = $2 and key_digest = $3",
        reservation.user.0,
        reservation.account.0,
        reservation.key_digest.as_slice(),
    )
    .fetch_optional(&mut *tx)
    .await?;
    let amount = reservation.amount.decimal();
    if known.as_ref().is_some_and(|known| known.day == reservation.day && known.amount == amount) {
        return Ok(Ok(false));
    }
    let used: Decimal = sqlx::query_scalar!(
        r#"select coalesce(sum(amount), 0) as "sum!" from adjustment_uses
        where user_id = $1 and day = $2 and not (account_id = $3 and key_digest = $4)"#,
        reservation.user.0,
        reservation.day,
        reservation.account.0,
        reservation.key_digest.as_slice(),
    )
    .fetch_one(&mut *tx)
    .await?;
    let used = Credits::exact(used).map_err(|_| unknown_word("adjustment_uses.amount"))?;
    if let Err(refused) = fits(used) {
        return Ok(Err(refused));
    }
    sqlx::query!(
        "insert into adjustment_uses (user_id, account_id, key_digest, day, amount) values ($1, $2, $3, $4, $5)
        on conflict (user_id, account_id, key_digest)
            do update set day = excluded.day, amount = greatest(adjustment_uses.amount, excluded.amount)",
        reservation.user.0,
        reservation.account.0,
        reservation.key_digest.as_slice(),
        reservation.day,
        amount,
    )
    .execute(&mut *tx)
    .await?;
    tx.commit().await?;
    Ok(Ok(known.is_none()))
}

pub(super) async fn delete_adjustment(pool: &PgPool, reservation: &Reservation) -> Result<(), AccessError> {
    sqlx::query!(
        "delete from adjustment_uses where user_id = $1 and account_id = $2 and key_digest = $3",
        reservation.user.0,
        reservation.account.0,
        reservation.key_digest.as_slice(),
    )
    .execute(pool)
    .await?;
    Ok(())
}
