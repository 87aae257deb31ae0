//! What each verb must lead to.

use ledger::account::AccountStatus;
use ledger::command::{Command, JobKind, JobMarker, ReasonCode, ReverseOutcome, Verb};
use ledger::credits::Credits;
use ledger::entry::{Kind, NoteKind};
use ledger::grant::Pool;
use ledger::hold::HoldStatus;
use ledger::ids::{GrantId, HoldId, Seq};
use ledger::refusal::{Limit, Missing, Refusal};

use super::{Event, Expected, Hold, Instant, Micro, Model, Verdict};

/// `Model::run` puts in where the new events begin.
pub const POSTED: Verdict = Ok(Expected::Posted(0));
/// 10^12 and 10^13 credits.
pub const AMOUNT_MAX: Micro = 1_000_000_000_000 * 1_000_000;
pub const BALANCE_MAX: Micro = 10_000_000_000_000 * 1_000_000;

pub fn invalid<T>(field: &'static str) -> Result<T, Refusal> {
    Err(Refusal::Invalid { field, reason: "" })
}

/// An amount that a verb takes: at least `least`, and within the limit of one command.
pub fn sized(amount: Credits, least: Micro) -> Result<Micro, Refusal> {
    match amount.micros() {
        n if n < least => invalid("amount"),
        n if n > AMOUNT_MAX => Err(Refusal::LimitExceeded { limit: Limit::Amount }),
        n => Ok(n),
    }
}

impl Model {
    pub fn verb(&mut self, command: &Command, now: Instant) -> Verdict {
        match &command.verb {
            Verb::Open { policy, .. } => self.open(policy.clone(), now)?,
            Verb::Grant { id, amount, pool, expires, .. } => {
                let amount = sized(*amount, 1)?;
                self.new_grant(Kind::Topup, (*id, *pool), amount, *expires, command, now)?;
            }
            Verb::Charge { amount } => return self.charge(command, *amount, now),
            Verb::Hold { id, amount, expires_in_s } => {
                return self.place(command, *id, *amount, *expires_in_s, now);
            }
            Verb::Renew { hold, expires_in_s } => self.renew(*hold, *expires_in_s, now)?,
            Verb::Settle { hold, amount } => self.settle(*hold, *amount, now)?,
            Verb::Release { hold } => {
                self.open_hold(*hold)?;
                self.take_back(*hold, Kind::AuthRelease, HoldStatus::Released, now, now, true);
                self.expire_ended(now);
            }
            Verb::Reverse { hold, outcome } => self.reverse(*hold, *outcome, now)?,
            Verb::Refund { seq, amount } => self.refund(*seq, *amount, now)?,
            Verb::Clawback { grant, amount, .. } => self.clawback(*grant, *amount, now)?,
            Verb::Restore { grant, amount, .. } => self.restore(*grant, *amount, now)?,
            Verb::Void { grant } => return self.void(*grant, now),
            Verb::Extend { grant, expires_at } => self.extend(*grant, *expires_at, now)?,
            Verb::Adjust { amount, code: ReasonCode::WriteOff, .. } => self.write_off(*amount, now)?,
            Verb::Adjust { id, amount, pool, expires, .. } => {
                self.adjust(*id, *amount, pool.unwrap_or(Pool::Promo), *expires, command, now)?;
            }
            Verb::Mark { marker } => return self.mark(command, *marker, now),
            Verb::RefundJob => return self.refund_job(command, now),
            Verb::SetStatus { status } if self.book.erased && *status != AccountStatus::Closed => {
                return Err(Refusal::AccountClosed);
            }
            Verb::SetStatus { status } => {
                self.book.status = *status;
                self.note(NoteKind::StateChanged, now);
            }
            Verb::SetPolicy { policy } => {
                self.book.policy = policy.clone();
                self.note(NoteKind::PolicyChanged, now);
            }
            Verb::Erase => self.erase(now),
            Verb::Lapse if self.events.iter().all(|event| event.set != 0) => return Ok(Expected::Nothing),
            Verb::Lapse => {}
        }
        POSTED
    }

    pub fn note(&mut self, note: NoteKind, now: Instant) {
        self.post(Event { main: true, ..Event::note(note) }, now);
    }

