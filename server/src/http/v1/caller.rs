//! Who calls, and what a write brings: API key, idempotency key, body.

use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::{FromRequest, FromRequestParts, Request};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Response, header};
use backoffice::access::ApiKeyProof;
use backoffice::access::rights::{MayPost, MayRead, Right};
use chrono::{DateTime, Utc};
use ledger::command::{Command, KeyName, Origin, key_digest};
use ledger::ids::AccountId;
use serde::Deserialize;

use super::answer::{self, Kind};
use super::draft::Draft;
use super::input::{self, Text};
use super::placed::placed;
use crate::http::body;
use crate::http::problem::{Name, Problem};
use crate::state::{AppState, machine_now};

const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");

/// A request with a valid API key.
#[derive(Clone)]
pub struct Caller {
    pub key: Arc<ApiKeyProof>,
    /// The machine's clock when the request came in.
    pub now: DateTime<Utc>,
}

impl Caller {
    async fn of(headers: &HeaderMap, state: &AppState) -> Result<Caller, Problem> {
        let unauthenticated = |detail: &'static str| Problem::new(Name::Unauthenticated, detail);
        let value = only(headers, &header::AUTHORIZATION)
            .map_err(|()| unauthenticated("There is more than one Authorization header."))?
            .ok_or_else(|| unauthenticated("The Authorization header is missing."))?;
        let bearer = bearer(value)
            .ok_or_else(|| unauthenticated("The Authorization header is not `Bearer <key>`."))?;
        let now = machine_now();
        let key = state.access.check_key(bearer, now).await?;
        Ok(Caller { key, now })
    }

    /// Proof that the key may read the account that a path names.
    pub async fn reads(&self, state: &AppState, account: &str) -> Result<MayRead, Problem> {
        self.key.has(Right::ReadAccount)?;
        let account = resolve(state, account).await?;
        Ok(self.key.may_read(account)?)
    }
}

impl FromRequestParts<AppState> for Caller {
    type Rejection = Problem;

    async fn from_request_parts(parts: &mut Parts, state: &AppState) -> Result<Caller, Problem> {
        Caller::of(&parts.headers, state).await
    }
}

/// A write as it came in. The key was checked; what it may do has not been asked yet.
pub struct Write {
    pub caller: Caller,
    headers: HeaderMap,
    pub body: Bytes,
}

impl FromRequest<AppState> for Write {
    type Rejection = Problem;

    async fn from_request(request: Request, state: &AppState) -> Result<Write, Problem> {
        Write::read(request, state, state.config.limits.body_bytes_max).await
    }
}

/// The body of a verb: what it is called with, and which command it makes.
pub trait Verb: for<'de> Deserialize<'de> {
    /// What stands in the path beside the account.
    type Of: PathId;
    const RIGHT: Right;
    const ANSWER: Kind;

    fn draft(self, of: Self::Of, now: DateTime<Utc>) -> Result<Draft, Problem>;
}

/// What a path names beside the account.
pub trait PathId: Sized {
    /// Its field in a batch; `None` where there is nothing to name.
    const FIELD: Option<&'static str>;
    /// How that field is written in JSON.
    const WRITTEN: Written = Written::Text;

    fn parse(text: &str) -> Result<Self, Problem>;
}

/// The JSON type of a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Written {
    Text,
    /// A whole number.
    Number,
}

impl PathId for () {
    const FIELD: Option<&'static str> = None;

    fn parse(_text: &str) -> Result<(), Problem> {
        Ok(())
    }
}

impl Write {
    pub async fn read(request: Request, state: &AppState, bytes_max: usize) -> Result<Write, Problem> {
        let (parts, body) = request.into_parts();
        let caller = Caller::of(&parts.headers, state).await?;
        let wait = state.config.http.body_wait();
        let body = read_body(&parts.headers, body, bytes_max, wait).await?;
        Ok(Write { caller, headers: parts.headers, body })
    }

    pub fn idempotency_key(&self) -> Result<KeyName, Problem> {
        let value = only(&self.headers, &IDEMPOTENCY_KEY)
            .map_err(|()| {
                Problem::new(Name::InvalidRequest, "There is more than one Idempotency-Key header.")
            })?
            .ok_or_else(|| {
                Problem::new(Name::IdempotencyKeyMissing, "Writes need an Idempotency-Key header.")
            })?;
        let text = value.to_str().map_err(|_| bad_key("has characters that are not visible ASCII"))?;
        key_name(text)
    }

    /// Checks, parses, posts one verb to one account, and answers.
    pub async fn post<V: Verb>(
        &self,
        state: &AppState,
        account: &str,
        of: &str,
    ) -> Result<Response<Body>, Problem> {
        self.caller.key.has(V::RIGHT)?;
        let key = self.idempotency_key()?;
        let account = resolve(state, account).await?;
        let may = self.caller.key.may_post(V::RIGHT, account)?;
        let command = self.command::<V>(of, may, key)?;
        self.submit(state, command, V::ANSWER).await
    }

