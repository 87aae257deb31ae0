//! Cases of what went wrong elsewhere, through the ledger's verbs on a real database and a test clock.

use ledger::command::{Actor, Expiry, Origin, ReverseOutcome, Verb, key_digest};
use ledger::entry::Kind;
use ledger::grant::Pool;
use ledger::hold::HoldStatus;
use ledger::ids::{AccountId, GrantId, HoldId, Seq};
use ledger::refusal::Refusal;
use ledger::service::{EntryQuery, PageRequest, PostError, Posted};
use uuid::Uuid;

use crate::support::{Bench, command, credits, instant};

pub fn refusal(answer: Result<Posted, PostError>) -> Refusal {
    match answer {
        Err(PostError::Refused(refusal)) => refusal,
        other => panic!("{other:?}"),
    }
}

fn main_seq(posted: &Posted) -> Seq {
    posted.set.main().unwrap().seq
}

fn at(text: &str) -> Expiry {
    Expiry::At(instant(text))
}

async fn refund(
    bench: &Bench,
    account: AccountId,
    key: &str,
    seq: Seq,
    amount: Option<&str>,
) -> Result<Posted, PostError> {
    bench.ledger.submit(command(account, key, Verb::Refund { seq, amount: amount.map(credits) })).await
}

async fn remaining(bench: &Bench, account: AccountId, grant: GrantId) -> String {
    let page = bench.ledger.grants(account, None, &PageRequest::default()).await.unwrap();
    page.rows.iter().find(|row| row.id == grant).unwrap().remaining.to_string()
}

/// 300 promotional until 30 June, 1,000 paid until 31 December, and a charge of 500 on 29 June.
async fn c13_given(bench: &Bench) -> (AccountId, GrantId, Seq) {
    bench.clock("2026-06-01T00:00:00Z").await;
    let account = bench.funded("0").await;
    bench.grant(account, "300", Pool::Promo, at("2026-06-30T00:00:00Z")).await;
    let paid = bench.grant(account, "1000", Pool::Paid, at("2026-12-31T00:00:00Z")).await;
    bench.clock("2026-06-29T12:00:00Z").await;
    let charge = bench.charge(account, "charge", "500").await.unwrap();
    assert_eq!(remaining(bench, account, paid).await, "800");
    bench.clock("2026-07-05T00:00:00Z").await;
    (account, paid, main_seq(&charge))
}

#[tokio::test]
async fn c13_a_refund_into_an_expired_grant_gives_nothing_spendable() {
    let bench = Bench::start().await;
    let (account, paid, charge) = c13_given(&bench).await;
    let posted = refund(&bench, account, "whole", charge, None).await.unwrap();
    let returned = &posted.set.main().unwrap().answer.returned;
    let shown: Vec<_> = returned.iter().map(|part| (part.amount.to_string(), part.lapsed)).collect();
    assert_eq!(shown, [("300".to_owned(), true), ("200".to_owned(), false)]);
    assert_eq!(bench.figures(account).await.0, "1000");
    assert_eq!(remaining(&bench, account, paid).await, "1000");
    bench.verify().await;
}

