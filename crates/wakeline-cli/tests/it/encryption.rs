//! Encrypted queues of the binary: push, pop and a change of keys.

use serde_json::json;

use crate::support::{Hook, KEYS, Server, Store, output_of, wakeline};

const OTHER: &str = "other:BAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=";

async fn serve(store: &Store, keys: &str) -> Server {
    Hook::serve_with(Some(keys), &store.url(), &[]).await
}

async fn rekey(store: &Store, keys: &str) -> (Option<i32>, String) {
    let mut command = wakeline();
    command.env("WAKELINE_ENCRYPTION_KEYS", keys).args(["rekey", "--store", &store.url()]);
    let output = output_of(command).await;
    let printed = [output.stdout, output.stderr].concat();
    (output.status.code(), String::from_utf8(printed).expect("UTF-8"))
}

#[tokio::test]
async fn encrypted_data_outlives_a_change_of_keys() {
    for store in Store::both().await {
        let server = serve(&store, KEYS).await;
        let client = &server.client;
        let body = json!({"queue": "vault", "options": {"encryptionEnabled": true}});
        let configured = client.post("/api/v1/configure", body).await;
        assert_eq!(configured.json()["options"]["encryptionEnabled"], true);
        client.push("vault", &[("p", "one"), ("p", "two")]).await;
        let url = json!({"url": "http://127.0.0.1:9/", "uid": "e"});
        let hook = Hook::open(&server).await;
        hook.post("/api/v1/app/a/endpoint", url).await;
        let secret = hook.get("/api/v1/app/a/endpoint/e/secret").await;

        let (code, printed) = rekey(&store, OTHER).await;
        assert_eq!(code, Some(1), "no key decrypts the data: {printed}");
        assert!(printed.contains("keep the old keys"), "{printed}");
        let (code, printed) = rekey(&store, &format!("{OTHER},{KEYS}")).await;
        assert_eq!(code, Some(0), "{printed}");
        assert!(
            printed.contains("\"other\"") && printed.contains("keep the older keys"),
            "{printed}"
        );
        let (code, printed) = rekey(&store, &format!("{OTHER},{KEYS}")).await;
        assert_eq!(code, Some(0), "nothing is left to re-encrypt: {printed}");
        assert!(
            printed.contains("cannot check"),
            "the server still runs with the old key: {printed}"
        );
        assert_eq!(server.terminate().await, Some(0));

        let server = serve(&store, OTHER).await;
        let popped = server.client.get("/api/v1/pop/queue/vault?batch=10").await;
        let count = popped.json()["messages"].as_array().map(Vec::len);
        assert_eq!(count, Some(2), "{}: {:?}", store.name(), popped.body);
        let audit = server.client.get("/api/v1/audit?act=store.rekey").await.json();
        let entries = audit["entries"].as_array().expect("entries").clone();
        assert_eq!(entries.len(), 1, "one event for the whole run: {entries:?}");
        assert_eq!((&entries[0]["actor"], &entries[0]["target"]), (&json!("cli"), &json!("other")));
        assert_eq!(Hook(server.client).get("/api/v1/app/a/endpoint/e/secret").await, secret);
    }
}

#[tokio::test]
async fn a_server_without_keys_refuses_encryption_and_encrypted_stores() {
    let store = Store::postgres().await;
    let keyless = Hook::serve_with(None, &store.url(), &[]).await;
    let body = json!({"queue": "vault", "options": {"encryptionEnabled": true}});
    let refused = keyless.client.post("/api/v1/configure", body.clone()).await;
    assert_eq!((refused.status, refused.json()["code"].clone()), (503, json!("no_encryption_key")));
    let keyed = serve(&store, KEYS).await;
    assert_eq!(keyed.client.post("/api/v1/configure", body).await.status, 200);
    let items = json!({"items": [{"queue": "vault", "payload": 1}]});
    let refused = keyless.client.post("/api/v1/push", items).await;
    assert_eq!((refused.status, refused.json()["code"].clone()), (503, json!("no_encryption_key")));
    let mut command = wakeline();
    command.args(["serve", "--listen", "127.0.0.1:0", "--store", &store.url()]);
    let output = output_of(command).await;
    let error = String::from_utf8(output.stderr).expect("UTF-8");
    assert_eq!(output.status.code(), Some(2), "{error}");
    assert!(error.contains("WAKELINE_ENCRYPTION_KEYS"), "{error}");
}
