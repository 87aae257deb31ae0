//! Accounts that another transaction keeps: their commands wait here, on a few connections of their own, one account a
//! round, so that the lane goes on. A command that has waited 5 s is answered with `Busy`.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use tokio::runtime::Handle;
use tokio::sync::Semaphore;
use tokio::time::timeout;

use super::lane::{self, Line, Runner};
use super::memory::Memory;
use super::round::Locking;
use super::{ACCOUNT_WAIT, Job, Options};
use crate::ids::AccountId;
use crate::service::PostError;
use crate::store::connect::Database;

/// The side queue of all lanes.
#[derive(Clone)]
pub(crate) struct Aside {
    shared: Arc<Shared>,
}

struct Shared {
    database: Database,
    /// Where the tasks of accounts run; the lanes have threads of their own.
    runtime: Handle,
    round_max: usize,
    /// Commands waiting for one account.
    queue_max: usize,
    connections: Semaphore,
    waiting: Mutex<HashMap<AccountId, Vec<Job>>>,
    idle: Mutex<Vec<Line>>,
}

impl Aside {
    pub(crate) fn new(database: Database, options: Options) -> Aside {
        let shared = Shared {
            database,
            runtime: Handle::current(),
            round_max: options.round_max.max(1),
            queue_max: options.queue_max,
            connections: Semaphore::new(options.aside_connections.max(1)),
            waiting: Mutex::new(HashMap::new()),
            idle: Mutex::new(Vec::new()),
        };
        Aside { shared: Arc::new(shared) }
    }

    /// Adds the jobs whose account has commands waiting already, behind them, and answers with the others.
    pub(crate) fn keep_waiting(&self, jobs: Vec<Job>) -> Vec<Job> {
        let mut waiting = self.shared.waiting();
        if waiting.is_empty() {
            return jobs;
        }
        let mut others = Vec::with_capacity(jobs.len());
        for job in jobs {
            match waiting.get_mut(&job.command.account) {
                Some(queue) if queue.len() >= self.shared.queue_max => {
                    job.answer_not_done(PostError::Overloaded);
                }
                Some(queue) => queue.push(job),
                None => others.push(job),
            }
        }
        others
    }

    /// Puts a job aside; the account's first one starts its task.
    pub(crate) fn put(&self, account: AccountId, job: Job) {
        let mut waiting = self.shared.waiting();
        if let Some(queue) = waiting.get_mut(&account) {
            queue.push(job);
            return;
        }
        waiting.insert(account, vec![job]);
        self.shared.runtime.spawn(Arc::clone(&self.shared).serve(account));
    }
}

impl Shared {
    /// Nothing that holds these locks can panic between two changes that belong together.
    fn waiting(&self) -> MutexGuard<'_, HashMap<AccountId, Vec<Job>>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn idle(&self) -> MutexGuard<'_, Vec<Line>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// When the command came that has waited longest for the account. With nothing waiting, the account goes back to its lane.
    fn oldest(&self, account: AccountId) -> Option<Instant> {
        let mut waiting = self.waiting();
        let oldest = waiting.get(&account).and_then(|queue| queue.iter().map(|job| job.arrived).min());
        if oldest.is_none() {
            waiting.remove(&account);
        }
        oldest
    }

    /// The first commands of an account's queue, as many as a round takes.
    fn take(&self, account: AccountId) -> Vec<Job> {
        let mut waiting = self.waiting();
        let Some(queue) = waiting.get_mut(&account) else { return Vec::new() };
        queue.drain(..queue.len().min(self.round_max)).collect()
    }

    /// Answers the commands that have waited their time.
    fn answer_late(&self, account: AccountId) {
        let late: Vec<Job> = match self.waiting().get_mut(&account) {
            Some(queue) => queue.extract_if(.., |job| job.arrived.elapsed() >= ACCOUNT_WAIT).collect(),
            None => Vec::new(),
        };
        late.into_iter().for_each(|job| job.answer_not_done(PostError::Busy));
    }

    /// Puts jobs back in front of the queue.
    fn put_back(&self, account: AccountId, mut jobs: Vec<Job>) {
        let mut waiting = self.waiting();
        let queue = waiting.entry(account).or_default();
        jobs.append(queue);
        *queue = jobs;
    }

    /// Serves an account until nothing of it waits. The connection is given back after each round, so that accounts take
    /// turns, however busy one of them is; a command that has waited its time is answered even while none is free.
    async fn serve(self: Arc<Shared>, account: AccountId) {
        while let Some(oldest) = self.oldest(account) {
            let wait = ACCOUNT_WAIT.saturating_sub(oldest.elapsed());
            if let Ok(Ok(_turn)) = timeout(wait, self.connections.acquire()).await {
                self.round(account).await;
            } else {
                self.answer_late(account);
            }
        }
    }

    async fn round(&self, account: AccountId) {
        self.answer_late(account);
        let Some(oldest) = self.oldest(account) else { return };
        let jobs = self.take(account);
        let idle = self.idle().pop();
        let mut line = idle.unwrap_or_else(|| Line::new(self.database.clone(), Memory::none()));
        let wait = ACCOUNT_WAIT.saturating_sub(oldest.elapsed());
        let locked = lane::work(&mut line, Runner::Lane, jobs, Locking::Wait(wait)).await;
        self.idle().push(line);
        self.put_back(account, locked.into_iter().map(|(_, job)| job).collect());
    }
}
