//! Messages and partitions.

use async_trait::async_trait;
use wakeline_core::{Change, GroupName, PartitionName, QueueName};
use wakeline_store::{
    Intervened, Intervention, ListedMessages, MessageFilter, MessageKey, MessagePlace, Page,
    PartitionDetail, QueueMessages, StoreError, WholeStore,
};

use super::FaultingStore;

passes! { QueueMessages:
    fn browse(filter: MessageFilter, place: Option<MessagePlace>, limit: u32) -> ListedMessages;
    fn intervene(
        message: MessageKey,
        group: &GroupName,
        intervention: Intervention,
    ) -> (Intervened, Vec<Change>);
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
