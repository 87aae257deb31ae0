//! A draft: the account as the command leaves it so far, over a state that it borrows.
//!
//! Only the grants and holds that a command touches are copied, so that a refusal costs nothing and an account
//! with thousands of grants is not cloned for each command. The verbs write on a draft through a [`Pen`]: every
//! line moves the balance at once, and [`Draft::write`] closes the entry.

use std::collections::BTreeMap;

use chrono::{DateTime, Utc};

use super::pen::Pen;
use super::{DebtPayment, Decision, JobEntry, Ruling, Signal, State};
use crate::account::{AccountStatus, Head};
use crate::command::{Actor, CallFields, Command, JobKind, KeyStamp};
use crate::credits::Credits;
use crate::entry::{Answer, Entry, EntrySet, Kind, Use, Words};
use crate::grant::{Grant, GrantView};
use crate::hold::{Hold, HoldView};
use crate::ids::{GrantId, HoldId, Seq};
use crate::limits::balance_max;
use crate::policy::Policy;
use crate::refusal::{Limit, Missing, Refusal};

/// Who speaks in the entry that is written next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// What fell due before the command: by the lapse worker, each at its own instant.
    Lapsing,
    /// The next entry is the main one: it carries the key, the words and the answer.
    Main,
    /// What follows from the main entry: by the command's actor.
    Following,
}

/// The command behind a draft. A view of an instant has none.
#[derive(Clone, Copy, Debug)]
pub(super) struct Author<'a> {
    pub command: &'a Command,
    pub stamp: Option<KeyStamp>,
}

#[derive(Debug)]
pub(super) struct Draft<'a> {
    pub state: &'a State,
    pub author: Option<Author<'a>>,
    pub now: DateTime<Utc>,
    /// The instant that liveness goes by: `now`, but for a lapse the instant it fell due.
    pub at: DateTime<Utc>,
    pub phase: Phase,
    pub head: Head,
    pub status: AccountStatus,
    pub policy: Policy,
    pub erased: bool,
    pub jobs: Vec<(String, JobKind, JobEntry)>,
    /// Debt that entries of this draft paid out of grants, oldest first.
    pub payments: Vec<DebtPayment>,
    /// Ended grants that got something back and have not yet ended again.
    pub came_back: Vec<GrantId>,
    /// What the main entry's answer shows, as the whole set leaves it.
    pub shown_grant: Option<GrantId>,
    pub shown_hold: Option<HoldId>,
    grants: BTreeMap<GrantId, Grant>,
    holds: BTreeMap<HoldId, Hold>,
    entries: Vec<Entry>,
    signals: Vec<Signal>,
}

