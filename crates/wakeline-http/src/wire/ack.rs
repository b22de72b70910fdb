//! Wire types for settling messages and extending leases.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use uuid::Uuid;
use wakeline_core::{GroupId, GroupName, LeaseId, PartitionId, Timestamp, TransactionId, Verdict};
use wakeline_store::{Extension, SettleItem, SettleOutcome};

use crate::error::ApiError;
use crate::input::strict::shortened;
use crate::render;
use crate::state::AppState;

/// How a consumer settles a message.
#[derive(Debug, Clone, Copy, Default, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum AckStatus {
    /// The message was processed.
    #[default]
    Completed,
    /// The same as `completed`.
    Success,
    /// Processing failed. The failure counts, and the message is retried up to the queue's limit.
    Failed,
    /// The message is returned and available immediately. No failure is counted.
    Retry,
    /// The message becomes a dead letter immediately.
    Dlq,
}

impl From<AckStatus> for Verdict {
    fn from(status: AckStatus) -> Self {
        match status {
            AckStatus::Completed | AckStatus::Success => Self::Completed,
            AckStatus::Failed => Self::Failed,
            AckStatus::Retry => Self::Retry,
            AckStatus::Dlq => Self::DeadLetter,
        }
    }
}

/// A message to settle.
#[derive(Debug, Clone, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct AckBody {
    /// The transaction id of the message.
    pub(crate) transaction_id: Option<String>,
    /// The id of the message's partition.
    pub(crate) partition_id: Option<String>,
    /// How the message is settled; `completed` if omitted.
    pub(crate) status: Option<AckStatus>,
    /// The reason, for failed messages.
    pub(crate) error: Option<String>,
    /// The consumer group that popped the message. If omitted, the group of the lease.
    pub(crate) consumer_group: Option<String>,
    /// The lease under which the message was popped.
    pub(crate) lease_id: Option<String>,
}

/// Several messages to settle.
#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct AckBatchBody {
    /// The messages, in any order.
    pub(crate) acknowledgments: Option<Vec<AckBody>>,
    /// The consumer group that popped the messages. If omitted, the groups of their leases.
    pub(crate) consumer_group: Option<String>,
}

/// A validated settlement: a command for the store, or an outcome that is known without it.
pub(crate) enum Settlement {
    /// A command, with the lease's group if the request names none.
    Command(SettleItem, Option<GroupId>),
    Known(SettleOutcome),
}

impl Settlement {
    /// The commands among the settlements.
    pub(crate) fn items(all: &[Self]) -> impl Iterator<Item = &SettleItem> {
        all.iter().filter_map(|one| match one {
            Self::Command(item, _) => Some(item),
            Self::Known(_) => None,
        })
    }

    /// Looks up the names of groups that are known only by their leases. Must follow the check of
    /// permissions, because callers that may not settle in a group must not learn whether it
    /// exists.
    pub(crate) async fn name_groups(state: &AppState, all: &mut [Self]) -> Result<(), ApiError> {
        let unnamed = all.iter().filter_map(|one| match one {
            Self::Command(_, group) => *group,
            Self::Known(_) => None,
        });
        let unnamed: Vec<GroupId> = unnamed.collect();
        if unnamed.is_empty() {
            return Ok(());
        }
        let mut names = state.access().groups_of(&unnamed).await?.into_iter();
        for settlement in all {
            let Self::Command(item, Some(_)) = settlement else { continue };
            match names.next().flatten() {
                Some(name) => item.group = name,
                // The group was deleted, and its leases with it.
                None => *settlement = Self::Known(SettleOutcome::StaleLease),
            }
        }
        Ok(())
    }
}

impl AckBody {
    /// Checks one acknowledgment. `group` is used if it names none.
    pub(crate) fn check(
        &self,
        group: Option<&str>,
        required: &RequiredLeases,
    ) -> Result<Settlement, ApiError> {
        let transaction_id = self.transaction_id.as_deref();
        let transaction_id =
            transaction_id.ok_or_else(|| ApiError::invalid("transactionId is required"))?;
        let partition = self.partition_id.as_deref().ok_or_else(|| {
            ApiError::invalid("partitionId is required to ensure message uniqueness")
        })?;
        let Some(partition) = partition_id(partition)? else {
            return Ok(Settlement::Known(SettleOutcome::NotFound));
        };
        let own;
        let lease = match self.lease_id.as_deref() {
            None | Some("") => required.covering(partition),
            Some(text) => match text.parse::<LeaseId>() {
                Ok(lease) => {
                    own = lease;
                    Some(&own)
                }
                Err(_) => return Ok(Settlement::Known(SettleOutcome::StaleLease)),
            },
        };
        let group = self.consumer_group.as_deref().or(group);
        let cursor =
            lease.and_then(|lease| lease.cursors.iter().find(|c| c.partition == partition));
        let leased = cursor.map(|cursor| cursor.group).filter(|_| group.is_none());
        let item = SettleItem {
            partition,
            group: group_name(group)?,
            token: lease.map(|lease| lease.token),
            transaction_id: TransactionId::new(transaction_id)?,
            verdict: self.status.unwrap_or_default().into(),
            error: self.error.clone(),
        };
        Ok(Settlement::Command(item, leased))
    }
}

