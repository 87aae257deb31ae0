//! Format and lints. The two halves of the app are linted apart: one invocation that unifies `ssr` and `hydrate`
//! would compile and misbehave.

use crate::failure::Failure;
use crate::prepare::{self, WasmTarget};
use crate::process;
use crate::workspace::{Workspace, cargo};

/// All of it, for `cargo xtask check`.
pub fn run(workspace: &Workspace) -> Result<(), Failure> {
    format(workspace)?;
    lint(workspace)?;
    lint_browser_half(workspace)
}

/// Nothing may differ from what rustfmt writes.
pub fn format(workspace: &Workspace) -> Result<(), Failure> {
    cargo_run(workspace, &["fmt", "--all", "--check"])
}

/// The server half and everything else.
pub fn lint(workspace: &Workspace) -> Result<(), Failure> {
    cargo_run(workspace, &["clippy", "--quiet", "--workspace", "--all-targets", "--", "-D", "warnings"])
}

/// The half that goes to the browser.
pub fn lint_browser_half(workspace: &Workspace) -> Result<(), Failure> {
    if let WasmTarget::Absent(why) = prepare::wasm_target() {
        println!("skipped: {why}");
        return Ok(());
    }
    let target = ["--target", prepare::WASM];
    let half = ["-p", "app", "--lib", "--no-default-features", "--features", "hydrate"];
    let words = [&["clippy", "--quiet"][..], &half, &target, &["--", "-D", "warnings"]].concat();
    cargo_run(workspace, &words)
}

fn cargo_run(workspace: &Workspace, words: &[&str]) -> Result<(), Failure> {
    process::run(process::command(cargo()).current_dir(workspace.root()).args(words))
}
