//! Claims: leases turns and activities to waiting requests, many lines in one call.
//!
//! # Invariants
//! * A claim that finds only locked rows does not report that there is nothing, because the
//!   transaction that holds them may roll back. It claims once more and waits briefly for the
//!   locks, without delaying the other claims of its call.
//! * A call of unknown outcome is repeated once, and then finds by its keys what the first attempt
//!   leased. So does a later claim with a key that was used before.

use std::time::{Duration, Instant};

use futures_util::FutureExt as _;
use serde::Serialize;
use tokio_postgres::Row;
use tokio_postgres::types::Json;
use uuid::Uuid;
use wakeline_core::{FlowChange, FlowChangeKind};
use wakeline_store::StoreError;
use wakeline_store::flow::{
    TurnClaim, TurnClaimed, TurnItem, TurnRequest, WorkClaim, WorkClaimed, WorkItem, WorkRequest,
};

use super::FlowCore;
use super::items::{self, LeasedItem};
use super::names::FilterForm;
use super::wire::micros;
use crate::commands::{Flushed, one_by_one};
use crate::connect::{Params, PgLink, Sql};
use crate::error;
use crate::queue::ROLLBACKS_MAX;
use crate::rows::{self, Columns};

const CLAIM_TURNS: &str = "claim turns";
const CLAIM_WORK: &str = "claim work";

/// The index of the first column of a leased item.
const ITEM_COLUMN: usize = 4;

/// When to claim again if other transactions did not release their locks.
const CONTENDED_AGAIN: Duration = Duration::from_millis(5);

/// Reads a leased item from a row; its columns begin at the given index.
type ReadItem<T> = fn(&'static str, &Row, usize) -> Result<LeasedItem<T>, StoreError>;

/// A request as the SQL functions take it.
#[derive(Debug, Clone, Serialize)]
pub(super) struct RequestForm {
    key: Uuid,
    lease: i64,
    /// Whether an earlier attempt may have leased something under the key.
    again: bool,
}

/// The dispatchers of one line as the SQL function takes them.
#[derive(Debug, Clone, Serialize)]
pub(super) struct TurnLine {
    caps: Option<Vec<i32>>,
    requests: Vec<RequestForm>,
    further: bool,
}

/// The workers of one line as the SQL function takes them.
#[derive(Debug, Clone, Serialize)]
pub(super) struct WorkLine {
    #[serde(flatten)]
    filter: FilterForm,
    owner: Option<String>,
    session_lease: Option<i64>,
    requests: Vec<RequestForm>,
    further: bool,
}

/// A line of dispatchers or of workers.
pub(super) trait ClaimLine: std::fmt::Debug + Clone + Serialize + Send + Sync {
    /// Returns the requests of the line.
    fn requests(&mut self) -> &mut Vec<RequestForm>;
}

impl ClaimLine for TurnLine {
    fn requests(&mut self) -> &mut Vec<RequestForm> {
        &mut self.requests
    }
}

impl ClaimLine for WorkLine {
    fn requests(&mut self) -> &mut Vec<RequestForm> {
        &mut self.requests
    }
}

/// The result of a claim for one line.
pub(super) struct ClaimedItems<T> {
    pub(super) items: Vec<Option<T>>,
    pub(super) next_due: Option<Duration>,
    /// Whether other transactions have locked the due rows.
    contended: bool,
}

/// A kind of claim: its statement, its connection, and how its items are read.
struct ClaimKind<'a, T> {
    operation: &'static str,
    sql: &'a Sql,
    /// The connection; `None` for one for general use.
    link: Option<&'a PgLink>,
    read: ReadItem<T>,
}

impl FlowCore {
    /// Resolves the names of dispatchers' lines.
    pub(super) async fn turn_lines(
        &self,
        claims: &[TurnClaim],
    ) -> Result<Vec<TurnLine>, StoreError> {
        let mut lines = Vec::with_capacity(claims.len());
        for claim in claims {
            let form = |request: &TurnRequest| self.request(request.key, request.lease);
            lines.push(TurnLine {
                caps: self.capabilities(&claim.capabilities).await?,
                requests: claim.requests.iter().map(form).collect(),
                further: claim.further,
            });
        }
        Ok(lines)
    }

