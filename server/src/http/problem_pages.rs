//! `/problems/<name>`: what each `type` of a problem document means.

use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::response::Response;

use super::html::{escaped, page, prose};
use super::problem::Name;
use crate::state::AppState;

pub async fn problem_index(State(state): State<AppState>) -> Response {
    let rows: String = Name::ALL
        .into_iter()
        .map(|name| {
            let about = name.about();
            let (word, status, title) = (about.word, about.status, escaped(about.title));
            format!("<tr><td>{status}</td><td><a href=\"/problems/{word}\"><code>{word}</code></a></td><td>{title}</td></tr>")
        })
        .collect();
    let body = format!(
        "<h1>Problems</h1><p>Every error of the <a href=\"/docs/api\">API</a> is a problem document of one of these kinds.</p>\
         <table><thead><tr><th scope=\"col\">Status</th><th scope=\"col\">Name</th><th scope=\"col\">Title</th></tr></thead>\
         <tbody>{rows}</tbody></table>"
    );
    page(StatusCode::OK, "Problems", state.stylesheet(), &body)
}

pub async fn problem_page(State(state): State<AppState>, Path(word): Path<String>) -> Response {
    let stylesheet = state.stylesheet();
    let Some(name) = Name::parse(&word) else {
        let body = "<h1>No such problem</h1><p>See <a href=\"/problems\">all problems</a>.</p>";
        return page(StatusCode::NOT_FOUND, "No such problem", stylesheet, body);
    };
    let about = name.about();
    let body = format!(
        "<p><a href=\"/problems\">All problems</a></p><h1>{title}</h1><dl><dt>Name</dt><dd><code>{word}</code></dd>\
         <dt>Status</dt><dd>{status}</dd></dl><p>{explanation}</p>",
        title = escaped(about.title),
        word = about.word,
        status = about.status,
        explanation = prose(about.explanation),
    );
    page(StatusCode::OK, about.title, stylesheet, &body)
}
