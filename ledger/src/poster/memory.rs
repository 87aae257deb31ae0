//! What a lane remembers of its accounts from one round to the next, so that a round loads only what it does not know.
//!
//! Every change of an account, its grants and its holds writes an entry, so a remembered state is the newest if and only if
//! the locked row still has its `seq`. A memory belongs to one lane and holds only what was committed or read by it: where the
//! row's `seq` is the remembered one, nobody wrote since, and so what a statement saw from before the lock was given is complete for
//! that account as well.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::num::NonZeroUsize;
use std::time::{Duration, Instant};

use chrono::{DateTime, SubsecRound, Utc};
use lru::LruCache;

use crate::command::KeyName;
use crate::decide::{Needs, State};
use crate::hold::HoldStatus;
use crate::ids::AccountId;
use crate::store::accounts::Heard;

/// Accounts a lane remembers. A state of the usual size takes about 2 KiB.
pub(crate) const ACCOUNTS_MAX: NonZeroUsize = NonZeroUsize::MIN.saturating_add(9_999);
/// Grants and holds of an account that is worth remembering, and of all that are remembered; each takes about 300 bytes.
const PARTS_MAX: usize = 1_000;
const PARTS_OF_ALL_MAX: usize = 100_000;
/// Keys of each half of those that are remembered.
const KEYS_OF_HALF: usize = 32_768;
/// How long a lane asks first after its memory was out of date: where another server works on the same accounts, most of what was
/// decided on memory would be undone.
const DOUBT: Duration = Duration::from_millis(50);
/// How long the database's clock is followed by our own.
const CLOCK_MAX: Duration = Duration::from_secs(1);

/// Remembered states, the longest unused forgotten first.
pub(crate) struct Memory {
    states: LruCache<AccountId, State>,
    /// Grants and holds of all remembered accounts.
    parts: usize,
    /// Accounts that had quotas when they were asked for.
    bound_by_quotas: HashSet<AccountId>,
    clock: Clock,
    /// Idempotency keys of the last rounds, the newer half and the older one; when one is full, the older is forgotten.
    keys: [HashSet<KeyName>; 2],
    /// When what was remembered turned out to be out of date.
    outdated_at: Option<Instant>,
    /// False for a connection that meets an account once.
    remembers: bool,
}

/// What was heard of the database's clock.
#[derive(Clone, Copy)]
enum Clock {
    Unheard,
    /// What it said, and when.
    Said(DateTime<Utc>, Instant),
    /// A test clock stands, which can move at any moment.
    Test,
}

/// What a lane knows of the time.
pub(crate) enum Now {
    At(DateTime<Utc>),
    /// It has not been heard lately.
    Unheard,
    /// It has to be asked for each round.
    Test,
}

impl Memory {
    pub(crate) fn new() -> Memory {
        Memory {
            states: LruCache::new(ACCOUNTS_MAX),
            parts: 0,
            bound_by_quotas: HashSet::new(),
            clock: Clock::Unheard,
            keys: Default::default(),
            outdated_at: None,
            remembers: true,
        }
    }

    /// For a connection that meets an account once.
    pub(crate) fn none() -> Memory {
        Memory { states: LruCache::new(NonZeroUsize::MIN), remembers: false, ..Memory::new() }
    }

    /// Takes the states of these accounts out. They come back by [`Memory::keep`] once they are committed, or never.
    pub(crate) fn take(&mut self, accounts: &BTreeSet<AccountId>) -> BTreeMap<AccountId, State> {
        let taken: BTreeMap<AccountId, State> =
            accounts.iter().filter_map(|account| self.states.pop_entry(account)).collect();
        self.parts = self.parts.saturating_sub(taken.values().map(parts).sum());
        taken
    }

