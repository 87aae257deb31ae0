//! The plain pages that explain the API. No script, no style of their own beyond the site's stylesheet.

use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};

/// Text that is safe between tags and in quoted attributes.
pub fn escaped(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            '\'' => safe.push_str("&#39;"),
            other => safe.push(other),
        }
    }
    safe
}

/// Escaped text in which `words in backticks` are code.
pub fn prose(text: &str) -> String {
    escaped(text)
        .split('`')
        .enumerate()
        .map(|(index, part)| if index % 2 == 1 { format!("<code>{part}</code>") } else { part.to_owned() })
        .collect()
}

/// A whole page; `body` is HTML, `title` is text.
pub fn page(status: StatusCode, title: &str, stylesheet: Option<&str>, body: &str) -> Response {
    let title = escaped(title);
    let stylesheet = stylesheet
        .map(|path| format!("<link rel=\"stylesheet\" href=\"{}\">", escaped(path)))
        .unwrap_or_default();
    let html = format!(
        "<!DOCTYPE html><html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\
         <title>{title} · Daybook</title>{stylesheet}</head><body><main class=\"document\">{body}</main></body></html>"
    );
    (status, [(header::CONTENT_TYPE, "text/html; charset=utf-8")], html).into_response()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_cannot_become_markup() {
        assert_eq!(escaped("<a href='x'>\"&\"</a>"), "&lt;a href=&#39;x&#39;&gt;&quot;&amp;&quot;&lt;/a&gt;");
        assert_eq!(prose("send `<key>` now"), "send <code>&lt;key&gt;</code> now");
    }
}
