//! The fault cases that the core alone decides, under their numbers.

use super::bench::main;
use super::{Bench, at, credits, lines_of};
use crate::command::{Expiry, Verb};
use crate::decide::{Ruling, Signal};
use crate::entry::{Kind, NoteKind};
use crate::grant::Pool;
use crate::hold::HoldStatus;
use crate::policy::{Overrun, Policy};
use crate::refusal::Refusal;

/// P 300 promo to 30 June, Q 1,000 paid to 31 December, 500 charged on 29 June; now it is 5 July.
fn c13_bench() -> (Bench, crate::ids::Seq) {
    let mut bench = Bench::new();
    bench.promo("300", "2026-06-30");
    bench.grant("1000", Pool::Paid, Expiry::At(at("2026-12-31")));
    bench.at("2026-06-29");
    let seq = bench.charge("500");
    assert_eq!(bench.figures(), "800 0 0");
    bench.at("2026-07-05");
    (bench, seq)
}

#[test]
fn c13_a_whole_refund_lapses_what_its_expired_bucket_gets() {
    let (mut bench, seq) = c13_bench();
    let set = bench.post(Verb::Refund { seq, amount: None });
    assert_eq!(set.iter().map(|entry| entry.kind).collect::<Vec<_>>(), [Kind::Refund, Kind::Expire]);
    assert_eq!(lines_of(&set[1]), ["debit available 300 g1 =1000", "credit expiration_gain 300 g1"]);
    assert_eq!(bench.figures(), "1000 0 0");
    let returned = &set[0].answer.returned;
    let parts: Vec<_> = returned.iter().map(|part| (part.amount.to_string(), part.lapsed)).collect();
    assert_eq!(parts, [("300".to_owned(), true), ("200".to_owned(), false)]);
}

#[test]
fn c13_b_partial_refunds_keep_the_proportion_and_never_exceed_the_charge() {
    let (mut bench, seq) = c13_bench();
    let set = bench.refund(seq, "250");
    assert_eq!(main(&set).answer.spread, [credits("150"), credits("100")]);
    assert_eq!(bench.figures(), "900 0 0");
    let refusal = bench.refused(Verb::Refund { seq, amount: Some(credits("300")) });
    assert_eq!(refusal, Refusal::RefundExceedsCharge { refundable: credits("250") });
    bench.refund(seq, "250");
    assert_eq!(bench.figures(), "1000 0 0");
    let refusal = bench.refused(Verb::Refund { seq, amount: Some(credits("1")) });
    assert_eq!(refusal, Refusal::RefundExceedsCharge { refundable: credits("0") });
}

#[test]
fn c15_ten_thousand_small_charges_are_exact() {
    let mut bench = Bench::new();
    bench.paid("1000");
    for _ in 0..10_000 {
        let command = bench.command(Verb::Charge { amount: credits("0.0768") });
        let Ok(Ruling::Post(decision)) = bench.decide(&command) else { panic!() };
        bench.state.apply(&decision);
    }
    assert_eq!(bench.figures(), "232 0 0");
    assert_eq!(bench.state.head.totals.amount[Kind::Consume.index()], credits("-768"));
}

#[test]
fn c17_a_cost_above_the_hold_is_posted_in_full() {
    let mut bench = Bench::new();
    bench.paid("1600");
    let hold = bench.hold("1500");
    let set = bench.settle(hold, "6600");
    assert_eq!(main(&set).answer.settled, Some(credits("6600")));
    assert_eq!(bench.figures(), "-5000 0 5000");
    assert!(bench.signals.contains(&Signal::BelowZero { seq: main(&set).seq }));
    let (_, verb) = bench.hold_verb("1", None);
    assert_eq!(
        bench.refused(verb),
        Refusal::InsufficientCredits {
            short_by: credits("5001"),
            available: credits("-5000"),
            held_elsewhere: credits("0"),
            breaker_open: true
        }
    );
    bench.paid("6000");
    assert_eq!(bench.figures(), "1000 0 0");
    assert!(matches!(bench.signals.last(), Some(Signal::AboveZero { .. })));
    bench.hold("1");
    assert_eq!(bench.figures(), "999 1 0");
}

