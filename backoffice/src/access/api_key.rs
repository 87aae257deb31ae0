//! API keys: `dbk_<id>_<secret><checksum>`.
//!
//! The prefix lets scanners find leaked keys, the checksum tells a mistyped key without asking the
//! database. The secret is 256 random bits, of which a SHA-256 is kept; such a key needs no slow hash.

use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, Instant};

use chrono::{DateTime, Utc};
use ledger::command::{Actor, ActorKind};
use ledger::ids::AccountId;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;
use tokio::sync::Mutex;

use super::{Access, AccessError, Role, UserId, repo};

const PREFIX: &str = "dbk_";
const ID_CHARS: usize = 8;
/// 43 characters of 62 carry 256 bits.
const SECRET_CHARS: usize = 43;
const CHECKSUM_CHARS: usize = 6;
const BASE62: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
/// How long a key that was read counts as known; a revocation elsewhere is noticed within it. Below one
/// second, so that reading anew still fits into the second that is promised.
const KNOWN_FOR: Duration = Duration::from_millis(900);
const NAME_CHARS_MAX: usize = 100;

/// What a key may be used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Scope {
    #[serde(rename = "accounts:write")]
    AccountsWrite,
    #[serde(rename = "read")]
    Read,
    /// Charges, holds and job markers.
    #[serde(rename = "usage:write")]
    UsageWrite,
    #[serde(rename = "grants:write")]
    GrantsWrite,
    #[serde(rename = "refunds:write")]
    RefundsWrite,
    #[serde(rename = "adjust")]
    Adjust,
}

impl Scope {
    pub const ALL: [Scope; 6] = [
        Scope::AccountsWrite,
        Scope::Read,
        Scope::UsageWrite,
        Scope::GrantsWrite,
        Scope::RefundsWrite,
        Scope::Adjust,
    ];

    pub fn as_str(self) -> &'static str {
        match self {
            Scope::AccountsWrite => "accounts:write",
            Scope::Read => "read",
            Scope::UsageWrite => "usage:write",
            Scope::GrantsWrite => "grants:write",
            Scope::RefundsWrite => "refunds:write",
            Scope::Adjust => "adjust",
        }
    }

    pub fn parse(text: &str) -> Option<Scope> {
        Scope::ALL.into_iter().find(|scope| scope.as_str() == text)
    }
}

/// A set of scopes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Scopes(u8);

impl Scopes {
    pub fn has(self, scope: Scope) -> bool {
        self.0 & Scopes::bit(scope) != 0
    }

    fn bit(scope: Scope) -> u8 {
        match scope {
            Scope::AccountsWrite => 1,
            Scope::Read => 2,
            Scope::UsageWrite => 4,
            Scope::GrantsWrite => 8,
            Scope::RefundsWrite => 16,
            Scope::Adjust => 32,
        }
    }
}

impl FromIterator<Scope> for Scopes {
    fn from_iter<I: IntoIterator<Item = Scope>>(scopes: I) -> Scopes {
        Scopes(scopes.into_iter().fold(0, |set, scope| set | Scopes::bit(scope)))
    }
}

/// A key as its owner sees it in a list. The secret is not among what is known.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct ApiKey {
    pub id: String,
    pub name: String,
    pub owner: UserId,
    pub scopes: Vec<Scope>,
    pub created_at: DateTime<Utc>,
    pub expires_at: Option<DateTime<Utc>>,
    pub revoked_at: Option<DateTime<Utc>>,
    /// To the minute; what was used since the last note is not in it yet.
    pub last_used_at: Option<DateTime<Utc>>,
}

#[derive(Clone, Debug)]
pub struct NewKey {
    pub name: String,
    pub owner: UserId,
    pub scopes: Vec<Scope>,
    pub expires_at: Option<DateTime<Utc>>,
}

pub struct CreatedKey {
    pub key: ApiKey,
    /// The whole key, as it goes after `Bearer `. Shown once; it cannot be had again.
    pub bearer: String,
}

