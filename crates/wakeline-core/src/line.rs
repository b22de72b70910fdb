//! The lines in which consumers wait, and the changes that a commit reports to them.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::name::{GroupName, Namespace, PartitionName, QueueName, TaskName};
use crate::time::Timestamp;

/// The queues and partitions that a pop reads from.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Selector {
    /// Any partition of one queue.
    Queue(QueueName),
    /// One partition of one queue.
    Partition(QueueName, PartitionName),
    /// Any partition of any queue of a namespace, of a task, or of both; of all queues if neither
    /// is given.
    Filter {
        /// Only queues of this namespace.
        namespace: Option<Namespace>,
        /// Only queues of this task.
        task: Option<TaskName>,
    },
}

/// What a hint refers to. In the queue API it is exactly what a pop can select.
pub type Topic = Selector;

/// What is claimed together: a selector and the consumer group that reads it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct QueueLine {
    /// Where messages may come from.
    pub selector: Selector,
    /// The consumer group on whose behalf they are read.
    pub group: GroupName,
}

impl QueueLine {
    /// Returns the line in which a node waits for background work of the queues. Its names are
    /// placeholders: no queue is read through it.
    pub fn background() -> Self {
        let queue = QueueName::new("*").expect("a valid name");
        Self { selector: Selector::Queue(queue), group: GroupName::background() }
    }

    /// Returns whether this is [`QueueLine::background`].
    pub fn is_background(&self) -> bool {
        self.group.is_background()
            && matches!(&self.selector, Selector::Queue(q) if q.as_str() == "*")
    }
}

/// Where a new group begins. This takes effect at the group's first poll, even of an empty queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Subscription {
    /// With everything that the queue still holds.
    #[default]
    All,
    /// With what is pushed after the first poll.
    New,
    /// With what was pushed at or after a time, which must not lie in the future.
    From(Timestamp),
}

/// A hint: something may have become available. It carries no message.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Change {
    /// The queue in which something changed.
    pub queue: QueueName,
    /// The partition, or `None` if any of them may have changed.
    pub partition: Option<PartitionName>,
    /// The queue's namespace.
    pub namespace: Option<Namespace>,
    /// The queue's task.
    pub task: Option<TaskName>,
    /// The group that it concerns, or `None` if it may concern all groups.
    pub group: Option<GroupName>,
    /// The time from now until there is something to claim.
    pub due_in: Duration,
}

impl Change {
    /// Creates a hint for the waiters of a group on a namespace and task, whether or not a queue of
    /// them exists already. It concerns no queue in particular: the name in it is a placeholder.
    pub fn of_filter(
        namespace: Option<Namespace>,
        task: Option<TaskName>,
        group: GroupName,
    ) -> Self {
        let queue = QueueName::new("*").expect("a valid name");
        let due_in = Duration::ZERO;
        Self { queue, partition: None, namespace, task, group: Some(group), due_in }
    }

    /// Creates a hint for the nodes: there is background work, or will be.
    pub fn of_background(due_in: Duration) -> Self {
        Self { due_in, ..Self::of_filter(None, None, GroupName::background()) }
    }

    /// Returns all topics whose waiters may be concerned: the queue, its partition, and its
    /// namespace and task in every combination. All combinations are needed, because a consumer may
    /// wait on the namespace alone, on the task alone, on both, or on all queues. If no partition
    /// is named, waiters on single partitions are found by [`Change::concerns`] instead.
    pub fn topics(&self) -> Vec<Topic> {
        let mut topics = vec![Selector::Queue(self.queue.clone())];
        if let Some(partition) = &self.partition {
            topics.push(Selector::Partition(self.queue.clone(), partition.clone()));
        }
        let namespaces = [None, self.namespace.clone()];
        let tasks = [None, self.task.clone()];
        for namespace in &namespaces[..1 + usize::from(self.namespace.is_some())] {
            for task in &tasks[..1 + usize::from(self.task.is_some())] {
                topics.push(Selector::Filter { namespace: namespace.clone(), task: task.clone() });
            }
        }
        topics
    }

    /// Returns whether a consumer waiting in this line might get something because of the change.
    pub fn concerns(&self, line: &QueueLine) -> bool {
        if self.group.as_ref().is_some_and(|group| *group != line.group) {
            return false;
        }
        if line.is_background() && self.group.is_none() {
            return false;
        }
        match &line.selector {
            Selector::Queue(queue) => *queue == self.queue,
            Selector::Partition(queue, partition) => {
                *queue == self.queue && self.partition.as_ref().is_none_or(|p| p == partition)
            }
            Selector::Filter { namespace, task } => {
                (namespace.is_none() || *namespace == self.namespace)
                    && (task.is_none() || *task == self.task)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn change() -> Change {
        Change {
            queue: QueueName::new("n.t").expect("valid"),
            partition: Some(PartitionName::new("p").expect("valid")),
            namespace: Some(Namespace::new("n").expect("valid")),
            task: Some(TaskName::new("t").expect("valid")),
            group: None,
            due_in: Duration::ZERO,
        }
    }

    fn line(selector: Selector) -> QueueLine {
        QueueLine { selector, group: GroupName::queue_mode() }
    }

    #[test]
    fn a_push_concerns_every_line_that_can_read_its_message() {
        let change = change();
        let topics = change.topics();
        assert_eq!(topics.len(), 6);
        for topic in topics {
            assert!(change.concerns(&line(topic)));
        }
        let other = Namespace::new("other").ok();
        assert!(!change.concerns(&line(Selector::Filter { namespace: other, task: None })));
    }

    #[test]
    fn a_hint_without_a_queue_concerns_its_filter_and_its_group() {
        let namespace = Namespace::new("n").ok();
        let group = GroupName::new("g").expect("valid");
        let change = Change::of_filter(namespace.clone(), None, group.clone());
        let mut line = QueueLine { selector: Selector::Filter { namespace, task: None }, group };
        assert!(change.concerns(&line));
        line.group = GroupName::queue_mode();
        assert!(!change.concerns(&line));
    }

    #[test]
    fn background_work_is_reported_only_by_its_own_hint() {
        let background = QueueLine::background();
        assert!(
            background.is_background()
                && Change::of_background(Duration::ZERO).concerns(&background)
        );
        assert!(Change::of_background(Duration::ZERO).topics().contains(&background.selector));
        let other = Change { queue: QueueName::new("*").expect("valid"), ..change() };
        assert!(!other.concerns(&background));
        assert!(!Change::of_background(Duration::ZERO).concerns(&line(background.selector)));
    }

    #[test]
    fn keys_are_structured_so_that_colons_cannot_collide() {
        let joined = Selector::Queue(QueueName::new("a:b").expect("valid"));
        let split = Selector::Partition(
            QueueName::new("a").expect("valid"),
            PartitionName::new("b").expect("valid"),
        );
        assert_ne!(joined, split);
    }

    #[test]
    fn a_change_for_one_group_does_not_concern_others() {
        let change = Change { group: GroupName::new("g").ok(), ..change() };
        let selector = Selector::Queue(change.queue.clone());
        assert!(!change.concerns(&line(selector.clone())));
        assert!(
            change.concerns(&QueueLine { selector, group: GroupName::new("g").expect("valid") })
        );
    }
}
