//! `/live` says that the process answers; `/ready` that it can work.

use std::time::Duration;

use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};

use crate::state::AppState;

const DATABASE_WAIT: Duration = Duration::from_secs(2);
const PLAIN: [(header::HeaderName, &str); 1] = [(header::CONTENT_TYPE, "application/json")];

pub async fn live() -> Response {
    (PLAIN, r#"{"status":"live"}"#).into_response()
}

/// 503 while the ledger cannot read its clock from the database.
pub async fn ready(State(state): State<AppState>) -> Response {
    let is_ready = matches!(tokio::time::timeout(DATABASE_WAIT, state.ledger.now()).await, Ok(Ok(_)));
    if is_ready {
        (PLAIN, r#"{"status":"ready"}"#).into_response()
    } else {
        (StatusCode::SERVICE_UNAVAILABLE, PLAIN, r#"{"status":"waiting for the database"}"#).into_response()
    }
}
