//! Verbs: what can be asked of an account. A command is parsed and complete; deciding needs nothing else.
//!
//! To add a verb: a variant of [`Verb`] with its canonical form in [`Command::content`], a file in
//! `decide/`, its facts in [`crate::decide::Needs`], and a test that names its exact lines.

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};

use crate::account::AccountStatus;
use crate::credits::Credits;
use crate::entry::Words;
use crate::grant::Pool;
use crate::ids::{AccountId, GrantId, HoldId, Seq};
use crate::policy::Policy;

/// Who caused an entry. `id` names nobody outside the operator's own records.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Actor {
    pub kind: ActorKind,
    pub id: String,
    /// The role a staff member acted in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub role: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ActorKind {
    ApiKey,
    User,
    Worker,
    Payment,
}

impl ActorKind {
    pub fn code(self) -> i16 {
        match self {
            ActorKind::ApiKey => 1,
            ActorKind::User => 2,
            ActorKind::Worker => 3,
            ActorKind::Payment => 4,
        }
    }

    pub fn from_code(code: i16) -> Option<ActorKind> {
        [ActorKind::ApiKey, ActorKind::User, ActorKind::Worker, ActorKind::Payment]
            .into_iter()
            .find(|kind| kind.code() == code)
    }
}

impl Actor {
    pub fn worker(name: &str) -> Actor {
        Actor { kind: ActorKind::Worker, id: name.to_owned(), role: None }
    }

    pub fn api_key(id: impl Into<String>) -> Actor {
        Actor { kind: ActorKind::ApiKey, id: id.into(), role: None }
    }
}

/// Where an idempotency key comes from; keys of different origins never meet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Origin {
    Api,
    Form,
    Payment,
    Worker,
}

impl Origin {
    pub fn code(self) -> i16 {
        match self {
            Origin::Api => 1,
            Origin::Form => 2,
            Origin::Payment => 3,
            Origin::Worker => 4,
        }
    }

    pub fn from_code(code: i16) -> Option<Origin> {
        [Origin::Api, Origin::Form, Origin::Payment, Origin::Worker]
            .into_iter()
            .find(|origin| origin.code() == code)
    }
}

/// A key's name within its account, and the digest of what it was used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct KeyStamp {
    pub origin: Origin,
    /// SHA-256 of the idempotency key; the key itself is not kept.
    pub key: [u8; 32],
    /// SHA-256 of the command in canonical form.
    pub content: [u8; 32],
}

/// A key's name without its content.
pub type KeyName = (Origin, [u8; 32]);

pub fn key_digest(key: &str) -> [u8; 32] {
    Sha256::digest(key.as_bytes()).into()
}

/// What a caller may say of the call behind a charge or hold. All are ids that name nobody.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct CallFields {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub member: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub job_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub request_ref: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub key_ref: Option<String>,
}