/// The leases that a transaction requires, by the partitions that they cover.
#[derive(Default)]
pub(crate) struct RequiredLeases {
    leases: Vec<LeaseId>,
    /// The index of the first lease that covers a partition.
    covering: HashMap<PartitionId, usize>,
}

impl RequiredLeases {
    pub(crate) fn new(ids: &[String]) -> Self {
        let leases: Vec<LeaseId> = ids.iter().filter_map(|id| id.parse().ok()).collect();
        let mut covering = HashMap::new();
        for (index, lease) in leases.iter().enumerate() {
            for cursor in &lease.cursors {
                covering.entry(cursor.partition).or_insert(index);
            }
        }
        Self { leases, covering }
    }

    fn covering(&self, partition: PartitionId) -> Option<&LeaseId> {
        self.covering.get(&partition).map(|index| &self.leases[*index])
    }
}

/// Parses the id of a partition. Returns `None` for a UUID that this server never generates: no
/// message has such a partition, which is an outcome rather than an invalid request.
pub(crate) fn partition_id(text: &str) -> Result<Option<PartitionId>, ApiError> {
    if Uuid::parse_str(text).is_err() {
        return Err(ApiError::invalid(format!(
            "partitionId {:?} is not an id: use the partitionId of the popped message, not the \
             name of its partition",
            shortened(text)
        )));
    }
    Ok(text.parse().ok())
}

/// Parses the name of a consumer group. `None` is the group of consumers that name none.
pub(crate) fn group_name(name: Option<&str>) -> Result<GroupName, ApiError> {
    Ok(match name {
        Some(name) => GroupName::new(name)?,
        None => GroupName::queue_mode(),
    })
}

/// The result of settling one message.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct AckResult {
    /// The index of the message in the request.
    index: usize,
    /// The transaction id of the message.
    transaction_id: String,
    /// Whether the settlement was recorded.
    success: bool,
    /// Why the settlement was not recorded.
    error: Option<&'static str>,
    /// The queue of the message.
    queue_name: Option<String>,
    /// The partition of the message.
    partition_name: Option<String>,
    /// Whether the settlement ended the lease of the partition.
    lease_released: bool,
    /// Whether the message is a dead letter now.
    dlq: bool,
}

impl AckResult {
    pub(crate) fn new(index: usize, transaction_id: &str, outcome: &SettleOutcome) -> Self {
        let mut result = Self {
            index,
            transaction_id: transaction_id.to_owned(),
            success: false,
            error: refusal(outcome),
            queue_name: None,
            partition_name: None,
            lease_released: false,
            dlq: false,
        };
        if let SettleOutcome::Settled { queue, partition, lease_ended, dead_lettered, .. } = outcome
        {
            result.success = true;
            result.queue_name = Some(queue.to_string());
            result.partition_name = Some(partition.to_string());
            result.lease_released = *lease_ended;
            result.dlq = *dead_lettered;
        }
        result
    }
}

/// Why a settlement was not recorded. Published clients recognise some of these texts.
pub(crate) fn refusal(outcome: &SettleOutcome) -> Option<&'static str> {
    match outcome {
        SettleOutcome::Settled { .. } => None,
        SettleOutcome::StaleLease => Some("Invalid or expired lease"),
        SettleOutcome::NotFound => Some("Message not found"),
        SettleOutcome::LeaseRequired => {
            Some("Lease required: send the leaseId that the message was popped under")
        }
    }
}

/// The length of an extension.
#[derive(Default, Deserialize, ToSchema)]
pub(crate) struct ExtendBody {
    /// The number of seconds from now; 60 if omitted.
    pub(crate) seconds: Option<u32>,
}

/// A lease after its extension. The end of the lease has several names because versions of clients
/// use different ones.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ExtendAnswer {
    /// The lease.
    lease_id: String,
    /// Whether the lease was extended in at least one partition.
    success: bool,
    /// The number of partitions in which the lease was extended.
    renewed: usize,
    /// The partitions in which the lease was no longer held.
    lost: Vec<String>,
    /// The new end of the lease.
    new_expires_at: Option<String>,
    /// The new end of the lease.
    expires_at: Option<String>,
    /// The new end of the lease.
    #[serde(rename = "lease_expires_at")]
    lease_expires_at: Option<String>,
}

impl ExtendAnswer {
    pub(crate) fn new(lease: &LeaseId, extension: &Extension) -> Self {
        let expires_at = extension.expires_at.map(|time: Timestamp| render::time(time));
        Self {
            lease_id: lease.to_string(),
            success: !extension.held.is_empty(),
            renewed: extension.held.len(),
            lost: extension.lost.iter().map(ToString::to_string).collect(),
            new_expires_at: expires_at.clone(),
            expires_at: expires_at.clone(),
            lease_expires_at: expires_at,
        }
    }
}
