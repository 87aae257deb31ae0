//! Verbs that put credits in, take them out or set them aside.

use chrono::Duration;
use ledger::command::{CallFields, Command, Expiry, JobKind};
use ledger::credits::Credits;
use ledger::entry::{Kind, NoteKind};
use ledger::grant::Pool;
use ledger::hold::HoldStatus;
use ledger::ids::{GrantId, HoldId, Seq};
use ledger::policy::Overrun;
use ledger::quota::Subject;
use ledger::refusal::{Missing, Refusal};

use super::returns::push;
use super::verbs::{POSTED, invalid, sized};
use super::{Event, Expected, Fact, From, Grant, Hold, Instant, Micro, Model, Verdict, calendar, credits};

/// The facts and debit parts of what is taken.
pub type Taken = (Vec<Fact>, Vec<(From, Micro)>);

impl Model {
    /// Makes a grant: what comes in pays debt first.
    pub fn new_grant(
        &mut self,
        kind: Kind,
        (id, pool): (GrantId, Pool),
        amount: Micro,
        expires: Expiry,
        command: &Command,
        now: Instant,
    ) -> Result<(), Refusal> {
        let (end, rolling) = match expires {
            Expiry::Never => (None, false),
            Expiry::At(at) if at <= now => return invalid("expires_at"),
            Expiry::At(at) => (Some(at), false),
            Expiry::Policy => {
                calendar::end_by_policy(&self.book.policy, pool, command.occurred_at.unwrap_or(now))
            }
        };
        let moved = if rolling { self.roll(pool, end, now) } else { Vec::new() };
        let seq = self.events.last().map_or(1, |last| last.seq + 1);
        let grant =
            Grant { id, seq, pool, amount, remaining: 0, reserved: 0, expires: end, rolling, voided: None };
        let pays = if grant.live(now) { amount.min(self.book.debt) } else { 0 };
        self.tag(if pays == 0 {
            "grant: no debt"
        } else if pays < amount {
            "grant: debt and rest"
        } else {
            "grant: all to debt"
        });
        self.book.grants.push(grant);
        let mut facts = Vec::new();
        push(&mut facts, Fact::DebtPaid(Some(id), pays), pays);
        push(&mut facts, Fact::Filled(id, amount - pays), amount - pays);
        self.post(Event { main: true, facts, ..Event::new(kind) }, now);
        for _ in moved {
            self.tag("grant: rolls earlier ones");
            self.post(Event::note(NoteKind::GrantExtended), now);
        }
        self.expire_ended(now);
        self.within_balance()
    }

    /// Rolling moves only grants under it and not yet due, never to an earlier date (rule 10). Each has its note.
    fn roll(&mut self, pool: Pool, end: Option<Instant>, now: Instant) -> Vec<GrantId> {
        let under = |grant: &Grant| grant.rolling && grant.pool == pool && grant.live(now);
        if self.book.erased {
            return Vec::new();
        }
        let mut moved = Vec::new();
        for grant in self.book.grants.iter_mut().filter(|grant| under(grant) && grant.expires < end) {
            grant.expires = end;
            moved.push(grant.id);
        }
        moved
    }

    /// Takes up to `amount` from live grants in spend order (rule 3); answers with what was not to be had.
    pub fn draw(&self, amount: Micro, now: Instant, but: Option<GrantId>) -> (Vec<(GrantId, Micro)>, Micro) {
        let mut order: Vec<&Grant> = self.book.grants.iter().filter(|grant| self.lives(grant, now)).collect();
        order.sort_by_key(|grant| {
            (grant.pool.code(), grant.expires.unwrap_or(Instant::MAX_UTC), grant.seq, grant.id)
        });
        let (mut drawn, mut rest) = (Vec::new(), amount);
        for grant in order.into_iter().filter(|grant| Some(grant.id) != but) {
            let n = rest.min(grant.remaining);
            if n > 0 {
                drawn.push((grant.id, n));
                rest -= n;
            }
        }
        (drawn, rest)
    }

