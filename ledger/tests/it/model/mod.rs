//! A naive model of the ledger, written from the design page alone.
//!
//! It keeps a list of events, each with the facts it made true, in plain millionths. The few figures that every
//! command asks for (what grants have left, debt) are folded from the facts as they are appended; everything
//! else (what was given back, who paid debt, quotas, keys, jobs) is searched in the list each time.
//!
//! `verbs` holds one function per verb, `returns` what comes back, `calendar` the dates.

mod calendar;
mod corrections;
pub mod lines;
mod money;
mod returns;
mod verbs;

use std::collections::BTreeSet;

use chrono::{DateTime, Utc};
use chrono_tz::Tz;
use ledger::Credits;
use ledger::account::AccountStatus;
use ledger::command::{CallFields, JobKind, KeyName};
use ledger::entry::{Kind, NoteKind};
use ledger::grant::Pool;
use ledger::hold::HoldStatus;
use ledger::ids::{AccountId, GrantId, HoldId, Seq};
use ledger::policy::Policy;
use ledger::quota::Quota;
use ledger::refusal::Refusal;

use crate::generate::Step;
use crate::invariants::View;

/// Millionths of a credit.
pub type Micro = i128;
pub type Instant = DateTime<Utc>;

pub fn credits(micros: Micro) -> Credits {
    Credits::from_micros(micros).unwrap()
}

#[derive(Clone, Debug)]
pub struct Grant {
    pub id: GrantId,
    pub seq: i64,
    pub pool: Pool,
    pub amount: Micro,
    pub remaining: Micro,
    pub reserved: Micro,
    pub expires: Option<Instant>,
    pub rolling: bool,
    pub voided: Option<Instant>,
}

impl Grant {
    pub fn live(&self, at: Instant) -> bool {
        self.voided.is_none() && self.expires.is_none_or(|end| at < end)
    }

    /// When it ended, or is going to.
    pub fn end(&self) -> Option<Instant> {
        match (self.voided, self.expires) {
            (Some(voided), Some(expires)) => Some(voided.min(expires)),
            (voided, expires) => voided.or(expires),
        }
    }
}

#[derive(Clone, Debug)]
pub struct Hold {
    pub id: HoldId,
    pub seq: i64,
    pub amount: Micro,
    pub parts: Vec<(GrantId, Micro)>,
    pub placed: Instant,
    pub lifetime_s: u32,
    pub expires: Instant,
    pub status: HoldStatus,
    pub settled: Micro,
    pub released: Micro,
    pub reversed: Micro,
    pub unknown: bool,
    pub ended_by: Option<i64>,
    pub late: Option<i64>,
    pub call: CallFields,
}

/// What an event made true.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Fact {
    /// Into a grant's remainder.
    Filled(GrantId, Micro),
    /// Out of a grant's remainder, gone from the customer.
    Drawn(GrantId, Micro),
    /// What was left in a grant ended.
    Lapsed(GrantId, Micro),
    /// From a grant's remainder to a hold.
    Reserved(GrantId, Micro),
    /// Out of a hold; where it went is another fact, or it was spent.
    FromHold(GrantId, Micro),
    DebtMade(Micro),
    DebtPaid(Option<GrantId>, Micro),
    WrittenOff(Micro),
    WriteOffReturned(Micro),
    /// A clawback took what had lapsed of its grant; a restore put it back there.
    LapseTaken(GrantId, Micro),
    LapseReturned(GrantId, Micro),
    Clawed(GrantId, Micro),
    Restored(GrantId, Micro),
    /// A part of what filled a grant came back because it had paid debt.
    GivenBackForDebt(GrantId, Micro),
}

/// Where a part of a charge, settle or clawback came from; one for each debit line.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum From {
    Grant(GrantId),
    Lapsed(GrantId),
    Debt,
}

