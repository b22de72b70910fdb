//! A worker that runs the orchestration `order`, which uses all three APIs: it charges a card in an
//! activity, waits for an approval if the order is large, pushes a message to the queue
//! `shipments`, and sends the event `order.paid` to the webhook endpoints of the customer.
//!
//! ```text
//! cargo run --example order_worker -- --store sqlite:wakeline.db
//! cargo run --example order_worker -- --store postgres://USER@HOST/DATABASE [--schema NAME]
//! ```
//!
//! The worker shares its store with a server (`wakeline serve`), which starts instances and sends
//! events over HTTP. It ends when it receives SIGINT or SIGTERM.

use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::signal::unix::{SignalKind, signal};
use wakeline::provider::Provider;
use wakeline::{
    ActivityContext, FlowError, OrchestrationContext, PostgresProvider, QueueSend, Registry,
    Runtime, SqliteProvider,
};

/// Orders above this amount need an approval.
const APPROVAL_ABOVE: u32 = 1_000;
const APPROVAL_TIMEOUT: Duration = Duration::from_secs(3 * 24 * 3600);

#[derive(Debug, Clone, Serialize, Deserialize)]
struct Order {
    id: u32,
    customer: String,
    total: u32,
}

/// Runs at least once. The idempotency key is the same in every attempt, so a payment provider that
/// takes such keys charges the card once.
async fn charge(ctx: ActivityContext, order: Order) -> Result<String, FlowError> {
    Ok(format!("charged {} under the key {}", order.total, ctx.idempotency_key()))
}

async fn order(ctx: OrchestrationContext, order: Order) -> Result<String, FlowError> {
    if order.total > APPROVAL_ABOVE {
        ctx.set_status("waiting for approval");
        let answer = ctx.timeout(APPROVAL_TIMEOUT, ctx.event::<bool>("approved")).await;
        let is_approved = answer.transpose()? == Some(true);
        ctx.clear_status();
        if !is_approved {
            return Ok(format!("order {} was not approved", order.id));
        }
    }
    ctx.call(charge, order.clone()).attempts(5).await?;
    // Both are stored in the commit of this turn: exactly once, even after a crash.
    ctx.push(QueueSend::to("shipments").partition(&order.customer), &order)?;
    ctx.emit(&order.customer, "order.paid", &order)?;
    Ok(format!("order {} is paid", order.id))
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let (store, schema) = match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["--store", store] => (store, None),
        ["--store", store, "--schema", schema] => (store, Some(schema)),
        _ => return Err("usage: --store sqlite:PATH|postgres://... [--schema NAME]".into()),
    };
    let provider: Arc<dyn Provider> = match store.strip_prefix("sqlite:") {
        Some(path) => Arc::new(SqliteProvider::new_with_schema(path, schema).await?),
        None => Arc::new(PostgresProvider::new_with_schema(store, schema).await?),
    };
    let registry =
        Registry::builder().orchestration("order", order).activity("charge", charge).build()?;
    let (mut terminate, mut interrupt) =
        (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    let runtime = Runtime::start(provider.clone(), registry).await?;
    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
    runtime.shutdown(Duration::from_secs(10)).await;
    provider.close().await;
    Ok(())
}
