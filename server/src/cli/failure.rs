//! How a command ends: an exit code that means something, and for a failure two lines, what happened and what to do.

use std::fmt;
use std::process::ExitCode;

use backoffice::access::AccessError;
use ledger::service::{PageError, PostError, ReadError};

/// The exit codes of every command; `daybook --help` lists them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    Ok,
    Failed,
    /// The command line itself is wrong.
    Usage,
    /// The command worked, and what it looked at is broken.
    Broken,
    /// Ended by Ctrl-C or a termination signal.
    Interrupted,
}

impl Exit {
    pub fn code(self) -> u8 {
        match self {
            Exit::Ok => 0,
            Exit::Failed => 1,
            Exit::Usage => 2,
            Exit::Broken => 3,
            Exit::Interrupted => 130,
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> ExitCode {
        ExitCode::from(exit.code())
    }
}

/// What happened, in one line, and what to do about it, in one line.
#[derive(Clone, Debug)]
pub struct Failure {
    pub exit: Exit,
    pub what: String,
    pub remedy: String,
}

impl Failure {
    pub fn new(what: impl Into<String>, remedy: impl Into<String>) -> Failure {
        Failure { exit: Exit::Failed, what: what.into(), remedy: remedy.into() }
    }

    pub fn usage(what: impl Into<String>, remedy: impl Into<String>) -> Failure {
        Failure { exit: Exit::Usage, ..Failure::new(what, remedy) }
    }

    pub fn interrupted() -> Failure {
        Failure {
            exit: Exit::Interrupted,
            ..Failure::new("interrupted", "run the same command again to go on")
        }
    }

    /// A reader that closed its end, such as `head`, has what it wanted.
    pub fn of_output(error: &std::io::Error) -> Failure {
        if error.kind() == std::io::ErrorKind::BrokenPipe {
            return Failure { exit: Exit::Ok, ..Failure::new("", "") };
        }
        Failure::new(
            format!("the output cannot be written: {error}"),
            "check the disk's free space and the file's rights",
        )
    }

    pub fn database(detail: impl fmt::Display) -> Failure {
        Failure::new(
            format!("the database does not answer as it should: {detail}"),
            "check that Postgres runs and that DATABASE_URL names it; then run the command again",
        )
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Details of other programs can span lines; here each part is one.
        let line = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
        write!(f, "error: {}\n   do: {}", line(&self.what), line(&self.remedy))
    }
}

impl From<ReadError> for Failure {
    fn from(error: ReadError) -> Failure {
        Failure::database(error)
    }
}

impl From<PageError> for Failure {
    fn from(error: PageError) -> Failure {
        Failure::database(error)
    }
}

impl From<AccessError> for Failure {
    fn from(error: AccessError) -> Failure {
        Failure::database(error)
    }
}

impl From<PostError> for Failure {
    fn from(error: PostError) -> Failure {
        match error {
            PostError::Refused(refusal) => {
                Failure::new(format!("refused: {refusal}"), "correct what it names; nothing was written")
            }
            PostError::Busy | PostError::Overloaded => {
                Failure::new(error.to_string(), "wait a moment and run the command again")
            }
            PostError::OutcomeUnknown => {
                Failure::new(error.to_string(), "look at the account before running the command again")
            }
            PostError::DatabaseUnavailable | PostError::Internal => Failure::database(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_is_two_lines_whatever_its_details() {
        let shown = Failure::new("it broke:\n  here\n", "mend it").to_string();
        assert_eq!(shown, "error: it broke: here\n   do: mend it");
    }
}