impl fmt::Debug for CreatedKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CreatedKey").field("key", &self.key).finish_non_exhaustive()
    }
}

#[derive(Clone, Debug, thiserror::Error)]
pub enum CreateKeyError {
    #[error("a key's name has 1 to 100 characters")]
    BadName,
    #[error("a key needs at least one scope")]
    NoScope,
    #[error("there is no such user, or the user is disabled")]
    UnknownOwner,
    #[error(transparent)]
    Unavailable(#[from] AccessError),
}

#[derive(Clone, Debug, thiserror::Error)]
pub enum KeyError {
    /// Malformed, unknown, revoked, expired, or of a disabled owner: one answer for all.
    #[error("the API key is not valid")]
    Bad,
    #[error(transparent)]
    Unavailable(#[from] AccessError),
}

/// A key that was checked. Made only here; what it may be used for is asked of [`super::rights`].
#[derive(Debug)]
pub struct ApiKeyProof {
    pub(super) id: String,
    pub(super) owner: UserId,
    pub(super) role: Role,
    /// Of an owner who is a customer; a key of theirs sees no other account.
    pub(super) accounts: Vec<AccountId>,
    pub(super) scopes: Scopes,
    expires_at: Option<DateTime<Utc>>,
}

impl ApiKeyProof {
    pub fn id(&self) -> &str {
        &self.id
    }

    /// The actor of what is done with the key.
    pub(super) fn actor(&self) -> Actor {
        Actor::api_key(self.id.as_str())
    }

    /// The owner as an actor, for what needs a person.
    pub(super) fn owner_actor(&self) -> Actor {
        Actor { kind: ActorKind::User, id: self.owner.to_string(), role: Some(self.role.as_str().to_owned()) }
    }
}

/// A key and its owner, as stored.
pub(super) struct StoredKey {
    pub secret_digest: [u8; 32],
    pub scopes: Vec<Scope>,
    pub owner: UserId,
    pub role: Role,
    pub accounts: Vec<AccountId>,
    pub expires_at: Option<DateTime<Utc>>,
}

impl Access {
    pub async fn create_key(&self, new: NewKey, now: DateTime<Utc>) -> Result<CreatedKey, CreateKeyError> {
        let name = new.name.trim().to_owned();
        if name.is_empty() || name.chars().count() > NAME_CHARS_MAX {
            return Err(CreateKeyError::BadName);
        }
        if new.scopes.is_empty() {
            return Err(CreateKeyError::NoScope);
        }
        if self.active_user(new.owner).await?.is_none() {
            return Err(CreateKeyError::UnknownOwner);
        }
        let mut scopes = new.scopes;
        scopes.sort_unstable();
        scopes.dedup();
        let (id, secret) = (random(ID_CHARS)?, random(SECRET_CHARS)?);
        let key = ApiKey {
            id,
            name,
            owner: new.owner,
            scopes,
            created_at: now,
            expires_at: new.expires_at,
            revoked_at: None,
            last_used_at: None,
        };
        repo::insert_key(&self.pool, &key, &digest(&secret)).await?;
        let bearer = format!("{PREFIX}{}_{secret}{}", key.id, checksum(&key.id, &secret));
        Ok(CreatedKey { key, bearer })
    }

    /// Newest first; of one owner, or all.
    pub async fn keys(&self, owner: Option<UserId>) -> Result<Vec<ApiKey>, AccessError> {
        repo::keys(&self.pool, owner).await
    }

    /// Takes effect at once here, and within a second on other instances. False when there is no such key, or
    /// it was revoked before.
    pub async fn revoke_key(&self, id: &str, now: DateTime<Utc>) -> Result<bool, AccessError> {
        let revoked = repo::revoke_key(&self.pool, id, now).await?;
        self.keys.forget_all();
        Ok(revoked)
    }

