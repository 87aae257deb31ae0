//! Accounts as a round begins with them: the head, open grants, open holds, and the clock.

use chrono::{DateTime, Utc};
use sqlx::{PgConnection, PgPool};
use uuid::Uuid;

use super::StoreError;
use super::load::States;
use super::lock::PolicyCache;
use super::rows::{self, GrantRow, HoldRow, inconsistent};
use crate::account::Head;
use crate::command::KeyName;
use crate::credits::Credits;
use crate::decide::State;
use crate::grant::Grant;
use crate::hold::Hold;
use crate::ids::{AccountId, GrantId, HoldId, Seq};
use crate::policy::Policy;

/// What one look at accounts found.
#[derive(Default)]
pub(crate) struct Seen {
    /// Absent where no account was found.
    pub clock: Option<Heard>,
    /// The accounts with their open grants and open holds, without facts.
    pub states: States,
}

/// What the clock said.
#[derive(Clone, Copy)]
pub(crate) struct Heard {
    pub now: DateTime<Utc>,
    pub is_test_clock: bool,
}

/// Reads accounts with their open grants and open holds, and the clock. Without a lock, what is decided on it stands only if each
/// account still has the same last entry once it is locked.
pub(crate) async fn look(
    connection: &mut PgConnection,
    policies: &mut PolicyCache,
    accounts: &[AccountId],
) -> Result<Seen, StoreError> {
    let ids: Vec<Uuid> = accounts.iter().map(|account| account.0).collect();
    let rows = sqlx::query_as!(
        AccountRow,
        r#"select (select ledger_now()) as "now!", exists (select from test_clock) as "is_test_clock!", a.id, a.status, a.policy, a.time_zone,
            a.erased_at is not null as "erased!", a.seq, a.hash, a.available as "available: _", a.held as "held: _", a.debt as "debt: _",
            a.written_off as "written_off: _", a.recorded_at, a.effective_at, a.totals as "totals: _",
            (select p.updated_at from policies p where p.name = a.policy) as policy_updated_at,
            array(
                select row(g.account_id, g.id, g.seq, g.pool, g.amount, g.remaining, g.reserved, g.expires_at, g.rolling, g.voided_at,
                    g.source, g.granted_at, g.lapsed, g.lapse_taken, g.clawed_back, g.restored, g.paid_to_debt,
                    g.given_back_for_debt)::grant_input
                from grants g where g.account_id = a.id and g.open
            ) as "grants!: _",
            array(
                select row(h.account_id, h.id, h.seq, h.amount, h.status, h.part_grants, h.part_amounts, h.placed_at, h.lifetime_s,
                    h.renewed_at, h.expires_at, h.settled, h.released, h.reversed, h.needs_review, h.ended_by, h.late_settle, h.member,
                    h.job_id, h.request_ref, h.model, h.key_ref)::hold_input
                from holds h where h.account_id = a.id and h.status = 1
            ) as "holds!: _"
        from accounts a where a.id = any($1)"#,
        &ids
    )
    .fetch_all(&mut *connection)
    .await?;
    let mut seen = Seen::default();
    for row in rows {
        seen.clock = Some(Heard { now: row.now, is_test_clock: row.is_test_clock });
        let rules = policies.get(connection, &row.policy, row.policy_updated_at).await?;
        let state = row.state(rules.policy().clone())?;
        seen.states.insert(state.account, state);
    }
    Ok(seen)
}

/// Accounts by their last entry, the newest first.
pub(crate) async fn last_used(pool: &PgPool, limit: usize) -> Result<Vec<AccountId>, StoreError> {
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    let ids = sqlx::query_scalar!("select id from accounts order by recorded_at desc, id limit $1", limit)
        .fetch_all(pool)
        .await?;
    Ok(ids.into_iter().map(AccountId).collect())
}

/// Asks the clock alone.
pub(crate) async fn clock(connection: &mut PgConnection) -> Result<Heard, StoreError> {
    let row = sqlx::query_as!(
        Heard,
        r#"select ledger_now() as "now!", exists (select from test_clock) as "is_test_clock!""#
    )
    .fetch_one(connection)
    .await?;
    Ok(row)
}

/// Whether accounts still have their remembered entries as their last ones, and idempotency keys are free. What was refused on
/// that was refused rightly at this moment.
pub(crate) async fn are_as_remembered(
    connection: &mut PgConnection,
    seqs: &[(AccountId, Seq)],
    keys: &[(AccountId, KeyName)],
) -> Result<bool, StoreError> {
    let as_remembered = sqlx::query_scalar!(
        r#"select not exists (
                select from unnest($1::uuid[], $2::bigint[]) as known(id, seq)
                left join accounts a on a.id = known.id and a.seq = known.seq where a.id is null
            )
            and not exists (
                select from unnest($3::uuid[], $4::smallint[], $5::bytea[]) as asked(a, o, k)
                join entries e on e.account_id = asked.a and e.origin = asked.o and e.key = asked.k
            ) as "is_so!""#,
        &seqs.iter().map(|(account, _)| account.0).collect::<Vec<_>>(),
        &seqs.iter().map(|(_, seq)| seq.0).collect::<Vec<_>>(),
        &keys.iter().map(|(account, _)| account.0).collect::<Vec<_>>(),
        &keys.iter().map(|(_, (origin, _))| origin.code()).collect::<Vec<_>>(),
        &keys.iter().map(|(_, (_, digest))| digest.as_slice()).collect::<Vec<_>>() as _
    )
    .fetch_one(connection)
    .await?;
    Ok(as_remembered)
}

struct AccountRow {
    now: DateTime<Utc>,
    is_test_clock: bool,
    id: Uuid,
    status: i16,
    policy: String,
    time_zone: String,
    erased: bool,
    seq: i64,
    hash: Vec<u8>,
    available: Credits,
    held: Credits,
    debt: Credits,
    written_off: Credits,
    recorded_at: DateTime<Utc>,
    effective_at: DateTime<Utc>,
    totals: Vec<Credits>,
    policy_updated_at: Option<DateTime<Utc>>,
    grants: Vec<GrantRow>,
    holds: Vec<HoldRow>,
}

impl AccountRow {
    fn state(self, policy: Policy) -> Result<State, StoreError> {
        let account = self.id;
        let bad = |what: &str| inconsistent("accounts", account, what.to_owned());
        let head = Head {
            seq: Seq(self.seq),
            hash: self.hash.try_into().map_err(|_| bad("hash"))?,
            available: self.available,
            held: self.held,
            debt: self.debt,
            written_off: self.written_off,
            recorded_at: self.recorded_at,
            effective_at: self.effective_at,
            totals: rows::totals(account, &self.totals)?,
        };
        let time_zone = self.time_zone.parse().map_err(|_| bad("time_zone"))?;
        Ok(State {
            status: rows::status(self.status).ok_or_else(|| bad("status"))?,
            erased: self.erased,
            head,
            grants: self.grants.into_iter().map(keyed_grant).collect::<Result<_, _>>()?,
            holds: self.holds.into_iter().map(keyed_hold).collect::<Result<_, _>>()?,
            ..State::empty(AccountId(account), policy, time_zone)
        })
    }
}

pub(super) fn keyed_grant(row: GrantRow) -> Result<(GrantId, Grant), StoreError> {
    row.grant().map(|grant| (grant.id, grant))
}

pub(super) fn keyed_hold(row: HoldRow) -> Result<(HoldId, Hold), StoreError> {
    row.hold().map(|hold| (hold.id, hold))
}
