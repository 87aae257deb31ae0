//! The command line: one file for each command, each with its arguments, its help and its verb.
//!
//! To add a command: a file with an `Args` struct and `run`, a variant of [`Command`], a line in [`dispatch`], and a
//! test in `server/tests`. A command prints its result through [`output`] and ends with an [`Exit`]; what goes wrong is
//! a [`Failure`] that says what to do.

mod account;
mod demo;
mod drive;
mod erase;
mod export;
mod failure;
mod instance;
mod key;
mod migrate;
mod output;
mod policy;
mod purge;
mod quota;
mod serve;
mod signals;
mod user;
mod verify;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, Parser, Subcommand};

use failure::{Exit, Failure};

const EXIT_CODES: &str = "\
Exit codes:
  0    done
  1    failed; two lines on standard error say what happened and what to do
  2    the command line is wrong
  3    the command worked, and what it looked at is broken (verify, drive)
  130  interrupted

Without DATABASE_URL every command uses a private Postgres of its own under .daybook/, started when needed.";

/// A prepaid-credits ledger: server, upkeep and trials.
#[derive(Parser)]
#[command(name = "daybook", version, after_help = EXIT_CODES, arg_required_else_help = true, propagate_version = true)]
struct Cli {
    #[command(flatten)]
    common: Common,
    #[command(subcommand)]
    command: Command,
}

/// What every command takes.
#[derive(Args, Clone, Debug)]
pub struct Common {
    /// The configuration file [default: Leptos.toml if it is there]
    #[arg(long, global = true, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// The Postgres to use, instead of DATABASE_URL or a private one
    #[arg(long, global = true, value_name = "URL", value_parser = clap::builder::NonEmptyStringValueParser::new())]
    pub database_url: Option<String>,
}

#[derive(Subcommand)]
enum Command {
    /// Serve the HTTP API and the web pages
    Serve(serve::Args),
    /// Bring the database to this version's schema
    Migrate(migrate::Args),
    /// Add and change the people who may sign in
    #[command(subcommand)]
    User(user::Command),
    /// Make, list and revoke API keys
    #[command(subcommand)]
    Key(key::Command),
    /// Show and change policies: named sets of rules that accounts point at
    #[command(subcommand)]
    Policy(policy::Command),
    /// Set and remove quotas of members and keys
    #[command(subcommand)]
    Quota(quota::Command),
    /// Show an account; change its state or policy
    #[command(subcommand)]
    Account(account::Command),
    /// Recompute the whole journal and name the first row that is wrong
    Verify(verify::Args),
    /// Delete one account's journal for good, leaving a tombstone
    Purge(purge::Args),
    /// Erase the words that name people from one account, and close it out
    Erase(erase::Args),
    /// Write the journal, or the heads of its chains, to a file or standard output
    Export(export::Args),
    /// Load demo data into an empty database: four logins, two customers
    Demo(demo::Args),
    /// Send a trace of real calls through the HTTP API and check the sum
    Drive(drive::Args),
}

/// Parses the command line, runs the command, and turns its end into an exit code.
pub fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            // A closed terminal is no reason to fail differently.
            drop(error.print());
            return if error.use_stderr() { Exit::Usage.into() } else { Exit::Ok.into() };
        }
    };
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            return report(&Failure::new(
                format!("no threads can be started: {error}"),
                "check the limits of this user",
            ));
        }
    };
    let ended = runtime.block_on(until_interrupted(cli));
    // Threads of a run that was interrupted see it at their next request; they are not worth waiting for.
    runtime.shutdown_timeout(Duration::from_secs(2));
    match ended {
        Ok(exit) => exit.into(),
        Err(failure) => report(&failure),
    }
}

fn report(failure: &Failure) -> ExitCode {
    if failure.exit != Exit::Ok {
        output::note(&failure.to_string());
    }
    failure.exit.into()
}

async fn until_interrupted(cli: Cli) -> Result<Exit, Failure> {
    // `serve` answers signals itself: it drains first.
    if let Command::Serve(args) = cli.command {
        return serve::run(args, &cli.common).await;
    }
    instance::log_warnings();
    tokio::select! {
        ended = Box::pin(dispatch(cli.command, &cli.common)) => ended,
        () = signals::stop() => Err(Failure::interrupted()),
    }
}

async fn dispatch(command: Command, common: &Common) -> Result<Exit, Failure> {
    match command {
        Command::Serve(args) => serve::run(args, common).await,
        Command::Migrate(args) => migrate::run(args, common).await,
        Command::User(command) => user::run(command, common).await,
        Command::Key(command) => key::run(command, common).await,
        Command::Policy(command) => policy::run(command, common).await,
        Command::Quota(command) => quota::run(command, common).await,
        Command::Account(command) => account::run(command, common).await,
        Command::Verify(args) => verify::run(args, common).await,
        Command::Purge(args) => purge::run(args, common).await,
        Command::Erase(args) => erase::run(args, common).await,
        Command::Export(args) => export::run(args, common).await,
        Command::Demo(args) => demo::run(args, common).await,
        Command::Drive(args) => drive::run(args, common).await,
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_definition_of_the_command_line_is_sound() {
        Cli::command().debug_assert();
    }
}
