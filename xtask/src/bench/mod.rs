//! Measures throughput and latency against the floors of the same Postgres.
//!
//! The figures come from one run: floors by `pgbench` and Daybook over HTTP on the same throw-away server with fsync
//! on (`daybook_postgres::Options::throw_away(Durability::Fsync)`; `running.binaries().program("pgbench")`).

use crate::failure::Failure;
use crate::workspace::Workspace;

/// How to measure and report.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// Print one JSON object instead of tables.
    #[arg(long)]
    pub json: bool,
}

/// Measures, then prints the report.
pub fn run(_workspace: &Workspace, arguments: &Arguments) -> Result<(), Failure> {
    let form = if arguments.json { "JSON" } else { "tables" };
    Err(Failure::Check(format!("the benchmark is not there yet (asked for {form})")))
}
