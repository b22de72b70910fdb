//! `wakeline bench wake`: measures on the store's database or disk, and leaves nothing there.

use serde_json::Value;

use crate::support::{Server, Store, output_of, wakeline};

async fn run(url: &str, arguments: &[&str]) -> (Option<i32>, String, String) {
    let mut command = wakeline();
    command.env("WAKELINE_STORE", url).args(["bench", "wake"]).args(arguments);
    let output = output_of(command).await;
    let text = |bytes| String::from_utf8(bytes).expect("UTF-8");
    (output.status.code(), text(output.stdout), text(output.stderr))
}

/// What lies in the folder of a file, or which schemas a database has.
async fn places(store: &Store) -> Vec<String> {
    let mut names: Vec<String> = match store {
        Store::Sqlite(folder) => {
            let entries = std::fs::read_dir(folder.path()).expect("a folder");
            let name = |entry: std::io::Result<std::fs::DirEntry>| entry.expect("read").file_name();
            entries.map(|entry| name(entry).to_string_lossy().into_owned()).collect()
        }
        Store::Postgres(database) => {
            let schemas = "SELECT nspname::text FROM pg_namespace WHERE nspname NOT LIKE 'pg_%'";
            let client = database.client().await;
            let rows = client.query(schemas, &[]).await.expect("read");
            rows.iter().map(|row| row.get(0)).collect()
        }
    };
    names.sort();
    names
}

#[tokio::test]
async fn every_mode_is_measured_and_nothing_is_left_behind() {
    for store in Store::both().await {
        let server = Server::start(&store, &[]).await;
        server.client.push("bench", &[("p", "mine")]).await;
        let before = places(&store).await;
        let short = ["--clients", "5", "--pushes", "3", "--idle-seconds", "0.3", "--json"];
        let (code, text, error) = run(&store.url(), &short).await;
        assert_eq!(code, Some(0), "{}: {error}", store.name());
        let all: Vec<Value> =
            text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
        let modes: Vec<_> = all.iter().map(|one| one["mode"].as_str().expect("a name")).collect();
        assert_eq!(modes, ["fused", "compete", "broadcast", "poll"]);
        for one in &all {
            assert_eq!((&one["clients"], &one["pushes"]), (&5.into(), &3.into()), "{one}");
            assert!(one["claims"].as_u64() >= Some(3), "{one}");
            // A node whose claims are slow, because the machine is busy, polls for a while.
            if one["degraded"].is_null() {
                assert_eq!(one["idleClaims"] == 0, one["mode"] != "poll", "{one}");
            }
        }
        assert_eq!(places(&store).await, before, "{}", store.name());
        let mine = server.client.get("/api/v1/pop/queue/bench").await;
        assert_eq!(mine.ids(), ["mine"], "a queue of the same name was left alone");
    }
}

#[tokio::test]
async fn one_mode_is_shown_as_a_table() {
    let store = Store::sqlite();
    let short = ["--mode", "fused", "--clients", "2", "--pushes", "2", "--idle-seconds", "0"];
    let (code, text, error) = run(&store.url(), &short).await;
    assert_eq!(code, Some(0), "{error}");
    let lines: Vec<_> = text.lines().collect();
    assert_eq!(lines.len(), 2, "{text}");
    assert!(lines[0].starts_with("MODE ") && lines[0].contains("CLAIMS/PUSH"), "{text}");
    assert!(lines[1].starts_with("fused ") && lines[1].ends_with("ms"), "{text}");
    assert_eq!(places(&store).await, Vec::<String>::new());
}

#[tokio::test]
async fn what_cannot_be_measured_is_an_error_that_says_why() {
    let missing = "sqlite:/nowhere/at/all.db";
    let unreachable = "postgres://nobody@127.0.0.1:1/none";
    let there = Store::sqlite();
    for (url, arguments, code, named) in [
        (missing, &[][..], 1, "/nowhere/at"),
        (unreachable, &[], 1, "cannot be reached"),
        (&there.url(), &["--mode", "quick"], 2, "fused, compete, broadcast or poll"),
        (&there.url(), &["--clients", "0"], 2, "--clients"),
        (&there.url(), &["--idle-seconds", "-1"], 2, "from 0 to 3600, not -1"),
        (&there.url(), &["--idle-seconds=1e9"], 2, "from 0 to 3600"),
    ] {
        let (ended, text, error) = run(url, arguments).await;
        assert_eq!(ended, Some(code), "{arguments:?}: {error}");
        assert!(error.contains(named) && text.is_empty(), "{arguments:?}: {error}");
    }
    assert_eq!(places(&there).await, Vec::<String>::new());
}
