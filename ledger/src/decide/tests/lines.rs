//! Every kind of entry, with its exact lines.

use super::{Bench, at, credits, lines_of};
use crate::account::AccountStatus;
use crate::command::{Expiry, JobMarker, ReasonCode, ReverseOutcome, Verb};
use crate::entry::{Entry, Kind, NoteKind};
use crate::grant::Pool;
use crate::policy::{Overrun, Policy};

fn kinds(entries: &[Entry]) -> Vec<&'static str> {
    entries.iter().map(|entry| entry.kind.as_str()).collect()
}

#[test]
fn topup_paid_comes_out_of_prepaid_liability() {
    let mut bench = Bench::new();
    let verb = bench.grant_verb("100", Pool::Paid, Expiry::Never);
    let entry = &bench.post(verb)[0];
    assert_eq!(entry.kind, Kind::Topup);
    assert_eq!(lines_of(entry), ["debit prepaid_liability 100", "credit available 100 g1 =100"]);
    assert_eq!(
        (entry.amount, entry.moved, entry.available_after),
        (credits("100"), credits("0"), credits("100"))
    );
    let view = entry.answer.grant.as_ref().unwrap();
    assert_eq!((view.remaining, view.live, view.seq), (credits("100"), true, entry.seq));
    assert_eq!(entry.answer.pool, Some(Pool::Paid));
}

#[test]
fn topup_trial_and_promo_come_out_of_promotion_expense() {
    for pool in [Pool::Trial, Pool::Promo] {
        let mut bench = Bench::new();
        let verb = bench.grant_verb("0.5", pool, Expiry::Policy);
        assert_eq!(
            lines_of(&bench.post(verb)[0]),
            ["debit promotion_expense 0.5", "credit available 0.5 g1 =0.5"]
        );
    }
}

#[test]
fn topup_with_debt_pays_it_first_with_a_line_of_its_own() {
    let mut bench = Bench::new();
    bench.adjust("-30", ReasonCode::Correction);
    let verb = bench.grant_verb("100", Pool::Paid, Expiry::Never);
    let entry = &bench.post(verb)[0];
    assert_eq!(
        lines_of(entry),
        ["debit prepaid_liability 100", "credit available 30 g2 pays =0", "credit available 70 g2 =70"]
    );
    assert_eq!(entry.debt_after, credits("0"));
}

#[test]
fn topup_below_the_debt_has_no_rest() {
    let mut bench = Bench::new();
    bench.adjust("-30", ReasonCode::Correction);
    let verb = bench.grant_verb("10", Pool::Paid, Expiry::Never);
    assert_eq!(
        lines_of(&bench.post(verb)[0]),
        ["debit prepaid_liability 10", "credit available 10 g2 pays =-20"]
    );
}

#[test]
fn consume_has_one_debit_for_each_grant_in_spend_order() {
    let mut bench = Bench::new();
    bench.paid("100");
    bench.promo("5", "2026-09-01");
    bench.promo("5", "2026-08-01");
    bench.grant("3", Pool::Promo, Expiry::Never);
    bench.grant("2", Pool::Trial, Expiry::Policy);
    let entry = bench.post(Verb::Charge { amount: credits("20") }).remove(0);
    assert_eq!(
        lines_of(&entry),
        [
            "debit available 2 g5 =113",
            "debit available 5 g3 =108",
            "debit available 5 g2 =103",
            "debit available 3 g4 =100",
            "debit available 5 g1 =95",
            "credit revenue 20",
        ]
    );
    assert_eq!((entry.kind, entry.amount), (Kind::Consume, credits("-20")));
}

#[test]
fn spend_order_takes_the_older_grant_where_ends_are_equal() {
    let mut bench = Bench::new();
    bench.promo("5", "2026-09-01");
    bench.promo("5", "2026-09-01");
    let entry = bench.post(Verb::Charge { amount: credits("6") }).remove(0);
    assert_eq!(lines_of(&entry), ["debit available 5 g1 =5", "debit available 1 g2 =4", "credit revenue 6"]);
}