#[test]
fn c17_a_capped_policy_keeps_the_uncollected_part_as_a_record() {
    let mut bench = Bench::under(Policy { overrun: Overrun::Cap, ..Policy::default() });
    bench.paid("1600");
    let hold = bench.hold("1500");
    let set = bench.settle(hold, "6600");
    assert_eq!(
        (set[1].note, set[1].answer.uncollected),
        (Some(NoteKind::Uncollected), Some(credits("5100")))
    );
    assert_eq!(bench.figures(), "100 0 0");
}

#[test]
fn c19_success_after_the_time_out_is_posted_once() {
    let mut bench = Bench::new();
    bench.paid("1000");
    bench.at("2026-03-01T10:00:00Z");
    let first = bench.hold("400");
    bench.at("2026-03-01T10:10:00Z");
    let swept = bench.sweep();
    assert_eq!((swept[0].kind, swept[0].effective_at), (Kind::AuthReversal, at("2026-03-01T10:10:00Z")));
    bench.at("2026-03-01T10:11:00Z");
    let second = bench.hold("700");
    bench.at("2026-03-01T10:12:00Z");
    let late = bench.keyed("late", Verb::Settle { hold: first, amount: credits("400") });
    let Ok(Ruling::Post(decision)) = bench.send(&late) else { panic!() };
    let entry = decision.set.main().unwrap().clone();
    assert!(entry.answer.late);
    assert_eq!((bench.figures(), entry.amount), ("-100 700 100".to_owned(), credits("-400")));
    assert!(bench.signals.contains(&Signal::LateSettle { seq: entry.seq, hold: first }));
    assert_eq!(
        (bench.hold_state(first).status, bench.hold_state(first).late_settle),
        (HoldStatus::Expired, Some(entry.seq))
    );
    bench.at("2026-03-01T10:13:00Z");
    bench.settle(second, "700");
    assert_eq!(bench.figures(), "-100 0 100");
    assert_eq!(bench.send(&late), Ok(Ruling::Replay(entry.seq)));
    let again = bench.refused(Verb::Settle { hold: first, amount: credits("400") });
    assert_eq!(again, Refusal::HoldEnded { final_state: HoldStatus::Expired, entry: Some(entry.seq) });
    assert_eq!(bench.figures(), "-100 0 100");
}

/// One bucket of 1,000 that ends with June, and 500 charged in its last microsecond.
fn c21_bench() -> Bench {
    let mut bench = Bench::new();
    bench.promo("1000", "2026-07-01");
    bench.at("2026-06-30T23:59:59.999999Z");
    bench.charge("500");
    bench
}

#[test]
fn c21_nothing_can_be_spent_at_the_instant_of_expiry() {
    let mut bench = c21_bench();
    bench.at("2026-07-01");
    let short = Refusal::InsufficientCredits {
        short_by: credits("1"),
        available: credits("0"),
        held_elsewhere: credits("0"),
        breaker_open: false,
    };
    assert_eq!(bench.refused(Verb::Charge { amount: credits("1") }), short);
    let (_, verb) = bench.hold_verb("1", None);
    assert_eq!(bench.refused(verb), short);
    assert_eq!(bench.figures(), "0 0 0");
    assert!(bench.state.lapse_due(bench.now));
}

#[test]
fn c21_the_sweep_writes_one_lapse_at_its_own_instant_and_then_nothing() {
    let mut bench = c21_bench();
    bench.at("2026-07-01T06:23:00Z");
    let swept = bench.sweep();
    assert_eq!(swept.len(), 1);
    assert_eq!((swept[0].amount, swept[0].effective_at), (credits("-500"), at("2026-07-01")));
    assert_eq!((swept[0].recorded_at, swept[0].occurred_at), (at("2026-07-01T06:23:00Z"), at("2026-07-01")));
    assert_eq!((swept[0].is_main, swept[0].actor.id.as_str()), (false, "lapse"));
    assert!(bench.sweep().is_empty());
    assert!(!bench.state.lapse_due(bench.now));
}

#[test]
fn c21_a_bucket_that_begins_as_another_ends_stands_alone() {
    let mut bench = Bench::new();
    bench.promo("300", "2026-07-01");
    bench.at("2026-07-01");
    bench.promo("1000", "2026-08-01");
    assert_eq!(bench.figures(), "1000 0 0");
    bench.charge("1000");
    bench.refused(Verb::Charge { amount: credits("0.000001") });
}

