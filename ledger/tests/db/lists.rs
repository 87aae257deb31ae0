//! Totals and lists: right, whatever the filter, and without reading the account's whole history.

use std::collections::BTreeSet;

use chrono::{DateTime, Duration, Utc};
use ledger::Credits;
use ledger::command::{Expiry, Verb};
use ledger::entry::{Entry, Kind};
use ledger::grant::Pool;
use ledger::hold::HoldStatus;
use ledger::ids::{AccountId, HoldId, Seq};
use ledger::service::{EntryQuery, EntryTotals, PageRequest};
use sqlx::{AssertSqlSafe, Executor};
use uuid::Uuid;

use crate::support::{Bench, command, credits, instant};

/// How many rows of a table, and entries of its indexes, were read so far. Each connection tells what it has read when it
/// is asked to, so all are asked.
pub async fn rows_read(bench: &Bench, table: &str) -> i64 {
    let mut connections = Vec::new();
    for _ in 0..bench.pool.options().get_max_connections() {
        connections.push(bench.pool.acquire().await.unwrap());
    }
    for connection in &mut connections {
        connection.execute("select pg_stat_force_next_flush()").await.unwrap();
    }
    let sql = format!(
        "select (coalesce(t.seq_tup_read, 0) + coalesce((select sum(i.idx_tup_read) from pg_stat_user_indexes i where i.relid = t.relid), 0))::bigint
        from pg_stat_user_tables t where t.relname = '{table}'"
    );
    sqlx::query_scalar(AssertSqlSafe(sql)).fetch_one(&mut *connections[0]).await.unwrap()
}

/// What was changed lately still has entries in the indexes until it is cleaned up.
async fn vacuum(bench: &Bench) {
    bench.owner().await.execute("vacuum analyze").await.unwrap();
}

/// Some of every kind that moves something, a few at one instant, over four days.
async fn busy(bench: &Bench) -> AccountId {
    bench.clock("2026-03-01T00:00:00Z").await;
    let account = bench.funded("1000").await;
    for number in 0..24 {
        let now = instant("2026-03-01T00:00:00Z") + Duration::hours(4 * number);
        bench.ledger.set_test_clock(now).await.unwrap();
        let key = |name: &str| format!("{name} {number}");
        let charge = bench.charge(account, &key("charge"), "3.5").await.unwrap();
        let hold = bench.hold(account, &key("hold"), "7", Some(600)).await.unwrap();
        let seq = charge.set.main().unwrap().seq;
        match number % 4 {
            0 => drop(bench.settle(account, &key("settle"), hold, "2.25").await.unwrap()),
            1 => drop(bench.settle(account, &key("settle"), hold, "9").await.unwrap()),
            2 => {
                bench.ledger.submit(command(account, &key("end"), Verb::Release { hold })).await.unwrap();
            }
            // It expires, and its reversal takes effect before it is written.
            _ => {
                let refund = Verb::Refund { seq, amount: Some(credits("0.000001")) };
                bench.ledger.submit(command(account, &key("refund"), refund)).await.unwrap();
                bench.grant(account, "1", Pool::Promo, Expiry::At(now + Duration::hours(30))).await;
            }
        }
    }
    account
}

/// The sums as anybody would make them by hand.
fn by_hand(journal: &[Entry], query: &EntryQuery) -> EntryTotals {
    let mut sums = EntryTotals::default();
    let taken = journal.iter().filter(|entry| {
        (query.kinds.is_empty() || query.kinds.contains(&entry.kind))
            && query.from.is_none_or(|from| entry.effective_at >= from)
            && query.to.is_none_or(|to| entry.effective_at < to)
    });
    for entry in taken {
        sums.count += 1;
        sums.amount = sums.amount.plus(entry.amount).unwrap();
        sums.moved = sums.moved.plus(entry.moved).unwrap();
    }
    sums
}

