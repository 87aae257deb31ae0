//! The answer to a write, rebuilt from its entry set alone, so that a replay says what the first answer said.
//!
//! Routes and batches share it: one [`Kind`] for each answer that `api.md` names.

use axum::body::Body;
use axum::http::{HeaderName, HeaderValue, Response, StatusCode, header};
use ledger::Credits;
use ledger::entry::Answer;
use ledger::service::Posted;
use serde::Serialize;
use utoipa::ToSchema;

use super::placed::Placed;
use super::schema::CreditsText;
use super::shapes::{Balance, Drawn, EntryShape, Grant, Hold, ReturnedShape, from_main};
use crate::http::problem::{Problem, internal};

const REPLAYED: HeaderName = HeaderName::from_static("idempotency-replayed");
const JSON: HeaderValue = HeaderValue::from_static("application/json");
/// A charge's answer with two lines fits.
const USUAL_BYTES: usize = 1_536;

/// Which answer a verb gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Charge,
    Hold,
    HoldChange,
    Settle,
    Refund,
    Grant,
    GrantChange,
    Entries,
    Adjustment,
    Job,
}

impl Kind {
    pub fn status(self) -> StatusCode {
        match self {
            Kind::Charge | Kind::Hold | Kind::Refund | Kind::Grant | Kind::Entries | Kind::Adjustment => {
                StatusCode::CREATED
            }
            Kind::HoldChange | Kind::Settle | Kind::GrantChange | Kind::Job => StatusCode::OK,
        }
    }
}

#[derive(Serialize, ToSchema)]
pub struct ChargeAnswer<'a> {
    pub entry: EntryShape<'a>,
    pub drawn: Vec<Drawn>,
    pub balance: Balance,
    /// Only when the job had been paid by a hold.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hold: Option<Hold<'a>>,
}

#[derive(Serialize, ToSchema)]
pub struct HoldAnswer<'a> {
    /// Null only when the job had been paid by a charge.
    pub hold: Option<Hold<'a>>,
    pub entry: EntryShape<'a>,
    pub balance: Balance,
}

#[derive(Serialize, ToSchema)]
pub struct HoldChangeAnswer<'a> {
    pub hold: Option<Hold<'a>>,
    pub entry: EntryShape<'a>,
    pub balance: Balance,
}

#[derive(Serialize, ToSchema)]
pub struct SettleAnswer<'a> {
    pub hold: Option<Hold<'a>>,
    /// The SETTLE and what follows from it.
    pub entries: Vec<EntryShape<'a>>,
    /// Collected in all.
    #[schema(value_type = CreditsText)]
    pub settled: Credits,
    /// Given back out of the hold.
    #[schema(value_type = CreditsText)]
    pub released: Credits,
    /// Collected above the hold.
    #[schema(value_type = CreditsText)]
    pub overrun: Credits,
    /// The hold had ended before.
    pub late: bool,
    pub balance: Balance,
}

#[derive(Serialize, ToSchema)]
pub struct RefundAnswer<'a> {
    pub entry: EntryShape<'a>,
    pub returned: Vec<ReturnedShape>,
    /// What may still be given back of the original.
    #[schema(value_type = CreditsText)]
    pub refundable: Credits,
    pub balance: Balance,
}

#[derive(Serialize, ToSchema)]
pub struct GrantAnswer<'a> {
    pub grant: Option<Grant<'a>>,
    pub entry: EntryShape<'a>,
    pub balance: Balance,
}

#[derive(Serialize, ToSchema)]
pub struct EntriesAnswer<'a> {
    pub entries: Vec<EntryShape<'a>>,
    pub balance: Balance,
}

#[derive(Serialize, ToSchema)]
pub struct AdjustmentAnswer<'a> {
    pub entry: EntryShape<'a>,
    /// The grant that a plus made.
    pub grant: Option<Grant<'a>>,
    pub balance: Balance,
}

#[derive(Serialize, ToSchema)]
pub struct JobAnswer<'a> {
    pub entry: EntryShape<'a>,
}

/// The whole response.
pub fn response(kind: Kind, posted: &Posted, placed: Option<Placed>) -> Result<Response<Body>, Problem> {
    let mut body = Vec::with_capacity(USUAL_BYTES);
    write(kind, posted, placed, &mut body)?;
    Ok(json(kind.status(), posted.replayed, body))
}

pub fn json(status: StatusCode, replayed: bool, body: Vec<u8>) -> Response<Body> {
    let mut response = Response::new(Body::from(body));
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, JSON);
    if replayed {
        response.headers_mut().insert(REPLAYED, HeaderValue::from_static("true"));
    }
    response
}

/// A body that is no answer to a write.
pub fn ok(body: &impl Serialize) -> Result<Response<Body>, Problem> {
    let mut text = Vec::with_capacity(USUAL_BYTES);
    put(body, &mut text)?;
    Ok(json(StatusCode::OK, false, text))
}

pub fn put(body: &impl Serialize, out: &mut Vec<u8>) -> Result<(), Problem> {
    serde_json::to_writer(out, body).map_err(|error| {
        tracing::error!(error.message = %error, "an answer could not be written as JSON");
        internal()
    })
}

/// Writes the body of the answer. `placed` is of the hold that it shows, where the main entry has not placed it.
pub fn write(kind: Kind, posted: &Posted, placed: Option<Placed>, out: &mut Vec<u8>) -> Result<(), Problem> {
    let (Some(main), Some(last)) = (posted.set.main(), posted.set.last()) else {
        tracing::error!("an accepted command has an entry set without a main entry");
        return Err(internal());
    };
    let entry = EntryShape::of(main);
    let balance = Balance::after(last);
    let Answer { grant, hold, settled, released, overrun, late, refundable, returned, .. } = &main.answer;
    let placed = hold.as_ref().map(|_| placed.unwrap_or_else(|| Placed::of(main)));
    let hold = hold.as_ref().zip(placed.as_ref()).map(|(hold, placed)| Hold::of(hold, placed));
    let grant = grant.as_ref().map(Grant::of);
    let or_zero = |amount: &Option<Credits>| amount.unwrap_or(Credits::ZERO);
    match kind {
        Kind::Charge => put(&ChargeAnswer { drawn: Drawn::of(main), entry, balance, hold }, out),
        Kind::Hold => put(&HoldAnswer { hold, entry, balance }, out),
        Kind::HoldChange => put(&HoldChangeAnswer { hold, entry, balance }, out),
        Kind::Settle => {
            let (settled, released, overrun) = (or_zero(settled), or_zero(released), or_zero(overrun));
            put(
                &SettleAnswer {
                    hold,
                    entries: from_main(&posted.set),
                    settled,
                    released,
                    overrun,
                    late: *late,
                    balance,
                },
                out,
            )
        }
        Kind::Refund => {
            let returned = returned.iter().map(ReturnedShape::from).collect();
            put(&RefundAnswer { entry, returned, refundable: or_zero(refundable), balance }, out)
        }
        Kind::Grant | Kind::GrantChange => put(&GrantAnswer { grant, entry, balance }, out),
        Kind::Entries => put(&EntriesAnswer { entries: from_main(&posted.set), balance }, out),
        Kind::Adjustment => put(&AdjustmentAnswer { entry, grant, balance }, out),
        Kind::Job => put(&JobAnswer { entry }, out),
    }
}
