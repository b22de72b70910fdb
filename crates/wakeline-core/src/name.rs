//! Names that users choose: queues, partitions, groups, namespaces and tasks.
//!
//! # Invariants
//! * A name has 1 to 255 bytes of UTF-8 without control characters; anything else is refused with a
//!   reason.
//! * Two names are equal only if their bytes are: there is no Unicode normalisation, so the NFC and
//!   NFD spellings of a word are two names.

use serde::{Deserialize, Serialize};

/// The maximum length of a name in bytes.
pub const NAME_BYTES_MAX: usize = 255;

/// The reason why a text is not a name.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NameError {
    /// The text is empty.
    #[error("{kind} must not be empty")]
    Empty {
        /// The kind of name that was expected.
        kind: &'static str,
    },
    /// The text is longer than [`NAME_BYTES_MAX`].
    #[error("{kind} has {len} bytes: at most {NAME_BYTES_MAX} are allowed")]
    TooLong {
        /// The kind of name that was expected.
        kind: &'static str,
        /// The length of the text in bytes.
        len: usize,
    },
    /// The text contains NUL or another control character.
    #[error("{kind} contains the control character U+{code:04X}")]
    Control {
        /// The kind of name that was expected.
        kind: &'static str,
        /// The first invalid code point.
        code: u32,
    },
}

/// Checks the rules that all names and transaction ids share.
pub(crate) fn check(kind: &'static str, text: &str) -> Result<(), NameError> {
    if text.is_empty() {
        return Err(NameError::Empty { kind });
    }
    if text.len() > NAME_BYTES_MAX {
        return Err(NameError::TooLong { kind, len: text.len() });
    }
    if let Some(c) = text.chars().find(|c| c.is_control()) {
        return Err(NameError::Control { kind, code: u32::from(c) });
    }
    Ok(())
}

macro_rules! name {
    ($(#[$doc:meta])* $type:ident, $kind:literal) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(try_from = "String", into = "String")]
        pub struct $type(std::sync::Arc<str>);

        impl $type {
            /// Accepts a text that follows the rules of names.
            pub fn new(text: impl AsRef<str>) -> Result<Self, NameError> {
                let text = text.as_ref();
                check($kind, text)?;
                Ok(Self(text.into()))
            }

            /// Returns the name as text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl std::fmt::Display for $type {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl TryFrom<String> for $type {
            type Error = NameError;
            fn try_from(text: String) -> Result<Self, NameError> {
                Self::new(text)
            }
        }

        impl From<$type> for String {
            fn from(name: $type) -> Self {
                name.0.as_ref().to_owned()
            }
        }
    };
}

pub(crate) use name;

name!(
    /// Names a queue.
    QueueName, "queue"
);
name!(
    /// Names a partition of a queue.
    PartitionName, "partition"
);
name!(
    /// Names a consumer group.
    GroupName, "consumerGroup"
);
name!(
    /// Names the namespace that a queue belongs to.
    Namespace, "namespace"
);
name!(
    /// Names the task that a queue belongs to.
    TaskName, "task"
);
name!(
    /// Names traces that belong together.
    TraceName, "traceName"
);
name!(
    /// Names a timer within its queue.
    TimerKey, "timerKey"
);

impl QueueName {
    /// Returns the namespace and the task of a queue for which none are configured: `orders.ship`
    /// belongs to namespace `orders` and task `ship`; a name without a dot belongs to neither.
    pub fn derived_scope(&self) -> (Option<Namespace>, Option<TaskName>) {
        match self.as_str().split_once('.') {
            Some((namespace, task)) => (Namespace::new(namespace).ok(), TaskName::new(task).ok()),
            None => (None, None),
        }
    }
}

impl PartitionName {
    /// Returns the partition of a message whose producer named none.
    pub fn default_partition() -> Self {
        Self("Default".into())
    }
}

impl GroupName {
    /// The group of consumers that name none: they share the messages of the queue.
    pub const QUEUE_MODE: &'static str = "__QUEUE_MODE__";

    /// Returns the group of consumers that name none.
    pub fn queue_mode() -> Self {
        Self(Self::QUEUE_MODE.into())
    }

    /// The group in which nodes wait for background work. It reads no queue.
    pub const BACKGROUND: &'static str = "__CHORES__";

    /// Returns the group in which nodes wait for background work.
    pub fn background() -> Self {
        Self(Self::BACKGROUND.into())
    }

    /// Returns whether this is [`GroupName::background`].
    pub fn is_background(&self) -> bool {
        self.as_str() == Self::BACKGROUND
    }

    /// Returns whether this is [`GroupName::queue_mode`], which always reads from the beginning.
    pub fn is_queue_mode(&self) -> bool {
        self.as_str() == Self::QUEUE_MODE
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_refuse_what_a_store_could_not_keep() {
        assert_eq!(QueueName::new(""), Err(NameError::Empty { kind: "queue" }));
        assert_eq!(
            QueueName::new("x".repeat(256)),
            Err(NameError::TooLong { kind: "queue", len: 256 })
        );
        assert_eq!(
            PartitionName::new("a\0b"),
            Err(NameError::Control { kind: "partition", code: 0 })
        );
        for odd in ["a/b", "a:b", "'; drop table x", "\u{202e}rtl", "ü", "u\u{308}", "😀"] {
            assert_eq!(QueueName::new(odd).expect("a distinct valid name").as_str(), odd);
        }
        assert_ne!(QueueName::new("ü"), QueueName::new("u\u{308}"));
    }

    #[test]
    fn a_dotted_name_contains_namespace_and_task() {
        let scope = |name| QueueName::new(name).expect("valid").derived_scope();
        assert_eq!(scope("plain"), (None, None));
        let (namespace, task) = scope("orders.ship.fast");
        assert_eq!(namespace.expect("before the dot").as_str(), "orders");
        assert_eq!(task.expect("after the dot").as_str(), "ship.fast");
        assert_eq!(scope(".x").0, None);
    }
}
