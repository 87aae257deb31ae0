//! What can go wrong beneath the rules.

/// The answer is not known: neither yes nor no.
#[derive(Clone, Debug, thiserror::Error)]
pub enum AccessError {
    #[error("the database is unavailable")]
    DatabaseUnavailable,
    /// Logged where it happened.
    #[error("internal error")]
    Internal,
}

impl From<sqlx::Error> for AccessError {
    /// A lost or exhausted connection may come back; everything else is ours to mend.
    fn from(error: sqlx::Error) -> AccessError {
        match error {
            sqlx::Error::Io(_)
            | sqlx::Error::Tls(_)
            | sqlx::Error::PoolTimedOut
            | sqlx::Error::PoolClosed => AccessError::DatabaseUnavailable,
            sqlx::Error::Database(database) if is_going_away(database.code().as_deref()) => {
                AccessError::DatabaseUnavailable
            }
            other => {
                tracing::error!(error.message = %other, "a query about users, keys or sessions failed");
                AccessError::Internal
            }
        }
    }
}

/// Classes of SQLSTATE that say the server is starting, stopping or short of connections.
fn is_going_away(code: Option<&str>) -> bool {
    code.is_some_and(|code| code.starts_with("57P") || code.starts_with("08") || code == "53300")
}
