//! Sends one planned call: a hold, then its end; requests that are sent again must be answered as the first time.

use ledger::Credits;
use serde_json::{Value, json};

use super::client::{Client, ClientError};
use super::plan::{Ending, PlannedCall};
use super::{DriveError, Run, text_at};

/// What came back for one call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sent {
    /// Requests answered with success, repeats among them.
    pub requests: u64,
    /// Answers that the server marked as replays.
    pub replays: u64,
}

/// Sends a call to its account and returns when its end is acknowledged.
pub fn send(client: &Client<'_>, run: &Run, call: &PlannedCall, account: &str) -> Result<Sent, DriveError> {
    let named = |error| DriveError::Call { number: call.number, error };
    let mut sent = Sent::default();
    let path = format!("/v1/accounts/{account}/holds");
    let key = format!("{}-{}-hold", run.prefix(), call.number);
    let placed =
        post(client, &path, &key, &hold_body(run, call), call.sent_again.hold, &mut sent).map_err(named)?;
    let hold = text_at(&placed, "/hold/id")?;
    let (verb, body) = end_of(run, call);
    let key = format!("{}-{}-{verb}", run.prefix(), call.number);
    match post(client, &format!("{path}/{hold}/{verb}"), &key, &body, call.sent_again.end, &mut sent) {
        // A run that is resumed late finds its hold expired, which took back as much as the reversal would have.
        Err(ClientError::Refused { status: 409, problem })
            if call.ending == Ending::TimedOut && problem.final_state.as_deref() == Some("expired") => {}
        Err(error) => return Err(named(error)),
        Ok(answer) => check_settled(call, &answer)?,
    }
    Ok(sent)
}

fn hold_body(run: &Run, call: &PlannedCall) -> Value {
    json!({
        "amount": call.hold,
        "model": run.model,
        "member": call.member,
        "request_ref": run.request_ref(call.number),
        "occurred_at": call.occurred_at,
    })
}

fn end_of(run: &Run, call: &PlannedCall) -> (&'static str, Value) {
    match call.ending {
        Ending::Completed { settle } | Ending::BrokeOff { settle } => {
            ("settle", json!({"amount": settle, "request_ref": run.request_ref(call.number)}))
        }
        Ending::TimedOut => ("reverse", json!({"outcome": "unknown", "reason": "the call timed out"})),
    }
}

/// Sends, and where asked sends the same again: the second answer must be the first, marked as a replay.
fn post(
    client: &Client<'_>,
    path: &str,
    key: &str,
    body: &Value,
    again: bool,
    sent: &mut Sent,
) -> Result<Value, ClientError> {
    let first = client.post(path, key, body)?;
    sent.requests += 1;
    sent.replays += u64::from(first.replayed);
    if again {
        let second = client.post(path, key, body)?;
        sent.requests += 1;
        sent.replays += u64::from(second.replayed);
        if !second.replayed || second.body != first.body {
            return Err(ClientError::Malformed(format!(
                "the key {key} was answered differently the second time"
            )));
        }
    }
    Ok(first.body)
}

fn check_settled(call: &PlannedCall, answer: &Value) -> Result<(), DriveError> {
    if call.ending == Ending::TimedOut {
        return Ok(());
    }
    let settled =
        Credits::parse(text_at(answer, "/settled")?).map_err(|_| DriveError::no_amount("/settled"))?;
    if settled == call.ending.settle() {
        return Ok(());
    }
    let detail = format!("{settled} credits were settled where {} were asked for", call.ending.settle());
    Err(DriveError::Call { number: call.number, error: ClientError::Malformed(detail) })
}
