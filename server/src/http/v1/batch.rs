//! Many commands in one request. No transaction: each has its own key, its own right and its own result, and
//! a bad one is its own 400. Commands of one account keep their order.

use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt;

use axum::Extension;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::{Response, StatusCode};
use ledger::command::Command;
use ledger::ids::AccountId;
use ledger::limits::BATCH_COMMANDS_MAX;
use ledger::service::Posted;
use serde::de::{DeserializeSeed, Error, MapAccess, Visitor, value::MapAccessDeserializer};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;
use utoipa::ToSchema;

use super::adjustments::{AdjustmentBody, adjust};
use super::answer::{self, Kind, json, put};
use super::caller::{Caller, PathId, Verb, Write, Written, key_name, resolve};
use super::charges::ChargeBody;
use super::entries::RefundBody;
use super::grants::{ExtendBody, GrantBody, VoidBody};
use super::holds::{HoldBody, ReleaseBody, RenewBody, ReverseBody, SettleBody};
use super::input::{Word, parse, parse_text};
use super::jobs::{CompletedBody, FailedBody, StartedBody};
use super::placed::{Placed, placed};
use crate::http::problem::{Name, Problem};
use crate::security::RequestId;
use crate::state::AppState;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct BatchBody<'a> {
    #[serde(borrow)]
    commands: Vec<&'a RawValue>,
}

/// What the description says of a batch.
#[derive(ToSchema)]
#[schema(as = BatchBody)]
#[expect(dead_code, reason = "it is a description; the body itself is read command by command")]
pub struct BatchDescription {
    /// At most 500.
    #[schema(max_items = 500)]
    commands: Vec<BatchCommand>,
}

/// One command: the fields below, and those of the verb's own body.
#[derive(ToSchema)]
#[expect(dead_code, reason = "it is a description; the body itself is read command by command")]
pub struct BatchCommand {
    idempotency_key: String,
    /// The account's id, or `ref:` and its reference.
    account: String,
    r#do: BatchVerb,
    /// For settle, release, reverse and renew.
    hold: Option<uuid::Uuid>,
    /// For void and extend.
    grant: Option<uuid::Uuid>,
    /// For refund.
    seq: Option<i64>,
    /// For started, completed and failed.
    job_id: Option<String>,
}

#[derive(Clone, Copy, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum BatchVerb {
    Charge,
    Hold,
    Settle,
    Release,
    Reverse,
    Renew,
    Refund,
    Grant,
    Void,
    Extend,
    Adjust,
    Started,
    Completed,
    Failed,
}

#[derive(ToSchema)]
#[expect(dead_code, reason = "it is a description; results are written one by one")]
pub struct BatchAnswer {
    results: Vec<BatchResult>,
}

#[derive(ToSchema)]
#[expect(dead_code, reason = "it is a description; results are written one by one")]
pub struct BatchResult {
    /// What the route of its own would have answered.
    status: u16,
    replayed: bool,
    /// The answer, or the problem document.
    #[schema(value_type = Object)]
    body: (),
}

/// Posts many commands.
///
/// Results are in the order of the commands, and each stands for itself.
#[utoipa::path(
    post, path = "/v1/batch", tag = "batch", request_body = BatchDescription,
    responses((status = 200, description = "One result for each command.", body = BatchAnswer))
)]
pub async fn create(
    State(state): State<AppState>,
    Extension(RequestId(request_id)): Extension<RequestId>,
    request: Request,
) -> Result<Response<Body>, Problem> {
    let write = Write::read(request, &state, state.config.limits.batch_bytes_max).await?;
    let BatchBody { commands } = parse(&write.body)?;
    if commands.len() > BATCH_COMMANDS_MAX {
        return Err(Problem::field("/commands", format!("has more than {BATCH_COMMANDS_MAX} commands")));
    }
    let mut reader = Reader { state: &state, caller: &write.caller, refs: HashMap::new() };
    let mut steps = Vec::with_capacity(commands.len());
    for text in commands {
        steps.push(reader.step(text.get()).await);
    }
    let mut results = run(&state, &write.caller, steps).await;
    let mut of_holds = Vec::with_capacity(results.len());
    for result in &mut results {
        let found = match result {
            Ok((posted, _)) => placed(&state, posted).await,
            Err(_) => Ok(None),
        };
        of_holds.push(found.unwrap_or_else(|problem| {
            *result = Err(problem);
            None
        }));
    }
    Ok(json(StatusCode::OK, false, written(&results, of_holds, &request_id)?))
}

