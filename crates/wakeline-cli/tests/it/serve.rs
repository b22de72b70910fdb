//! `wakeline serve`: the greeting, invalid settings and the shutdown.

use std::process::Stdio;

use crate::support::{Server, Store, output_of, wakeline};

#[tokio::test]
async fn serve_prints_the_store_the_url_and_three_commands_that_work() {
    for store in Store::both().await {
        let server = Server::start(&store, &[]).await;
        let greeting = server.greeting.join("\n");
        assert!(greeting.contains(store.name()), "{greeting}");
        let curls: Vec<_> =
            server.greeting.iter().filter(|line| line.contains("curl")).cloned().collect();
        assert_eq!(curls.len(), 3, "{greeting}");
        // The first line waits for what the second one pushes.
        let run = |line: String| {
            let mut shell = tokio::process::Command::new("sh");
            shell.arg("-c").arg(line).stdout(Stdio::piped()).kill_on_drop(true);
            async move { String::from_utf8(shell.output().await.expect("curl runs").stdout) }
        };
        let waiting = tokio::spawn(run(curls[0].clone()));
        server.parked(1).await;
        let pushed = run(curls[1].clone()).await.expect("UTF-8");
        assert!(pushed.contains("queued"), "{pushed}");
        let popped = waiting.await.expect("no panic").expect("UTF-8");
        assert!(popped.contains(r#""data":{"text":"hi"}"#), "{popped}");
        let health = run(curls[2].clone()).await.expect("UTF-8");
        assert!(health.contains("healthy"), "{health}");
    }
}

#[tokio::test]
async fn an_open_server_answers_to_the_names_that_it_is_given() {
    for store in Store::both().await {
        let server = Server::start(&store, &["--allowed-host", "a.example,b.example"]).await;
        for (host, status) in [("a.example", 200), ("b.example:80", 200), ("c.example", 421)] {
            // The client also sends the name of this machine.
            let header = format!("host: {host}\r\n");
            let path = "/api/v1/resources/queues";
            let sent = server.client.send_with("GET", path, &header, "").await.expect("sent");
            let answer = sent.answer().await.expect("an answer");
            assert_eq!(answer.status, status, "{host}: {answer:?}");
        }
    }
}

#[tokio::test]
async fn serving_other_machines_without_a_key_is_refused_with_advice() {
    let store = Store::sqlite();
    let mut command = wakeline();
    command.args(["serve", "--listen", "0.0.0.0:0", "--store", &store.url()]);
    let output = output_of(command).await;
    assert_eq!(output.status.code(), Some(2));
    let error = String::from_utf8(output.stderr).expect("UTF-8");
    assert!(error.contains("WAKELINE_API_KEY") && error.contains("--insecure"), "{error}");
}

#[tokio::test]
async fn an_api_key_of_the_environment_is_required() {
    let store = Store::sqlite();
    let mut command = wakeline();
    command.env("WAKELINE_API_KEY", "k3y").env("WAKELINE_STORE", store.url());
    command.args(["serve", "--listen", "127.0.0.1:0"]);
    let server = Server::spawn(command).await;
    assert_eq!(server.client.get("/api/v1/pop/queue/q").await.status, 401);
    assert_eq!(server.client.get("/healthz").await.status, 200);
    let keyed = server.greeting.iter().filter(|line| line.contains("$WAKELINE_API_KEY")).count();
    assert_eq!(keyed, 3);
}

#[tokio::test]
async fn a_store_that_cannot_be_opened_is_named() {
    let store = Store::sqlite();
    for (url, named) in [
        ("sqlite:/nonexistent/folder/w.db".to_owned(), "/nonexistent/folder/w.db"),
        ("postgres://user@127.0.0.1:1/none".to_owned(), "PostgreSQL"),
    ] {
        let mut command = wakeline();
        command.args(["serve", "--store", &url, "--store-wait-ms", "0"]);
        let output = output_of(command).await;
        assert_eq!(output.status.code(), Some(1), "{url}");
        let error = String::from_utf8(output.stderr).expect("UTF-8");
        assert!(error.contains(named), "{error}");
    }
    let first = Server::start(&store, &[]).await;
    let address = first.client.address.to_string();
    let second = wakeline().args(["serve", "--store", &store.url(), "--listen", &address]).output();
    let second = second.await.expect("runs");
    assert_eq!(second.status.code(), Some(1));
    assert!(String::from_utf8(second.stderr).expect("UTF-8").contains(&address));
}

#[tokio::test]
async fn settings_that_cannot_work_are_named_and_exit_2() {
    let postgres = Store::postgres().await.url();
    for (flags, named) in [
        (&["--listen", "localhost:7632"][..], "127.0.0.1:7632"),
        (&["--store", "redis://x"], "sqlite:wakeline.db"),
        (&["--store", &postgres, "--pg-pool-max", "1"], "pg_pool_max"),
        (&["--store", &postgres, "--schema", "a b"], "schema"),
        (&["--config", "/nonexistent.toml"], "/nonexistent.toml"),
    ] {
        let output = wakeline().arg("serve").args(flags).output().await.expect("runs");
        let error = String::from_utf8(output.stderr).expect("UTF-8");
        assert_eq!(output.status.code(), Some(2), "{error}");
        assert!(error.contains(named), "{named}: {error}");
        assert!(!error.contains('\u{1b}'), "no colours for a pipe: {error}");
    }
}

#[tokio::test]
async fn misspelled_variables_are_named_and_exit_2() {
    for (name, value, named) in [
        ("WAKELINE_LISTNE", "127.0.0.1:1", "did you mean WAKELINE_LISTEN?"),
        ("WAKELINE_LOG", "loud", "error, warn, info"),
    ] {
        let store = Store::sqlite();
        let mut command = wakeline();
        command.args(["serve", "--listen", "127.0.0.1:0", "--store", &store.url()]);
        let output = output_of(command.env(name, value)).await;
        let error = String::from_utf8(output.stderr).expect("UTF-8");
        assert_eq!(output.status.code(), Some(2), "{error}");
        assert!(error.contains(name) && error.contains(named), "{error}");
    }
}

#[tokio::test]
async fn sigterm_answers_parked_pops_and_exits_cleanly() {
    for store in Store::both().await {
        let server = Server::start(&store, &[]).await;
        let parked = server.client.park("/api/v1/pop/queue/q?wait=true").await;
        server.parked(1).await;
        server.client.push("other", &[("p", "kept")]).await;
        let stopping = server.terminate();
        let (code, answer) = tokio::join!(stopping, parked.answer());
        let answer = answer.expect("an answer");
        assert_eq!(answer.status, 204, "{answer:?}");
        assert!(answer.head.to_lowercase().contains("connection: close"), "{answer:?}");
        assert_eq!(code, Some(0));
        let again = Server::start(&store, &[]).await;
        let kept = again.client.get("/api/v1/pop/queue/other").await;
        assert_eq!(kept.ids(), ["kept"]);
    }
}

#[tokio::test]
async fn a_signal_right_after_the_greeting_drains() {
    for store in Store::both().await {
        for _ in 0..5 {
            let server = Server::start(&store, &[]).await;
            assert_eq!(server.terminate().await, Some(0), "{}", store.name());
        }
    }
}

#[tokio::test]
async fn migrations_are_listed_and_applied() {
    let empty = Store::Postgres(wakeline_testkit::database::TestDatabase::empty().await);
    for store in [Store::sqlite(), empty] {
        let migrate = |verb: &'static str| {
            let url = store.url();
            async move {
                let output = wakeline().args(["migrate", verb, "--store", &url]).output().await;
                let output = output.expect("runs");
                (output.status.code(), String::from_utf8(output.stdout).expect("UTF-8"))
            }
        };
        let (code, text) = migrate("status").await;
        assert_eq!(code, Some(1), "{text}");
        assert!(text.contains("pending"), "{text}");
        let (code, text) = migrate("up").await;
        assert_eq!(code, Some(0), "{text}");
        let (code, text) = migrate("status").await;
        assert_eq!(code, Some(0), "{text}");
        assert!(text.contains("up to date"), "{text}");
        assert!(!text.lines().any(|line| line.starts_with("pending")), "{text}");
    }
}

#[tokio::test]
async fn help_names_every_setting_and_openapi_is_json() {
    let help = wakeline().args(["serve", "--help"]).output().await.expect("runs");
    let help = String::from_utf8(help.stdout).expect("UTF-8");
    for flag in [
        "--store",
        "--schema",
        "--listen",
        "--wake-mode",
        "--notify",
        "--listen-url",
        "--fallback-poll-interval-ms",
        "--aggressive-on",
        "--waiters-max",
        "--config",
    ] {
        assert!(help.contains(flag), "{flag}");
    }
    let about = wakeline().arg("--help").output().await.expect("runs");
    let about = String::from_utf8(about.stdout).expect("UTF-8");
    assert!(about.starts_with("Durable queues"), "{about}");
    let document = wakeline().arg("openapi").output().await.expect("runs");
    let document: serde_json::Value = serde_json::from_slice(&document.stdout).expect("JSON");
    assert!(document["paths"]["/api/v1/push"].is_object());
}