#[tokio::test]
async fn totals_by_time_and_kind_are_the_sums_of_the_rows() {
    let bench = Bench::start().await;
    let account = busy(&bench).await;
    let journal = bench.ledger.journal(account, Seq(0), 1_000).await.unwrap();
    let kinds: BTreeSet<Kind> = journal.iter().map(|entry| entry.kind).collect();
    assert!(kinds.len() >= 8, "{kinds:?}");
    let mut instants: BTreeSet<DateTime<Utc>> =
        journal.iter().step_by(9).map(|entry| entry.effective_at).collect();
    instants.insert(instant("2020-01-01T00:00:00Z"));
    instants.insert(instant("2030-01-01T00:00:00Z"));
    let beside: Vec<_> = instants.iter().map(|at| *at + Duration::microseconds(1)).collect();
    instants.extend(beside);
    let bounds: Vec<Option<DateTime<Utc>>> = instants.into_iter().map(Some).chain([None]).collect();
    let selections = [
        vec![],
        vec![Kind::Consume],
        vec![Kind::Settle, Kind::AuthHold, Kind::Settle],
        vec![Kind::AuthReversal, Kind::AuthRelease, Kind::Expire, Kind::Refund],
        vec![Kind::Clawback],
        Kind::ALL.to_vec(),
    ];
    let mut asked = 0;
    for kinds in &selections {
        for from in &bounds {
            for to in &bounds {
                let query =
                    EntryQuery { kinds: kinds.clone(), from: *from, to: *to, ..EntryQuery::default() };
                let totals = bench.ledger.entry_totals(account, &query).await.unwrap();
                assert_eq!(totals, by_hand(&journal, &query), "{query:?}");
                asked += 1;
            }
        }
    }
    assert!(asked > 1_000, "{asked}");
    // Any other filter is summed row by row, and agrees where it takes everything.
    let all = EntryQuery { min: Some(Credits::ZERO), ..EntryQuery::default() };
    assert_eq!(
        bench.ledger.entry_totals(account, &all).await.unwrap(),
        by_hand(&journal, &EntryQuery::default())
    );
    let nobody = AccountId(Uuid::new_v4());
    let none = bench.ledger.entry_totals(nobody, &EntryQuery::default()).await.unwrap();
    assert_eq!(none, EntryTotals::default());
    bench.verify().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn totals_over_all_kinds_read_a_handful_of_rows() {
    let bench = Bench::start().await;
    let account = bench.funded("1000").await;
    let charge =
        |number: u32| command(account, &format!("charge {number}"), Verb::Charge { amount: credits("0.5") });
    let answers = bench.ledger.submit_many((0..1_000).map(charge).collect()).await;
    assert!(answers.iter().all(Result::is_ok));
    vacuum(&bench).await;
    let before = rows_read(&bench, "entries").await;
    let totals = bench.ledger.entry_totals(account, &EntryQuery::default()).await.unwrap();
    assert_eq!((totals.count, totals.amount), (1_002, credits("500")));
    let read = rows_read(&bench, "entries").await - before;
    assert!(read <= 30, "{read} rows were read");
    bench.verify().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn holds_by_status_are_listed_without_those_that_have_ended() {
    let bench = Bench::start().await;
    bench.clock("2026-03-01T00:00:00Z").await;
    let account = bench.funded("10000").await;
    let mut open = Vec::new();
    for number in 0..6 {
        open.push(bench.hold(account, &format!("open {number}"), "1", Some(3_600)).await.unwrap());
    }
    let due = bench.hold(account, "due", "1", Some(60)).await.unwrap();
    let ids: Vec<HoldId> = (0..400).map(|_| HoldId(Uuid::now_v7())).collect();
    let place = |(number, id): (usize, &HoldId)| {
        let verb = Verb::Hold { id: *id, amount: credits("1"), expires_in_s: Some(600) };
        command(account, &format!("hold {number}"), verb)
    };
    let release = |(number, id): (usize, &HoldId)| {
        command(account, &format!("release {number}"), Verb::Release { hold: *id })
    };
    let commands = ids.iter().enumerate().map(place).chain(ids.iter().enumerate().map(release));
    let answers = bench.ledger.submit_many(commands.collect()).await;
    assert!(answers.iter().all(Result::is_ok));
    bench.clock("2026-03-01T00:05:00Z").await;
    vacuum(&bench).await;

    let page = |status, cursor: Option<String>, limit| {
        let bench = &bench;
        async move { bench.ledger.holds(account, status, &PageRequest { cursor, limit }).await.unwrap() }
    };
    let before = rows_read(&bench, "holds").await;
    let found = page(Some(HoldStatus::Open), None, 200).await;
    let read = rows_read(&bench, "holds").await - before;
    assert!(read <= 10, "{read} rows were read");
    open.reverse();
    assert_eq!(found.rows.iter().map(|hold| hold.id).collect::<Vec<_>>(), open);
    let before = rows_read(&bench, "holds").await;
    assert_eq!(page(None, None, 10).await.rows.len(), 10);
    let read = rows_read(&bench, "holds").await - before;
    assert!(read <= 20, "{read} rows were read");

    // Forward and back again, for every status: the same as all of them, sifted by hand.
    let mut all = Vec::new();
    let mut cursor = None;
    loop {
        let next = page(None, cursor, 200).await;
        all.extend(next.rows);
        cursor = next.next;
        if cursor.is_none() {
            break;
        }
    }
    assert_eq!(all.len(), 407);
    assert!(all.is_sorted_by(|newer, older| newer.seq > older.seq));
    for (status, many) in [(HoldStatus::Open, 6), (HoldStatus::Expired, 1), (HoldStatus::Released, 400)] {
        let expected: Vec<HoldId> =
            all.iter().filter(|hold| hold.status == status).map(|hold| hold.id).collect();
        assert_eq!(expected.len(), many);
        let mut forward = Vec::new();
        let mut last = page(Some(status), None, 4).await;
        forward.extend(last.rows.iter().map(|hold| hold.id));
        while let Some(next) = last.next.clone() {
            last = page(Some(status), Some(next), 4).await;
            forward.extend(last.rows.iter().map(|hold| hold.id));
        }
        assert_eq!(forward, expected);
        let mut backward: Vec<HoldId> = last.rows.iter().map(|hold| hold.id).collect();
        while let Some(previous) = last.previous.clone() {
            last = page(Some(status), Some(previous), 4).await;
            backward.splice(0..0, last.rows.iter().map(|hold| hold.id));
        }
        assert_eq!(backward, expected);
    }
    assert_eq!(page(Some(HoldStatus::Expired), None, 5).await.rows[0].id, due);
    bench.verify().await;
}
