//! Who is asking, and what a request carries: the first thing every page and server function takes.

use axum::http::request::Parts;
use axum::http::{HeaderValue, StatusCode, header};
use backoffice::Instance;
use backoffice::access::session::{ADDRESS_KEY, USER_KEY};
use backoffice::access::{Access, ClientAddress, User, UserId};
use chrono::{DateTime, Utc};
use ledger::Ledger;
use leptos::context::use_context;
use leptos_axum::ResponseOptions;
use serde::{Deserialize, Serialize};
use tower_sessions::Session;

use crate::context::{Assets, MachineClock};
use crate::error::AppError;
use crate::shell::Theme;

/// The session's place for the state of a failed form, read once by the page that shows it.
pub const FORM_KEY: &str = "form";

/// A failed sign-in: what was wrong and what may be shown again. Never a password.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct FormState {
    pub error: AppError,
    pub email: String,
}

impl FormState {
    pub fn unavailable() -> FormState {
        FormState { error: AppError::DatabaseUnavailable, email: String::new() }
    }
}

/// The parameter of the sign-in page's address that says that the database was away.
pub const UNAVAILABLE: &str = "unavailable";

/// One request, with the handles that answer it. Taken before the first await, since contexts belong to the
/// render.
#[derive(Clone)]
pub struct Visit {
    pub ledger: Ledger,
    pub access: Access,
    pub instance: Instance,
    pub assets: Assets,
    response: ResponseOptions,
    parts: Parts,
    session: Session,
    address: Option<std::net::IpAddr>,
    clock: MachineClock,
}

impl Visit {
    /// `Internal` when the server has not provided a context; it is logged, since nobody can mend it by asking again.
    pub fn begin() -> Result<Visit, AppError> {
        Visit::from_contexts().ok_or_else(|| {
            tracing::error!(
                "a page was rendered without the contexts of app::ssr::provide or outside the session layer"
            );
            AppError::Internal
        })
    }

    fn from_contexts() -> Option<Visit> {
        let parts = use_context::<Parts>()?;
        Some(Visit {
            ledger: use_context()?,
            access: use_context()?,
            instance: use_context()?,
            assets: use_context().unwrap_or_default(),
            response: use_context()?,
            session: parts.extensions.get::<Session>()?.clone(),
            address: use_context::<ClientAddress>().and_then(|ClientAddress(address)| address),
            clock: use_context()?,
            parts,
        })
    }

    pub fn address(&self) -> Option<std::net::IpAddr> {
        self.address
    }

    /// The machine's clock.
    pub fn now(&self) -> DateTime<Utc> {
        let MachineClock(now) = self.clock;
        now()
    }

    /// Says after how many seconds another try makes sense.
    pub fn set_retry_after(&self, seconds: u32) {
        self.response.insert_header(header::RETRY_AFTER, HeaderValue::from(seconds));
    }

    /// The raw query string, without its question mark.
    pub fn query(&self) -> &str {
        self.parts.uri.query().unwrap_or_default()
    }

    pub fn path_and_query(&self) -> String {
        self.parts.uri.path_and_query().map_or_else(|| "/".to_owned(), ToString::to_string)
    }

    pub fn theme(&self) -> Option<Theme> {
        Theme::of_request(&self.parts)
    }

    /// A plain form rather than a fetch.
    pub fn wants_html(&self) -> bool {
        let accept = self.parts.headers.get(header::ACCEPT).and_then(|value| value.to_str().ok());
        accept.is_some_and(|accept| accept.contains("text/html"))
    }

    pub fn set_status(&self, status: StatusCode) {
        self.response.set_status(status);
    }

    /// Sends the browser to a path of ours.
    pub fn redirect(&self, path: &str) {
        let Ok(value) = HeaderValue::from_str(path) else { return };
        self.response.set_status(StatusCode::FOUND);
        self.response.insert_header(header::LOCATION, value);
    }

    pub fn append_cookie(&self, cookie: &str) {
        if let Ok(value) = HeaderValue::from_str(cookie) {
            self.response.append_header(header::SET_COOKIE, value);
        }
    }

    /// Whether cookies may only travel over TLS.
    pub fn is_https(&self) -> bool {
        self.instance.base_url.as_deref().is_some_and(|url| url.starts_with("https://"))
    }

    /// The person, or `None` when nobody is signed in. A disabled person counts as signed out.
    pub async fn user(&self) -> Result<Option<User>, AppError> {
        user_of(&self.access, &self.session).await
    }

    /// Starts a session of its own for the person: the id that the sign-in page had is no longer worth anything.
    pub async fn sign_in(&self, user: UserId) -> Result<(), AppError> {
        self.session.cycle_id().await.map_err(|error| session_failed(&error))?;
        self.session.insert(USER_KEY, user).await.map_err(|error| session_failed(&error))?;
        self.session.insert(ADDRESS_KEY, self.address).await.map_err(|error| session_failed(&error))
    }

    pub async fn sign_out(&self) -> Result<(), AppError> {
        self.session.flush().await.map_err(|error| session_failed(&error))
    }

    pub async fn keep_form(&self, state: FormState) {
        if let Err(error) = self.session.insert(FORM_KEY, state).await {
            session_failed(&error);
        }
    }

    /// What a failed form left; the second reader finds nothing.
    pub async fn take_form(&self) -> Option<FormState> {
        self.session.remove(FORM_KEY).await.ok().flatten()
    }
}

/// The signed-in person of a session. The role and the accounts are read each time: what was taken away is
/// gone at once.
pub async fn user_of(access: &Access, session: &Session) -> Result<Option<User>, AppError> {
    let id = session.get::<UserId>(USER_KEY).await.map_err(|error| session_failed(&error))?;
    let Some(id) = id else { return Ok(None) };
    access.active_user(id).await.map_err(|error| {
        tracing::error!(error = %error, "the signed-in person could not be read");
        AppError::DatabaseUnavailable
    })
}

fn session_failed(error: &tower_sessions::session::Error) -> AppError {
    tracing::error!(error = %error, "the session could not be read or written");
    AppError::DatabaseUnavailable
}

/// A path of ours that a person may be sent to, or `/`. Anything that a browser could read as another site is
/// refused: a second slash, a backslash, anything not visible ASCII.
pub fn local_path(next: &str) -> &str {
    let is_ours = next.starts_with('/') && !next.starts_with("//");
    let is_plain = next.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'\\');
    if is_ours && is_plain && next.len() <= 2_048 { next } else { "/" }
}

/// The sign-in page that leads on to `next`.
pub fn login_path(next: &str) -> String {
    match local_path(next) {
        "/" => "/login".to_owned(),
        next => format!(
            "/login?{}",
            form_urlencoded::Serializer::new(String::new()).append_pair("next", next).finish()
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_paths_of_ours_are_followed() {
        for ours in ["/", "/history", "/history?kind=CONSUME&from=2026-11-01", "/accounts/x/history"] {
            assert_eq!(local_path(ours), ours);
        }
        for theirs in [
            "",
            "history",
            "//evil.example",
            "https://evil.example",
            "/\\evil.example",
            "/a\r\nSet-Cookie: x",
            "/ä",
            "javascript:alert(1)",
        ] {
            assert_eq!(local_path(theirs), "/", "{theirs:?}");
        }
    }

    #[test]
    fn the_way_back_survives_the_sign_in_page() {
        assert_eq!(login_path("/history?a=1&b=2"), "/login?next=%2Fhistory%3Fa%3D1%26b%3D2");
        assert_eq!(login_path("//evil.example"), "/login");
    }
}
