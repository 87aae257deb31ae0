//! The handle that other rooms hold: commands go in here, reads come out of here.

use chrono::{DateTime, Utc};
use serde_json::{Map, Value};
use sqlx::PgPool;

use crate::account::AccountStatus;
use crate::command::{Actor, Command, Origin, Verb, key_digest};
use crate::credits::Credits;
use crate::cursor::{self, Mark};
use crate::entry::{Entry, EntrySet, Kind};
use crate::grant::GrantView;
use crate::history::{self, History};
use crate::hold::{HoldStatus, HoldView};
use crate::ids::{AccountId, GrantId, HoldId, Seq};
use crate::policy::Policy;
use crate::poster::{self, Options, Poster};
use crate::quota::{Quota, Subject, Window};
use crate::refusal::Refusal;
use crate::store::connect::Database;
use crate::store::{StoreError, entries, read, upkeep, verify};
use crate::verify::VerifyReport;

/// An accepted command: its entry set, from the first time or from an earlier one.
#[derive(Clone, Debug, PartialEq)]
pub struct Posted {
    pub set: EntrySet,
    pub replayed: bool,
}

/// Why a command has no entry set. Only `OutcomeUnknown` may have written something.
#[derive(Clone, Debug, thiserror::Error)]
pub enum PostError {
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// Another transaction kept the account for longer than 5 s.
    #[error("the account is busy")]
    Busy,
    /// The queue is full.
    #[error("too many commands are waiting")]
    Overloaded,
    #[error("the database is unavailable")]
    DatabaseUnavailable,
    /// The database went away while committing and stayed away; the same key tells later.
    #[error("whether this was posted is not yet known")]
    OutcomeUnknown,
    /// Logged where it happened.
    #[error("internal error")]
    Internal,
}

#[derive(Clone, Debug, thiserror::Error)]
pub enum ReadError {
    #[error("the database is unavailable")]
    DatabaseUnavailable,
    /// Logged where it happened.
    #[error("internal error")]
    Internal,
}

/// An account as the API and the screens show it.
#[derive(Clone, Debug)]
pub struct AccountView {
    pub id: AccountId,
    pub external_ref: Option<String>,
    pub name: Option<String>,
    pub email: Option<String>,
    pub status: AccountStatus,
    pub policy: String,
    pub time_zone: String,
    pub metadata: Map<String, Value>,
    pub created_at: DateTime<Utc>,
    pub balance: BalanceView,
}

/// What an account can spend, has set aside and owes, with everything lapsed that fell due by `as_of`.
#[derive(Clone, Debug, PartialEq)]
pub struct BalanceView {
    pub available: Credits,
    pub held: Credits,
    /// available + held.
    pub balance: Credits,
    pub debt: Credits,
    /// Whether new charges and holds are refused because available is below zero.
    pub breaker_open: bool,
    pub as_of: DateTime<Utc>,
    /// The next grants to end, soonest first, at most 10. Empty for a past instant.
    pub next_expiries: Vec<NextExpiry>,
}

#[derive(Clone, Debug, PartialEq)]
pub struct NextExpiry {
    pub grant: GrantId,
    pub remaining: Credits,
    pub expires_at: DateTime<Utc>,
}

/// A page of a list, in the list's order, and the cursors to the pages on both sides of it.
#[derive(Clone, Debug)]
pub struct Page<T> {
    pub rows: Vec<T>,
    /// Opaque; the page after this one.
    pub next: Option<String>,
    /// Opaque; the page before this one.
    pub previous: Option<String>,
}

/// Where a page begins. The default is the first page.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PageRequest {
    pub cursor: Option<String>,
    /// 1 to 200; 0 counts as the default of 50.
    pub limit: u32,
}

/// The one query of an account's history: screen, CSV and API use it. Newest first.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct EntryQuery {
    pub kinds: Vec<Kind>,
    /// By `effective_at`; `from` is inclusive, `to` exclusive.
    pub from: Option<DateTime<Utc>>,
    pub to: Option<DateTime<Utc>>,
    pub occurred_from: Option<DateTime<Utc>>,
    pub occurred_to: Option<DateTime<Utc>>,
    pub member: Option<String>,
    pub model: Option<String>,
    pub key_ref: Option<String>,
    pub request_ref: Option<String>,
    /// By the absolute `amount`, or `moved` where that is 0.
    pub min: Option<Credits>,
    pub max: Option<Credits>,
}

/// Sums over a whole filter.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct EntryTotals {
    pub count: i64,
    pub amount: Credits,
    pub moved: Credits,
}

