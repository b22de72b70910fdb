//! The example `order`, served by one process and used by others: activities, timers, a child and
//! an event from outside.

use std::path::PathBuf;
use std::process::Stdio;
use std::sync::Arc;
use std::time::{Duration, Instant};

use duroxide::Client;
use duroxide::providers::Provider;
use tokio::io::{AsyncBufReadExt as _, BufReader, Lines};
use tokio::process::{Child, ChildStdout, Command};

use crate::stores::TestStore;

/// Half of the shortest time after which a sweep of the example would find work without a hint.
const SOON: Duration = Duration::from_secs(30);

/// Bounds of the time from the answer to a commit to the resulting turn in another process: for the
/// best round, which shows the mechanism, and for the median on a busy machine.
const BEST_MAX: Duration = Duration::from_millis(50);
const MEDIAN_MAX: Duration = Duration::from_secs(1);
const ROUNDS: usize = 12;
/// The number of rounds while none was within the bound.
const ROUNDS_MAX: usize = 40;

/// Creates the command that runs the example.
fn order(words: &[&str], url: &str) -> Command {
    let own = std::env::current_exe().expect("a path");
    let built = own.ancestors().nth(2).expect("the folder of the build");
    let path: PathBuf = built.join("examples").join("order");
    assert!(path.exists(), "build the examples first: {}", path.display());
    let mut command = Command::new(path);
    command.args(words).args(["--store", url]).stdin(Stdio::null()).kill_on_drop(true);
    command
}

/// Returns the output of a command that must succeed.
async fn output_of(mut command: Command) -> String {
    let output = tokio::time::timeout(2 * SOON, command.output()).await.expect("it ends");
    let output = output.expect("it runs");
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{error}");
    String::from_utf8(output.stdout).expect("text")
}

/// A process that runs orders, and its output.
struct Serving {
    process: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Serving {
    async fn start(url: &str) -> Self {
        let mut process = order(&["serve"], url).stdout(Stdio::piped()).spawn().expect("it runs");
        let lines = BufReader::new(process.stdout.take().expect("piped")).lines();
        let mut serving = Self { process, lines };
        assert_eq!(serving.rest_of("serving").await, "");
        serving
    }

    /// Returns the rest of the next line that begins with a text. Lines in between are logs of
    /// duroxide.
    async fn rest_of(&mut self, begin: &str) -> String {
        loop {
            let line = tokio::time::timeout(2 * SOON, self.lines.next_line()).await;
            let line = line.expect("it prints").expect("it can be read").expect("it goes on");
            if let Some(rest) = line.strip_prefix(begin) {
                return rest.to_owned();
            }
        }
    }
}

/// Places an order in a separate process, and waits until the order waits for a person.
async fn place<S: TestStore>(store: &S, id: &str) {
    output_of(order(&["place", id], &store.url())).await;
    let provider: Arc<dyn Provider> = Arc::new(store.provider().clone());
    let client = Client::new(provider);
    let status = client.wait_for_status_change(id, 0, Duration::from_millis(20), SOON).await;
    status.expect("it waits for a person");
}

pub(crate) async fn an_order_passes_from_process_to_process<S: TestStore>() {
    let store = S::open(true).await;
    let url = store.url();
    let mut serving = Serving::start(&url).await;
    let started = Instant::now();
    place(&store, "order-7").await;
    output_of(order(&["approve", "order-7"], &url)).await;
    let printed = output_of(order(&["wait", "order-7"], &url)).await;
    assert!(printed.starts_with("15 charged to order-7, approved by Ann;"), "{printed}");
    assert!(printed.trim_end().ends_with("parcel with 2 items"), "{printed}");
    assert!(started.elapsed() < SOON, "by hints, not by sweeps: {:?}", started.elapsed());
    serving.process.kill().await.expect("it can be ended");
    store.close().await;
}

fn micros(text: &str) -> Duration {
    Duration::from_micros(text.trim().parse().expect("microseconds"))
}

/// Each approval is committed by a separate process.
pub(crate) async fn processes_wake_each_other_within_milliseconds<S: TestStore>() {
    let store = S::open(true).await;
    let url = store.url();
    let mut serving = Serving::start(&url).await;
    let mut woken_after = Vec::new();
    for round in 0..ROUNDS_MAX {
        if round >= ROUNDS && woken_after.iter().any(|after| *after < BEST_MAX) {
            break;
        }
        let id = format!("order-{round}");
        place(&store, &id).await;
        let printed = output_of(order(&["approve", &id], &url)).await;
        let committed = printed.lines().find_map(|line| line.split_once(" was approved at "));
        let committed = micros(committed.expect("as the example says").1);
        let woken = micros(&serving.rest_of(&format!("{id} continues at ")).await);
        // The order often continues before the approving process has its answer.
        woken_after.push(woken.saturating_sub(committed));
    }
    woken_after.sort_unstable();
    eprintln!("from a commit to the turn of another process: {woken_after:?}");
    assert!(woken_after[0] < BEST_MAX, "{woken_after:?}");
    assert!(woken_after[woken_after.len() / 2] < MEDIAN_MAX, "{woken_after:?}");
    serving.process.kill().await.expect("it can be ended");
    store.close().await;
}

#[tokio::test]
async fn an_order_is_placed_and_approved_by_other_processes_on_postgresql() {
    an_order_passes_from_process_to_process::<crate::postgres::Database>().await;
}

#[tokio::test]
async fn an_order_is_placed_and_approved_by_other_processes_on_sqlite() {
    an_order_passes_from_process_to_process::<crate::sqlite::File>().await;
}

#[tokio::test]
async fn processes_wake_each_other_within_milliseconds_on_postgresql() {
    processes_wake_each_other_within_milliseconds::<crate::postgres::Database>().await;
}

#[tokio::test]
async fn processes_wake_each_other_within_milliseconds_on_sqlite() {
    processes_wake_each_other_within_milliseconds::<crate::sqlite::File>().await;
}