    /// The command that the body makes.
    fn command<V: Verb>(&self, of: &str, may: MayPost, key: KeyName) -> Result<Command, Problem> {
        let body: V = input::parse(&self.body)?;
        Ok(body.draft(V::Of::parse(of)?, self.caller.now)?.command(may, key))
    }

    /// Posts a command and answers.
    pub fn submit<'a>(
        &self,
        state: &'a AppState,
        command: Command,
        kind: Kind,
    ) -> impl Future<Output = Result<Response<Body>, Problem>> + use<'a> {
        let posted = state.ledger.submit(command);
        async move {
            let posted = posted.await?;
            if posted.replayed {
                state.metrics.count_replay();
            }
            let placed = placed(state, &posted).await?;
            answer::response(kind, &posted, placed)
        }
    }
}

pub fn key_name(text: &str) -> Result<KeyName, Problem> {
    let key = input::idempotency_key(text).map_err(bad_key)?;
    Ok((Origin::Api, key_digest(&key)))
}

fn bad_key(reason: &'static str) -> Problem {
    // An empty key is as good as none.
    let name = if reason == "is empty" { Name::IdempotencyKeyMissing } else { Name::InvalidRequest };
    Problem::new(name, format!("The idempotency key {reason}."))
}

/// The account that a path names: its id, or `ref:` and the operator's own reference.
pub async fn resolve(state: &AppState, text: &str) -> Result<AccountId, Problem> {
    let unknown = || Problem::not_found("There is no such account.");
    let Some(external_ref) = text.strip_prefix("ref:") else { return text.parse().map_err(|_| unknown()) };
    let Ok(Text(external_ref)) = Text::<255>::checked(external_ref) else { return Err(unknown()) };
    // Boxed like every wait that few requests need, so that the others do not carry its place along.
    Box::pin(state.ledger.account_by_ref(&external_ref)).await?.ok_or_else(unknown)
}

/// The one value of a header; an error if there are several.
fn only<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Result<Option<&'a HeaderValue>, ()> {
    let mut values = headers.get_all(name).iter();
    let first = values.next();
    if values.next().is_some() { Err(()) } else { Ok(first) }
}

fn bearer(value: &HeaderValue) -> Option<&str> {
    let (scheme, key) = value.to_str().ok()?.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then_some(key.trim())
}

async fn read_body(
    headers: &HeaderMap,
    body: Body,
    bytes_max: usize,
    wait: Duration,
) -> Result<Bytes, Problem> {
    let declared = headers
        .get(header::CONTENT_LENGTH)
        .and_then(|value| value.to_str().ok())
        .and_then(|text| text.parse::<usize>().ok());
    if declared.is_some_and(|bytes| bytes > bytes_max) {
        return Err(body::too_large(bytes_max));
    }
    let bytes = body::whole(body, bytes_max, wait).await?;
    if bytes.is_empty() || is_json(headers) {
        Ok(bytes)
    } else {
        Err(Problem::new(
            Name::UnsupportedMediaType,
            "The body must be application/json in UTF-8, and not compressed.",
        ))
    }
}

fn is_json(headers: &HeaderMap) -> bool {
    if headers.get(header::CONTENT_ENCODING).is_some_and(|coding| coding != "identity") {
        return false;
    }
    let Some(text) = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()) else {
        return false;
    };
    if text == "application/json" {
        return true;
    }
    let mut parts = text.split(';').map(str::trim);
    let is_json = parts.next().is_some_and(|essence| essence.eq_ignore_ascii_case("application/json"));
    is_json && parts.all(is_utf8)
}

fn is_utf8(parameter: &str) -> bool {
    let lower = parameter.to_ascii_lowercase();
    match lower.strip_prefix("charset=") {
        Some(charset) => charset.trim_matches('"') == "utf-8",
        None => true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_in_utf8_is_taken_and_nothing_else() {
        let check = |text: &'static str| {
            let mut headers = HeaderMap::new();
            headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(text));
            is_json(&headers)
        };
        for text in [
            "application/json",
            "Application/JSON",
            "application/json; charset=utf-8",
            "application/json;charset=\"UTF-8\"",
        ] {
            assert!(check(text), "{text}");
        }
        for text in [
            "text/plain",
            "application/x-www-form-urlencoded",
            "application/json; charset=latin1",
            "application/jsonx",
            "",
        ] {
            assert!(!check(text), "{text}");
        }
        assert!(!is_json(&HeaderMap::new()));
    }

    #[test]
    fn the_scheme_is_bearer_in_any_case() {
        let read = |text: &'static str| bearer(&HeaderValue::from_static(text)).map(str::to_owned);
        assert_eq!(read("Bearer abc"), Some("abc".to_owned()));
        assert_eq!(read("bearer abc"), Some("abc".to_owned()));
        assert_eq!(read("Basic abc"), None);
        assert_eq!(read("Bearer"), None);
    }
}
