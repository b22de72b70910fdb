//! Claim: leases messages to waiting requests, many lines in one call.
//!
//! # Invariants
//! * Slow work does not delay the other lines of a fused call: creating a group, and waiting for
//!   cursors that other transactions have locked, happen after the call and only for the claim that
//!   needs it.
//! * A claim that finds only locked rows does not report that the queue is empty: the transaction
//!   that holds them may roll back.
//! * A call of unknown outcome is repeated once, and then finds by its tokens what the first
//!   attempt leased. So does a later claim with a token that was used before. A call with autoAck
//!   is not repeated: the messages that it settled have no token, so a repetition would report that
//!   there was nothing, and the messages would be lost silently.
//! * Corrupt messages are released without counting an attempt and are skipped for a while, so that
//!   they delay no other messages. They are logged, and they are an error for a claim that found
//!   nothing else.
//! * Messages that were leased are returned even if a later step fails for another line. Otherwise
//!   the messages of autoAck claims would be lost.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant, SystemTime};

use tokio_postgres::Row;
use wakeline_core::{Change, Subscription, error_chain};
use wakeline_store::{Dropped, LineClaim, LineOutcome, StoreError};

use super::claim_form::{ClaimMode, to_index};
use super::claim_results::{ClaimResults, CorruptSlice, Slice};
use super::floors::Floor;
use super::quarantine::QUARANTINE;
use super::sweep::LineColumns;
use super::{QueueCore, same_error};
use crate::connect::PgLink;
use crate::error;
use crate::rows::{self, Columns};

const OPERATION: &str = "claim";

/// The maximum number of times that a claim creates its group; it may be deleted concurrently.
const BEGINS_MAX: usize = 10;

/// When to claim again if other transactions did not release their locks.
const CONTENDED_AGAIN: Duration = Duration::from_millis(5);

/// The index of the column with the group's number in the row of a line.
const GROUP_COLUMN: usize = 7;

/// The index of the first of the columns with the names of a row's queue and partition.
const NAMES_COLUMN: usize = 8;

/// The index of the column with the offset of a row's first message.
const OFFSET_COLUMN: usize = 15;

/// The index of the column with the floor in the row of a line.
const FLOOR_COLUMN: usize = 16;

/// The state in the row of a line while claims are paused.
const PAUSED: i16 = 4;

/// The state of a line after a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ClaimLineState {
    /// Everything that is available was leased.
    Done,
    /// The group has to be created first.
    Begin,
    /// Other transactions have locked the due cursors.
    Contended,
    /// Scheduled messages are due and have to be moved first.
    Scheduled,
}

/// The result of a call for one line.
pub(crate) struct LineResult {
    pub(super) claim: LineClaim,
    pub(super) state: ClaimLineState,
    pub(super) outcome: LineOutcome,
    /// The earliest due time, if the call read it.
    pub(super) seen: Option<Floor>,
    /// Leased messages that are corrupt.
    pub(super) corrupt: Vec<CorruptSlice>,
}

impl QueueCore {
    /// Executes many claims in one call.
    pub(super) async fn flush_claim(
        &self,
        link_index: usize,
        commands: Vec<Vec<LineClaim>>,
    ) -> Vec<Result<Vec<LineResult>, StoreError>> {
        let link = &self.shared.links.claim[link_index];
        let lens: Vec<usize> = commands.iter().map(Vec::len).collect();
        let claims: Vec<LineClaim> = commands.into_iter().flatten().collect();
        match self.claim_twice(Some(link), &claims, ClaimMode::default()).await {
            Ok(results) => {
                let mut results = results.into_iter();
                lens.iter().map(|len| Ok(results.by_ref().take(*len).collect())).collect()
            }
            Err(error) if lens.len() > 1 && error::blames_values(&error) => {
                let mut results = Vec::with_capacity(lens.len());
                let mut rest = claims.as_slice();
                for len in lens {
                    let (alone, others) = rest.split_at(len);
                    results.push(self.claim_twice(Some(link), alone, ClaimMode::default()).await);
                    rest = others;
                }
                results
            }
            Err(error) => lens.iter().map(|_| Err(same_error(&error))).collect(),
        }
    }

    /// Completes the work that a fused call left open, and returns the outcomes.
    pub(super) async fn finish_claim(
        &self,
        results: Vec<LineResult>,
    ) -> Result<Vec<LineOutcome>, StoreError> {
        let mut outcomes = Vec::with_capacity(results.len());
        let mut corrupt = Vec::new();
        let mut failed = None;
        for mut result in results {
            // After a failure the other lines get what was leased to them without further delay.
            if failed.is_none() {
                failed = self.finish_line(&mut result).await.err();
            }
            if failed.is_some() && result.state != ClaimLineState::Done {
                result.outcome.next_due = Some(CONTENDED_AGAIN);
            }
            corrupt.append(&mut result.corrupt);
            outcomes.push(result.outcome);
        }
        let found = outcomes.iter().flat_map(|outcome| &outcome.results).any(Option::is_some);
        let unread = self.quarantine(corrupt).await;
        if !found {
            return failed.or(unread).map_or(Ok(outcomes), Err);
        }
        if let Some(error) = failed {
            tracing::warn!(
                error = error_chain(&error),
                "a claim failed for some of its queues: it is repeated for these"
            );
        }
        Ok(outcomes)
    }

