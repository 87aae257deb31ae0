//! Who may do what: one table, asked by pages, server functions and API alike.
//!
//! The answer is a proof, a value that only this file makes. What must not happen without a right takes
//! its proof, so a forgotten question does not compile. A customer, and an API key whose owner is one, sees
//! only the customer's own accounts; for the rest of the world the others do not exist.

use ledger::command::Actor;
use ledger::ids::AccountId;

use super::{ApiKeyProof, Role, Scope, User, UserId};

/// Something that is allowed or not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Right {
    /// Open an account.
    OpenAccount,
    /// Search all accounts.
    ListAccounts,
    /// Read one account: balance, grants, holds, entries.
    ReadAccount,
    /// Charges, holds and job markers.
    PostUsage,
    /// Put credits in, end or extend what was put in, and take back what a payment took back.
    MoveGrants,
    /// Give usage back.
    Refund,
    /// Correct a balance by hand, within the role's limits.
    Adjust,
}

struct Row {
    right: Right,
    /// People of these roles have the right, and so do API keys they own, if the scope is there too.
    roles: &'static [Role],
    scope: Scope,
}

const EVERYONE: &[Role] = &Role::ALL;
const STAFF: &[Role] = &[Role::Support, Role::Finance, Role::Admin];

const TABLE: [Row; 7] = [
    Row { right: Right::OpenAccount, roles: STAFF, scope: Scope::AccountsWrite },
    Row { right: Right::ListAccounts, roles: STAFF, scope: Scope::Read },
    Row { right: Right::ReadAccount, roles: EVERYONE, scope: Scope::Read },
    Row { right: Right::PostUsage, roles: EVERYONE, scope: Scope::UsageWrite },
    Row { right: Right::MoveGrants, roles: STAFF, scope: Scope::GrantsWrite },
    Row { right: Right::Refund, roles: STAFF, scope: Scope::RefundsWrite },
    Row { right: Right::Adjust, roles: STAFF, scope: Scope::Adjust },
];

/// What a page or server function asks of the person.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PageAccess {
    Anyone,
    SignedIn,
    Needs(Right),
}

/// Every page, export and server function, by its path. One without a row fails a test.
pub const PAGES: &[(&str, PageAccess)] = &[
    ("/login", PageAccess::Anyone),
    ("/api/sign_in", PageAccess::Anyone),
    ("/api/sign_out", PageAccess::Anyone),
    ("/api/set_theme", PageAccess::Anyone),
    ("/", PageAccess::SignedIn),
    ("/api/load_balance", PageAccess::Needs(Right::ReadAccount)),
    ("/history", PageAccess::Needs(Right::ReadAccount)),
    ("/history/{seq}", PageAccess::Needs(Right::ReadAccount)),
    ("/history.csv", PageAccess::Needs(Right::ReadAccount)),
    ("/accounts", PageAccess::Needs(Right::ListAccounts)),
    ("/accounts/{id}", PageAccess::Needs(Right::ReadAccount)),
    ("/accounts/{id}/history", PageAccess::Needs(Right::ReadAccount)),
    ("/accounts/{id}/history/{seq}", PageAccess::Needs(Right::ReadAccount)),
    ("/accounts/{id}/history.csv", PageAccess::Needs(Right::ReadAccount)),
];

/// What an API route asks of the key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RouteAccess {
    /// No key at all.
    Open,
    /// Any key; what is inside is asked one by one.
    AnyKey,
    Needs(Right),
}

