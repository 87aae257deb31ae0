//! Step 2 of a round: open what is to be opened, then lock the account rows in the order of their ids.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use chrono::{DateTime, Utc};
use sqlx::PgConnection;
use uuid::Uuid;

use super::StoreError;
use super::accounts::Heard;
use super::rows::{self, inconsistent};
use crate::command::KeyName;
use crate::decide::{KeyUse, State};
use crate::ids::{AccountId, Seq};
use crate::policy::Policy;

/// Policies by name, read again when their row has changed.
#[derive(Default)]
pub(crate) struct PolicyCache(HashMap<String, Rules>);

impl PolicyCache {
    /// The rules of a policy whose row was changed last at `updated_at`, if that is known.
    pub(crate) async fn get(
        &mut self,
        connection: &mut PgConnection,
        name: &str,
        updated_at: Option<DateTime<Utc>>,
    ) -> Result<Rules, StoreError> {
        if let Some(rules) = self.0.get(name)
            && rules.updated_at == updated_at
        {
            return Ok(rules.clone());
        }
        let policy = read_policy(&mut *connection, name)
            .await?
            .ok_or_else(|| inconsistent("policies", Uuid::nil(), format!("{name} is missing")))?;
        let rules = Rules { updated_at, policy: Arc::new(policy) };
        if updated_at.is_some() {
            self.0.insert(name.to_owned(), rules.clone());
        }
        Ok(rules)
    }

    /// The rules as they were read last.
    pub(crate) fn known(&self, name: &str) -> Option<&Rules> {
        self.0.get(name)
    }
}

/// A policy and when its row was changed.
#[derive(Clone)]
pub(crate) struct Rules {
    pub updated_at: Option<DateTime<Utc>>,
    policy: Arc<Policy>,
}

impl Rules {
    /// Puts an account under these rules.
    pub(crate) fn bind(&self, state: &mut State) {
        if state.policy != *self.policy {
            state.policy.clone_from(&self.policy);
        }
    }

    pub(crate) fn policy(&self) -> &Policy {
        &self.policy
    }
}

/// The rules of a policy; its name is the row's.
pub(crate) async fn read_policy<'c>(
    executor: impl sqlx::PgExecutor<'c>,
    name: &str,
) -> Result<Option<Policy>, StoreError> {
    let rules = sqlx::query_scalar!("select rules from policies where name = $1", name)
        .fetch_optional(executor)
        .await?;
    rules
        .map(|rules| {
            serde_json::from_value(rules)
                .map_err(|error| inconsistent("policies", Uuid::nil(), error.to_string()))
        })
        .transpose()
}

/// An account that a round wants to open: its reference, and the row it gets if the reference is free.
pub(crate) struct Opening<'a> {
    pub account: AccountId,
    pub external_ref: &'a str,
    pub policy: &'a str,
    pub time_zone: &'a str,
}

/// Inserts the accounts whose reference is free and answers with the account that each reference names now.
pub(crate) async fn open(
    connection: &mut PgConnection,
    openings: &[Opening<'_>],
) -> Result<BTreeMap<String, AccountId>, StoreError> {
    let ids: Vec<Uuid> = openings.iter().map(|opening| opening.account.0).collect();
    let refs: Vec<String> = openings.iter().map(|opening| opening.external_ref.to_owned()).collect();
    let policies: Vec<String> = openings.iter().map(|opening| opening.policy.to_owned()).collect();
    let zones: Vec<String> = openings.iter().map(|opening| opening.time_zone.to_owned()).collect();
    sqlx::query!(
        "with named as (
            insert into account_refs (external_ref, account_id)
            select r, a from unnest($1::text[], $2::uuid[]) as wanted(r, a) order by r
            on conflict do nothing returning account_id
        )
        insert into accounts (id, policy, time_zone, created_at)
        select w.a, w.p, w.z, ledger_now() from unnest($2::uuid[], $3::text[], $4::text[]) as w(a, p, z)
        join named on named.account_id = w.a order by w.a",
        &refs,
        &ids,
        &policies,
        &zones
    )
    .execute(&mut *connection)
    .await?;
    let rows =
        sqlx::query!("select external_ref, account_id from account_refs where external_ref = any($1)", &refs)
            .fetch_all(&mut *connection)
            .await?;
    Ok(rows.into_iter().map(|row| (row.external_ref, AccountId(row.account_id))).collect())
}