#[test]
fn an_entry_of_zero_has_no_lines() {
    let mut bench = Bench::new();
    let charge = bench.post(Verb::Charge { amount: credits("0") }).remove(0);
    assert_eq!((charge.kind, charge.lines.len(), charge.amount), (Kind::Consume, 0, credits("0")));
    let (id, verb) = bench.hold_verb("0", None);
    assert!(bench.post(verb)[0].lines.is_empty());
    let settle = bench.settle(id, "0");
    assert_eq!(kinds(&settle), ["SETTLE"]);
    assert!(settle[0].lines.is_empty());
}

#[test]
fn auth_hold_has_one_pair_for_each_grant() {
    let mut bench = Bench::new();
    bench.paid("100");
    bench.promo("30", "2026-09-01");
    let (_, verb) = bench.hold_verb("50", None);
    let entry = bench.post(verb).remove(0);
    assert_eq!(
        lines_of(&entry),
        [
            "debit available 30 g2 =100",
            "credit held 30 g2 =30",
            "debit available 20 g1 =80",
            "credit held 20 g1 =50"
        ]
    );
    assert_eq!((entry.kind, entry.amount, entry.moved), (Kind::AuthHold, credits("0"), credits("50")));
    let view = entry.answer.hold.as_ref().unwrap();
    assert_eq!((view.amount, view.expires_at), (credits("50"), at("2026-01-01T00:10:00Z")));
}

#[test]
fn settle_at_the_hold() {
    let mut bench = Bench::new();
    bench.paid("100");
    bench.promo("30", "2026-09-01");
    let hold = bench.hold("50");
    let set = bench.settle(hold, "50");
    assert_eq!(kinds(&set), ["SETTLE"]);
    assert_eq!(lines_of(&set[0]), ["debit held 30 g2 =20", "debit held 20 g1 =0", "credit revenue 50"]);
    assert_eq!((set[0].amount, set[0].moved, set[0].hold), (credits("-50"), credits("0"), Some(hold)));
}

#[test]
fn settle_below_the_hold_releases_the_rest_in_the_same_set() {
    let mut bench = Bench::new();
    bench.paid("100");
    bench.promo("30", "2026-09-01");
    let hold = bench.hold("50");
    let set = bench.settle(hold, "10");
    assert_eq!(kinds(&set), ["SETTLE", "AUTH_RELEASE"]);
    assert_eq!(lines_of(&set[0]), ["debit held 10 g2 =40", "credit revenue 10"]);
    assert_eq!(
        lines_of(&set[1]),
        [
            "debit held 20 g2 =20",
            "credit available 20 g2 =100",
            "debit held 20 g1 =0",
            "credit available 20 g1 =120"
        ]
    );
    assert_eq!((set[1].amount, set[1].moved), (credits("0"), credits("-40")));
    let answer = &set[0].answer;
    assert_eq!(
        (answer.settled, answer.released, answer.overrun),
        (Some(credits("10")), Some(credits("40")), Some(credits("0")))
    );
    assert_eq!(answer.hold.as_ref().unwrap().released, credits("40"));
}

#[test]
fn settle_of_zero_releases_all() {
    let mut bench = Bench::new();
    bench.paid("100");
    let hold = bench.hold("50");
    let set = bench.settle(hold, "0");
    assert_eq!(kinds(&set), ["SETTLE", "AUTH_RELEASE"]);
    assert!(set[0].lines.is_empty());
    assert_eq!(lines_of(&set[1]), ["debit held 50 g1 =0", "credit available 50 g1 =100"]);
}

#[test]
fn settle_above_the_hold_draws_in_spend_order_and_then_makes_debt() {
    let mut bench = Bench::new();
    bench.paid("60");
    let hold = bench.hold("50");
    bench.promo("5", "2026-09-01");
    let set = bench.settle(hold, "100");
    assert_eq!(kinds(&set), ["SETTLE"]);
    assert_eq!(
        lines_of(&set[0]),
        [
            "debit held 50 g1 =0",
            "debit available 5 g3 =10",
            "debit available 10 g1 =0",
            "debit available 35 makes =-35",
            "credit revenue 100",
        ]
    );
    assert_eq!((set[0].answer.overrun, set[0].debt_after), (Some(credits("50")), credits("35")));
}

