//! `wakeline key create|list|revoke|rotate` and `wakeline audit`: on the store itself, also while
//! servers run on it.
//!
//! # Invariants
//! * A secret is printed once, when it is made.

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, bail};
use clap::{Args, Subcommand};
use serde_json::{Value, json};
use wakeline_access::{Access, AccessOptions, KeyRequest, MintedKey};
use wakeline_core::{Scope, Timestamp};
use wakeline_store::{ApiKey, AuditEntry, AuditFilter, Deed, WholeStore};

use crate::config::StorePlace;
use crate::{say, store};

/// What to do with keys.
#[derive(Debug, Clone, Subcommand)]
pub(crate) enum KeyCommand {
    /// Make a key and print it, this once
    Create(CreateArgs),
    /// List all keys, ended ones too
    List(ListArgs),
    /// End a key for good
    Revoke(RevokeArgs),
    /// Give a key another secret and print it, this once
    Rotate(RotateArgs),
}

/// Which store, and how to print.
#[derive(Debug, Clone, Args)]
pub(crate) struct Common {
    #[command(flatten)]
    pub(crate) place: StorePlace,
    /// Print JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Clone, Args)]
pub(crate) struct CreateArgs {
    /// What people call it
    #[arg(long)]
    name: String,
    /// What it allows, like queue:push:orders.* or flow:*:* or *:read:*; can be repeated
    #[arg(long = "scope", value_name = "FACE:VERB:NAME", required = true)]
    scopes: Vec<Scope>,
    /// How long it is valid, like 90d or 12h [default: for ever]
    #[arg(long, value_name = "SPAN", value_parser = span)]
    expires: Option<Duration>,
    #[command(flatten)]
    common: Common,
}

#[derive(Debug, Clone, Args)]
pub(crate) struct ListArgs {
    #[command(flatten)]
    common: Common,
}

#[derive(Debug, Clone, Args)]
pub(crate) struct RevokeArgs {
    /// The key's id or name
    #[arg(value_name = "ID_OR_NAME")]
    key: String,
    #[command(flatten)]
    common: Common,
}

#[derive(Debug, Clone, Args)]
pub(crate) struct RotateArgs {
    /// The key's id or name
    #[arg(value_name = "ID_OR_NAME")]
    key: String,
    /// How long the secret that it has stays valid
    #[arg(long, value_name = "SPAN", value_parser = span, default_value = "24h")]
    overlap: Duration,
    #[command(flatten)]
    common: Common,
}

/// Which administrative acts to list.
#[derive(Debug, Clone, Args)]
pub(crate) struct AuditArgs {
    /// Only of this actor, like key:NAME
    #[arg(long)]
    actor: Option<String>,
    /// Only this act, like queue.delete
    #[arg(long)]
    act: Option<String>,
    /// Only of this target
    #[arg(long)]
    target: Option<String>,
    /// Only before this number
    #[arg(long, value_name = "NUMBER")]
    before: Option<i64>,
    /// At most so many
    #[arg(long, default_value = "100", value_name = "COUNT")]
    limit: u32,
    #[command(flatten)]
    common: Common,
}

/// Runs a command about keys.
pub(crate) fn run_key(command: KeyCommand) -> anyhow::Result<ExitCode> {
    match command {
        KeyCommand::Create(args) => {
            // A first key may be there before the first server.
            let choice = args.common.place.choice()?;
            with_store(
                async |store| create(store, args).await,
                async || store::open_briefly(&choice).await,
            )
        }
        KeyCommand::List(args) => on_store(&args.common, async |store| {
            let keys = store.keys().await?;
            print(&args.common, keys.iter().map(key_json), keys.iter().map(key_line));
            Ok(())
        }),
        KeyCommand::Revoke(args) => on_store(&args.common, async |store| {
            let id = live_key(store.as_ref(), &args.key).await?;
            let access = Access::start(store, AccessOptions::default()).await?;
            if !deed("key.revoke", &id, "").during(access.revoke_key(&id)).await? {
                bail!("the key {id} expired or was revoked in the meantime: create another one");
            }
            print(&args.common, [json!({"id": id, "revoked": true})], [format!("revoked {id}")]);
            Ok(())
        }),
        KeyCommand::Rotate(args) => on_store(&args.common, async |store| {
            let id = live_key(store.as_ref(), &args.key).await?;
            let access = Access::start(store, AccessOptions::default()).await?;
            let rotating = access.rotate_key(&id, args.overlap);
            let minted = deed("key.rotate", &id, "").during(rotating).await?;
            show(
                &args.common,
                &minted.with_context(|| {
                    format!(
                        "the key {id} expired or was revoked in the meantime: create \
                         another one"
                    )
                })?,
            );
            Ok(())
        }),
    }
}

/// The id of a live key that somebody named by its id or its name.
async fn live_key(store: &dyn WholeStore, named: &str) -> anyhow::Result<String> {
    let keys = store.keys().await?;
    if let Some(key) = keys.iter().find(|key| key.id == named) {
        return match state(key) {
            "live" => Ok(key.id.clone()),
            ended => bail!("the key {named} is {ended}: `wakeline key list` shows the active keys"),
        };
    }
    let by_name = keys.iter().find(|key| key.name == named && state(key) == "live");
    let key = by_name.with_context(|| {
        format!("no active key has the id or name {named:?}: `wakeline key list` shows all keys")
    })?;
    Ok(key.id.clone())
}

/// Lists administrative acts.
pub(crate) fn run_audit(args: AuditArgs) -> anyhow::Result<ExitCode> {
    let AuditArgs { actor, act, target, before, limit, common } = args;
    let filter = AuditFilter { before, actor, act, target, limit };
    on_store(&common, async |store| {
        let entries = store.audit(filter).await?;
        print(&common, entries.iter().map(entry_json), entries.iter().map(entry_line));
        Ok(())
    })
}

async fn create(store: Arc<dyn WholeStore>, args: CreateArgs) -> anyhow::Result<()> {
    let texts: Vec<_> = args.scopes.iter().map(Scope::to_string).collect();
    let access = Access::start(store, AccessOptions::default()).await?;
    let first = access.is_open();
    let (name, scopes) = (args.name.clone(), args.scopes);
    let making = access.create_key(KeyRequest { name, scopes, valid_for: args.expires });
    let minted = deed("key.create", &args.name, &texts.join(" ")).during(making).await?;
    let minted = minted.with_context(|| {
        format!(
            "an active key has the name {:?} already: use another name, or `wakeline key rotate`",
            args.name
        )
    })?;
    show(&args.common, &minted);
    if first && !args.common.json {
        say("note    this is the first key: running servers require one after a restart");
    }
    Ok(())
}

pub(crate) fn deed(act: &'static str, target: &str, detail: &str) -> Deed {
    let (target, detail) = (target.to_owned(), detail.to_owned());
    Deed { actor: "cli".to_owned(), act, target, detail }
}

/// Opens a store that exists, does something with it, and closes it.
pub(crate) fn on_store(
    common: &Common,
    work: impl AsyncFnOnce(Arc<dyn WholeStore>) -> anyhow::Result<()>,
) -> anyhow::Result<ExitCode> {
    let choice = common.place.choice()?;
    with_store(work, async || {
        store::require_existing(&choice).await?;
        store::open_briefly(&choice).await
    })
}

fn with_store(
    work: impl AsyncFnOnce(Arc<dyn WholeStore>) -> anyhow::Result<()>,
    open: impl AsyncFnOnce() -> anyhow::Result<Arc<dyn WholeStore>>,
) -> anyhow::Result<ExitCode> {
    let runtime = tokio::runtime::Runtime::new().context("cannot start the runtime")?;
    runtime.block_on(async {
        let store = open().await?;
        let done = work(Arc::clone(&store)).await;
        store.close().await;
        done.map(|()| ExitCode::SUCCESS)
    })
}

fn show(common: &Common, minted: &MintedKey) {
    let lines = [format!("id      {}", minted.id), format!("key     {}", minted.text)];
    match common.json {
        true => print(common, [json!({"id": minted.id, "key": minted.text})], lines),
        false => {
            lines.iter().for_each(|line| say(line));
            say("        store it now: it is not shown again");
        }
    }
}

pub(crate) fn print(
    common: &Common,
    values: impl IntoIterator<Item = Value>,
    lines: impl IntoIterator<Item = String>,
) {
    match common.json {
        true => values.into_iter().for_each(|value| say(&value.to_string())),
        false => lines.into_iter().for_each(|line| say(&line)),
    }
}

fn state(key: &ApiKey) -> &'static str {
    match (key.revoked_at, key.expires_at) {
        (Some(_), _) => "revoked",
        (None, Some(end)) if end <= key.read_at => "expired",
        (None, _) => "live",
    }
}