/// When a new grant ends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Expiry {
    /// By the account's policy for the pool.
    #[default]
    Policy,
    Never,
    At(DateTime<Utc>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReverseOutcome {
    Failed,
    /// The caller does not know whether the work was done; the hold is marked for review.
    Unknown,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReasonCode {
    Goodwill,
    Correction,
    Outage,
    WriteOff,
    Reconciliation,
    Other,
}

impl ReasonCode {
    pub const ALL: [ReasonCode; 6] = [
        ReasonCode::Goodwill,
        ReasonCode::Correction,
        ReasonCode::Outage,
        ReasonCode::WriteOff,
        ReasonCode::Reconciliation,
        ReasonCode::Other,
    ];

    pub fn as_str(self) -> &'static str {
        match self {
            ReasonCode::Goodwill => "goodwill",
            ReasonCode::Correction => "correction",
            ReasonCode::Outage => "outage",
            ReasonCode::WriteOff => "write_off",
            ReasonCode::Reconciliation => "reconciliation",
            ReasonCode::Other => "other",
        }
    }

    pub fn parse(text: &str) -> Option<ReasonCode> {
        ReasonCode::ALL.into_iter().find(|code| code.as_str() == text)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum JobMarker {
    Started,
    Completed,
    Failed,
}

/// What of a job an entry is; (account, job, kind) is unique (rule 11).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum JobKind {
    /// A charge, or a hold while open or settled.
    Charge,
    Started,
    Completed,
    Failed,
    /// The reconciler's refund.
    Refund,
}

impl From<JobMarker> for JobKind {
    fn from(marker: JobMarker) -> JobKind {
        match marker {
            JobMarker::Started => JobKind::Started,
            JobMarker::Completed => JobKind::Completed,
            JobMarker::Failed => JobKind::Failed,
        }
    }
}

#[derive(Clone, Debug, PartialEq)]
pub enum Verb {
    /// Entry 1 of a new account.
    Open {
        external_ref: String,
        name: Option<String>,
        email: Option<String>,
        policy: Policy,
        time_zone: String,
    },
    Grant {
        id: GrantId,
        amount: Credits,
        pool: Pool,
        expires: Expiry,
        source: Option<String>,
    },
    Charge {
        amount: Credits,
    },
    /// `expires_in_s` absent: the policy's default.
    Hold {
        id: HoldId,
        amount: Credits,
        expires_in_s: Option<u32>,
    },
    Renew {
        hold: HoldId,
        expires_in_s: u32,
    },
    Settle {
        hold: HoldId,
        amount: Credits,
    },
    Release {
        hold: HoldId,
    },
    Reverse {
        hold: HoldId,
        outcome: ReverseOutcome,
    },
    /// `amount` absent: what is left of the original.
    Refund {
        seq: Seq,
        amount: Option<Credits>,
    },
    /// Of a payment's grant, which is a paid one.
    Clawback {
        grant: GrantId,
        amount: Credits,
        payment_ref: Option<String>,
    },
    Restore {
        grant: GrantId,
        amount: Credits,
        payment_ref: Option<String>,
    },
    Void {
        grant: GrantId,
    },
    Extend {
        grant: GrantId,
        expires_at: DateTime<Utc>,
    },
    /// Signed. A plus makes a grant under `id`.
    Adjust {
        id: GrantId,
        amount: Credits,
        code: ReasonCode,
        pool: Option<Pool>,
        expires: Expiry,
    },
    Mark {
        marker: JobMarker,
    },
    /// The reconciler gives an orphaned job's charges back and reverses its open hold; where nothing is left to give back it
    /// notes that the job is refunded. The job is `call.job_id`.
    RefundJob,
    SetStatus {
        status: AccountStatus,
    },
    SetPolicy {
        policy: Policy,
    },
    /// Closes out what is left and leaves the account closed (P10). The store deletes the words.
    Erase,
    /// Writes what fell due, and nothing else. Never keyed.
    Lapse,
}

#[derive(Clone, Debug, PartialEq)]
pub struct Command {
    pub account: AccountId,
    /// `None` only for the sweep.
    pub key: Option<KeyName>,
    pub actor: Actor,
    pub verb: Verb,
    pub call: CallFields,
    pub occurred_at: Option<DateTime<Utc>>,
    pub words: Words,
    /// Kept 30 days beside the journal, and no part of the content.
    pub source_address: Option<String>,
}

impl Command {
    /// A command of the house's own work, without a key.
    pub fn house(account: AccountId, verb: Verb, worker: &str) -> Command {
        Command {
            account,
            key: None,
            actor: Actor::worker(worker),
            verb,
            call: CallFields::default(),
            occurred_at: None,
            words: Words::default(),
            source_address: None,
        }
    }

    /// The stamp that the main entry stores.
    pub fn stamp(&self) -> Option<KeyStamp> {
        let (origin, key) = self.key?;
        Some(KeyStamp { origin, key, content: self.content() })
    }

    /// SHA-256 of the parsed command in canonical form: verb, normalised amounts, sorted metadata. Ids made
    /// here for new grants and holds, the actor and the source address are no part of it.
    pub fn content(&self) -> [u8; 32] {
        // Keys in the order of the alphabet, at every level.
        #[derive(Serialize)]
        struct Form<'a> {
            call: Value,
            metadata: Option<Value>,
            occurred_at: Option<i64>,
            reason: Option<&'a str>,
            verb: Value,
        }
        let form = Form {
            call: json!(self.call),
            metadata: self.words.metadata.as_ref().map(sorted),
            occurred_at: self.occurred_at.map(|at| at.timestamp_micros()),
            reason: self.words.reason.as_deref(),
            verb: self.verb.canonical(),
        };
        // Writing cannot fail: all keys are strings.
        Sha256::digest(serde_json::to_vec(&form).unwrap_or_default()).into()
    }
}

/// An object with its keys in order, at every level.
pub fn sorted(object: &Map<String, Value>) -> Value {
    in_order(Value::Object(object.clone()))
}

/// A value with the keys of its objects in order, at every level of objects.
pub fn in_order(value: Value) -> Value {
    let Value::Object(object) = value else { return value };
    let mut pairs: Vec<(String, Value)> = object.into_iter().collect();
    pairs.sort_unstable_by(|(one, _), (other, _)| one.cmp(other));
    Value::Object(pairs.into_iter().map(|(key, value)| (key, in_order(value))).collect())
}

impl Verb {
    fn canonical(&self) -> Value {
        match self {
            Verb::Open { external_ref, name, email, policy, time_zone } => {
                json!(["open", external_ref, name, email, policy.name, time_zone])
            }
            Verb::Grant { amount, pool, expires, source, .. } => {
                json!(["grant", amount, pool, expires.canonical(), source])
            }
            Verb::Charge { amount } => json!(["charge", amount]),
            Verb::Hold { amount, expires_in_s, .. } => json!(["hold", amount, expires_in_s]),
            Verb::Renew { hold, expires_in_s } => json!(["renew", hold, expires_in_s]),
            Verb::Settle { hold, amount } => json!(["settle", hold, amount]),
            Verb::Release { hold } => json!(["release", hold]),
            Verb::Reverse { hold, outcome } => json!(["reverse", hold, *outcome == ReverseOutcome::Unknown]),
            Verb::Refund { seq, amount } => json!(["refund", seq, amount]),
            Verb::Clawback { grant, amount, payment_ref } => json!(["clawback", grant, amount, payment_ref]),
            Verb::Restore { grant, amount, payment_ref } => json!(["restore", grant, amount, payment_ref]),
            Verb::Void { grant } => json!(["void", grant]),
            Verb::Extend { grant, expires_at } => json!(["extend", grant, expires_at.timestamp_micros()]),
            Verb::Adjust { amount, code, pool, expires, .. } => {
                json!(["adjust", amount, code, pool, expires.canonical()])
            }
            Verb::Mark { marker } => json!(["mark", format!("{marker:?}")]),
            Verb::RefundJob => json!(["refund_job"]),
            Verb::SetStatus { status } => json!(["set_status", status]),
            Verb::SetPolicy { policy } => json!(["set_policy", policy.name]),
            Verb::Erase => json!(["erase"]),
            Verb::Lapse => json!(["lapse"]),
        }
    }
}

impl Expiry {
    fn canonical(self) -> Value {
        match self {
            Expiry::Policy => json!("policy"),
            Expiry::Never => Value::Null,
            Expiry::At(at) => json!(at.timestamp_micros()),
        }
    }
}
