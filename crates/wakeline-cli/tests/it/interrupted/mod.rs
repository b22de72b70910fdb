//! Interrupts every write of every API everywhere: at each statement that reaches PostgreSQL and at
//! each call of the SQLite store, before it and after it, with an unavailable database for the rest
//! of the request. An answer that says that nothing was done must be true, and so must one that
//! says that the write was done; only `outcome_unknown` leaves it open.

mod digest;
mod requests;
mod world;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use tokio::task::JoinSet;
use wakeline_access::AccessOptions;
use wakeline_postgres::{PostgresOptions, PostgresStore};
use wakeline_store::Backend;
use wakeline_testkit::database::TestDatabase;
use wakeline_testkit::faults::{Fault, FaultingStore};

use crate::support::{Answer, Client, Node, StatementProxy, Store, When, eventually, long};
use digest::{Digest, INTERRUPTED, PostgresReader, changed};
use world::{ROOT, Request, World, call};

/// More statements or calls of the store than any request makes.
const INTERRUPTIONS_MAX: u64 = 40;
/// Number of nodes that are tested at the same time: most of the time, a node waits until it
/// notices that its database is available again.
const LANES: usize = 12;

/// GET routes that write: they lease messages, or settle them at once.
const WRITING_READS: [&str; 2] =
    ["GET /api/v1/pop/queue/{queue}", "GET /api/v1/app/{app_id}/endpoint/{endpoint_id}/pull"];

/// POST routes that write nothing here. Only orchestrations that have run have anything to prune or
/// purge.
const UNCHANGING: [&str; 5] = [
    "POST /api/v1/app/{app_id}/endpoint/{endpoint_id}/ping",
    "POST /api/v1/app/{app_id}/msg/precheck/active",
    "POST /api/v1/orchestrations/prune",
    "POST /api/v1/orchestrations/purge",
    "POST /api/v1/stats/refresh",
];

/// Routes that only mark rows, and leave the rest to housekeeping.
const FINISHED_LATER: [&str; 1] = ["DELETE /api/v1/resources/queues/{queue}"];

/// Returns every route of the OpenAPI document that writes, and whether it takes an idempotency
/// key.
fn routes() -> Vec<(String, bool)> {
    let document: Value = serde_json::from_str(wakeline_http::openapi()).expect("JSON");
    let mut routes: Vec<_> = WRITING_READS.map(|route| (route.to_owned(), false)).into();
    for (path, methods) in document["paths"].as_object().expect("paths") {
        for (method, operation) in methods.as_object().expect("methods") {
            let parameters = operation["parameters"].as_array();
            let keyed = parameters.into_iter().flatten().any(|p| p["name"] == "idempotency-key");
            if method != "get" {
                routes.push((format!("{} {path}", method.to_uppercase()), keyed));
            }
        }
    }
    // A maintenance changes the results of all other routes, so that it comes last.
    routes.sort_by_key(|(route, _)| route.contains("/system/maintenance"));
    routes
}

/// Makes a database unavailable, and reads its contents.
enum Outages {
    Statements { proxy: StatementProxy, reader: Box<PostgresReader>, store: Arc<dyn Backend> },
    Calls { store: Arc<FaultingStore>, file: PathBuf },
}

impl Outages {
    /// The moments at which the database can become unavailable.
    fn kinds(&self) -> &'static [When] {
        match self {
            Self::Statements { .. } => &[When::Unanswered, When::Before, When::Answered],
            Self::Calls { .. } => &[When::Unanswered, When::Answered],
        }
    }
}

/// A node whose database can be made unavailable, and a healthy node on the same database.
struct Harness {
    outages: Outages,
    node: Node,
    healthy: Node,
    worlds: u32,
    _store: Store,
}

async fn node(store: Arc<dyn Backend>) -> Node {
    let api_key = Some(ROOT.to_owned());
    Node::start(store, AccessOptions { api_key, ..AccessOptions::default() }).await
}

/// Where a request is interrupted.
#[derive(Debug, Clone, Copy)]
struct Interruption {
    /// The number of the statement or of the call of the store, counted from 1.
    nth: u64,
    when: When,
}

/// The answer to a request, and the tables that had changed by then.
struct Seen {
    what: String,
    answer: Answer,
    changed: Vec<String>,
}

impl Seen {
    /// Whether the answer says that the whole write was done.
    fn claims_all(&self) -> bool {
        (200..300).contains(&self.answer.status)
    }
}

