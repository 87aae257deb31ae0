//! The load generator: a few threads, each with many keep-alive connections, each of which always waits for one answer.
//!
//! It shares the machine with what it measures, so it does as little as it can: requests are put together from bytes
//! that are ready, and of an answer only the status and what the script asks for is read.

use std::collections::BTreeMap;
use std::io::{Error, ErrorKind};
use std::net::SocketAddr;
use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

use mio::net::TcpStream;
use mio::{Events, Interest, Poll, Token};

use crate::bench::link::Link;
use crate::failure::Failure;
use crate::process;

/// A server that says nothing for so long is stuck.
const SILENCE_MAX: Duration = Duration::from_secs(60);
const POLL: Duration = Duration::from_millis(500);

/// What connections ask, one after another, and what they make of the answers. One script serves one thread.
pub trait Script: Send {
    /// Appends the next request of a connection. `false`: there is nothing more to ask.
    fn next(&mut self, connection: usize, request: &mut Vec<u8>) -> bool;

    /// Takes an answer and says what it was worth.
    fn answered(&mut self, connection: usize, status: u16, body: &[u8]) -> Worth;
}

/// What an answer was worth, in operations.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Worth {
    pub done: u64,
    pub refused: u64,
}

impl Worth {
    pub const DONE: Self = Self { done: 1, refused: 0 };
    pub const REFUSED: Self = Self { done: 0, refused: 1 };

    /// One operation, if the status says so.
    pub fn of(status: u16) -> Self {
        if (200..300).contains(&status) { Self::DONE } else { Self::REFUSED }
    }
}

/// How many connections, and how long.
#[derive(Debug, Clone, Copy)]
pub struct Load {
    pub address: SocketAddr,
    pub threads: usize,
    pub connections: usize,
    /// Until the scripts have nothing more to ask, if absent.
    pub duration: Option<Duration>,
}

/// What came of it. Answers after the end of the time do not count.
#[derive(Debug, Default)]
pub struct Outcome {
    pub operations: u64,
    pub refused: u64,
    /// Requests by status.
    pub statuses: BTreeMap<u16, u64>,
    /// From the first byte sent to the whole answer, sorted.
    pub latencies_us: Vec<u32>,
    pub elapsed: Duration,
}

impl Outcome {
    fn add(&mut self, other: Self) {
        self.operations += other.operations;
        self.refused += other.refused;
        for (status, count) in other.statuses {
            *self.statuses.entry(status).or_default() += count;
        }
        self.latencies_us.extend(other.latencies_us);
        self.elapsed = self.elapsed.max(other.elapsed);
    }
}

/// Runs the load; `make` gives each thread its script, which comes back at the end.
pub fn run<S: Script>(load: Load, make: impl Fn(usize) -> S) -> Result<(Outcome, Vec<S>), Failure> {
    let threads = load.threads.clamp(1, load.connections.max(1));
    let barrier = Barrier::new(threads);
    let share = |thread: usize| load.connections / threads + usize::from(thread < load.connections % threads);
    let results: Vec<Result<(Outcome, S), Error>> = thread::scope(|scope| {
        let running: Vec<_> = (0..threads)
            .map(|thread| {
                let (script, barrier) = (make(thread), &barrier);
                scope.spawn(move || drive(load, share(thread), script, barrier))
            })
            .collect();
        let stopped = || Err(Error::other("a thread of the load generator panicked"));
        running.into_iter().map(|thread| thread.join().unwrap_or_else(|_| stopped())).collect()
    });
    process::not_interrupted()?;
    let mut sum = Outcome::default();
    let mut scripts = Vec::with_capacity(threads);
    for result in results {
        let (outcome, script) =
            result.map_err(|error| Failure::Check(format!("the load generator stopped: {error}")))?;
        sum.add(outcome);
        scripts.push(script);
    }
    sum.latencies_us.sort_unstable();
    Ok((sum, scripts))
}

struct Connection {
    link: Link<TcpStream>,
    asked_at: Instant,
}

fn drive<S: Script>(
    load: Load,
    connections: usize,
    mut script: S,
    barrier: &Barrier,
) -> Result<(Outcome, S), Error> {
    let poll = Poll::new()?;
    let opened: Result<Vec<Connection>, Error> =
        (0..connections).map(|number| open(load.address, number, &poll)).collect();
    barrier.wait();
    let mut connections = opened?;
    let began = Instant::now();
    let deadline = load.duration.map(|duration| began + duration);
    let mut outcome = Outcome::default();
    let mut waiting = 0;
    for (number, connection) in connections.iter_mut().enumerate() {
        waiting += usize::from(ask(connection, number, &mut script, began)?);
    }
    answer_all(poll, &mut connections, &mut script, &mut outcome, waiting, deadline)?;
    outcome.elapsed = load.duration.unwrap_or_else(|| began.elapsed());
    Ok((outcome, script))
}

fn open(address: SocketAddr, number: usize, poll: &Poll) -> Result<Connection, Error> {
    let stream = std::net::TcpStream::connect(address)?;
    stream.set_nodelay(true)?;
    stream.set_nonblocking(true)?;
    let mut link = Link::new(TcpStream::from_std(stream));
    poll.registry().register(link.stream(), Token(number), Interest::READABLE | Interest::WRITABLE)?;
    Ok(Connection { link, asked_at: Instant::now() })
}

/// Whether the connection waits for an answer now.
fn ask(
    connection: &mut Connection,
    number: usize,
    script: &mut impl Script,
    now: Instant,
) -> Result<bool, Error> {
    if !connection.link.ask(|request| script.next(number, request)) {
        return Ok(false);
    }
    connection.asked_at = now;
    connection.link.send()?;
    Ok(true)
}

/// Takes answers and asks on, until no connection waits any more.
fn answer_all(
    mut poll: Poll,
    connections: &mut [Connection],
    script: &mut impl Script,
    outcome: &mut Outcome,
    mut waiting: usize,
    deadline: Option<Instant>,
) -> Result<(), Error> {
    let interruptions = process::interruptions();
    let mut events = Events::with_capacity(connections.len().max(1));
    let mut heard_at = Instant::now();
    while waiting > 0 && !interruptions.load(std::sync::atomic::Ordering::Relaxed) {
        match poll.poll(&mut events, Some(POLL)) {
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            polled => polled?,
        }
        if !events.is_empty() {
            heard_at = Instant::now();
        } else if heard_at.elapsed() > SILENCE_MAX {
            return Err(Error::new(ErrorKind::TimedOut, format!("{waiting} requests have no answer")));
        }
        for event in &events {
            let number = event.token().0;
            let Some(connection) = connections.get_mut(number) else { continue };
            if event.is_writable() {
                connection.link.send()?;
            }
            if !event.is_readable() {
                continue;
            }
            let Some(answer) = connection.link.receive()? else { continue };
            let now = Instant::now();
            let worth = script.answered(number, answer.status, connection.link.body(&answer));
            let is_over = deadline.is_some_and(|deadline| now >= deadline);
            if !is_over {
                outcome.operations += worth.done;
                outcome.refused += worth.refused;
                *outcome.statuses.entry(answer.status).or_default() += 1;
                let waited = now.duration_since(connection.asked_at).as_micros();
                outcome.latencies_us.push(u32::try_from(waited).unwrap_or(u32::MAX));
            }
            if is_over || !ask(connection, number, script, now)? {
                waiting -= 1;
            }
        }
    }
    Ok(())
}
