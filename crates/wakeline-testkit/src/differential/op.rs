//! The operations of random sequences.
//!
//! Operations name queues, partitions, groups and leases by small numbers that are resolved when
//! the operation runs, so a sequence stays meaningful when shrinking removes a part of it.

use proptest::prelude::*;
use proptest::sample::select;
use wakeline_core::{Fencing, MessageOrder, PartitionName, QueueOptions, RetryBackoff, Verdict};
use wakeline_store::{PushGate, SetMaintenance};

/// Number of queues in a sequence.
pub(super) const QUEUES: usize = 2;
/// Number of partitions per queue.
pub(super) const PARTITIONS: usize = 3;
/// Number of groups; the first is queue mode.
pub(super) const GROUPS: usize = 3;
/// Deduplication window of all queues; it is short, so that transaction ids recur.
pub(super) const DEDUP_SECS: u32 = 20;

/// The numbers of a queue and of one of its partitions.
#[derive(Debug, Clone, Copy)]
pub(super) struct MessageTarget {
    pub(super) queue: usize,
    pub(super) partition: usize,
}

/// Returns the name of the n-th partition.
pub(super) fn partition(n: usize) -> PartitionName {
    match n {
        0 => PartitionName::default_partition(),
        n => PartitionName::new(format!("p{n}")).expect("a short name"),
    }
}

/// The position at which a group starts.
#[derive(Debug, Clone, Copy)]
pub(super) enum Begin {
    All,
    New,
    FromMsAgo(u64),
}

/// The group of a claim, and how much the claim requests.
#[derive(Debug, Clone, Copy)]
pub(super) struct Portion {
    pub(super) group: usize,
    pub(super) batch: u32,
    pub(super) auto_ack: bool,
    pub(super) begin: Begin,
}

/// The token with which a message is settled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fence {
    Own,
    None,
    OtherLease,
}

/// One settlement of a message. Its lease is counted back from the newest.
#[derive(Debug, Clone, Copy)]
pub(super) struct Settling {
    pub(super) hold: usize,
    pub(super) message: usize,
    pub(super) verdict: Verdict,
    pub(super) error: bool,
    pub(super) fence: Fence,
}

/// One scheduled message with a recurring transaction id, and perhaps with the key of a timer.
#[derive(Debug, Clone, Copy)]
pub(super) struct Scheduling {
    pub(super) place: MessageTarget,
    pub(super) id: u8,
    pub(super) key: Option<u8>,
    pub(super) ms: u64,
}

/// One step of a sequence.
#[derive(Debug, Clone)]
pub(super) enum QueueOp {
    /// Pushes messages with new transaction ids to one partition.
    PushFresh { place: MessageTarget, count: usize },
    /// Pushes messages with transaction ids from a small set, so that they recur.
    PushRecurring(Vec<(MessageTarget, u8)>),
    /// Claims from one partition.
    Claim { place: MessageTarget, portion: Portion },
    /// Claims all that is due in one queue, or in both.
    ClaimAll { queue: Option<usize>, partitions: u32, portion: Portion },
    /// Settles some messages.
    Settle(Vec<Settling>),
    /// Settles all messages of a lease, forwards or backwards.
    SettleAll { hold: usize, verdict: Verdict, backwards: bool },
    /// Releases leases.
    Release(Vec<usize>),
    /// Extends a lease.
    Extend { hold: usize, secs: u64 },
    /// Pushes to partitions that exist, and settles.
    Transact { pushes: Vec<(MessageTarget, u8)>, settles: Vec<Settling> },
    /// Schedules messages, and cancels timers by queue and key.
    Schedule { picks: Vec<Scheduling>, cancels: Vec<(usize, u8)> },
    /// Replaces a queue's options.
    Configure { queue: usize, options: QueueOptions },
    /// Deletes a queue.
    DeleteQueue(usize),
    /// Deletes a group, in one queue or in all.
    DeleteGroup { group: usize, queue: Option<usize> },
    /// Moves a group, in one queue or in all, in one partition or in all.
    Seek { group: usize, queue: Option<usize>, partition: Option<usize>, to: Begin },
    /// Redrives the dead letters of a queue, or those of one group there.
    Redrive { queue: usize, group: Option<usize> },
    /// Retries a message of a lease, or makes it a dead letter.
    Intervene { hold: usize, message: usize, bury: bool },
    /// Deletes messages of a partition, counted back from the newest.
    Delete { place: MessageTarget, picks: Vec<usize> },
    /// Removes all messages of a queue, and perhaps its dead letters.
    Clear { queue: usize, dead_letters: bool },
    /// Purges the dead letters of a group in a queue.
    Purge { queue: usize, group: usize },
    /// Advances the clock.
    Advance { ms: u64 },
    /// Advances the clock to the due time of a cursor, or a millisecond off it.
    AdvanceToDue { place: MessageTarget, group: usize, beside_ms: i64 },
    /// Holds or refuses pushes, pauses claims, or ends the maintenance.
    Maintain(SetMaintenance),
    /// Does all housekeeping.
    Housekeep,
    /// Compares everything that can be listed.
    Inspect,
}

