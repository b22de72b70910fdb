//! The options of queues, and the rules for failed messages.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::{PartitionName, TransactionId};

/// How the wait between two attempts of a message grows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RetryBackoff {
    /// The wait doubles with every counted failure, up to `retry_delay_ms_max`.
    #[default]
    Exponential,
    /// The wait stays `retry_delay_ms`.
    Fixed,
}

/// What happens to later messages of a partition while an earlier one waits for its retry.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum MessageOrder {
    /// They wait: a failed message blocks its partition.
    #[default]
    Strict,
    /// They are delivered; first deliveries are still in order.
    Relaxed,
}

/// Whether a message may be settled without naming the lease it was delivered under.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Fencing {
    /// It may not.
    #[default]
    Strict,
    /// It may, under whatever lease is live. A consumer that lost its lease can then settle a
    /// message that another consumer holds.
    Lenient,
}

/// The options of a queue. With the defaults no message is lost. A failed message waits before its
/// retry, so that a consumer that always fails does not use up all attempts within milliseconds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct QueueOptions {
    /// How long a delivery is leased to its consumer.
    pub lease_secs: u32,
    /// The number of counted failures after which one more makes a message a dead letter.
    pub retry_limit: u32,
    /// The wait before the first retry of a failed message.
    pub retry_delay_ms: u64,
    /// The longest wait that backoff grows to.
    pub retry_delay_ms_max: u64,
    /// How the wait grows.
    pub retry_backoff: RetryBackoff,
    /// Whether messages beyond the limit are kept as dead letters; otherwise they are dropped, and
    /// counted.
    pub dead_letters: bool,
    /// The priority of the queue in a pop over several queues; higher values go first.
    pub priority: i32,
    /// The time after their push at which messages become readable.
    pub delay_secs: u32,
    /// A partition becomes readable once nothing was pushed to it for this time, or once its oldest
    /// unread message is ten times as old.
    pub window_secs: u32,
    /// The order within a partition when a message fails.
    pub ordering: MessageOrder,
    /// Whether settling requires the lease.
    pub fencing: Fencing,
    /// How long a repeated transaction id is recognised.
    pub dedup_window_secs: u32,
    /// The maximum percentage by which each wait for a retry is shortened, depending on the message
    /// and the attempt.
    pub retry_jitter_percent: u32,
    /// The age after which a message is no longer delivered; 0 means no limit.
    pub ttl_secs: u32,
    /// The maximum number of messages that the slowest group has yet to settle; 0 means no limit.
    pub len_max: u64,
    /// The same limit for each partition; 0 means no limit.
    pub partition_len_max: u64,
    /// Whether the retention times apply.
    pub retention: bool,
    /// The age at which messages are removed, read or not; 0 means never.
    pub retention_secs: u32,
    /// The age at which messages are removed that every group has settled; 0 means never.
    pub completed_retention_secs: u32,
    /// The time after which a message that waits for a group is evicted for it; 0 means never.
    pub wait_secs_max: u32,
    /// Whether payloads are stored encrypted.
    pub encrypted: bool,
    /// The number of lanes. A push to `Default`, the partition of pushes that name none, goes to
    /// one of them instead; with 0 it goes to `Default` itself.
    pub lanes: u32,
    /// How long the outcomes of deliveries are remembered; with 0 they are not.
    pub ledger_secs: u32,
    /// The time without a poll after which a group is idle; 0 means never. An idle group is
    /// ignored when the limits of the queue are applied.
    pub group_idle_secs: u32,
    /// The priorities of partitions in a pop over several; higher values go first, and 0 is the
    /// default.
    pub partition_priorities: BTreeMap<PartitionName, i32>,
}

