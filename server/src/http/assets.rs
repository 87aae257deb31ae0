//! The browser's files: embedded in a release binary, read from the site folder at start in development.
//!
//! Files under `/pkg` carry a digest in their names and may be kept for ever; the others are asked for again.
//! Where a file has a brotli copy beside it, browsers that take it get that.

use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::path::Path;

use app::Assets;
use axum::body::Body;
use axum::http::{HeaderMap, HeaderValue, Response, StatusCode, header};
use bytes::Bytes;
use serde::Deserialize;
use sha2::{Digest, Sha256};

include!(concat!(env!("OUT_DIR"), "/embedded.rs"));

/// The table of plain names that the build writes.
const TABLE: &str = "assets.json";
const FOR_EVER: HeaderValue = HeaderValue::from_static("public, max-age=31536000, immutable");
const ASK_AGAIN: HeaderValue = HeaderValue::from_static("public, max-age=0, must-revalidate");

#[derive(Deserialize)]
struct Row {
    file: String,
}

struct File {
    bytes: Bytes,
    brotli: Option<Bytes>,
    kind: HeaderValue,
    tag: HeaderValue,
    is_lasting: bool,
}

/// All files, by path.
#[derive(Default)]
pub struct Site {
    files: HashMap<String, File>,
    names: Assets,
}

impl Site {
    /// What the binary carries, or else what lies in `folder`. Nothing is also an answer: pages then come plain.
    pub fn load(folder: &str, output_name: &str) -> Site {
        let mut raw: BTreeMap<String, Bytes> =
            EMBEDDED.iter().map(|(name, bytes)| ((*name).to_owned(), Bytes::from_static(bytes))).collect();
        if raw.is_empty() {
            read_below(Path::new(folder), "", &mut raw);
        }
        let rows: HashMap<String, Row> =
            raw.remove(TABLE).and_then(|text| serde_json::from_slice(&text).ok()).unwrap_or_default();
        let named = |extension: &str| {
            let row = rows.get(&format!("{output_name}.{extension}"))?;
            raw.contains_key(&format!("pkg/{}", row.file)).then(|| format!("/pkg/{}", row.file))
        };
        let names = Assets { css: named("css"), js: named("js"), wasm: named("wasm") };
        let plain = raw.iter().filter(|(name, _)| !name.ends_with(".br"));
        let files = plain
            .map(|(name, bytes)| (format!("/{name}"), file(name, bytes, raw.get(&format!("{name}.br")))))
            .collect();
        Site { files, names }
    }

    pub fn names(&self) -> &Assets {
        &self.names
    }

    /// The file at a path, as this browser takes it.
    pub fn answer(&self, path: &str, request: &HeaderMap) -> Option<Response<Body>> {
        let file = self.files.get(path)?;
        let mut response = Response::new(Body::empty());
        let is_known = request.get(header::IF_NONE_MATCH).is_some_and(|tag| tag == file.tag);
        let brotli = file.brotli.as_ref().filter(|_| takes_brotli(request));
        if is_known {
            *response.status_mut() = StatusCode::NOT_MODIFIED;
        } else {
            *response.body_mut() = Body::from(brotli.unwrap_or(&file.bytes).clone());
        }
        let headers = response.headers_mut();
        if brotli.is_some() {
            headers.insert(header::CONTENT_ENCODING, HeaderValue::from_static("br"));
        }
        headers.insert(header::CONTENT_TYPE, file.kind.clone());
        headers.insert(header::ETAG, file.tag.clone());
        headers.insert(header::VARY, HeaderValue::from_static("accept-encoding"));
        headers.insert(header::CACHE_CONTROL, if file.is_lasting { FOR_EVER } else { ASK_AGAIN });
        Some(response)
    }
}

