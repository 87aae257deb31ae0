//! What a machine must have, brought by its own package manager where we may use it; else the exact command is said.

mod manager;
mod packages;

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

pub use packages::{node_packages, python_environment};

use crate::failure::Failure;
use crate::process;
use manager::Package;

/// The target of the browser half.
pub const WASM: &str = "wasm32-unknown-unknown";

/// Whether the browser half can be built.
#[derive(Debug, PartialEq, Eq)]
pub enum WasmTarget {
    /// It can.
    Present,
    /// It cannot; the text says why and what would help.
    Absent(String),
}

/// Looks for the wasm target and asks rustup for it when it is missing.
pub fn wasm_target() -> WasmTarget {
    if has_wasm_target() {
        return WasmTarget::Present;
    }
    if !process::answers("rustup", "--version") {
        return WasmTarget::Absent(format!(
            "the Rust target {WASM} is missing and there is no rustup to add it"
        ));
    }
    println!("Adding the Rust target {WASM} …");
    let added = Command::new("rustup").args(["target", "add", WASM]).status();
    if added.is_ok_and(|status| status.success()) && has_wasm_target() {
        return WasmTarget::Present;
    }
    WasmTarget::Absent(format!("the Rust target {WASM} could not be added; try: rustup target add {WASM}"))
}

fn has_wasm_target() -> bool {
    let rustc = env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let output = Command::new(rustc).args(["--print", "target-libdir", "--target", WASM]).output();
    output.is_ok_and(|output| Path::new(String::from_utf8_lossy(&output.stdout).trim()).is_dir())
}

/// Makes sure that Postgres server programs are there.
pub fn postgres() -> Result<(), Failure> {
    match daybook_postgres::find_binaries() {
        Ok(_) => Ok(()),
        Err(daybook_postgres::PostgresError::NotFound { .. }) => {
            manager::install(Package::Postgres)?;
            daybook_postgres::find_binaries().map(|_| ()).map_err(Failure::from)
        }
        Err(error) => Err(error.into()),
    }
}

/// Makes sure that there is a Chromium and answers where. `DAYBOOK_CHROMIUM` names one of the caller's choice.
pub fn chromium() -> Result<PathBuf, Failure> {
    if let Some(named) = env::var_os("DAYBOOK_CHROMIUM") {
        return Ok(PathBuf::from(named));
    }
    if let Some(found) = find_chromium() {
        return Ok(found);
    }
    manager::install(Package::Chromium)?;
    find_chromium().ok_or_else(|| {
        Failure::Check("Chromium was installed but is not on PATH; set DAYBOOK_CHROMIUM".to_owned())
    })
}

fn find_chromium() -> Option<PathBuf> {
    let names = ["chromium", "chromium-browser", "google-chrome-stable", "google-chrome"];
    let apps = [
        "/Applications/Chromium.app/Contents/MacOS/Chromium",
        "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome",
    ];
    names
        .iter()
        .find_map(|name| on_path(name))
        .or_else(|| apps.iter().map(PathBuf::from).find(|app| app.is_file()))
}

/// Makes sure that Node and npm are there.
fn node() -> Result<(), Failure> {
    if process::answers("node", "--version") && process::answers("npm", "--version") {
        return Ok(());
    }
    manager::install(Package::Node)
}

/// Whether cargo-nextest is there. Without it the tests run by `cargo test`; it takes minutes to compile and is not
/// worth that on a first run.
pub fn has_nextest() -> bool {
    let version = process::command(crate::workspace::cargo()).args(["nextest", "--version"]).output();
    version.is_ok_and(|output| output.status.success())
}

/// Where PATH finds a program.
fn on_path(name: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH")?;
    env::split_paths(&path).map(|folder| folder.join(name)).find(|file| file.is_file())
}
