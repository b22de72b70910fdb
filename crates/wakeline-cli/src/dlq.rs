//! `wakeline dlq list|show|redrive|job|purge`. They open the store directly and can be used while
//! servers run on it.
//!
//! # Invariants
//! * A command that changes or removes dead letters needs a filter, or `--all`.
//! * A redrive is a job in the store. This command only starts it; servers process it.

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::{Context as _, bail};
use clap::{Args, Subcommand};
use serde_json::{Value, json};
use wakeline_core::{
    DeadLetterId, GroupName, NameError, PartitionName, QueueName, RedriveId, Timestamp,
};
use wakeline_store::{
    Backend, DeadLetter, DeadLetterFilter, Page, Redrive, RedriveJob, RedriveState,
};

use crate::access::{cli_action, time};
use crate::config::{Secrets, ServeArgs, StoreArgs, UsageError};
use crate::{keys, print_line, store};

/// Subcommands of `wakeline dlq`.
#[derive(Debug, Clone, Subcommand)]
pub(crate) enum DlqCommand {
    /// List dead letters, newest first
    List(DlqListArgs),
    /// Show a dead letter with its payload
    Show(ShowArgs),
    /// Start a job in which the servers of the store deliver dead letters again
    Redrive(RedriveArgs),
    /// Show the progress of a redrive job, or cancel it
    Job(JobArgs),
    /// Remove dead letters permanently
    Purge(PurgeArgs),
}

/// Arguments of every `dlq` command: the store, its encryption keys and the output format.
#[derive(Debug, Clone, Args)]
pub(crate) struct DlqStoreArgs {
    /// TOML file with settings of the server; flags and environment take precedence over it
    #[arg(long, env = "WAKELINE_CONFIG", value_name = "PATH")]
    config: Option<PathBuf>,
    #[command(flatten)]
    store: StoreArgs,
    /// File with the keys of encrypted queues [default on SQLite: the file beside the database]
    #[arg(long, env = "WAKELINE_ENCRYPTION_KEY_FILE", value_name = "PATH")]
    encryption_key_file: Option<PathBuf>,
    /// Print JSON instead of text
    #[arg(long)]
    json: bool,
}

/// Filters of dead letters.
#[derive(Debug, Clone, Args)]
pub(crate) struct DeadLetterFilterArgs {
    /// Only dead letters of this queue
    #[arg(long, value_parser = queue_name)]
    queue: Option<QueueName>,
    /// Only dead letters of this consumer group
    #[arg(long, value_parser = group_name)]
    group: Option<GroupName>,
    /// Only dead letters of partitions with this name
    #[arg(long, value_parser = partition_name)]
    partition: Option<PartitionName>,
    /// Only messages that failed at or after this time, like 2026-01-31T12:00:00Z
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    from: Option<Timestamp>,
    /// Only messages that failed before this time
    #[arg(long, value_name = "TIME", value_parser = parse_time)]
    to: Option<Timestamp>,
    /// Only messages whose error contains this text
    #[arg(long, value_name = "TEXT")]
    error: Option<String>,
}

impl DeadLetterFilterArgs {
    fn filter(self, number: Option<DeadLetterId>) -> DeadLetterFilter {
        let Self { queue, group, partition, from, to, error } = self;
        DeadLetterFilter { number, queue, group, partition, from, to, error }
    }
}

/// Arguments of `wakeline dlq list`.
#[derive(Debug, Clone, Args)]
pub(crate) struct DlqListArgs {
    #[command(flatten)]
    which: DeadLetterFilterArgs,
    /// Maximum number of dead letters
    #[arg(long, default_value = "100", value_name = "COUNT")]
    limit: u32,
    /// Number of dead letters to skip
    #[arg(long, default_value = "0", value_name = "COUNT")]
    offset: u32,
    #[command(flatten)]
    store_args: DlqStoreArgs,
}

#[derive(Debug, Clone, Args)]
pub(crate) struct ShowArgs {
    /// The dead letter's id
    id: DeadLetterId,
    #[command(flatten)]
    store_args: DlqStoreArgs,
}

/// Arguments of `wakeline dlq redrive`.
#[derive(Debug, Clone, Args)]
pub(crate) struct RedriveArgs {
    /// Only the dead letter with this id
    id: Option<DeadLetterId>,
    #[command(flatten)]
    which: DeadLetterFilterArgs,
    /// All dead letters
    #[arg(long)]
    all: bool,
    /// Push the messages to this queue instead of delivering them to their groups again
    #[arg(long, value_name = "QUEUE", value_parser = queue_name)]
    to_queue: Option<QueueName>,
    /// Maximum number of messages per second
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    rate: Option<u32>,
    #[command(flatten)]
    store_args: DlqStoreArgs,
}

