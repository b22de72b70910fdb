//! Claim: leases messages to waiting requests, many lines in one call.
//!
//! # Invariants
//! * What takes longer does not hold up the other lines of a fused call: a group that has to begin,
//!   and cursors that rivals hold, are dealt with afterwards, by the claim that asked.
//! * A claim that finds only rivals' rows does not report that there is nothing (trap 24).
//! * A call of unknown outcome is repeated once, and then finds by its tokens what the first try
//!   leased. So does a later claim with a token that was granted before. A call with autoAck is
//!   not repeated: what it settled has no token, so a repetition would report that there was
//!   nothing, and the messages would be lost without a word.
//! * What cannot be read is given back uncounted and left alone for a while, so that it holds up
//!   nobody. It is an error for those whose claim found nothing else, and in the log.
//! * What was granted is returned, also if a later step fails for another line: messages of
//!   autoAck claims would be lost otherwise.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant, SystemTime};

use tokio_postgres::Row;
use wakeline_core::{Change, Subscription, error_chain};
use wakeline_store::{Dropped, LineClaim, LineOutcome, StoreError};

use super::claim_form::{How, to_index};
use super::floors::Floor;
use super::grants::{Grants, Slice, Spoilt};
use super::set_aside::SET_ASIDE;
use super::sweep::LineColumns;
use super::{Core, same_error};
use crate::connect::Link;
use crate::error;
use crate::rows::{self, Columns};

const OPERATION: &str = "claim";

/// How often a claim begins its group anew: it may be deleted meanwhile.
const BEGINS_MAX: usize = 10;

/// When to look again if rivals would not let go.
const CONTENDED_AGAIN: Duration = Duration::from_millis(5);

/// Where the row of a line has the number of its group.
const GROUP_COLUMN: usize = 7;

/// Where a row has the names of its queue and partition.
const NAMES_COLUMN: usize = 8;

/// Where a row has the offset of its first message.
const OFFSET_COLUMN: usize = 15;

/// Where the row of a line has its floor.
const FLOOR_COLUMN: usize = 16;

/// What the row of a line says while claims are paused.
const PAUSED: i16 = 4;

/// How a line stands after a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LineState {
    /// All that could be taken was.
    Done,
    /// The group has to begin first.
    Begin,
    /// Rivals hold what is due.
    Contended,
    /// Scheduled messages are due, and are to be moved first.
    Scheduled,
}

/// What a call has to say to one line.
pub(crate) struct LineResult {
    pub(super) claim: LineClaim,
    pub(super) state: LineState,
    pub(super) outcome: LineOutcome,
    /// Where due times begin, if it was seen.
    pub(super) seen: Option<Floor>,
    /// What was leased and cannot be read.
    pub(super) spoilt: Vec<Spoilt>,
}

impl Core {
    /// Makes one call for many claims.
    pub(super) async fn flush_claim(
        &self,
        lane: usize,
        commands: Vec<Vec<LineClaim>>,
    ) -> Vec<Result<Vec<LineResult>, StoreError>> {
        let link = &self.shared.links.claim[lane];
        let lens: Vec<usize> = commands.iter().map(Vec::len).collect();
        let claims: Vec<LineClaim> = commands.into_iter().flatten().collect();
        match self.claim_twice(Some(link), &claims, How::default()).await {
            Ok(results) => {
                let mut results = results.into_iter();
                lens.iter().map(|len| Ok(results.by_ref().take(*len).collect())).collect()
            }
            Err(error) if lens.len() > 1 && error::blames_values(&error) => {
                let mut results = Vec::with_capacity(lens.len());
                let mut rest = claims.as_slice();
                for len in lens {
                    let (alone, others) = rest.split_at(len);
                    results.push(self.claim_twice(Some(link), alone, How::default()).await);
                    rest = others;
                }
                results
            }
            Err(error) => lens.iter().map(|_| Err(same_error(&error))).collect(),
        }
    }