    /// A forced debit: every live remainder before debt.
    pub fn force(&mut self, amount: Micro, now: Instant, but: Option<GrantId>) -> Taken {
        let (drawn, rest) = self.draw(amount, now, but);
        let mut facts: Vec<Fact> = drawn.iter().map(|&(id, n)| Fact::Drawn(id, n)).collect();
        let mut parts: Vec<(From, Micro)> = drawn.iter().map(|&(id, n)| (From::Grant(id), n)).collect();
        if rest > 0 {
            self.tag("a debit makes debt");
            facts.push(Fact::DebtMade(rest));
            parts.push((From::Debt, rest));
        }
        (facts, parts)
    }

    /// Status, then breaker and balance, then quotas (rules 4 and 5).
    fn may_spend(&mut self, call: &CallFields, amount: Micro, now: Instant) -> Result<(), Refusal> {
        self.status_allows()?;
        let available = self.available();
        if available < 0 || available < amount {
            let breaker_open = available < 0;
            return Err(Refusal::InsufficientCredits {
                short_by: credits(amount - available),
                available: credits(available),
                held_elsewhere: credits(self.held()),
                breaker_open,
            });
        }
        self.within_quotas(call, amount, now)
    }

    fn within_quotas(&self, call: &CallFields, amount: Micro, now: Instant) -> Result<(), Refusal> {
        let names = |call: &CallFields, subject: &Subject| match subject {
            Subject::Member(member) => call.member.as_ref() == Some(member),
            Subject::KeyRef(key_ref) => call.key_ref.as_ref() == Some(key_ref),
        };
        for quota in self.quotas.iter().filter(|quota| names(call, &quota.subject)) {
            let uses = self.events.iter().filter_map(|event| event.used.as_ref());
            let within = uses.filter(|(at, by, _)| {
                names(by, &quota.subject) && calendar::together(quota.window, *at, now, self.zone)
            });
            let used: Micro = within.map(|(_, _, n)| n).sum();
            if used + amount > quota.limit.micros() {
                return Err(Refusal::QuotaExceeded {
                    subject: quota.subject.clone(),
                    window: quota.window,
                    limit: quota.limit,
                    used: credits(used),
                    resets_at: calendar::window_end(quota.window, now, self.zone),
                });
            }
        }
        Ok(())
    }

    /// A job is charged once: a second charge or hold gets the first (rule 11).
    fn job_taken(&self, command: &Command) -> Option<Expected> {
        let first = self.job_first(command.call.job_id.as_ref()?, JobKind::Charge)?;
        Some(Expected::Replay(Seq(first.seq)))
    }

    fn job_of(command: &Command) -> Option<(String, JobKind)> {
        command.call.job_id.clone().map(|job| (job, JobKind::Charge))
    }

    pub fn charge(&mut self, command: &Command, amount: Credits, now: Instant) -> Verdict {
        if let Some(first) = self.job_taken(command) {
            return Ok(first);
        }
        let amount = sized(amount, 0)?;
        self.may_spend(&command.call, amount, now)?;
        let (facts, parts) = self.force(amount, now, None);
        if parts.len() > 1 {
            self.tag("charge: several grants");
        }
        let used = Some((now, command.call.clone(), amount));
        let event =
            Event { main: true, facts, parts, used, job: Self::job_of(command), ..Event::new(Kind::Consume) };
        self.post(event, now);
        POSTED
    }

    pub fn place(
        &mut self,
        command: &Command,
        id: HoldId,
        amount: Credits,
        expires_in_s: Option<u32>,
        now: Instant,
    ) -> Verdict {
        if let Some(first) = self.job_taken(command) {
            return Ok(first);
        }
        let amount = sized(amount, 0)?;
        let lifetime_s = self.book.policy.hold_lifetime_s;
        let expires_in_s = expires_in_s.unwrap_or(self.book.policy.hold_default_s);
        if expires_in_s == 0 || expires_in_s > lifetime_s {
            return invalid("expires_in_s");
        }
        self.may_spend(&command.call, amount, now)?;
        let (parts, _) = self.draw(amount, now, None);
        let facts = parts.iter().map(|&(grant, n)| Fact::Reserved(grant, n)).collect();
        let used = Some((now, command.call.clone(), amount));
        let event = Event {
            facts,
            used,
            job: Self::job_of(command),
            hold: Some(id),
            main: true,
            ..Event::new(Kind::AuthHold)
        };
        let seq = self.post(event, now);
        self.book.holds.push(Hold {
            id,
            seq,
            amount,
            parts,
            placed: now,
            lifetime_s,
            expires: now + Duration::seconds(i64::from(expires_in_s)),
            status: HoldStatus::Open,
            settled: 0,
            released: 0,
            reversed: 0,
            unknown: false,
            ended_by: None,
            late: None,
            call: command.call.clone(),
        });
        POSTED
    }

