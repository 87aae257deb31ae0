//! Passwords: what is taken, how one is made, and the slow hash on threads of its own.

use std::sync::Arc;
use std::time::Duration;

use argon2::password_hash::phc::PasswordHash;
use argon2::password_hash::{PasswordHasher, PasswordVerifier};
use argon2::{Algorithm, Argon2, Params, Version};
use tokio::sync::Semaphore;

use super::AccessError;

/// Characters; longer is better than stranger, so there is no rule about kinds of characters.
const LENGTH_MIN: usize = 12;
/// Bytes; bounds the work of one hash.
pub(super) const BYTES_MAX: usize = 256;
/// How long a hash may wait for its turn.
const WAIT_MAX: Duration = Duration::from_secs(10);
/// Memory in KiB, passes and lanes of argon2id: the smallest set that OWASP names for two passes.
const COST: (u32, u32, u32) = (19_456, 2, 1);
/// Of no password, with the cost of a real one: verifying against it takes the time a known user takes.
const NOBODYS_HASH: &str =
    "$argon2id$v=19$m=19456,t=2,p=1$AAAAAAAAAAAAAAAAAAAAAA$AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";
/// Common passwords that are long enough to pass the length rule.
const COMMON: [&str; 24] = [
    "123456789012",
    "1234567890123",
    "123123123123",
    "123456123456",
    "111111111111",
    "000000000000",
    "112233445566",
    "password1234",
    "password12345",
    "password123456",
    "passwordpassword",
    "qwertyuiop12",
    "qwertyuiop123",
    "qwertyuiopasdf",
    "qwertyqwerty",
    "1q2w3e4r5t6y",
    "1qaz2wsx3edc",
    "q1w2e3r4t5y6",
    "abcdefghijkl",
    "abcdefghijklmnop",
    "letmeinletmein",
    "iloveyou1234",
    "administrator",
    "changemechangeme",
];

#[derive(Clone, Debug)]
pub enum NewPassword {
    /// A random one, shown once.
    Generated,
    Given(String),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PasswordFault {
    #[error("must have at least 12 characters")]
    TooShort,
    #[error("must have at most 256 bytes")]
    TooLong,
    #[error("is one of the commonest, or made of the e-mail address or the product's name")]
    TooCommon,
    #[error("could not be generated: no random bytes")]
    NoRandomBytes,
}

impl NewPassword {
    /// The password, and once more if it has to be shown.
    pub(super) fn chosen(self, email: &str) -> Result<(String, Option<String>), PasswordFault> {
        match self {
            NewPassword::Generated => {
                let password = generated()?;
                Ok((password.clone(), Some(password)))
            }
            NewPassword::Given(password) => {
                checked(&password, email)?;
                Ok((password, None))
            }
        }
    }
}

fn checked(password: &str, email: &str) -> Result<(), PasswordFault> {
    if password.chars().count() < LENGTH_MIN {
        return Err(PasswordFault::TooShort);
    }
    if password.len() > BYTES_MAX {
        return Err(PasswordFault::TooLong);
    }
    let lower = password.to_lowercase();
    let mut characters = lower.chars();
    let first = characters.next();
    let is_one_character = characters.all(|c| Some(c) == first);
    if is_one_character || COMMON.contains(&lower.as_str()) || lower.contains("daybook") || lower == email {
        return Err(PasswordFault::TooCommon);
    }
    Ok(())
}

/// 100 random bits in four groups, without letters that are mistaken for each other.
fn generated() -> Result<String, PasswordFault> {
    const LETTERS: &[u8; 32] = b"abcdefghjkmnpqrstuvwxyz23456789A";
    let mut bytes = [0; 20];
    getrandom::fill(&mut bytes).map_err(|_| PasswordFault::NoRandomBytes)?;
    let letters: Vec<char> = bytes.iter().map(|byte| char::from(LETTERS[usize::from(byte % 32)])).collect();
    let groups: Vec<String> = letters.chunks(5).map(|group| group.iter().collect()).collect();
    Ok(groups.join("-"))
}

/// Hashes on blocking threads, a few at a time, so that a flood of sign-ins cannot starve the API.
#[derive(Clone)]
pub(super) struct Hasher {
    turns: Arc<Semaphore>,
}

/// Nobody got round to it within [`WAIT_MAX`].
pub(super) struct TooManyWaiting;

impl Hasher {
    pub(super) fn new(at_once: usize) -> Hasher {
        Hasher { turns: Arc::new(Semaphore::new(at_once.max(1))) }
    }

