//! The desk of a round: its commands, and what was decided of them, one after another.

use std::collections::{BTreeMap, BTreeSet};

use chrono::{DateTime, Utc};
use uuid::Uuid;

use crate::chain;
use crate::command::{Command, Verb};
use crate::decide::{self, Decision, Needs, Ruling, State};
use crate::entry::EntrySet;
use crate::ids::{AccountId, GrantId, HoldId, Seq};
use crate::poster::Answer;
use crate::refusal::{Missing, Refusal};
use crate::service::{PostError, Posted};
use crate::store::load::States;
use crate::store::write::{AccountAfter, Outcome, Profile};
use crate::store::{StoreError, rows::inconsistent};

/// What became of one command.
pub(crate) enum Verdict {
    Answer(Answer),
    /// Another transaction has its account.
    Locked(AccountId),
}

/// What a command led to, before anything is written.
enum Slip {
    Refused(Refusal),
    Locked,
    Nothing,
    Decided,
    /// The main entry that answers it.
    Replay(Seq),
}

/// The commands of a round and what was decided of them.
pub(crate) struct Desk<'a> {
    commands: &'a [&'a Command],
    targets: &'a [AccountId],
    slips: Vec<Slip>,
    decisions: Vec<(AccountId, Decision)>,
    salts: BTreeMap<(AccountId, Seq), [u8; 16]>,
    addresses: Vec<(AccountId, Seq, &'a str)>,
    profiles: Vec<Profile<'a>>,
}

impl<'a> Desk<'a> {
    pub(crate) fn new(commands: &'a [&'a Command], targets: &'a [AccountId]) -> Desk<'a> {
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

    pub(crate) fn needs(&self, locked: &BTreeMap<AccountId, Seq>) -> BTreeMap<AccountId, Needs> {
        let mut needs: BTreeMap<AccountId, Needs> = BTreeMap::new();
        for (command, target) in self.commands.iter().zip(self.targets) {
            if locked.contains_key(target) {
                needs.entry(*target).or_default().add(command);
            }
        }
        needs
    }

    /// Step 4.
    pub(crate) fn decide(
        &mut self,
        states: &mut States,
        existing: &[AccountId],
        now: DateTime<Utc>,
        apply: fn(&mut State, &Decision),
    ) -> Result<(), StoreError> {
        for (command, target) in self.commands.iter().zip(self.targets) {
            let slip = match states.get_mut(target) {
                Some(state) => self.decide_one(state, command, now, apply)?,
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
        apply: fn(&mut State, &Decision),
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
        apply(state, &decision);
        self.decisions.push((account, decision));
        Ok(Slip::Decided)
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
    pub(crate) fn stored_replays(&self) -> BTreeSet<(AccountId, Seq)> {
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
    pub(crate) fn outcome<'d>(
        &'d self,
        states: &'d States,
        before: &BTreeMap<AccountId, Seq>,
    ) -> Outcome<'d> {
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
                    before: old,
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

    /// Whether there is anything to write.
    pub(crate) fn is_empty(&self) -> bool {
        self.decisions.is_empty()
    }

    /// The commands that were refused or had nothing to do.
    pub(crate) fn refused(&self) -> impl Iterator<Item = &'a Command> {
        let slips = self.slips.iter().zip(self.commands);
        slips.filter_map(|(slip, command)| {
            matches!(slip, Slip::Refused(_) | Slip::Nothing).then_some(*command)
        })
    }

    /// For each command, whether it was decided in this round.
    pub(crate) fn decided(&self) -> Vec<bool> {
        self.slips.iter().map(|slip| matches!(slip, Slip::Decided)).collect()
    }

    /// Accounts that this round inserted and that got no entry 1.
    pub(crate) fn unopened(&self, states: &States, targets: &[AccountId]) -> Vec<Uuid> {
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

    /// The answers. Each decided set goes to the command that made it; replays of it get a copy.
    pub(crate) fn verdicts(
        mut self,
        stored: &BTreeMap<(AccountId, Seq), EntrySet>,
    ) -> Result<Vec<Verdict>, StoreError> {
        let slips = std::mem::take(&mut self.slips);
        let mut copies = Vec::new();
        for (slip, target) in slips.iter().zip(self.targets) {
            if let Slip::Replay(seq) = slip {
                copies.push(self.replayed((*target, *seq), stored)?.clone());
            }
        }
        let mut copies = copies.into_iter();
        let mut sets = self.decisions.into_iter().map(|(_, decision)| decision.set);
        let posted = |set: Option<EntrySet>, replayed: bool| {
            let set = set.unwrap_or(EntrySet { entries: Vec::new() });
            Verdict::Answer(Ok(Posted { set, replayed }))
        };
        let verdicts = slips.into_iter().zip(self.targets).map(|(slip, target)| match slip {
            Slip::Refused(refusal) => Verdict::Answer(Err(PostError::Refused(refusal))),
            Slip::Locked => Verdict::Locked(*target),
            Slip::Nothing => posted(None, false),
            // In the order of the commands, as they were decided.
            Slip::Decided => posted(sets.next(), false),
            Slip::Replay(_) => posted(copies.next(), true),
        });
        Ok(verdicts.collect())
    }

    fn replayed<'s>(
        &'s self,
        key: (AccountId, Seq),
        stored: &'s BTreeMap<(AccountId, Seq), EntrySet>,
    ) -> Result<&'s EntrySet, StoreError> {
        self.made_here(key)
            .or_else(|| stored.get(&key))
            .ok_or_else(|| inconsistent("entries", key.0.0, format!("the set of entry {} is missing", key.1)))
    }
}
