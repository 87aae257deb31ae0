//! A lane: takes what is queued and runs it, round after round, whatever the database does.
//!
//! Its rounds run on its own thread. A command that finds the lane at rest is run at once by the caller's side instead (see [`alone`]):
//! a lone command would else wait twice for a thread to wake up. Whoever has the lane's [`Line`] runs; nobody else does.

use std::sync::Arc;
use std::time::{Duration, Instant};

use sqlx::{Connection, PgConnection};
use tokio::sync::{Mutex, OwnedMutexGuard, mpsc};
use tokio::time::{sleep, timeout};

use super::aside::Aside;
use super::desk::Verdict;
use super::memory::Memory;
use super::round::{self, Locking, RoundFailure};
use super::{CONFLICT_WAITS_MS, Job, Options, TRANSACTION_MAX};
use crate::command::Command;
use crate::ids::AccountId;
use crate::service::PostError;
use crate::store::StoreError;
use crate::store::accounts;
use crate::store::connect::Database;
use crate::store::lock::PolicyCache;

/// How long a connection may take to say that it is there.
const PING_MAX: Duration = Duration::from_secs(1);

/// Who runs a round. A connection belongs to the runtime it was made on, so each has its own.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Runner {
    Lane,
    Caller,
}

/// Connections that are made again when they are lost, and what was learned on them of policies and accounts.
pub(crate) struct Line {
    database: Database,
    connections: [Option<PgConnection>; 2],
    policies: PolicyCache,
    memory: Memory,
}

impl Line {
    pub(crate) fn new(database: Database, memory: Memory) -> Line {
        Line { database, connections: [None, None], policies: PolicyCache::default(), memory }
    }

    fn connection(&mut self, runner: Runner) -> &mut Option<PgConnection> {
        let [lane, caller] = &mut self.connections;
        match runner {
            Runner::Lane => lane,
            Runner::Caller => caller,
        }
    }

    /// Reads accounts into the memory, on the caller's side.
    pub(crate) async fn read_ahead(&mut self, accounts: &[AccountId]) -> Result<(), StoreError> {
        let mut connection = self.connect(Runner::Caller).await?;
        let seen = accounts::look(&mut connection, &mut self.policies, accounts).await?;
        self.memory.keep(seen.states);
        *self.connection(Runner::Caller) = Some(connection);
        Ok(())
    }

    /// The runner's connection, or a new one.
    async fn connect(&mut self, runner: Runner) -> Result<PgConnection, StoreError> {
        if let Some(connection) = self.connection(runner).take() {
            return Ok(connection);
        }
        if !self.is_connected().await {
            self.memory.clear();
        }
        timeout(TRANSACTION_MAX, self.database.lane())
            .await
            .map_err(|_| StoreError::Lost(sqlx::Error::PoolTimedOut))?
            .map_err(StoreError::Lost)
    }

    /// Whether one of the connections still is: then it is the same database that the memory is of, and not one that has taken
    /// its place with another history.
    async fn is_connected(&mut self) -> bool {
        for place in &mut self.connections {
            if let Some(mut connection) = place.take()
                && let Ok(Ok(())) = timeout(PING_MAX, connection.ping()).await
            {
                *place = Some(connection);
                return true;
            }
        }
        false
    }

    /// Runs one round within the time a transaction may take. A connection that failed is given up.
    async fn round(
        &mut self,
        runner: Runner,
        commands: &[&Command],
        locking: Locking,
        decided: &mut Vec<bool>,
    ) -> Result<Vec<Verdict>, RoundFailure> {
        let mut connection = self.connect(runner).await?;
        let round =
            round::run(&mut connection, &mut self.policies, &mut self.memory, commands, locking, decided);
        match timeout(TRANSACTION_MAX, round).await {
            Ok(Ok(verdicts)) => {
                *self.connection(runner) = Some(connection);
                Ok(verdicts)
            }
            Ok(Err(failure)) => {
                if !matches!(failure.error, StoreError::Lost(_)) {
                    *self.connection(runner) = Some(connection);
                }
                Err(failure)
            }
            // It may have been in the middle of its commit.
            Err(_) => Err(RoundFailure { error: StoreError::TimedOut, in_doubt: true }),
        }
    }

    /// Runs a round until it has verdicts, until the database has stayed away too long, or until it must be halved.
    /// What was decided in an attempt that may have been committed is marked on the jobs.
    async fn settle(&mut self, runner: Runner, jobs: &mut [Job], locking: Locking) -> Settled {
        let began = Instant::now();
        let mut conflicts = CONFLICT_WAITS_MS.iter();
        let mut losses: u32 = 0;
        loop {
            let commands: Vec<&Command> = jobs.iter().map(|job| &*job.command).collect();
            let mut decided = Vec::new();
            let failure = match self.round(runner, &commands, locking, &mut decided).await {
                Ok(verdicts) => return Settled::Verdicts(verdicts),
                Err(failure) => failure,
            };
            if failure.in_doubt {
                mark_doubt(jobs, &decided);
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
    line: Arc<Mutex<Line>>,
    options: Options,
    aside: Aside,
    mut callers: mpsc::Receiver<Job>,
    mut house: mpsc::Receiver<Job>,
) {
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
        let mut line = line.lock().await;
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
        serve(&mut line, Runner::Lane, std::mem::take(&mut jobs), &aside).await;
    }
}

/// Runs a command that found the lane at rest.
pub(crate) async fn alone(mut line: OwnedMutexGuard<Line>, job: Job, aside: Aside) {
    serve(&mut line, Runner::Caller, vec![job], &aside).await;
}

/// Runs jobs and answers them; those whose account is locked elsewhere go aside, behind those that wait there already.
async fn serve(line: &mut Line, runner: Runner, jobs: Vec<Job>, aside: &Aside) {
    let jobs = aside.keep_waiting(jobs);
    for (account, job) in work(line, runner, jobs, Locking::SkipLocked).await {
        aside.put(account, job);
    }
}

/// Runs jobs and answers them, all but those whose account is locked elsewhere, which come back.
pub(crate) async fn work(
    line: &mut Line,
    runner: Runner,
    jobs: Vec<Job>,
    locking: Locking,
) -> Vec<(AccountId, Job)> {
    let mut locked = Vec::new();
    let mut rest = vec![jobs];
    while let Some(mut jobs) = rest.pop() {
        if jobs.is_empty() {
            continue;
        }
        match line.settle(runner, &mut jobs, locking).await {
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
