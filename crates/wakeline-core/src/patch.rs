//! Changes of single options of a queue.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::{Fencing, MessageOrder, PartitionName, QueueOptions, RetryBackoff};

/// Declares [`OptionsPatch`] and how it is applied, so that no option is missing in either.
macro_rules! options_patch {
    ($($name:ident: $type:ty,)*) => {
        /// Changes of the options of a queue. Options that are `None` stay as they are.
        #[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
        pub struct OptionsPatch {
            $(
                #[doc = concat!("See [`QueueOptions::", stringify!($name), "`].")]
                #[serde(skip_serializing_if = "Option::is_none")]
                pub $name: Option<$type>,
            )*
        }

        impl OptionsPatch {
            /// Returns the options with these changes.
            pub fn apply(self, options: QueueOptions) -> QueueOptions {
                QueueOptions { $($name: self.$name.unwrap_or(options.$name),)* }
            }
        }
    };
}

options_patch! {
    lease_secs: u32,
    retry_limit: u32,
    retry_delay_ms: u64,
    retry_delay_ms_max: u64,
    retry_backoff: RetryBackoff,
    dead_letters: bool,
    priority: i32,
    delay_secs: u32,
    window_secs: u32,
    ordering: MessageOrder,
    fencing: Fencing,
    dedup_window_secs: u32,
    retry_jitter_percent: u32,
    ttl_secs: u32,
    len_max: u64,
    partition_len_max: u64,
    retention: bool,
    retention_secs: u32,
    completed_retention_secs: u32,
    wait_secs_max: u32,
    encrypted: bool,
    lanes: u32,
    ledger_secs: u32,
    group_idle_secs: u32,
    partition_priorities: BTreeMap<PartitionName, i32>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_that_are_not_named_stay() {
        let before = QueueOptions { lease_secs: 7, lanes: 3, ..QueueOptions::default() };
        assert_eq!(OptionsPatch::default().apply(before.clone()), before);
        let patch = OptionsPatch { lanes: Some(0), ..OptionsPatch::default() };
        assert_eq!(patch.apply(before.clone()), QueueOptions { lanes: 0, ..before });
    }
}
