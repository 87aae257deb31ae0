//! What the connections of a load ask.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use crate::bench::load::{Script, Worth};

/// Credits of each account: more than any run can spend.
const FUNDS: &str = "1000000000";
/// Accounts funded in one request.
const FUNDED_AT_ONCE: usize = 200;

/// Renders requests to one server.
#[derive(Debug, Clone)]
pub struct Caller {
    /// The head's lines that are the same in every request.
    common: String,
    /// Makes this caller's idempotency keys different from those of all others.
    name: String,
    keys: u64,
}

impl Caller {
    /// `name` must differ between callers of one database.
    pub fn new(host: &str, bearer: &str, name: String) -> Self {
        let common = format!(
            " HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer {bearer}\r\nContent-Type: application/json\r\n"
        );
        Self { common, name, keys: 0 }
    }

    /// A key that was never used: the name, and a number of ten digits.
    fn key(&mut self) -> String {
        self.keys += 1;
        format!("{}-{:010}", self.name, self.keys)
    }

    fn post(&mut self, path: [&str; 3], body: &str, request: &mut Vec<u8>) {
        let key = self.key();
        request.extend_from_slice(b"POST ");
        path.iter().for_each(|part| request.extend_from_slice(part.as_bytes()));
        request.extend_from_slice(self.common.as_bytes());
        request.extend_from_slice(b"Idempotency-Key: ");
        request.extend_from_slice(key.as_bytes());
        request.extend_from_slice(b"\r\nContent-Length: ");
        request.extend_from_slice(body.len().to_string().as_bytes());
        request.extend_from_slice(b"\r\n\r\n");
        request.extend_from_slice(body.as_bytes());
    }

    fn post_batch(&self, commands: &str, request: &mut Vec<u8>) {
        let length = commands.len() + r#"{"commands":[]}"#.len();
        request.extend_from_slice(b"POST /v1/batch");
        request.extend_from_slice(self.common.as_bytes());
        request.extend_from_slice(format!("Content-Length: {length}\r\n\r\n{{\"commands\":[").as_bytes());
        request.extend_from_slice(commands.as_bytes());
        request.extend_from_slice(b"]}");
    }

    /// A read.
    pub fn get(&self, path: &str, request: &mut Vec<u8>) {
        request.extend_from_slice(b"GET ");
        request.extend_from_slice(path.as_bytes());
        request.extend_from_slice(self.common.as_bytes());
        request.extend_from_slice(b"\r\n");
    }
}

/// Accounts in a random order that is the same in every run.
#[derive(Debug)]
struct Draw {
    accounts: Arc<[String]>,
    state: u64,
}

impl Draw {
    fn new(accounts: &Arc<[String]>, seed: u64) -> Self {
        Self {
            accounts: Arc::clone(accounts),
            state: seed.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1,
        }
    }

    /// xorshift64*.
    fn place(&mut self) -> usize {
        self.state ^= self.state >> 12;
        self.state ^= self.state << 25;
        self.state ^= self.state >> 27;
        let number = self.state.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 32;
        usize::try_from(number).unwrap_or(0) % self.accounts.len().max(1)
    }
}

/// One charge of 1 credit a request.
#[derive(Debug)]
pub struct Charges {
    caller: Caller,
    draw: Draw,
}

impl Charges {
    pub fn new(caller: Caller, accounts: &Arc<[String]>, seed: u64) -> Self {
        Self { caller, draw: Draw::new(accounts, seed) }
    }
}

