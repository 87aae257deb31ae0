//! Puts the browser's files into the release binary, so that one file is enough to deploy.
//!
//! They are what `cargo xtask` left in `target/site`. A development build embeds nothing and reads the folder
//! when it starts, so that it need not be linked again for a changed stylesheet.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::{env, fs, io};

fn main() -> io::Result<()> {
    let root = PathBuf::from(env::var_os("CARGO_MANIFEST_DIR").unwrap_or_default());
    let site = root.join("../target/site");
    println!("cargo::rerun-if-changed=build.rs");
    let mut files = Vec::new();
    if env::var("PROFILE").is_ok_and(|profile| profile == "release") {
        println!("cargo::rerun-if-changed={}", site.display());
        collect(&site, &mut files)?;
    }
    let mut table = String::from("pub static EMBEDDED: &[(&str, &[u8])] = &[\n");
    for file in files {
        let name = file.strip_prefix(&site).unwrap_or(&file).to_string_lossy().replace('\\', "/");
        let path = file.canonicalize()?;
        // Writing into a String cannot fail.
        let _ = writeln!(table, "    ({name:?}, include_bytes!({:?})),", path.to_string_lossy());
    }
    table.push_str("];\n");
    let out = PathBuf::from(env::var_os("OUT_DIR").unwrap_or_default()).join("embedded.rs");
    fs::write(out, table)
}

fn collect(folder: &Path, files: &mut Vec<PathBuf>) -> io::Result<()> {
    let Ok(entries) = fs::read_dir(folder) else { return Ok(()) };
    let mut paths = entries.map(|entry| entry.map(|entry| entry.path())).collect::<io::Result<Vec<_>>>()?;
    paths.sort();
    for path in paths {
        if path.is_dir() {
            collect(&path, files)?;
        } else {
            files.push(path);
        }
    }
    Ok(())
}