    /// `bearer` is what stands after `Bearer `. Reads the database at most about once a second for a key.
    pub async fn check_key(&self, bearer: &str, now: DateTime<Utc>) -> Result<Arc<ApiKeyProof>, KeyError> {
        let (id, secret) = parts(bearer).ok_or(KeyError::Bad)?;
        let known = match self.keys.get(id) {
            Some(known) => known,
            // Boxed, since nearly no request comes here.
            None => Box::pin(self.read_key(id)).await?.ok_or(KeyError::Bad)?,
        };
        let is_right = bool::from(known.secret_digest.ct_eq(&digest(secret)));
        let is_valid_now = known.proof.expires_at.is_none_or(|end| now < end);
        if !is_right || !is_valid_now {
            return Err(KeyError::Bad);
        }
        known.used.see(now);
        Ok(Arc::clone(&known.proof))
    }

    /// Writes down which keys were used since the last time, one statement for all; how many. The caller does it about
    /// once a minute, so that no request waits for it.
    pub async fn record_key_uses(&self) -> Result<usize, AccessError> {
        let uses = self.keys.fresh_uses();
        if !uses.is_empty() {
            repo::record_key_uses(&self.pool, &uses).await?;
            self.keys.note_recorded(&uses);
        }
        Ok(uses.len())
    }

    /// One reader at a time: when a key's second is over, its other callers wait for the first one's answer.
    async fn read_key(&self, id: &str) -> Result<Option<Arc<Known>>, AccessError> {
        let _reading = self.keys.reading.lock().await;
        if let Some(known) = self.keys.get(id) {
            return Ok(Some(known));
        }
        let read_at = Instant::now();
        let Some(stored) = repo::valid_key(&self.pool, id).await? else { return Ok(None) };
        let proof = ApiKeyProof {
            id: id.to_owned(),
            owner: stored.owner,
            role: stored.role,
            accounts: stored.accounts,
            scopes: stored.scopes.into_iter().collect(),
            expires_at: stored.expires_at,
        };
        let used = self.keys.used(id);
        let known =
            Arc::new(Known { secret_digest: stored.secret_digest, proof: Arc::new(proof), read_at, used });
        self.keys.put(id, Arc::clone(&known));
        Ok(Some(known))
    }
}

struct Known {
    secret_digest: [u8; 32],
    proof: Arc<ApiKeyProof>,
    read_at: Instant,
    used: Arc<LastUse>,
}

/// When a key was last used, in milliseconds since 1970, and what of that is written down; 0 for never.
#[derive(Default)]
struct LastUse {
    seen_ms: AtomicI64,
    recorded_ms: AtomicI64,
}

impl LastUse {
    fn see(&self, now: DateTime<Utc>) {
        self.seen_ms.fetch_max(now.timestamp_millis(), Ordering::Relaxed);
    }

    fn fresh(&self) -> Option<DateTime<Utc>> {
        let seen_ms = self.seen_ms.load(Ordering::Relaxed);
        let is_fresh = seen_ms > self.recorded_ms.load(Ordering::Relaxed);
        is_fresh.then(|| DateTime::from_timestamp_millis(seen_ms)).flatten()
    }
}

/// Keys that were read within [`KNOWN_FOR`]. Holds only keys that exist, so it cannot be flooded.
#[derive(Default)]
pub(super) struct KeyCache {
    known: RwLock<HashMap<String, Arc<Known>>>,
    /// Outlives [`KNOWN_FOR`]: by id, of keys that exist.
    uses: RwLock<HashMap<String, Arc<LastUse>>>,
    reading: Mutex<()>,
}

impl KeyCache {
    fn get(&self, id: &str) -> Option<Arc<Known>> {
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
        known.get(id).filter(|known| known.read_at.elapsed() < KNOWN_FOR).cloned()
    }

    fn put(&self, id: &str, key: Arc<Known>) {
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        known.retain(|_, known| known.read_at.elapsed() < KNOWN_FOR);
        known.insert(id.to_owned(), key);
    }

    fn used(&self, id: &str) -> Arc<LastUse> {
        let mut uses = self.uses.write().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(uses.entry(id.to_owned()).or_default())
    }

