//! Signing in with e-mail address and password.

use std::net::IpAddr;

use chrono::{DateTime, Utc};

use super::password::{BYTES_MAX, TooManyWaiting, needs_rehash};
use super::user::normalised_email;
use super::{Access, AccessError, User, repo, throttle};

/// Waits that are not a counter's doing.
const BUSY_RETRY_AFTER_S: u32 = 5;

#[derive(Clone, Debug, thiserror::Error)]
pub enum SignInError {
    /// One answer for an unknown address, a wrong password and a disabled user.
    #[error("the e-mail address or the password is wrong")]
    WrongCredentials,
    #[error("too many tries; the next one is possible in {retry_after_s} s")]
    Throttled { retry_after_s: u32 },
    #[error(transparent)]
    Unavailable(#[from] AccessError),
}

impl Access {
    /// Takes the same time whether the address is known or not. The caller gives the session a new id.
    pub async fn sign_in(
        &self,
        email: &str,
        password: &str,
        address: Option<IpAddr>,
        now: DateTime<Utc>,
    ) -> Result<User, SignInError> {
        let email = normalised_email(email)
            .filter(|_| password.len() <= BYTES_MAX)
            .ok_or(SignInError::WrongCredentials)?;
        let account = throttle::account_subject(&email);
        let subjects: Vec<_> = address.map(throttle::address_subject).into_iter().chain([account]).collect();
        repo::count_tries(&self.pool, &subjects, |subject, count| subject.counted(count, now))
            .await?
            .map_err(|retry_after_s| SignInError::Throttled { retry_after_s })?;

        let found = repo::user_with_hash(&self.pool, &email).await?;
        let (user, stored) = found.map_or((None, None), |(user, hash)| (Some(user), Some(hash)));
        let is_right = self
            .hasher
            .verify(password.to_owned(), stored.clone())
            .await
            .map_err(|TooManyWaiting| SignInError::Throttled { retry_after_s: BUSY_RETRY_AFTER_S })?;
        let user = user.filter(|user| is_right && !user.disabled).ok_or(SignInError::WrongCredentials)?;

        self.strengthen(&user, password, stored).await?;
        repo::forget_tries(&self.pool, &account).await?;
        let others = &subjects[..subjects.len() - 1];
        repo::count_tries(&self.pool, others, |subject, count| Ok::<_, u32>(subject.uncounted(count)))
            .await?
            .ok();
        Ok(user)
    }

    /// Only a sign-in knows the password, so this is when a hash of an older cost becomes one of today's.
    async fn strengthen(
        &self,
        user: &User,
        password: &str,
        stored: Option<String>,
    ) -> Result<(), AccessError> {
        let Some(weak) = stored.filter(|stored| needs_rehash(stored)) else { return Ok(()) };
        let strong = self.hasher.hash(password.to_owned()).await?;
        repo::replace_password_hash(&self.pool, user.id, &weak, &strong).await
    }
}
