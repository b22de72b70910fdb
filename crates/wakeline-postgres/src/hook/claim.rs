//! Claims: leases deliveries to waiting senders, many lines in one call.
//!
//! # Invariants
//! * A claim that finds only locked rows does not report that there is nothing, because the
//!   transaction that holds them may roll back. It claims once more and waits briefly for the
//!   locks, without delaying the other claims of its call. In any case it returns what it has
//!   leased already.
//! * Corrupt deliveries are released and skipped for a while. The other claims of the call get
//!   their deliveries; a corrupt row is an error only for a claim that found nothing else.
//! * A call of unknown outcome is repeated once, and then finds by its keys what the first attempt
//!   leased. So does a later claim with a key that was used before.

use std::time::{Duration, Instant};

use futures_util::FutureExt as _;
use tokio_postgres::Row;
use uuid::Uuid;
use wakeline_core::{AttemptId, EndpointId, HookChange, HookChangeKind, HookLine};
use wakeline_store::StoreError;
use wakeline_store::hook::{
    ApplicationLimit, DeliveryClaim, DeliveryClaimed, DeliveryGroup, DeliveryRequest,
};

use super::HookCore;
use super::items::{self, LeasedDelivery, Targets};
use super::quarantine::Quarantine;
use super::wire::{index, length, micros};
use crate::commands::{Flushed, one_by_one};
use crate::connect::{Params, PgLink};
use crate::error;
use crate::queue::ROLLBACKS_MAX;
use crate::rows::{self, Columns};

/// The kind of a row which says that rows wait in the table `incoming`.
const INCOMING: i16 = 3;

const CLAIM: &str = "claim deliveries";

/// The index of the first column of an endpoint, of a leased delivery, and of the database's clock.
const TARGET_COLUMN: usize = 4;
const ITEM_COLUMN: usize = 11;
const NOW_COLUMN: usize = 24;

/// When to claim again if other transactions did not release their locks, or if more corrupt rows
/// were found.
const CONTENDED_AGAIN: Duration = Duration::from_millis(5);

/// The requests of one line as the SQL function takes them.
#[derive(Debug, Clone)]
pub(super) struct LineForm {
    line: HookLine,
    requests: Vec<DeliveryRequestForm>,
    limits: Vec<ApplicationLimit>,
    further: bool,
}

#[derive(Debug, Clone)]
struct DeliveryRequestForm {
    request: DeliveryRequest,
    /// For each attempt id, whether an earlier call may have leased something under it.
    again: Vec<bool>,
}

impl LineForm {
    /// Returns the approximate number of bytes that it adds to a call.
    pub(super) fn bytes(&self) -> usize {
        let requests = self.requests.iter().map(|form| 50 + 17 * form.request.attempts.len());
        100 + requests.sum::<usize>() + 24 * self.limits.len()
    }

    fn is_empty(&self) -> bool {
        self.line == HookLine::Background
            || self.requests.iter().all(|form| form.request.attempts.is_empty())
    }
}

/// The result of a claim for one line.
#[derive(Clone, Default)]
pub(super) struct ClaimedLine {
    groups: Vec<Vec<DeliveryGroup>>,
    next_due: Option<Duration>,
    /// Whether other transactions have locked the due rows.
    contended: bool,
    /// The attempt ids under which corrupt deliveries were leased.
    corrupt: Vec<AttemptId>,
}

/// The lines of a call as arrays.
#[derive(Default)]
struct ClaimArrays {
    pulls: Vec<Option<Uuid>>,
    firsts: Vec<i32>,
    counts: Vec<i32>,
    fresh: Vec<i32>,
    leases: Vec<Option<i64>>,
    starts: Vec<i32>,
    lengths: Vec<i32>,
    keys: Vec<Uuid>,
    again: Vec<bool>,
    limit_lines: Vec<i32>,
    limit_apps: Vec<Uuid>,
    limits: Vec<i32>,
    further: Vec<Option<bool>>,
    /// The index of each line in the call.
    places: Vec<usize>,
    /// The index of each request in its line.
    numbers: Vec<usize>,
}

