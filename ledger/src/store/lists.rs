//! Lists and their totals that read few rows, however long the account's history is.

use chrono::{DateTime, Utc};
use sqlx::PgPool;

use super::StoreError;
use super::entries::Bounds;
use super::rows::{self, HoldRow, hold_rows};
use crate::credits::Credits;
use crate::entry::Kind;
use crate::hold::HoldStatus;
use crate::ids::{AccountId, HoldId};
use crate::service::{EntryQuery, EntryTotals};

/// Where a page of holds begins, which way it goes, and how many rows it takes.
#[derive(Clone, Copy)]
pub(super) struct Slice {
    pub bound: Option<HoldId>,
    pub backward: bool,
    pub limit: i64,
}

/// Holds by id, which sorts by time, the newest first; backward the oldest first. A hold that is due counts as expired.
///
/// Open ones are at most a thousand, found by the index of those that are stored as open; the inner select keeps the
/// planner from walking through all that have ended instead. The others come in the order of their ids.
pub(super) async fn holds(
    pool: &PgPool,
    account: AccountId,
    status: Option<HoldStatus>,
    now: DateTime<Utc>,
    slice: Slice,
) -> Result<Vec<HoldRow>, StoreError> {
    let Slice { bound, backward, limit } = slice;
    let bound = bound.map(|hold| hold.0);
    let code = status.map(rows::hold_status_code);
    let rows = match (status, backward) {
        (Some(HoldStatus::Open), false) => {
            hold_rows!(
                "from (select * from holds where account_id = $1 and status = 1 and expires_at > $2 offset 0) h
                where h.id < coalesce($3::uuid, 'ffffffff-ffff-ffff-ffff-ffffffffffff') order by h.id desc limit $4",
                account.0,
                now,
                bound,
                limit
            )
            .fetch_all(pool)
            .await?
        }
        (Some(HoldStatus::Open), true) => {
            hold_rows!(
                "from (select * from holds where account_id = $1 and status = 1 and expires_at > $2 offset 0) h
                where h.id > coalesce($3::uuid, '00000000-0000-0000-0000-000000000000') order by h.id limit $4",
                account.0,
                now,
                bound,
                limit
            )
            .fetch_all(pool)
            .await?
        }
        (_, false) => {
            hold_rows!(
                "from holds h
                where h.account_id = $1 and h.id < coalesce($4::uuid, 'ffffffff-ffff-ffff-ffff-ffffffffffff')
                    and ($2::smallint is null or $2 = case when h.status = 1 and h.expires_at <= $3 then 5 else h.status end)
                order by h.id desc limit $5",
                account.0,
                code,
                now,
                bound,
                limit
            )
            .fetch_all(pool)
            .await?
        }
        (_, true) => {
            hold_rows!(
                "from holds h
                where h.account_id = $1 and h.id > coalesce($4::uuid, '00000000-0000-0000-0000-000000000000')
                    and ($2::smallint is null or $2 = case when h.status = 1 and h.expires_at <= $3 then 5 else h.status end)
                order by h.id limit $5",
                account.0,
                code,
                now,
                bound,
                limit
            )
            .fetch_all(pool)
            .await?
        }
    };
    Ok(rows)
}

/// Whether a query asks for nothing but time and kind, of which every entry stores running totals.
pub(super) fn is_by_time_and_kind(query: &EntryQuery) -> bool {
    let named = [&query.member, &query.model, &query.key_ref, &query.request_ref];
    query.occurred_from.is_none()
        && query.occurred_to.is_none()
        && query.min.is_none()
        && query.max.is_none()
        && named.iter().all(|name| name.is_none())
}

/// Sums over numbers and kind: of each kind the running totals at the end less those at the beginning. Entries have no gap in
/// their numbers, so over all kinds their count is a difference too; of some kinds they are counted.
///
/// The last entry of a kind is found by the index of the rare ones, or backward in the order of the numbers; so kinds that
/// come with every call are looked for only where the account has any, which its own running totals tell: those of each of these
/// kinds go one way only.
pub(super) async fn totals(
    pool: &PgPool,
    account: AccountId,
    bounds: &Bounds,
) -> Result<EntryTotals, StoreError> {
    let all = bounds.kinds.is_empty();
    let kinds: Vec<i16> =
        if all { Kind::ALL.iter().map(|kind| kind.code()).collect() } else { bounds.kinds.clone() };
    let row = sqlx::query!(
        r#"select sum(last.amount_total - coalesce(first.amount_total, 0)) as "amount: Credits",
            sum(last.moved_total - coalesce(first.moved_total, 0)) as "moved: Credits"
        from unnest($2::smallint[]) as kinds(k)
        cross join lateral (
            (select e.amount_total, e.moved_total from entries e
            where kinds.k not between 2 and 5 and e.account_id = $1 and e.kind = kinds.k and e.seq < $4
                and e.kind <> 2 and e.kind <> 3 and e.kind <> 4 and e.kind <> 5
            order by e.seq desc limit 1)
            union all
            (select e.amount_total, e.moved_total from entries e
            where kinds.k between 2 and 5 and kinds.k = any((select a.totals from accounts a where a.id = $1)::numeric[])
                and e.account_id = $1 and e.kind = kinds.k and e.seq < $4
            order by e.seq desc limit 1)
        ) last
        left join lateral (
            (select e.amount_total, e.moved_total from entries e
            where kinds.k not between 2 and 5 and e.account_id = $1 and e.kind = kinds.k and e.seq < $3
                and e.kind <> 2 and e.kind <> 3 and e.kind <> 4 and e.kind <> 5
            order by e.seq desc limit 1)
            union all
            (select e.amount_total, e.moved_total from entries e
            where kinds.k between 2 and 5 and $3 > 1 and e.account_id = $1 and e.kind = kinds.k and e.seq < $3
            order by e.seq desc limit 1)
        ) first on true"#,
        account.0,
        &kinds,
        bounds.from,
        bounds.to.max(bounds.from)
    )
    .fetch_one(pool)
    .await?;
    let count =
        if all { between(pool, account, bounds).await? } else { count(pool, account, bounds).await? };
    Ok(EntryTotals {
        count,
        amount: row.amount.unwrap_or(Credits::ZERO),
        moved: row.moved.unwrap_or(Credits::ZERO),
    })
}

/// How many numbers lie between the bounds.
async fn between(pool: &PgPool, account: AccountId, bounds: &Bounds) -> Result<i64, StoreError> {
    let last = sqlx::query_scalar!("select seq from accounts where id = $1", account.0)
        .fetch_optional(pool)
        .await?
        .unwrap_or(0);
    Ok((bounds.to.min(last.saturating_add(1)) - bounds.from).max(0))
}

/// How many entries of some kinds lie between the bounds: in the index if all of these kinds are rare, else one by one.
async fn count(pool: &PgPool, account: AccountId, bounds: &Bounds) -> Result<i64, StoreError> {
    let (rare, in_order, scans) = bounds.kinds_by_way();
    let count = sqlx::query_scalar!(
        r#"select (select count(*) from entries e where e.account_id = $1 and e.kind = any($2) and e.seq >= $4 and e.seq < $5
                and e.kind <> 2 and e.kind <> 3 and e.kind <> 4 and e.kind <> 5)
            + (select count(*) from entries e where $6 and e.account_id = $1 and e.kind = any($3) and e.seq >= $4 and e.seq < $5)
            as "count!""#,
        account.0,
        rare,
        in_order,
        bounds.from,
        bounds.to,
        scans
    )
    .fetch_one(pool)
    .await?;
    Ok(count)
}
