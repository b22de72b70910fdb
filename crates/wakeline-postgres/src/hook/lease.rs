//! Releases and extends leases of deliveries, and sweeps.

use std::time::Duration;

use uuid::Uuid;
use wakeline_core::{DeliveryToken, HookChange, HookLine};
use wakeline_store::StoreError;

use super::HookCore;
use super::wire::{change, index, merge, micros};
use crate::rows::{self, Columns};

const RELEASE: &str = "release deliveries";
const EXTEND: &str = "extend deliveries";
const SWEEP: &str = "sweep hook";

/// The maximum number of lines in one call of a sweep.
const LINES_MAX: usize = 1000;

fn split(tokens: &[DeliveryToken]) -> (Vec<i64>, Vec<Uuid>) {
    tokens.iter().map(|token| (token.delivery, token.attempt.0)).unzip()
}

impl HookCore {
    /// Releases deliveries whose attempts were not made.
    pub(super) async fn release(
        &self,
        tokens: Vec<DeliveryToken>,
    ) -> Result<Vec<HookChange>, StoreError> {
        if tokens.is_empty() {
            return Ok(Vec::new());
        }
        let (deliveries, keys) = split(&tokens);
        let rows = self.general(RELEASE, &self.sql.release, &[&deliveries, &keys]).await?;
        let mut changes = Vec::new();
        for row in &rows {
            let mut columns = Columns::new(RELEASE, row);
            let (endpoint, pull) = (columns.take()?, columns.take()?);
            let due: Option<i64> = columns.take()?;
            if let Some(due) = due {
                merge(&mut changes, change(endpoint, pull, due));
            }
        }
        self.notify(&changes);
        Ok(changes)
    }

    /// Extends leases. Returns for each lease whether it was still held.
    pub(super) async fn extend(
        &self,
        tokens: Vec<DeliveryToken>,
        span: Duration,
    ) -> Result<Vec<bool>, StoreError> {
        let mut extended = vec![false; tokens.len()];
        if tokens.is_empty() {
            return Ok(extended);
        }
        let (deliveries, keys) = split(&tokens);
        let span = micros(span);
        let rows = self.general(EXTEND, &self.sql.extend, &[&deliveries, &keys, &span]).await?;
        for row in &rows {
            extended[index(Columns::new(EXTEND, row).take()?)] = true;
        }
        Ok(extended)
    }

    /// Reads the time until each line has something to claim.
    pub(super) async fn sweep(
        &self,
        lines: Vec<HookLine>,
    ) -> Result<Vec<Option<Duration>>, StoreError> {
        let mut due = vec![None; lines.len()];
        for (chunk, due) in lines.chunks(LINES_MAX).zip(due.chunks_mut(LINES_MAX)) {
            let form = |line: &HookLine| match line {
                HookLine::Push => (0, None),
                HookLine::Pull(endpoint) => (1, Some(endpoint.0)),
                HookLine::Background => (2, None),
                HookLine::PushFresh => (3, None),
            };
            let (kinds, pulls): (Vec<i16>, Vec<Option<Uuid>>) = chunk.iter().map(form).unzip();
            for row in &self.queue.promptly(SWEEP, &self.sql.sweep, &[&kinds, &pulls]).await? {
                let mut columns = Columns::new(SWEEP, row);
                let line: i32 = columns.take()?;
                if line == 0 {
                    self.shared.notifier.incoming().notify_one();
                    continue;
                }
                due[index(line)] = Some(rows::span(columns.take()?));
            }
        }
        Ok(due)
    }
}
