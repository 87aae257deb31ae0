//! Why a command stopped, in words for the person at the terminal.

use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use daybook_postgres::PostgresError;

/// Why a command stopped.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
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
    /// A program could not be started at all.
    #[error("cannot run {program}: {source}")]
    Spawn {
        /// The program.
        program: String,
        /// The system's answer.
        source: io::Error,
    },
    /// A program ended with an error; it has said why itself.
    #[error("{program} failed ({status})")]
    Program {
        /// The command line.
        program: String,
        /// How it ended.
        status: String,
    },
    /// Ctrl-C or a request to terminate.
    #[error("interrupted")]
    Interrupted,
    /// The machine lacks something, and xtask may not or cannot install it.
    #[error("{what} is missing; install it with:\n\n    {command}\n")]
    Missing {
        /// What is missing.
        what: &'static str,
        /// The exact command that brings it.
        command: String,
    },
    /// A file could not be understood.
    #[error("{}: {reason}", path.display())]
    Malformed {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// The private Postgres could not be had.
    #[error(transparent)]
    Postgres(#[from] PostgresError),
    /// A check found something wrong; the text says what.
    #[error("{0}")]
    Check(String),
}

impl Failure {
    /// Wraps a file error with what was tried and where.
    pub fn io(what: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_path_buf();
        move |source| Self::Io { what, path, source }
    }

    /// 130 after an interruption, 3 where something must be installed first, 1 otherwise.
    pub fn exit_code(&self) -> ExitCode {
        match self {
            Self::Interrupted => ExitCode::from(130),
            Self::Missing { .. } => ExitCode::from(3),
            _ => ExitCode::FAILURE,
        }
    }
}
