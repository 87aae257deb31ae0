//! Charges: usage paid at once.

use axum::body::Body;
use axum::extract::{Path, State};
use axum::http::Response;
use backoffice::access::rights::Right;
use chrono::{DateTime, Utc};
use ledger::command::{CallFields, Verb as LedgerVerb};
use ledger::entry::Words;
use serde::Deserialize;
use utoipa::ToSchema;

use super::answer::{ChargeAnswer, Kind};
use super::caller::{Verb, Write};
use super::draft::Draft;
use super::input::{Amount, Metadata, Name, Text, Time, metadata, text};
use crate::http::problem::Problem;
use crate::state::AppState;

#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ChargeBody {
    amount: Amount,
    /// Who used it, by an id that names nobody.
    #[serde(default)]
    member: Option<Name>,
    /// The caller's job; it is charged once.
    #[serde(default)]
    job_id: Option<Name>,
    /// The caller's request id, shown in the history and searchable.
    #[serde(default)]
    request_ref: Option<Name>,
    #[serde(default)]
    model: Option<Name>,
    /// The customer's own key.
    #[serde(default)]
    key_ref: Option<Name>,
    /// Kept 30 days, outside the journal.
    #[serde(default)]
    source_address: Option<Text<64>>,
    #[serde(default)]
    occurred_at: Option<Time>,
    #[serde(default)]
    metadata: Option<Metadata>,
}

impl Verb for ChargeBody {
    type Of = ();
    const RIGHT: Right = Right::PostUsage;
    const ANSWER: Kind = Kind::Charge;

    fn draft(self, (): (), _now: DateTime<Utc>) -> Result<Draft, Problem> {
        Ok(Draft {
            verb: LedgerVerb::Charge { amount: self.amount.0 },
            call: CallFields {
                member: text(self.member),
                job_id: text(self.job_id),
                request_ref: text(self.request_ref),
                model: text(self.model),
                key_ref: text(self.key_ref),
            },
            occurred_at: self.occurred_at.map(|Time(at)| at),
            words: Words { reason: None, metadata: metadata(self.metadata) },
            source_address: text(self.source_address),
        })
    }
}

/// Pays for usage at once.
///
/// Drawn from live grants in spend order. The same job is charged once, whatever the key.
#[utoipa::path(
    post, path = "/v1/accounts/{account}/charges", tag = "usage", request_body = ChargeBody,
    params(("account" = String, Path)),
    responses((status = 201, description = "Charged.", body = ChargeAnswer))
)]
pub async fn create(
    State(state): State<AppState>,
    Path(account): Path<String>,
    write: Write,
) -> Result<Response<Body>, Problem> {
    write.post::<ChargeBody>(&state, &account, "").await
}
