//! Every write of every API, interrupted everywhere: at each statement that reaches PostgreSQL and
//! at each call of the SQLite store, before it and after it, with the database away for the rest of
//! the request. An answer that says that nothing was done must be true, and so must one that says
//! that it was done; only `outcome_unknown` leaves it open.

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
use wakeline_store::WholeStore;
use wakeline_testkit::database::TestDatabase;
use wakeline_testkit::faults::{Fault, FaultingStore};

use crate::support::{Answer, Client, Node, StatementProxy, Store, When, eventually, long};
use digest::{Digest, INTERRUPTED, PostgresReader, changed};
use world::{ROOT, Request, World, call};

/// More statements, or calls of the store, than any request makes.
const INTERRUPTIONS_MAX: u64 = 40;
/// Nodes side by side: most of the time goes by while one finds that its database is back.
const LANES: usize = 12;

/// Reads that write: they lease, or settle at once.
const WRITING_READS: [&str; 2] =
    ["GET /api/v1/pop/queue/{queue}", "GET /api/v1/app/{app_id}/endpoint/{endpoint_id}/pull"];

/// Routes that are posted to and write nothing, or nothing here: only orchestrations that ran have
/// what is pruned and purged.
const UNCHANGING: [&str; 5] = [
    "POST /api/v1/app/{app_id}/endpoint/{endpoint_id}/ping",
    "POST /api/v1/app/{app_id}/msg/precheck/active",
    "POST /api/v1/orchestrations/prune",
    "POST /api/v1/orchestrations/purge",
    "POST /api/v1/stats/refresh",
];

/// Routes that are done once something is marked, and leave the rest to housekeeping.
const FINISHED_LATER: [&str; 1] = ["DELETE /api/v1/resources/queues/{queue}"];

/// Every route that writes, by the document, and whether it takes an idempotency key.
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
    // They change what all others do, so they come last.
    routes.sort_by_key(|(route, _)| route.contains("/system/maintenance"));
    routes
}

/// How a database is taken away, and what is in it.
enum Outages {
    Statements { proxy: StatementProxy, reader: Box<PostgresReader>, store: Arc<dyn WholeStore> },
    Calls { store: Arc<FaultingStore>, file: PathBuf },
}

impl Outages {
    /// When a database goes away.
    fn kinds(&self) -> &'static [When] {
        match self {
            Self::Statements { .. } => &[When::Unanswered, When::Before, When::Answered],
            Self::Calls { .. } => &[When::Unanswered, When::Answered],
        }
    }
}

/// A node whose database can be taken away, and one on the same database that keeps it.
struct Bench {
    outages: Outages,
    node: Node,
    sound: Node,
    worlds: u32,
    _store: Store,
}

async fn node(store: Arc<dyn WholeStore>) -> Node {
    let api_key = Some(ROOT.to_owned());
    Node::start(store, AccessOptions { api_key, ..AccessOptions::default() }).await
}

/// What a request was answered, and what had changed by then.
struct Seen {
    what: String,
    answer: Answer,
    changed: Vec<String>,
}

impl Seen {
    /// Whether the answer says that all was done.
    fn claims_all(&self) -> bool {
        (200..300).contains(&self.answer.status)
    }
}

