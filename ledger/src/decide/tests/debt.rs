//! Debt, and the order in which a refund undoes it (rule 9).

use super::bench::main;
use super::{Bench, at, credits, lines_of};
use crate::command::{Expiry, ReasonCode, Verb};
use crate::entry::Kind;
use crate::grant::Pool;
use crate::ids::Seq;
use crate::refusal::Refusal;

/// Nothing left, and `amount` of debt from a settle above an empty hold; the SETTLE entry's number.
fn owing(amount: &str) -> (Bench, Seq) {
    let mut bench = Bench::new();
    let hold = bench.hold("0");
    let seq = main(&bench.settle(hold, amount)).seq;
    (bench, seq)
}

#[test]
fn a_refund_pays_open_debt_first() {
    let (mut bench, seq) = owing("100");
    let set = bench.refund(seq, "40");
    assert_eq!(lines_of(&set[0]), ["debit refund_expense 40", "credit available 40 pays =-60"]);
    assert_eq!(set[0].answer.returned[0].grant, None);
    assert_eq!(bench.figures(), "-60 0 60");
}

#[test]
fn then_it_gives_back_what_was_written_off_and_then_the_payers_last_first() {
    let (mut bench, seq) = owing("100");
    bench.adjust("10", ReasonCode::WriteOff);
    let first = bench.paid("30");
    let second = bench.paid("40");
    assert_eq!(bench.figures(), "-20 0 20");
    let set = bench.post(Verb::Refund { seq, amount: None });
    assert_eq!(
        lines_of(&set[0]),
        [
            "debit refund_expense 100",
            "credit available 20 pays =0",
            "credit bad_debt 10",
            "credit available 40 g4 =40",
            "credit available 30 g3 =70",
        ]
    );
    assert_eq!((bench.remaining(first), bench.remaining(second)), ("30".into(), "40".into()));
    assert_eq!(bench.grant_state(first).given_back_for_debt, credits("30"));
    let amounts: Vec<_> = set[0].answer.returned.iter().map(|part| part.amount.to_string()).collect();
    assert_eq!(amounts, ["30", "40", "30"]);
}

#[test]
fn no_payer_gets_more_than_it_paid() {
    let (mut bench, seq) = owing("100");
    let first = bench.paid("100");
    let second = bench.paid("1000");
    bench.refund(seq, "60");
    bench.refund(seq, "40");
    assert_eq!((bench.remaining(first), bench.remaining(second)), ("100".into(), "1000".into()));
    assert_eq!(
        bench.refused(Verb::Refund { seq, amount: None }),
        Refusal::RefundExceedsCharge { refundable: credits("0") }
    );
}

#[test]
fn a_payer_that_has_ended_gets_it_back_and_ends_again() {
    let (mut bench, seq) = owing("100");
    let payer = bench.promo("150", "2026-02-01");
    bench.at("2026-03-01");
    let set = bench.post(Verb::Refund { seq, amount: None });
    let kinds: Vec<_> = set.iter().map(|entry| entry.kind).collect();
    assert_eq!(kinds, [Kind::Expire, Kind::Refund, Kind::Expire]);
    assert_eq!(lines_of(&set[1]), ["debit refund_expense 100", "credit available 100 g2 =100"]);
    assert!(set[1].answer.returned[0].lapsed);
    assert_eq!(bench.figures(), "0 0 0");
    assert_eq!(bench.grant_state(payer).lapsed, credits("150"));
}

#[test]
fn a_refund_that_went_against_a_younger_debt_leaves_the_older_payer_to_be_owed() {
    let (mut bench, older) = owing("10");
    let payer = bench.paid("10");
    let hold = bench.hold("0");
    let younger = main(&bench.settle(hold, "10")).seq;
    bench.post(Verb::Refund { seq: older, amount: None });
    assert_eq!(bench.figures(), "0 0 0");
    // Nobody paid debt since the younger entry: the first refund cancelled its debt, and left the older one's payer.
    let set = bench.post(Verb::Refund { seq: younger, amount: None });
    assert_eq!(lines_of(&set[0]), ["debit refund_expense 10", "credit available 10 g2 =10"]);
    assert_eq!(bench.remaining(payer), "10");
}

