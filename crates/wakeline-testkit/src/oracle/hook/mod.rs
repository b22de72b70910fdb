//! The rules of `docs/reference/hook.md`, word by word.
//!
//! # Where it sits
//! The third part of [`MemoryStore`]: the same clock and the same lock as queues and
//! orchestrations.
//!
//! # Invariants
//! * One module per section of the rules; what a rule leaves open is decided in one place, simply.

mod admin;
mod catalog;
mod claim;
mod emit;
mod event_types;
mod faces;
mod follow;
mod gate;
mod jobs;
mod page;
mod read;
mod settle;
mod state;

use std::collections::BTreeMap;
use std::time::Duration;

use wakeline_core::{HookLine, Timestamp};
use wakeline_store::Consequence;

use gate::Sight;
pub(super) use state::Hook;

use super::MemoryStore;

impl MemoryStore {
    /// How often each operation of webhooks was called, by the method's name.
    pub fn hook_calls(&self) -> BTreeMap<&'static str, u64> {
        self.state.lock().hook_calls.clone()
    }

    fn hook<T>(&self, operation: &'static str, call: impl FnOnce(&mut Hook, Timestamp) -> T) -> T {
        let mut state = self.state.lock();
        *state.hook_calls.entry(operation).or_default() += 1;
        call(&mut state.hook, self.now())
    }

    /// The same for an administrative write: the deed of the caller is recorded with it.
    fn hook_act<T: Consequence>(
        &self,
        operation: &'static str,
        act: impl FnOnce(&mut Hook, Timestamp) -> T,
    ) -> T {
        self.recorded(|state, now| {
            *state.hook_calls.entry(operation).or_default() += 1;
            act(&mut state.hook, now)
        })
    }
}

impl Hook {
    /// Every moment at which time alone changes something.
    pub(super) fn moments(&self) -> Vec<Timestamp> {
        let rows = self.rows.values().filter_map(|row| {
            row.waiting().map(|plan| plan.due).or(row.lease().map(|lease| lease.until))
        });
        let spots = self.spots.values().map(|spot| spot.ready_at());
        let payloads = self.messages.values().filter(|message| message.payload.is_some());
        rows.chain(spots).chain(payloads.map(|message| message.expires_at)).collect()
    }

    fn sweep(&self, line: &HookLine, now: Timestamp) -> Option<Duration> {
        match line {
            HookLine::Chores => self.chores_due(now),
            HookLine::Push | HookLine::PushFresh | HookLine::Pull(_) => {
                let fresh_only = *line == HookLine::PushFresh;
                self.line_due(line, Sight { fresh_only, leases: true }, now)
            }
        }
    }
}
