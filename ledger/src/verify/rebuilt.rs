//! Grants and holds as the journal says they are: the same nouns as the stored rows, made from entries alone.

use std::collections::BTreeMap;

use chrono::{DateTime, Utc};

use crate::credits::{Credits, Overflow};
use crate::entry::{DebtMark, Direction, Entry, Kind, LedgerAccount, Line, NoteKind};
use crate::grant::Grant;
use crate::hold::{Hold, HoldPart, HoldStatus};
use crate::ids::{GrantId, HoldId};

/// Why an entry does not fit what the entries before it made.
pub(super) enum Fault {
    Wrong(String),
    Overflow,
}

impl From<Overflow> for Fault {
    fn from(Overflow: Overflow) -> Fault {
        Fault::Overflow
    }
}

pub(super) fn wrong<T>(what: impl Into<String>) -> Result<T, Fault> {
    Err(Fault::Wrong(what.into()))
}

/// A debit line of an entry that something was given back of.
#[derive(Clone, Copy, Debug)]
pub(super) struct Part {
    /// The grant it drew on; `None` where it made debt.
    pub drawn: Option<GrantId>,
    pub amount: Credits,
    pub given_back: Credits,
}

/// A rebuilt grant, and what proves that it rolls.
#[derive(Clone, Debug)]
pub(super) struct GrantSoFar {
    pub grant: Grant,
    /// A later top-up moved its end.
    pub was_rolled: bool,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Grants {
    pub all: BTreeMap<GrantId, GrantSoFar>,
    /// Set by the erasure of the account: from here on every grant has ended.
    pub erased_at: Option<DateTime<Utc>>,
}

impl Grants {
    fn known(&mut self, id: GrantId) -> Result<&mut Grant, Fault> {
        match self.all.get_mut(&id) {
            Some(known) => Ok(&mut known.grant),
            None => wrong(format!("names grant {id}, which no entry before it made")),
        }
    }

    /// What the entry says of grants before its lines are added: which it makes, moves or ends.
    pub fn announce(&mut self, entry: &Entry) -> Result<(), Fault> {
        let makes = entry.kind == Kind::Topup
            || entry.kind == Kind::Adjust
                && entry.debit_lines().any(|line| line.ledger_account == LedgerAccount::Adjustment);
        if makes {
            return self.make(entry);
        }
        match (entry.kind, entry.note) {
            (Kind::Void, _) => {
                let Some(view) = &entry.answer.grant else {
                    return wrong("does not say which grant it ends");
                };
                self.known(view.id)?.voided_at = Some(entry.recorded_at);
            }
            (_, Some(NoteKind::GrantExtended)) => self.extend(entry)?,
            (_, Some(NoteKind::Erased)) if self.erased_at.is_none() => {
                let at = entry.recorded_at;
                for known in self.all.values_mut() {
                    let grant = &mut known.grant;
                    let has = !(grant.remaining.is_zero() && grant.reserved.is_zero());
                    if grant.is_live(at) && has {
                        grant.voided_at = Some(at);
                    }
                }
                self.erased_at = Some(at);
            }
            _ => {}
        }
        Ok(())
    }

    fn make(&mut self, entry: &Entry) -> Result<(), Fault> {
        let Some(view) = &entry.answer.grant else { return wrong("does not say which grant it makes") };
        let amount = Credits::sum(entry.debit_lines().map(|line| line.amount))?;
        if entry.answer.pool != Some(view.pool) || view.amount != amount || view.seq != entry.seq {
            return wrong(format!("says another pool, amount or number of grant {} than it makes", view.id));
        }
        let grant = Grant {
            id: view.id,
            seq: entry.seq,
            pool: view.pool,
            amount,
            remaining: Credits::ZERO,
            reserved: Credits::ZERO,
            expires_at: view.expires_at,
            rolling: false,
            voided_at: None,
            source: view.source.clone(),
            granted_at: entry.recorded_at,
            lapsed: Credits::ZERO,
            lapse_taken: Credits::ZERO,
            clawed_back: Credits::ZERO,
            restored: Credits::ZERO,
            paid_to_debt: Credits::ZERO,
            given_back_for_debt: Credits::ZERO,
        };
        match self.all.insert(view.id, GrantSoFar { grant, was_rolled: false }) {
            None => Ok(()),
            Some(_) => wrong(format!("makes grant {}, which there is already", view.id)),
        }
    }

