//! A careful HTTP client: it tells what is known after a request from what is not.

use std::io::ErrorKind;
use std::thread::sleep;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::operation::Operation;

/// Longer than the server itself waits for anything.
const TIMEOUT: Duration = Duration::from_secs(40);

/// What a client knows after one attempt.
#[derive(Clone, Debug)]
pub enum Answer {
    /// 2xx.
    Accepted { replayed: bool, body: String },
    /// 4xx: decided, and nothing was written.
    Refused { name: String },
    /// 429 `busy`, 503 `overloaded` or `database_unavailable`: this attempt wrote nothing, and another may.
    NotNow { name: String },
    /// The connection was never made.
    Unsent,
    /// The connection ended without an answer.
    Cut(String),
    /// 503 `outcome_unknown`, 500, or an answer that is none.
    Unclear(String),
}

pub struct Client {
    agent: ureq::Agent,
    bearer: String,
}

impl Client {
    pub fn new(bearer: &str) -> Client {
        let config = ureq::Agent::config_builder().http_status_as_error(false).proxy(None).max_redirects(0);
        let agent = config.timeout_global(Some(TIMEOUT)).build().into();
        Client { agent, bearer: format!("Bearer {bearer}") }
    }

    /// Reads, however often it takes while the server has connections to the Postgres that was killed.
    pub fn get_patiently(&self, url: &str) -> Result<(u16, Value), String> {
        let begun = Instant::now();
        loop {
            match self.get(url) {
                Ok((503, _)) if begun.elapsed() < TIMEOUT => sleep(Duration::from_millis(20)),
                got => return got,
            }
        }
    }

    pub fn get(&self, url: &str) -> Result<(u16, Value), String> {
        let request = self.agent.get(url).header("Authorization", &self.bearer);
        let mut response = request.call().map_err(|error| error.to_string())?;
        let text = response.body_mut().read_to_string().map_err(|error| error.to_string())?;
        Ok((response.status().as_u16(), serde_json::from_str(&text).unwrap_or(Value::Null)))
    }

    pub fn send(&self, server: &str, operation: &Operation) -> Answer {
        self.send_body(server, operation, &operation.body())
    }

    /// The operation's key and path with a body that may be another one.
    pub fn send_body(&self, server: &str, operation: &Operation, body: &Value) -> Answer {
        let request = self.agent.post(format!("{server}{}", operation.path()));
        let request = request.header("Authorization", &self.bearer).header("Idempotency-Key", &operation.key);
        let (status, replayed, text) =
            match read(request.content_type("application/json").send(body.to_string())) {
                Ok(response) => response,
                Err(answer) => return answer,
            };
        judge(status, replayed, text)
    }

    /// One answer for each operation.
    pub fn send_batch(&self, server: &str, operations: &[&Operation]) -> Vec<Answer> {
        let commands: Vec<Value> = operations.iter().map(|operation| operation.command()).collect();
        let request = self.agent.post(format!("{server}/v1/batch")).header("Authorization", &self.bearer);
        let body = json!({"commands": commands}).to_string();
        let answer = match read(request.content_type("application/json").send(body)) {
            Ok((200, _, text)) => return judge_batch(&text, operations.len()),
            Ok((status, replayed, text)) => judge(status, replayed, text),
            Err(answer) => answer,
        };
        vec![answer; operations.len()]
    }
}

type Sent = Result<ureq::http::Response<ureq::Body>, ureq::Error>;

fn read(sent: Sent) -> Result<(u16, bool, String), Answer> {
    let mut response = match sent {
        Ok(response) => response,
        Err(ureq::Error::Io(error)) if error.kind() == ErrorKind::ConnectionRefused => {
            return Err(Answer::Unsent);
        }
        Err(error) => return Err(Answer::Cut(error.to_string())),
    };
    let status = response.status().as_u16();
    let replayed = response.headers().get("Idempotency-Replayed").is_some_and(|value| value == "true");
    match response.body_mut().read_to_string() {
        Ok(text) => Ok((status, replayed, text)),
        Err(error) => Err(Answer::Cut(error.to_string())),
    }
}

fn judge(status: u16, replayed: bool, text: String) -> Answer {
    if (200..300).contains(&status) {
        return Answer::Accepted { replayed, body: text };
    }
    let problem: Value = serde_json::from_str(&text).unwrap_or(Value::Null);
    let name =
        problem["type"].as_str().and_then(|kind| kind.rsplit('/').next()).unwrap_or_default().to_owned();
    match (status, name.as_str()) {
        (429, "busy") | (503, "overloaded" | "database_unavailable") => Answer::NotNow { name },
        (400..500, name) if !name.is_empty() => Answer::Refused { name: name.to_owned() },
        _ => Answer::Unclear(format!("{status} {name}")),
    }
}

fn judge_batch(text: &str, many: usize) -> Vec<Answer> {
    let unclear = || vec![Answer::Unclear("a batch's answer that is none".to_owned()); many];
    let Ok(answer) = serde_json::from_str::<Value>(text) else { return unclear() };
    let Some(results) = answer["results"].as_array().filter(|results| results.len() == many) else {
        return unclear();
    };
    let judged = results.iter().map(|result| {
        let status = result["status"].as_u64().and_then(|status| u16::try_from(status).ok()).unwrap_or(0);
        judge(status, result["replayed"] == true, result["body"].to_string())
    });
    judged.collect()
}
