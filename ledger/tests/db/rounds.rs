//! What one bad neighbour may do to a round: nothing.

use std::time::{Duration, Instant};

use ledger::command::{Expiry, Verb};
use ledger::grant::Pool;
use ledger::ids::GrantId;
use ledger::policy::{Overrun, Policy};
use ledger::poster::Options;
use ledger::refusal::{Limit, Refusal};
use ledger::service::PostError;
use sqlx::Connection;
use tokio::task::JoinSet;
use uuid::Uuid;

use crate::support::{Bench, command, credits, open_command};

/// One lane, so that everybody is everybody's neighbour.
fn one_lane() -> Options {
    Options { lanes: 1, ..Options::default() }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_account_locked_from_outside_waits_alone() {
    let bench = Bench::with(one_lane()).await;
    let locked = bench.funded("100").await;
    let mut others = Vec::new();
    for _ in 0..10 {
        others.push(bench.funded("100").await);
    }
    let mut outside = bench.owner().await;
    let mut transaction = outside.begin().await.unwrap();
    sqlx::query("select 1 from accounts where id = $1 for update")
        .bind(locked.0)
        .execute(&mut *transaction)
        .await
        .unwrap();

    let ledger = bench.ledger.clone();
    let short = tokio::spawn(async move {
        ledger.submit(command(locked, "waits", Verb::Charge { amount: credits("1") })).await
    });
    let began = Instant::now();
    for other in &others {
        bench.charge(*other, "neighbour", "1").await.unwrap();
    }
    assert!(began.elapsed() < Duration::from_secs(3), "the neighbours waited: {:?}", began.elapsed());
    // Given free within 5 s, it is posted, and what came behind it keeps its order.
    let ledger = bench.ledger.clone();
    let second = tokio::spawn(async move {
        ledger.submit(command(locked, "behind", Verb::Charge { amount: credits("2") })).await
    });
    tokio::time::sleep(Duration::from_millis(300)).await;
    transaction.rollback().await.unwrap();
    let (first, second) = (short.await.unwrap().unwrap(), second.await.unwrap().unwrap());
    assert_eq!((first.set.main().unwrap().seq.0, second.set.main().unwrap().seq.0), (3, 4));

    // Kept for longer than 5 s, it is busy, and only it.
    let mut transaction = outside.begin().await.unwrap();
    sqlx::query("select 1 from accounts where id = $1 for update")
        .bind(locked.0)
        .execute(&mut *transaction)
        .await
        .unwrap();
    let began = Instant::now();
    let answer = bench.charge(locked, "too long", "1").await;
    assert!(matches!(answer, Err(PostError::Busy)), "{answer:?}");
    assert!(
        began.elapsed() >= Duration::from_secs(4) && began.elapsed() < Duration::from_secs(9),
        "{:?}",
        began.elapsed()
    );
    transaction.rollback().await.unwrap();
    bench.charge(locked, "too long", "1").await.unwrap();
    assert_eq!(bench.figures(locked).await.0, "96");
    bench.verify().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_poisoned_row_fails_alone() {
    let bench = Bench::with(one_lane()).await;
    let poisoned = bench.funded("100").await;
    let mut others = Vec::new();
    for _ in 0..30 {
        others.push(bench.funded("100").await);
    }
    // A row that no code of ours could have written: its state has no name.
    let mut owner = bench.owner().await;
    sqlx::query("update accounts set status = 99 where id = $1")
        .bind(poisoned.0)
        .execute(&mut owner)
        .await
        .unwrap();
    // Read by a server that starts now; the other one remembers the account and has no need of the row.
    let started = Bench::on(bench.options.clone(), one_lane()).await;
    let mut tasks = JoinSet::new();
    for account in others.iter().chain([&poisoned]) {
        let ledger = started.ledger.clone();
        let charge = command(*account, "all at once", Verb::Charge { amount: credits("1") });
        tasks.spawn(async move { (charge.account, ledger.submit(charge).await) });
    }
    for (account, answer) in tasks.join_all().await {
        if account == poisoned {
            assert!(matches!(answer, Err(PostError::Internal)), "{answer:?}");
        } else {
            assert!(answer.is_ok(), "{answer:?}");
        }
    }
    sqlx::query("update accounts set status = 1 where id = $1")
        .bind(poisoned.0)
        .execute(&mut owner)
        .await
        .unwrap();
    bench.verify().await;
}

/// Each server remembers the account from its own last round, and must see what the other one wrote since.
#[tokio::test(flavor = "multi_thread")]
async fn a_remembered_account_is_read_again_once_another_server_wrote() {
    let here = Bench::with(one_lane()).await;
    let there = Bench::on(here.options.clone(), one_lane()).await;
    let account = here.funded("10").await;
    there.charge(account, "there 1", "1").await.unwrap();
    here.charge(account, "here 1", "2").await.unwrap();
    // The key of the one is a replay at the other, and is charged once.
    let twin = there.charge(account, "here 1", "2").await.unwrap();
    assert!(twin.replayed);
    assert_eq!(twin.set.main().unwrap().available_after, credits("7"));
    // A hold placed at the one is settled at the other, which never saw it open.
    let hold = here.hold(account, "hold", "4", None).await.unwrap();
    there.settle(account, "settle", hold, "3").await.unwrap();
    // What is left is seen by both: 10 − 1 − 2 − 3.
    assert!(here.charge(account, "too much", "4.000001").await.is_err());
    here.charge(account, "all", "4").await.unwrap();
    assert!(there.charge(account, "more", "0.000001").await.is_err());
    assert_eq!(here.figures(account).await, ("0".into(), "0".into(), "0".into()));
    here.verify().await;
}

/// A change of the rules reaches accounts that are remembered.
#[tokio::test(flavor = "multi_thread")]
async fn a_changed_policy_binds_remembered_accounts() {
    let bench = Bench::with(one_lane()).await;
    let account = bench.funded("10").await;
    let hold = bench.hold(account, "first", "1", None).await.unwrap();
    bench.settle(account, "over", hold, "2").await.unwrap();
    let rules = Policy { overrun: Overrun::Cap, ..Policy::default() };
    bench.ledger.set_policy_rules(&rules).await.unwrap();
    let hold = bench.hold(account, "second", "1", None).await.unwrap();
    bench.settle(account, "capped", hold, "3").await.unwrap();
    // In full the first time, 2, capped at the hold the second, 1.
    assert_eq!(bench.figures(account).await, ("7".into(), "0".into(), "0".into()));
    bench.verify().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_huge_amount_in_a_full_round_is_refused_alone() {
    let bench = Bench::with(one_lane()).await;
    let account = bench.funded("1000").await;
    let mut tasks = JoinSet::new();
    for number in 0..256 {
        let ledger = bench.ledger.clone();
        let amount = if number == 100 { "99999999999999999999.999999" } else { "1" };
        let charge = command(account, &format!("charge {number}"), Verb::Charge { amount: credits(amount) });
        tasks.spawn(async move { (number, ledger.submit(charge).await) });
    }
    for (number, answer) in tasks.join_all().await {
        match answer {
            Ok(_) => assert_ne!(number, 100),
            Err(PostError::Refused(Refusal::LimitExceeded { limit: Limit::Amount })) => {
                assert_eq!(number, 100);
            }
            Err(error) => panic!("{number}: {error:?}"),
        }
    }
    assert_eq!(bench.figures(account).await.0, "745");
    bench.verify().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn two_posters_on_one_database_serve_the_same_accounts() {
    let first = Bench::start().await;
    let second = Bench::on(first.options.clone(), Options::default()).await;
    let account = first.funded("1000").await;
    let mut tasks = JoinSet::new();
    for number in 0..400 {
        // Every key goes to both: one of the two answers is a replay.
        for ledger in [first.ledger.clone(), second.ledger.clone()] {
            let charge = command(account, &format!("charge {number}"), Verb::Charge { amount: credits("1") });
            tasks.spawn(async move { ledger.submit(charge).await });
        }
    }
    let answers = tasks.join_all().await;
    let posted: Vec<_> = answers.into_iter().map(|answer| answer.expect("nobody is refused")).collect();
    assert_eq!(posted.iter().filter(|posted| posted.replayed).count(), 400);
    assert_eq!(first.figures(account).await.0, "600");
    first.verify().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn one_reference_opens_one_account() {
    let bench = Bench::start().await;
    let mut tasks = JoinSet::new();
    for number in 0..20 {
        let ledger = bench.ledger.clone();
        let mut open = open_command("customer 7");
        // Half of them retry one request, half are requests of their own.
        if number % 2 == 1 {
            open.key =
                Some((ledger::command::Origin::Api, ledger::command::key_digest(&format!("own {number}"))));
        }
        tasks.spawn(async move { ledger.submit(open).await });
    }
    let answers = tasks.join_all().await;
    let account = bench.ledger.account_by_ref("customer 7").await.unwrap().unwrap();
    for answer in &answers {
        match answer {
            Ok(posted) => assert_eq!(posted.set.main().unwrap().account, account),
            Err(PostError::Refused(Refusal::AlreadyExists { account: existing })) => {
                assert_eq!(*existing, account);
            }
            Err(error) => panic!("{error:?}"),
        }
    }
    assert_eq!(
        answers.iter().filter(|answer| answer.as_ref().is_ok_and(|posted| !posted.replayed)).count(),
        1
    );
    let accounts: i64 =
        sqlx::query_scalar("select count(*) from accounts").fetch_one(&bench.pool).await.unwrap();
    assert_eq!(accounts, 1);
    bench.verify().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_caller_that_hangs_up_does_not_take_its_command_back() {
    let bench = Bench::start().await;
    let account = bench.funded("10").await;
    let grant = GrantId(Uuid::new_v4());
    let verb = Verb::Grant {
        id: grant,
        amount: credits("5"),
        pool: Pool::Promo,
        expires: Expiry::Never,
        source: None,
    };
    let submit = bench.ledger.submit(command(account, "gone", verb));
    assert!(tokio::time::timeout(Duration::from_micros(1), submit).await.is_err());
    for _ in 0..100 {
        if bench.figures(account).await.0 == "15" {
            break;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(bench.figures(account).await.0, "15");
    bench.verify().await;
}

/// In one round with a charge that is written, commands that are refused by what a server remembers: each of them is wrong by what
/// another server wrote since.
#[tokio::test(flavor = "multi_thread")]
async fn refusals_beside_what_is_written_are_not_decided_on_an_old_memory() {
    let options = Options { lanes: 1, ..Options::default() };
    let first = Bench::with(options).await;
    let second = Bench::on(first.options.clone(), options).await;
    let written = first.funded("100").await;
    let [filled, spent] = [first.funded("10").await, first.funded("10").await];
    for account in [filled, spent] {
        first.charge(account, "all of it", "10").await.unwrap();
        first.charge(account, "too much", "1").await.unwrap_err();
    }
    first.charge(written, "first", "1").await.unwrap();
    // Elsewhere one gets credits, and the other gets some, spends them by a key and is empty again.
    for account in [filled, spent] {
        second.grant(account, "5", Pool::Paid, Expiry::Never).await;
    }
    let there = second.charge(spent, "K", "5").await.unwrap();

    let charge = |account, key: &str, amount| command(account, key, Verb::Charge { amount: credits(amount) });
    let round = vec![charge(written, "second", "1"), charge(filled, "now", "5"), charge(spent, "K", "5")];
    let answers = first.ledger.submit_many(round).await;
    let [written_answer, filled_answer, replay] = answers.try_into().unwrap();
    assert_eq!(written_answer.unwrap().set.main().unwrap().available_after, credits("98"));
    assert_eq!(filled_answer.unwrap().set.main().unwrap().available_after, credits("0"));
    let replay = replay.unwrap();
    assert_eq!((replay.replayed, replay.set), (true, there.set));
    assert_eq!(first.figures(spent).await.0, "0");
    first.verify().await;
}

/// A server that has just started knows no keys: one that was used before is a replay all the same, alone and among others.
#[tokio::test(flavor = "multi_thread")]
async fn a_key_from_before_the_start_is_a_replay() {
    let options = Options { lanes: 1, ..Options::default() };
    let first = Bench::with(options).await;
    let [account, neighbour] = [first.funded("10").await, first.funded("10").await];
    let there = first.charge(account, "K", "3").await.unwrap();
    for round in 0..2 {
        let second = Bench::on(first.options.clone(), options).await;
        let charge =
            |account, key: String, amount| command(account, &key, Verb::Charge { amount: credits(amount) });
        let answers = match round {
            0 => vec![second.charge(account, "K", "3").await],
            _ => {
                let among =
                    [charge(neighbour, format!("beside {round}"), "1"), charge(account, "K".to_owned(), "3")];
                second.ledger.submit_many(among.into()).await
            }
        };
        let replay = answers.into_iter().next_back().unwrap().unwrap();
        assert_eq!((replay.replayed, &replay.set), (true, &there.set));
        // The same key with other content is refused, not paid.
        let other = second.charge(account, "K", "4").await.unwrap_err();
        assert!(matches!(other, PostError::Refused(Refusal::KeyReused)), "{other:?}");
    }
    assert_eq!((first.figures(account).await.0, first.figures(neighbour).await.0), ("7".into(), "9".into()));
    first.verify().await;
}
