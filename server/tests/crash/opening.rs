//! What stands beside the journal survives as well.

use std::thread::{scope, sleep};
use std::time::{Duration, Instant};

use crate::alone;
use crate::checks::check;
use crate::client::Client;
use crate::journal::Record;
use crate::operation::{AccountRef, Act, Operation};
use crate::server::Server;
use crate::site::Site;

/// The server dies after the opening entry was committed, while the name is kept from being written. The same key later
/// answers as a replay, and the name must be there.
#[test]
fn an_account_opened_across_a_kill_has_its_name() {
    let _turn = alone();
    let site = Site::new();
    let server = Server::start(&site, "server");
    let client = Client::new(&site.bearer);
    let mut record = Record::new(Operation {
        key: "opened-1".to_owned(),
        account: AccountRef("opened-1".to_owned()),
        act: Act::Open,
        must_be_refused: None,
    });
    let began = Instant::now();
    let first = scope(|threads| {
        threads.spawn(|| {
            site.sql(
                "begin; lock table account_profiles in access exclusive mode; select pg_sleep(2); rollback",
            )
        });
        sleep(Duration::from_millis(500));
        let sent = threads.spawn(|| client.send(&server.url, &record.operation));
        sleep(Duration::from_millis(700));
        server.kill();
        sent.join().expect("a request ends well")
    });
    record.note(first, began);
    server.start_again();
    while record.is_pending() {
        let answer = client.send(&server.url, &record.operation);
        record.note(answer, Instant::now());
        assert!(began.elapsed() < Duration::from_secs(30), "it is not decided: {:?}", record.unclear);
    }
    let report = check(&site, &server.url, &[record]);
    println!("opening: {report}");
    assert!(report.violations.is_empty(), "{:#?}", report.violations);
}
