//! `/docs/api`: the API description as a page to read, made on the server from the same document. It loads
//! nothing from elsewhere and needs no script.

use std::fmt::Write;
use std::sync::LazyLock;

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use serde_json::Value;

use super::html::{escaped, page, prose};
use super::v1::openapi::description;
use crate::state::AppState;

static BODY: LazyLock<String> =
    LazyLock::new(|| body(&serde_json::to_value(description()).unwrap_or_default()));

pub async fn reader_page(State(state): State<AppState>) -> Response {
    page(StatusCode::OK, "API", state.stylesheet(), &BODY)
}

/// One operation with where it is.
struct Operation<'a> {
    method: &'a str,
    path: &'a str,
    value: &'a Value,
}

impl Operation<'_> {
    fn anchor(&self) -> String {
        let letters = |c: char| if c.is_ascii_alphanumeric() { c } else { '-' };
        format!("{}{}", self.method, self.path.chars().map(letters).collect::<String>())
    }
}

fn body(document: &Value) -> String {
    let mut html = String::from("<h1>The Daybook API</h1>");
    let about = document["info"]["description"].as_str().unwrap_or_default();
    let _ = write!(
        html,
        "<p>{}</p><p>Every request carries <code>Authorization: Bearer &lt;key&gt;</code>, every write an \
         <code>Idempotency-Key</code>. Amounts are decimal strings with up to 6 places. Errors are \
         <a href=\"/problems\">problem documents</a>. The whole description: \
         <a href=\"/v1/openapi.json\">openapi.json</a>.</p>",
        prose(about)
    );
    for tag in document["tags"].as_array().into_iter().flatten() {
        let name = tag["name"].as_str().unwrap_or_default();
        let _ = write!(
            html,
            "<h2>{}</h2><p>{}</p>",
            escaped(name),
            prose(tag["description"].as_str().unwrap_or_default())
        );
        for operation in operations(document).filter(|operation| operation.value["tags"][0] == name) {
            write_operation(&mut html, document, &operation);
        }
    }
    write_schemas(&mut html, document);
    html
}

fn operations(document: &Value) -> impl Iterator<Item = Operation<'_>> {
    let paths = document["paths"].as_object().into_iter().flatten();
    paths.flat_map(|(path, item)| {
        let methods = item.as_object().into_iter().flatten();
        methods.map(move |(method, value)| Operation { method, path, value })
    })
}

fn write_operation(html: &mut String, document: &Value, operation: &Operation<'_>) {
    let value = operation.value;
    let (anchor, method, path) =
        (operation.anchor(), operation.method.to_ascii_uppercase(), escaped(operation.path));
    let _ = write!(html, "<section id=\"{anchor}\"><h3><code>{method} {path}</code></h3>");
    for text in [&value["summary"], &value["description"]] {
        if let Some(text) = text.as_str() {
            let _ = write!(html, "<p>{}</p>", prose(text));
        }
    }
    write_parameters(html, value);
    let body = &value["requestBody"]["content"]["application/json"]["schema"];
    if !body.is_null() {
        let _ = write!(html, "<h4>Body</h4>");
        write_fields(html, resolved(document, body));
    }
    let _ = write!(html, "<h4>Answers</h4><ul>");
    for (status, response) in value["responses"].as_object().into_iter().flatten() {
        let description = prose(response["description"].as_str().unwrap_or_default());
        let content = response["content"].as_object().into_iter().flatten().next();
        let shape = content.map(|(_, content)| type_name(&content["schema"])).unwrap_or_default();
        let _ = write!(html, "<li><strong>{}</strong> {description} {shape}</li>", escaped(status));
    }
    html.push_str("</ul></section>");
}

fn write_parameters(html: &mut String, operation: &Value) {
    let parameters = operation["parameters"].as_array().filter(|parameters| !parameters.is_empty());
    let Some(parameters) = parameters else { return };
    html.push_str("<table><thead><tr><th scope=\"col\">Parameter</th><th scope=\"col\">In</th><th scope=\"col\">Meaning</th></tr></thead><tbody>");
    for parameter in parameters {
        let text = |key: &str| parameter[key].as_str().unwrap_or_default();
        let _ = write!(
            html,
            "<tr><td><code>{}</code></td><td>{}</td><td>{}</td></tr>",
            escaped(text("name")),
            escaped(text("in")),
            prose(text("description"))
        );
    }
    html.push_str("</tbody></table>");
}

fn write_schemas(html: &mut String, document: &Value) {
    html.push_str("<h2>Shapes</h2>");
    for (name, schema) in document["components"]["schemas"].as_object().into_iter().flatten() {
        let name = escaped(name);
        let _ = write!(html, "<section id=\"shape-{name}\"><h3>{name}</h3>");
        if let Some(text) = schema["description"].as_str() {
            let _ = write!(html, "<p>{}</p>", prose(text));
        }
        write_fields(html, schema);
        html.push_str("</section>");
    }
}

fn write_fields(html: &mut String, schema: &Value) {
    let parts = schema["allOf"].as_array();
    for part in parts.into_iter().flatten() {
        match part["$ref"].as_str() {
            Some(_) => {
                let _ = write!(html, "<p>All fields of {}, and:</p>", type_name(part));
            }
            None => write_fields(html, part),
        }
    }
    let Some(fields) = schema["properties"].as_object().filter(|fields| !fields.is_empty()) else {
        if let Some(words) = schema["enum"].as_array() {
            let words: Vec<String> = words
                .iter()
                .filter_map(Value::as_str)
                .map(|word| format!("<code>{}</code>", escaped(word)))
                .collect();
            let _ = write!(html, "<p>{}</p>", words.join(", "));
        }
        return;
    };
    let required = schema["required"].as_array();
    html.push_str("<table><thead><tr><th scope=\"col\">Field</th><th scope=\"col\">Type</th><th scope=\"col\">Meaning</th></tr></thead><tbody>");
    for (name, field) in fields {
        let is_required = required.is_some_and(|required| required.iter().any(|required| required == name));
        let need = if is_required { "" } else { " (optional)" };
        let meaning = prose(field["description"].as_str().unwrap_or_default());
        let _ = write!(
            html,
            "<tr><td><code>{}</code>{need}</td><td>{}</td><td>{meaning}</td></tr>",
            escaped(name),
            type_name(field)
        );
    }
    html.push_str("</tbody></table>");
}

/// A schema's type in a few words, with a link where it has a name.
fn type_name(schema: &Value) -> String {
    if let Some(reference) = schema["$ref"].as_str() {
        let name = escaped(reference.rsplit('/').next().unwrap_or_default());
        return format!("<a href=\"#shape-{name}\">{name}</a>");
    }
    for key in ["oneOf", "anyOf"] {
        if let Some(options) = schema[key].as_array() {
            return options.iter().map(type_name).collect::<Vec<_>>().join(" or ");
        }
    }
    match &schema["type"] {
        Value::String(word) if word == "array" => format!("list of {}", type_name(&schema["items"])),
        Value::String(word) => escaped(schema["format"].as_str().unwrap_or(word)),
        Value::Array(words) => {
            words.iter().filter_map(Value::as_str).map(escaped).collect::<Vec<_>>().join(" or ")
        }
        _ => String::new(),
    }
}

fn resolved<'a>(document: &'a Value, schema: &'a Value) -> &'a Value {
    let name = schema["$ref"].as_str().and_then(|reference| reference.rsplit('/').next());
    name.map_or(schema, |name| &document["components"]["schemas"][name])
}
