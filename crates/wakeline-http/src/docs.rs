//! The OpenAPI document, and the same as a page: no script, nothing from elsewhere.

use std::fmt::Write as _;
use std::sync::LazyLock;

use serde_json::Value;

/// The OpenAPI document, as JSON. A test compares it with the routes.
pub fn openapi() -> &'static str {
    include_str!("../openapi.json")
}

/// The page. Rendered once.
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
         <p>Version {}. The same as a document: <a href=\"/openapi.json\">/openapi.json</a>.</p>",
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
                operation_details(page, (method, path), operation);
            }
        }
    }
}

fn operation_details(page: &mut String, (method, path): (&str, &str), operation: &Value) {
    let _ = write!(
        page,
        "<details><summary><span class=\"m\">{method}</span> <code>{}</code> {}</summary><p>{}</p>",
        escape(path),
        escape(text(&operation["summary"])),
        escape(text(&operation["description"])),
    );
    let parameters = operation["parameters"].as_array();
    if let Some(parameters) = parameters.filter(|list| !list.is_empty()) {
        page.push_str("<table><tr><th>Parameter</th><th>In</th><th></th></tr>");
        for parameter in parameters {
            row(page, [&parameter["name"], &parameter["in"], &parameter["description"]].map(text));
        }
        page.push_str("</table>");
    }
    if let Some(schema) = operation["requestBody"]["content"]["application/json"].get("schema") {
        let _ = write!(page, "<p>Body: {}</p>", kind(schema));
    }
    page.push_str("<table><tr><th>Status</th><th></th><th>Answer</th></tr>");
    for (status, response) in operation["responses"].as_object().into_iter().flatten() {
        let schema = response["content"].as_object().and_then(|kinds| kinds.values().next());
        let schema = schema.map(|content| kind(&content["schema"])).unwrap_or_default();
        let _ = write!(
            page,
            "<tr><td>{status}</td><td>{}</td><td>{schema}</td></tr>",
            escape(text(&response["description"])),
        );
    }
    page.push_str("</table></details>");
}

fn schemas(page: &mut String, document: &Value) {
    page.push_str("<h2>Shapes</h2>");
    for (name, schema) in document["components"]["schemas"].as_object().into_iter().flatten() {
        let _ = write!(
            page,
            "<details id=\"{0}\"><summary><code>{0}</code> {1}</summary><table>",
            escape(name),
            escape(text(&schema["description"])),
        );
        for (field, property) in schema["properties"].as_object().into_iter().flatten() {
            let _ = write!(
                page,
                "<tr><td><code>{}</code></td><td>{}</td><td>{}</td></tr>",
                escape(field),
                kind(property),
                escape(text(&property["description"])),
            );
        }
        page.push_str("</table></details>");
    }
}

fn row(page: &mut String, cells: [&str; 3]) {
    page.push_str("<tr>");
    for cell in cells {
        let _ = write!(page, "<td>{}</td>", escape(cell));
    }
    page.push_str("</tr>");
}

/// A schema in a few words, linked to its shape.
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
    match &schema["type"] {
        Value::String(name) if name == "array" => format!("array of {}", kind(&schema["items"])),
        Value::String(name) => escape(name),
        Value::Array(names) => {
            let names = names.iter().map(text).filter(|name| *name != "null");
            escape(&names.collect::<Vec<_>>().join(" or "))
        }
        _ => String::new(),
    }
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
    fn every_route_and_every_shape_is_on_the_page() {
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
    }
}