    fn fresh_uses(&self) -> Vec<(String, DateTime<Utc>)> {
        let uses = self.uses.read().unwrap_or_else(PoisonError::into_inner);
        uses.iter().filter_map(|(id, used)| Some((id.clone(), used.fresh()?))).collect()
    }

    fn note_recorded(&self, recorded: &[(String, DateTime<Utc>)]) {
        let uses = self.uses.read().unwrap_or_else(PoisonError::into_inner);
        for (id, at) in recorded {
            if let Some(used) = uses.get(id) {
                used.recorded_ms.fetch_max(at.timestamp_millis(), Ordering::Relaxed);
            }
        }
    }

    pub(super) fn forget_all(&self) {
        self.known.write().unwrap_or_else(PoisonError::into_inner).clear();
    }
}

/// Id and secret of a well-formed key whose checksum is right.
fn parts(bearer: &str) -> Option<(&str, &str)> {
    let (id, rest) = bearer.strip_prefix(PREFIX)?.split_once('_')?;
    let is_plain = bearer.len() == PREFIX.len() + ID_CHARS + 1 + SECRET_CHARS + CHECKSUM_CHARS
        && id.len() == ID_CHARS
        && id.bytes().chain(rest.bytes()).all(|byte| byte.is_ascii_alphanumeric());
    if !is_plain {
        return None;
    }
    let (secret, sum) = rest.split_at_checked(SECRET_CHARS)?;
    (checksum(id, secret) == sum).then_some((id, secret))
}

fn digest(secret: &str) -> [u8; 32] {
    Sha256::digest(secret.as_bytes()).into()
}

/// The first 32 bits of a SHA-256 over id and secret, in base 62. It finds typing errors; it protects nothing.
fn checksum(id: &str, secret: &str) -> String {
    let hash = Sha256::new().chain_update(id).chain_update(b"_").chain_update(secret).finalize();
    let mut number = hash.iter().take(4).fold(0_u32, |number, byte| number << 8 | u32::from(*byte));
    let mut digits = [b'0'; CHECKSUM_CHARS];
    for digit in digits.iter_mut().rev() {
        *digit = BASE62[usize::try_from(number % 62).unwrap_or(0)];
        number /= 62;
    }
    digits.iter().map(|digit| char::from(*digit)).collect()
}

/// Evenly random characters of base 62. Bytes that would favour some of them are thrown away.
fn random(chars: usize) -> Result<String, AccessError> {
    let mut text = String::with_capacity(chars);
    let mut bytes = [0; 64];
    while text.len() < chars {
        getrandom::fill(&mut bytes).map_err(|_| AccessError::Internal)?;
        let fair =
            bytes.iter().filter(|byte| **byte < 248).map(|byte| char::from(BASE62[usize::from(byte % 62)]));
        text.extend(fair.take(chars - text.len()));
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_taken_apart_only_when_form_and_checksum_are_right() {
        let (id, secret) = (random(8).unwrap(), random(43).unwrap());
        let bearer = format!("dbk_{id}_{secret}{}", checksum(&id, &secret));
        assert_eq!(bearer.len(), 62);
        assert_eq!(parts(&bearer), Some((id.as_str(), secret.as_str())));

        let last = if bearer.ends_with('a') { 'b' } else { 'a' };
        let mistyped = format!("{}{last}", &bearer[..61]);
        for wrong in [
            "",
            "dbk_",
            "dbk__",
            &bearer[..61],
            &format!("{bearer}a"),
            &mistyped,
            &bearer.replacen("dbk", "sk", 1),
            "dbk_ééé",
        ] {
            assert_eq!(parts(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn scopes_are_read_by_their_names() {
        let scopes: Scopes = [Scope::Read, Scope::UsageWrite].into_iter().collect();
        assert!(scopes.has(Scope::Read) && scopes.has(Scope::UsageWrite));
        assert!(!scopes.has(Scope::Adjust) && !scopes.has(Scope::GrantsWrite));
        for scope in Scope::ALL {
            assert_eq!(Scope::parse(scope.as_str()), Some(scope));
        }
        assert_eq!(Scope::parse("admin"), None);
    }
}
