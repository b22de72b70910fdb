//! The Wakeline side of the flow benchmark. It runs in a separate process, like the peers.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use clap::Args;
use wakeline::provider::Provider;
use wakeline::{
    ActivityContext, Client, FlowError, OrchestrationContext, PostgresProvider, Prefetch, Registry,
    Runtime, RuntimeOptions, SqliteProvider, WakeMode, try_join_all,
};

use super::drive::{
    CONCURRENCY, Ends, Engine, FlowDriver, Job, ORCHESTRATION, ORCHESTRATION_TIMEOUT, Plan,
};
use crate::table::print_line;

/// Settings of the Wakeline side.
#[derive(Args)]
pub(crate) struct SideArgs {
    /// postgres://USER@HOST/DATABASE or sqlite:PATH
    #[arg(long)]
    store: String,
    /// Schema on PostgreSQL
    #[arg(long)]
    schema: Option<String>,
    /// Number of turns and of activities to prefetch [default: that of the runtime]
    #[arg(long)]
    prefetch: Option<usize>,
    /// How dispatchers are woken [default: that of the runtime]
    #[arg(long)]
    wake_mode: Option<WakeMode>,
    /// What to measure, as JSON
    job: String,
}

/// Runs a job, and prints its result as one line of JSON.
pub(crate) fn run(args: &SideArgs) -> Result<()> {
    let job = serde_json::from_str(&args.job).context("no job")?;
    // One thread per core, as in the program for the peers.
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
    let reporter = ends.clone();
    let registry = Registry::builder()
        .orchestration(ORCHESTRATION, move |ctx, plan| fan_out(ctx, plan, reporter.clone()))
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
    let outcome = FlowDriver::new(engine, ends).run(job).await?;
    print_line(&serde_json::to_string(&outcome)?);
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
        let _: u32 = self.client.wait(&instance, ORCHESTRATION_TIMEOUT).await?;
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
    ends.report(ctx.instance().as_str());
    Ok(done.len())
}
