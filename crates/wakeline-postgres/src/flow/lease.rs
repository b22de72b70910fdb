//! Renews and abandons leases, renews and removes sessions, stores activities outside of turns, and
//! reads the times for safety sweeps.

use std::collections::HashMap;
use std::time::Duration;

use futures_util::FutureExt as _;
use serde::Serialize;
use tokio_postgres::types::Json;
use uuid::Uuid;
use wakeline_core::{FlowChange, FlowChangeKind, FlowLine, FlowToken, OwnerId};
use wakeline_store::StoreError;
use wakeline_store::flow::{AbandonOutcome, NewWork, RenewOutcome};

use super::FlowCore;
use super::items::{index, route, state};
use super::names::FilterForm;
use super::wire::{WorkArrays, micros};
use crate::commands::{Flushed, one_by_one};
use crate::rows::{self, Columns};

const RENEW: &str = "renew";
const ABANDON: &str = "abandon";
const KEEP: &str = "keep sessions";
const SWEEP: &str = "sweep flow";
const ENQUEUE_WORK: &str = "enqueue work";

/// The maximum number of lines in one call of a sweep.
const LINES_MAX: usize = 1000;

/// Leases to be renewed, and their new length.
pub(super) struct RenewForm {
    pub(super) tokens: Vec<FlowToken>,
    pub(super) span: Duration,
}

/// A line that a sweep checks, as the SQL function reads it.
#[derive(Debug, Serialize)]
#[serde(untagged)]
enum SweepLine<'a> {
    Turns {
        caps: Option<Vec<i32>>,
    },
    Work {
        #[serde(flatten)]
        filter: FilterForm,
        owner: Option<&'a str>,
    },
    Outcome {
        instance: &'a str,
    },
}

impl FlowCore {
    /// Executes many renewals in one call.
    pub(super) async fn flush_renew(&self, commands: Vec<RenewForm>) -> Flushed<Vec<RenewOutcome>> {
        one_by_one(&commands, |part| self.renew_call(part).boxed()).await
    }

    async fn renew_call(
        &self,
        commands: Vec<&RenewForm>,
    ) -> Result<Vec<Vec<RenewOutcome>>, StoreError> {
        // Each token is sent once, with the latest of the requested ends.
        let mut places: HashMap<FlowToken, usize> = HashMap::new();
        let (mut tokens, mut spans) = (Vec::new(), Vec::new());
        for command in &commands {
            let span = micros(command.span);
            for token in &command.tokens {
                let place = *places.entry(*token).or_insert_with(|| {
                    tokens.push(*token);
                    spans.push(span);
                    tokens.len() - 1
                });
                spans[place] = spans[place].max(span);
            }
        }
        let lanes: Vec<i64> = tokens.iter().map(|token| token.lane).collect();
        let works: Vec<Option<i64>> = tokens.iter().map(|token| token.work).collect();
        let keys: Vec<Uuid> = tokens.iter().map(|token| token.key).collect();
        let params: &[&(dyn tokio_postgres::types::ToSql + Sync)] =
            &[&lanes, &works, &keys, &spans];
        let link = &self.shared.links.flow.complete;
        let rows = self.on_link(link, RENEW, &self.sql.renew, params).await?;
        let mut outcomes = vec![RenewOutcome::Stale; tokens.len()];
        for row in &rows {
            let mut columns = Columns::new(RENEW, row);
            let place = index(columns.take()?);
            let state_text: Option<&str> = columns.take()?;
            outcomes[place] = RenewOutcome::Renewed(state_text.map(state).transpose()?);
        }
        let answer = |command: &&RenewForm| {
            command.tokens.iter().map(|token| outcomes[places[token]]).collect()
        };
        Ok(commands.iter().map(answer).collect())
    }

