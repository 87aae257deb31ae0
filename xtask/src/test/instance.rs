//! A live instance with demo data, in a database of its own on the throw-away Postgres.

use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use crate::failure::Failure;
use crate::process::{self, Beside};
use crate::test::Ground;
use crate::test::rust;

const START_PATIENCE: Duration = Duration::from_secs(60);
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
        let text = fs::read_to_string(&self.logins).map_err(Failure::io("read", &self.logins))?;
        let owner = find_login(&text, "admin").ok_or_else(|| self.malformed("no login of the role admin"))?;
        let mut create = daybook(&self.program, &self.database_url, ground);
        create.args(["key", "create", "schemathesis", "--json", "--owner", &owner]);
        for scope in ["accounts:write", "read", "usage:write", "grants:write", "refunds:write", "adjust"] {
            create.args(["--scope", scope]);
        }
        let answer = process::output_of(&mut create)?;
        let key: serde_json::Value =
            serde_json::from_str(&answer).map_err(|error| self.malformed(&error.to_string()))?;
        let bearer = key.get("key").and_then(serde_json::Value::as_str);
        bearer.map(str::to_owned).ok_or_else(|| self.malformed("key create --json printed no key"))
    }

    fn malformed(&self, reason: &str) -> Failure {
        Failure::Malformed { path: self.logins.clone(), reason: reason.to_owned() }
    }
}

fn daybook(program: &PathBuf, database_url: &str, ground: &Ground<'_>) -> Command {
    let mut command = process::command(program);
    command.current_dir(ground.workspace.root()).env("DATABASE_URL", database_url);
    for name in NO_SETTINGS {
        command.env_remove(name);
    }
    command
}

/// The e-mail of the demo login with this role, wherever in the file the list of logins is.
fn find_login(text: &str, role: &str) -> Option<String> {
    fn search(value: &serde_json::Value, role: &str) -> Option<String> {
        let own = value.get("role").and_then(serde_json::Value::as_str) == Some(role);
        let email = value.get("email").and_then(serde_json::Value::as_str);
        if let (true, Some(email)) = (own, email) {
            return Some(email.to_owned());
        }
        let (list, map) = (value.as_array(), value.as_object());
        list.and_then(|list| list.iter().find_map(|inner| search(inner, role)))
            .or_else(|| map.and_then(|map| map.values().find_map(|inner| search(inner, role))))
    }
    search(&serde_json::from_str(text).ok()?, role)
}

#[cfg(test)]
mod tests {
    use super::find_login;

    #[test]
    fn the_login_of_a_role_is_found() {
        let text = r#"{"logins":[{"role":"support","email":"s@x"},{"role":"admin","email":"a@x"}]}"#;
        assert_eq!(find_login(text, "admin"), Some("a@x".to_owned()));
        assert_eq!(find_login(text, "finance"), None);
    }
}
