//! Runs the published providers of duroxide for the flow benchmark, like Wakeline itself.
//!
//! # Where it sits
//! Started by `wakeline-bench flow`, once per job:
//! `wakeline-bench-peers pg|pg-opt URL SCHEMA JOB`. It prints the result as one line of JSON.
//!
//! # Invariants
//! * The settings are the defaults of the peers. Only the numbers of dispatchers and the log level
//!   are set.

#[path = "../../src/flow/drive.rs"]
mod drive;

use std::io::Write as _;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use duroxide::providers::Provider;
use duroxide::runtime::registry::ActivityRegistry;
use duroxide::runtime::{ObservabilityConfig, Runtime, RuntimeOptions};
use duroxide::{
    ActivityContext, Client, OrchestrationContext, OrchestrationRegistry, OrchestrationStatus,
};

use crate::drive::{
    CONCURRENCY, Ends, Engine, FlowDriver, ORCHESTRATION, ORCHESTRATION_TIMEOUT, Plan,
};

/// The name of the activity.
const ACTIVITY: &str = "step";

#[tokio::main]
async fn main() -> Result<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [peer, url, schema, job] = words.as_slice() else {
        bail!("usage: wakeline-bench-peers pg|pg-opt URL SCHEMA JOB");
    };
    let job = serde_json::from_str(job).context("no job")?;
    let provider: Arc<dyn Provider> = match peer.as_str() {
        "pg" => Arc::new(duroxide_pg::PostgresProvider::new_with_schema(url, Some(schema)).await?),
        "pg-opt" => {
            Arc::new(duroxide_pg_opt::PostgresProvider::new_with_schema(url, Some(schema)).await?)
        }
        other => bail!("there is no peer {other}"),
    };
    let ends = Ends::default();
    let options = RuntimeOptions {
        orchestration_concurrency: CONCURRENCY,
        worker_concurrency: CONCURRENCY,
        observability: ObservabilityConfig {
            log_level: "error".to_owned(),
            ..ObservabilityConfig::default()
        },
        ..RuntimeOptions::default()
    };
    let activities = ActivityRegistry::builder().register(ACTIVITY, step).build();
    let reporter = ends.clone();
    let orchestrations = OrchestrationRegistry::builder()
        .register(ORCHESTRATION, move |ctx, input| fan_out(ctx, input, reporter.clone()))
        .build();
    let runtime =
        Runtime::start_with_options(Arc::clone(&provider), activities, orchestrations, options)
            .await;
    let engine = BenchPeer { client: Arc::new(Client::new(provider)) };
    let outcome = FlowDriver::new(engine, ends).run(job).await?;
    writeln!(std::io::stdout(), "{}", serde_json::to_string(&outcome)?)?;
    runtime.shutdown(Some(2_000)).await;
    Ok(())
}

#[derive(Clone)]
struct BenchPeer {
    client: Arc<Client>,
}

impl Engine for BenchPeer {
    async fn start(&self, instance: String, plan: Plan) -> Result<()> {
        let input = serde_json::to_string(&plan)?;
        Ok(self.client.start_orchestration(instance, ORCHESTRATION, input).await?)
    }

    async fn answer(&self, instance: String) -> Result<()> {
        match self.client.wait_for_orchestration(&instance, ORCHESTRATION_TIMEOUT).await? {
            OrchestrationStatus::Completed { .. } => Ok(()),
            other => bail!("{instance} is {other:?}"),
        }
    }
}

async fn step(_: ActivityContext, input: String) -> Result<String, String> {
    let delay_ms: u64 = input.parse().map_err(|_| "no number".to_owned())?;
    if delay_ms > 0 {
        tokio::time::sleep(Duration::from_millis(delay_ms)).await;
    }
    Ok(input)
}

async fn fan_out(ctx: OrchestrationContext, input: String, ends: Ends) -> Result<String, String> {
    let plan: Plan = serde_json::from_str(&input).map_err(|error| error.to_string())?;
    let steps = (0..plan.activities)
        .map(|_| ctx.schedule_activity(ACTIVITY, plan.delay_ms.to_string()))
        .collect();
    let mut done = 0;
    for result in ctx.join(steps).await {
        result?;
        done += 1;
    }
    ends.report(&ctx.instance_id());
    Ok(done.to_string())
}