#[test]
fn settle_capped_records_the_uncollected_part_as_a_note() {
    let mut bench = Bench::under(Policy { overrun: Overrun::Cap, ..Policy::default() });
    bench.paid("1600");
    let hold = bench.hold("1500");
    let set = bench.settle(hold, "6600");
    assert_eq!(kinds(&set), ["SETTLE", "NOTE"]);
    assert_eq!(lines_of(&set[0]), ["debit held 1500 g1 =0", "credit revenue 1500"]);
    assert_eq!(set[1].note, Some(NoteKind::Uncollected));
    assert_eq!((set[1].answer.uncollected, set[1].hold), (Some(credits("5100")), Some(hold)));
    assert_eq!((set[0].answer.settled, set[0].answer.overrun), (Some(credits("1500")), Some(credits("0"))));
}

#[test]
fn late_settle_has_no_held_line() {
    let mut bench = Bench::new();
    bench.paid("100");
    let hold = bench.hold("50");
    bench.at("2026-01-01T00:10:00Z");
    let set = bench.settle(hold, "120");
    assert_eq!(kinds(&set), ["AUTH_REVERSAL", "SETTLE"]);
    assert_eq!(
        lines_of(&set[1]),
        ["debit available 100 g1 =0", "debit available 20 makes =-20", "credit revenue 120"]
    );
    assert!(set[1].answer.late && set[1].is_main && !set[0].is_main);
}

#[test]
fn auth_release_returns_part_by_part() {
    let mut bench = Bench::new();
    bench.paid("100");
    bench.promo("30", "2026-09-01");
    let hold = bench.hold("50");
    let set = bench.post(Verb::Release { hold });
    assert_eq!(kinds(&set), ["AUTH_RELEASE"]);
    assert_eq!(
        lines_of(&set[0]),
        [
            "debit held 30 g2 =20",
            "credit available 30 g2 =110",
            "debit held 20 g1 =0",
            "credit available 20 g1 =130"
        ]
    );
    assert_eq!((set[0].amount, set[0].moved), (credits("0"), credits("-50")));
}

#[test]
fn auth_release_pays_debt_first_where_the_grant_lives() {
    let mut bench = Bench::new();
    bench.paid("50");
    let hold = bench.hold("50");
    bench.adjust("-15", ReasonCode::Correction);
    let set = bench.post(Verb::Release { hold });
    assert_eq!(
        lines_of(&set[0]),
        ["debit held 50 g1 =0", "credit available 15 g1 pays =0", "credit available 35 g1 =35"]
    );
}

#[test]
fn auth_reversal_of_a_failure_and_of_an_unknown_outcome() {
    for (outcome, review) in [(ReverseOutcome::Failed, false), (ReverseOutcome::Unknown, true)] {
        let mut bench = Bench::new();
        bench.paid("100");
        let hold = bench.hold("50");
        let set = bench.reverse(hold, outcome);
        assert_eq!(kinds(&set), ["AUTH_REVERSAL"]);
        assert_eq!(lines_of(&set[0]), ["debit held 50 g1 =0", "credit available 50 g1 =100"]);
        assert_eq!(set[0].answer.hold.as_ref().unwrap().needs_review, review);
        assert_eq!(bench.hold_state(hold).reversed, credits("50"));
    }
}