    /// Releases a leased turn or activity. With `uncounted` the attempt does not count.
    pub(super) async fn abandon(
        &self,
        token: FlowToken,
        delay: Duration,
        uncounted: bool,
    ) -> Result<(AbandonOutcome, Vec<FlowChange>), StoreError> {
        let params: &[&(dyn tokio_postgres::types::ToSql + Sync)] =
            &[&token.lane, &token.work, &token.key, &micros(delay), &uncounted];
        let rows = self.general(ABANDON, &self.sql.abandon, params).await?;
        let Some(row) = rows.first() else { return Ok((AbandonOutcome::Stale, Vec::new())) };
        let mut columns = Columns::new(ABANDON, row);
        if !columns.take::<bool>()? {
            return Ok((AbandonOutcome::Stale, Vec::new()));
        }
        let what = match token.work {
            None => {
                let capability = columns.name_if("capability")?;
                columns.skip(1);
                capability.map(FlowChangeKind::Turn)
            }
            Some(_) => Some(FlowChangeKind::Work(route(&mut columns)?)),
        };
        let due: Option<i64> = columns.take()?;
        let change = |(what, due)| FlowChange { what, due_in: rows::span(due) };
        let changes: Vec<FlowChange> = what.zip(due).map(change).into_iter().collect();
        self.hints.notify(&self.shared, changes.iter().cloned());
        Ok((AbandonOutcome::Abandoned, changes))
    }

    /// Extends the sessions of the owners to `span` from now, or ends them if `span` is zero. If
    /// there are no owners, removes expired sessions instead. Sessions that were idle for longer
    /// than `idle` are not extended. Returns the number of sessions that were changed.
    pub(super) async fn keep_sessions(
        &self,
        owners: Vec<OwnerId>,
        span: Duration,
        idle: Duration,
    ) -> Result<u64, StoreError> {
        let owners: Vec<&str> = owners.iter().map(OwnerId::as_str).collect();
        let params: &[&(dyn tokio_postgres::types::ToSql + Sync)] =
            &[&owners, &micros(span), &micros(idle)];
        let rows = self.general(KEEP, &self.sql.sessions_keep, params).await?;
        // The first row contains the count; each other row is an activity that became available.
        let Some((first, available)) = rows.split_first() else { return Ok(0) };
        let mut changes = Vec::with_capacity(available.len());
        for row in available {
            let what = FlowChangeKind::Work(route(&mut Columns::from(KEEP, row, 1))?);
            changes.push(FlowChange::now(what));
        }
        self.hints.notify(&self.shared, changes);
        let count: i64 = Columns::new(KEEP, first).take()?;
        Ok(u64::try_from(count).unwrap_or(0))
    }

    /// Stores an activity outside of a turn.
    pub(super) async fn enqueue_work(&self, work: NewWork) -> Result<Vec<FlowChange>, StoreError> {
        let instance = work.instance.as_str().to_owned();
        let form = self.work(work).await?;
        let mut arrays = WorkArrays::default();
        arrays.add(1, &form);
        let mut params: Vec<&(dyn tokio_postgres::types::ToSql + Sync)> = vec![&instance];
        params.extend(arrays.params());
        let rows = self.general(ENQUEUE_WORK, &self.sql.enqueue_work, &params).await?;
        let mut changes = Vec::new();
        for row in &rows {
            let mut columns = Columns::new(ENQUEUE_WORK, row);
            let what = FlowChangeKind::Work(route(&mut columns)?);
            changes.push(FlowChange { what, due_in: rows::span(columns.take()?) });
        }
        self.hints.notify(&self.shared, changes.iter().cloned());
        Ok(changes)
    }

    /// Reads the time until each line has something to claim.
    pub(super) async fn sweep(
        &self,
        lines: Vec<FlowLine>,
    ) -> Result<Vec<Option<Duration>>, StoreError> {
        let mut due = vec![None; lines.len()];
        for (chunk, due) in lines.chunks(LINES_MAX).zip(due.chunks_mut(LINES_MAX)) {
            let mut forms = Vec::with_capacity(chunk.len());
            for line in chunk {
                forms.push(match line {
                    FlowLine::Turns(known) => {
                        SweepLine::Turns { caps: self.capabilities(known).await? }
                    }
                    FlowLine::Work { filter, owner } => SweepLine::Work {
                        filter: self.filter(filter).await?,
                        owner: owner.as_ref().map(OwnerId::as_str),
                    },
                    FlowLine::Outcome(instance) => {
                        SweepLine::Outcome { instance: instance.as_str() }
                    }
                });
            }
            for row in &self.queue.promptly(SWEEP, &self.sql.sweep, &[&Json(&forms)]).await? {
                let mut columns = Columns::new(SWEEP, row);
                let line = index(columns.take()?);
                due[line] = Some(rows::span(columns.take()?));
            }
        }
        Ok(due)
    }
}
