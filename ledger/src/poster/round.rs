//! A round: the six steps, in one transaction.
//!
//! | step | what |
//! | --- | --- |
//! | 1 | begin |
//! | 2 | open what is to be opened; lock the account rows in the order of their ids |
//! | 3 | the clock, live or due grants, open holds of accounts that are not remembered, and what the commands name |
//! | 4 | decide in memory, one command after another, each on the state the one before left |
//! | 5 | write it all over arrays |
//! | 6 | commit |
//!
//! Nothing is decided before the lock is held, and nothing is answered before the commit. The usual commands on remembered
//! accounts take a shorter way to the same end, see [`swift`].

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use chrono::{DateTime, Utc};
use sqlx::{AssertSqlSafe, Connection, Executor, PgConnection};

use super::desk::{Desk, Verdict};
use super::memory::Memory;
use super::swift;
use crate::command::{Command, KeyName, Verb};
use crate::decide::{Needs, State};
use crate::ids::{AccountId, Seq};
use crate::store::accounts;
use crate::store::load::{self, States};
use crate::store::lock::{self, Locked, Opening, PolicyCache};
use crate::store::quota::Counting;
use crate::store::write::{self, Gate};
use crate::store::{StoreError, rows::inconsistent};

/// Row locks are skipped or waited for as [`Locking`] says; this is for what else may be locked, such as a table that is altered.
const BEGIN: &str = "begin; set local lock_timeout = '5s'";

/// How a round takes its account rows.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Locking {
    /// Rows that another transaction has are left out.
    SkipLocked,
    /// The round is of one account, or of openings that came to one, and waits for it.
    Wait(Duration),
}

/// Why a round has no verdicts, and whether it may have been committed all the same.
pub(crate) struct RoundFailure {
    pub error: StoreError,
    pub in_doubt: bool,
}

impl RoundFailure {
    /// Of a commit, or of a statement that commits by itself: it may have happened when its connection is lost.
    pub(crate) fn of_commit(error: StoreError) -> RoundFailure {
        let in_doubt = matches!(error, StoreError::Lost(_));
        RoundFailure { error, in_doubt }
    }
}

impl<E: Into<StoreError>> From<E> for RoundFailure {
    fn from(error: E) -> RoundFailure {
        RoundFailure { error: error.into(), in_doubt: false }
    }
}

/// Runs the commands as one round on a connection that has no transaction open. Before anything is written, `decided` says of each
/// command whether it was decided here and not found as a replay, so that it is known even if the round never comes to its end.
pub(crate) async fn run(
    connection: &mut PgConnection,
    policies: &mut PolicyCache,
    memory: &mut Memory,
    commands: &[&Command],
    locking: Locking,
    decided: &mut Vec<bool>,
) -> Result<Vec<Verdict>, RoundFailure> {
    let keys = commands.iter().filter_map(|command| command.key.as_ref());
    if matches!(locking, Locking::SkipLocked)
        && let Some(verdicts) = swift::run(connection, policies, memory, commands, decided).await?
    {
        memory.note_keys(keys);
        return Ok(verdicts);
    }
    decided.clear();
    let mut transaction = connection.begin_with(BEGIN).await?;
    let done = steps(&mut transaction, policies, memory, commands, locking, decided).await;
    let Done { verdicts, states, counting } = match done {
        Ok(done) => done,
        Err(error) => {
            // At once, so that no lock outlives the failure; where the connection is gone, the locks went with it.
            if !matches!(error, StoreError::Lost(_)) {
                transaction.rollback().await?;
            }
            return Err(error.into());
        }
    };
    if decided.contains(&true) || counting == Counting::MovedOn {
        transaction.commit().await.map_err(|error| RoundFailure::of_commit(error.into()))?;
    } else {
        transaction.rollback().await?;
    }
    memory.keep(states);
    memory.note_keys(keys);
    Ok(verdicts)
}

/// What steps 2 to 5 came to.
struct Done {
    verdicts: Vec<Verdict>,
    /// The accounts as the round leaves them, if it is committed.
    states: States,
    counting: Counting,
}

/// Steps 2 to 5.
async fn steps(
    transaction: &mut PgConnection,
    policies: &mut PolicyCache,
    memory: &mut Memory,
    commands: &[&Command],
    locking: Locking,
    decided: &mut Vec<bool>,
) -> Result<Done, StoreError> {
    let targets = targets(transaction, commands).await?;
    let accounts: BTreeSet<AccountId> = targets.iter().copied().collect();
    let remembered = memory.take(&accounts);
    let locked = lock(transaction, &accounts, &remembered, commands, &targets, locking).await?;
    let missing: Vec<AccountId> =
        accounts.iter().copied().filter(|account| !locked.seqs.contains_key(account)).collect();
    let existing =
        if missing.is_empty() { Vec::new() } else { lock::existing(transaction, &missing).await? };
    let mut desk = Desk::new(commands, &targets);
    let needs = desk.needs(&locked.seqs);
    let (mut states, now, counting) = load(transaction, policies, memory, remembered, locked, &needs).await?;
    memory.note_quotas(&states, &needs);
    let before = seqs(&states);
    desk.decide(&mut states, &existing, now, State::apply)?;
    *decided = desk.decided();
    let stored = desk.stored_replays();
    let sets = if stored.is_empty() { BTreeMap::new() } else { load::sets(transaction, &stored).await? };
    if !desk.is_empty() {
        write::write(transaction, &desk.outcome(&states, &before), &Gate::open()).await?;
    }
    let unopened = desk.unopened(&states, &targets);
    if !unopened.is_empty() {
        lock::unopen(transaction, &unopened).await?;
    }
    Ok(Done { verdicts: desk.verdicts(&sets)?, states, counting })
}