/// What a command comes to before it is posted.
enum Step {
    Post(Command, Kind),
    /// Needs its part of the day's sum first.
    Adjust(AccountId, ledger::command::KeyName, AdjustmentBody),
    Refused(Problem),
}

type Outcome = Result<(Posted, Kind), Problem>;

/// Posts what was read. Adjustments wait for what stands before them, so that an account's order holds.
async fn run(state: &AppState, caller: &Caller, steps: Vec<Step>) -> Vec<Outcome> {
    let mut outcomes: Vec<Option<Outcome>> = Vec::with_capacity(steps.len());
    let mut waiting: Vec<(usize, Command, Kind)> = Vec::new();
    for (place, step) in steps.into_iter().enumerate() {
        match step {
            Step::Post(command, kind) => {
                waiting.push((place, command, kind));
                outcomes.push(None);
            }
            Step::Refused(problem) => outcomes.push(Some(Err(problem))),
            Step::Adjust(account, key, body) => {
                submit(state, &mut waiting, &mut outcomes).await;
                let posted = adjust(state, caller, account, key, body).await;
                outcomes.push(Some(posted.map(|posted| (posted, Kind::Adjustment))));
            }
        }
    }
    submit(state, &mut waiting, &mut outcomes).await;
    outcomes
        .into_iter()
        .map(|outcome| outcome.unwrap_or_else(|| Err(crate::http::problem::internal())))
        .collect()
}

async fn submit(
    state: &AppState,
    waiting: &mut Vec<(usize, Command, Kind)>,
    outcomes: &mut [Option<Outcome>],
) {
    if waiting.is_empty() {
        return;
    }
    let (places, commands): (Vec<_>, Vec<_>) =
        waiting.drain(..).map(|(place, command, kind)| ((place, kind), command)).unzip();
    let results = state.ledger.submit_many(commands).await;
    for ((place, kind), result) in places.into_iter().zip(results) {
        outcomes[place] = Some(result.map(|posted| (posted, kind)).map_err(Problem::from));
    }
}

fn written(results: &[Outcome], of_holds: Vec<Option<Placed>>, request_id: &str) -> Result<Vec<u8>, Problem> {
    let mut out = Vec::with_capacity(1_024 * results.len() + 16);
    out.extend_from_slice(b"{\"results\":[");
    for (place, (result, placed)) in results.iter().zip(of_holds).enumerate() {
        if place > 0 {
            out.push(b',');
        }
        let (status, replayed) = match result {
            Ok((posted, kind)) => (kind.status(), posted.replayed),
            Err(problem) => (problem.name.status(), false),
        };
        out.extend_from_slice(
            format!("{{\"status\":{},\"replayed\":{replayed},\"body\":", status.as_u16()).as_bytes(),
        );
        match result {
            Ok((posted, kind)) => answer::write(*kind, posted, placed, &mut out)?,
            Err(problem) => put(&problem.document(request_id), &mut out)?,
        }
        out.push(b'}');
    }
    out.extend_from_slice(b"]}");
    Ok(out)
}

/// Reads commands, and remembers references it has looked up.
struct Reader<'a> {
    state: &'a AppState,
    caller: &'a Caller,
    refs: HashMap<String, AccountId>,
}

/// The verb, read before the rest, which it decides about.
#[derive(Deserialize)]
struct VerbOf {
    r#do: Word<BatchVerb>,
}

