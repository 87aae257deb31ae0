//! What all measurements share: one Postgres, prepared databases, and servers on copies of them.

use std::fs::{self, File};
use std::path::PathBuf;
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use daybook_postgres::{Cluster, Durability, Options, Running};

use crate::bench::load::{self, Load, Outcome, Script};
use crate::bench::scripts::{Caller, Fundings, Openings};
use crate::failure::Failure;
use crate::process::{self, Beside};
use crate::workspace::Workspace;

/// Accounts that the spread runs draw from.
pub const ACCOUNTS: usize = 10_000;
/// Daybook's prepared database.
pub const SEED: &str = "daybook_seed";
const CONNECTIONS: usize = 256;
const THREADS: usize = 2;
const OWNER: &str = "bench@example.org";
const START_PATIENCE: Duration = Duration::from_secs(60);
/// How long sessions that were closed may linger.
const LEAVE_PATIENCE: Duration = Duration::from_secs(10);

/// One Postgres and how long to measure.
#[derive(Debug)]
pub struct Ground {
    pub postgres: Running,
    pub folder: PathBuf,
    /// Length of one run.
    pub seconds: u64,
    root: PathBuf,
    program: PathBuf,
}

/// A server that answers, and what its callers need.
#[derive(Debug)]
pub struct Server {
    pub pid: u32,
    pub database: String,
    port: u16,
    bearer: String,
    process: Beside,
}

/// A database with accounts.
#[derive(Debug, Clone)]
pub struct Books {
    pub bearer: String,
    pub accounts: Arc<[String]>,
}

impl Ground {
    /// Starts a throw-away Postgres that really waits for its disk. `settings` come on top.
    pub fn start(workspace: &Workspace, seconds: u64, settings: &[(&str, &str)]) -> Result<Self, Failure> {
        let folder = workspace.target("bench");
        fs::create_dir_all(&folder).map_err(Failure::io("create", &folder))?;
        let mut options = Options::throw_away(Durability::Fsync).with_setting("shared_buffers", "1GB");
        for (name, value) in settings {
            options = options.with_setting(name, value);
        }
        Ok(Self {
            postgres: Cluster::open_or_init(options)?.start()?,
            folder,
            seconds,
            root: workspace.root().to_path_buf(),
            program: workspace.target("release").join("daybook"),
        })
    }

    pub fn duration(&self) -> Duration {
        Duration::from_secs(self.seconds)
    }

    /// One number out of the database.
    pub fn number(&self, database: &str, sql: &str) -> Result<u64, Failure> {
        let text = self.postgres.psql(database, sql)?;
        let unread = || Failure::Check(format!("`{sql}` answered {text:?}"));
        text.trim().parse().map_err(|_| unread())
    }

    pub fn commits(&self, database: &str) -> Result<u64, Failure> {
        self.number(
            "postgres",
            &format!("select xact_commit from pg_stat_database where datname = '{database}'"),
        )
    }

    pub fn wal_bytes(&self) -> Result<u64, Failure> {
        self.number("postgres", "select pg_wal_lsn_diff(pg_current_wal_insert_lsn(), '0/0')::bigint")
    }

    /// Cleans up, takes statistics and waits for the disk.
    pub fn settle(&self, database: &str) -> Result<(), Failure> {
        self.postgres.psql(database, "vacuum analyze")?;
        self.postgres.psql(database, "checkpoint")?;
        Ok(())
    }

    /// Makes `to` a fresh copy of `from`, on disk.
    pub fn copy(&self, from: &str, to: &str) -> Result<(), Failure> {
        self.postgres.psql("postgres", &format!("drop database if exists {to} with (force)"))?;
        self.wait_unused(from)?;
        self.postgres.psql("postgres", &format!("create database {to} template {from}"))?;
        self.postgres.psql("postgres", "checkpoint")?;
        Ok(())
    }

