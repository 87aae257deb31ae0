//! A thread for each lane.
//!
//! A round is a chain of short waits for the database. On the threads that also answer requests, each of these waits would end
//! only after dozens of requests in between; on its own thread, the lane goes on as soon as the database has answered.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::{process, thread};

use tokio::runtime::Builder;

/// Runs a lane to its end on a thread of its own; where there is none to be had, among the other tasks.
pub(crate) fn start(number: usize, lane: impl Future<Output = ()> + Send + 'static) {
    let runtime = match Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            tracing::warn!(lane.number = number, error = %error, "A lane has no thread of its own");
            tokio::spawn(lane);
            return;
        }
    };
    let run = move || {
        // Without its lane a server would refuse a part of all accounts until somebody looked; a new one starts whole.
        if catch_unwind(AssertUnwindSafe(|| runtime.block_on(lane))).is_err() {
            tracing::error!(lane.number = number, "A lane has panicked; the server stops");
            process::abort();
        }
    };
    let started = thread::Builder::new().name(format!("lane-{number}")).spawn(run);
    if let Err(error) = started {
        // The queues of this lane are closed by now, so its accounts answer that the server is overloaded.
        tracing::error!(lane.number = number, error = %error, "A lane could not be started");
    }
}
