//! Faults: real server processes on a real Postgres, with fsync on, killed while clients are at work.
//!
//! Each test makes a [`site`] (a throw-away Postgres, an API key), starts one or more [`server`] processes, lets the
//! clients of [`workload`] at them and, in some, a [`storm`] of kills. Clients write what they are about to send into
//! their [`journal`] before they send it, and afterwards [`checks`] holds the journals against the database: what was
//! acknowledged is there exactly once, what was refused is not there at all, what was unknown became one or the other,
//! and the balances are the sums that the clients kept themselves.
//!
//! `DAYBOOK_FULL=1` runs the full figures. `DAYBOOK_SEED=n` repeats the plan of one seed; the moments within it still
//! depend on the machine. To add a fault: a variant of [`storm::Strike`], and how it is struck and mended.

#![expect(
    clippy::expect_used,
    clippy::panic,
    reason = "a test's helpers end the test where something is missing"
)]

mod checks;
mod client;
mod dice;
mod journal;
mod operation;
mod server;
mod site;
mod storm;
mod workload;

mod doubt;
mod kills;
mod opening;
mod pair;
mod rolling;

use std::sync::{Mutex, MutexGuard, PoisonError};

/// One test at a time has the machine: each brings a Postgres and servers of its own.
fn alone() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

fn is_full() -> bool {
    std::env::var_os("DAYBOOK_FULL").is_some()
}

/// The seed that was asked for, or a new one.
fn seed() -> u64 {
    if let Some(seed) = std::env::var("DAYBOOK_SEED").ok().and_then(|seed| seed.parse().ok()) {
        return seed;
    }
    let mut bytes = [0; 4];
    getrandom::fill(&mut bytes).expect("the system gives random bytes");
    u64::from(u32::from_le_bytes(bytes))
}
