//! `wakeline key create|list|revoke|rotate` and `wakeline audit`. They open the store directly and
//! can be used while servers run on it.
//!
//! # Invariants
//! * A secret is printed once, when it is created.

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, bail};
use clap::{Args, Subcommand};
use serde_json::{Value, json};
use wakeline_access::{Access, AccessOptions, KeyRequest, MintedKey};
use wakeline_core::{Scope, Timestamp};
use wakeline_store::{ApiKey, AuditAction, AuditEntry, AuditFilter, Backend};

use crate::config::StoreLocation;
use crate::{print_line, store};

/// Subcommands of `wakeline key`.
#[derive(Debug, Clone, Subcommand)]
pub(crate) enum KeyCommand {
    /// Create a key and print it; it is not shown again
    Create(CreateArgs),
    /// List all keys, including expired and revoked ones
    List(KeyListArgs),
    /// Revoke a key
    Revoke(RevokeArgs),
    /// Give a key a new secret and print it; it is not shown again
    Rotate(RotateArgs),
}

/// Arguments of every command that opens a store.
#[derive(Debug, Clone, Args)]
pub(crate) struct StoreCommandArgs {
    #[command(flatten)]
    pub(crate) location: StoreLocation,
    /// Print JSON instead of text
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Clone, Args)]
pub(crate) struct CreateArgs {
    /// Name of the key
    #[arg(long)]
    name: String,
    /// A permission of the key, like queue:push:orders.*, flow:*:* or *:read:*. The domains are
    /// queue, flow, hook and server. Can be repeated
    #[arg(long = "scope", value_name = "DOMAIN:VERB:NAME", required = true)]
    scopes: Vec<Scope>,
    /// How long the key is valid, like 90d or 12h [default: it does not expire]
    #[arg(long, value_name = "SPAN", value_parser = span)]
    expires: Option<Duration>,
    #[command(flatten)]
    common: StoreCommandArgs,
}

#[derive(Debug, Clone, Args)]
pub(crate) struct KeyListArgs {
    #[command(flatten)]
    common: StoreCommandArgs,
}

#[derive(Debug, Clone, Args)]
pub(crate) struct RevokeArgs {
    /// The key's id or name
    #[arg(value_name = "ID_OR_NAME")]
    key: String,
    #[command(flatten)]
    common: StoreCommandArgs,
}

#[derive(Debug, Clone, Args)]
pub(crate) struct RotateArgs {
    /// The key's id or name
    #[arg(value_name = "ID_OR_NAME")]
    key: String,
    /// How long the previous secret stays valid
    #[arg(long, value_name = "SPAN", value_parser = span, default_value = "24h")]
    overlap: Duration,
    #[command(flatten)]
    common: StoreCommandArgs,
}

/// Filters of `wakeline audit`.
#[derive(Debug, Clone, Args)]
pub(crate) struct AuditArgs {
    /// Only events of this actor, like key:NAME
    #[arg(long)]
    actor: Option<String>,
    /// Only events with this action, like queue.delete
    #[arg(long = "action", alias = "act", value_name = "ACTION")]
    action: Option<String>,
    /// Only events with this target
    #[arg(long)]
    target: Option<String>,
    /// Only events before the one with this number, for the next page of the list
    #[arg(long, value_name = "NUMBER")]
    before: Option<i64>,
    /// Maximum number of events
    #[arg(long, default_value = "100", value_name = "COUNT")]
    limit: u32,
    #[command(flatten)]
    common: StoreCommandArgs,
}

/// Runs `wakeline key`.
pub(crate) fn run_key(command: KeyCommand) -> anyhow::Result<ExitCode> {
    match command {
        KeyCommand::Create(args) => {
            // The first key can be created before the first server runs: `create` does not require
            // an existing store.
            let choice = args.common.location.choice()?;
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
            let id = active_key(store.as_ref(), &args.key).await?;
            let access = Access::start(store, AccessOptions::default()).await?;
            if !cli_action("key.revoke", &id, "").during(access.revoke_key(&id)).await? {
                bail!(
                    "the key {id} has expired or was revoked at the same time: nothing was changed"
                );
            }
            print(&args.common, [json!({"id": id, "revoked": true})], [format!("revoked {id}")]);
            Ok(())
        }),
        KeyCommand::Rotate(args) => on_store(&args.common, async |store| {
            let id = active_key(store.as_ref(), &args.key).await?;
            let access = Access::start(store, AccessOptions::default()).await?;
            let rotating = access.rotate_key(&id, args.overlap);
            let minted = cli_action("key.rotate", &id, "").during(rotating).await?;
            show(
                &args.common,
                &minted.with_context(|| {
                    format!(
                        "the key {id} has expired or was revoked at the same time: create \
                         another one"
                    )
                })?,
            );
            Ok(())
        }),
    }
}

