//! The clock of a rehearsal instance. The route is there only under `daybook serve --test-clock`.

use axum::body::Body;
use axum::extract::State;
use axum::http::Response;
use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::answer::ok;
use super::caller::Write;
use super::input::{Time, parse};
use crate::http::problem::Problem;
use crate::state::AppState;

#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct TestClockBody {
    /// Not before the clock.
    now: Time,
}

#[derive(Serialize, ToSchema)]
pub struct TestClockAnswer {
    now: DateTime<Utc>,
}

/// Sets the clock, never backwards. Needs any API key and no idempotency key.
#[utoipa::path(
    put, path = "/v1/test-clock", tag = "description", request_body = TestClockBody,
    responses((status = 200, description = "Where the clock stands.", body = TestClockAnswer))
)]
pub async fn set(State(state): State<AppState>, write: Write) -> Result<Response<Body>, Problem> {
    let TestClockBody { now: Time(now) } = parse(&write.body)?;
    if state.ledger.test_clock().await?.is_some_and(|before| now < before) {
        return Err(Problem::field("/now", "is before the clock, which never goes back"));
    }
    ok(&TestClockAnswer { now: state.ledger.set_test_clock(now).await? })
}
