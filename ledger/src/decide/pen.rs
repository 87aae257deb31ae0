//! An entry under construction, and the lines that a draft puts on it.
//!
//! Each kind of customer line is one method here, so that a line and its effect on grants, debt and balances
//! cannot fall apart. Lines of 0 are not written.

use super::DebtPayment;
use super::draft::Draft;
use crate::account::Head;
use crate::command::CallFields;
use crate::credits::Credits;
use crate::entry::{Answer, DebtMark, Direction, Kind, LedgerAccount, Line, NoteKind, Use};
use crate::ids::{GrantId, HoldId, Seq};
use crate::refusal::Refusal;

#[derive(Debug)]
pub(super) struct Pen {
    pub kind: Kind,
    pub note: Option<NoteKind>,
    pub lines: Vec<Line>,
    pub call: CallFields,
    pub hold: Option<HoldId>,
    pub reverses: Option<Seq>,
    pub usage: Option<Use>,
    pub answer: Answer,
    pub available_before: Credits,
    pub held_before: Credits,
}

impl Pen {
    pub fn new(kind: Kind, head: &Head) -> Pen {
        Pen {
            kind,
            note: None,
            lines: Vec::new(),
            call: CallFields::default(),
            hold: None,
            reverses: None,
            usage: None,
            answer: Answer::default(),
            available_before: head.available,
            held_before: head.held,
        }
    }

    /// A line of a house account. Those of `expiration_gain` name the grant whose end it was.
    pub fn house(
        &mut self,
        ledger_account: LedgerAccount,
        direction: Direction,
        amount: Credits,
        grant: Option<GrantId>,
    ) {
        if !amount.is_zero() {
            self.lines.push(Line {
                ledger_account,
                direction,
                amount,
                grant,
                debt: DebtMark::None,
                balance_after: None,
            });
        }
    }

    fn customer(
        &mut self,
        ledger_account: LedgerAccount,
        direction: Direction,
        amount: Credits,
        mark: (Option<GrantId>, DebtMark),
        after: Credits,
    ) {
        let (grant, debt) = mark;
        self.lines.push(Line { ledger_account, direction, amount, grant, debt, balance_after: Some(after) });
    }
}

impl Draft<'_> {
    /// A NOTE, which has no lines.
    pub fn note(&self, note: NoteKind) -> Pen {
        let mut pen = self.pen(Kind::Note);
        pen.note = Some(note);
        pen
    }

    /// Debits available out of what a grant has left.
    pub fn take(&mut self, pen: &mut Pen, id: GrantId, amount: Credits) -> Result<(), Refusal> {
        if amount.is_zero() {
            return Ok(());
        }
        let grant = self.grant_mut(id)?;
        grant.remaining = grant.remaining.minus(amount)?;
        self.head.available = self.head.available.minus(amount)?;
        pen.customer(
            LedgerAccount::Available,
            Direction::Debit,
            amount,
            (Some(id), DebtMark::None),
            self.head.available,
        );
        Ok(())
    }

    /// Credits available into what a grant has left.
    pub fn put(&mut self, pen: &mut Pen, id: GrantId, amount: Credits) -> Result<(), Refusal> {
        if amount.is_zero() {
            return Ok(());
        }
        let grant = self.grant_mut(id)?;
        grant.remaining = grant.remaining.plus(amount)?;
        self.head.available = self.head.available.plus(amount)?;
        pen.customer(
            LedgerAccount::Available,
            Direction::Credit,
            amount,
            (Some(id), DebtMark::None),
            self.head.available,
        );
        Ok(())
    }

    /// Debits available beyond what any live grant has: the customer owes it.
    pub fn make_debt(&mut self, pen: &mut Pen, amount: Credits) -> Result<(), Refusal> {
        if amount.is_zero() {
            return Ok(());
        }
        self.head.debt = self.head.debt.plus(amount)?;
        self.head.available = self.head.available.minus(amount)?;
        pen.customer(
            LedgerAccount::Available,
            Direction::Debit,
            amount,
            (None, DebtMark::Makes),
            self.head.available,
        );
        Ok(())
    }

    /// Credits available against debt. `payer` is the grant it comes out of, if it is one.
    pub fn pay_debt(
        &mut self,
        pen: &mut Pen,
        payer: Option<GrantId>,
        amount: Credits,
    ) -> Result<(), Refusal> {
        if amount.is_zero() {
            return Ok(());
        }
        if let Some(id) = payer {
            let grant = self.grant_mut(id)?;
            grant.paid_to_debt = grant.paid_to_debt.plus(amount)?;
            let seq = self.next_seq();
            self.payments.push(DebtPayment { seq, grant: id, amount });
        }
        self.head.debt = self.head.debt.minus(amount)?;
        self.head.available = self.head.available.plus(amount)?;
        pen.customer(
            LedgerAccount::Available,
            Direction::Credit,
            amount,
            (payer, DebtMark::Pays),
            self.head.available,
        );
        Ok(())
    }

    /// Credits held for a hold.
    pub fn set_aside(&mut self, pen: &mut Pen, id: GrantId, amount: Credits) -> Result<(), Refusal> {
        if amount.is_zero() {
            return Ok(());
        }
        let grant = self.grant_mut(id)?;
        grant.reserved = grant.reserved.plus(amount)?;
        self.head.held = self.head.held.plus(amount)?;
        pen.customer(
            LedgerAccount::Held,
            Direction::Credit,
            amount,
            (Some(id), DebtMark::None),
            self.head.held,
        );
        Ok(())
    }

    /// Debits held out of a hold's part.
    pub fn use_held(&mut self, pen: &mut Pen, id: GrantId, amount: Credits) -> Result<(), Refusal> {
        if amount.is_zero() {
            return Ok(());
        }
        let grant = self.grant_mut(id)?;
        grant.reserved = grant.reserved.minus(amount)?;
        self.head.held = self.head.held.minus(amount)?;
        pen.customer(
            LedgerAccount::Held,
            Direction::Debit,
            amount,
            (Some(id), DebtMark::None),
            self.head.held,
        );
        Ok(())
    }
}
