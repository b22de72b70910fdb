//! How the words of settings for PostgreSQL are read, from flags and from the file.

use serde::Deserialize as _;
use wakeline_postgres::{NotifyMode, PreparedStatements};

pub(super) fn notify(text: &str) -> Result<NotifyMode, String> {
    match text {
        "after_commit" => Ok(NotifyMode::AfterCommit),
        "trigger" => Ok(NotifyMode::Trigger),
        "off" => Ok(NotifyMode::Off),
        _ => Err("must be after_commit, trigger or off".to_owned()),
    }
}

pub(super) fn notify_in_file<'de, D: serde::Deserializer<'de>>(
    from: D,
) -> Result<Option<NotifyMode>, D::Error> {
    let text = String::deserialize(from)?;
    notify(&text).map(Some).map_err(|why| serde::de::Error::custom(format!("notify {why}")))
}

pub(super) fn prepared_statements(text: &str) -> Result<PreparedStatements, String> {
    match text {
        "auto" => Ok(PreparedStatements::Auto),
        "on" => Ok(PreparedStatements::On),
        "off" => Ok(PreparedStatements::Off),
        _ => Err("must be auto, on or off".to_owned()),
    }
}

pub(super) fn prepared_statements_in_file<'de, D: serde::Deserializer<'de>>(
    from: D,
) -> Result<Option<PreparedStatements>, D::Error> {
    let text = String::deserialize(from)?;
    let said = |why| serde::de::Error::custom(format!("prepared_statements {why}"));
    prepared_statements(&text).map(Some).map_err(said)
}