    fn open(&mut self, policy: ledger::policy::Policy, now: Instant) -> Result<(), Refusal> {
        if !self.events.is_empty() {
            return Err(Refusal::AlreadyExists { account: self.account });
        }
        self.book.policy = policy;
        self.note(NoteKind::AccountOpened, now);
        Ok(())
    }

    /// An open hold, or why it is none.
    pub fn open_hold(&self, id: HoldId) -> Result<(), Refusal> {
        let Some(hold) = self.hold(id) else { return Err(Refusal::NotFound { what: Missing::Hold }) };
        if hold.status == HoldStatus::Open { Ok(()) } else { Err(self.hold_ended(id, None)) }
    }

    /// A lapse that is not written yet has no entry to name; a second late settle gets the first one named.
    pub fn hold_ended(&self, id: HoldId, late: Option<i64>) -> Refusal {
        let hold = self.hold(id).unwrap();
        let written = |seq: &i64| self.event(*seq).is_some_and(|event| event.set != 0);
        Refusal::HoldEnded {
            final_state: hold.status,
            entry: late.or(hold.ended_by).filter(written).map(Seq),
        }
    }

    fn renew(&mut self, id: HoldId, expires_in_s: u32, now: Instant) -> Result<(), Refusal> {
        if expires_in_s == 0 {
            return invalid("expires_in_s");
        }
        self.open_hold(id)?;
        let hold = self.hold(id).unwrap();
        let end = now + chrono::Duration::seconds(i64::from(expires_in_s));
        if expires_in_s > hold.lifetime_s {
            return invalid("expires_in_s");
        }
        if end > hold.placed + chrono::Duration::hours(24) {
            self.tag("renew: past 24 h");
            return invalid("expires_in_s");
        }
        self.hold_mut(id).expires = end;
        self.post(Event { main: true, hold: Some(id), ..Event::note(NoteKind::HoldRenewed) }, now);
        Ok(())
    }

    fn reverse(&mut self, id: HoldId, outcome: ReverseOutcome, now: Instant) -> Result<(), Refusal> {
        self.open_hold(id)?;
        self.take_back(id, Kind::AuthReversal, HoldStatus::Reversed, now, now, true);
        self.hold_mut(id).unknown = outcome == ReverseOutcome::Unknown;
        self.expire_ended(now);
        Ok(())
    }

    fn extend(&mut self, id: GrantId, to: Instant, now: Instant) -> Result<(), Refusal> {
        let Some(grant) = self.grant(id) else { return Err(Refusal::NotFound { what: Missing::Grant }) };
        if !self.lives(grant, now) {
            return Err(Refusal::GrantEnded);
        }
        if to <= now || grant.expires.is_none_or(|end| to < end) {
            return invalid("expires_at");
        }
        self.grant_mut(id).expires = Some(to);
        self.note(NoteKind::GrantExtended, now);
        Ok(())
    }

    /// A second void gets the first VOID entry; one after the grant's end is refused.
    fn void(&mut self, id: GrantId, now: Instant) -> Verdict {
        let Some(grant) = self.grant(id) else { return Err(Refusal::NotFound { what: Missing::Grant }) };
        if grant.voided.is_some() {
            let first = self
                .events
                .iter()
                .find(|event| event.kind == Kind::Void && event.parts == [(super::From::Grant(id), 0)]);
            return first.map(|event| Expected::Replay(Seq(event.seq))).ok_or(Refusal::GrantEnded);
        }
        if !self.lives(grant, now) {
            return Err(Refusal::GrantEnded);
        }
        let left = grant.remaining;
        let mut facts = Vec::new();
        super::returns::push(&mut facts, super::Fact::Lapsed(id, left), left);
        // A void's part names its grant even where nothing was left; nothing of it can be given back.
        let parts = vec![(super::From::Grant(id), 0)];
        self.post(Event { main: true, facts, parts, ..Event::new(Kind::Void) }, now);
        self.grant_mut(id).voided = Some(now);
        POSTED
    }

    /// The entry of a job's kind that a second one gets: a marker, a refund, a charge; a hold while open or
    /// settled, were it late. Where an expired hold made room for another charge, the newest counts.
    pub fn job_first(&self, job: &str, kind: JobKind) -> Option<&Event> {
        self.events.iter().rfind(|event| {
            let same = event.job.as_ref().is_some_and(|(name, of)| name == job && *of == kind);
            let hold = event.hold.filter(|_| kind == JobKind::Charge).and_then(|id| self.hold(id));
            let settled = |hold: &Hold| hold.status == HoldStatus::Settled || hold.late.is_some();
            same && hold.is_none_or(|hold| hold.status == HoldStatus::Open || settled(hold))
        })
    }

