//! Claims: leases turns and activities to waiting requests, many lines in one call.
//!
//! # Invariants
//! * A claim that finds only rivals' rows does not report that there is nothing (trap 24): it
//!   tries once more and waits for them a little, without holding up the others of its call.
//! * A call of unknown outcome is repeated once, and then finds by its keys what the first try
//!   leased. So does a later claim with a key that was granted before.

use std::time::{Duration, Instant};

use futures_util::FutureExt as _;
use serde::Serialize;
use tokio_postgres::Row;
use tokio_postgres::types::Json;
use uuid::Uuid;
use wakeline_core::{FlowChange, FlowWhat};
use wakeline_store::StoreError;
use wakeline_store::flow::{
    TurnClaim, TurnClaimed, TurnItem, TurnRequest, WorkClaim, WorkClaimed, WorkItem, WorkRequest,
};

use super::Core;
use super::items::{self, Leased};
use super::names::FilterForm;
use super::wire::micros;
use crate::commands::{Flushed, one_by_one};
use crate::connect::{Link, Params, Sql};
use crate::error;
use crate::queue::ROLLBACKS_MAX;
use crate::rows::{self, Columns};

const CLAIM_TURNS: &str = "claim turns";
const CLAIM_WORK: &str = "claim work";

/// Where the columns of what was leased begin.
const ITEM_COLUMN: usize = 4;

/// When to look again if rivals would not let go.
const CONTENDED_AGAIN: Duration = Duration::from_millis(5);

/// Reads something leased from a row, whose columns begin at an index.
type ReadItem<T> = fn(&'static str, &Row, usize) -> Result<Leased<T>, StoreError>;

/// A request on its way.
#[derive(Debug, Clone, Serialize)]
pub(super) struct RequestForm {
    key: Uuid,
    lease: i64,
    /// An earlier try may have leased something to the key.
    again: bool,
}

/// The dispatchers of one line on their way.
#[derive(Debug, Clone, Serialize)]
pub(super) struct TurnLine {
    caps: Option<Vec<i32>>,
    requests: Vec<RequestForm>,
    further: bool,
}

/// The workers of one line on their way.
#[derive(Debug, Clone, Serialize)]
pub(super) struct WorkLine {
    #[serde(flatten)]
    filter: FilterForm,
    owner: Option<String>,
    session_lease: Option<i64>,
    requests: Vec<RequestForm>,
    further: bool,
}

/// A line of either kind.
pub(super) trait Line: std::fmt::Debug + Clone + Serialize + Send + Sync {
    /// Those who ask.
    fn requests(&mut self) -> &mut Vec<RequestForm>;
}

impl Line for TurnLine {
    fn requests(&mut self) -> &mut Vec<RequestForm> {
        &mut self.requests
    }
}

impl Line for WorkLine {
    fn requests(&mut self) -> &mut Vec<RequestForm> {
        &mut self.requests
    }
}

/// What was found in one line.
pub(super) struct Claimed<T> {
    pub(super) items: Vec<Option<T>>,
    pub(super) next_due: Option<Duration>,
    /// Rivals hold what is due.
    contended: bool,
}

/// How claims of one kind are made.
struct Ways<'a, T> {
    operation: &'static str,
    sql: &'a Sql,
    /// One for general use if there is none.
    link: Option<&'a Link>,
    read: ReadItem<T>,
}

impl Core {
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

    /// Makes one call for many claims of turns.
    pub(super) async fn flush_claim_turns(
        &self,
        commands: Vec<Vec<TurnLine>>,
    ) -> Flushed<Vec<Claimed<TurnItem>>> {
        let link = Some(&self.shared.links.flow.claim_turns);
        one_by_one(&commands, |part| self.claim_call(self.turn_ways(link), part).boxed()).await
    }

    /// Makes one call for many claims of activities.
    pub(super) async fn flush_claim_work(
        &self,
        commands: Vec<Vec<WorkLine>>,
    ) -> Flushed<Vec<Claimed<WorkItem>>> {
        let link = Some(&self.shared.links.flow.claim_work);
        one_by_one(&commands, |part| self.claim_call(self.work_ways(link), part).boxed()).await
    }

    /// Does what a fused call left to do for a claim of turns, and answers.
    pub(super) async fn finish_turns(
        &self,
        lines: Vec<TurnLine>,
        claimed: Vec<Claimed<TurnItem>>,
    ) -> Result<Vec<TurnClaimed>, StoreError> {
        let claimed = self.wait_for_rivals(self.turn_ways(None), lines, claimed).await;
        self.granted_turns(claimed.iter().flat_map(|c| c.items.iter().flatten()));
        let answer = |c: Claimed<_>| TurnClaimed { turns: c.items, next_due: c.next_due };
        Ok(claimed.into_iter().map(answer).collect())
    }

    /// Does what a fused call left to do for a claim of activities, and answers.
    pub(super) async fn finish_work(
        &self,
        lines: Vec<WorkLine>,
        claimed: Vec<Claimed<WorkItem>>,
    ) -> Result<Vec<WorkClaimed>, StoreError> {
        let claimed = self.wait_for_rivals(self.work_ways(None), lines, claimed).await;
        self.granted_work(claimed.iter().flat_map(|c| c.items.iter().flatten()));
        let answer = |c: Claimed<_>| WorkClaimed { work: c.items, next_due: c.next_due };
        Ok(claimed.into_iter().map(answer).collect())
    }

