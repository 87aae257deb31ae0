//! Who somebody is, and what they may do: users, API keys, sign-in, browser sessions and rights.
//!
//! [`Access`] is the handle. [`rights`] holds the one table of who may do what; the proofs it makes are
//! taken by whatever must not happen without them. To add a right: a variant of [`rights::Right`], its row
//! in the table, and the routes and pages that ask for it.

mod adjust;
mod api_key;
mod error;
mod password;
mod repo;
pub mod rights;
pub mod session;
mod sign_in;
mod throttle;
mod user;

use std::net::IpAddr;
use std::sync::Arc;

use chrono::{DateTime, Utc};
use sqlx::PgPool;

pub use adjust::{AdjustError, Adjusting, Limits, Reservation};
pub use api_key::{ApiKey, ApiKeyProof, CreateKeyError, CreatedKey, KeyError, NewKey, Scope, Scopes};
pub use error::AccessError;
pub use password::{NewPassword, PasswordFault};
pub use sign_in::SignInError;
pub use user::{CreateUserError, CreatedUser, NewUser, Role, User, UserId};

use api_key::KeyCache;
use password::Hasher;

/// Where a request comes from, as far as trusted proxies tell. A request extension and a page context.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClientAddress(pub Option<IpAddr>);

/// What the operator sets of this room.
#[derive(Clone, Debug)]
pub struct AccessOptions {
    /// Password hashes that run at one time; each keeps a core busy and 19 MiB in use.
    pub hashes_at_once: usize,
    pub session_ends: session::Ends,
}

impl Default for AccessOptions {
    fn default() -> AccessOptions {
        AccessOptions { hashes_at_once: 2, session_ends: session::Ends::default() }
    }
}

/// The handle of this room. Cheap to clone.
#[derive(Clone)]
pub struct Access {
    pool: PgPool,
    hasher: Hasher,
    keys: Arc<KeyCache>,
    options: Arc<AccessOptions>,
}

impl Access {
    pub fn new(pool: PgPool, options: AccessOptions) -> Access {
        Access {
            pool,
            hasher: Hasher::new(options.hashes_at_once),
            keys: Arc::new(KeyCache::default()),
            options: Arc::new(options),
        }
    }

    /// Sign-in counters and sessions that nobody needs any more. Returns how many rows went.
    pub async fn sweep(&self, now: DateTime<Utc>) -> Result<u64, AccessError> {
        let sessions = repo::delete_ended_sessions(&self.pool, now).await?;
        let counters = repo::delete_old_throttles(&self.pool, now - throttle::FORGOTTEN_AFTER).await?;
        Ok(sessions + counters)
    }
}