    fn mark(&mut self, command: &Command, marker: JobMarker, now: Instant) -> Verdict {
        let Some(job) = &command.call.job_id else { return invalid("job_id") };
        if marker == JobMarker::Started && self.job_first(job, JobKind::Refund).is_some() {
            return Err(Refusal::JobRefunded);
        }
        let (kind, note) = match marker {
            JobMarker::Started => (JobKind::Started, NoteKind::JobStarted),
            JobMarker::Completed => (JobKind::Completed, NoteKind::JobCompleted),
            JobMarker::Failed => (JobKind::Failed, NoteKind::JobFailed),
        };
        if let Some(first) = self.job_first(job, kind) {
            return Ok(Expected::Replay(Seq(first.seq)));
        }
        self.post(Event { main: true, job: Some((job.clone(), kind)), ..Event::note(note) }, now);
        POSTED
    }

    /// What was taken for a job: its charges, and the settles of its holds.
    pub fn taken_for(&self, job: &str) -> Vec<i64> {
        let of = |event: &&Event| match event.kind {
            Kind::Consume => event.job.as_ref().is_some_and(|(name, _)| name == job),
            Kind::Settle => self.hold(event.hold.unwrap()).unwrap().call.job_id.as_deref() == Some(job),
            _ => false,
        };
        self.events.iter().filter(of).map(|event| event.seq).collect()
    }

    /// Makes the customer whole for a job: every charge comes back as far as it has not yet, an open hold is
    /// reversed, and if there is nothing of either left, a note says that the job is refunded.
    fn refund_job(&mut self, command: &Command, now: Instant) -> Verdict {
        let Some(job) = command.call.job_id.clone() else { return invalid("job_id") };
        if let Some(first) = self.job_first(&job, JobKind::Refund) {
            return Ok(Expected::Replay(Seq(first.seq)));
        }
        let charged = self.taken_for(&job);
        let is_open =
            |hold: &&Hold| hold.status == HoldStatus::Open && hold.call.job_id.as_ref() == Some(&job);
        let open = self.book.holds.iter().find(is_open).map(|hold| hold.id);
        if charged.is_empty() && open.is_none() {
            let tried = self.events.iter().filter_map(|event| event.job.as_ref());
            let known = tried.filter(|(name, kind)| *name == job && *kind == JobKind::Charge).count() > 0;
            return Err(if known {
                Refusal::NotRefundable
            } else {
                Refusal::NotFound { what: Missing::Job }
            });
        }
        let before = self.events.len();
        for seq in charged {
            let left = self.left_of(seq).iter().sum();
            if left > 0 {
                let (nth, settle) =
                    (self.events.len() - before, self.event(seq).unwrap().kind == Kind::Settle);
                self.tag(if settle { "refund_job: a settled hold" } else { "refund_job: a charge" });
                if nth > 0 {
                    self.tag("refund_job: several charges");
                }
                self.give_usage_back(seq, left, nth == 0, now);
            }
        }
        if let Some(id) = open {
            self.tag("refund_job: an open hold");
            let alone = self.events.len() == before;
            self.take_back(id, Kind::AuthReversal, HoldStatus::Reversed, now, now, alone);
        }
        if self.events.len() == before {
            self.tag("refund_job: nothing left");
            self.note(NoteKind::JobRefunded, now);
        }
        self.events[before].job = Some((job, JobKind::Refund));
        self.expire_ended(now);
        self.within_balance()?;
        POSTED
    }

    pub fn status_allows(&self) -> Result<(), Refusal> {
        match self.book.status {
            AccountStatus::Open => Ok(()),
            AccountStatus::Blocked => Err(Refusal::AccountBlocked),
            AccountStatus::Closed => Err(Refusal::AccountClosed),
            AccountStatus::ReadOnly => {
                let debt = Some(self.book.debt).filter(|debt| *debt > 0);
                Err(Refusal::AccountReadOnly { debt: debt.map(super::credits) })
            }
        }
    }
}