    /// Rule 6 for an open hold; rule 7 for one that expired, or was reversed with its outcome unknown.
    pub fn settle(&mut self, id: HoldId, amount: Credits, now: Instant) -> Result<(), Refusal> {
        let amount = sized(amount, 0)?;
        let Some(hold) = self.hold(id).cloned() else {
            return Err(Refusal::NotFound { what: Missing::Hold });
        };
        let open = hold.status == HoldStatus::Open;
        let late =
            hold.status == HoldStatus::Expired || (hold.status == HoldStatus::Reversed && hold.unknown);
        if !open && (!late || hold.late.is_some()) {
            return Err(self.hold_ended(id, hold.late));
        }
        let capped = self.book.policy.overrun == Overrun::Cap && amount > hold.amount;
        let posted = if capped { hold.amount } else { amount };
        let rest =
            if open { self.settle_open(&hold, posted, now) } else { self.settle_late(&hold, posted, now) };
        if capped {
            self.tag(if open { "settle: capped" } else { "settle: late and capped" });
            let note = Event::note(NoteKind::Uncollected);
            self.post(Event { uncollected: amount - posted, hold: Some(id), ..note }, now);
        }
        if rest.iter().any(|(_, n)| *n > 0) {
            self.release_rest(id, &rest, now);
            self.expire_ended(now);
        }
        Ok(())
    }

    fn settle_open(&mut self, hold: &Hold, amount: Micro, now: Instant) -> Vec<(GrantId, Micro)> {
        let (mut facts, mut parts, mut rest, mut left) = (Vec::new(), Vec::new(), Vec::new(), amount);
        for &(grant, reserved) in &hold.parts {
            let n = left.min(reserved);
            left -= n;
            push(&mut facts, Fact::FromHold(grant, n), n);
            if n > 0 {
                parts.push((From::Grant(grant), n));
            }
            rest.push((grant, reserved - n));
        }
        let ended = hold.parts.iter().any(|(grant, _)| !self.grant(*grant).unwrap().live(now));
        self.tag(match (amount - hold.amount).signum() {
            -1 => "settle: below",
            0 => "settle: exact",
            _ => "settle: above",
        });
        if ended {
            self.tag("settle: a part whose grant has ended");
        }
        let (more, above) = self.force(left, now, None);
        facts.extend(more);
        parts.extend(above);
        let used = Some((hold.placed, hold.call.clone(), amount - hold.amount));
        let event = Event { main: true, facts, parts, used, hold: Some(hold.id), ..Event::new(Kind::Settle) };
        let seq = self.post(event, now);
        let ended = self.hold_mut(hold.id);
        ended.status = HoldStatus::Settled;
        ended.settled = amount.min(hold.amount);
        ended.released = hold.amount - ended.settled;
        ended.ended_by = Some(seq);
        rest
    }

    fn settle_late(&mut self, hold: &Hold, amount: Micro, now: Instant) -> Vec<(GrantId, Micro)> {
        self.tag(if hold.status == HoldStatus::Expired {
            "settle: late, expired"
        } else {
            "settle: late, unknown"
        });
        let (facts, parts) = self.force(amount, now, None);
        let used = Some((hold.placed, hold.call.clone(), amount));
        let event = Event { main: true, facts, parts, used, hold: Some(hold.id), ..Event::new(Kind::Settle) };
        let seq = self.post(event, now);
        self.hold_mut(hold.id).late = Some(seq);
        Vec::new()
    }
}
