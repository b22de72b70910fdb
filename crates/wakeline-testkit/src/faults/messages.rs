//! Calls of messages and partitions, with planned faults.

use async_trait::async_trait;
use wakeline_core::{Change, GroupName, PartitionName, QueueName};
use wakeline_store::{
    Backend, BrowsePosition, Intervention, InterventionOutcome, ListedMessages, MessageFilter,
    MessageKey, Page, PartitionDetail, QueueMessages, StoreError,
};

use super::FaultingStore;

passes! { QueueMessages:
    fn browse(filter: MessageFilter, place: Option<BrowsePosition>, limit: u32) -> ListedMessages;
    fn intervene(
        message: MessageKey,
        group: &GroupName,
        intervention: Intervention,
    ) -> (InterventionOutcome, Vec<Change>);
    fn delete_message(message: MessageKey) -> (bool, Vec<Change>);
    fn clear_queue(queue: &QueueName, dead_letters: bool) -> Option<u64>;
    fn clear_partition(
        queue: &QueueName,
        partition: &PartitionName,
        dead_letters: bool,
    ) -> Option<u64>;
    fn delete_partition(queue: &QueueName, partition: &PartitionName) -> bool;
    fn partitions(queue: Option<&QueueName>, page: Page) -> Vec<PartitionDetail>;
}