#[test]
fn refund_into_live_grants() {
    let mut bench = Bench::new();
    bench.paid("100");
    bench.promo("30", "2026-09-01");
    let seq = bench.charge("50");
    let set = bench.refund(seq, "25");
    assert_eq!(kinds(&set), ["REFUND"]);
    assert_eq!(
        lines_of(&set[0]),
        ["debit refund_expense 25", "credit available 15 g2 =95", "credit available 10 g1 =105"]
    );
    assert_eq!((set[0].reverses, set[0].amount), (Some(seq), credits("25")));
    assert_eq!(set[0].answer.refundable, Some(credits("25")));
    assert_eq!(set[0].answer.spread, [credits("15"), credits("10")]);
}

#[test]
fn refund_into_an_ended_grant_ends_again_and_pays_no_debt() {
    let mut bench = Bench::new();
    bench.promo("30", "2026-02-01");
    let seq = bench.charge("30");
    bench.at("2026-03-01");
    bench.adjust("-7", ReasonCode::Correction);
    let set = bench.post(Verb::Refund { seq, amount: None });
    assert_eq!(kinds(&set), ["REFUND", "EXPIRE"]);
    assert_eq!(lines_of(&set[0]), ["debit refund_expense 30", "credit available 30 g1 =23"]);
    assert_eq!(lines_of(&set[1]), ["debit available 30 g1 =-7", "credit expiration_gain 30 g1"]);
    assert!(set[0].answer.returned[0].lapsed);
    assert_eq!(set[1].effective_at, at("2026-03-01"));
}

#[test]
fn clawback_takes_the_payments_grant_then_its_lapse_then_others_then_debt() {
    let mut bench = Bench::new();
    let payment = bench.grant("100", Pool::Paid, Expiry::At(at("2026-02-01")));
    bench.charge("60");
    bench.at("2026-02-01");
    bench.promo("10", "2026-09-01");
    let set = bench.clawback(payment, "100");
    assert_eq!(kinds(&set), ["CLAWBACK"]);
    assert_eq!(
        lines_of(&set[0]),
        [
            "debit expiration_gain 40 g1",
            "debit available 10 g2 =0",
            "debit available 50 makes =-50",
            "credit prepaid_liability 100",
        ]
    );
    assert_eq!(set[0].amount, credits("-60"));
}

#[test]
fn clawback_of_a_live_grant_comes_from_it_first() {
    let mut bench = Bench::new();
    bench.grant("10", Pool::Trial, Expiry::Policy);
    let payment = bench.paid("100");
    let set = bench.clawback(payment, "100");
    assert_eq!(lines_of(&set[0]), ["debit available 100 g2 =10", "credit prepaid_liability 100"]);
}

#[test]
fn clawback_counts_a_void_as_a_lapse() {
    let mut bench = Bench::new();
    let payment = bench.paid("100");
    bench.post(Verb::Void { grant: payment });
    let set = bench.clawback(payment, "30");
    assert_eq!(lines_of(&set[0]), ["debit expiration_gain 30 g1", "credit prepaid_liability 30"]);
    assert_eq!(set[0].amount, credits("0"));
}

#[test]
fn restore_returns_by_the_way_the_clawback_took() {
    let mut bench = Bench::new();
    let payment = bench.grant("100", Pool::Paid, Expiry::At(at("2026-02-01")));
    bench.charge("60");
    bench.at("2026-02-01");
    bench.promo("10", "2026-09-01");
    let seq = bench.clawback(payment, "100")[0].seq;
    let set = bench.restore(payment, "100");
    assert_eq!(kinds(&set), ["RESTORE"]);
    assert_eq!(
        lines_of(&set[0]),
        [
            "debit prepaid_liability 100",
            "credit expiration_gain 40 g1",
            "credit available 10 g2 pays =-40",
            "credit available 40 pays =0",
            "credit available 10 g2 =10",
        ]
    );
    assert_eq!(set[0].reverses, Some(seq));
    assert_eq!(bench.grant_state(payment).lapse_taken, credits("0"));
}

