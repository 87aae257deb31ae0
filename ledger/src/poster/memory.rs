//! What a lane remembers of its accounts from one round to the next, so that a round loads only what it does not know.
//!
//! Every change of an account, its grants and its holds writes an entry, so a remembered state is the newest if and only if
//! the locked row still has its `seq`. A memory belongs to one connection and holds only what was committed on it: where the
//! row's `seq` is the remembered one, nobody wrote since this connection's own commit, and so what a statement saw from
//! before the lock was given is complete for that account as well.

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroUsize;

use lru::LruCache;

use crate::decide::State;
use crate::hold::HoldStatus;
use crate::ids::AccountId;

/// Accounts a lane remembers. A state of the usual size takes about 2 KiB.
const ACCOUNTS_MAX: NonZeroUsize = NonZeroUsize::MIN.saturating_add(9_999);
/// Grants and holds of an account that is worth remembering.
const PARTS_MAX: usize = 200;

/// Remembered states, the longest unused forgotten first.
pub(crate) struct Memory(Option<LruCache<AccountId, State>>);

impl Memory {
    pub(crate) fn new() -> Memory {
        Memory(Some(LruCache::new(ACCOUNTS_MAX)))
    }

    /// For a connection that meets an account once.
    pub(crate) fn none() -> Memory {
        Memory(None)
    }

    /// Takes the states of these accounts out. They come back by [`Memory::keep`] once they are committed, or never.
    pub(crate) fn take(&mut self, accounts: &BTreeSet<AccountId>) -> BTreeMap<AccountId, State> {
        let Some(states) = &mut self.0 else { return BTreeMap::new() };
        accounts.iter().filter_map(|account| states.pop_entry(account)).collect()
    }

    /// Keeps what a committed round left, without the facts that its commands had asked for.
    pub(crate) fn keep(&mut self, round: BTreeMap<AccountId, State>) {
        let Some(states) = &mut self.0 else { return };
        for (account, mut state) in round {
            forget_facts(&mut state);
            if state.head.seq.0 > 0 && state.grants.len() + state.holds.len() <= PARTS_MAX {
                states.push(account, state);
            }
        }
    }

    /// For a new connection.
    pub(crate) fn clear(&mut self) {
        if let Some(states) = &mut self.0 {
            states.clear();
        }
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
