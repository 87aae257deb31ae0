//! The stylesheet: `style/main.css` with all its imports, as one small file.

use std::fs;
use std::path::Path;

use lightningcss::bundler::{Bundler, FileProvider};
use lightningcss::stylesheet::{MinifyOptions, ParserOptions, PrinterOptions};

use crate::assets::{Product, digest, site};
use crate::failure::Failure;
use crate::workspace::Workspace;

/// The stylesheet, bundled again if something in `style/` has changed. None when there is no `style/main.css`.
pub fn product(workspace: &Workspace) -> Result<Option<Product>, Failure> {
    let entry = workspace.path("style/main.css");
    if !entry.is_file() {
        println!("No stylesheet: {} is missing.", entry.display());
        return Ok(None);
    }
    let made = workspace.target("front/made-css");
    let mark = workspace.target("front/css.digest");
    let name = format!("{}.css", workspace.output_name());
    let wanted = digest::of_paths(&[workspace.path("style"), workspace.path("Cargo.lock")])?;
    let whole = made.join(format!("{name}.br")).is_file();
    if !whole || !fs::read_to_string(&mark).is_ok_and(|found| found == wanted) {
        fs::create_dir_all(&made).map_err(Failure::io("create", &made))?;
        let file = made.join(&name);
        fs::write(&file, bundle(&entry)?).map_err(Failure::io("write", &file))?;
        site::compress_beside(&file)?;
        fs::write(&mark, &wanted).map_err(Failure::io("write", &mark))?;
    }
    site::read_product(&made, &name).map(Some)
}

/// Resolves the imports and drops what no browser needs. Nothing is rewritten for old browsers: layers, nesting and
/// custom properties are what every current one understands.
fn bundle(entry: &Path) -> Result<String, Failure> {
    let failed = |reason: String| Failure::Malformed { path: entry.to_path_buf(), reason };
    let files = FileProvider::new();
    let mut bundler = Bundler::new(&files, None, ParserOptions::default());
    let mut sheet = bundler.bundle(entry).map_err(|error| failed(error.to_string()))?;
    sheet.minify(MinifyOptions::default()).map_err(|error| failed(error.to_string()))?;
    let options = PrinterOptions { minify: true, ..PrinterOptions::default() };
    Ok(sheet.to_css(options).map_err(|error| failed(error.to_string()))?.code)
}

#[cfg(test)]
mod tests {
    use super::bundle;

    #[test]
    fn imports_become_one_file() {
        let folder = std::env::temp_dir().join(format!("xtask-css-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("a folder");
        std::fs::write(folder.join("main.css"), "@layer base, parts;\n@import './a.css' layer(base);\n")
            .expect("writes");
        std::fs::write(folder.join("a.css"), "body { color: rebeccapurple; & p { margin: 0px } }\n")
            .expect("writes");
        let css = bundle(&folder.join("main.css")).expect("bundles");
        std::fs::remove_dir_all(&folder).expect("removes");
        assert_eq!(css, "@layer base{body{color:#639;& p{margin:0}}}@layer parts;");
    }
}
