//! Routes of webhooks over real HTTP, on both stores: a request takes effect as a whole or not at
//! all, even with concurrent requests.

use serde_json::{Value, json};

use crate::support::{Hook, Server, Store};

const NONE: Value = Value::Null;

/// Number of rounds with two concurrent requests.
const ROUNDS: u32 = 25;

/// Encryption keys that no other server of these tests has.
const OTHER_KEYS: &str = "b:ZmVkY2JhOTg3NjU0MzIxMGZlZGNiYTk4NzY1NDMyMTA=";

/// Starts a server with an application on each store.
async fn each() -> Vec<(Store, Server, Hook)> {
    let mut all = Vec::new();
    for store in Store::both().await {
        let server = Hook::serve(&store.url(), &[]).await;
        let hook = Hook::open(&server).await;
        all.push((store, server, hook));
    }
    all
}

async fn pull_endpoint(hook: &Hook, uid: &str) {
    let body = json!({"uid": uid, "delivery": {"pull": true}});
    hook.expect(201, "POST", "/api/v1/app/a/endpoint", body).await;
}

async fn pull(hook: &Hook, endpoint: &str) -> Value {
    let path = format!("/api/v1/app/a/endpoint/{endpoint}/pull?batch=10");
    hook.expect(200, "GET", &path, NONE).await["messages"].clone()
}

#[tokio::test]
async fn an_event_that_cannot_be_signed_is_not_leased() {
    for (store, server, hook) in each().await {
        pull_endpoint(&hook, "p").await;
        hook.send("m").await;
        assert_eq!(server.terminate().await, Some(0));
        // The server has no keys on PostgreSQL, and other keys on SQLite, which always has keys.
        let (keys, status) = match &store {
            Store::Sqlite(_) => (Some(OTHER_KEYS), 500),
            Store::Postgres(_) => (None, 503),
        };
        let server = Hook::serve_with(keys, &store.url(), &[]).await;
        let hook = Hook(server.client);
        let path = "/api/v1/app/a/endpoint/p/pull?signed=true";
        for path in [path, "/api/v1/app/a/endpoint/p/pull?signed=true&wait=true&timeout=1000"] {
            hook.expect(status, "GET", path, NONE).await;
        }
        let got = pull(&hook, "p").await;
        assert_eq!((&got[0]["eventId"], &got[0]["attempt"]), (&json!("m"), &json!(1)), "{got}");
    }
}

#[tokio::test]
async fn an_expired_message_is_not_pulled_and_has_failed() {
    for (_store, _server, hook) in each().await {
        pull_endpoint(&hook, "p").await;
        for mark in ["gone", "kept"] {
            hook.send(mark).await;
        }
        hook.expect(204, "DELETE", "/api/v1/app/a/msg/gone/content", NONE).await;
        let got = pull(&hook, "p").await;
        assert_eq!(got.as_array().map(Vec::len), Some(1), "{got}");
        assert_eq!(
            (&got[0]["eventId"], &got[0]["payload"]["mark"]),
            (&json!("kept"), &json!("kept"))
        );
        assert_eq!(hook.deliveries("gone").await[0]["state"], "failed");
        hook.send("alone").await;
        hook.expect(204, "DELETE", "/api/v1/app/a/msg/alone/content", NONE).await;
        let path = "/api/v1/app/a/endpoint/p/pull?signed=true";
        hook.expect(204, "GET", path, NONE).await;
        assert_eq!(hook.deliveries("alone").await[0]["state"], "failed");
    }
}

