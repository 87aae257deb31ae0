//! Build and developer commands: `cargo xtask --help` lists them.
//!
//! The rooms: `assets` makes what a browser loads, `prepare` brings what a machine lacks, `stage`s of `test` are what
//! CI runs, `sqlx_cache` fills the committed cache of checked queries, `bench` measures. A new command is one variant
//! of [`Task`] and one room.

mod assets;
mod bench;
mod check;
mod failure;
mod prepare;
mod process;
mod run;
mod sqlx_cache;
mod test;
mod workspace;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::failure::Failure;
use crate::workspace::Workspace;

#[derive(Debug, Parser)]
#[command(
    name = "cargo xtask",
    about = "Build and developer commands of Daybook.",
    disable_help_subcommand = true
)]
struct Arguments {
    #[command(subcommand)]
    task: Task,
}

#[derive(Debug, Subcommand)]
enum Task {
    /// Prepare what is missing, build everything and serve it with demo data on http://127.0.0.1:3000.
    Run(run::Arguments),
    /// Build what a browser loads (wasm, JS, CSS, public files) into target/site.
    Assets(assets::Arguments),
    /// Everything that CI runs, on a throw-away Postgres.
    Test(test::Arguments),
    /// Format and lints only.
    Check,
    /// Fill the committed cache of checked SQL queries (.sqlx) from the migrations.
    Sqlx(sqlx_cache::Arguments),
    /// Measure throughput and latency against the floors of the same Postgres.
    Bench(bench::Arguments),
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    match perform(&arguments.task) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("\nxtask: {failure}");
            failure.exit_code()
        }
    }
}

fn perform(task: &Task) -> Result<(), Failure> {
    let workspace = Workspace::find()?;
    match task {
        Task::Run(arguments) => run::run(&workspace, arguments),
        Task::Assets(arguments) => assets::run(&workspace, arguments),
        Task::Test(arguments) => test::run(&workspace, arguments),
        Task::Check => check::run(&workspace),
        Task::Sqlx(arguments) => sqlx_cache::run(&workspace, arguments),
        Task::Bench(arguments) => bench::run(&workspace, arguments),
    }
}
