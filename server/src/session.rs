//! Browser sessions: the web framework's session layer over the store in `backoffice::access`.

use std::fmt;
use std::time::Duration;

use async_trait::async_trait;
use backoffice::access::session::SessionDigest;
use backoffice::access::{Access, AccessError};
use serde_json::Map;
use time::OffsetDateTime;
use tower_sessions::cookie::SameSite;
use tower_sessions::session::{Id, Record};
use tower_sessions::session_store::{Error, Result};
use tower_sessions::{Expiry, SessionManagerLayer, SessionStore};

use crate::config::HttpSettings;
use crate::state::machine_now;

/// Tries to find an id that is not taken; with 128 random bits the first one is free.
const ID_TRIES: usize = 3;

/// How long a page waits to learn whose session it is.
const LOAD_WAIT: Duration = Duration::from_secs(3);

#[derive(Clone)]
pub struct PgSessionStore {
    access: Access,
}

impl PgSessionStore {
    pub fn new(access: Access) -> PgSessionStore {
        PgSessionStore { access }
    }
}

impl fmt::Debug for PgSessionStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PgSessionStore")
    }
}

/// The name of the session cookie. The prefix makes browsers insist on Secure and on this host alone.
pub fn cookie_name(http: &HttpSettings) -> &'static str {
    if http.is_https() { "__Host-daybook" } else { "daybook" }
}

/// The cookie lives as long as the browser's own session; when the session ends is the store's decision.
/// Lax, so that a link from a mail finds its reader signed in; see [`crate::security`] for the other half.
pub fn layer(access: Access, http: &HttpSettings) -> SessionManagerLayer<PgSessionStore> {
    SessionManagerLayer::new(PgSessionStore::new(access))
        .with_name(cookie_name(http))
        .with_secure(http.is_https())
        .with_http_only(true)
        .with_same_site(SameSite::Lax)
        .with_path("/")
        .with_expiry(Expiry::OnSessionEnd)
}

fn digest(id: &Id) -> SessionDigest {
    SessionDigest::of(&id.0.to_le_bytes())
}

/// The session layer logs what it is told; it is told no more than this.
fn backend(error: &AccessError) -> Error {
    Error::Backend(error.to_string())
}

#[async_trait]
impl SessionStore for PgSessionStore {
    async fn create(&self, record: &mut Record) -> Result<()> {
        let data: Map<_, _> = record.data.clone().into_iter().collect();
        for _ in 0..ID_TRIES {
            if self
                .access
                .create_session(&digest(&record.id), &data, machine_now())
                .await
                .map_err(|error| backend(&error))?
            {
                return Ok(());
            }
            record.id = Id::default();
        }
        Err(Error::Backend("no free session id".to_owned()))
    }

    async fn save(&self, record: &Record) -> Result<()> {
        let data: Map<_, _> = record.data.clone().into_iter().collect();
        self.access
            .save_session(&digest(&record.id), &data, machine_now())
            .await
            .map_err(|error| backend(&error))
    }

    async fn load(&self, id: &Id) -> Result<Option<Record>> {
        let digest = digest(id);
        let loading = self.access.load_session(&digest, machine_now());
        // Every page begins here: one whose database is away should say so soon.
        let loaded = tokio::time::timeout(LOAD_WAIT, loading)
            .await
            .unwrap_or(Err(AccessError::DatabaseUnavailable))
            .map_err(|error| backend(&error))?;
        let Some(loaded) = loaded else { return Ok(None) };
        let expiry_date = OffsetDateTime::from_unix_timestamp(loaded.ends_at.timestamp())
            .map_err(|error| Error::Decode(error.to_string()))?;
        Ok(Some(Record { id: *id, data: loaded.data.into_iter().collect(), expiry_date }))
    }

    async fn delete(&self, id: &Id) -> Result<()> {
        self.access.delete_session(&digest(id)).await.map_err(|error| backend(&error))
    }
}
