//! The programs in the folder `examples`, each on every store that it works on.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use tokio::process::Command;

use crate::clients::serve;
use crate::support::{Server, Store};

const API_KEY: &str = "a-key-that-only-the-tests-know";

/// A program, and what its output must contain. They run in this order: later ones use what
/// earlier ones leave in the store.
struct Example {
    path: &'static str,
    expected: &'static [&'static str],
}

const EXAMPLES: [Example; 9] = [
    Example {
        path: "curl/queue.sh",
        expected: &[
            r#""transaction_id":"welcome-bob""#,
            r#""leaseReleased":true"#,
            r#""completed":1,"failed":1"#,
            r#""deleted":true"#,
        ],
    },
    Example {
        path: "curl/workflow.sh",
        expected: &["order 7 is paid", r#""customer":"ada""#, "completed"],
    },
    Example {
        path: "curl/webhooks.sh",
        expected: &[r#""state":"#, r#""payload":{"invoice": 7}"#, r#""token":"#],
    },
    Example {
        path: "python/push_pop.py",
        expected: &["billing received 5 orders", "shipping received 5 orders"],
    },
    Example { path: "python/workflow.py", expected: &["has completed", "order 8 is paid"] },
    Example {
        path: "python/webhooks.py",
        expected: &["received {'invoice': 9} with a valid signature", "was delivered"],
    },
    Example {
        path: "sql/queue.sql",
        expected: &["transaction_id", "|    42", "| __QUEUE_MODE__ |   0"],
    },
    Example { path: "sql/workflow.sql", expected: &["order 7 is paid", "order 8 is paid"] },
    Example { path: "sql/webhooks.sql", expected: &["msg_", "invoice.paid | "] },
];

/// The worker, which runs as long as the other examples do.
const WORKER: &str = "rust/order_worker.rs";

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples")
}

/// A path or a list of paths that `cargo xtask test` passes on.
fn provided(variable: &str) -> String {
    let value = std::env::var(variable);
    value.expect("run `cargo xtask test`, which installs what the examples need")
}

/// The programs that run an example: more than one if several versions of a client are supported.
fn programs(example: &Example) -> Vec<String> {
    match example.path.rsplit_once('.') {
        Some((_, "sh")) => vec!["sh".to_owned()],
        Some((_, "sql")) => vec![provided("WAKELINE_TEST_PSQL")],
        _ if example.path == "python/push_pop.py" => {
            provided("WAKELINE_TEST_QUEEN").split(':').map(str::to_owned).collect()
        }
        _ => vec![provided("WAKELINE_TEST_SVIX_PYTHON")],
    }
}

async fn run(example: &Example, server: &Server, store: &Store) {
    for program in programs(example) {
        let mut command = Command::new(&program);
        let path = folder().join(example.path);
        if example.path.ends_with(".sql") {
            // An ordinary role may not create tables in `public`: those of the user have a schema.
            command.env("PGOPTIONS", "-c search_path=shop -c client_min_messages=warning");
            command.args(["-X", "-d", &store.url(), "-c", "CREATE SCHEMA IF NOT EXISTS shop"]);
            command.arg("-f").arg(path);
        } else {
            command.arg(path).arg(format!("http://{}", server.client.address));
            command.env("WAKELINE_API_KEY", API_KEY).env("PYTHONDONTWRITEBYTECODE", "1");
        }
        let output = command.kill_on_drop(true).output();
        let output = tokio::time::timeout(Duration::from_secs(120), output).await;
        let output = output.expect("the example ends").expect("the example runs");
        let printed = String::from_utf8_lossy(&output.stdout);
        let errors = String::from_utf8_lossy(&output.stderr);
        let what =
            format!("{} with {program} on {}:\n{printed}\n{errors}", example.path, store.name());
        assert!(output.status.success(), "{what}");
        for expected in example.expected {
            assert!(printed.contains(expected), "{expected} is not in the output of {what}");
        }
    }
}

/// Runs all examples that work on a store, with a server and the worker.
async fn run_all(store: &Store) {
    let server = serve(store, Some(API_KEY)).await;
    let own = std::env::current_exe().expect("a path");
    let built = own.ancestors().nth(2).expect("the folder of the build").join("examples");
    let mut worker = Command::new(built.join("order_worker"));
    worker.args(["--store", &store.url()]).stdin(Stdio::null()).kill_on_drop(true);
    let mut worker = worker.spawn().expect("cargo builds the worker with the tests");
    for example in &EXAMPLES {
        if matches!(store, Store::Postgres(_)) || !example.path.ends_with(".sql") {
            run(example, &server, store).await;
        }
    }
    let status = worker.try_wait().expect("the worker's status is known");
    assert_eq!(status, None, "the worker runs until it is stopped");
}

#[tokio::test]
async fn examples_run_on_sqlite() {
    run_all(&Store::sqlite()).await;
}

#[tokio::test]
async fn examples_run_on_postgres() {
    run_all(&Store::postgres().await).await;
}

#[test]
fn every_file_in_the_folder_of_examples_is_run() {
    let mut found = BTreeSet::new();
    for language in ["curl", "python", "rust", "sql"] {
        for entry in std::fs::read_dir(folder().join(language)).expect("a folder") {
            let name = entry.expect("readable").file_name();
            found.insert(format!("{language}/{}", name.to_str().expect("UTF-8")));
        }
    }
    let mut run: BTreeSet<String> =
        EXAMPLES.iter().map(|example| example.path.to_owned()).collect();
    run.insert(WORKER.to_owned());
    assert_eq!(found, run);
}