    /// Does what a fused call left to do, and answers.
    pub(super) async fn finish_claim(
        &self,
        results: Vec<LineResult>,
    ) -> Result<Vec<LineOutcome>, StoreError> {
        let mut outcomes = Vec::with_capacity(results.len());
        let mut spoilt = Vec::new();
        let mut failed = None;
        for mut result in results {
            // After a failure the others are not kept waiting for what they have got already.
            if failed.is_none() {
                failed = self.finish_line(&mut result).await.err();
            }
            if failed.is_some() && result.state != LineState::Done {
                result.outcome.next_due = Some(CONTENDED_AGAIN);
            }
            spoilt.append(&mut result.spoilt);
            outcomes.push(result.outcome);
        }
        let found = outcomes.iter().flat_map(|outcome| &outcome.grants).any(Option::is_some);
        let unread = self.set_aside(spoilt).await;
        if !found {
            return failed.or(unread).map_or(Ok(outcomes), Err);
        }
        if let Some(error) = failed {
            tracing::warn!(
                error = error_chain(&error),
                "a claim failed for some of its queues: these are claimed again"
            );
        }
        Ok(outcomes)
    }

    /// Does what a fused call left to do for one line.
    async fn finish_line(&self, result: &mut LineResult) -> Result<(), StoreError> {
        if result.state == LineState::Scheduled {
            *result = self.claim_moved(&result.claim).await?;
        }
        for _ in 0..BEGINS_MAX {
            if result.state != LineState::Begin {
                break;
            }
            self.begin(&result.claim).await?;
            let claim = std::slice::from_ref(&result.claim);
            *result = self.claim_twice(None, claim, How::moved()).await?.remove(0);
        }
        if result.state == LineState::Contended {
            self.wait_for_rivals(result).await?;
        }
        Ok(())
    }

    /// Moves scheduled messages that are due, and claims what there is then.
    async fn claim_moved(&self, claim: &LineClaim) -> Result<LineResult, StoreError> {
        self.move_due_of(&claim.line).await?;
        let claim = std::slice::from_ref(claim);
        Ok(self.claim_twice(None, claim, How::moved()).await?.remove(0))
    }

    /// Begins the group of a line, step by step.
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

    /// One try that waits for rivals a little, for the requests that went without.
    async fn wait_for_rivals(&self, result: &mut LineResult) -> Result<(), StoreError> {
        let without: Vec<usize> = (result.outcome.grants.iter().enumerate())
            .filter_map(|(index, grant)| grant.is_none().then_some(index))
            .collect();
        let requests = without.iter().map(|index| result.claim.requests[*index].clone()).collect();
        let claim = LineClaim { requests, ..result.claim.clone() };
        match self.claim_once(None, &[claim], How { patient: true, ..How::moved() }).await {
            Ok(mut again) => {
                let again = again.remove(0);
                for (index, grant) in without.into_iter().zip(again.outcome.grants) {
                    result.outcome.grants[index] = grant;
                }
                result.outcome.next_due = again.outcome.next_due;
                result.outcome.dropped.extend(again.outcome.dropped);
                result.spoilt.extend(again.spoilt);
            }
            // They would not let go within the lock's timeout.
            Err(error) if error::was_rolled_back(&error) => {
                result.outcome.next_due = Some(CONTENDED_AGAIN);
            }
            Err(error) => return Err(error),
        }
        Ok(())
    }

    /// Makes a call, and once more if its outcome is unknown and the repetition finds what the
    /// first try took.
    async fn claim_twice(
        &self,
        link: Option<&Link>,
        claims: &[LineClaim],
        how: How,
    ) -> Result<Vec<LineResult>, StoreError> {
        let mut result = self.claim_once(link, claims, how).await;
        for _ in 0..super::ROLLBACKS_MAX {
            match &result {
                Err(error) if error::was_rolled_back(error) => {
                    result = self.claim_once(link, claims, how).await;
                }
                _ => break,
            }
        }
        let requests = || claims.iter().flat_map(|claim| &claim.requests);
        let tokens = || requests().map(|request| request.token);
        let repeatable = !requests().any(|request| request.auto_ack);
        if repeatable && matches!(result, Err(StoreError::Transient { .. })) {
            // The first try may have leased something, or may do so after the second: the server
            // does not end a statement because nobody waits for it any more.
            self.tokens.remember(tokens());
            result = self.claim_once(link, claims, How { again: true, ..how }).await;
            result = result.map_err(StoreError::after_write);
        }
        if result.is_err() {
            self.tokens.remember(tokens());
        }
        result
    }