    /// Completes the work that a fused call left open for one line.
    async fn finish_line(&self, result: &mut LineResult) -> Result<(), StoreError> {
        if result.state == ClaimLineState::Scheduled {
            *result = self.claim_moved(&result.claim).await?;
        }
        for _ in 0..BEGINS_MAX {
            if result.state != ClaimLineState::Begin {
                break;
            }
            self.begin(&result.claim).await?;
            let claim = std::slice::from_ref(&result.claim);
            *result = self.claim_twice(None, claim, ClaimMode::moved()).await?.remove(0);
        }
        if result.state == ClaimLineState::Contended {
            self.wait_for_locks(result).await?;
        }
        Ok(())
    }

    /// Moves due scheduled messages to their partitions and claims again.
    async fn claim_moved(&self, claim: &LineClaim) -> Result<LineResult, StoreError> {
        self.move_due_of(&claim.line).await?;
        let claim = std::slice::from_ref(claim);
        Ok(self.claim_twice(None, claim, ClaimMode::moved()).await?.remove(0))
    }

    /// Creates the group of a line in several transactions of bounded size.
    async fn begin(&self, claim: &LineClaim) -> Result<(), StoreError> {
        let line = LineColumns::new(std::iter::once(&claim.line));
        let (mode, from) = match claim.subscription {
            _ if claim.line.group.is_queue_mode() => (0i16, None),
            Subscription::All => (0, None),
            Subscription::New => (1, None),
            Subscription::From(from) => (2, Some(rows::system_time(from))),
        };
        loop {
            let rows = self
                .general(
                    "begin group",
                    &self.sql.group_begin,
                    &[
                        &line.kinds[0],
                        &line.queues[0],
                        &line.namespaces[0],
                        &line.tasks[0],
                        &line.groups[0],
                        &mode,
                        &from,
                    ],
                )
                .await?;
            let done = rows.first().map(|row| Columns::new(OPERATION, row).take());
            if done.transpose()?.unwrap_or(true) {
                return Ok(());
            }
        }
    }

    /// Claims once more for the requests that got nothing, waiting briefly for locked cursors.
    async fn wait_for_locks(&self, result: &mut LineResult) -> Result<(), StoreError> {
        let without: Vec<usize> = (result.outcome.results.iter().enumerate())
            .filter_map(|(index, claimed)| claimed.is_none().then_some(index))
            .collect();
        let requests = without.iter().map(|index| result.claim.requests[*index].clone()).collect();
        let claim = LineClaim { requests, ..result.claim.clone() };
        match self
            .claim_once(None, &[claim], ClaimMode { patient: true, ..ClaimMode::moved() })
            .await
        {
            Ok(mut again) => {
                let again = again.remove(0);
                for (index, claimed) in without.into_iter().zip(again.outcome.results) {
                    result.outcome.results[index] = claimed;
                }
                result.outcome.next_due = again.outcome.next_due;
                result.outcome.dropped.extend(again.outcome.dropped);
                result.corrupt.extend(again.corrupt);
            }
            // The locks were not released within the lock timeout.
            Err(error) if error::was_rolled_back(&error) => {
                result.outcome.next_due = Some(CONTENDED_AGAIN);
            }
            Err(error) => return Err(error),
        }
        Ok(())
    }

    /// Executes a call, and repeats it if its outcome is unknown and the repetition finds what the
    /// first attempt leased.
    async fn claim_twice(
        &self,
        link: Option<&PgLink>,
        claims: &[LineClaim],
        mode: ClaimMode,
    ) -> Result<Vec<LineResult>, StoreError> {
        let mut result = self.claim_once(link, claims, mode).await;
        for _ in 0..super::ROLLBACKS_MAX {
            match &result {
                Err(error) if error::was_rolled_back(error) => {
                    result = self.claim_once(link, claims, mode).await;
                }
                _ => break,
            }
        }
        let requests = || claims.iter().flat_map(|claim| &claim.requests);
        let tokens = || requests().map(|request| request.token);
        let repeatable = !requests().any(|request| request.auto_ack);
        if repeatable && matches!(result, Err(StoreError::Transient { .. })) {
            // The first attempt may have leased something, or may do so after the second: the
            // server does not cancel a statement when its client stops waiting.
            self.tokens.remember(tokens());
            result = self.claim_once(link, claims, ClaimMode { again: true, ..mode }).await;
            result = result.map_err(StoreError::after_write);
        }
        if result.is_err() {
            self.tokens.remember(tokens());
        }
        result
    }

