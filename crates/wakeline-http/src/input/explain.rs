//! Translates parse errors into messages for API users.

use wakeline_core::nearest;

use crate::error::ApiError;

/// Explains what is wrong with a body, and where. `path` is empty for the body itself.
pub(super) fn explain(path: &str, error: &serde_json::Error) -> ApiError {
    if !error.is_data() {
        return match path {
            "" => ApiError::invalid(format!("the body is not valid JSON: {error}")),
            path => ApiError::invalid_field(path, format!("{path} is not valid JSON: {error}")),
        };
    }
    let text = error.to_string();
    // The path is a better location than the line and column.
    let text = text.rsplit_once(" at line ").map_or(text.as_str(), |(text, _)| text);
    let within = |field: &str| match path {
        "" => field.to_owned(),
        path => format!("{path}.{field}"),
    };
    if let Some(field) = text.strip_prefix("missing field ").and_then(unquoted) {
        let path = within(field);
        return ApiError::invalid_field(&path, format!("{path} is required"));
    }
    if let Some(field) = text.strip_prefix("duplicate field ").and_then(unquoted) {
        let path = within(field);
        return ApiError::invalid_field(&path, format!("{path} is given twice"));
    }
    let what = wrong_type(text).or_else(|| wrong_word(text));
    let message = match (path, what) {
        ("", Some(what)) => format!("the body {what}"),
        ("", None) => format!("the body is not valid: {text}"),
        (path, Some(what)) => format!("{path} {what}"),
        (path, None) => format!("{path}: {text}"),
    };
    match path {
        "" => ApiError::invalid(message),
        path => ApiError::invalid_field(path, message),
    }
}

/// Extracts the name from text that begins with a name in backticks.
fn unquoted(text: &str) -> Option<&str> {
    text.strip_prefix('`')?.split('`').next()
}

/// Translates errors such as `invalid type: map, expected a string`, and the same for values and
/// lengths.
fn wrong_type(text: &str) -> Option<String> {
    let rest = text.strip_prefix("invalid type: ").or_else(|| text.strip_prefix("invalid value: "));
    let rest = rest.or_else(|| text.strip_prefix("invalid length "))?;
    let (found, expected) = rest.split_once(", expected ")?;
    let whole = |least: &str, most: &str| format!("a whole number from {least} to {most}");
    let expected = match expected {
        "u8" => whole("0", "255"),
        "u16" => whole("0", "65535"),
        "u32" => whole("0", "4294967295"),
        "u64" | "usize" => "a whole number that is not negative".to_owned(),
        "i32" | "i64" | "isize" => "a whole number".to_owned(),
        "f32" | "f64" => "a number".to_owned(),
        "a boolean" => "true or false".to_owned(),
        "a string" | "a borrowed string" | "str" | "string" => "a string".to_owned(),
        "a sequence" => "a list".to_owned(),
        "a map" => "an object".to_owned(),
        other if other.starts_with("struct ") => "an object".to_owned(),
        other if other.starts_with("enum ") || other.contains("variant") => "a string".to_owned(),
        other => other.to_owned(),
    };
    let found = match found.split_once(' ').map_or((found, ""), |(kind, value)| (kind, value)) {
        ("map", _) => "an object".to_owned(),
        ("sequence", _) => "a list".to_owned(),
        ("null", _) | ("unit", _) => "null".to_owned(),
        ("integer" | "boolean", value) => value.trim_matches('`').to_owned(),
        ("floating", value) => value.trim_start_matches("point ").trim_matches('`').to_owned(),
        ("string", value) => value.to_owned(),
        _ => found.to_owned(),
    };
    Some(format!("must be {expected}, not {found}"))
}

/// Translates errors such as ``unknown variant `x`, expected one of `a`, `b` ``.
fn wrong_word(text: &str) -> Option<String> {
    let rest = text.strip_prefix("unknown variant ")?;
    let (found, expected) = rest.split_once(", expected ")?;
    let known: Vec<&str> = expected.split('`').skip(1).step_by(2).collect();
    let found = unquoted(found)?;
    let near = nearest(found, known.iter().copied());
    let near = near.map(|near| format!("; did you mean {near:?}?")).unwrap_or_default();
    Some(format!("must be one of {}, not {found:?}{near}", known.join(", ")))
}