#[derive(Debug, Clone, Args)]
pub(crate) struct JobArgs {
    /// The job's id
    id: RedriveId,
    /// Cancel the job; messages that it has redriven already stay redriven
    #[arg(long)]
    cancel: bool,
    #[command(flatten)]
    store_args: DlqStoreArgs,
}

/// Arguments of `wakeline dlq purge`.
#[derive(Debug, Clone, Args)]
pub(crate) struct PurgeArgs {
    /// Only the dead letter with this id
    id: Option<DeadLetterId>,
    #[command(flatten)]
    which: DeadLetterFilterArgs,
    /// All dead letters
    #[arg(long)]
    all: bool,
    #[command(flatten)]
    store_args: DlqStoreArgs,
}

/// Runs `wakeline dlq`.
pub(crate) fn run(command: DlqCommand) -> anyhow::Result<ExitCode> {
    match command {
        DlqCommand::List(args) => {
            on_store(args.store_args.clone(), async |store| list(store.as_ref(), args).await)
        }
        DlqCommand::Show(args) => on_store(args.store_args.clone(), async |store| {
            let filter = DeadLetterFilter { number: Some(args.id), ..Default::default() };
            let found = store.dead_letters(filter, Page { limit: 1, offset: 0 }).await?;
            let letter = found.letters.first();
            let letter = letter.with_context(|| {
                format!("there is no dead letter {}: `wakeline dlq list` lists them", args.id)
            })?;
            show(&args.store_args, letter_json(letter), &letter_text(letter));
            Ok(())
        }),
        DlqCommand::Redrive(args) => {
            on_store(args.store_args.clone(), async |store| redrive(store.as_ref(), args).await)
        }
        DlqCommand::Job(args) => {
            on_store(args.store_args.clone(), async |store| job(store.as_ref(), args).await)
        }
        DlqCommand::Purge(args) => {
            let filter = require_filter(args.which.filter(args.id), args.all)?;
            on_store(args.store_args.clone(), async |store| {
                let purging = store.purge_dead_letters(filter.clone());
                let purged =
                    cli_action("dead_letter.purge", &target(&filter), "").during(purging).await?;
                if let Some(id) = args.id.filter(|_| purged == 0) {
                    bail!(
                        "there is no dead letter {id} that matches the other filters: `wakeline \
                         dlq list` lists them"
                    );
                }
                show(&args.store_args, json!({ "purged": purged }), &format!("purged  {purged}"));
                Ok(())
            })
        }
    }
}

async fn list(store: &dyn Backend, args: DlqListArgs) -> anyhow::Result<()> {
    let page = Page { limit: args.limit, offset: args.offset };
    let found = store.dead_letters(args.which.filter(None), page).await?;
    for letter in &found.letters {
        show(&args.store_args, letter_json(letter), &letter_line(letter));
    }
    if !args.store_args.json {
        print_line(&format!("{} of {}", found.letters.len(), found.total));
    }
    Ok(())
}

async fn redrive(store: &dyn Backend, args: RedriveArgs) -> anyhow::Result<()> {
    let filter = require_filter(args.which.filter(args.id), args.all)?;
    if let Some(id) = args.id {
        let found = store.dead_letters(filter.clone(), Page { limit: 1, offset: 0 }).await?;
        found.letters.first().with_context(|| {
            format!(
                "there is no dead letter {id} that matches the other filters: `wakeline dlq \
                 list` lists them"
            )
        })?;
    }
    let target = target(&filter);
    let (id, to_queue, rate) = (RedriveId::generate(), args.to_queue, args.rate);
    let starting = store.start_redrive(Redrive { id, filter, to_queue, rate });
    let (job, _) = cli_action("dead_letter.redrive", &target, "").during(starting).await?;
    show_job(&args.store_args, &job);
    Ok(())
}

async fn job(store: &dyn Backend, args: JobArgs) -> anyhow::Result<()> {
    let target = args.id.to_string();
    let found = if args.cancel {
        let cancelling = store.cancel_redrive(args.id);
        cli_action("dead_letter.redrive_cancel", &target, "").during(cancelling).await?
    } else {
        store.redrive_job(args.id).await?
    };
    show_job(
        &args.store_args,
        &found.with_context(|| {
            format!(
                "there is no redrive job {target}: `wakeline dlq redrive` prints the id of its job"
            )
        })?,
    );
    Ok(())
}

