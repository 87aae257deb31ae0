//! The HTTP client of a run: blocking, one connection a thread, and it repeats a request with its key until the
//! server says what became of it, as a careful service would.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde::Deserialize;
use serde_json::Value;

/// Waits between attempts; after the last one the request is given up.
const BACKOFF_MS: [u64; 8] = [25, 75, 200, 1_000, 2_000, 4_000, 8_000, 8_000];
/// A server that asks for a longer pause than this is not worth waiting for.
const RETRY_AFTER_MAX_S: u64 = 10;
const TIMEOUT: Duration = Duration::from_secs(30);

/// Where to send and as whom.
#[derive(Clone)]
pub struct Target {
    /// Such as `http://127.0.0.1:3000`, without a slash at the end.
    pub url: String,
    /// The bearer key; never shown.
    pub key: String,
    /// A server inside this process is reached without the environment's proxy.
    pub is_local: bool,
}

/// An accepted request's answer.
#[derive(Clone, Debug, PartialEq)]
pub struct Answer {
    pub body: Value,
    /// Whether the server said that it had answered this before.
    pub replayed: bool,
}

/// A problem document, as far as it matters here.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(default)]
pub struct Problem {
    #[serde(rename = "type")]
    pub kind: String,
    pub title: String,
    pub detail: Option<String>,
    pub final_state: Option<String>,
}

impl Problem {
    /// Its name, such as `hold_ended`.
    pub fn name(&self) -> &str {
        self.kind.rsplit('/').next().unwrap_or_default()
    }
}

/// Why a request has no answer.
#[derive(Clone, Debug, thiserror::Error)]
pub enum ClientError {
    #[error("the server cannot be reached: {0}")]
    Unreachable(String),
    #[error("the server answered {status} {}: {}", problem.name(), problem.detail.as_deref().unwrap_or(&problem.title))]
    Refused { status: u16, problem: Problem },
    #[error("the server's answer makes no sense: {0}")]
    Malformed(String),
    #[error("stopped")]
    Stopped,
}

/// One thread's client.
pub struct Client<'a> {
    agent: ureq::Agent,
    target: &'a Target,
    bearer: String,
    stop: &'a AtomicBool,
}

/// What one attempt came to.
enum Attempt {
    Done(Result<Answer, ClientError>),
    /// Worth repeating with the same key, no sooner than after `pause`.
    Again {
        error: ClientError,
        pause: Option<Duration>,
    },
}

impl<'a> Client<'a> {
    pub fn new(target: &'a Target, stop: &'a AtomicBool) -> Client<'a> {
        let config = ureq::Agent::config_builder()
            .http_status_as_error(false)
            .timeout_global(Some(TIMEOUT))
            .max_redirects(0);
        let config = if target.is_local { config.proxy(None) } else { config };
        Client { agent: config.build().into(), target, bearer: format!("Bearer {}", target.key), stop }
    }

    pub fn get(&self, path: &str) -> Result<Answer, ClientError> {
        self.until_known(|| {
            let request = self.agent.get(self.address(path)).header("Authorization", &self.bearer);
            judge(request.call())
        })
    }

    /// A write under its idempotency key. However often it is repeated, it counts once.
    pub fn post(&self, path: &str, key: &str, body: &Value) -> Result<Answer, ClientError> {
        let text = body.to_string();
        self.until_known(|| {
            let request = self.agent.post(self.address(path)).header("Authorization", &self.bearer);
            let request = request.header("Idempotency-Key", key).header("Content-Type", "application/json");
            judge(request.send(&text))
        })
    }

    fn address(&self, path: &str) -> String {
        format!("{}{path}", self.target.url)
    }

    fn until_known(&self, attempt: impl Fn() -> Attempt) -> Result<Answer, ClientError> {
        let mut waits = BACKOFF_MS.into_iter().map(Duration::from_millis);
        loop {
            if self.stop.load(Ordering::Relaxed) {
                return Err(ClientError::Stopped);
            }
            match (attempt(), waits.next()) {
                (Attempt::Done(outcome), _) => return outcome,
                (Attempt::Again { error, .. }, None) => return Err(error),
                (Attempt::Again { pause, .. }, Some(wait)) => {
                    std::thread::sleep(pause.unwrap_or(wait).max(wait));
                }
            }
        }
    }
}

fn judge(sent: Result<ureq::http::Response<ureq::Body>, ureq::Error>) -> Attempt {
    let mut response = match sent {
        Ok(response) => response,
        Err(ureq::Error::BadUri(detail)) => return Attempt::Done(Err(ClientError::Unreachable(detail))),
        Err(error) => {
            return Attempt::Again { error: ClientError::Unreachable(error.to_string()), pause: None };
        }
    };
    let status = response.status().as_u16();
    let header = |name: &str| response.headers().get(name).and_then(|value| value.to_str().ok());
    let replayed = header("Idempotency-Replayed") == Some("true");
    let pause = header("Retry-After").and_then(|seconds| seconds.parse().ok());
    let text = match response.body_mut().read_to_string() {
        Ok(text) => text,
        Err(error) => {
            return Attempt::Again { error: ClientError::Unreachable(error.to_string()), pause: None };
        }
    };
    match status {
        200..=299 => Attempt::Done(read_answer(&text, replayed)),
        429 | 503 if pause.is_none_or(|seconds| seconds <= RETRY_AFTER_MAX_S) => {
            Attempt::Again { error: refused(status, &text), pause: pause.map(Duration::from_secs) }
        }
        _ => Attempt::Done(Err(refused(status, &text))),
    }
}

fn read_answer(text: &str, replayed: bool) -> Result<Answer, ClientError> {
    let body = serde_json::from_str(text).map_err(|error| ClientError::Malformed(error.to_string()))?;
    Ok(Answer { body, replayed })
}

fn refused(status: u16, text: &str) -> ClientError {
    let without_document = |_| Problem { title: "no problem document".to_owned(), ..Problem::default() };
    ClientError::Refused { status, problem: serde_json::from_str(text).unwrap_or_else(without_document) }
}
