//! Quotas on a real database: what counts as used, and that it is known without summing the whole history.

use chrono::Duration;
use ledger::Credits;
use ledger::command::{Command, Verb};
use ledger::ids::{AccountId, HoldId, Seq};
use ledger::quota::{Quota, Subject, Window};
use ledger::refusal::Refusal;
use sqlx::{Connection, Executor};
use uuid::Uuid;

use crate::cases::refusal;
use crate::lists::rows_read;
use crate::support::{Bench, command, credits, instant};

fn by(account: AccountId, member: &str, key: &str, verb: Verb) -> Command {
    let mut command = command(account, key, verb);
    command.call.member = Some(member.to_owned());
    command
}

fn charge(amount: &str) -> Verb {
    Verb::Charge { amount: credits(amount) }
}

async fn limit(bench: &Bench, account: AccountId, subject: Subject, window: Window, limit: &str) {
    let quota = Quota { subject, window, limit: credits(limit) };
    bench.ledger.set_quota(account, &quota).await.unwrap();
}

fn ann() -> Subject {
    Subject::Member("ann".to_owned())
}

#[tokio::test]
async fn quotas_bind_a_member_by_day_in_the_accounts_zone() {
    let bench = Bench::start().await;
    bench.clock("2026-03-10T10:00:00Z").await;
    let account = bench.funded("100").await;
    limit(&bench, account, ann(), Window::Day, "10").await;
    let by = |member: &str, key: &str, verb: Verb| by(account, member, key, verb);
    bench.ledger.submit(by("ann", "one", charge("6"))).await.unwrap();
    let exceeded = refusal(bench.ledger.submit(by("ann", "two", charge("5"))).await);
    let expected = Refusal::QuotaExceeded {
        subject: Subject::Member("ann".to_owned()),
        window: Window::Day,
        limit: credits("10"),
        used: credits("6"),
        resets_at: Some(instant("2026-03-11T00:00:00Z")),
    };
    assert_eq!(exceeded, expected);
    bench.ledger.submit(by("bob", "three", charge("50"))).await.unwrap();
    // An open hold counts, what is settled below it does not.
    let id = HoldId(Uuid::new_v4());
    bench
        .ledger
        .submit(by("ann", "hold", Verb::Hold { id, amount: credits("4"), expires_in_s: None }))
        .await
        .unwrap();
    assert!(matches!(
        refusal(bench.ledger.submit(by("ann", "four", charge("0.000001"))).await),
        Refusal::QuotaExceeded { .. }
    ));
    bench.settle(account, "settle", id, "1").await.unwrap();
    bench.ledger.submit(by("ann", "five", charge("3"))).await.unwrap();
    bench.clock("2026-03-11T00:00:00Z").await;
    bench.ledger.submit(by("ann", "six", charge("10"))).await.unwrap();
    bench.verify().await;
}

/// What the quotas of ann say was used: a charge above them is refused with it.
async fn used(bench: &Bench, account: AccountId) -> Credits {
    let probe = by(account, "ann", &Uuid::new_v4().to_string(), charge("1000000"));
    match refusal(bench.ledger.submit(probe).await) {
        Refusal::QuotaExceeded { used, .. } => used,
        other => panic!("{other:?}"),
    }
}

/// The same, summed by hand from the journal.
async fn used_by_hand(bench: &Bench, account: AccountId, window: Window) -> Credits {
    let now = bench.ledger.now().await.unwrap();
    let (from, to) = (window.start(now, chrono_tz::UTC), window.end(now, chrono_tz::UTC));
    let mut sum = Credits::ZERO;
    for entry in bench.ledger.journal(account, Seq(0), 10_000).await.unwrap() {
        let booked = entry.usage.filter(|used| used.at >= from && to.is_none_or(|to| used.at < to));
        if let Some(booked) = booked.filter(|_| entry.call.member.as_deref() == Some("ann")) {
            sum = sum.plus(booked.amount).unwrap();
        }
    }
    sum
}

