//! The rules of `docs/reference/hook.md`, followed literally.
//!
//! # Where it sits
//! A part of [`MemoryStore`] with the same clock and the same lock as queues and orchestrations.
//!
//! # Invariants
//! * Each section of the rules has one module. What a rule leaves open is decided in one place, in
//!   the simplest way.

mod admin;
mod catalog;
mod claim;
mod emit;
mod event_types;
mod follow;
mod gate;
mod jobs;
mod page;
mod read;
mod settle;
mod state;
mod traits;

use std::collections::BTreeMap;
use std::time::Duration;

use wakeline_core::{HookLine, Timestamp};
use wakeline_store::Consequence;

use gate::LineSight;
pub(super) use state::OracleHook;

use super::MemoryStore;

impl MemoryStore {
    /// Returns how often each webhook operation was called, by the method's name.
    pub fn hook_calls(&self) -> BTreeMap<&'static str, u64> {
        self.state.lock().hook_calls.clone()
    }

    fn hook<T>(
        &self,
        operation: &'static str,
        call: impl FnOnce(&mut OracleHook, Timestamp) -> T,
    ) -> T {
        let mut state = self.state.lock();
        *state.hook_calls.entry(operation).or_default() += 1;
        call(&mut state.hook, self.now())
    }

    /// Like `hook`, for an administrative write: also records the caller's audit action.
    fn hook_act<T: Consequence>(
        &self,
        operation: &'static str,
        call: impl FnOnce(&mut OracleHook, Timestamp) -> T,
    ) -> T {
        self.recorded(|state, now| {
            *state.hook_calls.entry(operation).or_default() += 1;
            call(&mut state.hook, now)
        })
    }
}

impl OracleHook {
    /// Returns every time at which something changes by the clock alone.
    pub(super) fn moments(&self) -> Vec<Timestamp> {
        let rows = self.rows.values().filter_map(|row| {
            row.waiting().map(|plan| plan.due).or(row.lease().map(|lease| lease.until))
        });
        let entries = self.endpoint_entries.values().map(|entry| entry.ready_at());
        let payloads = self.messages.values().filter(|message| message.payload.is_some());
        rows.chain(entries).chain(payloads.map(|message| message.expires_at)).collect()
    }

    fn sweep(&self, line: &HookLine, now: Timestamp) -> Option<Duration> {
        match line {
            HookLine::Background => self.background_due(now),
            HookLine::Push | HookLine::PushFresh | HookLine::Pull(_) => {
                let fresh_only = *line == HookLine::PushFresh;
                self.line_due(line, LineSight { fresh_only, leases: true }, now)
            }
        }
    }
}
