//! The command line, run as a program against a database of its own: what it prints, how it ends, what it leaves.

use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use serde_json::Value;
use sqlx::{AssertSqlSafe, Connection, PgConnection};

/// The Postgres of these tests: the one that DATABASE_URL names, else a throw-away one.
fn cluster_url() -> String {
    static PRIVATE: OnceLock<daybook_postgres::Running> = OnceLock::new();
    if let Ok(url) = std::env::var("DATABASE_URL") {
        return url;
    }
    let start = || {
        let options = daybook_postgres::Options::throw_away(daybook_postgres::Durability::NoFsync);
        daybook_postgres::Cluster::open_or_init(options).unwrap().start().unwrap()
    };
    PRIVATE.get_or_init(start).url()
}

fn sql(url: &str, statement: &str) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let mut connection = PgConnection::connect(url).await.unwrap();
        sqlx::raw_sql(AssertSqlSafe(statement.to_owned())).execute(&mut connection).await.unwrap();
    });
}

fn number(url: &str, query: &str) -> i64 {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let mut connection = PgConnection::connect(url).await.unwrap();
        sqlx::query_scalar(AssertSqlSafe(query.to_owned())).fetch_one(&mut connection).await.unwrap()
    })
}

/// An empty database and a folder without a configuration file.
struct Ground {
    url: String,
    name: String,
    folder: PathBuf,
}

impl Ground {
    fn new() -> Ground {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let name = format!("cli_{}_{}", std::process::id(), NUMBER.fetch_add(1, Ordering::Relaxed));
        sql(&cluster_url(), &format!("create database {name}"));
        let cluster = cluster_url();
        let (front, query) =
            cluster.split_once('?').map_or((cluster.as_str(), None), |(front, query)| (front, Some(query)));
        let (server, _) = front.rsplit_once('/').unwrap();
        let url = match query {
            Some(query) => format!("{server}/{name}?{query}"),
            None => format!("{server}/{name}"),
        };
        let folder = std::env::temp_dir().join(&name);
        std::fs::create_dir_all(&folder).unwrap();
        Ground { url, name, folder }
    }

    fn with_demo() -> (Ground, Value) {
        let ground = Ground::new();
        let demo = ground.json(&["demo", "--json"]);
        assert_eq!(demo["loaded"], true);
        (ground, demo)
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_daybook"));
        let ours = |name: &str| {
            name.starts_with("DAYBOOK_")
                || name.starts_with("LEPTOS_")
                || name.starts_with("DATABASE_")
                || name == "RUST_LOG"
        };
        for (name, _) in std::env::vars().filter(|(name, _)| ours(name)) {
            command.env_remove(name);
        }
        command.args(args).current_dir(&self.folder).env("DATABASE_URL", &self.url);
        command
    }

    fn run(&self, args: &[&str]) -> Output {
        self.command(args).output().unwrap()
    }

    /// Runs a command that must succeed and print one JSON object.
    fn json(&self, args: &[&str]) -> Value {
        let output = self.run(args);
        assert!(output.status.success(), "{args:?}: {}", text(&output.stderr));
        serde_json::from_slice(&output.stdout).unwrap()
    }

    /// Runs a command that must fail with `code` and say two lines; the lines.
    fn failure(&self, code: i32, args: &[&str]) -> String {
        let output = self.run(args);
        let said = text(&output.stderr);
        assert_eq!(output.status.code(), Some(code), "{args:?}: {said}");
        assert!(said.starts_with("error: ") && said.trim_end().lines().count() == 2, "{args:?}: {said}");
        said
    }

    fn drive(&self, more: &[&str]) -> Value {
        let samples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../samples");
        let (trace, prices) = (samples.join("trace.csv"), samples.join("model-prices.json"));
        let mut args = vec!["drive", "--json", "--accounts", "5", "--model", "sample-small"];
        args.extend(["--trace", trace.to_str().unwrap(), "--prices", prices.to_str().unwrap()]);
        args.extend(more);
        self.json(&args)
    }
}

