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

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::{mpsc, oneshot};

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
    pub command: Command,
    pub reply: oneshot::Sender<Answer>,
    pub arrived: Instant,
    /// It was in a round that may have been committed, and whether that round decided it.
    pub in_doubt: bool,
    pub decided: bool,
}

impl Job {
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
    lanes: Arc<[LaneQueues]>,
}

/// Callers' commands and the house's own: sweeps, jobs, imports.
struct LaneQueues {
    callers: mpsc::Sender<Job>,
    house: mpsc::Sender<Job>,
}

/// Whose command it is: house work never makes a caller see a full queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Queue {
    Callers,
    House,
}

impl Poster {
    pub(crate) fn start(database: &Database, options: Options) -> Poster {
        let aside = aside::Aside::new(database.clone(), options);
        let lanes = (0..options.lanes.max(1)).map(|number| {
            let (callers, callers_in) = mpsc::channel(options.queue_max);
            let (house, house_in) = mpsc::channel(options.queue_max);
            let lane = lane::run(database.clone(), options, aside.clone(), callers_in, house_in);
            lane_thread::start(number, lane);
            LaneQueues { callers, house }
        });
        Poster { lanes: lanes.collect() }
    }

    /// Queues a command. The house waits for a free place, a caller does not.
    pub(crate) async fn send(
        &self,
        command: Command,
        queue: Queue,
    ) -> Result<oneshot::Receiver<Answer>, PostError> {
        let lane = &self.lanes[lane_of(&command, self.lanes.len())];
        let (reply, answer) = oneshot::channel();
        let job = Job { command, reply, arrived: Instant::now(), in_doubt: false, decided: false };
        match queue {
            Queue::Callers => lane.callers.try_send(job).map_err(|_| PostError::Overloaded)?,
            Queue::House => lane.house.send(job).await.map_err(|_| PostError::Overloaded)?,
        }
        Ok(answer)
    }

    pub(crate) async fn submit(&self, command: Command, queue: Queue) -> Answer {
        answered(self.send(command, queue).await).await
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
        _ => account_number(command.account),
    };
    usize::try_from(number % lanes.max(1) as u128).unwrap_or(0)
}

/// The random tail of the id.
fn account_number(account: AccountId) -> u128 {
    account.0.as_u128() & 0xffff_ffff
}
