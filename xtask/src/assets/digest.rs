//! Digests of files and folders: whether something must be built again, and names that change with the content.

use std::fs;
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

use crate::failure::Failure;

/// How much of a digest a file name carries: 48 bits, plenty for a handful of files.
const NAME_DIGITS: usize = 12;

/// The digest of some bytes, shortened for a file name.
pub fn for_name(bytes: &[u8]) -> String {
    let mut digits = hex(&Sha256::digest(bytes));
    digits.truncate(NAME_DIGITS);
    digits
}

/// The digest of one file.
pub fn of_file(path: &Path) -> Result<String, Failure> {
    let bytes = fs::read(path).map_err(Failure::io("read", path))?;
    Ok(hex(&Sha256::digest(bytes)))
}

/// The digest of files and whole folders, names included; a missing path counts as empty.
pub fn of_paths(paths: &[PathBuf]) -> Result<String, Failure> {
    let mut sum = Sha256::new();
    for path in paths {
        for file in files_below(path)? {
            let bytes = fs::read(&file).map_err(Failure::io("read", &file))?;
            sum.update(file.as_os_str().as_encoded_bytes());
            sum.update([0]);
            sum.update(bytes.len().to_be_bytes());
            sum.update(bytes);
        }
    }
    Ok(hex(&sum.finalize()))
}

/// All files below a folder, in the order of their names; of a file, itself.
pub fn files_below(path: &Path) -> Result<Vec<PathBuf>, Failure> {
    if path.is_file() {
        return Ok(vec![path.to_path_buf()]);
    }
    if !path.is_dir() {
        return Ok(Vec::new());
    }
    let mut entries: Vec<PathBuf> = fs::read_dir(path)
        .map_err(Failure::io("list", path))?
        .filter_map(Result::ok)
        .map(|entry| entry.path())
        .collect();
    entries.sort();
    let mut files = Vec::new();
    for entry in entries {
        files.extend(files_below(&entry)?);
    }
    Ok(files)
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::for_name;

    #[test]
    fn a_name_carries_the_first_digits_of_sha_256() {
        // SHA-256 of "abc" as published with the standard: ba7816bf 8f01cfea …
        assert_eq!(for_name(b"abc"), "ba7816bf8f01");
    }
}
