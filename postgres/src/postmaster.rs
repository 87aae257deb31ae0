//! What a server says about itself in `postmaster.pid`, and whether that is still true.

use std::fs;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal};

use crate::error::PostgresError;

/// Beside the socket; the port is always the usual one.
const SOCKET_LOCK: &str = ".s.PGSQL.5432.lock";
/// How often a state that is waited for is looked at.
pub(crate) const POLL: Duration = Duration::from_millis(20);
/// How long sessions get to end in a fast stop, before an immediate one.
const FAST_STOP: Duration = Duration::from_secs(60);
/// How long a process may take to vanish after an immediate stop or a kill.
const HARD_STOP: Duration = Duration::from_secs(20);

/// The lines of `postmaster.pid` that matter here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PidFile {
    pub(crate) pid: u32,
    pub(crate) socket_dir: PathBuf,
    pub(crate) phase: Phase,
}

/// How far the server is, by its own account.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Phase {
    Starting,
    Ready,
    Stopping,
}

/// What is true about a data folder now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Life {
    /// No server, and nothing in the way of one.
    Absent,
    /// The file names a process that is not this server (any more): the id was given to another process after a
    /// restart of the machine or container, or nobody has collected the dead one. Postgres itself would refuse to start.
    Haunted,
    /// A server that lives.
    Alive(PidFile),
}

/// How to end a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stop {
    /// Ends sessions, writes a checkpoint.
    Fast,
    /// Drops everything at once; the next start recovers.
    Immediate,
    /// What a crash does.
    Kill,
}

/// Looks at a data folder.
pub(crate) fn life(data: &Path) -> Life {
    let Ok(text) = fs::read_to_string(data.join("postmaster.pid")) else { return Life::Absent };
    let Some(file) = parse(&text) else { return Life::Absent };
    match presence(file.pid, data) {
        Presence::Server => Life::Alive(file),
        Presence::SomethingElse => Life::Haunted,
        Presence::Nothing => Life::Absent,
    }
}

/// Ends a server and waits until it is gone. The caller collects its own child in `reap`, which is called while waiting.
pub(crate) fn stop(data: &Path, pid: u32, how: Stop, mut reap: impl FnMut()) -> Result<(), PostgresError> {
    let (signal, wait) = match how {
        Stop::Fast => (Signal::INT, FAST_STOP),
        Stop::Immediate => (Signal::QUIT, HARD_STOP),
        Stop::Kill => (Signal::KILL, HARD_STOP),
    };
    send(pid, signal);
    if wait_gone(data, pid, wait, &mut reap) {
        return Ok(());
    }
    send(pid, Signal::QUIT);
    if wait_gone(data, pid, HARD_STOP, &mut reap) { Ok(()) } else { Err(PostgresError::StopTimeout { pid }) }
}

/// Removes a pid file that stands in the way (see [`Life::Haunted`]), once no process of the old server is left.
pub(crate) fn exorcise(data: &Path) -> Result<(), PostgresError> {
    let deadline = Instant::now() + HARD_STOP;
    while has_workers(data) && Instant::now() < deadline {
        thread::sleep(POLL);
    }
    if has_workers(data) {
        return Ok(());
    }
    let path = data.join("postmaster.pid");
    fs::remove_file(&path).map_err(PostgresError::io("remove", &path))
}

/// Removes the lock of a socket whose server is dead. Postgres itself takes a dead process that nobody has collected for a
/// living one, and would refuse to start. The folder is ours alone, so nobody else's lock can lie in it.
pub(crate) fn free_socket(data: &Path, socket_dir: &Path) -> Result<(), PostgresError> {
    let path = socket_dir.join(SOCKET_LOCK);
    let Ok(text) = fs::read_to_string(&path) else { return Ok(()) };
    let pid = parse(&text).map(|file| file.pid);
    if pid.is_some_and(|pid| presence(pid, data) == Presence::Server) {
        return Ok(());
    }
    match fs::remove_file(&path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
        removed => removed.map_err(PostgresError::io("remove", &path)),
    }
}

