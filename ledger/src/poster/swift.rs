//! The short way of a round: decided on what the lane remembers, and written by a statement that first makes sure that
//! the memory is true.
//!
//! A round of the usual commands, charges and what becomes of open holds, needs nothing from the database but to know that
//! nobody else wrote in the meantime. So it is decided before it asks, on accounts that are remembered or were read without a lock. The
//! one statement of step 5 updates the accounts first, each only where its last entry is the one that was decided on; it asks whether
//! policies, quotas and the clock are as they were, and the index of idempotency keys refuses one that is taken. A charge alone costs
//! one round trip that way, two where its account is not remembered.
//!
//! Where anything is otherwise, or an account is locked elsewhere, nothing of the statement stands, the accounts are forgotten, and the
//! round takes its six steps; so do the next rounds for a moment, since whoever wrote will write again. Refusals write nothing that could
//! fail, so what they rest on is asked for before. Nothing that is written or answered was decided on a state that was not the newest.
//!
//! The instant is the database's, as it was heard with the round before, at most a second ago, and followed since.

use std::collections::{BTreeMap, BTreeSet};

use chrono::{DateTime, Utc};
use sqlx::{Connection, PgConnection};

use super::desk::{Desk, Verdict};
use super::memory::{Memory, Now};
use super::round::{RoundFailure, seqs};
use crate::command::{Command, KeyName, Verb};
use crate::decide::State;
use crate::ids::{AccountId, HoldId, Seq};
use crate::quota::Subject;
use crate::store::StoreError;
use crate::store::accounts;
use crate::store::load::States;
use crate::store::lock::PolicyCache;
use crate::store::write::{self, Gate, Outcome, Written};

/// Runs the round the short way. `None`: it cannot go that way, and nothing was written.
pub(crate) async fn run(
    connection: &mut PgConnection,
    policies: &mut PolicyCache,
    memory: &mut Memory,
    commands: &[&Command],
    decided: &mut Vec<bool>,
) -> Result<Option<Vec<Verdict>>, RoundFailure> {
    let is_open = !matches!(memory.now(), Now::Test) && !memory.is_doubtful();
    if !is_open || !commands.iter().all(|command| is_usual(memory, command)) {
        return Ok(None);
    }
    match attempt(connection, policies, memory, commands, decided).await {
        Err(RoundFailure { error: StoreError::Outdated | StoreError::Locked, .. }) => {
            memory.note_outdated();
            Ok(None)
        }
        attempted => attempted,
    }
}

async fn attempt(
    connection: &mut PgConnection,
    policies: &mut PolicyCache,
    memory: &mut Memory,
    commands: &[&Command],
    decided: &mut Vec<bool>,
) -> Result<Option<Vec<Verdict>>, RoundFailure> {
    let targets: Vec<AccountId> = commands.iter().map(|command| command.account).collect();
    let accounts: BTreeSet<AccountId> = targets.iter().copied().collect();
    let mut states = memory.take(&accounts);
    let unknown: Vec<AccountId> =
        accounts.iter().copied().filter(|account| !states.contains_key(account)).collect();
    if !unknown.is_empty() {
        let seen = accounts::look(connection, policies, &unknown).await?;
        seen.clock.into_iter().for_each(|clock| memory.hear_clock(clock));
        states.extend(seen.states);
    } else if matches!(memory.now(), Now::Unheard) {
        memory.hear_clock(accounts::clock(connection).await?);
    }
    let (Now::At(now), true) = (memory.now(), is_known(&mut states, policies, commands)) else {
        memory.keep(states);
        return Ok(None);
    };
    let before = seqs(&states);
    let mut desk = Desk::new(commands, &targets);
    desk.decide(&mut states, &[], now, State::apply_basics)?;
    if desk.is_empty() {
        // Refusals alone: whether they are true is asked on the long way.
        memory.keep(states);
        return Ok(None);
    }
    if !are_refusals_true(connection, &desk, &before).await? {
        return Err(StoreError::Outdated.into());
    }
    let gate = gate(&states, policies, commands, now);
    *decided = desk.decided();
    let written = write(connection, &desk.outcome(&states, &before), &gate).await?;
    if !written.is_written {
        return Ok(None);
    }
    let verdicts = desk.verdicts(&BTreeMap::new())?;
    memory.hear_clock(written.clock());
    memory.keep(states);
    Ok(Some(verdicts))
}

