//! Servers are replaced one after the other by the termination signal, and nobody loses an answer.

use std::sync::Mutex;
use std::sync::atomic::Ordering;
use std::thread::{scope, sleep};
use std::time::{Duration, Instant};

use crate::checks::check;
use crate::client::{Answer, Client};
use crate::dice::Dice;
use crate::journal::Record;
use crate::operation::{Act, Operation};
use crate::server::Server;
use crate::site::Site;
use crate::workload::{Course, Workload};
use crate::{alone, is_full, seed};

/// A request that was sent so long before the signal has been accepted.
const ACCEPTED_AFTER: Duration = Duration::from_millis(250);

#[test]
fn a_rolling_replacement_under_load_loses_no_answer() {
    let _turn = alone();
    let rounds = if is_full() { 10 } else { 3 };
    let seed = seed();
    let mut dice = Dice::new(seed);
    let site = Site::new();
    let servers = [Server::start(&site, "first"), Server::start(&site, "second")];
    let workload = Workload {
        clients: 8,
        operations: u64::MAX,
        accounts: 6,
        servers: servers.iter().map(|server| server.url.clone()).collect(),
        twins_percent: 0,
        left_percent: 0,
        bearer: site.bearer.clone(),
    };
    println!("seed {seed}");
    let mut records = workload.set_up();
    let (course, signals) = (Course::default(), Mutex::new(Vec::new()));
    scope(|threads| {
        threads.spawn(|| {
            let _end = End(&course);
            for round in 0..rounds {
                sleep(Duration::from_millis(700));
                let server = &servers[round % 2];
                signals.lock().expect("nobody failed").push(Instant::now());
                let ended = server.terminate();
                assert!(ended.success(), "it ended with {ended}");
                server.start_again();
            }
        });
        records.extend(workload.run(&mut dice, &course));
    });
    let signals = signals.into_inner().expect("nobody failed");
    let mut report = check(&site, &servers[0].url, &records);
    report.violations.extend(records.iter().filter_map(|record| lost(record, &signals)));
    println!("rolling: seed {seed}, {report}, signals {}", signals.len());
    assert!(report.violations.is_empty(), "seed {seed}: {:#?}", report.violations);
    assert_eq!(report.internal, 0, "seed {seed}");
}

/// Lets the clients end, also when a replacement fails.
struct End<'a>(&'a Course);

impl Drop for End<'_> {
    fn drop(&mut self) {
        self.0.is_over.store(true, Ordering::Relaxed);
    }
}

/// A connection may close just as a request comes in that nobody has read; such a request did nothing. One that had
/// been accepted must be answered.
fn lost(record: &Record, signals: &[Instant]) -> Option<String> {
    let key = &record.operation.key;
    if !record.cuts.is_empty() && record.accepted().is_some() && record.fresh == 0 {
        return Some(format!("{key} was posted, and its connection cut without an answer"));
    }
    let early = record.cuts.iter().find(|cut| {
        let before = |signal: &&Instant| cut.began + ACCEPTED_AFTER < **signal && cut.ended > **signal;
        signals.iter().any(|signal| before(&signal))
    });
    early.map(|cut| format!("{key} was sent well before the signal, and cut: {}", cut.why))
}

/// Requests that wait for an account when the signal comes are answered when they get it.
#[test]
fn what_waits_for_a_locked_account_is_answered_after_the_signal() {
    let _turn = alone();
    let site = Site::new();
    let servers = [Server::start(&site, "server")];
    let workload = Workload {
        clients: 1,
        operations: 0,
        accounts: 2,
        servers: vec![servers[0].url.clone()],
        twins_percent: 0,
        left_percent: 0,
        bearer: site.bearer.clone(),
    };
    let mut records = workload.set_up();
    let waiting: Vec<Operation> = (0..12)
        .map(|number| Operation {
            key: format!("waiting-{number}"),
            account: workload.account(0),
            act: Act::Charge { amount: 1_000_000 + number },
            must_be_refused: None,
        })
        .collect();
    let lock = "select id from accounts where id = (select account_id from account_refs where external_ref = 'crash-0') for update; \
                select pg_sleep(3)";
    let client = Client::new(&site.bearer);
    let answers: Vec<(Answer, Instant)> = scope(|threads| {
        threads.spawn(|| site.sql(lock));
        sleep(Duration::from_millis(700));
        let sent: Vec<_> = waiting
            .iter()
            .map(|operation| threads.spawn(|| (client.send(&servers[0].url, operation), Instant::now())))
            .collect();
        sleep(Duration::from_millis(800));
        let signalled = Instant::now();
        let ended = servers[0].terminate();
        assert!(ended.success(), "it ended with {ended}");
        let answers: Vec<_> =
            sent.into_iter().map(|sent| sent.join().expect("a request ends well")).collect();
        assert!(
            answers.iter().all(|(_, at)| *at > signalled),
            "nothing was answered while the account was locked"
        );
        answers
    });
    for (operation, (answer, at)) in waiting.into_iter().zip(answers) {
        assert!(matches!(answer, Answer::Accepted { replayed: false, .. }), "{}: {answer:?}", operation.key);
        let mut record = Record::new(operation);
        record.note(answer, at);
        records.push(record);
    }
    servers[0].start_again();
    let report = check(&site, &servers[0].url, &records);
    println!("draining: {report}");
    assert!(report.violations.is_empty(), "{:#?}", report.violations);
}
