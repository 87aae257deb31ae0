//! Errors of the API: `application/problem+json`, one [`Name`] each, explained at `/problems/<name>`.
//!
//! A handler returns a [`Problem`]; it travels in the response's extensions until the outermost layer, which
//! knows the request id, writes it out. To add one: a variant with its row in [`Name::about`].

use std::borrow::Cow;

use axum::body::Body;
use axum::http::{HeaderValue, Response, StatusCode, header};
use axum::response::IntoResponse;
use backoffice::access::rights::Denied;
use backoffice::access::{AccessError, AdjustError, KeyError};
use chrono::{DateTime, Utc};
use ledger::quota::Subject;
use ledger::refusal::Refusal;
use ledger::service::{PageError, PostError, ReadError};
use serde::Serialize;
use serde_json::{Map, Value, json};
use utoipa::ToSchema;

/// What went wrong, as clients tell it apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Name {
    InvalidRequest,
    IdempotencyKeyMissing,
    Unauthenticated,
    Forbidden,
    InsufficientCredits,
    QuotaExceeded,
    AccountBlocked,
    AccountReadOnly,
    AccountClosed,
    NotFound,
    MethodNotAllowed,
    HoldEnded,
    RefundExceedsCharge,
    NotRefundable,
    ClawbackExceedsGrant,
    RestoreExceedsClawbacks,
    GrantEnded,
    JobRefunded,
    AlreadyExists,
    TooLarge,
    UnsupportedMediaType,
    IdempotencyKeyReused,
    Busy,
    Internal,
    Overloaded,
    DatabaseUnavailable,
    OutcomeUnknown,
}

/// A name's row: its word, its status, its title, and what its page says.
pub struct About {
    pub word: &'static str,
    pub status: u16,
    pub title: &'static str,
    pub explanation: &'static str,
}

const fn about(word: &'static str, status: u16, title: &'static str, explanation: &'static str) -> About {
    About { word, status, title, explanation }
}

impl Name {
    pub const ALL: [Name; 27] = [
        Name::InvalidRequest,
        Name::IdempotencyKeyMissing,
        Name::Unauthenticated,
        Name::Forbidden,
        Name::InsufficientCredits,
        Name::QuotaExceeded,
        Name::AccountBlocked,
        Name::AccountReadOnly,
        Name::AccountClosed,
        Name::NotFound,
        Name::MethodNotAllowed,
        Name::HoldEnded,
        Name::RefundExceedsCharge,
        Name::NotRefundable,
        Name::ClawbackExceedsGrant,
        Name::RestoreExceedsClawbacks,
        Name::GrantEnded,
        Name::JobRefunded,
        Name::AlreadyExists,
        Name::TooLarge,
        Name::UnsupportedMediaType,
        Name::IdempotencyKeyReused,
        Name::Busy,
        Name::Internal,
        Name::Overloaded,
        Name::DatabaseUnavailable,
        Name::OutcomeUnknown,
    ];

