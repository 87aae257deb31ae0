//! Rule 11, and quotas.

use chrono::{DateTime, Utc};

use super::bench::main;
use super::{Bench, at, credits, lines_of};
use crate::command::{JobKind, JobMarker, ReverseOutcome, Verb};
use crate::credits::Credits;
use crate::entry::{Kind, NoteKind, Use};
use crate::ids::Seq;
use crate::quota::{Quota, Subject, Window};
use crate::refusal::{Missing, Refusal};

fn bench_with_job() -> Bench {
    let mut bench = Bench::new();
    bench.paid("100");
    bench.call.job_id = Some("j".into());
    bench
}

const STARTED: Verb = Verb::Mark { marker: JobMarker::Started };

#[test]
fn a_second_charge_of_a_job_is_a_replay_of_the_first() {
    let mut bench = bench_with_job();
    let seq = bench.charge("10");
    assert_eq!(bench.replayed(Verb::Charge { amount: credits("99") }), seq);
    let (_, verb) = bench.hold_verb("5", None);
    assert_eq!(bench.replayed(verb), seq);
    assert_eq!(bench.figures(), "90 0 0");
}

#[test]
fn a_hold_counts_as_the_charge_while_open_or_settled() {
    let mut bench = bench_with_job();
    let hold = bench.hold("10");
    let seq = bench.hold_state(hold).seq;
    assert_eq!(bench.replayed(Verb::Charge { amount: credits("10") }), seq);
    bench.settle(hold, "10");
    assert_eq!(bench.replayed(Verb::Charge { amount: credits("10") }), seq);
    assert_eq!(bench.figures(), "90 0 0");
}

#[test]
fn a_hold_that_ended_otherwise_leaves_the_job_free() {
    let mut bench = bench_with_job();
    let hold = bench.hold("10");
    bench.post(Verb::Release { hold });
    let second = bench.hold("10");
    bench.at("2026-01-01T00:10:00Z");
    let seq = bench.charge("10");
    assert_eq!(bench.replayed(Verb::Charge { amount: credits("10") }), seq);
    assert_eq!(bench.hold_state(second).reversed, credits("10"));
    assert_eq!(bench.figures(), "90 0 0");
}

#[test]
fn a_late_settle_is_the_jobs_charge_too() {
    let mut bench = bench_with_job();
    let hold = bench.hold("10");
    bench.reverse(hold, ReverseOutcome::Unknown);
    bench.settle(hold, "10");
    assert_eq!(bench.replayed(Verb::Charge { amount: credits("10") }), bench.hold_state(hold).seq);
}

#[test]
fn a_late_settle_counts_though_another_hold_came_and_went() {
    let mut bench = bench_with_job();
    let first = bench.hold("10");
    bench.reverse(first, ReverseOutcome::Unknown);
    let second = bench.hold("10");
    bench.post(Verb::Release { hold: second });
    let settle = main(&bench.settle(first, "10")).seq;
    assert_eq!(bench.replayed(Verb::Charge { amount: credits("10") }), bench.hold_state(first).seq);
    assert_eq!(bench.post(Verb::RefundJob)[0].reverses, Some(settle));
}

#[test]
fn each_marker_stands_once() {
    let mut bench = bench_with_job();
    let seq = main(&bench.post(STARTED)).seq;
    assert_eq!(bench.replayed(STARTED), seq);
    let completed = main(&bench.post(Verb::Mark { marker: JobMarker::Completed })).seq;
    assert_eq!(bench.replayed(Verb::Mark { marker: JobMarker::Completed }), completed);
    assert_ne!(seq, completed);
    bench.call.job_id = None;
    assert!(matches!(bench.refused(STARTED), Refusal::Invalid { field: "job_id", .. }));
}

#[test]
fn a_jobs_refund_gives_back_what_is_left_once_and_stops_the_start() {
    let mut bench = bench_with_job();
    let charge = bench.charge("10");
    bench.refund(charge, "4");
    let set = bench.post(Verb::RefundJob);
    assert_eq!(lines_of(&set[0]), ["debit refund_expense 6", "credit available 6 g1 =100"]);
    assert!(set[0].answer.job_refund);
    assert_eq!(bench.replayed(Verb::RefundJob), set[0].seq);
    assert_eq!(bench.refused(STARTED), Refusal::JobRefunded);
    assert_eq!(bench.state.jobs[&("j".into(), JobKind::Refund)].seq, set[0].seq);
}

