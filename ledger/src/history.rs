//! A history as people see it: the journal, and on top of it what fell due but is not written yet. Screens and exports
//! read this, so that they say what the balance says at every instant, whether a sweep has run or not.

use sqlx::PgPool;

use crate::command::{Command, Verb};
use crate::credits::Credits;
use crate::decide::{Ruling, decide};
use crate::entry::Entry;
use crate::ids::{AccountId, Seq};
use crate::service::{EntryQuery, EntryTotals, Page, ReadError};
use crate::store::{StoreError, read};

/// A page of history with what is due above it.
#[derive(Clone, Debug)]
pub struct History {
    /// What fell due and is not written yet, newest first; only on the first page. Such an entry has neither a number nor
    /// a hash of its own until it is written.
    pub pending: Vec<Entry>,
    pub page: Page<Entry>,
}

/// What the next command or sweep would write first, and the entry after which it would.
pub(crate) struct Pending {
    pub after: Seq,
    /// Oldest first.
    pub entries: Vec<Entry>,
}

/// Asks the decision itself, on a snapshot, so that what is shown is what will be written.
pub(crate) async fn pending(pool: &PgPool, account: AccountId) -> Result<Pending, ReadError> {
    let none = Pending { after: Seq(0), entries: Vec::new() };
    let Some(snapshot) = read::snapshot(pool, account).await? else { return Ok(none) };
    let after = snapshot.state.head.seq;
    if after == Seq(0) {
        return Ok(none);
    }
    let sweep = Command::house(account, Verb::Lapse, "sweep");
    match decide(&snapshot.state, &sweep, snapshot.present()) {
        Ok(Ruling::Post(decision)) => Ok(Pending { after, entries: decision.set.entries }),
        Ok(Ruling::Replay(_) | Ruling::Nothing) => Ok(Pending { after, entries: Vec::new() }),
        Err(refusal) => {
            tracing::error!(account.id = %account, error = %refusal, "What fell due cannot be lapsed in memory");
            Err(ReadError::Internal)
        }
    }
}

/// Puts what is due on top of a page. The journal may have grown since the snapshot: what was written after it is left for
/// the next look, so that nothing stands there twice.
pub(crate) fn assembled(pending: Pending, query: &EntryQuery, mut page: Page<Entry>) -> History {
    if page.previous.is_some() || pending.entries.is_empty() {
        return History { pending: Vec::new(), page };
    }
    page.rows.retain(|entry| entry.seq <= pending.after);
    let shown = pending.entries.into_iter().rev().filter(|entry| query.takes(entry));
    History { pending: shown.collect(), page }
}

/// Adds what is due to the sums of the journal.
pub(crate) fn added(
    totals: &EntryTotals,
    pending: &Pending,
    query: &EntryQuery,
) -> Result<EntryTotals, ReadError> {
    let mut sums = totals.clone();
    for entry in pending.entries.iter().filter(|entry| query.takes(entry)) {
        sums.count += 1;
        sums.amount = plus(sums.amount, entry.amount)?;
        sums.moved = plus(sums.moved, entry.moved)?;
    }
    Ok(sums)
}

fn plus(sum: Credits, amount: Credits) -> Result<Credits, ReadError> {
    sum.plus(amount).map_err(|overflow| {
        tracing::error!(error = %overflow, "The sums of a history leave the range of any balance");
        ReadError::Internal
    })
}

impl EntryQuery {
    /// Whether the filter takes this entry: in memory what the store's statement asks of a row.
    pub fn takes(&self, entry: &Entry) -> bool {
        let size = if entry.amount.is_zero() { entry.moved.abs() } else { entry.amount.abs() };
        let is_word = |asked: &Option<String>, found: &Option<String>| asked.is_none() || asked == found;
        (self.kinds.is_empty() || self.kinds.contains(&entry.kind))
            && self.from.is_none_or(|from| entry.effective_at >= from)
            && self.to.is_none_or(|to| entry.effective_at < to)
            && self.occurred_from.is_none_or(|from| entry.occurred_at >= from)
            && self.occurred_to.is_none_or(|to| entry.occurred_at < to)
            && is_word(&self.member, &entry.call.member)
            && is_word(&self.model, &entry.call.model)
            && is_word(&self.key_ref, &entry.call.key_ref)
            && is_word(&self.request_ref, &entry.call.request_ref)
            && self.min.is_none_or(|min| size >= min)
            && self.max.is_none_or(|max| size <= max)
    }
}

/// Entries by their numbers, with lines and words, in order.
pub(crate) async fn entries_of(
    pool: &PgPool,
    account: AccountId,
    seqs: impl IntoIterator<Item = Seq>,
) -> Result<Vec<Entry>, ReadError> {
    let wanted = seqs.into_iter().map(|seq| (account, seq)).collect();
    let mut connection = pool.acquire().await.map_err(StoreError::from)?;
    Ok(crate::store::load::entries(&mut connection, &wanted).await?)
}
