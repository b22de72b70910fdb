//! The published clients of other people, unchanged.

use crate::support::{Server, Store};

#[tokio::test]
async fn published_queen_clients_work_unchanged() {
    let interpreters = std::env::var("WAKELINE_TEST_QUEEN")
        .expect("run `cargo xtask test`, which installs the clients");
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/clients/queen_client.py");
    for store in Store::both().await {
        let server = Server::start(&store, &[]).await;
        for python in interpreters.split(':') {
            let mut client = tokio::process::Command::new(python);
            client.arg(script).arg(format!("http://{}", server.client.address));
            client.env("PYTHONDONTWRITEBYTECODE", "1").kill_on_drop(true);
            let output = client.output().await.expect("the client runs");
            let (out, err) = (output.stdout, output.stderr);
            let (out, err) = (String::from_utf8_lossy(&out), String::from_utf8_lossy(&err));
            assert!(output.status.success(), "{python} on {}: {out}\n{err}", store.name());
            assert!(out.contains("checks hold"), "{out}");
        }
    }
}
