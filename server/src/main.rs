//! The `daybook` program. What it can do stands in [`cli`].

mod cli;
mod demo;
mod drive;

use std::process::ExitCode;

/// A round is many small allocations on several threads.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    cli::main()
}
