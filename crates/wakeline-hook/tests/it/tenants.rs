//! An application whose endpoints and names all hang, or which has thousands of endpoints, beside a
//! quiet application, on every store.

use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::future::join_all;
use tokio::sync::Semaphore;
use wakeline_core::{ApplicationId, ApplicationRef, EndpointId, EndpointOptions, HookMessageId};
use wakeline_hook::{
    ApplicationIn, DispatchOptions, Emit, EndpointIn, HookServiceOptions, NameLookup, SendOptions,
};
use wakeline_postgres::{PostgresOptions, PostgresStore};
use wakeline_sqlite::{SqliteOptions, SqliteStore};
use wakeline_store::hook::{
    AttemptOutcome, Created, DeliveryState, EmitOutcome, HookBackend, PageOrder, PageRequest,
};
use wakeline_store::{Backend, StoreAdmin as _};
use wakeline_testkit::database::TestDatabase;
use wakeline_testkit::faults::{Fault, FaultingStore};
use wakeline_testkit::oracle::MemoryStore;

use crate::support::{Answer, Bench, Receiver, event_type, eventually, loopback, options};

/// The maximum number of concurrent calls of the node.
const SLOTS: u32 = 240;
/// The number of the abuser's endpoints that accept and never respond, and of those whose names
/// hang.
const HANGING: usize = 150;
/// The maximum number of lookups that one application may have in progress.
const LOOKUPS: usize = 64;
/// The number of messages of the quiet application.
const QUIET: usize = 30;
/// The number of endpoints that receive every message of the application with many endpoints.
const RECEIVERS: usize = 3_000;
/// The number of messages of that application.
const FLOODS: usize = 5;
/// The number of failures of background work, 250 ms each: in total far longer than the test.
const FAILURES: usize = 2_000;
/// Longer than the test, so that no call of the abuser ends before it is released.
const TIMEOUT: Duration = Duration::from_secs(120);

/// A resolver in which some names hang until they are released.
struct Names {
    hanging: AtomicUsize,
    gate: Semaphore,
}

#[async_trait]
impl NameLookup for Names {
    async fn lookup(&self, name: &str) -> io::Result<Vec<IpAddr>> {
        if name.ends_with(".hang.test") {
            self.hanging.fetch_add(1, Ordering::SeqCst);
            self.gate.acquire().await.expect("not closed").forget();
        }
        Ok(vec![IpAddr::from([127, 0, 0, 1])])
    }
}

/// The hanging endpoints and names, and the means to release them.
struct Abuse {
    names: Arc<Names>,
    gate: Arc<Semaphore>,
    receiver: Receiver,
}

impl Abuse {
    async fn start() -> Self {
        let names = Arc::new(Names { hanging: AtomicUsize::new(0), gate: Semaphore::new(0) });
        let gate = Arc::new(Semaphore::new(0));
        let held = Arc::clone(&gate);
        let receiver = Receiver::start(move |_| Answer::Gate(Arc::clone(&held))).await;
        Self { names, gate, receiver }
    }

    /// Creates endpoints of both kinds alternately, and emits a message to all of them.
    async fn fill(&mut self, bench: &Bench) {
        let options = EndpointOptions { timeout: TIMEOUT, ..EndpointOptions::default() };
        let port = self.receiver.address.port();
        for n in 0..HANGING {
            bench.endpoint(&self.receiver.url(), options.clone()).await;
            let named = format!("http://n{n}.hang.test:{port}/hook");
            bench.endpoint(&named, options.clone()).await;
        }
        bench.emit("{}").await;
        // Far more deliveries are due, so the abuser uses everything that the node allows it.
        eventually(async || self.names.hanging.load(Ordering::SeqCst) >= LOOKUPS).await;
        for _ in 0..LOOKUPS {
            self.receiver.next().await;
        }
    }

    fn let_go(&self) {
        self.names.gate.add_permits(HANGING);
        self.gate.add_permits(2 * HANGING);
    }
}

async fn quiet_application(bench: &Bench) -> ApplicationId {
    let application = ApplicationIn { name: "quiet".to_owned(), ..ApplicationIn::default() };
    let made = bench.service.create_application(application, None).await.expect("stored");
    let Created::New(application) = made else { panic!("{made:?}") };
    application.id
}

/// Sends messages of the quiet application, each of which must arrive at once.
async fn deliver_quietly(bench: &Bench, receiver: &mut Receiver) -> EndpointId {
    let url = format!("http://quiet.test:{}/hook", receiver.address.port());
    let endpoint = bench.endpoint(&url, EndpointOptions::default()).await;
    let mut messages = Vec::new();
    for _ in 0..QUIET {
        let message = bench.emit("{}").await;
        assert_eq!(receiver.next().await.header("webhook-id"), message.to_string());
        messages.push(message);
    }
    bench.attempted(QUIET).await;
    for message in messages {
        assert_eq!(bench.delivery(endpoint, message).await.state, DeliveryState::Delivered);
    }
    endpoint
}

/// Checks that no attempt to the endpoint failed, and none was made twice.
async fn assert_undisturbed(bench: &Bench, endpoint: EndpointId) {
    let attempts = bench.attempts().await;
    assert_eq!(attempts.len(), QUIET);
    for attempt in attempts {
        assert_eq!((attempt.outcome, attempt.attempt_no), (AttemptOutcome::Succeeded, 1));
    }
    let endpoint = bench.look(endpoint).await;
    assert_eq!((endpoint.paused_for, endpoint.failing_since), (None, None), "{endpoint:?}");
}