    /// Resolves the names of workers' lines.
    pub(super) async fn work_lines(
        &self,
        claims: &[WorkClaim],
    ) -> Result<Vec<WorkLine>, StoreError> {
        let mut lines = Vec::with_capacity(claims.len());
        for claim in claims {
            let session = claim.session.as_ref();
            let form = |request: &WorkRequest| self.request(request.key, request.lease);
            lines.push(WorkLine {
                filter: self.filter(&claim.filter).await?,
                owner: session.map(|session| session.owner.as_str().to_owned()),
                session_lease: session.map(|session| micros(session.lease)),
                requests: claim.requests.iter().map(form).collect(),
                further: claim.further,
            });
        }
        Ok(lines)
    }

    fn request(&self, key: Uuid, lease: Duration) -> RequestForm {
        RequestForm { key, lease: micros(lease), again: self.remembers(key) }
    }

    /// Executes many claims of turns in one call.
    pub(super) async fn flush_claim_turns(
        &self,
        commands: Vec<Vec<TurnLine>>,
    ) -> Flushed<Vec<ClaimedItems<TurnItem>>> {
        let link = Some(&self.shared.links.flow.claim_turns);
        one_by_one(&commands, |part| self.claim_call(self.turn_kind(link), part).boxed()).await
    }

    /// Executes many claims of activities in one call.
    pub(super) async fn flush_claim_work(
        &self,
        commands: Vec<Vec<WorkLine>>,
    ) -> Flushed<Vec<ClaimedItems<WorkItem>>> {
        let link = Some(&self.shared.links.flow.claim_work);
        one_by_one(&commands, |part| self.claim_call(self.work_kind(link), part).boxed()).await
    }

    /// Completes a claim of turns after its fused call, and returns the result.
    pub(super) async fn finish_turns(
        &self,
        lines: Vec<TurnLine>,
        claimed: Vec<ClaimedItems<TurnItem>>,
    ) -> Result<Vec<TurnClaimed>, StoreError> {
        let claimed = self.wait_for_locks(self.turn_kind(None), lines, claimed).await;
        self.note_leased_turns(claimed.iter().flat_map(|c| c.items.iter().flatten()));
        let answer = |c: ClaimedItems<_>| TurnClaimed { turns: c.items, next_due: c.next_due };
        Ok(claimed.into_iter().map(answer).collect())
    }

    /// Completes a claim of activities after its fused call, and returns the result.
    pub(super) async fn finish_work(
        &self,
        lines: Vec<WorkLine>,
        claimed: Vec<ClaimedItems<WorkItem>>,
    ) -> Result<Vec<WorkClaimed>, StoreError> {
        let claimed = self.wait_for_locks(self.work_kind(None), lines, claimed).await;
        self.note_leased_work(claimed.iter().flat_map(|c| c.items.iter().flatten()));
        let answer = |c: ClaimedItems<_>| WorkClaimed { work: c.items, next_due: c.next_due };
        Ok(claimed.into_iter().map(answer).collect())
    }

    fn turn_kind<'a>(&'a self, link: Option<&'a PgLink>) -> ClaimKind<'a, TurnItem> {
        ClaimKind { operation: CLAIM_TURNS, sql: &self.sql.claim_turns, link, read: items::turn }
    }

    fn work_kind<'a>(&'a self, link: Option<&'a PgLink>) -> ClaimKind<'a, WorkItem> {
        ClaimKind { operation: CLAIM_WORK, sql: &self.sql.claim_work, link, read: items::work }
    }

