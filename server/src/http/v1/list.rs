//! Lists: query parameters read strictly, pages written in one way.

use axum::body::Body;
use axum::extract::Query;
use axum::http::{Response, Uri};
use chrono::{DateTime, Utc};
use ledger::Credits;
use ledger::ids::AccountId;
use ledger::service::{Page, PageRequest};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::answer::ok;
use super::input::{Name, Text, Time};
use super::shapes::List;
use crate::http::problem::Problem;
use crate::state::AppState;

const LIMIT_MAX: u32 = 200;
const CURSOR_CHARS_MAX: usize = 1_000;

/// The query string as a struct of optional strings. Unknown and repeated parameters are refused.
pub fn query<T: DeserializeOwned>(uri: &Uri) -> Result<Query<T>, Problem> {
    Query::try_from_uri(uri).map_err(|rejection| {
        let text = rejection.body_text();
        let reason = text.rsplit_once(": ").map_or(text.as_str(), |(_, reason)| reason).to_owned();
        let name = reason.split('`').nth(1).unwrap_or_default().chars().take(100).collect::<String>();
        Problem::field(name, reason.chars().take(300).collect::<String>())
    })
}

pub fn page_request(limit: Option<&str>, cursor: Option<String>) -> Result<PageRequest, Problem> {
    let limit = match limit.map(str::parse::<u32>) {
        None => 0,
        Some(Ok(limit)) if (1..=LIMIT_MAX).contains(&limit) => limit,
        Some(_) => return Err(Problem::field("limit", "is not a number from 1 to 200")),
    };
    match cursor {
        Some(cursor) if cursor.len() > CURSOR_CHARS_MAX || cursor.contains('\0') => {
            Err(Problem::field("cursor", "is not one of this list"))
        }
        cursor => Ok(PageRequest { cursor, limit }),
    }
}

/// One of a few words.
pub fn word<T>(
    text: Option<&str>,
    name: &'static str,
    parse: impl Fn(&str) -> Option<T>,
) -> Result<Option<T>, Problem> {
    text.map(|text| parse(text).ok_or_else(|| Problem::field(name, "is not one of the words that are taken")))
        .transpose()
}

pub fn flag(text: Option<&str>, name: &'static str) -> Result<Option<bool>, Problem> {
    word(text, name, |text| text.parse().ok())
}

/// A plus sign that was sent unescaped arrives as a space.
pub fn time(text: Option<&str>, name: &'static str) -> Result<Option<DateTime<Utc>>, Problem> {
    let read = |text: &str| {
        Time::checked(&text.replace(' ', "+"))
            .map(|Time(at)| at)
            .map_err(|reason| Problem::field(name, reason))
    };
    text.map(read).transpose()
}

pub fn amount(text: Option<&str>, name: &'static str) -> Result<Option<Credits>, Problem> {
    let read = |text: &str| match Credits::parse(text) {
        Ok(amount) if amount.is_negative() => Err(Problem::field(name, "is negative")),
        Ok(amount) => Ok(amount),
        Err(error) => Err(Problem::field(name, error.to_string())),
    };
    text.map(read).transpose()
}

pub fn name(text: Option<String>, name: &'static str) -> Result<Option<String>, Problem> {
    let read = |text: String| {
        Name::checked(&text).map(|Text(text)| text).map_err(|reason| Problem::field(name, reason))
    };
    text.map(read).transpose()
}

pub fn list<'a, R, T: Serialize>(
    page: &'a Page<R>,
    shape: impl Fn(&'a R) -> T,
) -> Result<Response<Body>, Problem> {
    ok(&List { data: page.rows.iter().map(shape).collect(), next_cursor: page.next.clone() })
}

/// An empty list of an account that does not exist is no list.
pub async fn must_exist(state: &AppState, account: AccountId, is_empty: bool) -> Result<(), Problem> {
    if is_empty && state.ledger.account(account).await?.is_none() {
        return Err(Problem::not_found("There is no such account."));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use serde::Deserialize;

    use super::*;

    #[derive(Debug, Default, Deserialize)]
    #[serde(deny_unknown_fields, default)]
    struct Example {
        limit: Option<String>,
    }

    #[test]
    fn unknown_and_repeated_parameters_are_refused() {
        let read = |text: &str| query::<Example>(&text.parse().unwrap()).map(|Query(example)| example.limit);
        assert_eq!(read("/x?limit=5").unwrap().as_deref(), Some("5"));
        assert_eq!(read("/x").unwrap(), None);
        assert_eq!(read("/x?limt=5").unwrap_err().errors[0].pointer, "limt");
        assert_eq!(read("/x?limit=5&limit=6").unwrap_err().errors[0].pointer, "limit");
    }

    #[test]
    fn limits_go_from_1_to_200() {
        let limit = |text: &str| page_request(Some(text), None).map(|page| page.limit).ok();
        assert_eq!(limit("1"), Some(1));
        assert_eq!(limit("200"), Some(200));
        for text in ["0", "201", "-1", "", "x", "1.5"] {
            assert_eq!(limit(text), None, "{text}");
        }
    }
}
