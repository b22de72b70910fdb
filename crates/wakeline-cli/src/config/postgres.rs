//! Parses the values of settings for PostgreSQL, from flags and from the file.

use serde::Deserialize as _;
use wakeline_postgres::{NotifyMode, PreparedStatements};

use super::words::choose;

pub(super) fn notify(text: &str) -> Result<NotifyMode, String> {
    let known = [
        ("after_commit", NotifyMode::AfterCommit),
        ("trigger", NotifyMode::Trigger),
        ("off", NotifyMode::Off),
    ];
    choose(text, &known)
}

pub(super) fn notify_in_file<'de, D: serde::Deserializer<'de>>(
    from: D,
) -> Result<Option<NotifyMode>, D::Error> {
    let text = String::deserialize(from)?;
    notify(&text).map(Some).map_err(serde::de::Error::custom)
}

pub(super) fn prepared_statements(text: &str) -> Result<PreparedStatements, String> {
    let known = [
        ("auto", PreparedStatements::Auto),
        ("on", PreparedStatements::On),
        ("off", PreparedStatements::Off),
    ];
    choose(text, &known)
}

pub(super) fn prepared_statements_in_file<'de, D: serde::Deserializer<'de>>(
    from: D,
) -> Result<Option<PreparedStatements>, D::Error> {
    let text = String::deserialize(from)?;
    prepared_statements(&text).map(Some).map_err(serde::de::Error::custom)
}