/// Returns the id of the active key with the given id or name.
async fn active_key(store: &dyn Backend, named: &str) -> anyhow::Result<String> {
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

/// Lists audit events.
pub(crate) fn run_audit(args: AuditArgs) -> anyhow::Result<ExitCode> {
    let AuditArgs { actor, action, target, before, limit, common } = args;
    let filter = AuditFilter { before, actor, action, target, limit };
    on_store(&common, async |store| {
        let entries = store.audit(filter).await?;
        print(&common, entries.iter().map(event_json), entries.iter().map(event_line));
        Ok(())
    })
}

async fn create(store: Arc<dyn Backend>, args: CreateArgs) -> anyhow::Result<()> {
    let texts: Vec<_> = args.scopes.iter().map(Scope::to_string).collect();
    let access = Access::start(store, AccessOptions::default()).await?;
    let first = access.allows_anonymous();
    let (name, scopes) = (args.name.clone(), args.scopes);
    let making = access.create_key(KeyRequest { name, scopes, valid_for: args.expires });
    let minted = cli_action("key.create", &args.name, &texts.join(" ")).during(making).await?;
    let minted = minted.with_context(|| {
        format!(
            "an active key has the name {:?} already: use another name, or `wakeline key rotate`",
            args.name
        )
    })?;
    show(&args.common, &minted);
    if first && !args.common.json {
        print_line(
            "note    this is the first key: servers that run require a key only after a restart",
        );
    }
    Ok(())
}

/// The audit event of a change that is made from the command line.
pub(crate) fn cli_action(action: &'static str, target: &str, detail: &str) -> AuditAction {
    let (target, detail) = (target.to_owned(), detail.to_owned());
    AuditAction { actor: "cli".to_owned(), action, target, detail }
}

/// Opens an existing store, runs `work` on it and closes it.
pub(crate) fn on_store(
    common: &StoreCommandArgs,
    work: impl AsyncFnOnce(Arc<dyn Backend>) -> anyhow::Result<()>,
) -> anyhow::Result<ExitCode> {
    let choice = common.location.choice()?;
    with_store(work, async || {
        store::require_existing(&choice).await?;
        store::open_briefly(&choice).await
    })
}

fn with_store(
    work: impl AsyncFnOnce(Arc<dyn Backend>) -> anyhow::Result<()>,
    open: impl AsyncFnOnce() -> anyhow::Result<Arc<dyn Backend>>,
) -> anyhow::Result<ExitCode> {
    let runtime = tokio::runtime::Runtime::new().context("cannot start the runtime")?;
    runtime.block_on(async {
        let store = open().await?;
        let done = work(Arc::clone(&store)).await;
        store.close().await;
        done.map(|()| ExitCode::SUCCESS)
    })
}

fn show(common: &StoreCommandArgs, minted: &MintedKey) {
    let lines = [format!("id      {}", minted.id), format!("key     {}", minted.text)];
    if common.json {
        print(common, [json!({"id": minted.id, "key": minted.text})], lines);
    } else {
        lines.iter().for_each(|line| print_line(line));
        print_line("        store it now: it is not shown again");
    }
}

pub(crate) fn print(
    common: &StoreCommandArgs,
    values: impl IntoIterator<Item = Value>,
    lines: impl IntoIterator<Item = String>,
) {
    if common.json {
        values.into_iter().for_each(|value| print_line(&value.to_string()));
    } else {
        lines.into_iter().for_each(|line| print_line(&line));
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

fn event_json(entry: &AuditEntry) -> Value {
    let AuditEntry { number, at, actor, action, target, detail } = entry;
    json!({"number": number, "at": time(*at), "actor": actor, "act": action, "target": target,
        "detail": detail})
}

fn event_line(entry: &AuditEntry) -> String {
    let AuditEntry { number, at, actor, action, target, detail } = entry;
    format!("{number:6}  {}  {actor:20} {action:22} {target}  {detail}", time(*at))
}

pub(crate) fn time(at: Timestamp) -> String {
    match jiff::Timestamp::from_microsecond(at.0) {
        Ok(at) => format!("{at:.0}"),
        Err(_) => at.0.to_string(),
    }
}

/// Parses a duration like 90d, 12h, 30m, 45s or 2w.
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
