//! Where the project lies and what its one configuration file calls things.

use std::env;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use crate::failure::Failure;

/// The project's folders and names.
#[derive(Debug)]
pub struct Workspace {
    root: PathBuf,
    output_name: String,
}

impl Workspace {
    /// The project that this program was built from.
    pub fn find() -> Result<Self, Failure> {
        let built_from = Path::new(env!("CARGO_MANIFEST_DIR"));
        let root = built_from.parent().unwrap_or(built_from).to_path_buf();
        let output_name = output_name(&root.join("Leptos.toml"))?;
        Ok(Self { root, output_name })
    }

    /// The top folder.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// A path below the top folder.
    pub fn path(&self, below: &str) -> PathBuf {
        self.root.join(below)
    }

    /// A path in Cargo's target folder.
    pub fn target(&self, below: &str) -> PathBuf {
        let folder = env::var_os("CARGO_TARGET_DIR").map_or_else(|| PathBuf::from("target"), PathBuf::from);
        self.root.join(folder).join(below)
    }

    /// Where the served files are put. The server looks for them there, whatever Cargo's target folder is.
    pub fn site(&self) -> PathBuf {
        self.root.join("target").join("site")
    }

    /// How the files of the browser half are called, such as `daybook`.
    pub fn output_name(&self) -> &str {
        &self.output_name
    }
}

/// The Cargo that runs this program, else the one on PATH.
pub fn cargo() -> OsString {
    env::var_os("CARGO").unwrap_or_else(|| OsString::from("cargo"))
}

/// Reads the one key that xtask shares with the server; without the file both use the same default.
fn output_name(path: &Path) -> Result<String, Failure> {
    let Ok(text) = fs::read_to_string(path) else { return Ok("daybook".to_owned()) };
    let table: toml::Table = text.parse().map_err(|error: toml::de::Error| Failure::Malformed {
        path: path.to_path_buf(),
        reason: error.to_string(),
    })?;
    let table = toml::Value::Table(table);
    let name = ["package", "metadata", "leptos", "output-name"]
        .iter()
        .try_fold(&table, |value, key| value.get(key).ok_or(()))
        .ok()
        .and_then(toml::Value::as_str)
        .map(str::to_owned);
    Ok(name.unwrap_or_else(|| "daybook".to_owned()))
}
