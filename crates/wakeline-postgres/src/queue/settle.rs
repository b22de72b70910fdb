//! Settles leased messages, many requests in one call.
//!
//! # Invariants
//! * A call has one entry per cursor, so that the database locks each cursor once, in order.
//! * Items take effect in their order. The outcomes are derived here from the database's results: a
//!   later item that names a message that is settled already is not found, or stale if the lease
//!   has ended.
//! * A call of unknown outcome is not repeated, because it could not distinguish the effects of its
//!   own first attempt from those of another consumer.

use std::collections::HashMap;
use std::time::Duration;

use tokio_postgres::Row;
use tokio_postgres::types::ToSql;
use uuid::Uuid;
use wakeline_core::{Change, GroupName, PartitionId, Verdict};
use wakeline_store::{SettleItem, SettleOutcome, SettleReply, StoreError};

use super::{QueueCore, same_error};
use crate::error;
use crate::rows::{self, Columns};

const OPERATION: &str = "settle";

impl QueueCore {
    /// Executes many requests in one call.
    pub(super) async fn flush_settle(
        &self,
        link_index: usize,
        commands: Vec<Vec<SettleItem>>,
    ) -> Vec<Result<SettleReply, StoreError>> {
        let refs: Vec<&[SettleItem]> = commands.iter().map(Vec::as_slice).collect();
        match self.settle_call(link_index, &refs).await {
            Ok(replies) => replies.into_iter().map(Ok).collect(),
            Err(error) if commands.len() > 1 && error::blames_values(&error) => {
                let mut results = Vec::with_capacity(commands.len());
                for command in refs {
                    let alone = self.settle_call(link_index, &[command]).await;
                    results.push(alone.map(|mut replies| replies.remove(0)));
                }
                results
            }
            Err(error) => commands.iter().map(|_| Err(same_error(&error))).collect(),
        }
    }

    async fn settle_call(
        &self,
        link_index: usize,
        commands: &[&[SettleItem]],
    ) -> Result<Vec<SettleReply>, StoreError> {
        let plan = SettlePlan::new(commands.iter().copied().flatten());
        let link = &self.shared.links.settle[link_index];
        let rows = self.on_link(link, OPERATION, &self.sql.settle, &plan.params()).await?;
        let mut ledger = SettleLedger::default();
        for row in &rows {
            ledger.read(&mut Columns::new(OPERATION, row))?;
        }
        let mut index = 0;
        let mut all = Vec::new();
        let replies = commands
            .iter()
            .map(|command| {
                let mut reply = SettleReply::default();
                for item in *command {
                    let (outcome, change) = ledger.outcome(&plan, index, item);
                    reply.outcomes.push(outcome);
                    reply.changes.extend(change);
                    index += 1;
                }
                all.extend_from_slice(&reply.changes);
                reply
            })
            .collect();
        self.shared.notifier.notify(&all);
        Ok(replies)
    }
}

/// The parameters of the function `settle`.
#[derive(Default)]
pub(super) struct SettlePlan {
    partitions: Vec<i64>,
    groups: Vec<String>,
    /// The number of each item's entry, counted from 1.
    entries: Vec<i32>,
    tokens: Vec<Option<Uuid>>,
    txns: Vec<String>,
    verdicts: Vec<i16>,
    errors: Vec<Option<String>>,
}

impl SettlePlan {
    pub(super) fn new<'a>(items: impl Iterator<Item = &'a SettleItem>) -> Self {
        let mut plan = Self::default();
        let mut numbers: HashMap<(PartitionId, &GroupName), i32> = HashMap::new();
        for item in items {
            let number = *numbers.entry((item.partition, &item.group)).or_insert_with(|| {
                plan.partitions.push(item.partition.0);
                plan.groups.push(item.group.as_str().to_owned());
                i32::try_from(plan.partitions.len()).expect("a call has few entries")
            });
            plan.entries.push(number);
            plan.tokens.push(item.token.map(|token| token.0));
            plan.txns.push(item.transaction_id.as_str().to_owned());
            plan.verdicts.push(match item.verdict {
                Verdict::Completed => 0,
                Verdict::Failed => 1,
                Verdict::Retry => 2,
                Verdict::DeadLetter => 3,
            });
            // PostgreSQL cannot store NUL in a text. The settlement must not fail because of its
            // error message.
            plan.errors.push(item.error.as_ref().map(|error| error.replace('\0', "\u{fffd}")));
        }
        plan
    }

    /// Returns the parameters, in order.
    pub(super) fn params(&self) -> Vec<&(dyn ToSql + Sync)> {
        vec![
            &self.partitions,
            &self.groups,
            &self.entries,
            &self.tokens,
            &self.txns,
            &self.verdicts,
            &self.errors,
        ]
    }
}

