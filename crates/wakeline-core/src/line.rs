//! What consumers wait for, and what a commit may have changed for them.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::name::{GroupName, Namespace, PartitionName, QueueName, TaskName};
use crate::time::Timestamp;

/// What a pop asks for.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Selector {
    /// Any partition of one queue.
    Queue(QueueName),
    /// One partition of one queue.
    Partition(QueueName, PartitionName),
    /// Any partition of any queue of a namespace, of a task, of both; of all queues if neither
    /// is given.
    Filter {
        /// Only queues of this namespace.
        namespace: Option<Namespace>,
        /// Only queues of this task.
        task: Option<TaskName>,
    },
}

/// What hints speak of. For the queue face it is exactly what a pop can ask for.
pub type Topic = Selector;

/// What is claimed together: a selector and the consumer group that reads it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct QueueLine {
    /// Where messages may come from.
    pub selector: Selector,
    /// On whose behalf they are read.
    pub group: GroupName,
}

impl QueueLine {
    /// The line in which a node waits for background work of the queues. Its names are
    /// placeholders: nobody reads a queue in it.
    pub fn chores() -> Self {
        let queue = QueueName::new("*").expect("a valid name");
        Self { selector: Selector::Queue(queue), group: GroupName::chores() }
    }

    /// True for [`QueueLine::chores`].
    pub fn is_chores(&self) -> bool {
        self.group.is_chores() && matches!(&self.selector, Selector::Queue(q) if q.as_str() == "*")
    }
}

/// Where a new group begins. Takes effect at its first poll, even of an empty queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Subscription {
    /// Everything that the queue still holds.
    #[default]
    All,
    /// Only what is pushed after the first poll.
    New,
    /// What was pushed at or after a moment, which must not lie in the future.
    From(Timestamp),
}

/// A hint: something may have become available. Carries no message.
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
    /// The group that it matters to, or `None` if it may matter to all.
    pub group: Option<GroupName>,
    /// How long from now until there is something to claim.
    pub due_in: Duration,
}

impl Change {
    /// A hint for those of a group who wait on a namespace and task, whether or not a queue of
    /// them exists by now. It speaks of no queue in particular: the name in it is a placeholder.
    pub fn of_filter(
        namespace: Option<Namespace>,
        task: Option<TaskName>,
        group: GroupName,
    ) -> Self {
        let queue = QueueName::new("*").expect("a valid name");
        let due_in = Duration::ZERO;
        Self { queue, partition: None, namespace, task, group: Some(group), due_in }
    }

    /// A hint for the nodes: there is background work, or will be.
    pub fn of_chores(due_in: Duration) -> Self {
        Self { due_in, ..Self::of_filter(None, None, GroupName::chores()) }
    }

    /// Everyone who may be waiting for this: on the queue, on its partition, and on its
    /// namespace and task in every combination (trap 37). With no partition named, waiters on
    /// single partitions are found by [`Change::concerns`] instead.
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

    /// Whether a consumer waiting in this line might get something because of it.
    pub fn concerns(&self, line: &QueueLine) -> bool {
        if self.group.as_ref().is_some_and(|group| *group != line.group) {
            return false;
        }
        if line.is_chores() && self.group.is_none() {
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
    fn a_push_speaks_to_every_view_of_its_message() {
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
    fn a_hint_without_a_queue_speaks_to_its_filter_and_its_group() {
        let namespace = Namespace::new("n").ok();
        let group = GroupName::new("g").expect("valid");
        let change = Change::of_filter(namespace.clone(), None, group.clone());
        let mut line = QueueLine { selector: Selector::Filter { namespace, task: None }, group };
        assert!(change.concerns(&line));
        line.group = GroupName::queue_mode();
        assert!(!change.concerns(&line));
    }

    #[test]
    fn background_work_is_told_of_by_its_own_hint_only() {
        let chores = QueueLine::chores();
        assert!(chores.is_chores() && Change::of_chores(Duration::ZERO).concerns(&chores));
        assert!(Change::of_chores(Duration::ZERO).topics().contains(&chores.selector));
        let other = Change { queue: QueueName::new("*").expect("valid"), ..change() };
        assert!(!other.concerns(&chores));
        assert!(!Change::of_chores(Duration::ZERO).concerns(&line(chores.selector)));
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
    fn a_change_for_one_group_leaves_the_others_asleep() {
        let change = Change { group: GroupName::new("g").ok(), ..change() };
        let selector = Selector::Queue(change.queue.clone());
        assert!(!change.concerns(&line(selector.clone())));
        assert!(
            change.concerns(&QueueLine { selector, group: GroupName::new("g").expect("valid") })
        );
    }
}