/// Refuses an empty filter, unless `--all` is given.
fn require_filter(filter: DeadLetterFilter, all: bool) -> Result<DeadLetterFilter, UsageError> {
    if filter == DeadLetterFilter::default() && !all {
        let text = "give the id of a dead letter, or a filter such as --queue, or --all";
        return Err(UsageError(text.to_owned()));
    }
    Ok(filter)
}

/// The target of the audit event: the id of a dead letter, or the queue of the filter.
fn target(filter: &DeadLetterFilter) -> String {
    let number = filter.number.as_ref().map(ToString::to_string);
    let queue = || filter.queue.as_ref().map(ToString::to_string);
    number.or_else(queue).unwrap_or_default()
}

/// Opens the store with its encryption keys, runs `work` on it and closes it.
fn on_store(
    store_args: DlqStoreArgs,
    work: impl AsyncFnOnce(Arc<dyn Backend>) -> anyhow::Result<()>,
) -> anyhow::Result<ExitCode> {
    let DlqStoreArgs { config, store: args, encryption_key_file, .. } = store_args;
    let serve = ServeArgs::for_store(config, args, encryption_key_file);
    let settings = serve.into_settings(Secrets::from_env())?;
    let runtime = tokio::runtime::Runtime::new().context("cannot start the runtime")?;
    runtime.block_on(async {
        store::require_existing(&settings.store).await?;
        let store = store::open_briefly(&settings.store).await?;
        let done = async {
            if let Some(encryption_keys) = keys::load(&settings, store.as_ref()).await? {
                store.use_keys(Arc::new(encryption_keys));
            }
            work(Arc::clone(&store)).await
        };
        let done = done.await;
        store.close().await;
        done.map(|()| ExitCode::SUCCESS)
    })
}

fn show(store_args: &DlqStoreArgs, value: Value, text: &str) {
    if store_args.json {
        print_line(&value.to_string());
    } else {
        print_line(text);
    }
}

fn letter_json(letter: &DeadLetter) -> Value {
    let payload = String::from_utf8_lossy(&letter.payload);
    json!({
        "deadLetterId": letter.number.to_string(),
        "id": letter.id.to_string(),
        "transactionId": letter.transaction_id.as_str(),
        "partitionId": letter.partition_id.to_string(),
        "queue": letter.queue.as_str(),
        "partition": letter.partition.as_str(),
        "consumerGroup": letter.group.as_str(),
        "errorMessage": letter.error,
        "retryCount": letter.failures,
        "data": serde_json::from_str::<Value>(&payload).unwrap_or_else(|_| json!(payload)),
        "traceId": letter.trace_id.map(|id| id.to_string()),
        "producerSub": letter.producer,
        "createdAt": time(letter.created_at),
        "failedAt": time(letter.failed_at),
    })
}

fn letter_line(letter: &DeadLetter) -> String {
    let partition = format!("{}/{}", letter.queue, letter.partition);
    let error = letter.error.as_deref().unwrap_or("no error was given");
    format!(
        "{}  {}  {partition:30} {:20} {}  {error}",
        letter.number,
        time(letter.failed_at),
        letter.group,
        letter.transaction_id
    )
}

fn letter_text(letter: &DeadLetter) -> String {
    format!(
        "{}\npushed  {} by {}\nfailed  {} times\npayload {}",
        letter_line(letter),
        time(letter.created_at),
        letter.producer.as_deref().unwrap_or("an unknown producer"),
        letter.failures,
        String::from_utf8_lossy(&letter.payload)
    )
}

fn show_job(store_args: &DlqStoreArgs, job: &RedriveJob) {
    let state = match job.state {
        RedriveState::Running => "running",
        RedriveState::Finished => "finished",
        RedriveState::Cancelled => "cancelled",
    };
    let RedriveJob { total, done, failed, .. } = job;
    let id = job.redrive.id.to_string();
    let value = json!({"job": id, "state": state, "total": total, "done": done, "failed": failed});
    show(store_args, value, &format!("{id}  {state}  {done} of {total} redriven, {failed} failed"));
}

fn queue_name(text: &str) -> Result<QueueName, NameError> {
    QueueName::new(text)
}

fn group_name(text: &str) -> Result<GroupName, NameError> {
    GroupName::new(text)
}

fn partition_name(text: &str) -> Result<PartitionName, NameError> {
    PartitionName::new(text)
}

fn parse_time(text: &str) -> Result<Timestamp, String> {
    let at: jiff::Timestamp = text.parse().map_err(|_| {
        format!("{text:?} must be a time with an offset, like 2026-01-31T12:00:00Z")
    })?;
    Ok(Timestamp(at.as_microsecond()))
}