#[test]
fn a_refund_spreads_over_hold_overrun_and_debt() {
    let mut bench = Bench::new();
    bench.paid("60");
    let hold = bench.hold("50");
    let seq = main(&bench.settle(hold, "100")).seq;
    // Parts: 50 held, 10 available, 40 debt.
    let set = bench.refund(seq, "50");
    assert_eq!(set[0].answer.spread, [credits("25"), credits("5"), credits("20")]);
    // The live grant pays debt first: 25 and 5 of 40, then the debt's own part 10 of 10, and the last payer gets the rest.
    assert_eq!(
        lines_of(&set[0]),
        [
            "debit refund_expense 50",
            "credit available 25 g1 pays =-15",
            "credit available 5 g1 pays =-10",
            "credit available 10 pays =0",
            "credit available 5 g1 =5",
            "credit available 5 g1 =10",
        ]
    );
    assert_eq!(bench.figures(), "10 0 0");
}

#[test]
fn spread_ties_of_a_refund_go_to_the_first_part() {
    let mut bench = Bench::new();
    bench.promo("1", "2026-08-01");
    bench.promo("1", "2026-09-01");
    bench.promo("1", "2026-10-01");
    let seq = bench.charge("3");
    assert_eq!(bench.refund(seq, "1")[0].answer.spread, ["0.333334", "0.333333", "0.333333"].map(credits));
    // What may still come back is now 0.666666 and twice 0.666667.
    assert_eq!(bench.refund(seq, "1")[0].answer.spread, ["0.333333", "0.333334", "0.333333"].map(credits));
    bench.refund(seq, "1");
    assert_eq!(bench.figures(), "3 0 0");
}

#[test]
fn a_refund_into_a_live_grant_never_lengthens_it() {
    let mut bench = Bench::new();
    let grant = bench.promo("30", "2026-02-01");
    let seq = bench.charge("30");
    bench.at("2026-01-31");
    bench.refund(seq, "30");
    assert_eq!(bench.grant_state(grant).expires_at, Some(at("2026-02-01")));
    bench.at("2026-02-01");
    assert_eq!(bench.figures(), "0 0 0");
}

#[test]
fn a_hold_that_gives_back_to_an_ended_grant_pays_no_debt() {
    let mut bench = Bench::new();
    bench.promo("30", "2026-01-01T00:05:00Z");
    let hold = bench.hold("30");
    bench.at("2026-01-01T00:06:00Z");
    bench.adjust("-4", ReasonCode::Correction);
    let set = bench.post(Verb::Release { hold });
    assert_eq!(lines_of(&set[0]), ["debit held 30 g1 =0", "credit available 30 g1 =26"]);
    assert_eq!(lines_of(&set[1]), ["debit available 30 g1 =-4", "credit expiration_gain 30 g1"]);
    assert_eq!(bench.figures(), "-4 0 4");
}

#[test]
fn a_reserved_part_pays_for_its_hold_after_the_grant_ended() {
    let mut bench = Bench::new();
    bench.promo("30", "2026-01-01T00:05:00Z");
    let hold = bench.hold("30");
    bench.at("2026-01-01T00:06:00Z");
    let set = bench.settle(hold, "20");
    let kinds: Vec<_> = set.iter().map(|entry| entry.kind).collect();
    assert_eq!(kinds, [Kind::Settle, Kind::AuthRelease, Kind::Expire]);
    assert_eq!(bench.figures(), "0 0 0");
}

#[test]
fn a_voided_grant_counts_as_ended_for_what_comes_back() {
    let mut bench = Bench::new();
    let grant = bench.paid("100");
    let seq = bench.charge("40");
    let hold = bench.hold("10");
    bench.post(Verb::Void { grant });
    let refund = bench.post(Verb::Refund { seq, amount: None });
    assert_eq!(refund.iter().map(|entry| entry.kind).collect::<Vec<_>>(), [Kind::Refund, Kind::Expire]);
    bench.at("2026-01-01T00:10:00Z");
    let swept = bench.sweep();
    assert_eq!(swept.iter().map(|entry| entry.kind).collect::<Vec<_>>(), [Kind::AuthReversal, Kind::Expire]);
    assert_eq!((bench.figures(), bench.grant_state(grant).lapsed), ("0 0 0".to_owned(), credits("100")));
    assert_eq!(hold, bench.hold_state(hold).id);
}

