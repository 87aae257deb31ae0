//! What [`Needs`] names is enough: a state cut down to it, as the store loads it, is decided like the whole.

use std::collections::{BTreeMap, BTreeSet};

use super::Bench;
use crate::command::{Command, JobKind};
use crate::credits::Credits;
use crate::decide::{DebtPayment, Needs, Original, State};
use crate::entry::{DebtMark, Entry, Kind};
use crate::ids::GrantId;

impl Bench {
    /// The state as the store would load it for this one command, out of the journal and the rows beside it.
    pub fn loaded(&self, command: &Command) -> State {
        let mut needs = Needs::default();
        needs.add(command);
        let full = &self.state;
        let mut state = full.clone();
        state.jobs.retain(|(job, _), _| needs.jobs.contains(job));
        state.keys.retain(|key, _| needs.keys.contains(key));
        state.voids.retain(|grant, _| needs.voids_of.contains(grant));
        state.quotas.retain(|quota| needs.subjects.contains(&quota.subject));
        state.uses.retain(|(subject, ..), _| needs.subjects.contains(subject));
        state.holds.retain(|id, hold| {
            let of_job = hold.call.job_id.as_ref().is_some_and(|job| needs.jobs.contains(job));
            hold.ended_by.is_none() || needs.holds.contains(id) || of_job
        });
        self.load_originals(&needs, &mut state);
        self.load_grants(&needs, &mut state);
        state
    }

    fn load_originals(&self, needs: &Needs, state: &mut State) {
        let of_job = |entry: &&Entry| {
            matches!(entry.kind, Kind::Consume | Kind::Settle)
                && entry.call.job_id.as_ref().is_some_and(|job| needs.refund_jobs.contains(job))
        };
        let of_grant = |entry: &&Entry| {
            let grant = entry.answer.grant.as_ref().map(|grant| grant.id);
            entry.kind == Kind::Clawback && grant.is_some_and(|grant| needs.clawbacks_of.contains(&grant))
        };
        let named = |entry: &&Entry| needs.entries.contains(&entry.seq) || of_job(entry);
        let with_given_back = |entry: &Entry| {
            let mut original = Original::of(entry);
            let backs = self.journal.iter().filter(|back| matches!(back.kind, Kind::Refund | Kind::Restore));
            for back in backs.filter(|back| back.reverses == Some(entry.seq)) {
                original.add_given_back(&back.answer.spread);
            }
            original
        };
        state.originals =
            self.journal.iter().filter(named).map(|entry| (entry.seq, with_given_back(entry))).collect();
        state.clawbacks = BTreeMap::new();
        for entry in self.journal.iter().filter(of_grant) {
            let id = entry.answer.grant.as_ref().unwrap().id;
            state.clawbacks.entry(id).or_default().push(with_given_back(entry));
        }
        let undone = !state.originals.is_empty() || !state.clawbacks.is_empty();
        state.debt_payments = if undone { self.payments_owed() } else { Vec::new() };
    }

    fn payments_owed(&self) -> Vec<DebtPayment> {
        let owed = |grant: GrantId| {
            let grant = &self.state.grants[&grant];
            grant.paid_to_debt > grant.given_back_for_debt
        };
        let mut payments = Vec::new();
        for entry in &self.journal {
            for line in entry.lines.iter().filter(|line| line.debt == DebtMark::Pays) {
                let payer = line.grant.filter(|grant| owed(*grant));
                payments.extend(payer.map(|grant| DebtPayment {
                    seq: entry.seq,
                    grant,
                    amount: line.amount,
                }));
            }
        }
        payments
    }

    fn load_grants(&self, needs: &Needs, state: &mut State) {
        let originals = state.originals.values().chain(state.clawbacks.values().flatten());
        let lines = originals.flat_map(|original| &original.entry.lines);
        let touched: BTreeSet<GrantId> = lines
            .filter_map(|line| line.grant)
            .chain(state.debt_payments.iter().map(|payment| payment.grant))
            .collect();
        state.grants.retain(|id, grant| {
            let open = grant.remaining != Credits::ZERO || grant.reserved != Credits::ZERO;
            let rolls = needs.rolling && grant.rolling && grant.is_live(self.now);
            open || rolls || touched.contains(id) || needs.grants.contains(id)
        });
    }
}

#[test]
fn a_refund_of_a_job_needs_no_more_than_its_name() {
    let mut bench = Bench::new();
    bench.paid("10");
    bench.call.job_id = Some("j".into());
    bench.charge("10");
    let command = bench.command(crate::command::Verb::RefundJob);
    let loaded = bench.loaded(&command);
    assert_eq!(loaded.jobs.keys().map(|(_, kind)| *kind).collect::<Vec<_>>(), [JobKind::Charge]);
    let now = bench.now;
    assert_eq!(super::super::decide(&loaded, &command, now), bench.decide(&command));
}
