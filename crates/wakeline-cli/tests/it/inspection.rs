//! Commands that inspect a store do not create one, and name what they did not find.

use wakeline_testkit::database::TestDatabase;

use crate::support::{Server, Store, output_of, wakeline};

async fn run(store: &Store, arguments: &[&str]) -> (Option<i32>, String, String) {
    let mut command = wakeline();
    command.env("WAKELINE_STORE", store.url()).args(arguments);
    let output = output_of(command).await;
    let text = |bytes| String::from_utf8(bytes).expect("UTF-8");
    (output.status.code(), text(output.stdout), text(output.stderr))
}

#[tokio::test]
async fn commands_that_inspect_a_store_do_not_create_one() {
    let empty = Store::Postgres(TestDatabase::empty().await);
    for store in [Store::sqlite(), empty] {
        for arguments in [
            &["queues"][..],
            &["dlq", "list"],
            &["dlq", "redrive", "--all"],
            &["audit"],
            &["key", "list"],
            &["key", "revoke", "k"],
            &["maintenance", "on"],
            &["maintenance", "status"],
            &["rekey"],
        ] {
            let (code, _, error) = run(&store, arguments).await;
            assert_eq!(code, Some(1), "{arguments:?}: {error}");
            let named = match &store {
                Store::Sqlite(folder) => folder.path().join("w.db").display().to_string(),
                Store::Postgres(_) => "\"wakeline\"".to_owned(),
            };
            assert!(error.contains(&named) && error.contains("migrate up"), "{error}");
        }
        match &store {
            Store::Sqlite(folder) => {
                let files = std::fs::read_dir(folder.path()).expect("a folder").count();
                assert_eq!(files, 0, "nothing was created");
            }
            Store::Postgres(_) => {
                let (code, text, _) = run(&store, &["migrate", "status"]).await;
                assert_eq!(code, Some(1), "nothing was created: {text}");
                assert!(!text.contains("applied"), "{text}");
            }
        }
        let create = ["key", "create", "--name", "first", "--scope", "*:*:*"];
        assert_eq!(
            run(&store, &create).await.0,
            Some(0),
            "the first key can be created before a server runs"
        );
    }
}

#[tokio::test]
async fn a_missing_target_is_an_error_and_not_in_the_audit() {
    for store in Store::both().await {
        let server = Server::start(&store, &[]).await;
        server.client.push("q", &[("p", "a")]).await;
        assert_eq!(run(&store, &["queues", "q"]).await.0, Some(0));
        for (arguments, named) in [
            (&["queues", "nosuch"][..], "nosuch"),
            (&["dlq", "redrive", "99999"], "99999"),
            (&["dlq", "purge", "99999"], "99999"),
            (&["dlq", "show", "99999"], "99999"),
            (&["key", "rotate", "nosuch"], "wakeline key list"),
        ] {
            let (code, text, error) = run(&store, arguments).await;
            assert_eq!(code, Some(1), "{arguments:?}: {text}");
            assert!(error.contains(named) && text.is_empty(), "{text}{error}");
        }
        let (_, audit, _) = run(&store, &["audit", "--actor", "cli"]).await;
        assert_eq!(audit, "", "{}: no change was recorded", store.name());
    }
}

#[tokio::test]
async fn keys_are_rotated_and_revoked_by_name_or_id() {
    for store in Store::both().await {
        let create = ["key", "create", "--name", "checkout", "--scope", "queue:push:*"];
        let (_, made, _) = run(&store, &create).await;
        let id = made.lines().find_map(|line| line.strip_prefix("id")).expect("an id").trim();
        let (code, rotated, error) = run(&store, &["key", "rotate", "checkout"]).await;
        assert_eq!(code, Some(0), "{error}");
        assert!(rotated.contains(id), "{rotated}");
        assert_eq!(run(&store, &["key", "rotate", id]).await.0, Some(0));
        let (code, revoked, error) = run(&store, &["key", "revoke", "checkout"]).await;
        assert_eq!((code, revoked.trim()), (Some(0), format!("revoked {id}").as_str()), "{error}");
        let (code, _, error) = run(&store, &["key", "rotate", id]).await;
        assert_eq!(code, Some(1));
        assert!(error.contains("revoked"), "{error}");
    }
}

#[tokio::test]
async fn a_queue_is_configured_option_by_option() {
    for store in Store::both().await {
        let server = Server::start(&store, &[]).await;
        let configure = async |arguments: &[&str]| {
            run(&store, &[&["queues", "configure", "q"], arguments].concat()).await
        };
        let (code, _, error) = configure(&["--unordered"]).await;
        assert_eq!(code, Some(1), "{error}");
        assert!(error.contains("there is no queue q") && error.contains("--create"), "{error}");
        let (code, text, error) = configure(&["--create", "--set", "leaseTime=60"]).await;
        assert_eq!((code, error.as_str()), (Some(0), ""), "{text}");
        let (code, text, _) = configure(&["--unordered", "--set", "ordering=relaxed"]).await;
        assert_eq!(code, Some(0));
        for option in ["lanes=16", "unordered=true", "leaseTime=60", "ordering=\"relaxed\""] {
            assert!(text.lines().any(|line| line == option), "{option} in {text}");
        }
        for (arguments, named) in [
            (&["--set", "leasetime=1"][..], "did you mean leaseTime?"),
            (&["--set", "colour=1"], "the options are "),
            (&["--set", "leaseTime=0"], "leaseTime must be from 1"),
            (&["--set", "leaseTime=x"], "leaseTime"),
            (&["--set", "leaseTime"], "leaseTime=60"),
            (&["--unordered", "--set", "lanes=0"], "lanes"),
            (&[], "at least one option"),
        ] {
            let (code, text, error) = configure(arguments).await;
            assert_eq!((code, text.as_str()), (Some(2), ""), "{arguments:?}");
            assert!(error.contains(named), "{arguments:?}: {error}");
        }
        let (_, audit, _) = run(&store, &["audit", "--actor", "cli"]).await;
        assert_eq!(audit.matches("queue.configure").count(), 2, "{audit}");
        drop(server);
    }
}