/// Every API route, by method and path. A route without a row fails a test.
pub const ROUTES: &[(&str, &str, RouteAccess)] = &[
    ("POST", "/v1/accounts", RouteAccess::Needs(Right::OpenAccount)),
    ("GET", "/v1/accounts", RouteAccess::Needs(Right::ListAccounts)),
    ("GET", "/v1/accounts/{account}", RouteAccess::Needs(Right::ReadAccount)),
    ("GET", "/v1/accounts/{account}/balance", RouteAccess::Needs(Right::ReadAccount)),
    ("POST", "/v1/accounts/{account}/grants", RouteAccess::Needs(Right::MoveGrants)),
    ("GET", "/v1/accounts/{account}/grants", RouteAccess::Needs(Right::ReadAccount)),
    ("POST", "/v1/accounts/{account}/grants/{grant}/void", RouteAccess::Needs(Right::MoveGrants)),
    ("POST", "/v1/accounts/{account}/grants/{grant}/extend", RouteAccess::Needs(Right::MoveGrants)),
    ("POST", "/v1/accounts/{account}/grants/{grant}/clawbacks", RouteAccess::Needs(Right::MoveGrants)),
    ("POST", "/v1/accounts/{account}/grants/{grant}/restores", RouteAccess::Needs(Right::MoveGrants)),
    ("POST", "/v1/accounts/{account}/charges", RouteAccess::Needs(Right::PostUsage)),
    ("POST", "/v1/accounts/{account}/holds", RouteAccess::Needs(Right::PostUsage)),
    ("GET", "/v1/accounts/{account}/holds", RouteAccess::Needs(Right::ReadAccount)),
    ("GET", "/v1/accounts/{account}/holds/{hold}", RouteAccess::Needs(Right::ReadAccount)),
    ("POST", "/v1/accounts/{account}/holds/{hold}/renew", RouteAccess::Needs(Right::PostUsage)),
    ("POST", "/v1/accounts/{account}/holds/{hold}/settle", RouteAccess::Needs(Right::PostUsage)),
    ("POST", "/v1/accounts/{account}/holds/{hold}/release", RouteAccess::Needs(Right::PostUsage)),
    ("POST", "/v1/accounts/{account}/holds/{hold}/reverse", RouteAccess::Needs(Right::PostUsage)),
    ("GET", "/v1/accounts/{account}/entries", RouteAccess::Needs(Right::ReadAccount)),
    ("GET", "/v1/accounts/{account}/entries/{seq}", RouteAccess::Needs(Right::ReadAccount)),
    ("POST", "/v1/accounts/{account}/entries/{seq}/refunds", RouteAccess::Needs(Right::Refund)),
    ("POST", "/v1/accounts/{account}/adjustments", RouteAccess::Needs(Right::Adjust)),
    ("POST", "/v1/accounts/{account}/jobs/{job_id}/started", RouteAccess::Needs(Right::PostUsage)),
    ("POST", "/v1/accounts/{account}/jobs/{job_id}/completed", RouteAccess::Needs(Right::PostUsage)),
    ("POST", "/v1/accounts/{account}/jobs/{job_id}/failed", RouteAccess::Needs(Right::PostUsage)),
    ("POST", "/v1/batch", RouteAccess::AnyKey),
    ("PUT", "/v1/test-clock", RouteAccess::AnyKey),
    ("GET", "/v1/openapi.json", RouteAccess::Open),
    ("GET", "/live", RouteAccess::Open),
    ("GET", "/ready", RouteAccess::Open),
];

/// Why not.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Denied {
    #[error("this needs another role, or an API key with the scope for it")]
    Forbidden,
    /// Not one of the caller's accounts: the caller is not told whether it exists.
    #[error("there is no such account")]
    Hidden,
}

/// Proof that somebody may read one account.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MayRead {
    account: AccountId,
}

impl MayRead {
    pub fn account(self) -> AccountId {
        self.account
    }
}

/// Proof that somebody may search all accounts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MayList(());

/// Proof that somebody may open an account.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MayOpen {
    actor: Actor,
}

impl MayOpen {
    pub fn into_actor(self) -> Actor {
        self.actor
    }
}

/// Proof that somebody may post to one account what the right is about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MayPost {
    account: AccountId,
    right: Right,
    actor: Actor,
}

impl MayPost {
    pub fn account(&self) -> AccountId {
        self.account
    }

    pub fn right(&self) -> Right {
        self.right
    }

    pub fn into_actor(self) -> Actor {
        self.actor
    }
}

/// Proof that a staff member, or a key of theirs, may adjust one account.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MayAdjust {
    account: AccountId,
    user: UserId,
    role: Role,
    actor: Actor,
}

impl MayAdjust {
    pub fn account(&self) -> AccountId {
        self.account
    }

    pub(super) fn user(&self) -> UserId {
        self.user
    }

    pub fn role(&self) -> Role {
        self.role
    }

    pub fn into_actor(self) -> Actor {
        self.actor
    }
}

/// Whether a person's role has a right, whatever the account.
pub fn may(user: &User, right: Right) -> Result<(), Denied> {
    if !user.disabled && row(right).is_some_and(|row| row.roles.contains(&user.role)) {
        Ok(())
    } else {
        Err(Denied::Forbidden)
    }
}

