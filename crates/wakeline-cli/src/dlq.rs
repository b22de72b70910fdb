//! `wakeline dlq list|show|redrive|job|purge`: on the store itself, also while servers run on it.
//!
//! # Invariants
//! * What changes or removes dead letters says which: without a filter only with `--all`.
//! * A redrive is a job of the store. Servers carry it on; this only starts it.

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
    DeadLetter, DeadLetterFilter, Page, Redrive, RedriveJob, RedriveState, WholeStore,
};

use crate::access::{deed, time};
use crate::config::{ConfigMistake, Secrets, ServeArgs, StoreArgs};
use crate::{keys, say, store};

/// What to do with dead letters.
#[derive(Debug, Clone, Subcommand)]
pub(crate) enum DlqCommand {
    /// List them, newest first
    List(ListArgs),
    /// Show one with its payload
    Show(ShowArgs),
    /// Deliver them again: starts a job that the servers of the store carry on
    Redrive(RedriveArgs),
    /// Say how far such a job is, or stop it
    Job(JobArgs),
    /// Remove them for good
    Purge(PurgeArgs),
}

/// Which store, its keys, and how to print.
#[derive(Debug, Clone, Args)]
pub(crate) struct Place {
    /// TOML file with settings of the server; flags and environment go before it
    #[arg(long, env = "WAKELINE_CONFIG", value_name = "PATH")]
    config: Option<PathBuf>,
    #[command(flatten)]
    store: StoreArgs,
    /// File with keys, for encrypted queues [default on SQLite: the one beside the database]
    #[arg(long, env = "WAKELINE_ENCRYPTION_KEY_FILE", value_name = "PATH")]
    encryption_key_file: Option<PathBuf>,
    /// Print JSON
    #[arg(long)]
    json: bool,
}

/// Which dead letters.
#[derive(Debug, Clone, Args)]
pub(crate) struct Which {
    /// Only of this queue
    #[arg(long, value_parser = queue_name)]
    queue: Option<QueueName>,
    /// Only of this consumer group
    #[arg(long, value_parser = group_name)]
    group: Option<GroupName>,
    /// Only of partitions of this name
    #[arg(long, value_parser = partition_name)]
    partition: Option<PartitionName>,
    /// Only those given up at or after this time, like 2026-01-31T12:00:00Z
    #[arg(long, value_name = "TIME", value_parser = moment)]
    from: Option<Timestamp>,
    /// Only those given up before this time
    #[arg(long, value_name = "TIME", value_parser = moment)]
    to: Option<Timestamp>,
    /// Only those with this in their error
    #[arg(long, value_name = "TEXT")]
    error: Option<String>,
}

impl Which {
    fn filter(self, number: Option<DeadLetterId>) -> DeadLetterFilter {
        let Self { queue, group, partition, from, to, error } = self;
        DeadLetterFilter { number, queue, group, partition, from, to, error }
    }
}

#[derive(Debug, Clone, Args)]
pub(crate) struct ListArgs {
    #[command(flatten)]
    which: Which,
    /// At most so many
    #[arg(long, default_value = "100", value_name = "COUNT")]
    limit: u32,
    /// After skipping so many
    #[arg(long, default_value = "0", value_name = "COUNT")]
    offset: u32,
    #[command(flatten)]
    place: Place,
}

#[derive(Debug, Clone, Args)]
pub(crate) struct ShowArgs {
    /// The dead letter's id
    id: DeadLetterId,
    #[command(flatten)]
    place: Place,
}

#[derive(Debug, Clone, Args)]
pub(crate) struct RedriveArgs {
    /// Only this one
    id: Option<DeadLetterId>,
    #[command(flatten)]
    which: Which,
    /// All of them
    #[arg(long)]
    all: bool,
    /// Push them to this queue instead of giving them back to their groups
    #[arg(long, value_name = "QUEUE", value_parser = queue_name)]
    to_queue: Option<QueueName>,
    /// At most so many a second
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    rate: Option<u32>,
    #[command(flatten)]
    place: Place,
}

#[derive(Debug, Clone, Args)]
pub(crate) struct JobArgs {
    /// The job's id
    id: RedriveId,
    /// Stop it; what it has redriven stays so
    #[arg(long)]
    cancel: bool,
    #[command(flatten)]
    place: Place,
}

#[derive(Debug, Clone, Args)]
pub(crate) struct PurgeArgs {
    /// Only this one
    id: Option<DeadLetterId>,
    #[command(flatten)]
    which: Which,
    /// All of them
    #[arg(long)]
    all: bool,
    #[command(flatten)]
    place: Place,
}