#[tokio::test]
async fn c13_partial_refunds_go_back_in_proportion_and_never_above_the_charge() {
    let bench = Bench::start().await;
    let (account, paid, charge) = c13_given(&bench).await;
    refund(&bench, account, "one", charge, Some("250")).await.unwrap();
    assert_eq!(bench.figures(account).await.0, "900");
    let too_much = refusal(refund(&bench, account, "two", charge, Some("300")).await);
    assert_eq!(too_much, Refusal::RefundExceedsCharge { refundable: credits("250") });
    let second = refund(&bench, account, "three", charge, Some("250")).await.unwrap();
    assert_eq!(second.set.main().unwrap().answer.refundable, Some(credits("0")));
    assert_eq!(bench.figures(account).await.0, "1000");
    assert_eq!(remaining(&bench, account, paid).await, "1000");
    assert_eq!(
        refusal(refund(&bench, account, "four", charge, Some("1")).await),
        Refusal::RefundExceedsCharge { refundable: credits("0") }
    );
    bench.verify().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn c15_ten_thousand_charges_below_the_display_unit_are_exact() {
    let bench = Bench::start().await;
    let account = bench.funded("1000").await;
    for thousand in 0..10 {
        let charge = |number: u32| {
            command(account, &format!("{thousand} {number}"), Verb::Charge { amount: credits("0.0768") })
        };
        let answers = bench.ledger.submit_many((0..1000).map(charge).collect()).await;
        assert!(answers.iter().all(Result::is_ok));
    }
    assert_eq!(bench.figures(account).await.0, "232");
    let totals = bench
        .ledger
        .entry_totals(account, &EntryQuery { kinds: vec![Kind::Consume], ..EntryQuery::default() })
        .await
        .unwrap();
    assert_eq!((totals.count, totals.amount), (10_000, credits("-768")));
    bench.verify().await;
}

#[tokio::test]
async fn c15_two_small_models_a_day_sum_up_on_the_chart() {
    let bench = Bench::start().await;
    bench.clock("2026-03-01T08:00:00Z").await;
    let account = bench.funded("100").await;
    for day in ["2026-03-01", "2026-03-02"] {
        bench.clock(&format!("{day}T10:00:00Z")).await;
        for model in ["small", "large"] {
            for part in ["0.25", "0.5"] {
                let mut charge = command(
                    account,
                    &format!("{day} {model} {part}"),
                    Verb::Charge { amount: credits(part) },
                );
                charge.call.model = Some(model.to_owned());
                bench.ledger.submit(charge).await.unwrap();
            }
        }
    }
    let (from, to) = (instant("2026-03-01T00:00:00Z"), instant("2026-03-03T00:00:00Z"));
    let rows = bench.ledger.usage_by_day(account, from, to, chrono_tz::UTC).await.unwrap();
    assert_eq!(rows.len(), 4);
    assert!(rows.iter().all(|row| row.amount == credits("0.75")), "{rows:?}");
    assert_eq!(ledger::Credits::sum(rows.iter().map(|row| row.amount)).unwrap(), credits("3"));
    bench.verify().await;
}

#[tokio::test]
async fn c17_the_true_cost_above_the_hold_is_posted_in_full() {
    let bench = Bench::start().await;
    let account = bench.funded("1600").await;
    let hold = bench.hold(account, "hold", "1500", None).await.unwrap();
    let settled = bench.settle(account, "settle", hold, "6600").await.unwrap();
    let answer = &settled.set.main().unwrap().answer;
    assert_eq!((answer.settled, answer.overrun), (Some(credits("6600")), Some(credits("5100"))));
    assert_eq!(bench.figures(account).await, ("-5000".to_owned(), "0".to_owned(), "5000".to_owned()));
    let refused = refusal(bench.hold(account, "next", "1", None).await.map(|_| settled.clone()));
    assert!(matches!(refused, Refusal::InsufficientCredits { breaker_open: true, .. }), "{refused:?}");
    bench.grant(account, "6000", Pool::Paid, Expiry::Never).await;
    assert_eq!(bench.figures(account).await, ("1000".to_owned(), "0".to_owned(), "0".to_owned()));
    bench.hold(account, "after", "1", None).await.unwrap();
    bench.verify().await;
}

#[tokio::test]
async fn c19_success_reported_after_the_hold_timed_out_is_posted_once() {
    let bench = Bench::start().await;
    bench.clock("2026-05-01T10:00:00Z").await;
    let account = bench.funded("1000").await;
    let first = bench.hold(account, "h1", "400", Some(600)).await.unwrap();
    bench.clock("2026-05-01T10:10:00Z").await;
    assert_eq!(bench.ledger.sweep(100).await.unwrap(), 1);
    bench.clock("2026-05-01T10:11:00Z").await;
    let second = bench.hold(account, "h2", "700", None).await.unwrap();
    bench.clock("2026-05-01T10:12:00Z").await;
    let late = bench.settle(account, "late", first, "400").await.unwrap();
    assert!(late.set.main().unwrap().answer.late);
    let balance = bench.ledger.balance(account, None).await.unwrap().unwrap();
    assert_eq!((balance.balance, balance.available), (credits("600"), credits("-100")));
    bench.clock("2026-05-01T10:13:00Z").await;
    bench.settle(account, "h2 settle", second, "700").await.unwrap();
    let balance = bench.ledger.balance(account, None).await.unwrap().unwrap();
    assert_eq!((balance.balance, balance.breaker_open), (credits("-100"), true));
    let again = bench.settle(account, "late", first, "400").await.unwrap();
    assert!(again.replayed);
    assert_eq!(again.set, late.set);
    let other_key = refusal(bench.settle(account, "late again", first, "400").await);
    assert!(
        matches!(other_key, Refusal::HoldEnded { final_state: HoldStatus::Expired, .. }),
        "{other_key:?}"
    );
    bench.verify().await;
}

#[tokio::test]
async fn c21_expiry_is_exclusive_and_waits_for_no_sweep() {
    let bench = Bench::start().await;
    bench.clock("2026-06-01T00:00:00Z").await;
    let account = bench.funded("0").await;
    bench.grant(account, "1000", Pool::Paid, at("2026-07-01T00:00:00Z")).await;
    bench.clock("2026-06-30T23:59:59.999999Z").await;
    bench.charge(account, "in time", "500").await.unwrap();
    bench.clock("2026-07-01T00:00:00Z").await;
    let short = |available: &str| Refusal::InsufficientCredits {
        short_by: credits("1"),
        available: credits(available),
        held_elsewhere: credits("0"),
        breaker_open: false,
    };
    assert_eq!(refusal(bench.charge(account, "too late", "1").await), short("0"));
    let hold = bench.hold(account, "too late as well", "1", None).await;
    assert!(matches!(hold, Err(PostError::Refused(refused)) if refused == short("0")));
    assert_eq!(bench.figures(account).await.0, "0");
    let view = bench.ledger.account(account).await.unwrap().unwrap();
    assert_eq!(view.balance.available, credits("0"));
    // A refusal writes nothing, the lapse included.
    assert_eq!(
        bench.ledger.entries(account, &EntryQuery::default(), &PageRequest::default()).await.unwrap().rows[0]
            .kind,
        Kind::Consume
    );
    bench.clock("2026-07-01T06:23:00Z").await;
    assert_eq!(bench.ledger.sweep(100).await.unwrap(), 1);
    assert_eq!(bench.ledger.sweep(100).await.unwrap(), 0);
    let lapses = bench
        .ledger
        .entries(
            account,
            &EntryQuery { kinds: vec![Kind::Expire], ..EntryQuery::default() },
            &PageRequest::default(),
        )
        .await
        .unwrap();
    assert_eq!(lapses.rows.len(), 1);
    assert_eq!(
        (lapses.rows[0].amount, lapses.rows[0].effective_at),
        (credits("-500"), instant("2026-07-01T00:00:00Z"))
    );
    // Balance as of an instant: before, at and after the end, whatever was written when.
    for (when, available) in [
        ("2026-06-15T00:00:00Z", "1000"),
        ("2026-06-30T23:59:59.999999Z", "500"),
        ("2026-07-01T00:00:00Z", "0"),
        ("2026-05-01T00:00:00Z", "0"),
    ] {
        let balance = bench.ledger.balance(account, Some(instant(when))).await.unwrap().unwrap();
        assert_eq!(balance.available, credits(available), "{when}");
    }
    bench.verify().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn c25_one_key_names_one_intent_of_one_account() {
    let bench = Bench::start().await;
    let account = bench.funded("100").await;
    let first = bench.charge(account, "K", "80").await.unwrap();
    let replay = bench.charge(account, "K", "80").await.unwrap();
    assert!(replay.replayed && replay.set == first.set);
    assert_eq!(refusal(bench.charge(account, "K", "81").await), Refusal::KeyReused);
    let hold = Verb::Hold { id: HoldId(Uuid::new_v4()), amount: credits("80"), expires_in_s: None };
    assert_eq!(refusal(bench.ledger.submit(command(account, "K", hold)).await), Refusal::KeyReused);
    assert!(bench.charge(account, "K", "80.0").await.unwrap().replayed);
    let other = bench.funded("100").await;
    assert!(!bench.charge(other, "K", "80").await.unwrap().replayed);
    assert_eq!(bench.figures(other).await.0, "20");
    // (f) A twin waits for the first and gets its answer; another content is a conflict.
    let (a, b, c) = tokio::join!(
        bench.charge(account, "L", "5"),
        bench.charge(account, "L", "5"),
        bench.charge(account, "L", "6")
    );
    assert_eq!(a.unwrap().set, b.unwrap().set);
    assert_eq!(refusal(c), Refusal::KeyReused);
    // (g) A refusal is not remembered.
    assert!(matches!(refusal(bench.charge(account, "M", "50").await), Refusal::InsufficientCredits { .. }));
    bench.grant(account, "100", Pool::Paid, Expiry::Never).await;
    assert!(!bench.charge(account, "M", "50").await.unwrap().replayed);
    // (h) Fifty first uses at once.
    let answers = bench
        .ledger
        .submit_many((0..50).map(|_| command(account, "N", Verb::Charge { amount: credits("1") })).collect())
        .await;
    assert_eq!(
        answers.iter().filter(|answer| answer.as_ref().is_ok_and(|posted| !posted.replayed)).count(),
        1
    );
    assert_eq!(bench.figures(account).await.0, "64");
    // A key of another origin is another key.
    let mut form = command(account, "N", Verb::Charge { amount: credits("1") });
    form.key = Some((Origin::Form, key_digest("N")));
    assert!(!bench.ledger.submit(form).await.unwrap().replayed);
    bench.verify().await;
}

#[tokio::test]
async fn c29_a_void_ends_what_is_left_of_one_grant_in_any_order() {
    let bench = Bench::start().await;
    for grant_first in [true, false] {
        let account = bench.funded("0").await;
        let old = bench.grant(account, "100", Pool::Promo, Expiry::Never).await;
        let top_up = bench.grant(account, "200", Pool::Paid, Expiry::Never).await;
        bench.charge(account, "spent", "30").await.unwrap();
        if grant_first {
            bench.grant(account, "7500", Pool::Promo, Expiry::Never).await;
        }
        let void = bench.ledger.submit(command(account, "void", Verb::Void { grant: old })).await.unwrap();
        assert_eq!(void.set.main().unwrap().amount, credits("-70"));
        if !grant_first {
            bench.grant(account, "7500", Pool::Promo, Expiry::Never).await;
        }
        assert_eq!(bench.figures(account).await.0, "7700");
        assert_eq!(remaining(&bench, account, top_up).await, "200");
        // C) Under another key too, the second void is the first one's entry.
        let again =
            bench.ledger.submit(command(account, "void again", Verb::Void { grant: old })).await.unwrap();
        assert!(again.replayed && again.set == void.set);
        // D) A grant that was never issued.
        let unknown = command(account, "void unknown", Verb::Void { grant: GrantId(Uuid::new_v4()) });
        assert!(matches!(refusal(bench.ledger.submit(unknown).await), Refusal::NotFound { .. }));
        assert_eq!(bench.figures(account).await.0, "7700");
    }
    bench.verify().await;
}

#[tokio::test]
async fn clawback_restore_and_refund_of_debt_are_read_back_right() {
    let bench = Bench::start().await;
    let account = bench.funded("0").await;
    let paid = bench.grant(account, "100", Pool::Paid, Expiry::Never).await;
    let charge = bench.charge(account, "spent", "80").await.unwrap();
    let clawback = |key: &str, amount: &str| {
        command(account, key, Verb::Clawback { grant: paid, amount: credits(amount), payment_ref: None })
    };
    // 20 from the grant, 40 as debt; then the rest as debt.
    bench.ledger.submit(clawback("claw 1", "60")).await.unwrap();
    assert_eq!(bench.figures(account).await, ("-40".to_owned(), "0".to_owned(), "40".to_owned()));
    bench.ledger.submit(clawback("claw 2", "40")).await.unwrap();
    let too_much = refusal(bench.ledger.submit(clawback("claw 3", "0.000001")).await);
    assert!(matches!(too_much, Refusal::ClawbackExceedsGrant { .. }), "{too_much:?}");
    // Restores undo the newest first: 40 of debt, then 30 of the 60.
    let restore =
        command(account, "restore", Verb::Restore { grant: paid, amount: credits("70"), payment_ref: None });
    let restored = bench.ledger.submit(restore).await.unwrap();
    let reverses: Vec<_> = restored
        .set
        .entries
        .iter()
        .filter(|entry| entry.kind == Kind::Restore)
        .map(|entry| (entry.amount.to_string(), entry.reverses))
        .collect();
    assert_eq!(reverses, [("40".to_owned(), Some(Seq(5))), ("30".to_owned(), Some(Seq(4)))]);
    let figures = bench.figures(account).await;
    // 30 of 60 come back by the way they left, 10 to the grant and 20 for what was debt, and all of it pays debt first:
    // 100 − 80 − 60 − 40 + 40 + 30.
    assert_eq!(figures, ("-10".to_owned(), "0".to_owned(), "10".to_owned()));
    let unknown = command(
        account,
        "restore 2",
        Verb::Restore { grant: paid, amount: credits("31"), payment_ref: None },
    );
    assert!(matches!(refusal(bench.ledger.submit(unknown).await), Refusal::RestoreExceedsClawbacks { .. }));
    // What was charged comes back in full: it pays the debt, and the rest is spendable.
    refund(&bench, account, "refund", main_seq(&charge), None).await.unwrap();
    assert_eq!(bench.figures(account).await, ("70".to_owned(), "0".to_owned(), "0".to_owned()));
    bench.verify().await;
}

#[tokio::test]
async fn erasure_deletes_the_words_and_keeps_the_books() {
    let bench = Bench::start().await;
    let account = bench.funded("700").await;
    let hold = bench.hold(account, "hold", "50", None).await.unwrap();
    let mut charge = command(account, "memo", Verb::Charge { amount: credits("1") });
    charge.words.reason = Some("mail to jane@example.com".to_owned());
    charge.source_address = Some("192.0.2.7".to_owned());
    bench.ledger.submit(charge.clone()).await.unwrap();
    let entries = || async {
        bench
            .ledger
            .entries(account, &EntryQuery::default(), &PageRequest { cursor: None, limit: 200 })
            .await
            .unwrap()
            .rows
    };
    let before = entries().await;
    assert_eq!(before[0].words.reason.as_deref(), Some("mail to jane@example.com"));
    bench.ledger.erase(account, Actor::worker("erase")).await.unwrap();
    bench.ledger.erase(account, Actor::worker("erase")).await.unwrap();
    let after = entries().await;
    assert!(after.iter().all(|entry| entry.words.is_empty()));
    assert_eq!(bench.figures(account).await, ("0".to_owned(), "50".to_owned(), "0".to_owned()));
    for (table, expected) in
        [("entry_words", 0_i64), ("entry_addresses", 0), ("account_profiles", 0), ("account_refs", 0)]
    {
        let left: i64 = sqlx::query_scalar(sqlx::AssertSqlSafe(format!("select count(*) from {table}")))
            .fetch_one(&bench.pool)
            .await
            .unwrap();
        assert_eq!(left, expected, "{table}");
    }
    // A replay equals the first answer, but for the erased text.
    let replay = bench.ledger.submit(charge).await.unwrap();
    assert!(replay.replayed);
    assert_eq!(replay.set.main().unwrap().words.reason, None);
    // The open hold still settles; what comes back of it is closed out in the same set.
    bench.settle(account, "settle", hold, "20").await.unwrap();
    assert_eq!(bench.figures(account).await, ("0".to_owned(), "0".to_owned(), "0".to_owned()));
    bench.verify().await;
}

#[tokio::test]
async fn every_answer_is_read_back_as_it_was_first_given() {
    let bench = Bench::start().await;
    bench.clock("2026-02-01T00:00:00Z").await;
    let account = bench.funded("1000").await;
    let grant = bench.grant(account, "50", Pool::Paid, at("2026-03-01T00:00:00Z")).await;
    let hold = bench.hold(account, "h", "70", Some(600)).await.unwrap();
    let lost = bench.hold(account, "h2", "5", Some(600)).await.unwrap();
    let charge = bench.charge(account, "c", "0.5").await.unwrap();
    let verbs = [
        Verb::Renew { hold, expires_in_s: 900 },
        Verb::Settle { hold, amount: credits("75.25") },
        Verb::Reverse { hold: lost, outcome: ReverseOutcome::Unknown },
        Verb::Refund { seq: main_seq(&charge), amount: Some(credits("0.2")) },
        Verb::Extend { grant, expires_at: instant("2026-04-01T00:00:00Z") },
        Verb::Grant {
            id: GrantId(Uuid::new_v4()),
            amount: credits("3"),
            pool: Pool::Paid,
            expires: Expiry::Policy,
            source: Some("pack".to_owned()),
        },
        Verb::Adjust {
            id: GrantId(Uuid::new_v4()),
            amount: credits("-7"),
            code: ledger::command::ReasonCode::Other,
            pool: None,
            expires: Expiry::Never,
        },
        Verb::Clawback { grant, amount: credits("10"), payment_ref: Some("pay 1".to_owned()) },
        Verb::Restore { grant, amount: credits("4"), payment_ref: Some("pay 1".to_owned()) },
        Verb::Void { grant },
        Verb::SetStatus { status: ledger::account::AccountStatus::Blocked },
    ];
    for (number, verb) in verbs.into_iter().enumerate() {
        let mut asked = command(account, &format!("verb {number}"), verb.clone());
        asked.words.reason = Some(format!("because of {number}"));
        asked.words.metadata =
            serde_json::json!({"z": 1.50, "a": {"deep": true}, "n": 12345678901234567890_u64})
                .as_object()
                .cloned();
        let first =
            bench.ledger.submit(asked.clone()).await.unwrap_or_else(|error| panic!("{verb:?}: {error:?}"));
        bench.clock(&format!("2026-02-01T00:0{}:01Z", number % 10)).await;
        let replay = bench.ledger.submit(asked).await.unwrap();
        assert!(replay.replayed && !first.replayed);
        assert_eq!(replay.set, first.set, "{verb:?}");
    }
    bench.verify().await;
}

#[tokio::test]
async fn pages_of_history_meet_without_gap_or_double_in_both_directions() {
    let bench = Bench::start().await;
    let account = bench.funded("1000").await;
    for number in 0..23 {
        let mut charge = command(account, &format!("c {number}"), Verb::Charge { amount: credits("1") });
        charge.call.model = Some(if number % 2 == 0 { "even" } else { "odd" }.to_owned());
        bench.ledger.submit(charge).await.unwrap();
        if number % 5 == 0 {
            bench.grant(account, "2", Pool::Promo, Expiry::Never).await;
        }
    }
    let queries = [
        (EntryQuery::default(), 30),
        (EntryQuery { kinds: vec![Kind::Consume], ..EntryQuery::default() }, 23),
        (EntryQuery { kinds: vec![Kind::Topup, Kind::Note], ..EntryQuery::default() }, 7),
        (EntryQuery { model: Some("odd".to_owned()), ..EntryQuery::default() }, 11),
        (EntryQuery { min: Some(credits("2")), max: Some(credits("2")), ..EntryQuery::default() }, 5),
    ];
    for (query, expected) in queries {
        let mut forward = Vec::new();
        let mut request = PageRequest { cursor: None, limit: 4 };
        let mut last;
        loop {
            let page = bench.ledger.entries(account, &query, &request).await.unwrap();
            forward.extend(page.rows.iter().map(|entry| entry.seq));
            last = page.clone();
            let Some(next) = page.next else { break };
            request.cursor = Some(next);
        }
        assert_eq!(forward.len(), expected, "{query:?}");
        assert!(forward.is_sorted_by(|a, b| a > b));
        let mut backward: Vec<Seq> = last.rows.iter().map(|entry| entry.seq).collect();
        while let Some(previous) = last.previous.clone() {
            last = bench
                .ledger
                .entries(account, &query, &PageRequest { cursor: Some(previous), limit: 4 })
                .await
                .unwrap();
            backward.splice(0..0, last.rows.iter().map(|entry| entry.seq));
        }
        assert_eq!(backward, forward, "{query:?}");
    }
    assert!(
        bench
            .ledger
            .entries(
                account,
                &EntryQuery::default(),
                &PageRequest { cursor: Some("x12".to_owned()), limit: 4 }
            )
            .await
            .is_err()
    );
}
