//! What a lane remembers of its accounts from one round to the next, so that a round loads only what it does not know.
//!
//! Every change of an account, its grants and its holds writes an entry, so a remembered state is the newest if and only if
//! the locked row still has its `seq`. A memory belongs to one connection and holds only what was committed on it: where the
//! row's `seq` is the remembered one, nobody wrote since this connection's own commit, and so what a statement saw from
//! before the lock was given is complete for that account as well.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::num::NonZeroUsize;
use std::time::{Duration, Instant};

use chrono::{DateTime, SubsecRound, Utc};
use lru::LruCache;

use crate::decide::{Needs, State};
use crate::hold::HoldStatus;
use crate::ids::AccountId;

/// Accounts a lane remembers. A state of the usual size takes about 2 KiB.
const ACCOUNTS_MAX: NonZeroUsize = NonZeroUsize::MIN.saturating_add(9_999);
/// Grants and holds of an account that is worth remembering.
const PARTS_MAX: usize = 200;
/// How long the database's clock is followed by our own.
const CLOCK_MAX: Duration = Duration::from_secs(1);

/// Remembered states, the longest unused forgotten first.
pub(crate) struct Memory {
    states: LruCache<AccountId, State>,
    /// Accounts that had quotas when they were asked for.
    bound_by_quotas: HashSet<AccountId>,
    clock: Option<Clock>,
    /// False for a connection that meets an account once.
    remembers: bool,
}

/// What the database's clock said, and when.
#[derive(Clone, Copy)]
struct Clock {
    said: DateTime<Utc>,
    at: Instant,
}

impl Memory {
    pub(crate) fn new() -> Memory {
        Memory {
            states: LruCache::new(ACCOUNTS_MAX),
            bound_by_quotas: HashSet::new(),
            clock: None,
            remembers: true,
        }
    }

    /// For a connection that meets an account once.
    pub(crate) fn none() -> Memory {
        Memory { states: LruCache::new(NonZeroUsize::MIN), remembers: false, ..Memory::new() }
    }

    /// Takes the states of these accounts out. They come back by [`Memory::keep`] once they are committed, or never.
    pub(crate) fn take(&mut self, accounts: &BTreeSet<AccountId>) -> BTreeMap<AccountId, State> {
        accounts.iter().filter_map(|account| self.states.pop_entry(account)).collect()
    }

    /// As [`Memory::take`], but only if all of them are remembered.
    pub(crate) fn take_all(&mut self, accounts: &BTreeSet<AccountId>) -> Option<BTreeMap<AccountId, State>> {
        accounts.iter().all(|account| self.states.contains(account)).then(|| self.take(accounts))
    }

    /// Keeps what a committed round left, without the facts that its commands had asked for.
    pub(crate) fn keep(&mut self, round: BTreeMap<AccountId, State>) {
        if !self.remembers {
            return;
        }
        for (account, mut state) in round {
            forget_facts(&mut state);
            if state.head.seq.0 > 0 && state.grants.len() + state.holds.len() <= PARTS_MAX {
                self.states.push(account, state);
            }
        }
    }

    /// Notes which accounts have quotas, after a round that asked for them.
    pub(crate) fn note_quotas(&mut self, round: &BTreeMap<AccountId, State>, needs: &BTreeMap<AccountId, Needs>) {
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

    /// What the database's clock says now, if it was heard lately.
    pub(crate) fn now(&self) -> Option<DateTime<Utc>> {
        let Clock { said, at } = self.clock?;
        let since = at.elapsed();
        // The database has microseconds; what is answered now must be what is read later.
        (since < CLOCK_MAX).then(|| (said + since).trunc_subsecs(6))
    }

    /// Follows the database's clock from here. `None` while a test clock stands, which can move at any moment.
    pub(crate) fn hear_clock(&mut self, said: Option<DateTime<Utc>>) {
        self.clock = said.map(|said| Clock { said, at: Instant::now() });
    }

    /// For a new connection.
    pub(crate) fn clear(&mut self) {
        self.states.clear();
        self.clock = None;
    }
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
