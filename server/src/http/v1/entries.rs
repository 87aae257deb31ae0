//! Entries: the journal of an account, and what is given back of it.

use axum::body::Body;
use axum::extract::{Path, Query, State};
use axum::http::{Response, Uri};
use backoffice::access::rights::Right;
use chrono::{DateTime, Utc};
use ledger::command::Verb as LedgerVerb;
use ledger::entry::Kind as EntryKind;
use ledger::ids::Seq;
use ledger::service::EntryQuery;
use serde::Deserialize;
use utoipa::{IntoParams, ToSchema};

use super::answer::{Kind, RefundAnswer, ok};
use super::caller::{Caller, PathId, Verb, Write, Written};
use super::draft::Draft;
use super::input::{PositiveAmount, Reason};
use super::list::{self, list, page_request, query};
use super::shapes::{EntryShape, List};
use crate::http::problem::Problem;
use crate::state::AppState;

impl PathId for Seq {
    const FIELD: Option<&'static str> = Some("seq");
    const WRITTEN: Written = Written::Number;

    fn parse(text: &str) -> Result<Seq, Problem> {
        let seq = text.parse::<i64>().ok().filter(|seq| *seq > 0);
        seq.map(Seq).ok_or_else(|| Problem::not_found("There is no such entry."))
    }
}

#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct RefundBody {
    /// Absent: what is left of the original.
    #[serde(default)]
    amount: Option<PositiveAmount>,
    reason: Reason,
}

impl Verb for RefundBody {
    type Of = Seq;
    const RIGHT: Right = Right::Refund;
    const ANSWER: Kind = Kind::Refund;

    fn draft(self, seq: Seq, _now: DateTime<Utc>) -> Result<Draft, Problem> {
        let amount = self.amount.map(|PositiveAmount(amount)| amount);
        Ok(Draft::new(LedgerVerb::Refund { seq, amount }).because(Some(self.reason.0)))
    }
}

/// Gives usage back, to the grants that paid it.
#[utoipa::path(
    post, path = "/v1/accounts/{account}/entries/{seq}/refunds", tag = "entries", request_body = RefundBody,
    params(("account" = String, Path), ("seq" = i64, Path)),
    responses((status = 201, description = "Given back.", body = RefundAnswer))
)]
pub async fn refund(
    State(state): State<AppState>,
    Path((account, seq)): Path<(String, String)>,
    write: Write,
) -> Result<Response<Body>, Problem> {
    write.post::<RefundBody>(&state, &account, &seq).await
}

#[derive(Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields, default)]
#[into_params(parameter_in = Query)]
pub struct EntriesQuery {
    /// One or more kinds with commas between them, such as `CONSUME,SETTLE`.
    #[param(pattern = "^[A-Z_]+(,[A-Z_]+)*$")]
    kind: Option<String>,
    /// From this `effective_at` on.
    #[param(value_type = Option<DateTime<Utc>>)]
    from: Option<String>,
    /// Before this `effective_at`.
    #[param(value_type = Option<DateTime<Utc>>)]
    to: Option<String>,
    #[param(value_type = Option<DateTime<Utc>>)]
    occurred_from: Option<String>,
    #[param(value_type = Option<DateTime<Utc>>)]
    occurred_to: Option<String>,
    #[param(min_length = 1, max_length = 255)]
    member: Option<String>,
    #[param(min_length = 1, max_length = 255)]
    model: Option<String>,
    #[param(min_length = 1, max_length = 255)]
    key_ref: Option<String>,
    #[param(min_length = 1, max_length = 255)]
    request_ref: Option<String>,
    /// The least absolute `amount`, or `moved` where that is 0.
    #[param(value_type = Option<super::schema::CreditsText>)]
    min: Option<String>,
    #[param(value_type = Option<super::schema::CreditsText>)]
    max: Option<String>,
    /// 1 to 200; 50 if absent.
    #[param(value_type = Option<u32>, minimum = 1, maximum = 200)]
    limit: Option<String>,
    cursor: Option<String>,
}

impl EntriesQuery {
    fn filter(self) -> Result<EntryQuery, Problem> {
        let kinds = self.kind.iter().flat_map(|kinds| kinds.split(','));
        let kinds: Option<Vec<EntryKind>> = kinds.map(EntryKind::parse).collect();
        Ok(EntryQuery {
            kinds: kinds.ok_or_else(|| Problem::field("kind", "is not one of the kinds of entries"))?,
            from: list::time(self.from.as_deref(), "from")?,
            to: list::time(self.to.as_deref(), "to")?,
            occurred_from: list::time(self.occurred_from.as_deref(), "occurred_from")?,
            occurred_to: list::time(self.occurred_to.as_deref(), "occurred_to")?,
            member: list::name(self.member, "member")?,
            model: list::name(self.model, "model")?,
            key_ref: list::name(self.key_ref, "key_ref")?,
            request_ref: list::name(self.request_ref, "request_ref")?,
            min: list::amount(self.min.as_deref(), "min")?,
            max: list::amount(self.max.as_deref(), "max")?,
        })
    }
}

/// An account's entries, newest first.
#[utoipa::path(
    get, path = "/v1/accounts/{account}/entries", tag = "entries",
    params(("account" = String, Path), EntriesQuery),
    responses((status = 200, description = "A page.", body = inline(List<EntryShape>)))
)]
pub async fn index(
    State(state): State<AppState>,
    Path(account): Path<String>,
    caller: Caller,
    uri: Uri,
) -> Result<Response<Body>, Problem> {
    let account = caller.reads(&state, &account).await?.account();
    let Query(mut asked) = query::<EntriesQuery>(&uri)?;
    let request = page_request(asked.limit.as_deref(), asked.cursor.take())?;
    let page = state.ledger.entries(account, &asked.filter()?, &request).await?;
    list::must_exist(&state, account, page.rows.is_empty()).await?;
    list(&page, EntryShape::of)
}

/// One entry with its lines.
#[utoipa::path(
    get, path = "/v1/accounts/{account}/entries/{seq}", tag = "entries",
    params(("account" = String, Path), ("seq" = i64, Path)),
    responses((status = 200, description = "The entry.", body = EntryShape))
)]
pub async fn show(
    State(state): State<AppState>,
    Path((account, seq)): Path<(String, String)>,
    caller: Caller,
) -> Result<Response<Body>, Problem> {
    let account = caller.reads(&state, &account).await?.account();
    let entry = state.ledger.entry(account, Seq::parse(&seq)?).await?;
    ok(&EntryShape::of(&entry.ok_or_else(|| Problem::not_found("There is no such entry."))?))
}
