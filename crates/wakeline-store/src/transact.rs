//! Writes of all faces that happen together or not at all.

use std::collections::HashSet;

use wakeline_core::{Change, FlowChange, HookChange};

use crate::error::StoreError;
use crate::flow::{EnqueueOutcome, Envelope};
use crate::hook::{EmitOutcome, NewMessage};
use crate::queue::{PushItem, PushOutcome, SettleItem, SettleOutcome};
use crate::schedule::{CancelItem, CancelOutcome, ScheduleItem, ScheduleOutcome};

/// Writes that happen together or not at all. They count in the order of these fields; but the
/// messages to store get their offsets before what is scheduled here, even if that is due at once
/// (unless they are held back for the time of a maintenance: then they come in order of
/// acceptance).
#[derive(Debug, Clone, Default)]
pub struct TransactCommand {
    /// Timers to take back. Each key at most once, here and in `schedules` together.
    pub cancels: Vec<CancelItem>,
    /// Messages to deliver later.
    pub schedules: Vec<ScheduleItem>,
    /// Messages to store.
    pub pushes: Vec<PushItem>,
    /// Messages to settle.
    pub settles: Vec<SettleItem>,
    /// Messages to orchestrations: starts and signals.
    pub envelopes: Vec<Envelope>,
    /// Messages to endpoints of applications.
    pub emits: Vec<NewMessage>,
}

impl TransactCommand {
    /// Refuses a command that names a timer twice: its parts have no order among themselves.
    pub fn check(&self) -> Result<(), StoreError> {
        let mut seen = HashSet::new();
        let cancelled = self.cancels.iter().map(|item| (&item.queue, &item.key));
        let scheduled = self.schedules.iter();
        let scheduled = scheduled.filter_map(|s| Some((&s.message.queue, s.key.as_ref()?)));
        match cancelled.chain(scheduled).find(|timer| !seen.insert(*timer)) {
            None => Ok(()),
            Some((queue, key)) => {
                let reason = format!("{key} of queue {queue} is named twice: name each timer once");
                Err(StoreError::Invalid { field: "timerKey", reason })
            }
        }
    }
}

/// What a transaction did, one per command of each kind, in order.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Transacted {
    /// Timers that were taken back, or not: neither refuses the transaction.
    pub cancels: Vec<CancelOutcome>,
    /// Messages to deliver later.
    pub schedules: Vec<ScheduleOutcome>,
    /// Messages.
    pub pushes: Vec<PushOutcome>,
    /// Settlements; all are [`SettleOutcome::Settled`].
    pub settles: Vec<SettleOutcome>,
    /// Messages to orchestrations; none is [`EnqueueOutcome::Ended`].
    pub envelopes: Vec<EnqueueOutcome>,
    /// Messages to endpoints: stored, or known before.
    pub emits: Vec<EmitOutcome>,
}

/// What a transaction was refused for: the first that would not succeed, settlements first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refusal {
    /// A settlement.
    Settle {
        /// Its index.
        index: usize,
        /// Why.
        outcome: SettleOutcome,
    },
    /// A message to an orchestration that has ended.
    Envelope {
        /// Its index.
        index: usize,
    },
    /// A message to endpoints.
    Emit {
        /// Its index.
        index: usize,
        /// Why.
        outcome: EmitOutcome,
    },
}

/// How a transaction ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TransactOutcome {
    /// All of it happened. What repeats a known id stored nothing new.
    Committed(Transacted),
    /// None of it happened.
    Refused(Refusal),
}

impl TransactOutcome {
    /// What a transaction with these outcomes ends as: the rule of every store.
    pub fn judge(transacted: Transacted) -> Self {
        match transacted.refusal() {
            Some(refusal) => Self::Refused(refusal),
            None => Self::Committed(transacted),
        }
    }
}

impl Transacted {
    /// The first outcome that refuses all.
    fn refusal(&self) -> Option<Refusal> {
        let settle = self.settles.iter().enumerate().find_map(|(index, outcome)| {
            let stands = matches!(outcome, SettleOutcome::Settled { .. });
            (!stands).then(|| Refusal::Settle { index, outcome: outcome.clone() })
        });
        let ended = |outcome: &EnqueueOutcome| *outcome == EnqueueOutcome::Ended;
        let envelope = || {
            let index = self.envelopes.iter().position(ended)?;
            Some(Refusal::Envelope { index })
        };
        let emit = || {
            self.emits.iter().enumerate().find_map(|(index, outcome)| {
                let fails = matches!(
                    outcome,
                    EmitOutcome::NoApplication | EmitOutcome::KeyReused | EmitOutcome::Refused(_)
                );
                fails.then(|| Refusal::Emit { index, outcome: outcome.clone() })
            })
        };
        settle.or_else(envelope).or_else(emit)
    }
}

/// Answer to a transaction.
#[derive(Debug, Clone)]
pub struct TransactReply {
    /// How it ended.
    pub outcome: TransactOutcome,
    /// What the caller tells its own waiters.
    pub changes: Vec<Change>,
    /// What the caller tells its own waiters of orchestrations.
    pub flow_changes: Vec<FlowChange>,
    /// What the caller tells its own waiters of deliveries.
    pub hook_changes: Vec<HookChange>,
}

impl TransactReply {
    /// The answer to a transaction that did nothing.
    pub fn refused(refusal: Refusal) -> Self {
        Self {
            outcome: TransactOutcome::Refused(refusal),
            changes: Vec::new(),
            flow_changes: Vec::new(),
            hook_changes: Vec::new(),
        }
    }
}
