//! `wakeline queues` lists queues with message counts, or changes the options of one. It opens the
//! store directly and can be used while servers run on it.

use std::process::ExitCode;

use anyhow::bail;
use clap::{Args, Subcommand};
use serde_json::{Map, Value, json};
use wakeline_core::{OptionsPatch, QueueName};
use wakeline_store::{Page, PatchQueue, QueueCounts};

use crate::access::{StoreCommandArgs, cli_action, on_store, print};
use crate::config::UsageError;

/// Arguments of `wakeline queues`.
#[derive(Debug, Clone, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct QueuesArgs {
    #[command(subcommand)]
    command: Option<QueuesCommand>,
    #[command(flatten)]
    list: QueueListArgs,
}

/// Subcommands of `wakeline queues`.
#[derive(Debug, Clone, Subcommand)]
enum QueuesCommand {
    /// Change options of a queue, and print all its options. Options that are not given keep their
    /// values
    Configure(ConfigureArgs),
}

#[derive(Debug, Clone, Args)]
struct ConfigureArgs {
    /// Name of the queue
    #[arg(value_name = "QUEUE")]
    queue: String,
    /// Create the queue if it does not exist
    #[arg(long)]
    create: bool,
    /// Set the option unordered: pushes without a partition are distributed over 16 lanes, so that
    /// 16 consumers can work at the same time
    #[arg(long)]
    unordered: bool,
    /// An option and its value, with the option names of the HTTP API, like leaseTime=60; can be
    /// repeated
    #[arg(long = "set", value_name = "OPTION=VALUE")]
    set: Vec<String>,
    #[command(flatten)]
    common: StoreCommandArgs,
}

#[derive(Debug, Clone, Args)]
struct QueueListArgs {
    /// Only this queue
    #[arg(value_name = "QUEUE")]
    queue: Option<String>,
    /// Maximum number of queues
    #[arg(long, default_value = "1000", value_name = "COUNT")]
    limit: u32,
    /// Number of queues to skip
    #[arg(long, default_value = "0", value_name = "COUNT")]
    offset: u32,
    #[command(flatten)]
    common: StoreCommandArgs,
}

/// Runs `wakeline queues`.
pub(crate) fn run(args: QueuesArgs) -> anyhow::Result<ExitCode> {
    match args.command {
        Some(QueuesCommand::Configure(args)) => configure(args),
        None => list(args.list),
    }
}

fn queue_name(name: String) -> Result<QueueName, UsageError> {
    QueueName::new(name).map_err(|error| UsageError(format!("queue: {error}")))
}

fn configure(args: ConfigureArgs) -> anyhow::Result<ExitCode> {
    let queue = queue_name(args.queue)?;
    let options = options(&args.set, args.unordered)?;
    let name = queue.to_string();
    let command = PatchQueue { queue, namespace: None, task: None, options, create: args.create };
    on_store(&args.common, async |store| {
        let patched = cli_action("queue.configure", &name, "").during(store.patch(command)).await?;
        let Some((detail, _)) = patched else {
            bail!("there is no queue {name}: add --create to create it");
        };
        let options = wakeline_http::render_options(detail.options);
        let lines: Vec<String> = (options.as_object().into_iter().flatten())
            .map(|(name, value)| format!("{name}={value}"))
            .collect();
        print(&args.common, [json!({"queue": detail.queue.as_str(), "options": options})], lines);
        Ok(())
    })
}

/// Parses options of the command line. A value that is not JSON is a string, so that words need no
/// quotes.
fn options(set: &[String], unordered: bool) -> Result<OptionsPatch, UsageError> {
    let mut options = Map::new();
    for pair in set {
        let Some((name, text)) = pair.split_once('=') else {
            return Err(UsageError(format!("--set {pair}: write it like leaseTime=60")));
        };
        let value = serde_json::from_str(text).unwrap_or_else(|_| Value::String(text.to_owned()));
        options.insert(name.to_owned(), value);
    }
    if unordered {
        options.insert("unordered".to_owned(), Value::Bool(true));
    }
    if options.is_empty() {
        let text = "name at least one option: --unordered, or --set OPTION=VALUE";
        return Err(UsageError(text.to_owned()));
    }
    wakeline_http::parse_options(options).map_err(UsageError)
}

fn list(args: QueueListArgs) -> anyhow::Result<ExitCode> {
    let queue = args.queue.map(queue_name).transpose()?;
    let page = Page { limit: args.limit, offset: args.offset };
    on_store(&args.common, async |store| {
        let all = store.queue_counts(queue.as_ref(), page).await?;
        if let Some(queue) = queue.as_ref().filter(|_| all.is_empty() && page.offset == 0) {
            bail!("there is no queue {queue}: `wakeline queues` lists all queues");
        }
        let title = "QUEUE PARTITIONS TOTAL PENDING PROCESSING COMPLETED DEAD LOST".to_owned();
        let lines = std::iter::once(title).chain(all.iter().map(queue_line));
        print(&args.common, all.iter().map(queue_json), lines);
        Ok(())
    })
}

fn queue_json(one: &QueueCounts) -> Value {
    let counts = one.messages;
    json!({
        "queue": one.queue.as_str(),
        "namespace": one.namespace.as_ref().map(|name| name.as_str()),
        "task": one.task.as_ref().map(|name| name.as_str()),
        "partitions": one.partitions,
        "leases": one.leases,
        "total": counts.total,
        "pending": counts.pending,
        "processing": counts.processing,
        "failed": counts.retrying,
        "completed": counts.completed(),
        "deadLetter": counts.dead_letters,
        "expired": one.losses.expired,
        "evicted": one.losses.evicted,
        "dropped": one.losses.dropped,
    })
}

fn queue_line(one: &QueueCounts) -> String {
    let counts = one.messages;
    let lost = one.losses.expired + one.losses.evicted + one.losses.dropped;
    format!(
        "{} {} {} {} {} {} {} {lost}",
        one.queue,
        one.partitions,
        counts.total,
        counts.pending,
        counts.processing,
        counts.completed(),
        counts.dead_letters
    )
}