#[tokio::test]
async fn what_is_remembered_and_what_came_since_are_what_the_journal_says() {
    for window in [Window::Day, Window::Month, Window::Total] {
        let bench = Bench::start().await;
        let start = instant("2026-03-30T20:00:00Z");
        bench.ledger.set_test_clock(start).await.unwrap();
        let account = bench.funded("10000000").await;
        limit(&bench, account, ann(), window, "100000").await;
        // Over a day's and a month's end, with others between, and refunds booked in the window of their charge.
        let mut charges = Vec::new();
        for number in 0..160_i32 {
            bench.ledger.set_test_clock(start + Duration::minutes(15 * i64::from(number))).await.unwrap();
            let key = number.to_string();
            let member = if number % 3 == 2 { "bob" } else { "ann" };
            let amount = format!("{}.000001", 1 + number % 7);
            let posted = bench.ledger.submit(by(account, member, &key, charge(&amount))).await.unwrap();
            charges.push(posted.set.main().unwrap().seq);
            if number % 5 == 4 {
                let seq = charges[usize::try_from(number / 2).unwrap()];
                let refund = Verb::Refund { seq, amount: Some(credits("0.1")) };
                bench.ledger.submit(command(account, &format!("refund {number}"), refund)).await.unwrap();
            }
            if number % 8 == 0 {
                let hold =
                    Verb::Hold { id: HoldId(Uuid::new_v4()), amount: credits("3"), expires_in_s: Some(600) };
                bench.ledger.submit(by(account, "ann", &format!("hold {number}"), hold)).await.unwrap();
                let by_hand = used_by_hand(&bench, account, window).await;
                assert_eq!(used(&bench, account).await, by_hand, "{window:?} {number}");
            }
        }
        let moved: i64 =
            sqlx::query_scalar("select counted_to from quotas").fetch_one(&bench.pool).await.unwrap();
        assert!(moved > 130, "the sum moved on to {moved}");
        bench.verify().await;
    }
}

