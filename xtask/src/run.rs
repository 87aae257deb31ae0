//! `cargo xtask run`: from a bare machine to a page in the browser.
//!
//! The last step turns this process into the server, so Ctrl-C goes straight to it; it stops its own Postgres.

use std::os::unix::process::CommandExt;
use std::time::Instant;

use crate::assets::{self, Browser};
use crate::failure::Failure;
use crate::prepare;
use crate::process;
use crate::workspace::{Workspace, cargo};

/// How to serve.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// Build with optimisation; slower to build, and the assets are inside the binary.
    #[arg(long)]
    release: bool,
    /// More arguments for `daybook serve`, after `--`.
    #[arg(last = true)]
    serve: Vec<String>,
}

/// Prepares, builds, serves; answers only when something fails.
pub fn run(workspace: &Workspace, arguments: &Arguments) -> Result<(), Failure> {
    let begun = Instant::now();
    if std::env::var_os("DATABASE_URL").is_none() {
        prepare::postgres()?;
    }
    if assets::build(workspace)? == Browser::PlainPages {
        println!("Pages are served without script; everything works, the balance does not update by itself.");
    }
    let mut build = process::command(cargo());
    build.current_dir(workspace.root()).args(["build", "--quiet", "-p", "server"]);
    if arguments.release {
        build.arg("--release");
    }
    println!("Building the server …");
    process::run(&mut build)?;
    println!("Ready after {:.1} s.", begun.elapsed().as_secs_f64());
    let profile = if arguments.release { "release" } else { "debug" };
    let mut serve = process::command(workspace.target(profile).join("daybook"));
    serve.current_dir(workspace.root()).arg("serve").arg("--demo-if-empty").args(&arguments.serve);
    let program = process::shown(&serve);
    Err(Failure::Spawn { program, source: serve.exec() })
}
