//! Amounts, states of the account, limits, and what opening and erasing refuse.

use chrono::Duration;

use super::{Bench, at, credits};
use crate::account::AccountStatus;
use crate::command::{Expiry, ReasonCode, ReverseOutcome, Verb};
use crate::decide::Ruling;
use crate::grant::Pool;
use crate::ids::{GrantId, HoldId, Seq};
use crate::policy::Policy;
use crate::refusal::{Limit, Missing, Refusal};

const TRILLION: &str = "1000000000000";
const ABOVE_TRILLION: &str = "1000000000000.000001";

#[test]
fn amounts_of_zero_and_below_are_refused_where_they_make_no_sense() {
    let mut bench = Bench::new();
    let grant = bench.paid("100");
    let seq = bench.charge("10");
    let hold = bench.hold("1");
    let payment_ref = None;
    for amount in [credits("0"), credits("-1")] {
        let verbs = [
            Verb::Grant { id: grant, amount, pool: Pool::Paid, expires: Expiry::Never, source: None },
            Verb::Refund { seq, amount: Some(amount) },
            Verb::Clawback { grant, amount, payment_ref: payment_ref.clone() },
            Verb::Restore { grant, amount, payment_ref: payment_ref.clone() },
        ];
        for verb in verbs {
            assert!(matches!(bench.refused(verb), Refusal::Invalid { field: "amount", .. }));
        }
    }
    let zero = bench.adjust_verb("0", ReasonCode::Other);
    assert!(matches!(bench.refused(zero), Refusal::Invalid { field: "amount", .. }));
    let (_, negative_hold) = bench.hold_verb("-1", None);
    let amount = credits("-1");
    for verb in [Verb::Charge { amount }, negative_hold, Verb::Settle { hold, amount }] {
        assert!(matches!(bench.refused(verb), Refusal::Invalid { field: "amount", .. }));
    }
}

#[test]
fn no_amount_is_above_its_limit_not_even_a_settles() {
    let mut bench = Bench::new();
    let grant = bench.paid(TRILLION);
    let hold = bench.hold("1");
    let amount = credits(ABOVE_TRILLION);
    let (_, above) = bench.hold_verb(ABOVE_TRILLION, None);
    let verbs = [
        Verb::Grant { id: grant, amount, pool: Pool::Paid, expires: Expiry::Never, source: None },
        Verb::Charge { amount },
        above,
        Verb::Settle { hold, amount },
        Verb::Clawback { grant, amount, payment_ref: None },
        bench.adjust_verb(ABOVE_TRILLION, ReasonCode::Other),
        bench.adjust_verb("-1000000000000.000001", ReasonCode::Other),
    ];
    for verb in verbs {
        assert_eq!(bench.refused(verb), Refusal::LimitExceeded { limit: Limit::Amount });
    }
    bench.settle(hold, TRILLION);
    assert_eq!(bench.figures(), "0 0 0");
}

#[test]
fn the_largest_balance_stops_what_comes_in_and_nothing_else() {
    let mut bench = Bench::new();
    for _ in 0..10 {
        bench.paid(TRILLION);
    }
    let full = Refusal::LimitExceeded { limit: Limit::Balance };
    let verb = bench.grant_verb("0.000001", Pool::Paid, Expiry::Never);
    assert_eq!(bench.refused(verb), full);
    let seq = bench.charge("5");
    bench.paid("5");
    assert_eq!(bench.refused(Verb::Refund { seq, amount: None }), full);
    let hold = bench.hold(TRILLION);
    bench.settle(hold, TRILLION);
    bench.refund(seq, "5");
}

#[test]
fn live_grants_are_counted() {
    let mut bench = Bench::new();
    let first = bench.promo("1", "2026-02-01");
    let one = bench.grant_state(first).clone();
    for number in 0..9_999_u32 {
        let id = GrantId(uuid::Uuid::from_u128(u128::from(number) + 1_000));
        bench.state.grants.insert(id, crate::grant::Grant { id, ..one.clone() });
    }
    let verb = bench.grant_verb("1", Pool::Paid, Expiry::Never);
    let command = bench.keyed("K", verb);
    assert_eq!(bench.decide(&command), Err(Refusal::LimitExceeded { limit: Limit::LiveGrants }));
    // Spent ones do not count.
    bench.state.grants.get_mut(&first).unwrap().remaining = credits("0");
    assert!(matches!(bench.decide(&command), Ok(Ruling::Post(_))));
}

#[test]
fn open_holds_are_counted() {
    let mut bench = Bench::new();
    bench.paid("1");
    for number in 0..1_000 {
        let (id, verb) = bench.hold_verb("0", None);
        if number == 0 {
            bench.post(verb);
        } else {
            let first = bench.state.holds.values().next().unwrap().clone();
            bench.state.holds.insert(id, crate::hold::Hold { id, ..first });
        }
    }
    let (_, verb) = bench.hold_verb("0", None);
    assert_eq!(bench.refused(verb), Refusal::LimitExceeded { limit: Limit::OpenHolds });
    bench.now += Duration::seconds(600);
    bench.hold("0");
}

