//! `wakeline queues`: how queues stand, and their options; on the store itself, also while servers
//! run on it.

use std::process::ExitCode;

use anyhow::bail;
use clap::{Args, Subcommand};
use serde_json::{Map, Value, json};
use wakeline_core::{OptionsPatch, QueueName};
use wakeline_store::{Page, PatchQueue, QueueTally};

use crate::access::{Common, deed, on_store, print};
use crate::config::ConfigMistake;

/// Which queues to list, or which to configure.
#[derive(Debug, Clone, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct QueuesArgs {
    #[command(subcommand)]
    command: Option<QueuesCommand>,
    #[command(flatten)]
    list: ListArgs,
}

/// What to do with a queue.
#[derive(Debug, Clone, Subcommand)]
enum QueuesCommand {
    /// Change options of a queue; those that are not named stay as they are. Prints all options
    Configure(ConfigureArgs),
}

#[derive(Debug, Clone, Args)]
struct ConfigureArgs {
    /// The queue
    #[arg(value_name = "QUEUE")]
    queue: String,
    /// Make the queue if there is none
    #[arg(long)]
    create: bool,
    /// Messages need no order: any number of consumers work at once (the option unordered)
    #[arg(long)]
    unordered: bool,
    /// An option and its value, named as over HTTP, like leaseTime=60; can be repeated
    #[arg(long = "set", value_name = "OPTION=VALUE")]
    set: Vec<String>,
    #[command(flatten)]
    common: Common,
}

#[derive(Debug, Clone, Args)]
struct ListArgs {
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

/// Lists queues with message counts, or configures one.
pub(crate) fn run(args: QueuesArgs) -> anyhow::Result<ExitCode> {
    match args.command {
        Some(QueuesCommand::Configure(args)) => configure(args),
        None => list(args.list),
    }
}

fn queue_name(name: String) -> Result<QueueName, ConfigMistake> {
    QueueName::new(name).map_err(|error| ConfigMistake(format!("queue: {error}")))
}

fn configure(args: ConfigureArgs) -> anyhow::Result<ExitCode> {
    let queue = queue_name(args.queue)?;
    let options = options(&args.set, args.unordered)?;
    let name = queue.to_string();
    let command = PatchQueue { queue, namespace: None, task: None, options, create: args.create };
    on_store(&args.common, async |store| {
        let patched = deed("queue.configure", &name, "").during(store.patch(command)).await?;
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

/// Options from the command line. What is no JSON is a text: no quotes are needed around a word.
fn options(set: &[String], unordered: bool) -> Result<OptionsPatch, ConfigMistake> {
    let mut options = Map::new();
    for pair in set {
        let Some((name, text)) = pair.split_once('=') else {
            return Err(ConfigMistake(format!("--set {pair}: write it like leaseTime=60")));
        };
        let value = serde_json::from_str(text).unwrap_or_else(|_| Value::String(text.to_owned()));
        options.insert(name.to_owned(), value);
    }
    if unordered {
        options.insert("unordered".to_owned(), Value::Bool(true));
    }
    if options.is_empty() {
        let text = "name at least one option: --unordered, or --set OPTION=VALUE";
        return Err(ConfigMistake(text.to_owned()));
    }
    wakeline_http::parse_options(options).map_err(ConfigMistake)
}

fn list(args: ListArgs) -> anyhow::Result<ExitCode> {
    let queue = args.queue.map(queue_name).transpose()?;
    let page = Page { limit: args.limit, offset: args.offset };
    on_store(&args.common, async |store| {
        let all = store.queue_tallies(queue.as_ref(), page).await?;
        if let Some(queue) = queue.as_ref().filter(|_| all.is_empty() && page.offset == 0) {
            bail!("there is no queue {queue}: `wakeline queues` lists all queues");
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
