//! People who sign in.

use std::fmt;
use std::str::FromStr;

use chrono::{DateTime, Utc};
use ledger::command::{Actor, ActorKind};
use ledger::ids::AccountId;
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::{Access, AccessError, NewPassword, PasswordFault, repo};

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct UserId(pub Uuid);

impl fmt::Display for UserId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

impl FromStr for UserId {
    type Err = uuid::Error;

    fn from_str(text: &str) -> Result<UserId, uuid::Error> {
        Uuid::parse_str(text).map(UserId)
    }
}

/// What somebody is here for; rights hang on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    Customer,
    Support,
    Finance,
    Admin,
}

impl Role {
    pub const ALL: [Role; 4] = [Role::Customer, Role::Support, Role::Finance, Role::Admin];

    pub fn as_str(self) -> &'static str {
        match self {
            Role::Customer => "customer",
            Role::Support => "support",
            Role::Finance => "finance",
            Role::Admin => "admin",
        }
    }

    pub fn parse(text: &str) -> Option<Role> {
        Role::ALL.into_iter().find(|role| role.as_str() == text)
    }

    /// A person of the operator, not of a customer.
    pub fn is_staff(self) -> bool {
        self != Role::Customer
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct User {
    pub id: UserId,
    /// Lower case.
    pub email: String,
    pub role: Role,
    /// A customer's own accounts; empty for staff, who see accounts by their role.
    pub accounts: Vec<AccountId>,
    pub disabled: bool,
    pub created_at: DateTime<Utc>,
}

impl User {
    /// The actor of what this user does.
    pub fn actor(&self) -> Actor {
        Actor { kind: ActorKind::User, id: self.id.to_string(), role: Some(self.role.as_str().to_owned()) }
    }
}

#[derive(Clone, Debug)]
pub struct NewUser {
    pub email: String,
    pub role: Role,
    pub accounts: Vec<AccountId>,
    pub password: NewPassword,
}

#[derive(Clone, Debug)]
pub struct CreatedUser {
    pub user: User,
    /// Shown once; only its hash is kept.
    pub generated_password: Option<String>,
}

#[derive(Clone, Debug, thiserror::Error)]
pub enum CreateUserError {
    #[error("there is a user with this e-mail address")]
    EmailTaken,
    #[error("this is not an e-mail address of at most 254 characters")]
    BadEmail,
    #[error("the password {0}")]
    Password(#[from] PasswordFault),
    #[error(transparent)]
    Unavailable(#[from] AccessError),
}

impl Access {
    pub async fn create_user(
        &self,
        new: NewUser,
        now: DateTime<Utc>,
    ) -> Result<CreatedUser, CreateUserError> {
        let email = normalised_email(&new.email).ok_or(CreateUserError::BadEmail)?;
        let (password, generated_password) = new.password.chosen(&email)?;
        let password_hash = self.hasher.hash(password).await?;
        let user = User {
            id: UserId(ledger::ids::fresh(now)),
            email,
            role: new.role,
            accounts: new.accounts,
            disabled: false,
            created_at: now,
        };
        let inserted = repo::insert_user(&self.pool, &user, &password_hash).await?;
        if !inserted {
            return Err(CreateUserError::EmailTaken);
        }
        Ok(CreatedUser { user, generated_password })
    }

    /// Returns the password if it was generated. Ends the user's sessions.
    pub async fn set_password(
        &self,
        id: UserId,
        password: NewPassword,
    ) -> Result<Option<String>, CreateUserError> {
        let email = self.user(id).await?.map(|user| user.email).unwrap_or_default();
        let (password, generated) = password.chosen(&email)?;
        let hash = self.hasher.hash(password).await?;
        repo::update_password(&self.pool, id, &hash).await?;
        self.end_sessions(id).await?;
        Ok(generated)
    }

    /// Disabled users are found too.
    pub async fn user(&self, id: UserId) -> Result<Option<User>, AccessError> {
        repo::user(&self.pool, id).await
    }

    /// What a page asks: nobody unknown, nobody disabled.
    pub async fn active_user(&self, id: UserId) -> Result<Option<User>, AccessError> {
        Ok(self.user(id).await?.filter(|user| !user.disabled))
    }

    pub async fn user_by_email(&self, email: &str) -> Result<Option<User>, AccessError> {
        let Some(email) = normalised_email(email) else { return Ok(None) };
        repo::user_by_email(&self.pool, &email).await
    }

    pub async fn users_exist(&self) -> Result<bool, AccessError> {
        repo::users_exist(&self.pool).await
    }

    /// Ends the user's sessions when it disables. False when there is no such user.
    pub async fn set_disabled(
        &self,
        id: UserId,
        disabled: bool,
        now: DateTime<Utc>,
    ) -> Result<bool, AccessError> {
        let found = repo::set_disabled(&self.pool, id, disabled.then_some(now)).await?;
        self.keys.forget_all();
        if disabled {
            self.end_sessions(id).await?;
        }
        Ok(found)
    }
}

/// Lower case, without surrounding space. Not a full grammar: mail that arrives is the only real check.
pub(super) fn normalised_email(text: &str) -> Option<String> {
    let email = text.trim().to_lowercase();
    let (local, domain) = email.rsplit_once('@')?;
    let is_plain = !email.chars().any(|c| c.is_whitespace() || c.is_control());
    let fits = email.chars().count() <= 254;
    (is_plain && fits && !local.is_empty() && !domain.is_empty()).then_some(email)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_kept_in_lower_case_and_must_look_like_one() {
        assert_eq!(normalised_email("  Ada@Example.ORG "), Some("ada@example.org".to_owned()));
        for text in ["", "ada", "@example.org", "ada@", "a b@example.org", "a\0@example.org"] {
            assert_eq!(normalised_email(text), None, "{text:?}");
        }
    }
}
