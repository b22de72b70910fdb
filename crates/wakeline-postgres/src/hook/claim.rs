//! Claims: leases deliveries to waiting senders, many lines in one call.
//!
//! # Invariants
//! * A claim that finds only rivals' rows does not report that there is nothing (trap 24): it
//!   tries once more and waits for them a little, without holding up the others of its call.
//!   However that ends, the claim answers with what it has leased already.
//! * What was leased and cannot be read is given back and left alone for a while. The others of the
//!   call get what is theirs; it is an error only if nothing else was found (trap 46).
//! * A call of unknown outcome is repeated once, and then finds by its keys what the first try
//!   leased. So does a later claim with a key that was granted before.

use std::time::{Duration, Instant};

use futures_util::FutureExt as _;
use tokio_postgres::Row;
use uuid::Uuid;
use wakeline_core::{AttemptId, EndpointId, HookChange, HookLine, HookWhat};
use wakeline_store::StoreError;
use wakeline_store::hook::{
    ApplicationLimit, DeliveryAsk, DeliveryClaim, DeliveryClaimed, DeliveryGroup,
};

use super::Core;
use super::items::{self, Leased, Targets};
use super::set_aside::Spoilt;
use super::wire::{index, length, micros};
use crate::commands::{Flushed, one_by_one};
use crate::connect::{Link, Params};
use crate::error;
use crate::queue::ROLLBACKS_MAX;
use crate::rows::{self, Columns};

/// The kind of a row which says that messages wait in `incoming`.
const INCOMING: i16 = 3;

const CLAIM: &str = "claim deliveries";

/// Where the columns of an endpoint, and those of a leased delivery, begin.
const TARGET_COLUMN: usize = 4;
const ITEM_COLUMN: usize = 11;
const NOW_COLUMN: usize = 24;

/// When to look again if rivals would not let go, or if more was met that cannot be read.
const CONTENDED_AGAIN: Duration = Duration::from_millis(5);

/// The waiters of one line on their way.
#[derive(Debug, Clone)]
pub(super) struct LineForm {
    line: HookLine,
    asks: Vec<AskForm>,
    limits: Vec<ApplicationLimit>,
    further: bool,
}

#[derive(Debug, Clone)]
struct AskForm {
    ask: DeliveryAsk,
    /// By attempt: an earlier try may have leased something to it.
    again: Vec<bool>,
}

impl LineForm {
    /// About what it adds to a call.
    pub(super) fn bytes(&self) -> usize {
        let asks = self.asks.iter().map(|form| 50 + 17 * form.ask.attempts.len());
        100 + asks.sum::<usize>() + 24 * self.limits.len()
    }

    fn is_empty(&self) -> bool {
        self.line == HookLine::Chores || self.asks.iter().all(|form| form.ask.attempts.is_empty())
    }
}

/// What was found in one line.
#[derive(Clone, Default)]
pub(super) struct Claimed {
    groups: Vec<Vec<DeliveryGroup>>,
    next_due: Option<Duration>,
    /// Rivals hold what is due.
    contended: bool,
    /// Attempts under which something was leased that cannot be read.
    spoilt: Vec<AttemptId>,
}

/// Lines as arrays.
#[derive(Default)]
struct Lines {
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
    /// By line, which of the call's it is; by ask, which of its line's.
    places: Vec<usize>,
    numbers: Vec<usize>,
}

