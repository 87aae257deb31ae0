//! What the entry that placed a hold says of it beyond the hold's own row: when the caller says it happened, and the
//! caller's values. The entry never changes, so an answer that reads it is the same for ever; erased words are null.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use chrono::{DateTime, Utc};
use ledger::entry::Entry;
use ledger::hold::HoldView;
use ledger::ids::{AccountId, HoldId, Seq};
use ledger::service::Posted;
use serde_json::{Map, Value};

use crate::http::problem::{Name, Problem, internal};
use crate::state::AppState;

/// Holds of each half of [`RecentHolds`].
const HALF: usize = 16_384;

#[derive(Clone, Debug)]
pub struct Placed {
    pub occurred_at: DateTime<Utc>,
    pub metadata: Option<Map<String, Value>>,
}

impl Placed {
    pub fn of(entry: &Entry) -> Placed {
        Placed { occurred_at: entry.occurred_at, metadata: entry.words.metadata.clone() }
    }
}

/// Holds that were placed here a moment ago and carry no words, so that the usual settle, which follows soon, reads nothing
/// more. Words are never kept here: they can be erased.
#[derive(Default)]
pub struct RecentHolds(Mutex<Halves>);

/// When one half is full, the older one is forgotten.
#[derive(Default)]
struct Halves {
    newer: HashMap<HoldId, DateTime<Utc>>,
    older: HashMap<HoldId, DateTime<Utc>>,
}

impl RecentHolds {
    fn remember(&self, hold: HoldId, occurred_at: DateTime<Utc>) {
        let mut halves = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if halves.newer.len() >= HALF {
            halves.older = std::mem::take(&mut halves.newer);
        }
        halves.newer.insert(hold, occurred_at);
    }

    fn get(&self, hold: HoldId) -> Option<DateTime<Utc>> {
        let halves = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        halves.newer.get(&hold).or_else(|| halves.older.get(&hold)).copied()
    }
}

/// Of the hold that an answer shows, unless the answer's own entry placed it. The command is posted by now, so a failure to
/// read says that its outcome is to be asked for again, and never that nothing was posted.
pub async fn placed(state: &AppState, posted: &Posted) -> Result<Option<Placed>, Problem> {
    let Some(main) = posted.set.main() else { return Ok(None) };
    let Some(hold) = &main.answer.hold else { return Ok(None) };
    if hold.seq == main.seq {
        if main.words.is_empty() {
            state.recent_holds.remember(hold.id, main.occurred_at);
        }
        return Ok(None);
    }
    if let Some(occurred_at) = state.recent_holds.get(hold.id) {
        return Ok(Some(Placed { occurred_at, metadata: None }));
    }
    let entries = Box::pin(state.ledger.entries_of(main.account, [hold.seq])).await.map_err(|error| {
        tracing::warn!(error.message = %error, "a hold that was posted to could not be read for the answer");
        Problem::new(
            Name::OutcomeUnknown,
            "It was posted, but the answer could not be read. The same key gets it.",
        )
    })?;
    Ok(Some(Placed::of(entries.first().ok_or_else(internal)?)))
}

/// Of the holds of a page, by the number of their entry.
pub async fn placed_all(
    state: &AppState,
    account: AccountId,
    holds: &[HoldView],
) -> Result<HashMap<Seq, Placed>, Problem> {
    let entries = state.ledger.entries_of(account, holds.iter().map(|hold| hold.seq)).await?;
    Ok(entries.iter().map(|entry| (entry.seq, Placed::of(entry))).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_holds_are_remembered_and_no_more_than_two_halves() {
        let recent = RecentHolds::default();
        let at = DateTime::UNIX_EPOCH;
        let hold = |n: u32| HoldId(uuid::Uuid::from_u128(u128::from(n)));
        let many = u32::try_from(3 * HALF).unwrap();
        (0..many).for_each(|n| recent.remember(hold(n), at));
        assert_eq!(recent.get(hold(many - 1)), Some(at));
        assert_eq!(recent.get(hold(0)), None);
        let halves = recent.0.lock().unwrap();
        assert!(halves.newer.len() + halves.older.len() <= 2 * HALF);
    }
}
