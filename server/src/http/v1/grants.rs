//! Grants: credits put in, ended early, extended; and money that went back and came again.

use axum::body::Body;
use axum::extract::{Path, Query, State};
use axum::http::{Response, Uri};
use backoffice::access::rights::Right;
use chrono::{DateTime, Utc};
use ledger::command::Verb as LedgerVerb;
use ledger::grant::Pool;
use ledger::ids::GrantId;
use serde::Deserialize;
use utoipa::{IntoParams, ToSchema};

use super::answer::{EntriesAnswer, GrantAnswer, Kind};
use super::caller::{Caller, PathId, Verb, Write};
use super::draft::Draft;
use super::input::{ExpiresAt, Metadata, Name, PositiveAmount, Reason, Time, Word, metadata, text};
use super::list::{self, list, page_request, query};
use super::shapes::{Grant, List};
use crate::http::problem::Problem;
use crate::state::AppState;

impl PathId for GrantId {
    const FIELD: Option<&'static str> = Some("grant");

    fn parse(text: &str) -> Result<GrantId, Problem> {
        text.parse().map_err(|_| Problem::not_found("There is no such grant."))
    }
}

#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct GrantBody {
    amount: PositiveAmount,
    #[schema(value_type = super::schema::PoolName)]
    pool: Word<Pool>,
    #[serde(default)]
    expires_at: ExpiresAt,
    /// Where it comes from.
    #[serde(default)]
    source: Option<Name>,
    #[serde(default)]
    reason: Option<Reason>,
    #[serde(default)]
    metadata: Option<Metadata>,
}

impl Verb for GrantBody {
    type Of = ();
    const RIGHT: Right = Right::MoveGrants;
    const ANSWER: Kind = Kind::Grant;

    fn draft(self, (): (), now: DateTime<Utc>) -> Result<Draft, Problem> {
        let mut draft = Draft::new(LedgerVerb::Grant {
            id: GrantId::new(now),
            amount: self.amount.0,
            pool: self.pool.0,
            expires: self.expires_at.0,
            source: text(self.source),
        })
        .because(text(self.reason));
        draft.words.metadata = metadata(self.metadata);
        Ok(draft)
    }
}

#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct VoidBody {
    reason: Reason,
}

impl Verb for VoidBody {
    type Of = GrantId;
    const RIGHT: Right = Right::MoveGrants;
    const ANSWER: Kind = Kind::GrantChange;

    fn draft(self, grant: GrantId, _now: DateTime<Utc>) -> Result<Draft, Problem> {
        Ok(Draft::new(LedgerVerb::Void { grant }).because(Some(self.reason.0)))
    }
}

#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ExtendBody {
    expires_at: Time,
    reason: Reason,
}

impl Verb for ExtendBody {
    type Of = GrantId;
    const RIGHT: Right = Right::MoveGrants;
    const ANSWER: Kind = Kind::GrantChange;

    fn draft(self, grant: GrantId, _now: DateTime<Utc>) -> Result<Draft, Problem> {
        let Time(expires_at) = self.expires_at;
        Ok(Draft::new(LedgerVerb::Extend { grant, expires_at }).because(Some(self.reason.0)))
    }
}

#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct ClawbackBody {
    amount: PositiveAmount,
    reason: Reason,
    /// The payment's id at its provider.
    #[serde(default)]
    payment_ref: Option<Name>,
}

impl Verb for ClawbackBody {
    type Of = GrantId;
    const RIGHT: Right = Right::MoveGrants;
    const ANSWER: Kind = Kind::Entries;

    fn draft(self, grant: GrantId, _now: DateTime<Utc>) -> Result<Draft, Problem> {
        let verb = LedgerVerb::Clawback { grant, amount: self.amount.0, payment_ref: text(self.payment_ref) };
        Ok(Draft::new(verb).because(Some(self.reason.0)))
    }
}

#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RestoreBody {
    amount: PositiveAmount,
    reason: Reason,
    /// The payment's id at its provider.
    #[serde(default)]
    payment_ref: Option<Name>,
}

impl Verb for RestoreBody {
    type Of = GrantId;
    const RIGHT: Right = Right::MoveGrants;
    const ANSWER: Kind = Kind::Entries;

    fn draft(self, grant: GrantId, _now: DateTime<Utc>) -> Result<Draft, Problem> {
        let verb = LedgerVerb::Restore { grant, amount: self.amount.0, payment_ref: text(self.payment_ref) };
        Ok(Draft::new(verb).because(Some(self.reason.0)))
    }
}

