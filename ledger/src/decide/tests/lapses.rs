//! What falls due, in which order and at which instants; and rule 10's ends.

use super::bench::main;
use super::{Bench, at, credits, lines_of};
use crate::command::{Expiry, JobMarker, ReasonCode, Verb};
use crate::decide::Signal;
use crate::entry::{Entry, Kind, NoteKind};
use crate::grant::Pool;
use crate::policy::{ExpiryRule, Policy};
use crate::refusal::Refusal;

fn steps(set: &[Entry]) -> Vec<(Kind, String)> {
    set.iter().map(|entry| (entry.kind, entry.effective_at.format("%dT%H:%M").to_string())).collect()
}

fn step(kind: Kind, instant: &str) -> (Kind, String) {
    (kind, instant.to_owned())
}

#[test]
fn lapses_go_by_their_instants_before_the_main_entry() {
    let mut bench = Bench::new();
    bench.paid("100");
    bench.promo("5", "2026-01-01T00:20:00Z");
    bench.promo("5", "2026-01-01T00:05:00Z");
    let _ = bench.hold("20");
    bench.promo("7", "2026-01-01T00:08:00Z");
    bench.at("2026-01-01T00:30:00Z");
    let set = bench.post(Verb::Charge { amount: credits("100") });
    // The hold reserved both first promos. At 00:10 one had ended and one had not.
    assert_eq!(
        steps(&set),
        [
            step(Kind::Expire, "01T00:08"),
            step(Kind::AuthReversal, "01T00:10"),
            step(Kind::Expire, "01T00:10"),
            step(Kind::Expire, "01T00:20"),
            step(Kind::Consume, "01T00:30"),
        ]
    );
    assert_eq!(set.iter().map(|entry| entry.is_main).collect::<Vec<_>>(), [false, false, false, false, true]);
    assert!(
        set.iter()
            .all(|entry| entry.recorded_at == at("2026-01-01T00:30:00Z") && entry.set_seq == set[0].seq)
    );
    assert_eq!(bench.figures(), "0 0 0");
    let lapsed = bench.signals.iter().filter(|signal| matches!(signal, Signal::Lapsed { .. })).count();
    assert_eq!(lapsed, 3);
}

#[test]
fn at_one_instant_holds_go_before_grants() {
    let mut bench = Bench::new();
    bench.promo("30", "2026-01-01T00:10:00Z");
    bench.hold("10");
    bench.hold("5");
    bench.at("2026-01-01T00:10:00Z");
    let set = bench.sweep();
    let kinds: Vec<_> = set.iter().map(|entry| entry.kind).collect();
    assert_eq!(kinds, [Kind::AuthReversal, Kind::AuthReversal, Kind::Expire]);
    assert_eq!(lines_of(&set[2]), ["debit available 30 g1 =0", "credit expiration_gain 30 g1"]);
}

#[test]
fn an_expired_hold_pays_debt_where_its_grant_lives() {
    let mut bench = Bench::new();
    bench.paid("10");
    bench.hold("10");
    bench.adjust("-4", ReasonCode::Correction);
    bench.at("2026-01-01T00:10:00Z");
    assert_eq!(bench.figures(), "6 0 0");
    bench.charge("6");
}

#[test]
fn a_refusal_and_a_replay_write_no_lapse() {
    let mut bench = Bench::new();
    bench.promo("30", "2026-02-01");
    let charge = bench.keyed("K", Verb::Charge { amount: credits("1") });
    bench.send(&charge).unwrap();
    bench.at("2026-02-02");
    bench.refused(Verb::Charge { amount: credits("1") });
    let entries = bench.journal.len();
    bench.send(&charge).unwrap();
    assert_eq!(bench.journal.len(), entries);
    assert!(bench.state.lapse_due(bench.now));
}

#[test]
fn a_note_writes_what_fell_due_with_it() {
    let mut bench = Bench::new();
    bench.promo("30", "2026-02-01");
    bench.at("2026-02-02");
    bench.call.job_id = Some("j".into());
    let set = bench.post(Verb::Mark { marker: JobMarker::Started });
    assert_eq!(set.iter().map(|entry| entry.kind).collect::<Vec<_>>(), [Kind::Expire, Kind::Note]);
    assert_eq!(set[0].call.job_id, None);
    assert_eq!((set[0].actor.id.as_str(), set[1].actor.id.as_str()), ("lapse", "k1"));
}

#[test]
fn a_clock_that_went_back_is_not_followed() {
    let mut bench = Bench::new();
    bench.at("2026-02-02");
    bench.paid("10");
    bench.at("2026-02-01");
    let set = bench.post(Verb::Charge { amount: credits("1") });
    assert_eq!((set[0].recorded_at, set[0].effective_at), (at("2026-02-02"), at("2026-02-02")));
}

#[test]
fn occurred_at_is_what_the_caller_says_and_nothing_more() {
    let mut bench = Bench::new();
    bench.paid("10");
    bench.occurred_at = Some(at("2025-06-01"));
    let set = bench.post(Verb::Charge { amount: credits("1") });
    assert_eq!((set[0].occurred_at, set[0].effective_at), (at("2025-06-01"), at("2026-01-01")));
}

// Rule 10.

