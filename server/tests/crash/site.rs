//! A place to run servers at: a throw-away Postgres that keeps what it promises, a schema, and an API key.

use std::fs;
use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use daybook_postgres::{Cluster, Durability, Options, Running};
use serde_json::Value;

const OWNER: &str = "crash@example.org";
const PASSWORD: &str = "a long enough word for a test 1";

pub struct Site {
    pub postgres: Running,
    pub folder: PathBuf,
    pub bearer: String,
}

impl Site {
    pub fn new() -> Site {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        // After a crash Postgres syncs every file of its folder, one by one, for seconds. One call for all of them is as
        // safe here, and leaves the length of an outage to the storm.
        let options =
            Options::throw_away(Durability::Fsync).with_setting("recovery_init_sync_method", "syncfs");
        let postgres =
            Cluster::open_or_init(options).and_then(Cluster::start).expect("a throw-away Postgres starts");
        let name = format!("daybook-crash-{}-{}", std::process::id(), NUMBER.fetch_add(1, Ordering::Relaxed));
        let folder = std::env::temp_dir().join(name);
        fs::create_dir_all(&folder).expect("a folder can be made");
        let mut site = Site { postgres, folder, bearer: String::new() };
        for setting in ["fsync", "synchronous_commit", "full_page_writes"] {
            assert_eq!(
                site.sql(&format!("show {setting}")).trim(),
                "on",
                "{setting} of a Postgres that is to be killed"
            );
        }
        site.json(&["migrate", "--json"], "");
        site.json(&["user", "add", OWNER, "--role", "admin", "--password-stdin", "--json"], PASSWORD);
        let scopes = "accounts:write,read,usage:write,grants:write,refunds:write,adjust";
        let key = site.json(&["key", "create", "crash", "--owner", OWNER, "--scope", scopes, "--json"], "");
        site.bearer = key["key"].as_str().expect("key create prints the key").to_owned();
        site
    }

    /// The program with this site's database and nothing of the surrounding configuration.
    pub fn daybook(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_daybook"));
        let ours = ["DAYBOOK_", "LEPTOS_", "DATABASE_", "RUST_LOG"];
        for (name, _) in std::env::vars_os() {
            if name.to_str().is_some_and(|name| ours.iter().any(|start| name.starts_with(start))) {
                command.env_remove(name);
            }
        }
        command.args(args).current_dir(&self.folder).env("DATABASE_URL", self.postgres.url());
        command
    }

    fn json(&self, args: &[&str], input: &str) -> Value {
        let mut command = self.daybook(args);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("the program runs");
        // A command that does not read its input has closed it.
        drop(child.stdin.take().map(|mut stdin| stdin.write_all(input.as_bytes())));
        let output = child.wait_with_output().expect("the program ends");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "daybook {args:?}: {said}");
        serde_json::from_slice(&output.stdout).expect("with --json it prints JSON")
    }

    /// Runs SQL as the owner; the bare rows.
    pub fn sql(&self, statement: &str) -> String {
        self.postgres.psql("daybook", statement).expect("the statement runs")
    }

    /// What `daybook verify` finds wrong.
    pub fn verify(&self) -> Vec<String> {
        let output = self.daybook(&["verify", "--json"]).output().expect("the program runs");
        let found: Value = serde_json::from_slice(&output.stdout).unwrap_or(Value::Null);
        match (output.status.code(), found["clean"].as_bool()) {
            (Some(0), Some(true)) => Vec::new(),
            (code, _) => {
                vec![format!(
                    "verify ended with {code:?}: {found} {}",
                    String::from_utf8_lossy(&output.stderr)
                )]
            }
        }
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        // The logs of a failed test are worth keeping.
        if std::thread::panicking() {
            let kept = self.folder.join("postgres.log");
            drop(fs::copy(self.postgres.log_file(), kept));
            println!("logs are kept in {}", self.folder.display());
        } else {
            drop(fs::remove_dir_all(&self.folder));
        }
    }
}