fn send(pid: u32, signal: Signal) {
    if let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw) {
        // A process that is gone already is what we want; the wait that follows tells.
        let _gone = rustix::process::kill_process(pid, signal);
    }
}

fn wait_gone(data: &Path, pid: u32, wait: Duration, reap: &mut impl FnMut()) -> bool {
    let deadline = Instant::now() + wait;
    loop {
        reap();
        if presence(pid, data) != Presence::Server {
            return true;
        }
        if Instant::now() >= deadline {
            return false;
        }
        thread::sleep(POLL);
    }
}

fn parse(text: &str) -> Option<PidFile> {
    let lines: Vec<&str> = text.lines().collect();
    let pid = lines.first()?.trim().parse::<i32>().ok()?.unsigned_abs();
    let socket_dir = PathBuf::from(lines.get(4).copied().unwrap_or_default());
    let phase = match lines.get(7).map(|line| line.trim()) {
        Some("ready" | "standby") => Phase::Ready,
        Some("stopping") => Phase::Stopping,
        _ => Phase::Starting,
    };
    Some(PidFile { pid, socket_dir, phase })
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Presence {
    Server,
    SomethingElse,
    Nothing,
}

/// Linux tells by `/proc`: the server's working folder is its data folder. A dead process that nobody has collected
/// has no working folder.
#[cfg(target_os = "linux")]
fn presence(pid: u32, data: &Path) -> Presence {
    let process = PathBuf::from(format!("/proc/{pid}"));
    let Ok(stat) = fs::read_to_string(process.join("stat")) else { return Presence::Nothing };
    let state = stat.rsplit(')').next().and_then(|rest| rest.trim_start().chars().next());
    if matches!(state, Some('Z' | 'X')) {
        return Presence::SomethingElse;
    }
    match fs::read_link(process.join("cwd")) {
        Ok(folder) if same_folder(&folder, data) => Presence::Server,
        Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied && stat.contains("(postgres)") => {
            Presence::Server
        }
        _ => Presence::SomethingElse,
    }
}

#[cfg(target_os = "linux")]
fn has_workers(data: &Path) -> bool {
    let Ok(processes) = fs::read_dir("/proc") else { return false };
    processes
        .filter_map(Result::ok)
        .filter(|entry| entry.file_name().to_string_lossy().bytes().all(|byte| byte.is_ascii_digit()))
        .filter_map(|entry| fs::read_link(entry.path().join("cwd")).ok())
        .any(|folder| same_folder(&folder, data))
}

#[cfg(target_os = "linux")]
fn same_folder(one: &Path, other: &Path) -> bool {
    one == other || fs::canonicalize(other).is_ok_and(|other| one == other)
}

/// Elsewhere `ps` tells the state and the name.
#[cfg(not(target_os = "linux"))]
fn presence(pid: u32, _data: &Path) -> Presence {
    let output = std::process::Command::new("ps")
        .args(["-p", &pid.to_string(), "-o", "stat=", "-o", "comm="])
        .output();
    let line =
        output.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned()).unwrap_or_default();
    match line.split_once(' ') {
        None => Presence::Nothing,
        Some((state, name)) if !state.starts_with('Z') && name.contains("postgres") => Presence::Server,
        Some(_) => Presence::SomethingElse,
    }
}

#[cfg(not(target_os = "linux"))]
fn has_workers(_data: &Path) -> bool {
    false
}

#[cfg(test)]
mod tests {
    use super::{Phase, parse};
    use std::path::Path;

    #[test]
    fn reads_the_file_of_a_server_at_each_stage() {
        let ready = "4711\n/var/lib/x/data\n1764540000\n5432\n/var/lib/x/s\n\n  1234  5\nready   \n";
        let file = parse(ready).expect("a pid file");
        assert_eq!(
            (file.pid, file.socket_dir.as_path(), file.phase),
            (4711, Path::new("/var/lib/x/s"), Phase::Ready)
        );
        let early = parse("4711\n/var/lib/x/data\n1764540000\n5432\n").expect("a pid file");
        assert_eq!(early.phase, Phase::Starting);
        assert_eq!(parse(""), None);
    }
}