#[test]
fn a_jobs_refund_finds_the_settle_of_its_hold() {
    let mut bench = bench_with_job();
    let hold = bench.hold("10");
    let settle = main(&bench.settle(hold, "8")).seq;
    let set = bench.post(Verb::RefundJob);
    assert_eq!((set[0].kind, set[0].reverses, set[0].amount), (Kind::Refund, Some(settle), credits("8")));
}

#[test]
fn a_jobs_refund_reverses_an_open_hold() {
    let mut bench = bench_with_job();
    let hold = bench.hold("10");
    let set = bench.post(Verb::RefundJob);
    assert_eq!(lines_of(&set[0]), ["debit held 10 g1 =0", "credit available 10 g1 =100"]);
    assert_eq!((set[0].kind, set[0].answer.job_refund), (Kind::AuthReversal, true));
    assert!(!bench.hold_state(hold).needs_review);
    assert_eq!(bench.replayed(Verb::RefundJob), set[0].seq);
    assert_eq!(bench.refused(STARTED), Refusal::JobRefunded);
}

/// The hold expires, a second one of the same job is placed, the first is settled late, the second in time.
fn charged_twice(bench: &mut Bench) -> (Seq, Seq) {
    let first = bench.hold("10");
    bench.at("2026-01-01T00:10:00Z");
    let second = bench.hold("20");
    let late = main(&bench.settle(first, "10")).seq;
    let in_time = main(&bench.settle(second, "15")).seq;
    assert_eq!(bench.figures(), "75 0 0");
    (late, in_time)
}

#[test]
fn a_jobs_refund_gives_back_every_charge_of_a_job_that_was_charged_twice() {
    let mut bench = bench_with_job();
    let (late, in_time) = charged_twice(&mut bench);
    let set = bench.post(Verb::RefundJob);
    let shown: Vec<_> =
        set.iter().map(|entry| (entry.kind, entry.reverses, entry.amount, entry.is_main)).collect();
    assert_eq!(
        shown,
        [
            (Kind::Refund, Some(late), credits("10"), true),
            (Kind::Refund, Some(in_time), credits("15"), false)
        ]
    );
    assert_eq!(set.iter().map(|entry| entry.answer.job_refund).collect::<Vec<_>>(), [true, false]);
    assert_eq!(bench.figures(), "100 0 0");
    assert_eq!(bench.replayed(Verb::RefundJob), set[0].seq);
    assert_eq!(bench.refused(STARTED), Refusal::JobRefunded);
}

#[test]
fn a_jobs_refund_gives_back_what_is_left_of_each_charge() {
    let mut bench = bench_with_job();
    let (late, in_time) = charged_twice(&mut bench);
    bench.refund(late, "10");
    bench.refund(in_time, "4");
    let set = bench.post(Verb::RefundJob);
    assert_eq!(set.len(), 1);
    assert_eq!((set[0].reverses, set[0].amount), (Some(in_time), credits("11")));
    assert_eq!(bench.figures(), "100 0 0");
}

#[test]
fn a_jobs_refund_gives_back_a_late_settle_and_reverses_the_hold_that_is_open() {
    let mut bench = bench_with_job();
    let first = bench.hold("10");
    bench.at("2026-01-01T00:10:00Z");
    let second = bench.hold("20");
    let late = main(&bench.settle(first, "12")).seq;
    let set = bench.post(Verb::RefundJob);
    let kinds: Vec<_> = set.iter().map(|entry| (entry.kind, entry.reverses, entry.is_main)).collect();
    assert_eq!(kinds, [(Kind::Refund, Some(late), true), (Kind::AuthReversal, None, false)]);
    assert_eq!(set[0].answer.hold, None);
    assert_eq!(bench.hold_state(second).reversed, credits("20"));
    assert_eq!(bench.figures(), "100 0 0");
}