    pub fn about(self) -> About {
        match self {
            Name::InvalidRequest => about(
                "invalid_request",
                400,
                "The request is not well formed",
                "The body, the path or the query says something that is not taken: malformed JSON, an unknown or \
                 repeated field, a wrong type, an amount that is negative, too fine or too large, or 0 where 0 is not \
                 taken. `errors` names the fields. Nothing was posted; sending the same again gives the same answer.",
            ),
            Name::IdempotencyKeyMissing => about(
                "idempotency_key_missing",
                400,
                "The Idempotency-Key header is missing",
                "Every write carries an Idempotency-Key of 1 to 255 visible ASCII characters that the caller chooses, so \
                 that a retry can never post twice. Send the same key when you repeat a request, and a new one for a new \
                 request.",
            ),
            Name::Unauthenticated => about(
                "unauthenticated",
                401,
                "There is no valid API key",
                "Send `Authorization: Bearer <key>`. The key is missing, mistyped, expired or revoked, or its owner was \
                 disabled.",
            ),
            Name::Forbidden => about(
                "forbidden",
                403,
                "This is not allowed",
                "The API key lacks the scope, or its owner the role, for this request; or a correction is above the limit \
                 of the owner's role.",
            ),
            Name::InsufficientCredits => about(
                "insufficient_credits",
                402,
                "There are not enough credits",
                "`short_by` says how much is missing, `held_elsewhere` what running calls have set aside. With the breaker \
                 open the account is below zero, and new charges and holds wait until it is back at zero. Refusals are not \
                 remembered: the same key may succeed after a top-up.",
            ),
            Name::QuotaExceeded => about(
                "quota_exceeded",
                402,
                "A quota is used up",
                "The member or key named in the request has used what the account allows it for the day, the month or in \
                 all. `resets_at` says when the window ends.",
            ),
            Name::AccountBlocked => about(
                "account_blocked",
                403,
                "The account is blocked",
                "New charges and holds are refused. What ends, corrects or gives back goes on.",
            ),
            Name::AccountReadOnly => about(
                "account_read_only",
                403,
                "The account is read-only",
                "New charges and holds are refused. `debt` is there when open debt is the reason.",
            ),
            Name::AccountClosed => about(
                "account_closed",
                403,
                "The account is closed",
                "New charges and holds are refused for good.",
            ),
            Name::NotFound => about(
                "not_found",
                404,
                "There is nothing here",
                "The path leads nowhere, or to something that does not exist or that this caller may not see.",
            ),
            Name::MethodNotAllowed => about(
                "method_not_allowed",
                405,
                "This path does not take that method",
                "The Allow header lists the methods that it takes.",
            ),
            Name::HoldEnded => about(
                "hold_ended",
                409,
                "The hold has already ended",
                "A hold ends once: by settle, release, reversal or expiry, whichever comes first. `final_state` names it.",
            ),
            Name::RefundExceedsCharge => about(
                "refund_exceeds_charge",
                409,
                "More than can still be given back",
                "The amount is above the original less what was given back of it before. `refundable` is what is left.",
            ),
            Name::NotRefundable => about(
                "not_refundable",
                409,
                "This entry cannot be refunded",
                "Only charges and settles can be given back.",
            ),
            Name::ClawbackExceedsGrant => about(
                "clawback_exceeds_grant",
                409,
                "More than this grant can lose",
                "A clawback takes at most what the grant brought in, less earlier clawbacks.",
            ),
            Name::RestoreExceedsClawbacks => about(
                "restore_exceeds_clawbacks",
                409,
                "More than was clawed back",
                "A restore undoes clawbacks of the same grant and no more.",
            ),
            Name::GrantEnded => about(
                "grant_ended",
                409,
                "The grant has ended",
                "An ended grant is neither voided nor extended.",
            ),
            Name::JobRefunded => about(
                "job_refunded",
                409,
                "The job was refunded",
                "Its charge was given back, so no work on it should begin. Charge it anew under another job id.",
            ),
            Name::AlreadyExists => about(
                "already_exists",
                409,
                "There is an account with this reference",
                "`external_ref` is unique. `id` is the account that has it.",
            ),
            Name::TooLarge => {
                about("too_large", 413, "The body is too large", "Bodies have at most 64 KiB, a batch 8 MiB.")
            }
            Name::UnsupportedMediaType => about(
                "unsupported_media_type",
                415,
                "The body is not JSON",
                "Send `Content-Type: application/json`, in UTF-8.",
            ),
            Name::IdempotencyKeyReused => about(
                "idempotency_key_reused",
                422,
                "The idempotency key was used for something else",
                "The same key came with other content or for another verb on this account. Keys are kept as long as the \
                 journal. Choose a new key for a new request.",
            ),
            Name::Busy => about(
                "busy",
                429,
                "The account is busy",
                "Another transaction kept the account for more than 5 seconds. Nothing was posted. Try again with the same \
                 key.",
            ),
            Name::Internal => about(
                "internal",
                500,
                "Something went wrong here",
                "It is not caused by the request. It was logged under `request_id`.",
            ),
            Name::Overloaded => about(
                "overloaded",
                503,
                "Too many requests are waiting",
                "The queue is full. Nothing was posted. Try again later with the same key.",
            ),
            Name::DatabaseUnavailable => about(
                "database_unavailable",
                503,
                "The database is unavailable",
                "Nothing was posted. Try again later with the same key.",
            ),
            Name::OutcomeUnknown => about(
                "outcome_unknown",
                503,
                "It is not yet known whether this was posted",
                "The database went away while committing. Repeat the request with the same key: it posts once in all, and \
                 answers what happened.",
            ),
        }
    }

    pub fn word(self) -> &'static str {
        self.about().word
    }

    pub fn status(self) -> StatusCode {
        StatusCode::from_u16(self.about().status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
    }

    pub fn parse(word: &str) -> Option<Name> {
        Name::ALL.into_iter().find(|name| name.word() == word)
    }

    fn retry_after_s(self) -> Option<u32> {
        match self {
            Name::Busy | Name::Overloaded => Some(1),
            Name::DatabaseUnavailable | Name::OutcomeUnknown => Some(2),
            _ => None,
        }
    }
}

/// A field that is wrong: where it is, as a JSON pointer into the body or the name of a query parameter, and
/// why.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, ToSchema)]
pub struct FieldError {
    #[schema(examples("/amount"))]
    pub pointer: String,
    pub reason: String,
}

