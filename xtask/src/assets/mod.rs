//! What a browser loads: the wasm half with its JS, the one stylesheet, the public files.
//!
//! Each product is made again only when the digest of what goes into it has changed. `site` gives them names that
//! carry their own digest, so that browsers may keep them for ever, and writes the table of names that the server
//! reads (`target/site/assets.json`).

mod css;
pub mod digest;
mod site;
mod wasm;

use std::fs;

pub use site::{Asset, table};

use crate::failure::Failure;
use crate::prepare::{self, WasmTarget};
use crate::workspace::Workspace;

/// How to build them.
#[derive(Debug, clap::Args)]
pub struct Arguments {
    /// Build everything again, whatever the digests say.
    #[arg(long)]
    force: bool,
}

/// What the browser gets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Browser {
    /// Pages with islands that come to life.
    Islands,
    /// The wasm target cannot be had: pages without script, which do everything as well.
    PlainPages,
}

/// One file for the browser, before it has its lasting name.
#[derive(Debug)]
pub struct Product {
    /// Its plain name, such as `daybook.css`.
    name: String,
    bytes: Vec<u8>,
    brotli: Vec<u8>,
}

/// `cargo xtask assets`.
pub fn run(workspace: &Workspace, arguments: &Arguments) -> Result<(), Failure> {
    if arguments.force {
        for digest in [workspace.target("front/wasm.digest"), workspace.target("front/css.digest")] {
            if digest.exists() {
                fs::remove_file(&digest).map_err(Failure::io("remove", &digest))?;
            }
        }
    }
    build(workspace)?;
    for (name, asset) in table(workspace)? {
        println!("{name:16} {:>8} bytes, {:>7} in brotli  {}", asset.bytes, asset.brotli_bytes, asset.file);
    }
    Ok(())
}

/// Builds what has changed and writes `target/site`.
pub fn build(workspace: &Workspace) -> Result<Browser, Failure> {
    let mut products = Vec::new();
    let browser = match prepare::wasm_target() {
        WasmTarget::Present => {
            products.extend(wasm::products(workspace)?);
            Browser::Islands
        }
        WasmTarget::Absent(why) => {
            println!("No browser half: {why}.");
            Browser::PlainPages
        }
    };
    products.extend(css::product(workspace)?);
    site::write(workspace, &products)?;
    Ok(browser)
}
