//! A round: the six steps, in one transaction.
//!
//! | step | what |
//! | --- | --- |
//! | 1 | begin |
//! | 2 | open what is to be opened; lock the account rows in the order of their ids |
//! | 3 | the clock, live or due grants, open holds, and what the commands name |
//! | 4 | decide in memory, one command after another, each on the state the one before left |
//! | 5 | write it all over arrays |
//! | 6 | commit |
//!
//! Nothing is decided before the lock is held, and nothing is answered before the commit.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use chrono::{DateTime, Utc};
use sqlx::{AssertSqlSafe, Connection, Executor, PgConnection};
use uuid::Uuid;

use crate::chain;
use crate::command::{Command, Verb};
use crate::decide::{self, Decision, Needs, Ruling, State};
use crate::entry::EntrySet;
use crate::ids::{AccountId, GrantId, HoldId, Seq};
use crate::poster::Answer;
use crate::refusal::{Missing, Refusal};
use crate::service::{PostError, Posted};
use crate::store::load::{self, States};
use crate::store::lock::{self, Locked, Opening, PolicyCache};
use crate::store::quota::Counting;
use crate::store::write::{self, AccountAfter, Outcome, Profile};
use crate::store::{StoreError, rows::inconsistent};

/// How a round takes its account rows.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Locking {
    /// Rows that another transaction has are left out.
    SkipLocked,
    /// The round is of one account, or of openings that came to one, and waits for it.
    Wait(Duration),
}

/// What became of one command.
pub(crate) enum Verdict {
    Answer(Answer),
    /// Another transaction has its account.
    Locked(AccountId),
}

/// Why a round has no verdicts. `in_doubt`: it may have been committed; for each command, whether it was decided here
/// and not found as a replay, as far as that is known.
pub(crate) struct RoundFailure {
    pub error: StoreError,
    pub in_doubt: Option<Vec<bool>>,
}

impl From<StoreError> for RoundFailure {
    fn from(error: StoreError) -> RoundFailure {
        RoundFailure { error, in_doubt: None }
    }
}

impl From<sqlx::Error> for RoundFailure {
    fn from(error: sqlx::Error) -> RoundFailure {
        RoundFailure { error: error.into(), in_doubt: None }
    }
}

/// Runs the commands as one round on a connection that has no transaction open.
pub(crate) async fn run(
    connection: &mut PgConnection,
    policies: &mut PolicyCache,
    commands: &[&Command],
    locking: Locking,
) -> Result<Vec<Verdict>, RoundFailure> {
    let mut transaction = connection.begin().await?;
    let done = steps(&mut transaction, policies, commands, locking).await;
    let (verdicts, decided, counting) = match done {
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
        transaction.commit().await.map_err(|error| {
            let error = StoreError::from(error);
            let in_doubt = matches!(error, StoreError::Lost(_)).then_some(decided);
            RoundFailure { error, in_doubt }
        })?;
    } else {
        transaction.rollback().await?;
    }
    Ok(verdicts)
}

/// Steps 2 to 5. Answers with the verdicts, for each command whether it was decided here, and whether sums of use moved on.
async fn steps(
    transaction: &mut PgConnection,
    policies: &mut PolicyCache,
    commands: &[&Command],
    locking: Locking,
) -> Result<(Vec<Verdict>, Vec<bool>, Counting), StoreError> {
    let targets = targets(transaction, commands).await?;
    let locked = lock(transaction, policies, &targets, locking).await?;
    let existing = if locked.missing.is_empty() {
        Vec::new()
    } else {
        lock::existing(transaction, &locked.missing).await?
    };
    let mut states = locked.states;
    let mut desk = Desk::new(commands, &targets);
    let needs = desk.needs(&states);
    let (now, counting) = load::load(transaction, &mut states, &needs).await?;
    let before: BTreeMap<AccountId, Seq> =
        states.iter().map(|(account, state)| (*account, state.head.seq)).collect();
    desk.decide(&mut states, &existing, now)?;
    let stored = desk.stored_replays();
    let sets = if stored.is_empty() { BTreeMap::new() } else { load::sets(transaction, &stored).await? };
    if !desk.decisions.is_empty() {
        let outcome = desk.outcome(&states, &before);
        write::write(transaction, &outcome).await?;
    }
    let unopened = desk.unopened(&states, &targets);
    if !unopened.is_empty() {
        lock::unopen(transaction, &unopened).await?;
    }
    Ok((desk.verdicts(&sets)?, desk.decided(), counting))
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

async fn lock(
    connection: &mut PgConnection,
    policies: &mut PolicyCache,
    targets: &[AccountId],
    locking: Locking,
) -> Result<Locked, StoreError> {
    let accounts: BTreeSet<AccountId> = targets.iter().copied().collect();
    let accounts: Vec<AccountId> = accounts.into_iter().collect();
    match locking {
        Locking::SkipLocked => lock::lock(connection, policies, &accounts).await,
        Locking::Wait(wait) => {
            let setting = format!("set local lock_timeout = {}", wait.as_millis().max(1));
            connection.execute(AssertSqlSafe(setting)).await?;
            lock::lock_waiting(connection, policies, &accounts).await
        }
    }
}

/// What a command led to, before anything is written.
enum Slip {
    Refused(Refusal),
    Locked,
    Nothing,
    /// The place of its decision.
    Decided(usize),
    /// The main entry that answers it.
    Replay(Seq),
}

/// The commands of a round and what was decided of them.
struct Desk<'a> {
    commands: &'a [&'a Command],
    targets: &'a [AccountId],
    slips: Vec<Slip>,
    decisions: Vec<(AccountId, Decision)>,
    salts: BTreeMap<(AccountId, Seq), [u8; 16]>,
    addresses: Vec<(AccountId, Seq, &'a str)>,
    profiles: Vec<Profile<'a>>,
}

