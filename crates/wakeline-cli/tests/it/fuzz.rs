//! Unusual requests that are generated from the OpenAPI document: no request makes the server fail.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::process::Command;

use crate::support::{Hook, Server, Store, long};

const METHODS: [&str; 5] = ["get", "put", "post", "patch", "delete"];

/// Maximum time for the answer to a request that does not wait.
const ANSWER_MAX: Duration = Duration::from_secs(5);

/// Values for the parameters of a path; each request uses one of them for all parameters.
const ODD_PARTS: [&str; 7] =
    ["0", "-1", "%00", "%F0%9F%98%80", "..%2F..", "00000000-0000-0000-0000-000000000000", "*"];

/// Values for the parameters of a query; each request uses one of them for all parameters.
const ODD_VALUES: [&str; 6] = ["", "0", "-9223372036854775808", "NaN", "%00", "true"];

fn odd_bodies() -> Vec<String> {
    let deep = format!("{}1{}", "[".repeat(5_000), "]".repeat(5_000));
    let plain = ["", "{}", "[]", "null", "0", "\"\"", "{", "\u{0}"].map(str::to_owned);
    plain.into_iter().chain([deep]).collect()
}

/// Bodies with the fields that a schema names; all fields of a body have the same value.
fn shaped_bodies(document: &Value, schema: &Value) -> Vec<String> {
    let resolved = match schema["$ref"].as_str() {
        Some(path) => document.pointer(&path[1..]).cloned().unwrap_or_default(),
        None => schema.clone(),
    };
    let Some(fields) = resolved["properties"].as_object() else { return Vec::new() };
    let values = [json!(null), json!(-1), json!(1e300), json!("\u{0}"), json!([]), json!({})];
    let filled = |value: &Value| {
        let all = fields.keys().map(|name| (name.clone(), value.clone()));
        Value::Object(all.collect()).to_string()
    };
    values.iter().map(filled).collect()
}

/// Returns a path in which each parameter is `part`, with a query in which each parameter is
/// `value`.
fn address(path: &str, operation: &Value, part: &str, value: &str) -> String {
    let mut filled = String::new();
    for piece in path.split('/').skip(1) {
        let open = piece.starts_with('{');
        filled = format!("{filled}/{}", if open { part } else { piece });
    }
    let parameters = operation["parameters"].as_array().cloned().unwrap_or_default();
    let in_query = parameters.iter().filter(|one| one["in"] == "query");
    let names = in_query.filter_map(|one| one["name"].as_str());
    // No request waits for long: this test is about invalid values.
    let pairs = names.filter(|name| *name != "wait");
    let pairs: Vec<String> = pairs
        .map(|name| format!("{name}={}", if name == "timeout" { "100" } else { value }))
        .collect();
    if pairs.is_empty() { filled } else { format!("{filled}?{}", pairs.join("&")) }
}

/// One request of the test.
struct OddRequest<'a> {
    method: &'a str,
    path: &'a str,
    body: &'a str,
}

/// Sends a request, and adds a text to `bad` if the server failed. No answer is a failure, too.
async fn try_out(server: &Server, request: OddRequest<'_>, bad: &mut Vec<String>) {
    let OddRequest { method, path, body } = request;
    let calling = server.client;
    let call = calling.call(method, path, body);
    let Ok(answer) = tokio::time::timeout(ANSWER_MAX, call).await else {
        bad.push(format!("{method} {path} {body:.60}: no answer in {ANSWER_MAX:?}"));
        return;
    };
    match answer {
        Ok(answer) if answer.status < 500 || answer.status == 501 => {}
        Ok(answer) => bad.push(format!("{method} {path} {body:.60}: {answer:?}")),
        Err(error) => bad.push(format!("{method} {path} {body:.60}: {error}")),
    }
}

async fn try_all_operations(server: &Server) {
    let document = server.client.get("/openapi.json").await.json();
    let (mut operations, mut bad) = (0, Vec::new());
    for (path, item) in document["paths"].as_object().expect("paths") {
        for method in METHODS {
            let operation = &item[method];
            if operation.is_null() {
                continue;
            }
            operations += 1;
            let method = method.to_uppercase();
            for (turn, part) in ODD_PARTS.iter().enumerate() {
                let value = ODD_VALUES[turn % ODD_VALUES.len()];
                let address = address(path, operation, part, value);
                let request = OddRequest { method: &method, path: &address, body: "{}" };
                try_out(server, request, &mut bad).await;
            }
            let schema = &operation["requestBody"]["content"]["application/json"]["schema"];
            let plain = address(path, operation, "x", "1");
            for body in odd_bodies().iter().chain(&shaped_bodies(&document, schema)) {
                let request = OddRequest { method: &method, path: &plain, body };
                try_out(server, request, &mut bad).await;
            }
        }
    }
    assert!(operations > 100, "{operations} operations");
    assert!(bad.is_empty(), "{bad:#?}");
}

/// Runs Schemathesis, which only `cargo xtask test --long` installs.
async fn schemathesis(server: &Server) {
    let program = std::env::var_os("WAKELINE_TEST_SCHEMATHESIS").expect("installed for --long");
    // It writes a record of its requests into its working directory.
    let folder = tempfile::tempdir().expect("a folder");
    let mut command = Command::new(program);
    command.current_dir(folder.path());
    command.arg("run").arg(format!("http://{}/openapi.json", server.client.address));
    command.args(["--checks", "not_a_server_error", "--phases", "coverage,fuzzing"]);
    command.args(["--max-examples", "20", "--seed", "7", "--request-timeout", "10"]);
    // A server that refuses pushes during a maintenance answers 503.
    command.args(["--exclude-path-regex", "maintenance"]);
    command.args(["--suppress-health-check", "all", "--warnings", "off", "--no-color"]);
    let output = command.kill_on_drop(true).output().await.expect("it runs");
    let out = String::from_utf8_lossy(&output.stdout);
    eprintln!("{out}");
    assert!(!out.contains("Server error"), "{out}");
    assert!(out.contains("passed"), "{out}");
}

#[tokio::test]
async fn no_request_makes_the_server_fail() {
    for store in Store::both().await {
        let server = Hook::serve(&store.url(), &[]).await;
        try_all_operations(&server).await;
        if long() {
            schemathesis(&server).await;
        }
        assert_eq!(server.client.get("/health").await.status, 200, "{}", store.name());
        assert_eq!(server.terminate().await, Some(0), "{}", store.name());
    }
}