impl ClaimArrays {
    fn of(lines: &[LineForm]) -> Self {
        let mut arrays = Self::default();
        for (place, form) in lines.iter().enumerate().filter(|(_, form)| !form.is_empty()) {
            arrays.pulls.push(match &form.line {
                HookLine::Pull(endpoint) => Some(endpoint.0),
                HookLine::Push | HookLine::PushFresh | HookLine::Background => None,
            });
            let fresh_only = form.line == HookLine::PushFresh;
            arrays.further.push(form.further.then_some(fresh_only));
            arrays.places.push(place);
            arrays.firsts.push(length(arrays.fresh.len() + 1));
            let first = arrays.fresh.len();
            for (number, form) in form.requests.iter().enumerate() {
                arrays.add(number, form);
            }
            arrays.counts.push(length(arrays.fresh.len() - first));
            for limit in &form.limits {
                arrays.limit_lines.push(length(arrays.counts.len()));
                arrays.limit_apps.push(limit.application.0);
                arrays.limits.push(i32::try_from(limit.groups).unwrap_or(i32::MAX));
            }
        }
        arrays
    }

    fn add(&mut self, number: usize, form: &DeliveryRequestForm) {
        let fresh = i32::try_from(form.request.fresh_only).unwrap_or(i32::MAX);
        self.fresh.push(fresh);
        self.leases.push(form.request.lease.map(micros));
        self.starts.push(length(self.keys.len() + 1));
        self.lengths.push(length(form.request.attempts.len()));
        self.keys.extend(form.request.attempts.iter().map(|attempt| attempt.0));
        self.again.extend(&form.again);
        self.numbers.push(number);
    }
}

impl HookCore {
    /// Converts claims, and marks the attempt ids under which leases may exist already.
    pub(super) fn lines(&self, claims: &[DeliveryClaim]) -> Vec<LineForm> {
        let request = |request: &DeliveryRequest| DeliveryRequestForm {
            again: request.attempts.iter().map(|attempt| self.remembers(*attempt)).collect(),
            request: request.clone(),
        };
        let line = |claim: &DeliveryClaim| LineForm {
            line: claim.line.clone(),
            requests: claim.requests.iter().map(request).collect(),
            limits: claim.limits.clone(),
            further: claim.further,
        };
        claims.iter().map(line).collect()
    }

    /// Executes many claims in one call.
    pub(super) async fn flush_claim(
        &self,
        _link: usize,
        commands: Vec<Vec<LineForm>>,
    ) -> Flushed<Vec<ClaimedLine>> {
        one_by_one(&commands, |part| self.claim_call(part).boxed()).await
    }

    async fn claim_call(
        &self,
        commands: Vec<&Vec<LineForm>>,
    ) -> Result<Vec<Vec<ClaimedLine>>, StoreError> {
        let mut lines: Vec<LineForm> = commands.iter().copied().flatten().cloned().collect();
        let mut claimed = self.claim_twice(&mut lines).await?.into_iter();
        Ok(commands.iter().map(|lines| claimed.by_ref().take(lines.len()).collect()).collect())
    }

    /// Executes a call, and repeats it once if its outcome is unknown.
    async fn claim_twice(&self, lines: &mut [LineForm]) -> Result<Vec<ClaimedLine>, StoreError> {
        let link = Some(&self.shared.links.hook.claim);
        let mut result = self.claim_once(link, lines, false).await;
        for _ in 0..ROLLBACKS_MAX {
            match &result {
                Err(error) if error::was_rolled_back(error) => {
                    result = self.claim_once(link, lines, false).await;
                }
                _ => break,
            }
        }
        if matches!(result, Err(StoreError::Transient { .. })) {
            for form in lines.iter_mut().flat_map(|line| &mut line.requests) {
                form.again.fill(true);
                // The first attempt may also lease something after the second: the server does not
                // cancel a statement when its client stops waiting.
                self.remember(form.request.attempts.iter().copied());
            }
            // The first attempt may have leased something.
            result = self.claim_once(link, lines, false).await.map_err(StoreError::after_write);
        }
        if result.is_err() {
            let requests = lines.iter().flat_map(|line| &line.requests);
            self.remember(requests.flat_map(|form| form.request.attempts.iter().copied()));
        }
        result
    }

