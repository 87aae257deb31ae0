//! How a server lives and ends.

use std::fs::{self, File};
use std::io::{Read, Seek, SeekFrom};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use crate::account::Account;
use crate::cluster::{Cluster, exclusive, run, tail};
use crate::error::PostgresError;
use crate::find::Binaries;
use crate::layout::{Lifetime, Options};
use crate::postmaster::{self, Life, POLL, Phase, Stop};
use crate::settings;
use crate::watch::{WatchEvent, Watcher};

/// Recovery after a crash may replay much; only a server that is stuck takes longer.
const START_PATIENCE: Duration = Duration::from_secs(600);
/// How long workers of a killed server may hold its shared memory.
const RETRY_PATIENCE: Duration = Duration::from_secs(30);
/// A log longer than this is begun anew at the next start.
const LOG_BYTES_MAX: u64 = 10 * 1024 * 1024;

/// A server that answers. Dropping it stops the server, unless somebody else uses it too.
#[derive(Debug)]
pub struct Running {
    shared: Arc<Shared>,
    watcher: Mutex<Option<Watcher>>,
}

/// What the owner and the watching thread both need.
#[derive(Debug)]
pub(crate) struct Shared {
    options: Options,
    binaries: Binaries,
    account: Account,
    socket_dir: PathBuf,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    /// The server, when this process started it; kept so that it can be collected when it dies.
    child: Option<Child>,
    /// Our part in the use of the cluster; gone after the stop.
    users: Option<File>,
}

impl Running {
    pub(crate) fn start(cluster: Cluster) -> Result<Self, PostgresError> {
        let Cluster { options, binaries, account, users } = cluster;
        let starting = exclusive(&options.state.join("starting"))?;
        let socket_dir = match postmaster::life(&options.data()) {
            Life::Alive(file) if file.phase == Phase::Ready => file.socket_dir,
            _ => options.make_socket_folder(account)?,
        };
        let state = Mutex::new(State { child: None, users: Some(users) });
        let shared = Shared { options, binaries, account, socket_dir, state };
        let running = Self { shared: Arc::new(shared), watcher: Mutex::new(None) };
        let database = running.shared.options.database.clone();
        let started = running.answering(&database);
        // Freed before a failure drops `running`, which would wait for it.
        drop(starting);
        started?;
        Ok(running)
    }

    /// Gets the server to answer, and makes the database. A server that dies while it is asked, because somebody had just
    /// killed it, is started again.
    fn answering(&self, database: &str) -> Result<(), PostgresError> {
        let begun = Instant::now();
        loop {
            self.shared.bring_up()?;
            let pid = self.shared.pid();
            match self.create_database(database) {
                Err(PostgresError::Program { output, .. })
                    if begun.elapsed() < RETRY_PATIENCE
                        && (pid != self.shared.pid() || is_passing(&output)) =>
                {
                    thread::sleep(POLL * 5);
                }
                answered => return answered,
            }
        }
    }

    /// The address of the database, for libpq and sqlx alike. The user is the superuser `postgres`.
    #[must_use]
    pub fn url(&self) -> String {
        self.url_for(&self.shared.options.database)
    }

    /// The address of another database of this cluster.
    #[must_use]
    pub fn url_for(&self, database: &str) -> String {
        format!("postgres://postgres@{}/{database}", percent_encoded(&self.shared.socket_dir))
    }

    /// The folder of the socket.
    #[must_use]
    pub fn socket_dir(&self) -> &Path {
        &self.shared.socket_dir
    }

    /// The folder of the state.
    #[must_use]
    pub fn state_dir(&self) -> &Path {
        &self.shared.options.state
    }

    /// Where the server writes its log.
    #[must_use]
    pub fn log_file(&self) -> PathBuf {
        self.shared.options.log_file()
    }

    /// The programs in use, for instance to run `psql` or `pgbench` of the same version.
    #[must_use]
    pub fn binaries(&self) -> &Binaries {
        &self.shared.binaries
    }

    /// The process id of the server, while it lives.
    #[must_use]
    pub fn postmaster_pid(&self) -> Option<u32> {
        self.shared.pid()
    }

    /// Makes a database if it is missing.
    ///
    /// # Errors
    /// A name that is not plain, or what `psql` says.
    pub fn create_database(&self, name: &str) -> Result<(), PostgresError> {
        let plain =
            name.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_');
        if !plain || !name.starts_with(|first: char| first.is_ascii_lowercase()) {
            return Err(PostgresError::BadDatabaseName(name.to_owned()));
        }
        let found = self.psql("postgres", &format!("SELECT 1 FROM pg_database WHERE datname = '{name}'"))?;
        if found.trim().is_empty() {
            self.psql("postgres", &format!("CREATE DATABASE {name}"))?;
        }
        Ok(())
    }