#[test]
fn a_jobs_refund_of_a_charge_that_was_given_back_notes_that_the_job_is_refunded() {
    let mut bench = bench_with_job();
    let charge = bench.charge("10");
    bench.refund(charge, "10");
    let set = bench.post(Verb::RefundJob);
    assert_eq!((set.len(), set[0].kind, set[0].note), (1, Kind::Note, Some(NoteKind::JobRefunded)));
    assert!(set[0].answer.job_refund && set[0].lines.is_empty());
    assert_eq!(set[0].call.job_id.as_deref(), Some("j"));
    assert_eq!(bench.replayed(Verb::RefundJob), set[0].seq);
    assert_eq!(bench.refused(STARTED), Refusal::JobRefunded);
    assert_eq!(bench.figures(), "100 0 0");
}

#[test]
fn a_job_that_was_charged_nothing_can_be_refunded() {
    let mut bench = bench_with_job();
    bench.charge("0");
    assert_eq!(bench.post(Verb::RefundJob)[0].note, Some(NoteKind::JobRefunded));
    assert_eq!(bench.refused(STARTED), Refusal::JobRefunded);
}

#[test]
fn what_a_jobs_refund_gives_to_an_ended_grant_ends_again_in_the_set() {
    let mut bench = Bench::new();
    bench.call.job_id = Some("j".into());
    bench.promo("30", "2026-01-02");
    charged_in_part(&mut bench);
    bench.at("2026-01-03");
    let set = bench.post(Verb::RefundJob);
    let kinds: Vec<_> = set.iter().map(|entry| (entry.kind, entry.amount)).collect();
    // What was left lapses before the main entry; both charges come back and end once.
    assert_eq!(
        kinds,
        [
            (Kind::Expire, credits("-13")),
            (Kind::Refund, credits("10")),
            (Kind::Refund, credits("7")),
            (Kind::Expire, credits("-17"))
        ]
    );
    assert!(set[1].is_main);
}

fn charged_in_part(bench: &mut Bench) {
    let first = bench.hold("10");
    bench.at("2026-01-01T00:10:00Z");
    let second = bench.hold("7");
    bench.settle(first, "10");
    bench.settle(second, "7");
}

#[test]
fn a_jobs_refund_needs_something_to_give_back() {
    let mut bench = bench_with_job();
    assert_eq!(bench.refused(Verb::RefundJob), Refusal::NotFound { what: Missing::Job });
    let hold = bench.hold("10");
    bench.post(Verb::Release { hold });
    assert_eq!(bench.refused(Verb::RefundJob), Refusal::NotRefundable);
}

#[test]
fn the_key_is_asked_before_the_job() {
    let mut bench = bench_with_job();
    let command = bench.keyed("K", Verb::Charge { amount: credits("10") });
    bench.send(&command).unwrap();
    let other = bench.keyed("K", Verb::Charge { amount: credits("11") });
    assert_eq!(bench.send(&other), Err(Refusal::KeyReused));
}

// Quotas.

fn quota(bench: &mut Bench, subject: Subject, window: Window, limit: &str) {
    bench.state.quotas.push(Quota { subject, window, limit: credits(limit) });
}

fn member() -> Subject {
    Subject::Member("m".into())
}

fn used(bench: &Bench, window: Window, start: &str) -> Credits {
    let start: DateTime<Utc> = at(start);
    bench.state.uses.get(&(member(), window, start)).copied().unwrap_or_default()
}

#[test]
fn a_quota_refuses_what_would_pass_it() {
    let mut bench = Bench::new();
    bench.paid("100");
    quota(&mut bench, member(), Window::Day, "10");
    bench.call.member = Some("m".into());
    bench.charge("7");
    let (hold, verb) = bench.hold_verb("3", None);
    bench.post(verb);
    let full = Refusal::QuotaExceeded {
        subject: member(),
        window: Window::Day,
        limit: credits("10"),
        used: credits("10"),
        resets_at: Some(at("2026-01-02")),
    };
    assert_eq!(bench.refused(Verb::Charge { amount: credits("0.000001") }), full);
    // A settle is never refused for it, and books the difference.
    bench.settle(hold, "5");
    assert_eq!(used(&bench, Window::Day, "2026-01-01"), credits("12"));
    // Others are free, and so is the next day.
    bench.call.member = Some("other".into());
    bench.charge("20");
    bench.call.member = Some("m".into());
    bench.at("2026-01-02");
    bench.charge("10");
}

