//! The environment of a test: its own runtime, store and clock.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tempfile::TempDir;
use wakeline_core::{ActivityFilter, ActivityNames, Capabilities, FlowLine, Timestamp};
use wakeline_flow::provider::{StoreProvider, StoreProviderOptions};
use wakeline_flow::{
    ActivityContext, Client, ClientError, FlowError, Json, Registry, Runtime, RuntimeOptions,
    Status,
};
use wakeline_sqlite::{SqliteOptions, SqliteStore, TestClock};
use wakeline_store::{StoreAdmin, StoreError};

use super::call_tracker::CallTracker;
use super::transitions::{CrashDecision, Transition, TransitionPhase, Transitions};
use super::waits;

/// The initial time of a test's clock: 1 January 2030.
const EPOCH: Timestamp = Timestamp(1_893_456_000_000_000);
/// A time that is longer than any test.
const FOREVER: Duration = Duration::from_secs(365 * 24 * 3600);

/// The reason why an orchestration in a test did not return.
///
/// Shown the same way by `{}` and `{:?}`, so that a failed test is readable.
#[derive(thiserror::Error)]
pub enum TestError {
    /// The instance failed.
    #[error("instance {instance} failed: {error}")]
    Failed {
        /// The id of the instance.
        instance: String,
        /// The error that it failed with.
        error: FlowError,
    },
    /// The instance would wait forever: it has not ended, but nothing runs and nothing is due.
    #[error("instance {instance} cannot continue: {waits_for}")]
    Stuck {
        /// The id of the instance.
        instance: String,
        /// A description of what it waits for.
        waits_for: String,
    },
    /// The environment crashed at a crash point.
    #[error("the environment was stopped at a crash point")]
    Crashed,
    /// The client failed.
    #[error(transparent)]
    Client(#[from] ClientError),
    /// The store failed.
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl fmt::Debug for TestError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Configures a [`TestEnv`].
pub struct TestEnvBuilder {
    registry: Registry,
    options: RuntimeOptions,
    calls: Calls,
}

type Calls = Arc<Mutex<HashMap<String, Vec<Json>>>>;

impl TestEnvBuilder {
    /// Replaces an activity with a function, and records its calls; see [`TestEnv::calls`].
    pub fn mock<I, O>(
        mut self,
        activity: &str,
        answer: impl Fn(I) -> Result<O, FlowError> + Send + Sync + 'static,
    ) -> Self
    where
        I: Serialize + DeserializeOwned + Send + 'static,
        O: Serialize + Send + 'static,
    {
        let (name, calls) = (activity.to_owned(), Arc::clone(&self.calls));
        let code = move |_: ActivityContext, input: I| {
            if let Ok(input) = Json::of(&input) {
                calls.lock().entry(name.clone()).or_default().push(input);
            }
            std::future::ready(answer(input))
        };
        self.registry = self.registry.with_activity::<I, O, _, _, _>(activity.to_owned(), code);
        self
    }

    /// Changes the options of the runtime. By default every turn replays its history (`sticky_max`
    /// is 0). The environment sets the wake mode itself.
    pub fn options(mut self, change: impl FnOnce(&mut RuntimeOptions)) -> Self {
        change(&mut self.options);
        self
    }

    /// Starts the runtime with a new SQLite file in a temporary folder.
    ///
    /// # Panics
    /// Panics if the file cannot be created, or if the options are invalid.
    pub async fn start(self) -> TestEnv {
        let folder = tempfile::tempdir().expect("a temporary folder can be created");
        let storage = TestStorage { folder, clock: TestClock::new(EPOCH) };
        self.start_in(Arc::new(storage)).await
    }

    pub(super) async fn start_in(self, storage: Arc<TestStorage>) -> TestEnv {
        let Self { registry, mut options, calls } = self;
        options.wake_mode = None;
        let file = SqliteOptions {
            ballast_bytes: 0,
            hints: false,
            clock: Some(storage.clock.clone()),
            ..SqliteOptions::new(storage.folder.path().join("test.db"))
        };
        let store = SqliteStore::open(file).await.expect("a SQLite file can be opened");
        let crash = Arc::new(Mutex::new(None));
        let planned = Arc::clone(&crash);
        let observer = move |at: Transition| match *planned.lock() {
            Some(point) if point == (at.phase, at.nth) => CrashDecision::Crash,
            _ => CrashDecision::Continue,
        };
        let watched = Transitions::new(store.clone(), Arc::new(observer));
        let tracker = watched.tracker();
        let provider = StoreProvider::new(Arc::new(watched), StoreProviderOptions::default());
        let lines = lines(&registry, &options);
        let lease = options.orchestrator_lock_timeout.max(options.worker_lock_timeout);
        let runtime =
            Runtime::start_with_options(Arc::new(provider.clone()), registry, options).await;
        TestEnv {
            client: Client::new(Arc::new(provider.clone())),
            runtime: runtime.expect("the options are valid"),
            provider,
            store,
            tracker,
            crash,
            lines,
            lease,
            calls,
            runs: AtomicU64::new(0),
            storage,
        }
    }
}

/// Returns the lines that the dispatchers of the runtime wait in.
fn lines(registry: &Registry, options: &RuntimeOptions) -> Vec<FlowLine> {
    let mut lines = Vec::new();
    let capabilities = registry.capabilities();
    if !capabilities.is_empty() {
        lines.push(FlowLine::Turns(Capabilities::Of(capabilities.into_iter().collect())));
    }
    if registry.has_activities() {
        let owner = options.session_owner.clone();
        let names = ActivityNames::Of(Arc::new(registry.activity_names()));
        let filter = ActivityFilter { tags: options.tags.clone(), names };
        lines.push(FlowLine::Work { filter, owner });
    }
    lines
}

/// The parts of an environment that survive a crash.
pub(super) struct TestStorage {
    folder: TempDir,
    pub(super) clock: TestClock,
}

/// A runtime with its own SQLite file and a clock that skips while nothing runs.
///
/// Use it in a plain `#[tokio::test]`: tokio's own clock is not involved, and should not be paused.
pub struct TestEnv {
    pub(super) provider: StoreProvider,
    pub(super) store: SqliteStore,
    pub(super) tracker: Arc<CallTracker>,
    pub(super) lines: Vec<FlowLine>,
    pub(super) lease: Duration,
    pub(super) storage: Arc<TestStorage>,
    runtime: Runtime,
    client: Client,
    crash: Arc<Mutex<Option<(TransitionPhase, u64)>>>,
    calls: Calls,
    runs: AtomicU64,
}

impl TestEnv {
    /// Creates an environment that runs this code.
    ///
    /// # Panics
    /// Panics if a SQLite file cannot be created in a temporary folder.
    pub async fn new(registry: Registry) -> Self {
        Self::builder(registry).start().await
    }

    /// Creates a builder for an environment with mocks or options.
    pub fn builder(registry: Registry) -> TestEnvBuilder {
        let options = RuntimeOptions { sticky_max: 0, ..RuntimeOptions::default() };
        TestEnvBuilder { registry, options, calls: Calls::default() }
    }

    /// The client of the environment. Its waits do not make the clock skip; [`Self::wait`] does.
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// Runs an orchestration to its end. The clock skips to the next timer whenever nothing runs.
    ///
    /// The instances are named `run-1`, `run-2`, ...; a restarted environment counts from 1 again,
    /// and therefore continues with the same instances.
    pub async fn run<O: DeserializeOwned>(
        &self,
        name: &str,
        input: &(impl Serialize + Sync + ?Sized),
    ) -> Result<O, TestError> {
        let instance = format!("run-{}", self.runs.fetch_add(1, Ordering::SeqCst) + 1);
        self.run_as(&instance, name, input).await
    }

    /// Runs an orchestration to its end under this instance id.
    pub async fn run_as<O: DeserializeOwned>(
        &self,
        instance: &str,
        name: &str,
        input: &(impl Serialize + Sync + ?Sized),
    ) -> Result<O, TestError> {
        tokio::select! {
            biased;
            () = self.tracker.crashed() => return Err(TestError::Crashed),
            started = self.client.start(instance, name, input) => started?,
        };
        self.wait(instance).await
    }

    /// Waits for the end of an instance. The clock skips to the next timer whenever nothing runs.
    pub async fn wait<O: DeserializeOwned>(&self, instance: &str) -> Result<O, TestError> {
        let status = tokio::select! {
            biased;
            () = self.tracker.crashed() => return Err(TestError::Crashed),
            status = self.client.wait_for_end(instance, FOREVER) => status?,
            stuck = self.skip_until_stuck(instance) => return Err(stuck?),
        };
        match status {
            Status::Ended(ended) => match ended.result {
                Ok(output) => output.to().map_err(|source| {
                    TestError::Client(ClientError::Codec { what: "the output", source })
                }),
                Err(error) => Err(TestError::Failed { instance: instance.to_owned(), error }),
            },
            Status::Missing => Err(self.stuck(instance, "there is no such instance".to_owned())),
            other => Err(self.stuck(instance, format!("it is {}", other.name()))),
        }
    }

    /// Skips until nothing can happen any more, and then describes what the instance waits for.
    async fn skip_until_stuck(&self, instance: &str) -> Result<TestError, TestError> {
        self.skip_all().await?;
        let status = self.client.status(instance).await?;
        if matches!(status, Status::Ended(_) | Status::Missing) {
            // The instance has just ended; the wait for its end is about to return.
            std::future::pending::<()>().await;
        }
        let waits_for = waits::describe(&self.client, instance, status).await?;
        Ok(self.stuck(instance, waits_for))
    }

    fn stuck(&self, instance: &str, waits_for: String) -> TestError {
        TestError::Stuck { instance: instance.to_owned(), waits_for }
    }

    /// Returns the time of the environment's clock. It begins on 1 January 2030.
    pub fn now(&self) -> Timestamp {
        self.storage.clock.now()
    }

    /// Returns the inputs of the calls of a mocked activity, in order. A call that was repeated
    /// because a worker crashed is listed twice.
    ///
    /// # Panics
    /// Panics if an input is not of this type.
    pub fn calls<I: DeserializeOwned>(&self, activity: &str) -> Vec<I> {
        let calls = self.calls.lock();
        let inputs = calls.get(activity).into_iter().flatten();
        inputs.map(|input| input.to().expect("the input has the requested type")).collect()
    }

    /// Returns the number of transitions that were persisted since the environment was started.
    pub fn transitions(&self) -> u64 {
        self.tracker.counted(TransitionPhase::After)
    }

    /// Crashes right before or after the n-th transition since the start, like a killed process:
    /// what it held stays leased. All calls then return [`TestError::Crashed`]; continue with
    /// [`Self::restart`].
    pub fn crash_at(&self, phase: TransitionPhase, nth: u64) {
        *self.crash.lock() = Some((phase, nth));
    }

    /// Waits until the environment has crashed at its crash point.
    pub async fn crashed(&self) {
        self.tracker.crashed().await;
    }

    /// Continues with another runtime on the same file, after all leases of this one have ended.
    pub async fn restart(self, with: TestEnvBuilder) -> Self {
        let Self { runtime, store, storage, lease, tracker, .. } = self;
        tracker.crash();
        drop(runtime);
        store.close().await;
        storage.clock.advance(lease + Duration::from_secs(1));
        with.start_in(storage).await
    }
}
