//! A lane: takes what is queued and runs it, round after round, whatever the database does.

use std::time::{Duration, Instant};

use sqlx::PgConnection;
use tokio::sync::mpsc;
use tokio::time::{sleep, timeout};

use super::aside::Aside;
use super::desk::Verdict;
use super::memory::Memory;
use super::round::{self, Locking, RoundFailure};
use super::{CONFLICT_WAITS_MS, Job, Options, TRANSACTION_MAX};
use crate::command::Command;
use crate::service::PostError;
use crate::store::StoreError;
use crate::store::connect::Database;
use crate::store::lock::PolicyCache;

/// A connection that is made again when it is lost, and what it has learned of policies and accounts.
pub(crate) struct Line {
    database: Database,
    connection: Option<PgConnection>,
    policies: PolicyCache,
    memory: Memory,
}

impl Line {
    pub(crate) fn new(database: Database, memory: Memory) -> Line {
        Line { database, connection: None, policies: PolicyCache::default(), memory }
    }

    /// Runs one round within the time a transaction may take. A connection that failed is given up.
    async fn round(&mut self, commands: &[&Command], locking: Locking) -> Result<Vec<Verdict>, RoundFailure> {
        let mut connection = match self.connection.take() {
            Some(connection) => connection,
            None => {
                self.memory.clear();
                timeout(TRANSACTION_MAX, self.database.lane())
                    .await
                    .map_err(|_| StoreError::Lost(sqlx::Error::PoolTimedOut))?
                    .map_err(StoreError::Lost)?
            }
        };
        let round = round::run(&mut connection, &mut self.policies, &mut self.memory, commands, locking);
        match timeout(TRANSACTION_MAX, round).await {
            Ok(Ok(verdicts)) => {
                self.connection = Some(connection);
                Ok(verdicts)
            }
            Ok(Err(failure)) => {
                if !matches!(failure.error, StoreError::Lost(_)) {
                    self.connection = Some(connection);
                }
                Err(failure)
            }
            // It may have been in the middle of its commit.
            Err(_) => Err(RoundFailure { error: StoreError::TimedOut, in_doubt: Some(Vec::new()) }),
        }
    }

    /// Runs a round until it has verdicts, until the database has stayed away too long, or until it must be halved.
    /// What was decided in an attempt that may have been committed is marked on the jobs.
    async fn settle(&mut self, jobs: &mut [Job], locking: Locking) -> Settled {
        let began = Instant::now();
        let mut conflicts = CONFLICT_WAITS_MS.iter();
        let mut losses: u32 = 0;
        loop {
            let commands: Vec<&Command> = jobs.iter().map(|job| &job.command).collect();
            let failure = match self.round(&commands, locking).await {
                Ok(verdicts) => return Settled::Verdicts(verdicts),
                Err(failure) => failure,
            };
            if let Some(decided) = &failure.in_doubt {
                mark_doubt(jobs, decided);
            }
            match failure.error {
                StoreError::Locked => return Settled::StillLocked,
                // Alone it is given up; among others it is halved, so that a slow command takes no neighbour along.
                StoreError::TimedOut if jobs.len() == 1 => return Settled::Away,
                StoreError::Conflict(error) => match conflicts.next() {
                    Some(wait_ms) => sleep(jittered(*wait_ms)).await,
                    None => return Settled::Failed(StoreError::Conflict(error)),
                },
                StoreError::Lost(error) => {
                    if losses == 0 {
                        tracing::warn!(error = %error, "The database connection was lost; trying again");
                    }
                    losses += 1;
                    if began.elapsed() >= TRANSACTION_MAX {
                        return Settled::Away;
                    }
                    sleep(jittered(u64::from(losses.min(10)) * 20)).await;
                }
                error => return Settled::Failed(error),
            }
        }
    }
}

/// After a commit that may or may not have happened: what this round decided is its own, even when the next attempt
/// finds it in the journal.
fn mark_doubt(jobs: &mut [Job], decided: &[bool]) {
    for (place, job) in jobs.iter_mut().enumerate() {
        job.in_doubt = true;
        job.decided |= decided.get(place).copied().unwrap_or(false);
    }
}

enum Settled {
    Verdicts(Vec<Verdict>),
    /// The one account of the round was not given in time.
    StillLocked,
    Away,
    Failed(StoreError),
}

/// Between half of it and all of it, so that those that collided do not meet again.
fn jittered(wait_ms: u64) -> Duration {
    let mut byte = [0; 1];
    let random = if getrandom::fill(&mut byte).is_ok() { u64::from(byte[0]) } else { 128 };
    Duration::from_micros(wait_ms * 500 + wait_ms * 500 * random / 255)
}

/// The task of a lane.
pub(crate) async fn run(
    database: Database,
    options: Options,
    aside: Aside,
    mut callers: mpsc::Receiver<Job>,
    mut house: mpsc::Receiver<Job>,
) {
    let mut line = Line::new(database, Memory::new());
    let house_max = (options.round_max / 4).max(1);
    let mut jobs = Vec::with_capacity(options.round_max);
    loop {
        // The queues close together, when the last handle is gone.
        let (first, mut from_house) = tokio::select! {
            biased;
            job = callers.recv() => (job, 0),
            job = house.recv() => (job, 1),
        };
        let Some(first) = first else { break };
        jobs.push(first);
        // Whichever woke the lane, the other gets its share of the same round.
        while jobs.len() < options.round_max
            && let Ok(job) = callers.try_recv()
        {
            jobs.push(job);
        }
        while from_house < house_max
            && jobs.len() < options.round_max
            && let Ok(job) = house.try_recv()
        {
            jobs.push(job);
            from_house += 1;
        }
        let jobs = aside.keep_waiting(std::mem::take(&mut jobs));
        for (account, job) in work(&mut line, jobs, Locking::SkipLocked).await {
            aside.put(account, job);
        }
    }
}

/// Runs jobs and answers them, all but those whose account is locked elsewhere, which come back.
pub(crate) async fn work(
    line: &mut Line,
    jobs: Vec<Job>,
    locking: Locking,
) -> Vec<(crate::ids::AccountId, Job)> {
    let mut locked = Vec::new();
    let mut rest = vec![jobs];
    while let Some(mut jobs) = rest.pop() {
        if jobs.is_empty() {
            continue;
        }
        match line.settle(&mut jobs, locking).await {
            Settled::Verdicts(verdicts) => {
                for (job, verdict) in jobs.into_iter().zip(verdicts) {
                    match verdict {
                        Verdict::Answer(answer) => job.answer(answer),
                        Verdict::Locked(account) => locked.push((account, job)),
                    }
                }
            }
            Settled::StillLocked => locked.extend(jobs.into_iter().map(|job| (job.command.account, job))),
            Settled::Away => {
                jobs.into_iter().for_each(|job| job.answer_not_done(PostError::DatabaseUnavailable));
            }
            Settled::Failed(error) if jobs.len() == 1 => {
                for job in jobs {
                    log_culprit(&error, &job.command);
                    job.answer_not_done(PostError::Internal);
                }
            }
            // Halved, first half first, so that the commands of an account keep their order.
            Settled::Failed(_) => {
                let second = jobs.split_off(jobs.len() / 2);
                rest.push(second);
                rest.push(jobs);
            }
        }
    }
    locked
}

/// The culprit of a round is logged once, with what the database said.
fn log_culprit(error: &StoreError, command: &Command) {
    let cause = std::error::Error::source(error).map(ToString::to_string).unwrap_or_default();
    tracing::error!(account.id = %command.account, error = %error, cause, "A command could not be posted");
}