#[test]
fn only_an_open_account_takes_charges_and_holds_and_all_else_goes_on() {
    let states = [
        (AccountStatus::ReadOnly, Refusal::AccountReadOnly { debt: None }),
        (AccountStatus::Blocked, Refusal::AccountBlocked),
        (AccountStatus::Closed, Refusal::AccountClosed),
    ];
    for (status, refusal) in states {
        let mut bench = Bench::new();
        let grant = bench.paid("100");
        let seq = bench.charge("10");
        let (settled, released, reversed) = (bench.hold("5"), bench.hold("5"), bench.hold("5"));
        bench.post(Verb::SetStatus { status });
        // The state is asked before the balance.
        for amount in ["1", "1000"] {
            assert_eq!(bench.refused(Verb::Charge { amount: credits(amount) }), refusal);
            let (_, verb) = bench.hold_verb(amount, None);
            assert_eq!(bench.refused(verb), refusal);
        }
        bench.post(Verb::Renew { hold: settled, expires_in_s: 60 });
        bench.settle(settled, "7");
        bench.post(Verb::Release { hold: released });
        bench.reverse(reversed, ReverseOutcome::Failed);
        bench.refund(seq, "10");
        bench.clawback(grant, "10");
        bench.restore(grant, "10");
        bench.paid("1");
        bench.adjust("-1", ReasonCode::Correction);
        bench.post(Verb::Void { grant });
        bench.post(Verb::SetStatus { status: AccountStatus::Open });
        bench.charge("1");
    }
}

#[test]
fn read_only_names_the_debt_when_there_is_some() {
    let mut bench = Bench::new();
    bench.adjust("-5", ReasonCode::Correction);
    bench.post(Verb::SetStatus { status: AccountStatus::ReadOnly });
    let refusal = bench.refused(Verb::Charge { amount: credits("1") });
    assert_eq!(refusal, Refusal::AccountReadOnly { debt: Some(credits("5")) });
}

#[test]
fn below_zero_not_even_nothing_is_taken() {
    let mut bench = Bench::new();
    bench.adjust("-5", ReasonCode::Correction);
    let refusal = bench.refused(Verb::Charge { amount: credits("0") });
    assert!(matches!(refusal, Refusal::InsufficientCredits { breaker_open: true, .. }));
}

#[test]
fn an_account_is_opened_once_and_before_all_else() {
    let mut bench = Bench::empty();
    assert_eq!(
        bench.refused(Verb::Charge { amount: credits("0") }),
        Refusal::NotFound { what: Missing::Account }
    );
    assert_eq!(bench.refused(Verb::Lapse), Refusal::NotFound { what: Missing::Account });
    let open = || Verb::Open {
        external_ref: "c".into(),
        name: None,
        email: None,
        policy: Policy::default(),
        time_zone: "UTC".into(),
    };
    let command = bench.keyed("K", open());
    assert!(matches!(bench.send(&command), Ok(Ruling::Post(_))));
    assert_eq!(bench.send(&command), Ok(Ruling::Replay(Seq(1))));
    let account = bench.state.account;
    assert_eq!(bench.refused(open()), Refusal::AlreadyExists { account });
}

#[test]
fn what_is_not_there_is_not_found_and_what_is_no_usage_is_not_refundable() {
    let mut bench = Bench::new();
    let grant = GrantId(uuid::Uuid::from_u128(5));
    let verbs = [
        Verb::Void { grant },
        Verb::Extend { grant, expires_at: at("2030-01-01") },
        Verb::Clawback { grant, amount: credits("1"), payment_ref: None },
        Verb::Restore { grant, amount: credits("1"), payment_ref: None },
    ];
    for verb in verbs {
        assert_eq!(bench.refused(verb), Refusal::NotFound { what: Missing::Grant });
    }
    bench.paid("1");
    let refund = |seq| Verb::Refund { seq: Seq(seq), amount: None };
    assert_eq!(bench.refused(refund(2)), Refusal::NotRefundable);
    for seq in [-1, 0, 3] {
        assert_eq!(bench.refused(refund(seq)), Refusal::NotFound { what: Missing::Entry });
    }
}

#[test]
fn a_charge_of_zero_has_nothing_to_refund() {
    let mut bench = Bench::new();
    let seq = bench.charge("0");
    assert_eq!(
        bench.refused(Verb::Refund { seq, amount: None }),
        Refusal::RefundExceedsCharge { refundable: credits("0") }
    );
}

#[test]
fn an_erased_account_stays_closed_and_keeps_nothing_that_comes_in() {
    let mut bench = Bench::new();
    bench.paid("10");
    bench.post(Verb::Erase);
    let verb = bench.grant_verb("1", Pool::Paid, Expiry::Policy);
    let set = bench.post(verb);
    let kinds: Vec<_> = set.iter().map(|entry| entry.kind.as_str()).collect();
    assert_eq!((kinds, bench.figures()), (vec!["TOPUP", "ADJUST"], "0 0 0".to_owned()));
    assert_eq!(bench.adjust("2", ReasonCode::Goodwill).len(), 2);
    assert_eq!(bench.refused(Verb::SetStatus { status: AccountStatus::Open }), Refusal::AccountClosed);
    assert_eq!(bench.post(Verb::Erase).len(), 1);
}

#[test]
fn a_dispute_on_an_erased_account_is_booked_as_debt_there() {
    let mut bench = Bench::new();
    let payment = bench.paid("20");
    bench.post(Verb::Erase);
    bench.clawback(payment, "20");
    assert_eq!(bench.figures(), "-20 0 20");
    bench.restore(payment, "20");
    assert_eq!(bench.figures(), "0 0 0");
}

#[test]
fn a_hold_of_an_erased_account_is_closed_out_when_it_expires() {
    let mut bench = Bench::new();
    bench.paid("20");
    let hold: HoldId = bench.hold("5");
    bench.post(Verb::Erase);
    bench.at("2026-01-02");
    let swept = bench.sweep();
    let kinds: Vec<_> = swept.iter().map(|entry| entry.kind.as_str()).collect();
    assert_eq!((kinds, bench.hold_state(hold).reversed), (vec!["AUTH_REVERSAL", "ADJUST"], credits("5")));
    assert_eq!(bench.figures(), "0 0 0");
}
