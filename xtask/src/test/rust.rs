//! The tests that Cargo knows, against the throw-away Postgres.

use crate::failure::Failure;
use crate::test::{Figures, Ground};
use crate::workspace::cargo;
use crate::{prepare, process};

/// Builds the binary that tests start as a process of its own.
pub fn build(ground: &Ground<'_>) -> Result<(), Failure> {
    let mut build = process::command(cargo());
    process::run(build.current_dir(ground.workspace.root()).args(["build", "--quiet", "-p", "server"]))
}

/// Runs them by cargo-nextest, or by `cargo test` where that is not installed.
pub fn test(ground: &Ground<'_>) -> Result<(), Failure> {
    build(ground)?;
    let postgres = ground.postgres()?;
    let mut test = process::command(cargo());
    test.current_dir(ground.workspace.root());
    if prepare::has_nextest() {
        test.args(["nextest", "run", "--workspace"]);
        if ground.figures == Figures::Full {
            test.args(["--profile", "full"]);
        }
    } else {
        println!("cargo-nextest is not installed; cargo test runs the same tests.");
        test.args(["test", "--quiet", "--workspace"]);
    }
    test.args(ground.runner);
    // The database of the tests is empty while they are compiled: queries are checked against the committed cache.
    test.env("SQLX_OFFLINE", "true").env("DATABASE_URL", postgres.url()).env("DAYBOOK_BIN", ground.daybook());
    if ground.figures == Figures::Full {
        test.env("DAYBOOK_FULL", "1");
    }
    process::run(&mut test)
}
