//! Putting a decision into the state, so that the round's next command is decided on what it left.

use super::{DebtPayment, Decision, KeyUse, Original, State};
use crate::credits::Credits;
use crate::entry::{DebtMark, Entry, Kind, NoteKind};
use crate::quota::Subject;

impl State {
    /// Everything later commands of the round may ask for follows from the decision alone; nothing is loaded again.
    pub fn apply(&mut self, decision: &Decision) {
        self.apply_basics(decision);
        self.jobs.extend(decision.jobs.iter().map(|(job, kind, entry)| ((job.clone(), *kind), *entry)));
        for entry in &decision.set.entries {
            self.apply_facts(entry);
        }
    }

    /// As [`State::apply`], for rounds in which nothing is given back, undone or bound by a job or quota: such commands ask for
    /// the head, grants, holds and keys alone.
    pub fn apply_basics(&mut self, decision: &Decision) {
        self.head.clone_from(&decision.head);
        self.status = decision.status;
        if self.policy != decision.policy {
            self.policy.clone_from(&decision.policy);
        }
        self.grants.extend(decision.grants.iter().map(|grant| (grant.id, grant.clone())));
        self.holds.extend(decision.holds.iter().map(|hold| (hold.id, hold.clone())));
        for entry in &decision.set.entries {
            if let Some(stamp) = entry.key {
                let used = KeyUse { seq: entry.seq, content: stamp.content };
                self.keys.insert((stamp.origin, stamp.key), used);
            }
        }
    }

    fn apply_facts(&mut self, entry: &Entry) {
        let payments = entry.lines.iter().filter(|line| line.debt == DebtMark::Pays);
        self.debt_payments.extend(payments.filter_map(|line| {
            let grant = line.grant?;
            Some(DebtPayment { seq: entry.seq, grant, amount: line.amount })
        }));
        self.apply_use(entry);
        match entry.kind {
            Kind::Consume | Kind::Settle => {
                self.originals.insert(entry.seq, Original::of(entry));
            }
            Kind::Refund => {
                if let Some(original) = entry.reverses.and_then(|seq| self.originals.get_mut(&seq)) {
                    original.add_given_back(&entry.answer.spread);
                }
            }
            Kind::Clawback => {
                if let Some(grant) = &entry.answer.grant {
                    self.clawbacks.entry(grant.id).or_default().push(Original::of(entry));
                }
            }
            Kind::Restore => {
                let mut clawbacks = self.clawbacks.values_mut().flatten();
                if let Some(clawback) = clawbacks.find(|clawback| Some(clawback.entry.seq) == entry.reverses)
                {
                    clawback.add_given_back(&entry.answer.spread);
                }
            }
            Kind::Void => {
                if let Some(grant) = &entry.answer.grant {
                    self.voids.insert(grant.id, entry.seq);
                }
            }
            Kind::Note if entry.note == Some(NoteKind::Erased) => self.erased = true,
            _ => {}
        }
    }

    /// Use is kept for the windows that a quota asks for.
    fn apply_use(&mut self, entry: &Entry) {
        let Some(used) = entry.usage else { return };
        for subject in Subject::of(&entry.call) {
            for quota in self.quotas.iter().filter(|quota| quota.subject == subject) {
                let start = quota.window.start(used.at, self.time_zone);
                let sum = self.uses.entry((subject.clone(), quota.window, start)).or_default();
                *sum = sum.plus(used.amount).unwrap_or(*sum);
            }
        }
    }
}

impl Original {
    /// An entry of which nothing was given back yet.
    pub fn of(entry: &Entry) -> Original {
        Original { entry: entry.clone(), given_back: vec![Credits::ZERO; entry.debit_lines().count()] }
    }

    /// Adds what a REFUND or RESTORE gave back of each part: its answer's `spread`.
    pub fn add_given_back(&mut self, spread: &[Credits]) {
        for (sum, share) in self.given_back.iter_mut().zip(spread) {
            *sum = sum.plus(*share).unwrap_or(*sum);
        }
    }
}
