//! The audit of journals that were decided, whole and with one thing changed. Changed journals are sealed again, so that
//! it is not their hashes that give them away.

use std::collections::BTreeSet;

use super::{Audit, Particulars, Problem};
use crate::account::Head;
use crate::chain;
use crate::command::{Expiry, ReasonCode, ReverseOutcome, Verb};
use crate::credits::Credits;
use crate::decide::tests::{Bench, at, credits};
use crate::entry::{DebtMark, Direction, Entry, Kind, LedgerAccount, Line};
use crate::grant::Pool;

/// A journal with an entry of every kind, and rows in every state.
fn bench() -> Bench {
    let mut bench = Bench::new();
    let first = bench.grant("100", Pool::Paid, Expiry::Policy);
    bench.at("2026-01-02");
    bench.grant("20", Pool::Paid, Expiry::Policy);
    let promo = bench.promo("30", "2026-03-01");
    let spent = bench.charge("12");
    bench.refund(spent, "5");
    let settled = bench.hold("9");
    bench.settle(settled, "4");
    let over = bench.hold("3");
    bench.settle(over, "7");
    let released = bench.hold("2");
    bench.post(Verb::Release { hold: released });
    let lost = bench.hold("2");
    bench.reverse(lost, ReverseOutcome::Unknown);
    bench.settle(lost, "1");
    bench.hold("6");
    bench.at("2026-01-02T00:10:00Z");
    bench.clawback(first, "40");
    bench.restore(first, "15");
    bench.post(Verb::Void { grant: promo });
    bench.adjust("-200", ReasonCode::Correction);
    bench.adjust("10", ReasonCode::WriteOff);
    bench.paid("40");
    bench.adjust("3", ReasonCode::Goodwill);
    let charged_in_debt = bench.state.head.debt;
    bench.paid(&charged_in_debt.plus(credits("8")).unwrap().to_string());
    bench.promo("5", "2026-02-01");
    bench.hold("1");
    bench.at("2026-02-02");
    bench.sweep();
    bench
}

fn audit(bench: &Bench, mut journal: Vec<Entry>) -> Result<(), Problem> {
    let hash = chain::seal(Head::empty().hash, &mut journal);
    let reversed: BTreeSet<_> = journal.iter().filter_map(|entry| entry.reverses).collect();
    let mut audit = Audit::new(bench.state.account, reversed);
    journal.iter().try_for_each(|entry| audit.entry(entry, None))?;
    let state = &bench.state;
    let head = Head { hash, ..state.head.clone() };
    let particulars = Particulars {
        status: state.status,
        policy: state.policy.name.clone(),
        time_zone: state.time_zone.name().to_owned(),
        erased_at: None,
    };
    let grants: Vec<_> = state.grants.values().cloned().collect();
    let holds: Vec<_> = state.holds.values().cloned().collect();
    audit.finish(&head, &particulars, &grants, &holds)
}

#[test]
fn what_was_decided_is_clean() {
    let bench = bench();
    let kinds: BTreeSet<_> = bench.journal.iter().map(|entry| entry.kind).collect();
    assert_eq!(kinds.len(), Kind::COUNT, "{kinds:?}");
    audit(&bench, bench.journal.clone()).unwrap();
}

/// The problem after the first entry of a kind was changed.
fn changed(kind: Kind, change: impl Fn(&mut Entry)) -> Problem {
    let bench = bench();
    let mut journal = bench.journal.clone();
    let entry = journal.iter_mut().find(|entry| entry.kind == kind).unwrap();
    let seq = entry.seq;
    change(entry);
    let problem = audit(&bench, journal).unwrap_err();
    assert_eq!(problem.seq, Some(seq), "{problem}");
    problem
}

fn house(account: LedgerAccount) -> impl Fn(&mut Entry) {
    move |entry| {
        let line = entry.lines.iter_mut().find(|line| !line.ledger_account.is_customers()).unwrap();
        line.ledger_account = account;
    }
}

#[test]
fn a_house_account_that_the_kind_does_not_ask_for_is_named() {
    let wrong = [
        (Kind::Topup, LedgerAccount::PromotionExpense),
        (Kind::Topup, LedgerAccount::Revenue),
        (Kind::Consume, LedgerAccount::Adjustment),
        (Kind::Settle, LedgerAccount::PrepaidLiability),
        (Kind::Refund, LedgerAccount::PrepaidLiability),
        (Kind::Clawback, LedgerAccount::RefundExpense),
        (Kind::Restore, LedgerAccount::RefundExpense),
        (Kind::Expire, LedgerAccount::Revenue),
        (Kind::Void, LedgerAccount::Adjustment),
        (Kind::Adjust, LedgerAccount::Revenue),
    ];
    for (kind, account) in wrong {
        let problem = changed(kind, house(account));
        assert!(
            problem.what.contains("lines are not those of") || problem.what.contains("no kind asks for"),
            "{problem}"
        );
    }
}

