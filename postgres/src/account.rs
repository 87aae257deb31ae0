//! As whom Postgres runs. It refuses to run as root; so root hands it to another user that exists already.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use crate::error::PostgresError;

/// The user that runs the server and owns its data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Account {
    /// The user who runs this process.
    Own {
        /// Its id.
        uid: u32,
    },
    /// Another one, because this process is root's.
    Other {
        /// Its id.
        uid: u32,
        /// Its group.
        gid: u32,
    },
}

impl Account {
    /// Chooses the user. Data that exist already keep their owner.
    pub(crate) fn choose(data: &Path) -> Result<Self, PostgresError> {
        let uid = rustix::process::geteuid();
        if !uid.is_root() {
            return Ok(Self::Own { uid: uid.as_raw() });
        }
        if let Ok(metadata) = fs::metadata(data)
            && metadata.uid() != 0
        {
            return Ok(Self::Other { uid: metadata.uid(), gid: metadata.gid() });
        }
        let users = fs::read_to_string("/etc/passwd").unwrap_or_default();
        other_user(&users).ok_or(PostgresError::NoOtherUser)
    }

    /// The id of that user.
    pub(crate) fn uid(self) -> u32 {
        match self {
            Self::Own { uid } | Self::Other { uid, .. } => uid,
        }
    }

    /// Gives a path to that user.
    pub(crate) fn give(self, path: &Path) -> Result<(), PostgresError> {
        match self {
            Self::Own { .. } => Ok(()),
            Self::Other { uid, gid } => std::os::unix::fs::chown(path, Some(uid), Some(gid))
                .map_err(PostgresError::io("give away", path)),
        }
    }

    /// A command that runs as that user, in a folder that it may enter, free of settings meant for other servers.
    pub(crate) fn command(self, program: &Path, folder: &Path) -> Command {
        let mut command = Command::new(program);
        command.current_dir(folder);
        for (name, _) in std::env::vars_os() {
            if name.to_string_lossy().starts_with("PG") {
                command.env_remove(name);
            }
        }
        if let Self::Other { uid, gid } = self {
            command.uid(uid).gid(gid);
        }
        command
    }
}

/// Finds `postgres`, else `nobody`, in the text of the password file.
fn other_user(users: &str) -> Option<Account> {
    ["postgres", "nobody"].iter().find_map(|wanted| {
        users.lines().find_map(|line| {
            let mut fields = line.split(':');
            let name = fields.next()?;
            let uid: u32 = fields.nth(1)?.parse().ok()?;
            let gid: u32 = fields.next()?.parse().ok()?;
            (name == *wanted && uid != 0).then_some(Account::Other { uid, gid })
        })
    })
}

#[cfg(test)]
mod tests {
    use super::{Account, other_user};

    #[test]
    fn prefers_postgres_and_falls_back_to_nobody() {
        let both =
            "root:x:0:0::/root:/bin/sh\nnobody:x:65534:65534::/:/bin/false\npostgres:x:101:103::/:/bin/sh\n";
        assert_eq!(other_user(both), Some(Account::Other { uid: 101, gid: 103 }));
        let one = "root:x:0:0::/root:/bin/sh\nnobody:x:65534:65533::/:/bin/false\n";
        assert_eq!(other_user(one), Some(Account::Other { uid: 65534, gid: 65533 }));
        assert_eq!(other_user("root:x:0:0::/root:/bin/sh\n"), None);
    }
}
