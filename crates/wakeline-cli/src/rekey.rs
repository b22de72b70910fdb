//! `wakeline rekey` re-encrypts all encrypted data with the first key.
//!
//! # Where it sits
//! It runs beside servers that use the same store and keys. It re-encrypts the store in small
//! steps; after an interruption it can be run again.

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::Context as _;
use clap::Args;
use wakeline_store::{Backend, EncryptedKind};

use crate::access::cli_action;
use crate::config::{Secrets, ServeArgs, StoreArgs, UsageError};
use crate::{keys, print_error, print_line, store};

/// Arguments of `wakeline rekey`.
#[derive(Debug, Clone, Args)]
pub(crate) struct RekeyArgs {
    /// TOML file with settings; flags and environment take precedence over it
    #[arg(long, env = "WAKELINE_CONFIG", value_name = "PATH")]
    config: Option<PathBuf>,
    #[command(flatten)]
    store: StoreArgs,
    /// File with all keys, the new key first [default on SQLite: the file beside the database]
    #[arg(long, env = "WAKELINE_ENCRYPTION_KEY_FILE", value_name = "PATH")]
    encryption_key_file: Option<PathBuf>,
}

/// Runs `wakeline rekey`.
pub(crate) fn run(args: RekeyArgs) -> anyhow::Result<ExitCode> {
    let RekeyArgs { config, store: place, encryption_key_file } = args;
    let serve = ServeArgs::for_store(config, place, encryption_key_file);
    let settings = serve.into_settings(Secrets::from_env())?;
    let runtime = tokio::runtime::Runtime::new().context("cannot start the runtime")?;
    runtime.block_on(async {
        store::require_existing(&settings.store).await?;
        let store = store::open(&settings).await?;
        let ended = async {
            let Some(encryption_keys) = keys::load(&settings, store.as_ref()).await? else {
                let text = "encryption_keys: no key is configured: set WAKELINE_ENCRYPTION_KEYS or \
                            --encryption-key-file to all keys, with the new key first";
                return Err(UsageError(text.to_owned()).into());
            };
            let active = encryption_keys.active().to_owned();
            store.use_keys(Arc::new(encryption_keys));
            rekey(store.as_ref(), &active).await
        };
        let ended = ended.await;
        store.close().await;
        ended
    })
}

async fn rekey(store: &dyn Backend, active: &str) -> anyhow::Result<ExitCode> {
    let (mut failed, mut total) = (0, 0);
    // A run is one audit event, recorded with the first step that changes something.
    let mut recorded = false;
    for kind in EncryptedKind::ALL {
        let (mut reencrypted, mut after) = (0, None);
        loop {
            let step = store.rekey(kind, after);
            let step = if recorded {
                step.await?
            } else {
                cli_action("store.rekey", active, "").during(step).await?
            };
            recorded |= step.reencrypted > 0;
            reencrypted += step.reencrypted;
            total += step.reencrypted;
            failed += step.failed.len();
            for why in &step.failed {
                print_error(why);
            }
            after = step.next;
            if after.is_none() {
                break;
            }
        }
        let what = match kind {
            EncryptedKind::Endpoints => "endpoints",
            EncryptedKind::Scheduled => "scheduled messages",
            EncryptedKind::Messages => "rows of messages",
            EncryptedKind::DeadLetters => "dead letters",
            EncryptedKind::Traces => "traces",
        };
        print_line(&format!("{reencrypted} {what} re-encrypted"));
    }
    if failed > 0 {
        print_line(&format!("{failed} values could not be re-encrypted: keep the old keys"));
        return Ok(ExitCode::FAILURE);
    }
    print_line(&format!("everything in the store is encrypted with {active:?}"));
    // Only a running server itself knows which key it encrypts with.
    print_line(&match total {
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