    /// A database in use cannot be copied, and its counts are not whole yet.
    pub fn wait_unused(&self, database: &str) -> Result<(), Failure> {
        let sql = format!("select count(*) from pg_stat_activity where datname = '{database}'");
        let deadline = Instant::now() + LEAVE_PATIENCE;
        while self.number("postgres", &sql)? > 0 && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(50));
        }
        Ok(())
    }

    /// Makes a database with Daybook's schema and an API key that may do everything, and answers with the key.
    pub fn migrate(&self, database: &str) -> Result<String, Failure> {
        self.postgres.create_database(database)?;
        process::output_of(self.daybook(database).arg("migrate"))?;
        process::output_of(self.daybook(database).args(["user", "add", OWNER, "--role", "admin", "--json"]))?;
        let mut create = self.daybook(database);
        create.args(["key", "create", "bench", "--json", "--owner", OWNER]);
        for scope in ["accounts:write", "read", "usage:write", "grants:write"] {
            create.args(["--scope", scope]);
        }
        let answer = process::output_of(&mut create)?;
        let key = serde_json::from_str::<serde_json::Value>(&answer).ok();
        let bearer = key.as_ref().and_then(|key| key.get("key")).and_then(serde_json::Value::as_str);
        bearer.map(str::to_owned).ok_or_else(|| Failure::Check("key create --json printed no key".to_owned()))
    }

    /// Serves a database.
    pub fn serve(&self, database: &str, bearer: &str) -> Result<Server, Failure> {
        let port = process::free_port()?;
        let log_path = self.folder.join("server.log");
        let log = File::options().create(true).append(true).open(&log_path);
        let log = log.map_err(Failure::io("open", &log_path))?;
        let errors = log.try_clone().map_err(Failure::io("share", &log_path))?;
        let mut serve = self.daybook(database);
        serve.args(["serve", "--addr", &format!("127.0.0.1:{port}")]).stdout(log).stderr(errors);
        let mut process = Beside::start(&mut serve)?;
        process.wait_answering(port, START_PATIENCE)?;
        let (database, bearer) = (database.to_owned(), bearer.to_owned());
        Ok(Server { pid: process.id(), database, port, bearer, process })
    }

    fn daybook(&self, database: &str) -> Command {
        let mut command = process::command(&self.program);
        for (name, _) in std::env::vars_os() {
            let text = name.to_string_lossy();
            if text.starts_with("DAYBOOK_") || text.starts_with("LEPTOS_") || text.starts_with("DATABASE_") {
                command.env_remove(&name);
            }
        }
        command.current_dir(&self.root).env("DATABASE_URL", self.postgres.url_for(database));
        command.env("RUST_LOG", "warn");
        command
    }
}

impl Server {
    /// A caller of its own name, so that no two use the same idempotency key.
    pub fn caller(&self, name: &str) -> Caller {
        Caller::new(&format!("127.0.0.1:{}", self.port), &self.bearer, name.to_owned())
    }

    pub fn address(&self) -> std::net::SocketAddr {
        ([127, 0, 0, 1], self.port).into()
    }

    pub fn load<S: Script>(
        &self,
        connections: usize,
        duration: Option<Duration>,
        make: impl Fn(usize) -> S,
    ) -> Result<(Outcome, Vec<S>), Failure> {
        load::run(Load { address: self.address(), threads: THREADS, connections, duration }, make)
    }

    /// Opens accounts through the API and gives them funds.
    pub fn open_accounts(&self, count: usize) -> Result<Arc<[String]>, Failure> {
        let share = count.div_ceil(THREADS);
        let (outcome, scripts) = self.load(CONNECTIONS, None, |thread| {
            let numbers = (thread * share).min(count)..((thread + 1) * share).min(count);
            Openings::new(self.caller(&format!("open-{thread}")), numbers)
        })?;
        all_done("opening accounts", &outcome, count)?;
        let accounts: Vec<String> = scripts.into_iter().flat_map(|script| script.opened).collect();
        let accounts: Arc<[String]> = accounts.into();
        let load = Load { address: self.address(), threads: 1, connections: 8, duration: None };
        let (outcome, _) = load::run(load, |_| Fundings::new(self.caller("fund"), &accounts))?;
        all_done("funding accounts", &outcome, count)?;
        Ok(accounts)
    }

    /// Stops it and waits until its sessions have left, since they report what they did when they go.
    pub fn stop(self, ground: &Ground) -> Result<(), Failure> {
        let Self { process, database, .. } = self;
        drop(process);
        ground.wait_unused(&database)
    }
}

fn all_done(what: &str, outcome: &Outcome, count: usize) -> Result<(), Failure> {
    if usize::try_from(outcome.operations).is_ok_and(|done| done == count) {
        return Ok(());
    }
    Err(Failure::Check(format!(
        "{what}: {} of {count} were done; statuses {:?}",
        outcome.operations, outcome.statuses
    )))
}

/// Prepares Daybook's database: accounts opened and funded through the API, statistics taken.
pub fn prepare(ground: &Ground) -> Result<Books, Failure> {
    let bearer = ground.migrate(SEED)?;
    let server = ground.serve(SEED, &bearer)?;
    let accounts = server.open_accounts(ACCOUNTS)?;
    server.stop(ground)?;
    ground.settle(SEED)?;
    Ok(Books { bearer, accounts })
}
