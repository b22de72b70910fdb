//! Settling messages and holding on to leases.

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

/// What became of a message.
#[derive(Debug, Clone, Copy, Default, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub(crate) enum AckStatus {
    /// Done.
    #[default]
    Completed,
    /// The same as `completed`.
    Success,
    /// Failed: counts, and is tried again up to the queue's limit.
    Failed,
    /// Give it back: does not count, is available at once.
    Retry,
    /// Hopeless: a dead letter now.
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

/// One message to settle.
#[derive(Debug, Clone, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct AckBody {
    /// The name of its push.
    pub(crate) transaction_id: Option<String>,
    /// The id of its partition.
    pub(crate) partition_id: Option<String>,
    /// What became of it; `completed` if omitted.
    pub(crate) status: Option<AckStatus>,
    /// Why, for failed messages.
    pub(crate) error: Option<String>,
    /// On whose behalf it was popped; that of the lease if omitted.
    pub(crate) consumer_group: Option<String>,
    /// The lease it was popped under.
    pub(crate) lease_id: Option<String>,
}

/// Several messages to settle.
#[derive(Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct AckBatchBody {
    /// The messages, in any order.
    pub(crate) acknowledgments: Option<Vec<AckBody>>,
    /// On whose behalf they were popped; those of their leases if omitted.
    pub(crate) consumer_group: Option<String>,
}

/// A validated settlement: a command, or an outcome that needs no store to be known.
pub(crate) enum Settlement {
    /// The group is that of the lease, if the request names none.
    Ask(SettleItem, Option<GroupId>),
    Known(SettleOutcome),
}

impl Settlement {
    /// Those that need the store.
    pub(crate) fn items(all: &[Self]) -> impl Iterator<Item = &SettleItem> {
        all.iter().filter_map(|one| match one {
            Self::Ask(item, _) => Some(item),
            Self::Known(_) => None,
        })
    }

    /// Names the groups that are known by their leases alone. Meant to follow the check of
    /// permissions: whether a group exists is nothing for those who may not settle in it.
    pub(crate) async fn name_groups(state: &AppState, all: &mut [Self]) -> Result<(), ApiError> {
        let unnamed = all.iter().filter_map(|one| match one {
            Self::Ask(_, group) => *group,
            Self::Known(_) => None,
        });
        let unnamed: Vec<GroupId> = unnamed.collect();
        if unnamed.is_empty() {
            return Ok(());
        }
        let mut names = state.access().groups_of(&unnamed).await?.into_iter();
        for settlement in all {
            let Self::Ask(item, Some(_)) = settlement else { continue };
            match names.next().flatten() {
                Some(name) => item.group = name,
                // Leases go with their group.
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
        Ok(Settlement::Ask(item, leased))
    }
}

/// The leases that a transaction requires, by the partitions that they cover.
#[derive(Default)]
pub(crate) struct RequiredLeases {
    leases: Vec<LeaseId>,
    /// The first lease that covers a partition, by its place.
    covering: HashMap<PartitionId, usize>,
}

impl RequiredLeases {
    pub(crate) fn new(ids: &[String]) -> Self {
        let leases: Vec<LeaseId> = ids.iter().filter_map(|id| id.parse().ok()).collect();
        let mut covering = HashMap::new();
        for (place, lease) in leases.iter().enumerate() {
            for cursor in &lease.cursors {
                covering.entry(cursor.partition).or_insert(place);
            }
        }
        Self { leases, covering }
    }

    fn covering(&self, partition: PartitionId) -> Option<&LeaseId> {
        self.covering.get(&partition).map(|place| &self.leases[*place])
    }
}

/// Reads the id of a partition. `None` if it is one that this server never gave out: it names no
/// message, which is an outcome and not a mistake.
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

/// A consumer group, or the one of consumers that name none.
pub(crate) fn group_name(name: Option<&str>) -> Result<GroupName, ApiError> {
    Ok(match name {
        Some(name) => GroupName::new(name)?,
        None => GroupName::queue_mode(),
    })
}

/// What became of one settlement.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct AckResult {
    /// Its place in the request.
    index: usize,
    /// The name of the message's push.
    transaction_id: String,
    /// Whether it was recorded.
    success: bool,
    /// Why not.
    error: Option<&'static str>,
    /// The queue.
    queue_name: Option<String>,
    /// The partition.
    partition_name: Option<String>,
    /// Whether this ended the lease of the partition.
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

/// Why a settlement was not recorded, in the words that clients know.
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

/// How long to hold on to a lease.
#[derive(Default, Deserialize, ToSchema)]
pub(crate) struct ExtendBody {
    /// Seconds from now; 60 if omitted.
    pub(crate) seconds: Option<u32>,
}

/// How a lease stands after its extension. Several names for one time: clients of several
/// versions look for it.
#[derive(Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ExtendAnswer {
    lease_id: String,
    /// Whether it is held on in at least one partition.
    success: bool,
    /// How many partitions are held on.
    renewed: usize,
    /// Partitions that were no longer held.
    lost: Vec<String>,
    /// When it ends now.
    new_expires_at: Option<String>,
    /// When it ends now.
    expires_at: Option<String>,
    /// When it ends now.
    #[serde(rename = "lease_expires_at")]
    lease_expires_at: Option<String>,
}

impl ExtendAnswer {
    pub(crate) fn new(lease: &LeaseId, extension: &Extension) -> Self {
        let expires_at = extension.expires_at.map(|moment: Timestamp| render::time(moment));
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
