//! The HTTP API, version 1: one file per resource, each with its bodies, its verbs and its routes.
//!
//! To add a route: a body that implements [`caller::Verb`] (or a read), a handler with its description, a
//! line in [`routes`] and in [`openapi`], and its row in `backoffice::access::rights`.

mod accounts;
mod adjustments;
mod answer;
mod batch;
mod caller;
mod charges;
mod draft;
mod entries;
mod grants;
mod holds;
mod input;
mod jobs;
mod list;
pub mod openapi;
mod placed;
mod schema;
mod shapes;
mod test_clock;

pub use placed::RecentHolds;

use axum::Router;
use axum::routing::{any, get, post, put};

use super::problem::{Name, Problem};
use crate::state::AppState;

/// An id of the caller's own, such as a member's, as every request's is checked.
pub fn checked_name(text: &str) -> Result<String, String> {
    input::Name::checked(text).map(|input::Text(name)| name)
}

/// All routes under `/v1`, and what answers there when none fits. Only a rehearsal instance lets its clock be set.
pub fn routes(has_test_clock: bool) -> Router<AppState> {
    let clock = if has_test_clock {
        Router::new().route("/v1/test-clock", put(test_clock::set))
    } else {
        Router::new()
    };
    clock
        .route("/v1/accounts", post(accounts::create).get(accounts::index))
        .route("/v1/accounts/{account}", get(accounts::show))
        .route("/v1/accounts/{account}/balance", get(accounts::balance))
        .route("/v1/accounts/{account}/grants", post(grants::create).get(grants::index))
        .route("/v1/accounts/{account}/grants/{grant}/void", post(grants::void))
        .route("/v1/accounts/{account}/grants/{grant}/extend", post(grants::extend))
        .route("/v1/accounts/{account}/grants/{grant}/clawbacks", post(grants::claw_back))
        .route("/v1/accounts/{account}/grants/{grant}/restores", post(grants::restore))
        .route("/v1/accounts/{account}/charges", post(charges::create))
        .route("/v1/accounts/{account}/holds", post(holds::create).get(holds::index))
        .route("/v1/accounts/{account}/holds/{hold}", get(holds::show))
        .route("/v1/accounts/{account}/holds/{hold}/renew", post(holds::renew))
        .route("/v1/accounts/{account}/holds/{hold}/settle", post(holds::settle))
        .route("/v1/accounts/{account}/holds/{hold}/release", post(holds::release))
        .route("/v1/accounts/{account}/holds/{hold}/reverse", post(holds::reverse))
        .route("/v1/accounts/{account}/entries", get(entries::index))
        .route("/v1/accounts/{account}/entries/{seq}", get(entries::show))
        .route("/v1/accounts/{account}/entries/{seq}/refunds", post(entries::refund))
        .route("/v1/accounts/{account}/adjustments", post(adjustments::create))
        .route("/v1/accounts/{account}/jobs/{job_id}/started", post(jobs::started))
        .route("/v1/accounts/{account}/jobs/{job_id}/completed", post(jobs::completed))
        .route("/v1/accounts/{account}/jobs/{job_id}/failed", post(jobs::failed))
        .route("/v1/batch", post(batch::create))
        .route("/v1/openapi.json", get(openapi::serve))
        .route("/v1", any(nowhere))
        .route("/v1/", any(nowhere))
        .route("/v1/{*rest}", any(nowhere))
        .method_not_allowed_fallback(method_not_allowed)
}

async fn nowhere() -> Problem {
    Problem::not_found("This path leads nowhere.")
}

async fn method_not_allowed() -> Problem {
    Problem::new(Name::MethodNotAllowed, "This path does not take that method; see the Allow header.")
}