fn place() -> impl Strategy<Value = MessageTarget> {
    (0..QUEUES, 0..PARTITIONS).prop_map(|(queue, partition)| MessageTarget { queue, partition })
}

fn portion() -> impl Strategy<Value = Portion> {
    let batch = prop_oneof![6 => 1u32..6, 2 => 6u32..60, 1 => 60u32..300];
    (0..GROUPS, batch, prop::bool::weighted(0.15), begin())
        .prop_map(|(group, batch, auto_ack, begin)| Portion { group, batch, auto_ack, begin })
}

fn begin() -> impl Strategy<Value = Begin> {
    prop_oneof![
        6 => Just(Begin::All),
        2 => Just(Begin::New),
        1 => (0u64..20_000).prop_map(Begin::FromMsAgo),
    ]
}

fn verdict() -> impl Strategy<Value = Verdict> {
    prop_oneof![
        4 => Just(Verdict::Completed),
        3 => Just(Verdict::Failed),
        1 => Just(Verdict::Retry),
        1 => Just(Verdict::DeadLetter),
    ]
}

fn hold() -> impl Strategy<Value = usize> {
    prop_oneof![4 => Just(0usize), 2 => Just(1usize), 2 => 2usize..8]
}

fn settling() -> impl Strategy<Value = Settling> {
    let fence =
        prop_oneof![12 => Just(Fence::Own), 1 => Just(Fence::None), 1 => Just(Fence::OtherLease)];
    let message = prop_oneof![6 => 0usize..6, 1 => 6usize..300];
    (hold(), message, verdict(), any::<bool>(), fence).prop_map(
        |(hold, message, verdict, error, fence)| Settling { hold, message, verdict, error, fence },
    )
}

fn recurring(len: std::ops::Range<usize>) -> impl Strategy<Value = Vec<(MessageTarget, u8)>> {
    prop::collection::vec((place(), 0u8..6), len)
}

fn scheduling() -> impl Strategy<Value = Scheduling> {
    let ms = select(vec![0u64, 1, 1_000, 1_000, 3_000, 4_001, 30_000]);
    (place(), 0u8..12, prop::option::of(0u8..3), ms).prop_map(|(place, id, key, ms)| Scheduling {
        place,
        id,
        key,
        ms,
    })
}

pub(super) fn options() -> impl Strategy<Value = QueueOptions> {
    let jitter = select(vec![0u32, 0, 40, 100]);
    let tries = (select(vec![4u32, 30]), 0u32..4, select(vec![0u64, 1_000, 3_500]), jitter);
    let growth = (select(vec![6_000u64, 3_600_000]), any::<bool>(), prop::bool::weighted(0.8));
    let time = (-1i32..2, select(vec![0u32, 0, 0, 3]), select(vec![0u32, 0, 0, 2]));
    let limits = (
        select(vec![0u32, 0, 0, 0, 5, 12]),
        select(vec![0u32, 0, 0, 0, 4, 9]),
        prop::bool::weighted(0.4),
        (select(vec![0u32, 7, 25]), select(vec![0u32, 3, 22])),
    );
    // Stores only count the messages; the size limits are enforced by their callers.
    let sizes = (select(vec![0u64, 5, 100]), select(vec![0u64, 3, 100]), select(vec![0u32, 4]));
    let idle = select(vec![0u32, 8, 40]);
    let ranks = prop::collection::btree_map(0..PARTITIONS, -1i32..2, 0..PARTITIONS);
    let ranks = prop_oneof![2 => Just(Default::default()), 1 => ranks];
    (tries, growth, time, limits, (sizes, idle), ranks, any::<bool>(), prop::bool::weighted(0.2))
        .prop_map(|(tries, growth, time, limits, (sizes, idle), ranks, relaxed, lenient)| {
            QueueOptions {
                group_idle_secs: idle,
                ttl_secs: limits.0,
                wait_secs_max: limits.1,
                retention: limits.2,
                retention_secs: limits.3.0,
                completed_retention_secs: limits.3.1,
                lease_secs: tries.0,
                retry_limit: tries.1,
                retry_delay_ms: tries.2,
                retry_delay_ms_max: growth.0,
                retry_backoff: if growth.1 {
                    RetryBackoff::Exponential
                } else {
                    RetryBackoff::Fixed
                },
                dead_letters: growth.2,
                priority: time.0,
                delay_secs: time.1,
                window_secs: time.2,
                ordering: if relaxed { MessageOrder::Relaxed } else { MessageOrder::Strict },
                fencing: if lenient { Fencing::Lenient } else { Fencing::Strict },
                dedup_window_secs: DEDUP_SECS,
                retry_jitter_percent: tries.3,
                len_max: sizes.0,
                partition_len_max: sizes.1,
                lanes: sizes.2,
                partition_priorities: ranks
                    .into_iter()
                    .map(|(n, rank)| (partition(n), rank))
                    .collect(),
                ..QueueOptions::default()
            }
        })
}

