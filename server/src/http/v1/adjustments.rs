//! Corrections by hand. The operator is the API key's owner, with that role's limits.

use axum::body::Body;
use axum::extract::{Path, State};
use axum::http::Response;
use backoffice::access::Role;
use backoffice::access::rights::Right;
use backoffice::access::{Adjusting, Reservation};
use chrono::{DateTime, Utc};
use ledger::command::{KeyName, ReasonCode, Verb as LedgerVerb};
use ledger::grant::Pool;
use ledger::ids::{AccountId, GrantId};
use ledger::service::{PostError, Posted};
use serde::Deserialize;
use utoipa::ToSchema;

use super::answer::{AdjustmentAnswer, Kind, response};
use super::caller::{Caller, Write, resolve};
use super::draft::Draft;
use super::input::{self, ExpiresAt, Reason, SignedAmount, Word};
use super::schema::{PoolName, ReasonCodeName};
use crate::http::problem::{Name, Problem};
use crate::state::AppState;

#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct AdjustmentBody {
    /// Above 0 puts credits in, below takes them out.
    amount: SignedAmount,
    #[schema(value_type = ReasonCodeName)]
    reason_code: Word<ReasonCode>,
    reason: Reason,
    /// Of the grant that a plus makes: `promo` if absent.
    #[serde(default)]
    #[schema(value_type = Option<PoolName>)]
    pool: Option<Word<Pool>>,
    #[serde(default)]
    expires_at: ExpiresAt,
}

impl AdjustmentBody {
    fn draft(self, now: DateTime<Utc>) -> Draft {
        let verb = LedgerVerb::Adjust {
            id: GrantId::new(now),
            amount: self.amount.0,
            code: self.reason_code.0,
            pool: self.pool.map(|Word(pool)| pool),
            expires: self.expires_at.0,
        };
        Draft::new(verb).because(Some(self.reason.0))
    }
}

/// Corrects a balance by hand.
#[utoipa::path(
    post, path = "/v1/accounts/{account}/adjustments", tag = "adjustments", request_body = AdjustmentBody,
    params(("account" = String, Path)),
    responses((status = 201, description = "Corrected.", body = AdjustmentAnswer))
)]
pub async fn create(
    State(state): State<AppState>,
    Path(account): Path<String>,
    write: Write,
) -> Result<Response<Body>, Problem> {
    write.caller.key.has(Right::Adjust)?;
    let key = write.idempotency_key()?;
    let account = resolve(&state, &account).await?;
    let body: AdjustmentBody = input::parse(&write.body)?;
    let posted = adjust(&state, &write.caller, account, key, body).await?;
    response(Kind::Adjustment, &posted, None)
}

/// Reserves a part of the day's sum, posts, and gives it back if the ledger refuses. Only finance may make paid credits by
/// hand, since those count in the reconciliation with payments.
pub async fn adjust(
    state: &AppState,
    caller: &Caller,
    account: AccountId,
    key: KeyName,
    body: AdjustmentBody,
) -> Result<Posted, Problem> {
    let may = caller.key.may_adjust(account)?;
    if may.role() == Role::Support && body.pool.as_ref().is_some_and(|Word(pool)| *pool == Pool::Paid) {
        return Err(Problem::new(Name::Forbidden, "Support may not make paid credits; finance may."));
    }
    let (_, key_digest) = key;
    let what = Adjusting { amount: body.amount.0, key_digest };
    // The day is the ledger's: what a correction counts towards is the day its entry stands on.
    let now = state.ledger.now().await?;
    let reservation = state.access.reserve_adjustment(&may, what, now).await?;
    let command = body.draft(caller.now).adjustment(may, key);
    match state.ledger.submit(command).await {
        // Also where this request was the second of two: the sum was taken for the one that posted.
        Ok(posted) => {
            if posted.replayed {
                state.metrics.count_replay();
            }
            Ok(posted)
        }
        Err(error @ PostError::Refused(_)) => {
            give_back(state, reservation).await?;
            Err(error.into())
        }
        // It, or its twin, may have been posted or be posted yet, so the sum stays taken for the key.
        Err(error) => Err(error.into()),
    }
}

/// Does nothing when an earlier request with the same key holds it.
async fn give_back(state: &AppState, reservation: Reservation) -> Result<(), Problem> {
    Ok(state.access.give_back_adjustment(reservation).await?)
}
