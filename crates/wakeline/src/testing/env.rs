//! A runtime, a store and a clock of a test's own.

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

use super::pulse::Pulse;
use super::transitions::{Fate, Moment, Transition, Transitions};
use super::waits;

/// When a test's clock begins: 1 January 2030.
const EPOCH: Timestamp = Timestamp(1_893_456_000_000_000);
/// Longer than any test.
const FOREVER: Duration = Duration::from_secs(365 * 24 * 3600);

/// Why a test's orchestration did not return.
///
/// Shown the same way by `{}` and `{:?}`, so that a failed test is readable.
#[derive(thiserror::Error)]
pub enum TestError {
    /// It failed.
    #[error("instance {instance} failed: {error}")]
    Failed {
        /// Which instance.
        instance: String,
        /// Why.
        error: FlowError,
    },
    /// Nothing runs, nothing is due, and it has not ended: it would wait for ever.
    #[error("instance {instance} cannot continue: {waits_for}")]
    Stuck {
        /// Which instance.
        instance: String,
        /// What it waits for.
        waits_for: String,
    },
    /// The environment died at a crash point.
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

/// Collects what a [`TestEnv`] starts with.
pub struct TestEnvBuilder {
    registry: Registry,
    options: RuntimeOptions,
    calls: Calls,
}

type Calls = Arc<Mutex<HashMap<String, Vec<Json>>>>;

impl TestEnvBuilder {
    /// Answers an activity's calls in its place, and remembers them: [`TestEnv::calls`].
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
            let noted = Json::of(&input);
            if let Ok(input) = noted {
                calls.lock().entry(name.clone()).or_default().push(input);
            }
            std::future::ready(answer(input))
        };
        self.registry = self.registry.with_activity::<I, O, _, _, _>(activity.to_owned(), code);
        self
    }

    /// Changes how the runtime works. By default every turn replays its history (`sticky_max` is
    /// 0). The way of waking is the environment's own.
    pub fn options(mut self, change: impl FnOnce(&mut RuntimeOptions)) -> Self {
        change(&mut self.options);
        self
    }

    /// Starts the runtime, on a new SQLite file in a temporary folder.
    ///
    /// # Panics
    /// If the file cannot be made, or the options are refused.
    pub async fn start(self) -> TestEnv {
        let folder = tempfile::tempdir().expect("a temporary folder can be made");
        let house = House { folder, clock: TestClock::new(EPOCH) };
        self.start_in(Arc::new(house)).await
    }

    pub(super) async fn start_in(self, house: Arc<House>) -> TestEnv {
        let Self { registry, mut options, calls } = self;
        options.wake_mode = None;
        let file = SqliteOptions {
            ballast_bytes: 0,
            hints: false,
            clock: Some(house.clock.clone()),
            ..SqliteOptions::new(house.folder.path().join("test.db"))
        };
        let store = SqliteStore::open(file).await.expect("a SQLite file can be opened");
        let crash = Arc::new(Mutex::new(None));
        let planned = Arc::clone(&crash);
        let witness = move |at: Transition| match *planned.lock() {
            Some(point) if point == (at.moment, at.nth) => Fate::Die,
            _ => Fate::GoOn,
        };
        let watched = Transitions::new(store.clone(), Arc::new(witness));
        let pulse = watched.pulse();
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
            pulse,
            crash,
            lines,
            lease,
            calls,
            runs: AtomicU64::new(0),
            house,
        }
    }
}

/// What the runtime's dispatchers wait for.
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

/// What outlives a crash.
pub(super) struct House {
    folder: TempDir,
    pub(super) clock: TestClock,
}

/// A runtime on a SQLite file of its own, with a clock that skips.
///
/// Use it under a plain `#[tokio::test]`: tokio's own clock is not involved, and should not be
/// paused.
pub struct TestEnv {
    pub(super) provider: StoreProvider,
    pub(super) store: SqliteStore,
    pub(super) pulse: Arc<Pulse>,
    pub(super) lines: Vec<FlowLine>,
    pub(super) lease: Duration,
    pub(super) house: Arc<House>,
    runtime: Runtime,
    client: Client,
    crash: Arc<Mutex<Option<(Moment, u64)>>>,
    calls: Calls,
    runs: AtomicU64,
}

