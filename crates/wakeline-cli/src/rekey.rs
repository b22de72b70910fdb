//! `wakeline rekey`: encrypts everything again, with the first key.
//!
//! # Where it sits
//! Beside servers that run with the same keys, over the same store. It goes through the store step
//! by step; interrupted, it is started again.

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::Context as _;
use clap::Args;
use wakeline_store::{SealedKind, WholeStore};

use crate::access::deed;
use crate::config::{ConfigMistake, Secrets, ServeArgs, StoreArgs};
use crate::{complain, keys, say, store};

/// Where the store and its keys are.
#[derive(Debug, Clone, Args)]
pub(crate) struct RekeyArgs {
    /// TOML file with settings; flags and environment go before it
    #[arg(long, env = "WAKELINE_CONFIG", value_name = "PATH")]
    config: Option<PathBuf>,
    #[command(flatten)]
    store: StoreArgs,
    /// File with all keys, the new one first [default on SQLite: the one beside the database]
    #[arg(long, env = "WAKELINE_ENCRYPTION_KEY_FILE", value_name = "PATH")]
    encryption_key_file: Option<PathBuf>,
}

/// Runs the command.
pub(crate) fn run(args: RekeyArgs) -> anyhow::Result<ExitCode> {
    let RekeyArgs { config, store: place, encryption_key_file } = args;
    let serve = ServeArgs::over_store(config, place, encryption_key_file);
    let settings = serve.settle(Secrets::from_env())?;
    let runtime = tokio::runtime::Runtime::new().context("cannot start the runtime")?;
    runtime.block_on(async {
        store::require_existing(&settings.store).await?;
        let store = store::open(&settings).await?;
        let ended = async {
            let Some(ring) = keys::ring(&settings, store.as_ref()).await? else {
                let text = "encryption_keys: no key is configured: set WAKELINE_ENCRYPTION_KEYS or \
                            --encryption-key-file, the new key first";
                return Err(ConfigMistake(text.to_owned()).into());
            };
            let active = ring.active().to_owned();
            store.use_keys(Arc::new(ring));
            rekey(store.as_ref(), &active).await
        };
        let ended = ended.await;
        store.close().await;
        ended
    })
}

async fn rekey(store: &dyn WholeStore, active: &str) -> anyhow::Result<ExitCode> {
    let (mut failed, mut total) = (0, 0);
    // The audit tells of a run once, with the first step that changes something.
    let mut recorded = false;
    for kind in SealedKind::ALL {
        let (mut resealed, mut after) = (0, None);
        loop {
            let step = store.rekey(kind, after);
            let step = match recorded {
                false => deed("store.rekey", active, "").during(step).await?,
                true => step.await?,
            };
            recorded |= step.resealed > 0;
            resealed += step.resealed;
            total += step.resealed;
            failed += step.failed.len();
            for why in &step.failed {
                complain(why);
            }
            after = step.next;
            if after.is_none() {
                break;
            }
        }
        let what = match kind {
            SealedKind::Endpoints => "endpoints",
            SealedKind::Scheduled => "scheduled messages",
            SealedKind::Messages => "rows of messages",
            SealedKind::DeadLetters => "dead letters",
            SealedKind::Traces => "traces",
        };
        say(&format!("{resealed} {what} re-encrypted"));
    }
    if failed > 0 {
        say(&format!("{failed} could not be re-encrypted: keep the old keys"));
        return Ok(ExitCode::FAILURE);
    }
    say(&format!("everything in the store is encrypted with {active:?}"));
    // Which key a running server encrypts with is known to that server alone.
    say(&match total {
        0 => format!(
            "older keys are no longer needed if every running server was started with \
             {active:?} as its first key; this command cannot check that"
        ),
        _ => format!(
            "keep the older keys: this command cannot check whether a running server still \
             encrypts with one; start every server with {active:?} as its first key and run this \
             again, until it re-encrypts nothing"
        ),
    });
    Ok(ExitCode::SUCCESS)
}
