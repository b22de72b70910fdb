//! Our side of the flow benchmark: a process of its own, like those of the peers.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use clap::Args;
use wakeline::provider::Provider;
use wakeline::{
    ActivityContext, Client, FlowError, OrchestrationContext, PostgresProvider, Prefetch, Registry,
    Runtime, RuntimeOptions, SqliteProvider, WakeMode, try_join_all,
};

use super::drive::{CONCURRENCY, Driver, Ends, Engine, Job, ORCHESTRATION, PATIENCE, Plan};
use crate::table::say;

/// Settings of our side.
#[derive(Args)]
pub(crate) struct SideArgs {
    /// postgres://USER@HOST/DATABASE or sqlite:PATH
    #[arg(long)]
    store: String,
    /// The schema
    #[arg(long)]
    schema: Option<String>,
    /// Turns, and activities, that are fetched ahead; by default as it is in a runtime
    #[arg(long)]
    prefetch: Option<usize>,
    /// How dispatchers are woken; by default as it is in a runtime
    #[arg(long)]
    wake_mode: Option<WakeMode>,
    /// What to measure, as JSON
    job: String,
}

/// Does a job and prints what was found as one line of JSON.
pub(crate) fn run(args: &SideArgs) -> Result<()> {
    let job = serde_json::from_str(&args.job).context("no job")?;
    // As the peers' program: one thread per core.
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    runtime.context("cannot start the runtime")?.block_on(measure(args, job))
}

async fn measure(args: &SideArgs, job: Job) -> Result<()> {
    let schema = args.schema.as_deref();
    let provider: Arc<dyn Provider> = match args.store.strip_prefix("sqlite:") {
        Some(path) => Arc::new(SqliteProvider::new_with_schema(path, schema).await?),
        None => Arc::new(PostgresProvider::new_with_schema(&args.store, schema).await?),
    };
    let ends = Ends::default();
    let told = ends.clone();
    let registry = Registry::builder()
        .orchestration(ORCHESTRATION, move |ctx, plan| fan_out(ctx, plan, told.clone()))
        .activity("step", step)
        .build()?;
    let options = RuntimeOptions {
        orchestration_concurrency: CONCURRENCY,
        worker_concurrency: CONCURRENCY,
        wake_mode: args.wake_mode,
        prefetch: args.prefetch.map_or_else(Prefetch::default, Prefetch::Fixed),
        ..RuntimeOptions::default()
    };
    let runtime = Runtime::start_with_options(provider, registry, options).await?;
    let engine = Ours { client: runtime.client() };
    let outcome = Driver::new(engine, ends).run(job).await?;
    say(&serde_json::to_string(&outcome)?);
    runtime.shutdown(Duration::from_secs(2)).await;
    Ok(())
}

#[derive(Clone)]
struct Ours {
    client: Client,
}

impl Engine for Ours {
    async fn start(&self, instance: String, plan: Plan) -> Result<()> {
        self.client.start(&instance, ORCHESTRATION, &plan).await?;
        Ok(())
    }

    async fn answer(&self, instance: String) -> Result<()> {
        let _: u32 = self.client.wait(&instance, PATIENCE).await?;
        Ok(())
    }
}

async fn step(_: ActivityContext, delay_ms: u64) -> Result<u64, FlowError> {
    if delay_ms > 0 {
        tokio::time::sleep(Duration::from_millis(delay_ms)).await;
    }
    Ok(delay_ms)
}

async fn fan_out(ctx: OrchestrationContext, plan: Plan, ends: Ends) -> Result<usize, FlowError> {
    let steps = (0..plan.activities).map(|_| ctx.call(step, plan.delay_ms));
    let done = try_join_all(steps).await?;
    ends.tell(ctx.instance().as_str());
    Ok(done.len())
}
