//! Where an account's pages live: without an id for the person whose only account it is, under `/accounts/…`
//! for staff.

use backoffice::access::User;
use ledger::ids::{AccountId, Seq};

use super::query::HistoryQuery;
use crate::error::AppError;

/// How the account is named in the URL.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Naming {
    /// The person's only account.
    Implied,
    /// One of the person's accounts, by `?account=`.
    Parameter,
    /// By the path.
    Path,
}

/// An account and the address of its pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    pub account: AccountId,
    pub naming: Naming,
}

impl Place {
    /// The account of a person's own pages: the one that `?account=` names, else the first. Any other is
    /// not found, whether it exists or not.
    pub fn own(user: &User, raw_query: &str) -> Result<Place, AppError> {
        let asked = form_urlencoded::parse(raw_query.as_bytes()).filter(|(name, _)| name == "account").last();
        let account = match asked {
            None => *user.accounts.first().ok_or(AppError::Forbidden)?,
            Some((_, text)) => {
                let account = text.parse().map_err(|_| AppError::NotFound)?;
                if !user.accounts.contains(&account) {
                    return Err(AppError::NotFound);
                }
                account
            }
        };
        let naming = if user.accounts.len() == 1 { Naming::Implied } else { Naming::Parameter };
        Ok(Place { account, naming })
    }

    fn base(self) -> String {
        match self.naming {
            Naming::Path => format!("/accounts/{}", self.account),
            Naming::Implied | Naming::Parameter => String::new(),
        }
    }

    /// The pair that a GET form has to carry along.
    pub fn parameter(self) -> Option<(&'static str, String)> {
        (self.naming == Naming::Parameter).then(|| ("account", self.account.to_string()))
    }

    fn with(self, path: &str, query: &HistoryQuery) -> String {
        let mut pairs = form_urlencoded::Serializer::new(String::new());
        pairs.extend_pairs(self.parameter());
        pairs.extend_pairs(query.pairs());
        let text = pairs.finish();
        let path = format!("{}{path}", self.base());
        let path = if path.is_empty() { "/" } else { &path };
        if text.is_empty() { path.to_owned() } else { format!("{path}?{text}") }
    }

    pub fn overview(self, query: &HistoryQuery) -> String {
        self.with("", &query.only_zone())
    }

    pub fn history(self, query: &HistoryQuery) -> String {
        self.with("/history", query)
    }

    /// The path of the history without any query, for forms.
    pub fn history_path(self) -> String {
        format!("{}/history", self.base())
    }

    /// All rows of the filter; a page of the screen is none of its state.
    pub fn csv(self, query: &HistoryQuery) -> String {
        self.with("/history.csv", &query.first_page())
    }

    pub fn entry(self, seq: Seq, query: &HistoryQuery) -> String {
        self.with(&format!("/history/{seq}"), &query.only_zone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_way_of_naming_an_account_has_its_addresses() {
        let account: AccountId = "0190a000-0000-7000-8000-000000000001".parse().unwrap();
        let query = HistoryQuery { sum: true, ..HistoryQuery::default() };
        let at = |naming| Place { account, naming };
        assert_eq!(at(Naming::Implied).overview(&query), "/");
        assert_eq!(at(Naming::Implied).history(&query), "/history?sum=1");
        assert_eq!(at(Naming::Parameter).entry(Seq(7), &query), format!("/history/7?account={account}"));
        assert_eq!(at(Naming::Path).overview(&query), format!("/accounts/{account}"));
        assert_eq!(at(Naming::Path).csv(&query), format!("/accounts/{account}/history.csv?sum=1"));
    }
}
