//! Requests that nobody would send, made from the OpenAPI document: whatever comes, the answer is
//! not a failure of the server.

use std::time::Duration;

use serde_json::{Value, json};
use tokio::process::Command;

use crate::support::{Hook, Server, Store, long};

const METHODS: [&str; 5] = ["get", "put", "post", "patch", "delete"];

/// The time in which everything is answered that does not ask to wait for longer.
const ANSWER_MAX: Duration = Duration::from_secs(5);

/// Values for every parameter of a path, in turn.
const ODD_PARTS: [&str; 7] =
    ["0", "-1", "%00", "%F0%9F%98%80", "..%2F..", "00000000-0000-0000-0000-000000000000", "*"];

/// Values for all parameters of a query at once, in turn.
const ODD_VALUES: [&str; 6] = ["", "0", "-9223372036854775808", "NaN", "%00", "true"];

fn odd_bodies() -> Vec<String> {
    let deep = format!("{}1{}", "[".repeat(5_000), "]".repeat(5_000));
    let plain = ["", "{}", "[]", "null", "0", "\"\"", "{", "\u{0}"].map(str::to_owned);
    plain.into_iter().chain([deep]).collect()
}

/// Bodies that have the fields which a schema names, with values of one kind for all of them.
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

/// The path with its parameters filled, and the query with all of its own.
fn address(path: &str, operation: &Value, (part, value): (&str, &str)) -> String {
    let mut filled = String::new();
    for piece in path.split('/').skip(1) {
        let open = piece.starts_with('{');
        filled = format!("{filled}/{}", if open { part } else { piece });
    }
    let parameters = operation["parameters"].as_array().cloned().unwrap_or_default();
    let in_query = parameters.iter().filter(|one| one["in"] == "query");
    let names = in_query.filter_map(|one| one["name"].as_str());
    // Nobody waits for long: this is about what is refused.
    let pairs = names.filter(|name| *name != "wait");
    let pairs: Vec<String> = pairs
        .map(|name| format!("{name}={}", if name == "timeout" { "100" } else { value }))
        .collect();
    if pairs.is_empty() { filled } else { format!("{filled}?{}", pairs.join("&")) }
}

/// Calls, and keeps what the server failed at: an answer that does not come is a failure, too.
async fn try_out(server: &Server, method: &str, (path, body): (&str, &str), bad: &mut Vec<String>) {
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

async fn walk(server: &Server) {
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
                let address = address(path, operation, (part, value));
                try_out(server, &method, (&address, "{}"), &mut bad).await;
            }
            let schema = &operation["requestBody"]["content"]["application/json"]["schema"];
            let plain = address(path, operation, ("x", "1"));
            for body in odd_bodies().iter().chain(&shaped_bodies(&document, schema)) {
                try_out(server, &method, (&plain, body), &mut bad).await;
            }
        }
    }
    assert!(operations > 100, "{operations} operations");
    assert!(bad.is_empty(), "{bad:#?}");
}

/// What the program for it finds. Only asked for by `cargo xtask test --long`, which installs it.
async fn schemathesis(server: &Server) {
    let program = std::env::var_os("WAKELINE_TEST_SCHEMATHESIS").expect("installed for --long");
    // It leaves a record of its requests where it runs.
    let folder = tempfile::tempdir().expect("a folder");
    let mut command = Command::new(program);
    command.current_dir(folder.path());
    command.arg("run").arg(format!("http://{}/openapi.json", server.client.address));
    command.args(["--checks", "not_a_server_error", "--phases", "coverage,fuzzing"]);
    command.args(["--max-examples", "20", "--seed", "7", "--request-timeout", "10"]);
    // A server that is told to refuse pushes answers 503.
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
        walk(&server).await;
        if long() {
            schemathesis(&server).await;
        }
        assert_eq!(server.client.get("/health").await.status, 200, "{}", store.name());
        assert_eq!(server.terminate().await, Some(0), "{}", store.name());
    }
}
