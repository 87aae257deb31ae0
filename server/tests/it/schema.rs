//! A small reader of the JSON Schema that the API description uses. A keyword it does not know fails, so the
//! description cannot outgrow it unnoticed.

use serde_json::Value;

const KNOWN: [&str; 24] = [
    "$ref",
    "type",
    "properties",
    "required",
    "additionalProperties",
    "items",
    "enum",
    "oneOf",
    "anyOf",
    "allOf",
    "description",
    "examples",
    "format",
    "pattern",
    "minLength",
    "maxLength",
    "maxItems",
    "minimum",
    "maximum",
    "title",
    "default",
    "example",
    "deprecated",
    "propertyNames",
];

/// What is wrong with `value`, with where it stands.
pub fn faults(document: &Value, schema: &Value, value: &Value, at: &str) -> Vec<String> {
    let mut found = Vec::new();
    if let Some(reference) = schema["$ref"].as_str() {
        let target = document.pointer(reference.trim_start_matches('#')).unwrap_or(&Value::Null);
        if target.is_null() {
            found.push(format!("{at}: {reference} leads nowhere"));
        }
        found.extend(faults(document, target, value, at));
    }
    for keyword in schema.as_object().into_iter().flatten().map(|(keyword, _)| keyword) {
        if !KNOWN.contains(&keyword.as_str()) {
            found.push(format!("{at}: unknown keyword {keyword}"));
        }
    }
    let fits = |option: &Value| faults(document, option, value, at).is_empty();
    for part in schema["allOf"].as_array().into_iter().flatten() {
        found.extend(faults(document, part, value, at));
    }
    for (keyword, wanted) in [("anyOf", 1..=usize::MAX), ("oneOf", 1..=1)] {
        if let Some(options) = schema[keyword].as_array() {
            let count = options.iter().filter(|option| fits(option)).count();
            if !wanted.contains(&count) {
                found.push(format!("{at}: fits {count} options of {keyword}: {value}"));
            }
        }
    }
    found.extend(type_fault(&schema["type"], value, at));
    if let Some(words) = schema["enum"].as_array()
        && !words.contains(value)
    {
        found.push(format!("{at}: {value} is not one of {words:?}"));
    }
    found.extend(text_fault(schema, value, at));
    found.extend(object_faults(document, schema, value, at));
    for (index, item) in value.as_array().into_iter().flatten().enumerate() {
        found.extend(faults(document, &schema["items"], item, &format!("{at}/{index}")));
    }
    found
}

fn type_fault(wanted: &Value, value: &Value, at: &str) -> Option<String> {
    let names: Vec<&str> = match wanted {
        Value::String(name) => vec![name],
        Value::Array(names) => names.iter().filter_map(Value::as_str).collect(),
        _ => return None,
    };
    let is = |name: &str| match name {
        "null" => value.is_null(),
        "string" => value.is_string(),
        "boolean" => value.is_boolean(),
        "integer" => value.is_i64() || value.is_u64(),
        "number" => value.is_number(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        _ => false,
    };
    (!names.iter().any(|name| is(name))).then(|| format!("{at}: {value} is not {names:?}"))
}

fn text_fault(schema: &Value, value: &Value, at: &str) -> Option<String> {
    let text = value.as_str()?;
    let fits = match (schema["pattern"].as_str(), schema["format"].as_str()) {
        (Some("^-?[0-9]{1,20}(\\.[0-9]{1,6})?$"), _) => {
            ledger::Credits::parse(text).is_ok_and(|amount| amount.to_string() == text)
        }
        (Some("^[0-9a-f]{64}$"), _) => {
            text.len() == 64 && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
        }
        (Some(other), _) => return Some(format!("{at}: unknown pattern {other}")),
        (None, Some("uuid")) => uuid::Uuid::parse_str(text).is_ok(),
        (None, Some("date-time")) => {
            text.ends_with('Z') && chrono::DateTime::parse_from_rfc3339(text).is_ok()
        }
        (None, Some(other)) => return Some(format!("{at}: unknown format {other}")),
        (None, None) => true,
    };
    (!fits).then(|| format!("{at}: {text} has not the form of its schema"))
}

fn object_faults(document: &Value, schema: &Value, value: &Value, at: &str) -> Vec<String> {
    let Some(object) = value.as_object() else { return Vec::new() };
    let mut found = Vec::new();
    for name in schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str) {
        if !object.contains_key(name) {
            found.push(format!("{at}: {name} is missing"));
        }
    }
    for (name, value) in object {
        match schema["properties"].get(name) {
            Some(property) => found.extend(faults(document, property, value, &format!("{at}/{name}"))),
            None if schema["additionalProperties"] == false => {
                found.push(format!("{at}: {name} is not described"));
            }
            None => {}
        }
    }
    found
}