    /// Keeps what a committed round left, without the facts that its commands had asked for.
    pub(crate) fn keep(&mut self, round: BTreeMap<AccountId, State>) {
        if !self.remembers {
            return;
        }
        for (account, mut state) in round {
            forget_facts(&mut state);
            if state.head.seq.0 > 0 && parts(&state) <= PARTS_MAX {
                self.parts += parts(&state);
                if let Some((_, forgotten)) = self.states.push(account, state) {
                    self.parts = self.parts.saturating_sub(parts(&forgotten));
                }
            }
        }
        while self.parts > PARTS_OF_ALL_MAX
            && let Some((_, forgotten)) = self.states.pop_lru()
        {
            self.parts = self.parts.saturating_sub(parts(&forgotten));
        }
    }

    /// Notes which accounts have quotas, after a round that asked for them.
    pub(crate) fn note_quotas(
        &mut self,
        round: &BTreeMap<AccountId, State>,
        needs: &BTreeMap<AccountId, Needs>,
    ) {
        if self.bound_by_quotas.len() >= ACCOUNTS_MAX.get() {
            self.bound_by_quotas.clear();
        }
        for (account, _) in needs.iter().filter(|(_, needs)| !needs.subjects.is_empty()) {
            if round.get(account).is_some_and(|state| !state.quotas.is_empty()) {
                self.bound_by_quotas.insert(*account);
            } else {
                self.bound_by_quotas.remove(account);
            }
        }
    }

    pub(crate) fn is_bound_by_quotas(&self, account: AccountId) -> bool {
        self.bound_by_quotas.contains(&account)
    }

    /// Notes the keys of a round that was written or answered.
    pub(crate) fn note_keys<'k>(&mut self, keys: impl Iterator<Item = &'k KeyName>) {
        if !self.remembers {
            return;
        }
        for key in keys {
            if self.keys[0].len() >= KEYS_OF_HALF {
                let [newer, older] = &mut self.keys;
                std::mem::swap(newer, older);
                newer.clear();
            }
            self.keys[0].insert(*key);
        }
    }

    /// Whether a key was used lately, so that its command is most likely a replay.
    pub(crate) fn has_met(&self, key: &KeyName) -> bool {
        self.keys.iter().any(|half| half.contains(key))
    }

    /// Notes that a round was decided on what was not so any more.
    pub(crate) fn note_outdated(&mut self) {
        self.outdated_at = Some(Instant::now());
    }

    /// Whether it is likely that others write to the same accounts.
    pub(crate) fn is_doubtful(&self) -> bool {
        self.outdated_at.is_some_and(|at| at.elapsed() < DOUBT)
    }

    /// What the database's clock says now.
    pub(crate) fn now(&self) -> Now {
        match self.clock {
            // The database has microseconds; what is answered now must be what is read later.
            Clock::Said(said, at) if at.elapsed() < CLOCK_MAX => {
                Now::At((said + at.elapsed()).trunc_subsecs(6))
            }
            Clock::Said(..) | Clock::Unheard => Now::Unheard,
            Clock::Test => Now::Test,
        }
    }

    /// Follows the database's clock from here, unless it is a test clock.
    pub(crate) fn hear_clock(&mut self, heard: Heard) {
        self.clock = if heard.is_test_clock { Clock::Test } else { Clock::Said(heard.now, Instant::now()) };
    }

    /// For a new connection.
    pub(crate) fn clear(&mut self) {
        self.states.clear();
        self.parts = 0;
        self.clock = Clock::Unheard;
        self.outdated_at = None;
    }
}

fn parts(state: &State) -> usize {
    state.grants.len() + state.holds.len()
}

/// Leaves what a round loads of every account: the head, open grants, open holds.
fn forget_facts(state: &mut State) {
    state.grants.retain(|_, grant| grant.remaining.is_positive() || grant.reserved.is_positive());
    state.holds.retain(|_, hold| hold.status == HoldStatus::Open);
    state.originals.clear();
    state.clawbacks.clear();
    state.debt_payments.clear();
    state.jobs.clear();
    state.quotas.clear();
    state.uses.clear();
    state.keys.clear();
    state.voids.clear();
}
