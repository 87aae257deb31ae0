//! Rule 9: what comes back returns by the way it left. Shared by refunds, restores and the ends of holds.

use std::collections::BTreeMap;

use super::draft::Draft;
use super::pen::Pen;
use super::spread::spread;
use super::{DebtPayment, Original, Signal};
use crate::command::ReasonCode;
use crate::credits::Credits;
use crate::entry::{DebtMark, Direction, Kind, LedgerAccount, Line, Returned};
use crate::ids::{GrantId, Seq};
use crate::refusal::Refusal;

/// What each part of an entry may still get back.
pub(super) fn left_of(original: &Original) -> Result<Vec<Credits>, Refusal> {
    let given = original.given_back.iter().copied().chain(std::iter::repeat(Credits::ZERO));
    original
        .entry
        .debit_lines()
        .zip(given)
        .map(|(line, given)| Ok(line.amount.minus(given)?.max(Credits::ZERO)))
        .collect()
}

/// What an answer says came back: equal parts joined, in the order they came. An entry may have thousands of parts.
#[derive(Debug, Default)]
pub(super) struct Returns {
    parts: Vec<Returned>,
    places: BTreeMap<(Option<GrantId>, bool), usize>,
}

impl Returns {
    fn add(&mut self, grant: Option<GrantId>, amount: Credits, lapsed: bool) -> Result<(), Refusal> {
        if amount.is_zero() {
            return Ok(());
        }
        let place = *self.places.entry((grant, lapsed)).or_insert(self.parts.len());
        match self.parts.get_mut(place) {
            Some(same) => same.amount = same.amount.plus(amount)?,
            None => self.parts.push(Returned { grant, amount, lapsed }),
        }
        Ok(())
    }
}