impl<'a> Desk<'a> {
    fn new(commands: &'a [&'a Command], targets: &'a [AccountId]) -> Desk<'a> {
        Desk {
            commands,
            targets,
            slips: Vec::with_capacity(commands.len()),
            decisions: Vec::with_capacity(commands.len()),
            salts: BTreeMap::new(),
            addresses: Vec::new(),
            profiles: Vec::new(),
        }
    }

    fn needs(&self, states: &States) -> BTreeMap<AccountId, Needs> {
        let mut needs: BTreeMap<AccountId, Needs> = BTreeMap::new();
        for (command, target) in self.commands.iter().zip(self.targets) {
            if states.contains_key(target) {
                needs.entry(*target).or_default().add(command);
            }
        }
        needs
    }

    /// Step 4.
    fn decide(
        &mut self,
        states: &mut States,
        existing: &[AccountId],
        now: DateTime<Utc>,
    ) -> Result<(), StoreError> {
        for (command, target) in self.commands.iter().zip(self.targets) {
            let slip = match states.get_mut(target) {
                Some(state) => self.decide_one(state, command, now)?,
                None if existing.contains(target) => Slip::Locked,
                None => Slip::Refused(Refusal::NotFound { what: Missing::Account }),
            };
            self.slips.push(slip);
        }
        Ok(())
    }

    fn decide_one(
        &mut self,
        state: &mut State,
        command: &'a Command,
        now: DateTime<Utc>,
    ) -> Result<Slip, StoreError> {
        let now = now.max(state.head.recorded_at);
        let mut decision = match decide::decide(state, command, now) {
            Err(refusal) => return Ok(Slip::Refused(refusal)),
            Ok(Ruling::Nothing) => return Ok(Slip::Nothing),
            Ok(Ruling::Replay(seq)) => return Ok(Slip::Replay(seq)),
            Ok(Ruling::Post(decision)) => decision,
        };
        let account = state.account;
        self.salt(account, &mut decision.set)?;
        decision.head.hash = chain::seal(state.head.hash, &mut decision.set.entries);
        if let (Some(address), Some(main)) = (&command.source_address, decision.set.main()) {
            self.addresses.push((account, main.seq, address));
        }
        if let Verb::Open { name, email, .. } = &command.verb {
            self.profiles.push(Profile {
                account,
                name: name.as_deref(),
                email: email.as_deref(),
                metadata: chain::metadata_text(&command.words),
            });
        }
        state.apply(&decision);
        self.decisions.push((account, decision));
        Ok(Slip::Decided(self.decisions.len() - 1))
    }

    /// Gives entries with words a salt and the digest that the chain covers.
    fn salt(&mut self, account: AccountId, set: &mut EntrySet) -> Result<(), StoreError> {
        for entry in set.entries.iter_mut().filter(|entry| !entry.words.is_empty()) {
            let mut salt = [0; 16];
            getrandom::fill(&mut salt)
                .map_err(|error| inconsistent("entry_words", account.0, format!("no randomness: {error}")))?;
            let metadata = chain::metadata_text(&entry.words);
            entry.words_digest =
                Some(chain::words_digest(&salt, entry.words.reason.as_deref(), metadata.as_deref()));
            self.salts.insert((account, entry.seq), salt);
        }
        Ok(())
    }

