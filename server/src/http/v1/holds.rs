//! Holds: credits set aside before the work, and settled, released or reversed after it.

use axum::body::Body;
use axum::extract::{Path, Query, State};
use axum::http::{Response, Uri};
use backoffice::access::rights::Right;
use chrono::{DateTime, Utc};
use ledger::command::{CallFields, ReverseOutcome, Verb as LedgerVerb};
use ledger::entry::Words;
use ledger::hold::HoldStatus;
use ledger::ids::HoldId;
use serde::Deserialize;
use utoipa::{IntoParams, ToSchema};

use super::answer::{HoldAnswer, HoldChangeAnswer, Kind, SettleAnswer, ok};
use super::caller::{Caller, PathId, Verb, Write};
use super::draft::Draft;
use super::input::{Amount, Metadata, Name, Reason, Text, Time, Word, metadata, text};
use super::list::{self, page_request, query};
use super::placed::placed_all;
use super::shapes::{Hold, List};
use crate::http::problem::Problem;
use crate::state::AppState;

impl PathId for HoldId {
    const FIELD: Option<&'static str> = Some("hold");

    fn parse(text: &str) -> Result<HoldId, Problem> {
        text.parse().map_err(|_| Problem::not_found("There is no such hold."))
    }
}

#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct HoldBody {
    amount: Amount,
    /// Seconds until it expires; default and maximum by the account's policy.
    #[serde(default)]
    expires_in_s: Option<u32>,
    /// Who uses it, by an id that names nobody.
    #[serde(default)]
    member: Option<Name>,
    /// The caller's job; it is paid once.
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

impl Verb for HoldBody {
    type Of = ();
    const RIGHT: Right = Right::PostUsage;
    const ANSWER: Kind = Kind::Hold;

    fn draft(self, (): (), now: DateTime<Utc>) -> Result<Draft, Problem> {
        Ok(Draft {
            verb: LedgerVerb::Hold {
                id: HoldId::new(now),
                amount: self.amount.0,
                expires_in_s: self.expires_in_s,
            },
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

#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RenewBody {
    /// Seconds from now, at most the hold's lifetime, and 24 hours after it was placed.
    expires_in_s: u32,
}

impl Verb for RenewBody {
    type Of = HoldId;
    const RIGHT: Right = Right::PostUsage;
    const ANSWER: Kind = Kind::HoldChange;

    fn draft(self, hold: HoldId, _now: DateTime<Utc>) -> Result<Draft, Problem> {
        Ok(Draft::new(LedgerVerb::Renew { hold, expires_in_s: self.expires_in_s }))
    }
}

#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct SettleBody {
    /// The true cost; 0 is taken.
    amount: Amount,
    #[serde(default)]
    request_ref: Option<Name>,
    #[serde(default)]
    metadata: Option<Metadata>,
}

impl Verb for SettleBody {
    type Of = HoldId;
    const RIGHT: Right = Right::PostUsage;
    const ANSWER: Kind = Kind::Settle;

    fn draft(self, hold: HoldId, _now: DateTime<Utc>) -> Result<Draft, Problem> {
        let mut draft = Draft::new(LedgerVerb::Settle { hold, amount: self.amount.0 });
        draft.call.request_ref = text(self.request_ref);
        draft.words.metadata = metadata(self.metadata);
        Ok(draft)
    }
}

#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ReleaseBody {}

impl Verb for ReleaseBody {
    type Of = HoldId;
    const RIGHT: Right = Right::PostUsage;
    const ANSWER: Kind = Kind::HoldChange;

    fn draft(self, hold: HoldId, _now: DateTime<Utc>) -> Result<Draft, Problem> {
        Ok(Draft::new(LedgerVerb::Release { hold }))
    }
}

#[derive(Clone, Copy, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    Failed,
    /// Nobody knows whether the work was done; the hold is marked for review.
    Unknown,
}

#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ReverseBody {
    #[schema(value_type = Outcome)]
    outcome: Word<Outcome>,
    #[serde(default)]
    reason: Option<Reason>,
}

impl Verb for ReverseBody {
    type Of = HoldId;
    const RIGHT: Right = Right::PostUsage;
    const ANSWER: Kind = Kind::HoldChange;

    fn draft(self, hold: HoldId, _now: DateTime<Utc>) -> Result<Draft, Problem> {
        let outcome = match self.outcome.0 {
            Outcome::Failed => ReverseOutcome::Failed,
            Outcome::Unknown => ReverseOutcome::Unknown,
        };
        Ok(Draft::new(LedgerVerb::Reverse { hold, outcome }).because(text(self.reason)))
    }
}

/// Sets credits aside before the work begins.
///
/// The answer means that it is committed: start nothing before.
#[utoipa::path(
    post, path = "/v1/accounts/{account}/holds", tag = "usage", request_body = HoldBody,
    params(("account" = String, Path)),
    responses((status = 201, description = "Set aside.", body = HoldAnswer))
)]
pub async fn create(
    State(state): State<AppState>,
    Path(account): Path<String>,
    write: Write,
) -> Result<Response<Body>, Problem> {
    write.post::<HoldBody>(&state, &account, "").await
}