fn maintenance() -> impl Strategy<Value = SetMaintenance> {
    use PushGate::{Hold, Open, Refuse};
    let pushes = select(vec![None, Some(Open), Some(Open), Some(Hold), Some(Hold), Some(Refuse)]);
    let pops_paused = select(vec![None, None, Some(true), Some(false)]);
    (pushes, pops_paused).prop_map(|(pushes, pops_paused)| SetMaintenance { pushes, pops_paused })
}

fn work() -> impl Strategy<Value = QueueOp> {
    let count = prop_oneof![8 => 1usize..6, 2 => 90usize..110, 1 => 110usize..250];
    let pick = prop_oneof![6 => 0usize..6, 1 => 6usize..300];
    prop_oneof![
        4 => (place(), count).prop_map(|(place, count)| QueueOp::PushFresh { place, count }),
        3 => recurring(1..8).prop_map(QueueOp::PushRecurring),
        8 => (place(), portion()).prop_map(|(place, portion)| QueueOp::Claim { place, portion }),
        3 => (prop::option::of(0..QUEUES), 1u32..4, portion()).prop_map(
            |(queue, partitions, portion)| QueueOp::ClaimAll { queue, partitions, portion }
        ),
        7 => prop::collection::vec(settling(), 1..6).prop_map(QueueOp::Settle),
        3 => (hold(), verdict(), any::<bool>())
            .prop_map(|(hold, verdict, backwards)| QueueOp::SettleAll { hold, verdict, backwards }),
        2 => prop::collection::vec(hold(), 1..3).prop_map(QueueOp::Release),
        2 => (hold(), 0u64..60).prop_map(|(hold, secs)| QueueOp::Extend { hold, secs }),
        2 => (recurring(0..4), prop::collection::vec(settling(), 0..4))
            .prop_map(|(pushes, settles)| QueueOp::Transact { pushes, settles }),
        2 => (0..QUEUES, prop::option::weighted(0.3, 0..GROUPS))
            .prop_map(|(queue, group)| QueueOp::Redrive { queue, group }),
        2 => (
            prop::collection::vec(scheduling(), 0..5),
            prop::collection::vec((0..QUEUES, 0u8..3), 0..2),
        )
            .prop_map(|(picks, cancels)| QueueOp::Schedule { picks, cancels }),
        2 => (hold(), 0usize..6, any::<bool>())
            .prop_map(|(hold, message, bury)| QueueOp::Intervene { hold, message, bury }),
        2 => (place(), prop::collection::vec(pick, 1..5))
            .prop_map(|(place, picks)| QueueOp::Delete { place, picks }),
    ]
}

fn rarity() -> impl Strategy<Value = QueueOp> {
    prop_oneof![
        5 => (0..QUEUES, options())
            .prop_map(|(queue, options)| QueueOp::Configure { queue, options }),
        1 => (0..QUEUES).prop_map(QueueOp::DeleteQueue),
        1 => (0..GROUPS, prop::option::of(0..QUEUES))
            .prop_map(|(group, queue)| QueueOp::DeleteGroup { group, queue }),
        2 => (0..GROUPS, prop::option::of(0..QUEUES), prop::option::of(0..PARTITIONS), begin())
            .prop_map(|(group, queue, partition, to)| {
                QueueOp::Seek { group, queue, partition, to }
            }),
        1 => (0..QUEUES, 0..GROUPS).prop_map(|(queue, group)| QueueOp::Purge { queue, group }),
        1 => (0..QUEUES, any::<bool>())
            .prop_map(|(queue, dead_letters)| QueueOp::Clear { queue, dead_letters }),
        4 => maintenance().prop_map(QueueOp::Maintain),
        4 => Just(QueueOp::Inspect),
        4 => Just(QueueOp::Housekeep),
    ]
}

fn time() -> impl Strategy<Value = QueueOp> {
    let ms =
        select(vec![1u64, 500, 999, 1_000, 2_000, 3_999, 4_000, 10_000, 20_000, 20_001, 30_000]);
    prop_oneof![
        1 => ms.prop_map(|ms| QueueOp::Advance { ms }),
        2 => (place(), 0..GROUPS, -1i64..2).prop_map(
            |(place, group, beside_ms)| QueueOp::AdvanceToDue { place, group, beside_ms }
        ),
    ]
}

/// Generates the options of the queues, and a sequence.
pub(super) fn sequences() -> impl Strategy<Value = (Vec<QueueOptions>, Vec<QueueOp>)> {
    let op = prop_oneof![9 => work(), 1 => rarity(), 3 => time()];
    (prop::collection::vec(options(), QUEUES), prop::collection::vec(op, 1..60))
}
