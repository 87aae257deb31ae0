//! A live instance with demo data, in a database of its own on the throw-away Postgres.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use serde_json::Value;

use crate::failure::Failure;
use crate::process::{self, Beside};
use crate::test::Ground;
use crate::test::rust;

const START_PATIENCE: Duration = Duration::from_secs(60);
const SCOPES: &str = "accounts:write,read,usage:write,grants:write,refunds:write,adjust";
/// Names that tests and tools use; the server would take them for settings.
const NO_SETTINGS: &[&str] =
    &["DAYBOOK_FULL", "DAYBOOK_BIN", "DAYBOOK_URL", "DAYBOOK_LOGINS", "DAYBOOK_CHROMIUM"];

/// A server that answers until this is dropped.
#[derive(Debug)]
pub struct Instance {
    /// Such as `http://127.0.0.1:40123`.
    pub url: String,
    /// What `daybook demo --json` wrote.
    pub logins: PathBuf,
    program: PathBuf,
    database_url: String,
    _server: Beside,
}

impl Instance {
    /// Makes the database, loads the demo data and serves.
    pub fn start(ground: &Ground<'_>, database: &str) -> Result<Self, Failure> {
        rust::build(ground)?;
        let postgres = ground.postgres()?;
        postgres.create_database(database)?;
        let (program, database_url) = (ground.daybook(), postgres.url_for(database));
        let folder = ground.workspace.target("instance").join(database);
        fs::create_dir_all(&folder).map_err(Failure::io("create", &folder))?;
        let daybook = || daybook(&program, &database_url, ground);

        process::run(daybook().arg("migrate"))?;
        let logins = folder.join("logins.json");
        let demo = process::output_of(daybook().args(["demo", "--json"]))?;
        fs::write(&logins, demo).map_err(Failure::io("write", &logins))?;

        let port = process::free_port()?;
        let log_path = folder.join("server.log");
        let log = fs::File::create(&log_path).map_err(Failure::io("create", &log_path))?;
        let errors = log.try_clone().map_err(Failure::io("share", &log_path))?;
        let mut serve = daybook();
        serve.arg("serve").arg("--addr").arg(format!("127.0.0.1:{port}")).stdout(log).stderr(errors);
        println!("serving on port {port}; its log is {}", log_path.display());
        let mut server = Beside::start(&mut serve)?;
        server.wait_answering(port, START_PATIENCE)?;
        Ok(Self { url: format!("http://127.0.0.1:{port}"), logins, program, database_url, _server: server })
    }

    /// Makes an API key with every scope for the demo's admin and answers what `Authorization: Bearer` takes.
    pub fn api_key(&self, ground: &Ground<'_>) -> Result<String, Failure> {
        let demo = self.demo()?;
        let logins = demo.get("logins").and_then(Value::as_array).into_iter().flatten();
        let is_admin = |login: &&Value| login.get("role").and_then(Value::as_str) == Some("admin");
        let owner = logins.filter(is_admin).find_map(|login| login.get("email")?.as_str());
        let owner = owner.ok_or_else(|| self.malformed("no login of the role admin"))?;
        let mut create = daybook(&self.program, &self.database_url, ground);
        create.args(["key", "create", "schemathesis", "--json", "--owner", owner, "--scope", SCOPES]);
        let answer = process::output_of(&mut create)?;
        let key: Value = serde_json::from_str(&answer).map_err(|error| self.malformed(&error.to_string()))?;
        let bearer = key.get("key").and_then(Value::as_str);
        bearer.map(str::to_owned).ok_or_else(|| self.malformed("key create --json printed no key"))
    }

    /// The id of one of the demo's accounts.
    pub fn account(&self) -> Result<String, Failure> {
        let demo = self.demo()?;
        let id = demo.pointer("/accounts/0/id").and_then(Value::as_str);
        id.map(str::to_owned).ok_or_else(|| self.malformed("no account"))
    }

    fn demo(&self) -> Result<Value, Failure> {
        let text = fs::read_to_string(&self.logins).map_err(Failure::io("read", &self.logins))?;
        serde_json::from_str(&text).map_err(|error| self.malformed(&error.to_string()))
    }

    fn malformed(&self, reason: &str) -> Failure {
        Failure::Malformed { path: self.logins.clone(), reason: reason.to_owned() }
    }
}

fn daybook(program: &Path, database_url: &str, ground: &Ground<'_>) -> Command {
    let mut command = process::command(program);
    command.current_dir(ground.workspace.root()).env("DATABASE_URL", database_url);
    for name in NO_SETTINGS {
        command.env_remove(name);
    }
    command
}
