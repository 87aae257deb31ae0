//! Where the state of a cluster lies, and what the caller may choose.
//!
//! ```text
//! <state>/data           the cluster itself, mode 0700, owned by the Postgres user
//! <state>/s              the socket, mode 0700, unless the path would be too long for a socket
//! <state>/postgres.log   what the server writes
//! <state>/starting       locked while somebody starts or stops the server
//! <state>/users          locked, shared, by everybody who uses the server
//! ```

use std::env;
use std::fs::{self, DirBuilder};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use crate::account::Account;
use crate::error::PostgresError;

/// The longest path of a socket that every system takes (104 bytes with the closing zero, 108 on Linux).
const SOCKET_PATH_BYTES_MAX: usize = 103;
/// How the server names its socket inside the folder.
const SOCKET_NAME: &str = "/.s.PGSQL.5432";
/// The name of throw-away folders begins so; the sweep knows them by it.
pub(crate) const THROW_AWAY_PREFIX: &str = "daybook-throw-away-";

/// Whether commits reach the disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Durability {
    /// Commits survive a crash. Lasting clusters always do this, and crash tests need it.
    Fsync,
    /// Faster and lossy: only for throw-away data.
    NoFsync,
}

/// Whether the data outlive the process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Lifetime {
    Lasting,
    ThrowAway,
}

/// Which cluster to open, and how it runs.
#[derive(Debug, Clone)]
pub struct Options {
    pub(crate) state: PathBuf,
    pub(crate) lifetime: Lifetime,
    pub(crate) durability: Durability,
    pub(crate) database: String,
    pub(crate) settings: Vec<(String, String)>,
}

impl Options {
    /// The lasting cluster of a project, in its folder `.daybook`; see [`Options::for_data_dir`].
    ///
    /// # Errors
    /// [`PostgresError::Io`] when the folder cannot be made.
    pub fn for_project(project: &Path) -> Result<Self, PostgresError> {
        Self::for_data_dir(&project.join(".daybook"))
    }

    /// The lasting cluster that belongs to a data folder, which is made if it is missing: `<folder>/postgres`. For
    /// root the cluster lies below `/var/lib/daybook`, because the Postgres user often cannot enter root's own
    /// folders; the data folder then holds a link to it.
    ///
    /// # Errors
    /// [`PostgresError::Io`] when the folder cannot be made.
    pub fn for_data_dir(folder: &Path) -> Result<Self, PostgresError> {
        let made = DirBuilder::new().recursive(true).mode(0o700).create(folder);
        made.map_err(PostgresError::io("create", folder))?;
        let folder = fs::canonicalize(folder).map_err(PostgresError::io("enter", folder))?;
        let state = if rustix::process::geteuid().is_root() {
            let state = Path::new("/var/lib/daybook").join(system_name(&folder));
            // A help for people who look for their data; nothing reads it.
            let _linked = std::os::unix::fs::symlink(&state, folder.join("postgres"));
            state
        } else {
            folder.join("postgres")
        };
        Ok(Self::at(state, Lifetime::Lasting, Durability::Fsync))
    }

    /// A lasting cluster in a folder of the caller's choice. For root: the Postgres user must be able to enter it.
    #[must_use]
    pub fn at_folder(state: PathBuf) -> Self {
        Self::at(state, Lifetime::Lasting, Durability::Fsync)
    }