    /// Completes a claim after its fused call, and returns the result.
    pub(super) async fn finish_claim(
        &self,
        lines: Vec<LineForm>,
        mut claimed: Vec<ClaimedLine>,
    ) -> Result<Vec<DeliveryClaimed>, StoreError> {
        for (line, claimed) in lines.iter().zip(&mut claimed) {
            if claimed.contended || !claimed.corrupt.is_empty() {
                self.try_again(line, claimed).await;
            }
            self.note_leases(&line.line, &claimed.groups);
        }
        let answer = |c: ClaimedLine| DeliveryClaimed { groups: c.groups, next_due: c.next_due };
        Ok(claimed.into_iter().map(answer).collect())
    }

    /// Claims once more with the remaining attempt ids, waiting briefly for locks. Corrupt rows
    /// have been quarantined before.
    async fn try_again(&self, line: &LineForm, claimed: &mut ClaimedLine) {
        let mut rest = line.clone();
        for (form, groups) in rest.requests.iter_mut().zip(&claimed.groups) {
            let used: Vec<AttemptId> =
                groups.iter().flat_map(|g| g.items.iter().map(|i| i.token.attempt)).collect();
            form.request.attempts.retain(|attempt| !used.contains(attempt));
            // The ids of corrupt deliveries hold no leases any more, unless the release failed.
            let again =
                |attempt: &AttemptId| claimed.corrupt.contains(attempt) || self.remembers(*attempt);
            form.again = form.request.attempts.iter().map(again).collect();
        }
        if rest.is_empty() {
            return;
        }
        for limit in &mut rest.limits {
            let groups = claimed.groups.iter().flatten();
            let leased = groups.filter(|group| group.target.application == limit.application);
            let leased = u32::try_from(leased.count()).unwrap_or(u32::MAX);
            limit.groups = limit.groups.saturating_sub(leased);
        }
        match self.claim_once(None, std::slice::from_ref(&rest), true).await {
            Ok(mut again) => {
                let again = again.remove(0);
                for (groups, more) in claimed.groups.iter_mut().zip(again.groups) {
                    groups.extend(more);
                }
                claimed.next_due =
                    if again.corrupt.is_empty() { again.next_due } else { Some(CONTENDED_AGAIN) };
            }
            // The locks were not released within the lock timeout, or the outcome is unknown. Then
            // the next claim with these attempt ids finds what this one leased.
            Err(error) => {
                if !error::was_rolled_back(&error) {
                    let attempts = rest.requests.iter().flat_map(|form| &form.request.attempts);
                    self.remember(attempts.copied());
                }
                claimed.next_due = Some(CONTENDED_AGAIN);
            }
        }
    }

    /// Records the attempt ids of leases, and notifies other nodes of the end of the first lease.
    fn note_leases(&self, line: &HookLine, groups: &[Vec<DeliveryGroup>]) {
        let groups = || groups.iter().flatten();
        self.remember(groups().flat_map(|group| group.items.iter().map(|i| i.token.attempt)));
        let what = match line {
            HookLine::Pull(EndpointId(id)) => HookChangeKind::Pull(EndpointId(*id)),
            HookLine::Push | HookLine::PushFresh | HookLine::Background => HookChangeKind::Push,
        };
        if let Some(due_in) = items::first_end(groups()) {
            self.hints.notify_leases(&self.shared, vec![HookChange { what, due_in }]);
        }
    }

