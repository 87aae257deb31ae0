//! Drives a Daybook with a trace of real calls, as a service in front of a model would, and says whether the ledger's
//! sum is the one that was expected.
//!
//! [`plan`] works everything out beforehand, apart from the ledger; [`calls`] sends it over HTTP; [`readback`] asks
//! the journal afterwards. To add a fault: an [`plan::Ending`] or a flag on the planned call, drawn from the call's
//! own stream so that other calls keep theirs, and what it does to the expected sum.

mod accounts;
mod calls;
mod client;
pub mod generator;
mod plan;
mod readback;
mod trace;

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

use rust_decimal::Decimal;
use serde_json::Value;

use calls::Sent;
use client::Client;
use readback::Reading;

pub use client::{ClientError, Target};
pub use plan::{Faults, Plan, Tally, Terms};
pub use trace::read as read_trace;

/// Accounts that are read back at one time.
const READERS_MAX: usize = 8;

/// A run's name and what its requests have in common.
#[derive(Clone, Debug)]
pub struct Run {
    pub id: String,
    pub seed: u64,
    pub model: String,
}

impl Run {
    /// What the idempotency keys of the run begin with: the same run and seed repeat, another run does not collide.
    fn prefix(&self) -> String {
        format!("drive-{}-{}", self.id, self.seed)
    }

    /// The stable id of a call, which History shows.
    fn request_ref(&self, number: u64) -> String {
        format!("{}-{number:05}", self.prefix())
    }

    fn owns(&self, request_ref: &str) -> bool {
        request_ref.strip_prefix(&self.prefix()).is_some_and(|rest| rest.starts_with('-'))
    }
}

/// Why a run did not come to its end.
#[derive(Debug, thiserror::Error)]
pub enum DriveError {
    #[error("call {number}: {error}")]
    Call { number: u64, error: ClientError },
    #[error("account {reference}: {error}")]
    Account { reference: String, error: ClientError },
    #[error("reading the journal back: {0}")]
    ReadBack(ClientError),
    #[error("an answer does not have the documented shape: {0}")]
    Shape(String),
    #[error("the amounts are larger than any balance")]
    TooLarge,
}

impl DriveError {
    fn no_amount(pointer: &str) -> DriveError {
        DriveError::Shape(format!("{pointer} is not an amount"))
    }

    /// Whether it was asked to stop.
    pub fn is_stopped(&self) -> bool {
        let (DriveError::Call { error, .. }
        | DriveError::Account { error, .. }
        | DriveError::ReadBack(error)) = self
        else {
            return false;
        };
        matches!(error, ClientError::Stopped)
    }
}

/// What a run came to.
#[derive(Clone, Debug)]
pub struct Outcome {
    pub requests: u64,
    pub replays: u64,
    /// What the journal says was used by this run.
    pub used: Decimal,
    pub settles: u64,
    pub entries: u64,
    /// The first thing in the accounts' journals that does not hang together.
    pub fault: Option<String>,
}

/// How far a run is.
pub trait Progress: Sync {
    /// A part of the run begins, with so many steps.
    fn begin(&self, what: &'static str, steps: usize);
    fn step(&self);
}

/// Sends the whole plan and reads the journal back. Blocks; `stop` ends it early.
pub fn run(
    plan: &Plan,
    terms: &Terms,
    run: &Run,
    target: &Target,
    threads: usize,
    stop: &AtomicBool,
    progress: &dyn Progress,
) -> Result<Outcome, DriveError> {
    let crew = Crew { target, threads, stop, progress };
    let accounts = crew.each("opening accounts", terms.accounts, |client, index| {
        let account = accounts::find_or_open(client, index)?;
        accounts::fund(client, run, plan, index, &account)?;
        Ok(account)
    })?;
    let sent = crew.each("sending calls", plan.calls.len(), |client, index| {
        let call = &plan.calls[index];
        calls::send(client, run, call, &accounts[call.account])
    })?;
    // Pages of a journal keep a connection of the server busy for longer than a call does.
    let crew = Crew { threads: threads.min(READERS_MAX), ..crew };
    let readings = crew.each("reading the journal back", accounts.len(), |client, index| {
        readback::read(client, run, &accounts[index])
    })?;
    summed(&sent, &readings)
}

fn summed(sent: &[Sent], readings: &[Reading]) -> Result<Outcome, DriveError> {
    let used =
        readings.iter().try_fold(Decimal::ZERO, |sum, reading| sum.checked_add(reading.used.decimal()));
    Ok(Outcome {
        requests: sent.iter().map(|sent| sent.requests).sum(),
        replays: sent.iter().map(|sent| sent.replays).sum(),
        used: used.ok_or(DriveError::TooLarge)?,
        settles: readings.iter().map(|reading| reading.settles).sum(),
        entries: readings.iter().map(|reading| reading.entries).sum(),
        fault: readings.iter().find_map(|reading| reading.fault.clone()),
    })
}

/// Threads that share out the steps of a part.
struct Crew<'a> {
    target: &'a Target,
    threads: usize,
    stop: &'a AtomicBool,
    progress: &'a dyn Progress,
}

/// What a thread did: results with their places, or what stopped it.
type Share<T> = Result<Vec<(usize, T)>, DriveError>;

impl Crew<'_> {
    /// Does all steps, in any order, and gives their results in order. The first failure ends the others' work.
    fn each<T: Send>(
        &self,
        what: &'static str,
        steps: usize,
        work: impl Fn(&Client<'_>, usize) -> Result<T, DriveError> + Sync,
    ) -> Result<Vec<T>, DriveError> {
        self.progress.begin(what, steps);
        let next = AtomicUsize::new(0);
        let failed = AtomicBool::new(false);
        let shares: Mutex<Vec<Share<T>>> = Mutex::new(Vec::new());
        thread::scope(|scope| {
            for _ in 0..self.threads.min(steps) {
                scope.spawn(|| {
                    let share = self.share(&next, &failed, steps, &work);
                    failed.fetch_or(share.is_err(), Ordering::Relaxed);
                    if let Ok(mut shares) = shares.lock() {
                        shares.push(share);
                    }
                });
            }
        });
        let shares = shares.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
        let mut results = Vec::with_capacity(steps);
        for share in shares {
            results.extend(share?);
        }
        results.sort_by_key(|(place, _)| *place);
        Ok(results.into_iter().map(|(_, result)| result).collect())
    }

    fn share<T>(
        &self,
        next: &AtomicUsize,
        failed: &AtomicBool,
        steps: usize,
        work: &(impl Fn(&Client<'_>, usize) -> Result<T, DriveError> + Sync),
    ) -> Share<T> {
        let client = Client::new(self.target, self.stop);
        let mut done = Vec::new();
        while !failed.load(Ordering::Relaxed) {
            let step = next.fetch_add(1, Ordering::Relaxed);
            if step >= steps {
                break;
            }
            done.push((step, work(&client, step)?));
            self.progress.step();
        }
        Ok(done)
    }
}

/// The text at a JSON pointer of an answer.
fn text_at<'a>(body: &'a Value, pointer: &str) -> Result<&'a str, DriveError> {
    body.pointer(pointer)
        .and_then(Value::as_str)
        .ok_or_else(|| DriveError::Shape(format!("{pointer} is missing")))
}