    /// Records the keys of leased activities, and notifies other nodes of the ends of the leases.
    pub(super) fn note_leased_work<'a>(&self, work: impl Iterator<Item = &'a WorkItem> + Clone) {
        self.remember(work.clone().map(|work| work.token.key));
        let ends = work.map(|work| FlowChange {
            what: FlowChangeKind::Work(work.route()),
            due_in: work.lease_for,
        });
        self.hints.notify_leases(&self.shared, ends.collect());
    }

    /// Executes several commands in one call, and repeats it once if its outcome is unknown.
    async fn claim_call<L: ClaimLine, T>(
        &self,
        kind: ClaimKind<'_, T>,
        commands: Vec<&Vec<L>>,
    ) -> Result<Vec<Vec<ClaimedItems<T>>>, StoreError> {
        let mut lines: Vec<L> = commands.iter().copied().flatten().cloned().collect();
        let claimed = self.claim_twice(&kind, &mut lines).await?;
        let mut claimed = claimed.into_iter();
        Ok(commands.iter().map(|lines| claimed.by_ref().take(lines.len()).collect()).collect())
    }

    async fn claim_twice<L: ClaimLine, T>(
        &self,
        kind: &ClaimKind<'_, T>,
        lines: &mut [L],
    ) -> Result<Vec<ClaimedItems<T>>, StoreError> {
        let mut result = self.claim_once(kind, lines, false).await;
        for _ in 0..ROLLBACKS_MAX {
            match &result {
                Err(error) if error::was_rolled_back(error) => {
                    result = self.claim_once(kind, lines, false).await;
                }
                _ => break,
            }
        }
        if matches!(result, Err(StoreError::Transient { .. })) {
            for request in lines.iter_mut().flat_map(ClaimLine::requests) {
                request.again = true;
                // The first attempt may also lease something after the second: the server does not
                // cancel a statement when its client stops waiting.
                self.remember(std::iter::once(request.key));
            }
            // The first attempt may have leased something.
            result = self.claim_once(kind, lines, false).await.map_err(StoreError::after_write);
        }
        if result.is_err() {
            let keys: Vec<Uuid> =
                lines.iter_mut().flat_map(|line| line.requests().iter().map(|r| r.key)).collect();
            self.remember(keys.into_iter());
        }
        result
    }

    /// Claims once more, waiting briefly for locks, for lines in which only locked rows were found.
    /// Leases of the first attempt are kept in any case.
    async fn wait_for_locks<L: ClaimLine, T>(
        &self,
        kind: ClaimKind<'_, T>,
        lines: Vec<L>,
        mut claimed: Vec<ClaimedItems<T>>,
    ) -> Vec<ClaimedItems<T>> {
        for (mut line, claimed) in lines.into_iter().zip(&mut claimed) {
            if !claimed.contended {
                continue;
            }
            let without: Vec<usize> = (claimed.items.iter().enumerate())
                .filter_map(|(index, item)| item.is_none().then_some(index))
                .collect();
            let mut requests: Vec<RequestForm> =
                without.iter().map(|index| line.requests()[*index].clone()).collect();
            for request in &mut requests {
                request.again = self.remembers(request.key);
            }
            *line.requests() = requests;
            match self.claim_once(&kind, std::slice::from_ref(&line), true).await {
                Ok(mut again) => {
                    let again = again.remove(0);
                    for (index, item) in without.into_iter().zip(again.items) {
                        claimed.items[index] = item;
                    }
                    claimed.next_due = again.next_due;
                }
                // The locks were not released within the lock timeout, or the outcome is unknown.
                // Then the next claim with these keys finds what this one leased.
                Err(error) => {
                    if !error::was_rolled_back(&error) {
                        let keys: Vec<Uuid> = line.requests().iter().map(|r| r.key).collect();
                        self.remember(keys.into_iter());
                    }
                    claimed.next_due = Some(CONTENDED_AGAIN);
                }
            }
        }
        claimed
    }

    async fn claim_once<L: ClaimLine, T>(
        &self,
        kind: &ClaimKind<'_, T>,
        lines: &[L],
        patient: bool,
    ) -> Result<Vec<ClaimedItems<T>>, StoreError> {
        let params: Params<'_> = &[&Json(lines), &patient];
        let sent = Instant::now();
        let rows = match kind.link {
            Some(link) => link.query_promptly(kind.operation, kind.sql, params).await?,
            None => self.shared.links.general.query(kind.operation, kind.sql, params).await?,
        };
        let mut claimed: Vec<ClaimedItems<T>> = lines
            .iter()
            .map(|line| {
                let items = line.clone().requests().iter().map(|_| None).collect();
                ClaimedItems { items, next_due: None, contended: false }
            })
            .collect();
        for row in &rows {
            let mut columns = Columns::new(kind.operation, row);
            if columns.take::<i16>()? == 1 {
                let leased = (kind.read)(kind.operation, row, ITEM_COLUMN)?;
                claimed[leased.command].items[leased.request] = Some(leased.item);
                continue;
            }
            let code: i16 = columns.take()?;
            let line = items::index(columns.take()?);
            claimed[line].contended = code == 2;
            claimed[line].next_due = columns.take::<Option<i64>>()?.map(rows::span);
        }
        let again = self.shared.clock.claim_again(&self.shared, sent, &rows, "clock_at").await;
        if again.is_some() {
            for line in &mut claimed {
                line.next_due = again;
            }
        }
        Ok(claimed)
    }
}