    async fn claim_once(
        &self,
        link: Option<&Link>,
        claims: &[LineClaim],
        how: How,
    ) -> Result<Vec<LineResult>, StoreError> {
        let lines = LineColumns::new(claims.iter().map(|claim| &claim.line));
        let requests = self.request_columns(claims, how.again);
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
            &how.patient,
            &floor_groups,
            &floor_times,
            &how.prompt,
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
            // An autoAck claim leaves no token: repeated, it does not find what it settled.
            Some(link) if requests.auto_acks.contains(&true) => {
                link.query_once(OPERATION, sql, params).await?
            }
            Some(link) => link.query_promptly(OPERATION, sql, params).await?,
            None => self.shared.links.general.query(OPERATION, sql, params).await?,
        };
        let mut results = self.read_claim(claims, &rows)?;
        let again = self.shared.clock.claim_again(&self.shared, sent, (&rows, "clock_at")).await;
        if again.is_some() {
            for result in &mut results {
                result.outcome.next_due = again;
            }
        }
        for ((claim, result), under) in claims.iter().zip(&results).zip(floors) {
            let served = result.outcome.grants.iter().all(Option::is_some);
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
                state: LineState::Done,
                outcome: LineOutcome::default(),
                seen: None,
                spoilt: Vec::new(),
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
                slices.push(Slice::read((line, to_index(request)), row, &self.shared.sealing)?);
                continue;
            }
            if request < 0 {
                results[line].outcome.dropped.push(dropped(row)?);
                continue;
            }
            let state: i16 = columns.take()?;
            results[line].outcome.paused = state == PAUSED;
            results[line].state = match state {
                0 | PAUSED => LineState::Done,
                1 => LineState::Begin,
                3 => LineState::Scheduled,
                _ => LineState::Contended,
            };
            let next_due: Option<i64> = columns.take()?;
            results[line].outcome.next_due = next_due.map(rows::span);
            self.clock_seen.fetch_max(columns.moment()?.0, Ordering::Relaxed);
            let group: Option<i32> = Columns::from(OPERATION, row, GROUP_COLUMN).take()?;
            let due_at = Columns::from(OPERATION, row, FLOOR_COLUMN).take()?;
            results[line].seen = group.zip(due_at).map(|(group, due_at)| Floor { group, due_at });
        }
        let mut grants = Grants::new(claims, slices);
        for spoilt in grants.take_spoilt() {
            let result = &mut results[spoilt.line];
            let next_due = result.outcome.next_due.unwrap_or(SET_ASIDE);
            result.outcome.next_due = Some(next_due.min(SET_ASIDE));
            result.spoilt.push(spoilt);
        }
        let leases = grants.leases();
        self.tokens.remember(leases.iter().map(|(token, _)| *token));
        let changes: Vec<Change> = leases.into_iter().map(|(_, change)| change).collect();
        self.shared.notifier.tell_leases(&changes);
        for (result, grants) in results.iter_mut().zip(grants.finish()) {
            result.outcome.grants = grants;
        }
        Ok(results)
    }
}

/// A message that was dropped.
fn dropped(row: &Row) -> Result<Dropped, StoreError> {
    let mut names = Columns::from(OPERATION, row, NAMES_COLUMN);
    Ok(Dropped {
        queue: names.name("queue")?,
        partition: names.name("partition")?,
        offset: Columns::from(OPERATION, row, OFFSET_COLUMN).take()?,
    })
}