/// An error on its way out.
#[derive(Clone, Debug)]
pub struct Problem {
    pub name: Name,
    pub detail: Cow<'static, str>,
    pub errors: Vec<FieldError>,
    /// Members of this kind of problem.
    pub members: Map<String, Value>,
}

impl Problem {
    pub fn new(name: Name, detail: impl Into<Cow<'static, str>>) -> Problem {
        Problem { name, detail: detail.into(), errors: Vec::new(), members: Map::new() }
    }

    /// A wrong field.
    pub fn field(pointer: impl Into<String>, reason: impl Into<String>) -> Problem {
        let (pointer, reason) = (pointer.into(), reason.into());
        let detail = if pointer.is_empty() { reason.clone() } else { format!("{pointer}: {reason}") };
        let mut problem = Problem::new(Name::InvalidRequest, detail);
        problem.errors.push(FieldError { pointer, reason });
        problem
    }

    pub fn not_found(what: &'static str) -> Problem {
        Problem::new(Name::NotFound, what)
    }

    #[must_use]
    pub fn with(mut self, member: &str, value: impl Serialize) -> Problem {
        self.members.insert(member.to_owned(), serde_json::to_value(value).unwrap_or(Value::Null));
        self
    }

    /// The document.
    pub fn document(&self, request_id: &str) -> Value {
        let about = self.name.about();
        let mut document = json!({
            "type": format!("/problems/{}", about.word),
            "title": about.title,
            "status": about.status,
            "detail": self.detail,
            "request_id": request_id,
        });
        if let Value::Object(object) = &mut document {
            object.extend(self.members.clone());
            if !self.errors.is_empty() {
                object.insert("errors".to_owned(), json!(self.errors));
            }
        }
        document
    }