impl Drop for Ground {
    fn drop(&mut self) {
        drop(std::fs::remove_dir_all(&self.folder));
        if !std::thread::panicking() {
            sql(&cluster_url(), &format!("drop database {} with (force)", self.name));
        }
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn demo_account(demo: &Value) -> &str {
    demo["accounts"][0]["id"].as_str().unwrap()
}

// The figures were worked out by another program in decimals.
#[test]
fn a_run_of_the_sample_trace_arrives_at_the_expected_sum() {
    let (ground, demo) = Ground::with_demo();
    let whole = ground.drive(&["--faults", "none"]);
    assert_eq!(
        (&whole["credits_used"], &whole["credits_expected"]),
        (&"2.117649".into(), &"2.117649".into())
    );
    assert_eq!(
        (&whole["calls"], &whole["settles"], &whole["above_hold"]),
        (&40.into(), &40.into(), &3.into())
    );
    assert_eq!((&whole["requests"], &whole["replays"]), (&80.into(), &0.into()));
    assert_eq!(whole["verify"]["clean"], true);

    let coarse = ground.drive(&["--faults", "none", "--credits-per-dollar", "1"]);
    assert_eq!(coarse["credits_used"], "0.002116");

    // The demo customer has every fifth call of both runs, with the trace's time and a reference of its own.
    let calls = number(
        &ground.url,
        &format!(
            "select count(distinct request_ref) from entries where account_id = '{}' and kind = 3 and model = 'sample-small'
             and member is not null and occurred_at < '2026-02-03' and request_ref like 'drive-%'",
            demo_account(&demo)
        ),
    );
    assert_eq!(calls, 16);
}

#[test]
fn a_run_with_faults_charges_each_call_once_and_a_repeated_run_nothing() {
    let ground = Ground::new();
    let first = ground.drive(&["--run-id", "trial"]);
    assert_eq!(
        (&first["credits_used"], &first["credits_expected"]),
        (&"2.051596".into(), &"2.051596".into())
    );
    assert_eq!(
        (&first["broken_off"], &first["timed_out"], &first["sent_again"]),
        (&2.into(), &3.into(), &2.into())
    );
    assert_eq!(first["settles"], 37);
    let entries = number(&ground.url, "select count(*) from entries");
    let review = number(&ground.url, "select count(*) from holds where needs_review and status = 4");
    assert_eq!(review, 3);

    let again = ground.drive(&["--run-id", "trial"]);
    assert_eq!(again["requests"], again["replays"]);
    assert_eq!(again["credits_used"], "2.051596");
    assert_eq!(number(&ground.url, "select count(*) from entries"), entries);
    assert_eq!(again["verify"]["clean"], true);
}

/// The whole files are not part of the project.
fn whole_files() -> Option<(PathBuf, PathBuf)> {
    let beside = || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../shared/data");
    let folder = std::env::var_os("DAYBOOK_SHARED_DATA").map_or_else(beside, PathBuf::from);
    let folder = folder.canonicalize().ok()?;
    let files =
        (folder.join("azure-llm-inference-trace-2023-code.csv"), folder.join("litellm-model-prices.json"));
    (files.0.exists() && files.1.exists()).then_some(files)
}

#[test]
fn a_run_of_the_published_trace_arrives_at_the_published_sum() {
    let Some((trace, prices)) = whole_files() else {
        eprintln!(
            "skipped: the whole trace and price map are not here (set DAYBOOK_SHARED_DATA to their folder)"
        );
        return;
    };
    let ground = Ground::new();
    let drive = |more: &[&str]| {
        let mut args = vec!["drive", "--json", "--model", "gpt-4o-mini", "--accounts", "50", "--seed", "1"];
        args.extend(["--trace", trace.to_str().unwrap(), "--prices", prices.to_str().unwrap()]);
        args.extend(more);
        ground.json(&args)
    };
    let whole = drive(&["--faults", "none"]);
    assert_eq!(
        (&whole["credits_used"], &whole["credits_expected"]),
        (&"2856.5337".into(), &"2856.5337".into())
    );
    assert_eq!((&whole["calls"], &whole["above_hold"]), (&8_819.into(), &142.into()));
    assert_eq!(whole["verify"]["clean"], true);
    if std::env::var_os("DAYBOOK_FULL").is_some() {
        assert_eq!(drive(&["--faults", "none", "--credits-per-dollar", "1"])["credits_used"], "2.856692");
        let faulty = drive(&["--faults", "some"]);
        assert_eq!((&faulty["credits_used"], &faulty["timed_out"]), (&"2774.6982".into(), &251.into()));
    }
}

#[test]
fn verify_names_the_first_bad_row_and_ends_with_3() {
    let (ground, demo) = Ground::with_demo();
    assert_eq!(ground.json(&["verify", "--json"])["clean"], true);
    let account = demo_account(&demo);
    sql(
        &ground.url,
        &format!(
            "alter table entries disable trigger all;
             update entries set amount = amount - 1 where account_id = '{account}' and seq in (9, 12);
             alter table entries enable trigger all;"
        ),
    );
    let output = ground.run(&["verify", "--json"]);
    assert_eq!(output.status.code(), Some(3));
    let found: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(
        (&found["problems"][0]["account"], &found["problems"][0]["seq"]),
        (&account.into(), &9.into())
    );
    let words = ground.run(&["verify"]);
    assert_eq!(words.status.code(), Some(3));
    assert!(text(&words.stdout).contains(&format!("account {account}, entry 9")));
}

#[test]
fn exported_heads_prove_later_what_was_there() {
    let (ground, demo) = Ground::with_demo();
    let heads = ground.folder.join("heads.jsonl");
    let heads_path = heads.to_str().unwrap();
    assert!(ground.run(&["export", "--heads", "--out", heads_path]).status.success());
    let written = std::fs::read_to_string(&heads).unwrap();
    assert_eq!(written.lines().count(), 2);
    assert_eq!(ground.json(&["verify", "--json", "--heads", heads_path])["heads"], 2);

    let purge = ["purge", demo_account(&demo), "--why", "trial", "--by", "admin@demo.example"];
    ground.failure(2, &purge);
    assert!(ground.run(&[&purge[..], &["--yes"]].concat()).status.success());
    assert_eq!(number(&ground.url, "select count(*) from purges"), 1);
    assert_eq!(ground.json(&["verify", "--json", "--heads", heads_path])["clean"], true);

    let forged = written.replacen("\"hash\":\"", "\"hash\":\"00", 2);
    std::fs::write(&heads, forged).unwrap();
    let output = ground.run(&["verify", "--json", "--heads", heads_path]);
    assert_eq!(output.status.code(), Some(3));
    let found: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(found["problems"].as_array().unwrap().len(), 2);
}

#[test]
fn the_export_has_every_entry_with_its_lines() {
    let (ground, _) = Ground::with_demo();
    let output = ground.run(&["export"]);
    let rows: Vec<Value> =
        text(&output.stdout).lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(i64::try_from(rows.len()).unwrap(), number(&ground.url, "select count(*) from entries"));
    let lines: usize = rows.iter().map(|row| row["lines"].as_array().unwrap().len()).sum();
    assert_eq!(i64::try_from(lines).unwrap(), number(&ground.url, "select count(*) from lines"));
    let csv = ground.run(&["export", "--format", "csv", "--account", "ref:demo-alder"]);
    let mut reader = csv::Reader::from_reader(csv.stdout.as_slice());
    assert_eq!(reader.headers().unwrap().get(3), Some("amount"));
    let seqs: Vec<usize> = reader.records().map(|row| row.unwrap()[1].parse().unwrap()).collect();
    assert!(seqs.iter().copied().eq(1..=seqs.len()));
}

#[test]
fn the_demo_has_a_login_for_each_role_and_is_loaded_once() {
    let (ground, demo) = Ground::with_demo();
    let logins = demo["logins"].as_array().unwrap();
    let roles: Vec<&str> = logins.iter().map(|login| login["role"].as_str().unwrap()).collect();
    assert_eq!(roles, ["customer", "support", "finance", "admin"]);
    assert!(logins.iter().all(|login| login["password"].as_str().unwrap().len() >= 12));
    let passwords: std::collections::BTreeSet<&str> =
        logins.iter().map(|login| login["password"].as_str().unwrap()).collect();
    assert_eq!(passwords.len(), 4);
    let again = ground.json(&["demo", "--json"]);
    assert_eq!((&again["loaded"], again["logins"].as_array().unwrap().len()), (&false.into(), 0));
    // Weeks of history, and time goes on by itself again.
    assert_eq!(number(&ground.url, "select count(*) from test_clock"), 0);
    let days = number(&ground.url, "select count(distinct effective_at::date) from entries where kind = 4");
    assert!(days >= 20, "{days} days");
    for kind in [1, 2, 3, 4, 5, 6, 7, 10, 12, 13] {
        assert!(
            number(&ground.url, &format!("select count(*) from entries where kind = {kind}")) > 0,
            "kind {kind}"
        );
    }
    assert_eq!(
        ground.json(&["account", "state", "ref:demo-brook", "--json"])["available"]
            .as_str()
            .map(|text| text.starts_with('-')),
        Some(true)
    );
    assert_eq!(ground.json(&["verify", "--json"])["clean"], true);
}

#[test]
fn users_and_keys_are_made_and_their_secrets_shown_once() {
    let (ground, _) = Ground::with_demo();
    let user = ground.json(&[
        "user",
        "add",
        "ana@example.org",
        "--role",
        "customer",
        "--account",
        "ref:demo-brook",
        "--json",
    ]);
    assert!(user["password"].as_str().unwrap().len() >= 12);
    ground.failure(1, &["user", "add", "ana@example.org", "--role", "support"]);
    ground.failure(2, &["user", "add", "bob@example.org", "--role", "customer"]);
    ground.failure(1, &["user", "add", "bob@example.org", "--role", "customer", "--account", "ref:nobody"]);
    ground.failure(2, &["user", "add", "no address", "--role", "support"]);

    let mut piped = ground.command(&[
        "user",
        "add",
        "fin@example.org",
        "--role",
        "finance",
        "--password-stdin",
        "--json",
    ]);
    let mut child = piped.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(b"correct horse battery staple 7\n").unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success());
    assert!(!text(&output.stdout).contains("horse"));

    let key = ground.json(&[
        "key",
        "create",
        "gateway",
        "--owner",
        "fin@example.org",
        "--scope",
        "read,usage:write",
        "--json",
    ]);
    assert!(key["key"].as_str().unwrap().starts_with("dbk_"));
    ground.failure(1, &["key", "create", "gateway", "--owner", "nobody@example.org", "--scope", "read"]);
    let id = key["id"].as_str().unwrap();
    let listed = text(&ground.run(&["key", "list"]).stdout);
    assert!(listed.contains(id) && !listed.contains(key["key"].as_str().unwrap()));
    assert!(ground.run(&["key", "revoke", id]).status.success());
    ground.failure(1, &["key", "revoke", id]);
}

#[test]
fn policies_quotas_and_states_are_set() {
    let (ground, _) = Ground::with_demo();
    let policy = ground.json(&[
        "policy",
        "set",
        "generous",
        "trial=never",
        "overrun=cap",
        "multiplier=1.35",
        "--json",
    ]);
    assert_eq!(
        (&policy["trial"], &policy["overrun"], &policy["multiplier"]),
        (&"never".into(), &"cap".into(), &"1.35".into())
    );
    ground.failure(2, &["policy", "set", "generous", "trial=soon"]);
    ground.failure(2, &["policy", "set", "Not a name", "trial=30d"]);
    let shown = text(&ground.run(&["policy", "show"]).stdout);
    assert!(shown.contains("default:") && shown.contains("generous:"));
    assert_eq!(
        ground.json(&["account", "policy", "ref:demo-alder", "generous", "--json"])["policy"],
        "generous"
    );

    ground.json(&[
        "quota",
        "set",
        "ref:demo-alder",
        "--member",
        "m-elm",
        "--window",
        "day",
        "--limit",
        "500",
        "--json",
    ]);
    ground.failure(
        1,
        &["quota", "set", "ref:nobody", "--member", "m-elm", "--window", "day", "--limit", "500"],
    );
    assert_eq!(
        ground.run(&["quota", "set", "ref:demo-alder", "--window", "day", "--limit", "500"]).status.code(),
        Some(2)
    );
    for who in [["--member", ""], ["--member", "  "], ["--key-ref", ""]] {
        let place = ["quota", "set", "ref:demo-alder", who[0], who[1], "--window", "day", "--limit", "5"];
        let refused = ground.run(&place);
        assert_eq!(refused.status.code(), Some(2), "{who:?}");
        assert!(text(&refused.stderr).contains("is empty") || text(&refused.stderr).contains("is blank"));
    }
    let removed =
        ground.json(&["quota", "remove", "ref:demo-alder", "--member", "m-elm", "--window", "day", "--json"]);
    assert_eq!(removed["removed"], true);

    let state = ground.json(&[
        "account",
        "state",
        "ref:demo-alder",
        "blocked",
        "--reason",
        "trial",
        "--by",
        "support@demo.example",
        "--json",
    ]);
    assert_eq!(state["state"], "blocked");
    assert_eq!(ground.json(&["account", "state", "ref:demo-alder", "--json"])["state"], "blocked");
    ground.failure(1, &["account", "state", "ref:nobody"]);
    ground.failure(2, &["account", "state", "no id"]);

    assert!(ground.run(&["erase", "ref:demo-alder", "--yes"]).status.success());
    ground.failure(1, &["account", "state", "ref:demo-alder"]);
    assert_eq!(number(&ground.url, "select count(*) from account_profiles"), 1);
    assert_eq!(ground.json(&["verify", "--json"])["clean"], true);
}

#[test]
fn every_command_explains_itself_and_a_wrong_line_ends_with_2() {
    let ground = Ground::new();
    let commands = [
        "serve",
        "migrate",
        "user add",
        "key create",
        "policy set",
        "quota set",
        "account state",
        "verify",
        "purge",
        "erase",
        "export",
        "demo",
        "drive",
    ];
    for command in commands {
        let mut args: Vec<&str> = command.split(' ').collect();
        args.push("--help");
        let output = ground.run(&args);
        assert_eq!(output.status.code(), Some(0), "{command}");
        assert!(text(&output.stdout).contains("Example"), "{command}");
    }
    assert!(text(&ground.run(&["--help"]).stdout).contains("Exit codes:"));
    assert_eq!(ground.run(&["nonsense"]).status.code(), Some(2));
    assert_eq!(ground.run(&["serve", "--addr", "nowhere"]).status.code(), Some(2));
    ground.failure(2, &["--config", "missing.toml", "verify"]);
}

#[test]
fn migrate_can_be_repeated_and_the_others_ask_for_it() {
    let ground = Ground::new();
    let said = ground.failure(1, &["verify"]);
    assert!(said.contains("daybook migrate"), "{said}");
    assert!(ground.json(&["migrate", "--json"])["applied"].as_u64().unwrap() >= 1);
    assert_eq!(ground.json(&["migrate", "--json"])["applied"], 0);
    assert!(ground.run(&["verify"]).status.success());
}

#[test]
fn a_database_that_is_away_is_two_lines() {
    let ground = Ground::new();
    let said = ground.failure(1, &["--database-url", "postgres://nobody@127.0.0.1:1/nothing", "verify"]);
    assert!(said.contains("Postgres"), "{said}");
    assert!(!said.contains("panicked"));
}

/// A server under test; stopped by a signal.
struct Served {
    child: Child,
    url: String,
}

impl Served {
    fn start(ground: &Ground, more: &[&str]) -> Served {
        let mut args = vec!["serve", "--addr", "127.0.0.1:0"];
        args.extend(more);
        let mut child = ground.command(&args).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let mut url = None;
        for line in BufReader::new(child.stdout.take().unwrap()).lines() {
            let line = line.unwrap();
            if let Some(address) = line.strip_prefix("Daybook serves ") {
                url = Some(address.to_owned());
                break;
            }
        }
        Served { child, url: url.unwrap() }
    }