#[tokio::test]
async fn tokens_are_valid_only_at_the_endpoint_that_issued_them() {
    for (_store, _server, hook) in each().await {
        for uid in ["p", "q"] {
            pull_endpoint(&hook, uid).await;
        }
        let body = json!({"uid": "called", "url": "http://127.0.0.1:9/", "disabled": true});
        hook.expect(201, "POST", "/api/v1/app/a/endpoint", body).await;
        hook.send("m").await;
        let token = pull(&hook, "p").await[0]["token"].clone();
        let of =
            |endpoint: &str, verb: &str| format!("/api/v1/app/a/endpoint/{endpoint}/pull/{verb}");
        let ack = json!({"tokens": [token]});
        let extend = json!({"tokens": [token], "seconds": 60});
        let nack = json!({"items": [{"token": token}]});
        for (verb, body) in [("ack", &ack), ("nack", &nack), ("extend", &extend)] {
            let answer = hook.expect(200, "POST", &of("q", verb), body.clone()).await;
            let stale = json!([{"success": false, "state": "stale"}]);
            assert_eq!(answer["results"], stale, "{verb}");
            hook.expect(422, "POST", &of("called", verb), body.clone()).await;
        }
        let answer = hook.expect(200, "POST", &of("p", "extend"), extend).await;
        assert_eq!(answer["results"][0]["state"], "extended");
        let answer = hook.expect(200, "POST", &of("p", "ack"), ack).await;
        assert_eq!(answer["results"][0]["state"], "delivered");
    }
}

#[tokio::test]
async fn credentials_of_a_url_are_never_shown() {
    for (_store, _server, hook) in each().await {
        let url = "http://user:hunter2@127.0.0.1:9/x";
        let path = "/api/v1/app/a/endpoint";
        let body = json!({"url": url, "uid": "e"});
        let made = hook.expect(201, "POST", path, body.clone()).await;
        assert_eq!(made["url"], "http://127.0.0.1:9/x");
        let one = "/api/v1/app/a/endpoint/e";
        let headers = hook.get(&format!("{one}/headers")).await;
        assert_eq!(headers["sensitive"], json!(["authorization"]));
        for (method, body) in [("PUT", json!({"url": url})), ("PATCH", json!({"url": url}))] {
            let answer = hook.expect(200, method, one, body).await;
            assert_eq!(answer["url"], "http://127.0.0.1:9/x", "{method}");
        }
        let both = json!({"url": url, "headers": {"Authorization": "Bearer x"}});
        for (method, path) in [("POST", path), ("PUT", one)] {
            let refused = hook.expect(422, method, path, both.clone()).await;
            assert_eq!(refused["detail"][0]["loc"], json!(["body", "url"]), "{refused}");
        }
        let body = json!({"id": "s", "url": url, "event_types": ["*"]});
        let subscription = hook.expect(201, "POST", "/subscriptions", body).await;
        assert_eq!(subscription["url"], "http://127.0.0.1:9/x");
    }
}

#[tokio::test]
async fn a_replacement_that_is_refused_changes_nothing() {
    for (_store, _server, hook) in each().await {
        let url = "http://127.0.0.1:9/";
        for uid in ["one", "two"] {
            let body = json!({"url": url, "uid": uid, "headers": {"x-team": uid}});
            hook.expect(201, "POST", "/api/v1/app/a/endpoint", body).await;
        }
        let one = "/api/v1/app/a/endpoint/one";
        let before = hook.get(one).await;
        let headers = json!({"x-team": "red"});
        let taken = json!({"url": url, "uid": "two", "headers": headers});
        hook.expect(409, "PUT", one, taken).await;
        let wrong = json!({"url": "http://10.0.0.1/", "headers": headers});
        hook.expect(422, "PUT", one, wrong).await;
        assert_eq!(hook.get(one).await, before);
        let shown = hook.get(&format!("{one}/headers")).await;
        assert_eq!(shown["headers"], json!({"x-team": "one"}));
        hook.expect(200, "PUT", one, json!({"url": url, "headers": headers})).await;
        let shown = hook.get(&format!("{one}/headers")).await;
        assert_eq!(shown["headers"], headers);
    }
}

/// Sends two patches at the same time, repeatedly, and checks that both take effect.
async fn patch_concurrently(
    hook: &Hook,
    path: &str,
    read: &str,
    patches: impl Fn(u32) -> [(Value, Value); 2],
) {
    for round in 0..ROUNDS {
        let [(one, seen_one), (two, seen_two)] = patches(round);
        let (one, two) = (one.to_string(), two.to_string());
        let both = tokio::join!(hook.0.call("PATCH", path, &one), hook.0.call("PATCH", path, &two));
        for answer in [both.0, both.1] {
            let answer = answer.expect("an answer");
            assert!(matches!(answer.status, 200 | 204), "{path}: {answer:?}");
        }
        let found = hook.get(read).await;
        for seen in [seen_one, seen_two] {
            let pointer = seen["at"].as_str().expect("a pointer");
            let value = found.pointer(pointer);
            assert_eq!(value, Some(&seen["is"]), "{path} round {round}: {found}");
        }
    }
}

