//! The `daybook` program. What it can do stands in [`cli`].

mod cli;
mod demo;
mod drive;

use std::process::ExitCode;

fn main() -> ExitCode {
    cli::main()
}