    /// Writes the problem into its response, once the request id is known.
    pub fn finish(&self, response: &mut Response<Body>, request_id: &str) {
        let body = self.document(request_id).to_string();
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
        headers.remove(header::CONTENT_LENGTH);
        if let Some(retry_after_s) = self.name.retry_after_s() {
            headers.insert(header::RETRY_AFTER, HeaderValue::from(retry_after_s));
        }
        if self.name == Name::Unauthenticated {
            headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        *response.body_mut() = Body::from(body);
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response<Body> {
        let mut response = Response::new(Body::empty());
        *response.status_mut() = self.name.status();
        response.extensions_mut().insert(self);
        response
    }
}

impl Problem {
    /// Stands for an error that the framework answered in its own words, before any handler of ours was asked.
    pub fn of_status(status: StatusCode) -> Problem {
        match status {
            StatusCode::NOT_FOUND => Problem::not_found("This path leads nowhere."),
            StatusCode::METHOD_NOT_ALLOWED => Problem::new(
                Name::MethodNotAllowed,
                "This path does not take that method; see the Allow header.",
            ),
            StatusCode::PAYLOAD_TOO_LARGE => Problem::new(Name::TooLarge, "The body is too large."),
            StatusCode::UNSUPPORTED_MEDIA_TYPE => {
                Problem::new(Name::UnsupportedMediaType, "The body must be application/json in UTF-8.")
            }
            status if status.is_client_error() => Problem::new(
                Name::InvalidRequest,
                "The path, the query or the body cannot be read; percent-encoded bytes must be UTF-8.",
            ),
            _ => internal(),
        }
    }
}

/// The shape of every error, for the API description.
#[derive(Serialize, ToSchema)]
#[schema(as = Problem)]
pub struct ProblemShape {
    /// `/problems/<name>`, a page that explains it.
    #[schema(examples("/problems/insufficient_credits"))]
    r#type: String,
    title: String,
    status: u16,
    detail: String,
    request_id: String,
    /// The fields that are wrong.
    #[schema(required = false)]
    errors: Vec<FieldError>,
}

impl From<Denied> for Problem {
    fn from(denied: Denied) -> Problem {
        match denied {
            Denied::Forbidden => Problem::new(Name::Forbidden, denied.to_string()),
            Denied::Hidden => Problem::not_found("There is no such account."),
        }
    }
}

impl From<AccessError> for Problem {
    fn from(error: AccessError) -> Problem {
        match error {
            AccessError::DatabaseUnavailable => unavailable(),
            AccessError::Internal => internal(),
        }
    }
}

impl From<KeyError> for Problem {
    fn from(error: KeyError) -> Problem {
        match error {
            KeyError::Bad => Problem::new(Name::Unauthenticated, "The API key is not valid."),
            KeyError::Unavailable(error) => error.into(),
        }
    }
}

impl From<AdjustError> for Problem {
    fn from(error: AdjustError) -> Problem {
        match error {
            AdjustError::AboveLimit { limit } | AdjustError::NeedsSecondPerson { limit } => {
                Problem::new(Name::Forbidden, error.to_string()).with("limit", limit)
            }
            AdjustError::DailySum { limit, used } => {
                Problem::new(Name::Forbidden, error.to_string()).with("limit", limit).with("used", used)
            }
            AdjustError::Unavailable(error) => error.into(),
        }
    }
}

impl From<ReadError> for Problem {
    fn from(error: ReadError) -> Problem {
        match error {
            ReadError::DatabaseUnavailable => unavailable(),
            ReadError::Internal => internal(),
        }
    }
}

impl From<PageError> for Problem {
    fn from(error: PageError) -> Problem {
        match error {
            PageError::BadCursor(_) => Problem::field("cursor", "is not one of this list"),
            PageError::Read(error) => error.into(),
        }
    }
}

impl From<PostError> for Problem {
    fn from(error: PostError) -> Problem {
        match error {
            PostError::Refused(refusal) => refusal.into(),
            PostError::Busy => Problem::new(Name::Busy, "Another transaction kept the account for too long."),
            PostError::Overloaded => Problem::new(Name::Overloaded, "Too many commands are waiting."),
            PostError::DatabaseUnavailable => unavailable(),
            PostError::OutcomeUnknown => Problem::new(
                Name::OutcomeUnknown,
                "The database went away while committing. The same key tells what happened.",
            ),
            PostError::Internal => internal(),
        }
    }
}

impl From<Refusal> for Problem {
    fn from(refusal: Refusal) -> Problem {
        let detail = refusal.to_string();
        let plain = |name: Name| Problem::new(name, detail.clone());
        match refusal {
            Refusal::InsufficientCredits { short_by, available, held_elsewhere, breaker_open } => {
                plain(Name::InsufficientCredits)
                    .with("short_by", short_by)
                    .with("available", available)
                    .with("held_elsewhere", held_elsewhere)
                    .with("breaker", breaker_word(breaker_open))
            }
            Refusal::QuotaExceeded { subject, window, limit, used, resets_at } => {
                quota_exceeded(&subject, resets_at)
                    .with("window", window)
                    .with("limit", limit)
                    .with("used", used)
            }
            Refusal::AccountBlocked => plain(Name::AccountBlocked),
            Refusal::AccountReadOnly { debt: Some(debt) } => plain(Name::AccountReadOnly).with("debt", debt),
            Refusal::AccountReadOnly { debt: None } => plain(Name::AccountReadOnly),
            Refusal::AccountClosed => plain(Name::AccountClosed),
            Refusal::NotFound { .. } => plain(Name::NotFound),
            Refusal::HoldEnded { final_state, entry } => {
                plain(Name::HoldEnded).with("final_state", final_state.as_str()).with("entry", entry)
            }
            Refusal::RefundExceedsCharge { refundable } => {
                plain(Name::RefundExceedsCharge).with("refundable", refundable)
            }
            Refusal::NotRefundable => plain(Name::NotRefundable),
            Refusal::ClawbackExceedsGrant { clawable } => {
                plain(Name::ClawbackExceedsGrant).with("clawable", clawable)
            }
            Refusal::RestoreExceedsClawbacks { restorable } => {
                plain(Name::RestoreExceedsClawbacks).with("restorable", restorable)
            }
            Refusal::GrantEnded => plain(Name::GrantEnded),
            Refusal::JobRefunded => plain(Name::JobRefunded),
            Refusal::AlreadyExists { account } => plain(Name::AlreadyExists).with("id", account),
            Refusal::KeyReused => plain(Name::IdempotencyKeyReused),
            Refusal::LimitExceeded { .. } => plain(Name::InvalidRequest),
            Refusal::Invalid { field, reason } => Problem::field(format!("/{field}"), reason),
        }
    }
}

fn quota_exceeded(subject: &Subject, resets_at: Option<DateTime<Utc>>) -> Problem {
    let problem = Problem::new(Name::QuotaExceeded, "The quota is used up.").with("resets_at", resets_at);
    match subject {
        Subject::Member(member) => problem.with("member", member),
        Subject::KeyRef(key_ref) => problem.with("key_ref", key_ref),
    }
}

/// How the API names the breaker's state.
pub fn breaker_word(open: bool) -> &'static str {
    if open { "open" } else { "closed" }
}

fn unavailable() -> Problem {
    Problem::new(Name::DatabaseUnavailable, "The database cannot be reached. Nothing was posted.")
}

pub fn internal() -> Problem {
    Problem::new(Name::Internal, "It was logged under the request id.")
}