fn at(pointer: &str, is: impl Into<Value>) -> Value {
    json!({"at": pointer, "is": is.into()})
}

#[tokio::test]
async fn concurrent_changes_of_different_fields_both_succeed() {
    for (_store, _server, hook) in each().await {
        let body = json!({"url": "http://127.0.0.1:9/", "uid": "e"});
        hook.expect(201, "POST", "/api/v1/app/a/endpoint", body).await;
        let body = json!({"name": "t", "description": "d"});
        hook.expect(201, "POST", "/api/v1/event-type", body).await;

        let endpoint = "/api/v1/app/a/endpoint/e";
        patch_concurrently(&hook, endpoint, endpoint, |n| {
            let n = n + 1;
            [
                (json!({"delivery": {"inFlightMax": n}}), at("/delivery/inFlightMax", n)),
                (json!({"throttleRate": n}), at("/throttleRate", n)),
            ]
        })
        .await;
        let headers = "/api/v1/app/a/endpoint/e/headers";
        patch_concurrently(&hook, headers, headers, |n| {
            let n = n.to_string();
            [
                (json!({"headers": {"x-one": n}}), at("/headers/x-one", n.clone())),
                (json!({"headers": {"x-two": n}}), at("/headers/x-two", n.clone())),
            ]
        })
        .await;
        patch_concurrently(&hook, "/api/v1/app/a", "/api/v1/app/a", |n| {
            let name = format!("name {n}");
            let metadata = json!({"n": n.to_string()});
            [
                (json!({"name": name}), at("/name", name.clone())),
                (json!({"metadata": metadata}), at("/metadata", metadata.clone())),
            ]
        })
        .await;
        let event_type = "/api/v1/event-type/t";
        patch_concurrently(&hook, event_type, event_type, |n| {
            let (text, flag) = (n.to_string(), n % 2 == 0);
            [
                (json!({"description": text}), at("/description", text.clone())),
                (json!({"deprecated": flag}), at("/deprecated", flag)),
            ]
        })
        .await;
    }
}

#[tokio::test]
async fn archiving_an_event_type_reverts_no_other_change() {
    for (_store, _server, hook) in each().await {
        let body = json!({"name": "t", "description": "d"});
        hook.expect(201, "POST", "/api/v1/event-type", body).await;
        let path = "/api/v1/event-type/t";
        for round in 0..ROUNDS {
            let text = json!({"description": round.to_string(), "archived": false}).to_string();
            hook.0.call("PATCH", path, &text).await.expect("an answer");
            let group = json!({"groupName": round.to_string()}).to_string();
            let (archived, patched) =
                tokio::join!(hook.0.call("DELETE", path, ""), hook.0.call("PATCH", path, &group));
            assert_eq!(archived.expect("an answer").status, 204);
            assert_eq!(patched.expect("an answer").status, 200);
            let found = hook.get(path).await;
            assert_eq!(found["archived"], true, "round {round}");
            assert_eq!(found["groupName"], json!(round.to_string()), "round {round}");
        }
        hook.expect(404, "PATCH", "/api/v1/event-type/none", json!({"deprecated": true})).await;
        hook.expect(404, "DELETE", "/api/v1/event-type/none", NONE).await;
    }
}

