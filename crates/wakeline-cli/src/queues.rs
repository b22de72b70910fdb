//! `wakeline queues`: how queues stand, read from the store itself, also while servers run on it.

use std::process::ExitCode;

use anyhow::bail;
use clap::Args;
use serde_json::{Value, json};
use wakeline_core::QueueName;
use wakeline_store::{Page, QueueTally};

use crate::access::{Common, on_store, print};
use crate::config::ConfigMistake;

/// Which queues to list.
#[derive(Debug, Clone, Args)]
pub(crate) struct QueuesArgs {
    /// Only this queue
    #[arg(value_name = "QUEUE")]
    queue: Option<String>,
    /// At most so many
    #[arg(long, default_value = "1000", value_name = "COUNT")]
    limit: u32,
    /// After skipping so many
    #[arg(long, default_value = "0", value_name = "COUNT")]
    offset: u32,
    #[command(flatten)]
    common: Common,
}

/// Lists queues with message counts.
pub(crate) fn run(args: QueuesArgs) -> anyhow::Result<ExitCode> {
    let mistake = |error: wakeline_core::NameError| ConfigMistake(format!("queue: {error}"));
    let queue = args.queue.map(QueueName::new).transpose().map_err(mistake)?;
    let page = Page { limit: args.limit, offset: args.offset };
    on_store(&args.common, async |store| {
        let all = store.queue_tallies(queue.as_ref(), page).await?;
        if let Some(queue) = queue.as_ref().filter(|_| all.is_empty() && page.offset == 0) {
            bail!("there is no queue {queue}");
        }
        let title = "QUEUE PARTITIONS TOTAL PENDING PROCESSING COMPLETED DEAD LOST".to_owned();
        let lines = std::iter::once(title).chain(all.iter().map(queue_line));
        print(&args.common, all.iter().map(queue_json), lines);
        Ok(())
    })
}

fn queue_json(one: &QueueTally) -> Value {
    let tally = one.tally;
    json!({
        "queue": one.queue.as_str(),
        "namespace": one.namespace.as_ref().map(|name| name.as_str()),
        "task": one.task.as_ref().map(|name| name.as_str()),
        "partitions": one.partitions,
        "leases": one.leases,
        "total": tally.total,
        "pending": tally.pending,
        "processing": tally.processing,
        "failed": tally.retrying,
        "completed": tally.completed(),
        "deadLetter": tally.dead_letters,
        "expired": one.losses.expired,
        "evicted": one.losses.evicted,
        "dropped": one.losses.dropped,
    })
}

fn queue_line(one: &QueueTally) -> String {
    let tally = one.tally;
    let lost = one.losses.expired + one.losses.evicted + one.losses.dropped;
    format!(
        "{} {} {} {} {} {} {} {lost}",
        one.queue,
        one.partitions,
        tally.total,
        tally.pending,
        tally.processing,
        tally.completed(),
        tally.dead_letters
    )
}
