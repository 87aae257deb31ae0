//! Accounts that another transaction keeps: their commands wait here, on a few connections of their own, one account a
//! round, so that the lane goes on. A command that has waited 5 s is answered with `Busy`.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Semaphore;

use super::lane::{self, Line};
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
    round_max: usize,
    connections: Semaphore,
    waiting: Mutex<HashMap<AccountId, Vec<Job>>>,
    idle: Mutex<Vec<Line>>,
}

impl Aside {
    pub(crate) fn new(database: Database, options: Options) -> Aside {
        let shared = Shared {
            database,
            round_max: options.round_max.max(1),
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
        tokio::spawn(Arc::clone(&self.shared).serve(account));
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

    /// The oldest jobs of an account, or nothing and no more queue.
    fn take(&self, account: AccountId) -> Vec<Job> {
        let mut waiting = self.waiting();
        let Some(queue) = waiting.get_mut(&account) else { return Vec::new() };
        let taken: Vec<Job> = queue.drain(..queue.len().min(self.round_max)).collect();
        if taken.is_empty() {
            waiting.remove(&account);
        }
        taken
    }

    /// Puts jobs back in front of the queue.
    fn put_back(&self, account: AccountId, mut jobs: Vec<Job>) {
        let mut waiting = self.waiting();
        let queue = waiting.entry(account).or_default();
        jobs.append(queue);
        *queue = jobs;
    }

    async fn serve(self: Arc<Shared>, account: AccountId) {
        let Ok(_permit) = self.connections.acquire().await else { return };
        let idle = self.idle().pop();
        let mut line = idle.unwrap_or_else(|| Line::new(self.database.clone()));
        loop {
            let jobs = self.take(account);
            if jobs.is_empty() {
                break;
            }
            let (late, jobs): (Vec<Job>, Vec<Job>) =
                jobs.into_iter().partition(|job| job.arrived.elapsed() >= ACCOUNT_WAIT);
            late.into_iter().for_each(|job| job.answer_not_done(PostError::Busy));
            let Some(oldest) = jobs.iter().map(|job| job.arrived.elapsed()).max() else { continue };
            let wait = ACCOUNT_WAIT.saturating_sub(oldest);
            let locked = lane::work(&mut line, jobs, Locking::WaitFor(account, wait)).await;
            if !locked.is_empty() {
                self.put_back(account, locked.into_iter().map(|(_, job)| job).collect());
            }
        }
        self.idle().push(line);
    }
}