impl Lines {
    fn of(lines: &[LineForm]) -> Self {
        let mut arrays = Self::default();
        for (place, form) in lines.iter().enumerate().filter(|(_, form)| !form.is_empty()) {
            arrays.pulls.push(match &form.line {
                HookLine::Pull(endpoint) => Some(endpoint.0),
                HookLine::Push | HookLine::PushFresh | HookLine::Chores => None,
            });
            let fresh_only = form.line == HookLine::PushFresh;
            arrays.further.push(form.further.then_some(fresh_only));
            arrays.places.push(place);
            arrays.firsts.push(length(arrays.fresh.len() + 1));
            let first = arrays.fresh.len();
            for (number, form) in form.asks.iter().enumerate() {
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

    fn add(&mut self, number: usize, form: &AskForm) {
        let fresh = i32::try_from(form.ask.fresh_only).unwrap_or(i32::MAX);
        self.fresh.push(fresh);
        self.leases.push(form.ask.lease.map(micros));
        self.starts.push(length(self.keys.len() + 1));
        self.lengths.push(length(form.ask.attempts.len()));
        self.keys.extend(form.ask.attempts.iter().map(|attempt| attempt.0));
        self.again.extend(&form.again);
        self.numbers.push(number);
    }
}

impl Core {
    /// Notes which attempts may hold something already.
    pub(super) fn lines(&self, claims: &[DeliveryClaim]) -> Vec<LineForm> {
        let ask = |ask: &DeliveryAsk| AskForm {
            again: ask.attempts.iter().map(|attempt| self.remembers(*attempt)).collect(),
            ask: ask.clone(),
        };
        let line = |claim: &DeliveryClaim| LineForm {
            line: claim.line.clone(),
            asks: claim.asks.iter().map(ask).collect(),
            limits: claim.limits.clone(),
            further: claim.further,
        };
        claims.iter().map(line).collect()
    }

    /// Makes one call for many claims.
    pub(super) async fn flush_claim(
        &self,
        _link: usize,
        commands: Vec<Vec<LineForm>>,
    ) -> Flushed<Vec<Claimed>> {
        one_by_one(&commands, |part| self.claim_call(part).boxed()).await
    }

    async fn claim_call(
        &self,
        commands: Vec<&Vec<LineForm>>,
    ) -> Result<Vec<Vec<Claimed>>, StoreError> {
        let mut lines: Vec<LineForm> = commands.iter().copied().flatten().cloned().collect();
        let mut claimed = self.claim_twice(&mut lines).await?.into_iter();
        Ok(commands.iter().map(|lines| claimed.by_ref().take(lines.len()).collect()).collect())
    }

    /// Makes a call, and once more if its outcome is unknown.
    async fn claim_twice(&self, lines: &mut [LineForm]) -> Result<Vec<Claimed>, StoreError> {
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
            for form in lines.iter_mut().flat_map(|line| &mut line.asks) {
                form.again.fill(true);
                // The first try may also lease something after the second: the server does not
                // end a statement because nobody waits for it any more.
                self.remember(form.ask.attempts.iter().copied());
            }
            // The first try may have leased something.
            result = self.claim_once(link, lines, false).await.map_err(StoreError::after_write);
        }
        if result.is_err() {
            let asks = lines.iter().flat_map(|line| &line.asks);
            self.remember(asks.flat_map(|form| form.ask.attempts.iter().copied()));
        }
        result
    }

    /// Does what a fused call left to do for a claim, and answers.
    pub(super) async fn finish_claim(
        &self,
        lines: Vec<LineForm>,
        mut claimed: Vec<Claimed>,
    ) -> Result<Vec<DeliveryClaimed>, StoreError> {
        for (line, claimed) in lines.iter().zip(&mut claimed) {
            if claimed.contended || !claimed.spoilt.is_empty() {
                self.try_again(line, claimed).await;
            }
            self.granted(&line.line, &claimed.groups);
        }
        let answer = |c: Claimed| DeliveryClaimed { groups: c.groups, next_due: c.next_due };
        Ok(claimed.into_iter().map(answer).collect())
    }

    /// One try that waits for rivals a little, with the attempts that are left. What could not be
    /// read is out of its way by now.
    async fn try_again(&self, line: &LineForm, claimed: &mut Claimed) {
        let mut rest = line.clone();
        for (form, groups) in rest.asks.iter_mut().zip(&claimed.groups) {
            let used: Vec<AttemptId> =
                groups.iter().flat_map(|g| g.items.iter().map(|i| i.token.attempt)).collect();
            form.ask.attempts.retain(|attempt| !used.contains(attempt));
            // The spoilt ones hold nothing any more, unless giving back failed.
            let again =
                |attempt: &AttemptId| claimed.spoilt.contains(attempt) || self.remembers(*attempt);
            form.again = form.ask.attempts.iter().map(again).collect();
        }
        if rest.is_empty() {
            return;
        }
        for limit in &mut rest.limits {
            let groups = claimed.groups.iter().flatten();
            let given = groups.filter(|group| group.target.application == limit.application);
            let given = u32::try_from(given.count()).unwrap_or(u32::MAX);
            limit.groups = limit.groups.saturating_sub(given);
        }
        match self.claim_once(None, std::slice::from_ref(&rest), true).await {
            Ok(mut again) => {
                let again = again.remove(0);
                for (groups, more) in claimed.groups.iter_mut().zip(again.groups) {
                    groups.extend(more);
                }
                claimed.next_due =
                    if again.spoilt.is_empty() { again.next_due } else { Some(CONTENDED_AGAIN) };
            }
            // They would not let go within the lock's timeout, or nobody knows. The next claim
            // with these attempts then finds what this one leased.
            Err(error) => {
                if !error::was_rolled_back(&error) {
                    let attempts = rest.asks.iter().flat_map(|form| &form.ask.attempts);
                    self.remember(attempts.copied());
                }
                claimed.next_due = Some(CONTENDED_AGAIN);
            }
        }
    }

    /// Remembers what was leased, and tells other nodes when it ends.
    fn granted(&self, line: &HookLine, groups: &[Vec<DeliveryGroup>]) {
        let groups = || groups.iter().flatten();
        self.remember(groups().flat_map(|group| group.items.iter().map(|i| i.token.attempt)));
        let what = match line {
            HookLine::Pull(EndpointId(id)) => HookWhat::Pull(EndpointId(*id)),
            HookLine::Push | HookLine::PushFresh | HookLine::Chores => HookWhat::Push,
        };
        if let Some(due_in) = items::first_end(groups()) {
            self.hints.tell_leases(&self.shared, vec![HookChange { what, due_in }]);
        }
    }

    async fn claim_once(
        &self,
        link: Option<&Link>,
        lines: &[LineForm],
        patient: bool,
    ) -> Result<Vec<Claimed>, StoreError> {
        let empty = |form: &LineForm| Claimed {
            groups: form.asks.iter().map(|_| Vec::new()).collect(),
            ..Claimed::default()
        };
        let mut claimed: Vec<Claimed> = lines.iter().map(empty).collect();
        let arrays = Lines::of(lines);
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
        let again = self.shared.clock.claim_again(&self.shared, sent, (&rows, "now_at")).await;
        if again.is_some() {
            for line in &mut claimed {
                line.next_due = again;
            }
        }
        if found.incoming {
            self.shared.notifier.incoming().notify_one();
        }
        let spoilt = self.set_aside(found.spoilt).await;
        let any = claimed.iter().flat_map(|line| &line.groups).any(|got| !got.is_empty());
        // An error for whoever found nothing else.
        spoilt.filter(|_| !any).map_or(Ok(claimed), Err)
    }
}

/// What a call says besides what it leased.
struct Found {
    /// Messages wait to be taken over from `incoming`.
    incoming: bool,
    spoilt: Spoilt,
}

/// Reads what a call leased.
fn read(rows: &[Row], arrays: &Lines, claimed: &mut [Claimed]) -> Result<Found, StoreError> {
    let (mut incoming, mut spoilt) = (false, Spoilt::default());
    let mut targets = Targets::default();
    let mut leased: Vec<(usize, Leased)> = Vec::new();
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
                targets.read(&mut columns, now, &mut spoilt)?;
            }
            _ => {
                let endpoint = Columns::from(CLAIM, row, TARGET_COLUMN).take()?;
                let mut columns = Columns::from(CLAIM, row, ITEM_COLUMN);
                leased.push((line, Leased::read(endpoint, &mut columns)?));
            }
        }
    }
    leased.sort_by_key(|(line, one)| (*line, one.group, one.token.delivery));
    for line in 0..arrays.places.len() {
        let mine: Vec<Leased> =
            leased.extract_if(.., |(of, _)| *of == line).map(|(_, l)| l).collect();
        let attempts: Vec<AttemptId> = mine.iter().map(|one| one.token.attempt).collect();
        let claimed = &mut claimed[arrays.places[line]];
        for (ask, group) in items::groups(mine, &mut targets, &mut spoilt) {
            claimed.groups[arrays.numbers[ask]].push(group);
        }
        claimed.spoilt = attempts.into_iter().filter(|id| spoilt.has(*id)).collect();
    }
    Ok(Found { incoming, spoilt })
}
