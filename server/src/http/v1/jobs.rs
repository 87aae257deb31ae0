//! Job markers: what the caller's job has come to. Each is recorded once.

use axum::body::Body;
use axum::extract::{Path, State};
use axum::http::Response;
use backoffice::access::rights::Right;
use chrono::{DateTime, Utc};
use ledger::command::{JobMarker, Verb as LedgerVerb};
use serde::Deserialize;
use utoipa::ToSchema;

use super::answer::{JobAnswer, Kind};
use super::caller::{PathId, Verb, Write};
use super::draft::Draft;
use super::input::{Name, Reason, Text, text};
use crate::http::problem::Problem;
use crate::state::AppState;

/// The caller's job.
pub struct JobId(String);

impl PathId for JobId {
    const FIELD: Option<&'static str> = Some("job_id");

    fn parse(text: &str) -> Result<JobId, Problem> {
        Name::checked(text).map(|Text(id)| JobId(id)).map_err(|reason| Problem::field("job_id", reason))
    }
}

#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct JobBody {
    #[serde(default)]
    reason: Option<Reason>,
}

/// One body for three verbs.
macro_rules! marker {
    ($name:ident, $marker:expr) => {
        #[derive(Deserialize)]
        #[serde(transparent)]
        pub struct $name(JobBody);

        impl Verb for $name {
            type Of = JobId;
            const RIGHT: Right = Right::PostUsage;
            const ANSWER: Kind = Kind::Job;

            fn draft(self, JobId(job): JobId, _now: DateTime<Utc>) -> Result<Draft, Problem> {
                let mut draft = Draft::new(LedgerVerb::Mark { marker: $marker }).because(text(self.0.reason));
                draft.call.job_id = Some(job);
                Ok(draft)
            }
        }
    };
}

marker!(StartedBody, JobMarker::Started);
marker!(CompletedBody, JobMarker::Completed);
marker!(FailedBody, JobMarker::Failed);

/// Records that work on a job has begun. Refused once the job was refunded.
#[utoipa::path(
    post, path = "/v1/accounts/{account}/jobs/{job_id}/started", tag = "jobs", request_body = JobBody,
    params(("account" = String, Path), ("job_id" = String, Path)),
    responses((status = 200, description = "Recorded, now or before.", body = JobAnswer))
)]
pub async fn started(
    State(state): State<AppState>,
    Path((account, job)): Path<(String, String)>,
    write: Write,
) -> Result<Response<Body>, Problem> {
    write.post::<StartedBody>(&state, &account, &job).await
}

/// Records that a job is done.
#[utoipa::path(
    post, path = "/v1/accounts/{account}/jobs/{job_id}/completed", tag = "jobs", request_body = JobBody,
    params(("account" = String, Path), ("job_id" = String, Path)),
    responses((status = 200, description = "Recorded, now or before.", body = JobAnswer))
)]
pub async fn completed(
    State(state): State<AppState>,
    Path((account, job)): Path<(String, String)>,
    write: Write,
) -> Result<Response<Body>, Problem> {
    write.post::<CompletedBody>(&state, &account, &job).await
}

/// Records that a job has failed.
#[utoipa::path(
    post, path = "/v1/accounts/{account}/jobs/{job_id}/failed", tag = "jobs", request_body = JobBody,
    params(("account" = String, Path), ("job_id" = String, Path)),
    responses((status = 200, description = "Recorded, now or before.", body = JobAnswer))
)]
pub async fn failed(
    State(state): State<AppState>,
    Path((account, job)): Path<(String, String)>,
    write: Write,
) -> Result<Response<Body>, Problem> {
    write.post::<FailedBody>(&state, &account, &job).await
}