/// Entries read so far by the account's lane too. A connection tells what it has read with its next transaction, a second after
/// the last time it did.
async fn read_by_lane(bench: &Bench, account: AccountId) -> i64 {
    tokio::time::sleep(std::time::Duration::from_millis(1_100)).await;
    bench.charge(account, &Uuid::new_v4().to_string(), "1").await.unwrap();
    rows_read(bench, "entries").await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_charge_of_a_member_with_many_entries_reads_few_of_them() {
    let bench = Bench::start().await;
    let account = bench.funded("10000000").await;
    let one = |number: u32| by(account, "ann", &format!("charge {number}"), charge("1"));
    let answers = bench.ledger.submit_many((0..1_500).map(one).collect()).await;
    assert!(answers.iter().all(Result::is_ok));
    limit(&bench, account, ann(), Window::Total, "1502").await;
    bench.owner().await.execute("vacuum analyze").await.unwrap();
    // The first one counts, and it is remembered though it is refused.
    assert_eq!(used(&bench, account).await, credits("1500"));
    for key in ["one", "two"] {
        let before = read_by_lane(&bench, account).await;
        bench.ledger.submit(by(account, "ann", key, charge("1"))).await.unwrap();
        let read = read_by_lane(&bench, account).await - before;
        assert!(read <= 100, "{read} rows were read");
    }
    assert!(matches!(
        refusal(bench.ledger.submit(by(account, "ann", "three", charge("0.000001"))).await),
        Refusal::QuotaExceeded { .. }
    ));
    // Others go on: what lies behind the remembered sum is walked once, and not by each refused charge anew.
    let others = |number: u32| by(account, "bob", &format!("bob {number}"), charge("1"));
    let answers = bench.ledger.submit_many((0..1_000).map(others).collect()).await;
    assert!(answers.iter().all(Result::is_ok));
    bench.owner().await.execute("vacuum analyze").await.unwrap();
    assert_eq!(used(&bench, account).await, credits("1502"));
    let before = read_by_lane(&bench, account).await;
    assert_eq!(used(&bench, account).await, credits("1502"));
    let read = read_by_lane(&bench, account).await - before;
    assert!(read <= 100, "{read} rows were read");
    bench.verify().await;
}

#[tokio::test]
async fn a_quota_that_is_set_later_or_anew_counts_what_was_used_before() {
    let bench = Bench::start().await;
    let account = bench.funded("100000").await;
    let key_ref = |key: &str, amount: &str| {
        let mut command = command(account, key, charge(amount));
        command.call.key_ref = Some("ci".to_owned());
        command
    };
    bench.ledger.submit(key_ref("before", "5")).await.unwrap();
    let subject = Subject::KeyRef("ci".to_owned());
    for (key, amount) in [("one", "10"), ("two", "20")] {
        limit(&bench, account, subject.clone(), Window::Total, "12").await;
        let exceeded = refusal(bench.ledger.submit(key_ref(key, "100")).await);
        let expected = if key == "one" { "5" } else { "15" };
        assert!(
            matches!(&exceeded, Refusal::QuotaExceeded { used, .. } if *used == credits(expected)),
            "{exceeded:?}"
        );
        assert!(bench.ledger.remove_quota(account, &subject, Window::Total).await.unwrap());
        // Nobody counts while there is no quota.
        bench.ledger.submit(key_ref(&format!("free {key}"), amount)).await.unwrap();
    }
    bench.verify().await;
}

const OF_ALL_TIME: &str = include_str!("../../../migrations/20261201000011_quota_counts_of_all_time.sql");

#[tokio::test]
async fn the_migration_counts_what_there_is_and_verify_sees_a_wrong_count() {
    let bench = Bench::start().await;
    let (first, second) = (bench.funded("1000").await, bench.funded("1000").await);
    for (account, amount) in [(first, "7"), (second, "40")] {
        limit(&bench, account, ann(), Window::Total, "500").await;
        limit(&bench, account, ann(), Window::Month, "500").await;
        limit(&bench, account, Subject::KeyRef("ci".to_owned()), Window::Total, "500").await;
        limit(&bench, account, Subject::Member("nobody".to_owned()), Window::Total, "500").await;
        let mut named = by(account, "ann", "one", charge(amount));
        named.call.key_ref = Some("ci".to_owned());
        let posted = bench.ledger.submit(named).await.unwrap();
        let seq = posted.set.main().unwrap().seq;
        let refund = Verb::Refund { seq, amount: Some(credits("0.5")) };
        bench.ledger.submit(command(account, "refund", refund)).await.unwrap();
        bench.ledger.submit(by(account, "ann", "two", charge("1"))).await.unwrap();
    }
    let mut owner = bench.owner().await;
    owner.execute("update quotas set counted_from = null, counted = 0, counted_to = 0").await.unwrap();
    sqlx::raw_sql(OF_ALL_TIME).execute(&mut owner).await.unwrap();
    let sql = "select subject, window_kind, counted::text, counted_to from quotas where account_id = $1 order by subject, window_kind";
    for (account, of_ann, of_ci) in [(first, "7.500000", "6.500000"), (second, "40.500000", "39.500000")] {
        let counted: Vec<(String, i16, String, i64)> =
            sqlx::query_as(sql).bind(account.0).fetch_all(&mut owner).await.unwrap();
        let row = |subject: &str, window: i16, counted: &str, to| {
            (subject.to_owned(), window, counted.to_owned(), to)
        };
        // Opened 1, funded 2, charged 3, refunded 4, charged 5; a month is counted when it is asked for.
        let expected = [
            row("ann", 2, "0.000000", 0),
            row("ann", 3, of_ann, 5),
            row("ci", 3, of_ci, 5),
            row("nobody", 3, "0.000000", 5),
        ];
        assert_eq!(counted, expected);
    }
    bench.verify().await;
    owner.execute("update quotas set counted = counted + 0.000001 where subject = 'ci'").await.unwrap();
    let report = bench.ledger.verify_account(first).await.unwrap();
    assert!(
        report.problems[0].what.contains("KeyRef(\"ci\") by total says 6.500001"),
        "{:?}",
        report.problems
    );
    owner.close().await.unwrap();
}