fn file(name: &str, bytes: &Bytes, brotli: Option<&Bytes>) -> File {
    let digest: String = Sha256::digest(bytes).iter().take(8).map(|byte| format!("{byte:02x}")).collect();
    let tag = HeaderValue::try_from(format!("\"{digest}\"")).unwrap_or(HeaderValue::from_static("\"\""));
    File {
        bytes: bytes.clone(),
        brotli: brotli.cloned(),
        kind: HeaderValue::from_static(kind(name)),
        tag,
        is_lasting: name.starts_with("pkg/"),
    }
}

fn kind(name: &str) -> &'static str {
    match name.rsplit_once('.').map(|(_, extension)| extension) {
        Some("css") => "text/css; charset=utf-8",
        Some("js") => "text/javascript; charset=utf-8",
        Some("wasm") => "application/wasm",
        Some("svg") => "image/svg+xml",
        Some("png") => "image/png",
        Some("ico") => "image/x-icon",
        Some("txt") => "text/plain; charset=utf-8",
        Some("json" | "webmanifest") => "application/json",
        _ => "application/octet-stream",
    }
}

fn takes_brotli(request: &HeaderMap) -> bool {
    let accepted =
        request.get(header::ACCEPT_ENCODING).and_then(|value| value.to_str().ok()).unwrap_or_default();
    accepted.split(',').any(|coding| {
        let mut parts = coding.split(';').map(str::trim);
        parts.next() == Some("br") && !parts.any(|quality| quality == "q=0")
    })
}

/// Files that cannot be read are left out; the log says which.
fn read_below(folder: &Path, prefix: &str, files: &mut BTreeMap<String, Bytes>) {
    let Ok(entries) = fs::read_dir(folder) else { return };
    for entry in entries.flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let path = entry.path();
        if path.is_dir() {
            read_below(&path, &format!("{prefix}{name}/"), files);
            continue;
        }
        match fs::read(&path) {
            Ok(bytes) => {
                files.insert(format!("{prefix}{name}"), Bytes::from(bytes));
            }
            Err(error) => {
                tracing::warn!(file.path = %path.display(), error.message = %error, "a file of the site cannot be read");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(pairs: &[(header::HeaderName, &'static str)]) -> HeaderMap {
        pairs.iter().map(|(name, value)| (name.clone(), HeaderValue::from_static(value))).collect()
    }

    #[test]
    fn a_browser_gets_what_it_takes_and_keeps_what_has_a_digest() {
        let folder = std::env::temp_dir().join(format!("daybook-site-{}", std::process::id()));
        fs::create_dir_all(folder.join("pkg")).unwrap();
        for (name, text) in [
            (
                "assets.json",
                "{\"daybook.css\":{\"file\":\"daybook.0123.css\",\"bytes\":4,\"brotli_bytes\":2}}",
            ),
            ("pkg/daybook.0123.css", "body"),
            ("pkg/daybook.0123.css.br", "br"),
            ("favicon.svg", "<svg/>"),
        ] {
            fs::write(folder.join(name), text).unwrap();
        }
        let site = Site::load(folder.to_str().unwrap(), "daybook");
        assert_eq!(site.names().css.as_deref(), Some("/pkg/daybook.0123.css"));
        assert_eq!(site.names().js, None);

        let brotli = site
            .answer("/pkg/daybook.0123.css", &request(&[(header::ACCEPT_ENCODING, "gzip, br;q=1")]))
            .unwrap();
        assert_eq!(brotli.headers()[header::CONTENT_ENCODING], "br");
        assert_eq!(brotli.headers()[header::CACHE_CONTROL], FOR_EVER);
        let plain = site
            .answer("/pkg/daybook.0123.css", &request(&[(header::ACCEPT_ENCODING, "gzip, br;q=0")]))
            .unwrap();
        assert!(plain.headers().get(header::CONTENT_ENCODING).is_none());
        let icon = site.answer("/favicon.svg", &HeaderMap::new()).unwrap();
        assert_eq!(icon.headers()[header::CACHE_CONTROL], ASK_AGAIN);
        assert!(site.answer("/assets.json", &HeaderMap::new()).is_none());
        assert!(site.answer("/../secret", &HeaderMap::new()).is_none());
        fs::remove_dir_all(folder).unwrap();
    }
}
