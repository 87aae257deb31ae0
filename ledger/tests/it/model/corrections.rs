//! Verbs that give back, take back and correct.

use ledger::account::AccountStatus;
use ledger::command::{Command, Expiry};
use ledger::credits::Credits;
use ledger::entry::{Kind, NoteKind};
use ledger::grant::Pool;
use ledger::ids::{GrantId, Seq};
use ledger::refusal::{Limit, Missing, Refusal};

use super::returns::push;
use super::verbs::{AMOUNT_MAX, BALANCE_MAX, invalid, sized};
use super::{Event, Fact, From, Instant, Micro, Model, credits};

impl Model {
    pub fn refund(&mut self, seq: Seq, amount: Option<Credits>, now: Instant) -> Result<(), Refusal> {
        let asked = amount.map(|amount| sized(amount, 1)).transpose()?;
        let written = self.event(seq.0).filter(|event| event.set != 0);
        let Some(original) = written else { return Err(Refusal::NotFound { what: Missing::Entry }) };
        if !matches!(original.kind, Kind::Consume | Kind::Settle) {
            return Err(Refusal::NotRefundable);
        }
        let left: Micro = self.left_of(seq.0).iter().sum();
        let amount = asked.unwrap_or(left);
        if amount > left || amount == 0 {
            return Err(Refusal::RefundExceedsCharge { refundable: credits(left) });
        }
        self.give_usage_back(seq.0, amount, true, now);
        self.expire_ended(now);
        self.within_balance()
    }

    /// The event that gives usage back; what came back to ended grants has yet to end again.
    pub fn give_usage_back(&mut self, seq: i64, amount: Micro, main: bool, now: Instant) {
        let original = self.event(seq).unwrap();
        let (used, hold) = (original.used.clone(), original.hold);
        let (facts, spread) = self.give_back(seq, amount, now);
        let used = used.map(|(at, call, _)| (at, call, -amount));
        self.post(
            Event { main, facts, spread, used, hold, reverses: Some(seq), ..Event::new(Kind::Refund) },
            now,
        );
    }

    /// What the clawbacks of a grant took and restores did not give back.
    pub fn clawed(&self, id: GrantId) -> Micro {
        self.total(|fact| match *fact {
            Fact::Clawed(grant, n) if grant == id => n,
            Fact::Restored(grant, n) if grant == id => -n,
            _ => 0,
        })
    }

    pub fn clawback(&mut self, id: GrantId, amount: Credits, now: Instant) -> Result<(), Refusal> {
        let amount = sized(amount, 1)?;
        let Some(grant) = self.grant(id).cloned() else {
            return Err(Refusal::NotFound { what: Missing::Grant });
        };
        // What was given away has no payment that could go back.
        let paid = if grant.pool == Pool::Paid { grant.amount } else { 0 };
        let clawable = paid - self.clawed(id);
        if amount > clawable {
            self.tag(if paid == 0 { "clawback: of a gift" } else { "clawback: too much" });
            return Err(Refusal::ClawbackExceedsGrant { clawable: credits(clawable) });
        }
        let lapsed = self.total(|fact| match *fact {
            Fact::Lapsed(of, n) | Fact::LapseReturned(of, n) if of == id => n,
            Fact::LapseTaken(of, n) if of == id => -n,
            _ => 0,
        });
        let (mut facts, mut parts) = (vec![Fact::Clawed(id, amount)], Vec::new());
        let own = amount.min(grant.remaining);
        let gone = (amount - own).min(lapsed);
        for (fact, part, n) in [
            (Fact::Drawn(id, own), From::Grant(id), own),
            (Fact::LapseTaken(id, gone), From::Lapsed(id), gone),
        ] {
            push(&mut facts, fact, n);
            if n > 0 {
                parts.push((part, n));
            }
        }
        if gone > 0 {
            self.tag("clawback: of what had lapsed");
        }
        let (more, others) = self.force(amount - own - gone, now, Some(id));
        if others.iter().any(|(from, _)| matches!(from, From::Grant(_))) {
            self.tag("clawback: of other grants");
        }
        facts.extend(more);
        parts.extend(others);
        let event =
            Event { main: true, facts, parts, reverses: Some(grant.seq), ..Event::new(Kind::Clawback) };
        self.post(event, now);
        Ok(())
    }

