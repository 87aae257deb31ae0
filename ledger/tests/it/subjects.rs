//! The pure core as a subject, in two ways.
//!
//! `Core` keeps one state and lets every decision be applied to it. `Tables` keeps what a database would: rows of
//! grants and holds, the account's head, and the journal. Before each round of commands it loads a state with no
//! more than the commands' needs name, so that a decision that leans on anything else is found here.

use std::collections::BTreeMap;

use ledger::Credits;
use ledger::account::{AccountStatus, Head};
use ledger::command::{Command, JobKind};
use ledger::decide::{
    DebtPayment, Decision, JobEntry, KeyUse, Needs, Original, Ruling, Signal, State, decide,
};
use ledger::entry::{DebtMark, Entry, Kind, NoteKind};
use ledger::grant::Grant;
use ledger::hold::{Hold, HoldStatus};
use ledger::ids::{GrantId, HoldId, Seq};
use ledger::policy::Policy;
use ledger::quota::{Subject as Named, Window};
use ledger::refusal::Refusal;

use crate::generate::History;
use crate::histories::{Ran, Subject};
use crate::invariants::{Snapshot, View};
use crate::model::Instant;

fn empty_state(history: &History) -> State {
    State {
        quotas: history.quotas.clone(),
        ..State::empty(history.account, history.policy.clone(), history.zone)
    }
}

/// What the state shows, lapsed in memory.
fn view(state: &State, at: Instant) -> Option<View> {
    let lapsed = state.lapsed_view(at).unwrap();
    let [available, held, debt] = [lapsed.available, lapsed.held, lapsed.debt].map(Credits::micros);
    Some(View { available, held, debt })
}

/// The outbox of a set, from its entries alone, but for crossings of zero.
fn signals(set: &[Entry]) -> Vec<Signal> {
    let mut signals = Vec::new();
    for entry in set {
        let seq = entry.seq;
        let makes = matches!(entry.kind, Kind::Topup | Kind::Adjust);
        if let Some(grant) = entry.credit_lines().find_map(|line| line.grant).filter(|_| makes) {
            signals.push(Signal::GrantMade { seq, grant });
        }
        if let Some(hold) = entry.hold.filter(|_| entry.answer.late) {
            signals.push(Signal::LateSettle { seq, hold });
        }
        if entry.kind == Kind::Expire {
            let lapsed = entry.debit_lines().filter_map(|line| Some((line.grant?, line.amount)));
            signals.extend(lapsed.map(|(grant, amount)| Signal::Lapsed { seq, grant, amount }));
        }
    }
    signals
}

/// A set that leads from 0 or more to below says so once, and the other way round; and one that leads from the
/// policy's threshold or more to below it.
fn must_signal(before: Credits, decision: &Decision) {
    let crossing = |signal: &&Signal| matches!(signal, Signal::BelowZero { .. } | Signal::AboveZero { .. });
    let (crossings, others): (Vec<&Signal>, Vec<&Signal>) = decision.signals.iter().partition(crossing);
    let low = |signal: &&Signal| matches!(signal, Signal::ThresholdCrossed { .. });
    let (lows, others): (Vec<&Signal>, Vec<&Signal>) = others.into_iter().partition(low);
    let falls = |bound: Credits| before >= bound && decision.head.available < bound;
    let expected = usize::from(decision.policy.low_balance.is_some_and(falls));
    assert_eq!(lows.len(), expected, "signals: {lows:?}, available was {before}");
    assert_eq!(others, signals(&decision.set.entries).iter().collect::<Vec<_>>(), "signals");
    let crossed = match (before.is_negative(), decision.head.available.is_negative()) {
        (false, true) => matches!(crossings[..], [Signal::BelowZero { .. }]),
        (true, false) => matches!(crossings[..], [Signal::AboveZero { .. }]),
        _ => crossings.is_empty(),
    };
    assert!(crossed, "signals: {crossings:?}, available was {before}");
}

pub struct Core {
    pub state: State,
}

impl Core {
    pub fn new(history: &History) -> Core {
        Core { state: empty_state(history) }
    }
}

impl Subject for Core {
    fn run(&mut self, command: &Command, now: Instant) -> Result<Ran, Refusal> {
        match decide(&self.state, command, now)? {
            Ruling::Post(decision) => {
                must_signal(self.state.head.available, &decision);
                self.state.apply(&decision);
                Ok(Ran::Posted(decision.set.entries))
            }
            Ruling::Replay(seq) => Ok(Ran::Replayed(seq)),
            Ruling::Nothing => Ok(Ran::Nothing),
        }
    }

    fn snapshot(&self) -> Snapshot {
        Snapshot {
            status: self.state.status,
            policy: self.state.policy.name.clone(),
            head: self.state.head.clone(),
            grants: self.state.grants.values().cloned().collect(),
            holds: self.state.holds.values().cloned().collect(),
        }
    }

    fn view(&self, at: Instant) -> Option<View> {
        view(&self.state, at)
    }
}