#[test]
fn restore_undoes_the_newest_clawback_first_with_one_entry_for_each() {
    let mut bench = Bench::new();
    let payment = bench.paid("100");
    let first = bench.clawback(payment, "30")[0].seq;
    let second = bench.clawback(payment, "20")[0].seq;
    let set = bench.restore(payment, "40");
    assert_eq!(kinds(&set), ["RESTORE", "RESTORE"]);
    assert_eq!(set.iter().map(|entry| entry.reverses).collect::<Vec<_>>(), [Some(second), Some(first)]);
    assert_eq!(lines_of(&set[0]), ["debit prepaid_liability 20", "credit available 20 g1 =70"]);
    assert_eq!(lines_of(&set[1]), ["debit prepaid_liability 20", "credit available 20 g1 =90"]);
    assert!(set[0].is_main && !set[1].is_main);
    let set = bench.restore(payment, "10");
    assert_eq!(set[0].reverses, Some(first));
    assert_eq!(bench.figures(), "100 0 0");
}

#[test]
fn expire_takes_what_is_left() {
    let mut bench = Bench::new();
    bench.promo("30", "2026-02-01");
    bench.charge("10");
    bench.at("2026-02-01T06:23:00Z");
    let set = bench.sweep();
    assert_eq!(kinds(&set), ["EXPIRE"]);
    assert_eq!(lines_of(&set[0]), ["debit available 20 g1 =0", "credit expiration_gain 20 g1"]);
    assert_eq!((set[0].effective_at, set[0].recorded_at), (at("2026-02-01"), at("2026-02-01T06:23:00Z")));
}

#[test]
fn void_takes_what_is_left_and_no_more() {
    let mut bench = Bench::new();
    let grant = bench.paid("100");
    bench.charge("30");
    let set = bench.post(Verb::Void { grant });
    assert_eq!(kinds(&set), ["VOID"]);
    assert_eq!(lines_of(&set[0]), ["debit available 70 g1 =0", "credit expiration_gain 70 g1"]);
    assert!(!set[0].answer.grant.as_ref().unwrap().live);
}

#[test]
fn void_of_a_live_grant_with_nothing_left_has_no_lines() {
    let mut bench = Bench::new();
    let grant = bench.paid("100");
    bench.charge("100");
    let set = bench.post(Verb::Void { grant });
    assert_eq!((set[0].kind, set[0].lines.len()), (Kind::Void, 0));
}

#[test]
fn adjust_plus_makes_a_promo_grant_by_policy() {
    let mut bench = Bench::new();
    let set = bench.adjust("12.5", ReasonCode::Goodwill);
    assert_eq!(kinds(&set), ["ADJUST"]);
    assert_eq!(lines_of(&set[0]), ["debit adjustment 12.5", "credit available 12.5 g1 =12.5"]);
    let view = set[0].answer.grant.as_ref().unwrap();
    assert_eq!((view.pool, view.expires_at), (Pool::Promo, Some(at("2026-04-01"))));
    assert_eq!(set[0].answer.reason_code, Some(ReasonCode::Goodwill));
}

#[test]
fn adjust_minus_is_forced_in_spend_order_and_then_debt() {
    let mut bench = Bench::new();
    bench.paid("100");
    bench.promo("30", "2026-09-01");
    let set = bench.adjust("-150", ReasonCode::Correction);
    assert_eq!(
        lines_of(&set[0]),
        [
            "debit available 30 g2 =100",
            "debit available 100 g1 =0",
            "debit available 20 makes =-20",
            "credit adjustment 150",
        ]
    );
}

#[test]
fn adjust_write_off_pays_debt_out_of_bad_debt() {
    let mut bench = Bench::new();
    bench.adjust("-50", ReasonCode::Correction);
    let set = bench.adjust("20", ReasonCode::WriteOff);
    assert_eq!(lines_of(&set[0]), ["debit bad_debt 20", "credit available 20 pays =-30"]);
    assert_eq!(bench.state.head.written_off, credits("20"));
}