/// Puts credits in.
#[utoipa::path(
    post, path = "/v1/accounts/{account}/grants", tag = "grants", request_body = GrantBody,
    params(("account" = String, Path)),
    responses((status = 201, description = "Put in.", body = GrantAnswer))
)]
pub async fn create(
    State(state): State<AppState>,
    Path(account): Path<String>,
    write: Write,
) -> Result<Response<Body>, Problem> {
    write.post::<GrantBody>(&state, &account, "").await
}

/// Ends a grant early: what is left of it, no more. A second void answers with the first.
#[utoipa::path(
    post, path = "/v1/accounts/{account}/grants/{grant}/void", tag = "grants", request_body = VoidBody,
    params(("account" = String, Path), ("grant" = uuid::Uuid, Path)),
    responses((status = 200, description = "Ended.", body = GrantAnswer))
)]
pub async fn void(
    State(state): State<AppState>,
    Path((account, grant)): Path<(String, String)>,
    write: Write,
) -> Result<Response<Body>, Problem> {
    write.post::<VoidBody>(&state, &account, &grant).await
}

/// Moves a live grant's end.
#[utoipa::path(
    post, path = "/v1/accounts/{account}/grants/{grant}/extend", tag = "grants", request_body = ExtendBody,
    params(("account" = String, Path), ("grant" = uuid::Uuid, Path)),
    responses((status = 200, description = "Extended.", body = GrantAnswer))
)]
pub async fn extend(
    State(state): State<AppState>,
    Path((account, grant)): Path<(String, String)>,
    write: Write,
) -> Result<Response<Body>, Problem> {
    write.post::<ExtendBody>(&state, &account, &grant).await
}

/// Takes back what a payment brought in, because the money went back.
///
/// It is never refused for want of credits: what is missing becomes debt. For payment providers other than Stripe.
#[utoipa::path(
    post, path = "/v1/accounts/{account}/grants/{grant}/clawbacks", tag = "grants", request_body = ClawbackBody,
    params(("account" = String, Path), ("grant" = uuid::Uuid, Path)),
    responses((status = 201, description = "Taken back.", body = EntriesAnswer))
)]
pub async fn claw_back(
    State(state): State<AppState>,
    Path((account, grant)): Path<(String, String)>,
    write: Write,
) -> Result<Response<Body>, Problem> {
    write.post::<ClawbackBody>(&state, &account, &grant).await
}

/// Undoes clawbacks of a grant, newest first, because the money came again.
#[utoipa::path(
    post, path = "/v1/accounts/{account}/grants/{grant}/restores", tag = "grants", request_body = RestoreBody,
    params(("account" = String, Path), ("grant" = uuid::Uuid, Path)),
    responses((status = 201, description = "Restored.", body = EntriesAnswer))
)]
pub async fn restore(
    State(state): State<AppState>,
    Path((account, grant)): Path<(String, String)>,
    write: Write,
) -> Result<Response<Body>, Problem> {
    write.post::<RestoreBody>(&state, &account, &grant).await
}

#[derive(Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields, default)]
#[into_params(parameter_in = Query)]
pub struct GrantsQuery {
    /// `true`: only grants that live; `false`: only grants that have ended.
    #[param(value_type = Option<bool>)]
    live: Option<String>,
    /// 1 to 200; 50 if absent.
    #[param(value_type = Option<u32>, minimum = 1, maximum = 200)]
    limit: Option<String>,
    cursor: Option<String>,
}

/// An account's grants, newest first.
#[utoipa::path(
    get, path = "/v1/accounts/{account}/grants", tag = "grants",
    params(("account" = String, Path), GrantsQuery),
    responses((status = 200, description = "A page.", body = inline(List<Grant>)))
)]
pub async fn index(
    State(state): State<AppState>,
    Path(account): Path<String>,
    caller: Caller,
    uri: Uri,
) -> Result<Response<Body>, Problem> {
    let account = caller.reads(&state, &account).await?.account();
    let Query(GrantsQuery { live, limit, cursor }) = query(&uri)?;
    let live = list::flag(live.as_deref(), "live")?;
    let page = state.ledger.grants(account, live, &page_request(limit.as_deref(), cursor)?).await?;
    list::must_exist(&state, account, page.rows.is_empty()).await?;
    list(&page, Grant::of)
}
