//! What the subjects of quotas have used: a remembered sum, and the entries since.
//!
//! A quota's row remembers what its subject used in one window (`counted_from`) by entries up to one (`counted_to`). Entries
//! never change, so such a sum stays right whoever writes what after it, refunds booked in an older window among them; it
//! only grows old. A charge adds the entries since, and once these are [`ADVANCE`], the row moves on within the round.

use std::collections::BTreeMap;

use chrono::{DateTime, Utc};
use chrono_tz::Tz;
use sqlx::PgConnection;
use uuid::Uuid;

use super::StoreError;
use super::load::States;
use super::rows::{self, inconsistent};
use crate::credits::Credits;
use crate::decide::Needs;
use crate::ids::{AccountId, Seq};
use crate::quota::{Quota, Subject};

/// How many entries of the account a remembered sum may lie back.
const ADVANCE: i64 = 64;

/// Whether loading moved remembered sums on. They are worth keeping though every command of the round is refused: who is
/// refused may ask again and again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Counting {
    AsBefore,
    MovedOn,
}

/// A quota's row.
struct Row {
    account: Uuid,
    quota: Quota,
    counted_from: Option<DateTime<Utc>>,
    counted: Credits,
    counted_to: Seq,
}

/// The quotas of the subjects that commands name, and what these used in the window that holds `now`.
pub(crate) async fn load(
    connection: &mut PgConnection,
    states: &mut States,
    needs: &BTreeMap<AccountId, Needs>,
    now: DateTime<Utc>,
) -> Result<Counting, StoreError> {
    let mut counting = Counting::AsBefore;
    for row in quotas(connection, needs).await? {
        let Some(state) = states.get_mut(&AccountId(row.account)) else { continue };
        let (window, zone) = (row.quota.window, state.time_zone);
        let at = now.max(state.head.recorded_at);
        let span = Span { from: window.start(at, zone), to: window.end(at, zone) };
        let used = match row.counted_from {
            Some(from) if from == span.from => {
                since(connection, &row, span).await?.plus(row.counted).map_err(|_| bad(&row, "sum"))?
            }
            _ => up_to(connection, row.account, &row.quota.subject, span, state.head.seq).await?,
        };
        let lies_back = state.head.seq.0 - row.counted_to.0;
        if row.counted_from != Some(span.from) || lies_back >= ADVANCE {
            move_on(connection, &row, span.from, used, state.head.seq).await?;
            counting = Counting::MovedOn;
        }
        state.uses.insert((row.quota.subject.clone(), window, span.from), used);
        state.quotas.push(row.quota);
    }
    Ok(counting)
}

/// A window: its first instant, and the first after it.
#[derive(Clone, Copy)]
struct Span {
    from: DateTime<Utc>,
    to: Option<DateTime<Utc>>,
}

fn bad(row: &Row, what: &str) -> StoreError {
    inconsistent("quotas", row.account, what.to_owned())
}

async fn quotas(
    connection: &mut PgConnection,
    needs: &BTreeMap<AccountId, Needs>,
) -> Result<Vec<Row>, StoreError> {
    let subjects: Vec<(Uuid, &Subject)> = needs
        .iter()
        .flat_map(|(account, needs)| needs.subjects.iter().map(|subject| (account.0, subject)))
        .collect();
    let accounts: Vec<Uuid> = subjects.iter().map(|(account, _)| *account).collect();
    let kinds: Vec<i16> = subjects.iter().map(|(_, subject)| rows::subject_parts(subject).0).collect();
    let names: Vec<String> =
        subjects.iter().map(|(_, subject)| rows::subject_parts(subject).1.to_owned()).collect();
    let found = sqlx::query!(
        "select q.account_id, q.subject_kind, q.subject, q.window_kind, q.amount_max, q.counted_from, q.counted, q.counted_to
        from unnest($1::uuid[], $2::smallint[], $3::text[]) as wanted(a, k, s)
        join quotas q on q.account_id = wanted.a and q.subject_kind = wanted.k and q.subject = wanted.s
        order by q.account_id, q.subject_kind, q.subject, q.window_kind",
        &accounts,
        &kinds,
        &names
    )
    .fetch_all(connection)
    .await?;
    found
        .into_iter()
        .map(|row| {
            let account = row.account_id;
            let bad = || inconsistent("quotas", account, "subject or window".to_owned());
            let subject = rows::subject(row.subject_kind, row.subject).ok_or_else(bad)?;
            let window = rows::window(row.window_kind).ok_or_else(bad)?;
            let limit = rows::credits("quotas", account, row.amount_max)?;
            Ok(Row {
                account,
                quota: Quota { subject, window, limit },
                counted_from: row.counted_from,
                counted: rows::credits("quotas", account, row.counted)?,
                counted_to: Seq(row.counted_to),
            })
        })
        .collect()
}