impl Reader<'_> {
    async fn step(&mut self, text: &str) -> Step {
        self.read(text).await.unwrap_or_else(Step::Refused)
    }

    async fn read(&mut self, text: &str) -> Result<Step, Problem> {
        let VerbOf { r#do: Word(verb) } = parse_text(text)?;
        match verb {
            BatchVerb::Charge => self.command::<ChargeBody>(text).await,
            BatchVerb::Hold => self.command::<HoldBody>(text).await,
            BatchVerb::Settle => self.command::<SettleBody>(text).await,
            BatchVerb::Release => self.command::<ReleaseBody>(text).await,
            BatchVerb::Reverse => self.command::<ReverseBody>(text).await,
            BatchVerb::Renew => self.command::<RenewBody>(text).await,
            BatchVerb::Refund => self.command::<RefundBody>(text).await,
            BatchVerb::Grant => self.command::<GrantBody>(text).await,
            BatchVerb::Void => self.command::<VoidBody>(text).await,
            BatchVerb::Extend => self.command::<ExtendBody>(text).await,
            BatchVerb::Started => self.command::<StartedBody>(text).await,
            BatchVerb::Completed => self.command::<CompletedBody>(text).await,
            BatchVerb::Failed => self.command::<FailedBody>(text).await,
            BatchVerb::Adjust => {
                let Envelope { key, account, body, .. } = parse_text::<Envelope<AdjustmentBody, ()>>(text)?;
                self.caller.key.has(backoffice::access::rights::Right::Adjust)?;
                let key = key_of(key)?;
                Ok(Step::Adjust(self.resolve(&account).await?, key, body))
            }
        }
    }

    async fn command<V: Verb>(&mut self, text: &str) -> Result<Step, Problem> {
        self.caller.key.has(V::RIGHT)?;
        let Envelope { key, account, of, body, .. } = parse_text::<Envelope<V, V::Of>>(text)?;
        let key = key_of(key)?;
        let of = V::Of::parse(&of)?;
        let account = self.resolve(&account).await?;
        let may = self.caller.key.may_post(V::RIGHT, account)?;
        Ok(Step::Post(body.draft(of, self.caller.now)?.command(may, key), V::ANSWER))
    }

    async fn resolve(&mut self, text: &str) -> Result<AccountId, Problem> {
        if let Some(account) = self.refs.get(text) {
            return Ok(*account);
        }
        let account = resolve(self.state, text).await?;
        if text.starts_with("ref:") {
            self.refs.insert(text.to_owned(), account);
        }
        Ok(account)
    }
}

fn key_of(key: Option<String>) -> Result<ledger::command::KeyName, Problem> {
    let key = key
        .ok_or_else(|| Problem::new(Name::IdempotencyKeyMissing, "Each command needs an idempotency_key."))?;
    key_name(&key)
}

/// A command with what a route takes from header and path set apart from the verb's own body.
struct Envelope<B, O> {
    key: Option<String>,
    account: String,
    of: String,
    body: B,
    /// Says which field names the object.
    kind: std::marker::PhantomData<O>,
}

impl<'de, B: Deserialize<'de>, O: PathId> Deserialize<'de> for Envelope<B, O> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Object<B, O>(std::marker::PhantomData<(B, O)>);

        impl<'de, B: Deserialize<'de>, O: PathId> Visitor<'de> for Object<B, O> {
            type Value = Envelope<B, O>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Envelope<B, O>, A::Error> {
                let mut apart = Apart::default();
                let body = B::deserialize(MapAccessDeserializer::new(Rest {
                    map,
                    apart: &mut apart,
                    of_field: O::FIELD,
                    of_written: O::WRITTEN,
                }))?;
                let account = apart.account.ok_or_else(|| A::Error::missing_field("account"))?;
                let of = match (apart.of, O::FIELD) {
                    (None, Some(field)) => return Err(A::Error::missing_field(field)),
                    (of, _) => of.unwrap_or_default(),
                };
                Ok(Envelope { key: apart.key, account, of, body, kind: std::marker::PhantomData })
            }
        }

        deserializer.deserialize_map(Object(std::marker::PhantomData))
    }
}

/// What was taken out on the way.
#[derive(Default)]
struct Apart {
    key: Option<String>,
    account: Option<String>,
    verb: Option<String>,
    of: Option<String>,
}

/// A map without the fields that go into [`Apart`].
struct Rest<'a, A> {
    map: A,
    apart: &'a mut Apart,
    of_field: Option<&'static str>,
    of_written: Written,
}