#[test]
fn an_entry_without_the_lines_of_its_kind_is_named() {
    for kind in [Kind::Topup, Kind::Refund, Kind::Clawback, Kind::Restore, Kind::Expire, Kind::Adjust] {
        let problem = changed(kind, |entry| entry.lines.clear());
        assert_eq!(problem.what, format!("its lines are not those of {}", kind.as_str()));
    }
    changed(Kind::AuthHold, |entry| {
        entry.lines.pop();
    });
    changed(Kind::Note, |entry| {
        entry.lines.push(Line {
            ledger_account: LedgerAccount::Revenue,
            direction: Direction::Debit,
            amount: credits("1"),
            grant: None,
            debt: DebtMark::None,
            balance_after: None,
        });
    });
    changed(Kind::Settle, |entry| entry.lines.reverse());
}

#[test]
fn debt_beside_a_live_remainder_is_named_where_the_set_ends() {
    let mut bench = Bench::new();
    bench.paid("10");
    bench.adjust("-4", ReasonCode::Correction);
    let mut journal = bench.journal.clone();
    // The minus as if it had made debt, while 10 are left.
    let minus = &mut journal[2];
    let line = minus.lines.iter_mut().find(|line| line.ledger_account == LedgerAccount::Available).unwrap();
    (line.grant, line.debt) = (None, DebtMark::Makes);
    minus.debt_after = credits("4");
    let problem = audit(&bench, journal).unwrap_err();
    assert_eq!(problem.seq.map(|seq| seq.0), Some(3));
    assert!(problem.what.starts_with("leaves debt 4 beside 10"), "{problem}");
}

#[test]
fn a_part_that_gets_back_more_than_it_was_is_named() {
    let mut bench = Bench::new();
    bench.grant("2", Pool::Promo, Expiry::Never);
    bench.paid("10");
    let charge = bench.charge("6");
    bench.refund(charge, "3");
    let mut journal = bench.journal.clone();
    let refund = journal.last_mut().unwrap();
    assert_eq!(refund.answer.spread, [credits("1"), credits("2")]);
    refund.answer.spread = vec![credits("3"), credits("0")];
    let problem = audit(&bench, journal).unwrap_err();
    assert!(problem.what.contains("gives back 3 of a part of entry 4, which took 2"), "{problem}");
}

#[test]
fn a_second_late_settle_is_named() {
    let mut bench = Bench::new();
    bench.paid("10");
    let hold = bench.hold("2");
    bench.at("2026-01-01T00:10:00Z");
    bench.settle(hold, "0");
    let mut journal = bench.journal.clone();
    let mut second = journal.last().unwrap().clone();
    (second.seq, second.set_seq) = (second.seq.next(), second.seq.next());
    journal.push(second);
    let problem = audit(&bench, journal).unwrap_err();
    assert!(problem.what.contains("which has ended"), "{problem}");
}

#[test]
fn an_erasure_ends_what_it_must() {
    let mut bench = Bench::new();
    let left = bench.paid("10");
    bench.hold("3");
    bench.post(Verb::Erase);
    assert_eq!(bench.grant_state(left).voided_at, Some(at("2026-01-01")));
    let mut with_erasure = bench.clone();
    let mut journal = bench.journal.clone();
    let hash = chain::seal(Head::empty().hash, &mut journal);
    with_erasure.state.head.hash = hash;
    let mut audit = Audit::new(bench.state.account, BTreeSet::new());
    journal.iter().for_each(|entry| audit.entry(entry, None).unwrap());
    let grants: Vec<_> = bench.state.grants.values().cloned().collect();
    let holds: Vec<_> = bench.state.holds.values().cloned().collect();
    let particulars = Particulars {
        status: crate::account::AccountStatus::Closed,
        policy: "default".to_owned(),
        time_zone: "UTC".to_owned(),
        erased_at: Some(at("2026-01-01")),
    };
    audit.finish(&with_erasure.state.head, &particulars, &grants, &holds).unwrap();
    let mut unmarked = grants.clone();
    unmarked[0].voided_at = None;
    let problem = audit.finish(&with_erasure.state.head, &particulars, &unmarked, &holds).unwrap_err();
    assert!(problem.what.contains(&left.to_string()) && problem.what.contains("voided_at"), "{problem}");
    assert_eq!(grants[0].remaining, Credits::ZERO);
}