pub fn may_read(user: &User, account: AccountId) -> Result<MayRead, Denied> {
    may(user, Right::ReadAccount)?;
    sees(user.role, &user.accounts, account)?;
    Ok(MayRead { account })
}

impl ApiKeyProof {
    /// Whether the key has a right, whatever the account. Asked before anything is read, so that a refusal for
    /// a missing scope does not depend on what exists.
    pub fn has(&self, right: Right) -> Result<(), Denied> {
        let is_allowed =
            row(right).is_some_and(|row| row.roles.contains(&self.role) && self.scopes.has(row.scope));
        if is_allowed { Ok(()) } else { Err(Denied::Forbidden) }
    }

    pub fn may_list(&self) -> Result<MayList, Denied> {
        self.has(Right::ListAccounts).map(|()| MayList(()))
    }

    pub fn may_open(&self) -> Result<MayOpen, Denied> {
        self.has(Right::OpenAccount)?;
        Ok(MayOpen { actor: self.actor() })
    }

    pub fn may_read(&self, account: AccountId) -> Result<MayRead, Denied> {
        self.has(Right::ReadAccount)?;
        sees(self.role, &self.accounts, account)?;
        Ok(MayRead { account })
    }

    pub fn may_post(&self, right: Right, account: AccountId) -> Result<MayPost, Denied> {
        self.has(right)?;
        sees(self.role, &self.accounts, account)?;
        Ok(MayPost { account, right, actor: self.actor() })
    }

    /// The operator of an adjustment is the key's owner.
    pub fn may_adjust(&self, account: AccountId) -> Result<MayAdjust, Denied> {
        self.has(Right::Adjust)?;
        sees(self.role, &self.accounts, account)?;
        Ok(MayAdjust { account, user: self.owner, role: self.role, actor: self.owner_actor() })
    }
}

fn row(right: Right) -> Option<&'static Row> {
    TABLE.iter().find(|row| row.right == right)
}

fn sees(role: Role, own: &[AccountId], account: AccountId) -> Result<(), Denied> {
    if role.is_staff() || own.contains(&account) { Ok(()) } else { Err(Denied::Hidden) }
}

#[cfg(test)]
mod tests {
    use chrono::DateTime;

    use super::*;

    const RIGHTS: [Right; 7] = [
        Right::OpenAccount,
        Right::ListAccounts,
        Right::ReadAccount,
        Right::PostUsage,
        Right::MoveGrants,
        Right::Refund,
        Right::Adjust,
    ];

    fn user(role: Role, accounts: Vec<AccountId>) -> User {
        let (id, created_at) = (UserId(ledger::ids::fresh(DateTime::UNIX_EPOCH)), DateTime::UNIX_EPOCH);
        User { id, email: "ada@example.org".to_owned(), role, accounts, disabled: false, created_at }
    }

    #[test]
    fn every_right_has_one_row() {
        for right in RIGHTS {
            assert_eq!(TABLE.iter().filter(|row| row.right == right).count(), 1, "{right:?}");
        }
        assert_eq!(TABLE.len(), RIGHTS.len());
    }

    #[test]
    fn a_customer_reads_own_accounts_and_staff_read_all() {
        let [own, other] = [1, 2].map(|_| AccountId::new(DateTime::UNIX_EPOCH));
        let customer = user(Role::Customer, vec![own]);
        assert_eq!(may_read(&customer, own).map(MayRead::account), Ok(own));
        assert_eq!(may_read(&customer, other), Err(Denied::Hidden));
        for role in [Role::Support, Role::Finance, Role::Admin] {
            assert!(may_read(&user(role, Vec::new()), other).is_ok(), "{role:?}");
        }
        let disabled = User { disabled: true, ..customer };
        assert_eq!(may_read(&disabled, own), Err(Denied::Forbidden));
    }

    #[test]
    fn a_customer_may_read_and_use_and_nothing_else() {
        let customer = user(Role::Customer, Vec::new());
        let allowed: Vec<Right> = RIGHTS.into_iter().filter(|right| may(&customer, *right).is_ok()).collect();
        assert_eq!(allowed, [Right::ReadAccount, Right::PostUsage]);
    }
}
