//! The poster: the one road for money. Commands that arrive together are decided together, in rounds.
//!
//! A lane is a set of accounts with one task and one connection; it takes what is queued, with no added wait, and runs it
//! as one round (see [`round`]). Commands of an account that another transaction keeps go aside (see [`aside`]), so that
//! their neighbours are answered. What a lane knows of its accounts it remembers (see [`memory`]). A round that fails is halved until the culprit stands alone.

mod aside;
mod desk;
mod lane;
mod lane_thread;
mod memory;
mod round;
mod swift;
mod warm_up;

use std::sync::Arc;
use std::time::{Duration, Instant};

use sqlx::PgPool;
use tokio::runtime::Handle;
use tokio::sync::{Mutex, mpsc, oneshot};

use lane::Line;
use memory::Memory;

use crate::command::{Command, Verb};
use crate::ids::AccountId;
use crate::service::{PostError, Posted};
use crate::store::connect::Database;

/// How the poster is sized.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    pub lanes: usize,
    /// Commands decided in one round.
    pub round_max: usize,
    /// Commands waiting in one lane; more are answered with `Overloaded` at once.
    pub queue_max: usize,
    /// Connections for accounts that another transaction keeps.
    pub aside_connections: usize,
}

impl Default for Options {
    fn default() -> Options {
        Options { lanes: 2, round_max: 256, queue_max: 8_192, aside_connections: 4 }
    }
}

/// How long a command may wait for its account before it is answered with `Busy`.
const ACCOUNT_WAIT: Duration = Duration::from_secs(5);
/// How long a transaction may take, and how long a lost database is waited for.
const TRANSACTION_MAX: Duration = Duration::from_secs(8);
/// Waits before a conflicting round is run again.
const CONFLICT_WAITS_MS: [u64; 5] = [25, 75, 200, 1_000, 2_000];

pub(crate) type Answer = Result<Posted, PostError>;

/// A command on its way, with the place where its answer goes.
pub(crate) struct Job {
    /// Boxed, since a job passes through several hands before it is decided.
    pub command: Box<Command>,
    pub reply: oneshot::Sender<Answer>,
    pub arrived: Instant,
    /// It was in a round that may have been committed, and whether that round decided it.
    pub in_doubt: bool,
    pub decided: bool,
}

impl Job {
    fn new(command: Command) -> (Job, oneshot::Receiver<Answer>) {
        let (reply, answer) = oneshot::channel();
        let command = Box::new(command);
        let job = Job { command, reply, arrived: Instant::now(), in_doubt: false, decided: false };
        (job, answer)
    }

    /// A caller that hung up no longer listens; its command stands all the same.
    pub(crate) fn answer(self, answer: Answer) {
        // What this very command wrote in an attempt that ended in doubt is its first answer.
        let own = |posted: Posted| Posted { replayed: posted.replayed && !self.decided, ..posted };
        let answer = match answer {
            // An attempt that is still on its way may be written after this refusal.
            Err(PostError::Refused(_)) if self.in_doubt => Err(PostError::OutcomeUnknown),
            answer => answer.map(own),
        };
        drop(self.reply.send(answer));
    }

    /// Says that the command was not posted, unless that is not known.
    pub(crate) fn answer_not_done(self, error: PostError) {
        let error = if self.in_doubt { PostError::OutcomeUnknown } else { error };
        self.answer(Err(error));
    }
}

/// Hands commands to the lanes. Cheap to clone; the lanes end when the last handle is gone.
#[derive(Clone)]
pub(crate) struct Poster {
    lanes: Arc<[Lane]>,
    aside: aside::Aside,
    runtime: Handle,
}

/// Callers' commands and the house's own: sweeps, jobs, imports. House work never makes a caller see a full queue.
struct Lane {
    callers: mpsc::Sender<Job>,
    house: mpsc::Sender<Job>,
    /// Free while the lane is at rest.
    line: Arc<Mutex<Line>>,
}

impl Poster {
    pub(crate) fn start(pool: &PgPool, database: &Database, options: Options) -> Poster {
        let aside = aside::Aside::new(database.clone(), options);
        let lanes = (0..options.lanes.max(1)).map(|number| {
            let (callers, callers_in) = mpsc::channel(options.queue_max);
            let (house, house_in) = mpsc::channel(options.queue_max);
            let line = Arc::new(Mutex::new(Line::new(database.clone(), Memory::new())));
            let lane = lane::run(Arc::clone(&line), options, aside.clone(), callers_in, house_in);
            lane_thread::start(number, lane);
            Lane { callers, house, line }
        });
        let lanes: Arc<[Lane]> = lanes.collect();
        let runtime = Handle::current();
        let lines = lanes.iter().map(|lane| Arc::clone(&lane.line)).collect();
        runtime.spawn(warm_up::run(pool.clone(), lines));
        Poster { lanes, aside, runtime }
    }

    /// Queues a caller's command, or runs it at once where its lane is at rest.
    pub(crate) fn offer(&self, command: Command) -> Result<oneshot::Receiver<Answer>, PostError> {
        let lane = self.lane_of(&command);
        if !lane.is_idle() {
            return self.queue(command);
        }
        let Ok(line) = Arc::clone(&lane.line).try_lock_owned() else { return self.queue(command) };
        let (job, answer) = Job::new(command);
        self.runtime.spawn(lane::alone(line, job, self.aside.clone()));
        Ok(answer)
    }

    /// Queues a caller's command, at once or not at all.
    pub(crate) fn queue(&self, command: Command) -> Result<oneshot::Receiver<Answer>, PostError> {
        let lane = self.lane_of(&command);
        let (job, answer) = Job::new(command);
        lane.callers.try_send(job).map_err(|_| PostError::Overloaded)?;
        Ok(answer)
    }

    /// Queues a command of the house's own, which waits for a free place.
    pub(crate) async fn send_house(&self, command: Command) -> Result<oneshot::Receiver<Answer>, PostError> {
        let lane = self.lane_of(&command);
        let (job, answer) = Job::new(command);
        lane.house.send(job).await.map_err(|_| PostError::Overloaded)?;
        Ok(answer)
    }

    fn lane_of(&self, command: &Command) -> &Lane {
        &self.lanes[lane_of(command, self.lanes.len())]
    }
}

impl Lane {
    /// Whether nothing waits in its queues. Who runs may have taken the last of them already.
    fn is_idle(&self) -> bool {
        [&self.callers, &self.house].iter().all(|queue| queue.capacity() == queue.max_capacity())
    }
}

/// Waits for the answer to a command that was sent, or says why it was not.
pub(crate) async fn answered(sent: Result<oneshot::Receiver<Answer>, PostError>) -> Answer {
    // Without an answer nobody knows what became of it.
    sent?.await.unwrap_or(Err(PostError::OutcomeUnknown))
}

/// Which account goes to which lane. Accounts that are being opened go by their reference, so that two first uses of one
/// reference meet in one round.
fn lane_of(command: &Command, lanes: usize) -> usize {
    let number = match &command.verb {
        Verb::Open { external_ref, .. } => {
            external_ref.bytes().fold(7_u128, |sum, byte| (sum * 31 + u128::from(byte)) % 1_000_003)
        }
        _ => return lane_of_account(command.account, lanes),
    };
    usize::try_from(number % lanes.max(1) as u128).unwrap_or(0)
}

/// By the random tail of the id.
fn lane_of_account(account: AccountId, lanes: usize) -> usize {
    let tail = account.0.as_u128() & 0xffff_ffff;
    usize::try_from(tail % lanes.max(1) as u128).unwrap_or(0)
}