    fn status(&self, path: &str) -> u16 {
        let config = ureq::Agent::config_builder().http_status_as_error(false).proxy(None).build();
        ureq::Agent::from(config).get(format!("{}{path}", self.url)).call().unwrap().status().as_u16()
    }

    /// Sends a signal and waits for the end; the exit code.
    fn stop(mut self, signal: &str) -> Option<i32> {
        Command::new("kill").args([signal, &self.child.id().to_string()]).status().unwrap();
        let asked = Instant::now();
        let status = self.child.wait().unwrap();
        assert!(asked.elapsed() < Duration::from_secs(12));
        status.code()
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        drop(self.child.kill());
    }
}

#[test]
fn serve_starts_from_an_empty_database_and_stops_by_a_signal() {
    let ground = Ground::new();
    for signal in ["-TERM", "-INT"] {
        let served = Served::start(&ground, &["--demo-if-empty"]);
        assert_eq!(served.status("/live"), 200);
        assert_eq!(served.status("/ready"), 200);
        assert_eq!(served.stop(signal), Some(0));
    }
    assert_eq!(ground.json(&["verify", "--json"])["accounts"], 2);
}

#[test]
fn a_rehearsals_database_is_not_served_as_an_ordinary_one() {
    let ground = Ground::new();
    let served = Served::start(&ground, &["--test-clock"]);
    assert_eq!(served.stop("-TERM"), Some(0));
    assert_eq!(number(&ground.url, "select count(*) from test_clock"), 1);
    let said = ground.run(&["serve", "--addr", "127.0.0.1:0"]);
    assert_eq!(said.status.code(), Some(1));
    assert!(text(&said.stderr).contains("--test-clock"));
}

#[test]
fn a_port_in_use_is_said_before_anything_is_touched() {
    let ground = Ground::new();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let said = ground.run(&["serve", "--addr", &address]);
    assert_eq!(said.status.code(), Some(1));
    assert!(text(&said.stderr).contains("--addr"));
}

#[test]
fn a_reader_that_goes_away_is_no_failure() {
    let (ground, _) = Ground::with_demo();
    let mut child =
        ground.command(&["export"]).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    let mut said = String::new();
    child.stderr.take().unwrap().read_to_string(&mut said).unwrap();
    assert!(child.wait().unwrap().success(), "{said}");
    assert!(!said.contains("panicked"), "{said}");
}