/// Takes back what [`open`] inserted for commands that were refused after all.
pub(crate) async fn unopen(connection: &mut PgConnection, accounts: &[Uuid]) -> Result<(), StoreError> {
    sqlx::query!("select unopen_accounts($1)", accounts).fetch_one(&mut *connection).await?;
    Ok(())
}

/// What a round knows once it holds its locks.
#[derive(Default)]
pub(crate) struct Locked {
    /// Absent where nothing was locked, and where the locks were waited for.
    pub clock: Option<Heard>,
    /// The last entry of each account that was locked.
    pub seqs: BTreeMap<AccountId, Seq>,
    /// Idempotency keys that are taken. They were looked up by the statement that locked, so they are complete only for
    /// accounts without an entry since that statement began.
    pub keys: Vec<(AccountId, KeyName, KeyUse)>,
    /// When the policies that were asked for had changed.
    pub policies: HashMap<String, DateTime<Utc>>,
}

/// Locks the rows of `accounts`, skipping those that another transaction has, and reads in the same statement what a
/// round needs of accounts it remembers: the clock, the keys, and when the policies had changed.
pub(crate) async fn lock(
    connection: &mut PgConnection,
    accounts: &[AccountId],
    keys: &[(AccountId, KeyName)],
    policies: &[String],
) -> Result<Locked, StoreError> {
    let ids: Vec<Uuid> = accounts.iter().map(|account| account.0).collect();
    let key_accounts: Vec<Uuid> = keys.iter().map(|(account, _)| account.0).collect();
    let origins: Vec<i16> = keys.iter().map(|(_, (origin, _))| origin.code()).collect();
    let digests: Vec<&[u8]> = keys.iter().map(|(_, (_, digest))| digest.as_slice()).collect();
    let rows = sqlx::query!(
        r#"with locked as materialized (
            select a.id, a.seq from accounts a where a.id = any($1) order by a.id for no key update skip locked
        )
        select (select ledger_now()) as "now!", exists (select from test_clock) as "is_test_clock!", l.id as account_id, l.seq, null::smallint as origin, null::bytea as key,
            null::bytea as content, null::text as policy, null::timestamptz as updated_at
        from locked l
        union all
        select (select ledger_now()), exists (select from test_clock), e.account_id, e.seq, e.origin, e.key, e.content, null, null
        from unnest($2::uuid[], $3::smallint[], $4::bytea[]) as wanted(a, o, k)
        join entries e on e.account_id = wanted.a and e.origin = wanted.o and e.key = wanted.k
        union all
        select (select ledger_now()), exists (select from test_clock), null, null, null, null, null, p.name, p.updated_at
        from policies p where p.name = any($5)"#,
        &ids,
        &key_accounts,
        &origins,
        &digests as _,
        policies
    )
    .fetch_all(&mut *connection)
    .await?;
    let mut locked = Locked::default();
    for row in rows {
        locked.clock = Some(Heard { now: row.now, is_test_clock: row.is_test_clock });
        match (row.account_id, row.seq, row.origin, row.key, row.content) {
            (Some(account), Some(seq), Some(origin), Some(key), Some(content)) => {
                locked.keys.push(rows::key_use(account, seq, origin, key, content)?);
            }
            (Some(account), Some(seq), ..) => {
                locked.seqs.insert(AccountId(account), Seq(seq));
            }
            _ => locked.policies.extend(row.policy.zip(row.updated_at)),
        }
    }
    Ok(locked)
}

/// Locks accounts and waits for them, at most as long as the connection's `lock_timeout` each. Only for a round that has
/// one account to wait for.
pub(crate) async fn lock_waiting(
    connection: &mut PgConnection,
    accounts: &[AccountId],
) -> Result<Locked, StoreError> {
    let ids: Vec<Uuid> = accounts.iter().map(|account| account.0).collect();
    let rows = sqlx::query!(
        "select a.id, a.seq from accounts a where a.id = any($1) order by a.id for no key update",
        &ids
    )
    .fetch_all(&mut *connection)
    .await?;
    let seqs = rows.into_iter().map(|row| (AccountId(row.id), Seq(row.seq))).collect();
    Ok(Locked { seqs, ..Locked::default() })
}

/// Which of these accounts exist.
pub(crate) async fn existing(
    connection: &mut PgConnection,
    accounts: &[AccountId],
) -> Result<Vec<AccountId>, StoreError> {
    let ids: Vec<Uuid> = accounts.iter().map(|account| account.0).collect();
    let rows =
        sqlx::query_scalar!("select id from accounts where id = any($1)", &ids).fetch_all(connection).await?;
    Ok(rows.into_iter().map(AccountId).collect())
}
