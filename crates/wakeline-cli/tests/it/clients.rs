//! Published clients of other projects work unchanged.

mod verify;

use std::path::PathBuf;

use tokio::process::Command;

use crate::support::{Server, Store, wakeline};

const API_KEY: &str = "a-key-that-only-the-tests-know";

/// Returns a path that `cargo xtask test` sets for a client that it installed.
fn installed(variable: &str) -> PathBuf {
    let there = std::env::var_os(variable);
    there.expect("run `cargo xtask test`, which installs the clients").into()
}

fn script(name: &str) -> PathBuf {
    [env!("CARGO_MANIFEST_DIR"), "tests", "clients", name].iter().collect()
}

/// Runs the program of a client to its end and prints its output.
async fn run(mut program: Command, what: String) {
    let output = program.kill_on_drop(true).output().await.expect("the client runs");
    let (out, err) = (output.stdout, output.stderr);
    let (out, err) = (String::from_utf8_lossy(&out), String::from_utf8_lossy(&err));
    assert!(output.status.success(), "{what}: {out}\n{err}");
    assert!(out.contains("checks hold"), "{what}: {out}");
    eprintln!("{what}:\n{out}");
}

#[tokio::test]
async fn published_queen_clients_work_unchanged() {
    drive_with_queen("queen_client.py").await;
}

#[tokio::test]
async fn every_feature_of_the_published_queen_clients_works() {
    drive_with_queen("queen_features.py").await;
}

/// Runs a script with both major versions of the client against both stores.
async fn drive_with_queen(name: &str) {
    let interpreters = installed("WAKELINE_TEST_QUEEN");
    for store in Store::both().await {
        let server = serve(&store, None).await;
        for python in interpreters.to_str().expect("UTF-8").split(':') {
            let mut client = Command::new(python);
            client.arg(script(name)).arg(format!("http://{}", server.client.address));
            client.env("PYTHONDONTWRITEBYTECODE", "1");
            run(client, format!("{python} on {}", store.name())).await;
        }
    }
}

#[tokio::test]
async fn sql_functions_work_from_another_driver_and_from_psql() {
    let store = Store::postgres().await;
    let _server = Server::start(&store, &[]).await;
    let mut driver = Command::new(installed("WAKELINE_TEST_SVIX_PYTHON"));
    driver.arg(script("sql_client.py")).arg(store.url()).env("PYTHONDONTWRITEBYTECODE", "1");
    run(driver, "pg8000".to_owned()).await;

    let mut psql = Command::new(installed("WAKELINE_TEST_PSQL"));
    psql.args(["-X", "-A", "-t", "-q", "-v", "ON_ERROR_STOP=1", "-d", &store.url()]);
    psql.args(["-c", "SELECT wakeline.push('ps', '{\"id\": 7}', p_transaction_id => 'seven')"]);
    let taken_over = "DO $$ BEGIN
        WHILE NOT EXISTS (SELECT FROM wakeline.messages WHERE queue = 'ps') LOOP
            PERFORM pg_sleep(0.05);
        END LOOP;
    END $$";
    psql.args(["-c", "SET statement_timeout = '30s'", "-c", taken_over]);
    psql.args(["-c", "CREATE TEMPORARY TABLE taken AS SELECT * FROM wakeline.pop('ps')"]);
    psql.args(["-c", "SELECT wakeline.ack(partition_id, transaction_id, lease_token) FROM taken"]);
    let held = "SELECT 'checks hold' FROM wakeline.consumer_groups g, taken t
        WHERE g.queue = 'ps' AND g.lag = 0 AND t.transaction_id = 'seven'";
    psql.args(["-c", held]);
    run(psql, "psql".to_owned()).await;
}

/// Starts a server that may call receivers on this machine.
pub(crate) async fn serve(store: &Store, api_key: Option<&str>) -> Server {
    let key = wakeline().arg("encryption-key").output().await.expect("runs").stdout;
    let key = String::from_utf8(key).expect("UTF-8");
    let mut command = wakeline();
    command.env("WAKELINE_ENCRYPTION_KEYS", key.trim());
    command.envs(api_key.map(|key| ("WAKELINE_API_KEY", key)));
    command.args(["serve", "--listen", "127.0.0.1:0", "--hook-allow", "127.0.0.0/8"]);
    command.args(["--store", &store.url()]);
    Server::spawn(command).await
}

/// Runs the SDK for Python and the one for Node at the same time against one server.
async fn drive_with_svix(store: &Store) {
    let server = serve(store, Some(API_KEY)).await;
    let url = format!("http://{}", server.client.address);

    let mut python = Command::new(installed("WAKELINE_TEST_SVIX_PYTHON"));
    python.arg(script("svix_client.py")).args([&url, API_KEY]).env("PYTHONDONTWRITEBYTECODE", "1");
    let mut node = Command::new("node");
    node.arg(script("svix_client.cjs")).args([&url, API_KEY]);
    node.env("NODE_PATH", installed("WAKELINE_TEST_SVIX_NODE"));
    tokio::join!(
        run(python, format!("Python on {}", store.name())),
        run(node, format!("Node on {}", store.name())),
    );
    assert_eq!(server.terminate().await, Some(0), "{}", store.name());
}

#[tokio::test]
async fn published_svix_sdks_work_unchanged_on_sqlite() {
    drive_with_svix(&Store::sqlite()).await;
}

#[tokio::test]
async fn published_svix_sdks_work_unchanged_on_postgres() {
    drive_with_svix(&Store::postgres().await).await;
}
