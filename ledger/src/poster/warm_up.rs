//! What a lane should know from the start: after a restart the accounts that were used last are read in passing, so that
//! their first commands cost as little as their later ones.

use std::sync::Arc;

use sqlx::PgPool;
use tokio::sync::Mutex;

use super::lane::Line;
use super::lane_of_account;
use super::memory;
use crate::ids::AccountId;
use crate::store::{StoreError, accounts};

/// Accounts that are read in one turn. A lane that has work waits for a turn at most.
const TURN: usize = 64;

/// Reads the accounts that were used last into the memories of their lanes. What goes wrong costs time later and nothing else.
pub(crate) async fn run(pool: PgPool, lines: Vec<Arc<Mutex<Line>>>) {
    if let Err(error) = read(&pool, &lines).await {
        tracing::debug!(error = %error, "The accounts that were used last could not be read ahead");
    }
}

async fn read(pool: &PgPool, lines: &[Arc<Mutex<Line>>]) -> Result<(), StoreError> {
    let limit = memory::ACCOUNTS_MAX.get() * lines.len();
    let last_used = accounts::last_used(pool, limit).await?;
    let mut by_lane: Vec<Vec<AccountId>> = vec![Vec::new(); lines.len()];
    for account in last_used {
        by_lane[lane_of_account(account, lines.len())].push(account);
    }
    // What was used last is read last: it is forgotten last.
    for (line, accounts) in lines.iter().zip(&by_lane) {
        for turn in accounts.rchunks(TURN) {
            line.lock().await.read_ahead(turn).await?;
        }
    }
    Ok(())
}
