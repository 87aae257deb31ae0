//! Measures throughput and latency against the floors of the same Postgres.
//!
//! A ratio compares Daybook over HTTP (the release build) with the bare statement of `pgbench`, run just before and
//! just after it on the same throw-away Postgres with fsync on; server, Postgres and client share the machine. So it
//! says much more than an absolute figure, which is another on every machine.
//!
//! The rooms: `ground` is the Postgres with its prepared databases, `floors` the bare statements, `cases` Daybook under
//! load, `history` its reads of a long account, `statements` what Postgres counts, `watch` who used the machine,
//! `report` the result. The load generator is `load` (threads), `link` (one connection) and `scripts` (what is asked).
//! A new case is one variant of [`Case`], a script, and a line in the report.

mod cases;
mod figures;
mod floors;
mod ground;
mod history;
mod link;
mod load;
mod report;
mod scripts;
mod statements;
mod watch;

use clap::ValueEnum;

use crate::failure::Failure;
use crate::prepare;
use crate::process;
use crate::workspace::{Workspace, cargo};
use cases::Case;
use floors::{Floor, FloorRun};
use ground::{Books, Ground};
use report::{Report, Round};

/// How to measure and report.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// Print one JSON object instead of tables.
    #[arg(long)]
    pub json: bool,
    /// One round of 5 s each and a shorter history, to see roughly.
    #[arg(long)]
    quick: bool,
    /// Rounds of each case; ratios are medians [default: 3, or 1 with --quick].
    #[arg(long, value_name = "COUNT")]
    rounds: Option<usize>,
    /// Length of one run [default: 10, or 5 with --quick].
    #[arg(long, value_name = "SECONDS")]
    seconds: Option<u64>,
    /// Entries of the long account [default: 1000000, or 100000 with --quick].
    #[arg(long, value_name = "COUNT")]
    entries: Option<u64>,
    /// Measure this part alone; may be given several times.
    #[arg(long, value_name = "PART")]
    only: Vec<Part>,
    /// Measure the release build that is there, without building it first.
    #[arg(long)]
    no_build: bool,
}

/// What can be measured alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Part {
    Spread,
    Pair,
    Hot,
    Batch,
    Lone,
    /// Spread, hot and lone charges on an instance whose tables were never analysed.
    Fresh,
    /// Statements an operation costs, by Postgres's own count.
    Statements,
    /// Pages of history and the balance as of an instant of a long account.
    History,
}

/// The cases in the order in which they share floors.
const CASES: [(Part, Case); 5] = [
    (Part::Spread, Case::Spread),
    (Part::Pair, Case::Pair),
    (Part::Hot, Case::Hot),
    (Part::Batch, Case::Batch),
    (Part::Lone, Case::Lone),
];
const FRESH_CASES: [Case; 3] = [Case::Spread, Case::Hot, Case::Lone];

impl Arguments {
    fn wants(&self, part: Part) -> bool {
        self.only.is_empty() || self.only.contains(&part)
    }

    fn cases(&self) -> Vec<Case> {
        CASES.iter().filter(|(part, _)| self.wants(*part)).map(|(_, case)| *case).collect()
    }
}

/// Measures, then prints the report.
pub fn run(workspace: &Workspace, arguments: &Arguments) -> Result<(), Failure> {
    prepare::postgres()?;
    if !arguments.no_build {
        eprintln!("Building the server …");
        let mut build = process::command(cargo());
        build.current_dir(workspace.root()).args(["build", "--quiet", "--release", "-p", "server"]);
        process::run(&mut build)?;
    }
    let report = measure(workspace, arguments)?;
    if arguments.json {
        let text =
            serde_json::to_string_pretty(&report).map_err(|error| Failure::Check(error.to_string()))?;
        println!("{text}");
    } else {
        print!("{}", report.tables());
    }
    Ok(())
}

fn measure(workspace: &Workspace, arguments: &Arguments) -> Result<Report, Failure> {
    let (rounds, seconds, entries) = if arguments.quick { (1, 5, 100_000) } else { (3, 10, 1_000_000) };
    let mut report = Report::default();
    report.setting.rounds = arguments.rounds.unwrap_or(rounds).max(1);
    report.setting.seconds = arguments.seconds.unwrap_or(seconds).max(1);
    report.setting.load_average_before = watch::load_average();
    report.setting.processors = std::thread::available_parallelism().map_or(0, std::num::NonZero::get);
    {
        let ground = Ground::start(workspace, report.setting.seconds, &[])?;
        report.setting.postgres = ground.postgres.psql("postgres", "select version()")?.trim().to_owned();
        report.setting.postgres.truncate(report.setting.postgres.find(" on ").unwrap_or(usize::MAX));
        eprintln!("Preparing the databases …");
        floors::prepare(&ground)?;
        let books = ground::prepare(&ground)?;
        for round in 1..=report.setting.rounds {
            eprintln!("Round {round} of {}", report.setting.rounds);
            measure_round(&ground, &books, &arguments.cases(), &mut report)?;
        }
        if arguments.wants(Part::Fresh) {
            eprintln!("An instance that was never analysed …");
            report.fresh = cases::measure_fresh(&ground, &FRESH_CASES)?;
        }
        if arguments.wants(Part::History) {
            let entries = arguments.entries.unwrap_or(entries);
            eprintln!("An account with {entries} entries …");
            report.history = Some(history::measure(&ground, &books, entries)?);
        }
    }
    if arguments.wants(Part::Statements) {
        eprintln!("Counting statements on a Postgres of their own …");
        report.statements = statements::count(workspace, &CASES.map(|(_, case)| case))?;
    }
    report.conclude();
    Ok(report)
}

/// Floor, case, floor; a floor between two cases that share it serves both.
fn measure_round(ground: &Ground, books: &Books, cases: &[Case], report: &mut Report) -> Result<(), Failure> {
    let mut last: Option<FloorRun> = None;
    for case in cases {
        let before = match last.take().filter(|run| run.floor == case.floor()) {
            Some(run) => run,
            None => floor(ground, case.floor())?,
        };
        process::not_interrupted()?;
        let daybook = cases::measure(ground, books, *case)?;
        let after = floor(ground, case.floor())?;
        last = Some(after.clone());
        let round = Round::new(*case, daybook, before, after);
        eprintln!(
            "  {case:?}: {:.0}/s, p50 {:.2} ms, p99 {:.2} ms, ratio {:.2}{}",
            round.daybook.operations_per_s,
            round.daybook.p50_ms,
            round.daybook.p99_ms,
            round.ratio,
            if round.daybook.conditions.disturbed { " (disturbed)" } else { "" }
        );
        report.rounds.entry(*case).or_default().push(round);
    }
    Ok(())
}

fn floor(ground: &Ground, floor: Floor) -> Result<FloorRun, Failure> {
    let run = floors::measure(ground, floor)?;
    let disturbed = if run.conditions.disturbed { " (disturbed)" } else { "" };
    eprintln!("  floor {floor:?}: {:.0}/s{disturbed}", run.per_s);
    Ok(run)
}
