//! Reads the journal: pages of an account's entries, their sums, and what they say by day.

use std::collections::BTreeSet;

use chrono::{DateTime, Utc};
use chrono_tz::Tz;
use rust_decimal::Decimal;
use sqlx::{PgConnection, PgPool};

use super::StoreError;
use super::lists;
use super::load::{self, with_lines};
use super::read::{cursor, cursors, drop_last, limit, seq_bound};
use super::rows::{self, EntryRow, entry_rows};
use crate::credits::Credits;
use crate::entry::{Entry, Kind};
use crate::ids::{AccountId, Seq};
use crate::service::{EntryQuery, EntryTotals, Page, PageError, PageRequest, UsageRow};

/// The number of the last entry effective by `at`, 0 for none. Numbers have no gap and `effective_at` never falls, so it is found
/// by halving: some twenty looks by number for a million entries.
pub(super) async fn last_seq_by(
    pool: &PgPool,
    account: AccountId,
    at: DateTime<Utc>,
) -> Result<i64, StoreError> {
    let seq = sqlx::query_scalar!(
        r#"with recursive halving(low, high) as (
            select 0::bigint, a.seq + 1 from accounts a where a.id = $1
            union all
            select case when e.effective_at <= $2 then e.seq else h.low end, case when e.effective_at <= $2 then h.high else e.seq end
            from halving h join entries e on e.account_id = $1 and e.seq = (h.low + h.high) / 2
            where h.high - h.low > 1
        )
        select coalesce(max(low), 0) as "seq!" from halving"#,
        account.0,
        at
    )
    .fetch_one(pool)
    .await?;
    Ok(seq)
}

/// A query with its instants turned into bounds of `seq`: `from` ≤ seq < `to`.
pub(super) struct Bounds {
    pub from: i64,
    pub to: i64,
    pub kinds: Vec<i16>,
}

impl Bounds {
    /// Kinds to be found by the index of the rare ones; kinds to be found in the order of numbers, none for all; and whether
    /// that order is gone through.
    pub(super) fn kinds_by_way(&self) -> (&[i16], &[i16], bool) {
        let dense = [Kind::Consume, Kind::AuthHold, Kind::Settle, Kind::AuthRelease].map(Kind::code);
        if !self.kinds.is_empty() && !self.kinds.iter().any(|kind| dense.contains(kind)) {
            (&self.kinds, &[], false)
        } else {
            (&[], &self.kinds, true)
        }
    }
}

async fn bounds(pool: &PgPool, account: AccountId, query: &EntryQuery) -> Result<Bounds, StoreError> {
    // Entries effective before an instant are those effective by the microsecond before it.
    let before = |at: DateTime<Utc>| at - chrono::Duration::microseconds(1);
    let from = match query.from {
        Some(from) => last_seq_by(pool, account, before(from)).await? + 1,
        None => 1,
    };
    let to = match query.to {
        Some(to) => last_seq_by(pool, account, before(to)).await? + 1,
        None => i64::MAX,
    };
    let kinds: BTreeSet<i16> = query.kinds.iter().map(|kind| kind.code()).collect();
    Ok(Bounds { from, to, kinds: kinds.into_iter().collect() })
}

/// A page of history. With rare kinds alone, one index range per kind is merged; else it is one range of numbers.
pub(crate) async fn entries(
    pool: &PgPool,
    account: AccountId,
    query: &EntryQuery,
    page: &PageRequest,
) -> Result<Page<Entry>, PageError> {
    let limit = limit(page);
    let (backward, bound) = cursor(page)?;
    let bound = seq_bound(bound)?;
    let mut bounds = bounds(pool, account, query).await?;
    match bound {
        Some(seq) if backward => bounds.from = bounds.from.max(seq.saturating_add(1)),
        Some(seq) => bounds.to = bounds.to.min(seq),
        None => {}
    }
    let mut connection = pool.acquire().await.map_err(StoreError::from)?;
    let rows = entry_page(&mut connection, account, query, &bounds, backward, limit + 1).await?;
    let mut entries = rows.into_iter().map(EntryRow::entry).collect::<Result<Vec<_>, _>>()?;
    let more = drop_last(&mut entries, limit);
    if backward {
        entries.reverse();
    }
    let entries = with_lines(&mut connection, entries).await?;
    let key = |entry: Option<&Entry>| entry.map(|entry| entry.seq.to_string());
    let (next, previous) =
        cursors(key(entries.first()), key(entries.last()), backward, more, bound.is_some());
    Ok(Page { rows: entries, next, previous })
}