/// What the entries after the remembered sum booked in the window. They are walked by number; there are few.
async fn since(connection: &mut PgConnection, row: &Row, span: Span) -> Result<Credits, StoreError> {
    let (kind, name) = rows::subject_parts(&row.quota.subject);
    let sum = sqlx::query_scalar!(
        "select sum(e.use_amount) from (
            select e.use_at, e.use_amount, e.member, e.key_ref from entries e where e.account_id = $1 and e.seq > $2 offset 0
        ) e
        where case when $3 = 1::smallint then e.member else e.key_ref end = $4
            and e.use_at >= $5 and e.use_at < coalesce($6, 'infinity'::timestamptz)",
        row.account,
        row.counted_to.0,
        kind,
        name,
        span.from,
        span.to
    )
    .fetch_one(connection)
    .await?;
    rows::credits("entries", row.account, sum.unwrap_or_default())
}

/// Charges + settles + open holds − refunds of a subject, booked in a window by entries up to one.
async fn up_to(
    connection: &mut PgConnection,
    account: Uuid,
    subject: &Subject,
    span: Span,
    seq: Seq,
) -> Result<Credits, StoreError> {
    let sum = match subject {
        Subject::Member(member) => {
            sqlx::query_scalar!(
                "select sum(use_amount) from entries
                where account_id = $1 and member = $2 and use_at >= $3 and use_at < coalesce($4, 'infinity'::timestamptz) and seq <= $5",
                account,
                member,
                span.from,
                span.to,
                seq.0
            )
            .fetch_one(connection)
            .await?
        }
        Subject::KeyRef(key_ref) => {
            sqlx::query_scalar!(
                "select sum(use_amount) from entries
                where account_id = $1 and key_ref = $2 and use_at >= $3 and use_at < coalesce($4, 'infinity'::timestamptz) and seq <= $5",
                account,
                key_ref,
                span.from,
                span.to,
                seq.0
            )
            .fetch_one(connection)
            .await?
        }
    };
    rows::credits("entries", account, sum.unwrap_or_default())
}

/// Remembers a sum. The account is locked, so no other round does the same.
async fn move_on(
    connection: &mut PgConnection,
    row: &Row,
    from: DateTime<Utc>,
    used: Credits,
    to: Seq,
) -> Result<(), StoreError> {
    let (kind, name) = rows::subject_parts(&row.quota.subject);
    sqlx::query!(
        "update quotas set counted_from = $5, counted = $6, counted_to = $7
        where account_id = $1 and subject_kind = $2 and subject = $3 and window_kind = $4",
        row.account,
        kind,
        name,
        rows::window_code(row.quota.window),
        from,
        used.decimal(),
        to.0
    )
    .execute(connection)
    .await?;
    Ok(())
}

/// For verify: the first remembered sum that is not that of its entries.
pub(crate) async fn miscounted(
    connection: &mut PgConnection,
    account: AccountId,
    zone: Tz,
) -> Result<Option<String>, StoreError> {
    let names = sqlx::query!("select subject_kind, subject from quotas where account_id = $1", account.0)
        .fetch_all(&mut *connection)
        .await?;
    let mut needs = Needs::default();
    needs.subjects.extend(names.into_iter().filter_map(|row| rows::subject(row.subject_kind, row.subject)));
    for row in quotas(connection, &BTreeMap::from([(account, needs)])).await? {
        let Some(from) = row.counted_from else { continue };
        let Quota { subject, window, .. } = &row.quota;
        let span = Span { from: window.start(from, zone), to: window.end(from, zone) };
        let used = up_to(connection, account.0, subject, span, row.counted_to).await?;
        if span.from != from || used != row.counted {
            let (counted, to, window) = (row.counted, row.counted_to, window.as_str());
            return Ok(Some(format!(
                "the quota of {subject:?} by {window} says {counted} used since {from}, up to entry {to}; the journal {used}"
            )));
        }
    }
    Ok(None)
}
