//! What comes back (rules 8 and 9): out of holds, by refunds and by restores.

use ledger::entry::Kind;
use ledger::hold::HoldStatus;
use ledger::ids::{GrantId, HoldId};

use super::{Event, Fact, From, Instant, Micro, Model};

/// Spreads `amount` in proportion to `left`, by largest remainder, ties to the first.
pub fn spread(amount: Micro, left: &[Micro]) -> Vec<Micro> {
    let whole: Micro = left.iter().sum();
    let mut shares: Vec<Micro> = left.iter().map(|part| amount * part / whole).collect();
    let mut by_remainder: Vec<usize> = (0..left.len()).collect();
    by_remainder.sort_by_key(|&i| (-(amount * left[i] % whole), i));
    let missing = amount - shares.iter().sum::<Micro>();
    for &i in by_remainder.iter().take(usize::try_from(missing).unwrap()) {
        shares[i] += 1;
    }
    shares
}

impl Model {
    /// The facts of `amount` coming back to a grant, given what debt these facts have paid already.
    fn return_to_grant(&self, id: GrantId, amount: Micro, at: Instant, facts: &mut Vec<Fact>) {
        let live = self.lives(self.grant(id).unwrap(), at);
        let pays = if live { amount.min(self.debt_with(facts)) } else { 0 };
        push(facts, Fact::DebtPaid(Some(id), pays), pays);
        push(facts, Fact::Filled(id, amount - pays), amount - pays);
    }

    /// Debt as it is once these facts stand.
    pub fn debt_with(&self, facts: &[Fact]) -> Micro {
        let paid = |fact: &Fact| if let Fact::DebtPaid(_, n) = fact { *n } else { 0 };
        self.book.debt - facts.iter().map(paid).sum::<Micro>()
    }

    /// Ends a hold whose whole amount comes back: release, reversal, expiry.
    pub fn take_back(
        &mut self,
        id: HoldId,
        kind: Kind,
        status: HoldStatus,
        due: Instant,
        now: Instant,
        main: bool,
    ) -> i64 {
        let hold = self.hold(id).unwrap().clone();
        let mut facts = Vec::new();
        for &(grant, n) in &hold.parts {
            push(&mut facts, Fact::FromHold(grant, n), n);
            self.return_to_grant(grant, n, due, &mut facts);
        }
        let used = Some((hold.placed, hold.call.clone(), -hold.amount));
        let event = Event { facts, hold: Some(id), used, main, ..Event::new(kind) };
        let seq = self.post_at(event, due, now);
        let ended = self.hold_mut(id);
        ended.status = status;
        ended.ended_by = Some(seq);
        match kind {
            Kind::AuthRelease => ended.released = ended.amount,
            _ => ended.reversed = ended.amount,
        }
        seq
    }

    /// The rest of a hold after its settle.
    pub fn release_rest(&mut self, id: HoldId, rest: &[(GrantId, Micro)], now: Instant) {
        let mut facts = Vec::new();
        for &(grant, n) in rest {
            push(&mut facts, Fact::FromHold(grant, n), n);
            self.return_to_grant(grant, n, now, &mut facts);
        }
        self.post(Event { facts, hold: Some(id), ..Event::new(Kind::AuthRelease) }, now);
    }

    /// What each part of an event may still get back.
    pub fn left_of(&self, seq: i64) -> Vec<Micro> {
        let original = self.event(seq).unwrap();
        let mut left: Vec<Micro> = original.parts.iter().map(|part| part.1).collect();
        for event in self.events.iter().filter(|event| event.reverses == Some(seq)) {
            for (left, given) in left.iter_mut().zip(&event.spread) {
                *left -= given;
            }
        }
        left
    }

    /// The facts and the spread of giving `amount` of an event back.
    pub fn give_back(&mut self, seq: i64, amount: Micro, now: Instant) -> (Vec<Fact>, Vec<Micro>) {
        let shares = spread(amount, &self.left_of(seq));
        let parts = self.event(seq).unwrap().parts.clone();
        let mut facts = Vec::new();
        for (&(from, _), &share) in parts.iter().zip(&shares).filter(|(_, share)| **share > 0) {
            match from {
                From::Grant(id) => self.return_to_grant(id, share, now, &mut facts),
                From::Lapsed(id) => facts.push(Fact::LapseReturned(id, share)),
                From::Debt => self.return_to_debt(seq, share, now, &mut facts),
            }
        }
        (facts, shares)
    }

    /// What had been debt: open debt, then what was written off, then who paid debt since, last payer first.
    fn return_to_debt(&mut self, seq: i64, amount: Micro, now: Instant, facts: &mut Vec<Fact>) {
        let mut rest = amount;
        let open = rest.min(self.debt_with(facts));
        push(facts, Fact::DebtPaid(None, open), open);
        rest -= open;
        let off = rest.min(self.book.written_off);
        push(facts, Fact::WriteOffReturned(off), off);
        rest -= off;
        if open > 0 {
            self.tag("debt part back: open debt");
        }
        if off > 0 {
            self.tag("debt part back: written off");
        }
        for since in [seq, 0] {
            for (payer, paid) in self.payers_since(since, facts) {
                let n = rest.min(paid).min(self.not_given_back(payer, facts));
                if n > 0 {
                    self.tag(if since == 0 {
                        "debt part back: an earlier payer"
                    } else {
                        "debt part back: a payer"
                    });
                    facts.push(Fact::GivenBackForDebt(payer, n));
                    self.return_to_grant(payer, n, now, facts);
                    rest -= n;
                }
            }
        }
        assert_eq!(rest, 0, "nobody is left to give {rest} back to");
    }

    /// What grants paid of debt since, last first; what this event itself has paid counts.
    fn payers_since(&self, seq: i64, facts: &[Fact]) -> Vec<(GrantId, Micro)> {
        let paid = |fact: &Fact| if let Fact::DebtPaid(Some(id), n) = fact { Some((*id, *n)) } else { None };
        let lines =
            self.events.iter().filter(|event| event.seq > seq).flat_map(|event| &event.facts).chain(facts);
        let mut lines: Vec<(GrantId, Micro)> = lines.filter_map(paid).collect();
        lines.reverse();
        lines
    }

    fn not_given_back(&self, id: GrantId, facts: &[Fact]) -> Micro {
        let net = |fact: &Fact| match *fact {
            Fact::DebtPaid(Some(payer), n) if payer == id => n,
            Fact::GivenBackForDebt(payer, n) if payer == id => -n,
            _ => 0,
        };
        self.total(net) + facts.iter().map(net).sum::<Micro>()
    }
}

/// Adds a fact unless its amount is 0.
pub fn push(facts: &mut Vec<Fact>, fact: Fact, amount: Micro) {
    if amount != 0 {
        facts.push(fact);
    }
}
