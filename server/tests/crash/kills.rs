//! The crash smoke: one server and its Postgres are killed under load.

use std::thread::scope;

use crate::checks::check;
use crate::dice::Dice;
use crate::server::Server;
use crate::site::Site;
use crate::storm::Storm;
use crate::workload::{Course, Workload};
use crate::{alone, is_full, seed};

#[test]
fn every_request_counts_exactly_once_across_kills() {
    let _turn = alone();
    let (operations, server_kills, postgres_kills) = if is_full() { (50_000, 20, 8) } else { (5_000, 5, 2) };
    let seed = seed();
    let mut dice = Dice::new(seed);
    let site = Site::new();
    let servers = [Server::start(&site, "server")];
    let workload = Workload {
        clients: 8,
        operations,
        accounts: 12,
        servers: servers.iter().map(|server| server.url.clone()).collect(),
        twins_percent: 0,
        left_percent: 40,
        bearer: site.bearer.clone(),
    };
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
    let report = check(&site, &servers[0].url, &records);
    println!(
        "crash: seed {seed}, {report}, server kills {}, Postgres kills {}",
        struck.servers, struck.postgres
    );
    assert!(report.violations.is_empty(), "seed {seed}: {:#?}", report.violations);
    assert!(u64::from(struck.servers) >= server_kills && u64::from(struck.postgres) >= postgres_kills);
    assert!(u64::try_from(report.operations).is_ok_and(|many| many >= operations), "{report}");
}