#[derive(Clone, Debug)]
pub struct Event {
    pub seq: i64,
    pub set: i64,
    pub main: bool,
    pub kind: Kind,
    pub note: Option<NoteKind>,
    pub recorded: Instant,
    pub effective: Instant,
    pub facts: Vec<Fact>,
    pub parts: Vec<(From, Micro)>,
    /// Of a refund or restore: what each part of the reversed event got back.
    pub spread: Vec<Micro>,
    pub reverses: Option<i64>,
    pub hold: Option<HoldId>,
    pub key: Option<(KeyName, [u8; 32])>,
    pub job: Option<(String, JobKind)>,
    /// When, by whom and how much was used.
    pub used: Option<(Instant, CallFields, Micro)>,
    pub uncollected: Micro,
    pub available_after: Micro,
    pub held_after: Micro,
    pub debt_after: Micro,
}

impl Event {
    pub fn new(kind: Kind) -> Event {
        Event {
            seq: 0,
            set: 0,
            main: false,
            kind,
            note: None,
            recorded: DateTime::UNIX_EPOCH,
            effective: DateTime::UNIX_EPOCH,
            facts: Vec::new(),
            parts: Vec::new(),
            spread: Vec::new(),
            reverses: None,
            hold: None,
            key: None,
            job: None,
            used: None,
            uncollected: 0,
            available_after: 0,
            held_after: 0,
            debt_after: 0,
        }
    }

    pub fn note(note: NoteKind) -> Event {
        Event { note: Some(note), ..Event::new(Kind::Note) }
    }

    fn moves(&self) -> (Micro, Micro) {
        let mut sum = (0, 0);
        for fact in &self.facts {
            let (available, held) = match *fact {
                Fact::Filled(_, n) | Fact::DebtPaid(_, n) => (n, 0),
                Fact::Drawn(_, n) | Fact::Lapsed(_, n) | Fact::DebtMade(n) => (-n, 0),
                Fact::Reserved(_, n) => (-n, n),
                Fact::FromHold(_, n) => (0, -n),
                _ => (0, 0),
            };
            sum = (sum.0 + available, sum.1 + held);
        }
        sum
    }

    /// Signed change of available + held.
    pub fn amount(&self) -> Micro {
        let (available, held) = self.moves();
        available + held
    }

    /// What went between available and held.
    pub fn moved(&self) -> Micro {
        match self.kind {
            Kind::AuthHold | Kind::AuthRelease | Kind::AuthReversal => self.moves().1,
            _ => 0,
        }
    }
}

/// What a command must lead to.
#[derive(Clone, Debug, PartialEq)]
pub enum Expected {
    /// The events from this index on.
    Posted(usize),
    Replay(Seq),
    Nothing,
    Refused(Refusal),
}

pub type Verdict = Result<Expected, Refusal>;

/// What changes besides the list of events; kept so that a refusal can take it back.
#[derive(Clone, Debug)]
pub struct Book {
    pub status: AccountStatus,
    pub policy: Policy,
    pub erased: bool,
    pub grants: Vec<Grant>,
    pub holds: Vec<Hold>,
    pub debt: Micro,
    pub written_off: Micro,
}

#[derive(Clone, Debug)]
pub struct Model {
    pub account: AccountId,
    pub zone: Tz,
    pub quotas: Vec<Quota>,
    pub book: Book,
    pub events: Vec<Event>,
    /// Corners that were reached, for the report.
    pub tags: BTreeSet<&'static str>,
}

impl Model {
    pub fn new(account: AccountId, policy: Policy, zone: Tz, quotas: Vec<Quota>) -> Model {
        let book = Book {
            status: AccountStatus::Open,
            policy,
            erased: false,
            grants: Vec::new(),
            holds: Vec::new(),
            debt: 0,
            written_off: 0,
        };
        Model { account, zone, quotas, book, events: Vec::new(), tags: BTreeSet::new() }
    }

