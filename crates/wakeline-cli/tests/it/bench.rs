//! `wakeline bench wake` measures on the database or disk of the store, and leaves nothing behind.

use serde_json::Value;

use crate::support::{Server, Store, output_of, wakeline};

const IDLE: &str = "idlePerSecond";
const CLAIMS: &str = "claimsPerPush";

async fn run(url: &str, arguments: &[&str]) -> (Option<i32>, String, String) {
    let mut command = wakeline();
    command.env("WAKELINE_STORE", url).args(["bench", "wake"]).args(arguments);
    let output = output_of(command).await;
    let text = |bytes| String::from_utf8(bytes).expect("UTF-8");
    (output.status.code(), text(output.stdout), text(output.stderr))
}

/// Returns the files in the folder of a SQLite store, or the schemas of a PostgreSQL database.
async fn contents(store: &Store) -> Vec<String> {
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
async fn every_way_is_measured_beside_its_prediction_and_nothing_is_left_behind() {
    for store in Store::both().await {
        if let Store::Postgres(database) = &store {
            let extension = "CREATE EXTENSION pg_stat_statements";
            database.superuser().await.batch_execute(extension).await.expect("made");
        }
        let server = Server::start(&store, &[]).await;
        server.client.push("turns", &[("p", "mine")]).await;
        let before = contents(&store).await;
        let short = ["--nodes=2", "--dispatchers=2", "--pushes=2", "--idle-seconds=0.3"];
        let (code, text, error) = run(&store.url(), &[&short[..], &["--json"]].concat()).await;
        assert_eq!(code, Some(0), "{}: {error}", store.name());
        let all: Vec<Value> =
            text.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
        let modes: Vec<_> = all.iter().map(|one| one["mode"].as_str().expect("a name")).collect();
        let each = [("poll", 6), ("broadcast", 1), ("compete", 2), ("fused", 1)];
        assert_eq!(modes, each.map(|(mode, rows)| vec![mode; rows]).concat());
        for one in &all {
            let polls = one["mode"] == "poll";
            assert_eq!(one["pushes"], if polls { 1 } else { 2 }, "{one}");
            assert_eq!(one[CLAIMS]["predicted"].is_null(), polls, "{one}");
            assert!(one[CLAIMS]["measured"].as_f64() >= Some(1.0), "{one}");
            assert!(one["idleProcessorMillisPerNodeAndSecond"].as_f64() > Some(0.0), "{one}");
            let counts = matches!(store, Store::Postgres(_));
            assert_eq!(one[IDLE]["statements"].is_null(), !counts, "{one}");
            // Ways that poll claim at regular intervals, not for a message.
            let claims_regularly = polls || one["way"] == "compete, aggressive";
            assert_eq!(one["statementsPerPush"].is_null(), !counts || claims_regularly, "{one}");
            // There are at least two statements: the push and a claim.
            let least = one["statementsPerPush"].as_f64().unwrap_or(2.0);
            assert!(least >= 2.0, "{one}");
            // A node whose claims are slow on a busy machine polls for a while.
            let waits = !polls && one["way"] != "compete, aggressive";
            if waits && one["degraded"].is_null() {
                assert_eq!(one[IDLE]["measured"], 0.0, "{one}");
            }
        }
        let predicted = |row: usize, what: &str| all[row][what]["predicted"].as_f64();
        // On both nodes, two dispatchers claim from two queues every 50 ms.
        assert_eq!(predicted(0, IDLE), Some(160.0));
        assert_eq!((predicted(6, CLAIMS), predicted(9, CLAIMS)), (Some(4.0), Some(2.0)));
        assert!(all[0][IDLE]["measured"].as_f64() > Some(0.0), "{}", all[0]);
        if let Store::Postgres(_) = &store {
            assert!(all[0][IDLE]["statements"].as_f64() > Some(0.0), "{}", all[0]);
        }
        assert_eq!(contents(&store).await, before, "{}", store.name());
        let mine = server.client.get("/api/v1/pop/queue/turns").await;
        assert_eq!(mine.ids(), ["mine"], "a queue of the same name was not changed");
    }
}

#[tokio::test]
async fn the_ways_of_one_mode_are_shown_as_a_table() {
    let store = Store::sqlite();
    let short = ["--mode=compete", "--nodes=1,2", "--dispatchers=2", "--pushes=2"];
    let (code, text, error) =
        run(&store.url(), &[&short[..], &["--idle-seconds=0"]].concat()).await;
    assert_eq!(code, Some(0), "{error}");
    let lines: Vec<_> = text.lines().collect();
    assert_eq!(lines.len(), 5, "{text}");
    assert!(lines[0].starts_with("WAY OF WAITING "), "{text}");
    assert!(lines[1].starts_with("compete, aggressive ") && lines[1].contains(" 1 x 2 "), "{text}");
    assert!(lines[4].starts_with("compete  ") && lines[4].contains(" 2 x 2 "), "{text}");
    // The columns are aligned: the last one, which is text, begins where its title does.
    let column = lines[0].rfind("PREDICTED").expect("a title");
    assert!(lines[1..].iter().all(|line| line[column..].starts_with("below 5 ms")), "{text}");
    assert_eq!(contents(&store).await, Vec::<String>::new());
}

#[tokio::test]
async fn what_cannot_be_measured_is_an_error_that_says_why() {
    let missing = "sqlite:/nowhere/at/all.db";
    let unreachable = "postgres://user@127.0.0.1:1/none";
    let there = Store::sqlite();
    for (url, arguments, code, named) in [
        (missing, &[][..], 1, "/nowhere/at"),
        (unreachable, &[], 1, "cannot be reached"),
        (&there.url(), &["--mode", "quick"], 2, "fused, compete, broadcast or poll"),
        (&there.url(), &["--nodes", "1,0"], 2, "--nodes"),
        (&there.url(), &["--idle-seconds", "-1"], 2, "from 0 to 3600, not -1"),
        (&there.url(), &["--idle-seconds=1e9"], 2, "from 0 to 3600"),
    ] {
        let (ended, text, error) = run(url, arguments).await;
        assert_eq!(ended, Some(code), "{arguments:?}: {error}");
        assert!(error.contains(named) && text.is_empty(), "{arguments:?}: {error}");
    }
    assert_eq!(contents(&there).await, Vec::<String>::new());
}