impl<'a> Draft<'a> {
    pub fn new(state: &'a State, author: Option<Author<'a>>, now: DateTime<Utc>) -> Draft<'a> {
        Draft {
            state,
            author,
            now,
            at: now,
            phase: Phase::Lapsing,
            head: state.head.clone(),
            status: state.status,
            policy: state.policy.clone(),
            erased: state.erased,
            jobs: Vec::new(),
            payments: Vec::new(),
            came_back: Vec::new(),
            shown_grant: None,
            shown_hold: None,
            grants: BTreeMap::new(),
            holds: BTreeMap::new(),
            entries: Vec::new(),
            signals: Vec::new(),
        }
    }

    /// The call fields of the command.
    pub fn call(&self) -> CallFields {
        self.author.map(|author| author.command.call.clone()).unwrap_or_default()
    }

    /// The call fields of what the command refers to, with its own request id where it names one.
    pub fn call_of(&self, original: &CallFields) -> CallFields {
        let mut call = original.clone();
        if let Some(author) = self.author
            && author.command.call.request_ref.is_some()
            && self.phase != Phase::Lapsing
        {
            call.request_ref.clone_from(&author.command.call.request_ref);
        }
        call
    }

    pub fn occurred_at(&self) -> Option<DateTime<Utc>> {
        self.author.and_then(|author| author.command.occurred_at)
    }

    pub fn next_seq(&self) -> Seq {
        self.head.seq.next()
    }

    /// Whether an entry stands in the journal already, and not only in this draft.
    pub fn is_written(&self, seq: Seq) -> bool {
        seq <= self.state.head.seq
    }

    // Grants and holds, as far as this draft has brought them.

    pub fn grant(&self, id: GrantId) -> Option<&Grant> {
        self.grants.get(&id).or_else(|| self.state.grants.get(&id))
    }

    pub fn known_grant(&self, id: GrantId) -> Result<&Grant, Refusal> {
        self.grant(id).ok_or(Refusal::NotFound { what: Missing::Grant })
    }

    pub fn grant_mut(&mut self, id: GrantId) -> Result<&mut Grant, Refusal> {
        match self.grants.entry(id) {
            std::collections::btree_map::Entry::Occupied(touched) => Ok(touched.into_mut()),
            std::collections::btree_map::Entry::Vacant(free) => {
                let grant = self.state.grants.get(&id).ok_or(Refusal::NotFound { what: Missing::Grant })?;
                Ok(free.insert(grant.clone()))
            }
        }
    }

    pub fn add_grant(&mut self, grant: Grant) {
        self.grants.insert(grant.id, grant);
    }

    /// All grants; the touched ones as this draft has them.
    pub fn all_grants(&self) -> impl Iterator<Item = &Grant> {
        let none_touched = self.grants.is_empty();
        let untouched = self
            .state
            .grants
            .values()
            .filter(move |grant| none_touched || !self.grants.contains_key(&grant.id));
        untouched.chain(self.grants.values())
    }

    /// Liveness at the draft's instant. On an erased account every grant has ended.
    pub fn is_live(&self, grant: &Grant) -> bool {
        !self.erased && grant.is_live(self.at)
    }

    pub fn live_grant(&self, id: GrantId) -> Result<&Grant, Refusal> {
        let grant = self.known_grant(id)?;
        if self.is_live(grant) { Ok(grant) } else { Err(Refusal::GrantEnded) }
    }

    pub fn hold(&self, id: HoldId) -> Option<&Hold> {
        self.holds.get(&id).or_else(|| self.state.holds.get(&id))
    }

    pub fn known_hold(&self, id: HoldId) -> Result<&Hold, Refusal> {
        self.hold(id).ok_or(Refusal::NotFound { what: Missing::Hold })
    }

    pub fn hold_mut(&mut self, id: HoldId) -> Result<&mut Hold, Refusal> {
        match self.holds.entry(id) {
            std::collections::btree_map::Entry::Occupied(touched) => Ok(touched.into_mut()),
            std::collections::btree_map::Entry::Vacant(free) => {
                let hold = self.state.holds.get(&id).ok_or(Refusal::NotFound { what: Missing::Hold })?;
                Ok(free.insert(hold.clone()))
            }
        }
    }

    pub fn add_hold(&mut self, hold: Hold) {
        self.holds.insert(hold.id, hold);
    }

    pub fn all_holds(&self) -> impl Iterator<Item = &Hold> {
        let untouched = self.state.holds.values().filter(|hold| !self.holds.contains_key(&hold.id));
        untouched.chain(self.holds.values())
    }

    // Entries.

    pub fn pen(&self, kind: Kind) -> Pen {
        Pen::new(kind, &self.head)
    }

    /// Closes an entry: numbers, times, balances, running totals. Answers with its number.
    pub fn write(&mut self, pen: Pen) -> Result<Seq, Refusal> {
        let before = pen.available_before.plus(pen.held_before)?;
        let amount = self.head.available.plus(self.head.held)?.minus(before)?;
        let moved = match pen.kind {
            Kind::AuthHold | Kind::AuthRelease | Kind::AuthReversal => {
                self.head.held.minus(pen.held_before)?
            }
            _ => Credits::ZERO,
        };
        let kind = pen.kind.index();
        let totals = &mut self.head.totals;
        totals.amount[kind] = totals.amount[kind].plus(amount)?;
        totals.moved[kind] = totals.moved[kind].plus(moved)?;
        let seq = self.next_seq();
        self.head.seq = seq;
        self.head.recorded_at = self.now;
        self.head.effective_at = self.head.effective_at.max(self.at);
        let mut entry = self.entry(pen, seq, amount, moved);
        entry.stamp_totals(&self.head.totals);
        self.entries.push(entry);
        if self.phase == Phase::Main {
            self.phase = Phase::Following;
        }
        Ok(seq)
    }

    fn entry(&self, pen: Pen, seq: Seq, amount: Credits, moved: Credits) -> Entry {
        let author = self.author.filter(|_| self.phase != Phase::Lapsing);
        let main = author.filter(|_| self.phase == Phase::Main);
        Entry {
            account: self.state.account,
            seq,
            kind: pen.kind,
            note: pen.note,
            set_seq: self.state.head.seq.next(),
            is_main: main.is_some(),
            amount,
            moved,
            lines: pen.lines,
            available_after: self.head.available,
            held_after: self.head.held,
            debt_after: self.head.debt,
            amount_total: Credits::ZERO,
            moved_total: Credits::ZERO,
            occurred_at: match author {
                Some(author) => author.command.occurred_at.unwrap_or(self.now),
                None => self.head.effective_at,
            },
            recorded_at: self.now,
            effective_at: self.head.effective_at,
            actor: author.map_or_else(|| Actor::worker("lapse"), |author| author.command.actor.clone()),
            key: main.and_then(|author| author.stamp),
            call: pen.call,
            hold: pen.hold,
            reverses: pen.reverses,
            usage: pen.usage,
            answer: pen.answer,
            words: main.map_or_else(Words::default, |author| author.command.words.clone()),
            words_digest: None,
            hash: [0; 32],
        }
    }

    /// Changes of use by entries of this draft.
    pub fn lapsed_uses(&self) -> impl Iterator<Item = (&CallFields, Use)> {
        self.entries.iter().filter_map(|entry| Some((&entry.call, entry.usage?)))
    }

    pub fn signal(&mut self, signal: Signal) {
        self.signals.push(signal);
    }

    /// The main entry's answer, once it is written.
    pub fn answer_mut(&mut self) -> Option<&mut Answer> {
        self.entries.iter_mut().find(|entry| entry.is_main).map(|entry| &mut entry.answer)
    }

    /// The draft as a decision, with the main entry's answer as the whole set left it.
    pub fn finish(mut self) -> Result<Ruling, Refusal> {
        if self.entries.is_empty() {
            return Ok(Ruling::Nothing);
        }
        self.refuse_above_balance_max()?;
        let grant =
            self.shown_grant.and_then(|id| self.grant(id)).map(|grant| GrantView::of(grant, self.now));
        let hold = self.shown_hold.and_then(|id| self.hold(id)).map(HoldView::of);
        if let Some(answer) = self.answer_mut() {
            answer.grant = grant.or(answer.grant.take());
            answer.hold = hold.or(answer.hold.take());
        }
        self.signal_crossing();
        Ok(Ruling::Post(Decision {
            set: EntrySet { entries: self.entries },
            head: self.head,
            status: self.status,
            policy: self.policy,
            grants: self.grants.into_values().collect(),
            holds: self.holds.into_values().collect(),
            jobs: self.jobs,
            signals: self.signals,
        }))
    }

    /// The grants and holds this draft changed.
    pub fn into_changed(self) -> (Head, Vec<Grant>, Vec<Hold>) {
        (self.head, self.grants.into_values().collect(), self.holds.into_values().collect())
    }

    /// The limit stands in the way of what comes in. A settle never raises a balance, so it never meets it.
    fn refuse_above_balance_max(&self) -> Result<(), Refusal> {
        let before = self.state.head.available.plus(self.state.head.held)?;
        let after = self.head.available.plus(self.head.held)?;
        if after > balance_max() && after > before {
            return Err(Refusal::LimitExceeded { limit: Limit::Balance });
        }
        Ok(())
    }

    /// One signal of each at most for a set, however often it crossed zero or the threshold on its way.
    fn signal_crossing(&mut self) {
        let crossed = match self.crossed(Credits::ZERO) {
            Some((seq, true)) => Some(Signal::BelowZero { seq }),
            Some((seq, false)) => Some(Signal::AboveZero { seq }),
            None => None,
        };
        self.signals.extend(crossed);
        if let Some(threshold) = self.policy.low_balance
            && let Some((seq, true)) = self.crossed(threshold)
        {
            self.signals.push(Signal::ThresholdCrossed { seq, threshold, available: self.head.available });
        }
    }

    /// Where the set leaves available on the other side of a bound: the entry that last crossed it, and whether
    /// available is below it now.
    fn crossed(&self, bound: Credits) -> Option<(Seq, bool)> {
        let started_below = self.state.head.available < bound;
        let is_below = self.head.available < bound;
        if started_below == is_below {
            return None;
        }
        let mut below = started_below;
        let mut crossed = self.head.seq;
        for entry in &self.entries {
            if (entry.available_after < bound) != below {
                below = !below;
                crossed = entry.seq;
            }
        }
        Some((crossed, is_below))
    }
}
