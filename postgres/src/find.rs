//! Where systems keep the Postgres server programs.
//!
//! Client packages put `psql` and `pg_config` on PATH but not the server; so a folder counts only when it holds both
//! `postgres` and `initdb`.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::error::PostgresError;

/// Folders with one `*` at most, which stands for a version.
const USUAL_FOLDERS: &[&str] = &[
    "/usr/lib/postgresql/*/bin",
    "/usr/pgsql-*/bin",
    "/usr/lib/postgresql*/bin",
    "/usr/libexec/postgresql*",
    "/opt/homebrew/opt/postgresql@*/bin",
    "/usr/local/opt/postgresql@*/bin",
    "/home/linuxbrew/.linuxbrew/opt/postgresql@*/bin",
    "/opt/homebrew/bin",
    "/usr/local/bin",
    "/usr/local/pgsql/bin",
    "/Applications/Postgres.app/Contents/Versions/*/bin",
];

/// A folder of Postgres server programs and their major version.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Binaries {
    bin_dir: PathBuf,
    major: u32,
}

impl Binaries {
    /// The folder.
    #[must_use]
    pub fn bin_dir(&self) -> &Path {
        &self.bin_dir
    }

    /// The major version, such as 15.
    #[must_use]
    pub fn major(&self) -> u32 {
        self.major
    }

    /// The path of a program, such as `psql` or `pgbench`. One that is not beside the server is left to PATH.
    #[must_use]
    pub fn program(&self, name: &str) -> PathBuf {
        let beside = self.bin_dir.join(name);
        if beside.is_file() { beside } else { PathBuf::from(name) }
    }

    fn at(bin_dir: &Path) -> Option<Self> {
        let server = bin_dir.join("postgres");
        if !server.is_file() || !bin_dir.join("initdb").is_file() {
            return None;
        }
        let output = Command::new(&server).arg("--version").output().ok()?;
        let major = major_of(&String::from_utf8_lossy(&output.stdout))?;
        Some(Self { bin_dir: bin_dir.to_path_buf(), major })
    }
}

/// The programs to use for a new cluster.
///
/// # Errors
/// [`PostgresError::NotFound`] when there are none, [`PostgresError::BadPgBin`] when `PG_BIN` names a wrong folder.
pub fn find_binaries() -> Result<Binaries, PostgresError> {
    all_binaries()?
        .into_iter()
        .next()
        .ok_or_else(|| PostgresError::NotFound { looked: USUAL_FOLDERS.iter().map(PathBuf::from).collect() })
}

/// All programs found, in order of preference: what was named (`PG_BIN`, then nothing else), `pg_config`, PATH, then
/// the usual folders with the newest version first.
///
/// # Errors
/// [`PostgresError::BadPgBin`] when `PG_BIN` names a folder without the programs.
pub fn all_binaries() -> Result<Vec<Binaries>, PostgresError> {
    if let Some(named) = env::var_os("PG_BIN").filter(|value| !value.is_empty()) {
        let named = PathBuf::from(named);
        return Binaries::at(&named).map(|found| vec![found]).ok_or(PostgresError::BadPgBin(named));
    }
    let mut found: Vec<Binaries> = Vec::new();
    let first = pg_config_folder().into_iter().chain(path_folders());
    found.extend(first.filter_map(|folder| Binaries::at(&folder)));
    let mut usual: Vec<Binaries> = USUAL_FOLDERS
        .iter()
        .flat_map(|pattern| expand(pattern))
        .filter_map(|folder| Binaries::at(&folder))
        .collect();
    usual.sort_by_key(|binaries| std::cmp::Reverse(binaries.major));
    found.extend(usual);
    let mut seen = Vec::new();
    found.retain(|binaries| {
        let new = !seen.contains(&binaries.bin_dir);
        seen.push(binaries.bin_dir.clone());
        new
    });
    Ok(found)
}

fn pg_config_folder() -> Option<PathBuf> {
    let output = Command::new("pg_config").arg("--bindir").output().ok()?;
    let folder = String::from_utf8(output.stdout).ok()?;
    Some(PathBuf::from(folder.trim())).filter(|folder| folder.is_absolute())
}

fn path_folders() -> Vec<PathBuf> {
    env::var_os("PATH").map(|path| env::split_paths(&path).collect()).unwrap_or_default()
}

/// Replaces the one `*` of a pattern by every name that fits.
fn expand(pattern: &str) -> Vec<PathBuf> {
    let Some((before, after)) = pattern.split_once('*') else { return vec![PathBuf::from(pattern)] };
    let (parent, prefix) = before.rsplit_once('/').unwrap_or(("/", before));
    let Ok(entries) = fs::read_dir(parent) else { return Vec::new() };
    entries
        .filter_map(Result::ok)
        .filter_map(|entry| entry.file_name().into_string().ok())
        .filter(|name| name.starts_with(prefix))
        .map(|name| PathBuf::from(format!("{parent}/{name}{after}")))
        .collect()
}

/// Reads the major version from `postgres (PostgreSQL) 15.14 (Debian 15.14-0)`.
fn major_of(version_line: &str) -> Option<u32> {
    let after = version_line.split("(PostgreSQL)").nth(1)?.trim_start();
    let digits: String = after.chars().take_while(char::is_ascii_digit).collect();
    digits.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::major_of;

    #[test]
    fn reads_the_major_version_of_releases_and_previews() {
        assert_eq!(major_of("postgres (PostgreSQL) 15.14 (Debian 15.14-0+deb12u1)\n"), Some(15));
        assert_eq!(major_of("postgres (PostgreSQL) 19beta2\n"), Some(19));
        assert_eq!(major_of("bash: postgres: not found"), None);
    }
}
