//! Accounts: opened, read, searched; and their balance.

use std::borrow::Cow;

use axum::body::Body;
use axum::extract::{Path, Query, State};
use axum::http::{Response, StatusCode, Uri};
use chrono_tz::Tz;
use ledger::command::Verb as LedgerVerb;
use ledger::entry::Words;
use ledger::ids::AccountId;
use ledger::service::Posted;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use utoipa::{IntoParams, ToSchema};

use super::answer::{json, ok, put};
use super::caller::{Caller, Write};
use super::draft::Draft;
use super::input::{self, Metadata, Name, Text, metadata, text};
use super::list::{self, list, page_request, query};
use super::shapes::{Account, Balance, EntryShape, List};
use crate::http::problem::{Problem, internal};
use crate::state::AppState;

const POLICY: &str = "default";
const TIME_ZONE: &str = "UTC";

#[derive(Clone, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct AccountBody {
    /// The operator's own customer id; unique.
    external_ref: Name,
    #[serde(default)]
    name: Option<Text<200>>,
    #[serde(default)]
    email: Option<Text<254>>,
    /// A policy's name; `default` if absent.
    #[serde(default)]
    policy: Option<Text<64>>,
    /// Such as `Europe/Berlin`; `UTC` if absent.
    #[serde(default)]
    time_zone: Option<Text<64>>,
    #[serde(default)]
    metadata: Option<Metadata>,
}

/// An account as opened, with its entry 1.
#[derive(Serialize, ToSchema)]
pub struct OpenedAccount<'a> {
    #[serde(flatten)]
    pub account: Account<'a>,
    pub entry: EntryShape<'a>,
}

/// Opens an account.
///
/// The same key answers as before; the same `external_ref` with another key is a conflict that names the account.
#[utoipa::path(
    post, path = "/v1/accounts", tag = "accounts", request_body = AccountBody,
    responses((status = 201, description = "Opened.", body = OpenedAccount))
)]
pub async fn create(State(state): State<AppState>, write: Write) -> Result<Response<Body>, Problem> {
    let may = write.caller.key.may_open()?;
    let key = write.idempotency_key()?;
    let body: AccountBody = input::parse(&write.body)?;
    let policy_name = body.policy.as_ref().map_or(POLICY, |Text(name)| name);
    let policy = state
        .ledger
        .policy(policy_name)
        .await?
        .ok_or_else(|| Problem::field("/policy", "there is no policy of this name"))?;
    let time_zone = body.time_zone.as_ref().map_or(TIME_ZONE, |Text(name)| name);
    time_zone
        .parse::<Tz>()
        .map_err(|_| Problem::field("/time_zone", "is not a time zone such as Europe/Berlin"))?;
    let verb = LedgerVerb::Open {
        external_ref: body.external_ref.0.clone(),
        name: text(body.name.clone()),
        email: text(body.email.clone()),
        policy,
        time_zone: time_zone.to_owned(),
    };
    let mut draft = Draft::new(verb);
    draft.words = Words { reason: None, metadata: metadata(body.metadata.clone()) };
    let command = draft.opening(may, AccountId::new(write.caller.now), key);
    let posted = state.ledger.submit(command).await?;
    if posted.replayed {
        state.metrics.count_replay();
    }
    let mut out = Vec::new();
    put(&opened(&posted, &body)?, &mut out)?;
    Ok(json(StatusCode::CREATED, posted.replayed, out))
}

/// A replay has the same content as the first request, so the body says what the first answer said.
fn opened<'a>(posted: &'a Posted, body: &'a AccountBody) -> Result<OpenedAccount<'a>, Problem> {
    let main = posted.set.main().ok_or_else(internal)?;
    let empty = || Cow::Owned(Map::<String, Value>::new());
    let answer = &main.answer;
    let account = Account {
        id: main.account,
        external_ref: Some(&body.external_ref.0),
        name: body.name.as_ref().map(|Text(name)| name.as_str()),
        email: body.email.as_ref().map(|Text(email)| email.as_str()),
        state: answer.status.unwrap_or_default().as_str(),
        policy: answer.policy.as_deref().unwrap_or(POLICY),
        time_zone: answer.time_zone.as_deref().unwrap_or(TIME_ZONE),
        metadata: body.metadata.as_ref().map_or_else(empty, |Metadata(object)| Cow::Borrowed(object)),
        created_at: main.recorded_at,
        balance: Balance::after(main),
    };
    Ok(OpenedAccount { account, entry: EntryShape::of(main) })
}

/// One account.
#[utoipa::path(
    get, path = "/v1/accounts/{account}", tag = "accounts",
    params(("account" = String, Path)),
    responses((status = 200, description = "The account.", body = Account))
)]
pub async fn show(
    State(state): State<AppState>,
    Path(account): Path<String>,
    caller: Caller,
    uri: Uri,
) -> Result<Response<Body>, Problem> {
    let account = caller.reads(&state, &account).await?.account();
    query::<NoQuery>(&uri)?;
    let view = state.ledger.account(account).await?;
    ok(&Account::of(&view.ok_or_else(|| Problem::not_found("There is no such account."))?))
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct NoQuery {}

#[derive(Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields, default)]
#[into_params(parameter_in = Query)]
pub struct AccountsQuery {
    /// How reference, name or e-mail address begin, or an id.
    #[param(max_length = 255)]
    q: Option<String>,
    /// 1 to 200; 50 if absent.
    #[param(value_type = Option<u32>, minimum = 1, maximum = 200)]
    limit: Option<String>,
    cursor: Option<String>,
}

/// Searches accounts.
#[utoipa::path(
    get, path = "/v1/accounts", tag = "accounts", params(AccountsQuery),
    responses((status = 200, description = "A page.", body = inline(List<Account>)))
)]
pub async fn index(
    State(state): State<AppState>,
    caller: Caller,
    uri: Uri,
) -> Result<Response<Body>, Problem> {
    caller.key.may_list()?;
    let Query(AccountsQuery { q, limit, cursor }) = query(&uri)?;
    // An empty search is no search.
    let q = list::name(q.filter(|q| !q.is_empty()), "q")?.unwrap_or_default();
    let page = state.ledger.accounts(&q, &page_request(limit.as_deref(), cursor)?).await?;
    list(&page, Account::of)
}

#[derive(Default, Deserialize, IntoParams)]
#[serde(deny_unknown_fields, default)]
#[into_params(parameter_in = Query)]
pub struct BalanceQuery {
    /// An instant in the past; now if absent.
    #[param(value_type = Option<chrono::DateTime<chrono::Utc>>)]
    at: Option<String>,
}

/// What an account can spend, has set aside and owes, now or at an earlier instant.
#[utoipa::path(
    get, path = "/v1/accounts/{account}/balance", tag = "accounts",
    params(("account" = String, Path), BalanceQuery),
    responses((status = 200, description = "The balance.", body = Balance))
)]
pub async fn balance(
    State(state): State<AppState>,
    Path(account): Path<String>,
    caller: Caller,
    uri: Uri,
) -> Result<Response<Body>, Problem> {
    let account = caller.reads(&state, &account).await?.account();
    let Query(BalanceQuery { at }) = query(&uri)?;
    let at = list::time(at.as_deref(), "at")?;
    if let Some(at) = at
        && at > state.ledger.now().await?
    {
        return Err(Problem::field("at", "is in the future"));
    }
    let view = state.ledger.balance(account, at).await?;
    ok(&Balance::with_expiries(&view.ok_or_else(|| Problem::not_found("There is no such account."))?))
}
