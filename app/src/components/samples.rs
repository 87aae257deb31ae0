//! Values for the tests of this crate.

use ledger::Credits;
use ledger::command::{Actor, CallFields};
use ledger::entry::{Answer, DebtMark, Direction, Entry, Kind, LedgerAccount, Line, Words};
use ledger::ids::{AccountId, GrantId, Seq};

pub fn credits(text: &str) -> Credits {
    Credits::parse(text).unwrap()
}

/// A charge of `amount`, paid by one grant, at 2026-11-30T12:00:00Z, which leaves 10 available and 2 held.
pub fn entry(seq: i64, amount: &str) -> Entry {
    let at = "2026-11-30T12:00:00Z".parse().unwrap();
    let line = |account, direction| Line {
        ledger_account: account,
        direction,
        amount: credits(amount).abs(),
        grant: (account == LedgerAccount::Available).then(|| GrantId(uuid::Uuid::from_u128(7))),
        debt: DebtMark::None,
        balance_after: None,
    };
    Entry {
        account: AccountId(uuid::Uuid::from_u128(1)),
        seq: Seq(seq),
        kind: Kind::Consume,
        note: None,
        set_seq: Seq(seq),
        is_main: true,
        amount: credits(amount),
        moved: Credits::ZERO,
        lines: vec![
            line(LedgerAccount::Available, Direction::Debit),
            line(LedgerAccount::Revenue, Direction::Credit),
        ],
        available_after: credits("10"),
        held_after: credits("2"),
        debt_after: Credits::ZERO,
        amount_total: credits(amount),
        moved_total: Credits::ZERO,
        occurred_at: at,
        recorded_at: at,
        effective_at: at,
        actor: Actor::worker("test"),
        key: None,
        call: CallFields::default(),
        hold: None,
        reverses: None,
        usage: None,
        answer: Answer::default(),
        words: Words::default(),
        words_digest: None,
        hash: [0; 32],
    }
}