impl Harness {
    async fn new(store: Store) -> Self {
        let open = store.open().await;
        let healthy = node(open.clone()).await;
        let outages = match &store {
            Store::Postgres(database) => Self::statements(database).await,
            Store::Sqlite(folder) => Outages::Calls {
                store: Arc::new(FaultingStore::new(open)),
                file: folder.path().join("w.db"),
            },
        };
        let served: Arc<dyn Backend> = match &outages {
            Outages::Statements { store, .. } => store.clone(),
            Outages::Calls { store, .. } => store.clone(),
        };
        Self { outages, node: node(served).await, healthy, worlds: 0, _store: store }
    }

    async fn statements(database: &TestDatabase) -> Outages {
        let proxy = StatementProxy::start(database.address()).await;
        let url = database.url_through(proxy.address);
        let url = format!("{url}?sslmode=disable&application_name={INTERRUPTED}");
        let store = PostgresStore::connect(PostgresOptions::new(url)).await.expect("connected");
        let reader = Box::new(PostgresReader::new(database.client().await).await);
        Outages::Statements { proxy, reader, store: Arc::new(store) }
    }

    async fn digest(&self) -> Digest {
        match &self.outages {
            Outages::Statements { reader, .. } => reader.digest().await,
            Outages::Calls { file, .. } => digest::of_sqlite(file),
        }
    }

    fn interrupt(&self, nth: u64, when: When) {
        match &self.outages {
            Outages::Statements { proxy, .. } => proxy.interrupt(nth, when),
            Outages::Calls { store, .. } => {
                // The call that follows an answered call is not started.
                match when {
                    When::Unanswered => store.fail_from(nth, Fault::After),
                    When::Before | When::Answered => store.fail_from(nth, Fault::Before),
                }
            }
        }
    }

    /// Returns whether the database was unavailable. If it was, all statements have ended.
    async fn was_interrupted(&self) -> bool {
        match &self.outages {
            Outages::Statements { proxy, reader, .. } => {
                let interrupted = proxy.was_interrupted();
                if interrupted {
                    reader.settled().await;
                }
                interrupted
            }
            Outages::Calls { store, .. } => store.end_outage(),
        }
    }

    /// Makes the database available again, and waits until the node has noticed.
    async fn restore(&self) {
        let Outages::Statements { proxy, .. } = &self.outages else { return };
        proxy.restore();
        let client = self.node.client;
        eventually("the database is available again", || async {
            let read = Request::read("/api/v1/resources/queues");
            call(client, &read).await.expect("an answer").status == 200
        })
        .await;
    }

    async fn world(&mut self, route: &str) -> World {
        self.worlds += 1;
        World::create(self.healthy.client, self.worlds, route).await
    }

    /// Interrupts a request of a route at one statement or call after the other, until it has no
    /// further one. Returns descriptions of wrong answers.
    async fn interrupt_everywhere(
        &mut self,
        route: &str,
        keyed: bool,
        variant: usize,
    ) -> Vec<String> {
        let mut seen: Vec<Seen> = Vec::new();
        let mut world = self.world(route).await;
        let mut before = self.digest().await;
        for nth in 1..=INTERRUPTIONS_MAX {
            for when in self.outages.kinds() {
                if self.is_equivalent(*when, &seen) {
                    continue;
                }
                let request = world.requests(route, keyed).remove(variant);
                let (one, interrupted) = {
                    let at = Interruption { nth, when: *when };
                    self.interrupted(&request, at, &before).await
                };
                if !interrupted {
                    if nth > 1 && self.is_equivalent(When::Answered, &seen) {
                        world = self.world(route).await;
                        before = self.digest().await;
                        let request = world.requests(route, keyed).remove(variant);
                        let last = Interruption { nth: nth - 1, when: When::Answered };
                        seen.push(self.interrupted(&request, last, &before).await.0);
                        self.restore().await;
                    }
                    return judge(route, &one, &seen);
                }
                self.restore().await;
                if !one.changed.is_empty() {
                    world = self.world(route).await;
                    before = self.digest().await;
                }
                seen.push(one);
            }
        }
        vec![format!("{route} has too many statements")]
    }