impl Draft<'_> {
    /// Credits a grant that gets `amount` back. While it lives it pays debt first and the rest can be spent; once
    /// it has ended it pays no debt, and [`Draft::end_again`] ends it in the same set.
    pub fn come_back(
        &mut self,
        pen: &mut Pen,
        id: GrantId,
        amount: Credits,
        returned: &mut Returns,
    ) -> Result<(), Refusal> {
        let grant = self.known_grant(id)?;
        if self.is_live(grant) {
            let to_debt = self.head.debt.min(amount);
            let rest = amount.minus(to_debt)?;
            self.pay_debt(pen, Some(id), to_debt)?;
            self.put(pen, id, rest)?;
            returned.add(None, to_debt, false)?;
            return returned.add(Some(id), rest, false);
        }
        // An ended grant has nothing left until something comes back, so each is listed once.
        if grant.remaining.is_zero() {
            self.came_back.push(id);
        }
        self.put(pen, id, amount)?;
        returned.add(Some(id), amount, true)
    }

    /// Gives `amount` of an earlier entry back: the credit lines, and the answer's `returned` and `spread`.
    pub fn give_back(&mut self, pen: &mut Pen, original: &Original, amount: Credits) -> Result<(), Refusal> {
        let shares = spread(amount, &left_of(original)?)?;
        let mut returned = Returns::default();
        for (line, share) in original.entry.debit_lines().zip(&shares) {
            if share.is_positive() {
                self.give_back_part(pen, original.entry.seq, line, *share, &mut returned)?;
            }
        }
        pen.reverses = Some(original.entry.seq);
        pen.answer.returned = returned.parts;
        pen.answer.spread = shares;
        Ok(())
    }

    fn give_back_part(
        &mut self,
        pen: &mut Pen,
        since: Seq,
        line: &Line,
        amount: Credits,
        returned: &mut Returns,
    ) -> Result<(), Refusal> {
        match (line.ledger_account, line.debt, line.grant) {
            (LedgerAccount::ExpirationGain, _, grant) => {
                if let Some(id) = grant {
                    let grant = self.grant_mut(id)?;
                    grant.lapse_taken = grant.lapse_taken.minus(amount)?;
                }
                pen.house(LedgerAccount::ExpirationGain, Direction::Credit, amount, grant);
                returned.add(grant, amount, true)
            }
            (_, DebtMark::None, Some(id)) => self.come_back(pen, id, amount, returned),
            _ => self.give_back_debt(pen, since, amount, returned),
        }
    }

    /// The part that had been debt: open debt, then what was written off, then the grants that paid debt since.
    fn give_back_debt(
        &mut self,
        pen: &mut Pen,
        since: Seq,
        amount: Credits,
        returned: &mut Returns,
    ) -> Result<(), Refusal> {
        let open = self.head.debt.min(amount);
        self.pay_debt(pen, None, open)?;
        let mut rest = amount.minus(open)?;
        let written_off = self.head.written_off.min(rest);
        self.head.written_off = self.head.written_off.minus(written_off)?;
        pen.house(LedgerAccount::BadDebt, Direction::Credit, written_off, None);
        rest = rest.minus(written_off)?;
        returned.add(None, open.plus(written_off)?, false)?;
        if rest.is_positive() {
            rest = self.give_back_to_payers(pen, since, rest, returned)?;
        }
        // Debt is paid by nothing else, so a rest means that a fact was not loaded: better no entry than a wrong one.
        if rest.is_positive() { Err(Refusal::NotRefundable) } else { Ok(()) }
    }

    /// The last payer first, none above what it paid in all. Answers with what found no payer.
    fn give_back_to_payers(
        &mut self,
        pen: &mut Pen,
        since: Seq,
        amount: Credits,
        returned: &mut Returns,
    ) -> Result<Credits, Refusal> {
        let mut rest = amount;
        for payment in self.payments_since(since) {
            let Some(grant) = self.grant(payment.grant) else { continue };
            let room = grant.paid_to_debt.minus(grant.given_back_for_debt)?;
            let share = payment.amount.min(room).min(rest);
            if share.is_positive() {
                let grant = self.grant_mut(payment.grant)?;
                grant.given_back_for_debt = grant.given_back_for_debt.plus(share)?;
                self.come_back(pen, payment.grant, share, returned)?;
                rest = rest.minus(share)?;
            }
            if rest.is_zero() {
                break;
            }
        }
        Ok(rest)
    }

    /// Payments of debt since an entry, the last first. An earlier refund may have gone against a younger debt; then
    /// a payer from before the entry is owed instead, so all payments follow, the last first.
    fn payments_since(&self, since: Seq) -> Vec<DebtPayment> {
        let all = || self.payments.iter().rev().chain(self.state.debt_payments.iter().rev()).copied();
        all().filter(|payment| payment.seq > since).chain(all()).collect()
    }

    /// Ends again what came back to ended grants: an EXPIRE each, or one ADJUST on an erased account.
    pub fn end_again(&mut self) -> Result<(), Refusal> {
        let came_back = std::mem::take(&mut self.came_back);
        if self.erased {
            return self.close_out(&came_back);
        }
        came_back.into_iter().try_for_each(|id| self.expire(id))
    }

    /// An EXPIRE of all that an ended grant has left.
    pub fn expire(&mut self, id: GrantId) -> Result<(), Refusal> {
        let amount = self.known_grant(id)?.remaining;
        if amount.is_zero() {
            return Ok(());
        }
        let mut pen = self.pen(Kind::Expire);
        self.lapse_grant(&mut pen, id, amount)?;
        let seq = self.write(pen)?;
        self.signal(Signal::Lapsed { seq, grant: id, amount });
        Ok(())
    }

    /// What is left of a grant becomes a gain of the house; it counts as lapsed.
    pub fn lapse_grant(&mut self, pen: &mut Pen, id: GrantId, amount: Credits) -> Result<(), Refusal> {
        self.take(pen, id, amount)?;
        pen.house(LedgerAccount::ExpirationGain, Direction::Credit, amount, Some(id));
        let grant = self.grant_mut(id)?;
        grant.lapsed = grant.lapsed.plus(amount)?;
        Ok(())
    }

    /// One ADJUST that takes all that the named grants have left (P10).
    pub fn close_out(&mut self, grants: &[GrantId]) -> Result<(), Refusal> {
        let mut pen = self.pen(Kind::Adjust);
        let mut total = Credits::ZERO;
        for id in grants {
            let amount = self.known_grant(*id)?.remaining;
            total = total.plus(amount)?;
            self.take(&mut pen, *id, amount)?;
        }
        if total.is_zero() {
            return Ok(());
        }
        pen.house(LedgerAccount::Adjustment, Direction::Credit, total, None);
        pen.answer.reason_code = Some(ReasonCode::Other);
        self.write(pen)?;
        Ok(())
    }
}
