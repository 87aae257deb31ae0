//! A storm: servers and Postgres are killed at moments that a seed chose, and started again.

use std::sync::atomic::Ordering;
use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::dice::Dice;
use crate::server::Server;
use crate::site::Site;
use crate::workload::Course;

/// Clients that make no progress for so long never will.
const STALLED: Duration = Duration::from_secs(180);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Strike {
    KillServer,
    KillPostmaster,
    StopPostgres,
}

/// What happens when: after so many operations.
pub struct Storm {
    strikes: Vec<(u64, Strike)>,
    dice: Dice,
}

#[derive(Clone, Copy, Debug, Default)]
pub struct Struck {
    pub servers: u32,
    pub postgres: u32,
}

impl Storm {
    /// Spreads the kills over the operations, a little before each end.
    pub fn plan(mut dice: Dice, operations: u64, server_kills: u64, postgres_kills: u64) -> Storm {
        let postgres = (0..postgres_kills)
            .map(|n| if n % 2 == 0 { Strike::StopPostgres } else { Strike::KillPostmaster });
        let mut kinds: Vec<Strike> = (0..server_kills).map(|_| Strike::KillServer).chain(postgres).collect();
        for last in (1..kinds.len()).rev() {
            let other = dice.place(last + 1);
            kinds.swap(last, other);
        }
        let parts = server_kills + postgres_kills + 1;
        let span = operations / parts;
        let strikes =
            (1..).zip(kinds).map(|(n, strike)| (n * span - span / 4 + dice.below(span / 2 + 1), strike));
        Storm { strikes: strikes.collect(), dice }
    }

    /// Strikes as the clients' count goes up.
    pub fn run(mut self, site: &Site, servers: &[Server<'_>], course: &Course) -> Struck {
        let mut struck = Struck::default();
        for (after, strike) in std::mem::take(&mut self.strikes) {
            wait_for(course, after);
            sleep(self.dice.wait_ms(0, 40));
            let server = &servers[self.dice.place(servers.len())];
            match strike {
                Strike::KillServer => {
                    server.kill();
                    sleep(self.dice.wait_ms(0, 300));
                    server.start_again();
                    struck.servers += 1;
                }
                Strike::KillPostmaster | Strike::StopPostgres => {
                    self.strike_postgres(site, server, strike, &mut struck);
                }
            }
        }
        struck
    }

    /// Sometimes a server dies in the same moment.
    fn strike_postgres(&mut self, site: &Site, server: &Server<'_>, strike: Strike, struck: &mut Struck) {
        let ended = match strike {
            Strike::StopPostgres => site.postgres.stop_immediately(),
            Strike::KillPostmaster | Strike::KillServer => site.postgres.kill_postmaster(),
        };
        ended.expect("Postgres can be killed");
        struck.postgres += 1;
        let with_server = self.dice.percent(40);
        if with_server {
            sleep(self.dice.wait_ms(0, 20));
            server.kill();
            struck.servers += 1;
        }
        // Mostly shorter than the server waits for its database, now and then longer.
        let away = if self.dice.percent(20) {
            self.dice.wait_ms(8_500, 10_000)
        } else {
            self.dice.wait_ms(0, 2_000)
        };
        sleep(away);
        site.postgres.ensure_running().expect("Postgres starts again");
        if with_server {
            server.start_again();
        }
    }
}

fn wait_for(course: &Course, after: u64) {
    let (mut seen, mut moved_at) = (0, Instant::now());
    loop {
        let now = course.progress.load(Ordering::Relaxed);
        if now >= after {
            return;
        }
        if now != seen {
            (seen, moved_at) = (now, Instant::now());
        }
        assert!(moved_at.elapsed() < STALLED, "the clients stand still at {now} operations");
        sleep(Duration::from_millis(1));
    }
}