impl Script for Charges {
    fn next(&mut self, _connection: usize, request: &mut Vec<u8>) -> bool {
        let place = self.draw.place();
        let account = &self.draw.accounts[place];
        self.caller.post(["/v1/accounts/", account, "/charges"], r#"{"amount":"1"}"#, request);
        true
    }

    fn answered(&mut self, _connection: usize, status: u16, _body: &[u8]) -> Worth {
        Worth::of(status)
    }
}

/// A hold of 2 credits, then its settle at 1; both together are one operation.
#[derive(Debug)]
pub struct Pairs {
    caller: Caller,
    draw: Draw,
    /// By connection: the account and the path of the settle that comes next.
    open: HashMap<usize, (usize, Option<String>)>,
}

impl Pairs {
    pub fn new(caller: Caller, accounts: &Arc<[String]>, seed: u64) -> Self {
        Self { caller, draw: Draw::new(accounts, seed), open: HashMap::new() }
    }
}

impl Script for Pairs {
    fn next(&mut self, connection: usize, request: &mut Vec<u8>) -> bool {
        if let Some((place, Some(settle))) = self.open.get(&connection) {
            let account = &self.draw.accounts[*place];
            self.caller.post(["/v1/accounts/", account, settle], r#"{"amount":"1"}"#, request);
            return true;
        }
        let place = self.draw.place();
        self.open.insert(connection, (place, None));
        let account = &self.draw.accounts[place];
        self.caller.post(["/v1/accounts/", account, "/holds"], r#"{"amount":"2"}"#, request);
        true
    }

    fn answered(&mut self, connection: usize, status: u16, body: &[u8]) -> Worth {
        let Some((place, settle)) = self.open.remove(&connection) else { return Worth::REFUSED };
        if settle.is_some() || Worth::of(status) == Worth::REFUSED {
            return Worth::of(status);
        }
        match text_after(body, br#""hold":{"id":""#) {
            Some(hold) => {
                self.open.insert(connection, (place, Some(format!("/holds/{hold}/settle"))));
                Worth::default()
            }
            None => Worth::REFUSED,
        }
    }
}

/// Charges in `/v1/batch`.
#[derive(Debug)]
pub struct Batches {
    caller: Caller,
    draw: Draw,
    commands: usize,
    text: String,
    /// Requests still to send; without an end if absent.
    left: Option<u64>,
}

impl Batches {
    pub fn new(caller: Caller, accounts: &Arc<[String]>, seed: u64, commands: usize) -> Self {
        Self { caller, draw: Draw::new(accounts, seed), commands, text: String::new(), left: None }
    }

    /// No more than so many requests.
    pub fn limited(mut self, requests: u64) -> Self {
        self.left = Some(requests);
        self
    }
}

impl Script for Batches {
    fn next(&mut self, _connection: usize, request: &mut Vec<u8>) -> bool {
        match &mut self.left {
            Some(0) => return false,
            Some(left) => *left -= 1,
            None => {}
        }
        self.text.clear();
        for number in 0..self.commands {
            let place = self.draw.place();
            let parts = [
                if number > 0 { "," } else { "" },
                r#"{"do":"charge","amount":"1","account":""#,
                &self.draw.accounts[place],
                r#"","idempotency_key":""#,
                &self.caller.key(),
                r#""}"#,
            ];
            parts.into_iter().for_each(|part| self.text.push_str(part));
        }
        self.caller.post_batch(&self.text, request);
        true
    }

    fn answered(&mut self, _connection: usize, status: u16, body: &[u8]) -> Worth {
        worth_of_batch(status, body, self.commands)
    }
}

/// Opens accounts, one a request.
#[derive(Debug)]
pub struct Openings {
    caller: Caller,
    numbers: Range<usize>,
    /// The ids of those that were opened.
    pub opened: Vec<String>,
}

impl Openings {
    pub fn new(caller: Caller, numbers: Range<usize>) -> Self {
        Self { caller, numbers, opened: Vec::new() }
    }
}

impl Script for Openings {
    fn next(&mut self, _connection: usize, request: &mut Vec<u8>) -> bool {
        let Some(number) = self.numbers.next() else { return false };
        let body = format!(r#"{{"external_ref":"customer-{number}"}}"#);
        self.caller.post(["/v1/accounts", "", ""], &body, request);
        true
    }

    fn answered(&mut self, _connection: usize, status: u16, body: &[u8]) -> Worth {
        let id = text_after(body, br#"{"id":""#).filter(|_| status == 201);
        let worth = if id.is_some() { Worth::DONE } else { Worth::REFUSED };
        self.opened.extend(id.map(str::to_owned));
        worth
    }
}

/// Gives each account its funds.
#[derive(Debug)]
pub struct Fundings {
    caller: Caller,
    accounts: Arc<[String]>,
    next: usize,
    /// By connection: how many commands its request has.
    asked: HashMap<usize, usize>,
}

impl Fundings {
    pub fn new(caller: Caller, accounts: &Arc<[String]>) -> Self {
        Self { caller, accounts: Arc::clone(accounts), next: 0, asked: HashMap::new() }
    }
}

impl Script for Fundings {
    fn next(&mut self, connection: usize, request: &mut Vec<u8>) -> bool {
        let accounts = self.accounts.get(self.next..).unwrap_or_default();
        let accounts = &accounts[..accounts.len().min(FUNDED_AT_ONCE)];
        if accounts.is_empty() {
            return false;
        }
        self.next += accounts.len();
        self.asked.insert(connection, accounts.len());
        let command = |account: &String| {
            let key = self.caller.key();
            format!(
                r#"{{"do":"grant","amount":"{FUNDS}","pool":"paid","account":"{account}","idempotency_key":"{key}"}}"#
            )
        };
        let commands: Vec<String> = accounts.iter().map(command).collect();
        self.caller.post_batch(&commands.join(","), request);
        true
    }

    fn answered(&mut self, connection: usize, status: u16, body: &[u8]) -> Worth {
        worth_of_batch(status, body, self.asked.remove(&connection).unwrap_or(0))
    }
}

/// Counts the results of a batch whose status is a success. Each result begins with its status.
fn worth_of_batch(status: u16, body: &[u8], commands: usize) -> Worth {
    let commands = u64::try_from(commands).unwrap_or(u64::MAX);
    if status != 200 {
        return Worth { done: 0, refused: commands };
    }
    const MARK: &[u8] = br#"{"status":2"#;
    let mut done = 0;
    let mut rest = body;
    // Every mark begins with a brace, and looking for one byte is fast.
    while let Some(at) = rest.iter().position(|byte| *byte == b'{') {
        rest = &rest[at..];
        done += u64::from(rest.starts_with(MARK));
        rest = &rest[1..];
    }
    Worth { done, refused: commands.saturating_sub(done) }
}

/// The text between the first place of `mark` and the next quotation mark.
pub fn text_after<'a>(body: &'a [u8], mark: &[u8]) -> Option<&'a str> {
    let at = body.windows(mark.len()).position(|window| window == mark)? + mark.len();
    let rest = &body[at..];
    let end = rest.iter().position(|byte| *byte == b'"')?;
    std::str::from_utf8(&rest[..end]).ok()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::{Batches, Caller, Charges, Pairs, Worth, text_after, worth_of_batch};
    use crate::bench::load::Script;

    fn caller() -> Caller {
        Caller::new("127.0.0.1:1", "dbk_x", "n".to_owned())
    }

    fn accounts() -> Arc<[String]> {
        ["a".to_owned()].into()
    }

    #[test]
    fn a_charge_is_rendered_whole() {
        let mut request = Vec::new();
        assert!(Charges::new(caller(), &accounts(), 1).next(0, &mut request));
        let text = "POST /v1/accounts/a/charges HTTP/1.1\r\nHost: 127.0.0.1:1\r\nAuthorization: Bearer dbk_x\r\n\
                    Content-Type: application/json\r\nIdempotency-Key: n-0000000001\r\nContent-Length: 14\r\n\r\n\
                    {\"amount\":\"1\"}";
        assert_eq!(String::from_utf8(request).unwrap(), text);
    }

    #[test]
    fn a_hold_is_settled_and_both_count_once() {
        let mut pairs = Pairs::new(caller(), &accounts(), 1);
        let mut request = Vec::new();
        pairs.next(7, &mut request);
        assert_eq!(pairs.answered(7, 201, br#"{"hold":{"id":"h1","amount":"2"}}"#), Worth::default());
        request.clear();
        pairs.next(7, &mut request);
        assert!(String::from_utf8(request).unwrap().starts_with("POST /v1/accounts/a/holds/h1/settle "));
        assert_eq!(pairs.answered(7, 200, b"{}"), Worth::DONE);
    }

    #[test]
    fn the_length_of_a_batch_is_that_of_its_body() {
        let mut request = Vec::new();
        Batches::new(caller(), &accounts(), 1, 2).next(0, &mut request);
        let text = String::from_utf8(request).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        assert!(head.contains(&format!("Content-Length: {}", body.len())));
        assert_eq!(body.matches(r#""do":"charge""#).count(), 2);
        assert!(body.contains("n-0000000001") && body.contains("n-0000000002"));
    }

    #[test]
    fn results_of_a_batch_count_one_by_one() {
        let body = br#"{"results":[{"status":201,"body":{"hold":{"status":"open"}}},{"status":402,"body":{"status":402}}]}"#;
        assert_eq!(worth_of_batch(200, body, 2), Worth { done: 1, refused: 1 });
        assert_eq!(worth_of_batch(503, b"", 2), Worth { done: 0, refused: 2 });
    }

    #[test]
    fn a_text_is_found_after_its_mark() {
        assert_eq!(text_after(br#"{"id":"x","b":1}"#, br#"{"id":""#), Some("x"));
        assert_eq!(text_after(b"{}", b"id"), None);
    }
}
