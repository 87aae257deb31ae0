//! Lists and their totals that read few rows, however long the account's history is.

use chrono::{DateTime, Utc};
use rust_decimal::Decimal;
use sqlx::PgPool;

use super::StoreError;
use super::rows::{self, HoldRow};
use crate::entry::Kind;
use crate::hold::HoldStatus;
use crate::ids::AccountId;
use crate::service::{EntryQuery, EntryTotals};

/// `select` of the columns of [`HoldRow`] with a tail that names `h`.
macro_rules! hold_rows {
    ($tail:literal $(, $argument:expr)* $(,)?) => {
        sqlx::query_as!(
            HoldRow,
            r#"select h.account_id, h.id, h.seq, h.amount, h.status, h.part_grants, h.part_amounts as "part_amounts: Vec<Decimal>",
                h.placed_at, h.lifetime_s, h.renewed_at, h.expires_at, h.settled, h.released, h.reversed, h.needs_review,
                h.ended_by, h.late_settle, h.member, h.job_id, h.request_ref, h.model, h.key_ref "# + $tail
            $(, $argument)*
        )
    };
}

/// Where a page of a list by number begins, which way it goes, and how many rows it takes.
#[derive(Clone, Copy)]
pub(super) struct Slice {
    pub bound: Option<i64>,
    pub backward: bool,
    pub limit: i64,
}

/// Holds by number, the newest first; backward the oldest first. A hold that is due counts as expired.
///
/// Open ones are at most a thousand, found by the index of those that are stored as open; the inner select keeps the
/// planner from walking through all that have ended instead. The others come in the order of their numbers.
pub(super) async fn holds(
    pool: &PgPool,
    account: AccountId,
    status: Option<HoldStatus>,
    now: DateTime<Utc>,
    slice: Slice,
) -> Result<Vec<HoldRow>, StoreError> {
    let Slice { bound, backward, limit } = slice;
    let code = status.map(rows::hold_status_code);
    let rows = match (status, backward) {
        (Some(HoldStatus::Open), false) => {
            hold_rows!(
                "from (select * from holds where account_id = $1 and status = 1 and expires_at > $2 offset 0) h
                where h.seq < coalesce($3::bigint, 9223372036854775807) order by h.seq desc limit $4",
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
                where h.seq > coalesce($3::bigint, 0) order by h.seq limit $4",
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
                where h.account_id = $1 and h.seq < coalesce($4::bigint, 9223372036854775807)
                    and ($2::smallint is null or $2 = case when h.status = 1 and h.expires_at <= $3 then 5 else h.status end)
                order by h.seq desc limit $5",
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
                where h.account_id = $1 and h.seq > coalesce($4::bigint, 0)
                    and ($2::smallint is null or $2 = case when h.status = 1 and h.expires_at <= $3 then 5 else h.status end)
                order by h.seq limit $5",
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

/// Sums over time and kind: of each kind the running totals at the end less those at the beginning. Entries have no gap in
/// their numbers, so over all kinds their count is a difference too; of some kinds it is counted in the index.
pub(super) async fn totals(
    pool: &PgPool,
    account: AccountId,
    query: &EntryQuery,
) -> Result<EntryTotals, StoreError> {
    // Where the end lies before the beginning nothing is between them.
    if query.from.zip(query.to).is_some_and(|(from, to)| to <= from) {
        return Ok(EntryTotals::default());
    }
    let all = query.kinds.is_empty();
    let asked = if all { Kind::ALL } else { &query.kinds };
    let mut kinds: Vec<i16> = asked.iter().map(|kind| kind.code()).collect();
    kinds.sort_unstable();
    kinds.dedup();
    let row = sqlx::query!(
        r#"select
            case when $5 then coalesce(max(last.seq), 0) - coalesce(max(first.seq), 0) else (
                select count(*) from entries e where e.account_id = $1 and e.kind = any($2)
                    and e.effective_at >= coalesce($3, '-infinity'::timestamptz) and e.effective_at < coalesce($4, 'infinity'::timestamptz)
            ) end as "count!",
            sum(last.amount_total - coalesce(first.amount_total, 0)) as amount,
            sum(last.moved_total - coalesce(first.moved_total, 0)) as moved
        from unnest($2::smallint[]) as kinds(k)
        cross join lateral (
            select e.seq, e.amount_total, e.moved_total from entries e
            where e.account_id = $1 and e.kind = kinds.k and e.effective_at < coalesce($4, 'infinity'::timestamptz)
            order by e.effective_at desc, e.seq desc limit 1
        ) last
        left join lateral (
            select e.seq, e.amount_total, e.moved_total from entries e
            where e.account_id = $1 and e.kind = kinds.k and e.effective_at < coalesce($3, '-infinity'::timestamptz)
            order by e.effective_at desc, e.seq desc limit 1
        ) first on true"#,
        account.0,
        &kinds,
        query.from,
        query.to,
        all
    )
    .fetch_one(pool)
    .await?;
    Ok(EntryTotals {
        count: row.count,
        amount: rows::credits("entries", account.0, row.amount.unwrap_or_default())?,
        moved: rows::credits("entries", account.0, row.moved.unwrap_or_default())?,
    })
}
