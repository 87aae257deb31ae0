//! All SQL of the journal.
//!
//! [`lock`], [`load`] (with [`quota`]) and [`write`] are what a round of commands does in its transaction. [`rows`] turns rows into the
//! crate's nouns and back. [`accounts`] is what a round begins with. [`read`] is what only reads accounts, and [`entries`] what reads the journal; lists that
//! read few rows are in [`lists`]. [`upkeep`] is what the command line does now and
//! then: policies, quotas, the test clock, purge and the deletion of erased words.
//!
//! [`inputs`] is what a round sends, and [`numeric`] how amounts cross.
//!
//! To add a column: a migration that is safe beside running old code, the column in `rows`, in `inputs` and `write`, and
//! (if it is part of what an entry says) in `chain::canonical`.

pub(crate) mod accounts;
pub(crate) mod connect;
pub(crate) mod entries;
mod inputs;
mod lists;
pub(crate) mod load;
pub(crate) mod lock;
mod numeric;
pub(crate) mod quota;
pub(crate) mod read;
pub(crate) mod rows;
pub(crate) mod upkeep;
pub(crate) mod verify;
pub(crate) mod write;

/// What went wrong in the database, as far as the poster acts on it.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The connection was lost or could not be made; what was not committed is gone.
    #[error("the database connection was lost")]
    Lost(#[source] sqlx::Error),
    /// A serialisation failure or deadlock; worth another try with the same keys.
    #[error("the transaction must be tried again")]
    Conflict(#[source] sqlx::Error),
    /// The transaction took longer than the poster allows; it may have been committed.
    #[error("the transaction took too long")]
    TimedOut,
    /// The lock was not given in time.
    #[error("the account is locked elsewhere")]
    Locked,
    /// What was remembered is not so any more: an account has moved on, or an idempotency key is taken. Nothing was written.
    #[error("what was remembered is out of date")]
    Outdated,
    /// Anything else, a broken guard or constraint among it.
    #[error("the database refused")]
    Failed(#[source] sqlx::Error),
    /// A row that this code cannot have written.
    #[error("{table} of account {account}: {what}")]
    Inconsistent { table: &'static str, account: uuid::Uuid, what: String },
}

impl From<sqlx::Error> for StoreError {
    fn from(error: sqlx::Error) -> StoreError {
        let code =
            error.as_database_error().and_then(|database| database.code().map(|code| code.into_owned()));
        match (code.as_deref(), &error) {
            (Some("40001" | "40P01"), _) => StoreError::Conflict(error),
            (Some("55P03"), _) => StoreError::Locked,
            (Some("DB003"), _) => StoreError::Outdated,
            (Some("23505"), _) if is_of(&error, "entries_key") => StoreError::Outdated,
            // 57P01 to 57P03: the server is shutting down, has crashed, or is starting up. Class 08: the connection.
            // 53300 is too many connections, which passes as well.
            (Some(code), _)
                if code.starts_with("08") || matches!(code, "57P01" | "57P02" | "57P03" | "53300") =>
            {
                StoreError::Lost(error)
            }
            (Some(_), _) => StoreError::Failed(error),
            (
                None,
                sqlx::Error::Io(_)
                | sqlx::Error::PoolTimedOut
                | sqlx::Error::PoolClosed
                | sqlx::Error::Tls(_)
                | sqlx::Error::Protocol(_)
                | sqlx::Error::WorkerCrashed,
            ) => StoreError::Lost(error),
            (None, _) => StoreError::Failed(error),
        }
    }
}

fn is_of(error: &sqlx::Error, constraint: &str) -> bool {
    error.as_database_error().is_some_and(|error| error.constraint() == Some(constraint))
}