    /// Runs SQL through `psql` and answers its bare output.
    ///
    /// # Errors
    /// What `psql` says.
    pub fn psql(&self, database: &str, sql: &str) -> Result<String, PostgresError> {
        let mut command = std::process::Command::new(self.shared.binaries.program("psql"));
        command
            .args(["-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-d"])
            .arg(self.url_for(database))
            .arg("-c")
            .arg(sql);
        run(command, "psql")
    }

    /// Starts a thread that starts the server again when it dies. `on_event` is called from that thread.
    pub fn watch(&self, on_event: impl Fn(WatchEvent) + Send + 'static) {
        let watcher = Watcher::start(Arc::clone(&self.shared), on_event);
        let previous = self.watcher.lock().unwrap_or_else(PoisonError::into_inner).replace(watcher);
        drop(previous);
    }

    /// Starts the server again if it is down.
    ///
    /// # Errors
    /// As [`Cluster::start`].
    pub fn ensure_running(&self) -> Result<(), PostgresError> {
        self.shared.ensure_running()
    }

    /// Kills the server process as a crash would, and waits until it is gone. Its workers follow on their own.
    ///
    /// # Errors
    /// [`PostgresError::NotRunning`] when there is nothing to kill.
    pub fn kill_postmaster(&self) -> Result<(), PostgresError> {
        self.end(Stop::Kill)
    }

    /// Stops the server at once, without a checkpoint; the next start recovers.
    ///
    /// # Errors
    /// [`PostgresError::NotRunning`] when it is down already.
    pub fn stop_immediately(&self) -> Result<(), PostgresError> {
        self.end(Stop::Immediate)
    }

    /// Leaves the cluster; the last one stops the server (sessions are ended, a checkpoint is written). Dropping does
    /// the same but cannot say what went wrong.
    ///
    /// # Errors
    /// The server does not stop, or a throw-away folder cannot be removed.
    pub fn stop(self) -> Result<(), PostgresError> {
        self.leave()
    }

    fn end(&self, how: Stop) -> Result<(), PostgresError> {
        let pid = self.shared.pid().ok_or(PostgresError::NotRunning)?;
        postmaster::stop(&self.shared.options.data(), pid, how, || self.shared.reap())
    }

    fn leave(&self) -> Result<(), PostgresError> {
        drop(self.watcher.lock().unwrap_or_else(PoisonError::into_inner).take());
        let Some(users) = self.shared.state().users.take() else { return Ok(()) };
        let options = &self.shared.options;
        let starting = exclusive(&options.state.join("starting"))?;
        users.unlock().map_err(PostgresError::io("unlock", &options.state))?;
        if users.try_lock().is_err() {
            return Ok(());
        }
        if let Some(pid) = self.shared.pid() {
            // Nobody wants the data of a throw-away cluster, so it need not be written either.
            let how = if options.lifetime == Lifetime::ThrowAway { Stop::Immediate } else { Stop::Fast };
            postmaster::stop(&options.data(), pid, how, || self.shared.reap())?;
        }
        if options.lifetime == Lifetime::ThrowAway {
            fs::remove_dir_all(&options.state).map_err(PostgresError::io("remove", &options.state))?;
        }
        drop(starting);
        Ok(())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // There is nobody to tell; what is left is found and used, or swept, by the next start.
        let _result = self.leave();
    }
}

impl Shared {
    pub(crate) fn is_up(&self) -> bool {
        self.reap();
        self.pid().is_some()
    }