    fn extend(&mut self, entry: &Entry) -> Result<(), Fault> {
        let Some(view) = &entry.answer.grant else { return wrong("does not say which grant it extends") };
        let grant = self.known(view.id)?;
        if grant.expires_at.is_none_or(|end| view.expires_at.is_none_or(|new| new < end)) {
            return wrong(format!("moves the end of grant {} to an earlier date", view.id));
        }
        grant.expires_at = view.expires_at;
        // An extension that somebody asked for is the main entry; what rolls follows from a top-up.
        if !entry.is_main
            && let Some(known) = self.all.get_mut(&view.id)
        {
            known.was_rolled = true;
        }
        Ok(())
    }

    /// Adds a line of a grant up.
    pub fn line(&mut self, kind: Kind, line: &Line) -> Result<(), Fault> {
        let Some(id) = line.grant else { return Ok(()) };
        let grant = self.known(id)?;
        let raised = raised(line);
        match (line.ledger_account, line.debt) {
            (LedgerAccount::Available, DebtMark::None) => {
                grant.remaining = grant.remaining.plus(raised)?;
                if matches!(kind, Kind::Expire | Kind::Void) {
                    grant.lapsed = grant.lapsed.minus(raised)?;
                }
            }
            (LedgerAccount::Available, _) => grant.paid_to_debt = grant.paid_to_debt.plus(raised)?,
            (LedgerAccount::Held, _) => grant.reserved = grant.reserved.plus(raised)?,
            (LedgerAccount::ExpirationGain, _) if matches!(kind, Kind::Clawback | Kind::Restore) => {
                grant.lapse_taken = grant.lapse_taken.minus(raised)?;
            }
            _ => {}
        }
        if grant.remaining.is_negative() || grant.reserved.is_negative() || grant.lapse_taken.is_negative() {
            return wrong(format!("takes more of grant {id} than it has"));
        }
        Ok(())
    }

    /// A CLAWBACK counts for the grant that its answer names.
    pub fn claw(&mut self, entry: &Entry) -> Result<GrantId, Fault> {
        let Some(view) = &entry.answer.grant else { return wrong("does not say whose payment went back") };
        let taken = Credits::sum(entry.debit_lines().map(|line| line.amount))?;
        let grant = self.known(view.id)?;
        grant.clawed_back = grant.clawed_back.plus(taken)?;
        if entry.reverses != Some(grant.seq) || grant.clawed_back.minus(grant.restored)? > grant.amount {
            return wrong(format!("claws back what is not of grant {}", view.id));
        }
        Ok(view.id)
    }

    pub fn restore(&mut self, id: GrantId, amount: Credits) -> Result<(), Fault> {
        let grant = self.known(id)?;
        grant.restored = grant.restored.plus(amount)?;
        Ok(())
    }

    /// What a REFUND or RESTORE gave to payers of debt: what grants got beyond their own parts' shares.
    pub fn given_for_debt(&mut self, entry: &Entry, parts: &[Part]) -> Result<(), Fault> {
        let mut beyond: BTreeMap<GrantId, Credits> = BTreeMap::new();
        for line in entry.credit_lines().filter(|line| line.ledger_account == LedgerAccount::Available) {
            if let Some(id) = line.grant {
                let sum = beyond.entry(id).or_default();
                *sum = sum.plus(line.amount)?;
            }
        }
        for (part, share) in parts.iter().zip(&entry.answer.spread) {
            if let Some(id) = part.drawn {
                let sum = beyond.entry(id).or_default();
                *sum = sum.minus(*share)?;
            }
        }
        for (id, amount) in beyond {
            if amount.is_negative() {
                return wrong(format!("gives grant {id} less than its share"));
            }
            let grant = self.known(id)?;
            grant.given_back_for_debt = grant.given_back_for_debt.plus(amount)?;
        }
        Ok(())
    }

    /// Something that can be spent at an instant.
    pub fn live_remainder(&self, at: DateTime<Utc>) -> Option<&Grant> {
        let left = |grant: &&Grant| self.erased_at.is_none() && grant.remaining.is_positive();
        self.all.values().map(|known| &known.grant).filter(left).find(|grant| grant.is_live(at))
    }
}

/// A credit raises what the customer has, a debit lowers it.
pub(super) fn raised(line: &Line) -> Credits {
    match line.direction {
        Direction::Debit => line.amount.negated(),
        Direction::Credit => line.amount,
    }
}

#[derive(Clone, Debug, Default)]
pub(super) struct Holds(pub BTreeMap<HoldId, Hold>);

impl Holds {
    pub fn entry(&mut self, entry: &Entry) -> Result<(), Fault> {
        match (entry.kind, entry.note) {
            (Kind::AuthHold, _) => self.place(entry),
            (Kind::Settle, _) => self.settle(entry),
            (Kind::AuthRelease, _) => self.release(entry),
            (Kind::AuthReversal, _) => self.reverse(entry),
            (_, Some(NoteKind::HoldRenewed)) => self.renew(entry),
            _ => Ok(()),
        }
    }