    async fn claim_once(
        &self,
        link: Option<&PgLink>,
        claims: &[LineClaim],
        mode: ClaimMode,
    ) -> Result<Vec<LineResult>, StoreError> {
        let lines = LineColumns::new(claims.iter().map(|claim| &claim.line));
        let requests = self.request_columns(claims, mode.again);
        let floors: Vec<Option<Floor>> =
            claims.iter().map(|claim| self.floors.of(&claim.line)).collect();
        let floor_groups: Vec<Option<i32>> = floors.iter().map(|f| f.map(|f| f.group)).collect();
        let floor_times: Vec<Option<SystemTime>> =
            floors.iter().map(|f| f.map(|f| f.due_at)).collect();
        let further = claims.iter().any(|claim| claim.further);
        let params: &[&(dyn tokio_postgres::types::ToSql + Sync)] = &[
            &lines.kinds,
            &lines.queues,
            &lines.partitions,
            &lines.namespaces,
            &lines.tasks,
            &lines.groups,
            &requests.modes,
            &requests.firsts,
            &requests.counts,
            &requests.tokens,
            &requests.batches,
            &requests.partition_maxes,
            &requests.auto_acks,
            &requests.agains,
            &mode.patient,
            &floor_groups,
            &floor_times,
            &mode.prompt,
            &requests.workers,
            &requests.bytes,
            &further,
        ];
        let sql = match self.shared.notifier.peers() {
            Some(_) => &self.sql.claim,
            None => &self.sql.claim_polled,
        };
        let sent = Instant::now();
        let rows = match link {
            // An autoAck claim leaves no token, so a repetition does not find what it settled.
            Some(link) if requests.auto_acks.contains(&true) => {
                link.query_once(OPERATION, sql, params).await?
            }
            Some(link) => link.query_promptly(OPERATION, sql, params).await?,
            None => self.shared.links.general.query(OPERATION, sql, params).await?,
        };
        let mut results = self.read_claim(claims, &rows)?;
        let again = self.shared.clock.claim_again(&self.shared, sent, &rows, "clock_at").await;
        if again.is_some() {
            for result in &mut results {
                result.outcome.next_due = again;
            }
        }
        for ((claim, result), under) in claims.iter().zip(&results).zip(floors) {
            let served = result.outcome.results.iter().all(Option::is_some);
            self.floors.note(&claim.line, under, result.seen.filter(|_| served));
        }
        Ok(results)
    }

    fn read_claim(
        &self,
        claims: &[LineClaim],
        rows: &[Row],
    ) -> Result<Vec<LineResult>, StoreError> {
        let mut results: Vec<LineResult> = claims
            .iter()
            .map(|claim| LineResult {
                claim: claim.clone(),
                state: ClaimLineState::Done,
                outcome: LineOutcome::default(),
                seen: None,
                corrupt: Vec::new(),
            })
            .collect();
        let mut slices = Vec::new();
        for row in rows {
            let mut columns = Columns::new(OPERATION, row);
            let line: i32 = columns.take()?;
            if line == 0 {
                self.shared.notifier.incoming().notify_one();
                continue;
            }
            let line = to_index(line);
            let request: i32 = columns.take()?;
            if request > 0 {
                slices.push(Slice::read((line, to_index(request)), row, &self.shared.encryption)?);
                continue;
            }
            if request < 0 {
                results[line].outcome.dropped.push(dropped(row)?);
                continue;
            }
            let state: i16 = columns.take()?;
            results[line].outcome.paused = state == PAUSED;
            results[line].state = match state {
                0 | PAUSED => ClaimLineState::Done,
                1 => ClaimLineState::Begin,
                3 => ClaimLineState::Scheduled,
                _ => ClaimLineState::Contended,
            };
            let next_due: Option<i64> = columns.take()?;
            results[line].outcome.next_due = next_due.map(rows::span);
            self.clock_seen.fetch_max(columns.moment()?.0, Ordering::Relaxed);
            let group: Option<i32> = Columns::from(OPERATION, row, GROUP_COLUMN).take()?;
            let due_at = Columns::from(OPERATION, row, FLOOR_COLUMN).take()?;
            results[line].seen = group.zip(due_at).map(|(group, due_at)| Floor { group, due_at });
        }
        let mut claimed = ClaimResults::new(claims, slices);
        for corrupt in claimed.take_corrupt() {
            let result = &mut results[corrupt.line];
            let next_due = result.outcome.next_due.unwrap_or(QUARANTINE);
            result.outcome.next_due = Some(next_due.min(QUARANTINE));
            result.corrupt.push(corrupt);
        }
        let leases = claimed.leases();
        self.tokens.remember(leases.iter().map(|(token, _)| *token));
        let changes: Vec<Change> = leases.into_iter().map(|(_, change)| change).collect();
        self.shared.notifier.notify_leases(&changes);
        for (result, claimed) in results.iter_mut().zip(claimed.finish()) {
            result.outcome.results = claimed;
        }
        Ok(results)
    }
}

/// Reads the row of a message that was dropped.
fn dropped(row: &Row) -> Result<Dropped, StoreError> {
    let mut names = Columns::from(OPERATION, row, NAMES_COLUMN);
    Ok(Dropped {
        queue: names.name("queue")?,
        partition: names.name("partition")?,
        offset: Columns::from(OPERATION, row, OFFSET_COLUMN).take()?,
    })
}
