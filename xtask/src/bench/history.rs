//! Reads of an account with very many entries: a page of its history near the top and deep down, and its balance as of
//! an instant in the middle.

use std::io::Error;
use std::net::TcpStream;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::bench::figures::{apart, median, milliseconds, per_second};
use crate::bench::ground::{self, Books, Ground, Server};
use crate::bench::link::Link;
use crate::bench::scripts::{Batches, Caller, text_after};
use crate::bench::watch;
use crate::failure::Failure;

const RUN: &str = "daybook_history";
/// Commands of one request that fills the account.
const FILLED_AT_ONCE: u64 = 500;
/// All of them together stay below what the server lets wait.
const CONNECTIONS: usize = 16;
const THREADS: u64 = 2;
const PAGE: u64 = 50;
const LONGEST_PAGE: u64 = 200;
const DEEPEST_PAGE: u64 = 10_000;
const REPEATS: usize = 20;

/// Milliseconds are medians of 20, measured at the client on one connection, so they are a bit more than the server's.
#[derive(Debug, Clone, serde::Serialize)]
pub struct History {
    pub entries: u64,
    /// Charges of one account a second while it was filled, 500 in a request.
    pub filled_per_s: f64,
    pub first_page_ms: f64,
    /// Which page, of 50 entries, `deep_page_ms` is about.
    pub deep_page: u64,
    pub deep_page_ms: f64,
    /// How far apart the two are, as a part of the smaller.
    pub pages_apart: f64,
    pub balance_now_ms: f64,
    pub balance_at_ms: f64,
    pub peak_memory_bytes: Option<u64>,
}

pub fn measure(ground: &Ground, books: &Books, entries: u64) -> Result<History, Failure> {
    ground.copy(ground::SEED, RUN)?;
    let server = ground.serve(RUN, &books.bearer)?;
    let account: Arc<[String]> = books.accounts.iter().take(1).cloned().collect();
    let requests = entries.div_ceil(FILLED_AT_ONCE);
    let share = |thread: u64| requests / THREADS + u64::from(thread < requests % THREADS);
    let (outcome, _) = server.load(CONNECTIONS, None, |thread| {
        let (thread, caller) = (thread as u64, server.caller(&format!("fill-{thread}")));
        Batches::new(caller, &account, thread, 500).limited(share(thread))
    })?;
    if outcome.refused > 0 {
        return Err(Failure::Check(format!("filling: {} charges were refused", outcome.refused)));
    }
    ground.settle(RUN)?;
    let filled_per_s = per_second(outcome.operations, outcome.elapsed);
    let mut history = read(&server, &account[0], outcome.operations)?;
    history.filled_per_s = filled_per_s;
    history.peak_memory_bytes = watch::peak_memory_bytes(server.pid);
    server.stop(ground)?;
    Ok(history)
}

fn read(server: &Server, account: &str, entries: u64) -> Result<History, Failure> {
    let mut reader = Reader::new(server)?;
    let deep_page = (entries / (2 * PAGE)).clamp(2, DEEPEST_PAGE);
    let first = format!("/v1/accounts/{account}/entries?limit={PAGE}");
    let deep = reader.path_of_page(account, deep_page)?;
    let middle = text_after(reader.get(&deep)?.1, br#""effective_at":""#).map(str::to_owned);
    let middle = middle.ok_or_else(|| Failure::Check(format!("{deep} has no entry")))?;
    let now = format!("/v1/accounts/{account}/balance");
    let at = format!("{now}?at={middle}");
    let paths = [first, deep, now, at];
    let mut times: [Vec<f64>; 4] = Default::default();
    // In turns, so that a disturbance meets all of them.
    for _ in 0..REPEATS {
        for (path, times) in paths.iter().zip(&mut times) {
            times.push(milliseconds(reader.get(path)?.0));
        }
    }
    let [first_page_ms, deep_page_ms, balance_now_ms, balance_at_ms] = times.map(median);
    Ok(History {
        entries,
        filled_per_s: 0.0,
        first_page_ms,
        deep_page,
        deep_page_ms,
        pages_apart: apart(first_page_ms, deep_page_ms),
        balance_now_ms,
        balance_at_ms,
        peak_memory_bytes: None,
    })
}

/// One connection that waits for each answer.
struct Reader {
    link: Link<TcpStream>,
    caller: Caller,
}

impl Reader {
    fn new(server: &Server) -> Result<Self, Failure> {
        let stream = TcpStream::connect(server.address()).and_then(|stream| {
            stream.set_nodelay(true)?;
            stream.set_read_timeout(Some(Duration::from_secs(60)))?;
            Ok(stream)
        });
        Ok(Self { link: Link::new(stream.map_err(|error| stopped(&error))?), caller: server.caller("read") })
    }

    fn get(&mut self, path: &str) -> Result<(Duration, &[u8]), Failure> {
        self.link.ask(|request| self.caller.get(path, request));
        let began = Instant::now();
        self.link.send().map_err(|error| stopped(&error))?;
        let answer = loop {
            if let Some(answer) = self.link.receive().map_err(|error| stopped(&error))? {
                break answer;
            }
        };
        let took = began.elapsed();
        let body = self.link.body(&answer);
        if answer.status != 200 {
            let body = String::from_utf8_lossy(body);
            return Err(Failure::Check(format!("{path} answered {}: {body}", answer.status)));
        }
        Ok((took, body))
    }

    /// Cursors are opaque, so a deep page is reached as any client reaches it: page by page, with the longest ones.
    fn path_of_page(&mut self, account: &str, page: u64) -> Result<String, Failure> {
        let path = |limit: u64, cursor: &str| format!("/v1/accounts/{account}/entries?limit={limit}{cursor}");
        let mut left = (page - 1) * PAGE;
        let mut cursor = String::new();
        while left > 0 {
            let limit = if left >= LONGEST_PAGE { LONGEST_PAGE } else { PAGE };
            let (_, body) = self.get(&path(limit, &cursor))?;
            let next = text_after(body, br#""next_cursor":""#).map(escaped);
            let next = next.ok_or_else(|| Failure::Check(format!("the history ends before page {page}")))?;
            cursor = format!("&cursor={next}");
            left -= limit;
        }
        Ok(path(PAGE, &cursor))
    }
}

fn escaped(cursor: &str) -> String {
    let escape = |byte: u8| {
        if byte.is_ascii_alphanumeric() { char::from(byte).to_string() } else { format!("%{byte:02X}") }
    };
    cursor.bytes().map(escape).collect()
}

fn stopped(error: &Error) -> Failure {
    Failure::Check(format!("the history could not be read: {error}"))
}
