//! The committed cache of checked queries. The query macros fill it themselves when they are expanded against a live
//! database with `SQLX_OFFLINE_DIR` set; so a throw-away Postgres gets the migrations, the sources that hold queries
//! get a new date so that the compiler expands them again, and `cargo check` does the rest.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::{Path, PathBuf};

use daybook_postgres::{Cluster, Durability, Options, Running};

use crate::assets::digest;
use crate::failure::Failure;
use crate::prepare;
use crate::process;
use crate::workspace::{Workspace, cargo};

/// What to do with the result.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// Change nothing; fail if the committed cache is not what the sources and migrations give.
    #[arg(long)]
    check: bool,
}

type Cache = BTreeMap<String, Vec<u8>>;

/// `cargo xtask sqlx`.
pub fn run(workspace: &Workspace, arguments: &Arguments) -> Result<(), Failure> {
    let made = make(workspace)?;
    let committed = workspace.path(".sqlx");
    let found = read(&committed)?;
    if arguments.check { compare(&found, &made) } else { replace(&committed, &found, &made) }
}

/// Fails when the committed cache differs, for the full test run.
pub fn check(workspace: &Workspace) -> Result<(), Failure> {
    run(workspace, &Arguments { check: true })
}

fn make(workspace: &Workspace) -> Result<Cache, Failure> {
    prepare::postgres()?;
    // Nothing here outlives the command, so it need not reach the disk.
    let running = Cluster::open_or_init(Options::throw_away(Durability::NoFsync))?.start()?;
    migrate(workspace, &running)?;
    let folder = workspace.target("sqlx");
    if folder.exists() {
        fs::remove_dir_all(&folder).map_err(Failure::io("remove", &folder))?;
    }
    fs::create_dir_all(&folder).map_err(Failure::io("create", &folder))?;
    touch_queries(workspace)?;
    let mut check = process::command(cargo());
    check.current_dir(workspace.root()).args(["check", "--quiet", "--workspace", "--all-targets"]);
    check.env("SQLX_OFFLINE", "false").env("DATABASE_URL", running.url()).env("SQLX_OFFLINE_DIR", &folder);
    process::run(&mut check)?;
    read(&folder)
}

fn migrate(workspace: &Workspace, running: &Running) -> Result<(), Failure> {
    for file in digest::files_below(&workspace.path("migrations"))? {
        if file.extension().is_none_or(|extension| extension != "sql") {
            continue;
        }
        let text = fs::read_to_string(&file).map_err(Failure::io("read", &file))?;
        let mut psql = process::command(running.binaries().program("psql"));
        psql.args(["-X", "-q", "-v", "ON_ERROR_STOP=1", "-d"]).arg(running.url()).arg("-f").arg(&file);
        psql.env("PGOPTIONS", "-c client_min_messages=warning");
        if !text.starts_with("-- no-transaction") {
            psql.arg("--single-transaction");
        }
        process::run(&mut psql)?;
    }
    Ok(())
}

/// The compiler expands a macro again only when its file has changed.
fn touch_queries(workspace: &Workspace) -> Result<(), Failure> {
    for crate_folder in ["ledger", "backoffice", "app", "server"] {
        for file in digest::files_below(&workspace.path(crate_folder))? {
            if file.extension().is_none_or(|extension| extension != "rs") {
                continue;
            }
            let text = fs::read_to_string(&file).map_err(Failure::io("read", &file))?;
            if ["query!", "query_as!", "query_scalar!"].iter().any(|name| text.contains(name)) {
                let touched =
                    File::options().append(true).open(&file).and_then(|open| open.set_modified(now()));
                touched.map_err(Failure::io("touch", &file))?;
            }
        }
    }
    Ok(())
}

#[expect(clippy::disallowed_methods, reason = "the date of a source file is the machine's own business")]
fn now() -> std::time::SystemTime {
    std::time::SystemTime::now()
}

fn read(folder: &Path) -> Result<Cache, Failure> {
    let mut cache = Cache::new();
    for file in digest::files_below(folder)? {
        let name = file.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
        let bytes = fs::read(&file).map_err(Failure::io("read", &file))?;
        cache.insert(name, bytes);
    }
    Ok(cache)
}

fn compare(found: &Cache, made: &Cache) -> Result<(), Failure> {
    let stale = found.keys().filter(|name| !made.contains_key(*name)).count();
    let wrong = made.iter().filter(|(name, bytes)| found.get(*name) != Some(*bytes)).count();
    if stale + wrong == 0 {
        println!("The cache of {} queries is up to date.", made.len());
        return Ok(());
    }
    Err(Failure::Check(format!(
        "the query cache is not up to date ({wrong} missing or changed, {stale} stale): run cargo xtask sqlx"
    )))
}

fn replace(folder: &Path, found: &Cache, made: &Cache) -> Result<(), Failure> {
    fs::create_dir_all(folder).map_err(Failure::io("create", folder))?;
    let path = |name: &String| -> PathBuf { folder.join(name) };
    for name in found.keys().filter(|name| !made.contains_key(*name)) {
        fs::remove_file(path(name)).map_err(Failure::io("remove", &path(name)))?;
    }
    for (name, bytes) in made.iter().filter(|(name, bytes)| found.get(*name) != Some(*bytes)) {
        fs::write(path(name), bytes).map_err(Failure::io("write", &path(name)))?;
    }
    println!("The cache holds {} queries.", made.len());
    Ok(())
}