impl Bench {
    async fn new(store: Store) -> Self {
        let open = store.open().await;
        let sound = node(open.clone()).await;
        let outages = match &store {
            Store::Postgres(database) => Self::statements(database).await,
            Store::Sqlite(folder) => Outages::Calls {
                store: Arc::new(FaultingStore::new(open)),
                file: folder.path().join("w.db"),
            },
        };
        let served: Arc<dyn WholeStore> = match &outages {
            Outages::Statements { store, .. } => store.clone(),
            Outages::Calls { store, .. } => store.clone(),
        };
        Self { outages, node: node(served).await, sound, worlds: 0, _store: store }
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
                // The call that follows an answered one is not begun.
                match when {
                    When::Unanswered => store.fail_from(nth, Fault::After),
                    When::Before | When::Answered => store.fail_from(nth, Fault::Before),
                }
            }
        }
    }

    /// True if the database has been away. Then all that was sent to it has ended.
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

    /// The database is back, and the node has found it.
    async fn heal(&self) {
        let Outages::Statements { proxy, .. } = &self.outages else { return };
        proxy.heal();
        let client = self.node.client;
        eventually("the database is back", || async {
            let read = Request::read("/api/v1/resources/queues");
            call(client, &read).await.expect("an answer").status == 200
        })
        .await;
    }

    async fn world(&mut self, route: &str) -> World {
        self.worlds += 1;
        World::make(self.sound.client, self.worlds, route).await
    }

    /// Interrupts a request of a route everywhere, one place at a time, until it is through.
    /// Returns what is wrong.
    async fn sweep(&mut self, (route, keyed): &(String, bool), variant: usize) -> Vec<String> {
        let mut seen: Vec<Seen> = Vec::new();
        let mut world = self.world(route).await;
        let mut before = self.digest().await;
        for nth in 1..=INTERRUPTIONS_MAX {
            for when in self.outages.kinds() {
                if self.is_equivalent(*when, &seen) {
                    continue;
                }
                let request = world.requests(route, *keyed).remove(variant);
                let (one, interrupted) = self.interrupted(&request, (nth, *when), &before).await;
                if !interrupted {
                    if nth > 1 && self.is_equivalent(When::Answered, &seen) {
                        world = self.world(route).await;
                        before = self.digest().await;
                        let request = world.requests(route, *keyed).remove(variant);
                        let last = (nth - 1, When::Answered);
                        seen.push(self.interrupted(&request, last, &before).await.0);
                        self.heal().await;
                    }
                    return judge(route, &one, &seen);
                }
                self.heal().await;
                if !one.changed.is_empty() {
                    world = self.world(route).await;
                    before = self.digest().await;
                }
                seen.push(one);
            }
        }
        vec![format!("{route} is never through")]
    }

    /// True if the node sees no difference to an interruption that is made anyway, so that only the
    /// long run makes this one too. A statement that is not executed looks like one that is
    /// executed and not answered: if the node did not claim then that it was done, it does not
    /// claim it now. A database that goes away after its answer looks the same to the next
    /// statement; only after the last statement is there none.
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

    /// Sends a request and interrupts it. Returns what was seen, and whether it was interrupted at
    /// all: it has fewer statements otherwise.
    async fn interrupted(
        &self,
        request: &Request,
        (nth, when): (u64, When),
        before: &Digest,
    ) -> (Seen, bool) {
        let what = format!("{when:?} {nth} of {} {}", request.method, request.path);
        self.interrupt(nth, when);
        let answer = answer(self.node.client, request, &what).await;
        let interrupted = self.was_interrupted().await;
        let changed = changed(before, &self.digest().await);
        (Seen { what, answer, changed }, interrupted)
    }
}

async fn answer(client: Client, request: &Request, what: &str) -> Answer {
    let answer = tokio::time::timeout(Duration::from_secs(30), call(client, request)).await;
    let answer = answer.unwrap_or_else(|_| panic!("{what}: no answer"));
    answer.unwrap_or_else(|error| panic!("{what}: {error}"))
}

/// Holds the answers of interrupted requests against what had happened, and that against what
/// happens if nothing interrupts it. Returns what is wrong.
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
            // What autoAck settles is gone, so it must have been delivered.
            200..300 if what.contains("autoAck=true") && answer.ids().is_empty() => &[],
            // Leases that nobody heard of end by themselves; a pop may find nothing for a while.
            200..300 if WRITING_READS.contains(&route) => continue,
            200..300 if FINISHED_LATER.contains(&route) && marked => continue,
            200..300 => whole.changed.as_slice(),
            503 if answer.json()["code"] == "outcome_unknown" => continue,
            503 => &[],
            _ => {
                wrong.push(format!("{what}: an outage is no reason for {answer:?}"));
                continue;
            }
        };
        if changed != expected {
            wrong.push(format!("{what}: changed {changed:?}, not {expected:?}: {answer:?}"));
        }
    }
    wrong
}

/// Sweeps over every [`LANES`]-th route. Returns what is wrong.
async fn sweep_lane(store: Store, lane: usize) -> Vec<String> {
    let mut bench = Bench::new(store).await;
    let mut wrong = Vec::new();
    for route in routes().into_iter().skip(lane).step_by(LANES) {
        let variants = bench.world(&route.0).await.requests(&route.0, route.1).len();
        for variant in 0..variants {
            wrong.extend(bench.sweep(&route, variant).await);
        }
    }
    wrong
}

async fn sweep(stores: Vec<Store>) {
    let mut lanes = JoinSet::new();
    for (lane, store) in stores.into_iter().enumerate() {
        lanes.spawn(sweep_lane(store, lane));
    }
    let wrong: Vec<_> = lanes.join_all().await.into_iter().flatten().collect();
    assert!(wrong.is_empty(), "{} wrong answers:\n{}", wrong.len(), wrong.join("\n"));
}

#[tokio::test]
async fn no_answer_denies_or_invents_a_write_on_postgres() {
    let mut stores = Vec::new();
    for _ in 0..LANES {
        stores.push(Store::postgres().await);
    }
    sweep(stores).await;
}

#[tokio::test]
async fn no_answer_denies_or_invents_a_write_on_sqlite() {
    sweep((0..LANES).map(|_| Store::sqlite()).collect()).await;
}