#[test]
fn use_is_booked_in_the_window_of_the_charge_or_hold() {
    let mut bench = Bench::new();
    bench.paid("1000");
    for window in [Window::Day, Window::Month, Window::Total] {
        quota(&mut bench, member(), window, "500");
    }
    bench.call.member = Some("m".into());
    bench.at("2026-01-31T23:55:00Z");
    let seq = bench.charge("40");
    let hold = bench.hold("100");
    bench.call.member = None;
    bench.at("2026-02-01");
    let settle = main(&bench.settle(hold, "30")).clone();
    assert_eq!(settle.usage, Some(Use { at: at("2026-01-31T23:55:00Z"), amount: credits("-70") }));
    let refund = main(&bench.refund(seq, "15")).clone();
    assert_eq!(refund.usage, Some(Use { at: at("2026-01-31T23:55:00Z"), amount: credits("-15") }));
    bench.refund(settle.seq, "30");
    assert_eq!(used(&bench, Window::Day, "2026-01-31"), credits("25"));
    assert_eq!(used(&bench, Window::Month, "2026-01-01"), credits("25"));
    assert_eq!(used(&bench, Window::Total, "1970-01-01"), credits("25"));
    assert_eq!(used(&bench, Window::Day, "2026-02-01"), credits("0"));
}

#[test]
fn what_a_hold_gives_back_is_no_longer_used() {
    let mut bench = Bench::new();
    bench.paid("1000");
    quota(&mut bench, member(), Window::Total, "500");
    bench.call.member = Some("m".into());
    let total = |bench: &Bench| used(bench, Window::Total, "1970-01-01");
    let (released, expired) = (bench.hold("100"), bench.hold("100"));
    assert_eq!(total(&bench), credits("200"));
    bench.post(Verb::Release { hold: released });
    assert_eq!(total(&bench), credits("100"));
    bench.at("2026-01-01T00:10:00Z");
    bench.sweep();
    assert_eq!(total(&bench), credits("0"));
    bench.settle(expired, "60");
    assert_eq!(total(&bench), credits("60"));
}

#[test]
fn a_hold_that_is_due_frees_the_quota_before_it_is_swept() {
    let mut bench = Bench::new();
    bench.paid("100");
    quota(&mut bench, member(), Window::Total, "10");
    bench.call.member = Some("m".into());
    bench.hold("10");
    assert!(matches!(bench.refused(Verb::Charge { amount: credits("10") }), Refusal::QuotaExceeded { .. }));
    bench.at("2026-01-01T00:10:00Z");
    bench.charge("10");
    assert_eq!(used(&bench, Window::Total, "1970-01-01"), credits("10"));
}

#[test]
fn a_day_is_the_accounts_own() {
    let mut bench = Bench::new();
    bench.state.time_zone = chrono_tz::America::New_York;
    bench.paid("100");
    quota(&mut bench, member(), Window::Day, "10");
    bench.call.member = Some("m".into());
    bench.at("2026-01-02T04:59:59Z");
    bench.charge("10");
    let refusal = bench.refused(Verb::Charge { amount: credits("1") });
    assert!(
        matches!(refusal, Refusal::QuotaExceeded { resets_at: Some(resets_at), .. } if resets_at == at("2026-01-02T05:00:00Z"))
    );
    bench.at("2026-01-02T05:00:00Z");
    bench.charge("10");
}

#[test]
fn a_key_ref_has_quotas_of_its_own() {
    let mut bench = Bench::new();
    bench.paid("100");
    quota(&mut bench, Subject::KeyRef("k".into()), Window::Total, "5");
    bench.call.member = Some("m".into());
    bench.call.key_ref = Some("k".into());
    bench.charge("5");
    let refusal = bench.refused(Verb::Charge { amount: credits("1") });
    assert!(matches!(refusal, Refusal::QuotaExceeded { subject: Subject::KeyRef(_), resets_at: None, .. }));
}