    /// A cluster in a temporary folder that goes away with the [`crate::Running`].
    #[must_use]
    pub fn throw_away(durability: Durability) -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("{THROW_AWAY_PREFIX}{}-{number}", std::process::id());
        Self::at(temporary_root().join(name), Lifetime::ThrowAway, durability)
    }

    /// Adds a server setting, such as `max_connections`.
    #[must_use]
    pub fn with_setting(mut self, name: &str, value: &str) -> Self {
        self.settings.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Another name than `daybook` for the database that is made at the start.
    #[must_use]
    pub fn with_database(mut self, name: &str) -> Self {
        name.clone_into(&mut self.database);
        self
    }

    /// The folder of the state, to tell people where their data are.
    #[must_use]
    pub fn state_dir(&self) -> &Path {
        &self.state
    }

    fn at(state: PathBuf, lifetime: Lifetime, durability: Durability) -> Self {
        Self { state, lifetime, durability, database: "daybook".to_owned(), settings: Vec::new() }
    }

    pub(crate) fn data(&self) -> PathBuf {
        self.state.join("data")
    }

    pub(crate) fn log_file(&self) -> PathBuf {
        self.state.join("postgres.log")
    }

    /// Makes the state folder. Root's stays root's; others may pass through it to the data and the socket, no more.
    pub(crate) fn make_state(&self) -> Result<(), PostgresError> {
        let mode = if rustix::process::geteuid().is_root() { 0o711 } else { 0o700 };
        if let Some(parent) = self.state.parent()
            && !parent.is_dir()
        {
            let open = if rustix::process::geteuid().is_root() { 0o755 } else { 0o700 };
            DirBuilder::new()
                .recursive(true)
                .mode(open)
                .create(parent)
                .map_err(PostgresError::io("create", parent))?;
        }
        match DirBuilder::new().mode(mode).create(&self.state) {
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => Ok(()),
            result => result.map_err(PostgresError::io("create", &self.state)),
        }
    }

    /// Makes the folder of the socket and answers where it is.
    pub(crate) fn make_socket_folder(&self, account: Account) -> Result<PathBuf, PostgresError> {
        let name = format!("daybook-{}-{:016x}", account.uid(), digest(&self.state));
        let runtime = env::var_os("XDG_RUNTIME_DIR")
            .map(PathBuf::from)
            .filter(|_| matches!(account, Account::Own { .. }));
        let candidates = [
            Some(self.state.join("s")),
            runtime.map(|folder| folder.join(&name)),
            Some(Path::new("/tmp").join(&name)),
        ];
        let folder = candidates
            .into_iter()
            .flatten()
            .find(|folder| folder.as_os_str().len() + SOCKET_NAME.len() <= SOCKET_PATH_BYTES_MAX)
            .ok_or_else(|| PostgresError::NoSocketFolder("/tmp".to_owned()))?;
        match DirBuilder::new().mode(0o700).create(&folder) {
            Ok(()) => account.give(&folder)?,
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(PostgresError::io("create", &folder)(error)),
        }
        let metadata = fs::symlink_metadata(&folder).map_err(PostgresError::io("look at", &folder))?;
        // A folder that somebody else prepared below /tmp must not be trusted with the only door to the data.
        let private = metadata.is_dir()
            && metadata.uid() == account.uid()
            && metadata.permissions().mode() & 0o077 == 0;
        if private { Ok(folder) } else { Err(PostgresError::NoSocketFolder(folder.display().to_string())) }
    }
}

/// The name of a state folder below a folder that all projects share: it tells the project, and is the data folder's
/// alone.
fn system_name(folder: &Path) -> String {
    let names = folder.iter().rev().map(|name| name.to_string_lossy());
    let mut plain =
        names.map(|name| name.chars().filter(char::is_ascii_alphanumeric).take(24).collect::<String>());
    let told =
        plain.find(|name| !name.is_empty() && name != "daybook").unwrap_or_else(|| "daybook".to_owned());
    format!("{told}-{:016x}", digest(folder))
}

/// FNV-1a: short, and the same in every build, which the standard hasher does not promise.
fn digest(path: &Path) -> u64 {
    path.as_os_str()
        .as_encoded_bytes()
        .iter()
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
}

/// Where throw-away clusters lie: the system's temporary folder, if the Postgres user can get there.
pub(crate) fn temporary_root() -> PathBuf {
    let folder = env::temp_dir();
    if rustix::process::geteuid().is_root() && !all_may_enter(&folder) {
        return PathBuf::from("/var/lib/daybook");
    }
    folder
}

fn all_may_enter(folder: &Path) -> bool {
    folder
        .ancestors()
        .all(|ancestor| fs::metadata(ancestor).is_ok_and(|metadata| metadata.mode() & 0o001 != 0))
}

#[cfg(test)]
mod tests {
    use super::{digest, system_name};
    use std::path::Path;

    #[test]
    fn the_digest_is_fnv_1a() {
        // The published check values of FNV-1a, 64 bits.
        assert_eq!(digest(Path::new("")), 0xcbf2_9ce4_8422_2325);
        assert_eq!(digest(Path::new("a")), 0xaf63_dc4c_8601_ec8c);
        assert_eq!(digest(Path::new("foobar")), 0x8594_4171_f739_67e8);
    }

    #[test]
    fn folders_of_one_name_do_not_share_a_cluster() {
        assert_ne!(system_name(Path::new("/a/shop/.daybook")), system_name(Path::new("/b/shop/.daybook")));
        assert!(system_name(Path::new("/a/my shop/.daybook")).starts_with("myshop-"));
        assert!(system_name(Path::new("/.daybook")).starts_with("daybook-"));
    }
}
