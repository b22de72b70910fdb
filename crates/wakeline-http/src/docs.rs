//! The OpenAPI document, and an HTML page rendered from it without scripts or external resources.

use std::fmt::Write as _;
use std::sync::LazyLock;

use serde_json::Value;

/// Returns the OpenAPI document as JSON. A test compares it with the routes.
pub fn openapi() -> &'static str {
    include_str!("../openapi.json")
}

/// The documentation page, rendered on the first call.
pub(crate) fn page() -> &'static str {
    static PAGE: LazyLock<String> = LazyLock::new(|| {
        let document = serde_json::from_str(openapi()).expect("the document is JSON");
        render(&document)
    });
    &PAGE
}

const STYLE: &str = "body{font:16px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;\
padding:0 1rem;color:#1b1f24;background:#fff}code,pre{font:14px ui-monospace,monospace}\
h2{margin-top:2.5rem;border-bottom:1px solid #d0d7de}details{border:1px solid #d0d7de;\
border-radius:6px;margin:.5rem 0;padding:.5rem .8rem}summary{cursor:pointer}\
table{border-collapse:collapse;width:100%}td,th{text-align:left;vertical-align:top;\
padding:.25rem .8rem .25rem 0;border-top:1px solid #eaeef2}.m{display:inline-block;\
min-width:4.5rem;font-weight:600;text-transform:uppercase}\
@media(prefers-color-scheme:dark){body{color:#e6edf3;background:#0d1117}\
h2,details{border-color:#30363d}td,th{border-color:#21262d}a{color:#58a6ff}}";

fn render(document: &Value) -> String {
    let mut page = String::with_capacity(32 * 1024);
    let title = escape(text(&document["info"]["title"]));
    let _ = write!(
        page,
        "<!doctype html><html lang=\"en\"><head><meta charset=\"utf-8\">\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\
         <title>{title} API</title><style>{STYLE}</style></head><body><h1>{title}</h1><p>{}</p>\
         <p>Version {}. As an OpenAPI document: <a href=\"/openapi.json\">/openapi.json</a>.</p>",
        escape(text(&document["info"]["description"])),
        escape(text(&document["info"]["version"])),
    );
    for tag in document["tags"].as_array().into_iter().flatten() {
        let _ = write!(page, "<h2>{}</h2>", escape(text(&tag["description"])));
        operations(&mut page, document, text(&tag["name"]));
    }
    schemas(&mut page, document);
    page.push_str("</body></html>");
    page
}

fn operations(page: &mut String, document: &Value, tag: &str) {
    for (path, methods) in document["paths"].as_object().into_iter().flatten() {
        for (method, operation) in methods.as_object().into_iter().flatten() {
            if operation["tags"].as_array().is_some_and(|tags| tags.iter().any(|t| t == tag)) {
                operation_details(page, method, path, operation);
            }
        }
    }
}

fn operation_details(page: &mut String, method: &str, path: &str, operation: &Value) {
    let _ = write!(
        page,
        "<details><summary><span class=\"m\">{method}</span> <code>{}</code> {}</summary><p>{}</p>",
        escape(path),
        prose(text(&operation["summary"])),
        prose(text(&operation["description"])),
    );
    let parameters = operation["parameters"].as_array();
    if let Some(parameters) = parameters.filter(|list| !list.is_empty()) {
        page.push_str("<table><tr><th>Parameter</th><th>In</th><th></th></tr>");
        for parameter in parameters {
            let cells = [&parameter["name"], &parameter["in"], &parameter["description"]];
            row(page, cells.map(|cell| prose(text(cell))));
        }
        page.push_str("</table>");
    }
    if let Some(schema) = operation["requestBody"]["content"]["application/json"].get("schema") {
        let _ = write!(page, "<p>Body: {}</p>", kind(schema));
    }
    page.push_str("<table><tr><th>Status</th><th></th><th>Response</th></tr>");
    for (status, response) in operation["responses"].as_object().into_iter().flatten() {
        let schema = response["content"].as_object().and_then(|kinds| kinds.values().next());
        let schema = schema.map(|content| kind(&content["schema"])).unwrap_or_default();
        let _ = write!(
            page,
            "<tr><td>{status}</td><td>{}</td><td>{schema}</td></tr>",
            prose(text(&response["description"])),
        );
    }
    page.push_str("</table></details>");
}