    pub(crate) fn ensure_running(&self) -> Result<(), PostgresError> {
        let starting = exclusive(&self.options.state.join("starting"))?;
        self.bring_up()?;
        drop(starting);
        Ok(())
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn pid(&self) -> Option<u32> {
        match postmaster::life(&self.options.data()) {
            Life::Alive(file) => Some(file.pid),
            Life::Absent | Life::Haunted => None,
        }
    }

    /// Collects the child if it has died.
    fn reap(&self) {
        let mut state = self.state();
        if let Some(child) = state.child.as_mut()
            && !matches!(child.try_wait(), Ok(None))
        {
            state.child = None;
        }
    }

    /// Gets the server to answer, whatever state it is in. The caller holds the lock `starting`.
    fn bring_up(&self) -> Result<(), PostgresError> {
        let data = self.options.data();
        let begun = Instant::now();
        loop {
            self.reap();
            match postmaster::life(&data) {
                Life::Alive(file) if file.phase == Phase::Ready => return Ok(()),
                Life::Alive(_) => thread::sleep(POLL),
                Life::Haunted => postmaster::exorcise(&data)?,
                Life::Absent => self.spawn(begun)?,
            }
            if begun.elapsed() > START_PATIENCE {
                let (seconds, log_file) = (START_PATIENCE.as_secs(), self.options.log_file());
                return Err(PostgresError::StartTimeout { seconds, log_file });
            }
        }
    }

    /// Starts the process and waits until it has written its pid file or has ended. An end because workers of a
    /// killed server still hold its memory is no failure yet.
    fn spawn(&self, begun: Instant) -> Result<(), PostgresError> {
        postmaster::free_socket(&self.options.data(), &self.socket_dir)?;
        let (log, offset) = self.open_log()?;
        let mut command = self.account.command(&self.binaries.program("postgres"), &self.options.data());
        let program = self.binaries.program("postgres");
        let errors = log.try_clone().map_err(PostgresError::io("share", &self.options.log_file()))?;
        let mut child = command
            .args(settings::arguments(&self.options, &self.socket_dir))
            .stdin(Stdio::null())
            .stdout(log)
            .stderr(errors)
            // In a group of its own, so that Ctrl-C at the terminal reaches us and not the server: we stop it last.
            .process_group(0)
            .spawn()
            .map_err(PostgresError::io("run", &program))?;
        while begun.elapsed() < START_PATIENCE {
            if let Ok(Some(_)) = child.try_wait() {
                return self.judge_early_end(offset, begun);
            }
            if matches!(postmaster::life(&self.options.data()), Life::Alive(file) if file.pid == child.id()) {
                break;
            }
            thread::sleep(POLL);
        }
        self.state().child = Some(child);
        self.wait_ready(offset, begun)
    }

    fn wait_ready(&self, offset: u64, begun: Instant) -> Result<(), PostgresError> {
        while begun.elapsed() < START_PATIENCE {
            self.reap();
            match postmaster::life(&self.options.data()) {
                Life::Alive(file) if file.phase == Phase::Ready => return Ok(()),
                Life::Alive(_) => thread::sleep(POLL),
                Life::Absent | Life::Haunted => return self.judge_early_end(offset, begun),
            }
        }
        Ok(())
    }

    fn judge_early_end(&self, offset: u64, begun: Instant) -> Result<(), PostgresError> {
        let log = self.log_since(offset);
        if is_passing(&log) && begun.elapsed() < RETRY_PATIENCE {
            thread::sleep(POLL * 5);
            return Ok(());
        }
        Err(PostgresError::StartFailed { log: tail(&log) })
    }

    fn open_log(&self) -> Result<(File, u64), PostgresError> {
        let path = self.options.log_file();
        let long = fs::metadata(&path).is_ok_and(|metadata| metadata.len() > LOG_BYTES_MAX);
        if long {
            fs::remove_file(&path).map_err(PostgresError::io("remove", &path))?;
        }
        let file = File::options()
            .create(true)
            .append(true)
            .open(&path)
            .map_err(PostgresError::io("open", &path))?;
        let offset = file.metadata().map_err(PostgresError::io("look at", &path))?.len();
        Ok((file, offset))
    }

    fn log_since(&self, offset: u64) -> String {
        let mut bytes = Vec::new();
        if let Ok(mut file) = File::open(self.options.log_file()) {
            // A log that cannot be read leaves the message empty; the failure itself is reported all the same.
            let _read = file.seek(SeekFrom::Start(offset)).and_then(|_| file.read_to_end(&mut bytes));
        }
        String::from_utf8_lossy(&bytes).into_owned()
    }
}

/// What Postgres says while an earlier server is still on its way out, or this one on its way up.
fn is_passing(output: &str) -> bool {
    let signs = [
        "shared memory block",
        "lock file \"",
        "is starting up",
        "is shutting down",
        "in recovery mode",
        "server closed the connection",
        "Connection refused",
        "No such file or directory",
    ];
    signs.into_iter().any(|sign| output.contains(sign))
}

/// A socket folder in the place of a host name: everything but letters and digits is encoded.
fn percent_encoded(path: &Path) -> String {
    let mut text = String::new();
    for byte in path.as_os_str().as_encoded_bytes() {
        if byte.is_ascii_alphanumeric() {
            text.push(char::from(*byte));
        } else {
            text.push_str(&format!("%{byte:02X}"));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::percent_encoded;
    use std::path::Path;

    #[test]
    fn a_socket_folder_fits_into_an_address() {
        assert_eq!(percent_encoded(Path::new("/var/lib/day book-1/s")), "%2Fvar%2Flib%2Fday%20book%2D1%2Fs");
    }
}
