//! Crossings of the policy's threshold, to the millionth.

use super::{Bench, credits};
use crate::command::{ReasonCode, Verb};
use crate::decide::Signal;
use crate::ids::Seq;
use crate::policy::Policy;

fn bench(low_balance: &str) -> Bench {
    let mut bench = Bench::under(Policy { low_balance: Some(credits(low_balance)), ..Policy::default() });
    bench.paid("100");
    bench.signals.clear();
    bench
}

/// The entries that are said to have crossed it, and what they left.
fn crossings(bench: &Bench) -> Vec<(i64, String)> {
    let crossing = |signal: &Signal| match signal {
        Signal::ThresholdCrossed { seq: Seq(seq), available, .. } => Some((*seq, available.to_string())),
        _ => None,
    };
    bench.signals.iter().filter_map(crossing).collect()
}

#[test]
fn at_the_threshold_is_not_below_it() {
    let mut bench = bench("20");
    bench.charge("80");
    assert_eq!(crossings(&bench), []);
    let seq = bench.charge("0.000001");
    assert_eq!(crossings(&bench), [(seq.0, "19.999999".to_owned())]);
    let threshold = credits("20");
    let available = credits("19.999999");
    assert_eq!(bench.signals, [Signal::ThresholdCrossed { seq, threshold, available }]);
}

#[test]
fn it_is_said_once_and_again_only_after_it_was_at_or_above() {
    let mut bench = bench("20");
    bench.charge("90");
    bench.charge("1");
    bench.paid("10.999999");
    bench.charge("1");
    assert_eq!(crossings(&bench).len(), 1, "19.999999 was not yet back at the threshold");
    bench.paid("1.000001");
    let seq = bench.charge("0.5");
    assert_eq!(crossings(&bench)[1..], [(seq.0, "19.5".to_owned())]);
}

#[test]
fn a_hold_lowers_available_as_a_charge_does() {
    let mut bench = bench("20");
    let hold = bench.hold("85");
    let placed = bench.hold_state(hold).seq;
    assert_eq!(crossings(&bench), [(placed.0, "15".to_owned())]);
    bench.settle(hold, "90");
    assert_eq!(crossings(&bench).len(), 1);
}

#[test]
fn the_entry_of_the_set_that_crossed_it_is_named() {
    let mut bench = bench("20");
    bench.promo("30", "2026-01-02");
    bench.charge("1");
    let hold = bench.hold("85");
    bench.at("2026-01-01T00:09:00Z");
    assert_eq!(crossings(&bench), []);
    // 44 are available. The settle takes 30 above the hold; its set ends below the threshold by that entry.
    let settle = bench.settle(hold, "115")[0].seq;
    assert_eq!(crossings(&bench), [(settle.0, "14".to_owned())]);
}

/// 5 that stay, and 30 that end on 2026-01-02.
fn about_to_lapse() -> Bench {
    let mut bench = bench("20");
    bench.charge("95");
    bench.promo("30", "2026-01-02");
    bench.signals.clear();
    bench.at("2026-01-02");
    bench
}

#[test]
fn what_lapses_before_the_command_crosses_it_too() {
    let mut bench = about_to_lapse();
    let lapse = bench.state.head.seq.next();
    bench.charge("1");
    assert_eq!(crossings(&bench), [(lapse.0, "4".to_owned())]);
}

#[test]
fn a_set_that_comes_back_to_it_says_nothing() {
    let mut bench = about_to_lapse();
    bench.paid("15");
    let after: Vec<_> =
        bench.journal.iter().rev().take(2).map(|entry| entry.available_after.to_string()).collect();
    assert_eq!(after, ["20", "5"]);
    assert_eq!(crossings(&bench), []);
}

#[test]
fn no_threshold_and_a_new_one_below_which_the_balance_stands_already_say_nothing() {
    let mut bench = Bench::new();
    bench.paid("100");
    bench.charge("100");
    assert_eq!(crossings(&bench), []);
    let policy = Policy { low_balance: Some(credits("50")), ..Policy::default() };
    bench.post(Verb::SetPolicy { policy });
    bench.adjust("-1", ReasonCode::Correction);
    assert_eq!(crossings(&bench), []);
    bench.paid("51");
    bench.charge("1");
    assert_eq!(crossings(&bench).len(), 1);
}

#[test]
fn a_threshold_of_zero_is_crossed_with_zero() {
    let mut bench = bench("0");
    bench.charge("100");
    assert_eq!(crossings(&bench), []);
    bench.adjust("-0.000001", ReasonCode::Correction);
    assert_eq!(crossings(&bench).len(), 1);
    assert!(bench.signals.iter().any(|signal| matches!(signal, Signal::BelowZero { .. })));
}