/// Among others that are written, refusals are asked for by a statement of their own: what they were decided on is so at that moment. Of
/// accounts that are written, the writing asks again.
async fn are_refusals_true(
    connection: &mut PgConnection,
    desk: &Desk<'_>,
    before: &BTreeMap<AccountId, Seq>,
) -> Result<bool, StoreError> {
    let refused: Vec<&Command> = desk.refused().collect();
    if refused.is_empty() {
        return Ok(true);
    }
    let accounts: BTreeSet<AccountId> = refused.iter().map(|command| command.account).collect();
    let seqs: Vec<(AccountId, Seq)> =
        accounts.into_iter().filter_map(|account| Some((account, *before.get(&account)?))).collect();
    let keys: Vec<(AccountId, KeyName)> =
        refused.iter().filter_map(|command| Some((command.account, command.key?))).collect();
    accounts::are_as_remembered(connection, &seqs, &keys).await
}

/// What has to be so besides what the accounts say.
fn gate<'a>(
    states: &'a States,
    policies: &PolicyCache,
    commands: &[&'a Command],
    now: DateTime<Utc>,
) -> Gate<'a> {
    let rules: BTreeMap<&str, DateTime<Utc>> = states
        .values()
        .map(|state| state.policy.name.as_str())
        .filter_map(|name| Some((name, policies.known(name)?.updated_at?)))
        .collect();
    let named = commands.iter().filter(|command| names_subjects(command));
    let subjects =
        named.flat_map(|command| Subject::of(&command.call).map(|subject| (command.account, subject)));
    Gate::on_memory(rules.into_iter(), subjects, now)
}

/// Whether a command is of those that ask for the head, open grants and open holds of their account alone.
fn is_usual(memory: &Memory, command: &Command) -> bool {
    let is_replay = command.key.as_ref().is_some_and(|key| memory.has_met(key));
    let is_usual = matches!(
        command.verb,
        Verb::Charge { .. }
            | Verb::Hold { .. }
            | Verb::Lapse
            | Verb::Renew { .. }
            | Verb::Settle { .. }
            | Verb::Release { .. }
            | Verb::Reverse { .. }
    );
    // The use of a quota has to be summed.
    let is_bound = names_subjects(command) && memory.is_bound_by_quotas(command.account);
    is_usual && !is_replay && command.call.job_id.is_none() && !is_bound
}

fn names_subjects(command: &Command) -> bool {
    matches!(command.verb, Verb::Charge { .. } | Verb::Hold { .. })
        && Subject::of(&command.call).next().is_some()
}

/// Whether the accounts are there, and the holds that commands name are open. Puts the accounts under the policies as they were
/// read last.
fn is_known(states: &mut States, policies: &PolicyCache, commands: &[&Command]) -> bool {
    for state in states.values_mut() {
        let Some(rules) = policies.known(&state.policy.name) else { return false };
        rules.bind(state);
    }
    let mut placed: BTreeSet<HoldId> = BTreeSet::new();
    commands.iter().all(|command| {
        let Some(state) = states.get(&command.account) else { return false };
        match &command.verb {
            Verb::Hold { id, .. } => {
                placed.insert(*id);
                true
            }
            Verb::Renew { hold, .. }
            | Verb::Settle { hold, .. }
            | Verb::Release { hold }
            | Verb::Reverse { hold, .. } => placed.contains(hold) || state.holds.contains_key(hold),
            _ => true,
        }
    })
}

/// Writes the round: in its own statement's transaction if that writes all, else between begin and commit.
async fn write(
    connection: &mut PgConnection,
    outcome: &Outcome<'_>,
    gate: &Gate<'_>,
) -> Result<Written, RoundFailure> {
    if outcome.is_journal_alone() {
        return write::write(connection, outcome, gate).await.map_err(RoundFailure::of_commit);
    }
    let mut transaction = connection.begin().await?;
    match write::write(&mut transaction, outcome, gate).await {
        Ok(written) if written.is_written => {
            transaction.commit().await.map_err(|error| RoundFailure::of_commit(error.into()))?;
            Ok(written)
        }
        Ok(written) => {
            transaction.rollback().await?;
            Ok(written)
        }
        Err(error) => {
            if !matches!(error, StoreError::Lost(_)) {
                transaction.rollback().await?;
            }
            Err(error.into())
        }
    }
}