/// A cursor that was not made by this list.
#[derive(Clone, Debug, thiserror::Error)]
#[error("the cursor is not one of this list")]
pub struct BadCursor;

/// What can go wrong with a page.
#[derive(Clone, Debug, thiserror::Error)]
pub enum PageError {
    #[error(transparent)]
    BadCursor(#[from] BadCursor),
    #[error(transparent)]
    Read(#[from] ReadError),
}

/// The ledger: one handle, cheap to clone.
#[derive(Clone)]
pub struct Ledger {
    pool: PgPool,
    poster: Poster,
}

impl Ledger {
    /// Starts the lanes. `pool` serves the reads; the lanes make connections of their own. Needs a tokio runtime.
    pub fn start(pool: PgPool, database: &Database, options: Options) -> Ledger {
        let poster = Poster::start(&pool, database, options);
        Ledger { pool, poster }
    }

    /// Posts one command. It is on its way when this returns; dropping the future does not take it back.
    pub fn submit(&self, command: Command) -> impl Future<Output = Result<Posted, PostError>> + use<> {
        // Not `async`, which would carry the command along in the caller's future.
        poster::answered(self.poster.offer(command))
    }

    /// Posts a command of the house's own work, which waits behind the callers' and never fills their queue.
    pub async fn submit_house(&self, command: Command) -> Result<Posted, PostError> {
        poster::answered(self.poster.send_house(command).await).await
    }

    /// Posts many; answers are in the order of the commands, and those of one account are decided in that order.
    pub async fn submit_many(&self, commands: Vec<Command>) -> Vec<Result<Posted, PostError>> {
        let sent: Vec<_> = commands.into_iter().map(|command| self.poster.queue(command)).collect();
        let mut answers = Vec::with_capacity(sent.len());
        for answer in sent {
            answers.push(poster::answered(answer).await);
        }
        answers
    }

    /// The ledger's clock: the database's, or the test clock.
    pub async fn now(&self) -> Result<DateTime<Utc>, ReadError> {
        Ok(read::clock(&self.pool).await?)
    }

    /// Sets the test clock, which never goes back, and answers with where it stands.
    pub async fn set_test_clock(&self, now: DateTime<Utc>) -> Result<DateTime<Utc>, ReadError> {
        Ok(upkeep::set_test_clock(&self.pool, now).await?)
    }

    /// Lets time go on by itself again, once demo data that was made under a test clock is whole.
    pub async fn remove_test_clock(&self) -> Result<(), ReadError> {
        Ok(upkeep::remove_test_clock(&self.pool).await?)
    }

    /// Where the test clock stands, if this is a rehearsal instance.
    pub async fn test_clock(&self) -> Result<Option<DateTime<Utc>>, ReadError> {
        Ok(upkeep::test_clock(&self.pool).await?)
    }

    /// The named policy, for opening accounts.
    pub async fn policy(&self, name: &str) -> Result<Option<Policy>, ReadError> {
        Ok(upkeep::policy(&self.pool, name).await?)
    }

    /// All policies by name.
    pub async fn policies(&self) -> Result<Vec<Policy>, ReadError> {
        Ok(upkeep::policies(&self.pool).await?)
    }

    /// Makes a policy or changes its rules; accounts that point at it follow them from their next command on.
    pub async fn set_policy_rules(&self, policy: &Policy) -> Result<(), ReadError> {
        Ok(upkeep::set_policy(&self.pool, policy).await?)
    }

    pub async fn quotas(&self, account: AccountId) -> Result<Vec<Quota>, ReadError> {
        Ok(upkeep::quotas(&self.pool, account).await?)
    }

    pub async fn set_quota(&self, account: AccountId, quota: &Quota) -> Result<(), ReadError> {
        Ok(upkeep::set_quota(&self.pool, account, quota).await?)
    }

    /// Whether there was one.
    pub async fn remove_quota(
        &self,
        account: AccountId,
        subject: &Subject,
        window: Window,
    ) -> Result<bool, ReadError> {
        Ok(upkeep::remove_quota(&self.pool, account, subject, window).await?)
    }

    pub async fn account_by_ref(&self, external_ref: &str) -> Result<Option<AccountId>, ReadError> {
        Ok(read::account_by_ref(&self.pool, external_ref).await?)
    }

    pub async fn account(&self, account: AccountId) -> Result<Option<AccountView>, ReadError> {
        Ok(read::account(&self.pool, account).await?)
    }

    /// Accounts whose reference, name or e-mail begins with `q`, or whose id is `q`; all where `q` is empty.
    pub async fn accounts(&self, q: &str, page: &PageRequest) -> Result<Page<AccountView>, PageError> {
        let mark = Mark::of("accounts", None, q);
        Ok(mark.close(read::accounts(&self.pool, q, &mark.open(page)?).await?))
    }

    /// `at` absent: now. The caller refuses an instant in the future.
    pub async fn balance(
        &self,
        account: AccountId,
        at: Option<DateTime<Utc>>,
    ) -> Result<Option<BalanceView>, ReadError> {
        let Some(snapshot) = read::snapshot(&self.pool, account).await? else { return Ok(None) };
        let at = at.unwrap_or_else(|| snapshot.present());
        if at >= snapshot.state.head.effective_at {
            return Ok(Some(snapshot.balance(at)?));
        }
        Ok(Some(read::balance_before(&self.pool, account, at).await?))
    }

    /// `live`: only grants that live now (true) or have ended (false). Newest first.
    pub async fn grants(
        &self,
        account: AccountId,
        live: Option<bool>,
        page: &PageRequest,
    ) -> Result<Page<GrantView>, PageError> {
        let mark = Mark::of("grants", Some(account), &format!("{live:?}"));
        Ok(mark.close(read::grants(&self.pool, account, live, &mark.open(page)?).await?))
    }

    /// Newest first.
    pub async fn holds(
        &self,
        account: AccountId,
        status: Option<HoldStatus>,
        page: &PageRequest,
    ) -> Result<Page<HoldView>, PageError> {
        let mark = Mark::of("holds", Some(account), status.map_or("", HoldStatus::as_str));
        Ok(mark.close(read::holds(&self.pool, account, status, &mark.open(page)?).await?))
    }

    pub async fn hold(&self, account: AccountId, hold: HoldId) -> Result<Option<HoldView>, ReadError> {
        Ok(read::hold(&self.pool, account, hold).await?)
    }

    pub async fn entries(
        &self,
        account: AccountId,
        query: &EntryQuery,
        page: &PageRequest,
    ) -> Result<Page<Entry>, PageError> {
        let mark = Mark::of("entries", Some(account), &cursor::written(query));
        Ok(mark.close(entries::entries(&self.pool, account, query, &mark.open(page)?).await?))
    }

    /// A page of entries with what fell due but is not written yet on top of the first one.
    pub async fn history(
        &self,
        account: AccountId,
        query: &EntryQuery,
        page: &PageRequest,
    ) -> Result<History, PageError> {
        // First, so that what is written between the two looks is seen by one of them.
        let pending = history::pending(&self.pool, account).await?;
        Ok(history::assembled(pending, query, self.entries(account, query, page).await?))
    }

    /// Over the whole filter, what fell due but is not written yet included.
    pub async fn history_totals(
        &self,
        account: AccountId,
        query: &EntryQuery,
    ) -> Result<EntryTotals, ReadError> {
        let pending = history::pending(&self.pool, account).await?;
        history::added(&self.entry_totals(account, query).await?, &pending, query)
    }

    /// Entries by their numbers, in order; those that are not there are left out.
    pub async fn entries_of(
        &self,
        account: AccountId,
        seqs: impl IntoIterator<Item = Seq>,
    ) -> Result<Vec<Entry>, ReadError> {
        history::entries_of(&self.pool, account, seqs).await
    }

    /// Over the whole filter, whatever the page.
    pub async fn entry_totals(
        &self,
        account: AccountId,
        query: &EntryQuery,
    ) -> Result<EntryTotals, ReadError> {
        Ok(entries::entry_totals(&self.pool, account, query).await?)
    }

    pub async fn entry(&self, account: AccountId, seq: Seq) -> Result<Option<Entry>, ReadError> {
        Ok(entries::entry(&self.pool, account, seq).await?)
    }

    /// Net use (charges, settles, refunds; without open holds) by day of the given zone, for charts: one row per
    /// day and model, oldest first.
    pub async fn usage_by_day(
        &self,
        account: AccountId,
        from: DateTime<Utc>,
        to: DateTime<Utc>,
        zone: chrono_tz::Tz,
    ) -> Result<Vec<UsageRow>, ReadError> {
        Ok(entries::usage_by_day(&self.pool, account, from, to, zone).await?)
    }

    /// Accounts in the order of their ids, for passes over all of them.
    pub async fn account_ids(
        &self,
        after: Option<AccountId>,
        limit: u32,
    ) -> Result<Vec<AccountId>, ReadError> {
        Ok(read::account_ids(&self.pool, after, i64::from(limit)).await?)
    }

    /// Entries of an account with lines and words, oldest first, after a number.
    pub async fn journal(&self, account: AccountId, after: Seq, limit: u32) -> Result<Vec<Entry>, ReadError> {
        let mut connection = self.pool.acquire().await.map_err(StoreError::from)?;
        Ok(entries::journal(&mut connection, account, after, i64::from(limit)).await?)
    }

    /// Recomputes every account from its journal. `progress` is told of each account that is done.
    pub async fn verify(&self, mut progress: impl FnMut(&VerifyReport)) -> Result<VerifyReport, ReadError> {
        let mut report = VerifyReport::default();
        let mut after = None;
        loop {
            let accounts = self.account_ids(after, 500).await?;
            let Some(last) = accounts.last() else { break };
            after = Some(*last);
            for account in accounts {
                verify::account(&self.pool, account, &mut report).await?;
                progress(&report);
            }
        }
        verify::strays(&self.pool, &mut report).await?;
        Ok(report)
    }

    /// Verifies one account.
    pub async fn verify_account(&self, account: AccountId) -> Result<VerifyReport, ReadError> {
        let mut report = VerifyReport::default();
        verify::account(&self.pool, account, &mut report).await?;
        Ok(report)
    }

    /// Writes what fell due, up to `limit` accounts; how many accounts had something. Nothing waits for it. An account that
    /// cannot be written is logged and does not hold up the others.
    pub async fn sweep(&self, limit: u32) -> Result<u64, PostError> {
        let due = read::due(&self.pool, i64::from(limit))
            .await
            .map_err(|error| PostError::from(ReadError::from(error)))?;
        let mut sent = Vec::with_capacity(due.len());
        for account in due {
            sent.push((account, self.poster.send_house(Command::house(account, Verb::Lapse, "sweep")).await));
        }
        let mut written = 0;
        for (account, answer) in sent {
            match poster::answered(answer).await {
                Ok(posted) => written += u64::from(!posted.set.entries.is_empty()),
                Err(error) => {
                    tracing::warn!(account.id = %account, error = %error, "A sweep passed an account over");
                }
            }
        }
        Ok(written)
    }

    /// Deletes source addresses that have been kept for 30 days; how many.
    pub async fn forget_addresses(&self) -> Result<u64, ReadError> {
        Ok(upkeep::forget_addresses(&self.pool).await?)
    }

    /// Erases a person: closes out what is left by a recorded entry, then deletes all words. Can be repeated.
    pub async fn erase(&self, account: AccountId, actor: Actor) -> Result<(), PostError> {
        let mut command = Command::house(account, Verb::Erase, "erase");
        command.actor = actor;
        command.key = Some((Origin::Worker, key_digest("erase")));
        self.submit_house(command).await?;
        upkeep::erase_words(&self.pool, account)
            .await
            .map_err(|error| PostError::from(ReadError::from(error)))
    }

    /// Deletes one account with its journal and leaves a tombstone; its last entry's number, or `None` if there is
    /// no such account.
    pub async fn purge(&self, account: AccountId, who: &str, why: &str) -> Result<Option<Seq>, ReadError> {
        Ok(upkeep::purge(&self.pool, account, who, why).await?)
    }

    /// The last entry's number and hash of a purged account.
    pub async fn tombstone(&self, account: AccountId) -> Result<Option<(Seq, [u8; 32])>, ReadError> {
        Ok(upkeep::tombstone(&self.pool, account).await?)
    }
}

/// A failure inside is logged here, once; the caller learns what it can act on.
impl From<StoreError> for ReadError {
    fn from(error: StoreError) -> ReadError {
        match error {
            StoreError::Lost(cause) => {
                tracing::warn!(error = %cause, "The database cannot be reached");
                ReadError::DatabaseUnavailable
            }
            error => {
                let cause = std::error::Error::source(&error).map(ToString::to_string).unwrap_or_default();
                tracing::error!(error = %error, cause, "A read failed");
                ReadError::Internal
            }
        }
    }
}

impl From<StoreError> for PageError {
    fn from(error: StoreError) -> PageError {
        PageError::Read(error.into())
    }
}

impl From<ReadError> for PostError {
    fn from(error: ReadError) -> PostError {
        match error {
            ReadError::DatabaseUnavailable => PostError::DatabaseUnavailable,
            ReadError::Internal => PostError::Internal,
        }
    }
}

/// What was used on a day by a model.
#[derive(Clone, Debug, PartialEq)]
pub struct UsageRow {
    pub day: chrono::NaiveDate,
    pub model: Option<String>,
    pub amount: Credits,
}
