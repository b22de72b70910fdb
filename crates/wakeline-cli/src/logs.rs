//! Structured logs on standard error.

use std::io::IsTerminal as _;

use clap::ValueEnum;
use serde::Deserialize;
use tracing_subscriber::EnvFilter;

/// How log lines look.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum LogFormat {
    /// For people.
    #[default]
    Text,
    /// For machines: one JSON object a line.
    Json,
}

/// Begins to log. `WAKELINE_LOG` chooses what, in the syntax of `RUST_LOG`.
pub(crate) fn start(format: LogFormat) {
    let filter = EnvFilter::try_from_env("WAKELINE_LOG").unwrap_or_else(|_| "info".into());
    let logs = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    // Colours are for people: not for files and collectors.
    let logs = logs.with_ansi(std::io::stderr().is_terminal());
    match format {
        LogFormat::Text => logs.init(),
        LogFormat::Json => logs.json().init(),
    }
}
