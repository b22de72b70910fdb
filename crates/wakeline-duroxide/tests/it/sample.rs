//! The example `order`, served by one process and used by others: activities, timers, a child and
//! an event from outside.

use std::path::PathBuf;
use std::process::Stdio;
use std::sync::Arc;
use std::time::{Duration, Instant};

use duroxide::Client;
use duroxide::providers::Provider;
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::Command;

use crate::bed::Site;

/// Half of the shortest time after which a sweep of the example would find what no hint told.
const SOON: Duration = Duration::from_secs(30);

/// The example, told what to do.
fn order(words: &[&str], url: &str) -> Command {
    let own = std::env::current_exe().expect("a path");
    let built = own.ancestors().nth(2).expect("the folder of the build");
    let path: PathBuf = built.join("examples").join("order");
    assert!(path.exists(), "build the examples first: {}", path.display());
    let mut command = Command::new(path);
    command.args(words).args(["--store", url]).stdin(Stdio::null()).kill_on_drop(true);
    command
}

/// What it prints before it ends well.
async fn output_of(mut command: Command) -> String {
    let output = tokio::time::timeout(2 * SOON, command.output()).await.expect("it ends");
    let output = output.expect("it runs");
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{error}");
    String::from_utf8(output.stdout).expect("text")
}

pub(crate) async fn an_order_passes_from_process_to_process<S: Site>() {
    let site = S::open(true).await;
    let url = site.url();
    let mut serving = order(&["serve"], &url).stdout(Stdio::piped()).spawn().expect("it runs");
    let mut lines = BufReader::new(serving.stdout.take().expect("piped")).lines();
    assert_eq!(lines.next_line().await.expect("read").as_deref(), Some("serving"));

    let started = Instant::now();
    output_of(order(&["place", "order-7"], &url)).await;
    let provider: Arc<dyn Provider> = Arc::new(site.provider().clone());
    let client = Client::new(provider);
    let status = client.wait_for_status_change("order-7", 0, Duration::from_millis(20), SOON).await;
    status.expect("it waits for a person");
    output_of(order(&["approve", "order-7"], &url)).await;
    let printed = output_of(order(&["wait", "order-7"], &url)).await;
    assert!(printed.starts_with("15 charged to order-7, approved by Ann;"), "{printed}");
    assert!(printed.trim_end().ends_with("parcel with 2 items"), "{printed}");
    assert!(started.elapsed() < SOON, "by hints, not by sweeps: {:?}", started.elapsed());
    serving.kill().await.expect("it can be ended");
    site.close().await;
}

#[tokio::test]
async fn an_order_is_placed_and_approved_by_other_processes_on_postgresql() {
    an_order_passes_from_process_to_process::<crate::postgres::Database>().await;
}

#[tokio::test]
async fn an_order_is_placed_and_approved_by_other_processes_on_sqlite() {
    an_order_passes_from_process_to_process::<crate::sqlite::File>().await;
}