impl TestEnv {
    /// An environment that runs this code.
    ///
    /// # Panics
    /// If a SQLite file cannot be made in a temporary folder.
    pub async fn new(registry: Registry) -> Self {
        Self::builder(registry).start().await
    }

    /// Begins an environment with mocks, or options of its own.
    pub fn builder(registry: Registry) -> TestEnvBuilder {
        let options = RuntimeOptions { sticky_max: 0, ..RuntimeOptions::default() };
        TestEnvBuilder { registry, options, calls: Calls::default() }
    }

    /// A client. Its calls take no time; its waits do not make time skip: [`Self::wait`] does.
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// Runs an orchestration to its end. Time skips to the next timer whenever nothing runs.
    ///
    /// The instance is `run-1`, then `run-2`, ...; a killed and restarted environment counts from
    /// 1 again, and so goes on with the same instances.
    pub async fn run<O: DeserializeOwned>(
        &self,
        name: &str,
        input: &(impl Serialize + Sync + ?Sized),
    ) -> Result<O, TestError> {
        let instance = format!("run-{}", self.runs.fetch_add(1, Ordering::SeqCst) + 1);
        self.run_as(&instance, name, input).await
    }

    /// Runs an orchestration to its end, as this instance.
    pub async fn run_as<O: DeserializeOwned>(
        &self,
        instance: &str,
        name: &str,
        input: &(impl Serialize + Sync + ?Sized),
    ) -> Result<O, TestError> {
        tokio::select! {
            biased;
            () = self.pulse.died() => return Err(TestError::Crashed),
            started = self.client.start(instance, name, input) => started?,
        };
        self.wait(instance).await
    }

    /// Waits for the end of an instance. Time skips to the next timer whenever nothing runs.
    pub async fn wait<O: DeserializeOwned>(&self, instance: &str) -> Result<O, TestError> {
        let status = tokio::select! {
            biased;
            () = self.pulse.died() => return Err(TestError::Crashed),
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

    /// Skips until nothing can happen any more, and says what the instance waits for then.
    async fn skip_until_stuck(&self, instance: &str) -> Result<TestError, TestError> {
        self.skip_all().await?;
        let status = self.client.status(instance).await?;
        if matches!(status, Status::Ended(_) | Status::Missing) {
            // It has just ended: whoever waits for that will hear of it.
            std::future::pending::<()>().await;
        }
        let waits_for = waits::describe(&self.client, instance, status).await?;
        Ok(self.stuck(instance, waits_for))
    }

    fn stuck(&self, instance: &str, waits_for: String) -> TestError {
        TestError::Stuck { instance: instance.to_owned(), waits_for }
    }

    /// What the environment's clock shows. It begins on 1 January 2030.
    pub fn now(&self) -> Timestamp {
        self.house.clock.now()
    }

    /// The inputs of the calls of a mocked activity, in order. A call that was made twice, because
    /// a worker died, is there twice.
    ///
    /// # Panics
    /// If an input is not of this type.
    pub fn calls<I: DeserializeOwned>(&self, activity: &str) -> Vec<I> {
        let calls = self.calls.lock();
        let inputs = calls.get(activity).into_iter().flatten();
        inputs.map(|input| input.to().expect("the input is of the type asked for")).collect()
    }

    /// How many transitions were persisted since the environment was started.
    pub fn transitions(&self) -> u64 {
        self.pulse.counted(Moment::After)
    }

    /// Dies right before or after the n-th transition since the start, as a killed process does:
    /// what it held stays leased. Nothing comes back from it afterwards but [`TestError::Crashed`];
    /// go on with [`Self::restart`].
    pub fn crash_at(&self, moment: Moment, nth: u64) {
        *self.crash.lock() = Some((moment, nth));
    }

    /// Waits until it has died at its crash point.
    pub async fn died(&self) {
        self.pulse.died().await;
    }

    /// Goes on with another runtime on the same file, after all leases of this one are over.
    pub async fn restart(self, with: TestEnvBuilder) -> Self {
        let Self { runtime, store, house, lease, pulse, .. } = self;
        pulse.die();
        drop(runtime);
        store.close().await;
        house.clock.advance(lease + Duration::from_secs(1));
        with.start_in(house).await
    }
}
