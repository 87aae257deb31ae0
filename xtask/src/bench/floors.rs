//! The floors: what Postgres itself does with the bare statement, measured by `pgbench`.
//!
//! The tables are as small as a ledger's can be: a balance that is updated in place, and a journal row with three
//! index entries, one of them a unique key. No second side of the entry, no hold, no stored answer.

use std::fs;
use std::path::Path;

use crate::bench::figures::{divided, scaled};
use crate::bench::ground::{ACCOUNTS, Ground};
use crate::bench::watch::{Conditions, Watch};
use crate::failure::Failure;
use crate::process;

/// The prepared database of the floors.
pub const SEED: &str = "floor_seed";
const RUN: &str = "floor_run";
const BATCH: usize = 64;

/// A bare statement, and how many clients send it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Floor {
    /// Any of 10,000 accounts, 32 clients.
    Spread,
    /// One account, 32 clients.
    Hot,
    /// 64 accounts in one statement, 32 clients.
    Batch,
    /// Any of 10,000 accounts, one client.
    Lone,
}

/// What one run of a floor came to.
#[derive(Debug, Clone, serde::Serialize)]
pub struct FloorRun {
    pub floor: Floor,
    /// Accounts charged, or for one client statements, a second.
    pub per_s: f64,
    pub wal_bytes_each: f64,
    #[serde(flatten)]
    pub conditions: Conditions,
}

impl Floor {
    pub const ALL: [Self; 4] = [Self::Spread, Self::Hot, Self::Batch, Self::Lone];

    fn name(self) -> &'static str {
        match self {
            Self::Spread => "spread",
            Self::Hot => "hot",
            Self::Batch => "batch",
            Self::Lone => "lone",
        }
    }

    fn clients(self) -> &'static str {
        if self == Self::Lone { "1" } else { "32" }
    }

    fn threads(self) -> &'static str {
        if self == Self::Lone { "1" } else { "2" }
    }

    fn script(self) -> String {
        let one = "with paid as (
    update accounts set balance = balance - 1 where id = :a and balance >= 1 returning id, balance
)
insert into journal (account_id, job, kind, amount, balance_after)
select id, gen_random_uuid(), 1, 1, balance from paid;
";
        match self {
            Self::Spread | Self::Lone => format!("\\set a random(1, {ACCOUNTS})\n{one}"),
            Self::Hot => format!("\\set a 1\n{one}"),
            Self::Batch => batch_script(),
        }
    }
}

fn batch_script() -> String {
    let draws: String =
        (1..=BATCH).map(|number| format!("\\set a{number} random(1, {ACCOUNTS})\n")).collect();
    let names: Vec<String> = (1..=BATCH).map(|number| format!(":a{number}")).collect();
    format!(
        "{draws}with locked as (
    select id from accounts where id = any(array[{}]::bigint[]) order by id for no key update
), paid as (
    update accounts a set balance = a.balance - 1 from locked where a.id = locked.id and a.balance >= 1
    returning a.id, a.balance
)
insert into journal (account_id, job, kind, amount, balance_after)
select id, gen_random_uuid(), 1, 1, balance from paid;
",
        names.join(", ")
    )
}

/// Makes the prepared database and the scripts.
pub fn prepare(ground: &Ground) -> Result<(), Failure> {
    ground.postgres.create_database(SEED)?;
    ground.postgres.psql(
        SEED,
        &format!(
            "create table accounts (id bigint primary key, balance numeric(20, 6) not null) with (fillfactor = 60);
             create table journal (
                 id bigint generated always as identity primary key,
                 account_id bigint not null,
                 job uuid not null,
                 kind smallint not null,
                 amount numeric(20, 6) not null,
                 balance_after numeric(20, 6) not null,
                 at timestamptz not null default now(),
                 unique (job, kind)
             );
             create index on journal (account_id);
             insert into accounts select n, 1000000000 from generate_series(1, {ACCOUNTS}) n;"
        ),
    )?;
    ground.settle(SEED)?;
    for floor in Floor::ALL {
        let path = script_path(&ground.folder, floor);
        fs::write(&path, floor.script()).map_err(Failure::io("write", &path))?;
    }
    Ok(())
}

fn script_path(folder: &Path, floor: Floor) -> std::path::PathBuf {
    folder.join(format!("floor-{}.sql", floor.name()))
}

/// Measures a floor on a fresh copy of the prepared database.
pub fn measure(ground: &Ground, floor: Floor) -> Result<FloorRun, Failure> {
    ground.copy(SEED, RUN)?;
    let wal_before = ground.wal_bytes()?;
    let watch = Watch::start(ground.postgres.postmaster_pid(), None);
    let mut command = process::command(ground.postgres.binaries().program("pgbench"));
    command.args(["-n", "-M", "prepared", "-c", floor.clients(), "-j", floor.threads(), "-T"]);
    command.arg(ground.seconds.to_string()).arg("-f").arg(script_path(&ground.folder, floor));
    command.arg(ground.postgres.url_for(RUN));
    let text = process::output_of(&mut command)?;
    let conditions = watch.end();
    let unread = || Failure::Check(format!("the answer of pgbench was not understood:\n{text}"));
    let transactions_per_s = number_after(&text, "tps = ").ok_or_else(unread)?;
    let transactions =
        number_after(&text, "number of transactions actually processed: ").ok_or_else(unread)?;
    let rows = ground.number(RUN, "select count(*) from journal")?;
    let wal = ground.wal_bytes()?.saturating_sub(wal_before);
    Ok(FloorRun {
        floor,
        per_s: scaled(transactions_per_s, rows, transactions),
        wal_bytes_each: divided(wal, rows),
        conditions,
    })
}

fn number_after(text: &str, mark: &str) -> Option<f64> {
    let rest = &text[text.find(mark)? + mark.len()..];
    rest.split(|c: char| !c.is_ascii_digit() && c != '.').next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::{Floor, number_after};

    #[test]
    fn figures_of_pgbench_are_read() {
        let text = "number of transactions actually processed: 9846\nnumber of failed transactions: 0 (0.000%)\n\
                    tps = 3284.105 (without initial connection time)\n";
        assert_eq!(number_after(text, "tps = "), Some(3284.105));
        assert_eq!(number_after(text, "number of transactions actually processed: "), Some(9846.0));
        assert_eq!(number_after(text, "nothing"), None);
    }

    #[test]
    fn a_batch_names_its_accounts_and_locks_them_in_order() {
        let script = Floor::Batch.script();
        assert_eq!(script.matches("\\set").count(), 64);
        assert!(script.contains(":a64]") && script.contains("order by id for no key update"));
    }
}
