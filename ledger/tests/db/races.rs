//! Many callers at once: nobody spends what is not there, nobody is refused what is.

use std::collections::BTreeSet;

use ledger::command::{Expiry, Verb};
use ledger::grant::Pool;
use ledger::refusal::Refusal;
use ledger::service::PostError;
use tokio::task::JoinSet;

use crate::support::{Bench, command, credits};

#[tokio::test(flavor = "multi_thread")]
async fn fifty_concurrent_deductions_leave_the_exact_balance() {
    let bench = Bench::start().await;
    let account = bench.funded("100").await;
    let mut tasks = JoinSet::new();
    for number in 0..50 {
        let ledger = bench.ledger.clone();
        let charge = command(account, &format!("charge {number}"), Verb::Charge { amount: credits("1.5") });
        tasks.spawn(async move { ledger.submit(charge).await });
    }
    let answers = tasks.join_all().await;
    assert!(answers.iter().all(Result::is_ok), "{answers:?}");
    assert_eq!(bench.figures(account).await, ("25".to_owned(), "0".to_owned(), "0".to_owned()));
    bench.verify().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_same_key_ten_times_charges_once_and_answers_ten_times_alike() {
    let bench = Bench::start().await;
    let account = bench.funded("10").await;
    let mut tasks = JoinSet::new();
    for _ in 0..10 {
        let ledger = bench.ledger.clone();
        let charge = command(account, "once", Verb::Charge { amount: credits("3") });
        tasks.spawn(async move { ledger.submit(charge).await });
    }
    let answers = tasks.join_all().await;
    let posted: Vec<_> = answers.into_iter().map(Result::unwrap).collect();
    assert_eq!(posted.iter().filter(|posted| !posted.replayed).count(), 1);
    assert!(posted.iter().all(|other| other.set == posted[0].set));
    assert_eq!(bench.figures(account).await.0, "7");
    // A later replay is read back from the journal and is the same to the letter.
    let again = bench.charge(account, "once", "3").await.unwrap();
    assert!(again.replayed);
    assert_eq!(again.set, posted[0].set);
    bench.verify().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn two_spends_race_for_the_last_credit_and_one_wins() {
    let bench = Bench::start().await;
    for run in 0..20 {
        let account = bench.funded("1").await;
        let first = format!("{run} first");
        let second = format!("{run} second");
        let (first, second) =
            tokio::join!(bench.charge(account, &first, "1"), bench.charge(account, &second, "1"));
        assert_eq!([first.is_ok(), second.is_ok()].iter().filter(|won| **won).count(), 1);
        let lost = first.err().or(second.err()).unwrap();
        assert!(matches!(lost, PostError::Refused(Refusal::InsufficientCredits { .. })), "{lost:?}");
        assert_eq!(bench.figures(account).await.0, "0");
    }
    bench.verify().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn c27_parallel_holds_count_at_once_and_conflicts_are_no_poverty() {
    let bench = Bench::start().await;
    // (1) Six parallel holds of 1,000 on 5,000: always five, a hundred times.
    for run in 0..100 {
        let account = bench.funded("5000").await;
        let mut tasks = JoinSet::new();
        for number in 0..6 {
            let ledger = bench.ledger.clone();
            let id = ledger::ids::HoldId(uuid::Uuid::new_v4());
            let hold = command(
                account,
                &format!("{run} {number}"),
                Verb::Hold { id, amount: credits("1000"), expires_in_s: None },
            );
            tasks.spawn(async move { ledger.submit(hold).await });
        }
        let answers = tasks.join_all().await;
        let refused: Vec<_> = answers.into_iter().filter_map(Result::err).collect();
        assert_eq!(refused.len(), 1);
        let PostError::Refused(Refusal::InsufficientCredits {
            short_by,
            available,
            held_elsewhere,
            breaker_open,
        }) = &refused[0]
        else {
            panic!("{refused:?}")
        };
        assert_eq!(
            (short_by.to_string(), available.to_string(), held_elsewhere.to_string(), *breaker_open),
            ("1000".to_owned(), "0".to_owned(), "5000".to_owned(), false)
        );
        assert_eq!(bench.figures(account).await, ("0".to_owned(), "5000".to_owned(), "0".to_owned()));
    }
    // (2) Fifty parallel charges of 10 on 500: all of them.
    let account = bench.funded("500").await;
    let mut tasks = JoinSet::new();
    for number in 0..50 {
        let ledger = bench.ledger.clone();
        let charge = command(account, &format!("ten {number}"), Verb::Charge { amount: credits("10") });
        tasks.spawn(async move { ledger.submit(charge).await });
    }
    assert!(tasks.join_all().await.iter().all(Result::is_ok));
    assert_eq!(bench.figures(account).await.0, "0");
    // (3) 200 charges and 200 grants of 1 in parallel with sweeps over everything.
    let account = bench.funded("1000").await;
    let mut tasks = JoinSet::new();
    for number in 0..200 {
        let ledger = bench.ledger.clone();
        let charge = command(account, &format!("charge {number}"), Verb::Charge { amount: credits("1") });
        tasks.spawn(async move { ledger.submit(charge).await.map(|_| ()) });
        let ledger = bench.ledger.clone();
        let id = ledger::ids::GrantId(uuid::Uuid::new_v4());
        let verb =
            Verb::Grant { id, amount: credits("1"), pool: Pool::Paid, expires: Expiry::Never, source: None };
        let grant = command(account, &format!("grant {number}"), verb);
        tasks.spawn(async move { ledger.submit(grant).await.map(|_| ()) });
        if number % 20 == 0 {
            let ledger = bench.ledger.clone();
            tasks.spawn(async move { ledger.sweep(100).await.map(|_| ()) });
        }
    }
    let answers = tasks.join_all().await;
    let failed: BTreeSet<String> =
        answers.iter().filter_map(|answer| answer.as_ref().err().map(ToString::to_string)).collect();
    assert!(failed.is_empty(), "{failed:?}");
    assert_eq!(bench.figures(account).await.0, "1000");
    bench.verify().await;
}