fn schemas(page: &mut String, document: &Value) {
    page.push_str("<h2>Schemas</h2>");
    for (name, schema) in document["components"]["schemas"].as_object().into_iter().flatten() {
        let _ = write!(
            page,
            "<details id=\"{0}\"><summary><code>{0}</code> {1}</summary>",
            escape(name),
            prose(text(&schema["description"])),
        );
        let fields = fields(document, schema);
        if fields.is_empty() {
            let _ = write!(page, "<p>{}</p>", kind(schema));
        } else {
            page.push_str("<table>");
            for (field, property) in fields {
                let name = format!("<code>{}</code>", escape(field));
                row(page, [name, kind(property), prose(text(&property["description"]))]);
            }
            page.push_str("</table>");
        }
        page.push_str("</details>");
    }
}

/// The fields of a schema: its own and those of the schemas that it is composed of.
fn fields<'a>(document: &'a Value, schema: &'a Value) -> Vec<(&'a str, &'a Value)> {
    if let Some(reference) = schema["$ref"].as_str() {
        let shape = document.pointer(reference.trim_start_matches('#'));
        return shape.map(|shape| fields(document, shape)).unwrap_or_default();
    }
    let parts = schema["allOf"].as_array().into_iter().flatten();
    let mut all: Vec<_> = parts.flat_map(|part| fields(document, part)).collect();
    let own = schema["properties"].as_object().into_iter().flatten();
    all.extend(own.map(|(name, property)| (name.as_str(), property)));
    all
}

fn row(page: &mut String, cells: [String; 3]) {
    page.push_str("<tr>");
    for cell in cells {
        let _ = write!(page, "<td>{cell}</td>");
    }
    page.push_str("</tr>");
}

/// A short description of a schema, with links to named schemas.
fn kind(schema: &Value) -> String {
    if let Some(reference) = schema["$ref"].as_str() {
        let name = escape(reference.rsplit('/').next().unwrap_or_default());
        return format!("<a href=\"#{name}\">{name}</a>");
    }
    for choice in ["oneOf", "anyOf"] {
        let options = schema[choice].as_array().into_iter().flatten();
        let options: Vec<_> = options.filter(|option| option["type"] != "null").map(kind).collect();
        if !options.is_empty() {
            return options.join(" or ");
        }
    }
    if let Some(values) = schema["enum"].as_array() {
        let values = values.iter().map(|value| format!("<code>{}</code>", escape(text(value))));
        return values.collect::<Vec<_>>().join(" or ");
    }
    let names: Vec<&str> = match &schema["type"] {
        Value::String(name) => vec![name],
        Value::Array(names) => names.iter().map(text).filter(|name| *name != "null").collect(),
        _ => Vec::new(),
    };
    let inner = &schema["additionalProperties"];
    let names = names.into_iter().map(|name| match name {
        "array" => format!("array of {}", kind(&schema["items"])),
        "object" if inner.is_object() => format!("object of {}", kind(inner)),
        name => escape(name),
    });
    match names.collect::<Vec<_>>().join(" or ") {
        any if any.is_empty() => "any JSON".to_owned(),
        names => names,
    }
}

/// Renders text in which code is enclosed in backticks.
fn prose(text: &str) -> String {
    let parts = text.split('`').enumerate();
    let parts = parts.map(|(index, part)| {
        let part = escape(part);
        if index % 2 == 0 { part } else { format!("<code>{part}</code>") }
    });
    parts.collect()
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            _ => escaped.push(c),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn page_contains_every_route_and_schema() {
        let document = serde_json::from_str(openapi()).expect("JSON");
        let page = render(&document);
        let paths = document["paths"].as_object().expect("paths");
        assert!(paths.len() > 15);
        for path in paths.keys() {
            assert!(page.contains(&escape(path)), "{path}");
        }
        for link in page.split("href=\"#").skip(1) {
            let target = link.split('"').next().expect("a closing quote");
            assert!(page.contains(&format!("id=\"{target}\"")), "{target} leads nowhere");
        }
        assert!(!page.contains("<script"));
        assert!(!page.contains('`'), "backticks are rendered as code");
        assert!(!page.contains("<table></table>"), "no schema is empty");
        assert!(page.contains("array of <a href=\"#PushItemBody\">"), "arrays name their items");
        assert!(
            page.contains("<code>completed</code> or <code>success</code>"),
            "enum values are listed"
        );
    }
}
