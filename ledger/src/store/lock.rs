//! Step 2 of a round: open what is to be opened, then lock the account rows in the order of their ids.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use chrono::{DateTime, Utc};
use rust_decimal::Decimal;
use sqlx::PgConnection;
use uuid::Uuid;

use super::StoreError;
use super::rows::{self, inconsistent};
use crate::account::Head;
use crate::decide::State;
use crate::ids::{AccountId, Seq};
use crate::policy::Policy;

/// Policies by name, read again when their row has changed.
#[derive(Default)]
pub(crate) struct PolicyCache(HashMap<String, (DateTime<Utc>, Arc<Policy>)>);

impl PolicyCache {
    async fn get(
        &mut self,
        connection: &mut PgConnection,
        name: &str,
        updated_at: Option<DateTime<Utc>>,
    ) -> Result<Policy, StoreError> {
        if let Some((cached_at, policy)) = self.0.get(name)
            && Some(*cached_at) == updated_at
        {
            return Ok(policy.as_ref().clone());
        }
        let policy = read_policy(&mut *connection, name)
            .await?
            .ok_or_else(|| inconsistent("policies", Uuid::nil(), format!("{name} is missing")))?;
        if let Some(updated_at) = updated_at {
            self.0.insert(name.to_owned(), (updated_at, Arc::new(policy.clone())));
        }
        Ok(policy)
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

/// What locking found.
pub(crate) struct Locked {
    /// The states of the locked accounts, without grants, holds and facts.
    pub states: BTreeMap<AccountId, State>,
    /// Wanted and not locked: kept by another transaction, or not there.
    pub missing: Vec<AccountId>,
}

/// Locks the rows of `accounts`, skipping those that another transaction has.
pub(crate) async fn lock(
    connection: &mut PgConnection,
    policies: &mut PolicyCache,
    accounts: &[AccountId],
) -> Result<Locked, StoreError> {
    let ids: Vec<Uuid> = accounts.iter().map(|account| account.0).collect();
    let rows = sqlx::query_as!(
        AccountRow,
        r#"select a.id, a.status, a.policy, a.time_zone, a.erased_at is not null as "erased!", a.seq, a.hash, a.available, a.held, a.debt,
            a.written_off, a.recorded_at, a.effective_at, a.amount_totals as "amount_totals: Vec<Decimal>", a.moved_totals as "moved_totals: Vec<Decimal>", p.updated_at as "policy_updated_at?"
        from accounts a left join policies p on p.name = a.policy
        where a.id = any($1) order by a.id
        for no key update of a skip locked"#,
        &ids
    )
    .fetch_all(&mut *connection)
    .await?;
    collect(connection, policies, accounts, rows).await
}

/// Locks accounts and waits for them, at most as long as the connection's `lock_timeout` each. Only for a round that has
/// one account to wait for.
pub(crate) async fn lock_waiting(
    connection: &mut PgConnection,
    policies: &mut PolicyCache,
    accounts: &[AccountId],
) -> Result<Locked, StoreError> {
    let ids: Vec<Uuid> = accounts.iter().map(|account| account.0).collect();
    let rows = sqlx::query_as!(
        AccountRow,
        r#"select a.id, a.status, a.policy, a.time_zone, a.erased_at is not null as "erased!", a.seq, a.hash, a.available, a.held, a.debt,
            a.written_off, a.recorded_at, a.effective_at, a.amount_totals as "amount_totals: Vec<Decimal>", a.moved_totals as "moved_totals: Vec<Decimal>", p.updated_at as "policy_updated_at?"
        from accounts a left join policies p on p.name = a.policy
        where a.id = any($1) order by a.id
        for no key update of a"#,
        &ids
    )
    .fetch_all(&mut *connection)
    .await?;
    collect(connection, policies, accounts, rows).await
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

struct AccountRow {
    id: Uuid,
    status: i16,
    policy: String,
    time_zone: String,
    erased: bool,
    seq: i64,
    hash: Vec<u8>,
    available: Decimal,
    held: Decimal,
    debt: Decimal,
    written_off: Decimal,
    recorded_at: DateTime<Utc>,
    effective_at: DateTime<Utc>,
    amount_totals: Vec<Decimal>,
    moved_totals: Vec<Decimal>,
    /// Absent where the lock waited for a change of the account's policy: the row is checked again, the join is not.
    policy_updated_at: Option<DateTime<Utc>>,
}

async fn collect(
    connection: &mut PgConnection,
    policies: &mut PolicyCache,
    wanted: &[AccountId],
    rows: Vec<AccountRow>,
) -> Result<Locked, StoreError> {
    let mut states = BTreeMap::new();
    for row in rows {
        let policy = policies.get(connection, &row.policy, row.policy_updated_at).await?;
        let state = row.state(policy)?;
        states.insert(state.account, state);
    }
    let missing = wanted.iter().copied().filter(|account| !states.contains_key(account)).collect();
    Ok(Locked { states, missing })
}

impl AccountRow {
    fn state(self, policy: Policy) -> Result<State, StoreError> {
        let account = self.id;
        let bad = |what: &str| inconsistent("accounts", account, what.to_owned());
        let head = Head {
            seq: Seq(self.seq),
            hash: self.hash.try_into().map_err(|_| bad("hash"))?,
            available: rows::credits("accounts", account, self.available)?,
            held: rows::credits("accounts", account, self.held)?,
            debt: rows::credits("accounts", account, self.debt)?,
            written_off: rows::credits("accounts", account, self.written_off)?,
            recorded_at: self.recorded_at,
            effective_at: self.effective_at,
            totals: rows::totals(account, &self.amount_totals, &self.moved_totals)?,
        };
        Ok(State {
            account: AccountId(account),
            status: rows::status(self.status).ok_or_else(|| bad("status"))?,
            policy,
            time_zone: self.time_zone.parse().map_err(|_| bad("time_zone"))?,
            erased: self.erased,
            head,
            grants: BTreeMap::new(),
            holds: BTreeMap::new(),
            originals: BTreeMap::new(),
            clawbacks: BTreeMap::new(),
            debt_payments: Vec::new(),
            jobs: BTreeMap::new(),
            quotas: Vec::new(),
            uses: BTreeMap::new(),
            keys: BTreeMap::new(),
            voids: BTreeMap::new(),
        })
    }
}