async fn entry_page(
    connection: &mut PgConnection,
    account: AccountId,
    query: &EntryQuery,
    bounds: &Bounds,
    backward: bool,
    limit: i64,
) -> Result<Vec<EntryRow>, StoreError> {
    let (min, max) = (query.min.map(Credits::decimal), query.max.map(Credits::decimal));
    let (rare, in_order, scans) = bounds.kinds_by_way();
    let rows = if backward {
        entry_rows!(
            "from (
                select e.account_id, e.seq from unnest($4::smallint[]) as kinds(k) cross join lateral (
                    select e.* from entries e
                    where e.account_id = $1 and e.kind = kinds.k and e.kind <> 2 and e.kind <> 3 and e.kind <> 4 and e.kind <> 5
                        and e.seq >= $2 and e.seq < $3
                        and ($6::timestamptz is null or e.occurred_at >= $6) and ($7::timestamptz is null or e.occurred_at < $7)
                        and ($8::text is null or e.member = $8) and ($9::text is null or e.model = $9)
                        and ($10::text is null or e.key_ref = $10) and ($11::text is null or e.request_ref = $11)
                        and ($12::numeric is null or abs(case when e.amount = 0 then e.moved else e.amount end) >= $12)
                        and ($13::numeric is null or abs(case when e.amount = 0 then e.moved else e.amount end) <= $13)
                    order by e.seq limit $14
                ) e
                union all
                (select e.account_id, e.seq from entries e
                where $15 and e.account_id = $1 and (cardinality($5::smallint[]) = 0 or e.kind = any($5)) and e.seq >= $2 and e.seq < $3
                    and ($6::timestamptz is null or e.occurred_at >= $6) and ($7::timestamptz is null or e.occurred_at < $7)
                    and ($8::text is null or e.member = $8) and ($9::text is null or e.model = $9)
                    and ($10::text is null or e.key_ref = $10) and ($11::text is null or e.request_ref = $11)
                    and ($12::numeric is null or abs(case when e.amount = 0 then e.moved else e.amount end) >= $12)
                    and ($13::numeric is null or abs(case when e.amount = 0 then e.moved else e.amount end) <= $13)
                order by e.seq limit $14)
            ) found
            join entries e on e.account_id = found.account_id and e.seq = found.seq
            left join entry_words w on w.account_id = e.account_id and w.seq = e.seq
            order by e.seq limit $14",
            account.0,
            bounds.from,
            bounds.to,
            rare,
            in_order,
            query.occurred_from,
            query.occurred_to,
            query.member.as_deref(),
            query.model.as_deref(),
            query.key_ref.as_deref(),
            query.request_ref.as_deref(),
            min as Option<Decimal>,
            max as Option<Decimal>,
            limit,
            scans
        )
        .fetch_all(connection)
        .await?
    } else {
        entry_rows!(
            "from (
                select e.account_id, e.seq from unnest($4::smallint[]) as kinds(k) cross join lateral (
                    select e.* from entries e
                    where e.account_id = $1 and e.kind = kinds.k and e.kind <> 2 and e.kind <> 3 and e.kind <> 4 and e.kind <> 5
                        and e.seq >= $2 and e.seq < $3
                        and ($6::timestamptz is null or e.occurred_at >= $6) and ($7::timestamptz is null or e.occurred_at < $7)
                        and ($8::text is null or e.member = $8) and ($9::text is null or e.model = $9)
                        and ($10::text is null or e.key_ref = $10) and ($11::text is null or e.request_ref = $11)
                        and ($12::numeric is null or abs(case when e.amount = 0 then e.moved else e.amount end) >= $12)
                        and ($13::numeric is null or abs(case when e.amount = 0 then e.moved else e.amount end) <= $13)
                    order by e.seq desc limit $14
                ) e
                union all
                (select e.account_id, e.seq from entries e
                where $15 and e.account_id = $1 and (cardinality($5::smallint[]) = 0 or e.kind = any($5)) and e.seq >= $2 and e.seq < $3
                    and ($6::timestamptz is null or e.occurred_at >= $6) and ($7::timestamptz is null or e.occurred_at < $7)
                    and ($8::text is null or e.member = $8) and ($9::text is null or e.model = $9)
                    and ($10::text is null or e.key_ref = $10) and ($11::text is null or e.request_ref = $11)
                    and ($12::numeric is null or abs(case when e.amount = 0 then e.moved else e.amount end) >= $12)
                    and ($13::numeric is null or abs(case when e.amount = 0 then e.moved else e.amount end) <= $13)
                order by e.seq desc limit $14)
            ) found
            join entries e on e.account_id = found.account_id and e.seq = found.seq
            left join entry_words w on w.account_id = e.account_id and w.seq = e.seq
            order by e.seq desc limit $14",
            account.0,
            bounds.from,
            bounds.to,
            rare,
            in_order,
            query.occurred_from,
            query.occurred_to,
            query.member.as_deref(),
            query.model.as_deref(),
            query.key_ref.as_deref(),
            query.request_ref.as_deref(),
            min as Option<Decimal>,
            max as Option<Decimal>,
            limit,
            scans
        )
        .fetch_all(connection)
        .await?
    };
    Ok(rows)
}