    /// Key, then lapse, then checks (rule 1). A replay and a refusal leave everything as it was.
    pub fn run(&mut self, step: &Step) -> Expected {
        let (command, now) = (&step.command, step.now);
        if let Some(name) = command.key
            && let Some(first) =
                self.events.iter().find(|event| event.key.is_some_and(|(key, _)| key == name))
        {
            let same = first.key.is_some_and(|(_, content)| content == step.content);
            return if same {
                Expected::Replay(Seq(first.seq))
            } else {
                Expected::Refused(Refusal::KeyReused)
            };
        }
        let (before, start) = (self.book.clone(), self.events.len());
        self.lapse(now);
        let verdict = self.verb(command, now).unwrap_or_else(Expected::Refused);
        if let Expected::Posted(_) = verdict {
            self.finish(step, start);
            return Expected::Posted(start);
        }
        self.book = before;
        self.events.truncate(start);
        verdict
    }

    /// What can be seen at `now`, with everything lapsed that fell due by then.
    pub fn view(&mut self, now: Instant) -> View {
        let (before, start) = (self.book.clone(), self.events.len());
        self.lapse(now);
        let seen = View { available: self.available(), held: self.held(), debt: self.book.debt };
        self.book = before;
        self.events.truncate(start);
        seen
    }

    /// The main event holds the key.
    fn finish(&mut self, step: &Step, start: usize) {
        let set = self.events[start].seq;
        for event in &mut self.events[start..] {
            event.set = set;
            if event.main {
                event.key = step.command.key.map(|name| (name, step.content));
            }
        }
    }

    /// Brings everything to `now`: what fell due goes by its instant, a hold before a grant of that instant.
    fn lapse(&mut self, now: Instant) {
        loop {
            let holds =
                self.book.holds.iter().filter(|hold| hold.status == HoldStatus::Open && hold.expires <= now);
            let hold =
                holds.min_by_key(|hold| (hold.expires, hold.seq)).map(|hold| (hold.expires, 0, hold.id.0));
            let left = self.book.grants.iter().filter(|grant| grant.remaining > 0 && !grant.live(now));
            // On an erased account all have ended, and what comes back is closed out by age.
            let end = |grant: &Grant| grant.end().filter(|_| !self.book.erased);
            let grant = left.min_by_key(|grant| (end(grant), grant.seq));
            let grant = grant.and_then(|grant| Some((grant.end()?, 1, grant.id.0)));
            match [hold, grant].into_iter().flatten().min() {
                Some((due, 0, id)) => self.expire_hold(HoldId(id), due, now),
                Some((due, _, id)) => self.expire_grant(GrantId(id), due, now),
                None => return,
            }
        }
    }

    fn expire_hold(&mut self, id: HoldId, due: Instant, now: Instant) {
        let ends = self.book.grants.iter().any(|grant| grant.reserved > 0 && grant.expires == Some(due));
        self.tag(if ends { "lapse: hold and grant at one instant" } else { "lapse: hold" });
        self.take_back(id, Kind::AuthReversal, HoldStatus::Expired, due, now, false);
    }

    /// What is left in an ended grant: it lapses, or is closed out where the account was erased.
    pub fn expire_grant(&mut self, id: GrantId, due: Instant, now: Instant) {
        let left = self.grant(id).unwrap().remaining;
        let mut event = Event { facts: vec![Fact::Lapsed(id, left)], ..Event::new(Kind::Expire) };
        if self.book.erased {
            self.tag("erased: closed out");
            event = Event { facts: vec![Fact::Drawn(id, left)], ..Event::new(Kind::Adjust) };
        }
        self.post_at(event, due, now);
    }

