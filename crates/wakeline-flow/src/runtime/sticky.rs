//! Executions that are kept in memory between turns, so that active instances are not replayed.
//!
//! # Invariants
//! * An execution is used only if it matches the claim: the same instance (not another one with the
//!   same id), the same execution and the same last event. Otherwise it is dropped.
//! * An execution is taken out for a turn and put back after the commit. It is not put back if the
//!   commit failed or its outcome is unknown.

use std::collections::{BTreeMap, HashMap};

use parking_lot::Mutex;
use wakeline_core::InstanceId;

use crate::engine::Execution;

/// Identifies the state of an instance.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Stamp {
    pub(super) life: i64,
    pub(super) execution: u64,
    pub(super) last_event: u64,
}

/// The executions of a runtime that are kept in memory.
pub(super) struct Sticky {
    capacity: usize,
    kept: Mutex<CachedExecutions>,
}

#[derive(Default)]
struct CachedExecutions {
    by_instance: HashMap<InstanceId, (u64, Stamp, Execution)>,
    /// The instances in the order in which they were put in.
    order: BTreeMap<u64, InstanceId>,
    counter: u64,
}

impl Sticky {
    pub(super) fn new(capacity: usize) -> Self {
        Self { capacity, kept: Mutex::new(CachedExecutions::default()) }
    }

    /// Takes the execution of an instance out if it has this stamp.
    pub(super) fn take(&self, instance: &InstanceId, stamp: Stamp) -> Option<Execution> {
        let taken = {
            let mut kept = self.kept.lock();
            let taken = kept.by_instance.remove(instance);
            if let Some((at, ..)) = &taken {
                kept.order.remove(at);
            }
            taken
        };
        // Dropping a stale one runs destructors of users' values, so it happens outside the lock.
        taken.filter(|(_, known, _)| *known == stamp).map(|(_, _, execution)| execution)
    }

    /// Keeps an execution. If the capacity is exceeded, the one that was put in first is dropped.
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