fn key_json(key: &ApiKey) -> Value {
    json!({
        "id": key.id,
        "name": key.name,
        "scopes": key.scopes.iter().map(Scope::to_string).collect::<Vec<_>>(),
        "state": state(key),
        "createdAt": time(key.created_at),
        "expiresAt": key.expires_at.map(time),
        "lastUsedAt": key.last_used_at.map(time),
        "revokedAt": key.revoked_at.map(time),
    })
}

fn key_line(key: &ApiKey) -> String {
    let scopes: Vec<_> = key.scopes.iter().map(Scope::to_string).collect();
    let used =
        key.last_used_at.map_or_else(|| "never used".to_owned(), |at| format!("used {}", time(at)));
    format!("{}  {:8} {:20} {used}  {}", key.id, state(key), key.name, scopes.join(" "))
}

fn entry_json(entry: &AuditEntry) -> Value {
    let AuditEntry { number, at, actor, act, target, detail } = entry;
    json!({"number": number, "at": time(*at), "actor": actor, "act": act, "target": target,
        "detail": detail})
}

fn entry_line(entry: &AuditEntry) -> String {
    let AuditEntry { number, at, actor, act, target, detail } = entry;
    format!("{number:6}  {}  {actor:20} {act:22} {target}  {detail}", time(*at))
}

pub(crate) fn time(at: Timestamp) -> String {
    match jiff::Timestamp::from_microsecond(at.0) {
        Ok(at) => format!("{at:.0}"),
        Err(_) => at.0.to_string(),
    }
}

/// A span like 90d, 12h, 30m, 45s, 2w.
fn span(text: &str) -> Result<Duration, String> {
    let wrong = || format!("{text:?} must be a number followed by s, m, h, d or w, like 90d");
    let split = text.len().saturating_sub(1);
    let (number, unit) = text.split_at_checked(split).ok_or_else(wrong)?;
    let secs = match unit {
        "s" => 1,
        "m" => 60,
        "h" => 3600,
        "d" => 86_400,
        "w" => 7 * 86_400,
        _ => return Err(wrong()),
    };
    let number: u64 = number.parse().map_err(|_| wrong())?;
    number.checked_mul(secs).map(Duration::from_secs).ok_or_else(wrong)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spans_are_numbers_with_a_unit() {
        assert_eq!(span("90d"), Ok(Duration::from_secs(90 * 86_400)));
        assert_eq!(span("0s"), Ok(Duration::ZERO));
        for wrong in ["", "d", "90", "9 d", "-1d", "1y", "99999999999999999999d", "1é"] {
            assert!(span(wrong).is_err(), "{wrong}");
        }
    }
}
