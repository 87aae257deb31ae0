//! How the data of a cluster come to be: `initdb` into a side folder, renamed when it is whole, so that an
//! interrupted first start leaves nothing that looks like a cluster.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use crate::account::Account;
use crate::error::PostgresError;
use crate::find::{Binaries, all_binaries, find_binaries};
use crate::layout::{Durability, Lifetime, Options};
use crate::running::Running;
use crate::sweep;

/// A cluster whose data exist; it may or may not run.
#[derive(Debug)]
pub struct Cluster {
    pub(crate) options: Options,
    pub(crate) binaries: Binaries,
    pub(crate) account: Account,
    /// Held shared while in use; whoever gets it exclusively is the last one.
    pub(crate) users: File,
}

impl Cluster {
    /// Opens the cluster of these options, and makes it first if it is not there.
    ///
    /// # Errors
    /// No programs, none of the version that wrote the data, no user to run as, or a failed file operation.
    pub fn open_or_init(options: Options) -> Result<Self, PostgresError> {
        if options.lifetime == Lifetime::ThrowAway {
            sweep::leftovers();
        }
        options.make_state()?;
        let users = join_users(&options)?;
        let account = Account::choose(&options.data())?;
        let starting = exclusive(&options.state.join("starting"))?;
        let binaries = if options.data().join("PG_VERSION").is_file() {
            matching(&options.data())?
        } else {
            let binaries = find_binaries()?;
            init(&options, &binaries, account)?;
            binaries
        };
        drop(starting);
        Ok(Self { options, binaries, account, users })
    }

    /// Starts the server, or joins the one that runs, waits until it answers and makes the database if it is missing.
    ///
    /// # Errors
    /// The server ends before it is ready (with the end of its log), or is not ready in time.
    pub fn start(self) -> Result<Running, PostgresError> {
        Running::start(self)
    }

    /// The folder of the state, to tell people where their data are.
    #[must_use]
    pub fn state_dir(&self) -> &Path {
        &self.options.state
    }
}

/// Takes part in the use of a cluster, until the file is dropped.
fn join_users(options: &Options) -> Result<File, PostgresError> {
    let path = options.state.join("users");
    if options.lifetime == Lifetime::ThrowAway {
        // Locked before it gets its name: a sweep by another process never sees it free.
        let unnamed = options.state.join("users.new");
        let file = open(&unnamed)?;
        file.lock_shared().map_err(PostgresError::io("lock", &unnamed))?;
        fs::rename(&unnamed, &path).map_err(PostgresError::io("name", &path))?;
        return Ok(file);
    }
    let file = open(&path)?;
    file.lock_shared().map_err(PostgresError::io("lock", &path))?;
    Ok(file)
}

/// Waits for the sole right to start or stop the server.
pub(crate) fn exclusive(path: &Path) -> Result<File, PostgresError> {
    let file = open(path)?;
    file.lock().map_err(PostgresError::io("lock", path))?;
    Ok(file)
}

fn open(path: &Path) -> Result<File, PostgresError> {
    File::options()
        .create(true)
        .truncate(false)
        .write(true)
        .open(path)
        .map_err(PostgresError::io("open", path))
}

/// The programs of the version that wrote the data; no other can read them.
fn matching(data: &Path) -> Result<Binaries, PostgresError> {
    let path = data.join("PG_VERSION");
    let text = fs::read_to_string(&path).map_err(PostgresError::io("read", &path))?;
    let wanted: u32 = text.trim().parse().unwrap_or_default();
    let all = all_binaries()?;
    if all.is_empty() {
        return find_binaries();
    }
    let found = all.iter().map(|binaries| binaries.major().to_string()).collect::<Vec<_>>().join(", ");
    all.into_iter().find(|binaries| binaries.major() == wanted).ok_or_else(|| PostgresError::WrongVersion {
        data: data.to_path_buf(),
        wanted,
        found,
    })
}

fn init(options: &Options, binaries: &Binaries, account: Account) -> Result<(), PostgresError> {
    let aside = options.state.join("data.new");
    if aside.exists() {
        fs::remove_dir_all(&aside).map_err(PostgresError::io("remove", &aside))?;
    }
    fs::create_dir(&aside).map_err(PostgresError::io("create", &aside))?;
    account.give(&aside)?;
    let mut command = account.command(&binaries.program("initdb"), &aside);
    command.arg("-D").arg(&aside).args([
        "--username=postgres",
        "--encoding=UTF8",
        // Sorting by bytes is the same on every machine, so an index never depends on the system's language files.
        "--no-locale",
        "--auth-local=trust",
        "--auth-host=reject",
        "--data-checksums",
    ]);
    if options.durability == Durability::NoFsync {
        command.arg("--no-sync");
    }
    run(command, "initdb")?;
    let data = options.data();
    fs::rename(&aside, &data).map_err(PostgresError::io("name", &data))
}

/// Runs a helper program to its end and answers what it wrote.
pub(crate) fn run(mut command: std::process::Command, name: &str) -> Result<String, PostgresError> {
    let path = PathBuf::from(command.get_program());
    let output = command.output().map_err(PostgresError::io("run", &path))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let output =
        format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    Err(PostgresError::Program { program: name.to_owned(), output: tail(&output) })
}

/// The last lines of a text, enough to see why.
pub(crate) fn tail(text: &str) -> String {
    let lines: Vec<&str> = text.trim_end().lines().collect();
    lines.get(lines.len().saturating_sub(12)..).unwrap_or_default().join("\n")
}