    fn place(&mut self, entry: &Entry) -> Result<(), Fault> {
        let (Some(id), Some(view)) = (entry.hold, &entry.answer.hold) else {
            return wrong("does not say which hold it places");
        };
        let parts = entry
            .credit_lines()
            .filter_map(|line| Some(HoldPart { grant: line.grant?, amount: line.amount }));
        let hold = Hold {
            id,
            seq: entry.seq,
            amount: entry.moved,
            status: HoldStatus::Open,
            parts: parts.collect(),
            placed_at: entry.recorded_at,
            lifetime_s: 0,
            renewed_at: entry.recorded_at,
            expires_at: view.expires_at,
            settled: Credits::ZERO,
            released: Credits::ZERO,
            reversed: Credits::ZERO,
            needs_review: false,
            ended_by: None,
            late_settle: None,
            call: entry.call.clone(),
        };
        match self.0.insert(id, hold) {
            None => Ok(()),
            Some(_) => wrong(format!("places hold {id}, which there is already")),
        }
    }

    fn known(&mut self, entry: &Entry) -> Result<&mut Hold, Fault> {
        let known = entry.hold.and_then(|id| self.0.get_mut(&id));
        known.map_or_else(|| wrong("names no hold that an entry before it placed"), Ok)
    }

    fn renew(&mut self, entry: &Entry) -> Result<(), Fault> {
        let hold = self.known(entry)?;
        let Some(view) = &entry.answer.hold else { return wrong("does not say until when the hold is open") };
        if hold.status != HoldStatus::Open {
            return wrong(format!("renews hold {}, which has ended", hold.id));
        }
        hold.expires_at = view.expires_at;
        hold.renewed_at = entry.recorded_at;
        Ok(())
    }

    fn settle(&mut self, entry: &Entry) -> Result<(), Fault> {
        let hold = self.known(entry)?;
        if hold.status == HoldStatus::Open {
            hold.status = HoldStatus::Settled;
            hold.settled = out_of_held(entry)?;
            hold.ended_by = Some(entry.seq);
            return Ok(());
        }
        let late =
            hold.status == HoldStatus::Expired || hold.status == HoldStatus::Reversed && hold.needs_review;
        if !late || hold.late_settle.is_some() || !out_of_held(entry)?.is_zero() {
            return wrong(format!("settles hold {}, which has ended", hold.id));
        }
        hold.late_settle = Some(entry.seq);
        Ok(())
    }

    /// A release of its own, or of what a settle left, in the settle's set.
    fn release(&mut self, entry: &Entry) -> Result<(), Fault> {
        let hold = self.known(entry)?;
        let rest = hold.status == HoldStatus::Settled
            && !entry.is_main
            && hold.released.is_zero()
            && hold.ended_by.is_some_and(|seq| seq >= entry.set_seq);
        if hold.status == HoldStatus::Open {
            hold.status = HoldStatus::Released;
            hold.ended_by = Some(entry.seq);
        } else if !rest {
            return wrong(format!("releases hold {}, which has ended", hold.id));
        }
        hold.released = out_of_held(entry)?;
        Ok(())
    }

    /// A hold is open while `now <` its end, so the instant tells a reversal from an expiry.
    fn reverse(&mut self, entry: &Entry) -> Result<(), Fault> {
        let hold = self.known(entry)?;
        if hold.status != HoldStatus::Open {
            return wrong(format!("reverses hold {}, which has ended", hold.id));
        }
        let due = entry.recorded_at >= hold.expires_at;
        hold.status = if due { HoldStatus::Expired } else { HoldStatus::Reversed };
        hold.reversed = out_of_held(entry)?;
        hold.ended_by = Some(entry.seq);
        hold.needs_review = !due && entry.answer.hold.as_ref().is_some_and(|view| view.needs_review);
        Ok(())
    }
}

fn out_of_held(entry: &Entry) -> Result<Credits, Overflow> {
    let held = entry.debit_lines().filter(|line| line.ledger_account == LedgerAccount::Held);
    Credits::sum(held.map(|line| line.amount))
}
