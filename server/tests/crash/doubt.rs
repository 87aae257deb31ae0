//! Postgres commits, and dies before it can say so. The server runs the round again with the same keys and finds what
//! it has done itself, so the caller learns it as if nothing had been.
//!
//! The moment is made certain by a standby that does not exist: a commit is written to the disk here, and then waits
//! for it until Postgres is stopped.

use std::thread::{scope, sleep};
use std::time::{Duration, Instant};

use crate::alone;
use crate::checks::{Report, check};
use crate::client::{Answer, Client};
use crate::dice::Dice;
use crate::journal::Record;
use crate::operation::{AccountRef, Act, Operation};
use crate::server::Server;
use crate::site::Site;
use crate::workload::Workload;

/// The server waits 8 s for a Postgres that is away; a machine under load may take that long to start one.
const OUTAGE_SURE: Duration = Duration::from_secs(4);

#[test]
fn a_charge_whose_commit_was_not_confirmed_is_answered_and_posted_once() {
    let report = unconfirmed(|workload| (workload.account(0), Act::Charge { amount: 1_250_000 }));
    assert!(report.violations.is_empty(), "{:#?}", report.violations);
}

/// It has its name and metadata too.
#[test]
fn an_account_whose_opening_was_not_confirmed_is_answered_and_whole() {
    let report = unconfirmed(|_| (AccountRef("unconfirmed".to_owned()), Act::Open));
    assert!(report.violations.is_empty(), "{:#?}", report.violations);
}

fn unconfirmed(operation: impl FnOnce(&Workload) -> (AccountRef, Act)) -> Report {
    let _turn = alone();
    let site = Site::new();
    let server = Server::start(&site, "server");
    let workload = Workload {
        clients: 1,
        operations: 0,
        accounts: 1,
        servers: vec![server.url.clone()],
        twins_percent: 0,
        left_percent: 0,
        bearer: site.bearer.clone(),
    };
    let mut records = workload.set_up();
    let (account, act) = operation(&workload);
    let key = "unconfirmed".to_owned();
    let mut record = Record::new(Operation { key, account, act, must_be_refused: None });
    let began = Instant::now();
    let send = || Client::new(&site.bearer).send(&server.url, &record.operation);
    let (answer, outage) = lose_the_confirmation(&site, send);
    let is_answered = matches!(answer, Answer::Accepted { .. });
    assert!(is_answered || outage > OUTAGE_SURE, "{answer:?} after an outage of {} ms", outage.as_millis());
    record.note(answer, began);
    records.push(record);
    workload.decide(&mut records, &mut Dice::new(0));
    let report = check(&site, &server.url, &records);
    println!("unconfirmed: {report}, outage {} ms", outage.as_millis());
    report
}

/// The answer, and how long Postgres was away. It starts without the setting, which it reads from its own file.
fn lose_the_confirmation(site: &Site, send: impl FnOnce() -> Answer + Send) -> (Answer, Duration) {
    site.sql("alter system set synchronous_standby_names = 'nobody'");
    site.sql("select pg_reload_conf()");
    sleep(Duration::from_millis(500));
    scope(|threads| {
        let sent = threads.spawn(send);
        sleep(Duration::from_millis(800));
        let waiting = site.sql("select count(*) from pg_stat_activity where wait_event = 'SyncRep'");
        site.sql("alter system reset synchronous_standby_names");
        let begun = Instant::now();
        site.postgres.stop_immediately().expect("Postgres can be stopped");
        site.postgres.ensure_running().expect("Postgres starts again");
        let outage = begun.elapsed();
        let answer = sent.join().expect("a request ends well");
        assert_ne!(waiting.trim(), "0", "a commit waited for the standby");
        (answer, outage)
    })
}