#[test]
fn clawbacks_are_bounded_by_the_grant_and_restores_by_the_clawbacks() {
    let mut bench = Bench::new();
    let payment = bench.paid("100");
    let claw = |amount: &str| Verb::Clawback { grant: payment, amount: credits(amount), payment_ref: None };
    let restore = |amount: &str| Verb::Restore { grant: payment, amount: credits(amount), payment_ref: None };
    assert_eq!(bench.refused(restore("1")), Refusal::RestoreExceedsClawbacks { restorable: credits("0") });
    bench.post(claw("60"));
    assert_eq!(bench.refused(claw("41")), Refusal::ClawbackExceedsGrant { clawable: credits("40") });
    bench.post(claw("40"));
    assert_eq!(
        bench.refused(restore("101")),
        Refusal::RestoreExceedsClawbacks { restorable: credits("100") }
    );
    bench.post(restore("30"));
    assert_eq!(bench.refused(claw("31")), Refusal::ClawbackExceedsGrant { clawable: credits("30") });
    bench.post(claw("30"));
    assert_eq!(bench.figures(), "0 0 0");
}

#[test]
fn a_clawback_of_spent_credits_is_debt_that_later_top_ups_pay() {
    let mut bench = Bench::new();
    let payment = bench.paid("4000");
    bench.charge("1000");
    bench.clawback(payment, "1000");
    assert_eq!(bench.figures(), "2000 0 0");
    bench.clawback(payment, "3000");
    assert_eq!(bench.figures(), "-1000 0 1000");
    bench.paid("1500");
    assert_eq!(bench.figures(), "500 0 0");
    // The dispute is won: the part that was debt goes to the grant that paid it.
    bench.restore(payment, "3000");
    assert_eq!(bench.figures(), "3500 0 0");
}

#[test]
fn a_restore_into_an_ended_grant_ends_again() {
    let mut bench = Bench::new();
    let payment = bench.grant("100", Pool::Paid, Expiry::At(at("2026-02-01")));
    bench.clawback(payment, "100");
    bench.at("2026-02-02");
    let set = bench.restore(payment, "100");
    assert_eq!(set.iter().map(|entry| entry.kind).collect::<Vec<_>>(), [Kind::Restore, Kind::Expire]);
    assert_eq!(bench.figures(), "0 0 0");
    // What lapsed can be clawed back again.
    assert_eq!(lines_of(&bench.clawback(payment, "100")[0])[0], "debit expiration_gain 100 g1");
}

#[test]
fn a_write_off_is_at_most_the_debt() {
    let (mut bench, _) = owing("50");
    for amount in ["51", "-1"] {
        let verb = bench.adjust_verb(amount, ReasonCode::WriteOff);
        assert!(matches!(bench.refused(verb), Refusal::Invalid { field: "amount", .. }));
    }
    bench.adjust("50", ReasonCode::WriteOff);
    assert_eq!(bench.figures(), "0 0 0");
}

#[test]
fn what_was_given_away_cannot_be_clawed_back() {
    let mut bench = Bench::new();
    bench.paid("50");
    let correction = bench.adjust_verb("5", ReasonCode::Goodwill);
    let Verb::Adjust { id: goodwill, .. } = correction else { panic!() };
    bench.post(correction);
    let trial = bench.grant("10", Pool::Trial, Expiry::Never);
    let coupon = bench.grant("10", Pool::Promo, Expiry::Never);
    for gift in [trial, coupon, goodwill] {
        let verb = Verb::Clawback { grant: gift, amount: credits("0.000001"), payment_ref: None };
        assert_eq!(bench.refused(verb), Refusal::ClawbackExceedsGrant { clawable: credits("0") });
    }
    assert_eq!(bench.figures(), "75 0 0");
}

#[test]
fn the_payment_that_went_back_and_came_again_is_named() {
    let mut bench = Bench::new();
    let grant = bench.paid("50");
    let payment_ref = |name: &str| Some(name.to_owned());
    for (name, amount) in [("dispute 1", "20"), ("dispute 2", "10")] {
        let amount = credits(amount);
        let set = bench.post(Verb::Clawback { grant, amount, payment_ref: payment_ref(name) });
        assert_eq!(set[0].answer.payment_ref.as_deref(), Some(name));
    }
    let set = bench.post(Verb::Restore { grant, amount: credits("30"), payment_ref: payment_ref("won") });
    let named: Vec<_> = set.iter().map(|entry| (entry.kind, entry.answer.payment_ref.as_deref())).collect();
    assert_eq!(named, [(Kind::Restore, Some("won")), (Kind::Restore, Some("won"))]);
}
