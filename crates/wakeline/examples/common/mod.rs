//! The parts that all examples share: they choose the store and the instance, and run a program
//! that may be killed at any time and started again with the same arguments.
//!
//! ```text
//! cargo run --example saga -- --store sqlite:trips.db trip-1
//! cargo run --example saga -- --store postgres://localhost/app --schema trips trip-1
//! ```

mod kill;

use std::error::Error;
use std::io::Write as _;
use std::sync::Arc;
use std::time::Duration;

use wakeline::{
    ActivityContext, Client, Json, PostgresProvider, Registry, Runtime, RuntimeOptions,
    SqliteProvider,
};
use wakeline_store::flow::FlowStore;

pub(crate) type BoxError = Box<dyn Error + Send + Sync>;

/// A running example.
pub(crate) struct Program {
    pub(crate) client: Client,
    /// The instance id from the command line.
    pub(crate) instance: String,
    /// The store, for calls that the client does not offer.
    #[allow(dead_code, reason = "most examples need no more than the client")]
    pub(crate) store: Arc<dyn FlowStore>,
    runtime: Runtime,
}

/// Opens the store from the command line, and starts a runtime with this registry.
pub(crate) async fn start(registry: Registry) -> Result<Program, BoxError> {
    let Arguments { store, schema, instance } = Arguments::read()?;
    let (provider, store) = match store.strip_prefix("sqlite:") {
        Some(path) => {
            kill::if_requested(SqliteProvider::new_with_schema(path, schema.as_deref()).await?)?
        }
        None => {
            kill::if_requested(PostgresProvider::new_with_schema(&store, schema.as_deref()).await?)?
        }
    };
    let mut options = RuntimeOptions::default();
    if let Ok(ms) = std::env::var("WAKELINE_EXAMPLE_LEASE_MS") {
        options.orchestrator_lock_timeout = Duration::from_millis(ms.parse()?);
        options.worker_lock_timeout = options.orchestrator_lock_timeout;
        options.session_lock_timeout = options.orchestrator_lock_timeout;
        // On a busy machine such a short lease is often lost, which is not the fault of the
        // instance.
        options.attempts_max = u32::MAX;
    }
    let runtime = Runtime::start_with_options(provider, registry, options).await?;
    Ok(Program { client: runtime.client(), instance, store, runtime })
}

impl Program {
    /// Waits for the instance, and prints its result.
    #[allow(clippy::print_stdout, reason = "the result of an example goes to standard output")]
    pub(crate) async fn finish(self) -> Result<(), BoxError> {
        let result: Json = self.client.wait(&self.instance, Duration::from_secs(3600)).await?;
        println!("{}", result.as_str());
        self.runtime.shutdown(Duration::from_secs(1)).await;
        self.client.provider().close().await;
        Ok(())
    }
}

/// Logs an attempt of an activity. There may be several if its process dies.
pub(crate) fn log_attempt(ctx: &ActivityContext) -> Result<(), std::io::Error> {
    let line = format!("{} {} try {}\n", ctx.name(), ctx.idempotency_key(), ctx.attempt());
    match std::env::var_os("WAKELINE_EXAMPLE_LOG") {
        Some(path) => {
            let file = std::fs::OpenOptions::new().create(true).append(true).open(path);
            file?.write_all(line.as_bytes())
        }
        None => std::io::stderr().write_all(line.as_bytes()),
    }
}

struct Arguments {
    store: String,
    schema: Option<String>,
    instance: String,
}

impl Arguments {
    fn read() -> Result<Self, BoxError> {
        let (mut store, mut schema, mut instance) = (None, None, None);
        let mut words = std::env::args().skip(1);
        while let Some(word) = words.next() {
            match word.as_str() {
                "--store" => store = words.next(),
                "--schema" => schema = words.next(),
                _ => instance = Some(word),
            }
        }
        match (store, instance) {
            (Some(store), Some(instance)) => Ok(Self { store, schema, instance }),
            _ => Err("--store sqlite:PATH|postgres://... [--schema NAME] INSTANCE".into()),
        }
    }
}