pub struct Tables {
    blank: State,
    status: AccountStatus,
    policy: Policy,
    head: Head,
    grants: BTreeMap<GrantId, Grant>,
    holds: BTreeMap<HoldId, Hold>,
    journal: Vec<Entry>,
    /// What is still to come, in rounds: the commands that are decided on one loaded state.
    rounds: Vec<Vec<Command>>,
    loaded: Option<(State, usize)>,
}

impl Tables {
    /// Rounds of 1, 2, 3, 1, 2, 3 … commands.
    pub fn new(history: &History) -> Tables {
        let (mut rounds, mut rest) = (Vec::new(), history.steps.as_slice());
        while !rest.is_empty() {
            let (round, later) = rest.split_at(rest.len().min(1 + rounds.len() % 3));
            rounds.push(round.iter().map(|step| step.command.clone()).collect());
            rest = later;
        }
        rounds.reverse();
        Tables {
            blank: empty_state(history),
            status: AccountStatus::Open,
            policy: history.policy.clone(),
            head: Head::empty(),
            grants: BTreeMap::new(),
            holds: BTreeMap::new(),
            journal: Vec::new(),
            rounds,
            loaded: None,
        }
    }

    fn state(&mut self) -> State {
        if let Some((state, left)) = self.loaded.take() {
            self.loaded = (left > 1).then(|| (state.clone(), left - 1));
            return state;
        }
        let round = self.rounds.pop().unwrap();
        let mut needs = Needs::default();
        round.iter().for_each(|command| needs.add(command));
        let state = self.load(&needs);
        self.loaded = (round.len() > 1).then(|| (state.clone(), round.len() - 1));
        state
    }

    fn write(&mut self, decision: &Decision) {
        self.status = decision.status;
        self.policy = decision.policy.clone();
        self.head = decision.head.clone();
        self.grants.extend(decision.grants.iter().map(|grant| (grant.id, grant.clone())));
        self.holds.extend(decision.holds.iter().map(|hold| (hold.id, hold.clone())));
        self.journal.extend(decision.set.entries.iter().cloned());
        if let Some((state, _)) = &mut self.loaded {
            state.apply(decision);
        }
    }

    fn load(&self, needs: &Needs) -> State {
        let mut state = self.blank.clone();
        state.status = self.status;
        state.policy = self.policy.clone();
        state.head = self.head.clone();
        state.erased = self.journal.iter().any(|entry| entry.note == Some(NoteKind::Erased));
        self.load_jobs(needs, &mut state);
        for seq in needs.entries.iter().chain(&self.refundable_of_jobs(needs)) {
            if let Some(original) = self.original(*seq) {
                state.originals.insert(*seq, original);
            }
        }
        for id in &needs.clawbacks_of {
            let of = |entry: &&Entry| entry.kind == Kind::Clawback && names(entry, *id);
            let clawbacks = self.journal.iter().filter(of).filter_map(|entry| self.original(entry.seq));
            state.clawbacks.insert(*id, clawbacks.collect());
        }
        for id in &needs.voids_of {
            if let Some(void) =
                self.journal.iter().find(|entry| entry.kind == Kind::Void && names(entry, *id))
            {
                state.voids.insert(*id, void.seq);
            }
        }
        if !state.originals.is_empty() || state.clawbacks.values().any(|of| !of.is_empty()) {
            state.debt_payments = self.debt_payments();
        }
        self.load_keys(needs, &mut state);
        self.load_uses(needs, &mut state);
        self.load_rows(needs, &mut state);
        state
    }

    /// Live, due, named and touched grants; open and named holds.
    fn load_rows(&self, needs: &Needs, state: &mut State) {
        let mut touched: Vec<GrantId> = needs.grants.iter().copied().collect();
        let originals = state.originals.values().chain(state.clawbacks.values().flatten());
        touched.extend(originals.flat_map(|original| &original.entry.lines).filter_map(|line| line.grant));
        touched.extend(state.debt_payments.iter().map(|payment| payment.grant));
        for grant in self.grants.values() {
            let has = grant.remaining.is_positive() || grant.reserved.is_positive();
            if has || touched.contains(&grant.id) || (needs.rolling && grant.rolling) {
                state.grants.insert(grant.id, grant.clone());
            }
        }
        let of_jobs: Vec<HoldId> = state.jobs.values().filter_map(|job| job.hold).collect();
        for hold in self.holds.values() {
            let open = hold.status == HoldStatus::Open;
            if open || needs.holds.contains(&hold.id) || of_jobs.contains(&hold.id) {
                state.holds.insert(hold.id, hold.clone());
            }
        }
    }

    fn original(&self, seq: Seq) -> Option<Original> {
        let entry = self.journal.iter().find(|entry| entry.seq == seq)?;
        let mut given_back = vec![0; entry.debit_lines().count()];
        let backs = |other: &&Entry| {
            matches!(other.kind, Kind::Refund | Kind::Restore) && other.reverses == Some(seq)
        };
        for back in self.journal.iter().filter(backs) {
            for (given, share) in given_back.iter_mut().zip(&back.answer.spread) {
                *given += share.micros();
            }
        }
        let given_back = given_back.into_iter().map(crate::model::credits).collect();
        Some(Original { entry: entry.clone(), given_back })
    }