/// The results of the database by entry.
#[derive(Default)]
pub(super) struct SettleLedger {
    entries: HashMap<i32, SettleEntry>,
}

struct SettleEntry {
    /// The number of unsettled messages of the live lease; `None` if there is no live lease.
    held: Option<i64>,
    token: Option<Uuid>,
    strict_fencing: bool,
    /// The items whose message was found, by number from 1, and whether the message became a dead
    /// letter; `None` if it was dropped.
    named: HashMap<i32, Option<bool>>,
    change: Change,
    due: Option<Duration>,
}

impl SettleLedger {
    /// Reads a row. It describes a cursor, settled messages, the messages that an ended lease left
    /// unsettled, or all three.
    pub(super) fn read(&mut self, columns: &mut Columns<'_>) -> Result<(), StoreError> {
        let number: i32 = columns.take()?;
        let held = columns.take()?;
        let token = columns.take()?;
        let strict_fencing: Option<bool> = columns.take()?;
        let items: Option<Vec<i32>> = columns.take()?;
        let dead: Option<Vec<Option<bool>>> = columns.take()?;
        if let Some(strict_fencing) = strict_fencing {
            let change = rows::change(columns)?;
            let named = HashMap::new();
            let entry = SettleEntry { held, token, strict_fencing, named, change, due: None };
            self.entries.insert(number, entry);
        } else {
            columns.skip(4);
        }
        let Some(entry) = self.entries.get_mut(&number) else {
            let why =
                "PostgreSQL returned a settlement without its cursor; this is a defect: report it"
                    .into();
            return Err(StoreError::Fatal { operation: OPERATION, source: why });
        };
        if let Some(items) = items {
            let dead = dead.unwrap_or_default().into_iter().chain(std::iter::repeat(Some(false)));
            entry.named.extend(items.into_iter().zip(dead));
        }
        if let Some(due_us) = columns.take::<Option<i64>>()? {
            entry.due = Some(rows::span(due_us));
        }
        Ok(())
    }

    /// Returns the outcome of an item. It must be called once per item, in order.
    pub(super) fn outcome(
        &mut self,
        plan: &SettlePlan,
        index: usize,
        item: &SettleItem,
    ) -> (SettleOutcome, Option<Change>) {
        let Some(entry) = self.entries.get_mut(&plan.entries[index]) else {
            return (SettleOutcome::StaleLease, None);
        };
        if item.token.is_none() && entry.strict_fencing {
            return (SettleOutcome::LeaseRequired, None);
        }
        let wrong_token = item.token.is_some_and(|token| Some(token.0) != entry.token);
        let held = match entry.held {
            Some(held) if held > 0 && !wrong_token => held,
            _ => return (SettleOutcome::StaleLease, None),
        };
        let number = i32::try_from(index + 1).expect("a call has few items");
        let Some(dead) = entry.named.get(&number).copied() else {
            return (SettleOutcome::NotFound, None);
        };
        entry.held = Some(held - 1);
        let lease_ended = held == 1;
        let outcome = SettleOutcome::Settled {
            queue: entry.change.queue.clone(),
            partition: entry.change.partition.clone().expect("it was read"),
            lease_ended,
            dead_lettered: dead == Some(true),
            dropped: dead.is_none(),
        };
        let left = entry.due.filter(|_| lease_ended).map(|due_in| Change {
            group: Some(item.group.clone()),
            due_in,
            ..entry.change.clone()
        });
        (outcome, left)
    }
}

/// Reads the rows of a settlement within a transaction, whose columns begin at `first`.
pub(super) fn read_ledger<'a>(
    rows: impl Iterator<Item = &'a Row>,
    operation: &'static str,
    first: usize,
) -> Result<SettleLedger, StoreError> {
    let mut ledger = SettleLedger::default();
    for row in rows {
        ledger.read(&mut Columns::from(operation, row, first))?;
    }
    Ok(ledger)
}
