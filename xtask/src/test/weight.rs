//! What a browser has to load, against the limits of the design.

use crate::assets::{self, Asset};
use crate::failure::Failure;
use crate::workspace::Workspace;

/// The wasm and its JS together, compressed.
const SCRIPT_BYTES_MAX: usize = 130 * 1024;
/// The stylesheet, compressed.
const STYLE_BYTES_MAX: usize = 20 * 1024;

/// Fails when a limit is passed.
pub fn check(workspace: &Workspace) -> Result<(), Failure> {
    let table = assets::table(workspace)?;
    let weight = |ending: &str| -> usize {
        table
            .iter()
            .filter(|(name, _)| name.ends_with(ending))
            .map(|(_, Asset { brotli_bytes, .. })| brotli_bytes)
            .sum()
    };
    let script = weight(".wasm") + weight(".js");
    let style = weight(".css");
    println!(
        "script {script} of {SCRIPT_BYTES_MAX} bytes, style {style} of {STYLE_BYTES_MAX} bytes, in brotli"
    );
    judge("wasm and JS", script, SCRIPT_BYTES_MAX)?;
    judge("the stylesheet", style, STYLE_BYTES_MAX)
}

fn judge(what: &str, found: usize, limit: usize) -> Result<(), Failure> {
    if found <= limit {
        return Ok(());
    }
    Err(Failure::Check(format!("{what}: {found} bytes in brotli, the limit is {limit}")))
}

#[cfg(test)]
mod tests {
    use super::judge;

    #[test]
    fn the_limit_itself_is_allowed() {
        assert!(judge("x", 20_480, 20_480).is_ok());
        assert!(judge("x", 20_481, 20_480).is_err());
    }
}