    /// A PHC string.
    pub(super) async fn hash(&self, password: String) -> Result<String, AccessError> {
        let work = move || hash(&password);
        self.in_turn(work).await.map_err(|TooManyWaiting| AccessError::Internal)?
    }

    /// Whether the password is the stored hash's. Without a stored hash it takes the same time and says no.
    pub(super) async fn verify(
        &self,
        password: String,
        stored: Option<String>,
    ) -> Result<bool, TooManyWaiting> {
        self.in_turn(move || {
            let is_right = matches(&password, stored.as_deref().unwrap_or(NOBODYS_HASH));
            is_right && stored.is_some()
        })
        .await
    }

    async fn in_turn<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, TooManyWaiting> {
        let turn = tokio::time::timeout(WAIT_MAX, self.turns.clone().acquire_owned()).await;
        let Ok(Ok(turn)) = turn else { return Err(TooManyWaiting) };
        let done = tokio::task::spawn_blocking(move || {
            let result = work();
            drop(turn);
            result
        });
        done.await.map_err(|_| TooManyWaiting)
    }
}

fn argon2() -> Result<Argon2<'static>, AccessError> {
    let (memory_kib, passes, lanes) = COST;
    let params = Params::new(memory_kib, passes, lanes, None).map_err(|_| AccessError::Internal)?;
    Ok(Argon2::new(Algorithm::Argon2id, Version::V0x13, params))
}

fn hash(password: &str) -> Result<String, AccessError> {
    let mut salt = [0; 16];
    getrandom::fill(&mut salt).map_err(|_| AccessError::Internal)?;
    let hash: PasswordHash =
        argon2()?.hash_password_with_salt(password.as_bytes(), &salt).map_err(|_| AccessError::Internal)?;
    Ok(hash.to_string())
}

/// The stored hash names its own cost, so old ones still verify after the cost is raised.
fn matches(password: &str, stored: &str) -> bool {
    let (Ok(stored), Ok(argon2)) = (PasswordHash::new(stored), argon2()) else { return false };
    argon2.verify_password(password.as_bytes(), &stored).is_ok()
}

/// Whether a stored hash was made with another cost than today's.
pub(super) fn needs_rehash(stored: &str) -> bool {
    let (memory_kib, passes, lanes) = COST;
    !stored.starts_with(&format!("$argon2id$v=19$m={memory_kib},t={passes},p={lanes}$"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_matches_its_own_hash_and_no_other() {
        let stored = hash("correct horse battery").unwrap();
        assert!(stored.starts_with("$argon2id$v=19$m=19456,t=2,p=1$"), "{stored}");
        assert!(matches("correct horse battery", &stored));
        assert!(!matches("correct horse batterz", &stored));
        assert!(PasswordHash::new(NOBODYS_HASH).is_ok(), "verifying for nobody must do the whole work");
        assert!(!matches("", NOBODYS_HASH));
    }

    #[test]
    fn short_long_and_common_passwords_are_refused() {
        let fault = |password: &str| checked(password, "ada@example.org").err();
        assert_eq!(fault("elevenchars"), Some(PasswordFault::TooShort));
        assert_eq!(fault(&"ab".repeat(129)), Some(PasswordFault::TooLong));
        for common in ["aaaaaaaaaaaaaaa", "Password1234", "my-daybook-pass", "ada@example.org"] {
            assert_eq!(fault(common), Some(PasswordFault::TooCommon), "{common}");
        }
        assert_eq!(fault("seven blue kettles"), None);
    }

    #[test]
    fn a_generated_password_passes_its_own_rules_and_is_never_the_same() {
        let (first, second) = (generated().unwrap(), generated().unwrap());
        assert_eq!(first.len(), 23);
        assert!(checked(&first, "ada@example.org").is_ok());
        assert_ne!(first, second);
    }
}