    /// What stands in ended grants after something came back ends again in the same set (rules 8 and 9), in the
    /// order in which it came back; on an erased account all of it is closed out at once.
    pub fn expire_ended(&mut self, now: Instant) {
        let filled = |fact: &Fact| if let Fact::Filled(id, _) = fact { Some(*id) } else { None };
        let set = self.events.iter().filter(|event| event.set == 0).skip_while(|event| !event.main);
        let came_back: Vec<GrantId> = set.flat_map(|event| &event.facts).filter_map(filled).collect();
        if self.book.erased {
            return self.close_out(now);
        }
        for id in came_back {
            let grant = self.grant(id).unwrap();
            if grant.remaining > 0 && !grant.live(now) {
                let due = grant.end().unwrap();
                self.tag("what came back ended again");
                self.expire_grant(id, due, now);
            }
        }
    }

    fn close_out(&mut self, now: Instant) {
        let left = self.book.grants.iter().filter(|grant| grant.remaining > 0);
        let facts: Vec<Fact> = left.map(|grant| Fact::Drawn(grant.id, grant.remaining)).collect();
        if !facts.is_empty() {
            self.tag("erased: closed out");
            self.post(Event { facts, ..Event::new(Kind::Adjust) }, now);
        }
    }

    /// Appends an event of now.
    pub fn post(&mut self, event: Event, now: Instant) -> i64 {
        self.post_at(event, now, now)
    }

    /// Appends an event that took effect at `due`, but never before the one before it.
    pub fn post_at(&mut self, mut event: Event, due: Instant, now: Instant) -> i64 {
        let last = self.events.last();
        event.seq = last.map_or(1, |last| last.seq + 1);
        event.recorded = now;
        event.effective = last.map_or(due, |last| due.max(last.effective));
        for fact in event.facts.clone() {
            self.fold(fact);
        }
        event.available_after = self.available();
        event.held_after = self.held();
        event.debt_after = self.book.debt;
        self.events.push(event);
        self.events.last().unwrap().seq
    }

    fn fold(&mut self, fact: Fact) {
        match fact {
            Fact::Filled(id, n) => self.grant_mut(id).remaining += n,
            Fact::Drawn(id, n) | Fact::Lapsed(id, n) => self.grant_mut(id).remaining -= n,
            Fact::Reserved(id, n) => {
                self.grant_mut(id).remaining -= n;
                self.grant_mut(id).reserved += n;
            }
            Fact::FromHold(id, n) => self.grant_mut(id).reserved -= n,
            Fact::DebtMade(n) => self.book.debt += n,
            Fact::DebtPaid(_, n) => self.book.debt -= n,
            Fact::WrittenOff(n) => self.book.written_off += n,
            Fact::WriteOffReturned(n) => self.book.written_off -= n,
            _ => {}
        }
    }

    pub fn available(&self) -> Micro {
        self.book.grants.iter().map(|grant| grant.remaining).sum::<Micro>() - self.book.debt
    }

    pub fn held(&self) -> Micro {
        self.book.grants.iter().map(|grant| grant.reserved).sum()
    }

    /// On an erased account every grant has ended.
    pub fn lives(&self, grant: &Grant, at: Instant) -> bool {
        !self.book.erased && grant.live(at)
    }

    pub fn grant(&self, id: GrantId) -> Option<&Grant> {
        self.book.grants.iter().find(|grant| grant.id == id)
    }

    pub fn grant_mut(&mut self, id: GrantId) -> &mut Grant {
        self.book.grants.iter_mut().find(|grant| grant.id == id).unwrap()
    }

    pub fn hold(&self, id: HoldId) -> Option<&Hold> {
        self.book.holds.iter().find(|hold| hold.id == id)
    }

    pub fn hold_mut(&mut self, id: HoldId) -> &mut Hold {
        self.book.holds.iter_mut().find(|hold| hold.id == id).unwrap()
    }

    pub fn event(&self, seq: i64) -> Option<&Event> {
        self.events.iter().find(|event| event.seq == seq)
    }

    /// Adds up a figure over all facts.
    pub fn total(&self, of: impl Fn(&Fact) -> Micro) -> Micro {
        self.events.iter().flat_map(|event| &event.facts).map(of).sum()
    }

    pub fn tag(&mut self, tag: &'static str) {
        self.tags.insert(tag);
    }
}