    /// Of payers that may still get something back.
    fn debt_payments(&self) -> Vec<DebtPayment> {
        let lines = self.journal.iter().flat_map(|entry| entry.lines.iter().map(move |line| (entry, line)));
        let pays = lines.filter(|(_, line)| line.debt == DebtMark::Pays);
        let payments = pays.filter_map(|(entry, line)| {
            Some(DebtPayment { seq: entry.seq, grant: line.grant?, amount: line.amount })
        });
        let open = |payment: &DebtPayment| {
            let payer = self.grants.get(&payment.grant);
            payer.is_some_and(|grant| grant.given_back_for_debt < grant.paid_to_debt)
        };
        payments.filter(open).collect()
    }

    /// The newest entry of each kind; of charges and holds the newest that counts, else the newest.
    fn load_jobs(&self, needs: &Needs, state: &mut State) {
        let mut counted = Vec::new();
        for entry in self.journal.iter().filter(|entry| entry.is_main) {
            let (Some(job), Some(kind)) = (&entry.call.job_id, job_kind(entry)) else { continue };
            if !needs.jobs.contains(job) {
                continue;
            }
            let name = (job.clone(), kind);
            let hold = entry.hold.filter(|_| entry.kind == Kind::AuthHold);
            let counts = hold.and_then(|id| self.holds.get(&id)).is_none_or(|hold| {
                matches!(hold.status, HoldStatus::Open | HoldStatus::Settled) || hold.late_settle.is_some()
            });
            if counts || !counted.contains(&name) {
                let job = JobEntry { seq: entry.seq, hold, recorded_at: entry.recorded_at };
                state.jobs.insert(name.clone(), job);
            }
            if counts {
                counted.push(name);
            }
        }
    }

    /// The charges of jobs to be refunded, and the settles of their holds.
    fn refundable_of_jobs(&self, needs: &Needs) -> Vec<Seq> {
        let main = self.journal.iter().filter(|entry| entry.is_main);
        let of_jobs = main
            .filter(|entry| entry.call.job_id.as_ref().is_some_and(|job| needs.refund_jobs.contains(job)));
        of_jobs
            .flat_map(|entry| match (entry.kind, entry.hold.and_then(|id| self.holds.get(&id))) {
                (Kind::Consume, _) => vec![entry.seq],
                (Kind::AuthHold, Some(hold)) => hold.ended_by.into_iter().chain(hold.late_settle).collect(),
                _ => Vec::new(),
            })
            .collect()
    }

    fn load_keys(&self, needs: &Needs, state: &mut State) {
        for entry in &self.journal {
            if let Some(stamp) = entry.key.filter(|stamp| needs.keys.contains(&(stamp.origin, stamp.key))) {
                state
                    .keys
                    .insert((stamp.origin, stamp.key), KeyUse { seq: entry.seq, content: stamp.content });
            }
        }
    }

    fn load_uses(&self, needs: &Needs, state: &mut State) {
        for entry in &self.journal {
            let Some(used) = entry.usage else { continue };
            for subject in Named::of(&entry.call).filter(|subject| needs.subjects.contains(subject)) {
                for window in [Window::Day, Window::Month, Window::Total] {
                    let start = window.start(used.at, self.blank.time_zone);
                    let sum = state.uses.entry((subject.clone(), window, start)).or_insert(Credits::ZERO);
                    *sum = sum.plus(used.amount).unwrap();
                }
            }
        }
    }
}

/// Clawbacks and voids are found by the grant that their answer shows.
fn names(entry: &Entry, id: GrantId) -> bool {
    entry.answer.grant.as_ref().is_some_and(|grant| grant.id == id)
}

fn job_kind(entry: &Entry) -> Option<JobKind> {
    match (entry.kind, entry.note) {
        _ if entry.answer.job_refund => Some(JobKind::Refund),
        (Kind::Consume | Kind::AuthHold, _) => Some(JobKind::Charge),
        (_, Some(NoteKind::JobStarted)) => Some(JobKind::Started),
        (_, Some(NoteKind::JobCompleted)) => Some(JobKind::Completed),
        (_, Some(NoteKind::JobFailed)) => Some(JobKind::Failed),
        _ => None,
    }
}

impl Subject for Tables {
    fn run(&mut self, command: &Command, now: Instant) -> Result<Ran, Refusal> {
        let state = self.state();
        match decide(&state, command, now)? {
            Ruling::Post(decision) => {
                self.write(&decision);
                Ok(Ran::Posted(decision.set.entries))
            }
            Ruling::Replay(seq) => Ok(Ran::Replayed(seq)),
            Ruling::Nothing => Ok(Ran::Nothing),
        }
    }

    fn snapshot(&self) -> Snapshot {
        Snapshot {
            status: self.status,
            policy: self.policy.name.clone(),
            head: self.head.clone(),
            grants: self.grants.values().cloned().collect(),
            holds: self.holds.values().cloned().collect(),
        }
    }

    fn view(&self, at: Instant) -> Option<View> {
        view(&self.load(&Needs::default()), at)
    }
}