/// Sums over a whole filter. By time and kind they are differences of running totals; else they read the rows of the
/// filter, and a screen asks for them behind a link where there may be many.
pub(crate) async fn entry_totals(
    pool: &PgPool,
    account: AccountId,
    query: &EntryQuery,
) -> Result<EntryTotals, StoreError> {
    let bounds = bounds(pool, account, query).await?;
    if lists::is_by_time_and_kind(query) {
        return lists::totals(pool, account, &bounds).await;
    }
    let kinds: Vec<i16> = if bounds.kinds.is_empty() {
        Kind::ALL.iter().map(|kind| kind.code()).collect()
    } else {
        bounds.kinds
    };
    let row = sqlx::query!(
        r#"select count(*) as "count!", sum(e.amount) as amount, sum(e.moved) as moved from entries e
        where e.account_id = $1 and e.kind = any($4) and e.seq >= $2 and e.seq < $3
            and ($5::timestamptz is null or e.occurred_at >= $5) and ($6::timestamptz is null or e.occurred_at < $6)
            and ($7::text is null or e.member = $7) and ($8::text is null or e.model = $8)
            and ($9::text is null or e.key_ref = $9) and ($10::text is null or e.request_ref = $10)
            and ($11::numeric is null or abs(case when e.amount = 0 then e.moved else e.amount end) >= $11)
            and ($12::numeric is null or abs(case when e.amount = 0 then e.moved else e.amount end) <= $12)"#,
        account.0,
        bounds.from,
        bounds.to,
        &kinds,
        query.occurred_from,
        query.occurred_to,
        query.member.as_deref(),
        query.model.as_deref(),
        query.key_ref.as_deref(),
        query.request_ref.as_deref(),
        query.min.map(Credits::decimal) as Option<Decimal>,
        query.max.map(Credits::decimal) as Option<Decimal>
    )
    .fetch_one(pool)
    .await?;
    Ok(EntryTotals {
        count: row.count,
        amount: rows::credits("entries", account.0, row.amount.unwrap_or_default())?,
        moved: rows::credits("entries", account.0, row.moved.unwrap_or_default())?,
    })
}

pub(crate) async fn entry(pool: &PgPool, account: AccountId, seq: Seq) -> Result<Option<Entry>, StoreError> {
    let mut connection = pool.acquire().await?;
    let mut entries = load::entries(&mut connection, &BTreeSet::from([(account, seq)])).await?;
    Ok(entries.pop())
}

pub(crate) async fn usage_by_day(
    pool: &PgPool,
    account: AccountId,
    from: DateTime<Utc>,
    to: DateTime<Utc>,
    zone: Tz,
) -> Result<Vec<UsageRow>, StoreError> {
    let used = [Kind::Consume, Kind::Settle, Kind::Refund].map(Kind::code);
    let span = EntryQuery { from: Some(from), to: Some(to), ..EntryQuery::default() };
    let Bounds { from, to, .. } = bounds(pool, account, &span).await?;
    let rows = sqlx::query!(
        r#"select (e.effective_at at time zone $5)::date as "day!", e.model, sum(-e.amount) as "amount!" from entries e
        where e.account_id = $1 and e.kind = any($2) and e.seq >= $3 and e.seq < $4
        group by 1, 2 order by 1, 2"#,
        account.0,
        &used[..],
        from,
        to,
        zone.name()
    )
    .fetch_all(pool)
    .await?;
    rows.into_iter()
        .map(|row| {
            Ok(UsageRow {
                day: row.day,
                model: row.model,
                amount: rows::credits("entries", account.0, row.amount)?,
            })
        })
        .collect()
}

/// Entries of an account in order, after a number.
pub(crate) async fn journal(
    connection: &mut PgConnection,
    account: AccountId,
    after: Seq,
    limit: i64,
) -> Result<Vec<Entry>, StoreError> {
    let rows = entry_rows!(
        "from entries e left join entry_words w on w.account_id = e.account_id and w.seq = e.seq
        where e.account_id = $1 and e.seq > $2 order by e.seq limit $3",
        account.0,
        after.0,
        limit
    )
    .fetch_all(&mut *connection)
    .await?;
    let entries = rows.into_iter().map(EntryRow::entry).collect::<Result<Vec<_>, _>>()?;
    with_lines(connection, entries).await
}
