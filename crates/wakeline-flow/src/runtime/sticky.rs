//! Executions kept in memory between turns, so that hot instances are not replayed.
//!
//! # Invariants
//! * One is used only if it is exactly what the claim names: the same life of the instance, the
//!   same execution, the same last event. Anything else is dropped.
//! * It is taken out for a turn and put back after its commit; a turn whose commit failed or is
//!   of unknown outcome does not put it back.

use std::collections::{BTreeMap, HashMap};

use parking_lot::Mutex;
use wakeline_core::InstanceId;

use crate::engine::Execution;

/// What identifies the state of an instance.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Stamp {
    pub(super) life: i64,
    pub(super) execution: u64,
    pub(super) last_event: u64,
}

pub(super) struct Sticky {
    capacity: usize,
    kept: Mutex<Kept>,
}

#[derive(Default)]
struct Kept {
    by_instance: HashMap<InstanceId, (u64, Stamp, Execution)>,
    /// Instances by when they were put in, the oldest first.
    order: BTreeMap<u64, InstanceId>,
    counter: u64,
}

impl Sticky {
    pub(super) fn new(capacity: usize) -> Self {
        Self { capacity, kept: Mutex::new(Kept::default()) }
    }

    /// Takes the execution out, if it is the one that is meant.
    pub(super) fn take(&self, instance: &InstanceId, stamp: Stamp) -> Option<Execution> {
        let taken = {
            let mut kept = self.kept.lock();
            let taken = kept.by_instance.remove(instance);
            if let Some((at, ..)) = &taken {
                kept.order.remove(at);
            }
            taken
        };
        // Dropping the wrong one runs destructors of users' values: not under the lock.
        taken.filter(|(_, known, _)| *known == stamp).map(|(_, _, execution)| execution)
    }

    /// Keeps an execution; the one that rested longest makes room.
    pub(super) fn put(&self, instance: InstanceId, stamp: Stamp, execution: Execution) {
        if self.capacity == 0 {
            return;
        }
        let mut dropped = Vec::new();
        {
            let mut kept = self.kept.lock();
            kept.counter += 1;
            let at = kept.counter;
            if let Some(before) = kept.by_instance.insert(instance.clone(), (at, stamp, execution))
            {
                kept.order.remove(&before.0);
                dropped.push(before);
            }
            kept.order.insert(at, instance);
            if kept.by_instance.len() > self.capacity
                && let Some((_, oldest)) = kept.order.pop_first()
            {
                dropped.extend(kept.by_instance.remove(&oldest));
            }
        }
        drop(dropped);
    }
}
