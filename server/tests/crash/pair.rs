//! Two server processes on one Postgres serve the same accounts at once.

use std::thread::scope;

use crate::checks::check;
use crate::dice::Dice;
use crate::server::Server;
use crate::site::Site;
use crate::storm::Storm;
use crate::workload::{Course, Workload};
use crate::{alone, is_full, seed};

fn workload(site: &Site, servers: &[Server<'_>], operations: u64) -> Workload {
    Workload {
        clients: 8,
        operations,
        accounts: 6,
        servers: servers.iter().map(|server| server.url.clone()).collect(),
        twins_percent: 20,
        left_percent: 40,
        bearer: site.bearer.clone(),
    }
}

/// Without faults nothing is unknown, though every fifth request is sent to both.
#[test]
fn two_servers_serve_the_same_accounts_at_once() {
    let _turn = alone();
    let seed = seed();
    let mut dice = Dice::new(seed);
    let site = Site::new();
    let servers = [Server::start(&site, "first"), Server::start(&site, "second")];
    let workload = workload(&site, &servers, if is_full() { 20_000 } else { 2_000 });
    println!("seed {seed}");
    let mut records = workload.set_up();
    records.extend(workload.run(&mut dice, &Course::default()));
    workload.decide(&mut records, &mut dice);
    let report = check(&site, &servers[0].url, &records);
    println!("pair: seed {seed}, {report}");
    assert!(report.violations.is_empty(), "seed {seed}: {:#?}", report.violations);
    assert_eq!(report.unknown, 0, "seed {seed}: nothing was killed");
}

/// Either is killed while the other goes on, and their Postgres too.
#[test]
fn two_servers_count_exactly_once_across_kills() {
    let _turn = alone();
    let (operations, server_kills, postgres_kills) = if is_full() { (20_000, 10, 4) } else { (2_000, 3, 1) };
    let seed = seed();
    let mut dice = Dice::new(seed);
    let site = Site::new();
    let servers = [Server::start(&site, "first"), Server::start(&site, "second")];
    let workload = workload(&site, &servers, operations);
    println!("seed {seed}");
    let mut records = workload.set_up();
    let course = Course::default();
    let storm = Storm::plan(dice.split(), operations, server_kills, postgres_kills);
    let struck = scope(|threads| {
        let storm = threads.spawn(|| storm.run(&site, &servers, &course));
        records.extend(workload.run(&mut dice, &course));
        storm.join().expect("the storm ends well")
    });
    workload.decide(&mut records, &mut dice);
    let report = check(&site, &servers[1].url, &records);
    println!(
        "pair under kills: seed {seed}, {report}, server kills {}, Postgres kills {}",
        struck.servers, struck.postgres
    );
    assert!(report.violations.is_empty(), "seed {seed}: {:#?}", report.violations);
}
