//! The browser half: Cargo, then wasm-bindgen as a library, which is always the version of Cargo.lock.

use std::fs;
use std::path::{Path, PathBuf};

use wasm_bindgen_cli_support::Bindgen;

use crate::assets::{Product, digest, site};
use crate::failure::Failure;
use crate::prepare::WASM;
use crate::process;
use crate::workspace::{Workspace, cargo};

/// The wasm file and its JS, built again if the app or its dependencies have changed.
pub fn products(workspace: &Workspace) -> Result<Vec<Product>, Failure> {
    let made = workspace.target("front/made");
    let mark = workspace.target("front/wasm.digest");
    let names = [format!("{}.js", workspace.output_name()), format!("{}.wasm", workspace.output_name())];
    let wanted = digest::of_paths(&sources(workspace))?;
    let whole = names.iter().all(|name| made.join(format!("{name}.br")).is_file());
    if !whole || !fs::read_to_string(&mark).is_ok_and(|found| found == wanted) {
        println!("Building the browser half …");
        let built = compile(workspace)?;
        bind(workspace, &built, &made)?;
        fs::write(&mark, &wanted).map_err(Failure::io("write", &mark))?;
    }
    names.iter().map(|name| site::read_product(&made, name)).collect()
}

fn sources(workspace: &Workspace) -> Vec<PathBuf> {
    ["app", "Cargo.lock", "Cargo.toml", ".cargo", "rust-toolchain.toml"]
        .iter()
        .map(|name| workspace.path(name))
        .collect()
}

fn compile(workspace: &Workspace) -> Result<PathBuf, Failure> {
    let folder = workspace.target("front");
    let mut build = process::command(cargo());
    build.current_dir(workspace.root());
    build.args(["build", "--quiet", "-p", "app", "--lib", "--no-default-features", "--features", "hydrate"]);
    build.args(["--target", WASM, "--profile", "wasm-release", "--target-dir"]).arg(&folder);
    process::run(&mut build)?;
    Ok(folder.join(WASM).join("wasm-release").join("app.wasm"))
}

/// Writes the JS and the wasm that belong together, and their compressed forms, into `made`.
fn bind(workspace: &Workspace, built: &Path, made: &Path) -> Result<(), Failure> {
    let failed = |reason: String| Failure::Malformed { path: built.to_path_buf(), reason };
    if made.exists() {
        fs::remove_dir_all(made).map_err(Failure::io("remove", made))?;
    }
    fs::create_dir_all(made).map_err(Failure::io("create", made))?;
    let mut bindgen = Bindgen::new();
    bindgen.input_path(built).out_name(workspace.output_name()).typescript(false);
    bindgen.keep_debug(false).remove_name_section(true).remove_producers_section(true);
    // The page says where the wasm is; a name written into the JS would be the one without digest.
    bindgen.omit_default_module_path(true);
    bindgen.web(true).map_err(|error| failed(format!("{error:#}")))?;
    bindgen.generate(made).map_err(|error| failed(format!("{error:#}")))?;
    if made.join("snippets").exists() {
        return Err(failed(
            "a dependency brings JS files of its own, which have no place under hashed names".to_owned(),
        ));
    }
    let name = workspace.output_name();
    let plain = made.join(format!("{name}.wasm"));
    fs::rename(made.join(format!("{name}_bg.wasm")), &plain).map_err(Failure::io("name", &plain))?;
    site::compress_beside(&plain)?;
    site::compress_beside(&made.join(format!("{name}.js")))
}