    fn turn_ways<'a>(&'a self, link: Option<&'a Link>) -> Ways<'a, TurnItem> {
        Ways { operation: CLAIM_TURNS, sql: &self.sql.claim_turns, link, read: items::turn }
    }

    fn work_ways<'a>(&'a self, link: Option<&'a Link>) -> Ways<'a, WorkItem> {
        Ways { operation: CLAIM_WORK, sql: &self.sql.claim_work, link, read: items::work }
    }

    /// Remembers activities that were leased, and tells other nodes when they end.
    pub(super) fn granted_work<'a>(&self, work: impl Iterator<Item = &'a WorkItem> + Clone) {
        self.remember(work.clone().map(|work| work.token.key));
        let ends = work
            .map(|work| FlowChange { what: FlowWhat::Work(work.route()), due_in: work.lease_for });
        self.hints.tell_leases(&self.shared, ends.collect());
    }

    /// Makes one call for several commands, and once more if its outcome is unknown.
    async fn claim_call<L: Line, T>(
        &self,
        ways: Ways<'_, T>,
        commands: Vec<&Vec<L>>,
    ) -> Result<Vec<Vec<Claimed<T>>>, StoreError> {
        let mut lines: Vec<L> = commands.iter().copied().flatten().cloned().collect();
        let claimed = self.claim_twice(&ways, &mut lines).await?;
        let mut claimed = claimed.into_iter();
        Ok(commands.iter().map(|lines| claimed.by_ref().take(lines.len()).collect()).collect())
    }

    async fn claim_twice<L: Line, T>(
        &self,
        ways: &Ways<'_, T>,
        lines: &mut [L],
    ) -> Result<Vec<Claimed<T>>, StoreError> {
        let mut result = self.claim_once(ways, lines, false).await;
        for _ in 0..ROLLBACKS_MAX {
            match &result {
                Err(error) if error::was_rolled_back(error) => {
                    result = self.claim_once(ways, lines, false).await;
                }
                _ => break,
            }
        }
        if matches!(result, Err(StoreError::Transient { .. })) {
            for request in lines.iter_mut().flat_map(Line::requests) {
                request.again = true;
                // The first try may also lease something after the second: the server does not
                // end a statement because nobody waits for it any more.
                self.remember(std::iter::once(request.key));
            }
            // The first try may have leased something.
            result = self.claim_once(ways, lines, false).await.map_err(StoreError::after_write);
        }
        if result.is_err() {
            let keys: Vec<Uuid> =
                lines.iter_mut().flat_map(|line| line.requests().iter().map(|r| r.key)).collect();
            self.remember(keys.into_iter());
        }
        result
    }

    /// One try that waits for rivals a little, for lines in which only their rows were found.
    /// However it ends, what was leased before is kept.
    async fn wait_for_rivals<L: Line, T>(
        &self,
        ways: Ways<'_, T>,
        lines: Vec<L>,
        mut claimed: Vec<Claimed<T>>,
    ) -> Vec<Claimed<T>> {
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
            match self.claim_once(&ways, std::slice::from_ref(&line), true).await {
                Ok(mut again) => {
                    let again = again.remove(0);
                    for (index, item) in without.into_iter().zip(again.items) {
                        claimed.items[index] = item;
                    }
                    claimed.next_due = again.next_due;
                }
                // They would not let go within the lock's timeout, or nobody knows. The next claim
                // with these keys then finds what this one leased.
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

    async fn claim_once<L: Line, T>(
        &self,
        ways: &Ways<'_, T>,
        lines: &[L],
        patient: bool,
    ) -> Result<Vec<Claimed<T>>, StoreError> {
        let params: Params<'_> = &[&Json(lines), &patient];
        let sent = Instant::now();
        let rows = match ways.link {
            Some(link) => link.query_promptly(ways.operation, ways.sql, params).await?,
            None => self.shared.links.general.query(ways.operation, ways.sql, params).await?,
        };
        let mut claimed: Vec<Claimed<T>> = lines
            .iter()
            .map(|line| {
                let items = line.clone().requests().iter().map(|_| None).collect();
                Claimed { items, next_due: None, contended: false }
            })
            .collect();
        for row in &rows {
            let mut columns = Columns::new(ways.operation, row);
            if columns.take::<i16>()? == 1 {
                let leased = (ways.read)(ways.operation, row, ITEM_COLUMN)?;
                claimed[leased.command].items[leased.request] = Some(leased.item);
                continue;
            }
            let code: i16 = columns.take()?;
            let line = items::index(columns.take()?);
            claimed[line].contended = code == 2;
            claimed[line].next_due = columns.take::<Option<i64>>()?.map(rows::span);
        }
        let again = self.shared.clock.claim_again(&self.shared, sent, (&rows, "clock_at")).await;
        if again.is_some() {
            for line in &mut claimed {
                line.next_due = again;
            }
        }
        Ok(claimed)
    }
}
