//! A hold ends once; what ends it, what comes late, and how long it may live (rules 6 to 8).

use super::bench::main;
use super::{Bench, at, credits, lines_of};
use crate::command::{ReverseOutcome, Verb};
use crate::entry::Kind;
use crate::hold::HoldStatus;
use crate::ids::HoldId;
use crate::policy::{Overrun, Policy};
use crate::refusal::Refusal;

fn endings(hold: HoldId) -> [Verb; 4] {
    [
        Verb::Settle { hold, amount: credits("1") },
        Verb::Release { hold },
        Verb::Reverse { hold, outcome: ReverseOutcome::Failed },
        Verb::Renew { hold, expires_in_s: 60 },
    ]
}

#[test]
fn the_first_ending_wins_and_the_others_hear_of_it() {
    let ways: [(Verb, HoldStatus); 3] = {
        let hold = HoldId(uuid::Uuid::from_u128(2 << 64));
        [
            (Verb::Settle { hold, amount: credits("3") }, HoldStatus::Settled),
            (Verb::Release { hold }, HoldStatus::Released),
            (Verb::Reverse { hold, outcome: ReverseOutcome::Failed }, HoldStatus::Reversed),
        ]
    };
    for (way, final_state) in ways {
        let mut bench = Bench::new();
        bench.paid("100");
        let hold = bench.hold("10");
        let seq = main(&bench.post(way)).seq;
        for verb in endings(hold) {
            assert_eq!(bench.refused(verb), Refusal::HoldEnded { final_state, entry: Some(seq) });
        }
    }
}

#[test]
fn a_conflict_names_no_entry_that_was_never_written() {
    let mut bench = Bench::new();
    bench.paid("100");
    let hold = bench.hold("10");
    bench.at("2026-01-01T00:10:00Z");
    let expired = |entry| Refusal::HoldEnded { final_state: HoldStatus::Expired, entry };
    assert_eq!(bench.refused(Verb::Release { hold }), expired(None));
    let swept = bench.sweep()[0].seq;
    assert_eq!(bench.refused(Verb::Release { hold }), expired(Some(swept)));
}

#[test]
fn a_hold_is_open_up_to_its_end_and_not_at_it() {
    let mut bench = Bench::new();
    bench.paid("100");
    let (first, second) = (bench.hold("10"), bench.hold("10"));
    bench.at("2026-01-01T00:09:59.999999Z");
    bench.post(Verb::Release { hold: first });
    bench.at("2026-01-01T00:10:00Z");
    assert!(matches!(bench.refused(Verb::Release { hold: second }), Refusal::HoldEnded { .. }));
}

#[test]
fn a_settle_after_an_unknown_outcome_is_posted_once() {
    let mut bench = Bench::new();
    bench.paid("100");
    let hold = bench.hold("10");
    bench.reverse(hold, ReverseOutcome::Unknown);
    let set = bench.settle(hold, "7");
    assert_eq!(lines_of(&set[0]), ["debit available 7 g1 =93", "credit revenue 7"]);
    assert!(set[0].answer.late);
    assert_eq!((set[0].answer.released, set[0].answer.overrun), (Some(credits("0")), Some(credits("0"))));
    let state = bench.hold_state(hold).clone();
    assert_eq!(
        (state.status, state.settled, state.late_settle),
        (HoldStatus::Reversed, credits("0"), Some(set[0].seq))
    );
    let again = bench.refused(Verb::Settle { hold, amount: credits("7") });
    assert_eq!(again, Refusal::HoldEnded { final_state: HoldStatus::Reversed, entry: Some(set[0].seq) });
}

#[test]
fn a_late_settle_under_a_cap_is_capped_too() {
    let mut bench = Bench::under(Policy { overrun: Overrun::Cap, ..Policy::default() });
    bench.paid("100");
    let hold = bench.hold("10");
    bench.at("2026-01-02");
    bench.sweep();
    let set = bench.settle(hold, "25");
    assert_eq!(set.iter().map(|entry| entry.kind).collect::<Vec<_>>(), [Kind::Settle, Kind::Note]);
    assert_eq!(set[1].answer.uncollected, Some(credits("15")));
    assert_eq!(bench.figures(), "90 0 0");
}

#[test]
fn the_time_of_a_hold_is_bounded_by_the_policy() {
    let mut bench = Bench::new();
    bench.paid("100");
    for (asked, ends) in [
        (None, "2026-01-01T00:10:00Z"),
        (Some(1), "2026-01-01T00:00:01Z"),
        (Some(3_600), "2026-01-01T01:00:00Z"),
    ] {
        let (id, verb) = bench.hold_verb("1", asked);
        bench.post(verb);
        assert_eq!((bench.hold_state(id).expires_at, bench.hold_state(id).lifetime_s), (at(ends), 3_600));
    }
    for asked in [0, 3_601] {
        let (_, verb) = bench.hold_verb("1", Some(asked));
        assert!(matches!(bench.refused(verb), Refusal::Invalid { field: "expires_in_s", .. }));
    }
}

#[test]
fn a_renewal_keeps_to_the_holds_lifetime_and_to_24_hours() {
    let mut bench = Bench::new();
    bench.paid("100");
    let hold = bench.hold("1");
    let renew = |expires_in_s| Verb::Renew { hold, expires_in_s };
    for asked in [0, 3_601] {
        assert!(matches!(bench.refused(renew(asked)), Refusal::Invalid { field: "expires_in_s", .. }));
    }
    // A later policy does not change what the hold was placed under.
    bench.post(Verb::SetPolicy { policy: Policy { hold_lifetime_s: 60, ..Policy::default() } });
    bench.at("2026-01-01T00:09:00Z");
    for _ in 0..23 {
        bench.post(renew(3_600));
        assert_eq!(bench.hold_state(hold).expires_at, bench.now + chrono::Duration::hours(1));
        bench.now += chrono::Duration::minutes(59);
    }
    bench.post(renew(3_600));
    bench.at("2026-01-01T23:30:00Z");
    assert!(matches!(bench.refused(renew(1_801)), Refusal::Invalid { field: "expires_in_s", .. }));
    bench.post(renew(1_800));
    assert_eq!(bench.hold_state(hold).expires_at, at("2026-01-02"));
}

#[test]
fn what_follows_a_hold_copies_its_call_and_may_name_its_own_request() {
    let mut bench = Bench::new();
    bench.paid("100");
    bench.call.member = Some("m1".into());
    bench.call.model = Some("gpt".into());
    bench.call.request_ref = Some("r1".into());
    let hold = bench.hold("10");
    bench.call = crate::command::CallFields { request_ref: Some("r2".into()), ..Default::default() };
    let set = bench.settle(hold, "4");
    for entry in &set {
        assert_eq!((entry.call.member.as_deref(), entry.call.model.as_deref()), (Some("m1"), Some("gpt")));
        assert_eq!(entry.call.request_ref.as_deref(), Some("r2"));
    }
    bench.call = Default::default();
    let refund = bench.refund(set[0].seq, "4");
    assert_eq!(
        (refund[0].call.member.as_deref(), refund[0].call.request_ref.as_deref()),
        (Some("m1"), Some("r2"))
    );
    assert_eq!(refund[0].hold, Some(hold));
}

#[test]
fn an_unknown_hold_is_not_found() {
    let mut bench = Bench::new();
    for verb in endings(HoldId(uuid::Uuid::from_u128(7))) {
        assert!(matches!(bench.refused(verb), Refusal::NotFound { .. }));
    }
}