/// Moves an open hold's end.
#[utoipa::path(
    post, path = "/v1/accounts/{account}/holds/{hold}/renew", tag = "usage", request_body = RenewBody,
    params(("account" = String, Path), ("hold" = uuid::Uuid, Path)),
    responses((status = 200, description = "Renewed.", body = HoldChangeAnswer))
)]
pub async fn renew(
    State(state): State<AppState>,
    Path((account, hold)): Path<(String, String)>,
    write: Write,
) -> Result<Response<Body>, Problem> {
    write.post::<RenewBody>(&state, &account, &hold).await
}

/// Posts the true cost of a hold.
///
/// Below the hold, the rest comes back. Above it, the overrun is drawn from what is available, and what is missing becomes debt.
#[utoipa::path(
    post, path = "/v1/accounts/{account}/holds/{hold}/settle", tag = "usage", request_body = SettleBody,
    params(("account" = String, Path), ("hold" = uuid::Uuid, Path)),
    responses((status = 200, description = "Settled.", body = SettleAnswer))
)]
pub async fn settle(
    State(state): State<AppState>,
    Path((account, hold)): Path<(String, String)>,
    write: Write,
) -> Result<Response<Body>, Problem> {
    write.post::<SettleBody>(&state, &account, &hold).await
}

/// Gives a hold up.
#[utoipa::path(
    post, path = "/v1/accounts/{account}/holds/{hold}/release", tag = "usage",
    params(("account" = String, Path), ("hold" = uuid::Uuid, Path)),
    responses((status = 200, description = "Released.", body = HoldChangeAnswer))
)]
pub async fn release(
    State(state): State<AppState>,
    Path((account, hold)): Path<(String, String)>,
    write: Write,
) -> Result<Response<Body>, Problem> {
    write.post::<ReleaseBody>(&state, &account, &hold).await
}

/// Gives a hold back because the work failed or timed out.
#[utoipa::path(
    post, path = "/v1/accounts/{account}/holds/{hold}/reverse", tag = "usage", request_body = ReverseBody,
    params(("account" = String, Path), ("hold" = uuid::Uuid, Path)),
    responses((status = 200, description = "Reversed.", body = HoldChangeAnswer))
)]
pub async fn reverse(
    State(state): State<AppState>,
    Path((account, hold)): Path<(String, String)>,
    write: Write,
) -> Result<Response<Body>, Problem> {
    write.post::<ReverseBody>(&state, &account, &hold).await
}

#[derive(Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields, default)]
#[into_params(parameter_in = Query)]
pub struct HoldsQuery {
    #[param(value_type = Option<super::schema::HoldState>)]
    status: Option<String>,
    /// 1 to 200; 50 if absent.
    #[param(value_type = Option<u32>, minimum = 1, maximum = 200)]
    limit: Option<String>,
    cursor: Option<String>,
}

/// An account's holds, newest first.
#[utoipa::path(
    get, path = "/v1/accounts/{account}/holds", tag = "usage",
    params(("account" = String, Path), HoldsQuery),
    responses((status = 200, description = "A page.", body = inline(List<Hold>)))
)]
pub async fn index(
    State(state): State<AppState>,
    Path(account): Path<String>,
    caller: Caller,
    uri: Uri,
) -> Result<Response<Body>, Problem> {
    let account = caller.reads(&state, &account).await?.account();
    let Query(HoldsQuery { status, limit, cursor }) = query(&uri)?;
    let status = list::word(status.as_deref(), "status", HoldStatus::parse)?;
    let mut page = state.ledger.holds(account, status, &page_request(limit.as_deref(), cursor)?).await?;
    list::must_exist(&state, account, page.rows.is_empty()).await?;
    let placed = placed_all(&state, account, &page.rows).await?;
    // A hold without its entry was purged between the two looks.
    page.rows.retain(|hold| placed.contains_key(&hold.seq));
    let shown = page.rows.iter().filter_map(|hold| Some(Hold::of(hold, placed.get(&hold.seq)?)));
    ok(&List { data: shown.collect(), next_cursor: page.next.clone() })
}

/// One hold.
#[utoipa::path(
    get, path = "/v1/accounts/{account}/holds/{hold}", tag = "usage",
    params(("account" = String, Path), ("hold" = uuid::Uuid, Path)),
    responses((status = 200, description = "The hold.", body = Hold))
)]
pub async fn show(
    State(state): State<AppState>,
    Path((account, hold)): Path<(String, String)>,
    caller: Caller,
) -> Result<Response<Body>, Problem> {
    let account = caller.reads(&state, &account).await?.account();
    let unknown = || Problem::not_found("There is no such hold.");
    let hold = state.ledger.hold(account, HoldId::parse(&hold)?).await?.ok_or_else(unknown)?;
    let placed = placed_all(&state, account, std::slice::from_ref(&hold)).await?;
    ok(&Hold::of(&hold, placed.get(&hold.seq).ok_or_else(unknown)?))
}
