//! What can go wrong, in words that a person at a terminal can act on.

use std::io;
use std::path::{Path, PathBuf};

/// Why a private Postgres could not be had.
#[derive(Debug, thiserror::Error)]
pub enum PostgresError {
    /// No folder with both `postgres` and `initdb` in it.
    #[error("no Postgres server programs found; looked through PG_BIN, pg_config, PATH and {}", list(.looked))]
    NotFound {
        /// The usual folders that were tried.
        looked: Vec<PathBuf>,
    },
    /// `PG_BIN` is set, but the programs are not there. A setting that says where to look is never ignored.
    #[error("PG_BIN names {}, but there is no postgres and initdb in it", .0.display())]
    BadPgBin(PathBuf),
    /// The data were written by another major version than any that is installed.
    #[error("the data in {} were written by Postgres {wanted}, which was not found; found: {found}", data.display())]
    WrongVersion {
        /// The data folder.
        data: PathBuf,
        /// The major version that wrote it.
        wanted: u32,
        /// The major versions that are there, as text.
        found: String,
    },
    /// Started by root without any other user to run as; Postgres refuses to run as root.
    #[error(
        "Postgres does not run as root, and there is neither a user `postgres` nor `nobody` to run it as"
    )]
    NoOtherUser,
    /// A file operation failed.
    #[error("{what} {}: {source}", path.display())]
    Io {
        /// What was tried, as a verb.
        what: &'static str,
        /// On which path.
        path: PathBuf,
        /// The system's answer.
        source: io::Error,
    },
    /// A helper program (`initdb`, `psql`) failed.
    #[error("{program} failed: {output}")]
    Program {
        /// Its name.
        program: String,
        /// The end of what it wrote.
        output: String,
    },
    /// The server ended before it was ready.
    #[error("Postgres did not start; the end of its log: {log}")]
    StartFailed {
        /// The end of the server's log.
        log: String,
    },
    /// The server runs but did not become ready in time.
    #[error("Postgres was not ready after {seconds} s; its log is {}", log_file.display())]
    StartTimeout {
        /// How long it was waited for.
        seconds: u64,
        /// Where the server writes.
        log_file: PathBuf,
    },
    /// The server did not end, not even after an immediate stop.
    #[error("Postgres (process {pid}) does not stop")]
    StopTimeout {
        /// The server's process id.
        pid: u32,
    },
    /// The server is down and a call needs it.
    #[error("Postgres is not running")]
    NotRunning,
    /// No folder short and private enough for the socket.
    #[error("no folder for the socket: {0} must be a folder of mode 0700 that belongs to the Postgres user")]
    NoSocketFolder(String),
    /// Database names here are lower-case letters, digits and underscores.
    #[error("`{0}` is not a database name: use lower-case letters, digits and underscores, first a letter")]
    BadDatabaseName(String),
}

impl PostgresError {
    /// Wraps a file error with what was tried and where.
    pub(crate) fn io(what: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_path_buf();
        move |source| Self::Io { what, path, source }
    }
}

fn list(paths: &[PathBuf]) -> String {
    paths.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(", ")
}
