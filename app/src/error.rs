//! The one error of pages and server functions.
//!
//! It is a closed set without free text: a failed form's error travels through a URL or the session, and
//! anybody can craft a link, so no variant may carry words. To add one: a variant, its line in
//! [`AppError::status_code`] and its sentence in `components::errors`.

use leptos::server_fn::codec::JsonEncoding;
use leptos::server_fn::error::{FromServerFnError, ServerFnErrorErr};
use serde::{Deserialize, Serialize};

/// A field of one of our forms.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Field {
    Email,
    Password,
    Kind,
    From,
    To,
    Min,
    Max,
    Zone,
    Account,
    Cursor,
}

impl Field {
    /// The name in the form and the URL, and the id of its control.
    pub fn name(self) -> &'static str {
        match self {
            Field::Email => "email",
            Field::Password => "password",
            Field::Kind => "kind",
            Field::From => "from",
            Field::To => "to",
            Field::Min => "min",
            Field::Max => "max",
            Field::Zone => "tz",
            Field::Account => "account",
            Field::Cursor => "cursor",
        }
    }
}

/// What is wrong with a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reason {
    Missing,
    NotAnAddress,
    Unknown,
    NotADate,
    NotAnAmount,
    TooFine,
    TooLarge,
    BelowZero,
    /// The end of a range lies before its beginning.
    BeforeStart,
    /// The largest amount lies below the smallest.
    BelowMin,
}

/// Everything that can go wrong between a person and the ledger.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[serde(rename_all = "snake_case")]
pub enum AppError {
    #[error("signed out")]
    SignedOut,
    /// Deliberately says nothing about which of the two was wrong.
    #[error("the e-mail or the password is not right")]
    SignInRefused,
    #[error("too many attempts")]
    TooManyAttempts,
    #[error("not allowed")]
    Forbidden,
    #[error("not found")]
    NotFound,
    #[error("fields are not right")]
    Invalid(Vec<(Field, Reason)>),
    /// The request could not be read.
    #[error("bad request")]
    BadRequest,
    #[error("the database is unavailable")]
    DatabaseUnavailable,
    /// Only made in the browser.
    #[error("the server cannot be reached")]
    Unreachable,
    /// Logged where it happened.
    #[error("internal error")]
    Internal,
}

impl AppError {
    /// The HTTP status; fetches and pages get the same.
    pub fn status_code(&self) -> u16 {
        match self {
            AppError::SignedOut | AppError::SignInRefused => 401,
            AppError::Forbidden => 403,
            AppError::NotFound => 404,
            AppError::TooManyAttempts => 429,
            AppError::Invalid(_) | AppError::BadRequest => 400,
            AppError::DatabaseUnavailable | AppError::Unreachable => 503,
            AppError::Internal => 500,
        }
    }

    /// The same for axum.
    #[cfg(feature = "ssr")]
    pub fn status(&self) -> axum::http::StatusCode {
        axum::http::StatusCode::from_u16(self.status_code())
            .unwrap_or(axum::http::StatusCode::INTERNAL_SERVER_ERROR)
    }
}

impl FromServerFnError for AppError {
    type Encoder = JsonEncoding;

    fn from_server_fn_error(error: ServerFnErrorErr) -> AppError {
        match error {
            ServerFnErrorErr::Args(_) | ServerFnErrorErr::MissingArg(_) => AppError::BadRequest,
            ServerFnErrorErr::Request(_) => AppError::Unreachable,
            other => internal(&other),
        }
    }
}

#[cfg(feature = "ssr")]
fn internal(error: &ServerFnErrorErr) -> AppError {
    tracing::error!(error = %error, "a server function could not be run");
    AppError::Internal
}

#[cfg(not(feature = "ssr"))]
fn internal(_: &ServerFnErrorErr) -> AppError {
    AppError::Internal
}

#[cfg(feature = "ssr")]
impl From<ledger::service::ReadError> for AppError {
    fn from(error: ledger::service::ReadError) -> AppError {
        match error {
            ledger::service::ReadError::DatabaseUnavailable => AppError::DatabaseUnavailable,
            ledger::service::ReadError::Internal => AppError::Internal,
        }
    }
}

#[cfg(feature = "ssr")]
impl From<ledger::service::PageError> for AppError {
    fn from(error: ledger::service::PageError) -> AppError {
        match error {
            ledger::service::PageError::BadCursor(_) => {
                AppError::Invalid(vec![(Field::Cursor, Reason::Unknown)])
            }
            ledger::service::PageError::Read(error) => error.into(),
        }
    }
}

#[cfg(feature = "ssr")]
impl From<backoffice::access::rights::Denied> for AppError {
    fn from(denied: backoffice::access::rights::Denied) -> AppError {
        match denied {
            backoffice::access::rights::Denied::Forbidden => AppError::Forbidden,
            backoffice::access::rights::Denied::Hidden => AppError::NotFound,
        }
    }
}

#[cfg(all(test, feature = "ssr"))]
mod tests {
    use super::*;

    #[test]
    fn an_error_survives_the_wire_in_both_directions() {
        let error = AppError::Invalid(vec![(Field::Email, Reason::Missing)]);
        assert_eq!(AppError::de(error.ser()), error);
    }
}