#[test]
fn the_commands_expiry_wins_over_the_policy() {
    let mut bench = Bench::new();
    bench.at("2026-01-31T12:00:00Z");
    let by_policy = [
        (Pool::Trial, Some(at("2026-03-02T12:00:00Z"))),
        (Pool::Promo, Some(at("2026-05-01T12:00:00Z"))),
        (Pool::Paid, Some(at("2027-01-31T12:00:00Z"))),
    ];
    for (pool, ends) in by_policy {
        let id = bench.grant("1", pool, Expiry::Policy);
        assert_eq!(
            (bench.grant_state(id).expires_at, bench.grant_state(id).rolling),
            (ends, pool == Pool::Paid)
        );
    }
    let never = bench.grant("1", Pool::Trial, Expiry::Never);
    assert_eq!(bench.grant_state(never).expires_at, None);
    for past in ["2026-01-31T12:00:00Z", "2025-01-01"] {
        let verb = bench.grant_verb("1", Pool::Promo, Expiry::At(at(past)));
        assert!(matches!(bench.refused(verb), Refusal::Invalid { field: "expires_at", .. }));
    }
}

#[test]
fn months_are_counted_from_the_payments_time_and_clamped() {
    let mut bench = Bench::under(Policy { paid: ExpiryRule::Months(1), ..Policy::default() });
    bench.at("2026-02-02");
    bench.occurred_at = Some(at("2026-01-31"));
    let id = bench.grant("1", Pool::Paid, Expiry::Policy);
    assert_eq!(bench.grant_state(id).expires_at, Some(at("2026-02-28")));
}

#[test]
fn a_payment_heard_of_after_its_credits_ended_is_recorded_and_lapses() {
    let mut bench = Bench::under(Policy { paid: ExpiryRule::Months(1), ..Policy::default() });
    bench.at("2026-03-01");
    bench.adjust("-4", ReasonCode::Correction);
    bench.occurred_at = Some(at("2026-02-01"));
    let verb = bench.grant_verb("10", Pool::Paid, Expiry::Policy);
    let set = bench.post(verb);
    // It pays no debt: it has ended.
    assert_eq!(lines_of(&set[0]), ["debit prepaid_liability 10", "credit available 10 g2 =6"]);
    assert_eq!(lines_of(&set[1]), ["debit available 10 g2 =-4", "credit expiration_gain 10 g2"]);
    assert_eq!((set[1].kind, set[1].effective_at), (Kind::Expire, at("2026-03-01")));
}

#[test]
fn rolling_moves_only_grants_under_it_that_are_not_yet_due() {
    let mut bench = Bench::new();
    let lapsed = bench.grant("1", Pool::Paid, Expiry::Policy);
    let fixed = bench.grant("2", Pool::Paid, Expiry::At(at("2027-06-01")));
    bench.at("2026-06-01");
    let rolled = bench.grant("3", Pool::Paid, Expiry::Policy);
    assert_eq!(bench.grant_state(lapsed).expires_at, Some(at("2027-06-01")));
    bench.post(Verb::Extend { grant: lapsed, expires_at: at("2029-01-01") });
    bench.at("2027-05-31");
    let verb = bench.grant_verb("4", Pool::Paid, Expiry::Policy);
    let set = bench.post(verb);
    // Only `rolled` moves: `lapsed` would become shorter, `fixed` is not under the rule.
    assert_eq!(set.iter().map(|entry| entry.note).collect::<Vec<_>>(), [None, Some(NoteKind::GrantExtended)]);
    let view = set[1].answer.grant.as_ref().unwrap();
    assert_eq!((view.id, view.expires_at), (rolled, Some(at("2028-05-31"))));
    assert_eq!(bench.grant_state(fixed).expires_at, Some(at("2027-06-01")));
    assert_eq!(bench.grant_state(lapsed).expires_at, Some(at("2029-01-01")));
    // Taking the top-up back does not move them again.
    let id = main(&set).answer.grant.as_ref().unwrap().id;
    bench.clawback(id, "4");
    assert_eq!(bench.grant_state(rolled).expires_at, Some(at("2028-05-31")));
}

#[test]
fn a_grant_that_is_due_does_not_roll() {
    let mut bench = Bench::new();
    let first = bench.grant("5", Pool::Paid, Expiry::Policy);
    bench.at("2027-01-01");
    let verb = bench.grant_verb("1", Pool::Paid, Expiry::Policy);
    let set = bench.post(verb);
    assert_eq!(set.iter().map(|entry| entry.kind).collect::<Vec<_>>(), [Kind::Expire, Kind::Topup]);
    assert_eq!((bench.remaining(first), bench.figures()), ("0".into(), "1 0 0".into()));
}

#[test]
fn an_extension_is_never_shorter_and_never_of_an_ended_grant() {
    let mut bench = Bench::new();
    let grant = bench.promo("5", "2026-02-01");
    let never = bench.paid("5");
    let extend = |grant, to: &str| Verb::Extend { grant, expires_at: at(to) };
    assert!(matches!(
        bench.refused(extend(grant, "2026-01-31")),
        Refusal::Invalid { field: "expires_at", .. }
    ));
    assert!(matches!(
        bench.refused(extend(never, "2099-01-01")),
        Refusal::Invalid { field: "expires_at", .. }
    ));
    bench.post(extend(grant, "2026-03-01"));
    bench.at("2026-02-15");
    assert_eq!(bench.figures(), "10 0 0");
    bench.at("2026-03-01");
    assert_eq!(bench.refused(extend(grant, "2026-04-01")), Refusal::GrantEnded);
    assert_eq!(bench.refused(Verb::Void { grant }), Refusal::GrantEnded);
}