/// The last entry of each account.
pub(crate) fn seqs(states: &States) -> BTreeMap<AccountId, Seq> {
    states.iter().map(|(account, state)| (*account, state.head.seq)).collect()
}

/// Step 3: the states of the locked accounts, those that are remembered and still the newest, and the others loaded.
async fn load(
    connection: &mut PgConnection,
    policies: &mut PolicyCache,
    memory: &mut Memory,
    mut remembered: States,
    locked: Locked,
    needs: &BTreeMap<AccountId, Needs>,
) -> Result<(States, DateTime<Utc>, Counting), StoreError> {
    remembered.retain(|account, state| locked.seqs.get(account) == Some(&state.head.seq));
    let unknown: Vec<AccountId> =
        locked.seqs.keys().copied().filter(|account| !remembered.contains_key(account)).collect();
    let mut states = remembered;
    for state in states.values_mut() {
        let updated_at = locked.policies.get(&state.policy.name).copied();
        let policy = policies.get(connection, &state.policy.name, updated_at).await?;
        policy.bind(state);
    }
    for (account, name, used) in locked.keys {
        if let Some(state) = states.get_mut(&account) {
            state.keys.insert(name, used);
        }
    }
    let mut clock = locked.clock;
    if !unknown.is_empty() {
        let mut seen = accounts::look(connection, policies, &unknown).await?;
        load::keys(connection, &mut seen.states, needs).await?;
        states.append(&mut seen.states);
        clock = seen.clock.or(clock);
    }
    let clock = match clock {
        Some(clock) => clock,
        None => accounts::clock(connection).await?,
    };
    memory.hear_clock(clock);
    let now = clock.now;
    let counting = load::facts(connection, &mut states, needs, now).await?;
    Ok((states, now, counting))
}

/// The account of each command. An account to be opened is the one its reference names.
async fn targets(connection: &mut PgConnection, commands: &[&Command]) -> Result<Vec<AccountId>, StoreError> {
    let mut openings: BTreeMap<&str, Opening<'_>> = BTreeMap::new();
    for command in commands {
        if let Verb::Open { external_ref, policy, time_zone, .. } = &command.verb {
            openings.entry(external_ref).or_insert(Opening {
                account: command.account,
                external_ref,
                policy: &policy.name,
                time_zone,
            });
        }
    }
    if openings.is_empty() {
        return Ok(commands.iter().map(|command| command.account).collect());
    }
    let openings: Vec<Opening<'_>> = openings.into_values().collect();
    let opened = lock::open(connection, &openings).await?;
    let target = |command: &&Command| match &command.verb {
        Verb::Open { external_ref, .. } => opened.get(external_ref).copied().ok_or_else(|| {
            inconsistent("account_refs", command.account.0, "the reference is gone".to_owned())
        }),
        _ => Ok(command.account),
    };
    commands.iter().map(target).collect()
}

/// Step 2: the locks, and what goes with them for the accounts that are remembered.
async fn lock(
    connection: &mut PgConnection,
    accounts: &BTreeSet<AccountId>,
    remembered: &States,
    commands: &[&Command],
    targets: &[AccountId],
    locking: Locking,
) -> Result<Locked, StoreError> {
    let ids: Vec<AccountId> = accounts.iter().copied().collect();
    match locking {
        Locking::SkipLocked => {
            let of_remembered = commands.iter().zip(targets).filter(|(_, of)| remembered.contains_key(of));
            let keys: Vec<(AccountId, KeyName)> =
                of_remembered.filter_map(|(command, of)| Some((*of, command.key?))).collect();
            let policies: BTreeSet<&str> =
                remembered.values().map(|state| state.policy.name.as_str()).collect();
            let policies: Vec<String> = policies.into_iter().map(str::to_owned).collect();
            lock::lock(connection, &ids, &keys, &policies).await
        }
        Locking::Wait(wait) => {
            let setting = format!("set local lock_timeout = {}", wait.as_millis().max(1));
            connection.execute(AssertSqlSafe(setting)).await?;
            lock::lock_waiting(connection, &ids).await
        }
    }
}