    async fn claim_once(
        &self,
        link: Option<&PgLink>,
        lines: &[LineForm],
        patient: bool,
    ) -> Result<Vec<ClaimedLine>, StoreError> {
        let empty = |form: &LineForm| ClaimedLine {
            groups: form.requests.iter().map(|_| Vec::new()).collect(),
            ..ClaimedLine::default()
        };
        let mut claimed: Vec<ClaimedLine> = lines.iter().map(empty).collect();
        let arrays = ClaimArrays::of(lines);
        if arrays.pulls.is_empty() {
            return Ok(claimed);
        }
        let params: Params<'_> = &[
            &arrays.pulls,
            &arrays.firsts,
            &arrays.counts,
            &arrays.fresh,
            &arrays.leases,
            &arrays.starts,
            &arrays.lengths,
            &arrays.keys,
            &arrays.again,
            &patient,
            &arrays.limit_lines,
            &arrays.limit_apps,
            &arrays.limits,
            &arrays.further,
        ];
        let sql = match self.shared.notifier.peers() {
            Some(_) => &self.sql.claim,
            None => &self.sql.claim_polled,
        };
        let sent = Instant::now();
        let rows = match link {
            Some(link) => link.query_promptly(CLAIM, sql, params).await?,
            None => self.shared.links.general.query(CLAIM, sql, params).await?,
        };
        let found = read(&rows, &arrays, &mut claimed)?;
        let again = self.shared.clock.claim_again(&self.shared, sent, &rows, "now_at").await;
        if again.is_some() {
            for line in &mut claimed {
                line.next_due = again;
            }
        }
        if found.incoming {
            self.shared.notifier.incoming().notify_one();
        }
        let error = self.quarantine(found.quarantine).await;
        let any = claimed.iter().flat_map(|line| &line.groups).any(|got| !got.is_empty());
        // It is an error only if nothing else was found.
        error.filter(|_| !any).map_or(Ok(claimed), Err)
    }
}

/// The results of a call other than leases.
struct ClaimRows {
    /// Whether rows wait in the table `incoming`.
    incoming: bool,
    quarantine: Quarantine,
}

/// Reads the rows of a call.
fn read(
    rows: &[Row],
    arrays: &ClaimArrays,
    claimed: &mut [ClaimedLine],
) -> Result<ClaimRows, StoreError> {
    let (mut incoming, mut quarantine) = (false, Quarantine::default());
    let mut targets = Targets::default();
    let mut leased: Vec<(usize, LeasedDelivery)> = Vec::new();
    for row in rows {
        let mut columns = Columns::new(CLAIM, row);
        let kind: i16 = columns.take()?;
        if kind == INCOMING {
            incoming = true;
            continue;
        }
        let line = index(columns.take()?);
        match kind {
            0 => {
                let claimed = &mut claimed[arrays.places[line]];
                claimed.contended = columns.take::<i16>()? == 2;
                claimed.next_due = columns.take::<Option<i64>>()?.map(rows::span);
            }
            1 => {
                let now = Columns::from(CLAIM, row, NOW_COLUMN).moment()?;
                let mut columns = Columns::from(CLAIM, row, TARGET_COLUMN);
                targets.read(&mut columns, now, &mut quarantine)?;
            }
            _ => {
                let endpoint = Columns::from(CLAIM, row, TARGET_COLUMN).take()?;
                let mut columns = Columns::from(CLAIM, row, ITEM_COLUMN);
                leased.push((line, LeasedDelivery::read(endpoint, &mut columns)?));
            }
        }
    }
    leased.sort_by_key(|(line, one)| (*line, one.group, one.token.delivery));
    for line in 0..arrays.places.len() {
        let mine: Vec<LeasedDelivery> =
            leased.extract_if(.., |(of, _)| *of == line).map(|(_, l)| l).collect();
        let attempts: Vec<AttemptId> = mine.iter().map(|one| one.token.attempt).collect();
        let claimed = &mut claimed[arrays.places[line]];
        for (request, group) in items::groups(mine, &mut targets, &mut quarantine) {
            claimed.groups[arrays.numbers[request]].push(group);
        }
        claimed.corrupt = attempts.into_iter().filter(|id| quarantine.has(*id)).collect();
    }
    Ok(ClaimRows { incoming, quarantine })
}
