//! The folder that is served: names with digests, compressed copies beside them, the table of names.
//!
//! A file is written only when its content differs, so that nothing downstream is built again for a mere new date.

use std::collections::BTreeMap;
use std::fs;
use std::io::Cursor;
use std::path::{Path, PathBuf};

use brotli::enc::BrotliEncoderParams;
use serde::{Deserialize, Serialize};

use crate::assets::{Product, digest};
use crate::failure::Failure;
use crate::workspace::Workspace;

/// One row of `assets.json`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Asset {
    /// The name below `/pkg/`, which carries a digest of the content.
    pub file: String,
    /// Size as it is.
    pub bytes: usize,
    /// Size of the copy with `.br` at the end of its name.
    pub brotli_bytes: usize,
}

/// Reads the table that the last build wrote: plain name to row.
pub fn table(workspace: &Workspace) -> Result<BTreeMap<String, Asset>, Failure> {
    let path = workspace.site().join("assets.json");
    let text = fs::read_to_string(&path).map_err(Failure::io("read", &path))?;
    serde_json::from_str(&text).map_err(|error| Failure::Malformed { path, reason: error.to_string() })
}

/// Makes the folder hold these products and the public files, and nothing else.
pub fn write(workspace: &Workspace, products: &[Product]) -> Result<(), Failure> {
    let site = workspace.site();
    let mut files: BTreeMap<PathBuf, Vec<u8>> = BTreeMap::new();
    let mut rows: BTreeMap<&str, Asset> = BTreeMap::new();
    for product in products {
        let file = hashed_name(&product.name, &product.bytes);
        files.insert(site.join("pkg").join(&file), product.bytes.clone());
        files.insert(site.join("pkg").join(format!("{file}.br")), product.brotli.clone());
        rows.insert(
            &product.name,
            Asset { file, bytes: product.bytes.len(), brotli_bytes: product.brotli.len() },
        );
    }
    let public = workspace.path("public");
    for file in digest::files_below(&public)? {
        let bytes = fs::read(&file).map_err(Failure::io("read", &file))?;
        files.insert(site.join(file.strip_prefix(&public).unwrap_or(&file)), bytes);
    }
    let json = serde_json::to_string_pretty(&rows);
    let json = json.map_err(|error| Failure::Malformed { path: site.clone(), reason: error.to_string() })?;
    files.insert(site.join("assets.json"), format!("{json}\n").into_bytes());

    for stale in digest::files_below(&site)?.iter().filter(|file| !files.contains_key(*file)) {
        fs::remove_file(stale).map_err(Failure::io("remove", stale))?;
    }
    files.iter().try_for_each(|(path, bytes)| write_if_new(path, bytes))
}

/// Reads a product and its compressed copy from the folder where it was made.
pub fn read_product(made: &Path, name: &str) -> Result<Product, Failure> {
    let read = |path: PathBuf| fs::read(&path).map_err(Failure::io("read", &path));
    Ok(Product {
        name: name.to_owned(),
        bytes: read(made.join(name))?,
        brotli: read(made.join(format!("{name}.br")))?,
    })
}

/// Writes the compressed copy of a file beside it, at brotli's best and slowest: it is done once per change.
pub fn compress_beside(path: &Path) -> Result<(), Failure> {
    let bytes = fs::read(path).map_err(Failure::io("read", path))?;
    let parameters = BrotliEncoderParams {
        quality: 11,
        lgwin: 22,
        size_hint: bytes.len(),
        ..BrotliEncoderParams::default()
    };
    let mut compressed = Vec::new();
    brotli::BrotliCompress(&mut Cursor::new(&bytes), &mut compressed, &parameters)
        .map_err(Failure::io("compress", path))?;
    let mut name = path.as_os_str().to_owned();
    name.push(".br");
    let beside = PathBuf::from(name);
    fs::write(&beside, compressed).map_err(Failure::io("write", &beside))
}

fn write_if_new(path: &Path, bytes: &[u8]) -> Result<(), Failure> {
    if fs::read(path).is_ok_and(|found| found == bytes) {
        return Ok(());
    }
    if let Some(parent) = path.parent() {
        fs::create_dir_all(parent).map_err(Failure::io("create", parent))?;
    }
    fs::write(path, bytes).map_err(Failure::io("write", path))
}

/// `daybook.css` becomes `daybook.<digest>.css`.
fn hashed_name(name: &str, bytes: &[u8]) -> String {
    let digits = digest::for_name(bytes);
    match name.rsplit_once('.') {
        Some((stem, extension)) => format!("{stem}.{digits}.{extension}"),
        None => format!("{name}.{digits}"),
    }
}

#[cfg(test)]
mod tests {
    use super::hashed_name;

    #[test]
    fn the_digest_stands_before_the_extension() {
        assert_eq!(hashed_name("daybook.css", b"abc"), "daybook.ba7816bf8f01.css");
    }
}
