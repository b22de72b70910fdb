//! Webhooks of the binary: delivery, shutdown and encryption keys.

use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::support::{Behaviour, Hook, KEYS, Receiver, Store, output_of, wakeline};

const NONE: Value = Value::Null;

/// Returns an encryption key that `wakeline encryption-key` prints.
async fn new_key() -> String {
    let output = wakeline().arg("encryption-key").output().await.expect("runs");
    assert_eq!(output.status.code(), Some(0));
    String::from_utf8(output.stdout).expect("UTF-8").trim().to_owned()
}

/// The path of the encryption key file of a SQLite store.
fn key_file(store: &Store) -> PathBuf {
    format!("{}.key", store.url().trim_start_matches("sqlite:")).into()
}

#[tokio::test]
async fn a_delivery_in_flight_at_sigterm_is_logged_with_its_result() {
    for store in Store::both().await {
        let server = Hook::serve(&store.url(), &[]).await;
        let hook = Hook::open(&server).await;
        let mut receiver = Receiver::start("e", Behaviour::Holds).await;
        hook.endpoint(&receiver, json!({})).await;
        hook.send("m").await;
        receiver.got(1).await;
        server.signal(Signal::TERM);
        receiver.set_behaviour(Behaviour::Answers(204)).await;
        assert_eq!(server.ended().await, Some(0), "{}", store.name());
        let came = receiver.log().remove(0);
        assert!(came.verified && came.mark == "m", "{came:?}");

        let again = Hook::serve(&store.url(), &[]).await;
        let log = Hook(again.client).attempts("e").await;
        assert_eq!(log.len(), 1, "{log:?}");
        assert_eq!(log[0].answer.as_ref().map(|(status, _)| *status), Some(204), "{log:?}");
    }
}

#[tokio::test]
async fn sqlite_creates_a_key_beside_its_file_and_postgres_requires_one() {
    let store = Store::sqlite();
    let server = Hook::serve_with(None, &store.url(), &[]).await;
    let hook = Hook::open(&server).await;
    hook.post("/api/v1/app/a/endpoint", json!({"url": "http://127.0.0.1:9/", "uid": "e"})).await;
    let secret = hook.get("/api/v1/app/a/endpoint/e/secret").await;
    let mode = std::fs::metadata(key_file(&store)).expect("there").permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    server.kill().await;
    let again = Hook::serve_with(None, &store.url(), &[]).await;
    assert!(!again.greeting.iter().any(|line| line.starts_with("keys")));
    assert_eq!(Hook(again.client).get("/api/v1/app/a/endpoint/e/secret").await, secret);

    let store = Store::postgres().await;
    let server = Hook::serve_with(None, &store.url(), &[]).await;
    let hook = Hook::open(&server).await;
    let body = json!({"url": "http://127.0.0.1:9/"});
    let refused = hook.expect(503, "POST", "/api/v1/app/a/endpoint", body).await;
    assert_eq!(refused["code"], "no_encryption_key");
    assert!(refused.to_string().contains("WAKELINE_ENCRYPTION_KEYS"), "{refused}");
}

#[tokio::test]
async fn no_new_key_is_created_for_a_database_with_encrypted_endpoints() {
    let store = Store::sqlite();
    let server = Hook::serve_with(None, &store.url(), &[]).await;
    Hook::open(&server).await;
    assert_eq!(server.terminate().await, Some(0));
    // Nothing was encrypted so far: a lost key is no loss.
    std::fs::remove_file(key_file(&store)).expect("removed");
    let server = Hook::serve_with(None, &store.url(), &[]).await;
    let hook = Hook(server.client);
    hook.post("/api/v1/app/a/endpoint", json!({"url": "http://127.0.0.1:9/"})).await;
    assert_eq!(server.terminate().await, Some(0));

    let kept = key_file(&store).with_extension("kept");
    std::fs::rename(key_file(&store), &kept).expect("moved");
    let mut command = wakeline();
    command.args(["serve", "--listen", "127.0.0.1:0", "--store", &store.url()]);
    let output = output_of(command).await;
    let error = String::from_utf8(output.stderr).expect("UTF-8");
    assert_eq!(output.status.code(), Some(2), "{error}");
    assert!(error.contains("w.db.key") && error.contains("--encryption-key-file"), "{error}");
    assert!(!key_file(&store).exists(), "no key was created");
    std::fs::rename(kept, key_file(&store)).expect("moved back");
    let server = Hook::serve_with(None, &store.url(), &[]).await;
    let all = Hook(server.client).get("/api/v1/app/a/endpoint").await;
    let id = all["data"][0]["id"].as_str().expect("an id");
    let path = format!("/api/v1/app/a/endpoint/{id}/secret");
    Hook(server.client).expect(200, "GET", &path, NONE).await;
}

#[tokio::test]
async fn keys_are_printed_and_errors_in_them_are_reported() {
    let (one, two) = (new_key().await, new_key().await);
    assert_ne!(one, two);
    let output = wakeline().args(["encryption-key", "--id", "a b"]).output().await.expect("runs");
    assert_eq!(output.status.code(), Some(2));
    let store = Store::sqlite();
    let mut command = wakeline();
    command.env("WAKELINE_ENCRYPTION_KEYS", "broken").args(["serve", "--listen", "127.0.0.1:0"]);
    let output = command.args(["--store", &store.url()]).output().await.expect("runs");
    let error = String::from_utf8(output.stderr).expect("UTF-8");
    assert_eq!(output.status.code(), Some(2), "{error}");
    assert!(error.contains("encryption_keys") && !error.contains("broken"), "{error}");
}

#[tokio::test]
async fn a_new_key_encrypts_and_the_old_one_still_decrypts() {
    for store in Store::both().await {
        let server = Hook::serve(&store.url(), &[]).await;
        let hook = Hook::open(&server).await;
        let url = "http://127.0.0.1:9/";
        hook.post("/api/v1/app/a/endpoint", json!({"url": url, "uid": "old"})).await;
        let secret = hook.get("/api/v1/app/a/endpoint/old/secret").await;
        assert_eq!(server.terminate().await, Some(0));
        let keys = format!("{},{KEYS}", new_key().await);
        let server = Hook::serve_with(Some(&keys), &store.url(), &[]).await;
        let hook = Hook(server.client);
        assert_eq!(hook.get("/api/v1/app/a/endpoint/old/secret").await, secret);
        hook.post("/api/v1/app/a/endpoint", json!({"url": url, "uid": "new"})).await;
        assert_eq!(server.terminate().await, Some(0));
        let server = Hook::serve(&store.url(), &[]).await;
        let hook = Hook(server.client);
        hook.expect(500, "GET", "/api/v1/app/a/endpoint/new/secret", NONE).await;
    }
}