async fn a_quiet_application_is_served(store: Arc<dyn HookBackend>) {
    let mut abuse = Abuse::start().await;
    let names = Arc::clone(&abuse.names);
    let send = SendOptions { guard: loopback(), lookup: names, ..SendOptions::default() };
    let dispatch = DispatchOptions::with_slots(SLOTS);
    let mut bench = Bench::over(store, HookServiceOptions { dispatch, send, ..options() }).await;
    abuse.fill(&bench).await;

    let quiet = quiet_application(&bench).await;
    let abuser = std::mem::replace(&mut bench.application, quiet);
    let mut receiver = Receiver::always(Answer::Status(200)).await;
    let endpoint = deliver_quietly(&bench, &mut receiver).await;
    assert_undisturbed(&bench, endpoint).await;

    bench.application = abuser;
    assert!(bench.attempts().await.is_empty(), "nothing of the abuser is done yet");
    assert_eq!(abuse.names.hanging.load(Ordering::SeqCst), LOOKUPS);
    // All messages of the abuser arrive too, each at the first attempt.
    abuse.let_go();
    let attempts = bench.attempted(2 * HANGING).await;
    assert_eq!(attempts.len(), 2 * HANGING);
    for attempt in attempts {
        assert_eq!((attempt.outcome, attempt.attempt_no), (AttemptOutcome::Succeeded, 1));
    }
    bench.application = quiet;
    assert_undisturbed(&bench, endpoint).await;
    bench.stop().await;
}

/// The number of deliveries of a message that exist.
async fn made(bench: &Bench, message: HookMessageId) -> usize {
    let (mut count, mut after) = (0, None);
    loop {
        let page = PageRequest { limit: 250, after, order: PageOrder::Ascending, backwards: false };
        let read = bench.store.deliveries(bench.application, message, page).await.expect("read");
        let Some(last) = read.items.last() else { return count };
        after = Some(last.endpoint);
        count += read.items.len();
    }
}

/// Messages for thousands of endpoints and one of a quiet application are emitted at once. The
/// latter is stored and delivered by a node that does not create the deliveries of the others;
/// another node does.
async fn a_quiet_application_does_not_wait_for_a_fan_out(store: Arc<dyn Backend>) {
    let held_back = FaultingStore::new(Arc::clone(&store));
    for _ in 0..FAILURES {
        held_back.fail_operation("run_background", 1, Fault::Before);
    }
    let mut bench = Bench::over(Arc::new(held_back), options()).await;
    let pulled = EndpointOptions { pull: true, ..EndpointOptions::default() };
    let endpoint = EndpointIn { options: pulled, ..EndpointIn::default() };
    for _ in 0..RECEIVERS / 100 {
        join_all((0..100).map(|_| bench.make(endpoint.clone()))).await;
    }
    let (service, abuser) = (bench.service.clone(), bench.app());
    bench.application = quiet_application(&bench).await;
    let mut receiver = Receiver::always(Answer::Status(200)).await;
    let url = format!("http://127.0.0.1:{}/hook", receiver.address.port());
    bench.endpoint(&url, EndpointOptions::default()).await;

    let large = |_| {
        let payload = Bytes::from_static(b"{}");
        service.emit(Emit::new(abuser.clone(), event_type("invoice.paid"), payload))
    };
    let (floods, message) = tokio::join!(join_all((0..FLOODS).map(large)), bench.emit("{}"));
    assert_eq!(receiver.next().await.header("webhook-id"), message.to_string());
    let ApplicationRef::Id(abuser) = abuser else { unreachable!("it is named by its id") };
    bench.application = abuser;
    let mut messages = Vec::new();
    for outcome in floods {
        let Ok(EmitOutcome::Stored(message, _)) = outcome else { panic!("{outcome:?}") };
        assert_eq!(made(&bench, message.id).await, 0, "its deliveries are still to be made");
        messages.push(message.id);
    }
    bench.stop().await;

    let next = Bench::over(Arc::new(FaultingStore::new(store)), options()).await;
    let bench = Bench { application: abuser, ..next };
    for message in messages {
        eventually(async || made(&bench, message).await == RECEIVERS).await;
    }
    bench.stop().await;
}

#[tokio::test]
async fn a_quiet_application_does_not_wait_for_a_fan_out_on_sqlite() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = SqliteOptions::new(folder.path().join("hook.db"));
    let store = SqliteStore::open(SqliteOptions { ballast_bytes: 0, ..file }).await;
    a_quiet_application_does_not_wait_for_a_fan_out(Arc::new(store.expect("opens"))).await;
}

#[tokio::test]
async fn a_quiet_application_does_not_wait_for_a_fan_out_on_postgresql() {
    on_postgresql(async |store| a_quiet_application_does_not_wait_for_a_fan_out(store).await).await;
}

#[tokio::test]
async fn an_abuser_does_not_delay_a_quiet_application_in_memory() {
    a_quiet_application_is_served(Arc::new(MemoryStore::with_real_clock())).await;
}

#[tokio::test]
async fn an_abuser_does_not_delay_a_quiet_application_on_sqlite() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = SqliteOptions::new(folder.path().join("hook.db"));
    let store = SqliteStore::open(SqliteOptions { ballast_bytes: 0, ..file }).await;
    a_quiet_application_is_served(Arc::new(store.expect("opens"))).await;
}

async fn on_postgresql(test: impl AsyncFnOnce(Arc<PostgresStore>)) {
    let database = TestDatabase::copy_of("wl_migrated", async |url| {
        wakeline_postgres::migrate_up(&PostgresOptions::new(url)).await.expect("migrated");
    })
    .await;
    let store = PostgresStore::connect(PostgresOptions::new(database.url())).await;
    let store = Arc::new(store.expect("connected"));
    test(Arc::clone(&store)).await;
    store.close().await;
}

#[tokio::test]
async fn an_abuser_does_not_delay_a_quiet_application_on_postgresql() {
    on_postgresql(async |store| a_quiet_application_is_served(store).await).await;
}
