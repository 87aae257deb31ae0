//! How many statements an operation costs, by Postgres's own count. Counting slows every statement, so it happens on a
//! Postgres of its own and never while something is measured.

use std::collections::BTreeMap;

use crate::bench::cases::Case;
use crate::bench::figures::divided;
use crate::bench::ground::{self, Ground};
use crate::failure::Failure;
use crate::workspace::Workspace;

const SECONDS: u64 = 3;
/// Statements listed for each case.
const LISTED: usize = 12;

/// The statements of one case.
#[derive(Debug, Clone, serde::Serialize)]
pub struct Statements {
    pub per_operation: f64,
    /// Those that took the most time in the database.
    pub longest: Vec<Statement>,
}

/// One statement, summed over a run.
#[derive(Debug, Clone, serde::Serialize)]
pub struct Statement {
    pub calls: u64,
    pub total_ms: f64,
    /// Its beginning.
    pub text: String,
}

/// `None` where this Postgres lacks the extension that counts.
pub fn count(workspace: &Workspace, cases: &[Case]) -> Result<Option<BTreeMap<Case, Statements>>, Failure> {
    let settings = [("shared_preload_libraries", "pg_stat_statements")];
    let Ok(ground) = Ground::start(workspace, SECONDS, &settings) else { return Ok(None) };
    let books = ground::prepare(&ground)?;
    ground.postgres.psql("postgres", "create extension if not exists pg_stat_statements")?;
    let server = ground.serve(ground::SEED, &books.bearer)?;
    let mut counted = BTreeMap::new();
    for case in cases {
        ground.postgres.psql("postgres", "select pg_stat_statements_reset()")?;
        let outcome = case.load(&ground, &server, &books.accounts)?;
        let calls = ground.number("postgres", &format!("select coalesce(sum(calls), 0) {FROM}"))?;
        let longest = longest(&ground)?;
        counted.insert(*case, Statements { per_operation: divided(calls, outcome.operations), longest });
    }
    server.stop(&ground)?;
    Ok(Some(counted))
}

const FROM: &str =
    "from pg_stat_statements where dbid = (select oid from pg_database where datname = 'daybook_seed')";

fn longest(ground: &Ground) -> Result<Vec<Statement>, Failure> {
    let text = ground.postgres.psql(
        "postgres",
        &format!(
            "select calls, round(total_exec_time::numeric, 1), left(regexp_replace(query, '\\s+', ' ', 'g'), 90) {FROM}
             order by total_exec_time desc limit {LISTED}"
        ),
    )?;
    let statement = |line: &str| {
        let mut fields = line.splitn(3, '|');
        Some(Statement {
            calls: fields.next()?.parse().ok()?,
            total_ms: fields.next()?.parse().ok()?,
            text: fields.next()?.to_owned(),
        })
    };
    Ok(text.lines().filter_map(statement).collect())
}
