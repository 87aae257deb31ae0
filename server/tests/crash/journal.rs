//! What a client wrote down: each operation before it was sent, and every answer after.

use std::time::Instant;

use serde_json::Value;

use crate::client::Answer;
use crate::operation::{Micros, Operation, micros};

/// What is known of an operation.
#[derive(Clone, Debug)]
pub enum Outcome {
    Pending,
    Accepted(Accepted),
    Refused(String),
}

/// What an acknowledgement said.
#[derive(Clone, Debug)]
pub struct Accepted {
    pub body: String,
    pub seq: i64,
    pub hash: String,
    pub kind: String,
    pub amount: Micros,
    pub moved: Micros,
    /// available + held after the main entry.
    pub balance_after: Micros,
    pub hold: Option<String>,
}

impl Accepted {
    /// `None` where the body is not of the shape that the API promises.
    fn read(body: &str) -> Option<Accepted> {
        let answer: Value = serde_json::from_str(body).ok()?;
        let entry = answer.get("entry").or_else(|| answer["entries"].get(0))?;
        let amount = |field: &str| entry[field].as_str().map(micros);
        Some(Accepted {
            seq: entry["seq"].as_i64()?,
            hash: entry["hash"].as_str()?.to_owned(),
            kind: entry["kind"].as_str()?.to_owned(),
            amount: amount("amount")?,
            moved: amount("moved")?,
            balance_after: amount("available_after")? + amount("held_after")?,
            hold: answer["hold"]["id"].as_str().map(str::to_owned),
            body: body.to_owned(),
        })
    }
}

/// When a request was under way that ended without an answer.
#[derive(Clone, Debug)]
pub struct Cut {
    pub began: Instant,
    pub ended: Instant,
    pub why: String,
}

#[derive(Clone, Debug)]
pub struct Record {
    pub operation: Operation,
    pub outcome: Outcome,
    /// Every time it was sent and no answer came.
    pub cuts: Vec<Cut>,
    /// Answers that left the outcome open: 500, `outcome_unknown`.
    pub unclear: Vec<String>,
    /// Answers that promised that nothing had been written.
    pub not_now: Vec<String>,
    /// Acknowledgements that were not replays.
    pub fresh: u32,
    /// To how many servers it was sent at once.
    pub at_once: u32,
    pub faults: Vec<String>,
}

impl Record {
    pub fn new(operation: Operation) -> Record {
        Record {
            operation,
            outcome: Outcome::Pending,
            cuts: Vec::new(),
            unclear: Vec::new(),
            not_now: Vec::new(),
            fresh: 0,
            at_once: 1,
            faults: Vec::new(),
        }
    }

    pub fn is_pending(&self) -> bool {
        matches!(self.outcome, Outcome::Pending)
    }

    pub fn accepted(&self) -> Option<&Accepted> {
        match &self.outcome {
            Outcome::Accepted(accepted) => Some(accepted),
            Outcome::Pending | Outcome::Refused(_) => None,
        }
    }

    /// Whether the client did not know at some time.
    pub fn was_unknown(&self) -> bool {
        !self.cuts.is_empty() || !self.unclear.is_empty()
    }

    /// Writes one answer down.
    pub fn note(&mut self, answer: Answer, began: Instant) {
        match answer {
            Answer::Accepted { replayed, body } => self.note_accepted(replayed, &body),
            Answer::Refused { name } => self.note_refused(name),
            Answer::NotNow { name } => self.not_now.push(name),
            Answer::Unsent => {}
            Answer::Cut(why) => self.cuts.push(Cut { began, ended: Instant::now(), why }),
            Answer::Unclear(what) => self.unclear.push(what),
        }
    }

    /// Writes the answers of two servers to the same request down. One may have refused before the other accepted.
    pub fn note_both(&mut self, answers: [Answer; 2], began: Instant) {
        self.at_once = 2;
        let [first, second] = answers;
        let (first, second) = match (first, second) {
            // What the other server did to the same request is open, so this refusal decides nothing.
            (Answer::Refused { .. }, open @ (Answer::Cut(_) | Answer::Unclear(_)))
            | (open @ (Answer::Cut(_) | Answer::Unclear(_)), Answer::Refused { .. }) => {
                return self.note(open, began);
            }
            (first @ Answer::Accepted { .. }, second) => (second, first),
            both => both,
        };
        self.note(first, began);
        if let (Outcome::Refused(_), Answer::Accepted { .. }) = (&self.outcome, &second) {
            self.outcome = Outcome::Pending;
        }
        self.note(second, began);
    }

    /// The answer to an acknowledged request that was sent once more. One that says nothing changes nothing.
    pub fn note_again(&mut self, answer: Answer, began: Instant) {
        if let Answer::Accepted { .. } | Answer::Refused { .. } = answer {
            self.note(answer, began);
        }
    }

    fn note_accepted(&mut self, replayed: bool, body: &str) {
        self.fresh += u32::from(!replayed);
        if let Outcome::Accepted(first) = &self.outcome {
            if is_other(&first.body, body) {
                self.faults.push(format!("two answers differ: {} and {body}", first.body));
            }
            return;
        }
        if let Outcome::Refused(name) = &self.outcome {
            self.faults.push(format!("refused as {name}, then accepted"));
        }
        match Accepted::read(body) {
            Some(accepted) => self.outcome = Outcome::Accepted(accepted),
            None => self.faults.push(format!("an answer of another shape: {body}")),
        }
    }

    fn note_refused(&mut self, name: String) {
        match &self.outcome {
            Outcome::Pending => self.outcome = Outcome::Refused(name),
            Outcome::Accepted(_) => self.faults.push(format!("acknowledged, then refused as {name}")),
            Outcome::Refused(_) => {}
        }
    }
}

/// A batch writes its results anew, so only what they say counts.
fn is_other(first: &str, second: &str) -> bool {
    let value = |text: &str| serde_json::from_str::<Value>(text).unwrap_or(Value::Null);
    first != second && value(first) != value(second)
}
