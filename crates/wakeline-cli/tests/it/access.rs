//! API keys and tokens of a running server.

use serde_json::{Value, json};

use crate::support::{Server, Store, eventually, output_of, wakeline};

/// Runs `wakeline` on a store. Returns the exit code, standard output and standard error.
async fn run(store: &Store, arguments: &[&str]) -> (Option<i32>, String, String) {
    let mut command = wakeline();
    command.env("WAKELINE_STORE", store.url()).args(arguments);
    let output = output_of(command).await;
    let text = |bytes| String::from_utf8(bytes).expect("UTF-8");
    (output.status.code(), text(output.stdout), text(output.stderr))
}

async fn run_json(store: &Store, arguments: &[&str]) -> Vec<Value> {
    let (code, text, error) = run(store, arguments).await;
    assert_eq!(code, Some(0), "{arguments:?}: {error}");
    text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
}

async fn status(server: &Server, bearer: &str) -> u16 {
    let headers = match bearer {
        "" => String::new(),
        key => format!("authorization: Bearer {key}\r\n"),
    };
    let path = "/api/v1/pop/queue/orders";
    let sent = server.client.send_with("GET", path, &headers, "").await.expect("sent");
    sent.answer().await.expect("an answer").status
}

#[tokio::test]
async fn queues_are_listed_from_the_command_line() {
    for store in Store::both().await {
        let server = Server::start(&store, &[]).await;
        let items =
            json!({"items": [{"queue": "a.b", "payload": 1}, {"queue": "c", "payload": 2}]});
        let pushed = server
            .client
            .call("POST", "/api/v1/push", &items.to_string())
            .await
            .expect("an answer");
        assert_eq!(pushed.status, 201, "{}", store.name());
        let popped = server
            .client
            .call("GET", "/api/v1/pop/queue/c?autoAck=true", "")
            .await
            .expect("an answer");
        assert_eq!(popped.status, 200, "{}", store.name());
        let listed = run_json(&store, &["queues", "--json"]).await;
        assert_eq!((&listed[0]["queue"], &listed[0]["pending"]), (&json!("a.b"), &json!(1)));
        assert_eq!((&listed[1]["queue"], &listed[1]["completed"]), (&json!("c"), &json!(1)));
        let (code, text, _) = run(&store, &["queues", "c"]).await;
        assert_eq!((code, text.lines().count()), (Some(0), 2), "{text}");
        assert!(text.contains("c 1 1 0 0 1 0 0"), "{text}");
        // A server stores the statistics of the current minute when it stops.
        assert_eq!(server.terminate().await, Some(0));
        let server = Server::start(&store, &[]).await;
        let ops = server.client.call("GET", "/api/v1/analytics/queue-ops?queue=c", "").await;
        let ops = ops.expect("an answer").json();
        assert_eq!(ops["series"][0]["pushMessages"], 1, "{ops}");
        let postgres = server.client.call("GET", "/api/v1/analytics/postgres-stats", "").await;
        let postgres = postgres.expect("an answer").json();
        assert_eq!(postgres["available"], store.name() == "postgres", "{postgres}");
    }
}

#[tokio::test]
async fn keys_are_created_and_revoked_while_servers_run() {
    for store in Store::both().await {
        let server = Server::start(&store, &[]).await;
        assert_eq!(status(&server, "").await, 204, "the server requires no key");
        let create = ["key", "create", "--name", "ci", "--scope", "queue:pop:orders*", "--json"];
        let made = run_json(&store, &create).await.remove(0);
        let (id, key) = (made["id"].as_str().expect("an id"), made["key"].as_str().expect("a key"));
        assert_eq!(status(&server, key).await, 204, "{}", store.name());
        assert_eq!(status(&server, "").await, 401, "there are keys now");
        let (code, _, error) = run(&store, &create).await;
        assert_eq!(code, Some(1), "{error}");
        assert!(error.contains("\"ci\""), "{error}");
        let rotate = ["key", "rotate", id, "--overlap", "1h", "--json"];
        let rotated = run_json(&store, &rotate).await.remove(0);
        assert_eq!(status(&server, key).await, 204, "the former secret is valid for an hour");
        let second = rotated["key"].as_str().expect("a key");
        eventually("the new secret is known", || async { status(&server, second).await == 204 })
            .await;
        eventually("its use is recorded", || async {
            run_json(&store, &["key", "list", "--json"]).await[0]["lastUsedAt"].is_string()
        })
        .await;
        let (code, text, _) = run(&store, &["key", "list"]).await;
        assert_eq!(code, Some(0));
        assert!(text.contains(id) && text.contains("queue:pop:orders*") && text.contains("live"));
        assert_eq!(run(&store, &["key", "revoke", id]).await.0, Some(0));
        eventually("the key is revoked", || async { status(&server, second).await == 401 }).await;
        let (code, _, error) = run(&store, &["key", "revoke", id]).await;
        assert_eq!(code, Some(1), "{error}");
        for wrong in [
            &["key", "create", "--name", "x", "--scope", "queue:fly:*"][..],
            &["key", "create", "--name", "x"],
            &["key", "create", "--name", "x", "--scope", "*:*:*", "--expires", "soon"],
        ] {
            assert_eq!(run(&store, wrong).await.0, Some(2), "{wrong:?}");
        }
        let audit = run_json(&store, &["audit", "--json"]).await;
        let acts: Vec<_> = audit.iter().rev().map(|entry| entry["act"].clone()).collect();
        assert_eq!(acts, ["key.create", "key.rotate", "key.revoke"]);
        assert!(audit.iter().all(|entry| entry["actor"] == "cli"));
        assert!(!format!("{audit:?}").contains(&key[20..]), "no secret is recorded");
    }
}