    /// Returns whether the node sees no difference from an interruption that is tested anyway. Only
    /// the long run tests such an interruption too. A statement that is not executed looks like one
    /// that is executed and not answered: if the node did not report success then, it does not
    /// report it now. A database that becomes unavailable after its answer looks the same to the
    /// next statement; only the last statement has no next one.
    fn is_equivalent(&self, when: When, seen: &[Seen]) -> bool {
        if long() || matches!(self.outages, Outages::Calls { .. }) {
            return false;
        }
        match when {
            When::Unanswered => false,
            When::Before => !seen.last().is_some_and(Seen::claims_all),
            When::Answered => true,
        }
    }

    /// Sends a request and interrupts it. Returns what was seen, and whether it was interrupted: it
    /// was not if it has fewer statements.
    async fn interrupted(
        &self,
        request: &Request,
        at: Interruption,
        before: &Digest,
    ) -> (Seen, bool) {
        let Interruption { nth, when } = at;
        let what = format!("{when:?} {nth} of {} {}", request.method, request.path);
        self.interrupt(nth, when);
        let answer = answer(self.node.client, request, &what).await;
        let interrupted = self.was_interrupted().await;
        let changed = changed(before, &self.digest().await);
        (Seen { what, answer, changed }, interrupted)
    }
}

/// Waits for the answer to a request.
async fn answer(client: Client, request: &Request, what: &str) -> Answer {
    let answer = tokio::time::timeout(Duration::from_secs(30), call(client, request)).await;
    let answer = answer.unwrap_or_else(|_| panic!("{what}: no answer"));
    answer.unwrap_or_else(|error| panic!("{what}: {error}"))
}

/// Compares the answers to interrupted requests with the changes, and the changes with those of a
/// request that was not interrupted. Returns descriptions of wrong answers.
fn judge(route: &str, whole: &Seen, seen: &[Seen]) -> Vec<String> {
    let Seen { what, answer, changed } = whole;
    let mut wrong = Vec::new();
    let writes = !UNCHANGING.contains(&route);
    if !whole.claims_all() || changed.is_empty() == writes {
        wrong.push(format!("{what}, not interrupted: changed {changed:?}: {answer:?}"));
    }
    for Seen { what, answer, changed } in seen {
        let marked =
            !changed.is_empty() && changed.iter().all(|table| whole.changed.contains(table));
        let expected = match answer.status {
            // A message that autoAck settles must have been delivered.
            200..300 if what.contains("autoAck=true") && answer.ids().is_empty() => &[],
            // A lease that the client did not receive expires; a pop may find nothing until then.
            200..300 if WRITING_READS.contains(&route) => continue,
            200..300 if FINISHED_LATER.contains(&route) && marked => continue,
            200..300 => whole.changed.as_slice(),
            503 if answer.json()["code"] == "outcome_unknown" => continue,
            503 => &[],
            _ => {
                wrong.push(format!("{what}: unexpected answer during an outage: {answer:?}"));
                continue;
            }
        };
        if changed != expected {
            wrong.push(format!("{what}: changed {changed:?}, not {expected:?}: {answer:?}"));
        }
    }
    wrong
}

/// Tests every [`LANES`]-th route. Returns descriptions of wrong answers.
async fn test_lane(store: Store, lane: usize) -> Vec<String> {
    let mut harness = Harness::new(store).await;
    let mut wrong = Vec::new();
    for (route, keyed) in routes().into_iter().skip(lane).step_by(LANES) {
        let variants = harness.world(&route).await.requests(&route, keyed).len();
        for variant in 0..variants {
            wrong.extend(harness.interrupt_everywhere(&route, keyed, variant).await);
        }
    }
    wrong
}

/// Tests all routes, divided among the stores.
async fn test_all(stores: Vec<Store>) {
    let mut lanes = JoinSet::new();
    for (lane, store) in stores.into_iter().enumerate() {
        lanes.spawn(test_lane(store, lane));
    }
    let wrong: Vec<_> = lanes.join_all().await.into_iter().flatten().collect();
    assert!(wrong.is_empty(), "{} wrong answers:\n{}", wrong.len(), wrong.join("\n"));
}

#[tokio::test]
async fn every_answer_is_true_about_its_write_on_postgres() {
    let mut stores = Vec::new();
    for _ in 0..LANES {
        stores.push(Store::postgres().await);
    }
    test_all(stores).await;
}

#[tokio::test]
async fn every_answer_is_true_about_its_write_on_sqlite() {
    test_all((0..LANES).map(|_| Store::sqlite()).collect()).await;
}
