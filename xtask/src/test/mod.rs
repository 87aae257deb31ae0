//! `cargo xtask test`: everything that CI runs, stage by stage, on a throw-away Postgres.
//!
//! A new stage is one variant of [`Stage`], one line in [`perform`] and one file. Stages that need a live instance ask
//! [`Ground`] for what they share; nothing is started for stages that are not asked for.

mod api;
mod browser;
mod instance;
mod rust;
mod timing;
mod weight;

use std::cell::OnceCell;
use std::ffi::OsString;
use std::path::PathBuf;

use clap::ValueEnum;
use daybook_postgres::{Cluster, Durability, Options, Running};

use crate::failure::Failure;
use crate::workspace::Workspace;
use crate::{assets, check, prepare, process, sqlx_cache};
use timing::Timing;

/// What to run.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// The full figures of a release: more histories, more crashes, more generated requests.
    #[arg(long)]
    full: bool,
    /// Run this stage alone; may be given several times.
    #[arg(long, value_name = "STAGE")]
    only: Vec<Stage>,
    /// Go on after a stage that fails, and fail at the end.
    #[arg(long)]
    keep_going: bool,
    /// More arguments for the test runner of the stage `rust`, after `--`.
    #[arg(last = true)]
    runner: Vec<OsString>,
}

/// The parts of a run, in their order: what fails fast comes first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Stage {
    /// rustfmt.
    Format,
    /// clippy over the server half and all tests.
    Lint,
    /// clippy over the browser half.
    LintBrowser,
    /// The committed query cache against the migrations; in the full run.
    Sqlx,
    /// wasm, JS, CSS.
    Assets,
    /// Sizes of what the browser loads.
    Weight,
    /// The binary that the later stages use.
    Build,
    /// Unit, property, database and HTTP tests.
    Rust,
    /// Playwright, with script and without.
    Browser,
    /// schemathesis against a live instance.
    Api,
}

/// How big the figures are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Figures {
    /// Minutes, on every change.
    Small,
    /// Before a release.
    Full,
}

/// What stages share.
#[derive(Debug)]
pub struct Ground<'a> {
    workspace: &'a Workspace,
    figures: Figures,
    runner: &'a [OsString],
    postgres: OnceCell<Running>,
}

impl Ground<'_> {
    /// The throw-away Postgres, started by the first stage that needs it. Crash tests rely on its fsync.
    fn postgres(&self) -> Result<&Running, Failure> {
        if let Some(running) = self.postgres.get() {
            return Ok(running);
        }
        prepare::postgres()?;
        let running = Cluster::open_or_init(Options::throw_away(Durability::Fsync))?.start()?;
        Ok(self.postgres.get_or_init(|| running))
    }

    /// The binary under test.
    fn daybook(&self) -> PathBuf {
        self.workspace.target("debug").join("daybook")
    }
}

/// Runs the stages and prints how long each took.
pub fn run(workspace: &Workspace, arguments: &Arguments) -> Result<(), Failure> {
    let figures = if arguments.full { Figures::Full } else { Figures::Small };
    let ground = Ground { workspace, figures, runner: &arguments.runner, postgres: OnceCell::new() };
    let mut timing = Timing::default();
    let mut failures = Vec::new();
    for stage in stages(arguments, figures) {
        let name = stage.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default();
        println!("\n== {name} ==");
        let result = timing.measure(&name, || perform(stage, &ground));
        process::not_interrupted()?;
        if let Err(failure) = result {
            eprintln!("{name}: {failure}");
            failures.push(name);
            if !arguments.keep_going {
                break;
            }
        }
    }
    timing.print();
    if failures.is_empty() { Ok(()) } else { Err(Failure::Check(format!("failed: {}", failures.join(", ")))) }
}

fn stages(arguments: &Arguments, figures: Figures) -> Vec<Stage> {
    if !arguments.only.is_empty() {
        return arguments.only.clone();
    }
    Stage::value_variants()
        .iter()
        .copied()
        .filter(|stage| figures == Figures::Full || *stage != Stage::Sqlx)
        .collect()
}

fn perform(stage: Stage, ground: &Ground<'_>) -> Result<(), Failure> {
    match stage {
        Stage::Format => check::format(ground.workspace),
        Stage::Lint => check::lint(ground.workspace),
        Stage::LintBrowser => check::lint_browser_half(ground.workspace),
        Stage::Sqlx => sqlx_cache::check(ground.workspace),
        Stage::Assets => assets::build(ground.workspace).map(|_| ()),
        Stage::Weight => weight::check(ground.workspace),
        Stage::Build => rust::build(ground),
        Stage::Rust => rust::test(ground),
        Stage::Browser => browser::test(ground),
        Stage::Api => api::test(ground),
    }
}