#[test]
fn c25_one_key_one_intent() {
    let mut bench = Bench::new();
    bench.paid("100");
    let charge =
        |bench: &Bench, key: &str, amount: &str| bench.keyed(key, Verb::Charge { amount: credits(amount) });
    let first = charge(&bench, "K", "80");
    let Ok(Ruling::Post(decision)) = bench.send(&first) else { panic!() };
    let seq = decision.set.main().unwrap().seq;
    // (a) and (d): the same again, written differently.
    assert_eq!(bench.send(&first), Ok(Ruling::Replay(seq)));
    let again = charge(&bench, "K", "80.0");
    assert_eq!(bench.send(&again), Ok(Ruling::Replay(seq)));
    // (b) and (c): another amount, another verb.
    let other = charge(&bench, "K", "81");
    assert_eq!(bench.send(&other), Err(Refusal::KeyReused));
    let (_, verb) = bench.hold_verb("80", None);
    assert_eq!(bench.send(&bench.keyed("K", verb)), Err(Refusal::KeyReused));
    assert_eq!(bench.figures(), "20 0 0");
    // (e): another account's key is another key.
    let mut tenant = Bench::new();
    tenant.paid("100");
    assert!(matches!(tenant.send(&first), Ok(Ruling::Post(_))));
    assert_eq!(tenant.figures(), "20 0 0");
    // (g): a refusal is not remembered.
    let later = charge(&bench, "M", "50");
    assert!(matches!(bench.send(&later), Err(Refusal::InsufficientCredits { .. })));
    bench.paid("100");
    assert!(matches!(bench.send(&later), Ok(Ruling::Post(_))));
    assert!(matches!(bench.send(&later), Ok(Ruling::Replay(_))));
    assert_eq!(bench.figures(), "70 0 0");
}

#[test]
fn c25_metadata_in_another_order_is_the_same_content() {
    let mut bench = Bench::new();
    bench.paid("100");
    let mut command = bench.keyed("K", Verb::Charge { amount: credits("1") });
    let metadata = |text: &str| serde_json::from_str(text).ok();
    command.words.metadata = metadata(r#"{"a":1,"b":{"y":2,"x":3}}"#);
    assert!(matches!(bench.send(&command), Ok(Ruling::Post(_))));
    command.words.metadata = metadata(r#"{ "b": {"x":3, "y":2}, "a":1 }"#);
    assert!(matches!(bench.send(&command), Ok(Ruling::Replay(_))));
    command.words.metadata = metadata(r#"{"a":2}"#);
    assert_eq!(bench.send(&command), Err(Refusal::KeyReused));
}

#[test]
fn c27_holds_count_at_once() {
    let mut bench = Bench::new();
    bench.paid("5000");
    for _ in 0..5 {
        bench.hold("1000");
    }
    let (_, verb) = bench.hold_verb("1000", None);
    assert_eq!(
        bench.refused(verb),
        Refusal::InsufficientCredits {
            short_by: credits("1000"),
            available: credits("0"),
            held_elsewhere: credits("5000"),
            breaker_open: false
        }
    );
    let mut bench = Bench::new();
    bench.paid("500");
    for _ in 0..50 {
        bench.charge("10");
    }
    assert_eq!(bench.figures(), "0 0 0");
}

#[test]
fn c29_voiding_takes_what_one_grant_has_left_in_either_order() {
    for void_first in [true, false] {
        let mut bench = Bench::new();
        let old = bench.promo("100", "2026-06-01");
        let top_up = bench.paid("200");
        bench.charge("30");
        let mut new = None;
        if !void_first {
            new = Some(bench.paid("7500"));
        }
        let set = bench.post(Verb::Void { grant: old });
        assert_eq!(set[0].amount, credits("-70"));
        let new = new.unwrap_or_else(|| bench.paid("7500"));
        assert_eq!(bench.figures(), "7700 0 0");
        assert_eq!(
            (bench.remaining(old), bench.remaining(new), bench.remaining(top_up)),
            ("0".into(), "7500".into(), "200".into())
        );
        // C: a second void changes nothing and is answered by the first.
        assert_eq!(bench.replayed(Verb::Void { grant: old }), set[0].seq);
        // D: a grant that was never issued.
        let unknown = crate::ids::GrantId(uuid::Uuid::from_u128(99));
        assert!(matches!(bench.refused(Verb::Void { grant: unknown }), Refusal::NotFound { .. }));
        assert_eq!(bench.figures(), "7700 0 0");
    }
}
