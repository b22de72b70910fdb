//! Compares serial activities of an instance with a long history and of a new one: the cost of a
//! turn must not depend on the length of the history.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use tokio::sync::mpsc;
use wakeline::provider::Provider;
use wakeline::{
    ActivityContext, FlowError, OrchestrationContext, PostgresProvider, Registry, Runtime,
    SqliteProvider,
};

use super::SideName;

/// Number of events in the long history.
pub(super) const EVENTS: u32 = 100_000;
/// Number of activities that are measured.
pub(super) const ACTIVITIES: u32 = 300;
/// Events of each turn that builds the history.
const EVENTS_PER_TURN: u32 = 1_000;
/// An instance that takes longer has failed.
const INSTANCE_TIMEOUT: Duration = Duration::from_secs(300);

/// How long the activities took in one round, in seconds.
#[derive(Debug, Clone, Copy)]
pub(super) struct Serial {
    pub(super) fresh: f64,
    pub(super) after_events: f64,
}

/// Measures both stores, with a new and a long history in turn.
pub(super) async fn measure(
    url: &str,
    file: &Path,
    rounds: usize,
) -> Result<Vec<(SideName, Vec<Serial>)>> {
    let postgres = PostgresProvider::new_with_schema(url, Some("flow")).await?;
    let sqlite = SqliteProvider::new(file).await?;
    Ok(vec![
        (SideName::Postgres, on(Arc::new(postgres), rounds).await?),
        (SideName::Sqlite, on(Arc::new(sqlite), rounds).await?),
    ])
}

async fn on(provider: Arc<dyn Provider>, rounds: usize) -> Result<Vec<Serial>> {
    let (report, mut durations) = mpsc::unbounded_channel();
    let serial = move |ctx, events| serial(ctx, events, report.clone());
    let registry = Registry::builder().orchestration("serial", serial).activity("step", step);
    let runtime = Runtime::start(provider, registry.build()?).await?;
    let client = runtime.client();
    let mut measured = Vec::new();
    for round in 0..rounds.max(1) {
        let mut took = [0.0; 2];
        for (index, events) in [0, EVENTS].into_iter().enumerate() {
            let instance = format!("serial-{}-{round}-{events}", std::process::id());
            client.start(&instance, "serial", &events).await?;
            let () = client.wait(&instance, INSTANCE_TIMEOUT).await?;
            took[index] = durations.recv().await.context("the duration was not reported")?;
            client.delete(&instance, false).await?;
        }
        measured.push(Serial { fresh: took[0], after_events: took[1] });
    }
    runtime.shutdown(Duration::from_secs(2)).await;
    Ok(measured)
}

async fn step(_: ActivityContext, (): ()) -> Result<(), FlowError> {
    Ok(())
}

/// Reports how long its activities took. The instance stays in memory, so that the code runs once
/// and may use the ordinary clock.
async fn serial(
    ctx: OrchestrationContext,
    events: u32,
    report: mpsc::UnboundedSender<f64>,
) -> Result<(), FlowError> {
    for n in 0..events {
        ctx.set_status(n.to_string());
        if n % EVENTS_PER_TURN == 0 {
            ctx.activity::<_, ()>("step", ()).await?;
        }
    }
    let began = Instant::now();
    for _ in 0..ACTIVITIES {
        ctx.activity::<_, ()>("step", ()).await?;
    }
    let _ = report.send(began.elapsed().as_secs_f64());
    Ok(())
}
