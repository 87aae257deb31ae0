//! Browser sessions: where they are kept, when they end, and whose they are.
//!
//! The web layer stores a record of values by session id. This room keeps the id's digest, copies user and
//! address out of the record into columns, and decides when a session has ended.

use chrono::{DateTime, Duration, Utc};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};

use super::{Access, AccessError, Role, UserId, repo};

/// The record's value that says who has signed in: a user's id.
pub const USER_KEY: &str = "user";
/// The record's value that says from where.
pub const ADDRESS_KEY: &str = "address";
/// Seeing a session is written down at most this often.
const SEEN_EVERY: Duration = Duration::seconds(60);

/// When sessions end, in seconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ends {
    pub idle_customer_s: u32,
    pub idle_staff_s: u32,
    /// After sign-in, however busy.
    pub absolute_s: u32,
}

impl Default for Ends {
    fn default() -> Ends {
        Ends { idle_customer_s: 30 * 60, idle_staff_s: 15 * 60, absolute_s: 12 * 3_600 }
    }
}

impl Ends {
    /// Nobody signed in counts as a customer.
    fn idle(&self, role: Option<Role>) -> Duration {
        let idle_s = if role.is_some_and(Role::is_staff) { self.idle_staff_s } else { self.idle_customer_s };
        Duration::seconds(i64::from(idle_s))
    }

    /// Of a new session whose role is not known yet; what it really is, is asked when it is loaded.
    fn latest(&self, now: DateTime<Utc>) -> DateTime<Utc> {
        self.end(None, now, now).max(self.end(Some(Role::Admin), now, now))
    }

    fn end(&self, role: Option<Role>, created_at: DateTime<Utc>, seen_at: DateTime<Utc>) -> DateTime<Utc> {
        (seen_at + self.idle(role)).min(created_at + Duration::seconds(i64::from(self.absolute_s)))
    }
}

/// SHA-256 of a session's id; names a session without being one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct SessionDigest(pub [u8; 32]);

impl SessionDigest {
    pub fn of(id: &[u8]) -> SessionDigest {
        SessionDigest(Sha256::digest(id).into())
    }
}

/// A session as its user sees it in a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionView {
    pub digest: SessionDigest,
    pub created_at: DateTime<Utc>,
    pub seen_at: DateTime<Utc>,
    pub address: Option<String>,
}

/// A session as stored.
#[derive(Clone, Debug)]
pub(super) struct Stored {
    pub data: Value,
    pub role: Option<Role>,
    pub is_disabled: bool,
    pub created_at: DateTime<Utc>,
    pub seen_at: DateTime<Utc>,
}

/// What the web layer gets back.
#[derive(Clone, Debug)]
pub struct Loaded {
    pub data: Map<String, Value>,
    pub ends_at: DateTime<Utc>,
}

impl Access {
    /// False when the digest is taken; the caller then makes a new id.
    pub async fn create_session(
        &self,
        digest: &SessionDigest,
        data: &Map<String, Value>,
        now: DateTime<Utc>,
    ) -> Result<bool, AccessError> {
        let ends_at = self.options.session_ends.latest(now);
        repo::insert_session(&self.pool, digest, &Columns::of(data), now, ends_at).await
    }

    /// Writes the record of a session that exists; one that was ended meanwhile stays ended.
    pub async fn save_session(
        &self,
        digest: &SessionDigest,
        data: &Map<String, Value>,
        now: DateTime<Utc>,
    ) -> Result<(), AccessError> {
        repo::update_session(&self.pool, digest, &Columns::of(data), now).await
    }

    /// Nothing for an unknown or ended session, or a disabled user's.
    pub async fn load_session(
        &self,
        digest: &SessionDigest,
        now: DateTime<Utc>,
    ) -> Result<Option<Loaded>, AccessError> {
        let Some(stored) = repo::session(&self.pool, digest).await? else { return Ok(None) };
        let ends_at = self.options.session_ends.end(stored.role, stored.created_at, stored.seen_at);
        if now >= ends_at || stored.is_disabled {
            return Ok(None);
        }
        let ends_at = self.options.session_ends.end(stored.role, stored.created_at, now);
        if now - stored.seen_at >= SEEN_EVERY {
            repo::touch_session(&self.pool, digest, now, ends_at).await?;
        }
        let Value::Object(data) = stored.data else { return Ok(None) };
        Ok(Some(Loaded { data, ends_at }))
    }

    pub async fn delete_session(&self, digest: &SessionDigest) -> Result<(), AccessError> {
        repo::delete_session(&self.pool, digest).await
    }

    /// Last seen first.
    pub async fn sessions(&self, user: UserId, now: DateTime<Utc>) -> Result<Vec<SessionView>, AccessError> {
        repo::sessions_of(&self.pool, user, now).await
    }

    /// False when the user has no such session.
    pub async fn end_session(&self, user: UserId, digest: &SessionDigest) -> Result<bool, AccessError> {
        repo::delete_session_of(&self.pool, user, digest).await
    }

    pub async fn end_sessions(&self, user: UserId) -> Result<u64, AccessError> {
        repo::delete_sessions_of(&self.pool, user).await
    }
}

/// A record, with what is looked for in it set apart.
pub(super) struct Columns {
    pub user: Option<UserId>,
    pub address: Option<String>,
    pub data: Value,
}

impl Columns {
    fn of(data: &Map<String, Value>) -> Columns {
        let text = |key: &str| data.get(key).and_then(Value::as_str);
        Columns {
            user: text(USER_KEY).and_then(|id| id.parse().ok()),
            address: text(ADDRESS_KEY).map(str::to_owned),
            data: Value::Object(data.clone()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_ends_by_idleness_of_its_role_or_by_age_whichever_is_first() {
        let ends = Ends::default();
        let created = DateTime::UNIX_EPOCH + Duration::days(20_000);
        let end = |role, seen: Duration| ends.end(role, created, created + seen) - created;
        assert_eq!(end(Some(Role::Customer), Duration::zero()), Duration::minutes(30));
        assert_eq!(end(Some(Role::Finance), Duration::zero()), Duration::minutes(15));
        assert_eq!(end(Some(Role::Admin), Duration::minutes(719)), Duration::hours(12));
        assert_eq!(end(None, Duration::hours(1)), Duration::minutes(90));
    }
}
