//! Daybook under load: one run of each case, on a fresh copy of the prepared database.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::bench::figures::{divided, per_second, percentile_ms};
use crate::bench::floors::Floor;
use crate::bench::ground::{self, Books, Ground, Server};
use crate::bench::load::Outcome;
use crate::bench::scripts::{Batches, Charges, Pairs};
use crate::bench::watch::{self, Conditions, Watch};
use crate::failure::Failure;

const RUN: &str = "daybook_run";
const FRESH: &str = "daybook_fresh";
/// Commands of one `/v1/batch`.
const BATCH: usize = 100;

/// What is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, serde::Serialize, clap::ValueEnum)]
#[serde(rename_all = "snake_case")]
pub enum Case {
    /// Charges spread over 10,000 accounts.
    Spread,
    /// Charges on one account.
    Hot,
    /// `POST /v1/batch` with 100 charges each, spread.
    Batch,
    /// A hold, then its settle, spread.
    Pair,
    /// One charge after another on one connection, spread.
    Lone,
}

/// What one run came to. Operations are charges, or pairs of hold and settle.
#[derive(Debug, Clone, serde::Serialize)]
pub struct CaseRun {
    pub operations_per_s: f64,
    /// Of one request.
    pub p50_ms: f64,
    pub p99_ms: f64,
    /// Operations that were answered otherwise than with success.
    pub refused: u64,
    pub statuses: BTreeMap<u16, u64>,
    pub commits: u64,
    pub entries_per_commit: f64,
    pub wal_bytes_each: f64,
    pub peak_memory_bytes: Option<u64>,
    #[serde(flatten)]
    pub conditions: Conditions,
}

impl Case {
    pub fn floor(self) -> Floor {
        match self {
            Self::Spread | Self::Pair => Floor::Spread,
            Self::Hot => Floor::Hot,
            Self::Batch => Floor::Batch,
            Self::Lone => Floor::Lone,
        }
    }

    /// As many requests are always under way. A batch is many commands already, so 32 of them are 3,200 at once.
    pub fn connections(self) -> usize {
        match self {
            Self::Spread | Self::Hot | Self::Pair => 256,
            Self::Batch => 32,
            Self::Lone => 1,
        }
    }

    /// Sends the load of this case to a server.
    pub fn load(
        self,
        ground: &Ground,
        server: &Server,
        accounts: &Arc<[String]>,
    ) -> Result<Outcome, Failure> {
        let (connections, duration) = (self.connections(), Some(ground.duration()));
        let caller = |thread: usize| server.caller(&format!("{self:?}-{thread}"));
        let outcome = match self {
            Self::Spread | Self::Lone => {
                let make = |thread| Charges::new(caller(thread), accounts, thread as u64);
                server.load(connections, duration, make)?.0
            }
            Self::Hot => {
                let hot: Arc<[String]> = accounts.iter().take(1).cloned().collect();
                let make = |thread| Charges::new(caller(thread), &hot, thread as u64);
                server.load(connections, duration, make)?.0
            }
            Self::Batch => {
                let make = |thread| Batches::new(caller(thread), accounts, thread as u64, BATCH);
                server.load(connections, duration, make)?.0
            }
            Self::Pair => {
                let make = |thread| Pairs::new(caller(thread), accounts, thread as u64);
                server.load(connections, duration, make)?.0
            }
        };
        Ok(outcome)
    }
}

/// Measures one case.
pub fn measure(ground: &Ground, books: &Books, case: Case) -> Result<CaseRun, Failure> {
    ground.copy(ground::SEED, RUN)?;
    let entries_before = ground.number(ground::SEED, "select count(*) from entries")?;
    let server = ground.serve(RUN, &books.bearer)?;
    let mut run = measure_on(ground, &server, &books.accounts, case)?;
    server.stop(ground)?;
    run.commits = ground.commits(RUN)?;
    let entries = ground.number(RUN, "select count(*) from entries")?.saturating_sub(entries_before);
    run.entries_per_commit = divided(entries, run.commits);
    Ok(run)
}

/// Measures cases on one instance whose tables are never analysed: its statements were planned while they were empty.
pub fn measure_fresh(ground: &Ground, cases: &[Case]) -> Result<BTreeMap<Case, CaseRun>, Failure> {
    ground.postgres.psql("postgres", &format!("drop database if exists {FRESH} with (force)"))?;
    let bearer = ground.migrate(FRESH)?;
    ground.postgres.psql(
        FRESH,
        "do $$ declare t regclass; begin
             for t in select oid from pg_class where relkind = 'r' and relnamespace = 'public'::regnamespace loop
                 execute format('alter table %s set (autovacuum_enabled = false)', t);
             end loop;
         end $$",
    )?;
    let server = ground.serve(FRESH, &bearer)?;
    let accounts = server.open_accounts(ground::ACCOUNTS)?;
    let runs: Result<BTreeMap<Case, CaseRun>, Failure> =
        cases.iter().map(|case| Ok((*case, measure_on(ground, &server, &accounts, *case)?))).collect();
    server.stop(ground)?;
    runs
}

fn measure_on(
    ground: &Ground,
    server: &Server,
    accounts: &Arc<[String]>,
    case: Case,
) -> Result<CaseRun, Failure> {
    let wal_before = ground.wal_bytes()?;
    let watch = Watch::start(ground.postgres.postmaster_pid(), Some(server.pid));
    let outcome = case.load(ground, server, accounts)?;
    let conditions = watch.end();
    let wal = ground.wal_bytes()?.saturating_sub(wal_before);
    Ok(CaseRun {
        operations_per_s: per_second(outcome.operations, outcome.elapsed),
        p50_ms: percentile_ms(&outcome.latencies_us, 50),
        p99_ms: percentile_ms(&outcome.latencies_us, 99),
        refused: outcome.refused,
        statuses: outcome.statuses,
        commits: 0,
        entries_per_commit: 0.0,
        wal_bytes_each: divided(wal, outcome.operations),
        peak_memory_bytes: watch::peak_memory_bytes(server.pid),
        conditions,
    })
}