impl Default for QueueOptions {
    fn default() -> Self {
        Self {
            lease_secs: 300,
            retry_limit: 3,
            retry_delay_ms: 1_000,
            retry_delay_ms_max: 300_000,
            retry_backoff: RetryBackoff::Exponential,
            dead_letters: true,
            priority: 0,
            delay_secs: 0,
            window_secs: 0,
            ordering: MessageOrder::Strict,
            fencing: Fencing::Strict,
            dedup_window_secs: 3600,
            retry_jitter_percent: 20,
            ttl_secs: 0,
            len_max: 0,
            partition_len_max: 0,
            retention: false,
            retention_secs: 0,
            completed_retention_secs: 0,
            wait_secs_max: 0,
            encrypted: false,
            lanes: 0,
            ledger_secs: 86_400,
            group_idle_secs: 28 * 86_400,
            partition_priorities: BTreeMap::new(),
        }
    }
}

/// A consumer's decision on a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Verdict {
    /// The message is done.
    Completed,
    /// Processing failed: it is counted, the message waits for the retry delay, and becomes a dead
    /// letter beyond the limit.
    Failed,
    /// The message is given back: it is not counted, and the message is available at once.
    Retry,
    /// The message cannot be processed: it becomes a dead letter now.
    DeadLetter,
}

/// What happens to a message after a counted failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RetryDecision {
    /// It is delivered again after this time.
    After(Duration),
    /// Its attempts are used up: it becomes a dead letter or is dropped.
    GiveUp,
}

impl QueueOptions {
    /// The number of windows after which a steady producer can no longer delay its partition.
    pub const WINDOW_AGE_MAX: u32 = 10;

    /// Returns the priority of a partition in a pop over several.
    pub fn partition_priority(&self, partition: &PartitionName) -> i32 {
        self.partition_priorities.get(partition).copied().unwrap_or(0)
    }

    /// Returns whether the `failures`-th counted failure of a message (the first is 1) is its last.
    pub fn is_spent(&self, failures: u32) -> bool {
        failures > self.retry_limit
    }

    /// Returns what follows from the `failures`-th counted failure of a message.
    pub fn after_failure(&self, failures: u32, message: &TransactionId) -> RetryDecision {
        if self.is_spent(failures) {
            return RetryDecision::GiveUp;
        }
        let wait = self.retry_wait(failures);
        RetryDecision::After(wait - self.retry_jitter(wait, failures, message))
    }

    /// Returns by how much a wait is shortened, so that messages that failed together do not come
    /// back together. It is the same for the same message and attempt, in every store.
    fn retry_jitter(&self, wait: Duration, failures: u32, message: &TransactionId) -> Duration {
        let percent = u128::from(self.retry_jitter_percent.min(100));
        if percent == 0 {
            return Duration::ZERO;
        }
        let attempt = u8::try_from(failures).unwrap_or(u8::MAX);
        let bytes = message.as_str().bytes().chain([attempt]);
        let share = fnv1a(bytes) % (JITTER_STEPS + 1);
        let cut = wait.as_millis() * percent * u128::from(share) / (100 * u128::from(JITTER_STEPS));
        Duration::from_millis(u64::try_from(cut).unwrap_or(u64::MAX))
    }

    fn retry_wait(&self, failures: u32) -> Duration {
        let doublings = match self.retry_backoff {
            RetryBackoff::Fixed => 0,
            RetryBackoff::Exponential => failures.saturating_sub(1).min(62),
        };
        let wait = self.retry_delay_ms.saturating_mul(1 << doublings);
        Duration::from_millis(wait.min(self.retry_delay_ms_max.max(self.retry_delay_ms)))
    }
}

/// Returns the partition of a message in a queue that spreads messages over several partitions (see
/// [`QueueOptions::lanes`]). It is derived from the transaction id, so that a repeated push goes to
/// the same partition as the first one.
pub fn lane_partition(message: &TransactionId, lanes: u32) -> PartitionName {
    let lane = fnv1a(message.as_str().bytes()).checked_rem(lanes).unwrap_or(0);
    PartitionName::new(format!("lane-{lane:04}")).expect("digits and letters are a name")
}