impl<'de, A: MapAccess<'de>> MapAccess<'de> for Rest<'_, A> {
    type Error = A::Error;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, A::Error> {
        while let Some(field) = self.map.next_key::<Cow<'de, str>>()? {
            let (slot, name, how) = match field.as_ref() {
                "idempotency_key" => (&mut self.apart.key, "idempotency_key", Written::Text),
                "account" => (&mut self.apart.account, "account", Written::Text),
                "do" => (&mut self.apart.verb, "do", Written::Text),
                other if self.of_field == Some(other) => {
                    (&mut self.apart.of, self.of_field.unwrap_or_default(), self.of_written)
                }
                _ => return seed.deserialize(serde::de::value::CowStrDeserializer::new(field)).map(Some),
            };
            if slot.is_some() {
                return Err(A::Error::duplicate_field(name));
            }
            *slot = Some(match how {
                Written::Text => self.map.next_value::<Cow<'de, str>>()?.into_owned(),
                Written::Number => self.map.next_value::<i64>()?.to_string(),
            });
        }
        Ok(None)
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, A::Error> {
        self.map.next_value_seed(seed)
    }
}

#[cfg(test)]
mod tests {
    use ledger::ids::{HoldId, Seq};

    use super::*;

    type Read = Result<(Option<String>, String, String), (String, &'static str)>;

    fn read<B: for<'de> Deserialize<'de>, O: PathId>(text: &str) -> Read {
        match parse_text::<Envelope<B, O>>(text) {
            Ok(envelope) => Ok((envelope.key, envelope.account, envelope.of)),
            Err(problem) => Err((problem.errors[0].pointer.clone(), problem.name.word())),
        }
    }

    #[test]
    fn what_a_route_takes_from_header_and_path_is_set_apart() {
        let text = r#"{"do":"settle","amount":"1.5","idempotency_key":"k","hold":"h","account":"a"}"#;
        assert_eq!(
            read::<SettleBody, HoldId>(text),
            Ok((Some("k".to_owned()), "a".to_owned(), "h".to_owned()))
        );
        let text = r#"{"account":"a","do":"refund","seq":7,"reason":"r"}"#;
        assert_eq!(read::<RefundBody, Seq>(text), Ok((None, "a".to_owned(), "7".to_owned())));
    }

    #[test]
    fn a_command_is_read_as_strictly_as_a_body() {
        let pointer = |text: &str| read::<ChargeBody, ()>(text).map_err(|(pointer, _)| pointer).unwrap_err();
        assert_eq!(pointer(r#"{"do":"charge","account":"a","amount":1,"nope":1}"#), "/nope");
        assert_eq!(pointer(r#"{"do":"charge","account":"a","account":"b","amount":1}"#), "/account");
        assert_eq!(pointer(r#"{"do":"charge","account":"a","amount":1,"amount":1}"#), "/amount");
        assert_eq!(pointer(r#"{"do":"charge","amount":1}"#), "/account");
        assert_eq!(pointer(r#"{"do":"charge","account":"a","amount":1,"hold":"x"}"#), "/hold");
        assert_eq!(pointer(r#"{"do":"charge","account":"a"}"#), "/amount");
        assert_eq!(read::<ReleaseBody, HoldId>(r#"{"do":"release","account":"a"}"#).unwrap_err().0, "/hold");
        assert_eq!(
            pointer(r#"{"do":"charge","account":"a","amount":1,"idempotency_key":5}"#),
            "/idempotency_key"
        );
        assert_eq!(pointer(r#"{"do":"charge","account":7,"amount":1}"#), "/account");
    }

    #[test]
    fn an_entry_is_named_by_a_number_and_everything_else_by_a_string() {
        let refund = |seq: &str| {
            let text = format!(r#"{{"do":"refund","account":"a","seq":{seq},"reason":"r"}}"#);
            read::<RefundBody, Seq>(&text).map_err(|(pointer, _)| pointer).map(|(_, _, of)| of)
        };
        assert_eq!(refund("7"), Ok("7".to_owned()));
        for wrong in ["\"7\"", "7.0", "7.5", "true", "null", "[7]", "9223372036854775808"] {
            assert_eq!(refund(wrong), Err("/seq".to_owned()), "{wrong}");
        }
        let hold = read::<ReleaseBody, HoldId>(r#"{"do":"release","account":"a","hold":5}"#);
        assert_eq!(hold.unwrap_err().0, "/hold");
    }
}
