//! The lines an event must have, summed by ledger account, side, grant and debt mark.

use std::collections::BTreeMap;

use ledger::entry::{DebtMark, Direction, Entry, Kind, LedgerAccount};
use ledger::grant::Pool;
use ledger::ids::GrantId;

use super::{Event, Fact, Micro, Model};

/// House lines are compared without their grant.
pub type Lines = BTreeMap<(LedgerAccount, Direction, Option<GrantId>, DebtMark), Micro>;

pub fn of_entry(entry: &Entry) -> Lines {
    let mut lines = Lines::new();
    for line in &entry.lines {
        let grant = line.grant.filter(|_| line.ledger_account.is_customers());
        *lines.entry((line.ledger_account, line.direction, grant, line.debt)).or_default() +=
            line.amount.micros();
    }
    lines
}

impl Model {
    pub fn lines(&self, event: &Event) -> Lines {
        use Direction::{Credit, Debit};
        use LedgerAccount::{Available, BadDebt, ExpirationGain, Held};
        let mut lines = Lines::new();
        let mut add = |account, direction, grant, mark, n| {
            *lines.entry((account, direction, grant, mark)).or_default() += n;
        };
        let mut debits_less_credits = 0;
        for fact in &event.facts {
            let mut customer = |account, direction, grant, mark, n: Micro| {
                debits_less_credits += if direction == Debit { n } else { -n };
                add(account, direction, grant, mark, n);
            };
            match *fact {
                Fact::Filled(id, n) => customer(Available, Credit, Some(id), DebtMark::None, n),
                Fact::Drawn(id, n) | Fact::Lapsed(id, n) => {
                    customer(Available, Debit, Some(id), DebtMark::None, n);
                }
                Fact::Reserved(id, n) => {
                    customer(Available, Debit, Some(id), DebtMark::None, n);
                    customer(Held, Credit, Some(id), DebtMark::None, n);
                }
                Fact::FromHold(id, n) => customer(Held, Debit, Some(id), DebtMark::None, n),
                Fact::DebtMade(n) => customer(Available, Debit, None, DebtMark::Makes, n),
                Fact::DebtPaid(id, n) => customer(Available, Credit, id, DebtMark::Pays, n),
                Fact::WriteOffReturned(n) => customer(BadDebt, Credit, None, DebtMark::None, n),
                Fact::LapseTaken(_, n) => customer(ExpirationGain, Debit, None, DebtMark::None, n),
                Fact::LapseReturned(_, n) => customer(ExpirationGain, Credit, None, DebtMark::None, n),
                Fact::WrittenOff(_) | Fact::Clawed(..) | Fact::Restored(..) | Fact::GivenBackForDebt(..) => {}
            }
        }
        if debits_less_credits != 0 {
            let direction = if debits_less_credits > 0 { Credit } else { Debit };
            add(self.house(event), direction, None, DebtMark::None, debits_less_credits.abs());
        }
        lines
    }

    /// The house's account on the other side.
    fn house(&self, event: &Event) -> LedgerAccount {
        match event.kind {
            Kind::Topup => match self.book.grants.iter().find(|grant| grant.seq == event.seq).unwrap().pool {
                Pool::Paid => LedgerAccount::PrepaidLiability,
                Pool::Trial | Pool::Promo => LedgerAccount::PromotionExpense,
            },
            Kind::Consume | Kind::Settle => LedgerAccount::Revenue,
            Kind::Refund => LedgerAccount::RefundExpense,
            Kind::Clawback | Kind::Restore => LedgerAccount::PrepaidLiability,
            Kind::Expire | Kind::Void => LedgerAccount::ExpirationGain,
            Kind::Adjust if event.facts.iter().any(|fact| matches!(fact, Fact::WrittenOff(_))) => {
                LedgerAccount::BadDebt
            }
            Kind::Adjust => LedgerAccount::Adjustment,
            Kind::AuthHold | Kind::AuthRelease | Kind::AuthReversal | Kind::Note => {
                unreachable!("balances in itself")
            }
        }
    }
}