/// The number of steps into which the jitter of a wait is divided.
const JITTER_STEPS: u32 = 1000;

/// The 32-bit hash FNV-1a, which is simple enough to be implemented in SQL as well.
fn fnv1a(bytes: impl Iterator<Item = u8>) -> u32 {
    bytes.fold(0x811c_9dc5, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn named(text: &str) -> TransactionId {
        TransactionId::new(text).expect("a fine name")
    }

    #[test]
    fn omitted_options_lose_nothing_and_retry_after_a_second_then_two_then_four() {
        let options = QueueOptions::default();
        assert!(options.dead_letters);
        assert_eq!((options.ttl_secs, options.delay_secs), (0, 0));
        let waits = [1, 2, 3].map(|n| options.retry_wait(n).as_millis());
        assert_eq!(waits, [1_000, 2_000, 4_000]);
        assert_eq!(options.retry_wait(30), Duration::from_secs(300));
        assert_eq!(options.after_failure(4, &named("a")), RetryDecision::GiveUp);
    }

    #[test]
    fn backoff_doubles_up_to_its_cap() {
        let options = QueueOptions {
            retry_delay_ms: 100,
            retry_delay_ms_max: 350,
            retry_jitter_percent: 0,
            ..QueueOptions::default()
        };
        let waits: Vec<_> = (1..=3).map(|n| options.after_failure(n, &named("a"))).collect();
        let expected = [100, 200, 350].map(|ms| RetryDecision::After(Duration::from_millis(ms)));
        assert_eq!(waits, expected);
    }

    #[test]
    fn messages_spread_over_all_lanes_and_keep_theirs() {
        let names: std::collections::BTreeSet<_> =
            (0..200).map(|n| lane_partition(&named(&format!("order-{n}")), 8)).collect();
        let expected = (0..8).map(|n| PartitionName::new(format!("lane-000{n}")).expect("a name"));
        assert!(names.into_iter().eq(expected));
        assert_eq!(lane_partition(&named("a"), 8), lane_partition(&named("a"), 8));
    }

    #[test]
    fn jitter_spreads_messages_that_failed_together() {
        let options = QueueOptions {
            retry_delay_ms: 100_000,
            retry_jitter_percent: 50,
            ..QueueOptions::default()
        };
        let waits: std::collections::BTreeSet<_> = (0..100)
            .map(|n| match options.after_failure(1, &named(&format!("order-{n}"))) {
                RetryDecision::After(wait) => wait,
                RetryDecision::GiveUp => panic!("it has attempts left"),
            })
            .collect();
        assert!(waits.len() > 80, "{}", waits.len());
        let (first, last) = (waits.first().expect("some"), waits.last().expect("some"));
        assert!(last.saturating_sub(*first) > Duration::from_secs(40), "{first:?} to {last:?}");
    }

    proptest! {
        #[test]
        fn jitter_only_shortens_and_no_more_than_it_may(
            delay in 0u64..u64::MAX, percent in 0u32..=100, n in 1u32..300, name in "[a-z]{1,9}"
        ) {
            let options = QueueOptions {
                retry_delay_ms: delay, retry_limit: u32::MAX, retry_jitter_percent: percent,
                ..QueueOptions::default()
            };
            let wait = options.retry_wait(n);
            let cut = options.retry_jitter(wait, n, &named(&name));
            prop_assert!(cut.as_millis() * 100 <= wait.as_millis() * u128::from(percent));
        }

        #[test]
        fn a_retry_never_waits_less_than_the_one_before(delay in 0u64..u64::MAX, n in 1u32..200) {
            let options = QueueOptions {
                retry_delay_ms: delay, retry_limit: u32::MAX, ..QueueOptions::default()
            };
            prop_assert!(options.retry_wait(n) <= options.retry_wait(n + 1));
        }
    }
}
