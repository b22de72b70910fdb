//! A queue's options as the columns of its row: JSON by the names of the columns.
//!
//! # Where it sits
//! `QueueAdmin` writes and reads options through it; SQL that needs one reads its column.

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use wakeline_core::{Fencing, MessageOrder, OptionsPatch, QueueOptions, RetryBackoff};

/// Options whose columns differ in name or form. The other columns are those of [`QueueOptions`]
/// itself.
#[derive(Serialize, Deserialize)]
struct Flags {
    retry_exponential: bool,
    strict_order: bool,
    strict_fencing: bool,
}

#[derive(Serialize)]
struct WrittenOptions<'a> {
    #[serde(flatten)]
    flags: Flags,
    #[serde(flatten)]
    options: &'a QueueOptions,
}

#[derive(Deserialize)]
struct ReadOptions {
    #[serde(flatten)]
    flags: Flags,
    #[serde(flatten)]
    options: QueueOptions,
}

/// The argument of the SQL function `queue_configure`.
pub(crate) fn to_columns(options: &QueueOptions) -> String {
    // A longer delay would exceed what PostgreSQL can add to a timestamp, and has the same effect.
    let most = u64::from(u32::MAX) * 1000;
    let options = QueueOptions {
        retry_delay_ms: options.retry_delay_ms.min(most),
        retry_delay_ms_max: options.retry_delay_ms_max.min(most),
        len_max: options.len_max.min(i64::MAX as u64),
        partition_len_max: options.partition_len_max.min(i64::MAX as u64),
        ..options.clone()
    };
    let flags = Flags {
        retry_exponential: options.retry_backoff == RetryBackoff::Exponential,
        strict_order: options.ordering == MessageOrder::Strict,
        strict_fencing: options.fencing == Fencing::Strict,
    };
    serde_json::to_string(&WrittenOptions { flags, options: &options })
        .expect("numbers, names and flags always have a JSON form")
}

/// The argument for some options only: the function leaves the columns of the others as they are.
pub(crate) fn to_some_columns(patch: &OptionsPatch) -> String {
    let named = patch.clone().apply(QueueOptions::default());
    let all = serde_json::from_str::<Map<String, Value>>(&to_columns(&named));
    let mut all = all.expect("it was just written");
    let flags = [
        ("retry_exponential", patch.retry_backoff.is_some()),
        ("strict_order", patch.ordering.is_some()),
        ("strict_fencing", patch.fencing.is_some()),
    ];
    let Ok(Value::Object(fields)) = serde_json::to_value(patch) else {
        unreachable!("a struct becomes an object");
    };
    all.retain(|name, _| {
        fields.contains_key(name) || flags.iter().any(|(flag, given)| flag == name && *given)
    });
    Value::Object(all).to_string()
}

/// Reads the options of a row.
pub(crate) fn from_columns(text: &str) -> Result<QueueOptions, serde_json::Error> {
    let ReadOptions { flags, options } = serde_json::from_str(text)?;
    Ok(QueueOptions {
        retry_backoff: if flags.retry_exponential {
            RetryBackoff::Exponential
        } else {
            RetryBackoff::Fixed
        },
        ordering: if flags.strict_order { MessageOrder::Strict } else { MessageOrder::Relaxed },
        fencing: if flags.strict_fencing { Fencing::Strict } else { Fencing::Lenient },
        ..options
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_patch_writes_only_named_options() {
        let patch = OptionsPatch {
            lanes: Some(0),
            ordering: Some(MessageOrder::Relaxed),
            ..OptionsPatch::default()
        };
        let written: Value = serde_json::from_str(&to_some_columns(&patch)).expect("JSON");
        let expected =
            serde_json::json!({"lanes": 0, "ordering": "relaxed", "strict_order": false});
        assert_eq!(written, expected);
    }

    #[test]
    fn written_options_are_read_back() {
        let other = QueueOptions {
            retry_backoff: RetryBackoff::Fixed,
            ordering: MessageOrder::Relaxed,
            fencing: Fencing::Lenient,
            ttl_secs: 7,
            lanes: 9,
            ..QueueOptions::default()
        };
        for options in [QueueOptions::default(), other] {
            assert_eq!(from_columns(&to_columns(&options)).expect("our own form"), options);
        }
    }
}
