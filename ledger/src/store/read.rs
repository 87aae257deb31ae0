//! Everything that only reads. A balance is read as one snapshot and lapsed in memory, so that all views agree at
//! every instant, whether a sweep has run or not.

use std::collections::BTreeMap;

use chrono::{DateTime, Utc};
use serde_json::Value;
use sqlx::{PgConnection, PgPool};
use uuid::Uuid;

use super::StoreError;
use super::accounts::{keyed_grant, keyed_hold};
use super::entries;
use super::lists::{self, Slice};
use super::rows::{self, GrantRow, HoldRow, grant_rows, hold_rows, inconsistent};
use crate::credits::Credits;
use crate::decide::{LapsedView, State};
use crate::grant::{Grant, GrantView};
use crate::hold::{Hold, HoldStatus, HoldView};
use crate::ids::{AccountId, GrantId, HoldId, Seq};
use crate::refusal::Refusal;
use crate::service::{AccountView, BalanceView, NextExpiry, Page, PageError, PageRequest};

/// Rows of a page unless the caller says otherwise, and at most.
const PAGE_DEFAULT: i64 = 50;
const PAGE_MAX: i64 = 200;
/// Grants listed as ending next.
const NEXT_EXPIRIES_MAX: usize = 10;

pub(crate) async fn clock(pool: &PgPool) -> Result<DateTime<Utc>, StoreError> {
    Ok(sqlx::query_scalar!(r#"select ledger_now() as "now!""#).fetch_one(pool).await?)
}

pub(crate) async fn account_by_ref(
    pool: &PgPool,
    external_ref: &str,
) -> Result<Option<AccountId>, StoreError> {
    let id = sqlx::query_scalar!("select account_id from account_refs where external_ref = $1", external_ref)
        .fetch_optional(pool)
        .await?;
    Ok(id.map(AccountId))
}

/// What is known of an account at one instant, for reading: head, open grants, open holds.
pub(crate) struct Snapshot {
    pub now: DateTime<Utc>,
    pub state: State,
}

/// Reads an account's head, open grants and open holds as one snapshot.
pub(crate) async fn snapshot(pool: &PgPool, account: AccountId) -> Result<Option<Snapshot>, StoreError> {
    let mut transaction = pool.begin_with("begin isolation level repeatable read read only").await?;
    let snapshot = snapshot_in(&mut transaction, account).await?;
    transaction.rollback().await?;
    Ok(snapshot)
}

async fn snapshot_in(
    connection: &mut PgConnection,
    account: AccountId,
) -> Result<Option<Snapshot>, StoreError> {
    let row = sqlx::query!(
        r#"select a.status, a.policy, a.time_zone, a.erased_at is not null as "erased!", a.seq, a.available, a.held, a.debt, a.recorded_at,
            a.effective_at, ledger_now() as "now!"
        from accounts a where a.id = $1"#,
        account.0
    )
    .fetch_optional(&mut *connection)
    .await?;
    let Some(row) = row else { return Ok(None) };
    let bad = |what: &str| inconsistent("accounts", account.0, what.to_owned());
    let amount = |value| rows::credits("accounts", account.0, value);
    let head = crate::account::Head {
        seq: Seq(row.seq),
        available: amount(row.available)?,
        held: amount(row.held)?,
        debt: amount(row.debt)?,
        recorded_at: row.recorded_at,
        effective_at: row.effective_at,
        ..crate::account::Head::empty()
    };
    let grants = grant_rows!("from grants g where g.account_id = $1 and g.open", account.0)
        .fetch_all(&mut *connection)
        .await?;
    let holds = hold_rows!("from holds h where h.account_id = $1 and h.status = 1", account.0)
        .fetch_all(&mut *connection)
        .await?;
    // Lapsing asks nothing of the policy.
    let policy = crate::policy::Policy { name: row.policy, ..crate::policy::Policy::default() };
    let time_zone = row.time_zone.parse().map_err(|_| bad("time_zone"))?;
    let state = State {
        status: rows::status(row.status).ok_or_else(|| bad("status"))?,
        erased: row.erased,
        head,
        grants: grants.into_iter().map(keyed_grant).collect::<Result<_, _>>()?,
        holds: holds.into_iter().map(keyed_hold).collect::<Result<_, _>>()?,
        ..State::empty(account, policy, time_zone)
    };
    Ok(Some(Snapshot { now: row.now, state }))
}

impl Snapshot {
    /// The present as decisions see it: never before the head, even where the clock was set back.
    pub(crate) fn present(&self) -> DateTime<Utc> {
        self.now.max(self.state.head.recorded_at)
    }

    /// What the account has at an instant, with everything lapsed in memory that fell due by then.
    fn lapsed(&self, at: DateTime<Utc>) -> Result<LapsedView, StoreError> {
        let bad = |refusal: Refusal| inconsistent("accounts", self.state.account.0, refusal.to_string());
        self.state.lapsed_view(at).map_err(bad)
    }

    pub(crate) fn balance(&self, at: DateTime<Utc>) -> Result<BalanceView, StoreError> {
        let view = self.lapsed(at)?;
        // What a due hold gave back lies in the grants as the lapses left them.
        let lapsed: BTreeMap<GrantId, &Grant> = view.grants.iter().map(|grant| (grant.id, grant)).collect();
        let as_left = self.state.grants.values().map(|grant| lapsed.get(&grant.id).copied().unwrap_or(grant));
        let mut next: Vec<NextExpiry> = as_left
            .filter(|grant| grant.is_live(at) && grant.remaining.is_positive())
            .filter_map(|grant| {
                Some(NextExpiry {
                    grant: grant.id,
                    remaining: grant.remaining,
                    expires_at: grant.expires_at?,
                })
            })
            .collect();
        next.sort_by_key(|expiry| (expiry.expires_at, expiry.grant));
        next.truncate(NEXT_EXPIRIES_MAX);
        balance(self.state.account, view.available, view.held, view.debt, at, next)
    }
}

fn balance(
    account: AccountId,
    available: Credits,
    held: Credits,
    debt: Credits,
    as_of: DateTime<Utc>,
    next_expiries: Vec<NextExpiry>,
) -> Result<BalanceView, StoreError> {
    let balance =
        available.plus(held).map_err(|_| inconsistent("accounts", account.0, "balance".to_owned()))?;
    Ok(BalanceView {
        available,
        held,
        balance,
        debt,
        breaker_open: available.is_negative(),
        as_of,
        next_expiries,
    })
}

/// The balance at an instant before the head's last entry: what the last entry effective by then left.
pub(crate) async fn balance_before(
    pool: &PgPool,
    account: AccountId,
    at: DateTime<Utc>,
) -> Result<BalanceView, StoreError> {
    let seq = entries::last_seq_by(pool, account, at).await?;
    let row = sqlx::query!(
        "select available_after, held_after, debt_after from entries where account_id = $1 and seq = $2",
        account.0,
        seq
    )
    .fetch_optional(pool)
    .await?;
    let amount = |value| rows::credits("entries", account.0, value);
    match row {
        Some(row) => balance(
            account,
            amount(row.available_after)?,
            amount(row.held_after)?,
            amount(row.debt_after)?,
            at,
            Vec::new(),
        ),
        None => balance(account, Credits::ZERO, Credits::ZERO, Credits::ZERO, at, Vec::new()),
    }
}

/// An account with its profile and balance.
pub(crate) async fn account(pool: &PgPool, account: AccountId) -> Result<Option<AccountView>, StoreError> {
    let profile = sqlx::query!(
        r#"select coalesce(e.recorded_at, a.created_at) as "created_at!", r.external_ref as "external_ref?", p.name, p.email, p.metadata as "metadata?"
        from accounts a
        left join entries e on e.account_id = a.id and e.seq = 1
        left join account_refs r on r.account_id = a.id
        left join account_profiles p on p.account_id = a.id
        where a.id = $1 and a.seq > 0"#,
        account.0
    )
    .fetch_optional(pool)
    .await?;
    let (Some(profile), Some(snapshot)) = (profile, snapshot(pool, account).await?) else { return Ok(None) };
    let metadata = match profile.metadata {
        Some(Value::Object(object)) => object,
        _ => serde_json::Map::new(),
    };
    Ok(Some(AccountView {
        id: account,
        external_ref: profile.external_ref,
        name: profile.name,
        email: profile.email,
        status: snapshot.state.status,
        policy: snapshot.state.policy.name.clone(),
        time_zone: snapshot.state.time_zone.name().to_owned(),
        metadata,
        created_at: profile.created_at,
        balance: snapshot.balance(snapshot.present())?,
    }))
}

/// Accounts by the beginning of reference, name or e-mail, or by id, newest first.
pub(crate) async fn accounts(
    pool: &PgPool,
    q: &str,
    page: &PageRequest,
) -> Result<Page<AccountView>, PageError> {
    let limit = limit(page);
    let (backward, bound) = cursor(page)?;
    let bound = bound.map(|text| text.parse::<Uuid>().map_err(|_| crate::service::BadCursor)).transpose()?;
    let prefix = format!("{}%", escaped(&q.to_lowercase()));
    let exact = q.parse::<Uuid>().ok();
    let mut ids = sqlx::query_scalar!(
        "select a.id from accounts a
        where a.seq > 0
            and ($1 = '%' or a.id = $2
                or a.id in (select r.account_id from account_refs r where lower(r.external_ref) like $1)
                or a.id in (select p.account_id from account_profiles p where lower(p.name) like $1 or lower(p.email) like $1))
            and ($3::uuid is null or case when $4 then a.id > $3 else a.id < $3 end)
        order by case when $4 then a.id end asc, case when not $4 then a.id end desc
        limit $5",
        prefix,
        exact,
        bound,
        backward,
        limit + 1
    )
    .fetch_all(pool)
    .await
    .map_err(StoreError::from)?;
    let more = drop_last(&mut ids, limit);
    if backward {
        ids.reverse();
    }
    let (next, previous) = cursors(
        ids.first().map(ToString::to_string),
        ids.last().map(ToString::to_string),
        backward,
        more,
        bound.is_some(),
    );
    let mut rows = Vec::with_capacity(ids.len());
    for id in ids {
        rows.extend(account(pool, AccountId(id)).await?);
    }
    Ok(Page { rows, next, previous })
}

/// `like` takes these as they are.
fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\").replace('%', "\\%").replace('_', "\\_")
}

pub(super) fn limit(page: &PageRequest) -> i64 {
    match i64::from(page.limit) {
        0 => PAGE_DEFAULT,
        limit => limit.min(PAGE_MAX),
    }
}

/// A cursor is `n` or `p` (the page after, the page before) and the key of the row it lies beside.
pub(super) fn cursor(page: &PageRequest) -> Result<(bool, Option<&str>), crate::service::BadCursor> {
    match page.cursor.as_deref() {
        None => Ok((false, None)),
        Some(text) => match text.split_at_checked(1) {
            Some(("n", key)) => Ok((false, Some(key))),
            Some(("p", key)) => Ok((true, Some(key))),
            _ => Err(crate::service::BadCursor),
        },
    }
}

pub(super) fn drop_last<T>(rows: &mut Vec<T>, limit: i64) -> bool {
    let limit = usize::try_from(limit).unwrap_or(0);
    let more = rows.len() > limit;
    rows.truncate(limit);
    more
}

/// The cursors beside a page whose rows are in list order.
pub(super) fn cursors(
    first: Option<String>,
    last: Option<String>,
    backward: bool,
    more: bool,
    bounded: bool,
) -> (Option<String>, Option<String>) {
    let has_next = if backward { bounded } else { more };
    let has_previous = if backward { more } else { bounded };
    let next = last.filter(|_| has_next).map(|key| format!("n{key}"));
    let previous = first.filter(|_| has_previous).map(|key| format!("p{key}"));
    (next, previous)
}

pub(super) fn seq_bound(bound: Option<&str>) -> Result<Option<i64>, crate::service::BadCursor> {
    bound.map(|text| text.parse::<i64>().map_err(|_| crate::service::BadCursor)).transpose()
}

pub(crate) async fn grants(
    pool: &PgPool,
    account: AccountId,
    live: Option<bool>,
    page: &PageRequest,
) -> Result<Page<GrantView>, PageError> {
    let limit = limit(page);
    let (backward, bound) = cursor(page)?;
    let bound = seq_bound(bound)?;
    let Some(snapshot) = snapshot(pool, account).await? else {
        return Ok(Page { rows: Vec::new(), next: None, previous: None });
    };
    let now = snapshot.present();
    // One instant decides which grants live and what a lapse leaves of them.
    let lapsed: BTreeMap<GrantId, Grant> =
        snapshot.lapsed(now)?.grants.into_iter().map(|grant| (grant.id, grant)).collect();
    let rows = grant_rows!(
        "from grants g
        where g.account_id = $1
            and ($2::boolean is null or $2 = (g.voided_at is null and (g.expires_at is null or g.expires_at > $3)))
            and ($4::bigint is null or case when $5 then g.seq > $4 else g.seq < $4 end)
        order by case when $5 then g.seq end asc, case when not $5 then g.seq end desc
        limit $6",
        account.0,
        live,
        now,
        bound,
        backward,
        limit + 1
    )
    .fetch_all(pool)
    .await
    .map_err(StoreError::from)?;
    let mut grants = rows.into_iter().map(GrantRow::grant).collect::<Result<Vec<_>, _>>()?;
    let more = drop_last(&mut grants, limit);
    if backward {
        grants.reverse();
    }
    let key = |grant: Option<&Grant>| grant.map(|grant| grant.seq.to_string());
    let (next, previous) = cursors(key(grants.first()), key(grants.last()), backward, more, bound.is_some());
    Ok(Page {
        rows: grants.iter().map(|grant| lapsed_grant(lapsed.get(&grant.id).unwrap_or(grant), now)).collect(),
        next,
        previous,
    })
}

/// A grant as a reader sees it: what is left of one that has ended lapsed with its end, whether written or not.
fn lapsed_grant(grant: &Grant, now: DateTime<Utc>) -> GrantView {
    let mut view = GrantView::of(grant, now);
    if !view.live {
        view.remaining = Credits::ZERO;
    }
    view
}

/// A hold as a reader sees it: one that is due has expired, whether written or not.
fn lapsed_hold(hold: &Hold, now: DateTime<Utc>) -> HoldView {
    let mut view = HoldView::of(hold);
    if hold.status == HoldStatus::Open && !hold.is_open(now) {
        view.status = HoldStatus::Expired;
        view.reversed = hold.amount;
    }
    view
}

pub(crate) async fn holds(
    pool: &PgPool,
    account: AccountId,
    status: Option<HoldStatus>,
    page: &PageRequest,
) -> Result<Page<HoldView>, PageError> {
    let limit = limit(page);
    let (backward, bound) = cursor(page)?;
    let bound =
        bound.map(|text| text.parse::<HoldId>().map_err(|_| crate::service::BadCursor)).transpose()?;
    let now = clock(pool).await?;
    let slice = Slice { bound, backward, limit: limit + 1 };
    let rows = lists::holds(pool, account, status, now, slice).await?;
    let mut holds = rows.into_iter().map(HoldRow::hold).collect::<Result<Vec<_>, _>>()?;
    let more = drop_last(&mut holds, limit);
    if backward {
        holds.reverse();
    }
    let key = |hold: Option<&Hold>| hold.map(|hold| hold.id.to_string());
    let (next, previous) = cursors(key(holds.first()), key(holds.last()), backward, more, bound.is_some());
    Ok(Page { rows: holds.iter().map(|hold| lapsed_hold(hold, now)).collect(), next, previous })
}

pub(crate) async fn hold(
    pool: &PgPool,
    account: AccountId,
    hold: HoldId,
) -> Result<Option<HoldView>, StoreError> {
    let now = clock(pool).await?;
    let row = hold_rows!("from holds h where h.account_id = $1 and h.id = $2", account.0, hold.0)
        .fetch_optional(pool)
        .await?;
    let hold = row.map(HoldRow::hold).transpose()?;
    Ok(hold.map(|hold| lapsed_hold(&hold, now)))
}

/// Accounts in the order of their ids, for passes over all of them.
pub(crate) async fn account_ids(
    pool: &PgPool,
    after: Option<AccountId>,
    limit: i64,
) -> Result<Vec<AccountId>, StoreError> {
    let after = after.map_or(Uuid::nil(), |account| account.0);
    let ids = sqlx::query_scalar!("select id from accounts where id > $1 order by id limit $2", after, limit)
        .fetch_all(pool)
        .await?;
    Ok(ids.into_iter().map(AccountId).collect())
}

/// Accounts with something that fell due by the clock, for the sweep.
pub(crate) async fn due(pool: &PgPool, limit: i64) -> Result<Vec<AccountId>, StoreError> {
    let rows = sqlx::query_scalar!(
        r#"select account_id as "account_id!" from (
            (select g.account_id, g.expires_at from grants g where g.open and g.expires_at <= (select ledger_now()) and g.remaining > 0
            order by g.expires_at limit $1)
            union all
            (select h.account_id, h.expires_at from holds h where h.status = 1 and h.expires_at <= (select ledger_now())
            order by h.expires_at limit $1)
        ) due group by account_id order by min(expires_at) limit $1"#,
        limit
    )
    .fetch_all(pool)
    .await?;
    Ok(rows.into_iter().map(AccountId).collect())
}