    /// Replays of sets that this round did not make itself.
    fn stored_replays(&self) -> BTreeSet<(AccountId, Seq)> {
        let replays = self.slips.iter().zip(self.targets).filter_map(|(slip, target)| match slip {
            Slip::Replay(seq) => Some((*target, *seq)),
            _ => None,
        });
        replays.filter(|key| self.made_here(*key).is_none()).collect()
    }

    fn made_here(&self, (account, seq): (AccountId, Seq)) -> Option<&EntrySet> {
        self.decisions
            .iter()
            .find(|(of, decision)| *of == account && decision.set.main().is_some_and(|main| main.seq == seq))
            .map(|(_, decision)| &decision.set)
    }

    /// What step 5 writes: entry sets in order, and the last state of what changed.
    fn outcome<'d>(&'d self, states: &'d States, before: &BTreeMap<AccountId, Seq>) -> Outcome<'d> {
        let mut outcome = Outcome {
            salts: self.salts.clone(),
            addresses: self.addresses.clone(),
            profiles: self.profiles.clone(),
            ..Outcome::default()
        };
        for (account, decision) in &self.decisions {
            let old = before.get(account).copied().unwrap_or_default();
            outcome.sets.push(&decision.set);
            for grant in &decision.grants {
                let key: (AccountId, GrantId) = (*account, grant.id);
                let place =
                    if grant.seq > old { &mut outcome.grants_new } else { &mut outcome.grants_changed };
                place.insert(key, grant);
            }
            for hold in &decision.holds {
                let key: (AccountId, HoldId) = (*account, hold.id);
                let place = if hold.seq > old { &mut outcome.holds_new } else { &mut outcome.holds_changed };
                place.insert(key, hold);
            }
            outcome.signals.extend(decision.signals.iter().map(|signal| (*account, signal)));
            if let Some(state) = states.get(account) {
                let after = AccountAfter {
                    head: &state.head,
                    status: state.status,
                    policy: &state.policy.name,
                    erased: state.erased,
                };
                outcome.heads.insert(*account, after);
            }
        }
        outcome
    }

    /// For each command, whether it was decided in this round.
    fn decided(&self) -> Vec<bool> {
        self.slips.iter().map(|slip| matches!(slip, Slip::Decided(_))).collect()
    }

    /// Accounts that this round inserted and that got no entry 1.
    fn unopened(&self, states: &States, targets: &[AccountId]) -> Vec<Uuid> {
        let opened = self
            .commands
            .iter()
            .zip(targets)
            .filter(|(command, _)| matches!(command.verb, Verb::Open { .. }));
        let accounts: BTreeSet<Uuid> = opened
            .filter(|(_, target)| states.get(target).is_some_and(|state| state.head.seq == Seq(0)))
            .map(|(_, target)| target.0)
            .collect();
        accounts.into_iter().collect()
    }

    fn verdicts(&self, stored: &BTreeMap<(AccountId, Seq), EntrySet>) -> Result<Vec<Verdict>, StoreError> {
        self.slips
            .iter()
            .zip(self.targets)
            .map(|(slip, target)| self.verdict(slip, *target, stored))
            .collect()
    }

    fn verdict(
        &self,
        slip: &Slip,
        target: AccountId,
        stored: &BTreeMap<(AccountId, Seq), EntrySet>,
    ) -> Result<Verdict, StoreError> {
        Ok(match slip {
            Slip::Refused(refusal) => Verdict::Answer(Err(PostError::Refused(refusal.clone()))),
            Slip::Locked => Verdict::Locked(target),
            Slip::Nothing => {
                Verdict::Answer(Ok(Posted { set: EntrySet { entries: Vec::new() }, replayed: false }))
            }
            Slip::Decided(place) => {
                Verdict::Answer(Ok(Posted { set: self.decisions[*place].1.set.clone(), replayed: false }))
            }
            Slip::Replay(seq) => {
                let set = self.made_here((target, *seq)).or_else(|| stored.get(&(target, *seq)));
                let set = set.ok_or_else(|| {
                    inconsistent("entries", target.0, format!("the set of entry {seq} is missing"))
                })?;
                Verdict::Answer(Ok(Posted { set: set.clone(), replayed: true }))
            }
        })
    }
}