#[tokio::test]
async fn an_endpoint_that_does_not_pull_has_a_url() {
    for (_store, _server, hook) in each().await {
        pull_endpoint(&hook, "p").await;
        let path = "/api/v1/app/a/endpoint/p";
        let push = json!({"delivery": {"pull": false}});
        let refused = hook.expect(422, "PATCH", path, push.clone()).await;
        assert_eq!(refused["detail"][0]["loc"], json!(["body", "url"]), "{refused}");
        hook.expect(200, "PATCH", path, json!({"url": ""})).await;
        assert_eq!(hook.get(path).await["delivery"]["pull"], true);
        hook.expect(200, "PATCH", path, json!({"url": "http://127.0.0.1:9/"})).await;
        hook.expect(200, "PATCH", path, push).await;
        hook.expect(422, "PATCH", path, json!({"url": ""})).await;
        hook.expect(200, "PATCH", path, json!({"url": "", "delivery": {"pull": true}})).await;
    }
}

#[tokio::test]
async fn the_first_operational_endpoint_can_be_put() {
    for (_store, _server, hook) in each().await {
        let path = "/api/v1/operational-webhook/endpoint/ops";
        let body = json!({"url": "http://127.0.0.1:9/"});
        let made = hook.expect(201, "PUT", path, body.clone()).await;
        assert_eq!(made["uid"], "ops");
        hook.expect(200, "PUT", path, body.clone()).await;
        let missing = "/api/v1/app/none/endpoint/x";
        hook.expect(404, "PUT", missing, body).await;
    }
}

#[tokio::test]
async fn the_operational_application_cannot_be_changed_or_deleted() {
    for (_store, _server, hook) in each().await {
        let body = json!({"url": "http://127.0.0.1:9/", "uid": "ops"});
        hook.expect(201, "POST", "/api/v1/operational-webhook/endpoint", body).await;
        let by_uid = "/api/v1/app/wakeline.operational".to_owned();
        let id = hook.get(&by_uid).await["id"].as_str().expect("an id").to_owned();
        for path in [by_uid.clone(), format!("/api/v1/app/{id}")] {
            for (method, body) in [
                ("PATCH", json!({"uid": "mine"})),
                ("PATCH", json!({"uid": null})),
                ("PUT", json!({"name": "x", "uid": "mine"})),
                ("PUT", json!({"name": "x", "uid": null})),
                ("DELETE", NONE),
            ] {
                hook.expect(422, method, &path, body).await;
            }
            let named = hook.expect(200, "PATCH", &path, json!({"name": "Ops"})).await;
            assert_eq!(named["uid"], "wakeline.operational");
        }
        hook.get("/api/v1/operational-webhook/endpoint/ops").await;
    }
}

#[tokio::test]
async fn an_event_is_shown_as_it_was_posted() {
    for (_store, _server, hook) in each().await {
        for (n, source) in
            ["plain", "a \"quote\"", "back\\slash", "line\nbreak", "\u{1}ü"].into_iter().enumerate()
        {
            let id = format!("e{n}");
            let event = json!({"id": id, "type": "t", "source": source, "data": {"n": n}});
            hook.expect(202, "POST", "/events", event).await;
            let found = hook.get(&format!("/events/{id}")).await;
            assert_eq!(found["source"], source, "{found}");
            assert_eq!(found["data"], json!({"n": n}), "{found}");
        }
    }
}

#[tokio::test]
async fn attempts_of_an_event_are_returned_in_pages() {
    for (_store, _server, hook) in each().await {
        for n in 0..3 {
            let id = format!("s{n}");
            let body = json!({"id": id, "url": "http://127.0.0.1:1/", "event_types": ["*"]});
            hook.expect(201, "POST", "/subscriptions", body).await;
        }
        let event = json!({"id": "e", "type": "t", "source": "s"});
        hook.expect(202, "POST", "/events", event).await;
        let path = "/events/e/attempts";
        crate::support::eventually("all were tried", || async {
            hook.get(path).await.as_array().is_some_and(|all| all.len() == 3)
        })
        .await;
        let all = hook.get(path).await;
        let first = hook.get(&format!("{path}?limit=2")).await;
        assert_eq!(first, json!([all[0], all[1]]));
        let after = first[1]["id"].as_str().expect("an id");
        let rest = hook.get(&format!("{path}?limit=2&after={after}")).await;
        assert_eq!(rest, json!([all[2]]));
        for wrong in ["limit=0", "limit=251", "after=x"] {
            hook.expect(400, "GET", &format!("{path}?{wrong}"), NONE).await;
        }
    }
}