#[test]
fn refund_of_written_off_usage_goes_to_bad_debt() {
    let mut bench = Bench::new();
    bench.paid("10");
    let hold = bench.hold("10");
    let seq = bench.settle(hold, "30")[0].seq;
    bench.adjust("20", ReasonCode::WriteOff);
    let set = bench.post(Verb::Refund { seq, amount: None });
    assert_eq!(
        lines_of(&set[0]),
        ["debit refund_expense 30", "credit available 10 g1 =10", "credit bad_debt 20"]
    );
    assert_eq!((set[0].amount, bench.state.head.written_off), (credits("10"), credits("0")));
}

#[test]
fn notes_have_no_lines_and_say_what_they_record() {
    let mut bench = Bench::new();
    assert_eq!(bench.journal[0].note, Some(NoteKind::AccountOpened));
    assert_eq!(bench.journal[0].seq.0, 1);
    assert_eq!(bench.journal[0].answer.policy.as_deref(), Some("default"));
    let grant = bench.promo("10", "2026-06-01");
    let hold = bench.hold("5");
    bench.call.job_id = Some("job-1".into());
    let verbs = [
        (Verb::Mark { marker: JobMarker::Started }, NoteKind::JobStarted),
        (Verb::Mark { marker: JobMarker::Completed }, NoteKind::JobCompleted),
        (Verb::Mark { marker: JobMarker::Failed }, NoteKind::JobFailed),
        (Verb::Renew { hold, expires_in_s: 900 }, NoteKind::HoldRenewed),
        (Verb::Extend { grant, expires_at: at("2026-07-01") }, NoteKind::GrantExtended),
        (Verb::SetStatus { status: AccountStatus::ReadOnly }, NoteKind::StateChanged),
        (
            Verb::SetPolicy { policy: Policy { name: "pro".into(), ..Policy::default() } },
            NoteKind::PolicyChanged,
        ),
    ];
    for (verb, note) in verbs {
        let set = bench.post(verb);
        assert_eq!((set.len(), set[0].kind, set[0].note, set[0].lines.len()), (1, Kind::Note, Some(note), 0));
        match note {
            NoteKind::HoldRenewed => {
                assert_eq!(set[0].answer.hold.as_ref().unwrap().expires_at, at("2026-01-01T00:15:00Z"));
            }
            NoteKind::GrantExtended => {
                assert_eq!(set[0].answer.grant.as_ref().unwrap().expires_at, Some(at("2026-07-01")));
            }
            NoteKind::StateChanged => assert_eq!(set[0].answer.status, Some(AccountStatus::ReadOnly)),
            NoteKind::PolicyChanged => assert_eq!(set[0].answer.policy.as_deref(), Some("pro")),
            _ => assert_eq!(set[0].call.job_id.as_deref(), Some("job-1")),
        }
    }
    assert_eq!((bench.state.status, bench.state.policy.name.as_str()), (AccountStatus::ReadOnly, "pro"));
}

#[test]
fn erasure_closes_out_by_an_adjust_and_what_comes_back_later_too() {
    let mut bench = Bench::new();
    bench.paid("700");
    let (settled, released) = (bench.hold("50"), bench.hold("20"));
    let seq = bench.charge("30");
    let set = bench.post(Verb::Erase);
    assert_eq!(kinds(&set), ["NOTE", "ADJUST"]);
    assert_eq!(
        (set[0].note, set[0].is_main, set[0].answer.status),
        (Some(NoteKind::Erased), true, Some(AccountStatus::Closed))
    );
    assert_eq!(lines_of(&set[1]), ["debit available 600 g1 =0", "credit adjustment 600"]);
    assert_eq!(lines_of(&bench.settle(settled, "50")[0]), ["debit held 50 g1 =20", "credit revenue 50"]);
    let set = bench.post(Verb::Release { hold: released });
    assert_eq!(kinds(&set), ["AUTH_RELEASE", "ADJUST"]);
    assert_eq!(lines_of(&set[1]), ["debit available 20 g1 =0", "credit adjustment 20"]);
    let set = bench.post(Verb::Refund { seq, amount: None });
    assert_eq!(kinds(&set), ["REFUND", "ADJUST"]);
    assert_eq!(bench.figures(), "0 0 0");
}
