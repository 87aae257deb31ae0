//! A real server through its life: start, sharing, crash, recovery, end. Skips, and says so, where no Postgres is.
#![expect(clippy::expect_used, reason = "a test ends where its ground is missing")]

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use daybook_postgres::{Cluster, Durability, Options, PostgresError, Running, WatchEvent, find_binaries};

fn no_postgres() -> bool {
    let missing = matches!(find_binaries(), Err(PostgresError::NotFound { .. }));
    if missing {
        eprintln!("skipped: no Postgres server programs on this machine");
    }
    missing
}

/// A lasting cluster in a folder that this test removes.
struct Folder(std::path::PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("daybook-test-{}-{name}", std::process::id()));
        Self(path)
    }

    fn open(&self) -> Running {
        let options = Options::at_folder(self.0.clone());
        Cluster::open_or_init(options).expect("opens").start().expect("starts")
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn count(running: &Running) -> String {
    running.psql("daybook", "SELECT count(*) FROM kept").expect("counts").trim().to_owned()
}

#[test]
fn data_survive_a_stop_and_a_second_start() {
    if no_postgres() {
        return;
    }
    let folder = Folder::new("reuse");
    let first = folder.open();
    first.psql("daybook", "CREATE TABLE kept (n int); INSERT INTO kept VALUES (1), (2)").expect("writes");
    assert_eq!(first.psql("daybook", "SHOW fsync").expect("asks").trim(), "on");
    assert_eq!(first.psql("daybook", "SHOW listen_addresses").expect("asks").trim(), "");
    let pid = first.postmaster_pid().expect("a pid");
    first.stop().expect("stops");
    assert!(!Path::new(&format!("/proc/{pid}/cwd")).exists());

    let second = folder.open();
    assert_eq!(count(&second), "2");
}

#[test]
fn several_users_share_one_server_and_the_last_one_stops_it() {
    if no_postgres() {
        return;
    }
    let folder = Folder::new("share");
    let first = folder.open();
    let second = folder.open();
    let pid = first.postmaster_pid().expect("a pid");
    assert_eq!(second.postmaster_pid(), Some(pid));
    first.stop().expect("leaves");
    assert_eq!(second.psql("daybook", "SELECT 1").expect("still answers").trim(), "1");
    second.stop().expect("stops");
    assert!(!folder.0.join("data/postmaster.pid").exists());
}

#[test]
fn a_killed_server_is_started_again_and_has_lost_nothing() {
    if no_postgres() {
        return;
    }
    let folder = Folder::new("kill");
    let running = folder.open();
    let (events, seen) = mpsc::channel();
    running.watch(move |event| events.send(event).expect("somebody listens"));
    running.psql("daybook", "CREATE TABLE kept (n int)").expect("writes");
    for round in 1..=2 {
        running.psql("daybook", "INSERT INTO kept VALUES (1)").expect("writes");
        let before = running.postmaster_pid().expect("a pid");
        running.kill_postmaster().expect("kills");
        assert_eq!(seen.recv_timeout(Duration::from_secs(10)), Ok(WatchEvent::Died));
        assert_eq!(seen.recv_timeout(Duration::from_secs(60)), Ok(WatchEvent::Restarted));
        assert_ne!(running.postmaster_pid(), Some(before));
        assert_eq!(count(&running), round.to_string());
    }
    running.psql("daybook", "INSERT INTO kept VALUES (1)").expect("writes");
    running.stop_immediately().expect("stops");
    assert_eq!(seen.recv_timeout(Duration::from_secs(10)), Ok(WatchEvent::Died));
    assert_eq!(seen.recv_timeout(Duration::from_secs(60)), Ok(WatchEvent::Restarted));
    assert_eq!(count(&running), "3");
}

/// Not a test: what the next one starts as a process of its own, and kills.
#[test]
#[ignore = "started by a_server_that_outlived_its_user_is_joined_or_swept"]
fn a_user_that_will_be_killed() {
    let Some(folder) = std::env::var_os("FOLDER_OF_THE_KILLED") else { return };
    let lasting =
        Cluster::open_or_init(Options::at_folder(folder.into())).expect("opens").start().expect("starts");
    let options = Options::throw_away(Durability::NoFsync);
    let state = options.state_dir().display().to_string();
    let brief = Cluster::open_or_init(options).expect("opens").start().expect("starts");
    println!("state={state}");
    std::thread::sleep(Duration::from_secs(120));
    drop((lasting, brief));
}

#[test]
fn a_server_that_outlived_its_user_is_joined_or_swept() {
    if no_postgres() {
        return;
    }
    let folder = Folder::new("orphan");
    let mut user = Command::new(std::env::current_exe().expect("this program"))
        .args(["--ignored", "--exact", "--nocapture", "a_user_that_will_be_killed"])
        .env("FOLDER_OF_THE_KILLED", &folder.0)
        .stdout(Stdio::piped())
        .spawn()
        .expect("a process of its own");
    let lines = BufReader::new(user.stdout.take().expect("its output")).lines();
    let state = lines.map_while(Result::ok).find_map(|line| Some(line.split_once("state=")?.1.to_owned()));
    let state = std::path::PathBuf::from(state.expect("it started both servers"));
    user.kill().expect("killed");
    user.wait().expect("collected");
    let pid_file =
        std::fs::read_to_string(folder.0.join("data/postmaster.pid")).expect("the server lives on");

    let joined = folder.open();
    let pid = joined.postmaster_pid().expect("a pid");
    assert_eq!(pid_file.lines().next(), Some(pid.to_string().as_str()), "the same server, not a second one");
    joined.stop().expect("the last user stops it");
    assert!(!folder.0.join("data/postmaster.pid").exists());

    assert!(state.exists());
    drop(
        Cluster::open_or_init(Options::throw_away(Durability::NoFsync))
            .expect("opens")
            .start()
            .expect("starts"),
    );
    assert!(!state.exists(), "swept by the next throw-away cluster");
}

/// The first user cannot collect its dead server, as a user that was killed with it cannot: the process stays, dead, and
/// Postgres by itself would take its locks for those of a living server.
#[test]
fn a_server_killed_a_moment_ago_does_not_block_the_start() {
    if no_postgres() {
        return;
    }
    let folder = Folder::new("killed");
    let first = folder.open();
    first.psql("daybook", "CREATE TABLE kept (n int); INSERT INTO kept VALUES (7)").expect("writes");
    let pid = first.postmaster_pid().expect("a pid").to_string();
    for _ in 0..2 {
        let killed = Command::new("kill").args(["-9", &pid]).status().expect("kill runs");
        assert!(killed.success());
        let begun = Instant::now();
        let second = folder.open();
        assert!(begun.elapsed() < Duration::from_secs(25), "without waiting for what may never happen");
        assert_ne!(second.postmaster_pid().expect("a pid").to_string(), pid);
        assert_eq!(count(&second), "1");
        // Left with its server running, so that the next round's kill is of a dead process.
        drop(second);
    }
    drop(first);
}

#[test]
fn a_pid_file_that_names_another_process_does_not_block_the_start() {
    if no_postgres() {
        return;
    }
    let folder = Folder::new("haunted");
    let running = folder.open();
    running.psql("daybook", "CREATE TABLE kept (n int); INSERT INTO kept VALUES (7)").expect("writes");
    running.kill_postmaster().expect("kills");
    let other = Command::new("sleep").arg("60").stdout(Stdio::null()).spawn();
    let mut other = other.expect("a process that is no server");
    let path = folder.0.join("data/postmaster.pid");
    let text = std::fs::read_to_string(&path).expect("left by the killed server");
    let (_, rest) = text.split_once('\n').expect("lines");
    std::fs::write(&path, format!("{}\n{rest}", other.id())).expect("rewritten");
    running.ensure_running().expect("starts all the same");
    assert_eq!(count(&running), "1");
    other.kill().expect("ends");
    other.wait().expect("is collected");
}

#[test]
fn a_throw_away_cluster_leaves_nothing_behind() {
    if no_postgres() {
        return;
    }
    let options =
        Options::throw_away(Durability::NoFsync).with_database("other").with_setting("max_connections", "23");
    let state = options.state_dir().to_path_buf();
    let running = Cluster::open_or_init(options).expect("opens").start().expect("starts");
    assert_eq!(running.psql("other", "SHOW max_connections").expect("asks").trim(), "23");
    assert_eq!(running.psql("other", "SHOW fsync").expect("asks").trim(), "off");
    assert!(running.create_database("drop table; --").is_err());
    running.create_database("more").expect("makes one more");
    assert_eq!(running.psql("more", "SELECT current_database()").expect("asks").trim(), "more");
    let begun = Instant::now();
    drop(running);
    assert!(begun.elapsed() < Duration::from_secs(20));
    assert!(!state.exists());
}