    /// Undoes clawbacks of the grant, newest first, one event for each.
    pub fn restore(&mut self, id: GrantId, amount: Credits, now: Instant) -> Result<(), Refusal> {
        let amount = sized(amount, 1)?;
        if self.grant(id).is_none() {
            return Err(Refusal::NotFound { what: Missing::Grant });
        }
        let restorable = self.clawed(id);
        if amount > restorable {
            return Err(Refusal::RestoreExceedsClawbacks { restorable: credits(restorable) });
        }
        let of_grant = |fact: &Fact| matches!(fact, Fact::Clawed(grant, _) if *grant == id);
        let clawbacks =
            self.events.iter().filter(|event| event.facts.iter().any(of_grant)).map(|event| event.seq);
        let newest_first: Vec<i64> = clawbacks.collect::<Vec<_>>().into_iter().rev().collect();
        let (mut rest, mut main) = (amount, true);
        for seq in newest_first {
            let n = rest.min(self.left_of(seq).iter().sum());
            if n == 0 {
                continue;
            }
            let (mut facts, spread) = self.give_back(seq, n, now);
            facts.push(Fact::Restored(id, n));
            self.post(Event { main, facts, spread, reverses: Some(seq), ..Event::new(Kind::Restore) }, now);
            if !main {
                self.tag("restore: of several clawbacks");
            }
            (rest, main) = (rest - n, false);
        }
        self.expire_ended(now);
        self.within_balance()
    }

    pub fn write_off(&mut self, amount: Credits, now: Instant) -> Result<(), Refusal> {
        let amount = sized(amount, 1)?;
        if amount > self.book.debt {
            return invalid("amount");
        }
        let facts = vec![Fact::DebtPaid(None, amount), Fact::WrittenOff(amount)];
        self.tag("adjust: write-off");
        self.post(Event { main: true, facts, ..Event::new(Kind::Adjust) }, now);
        Ok(())
    }

    /// Plus makes a grant; minus is forced, in spend order.
    pub fn adjust(
        &mut self,
        id: GrantId,
        amount: Credits,
        pool: Pool,
        expires: Expiry,
        command: &Command,
        now: Instant,
    ) -> Result<(), Refusal> {
        let amount = amount.micros();
        if amount == 0 {
            return invalid("amount");
        }
        if amount.abs() > AMOUNT_MAX {
            return Err(Refusal::LimitExceeded { limit: Limit::Amount });
        }
        if amount > 0 {
            self.tag("adjust: plus");
            return self.new_grant(Kind::Adjust, (id, pool), amount, expires, command, now);
        }
        self.tag("adjust: minus");
        let (facts, _) = self.force(-amount, now, None);
        self.post(Event { main: true, facts, ..Event::new(Kind::Adjust) }, now);
        Ok(())
    }

    /// What is left is closed out by an adjustment; open holds may still settle.
    pub fn erase(&mut self, now: Instant) {
        self.book.status = AccountStatus::Closed;
        self.note(NoteKind::Erased, now);
        let everything = self.book.grants.iter().map(|grant| grant.remaining).sum();
        let (drawn, _) = self.draw(everything, now, None);
        if !drawn.is_empty() {
            self.tag("erase: something left");
            let facts = drawn.iter().map(|&(id, n)| Fact::Drawn(id, n)).collect();
            self.post(Event { facts, ..Event::new(Kind::Adjust) }, now);
        }
        let has = |id| drawn.iter().any(|(drawn, _)| *drawn == id);
        for grant in &mut self.book.grants {
            if grant.live(now) && (grant.reserved > 0 || has(grant.id)) {
                grant.voided = Some(now);
            }
        }
        self.book.erased = true;
    }

    /// Refused where what comes in would leave more than an account may hold.
    pub fn within_balance(&self) -> Result<(), Refusal> {
        if self.available() + self.held() > BALANCE_MAX {
            return Err(Refusal::LimitExceeded { limit: Limit::Balance });
        }
        Ok(())
    }
}