/// Runs a command about dead letters.
pub(crate) fn run(command: DlqCommand) -> anyhow::Result<ExitCode> {
    match command {
        DlqCommand::List(args) => {
            on_store(args.place.clone(), async |store| list(store.as_ref(), args).await)
        }
        DlqCommand::Show(args) => on_store(args.place.clone(), async |store| {
            let filter = DeadLetterFilter { number: Some(args.id), ..Default::default() };
            let found = store.dead_letters(filter, Page { limit: 1, offset: 0 }).await?;
            let letter = found.letters.first();
            let letter = letter.with_context(|| {
                format!("there is no dead letter {}: `wakeline dlq list` lists them", args.id)
            })?;
            show(&args.place, letter_json(letter), &letter_text(letter));
            Ok(())
        }),
        DlqCommand::Redrive(args) => {
            on_store(args.place.clone(), async |store| redrive(store.as_ref(), args).await)
        }
        DlqCommand::Job(args) => {
            on_store(args.place.clone(), async |store| job(store.as_ref(), args).await)
        }
        DlqCommand::Purge(args) => {
            let filter = meant(args.which.filter(args.id), args.all)?;
            on_store(args.place.clone(), async |store| {
                let purging = store.purge_dead_letters(filter.clone());
                let purged =
                    deed("dead_letter.purge", &target(&filter), "").during(purging).await?;
                if let Some(id) = args.id.filter(|_| purged == 0) {
                    bail!(
                        "there is no dead letter {id} that matches the other filters: `wakeline \
                         dlq list` lists them"
                    );
                }
                show(&args.place, json!({ "purged": purged }), &format!("purged  {purged}"));
                Ok(())
            })
        }
    }
}

async fn list(store: &dyn WholeStore, args: ListArgs) -> anyhow::Result<()> {
    let page = Page { limit: args.limit, offset: args.offset };
    let found = store.dead_letters(args.which.filter(None), page).await?;
    for letter in &found.letters {
        show(&args.place, letter_json(letter), &letter_line(letter));
    }
    if !args.place.json {
        say(&format!("{} of {}", found.letters.len(), found.total));
    }
    Ok(())
}

async fn redrive(store: &dyn WholeStore, args: RedriveArgs) -> anyhow::Result<()> {
    let filter = meant(args.which.filter(args.id), args.all)?;
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
    let (job, _) = deed("dead_letter.redrive", &target, "").during(starting).await?;
    tell_job(&args.place, &job);
    Ok(())
}

async fn job(store: &dyn WholeStore, args: JobArgs) -> anyhow::Result<()> {
    let target = args.id.to_string();
    let found = match args.cancel {
        true => {
            let cancelling = store.cancel_redrive(args.id);
            deed("dead_letter.redrive_cancel", &target, "").during(cancelling).await?
        }
        false => store.redrive_job(args.id).await?,
    };
    tell_job(
        &args.place,
        &found.with_context(|| {
            format!(
                "there is no redrive job {target}: `wakeline dlq redrive` prints the id of its job"
            )
        })?,
    );
    Ok(())
}

/// An empty filter must be meant.
fn meant(filter: DeadLetterFilter, all: bool) -> Result<DeadLetterFilter, ConfigMistake> {
    if filter == DeadLetterFilter::default() && !all {
        let text =
            "name a dead letter or a filter such as --queue, or use --all for all dead letters";
        return Err(ConfigMistake(text.to_owned()));
    }
    Ok(filter)
}

/// What the audit says that was meant: one by its id, or those of a queue.
fn target(filter: &DeadLetterFilter) -> String {
    let number = filter.number.as_ref().map(ToString::to_string);
    let queue = || filter.queue.as_ref().map(ToString::to_string);
    number.or_else(queue).unwrap_or_default()
}

/// Opens the store with its keys, does something with it, and closes it.
fn on_store(
    place: Place,
    work: impl AsyncFnOnce(Arc<dyn WholeStore>) -> anyhow::Result<()>,
) -> anyhow::Result<ExitCode> {
    let Place { config, store: args, encryption_key_file, .. } = place;
    let serve = ServeArgs::over_store(config, args, encryption_key_file);
    let settings = serve.settle(Secrets::from_env())?;
    let runtime = tokio::runtime::Runtime::new().context("cannot start the runtime")?;
    runtime.block_on(async {
        store::require_existing(&settings.store).await?;
        let store = store::open_briefly(&settings.store).await?;
        let done = async {
            if let Some(ring) = keys::ring(&settings, store.as_ref()).await? {
                store.use_keys(Arc::new(ring));
            }
            work(Arc::clone(&store)).await
        };
        let done = done.await;
        store.close().await;
        done.map(|()| ExitCode::SUCCESS)
    })
}

fn show(place: &Place, value: Value, text: &str) {
    match place.json {
        true => say(&value.to_string()),
        false => say(text),
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
    let place = format!("{}/{}", letter.queue, letter.partition);
    let error = letter.error.as_deref().unwrap_or("no error was given");
    format!(
        "{}  {}  {place:30} {:20} {}  {error}",
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

fn tell_job(place: &Place, job: &RedriveJob) {
    let state = match job.state {
        RedriveState::Running => "running",
        RedriveState::Finished => "finished",
        RedriveState::Cancelled => "cancelled",
    };
    let RedriveJob { total, done, failed, .. } = job;
    let id = job.redrive.id.to_string();
    let value = json!({"job": id, "state": state, "total": total, "done": done, "failed": failed});
    show(place, value, &format!("{id}  {state}  {done} of {total} redriven, {failed} failed"));
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

fn moment(text: &str) -> Result<Timestamp, String> {
    let at: jiff::Timestamp = text.parse().map_err(|_| {
        format!("{text:?} must be a time with an offset, like 2026-01-31T12:00:00Z")
    })?;
    Ok(Timestamp(at.as_microsecond()))
}