#[tokio::test]
async fn other_machines_are_served_once_there_is_a_key() {
    let store = Store::sqlite();
    let flags = ["serve", "--listen", "0.0.0.0:0"];
    let (code, _, error) = run(&store, &flags).await;
    assert_eq!(code, Some(2), "{error}");
    assert!(error.contains("wakeline key create") && error.contains("--insecure"), "{error}");
    let create = ["key", "create", "--name", "ops", "--scope", "*:*:*", "--expires", "90d"];
    let (code, text, error) = run(&store, &create).await;
    assert_eq!(code, Some(0), "{error}");
    let key = text.lines().find_map(|line| line.strip_prefix("key     ")).expect("a key");
    let mut command = wakeline();
    command.env("WAKELINE_STORE", store.url()).args(flags);
    let mut server = Server::spawn(command).await;
    server.client.address.set_ip([127, 0, 0, 1].into());
    assert_eq!(status(&server, "").await, 401);
    assert_eq!(status(&server, key).await, 204);
}

#[tokio::test]
async fn tokens_that_match_the_settings_are_accepted() {
    let store = Store::sqlite();
    let folder = tempfile::tempdir().expect("a folder");
    let config = folder.path().join("wakeline.toml");
    let secret = "a secret of at least thirty-two bytes";
    let text = format!(
        "[access]\njwt_algorithms = [\"HS256\"]\njwt_secret = \"{secret}\"\n\
         jwt_issuer = \"id\"\njwt_audience = [\"wakeline\"]\n"
    );
    std::fs::write(&config, text).expect("written");
    let path = config.display().to_string();
    let server = Server::start(&store, &["--config", &path]).await;
    assert_eq!(status(&server, "").await, 401);
    let claims = |role: &str| {
        json!({"sub": "alice", "role": role, "exp": 4_102_444_800_u64, "iss": "id",
            "aud": "wakeline"})
    };
    assert_eq!(status(&server, &token(secret, &claims("read-write"))).await, 204);
    assert_eq!(status(&server, &token(secret, &claims("read-only"))).await, 403);
    assert_eq!(status(&server, &token("another", &claims("admin"))).await, 401);
    let item = json!({"items": [{"queue": "orders", "payload": 1, "producerSub": "eve"}]});
    let bearer = format!("authorization: Bearer {}\r\n", token(secret, &claims("read-write")));
    let push = server.client.send_with("POST", "/api/v1/push", &bearer, &item.to_string()).await;
    assert_eq!(push.expect("sent").answer().await.expect("an answer").status, 201);
    let pop = server.client.send_with("GET", "/api/v1/pop/queue/orders", &bearer, "").await;
    let popped = pop.expect("sent").answer().await.expect("an answer").json();
    assert_eq!(popped["messages"][0]["producerSub"], "alice");
}

/// Returns a token that is signed with HS256.
fn token(secret: &str, claims: &Value) -> String {
    use base64::Engine as _;
    use base64::engine::general_purpose::URL_SAFE_NO_PAD as B64;
    let header = B64.encode(r#"{"alg":"HS256","typ":"JWT"}"#);
    let message = format!("{header}.{}", B64.encode(claims.to_string()));
    let key = ring::hmac::Key::new(ring::hmac::HMAC_SHA256, secret.as_bytes());
    let tag = ring::hmac::sign(&key, message.as_bytes());
    format!("{message}.{}", B64.encode(tag.as_ref()))
}
