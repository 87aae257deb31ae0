//! Node packages of the browser tests and the private Python environment, each installed once per list of versions.

use std::fs;
use std::path::{Path, PathBuf};

use crate::assets::digest;
use crate::failure::Failure;
use crate::prepare::manager::{self, Package};
use crate::prepare::{node, on_path};
use crate::process;
use crate::workspace::Workspace;

/// Installs what `end2end/package-lock.json` lists, unless that is there already.
pub fn node_packages(workspace: &Workspace) -> Result<(), Failure> {
    let folder = workspace.path("end2end");
    let lock = folder.join("package-lock.json");
    let mark = folder.join("node_modules").join(".daybook-installed");
    let wanted = digest::of_file(&lock)?;
    if is_marked(&mark, &wanted) {
        return Ok(());
    }
    node()?;
    println!("Installing the Node packages of the browser tests …");
    let mut install = process::command("npm");
    install.current_dir(&folder).args(["ci", "--no-audit", "--no-fund", "--ignore-scripts"]);
    // The system's Chromium is used; Playwright's own would come from outside the package registries.
    process::run(install.env("PLAYWRIGHT_SKIP_BROWSER_DOWNLOAD", "1"))?;
    write_mark(&mark, &wanted)
}

/// Makes the Python environment of `xtask/requirements.txt` and answers the folder of its programs.
pub fn python_environment(workspace: &Workspace) -> Result<PathBuf, Failure> {
    let list = workspace.path("xtask/requirements.txt");
    let folder = workspace.target("venv");
    let programs = folder.join("bin");
    let mark = folder.join(".daybook-installed");
    let wanted = digest::of_file(&list)?;
    if is_marked(&mark, &wanted) {
        return Ok(programs);
    }
    println!("Making a private Python environment in {} …", folder.display());
    if make_venv(&folder).is_err() {
        process::not_interrupted()?;
        manager::install(Package::PythonVenv)?;
        make_venv(&folder)?;
    }
    let mut install = process::command(programs.join("python"));
    install.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "-r"]).arg(&list);
    process::run(&mut install)?;
    write_mark(&mark, &wanted)?;
    Ok(programs)
}

fn make_venv(folder: &Path) -> Result<(), Failure> {
    let python = on_path("python3").unwrap_or_else(|| PathBuf::from("python3"));
    process::run(process::command(python).args(["-m", "venv", "--clear"]).arg(folder))
}

fn is_marked(mark: &Path, wanted: &str) -> bool {
    fs::read_to_string(mark).is_ok_and(|found| found == wanted)
}

fn write_mark(mark: &Path, wanted: &str) -> Result<(), Failure> {
    fs::write(mark, wanted).map_err(Failure::io("write", mark))
}
