//! Transactions: writes of several APIs that are committed together or not at all.

use std::collections::HashSet;

use wakeline_core::{Change, FlowChange, HookChange};

use crate::error::StoreError;
use crate::flow::{EnqueueOutcome, Envelope};
use crate::hook::{EmitOutcome, NewMessage};
use crate::queue::{PushItem, PushOutcome, SettleItem, SettleOutcome};
use crate::schedule::{CancelItem, CancelOutcome, ScheduleItem, ScheduleOutcome};

/// Writes that are committed together or not at all. They are applied in the order of these fields,
/// with one exception: the pushed messages get their offsets before messages scheduled by the same
/// command, even if those are due at once. During maintenance, when messages are held back, they
/// get their offsets in the order in which they were accepted.
#[derive(Debug, Clone, Default)]
pub struct TransactCommand {
    /// Timers to cancel. A timer may occur only once in `cancels` and `schedules` together.
    pub cancels: Vec<CancelItem>,
    /// Messages to deliver later.
    pub schedules: Vec<ScheduleItem>,
    /// Messages to push to queues.
    pub pushes: Vec<PushItem>,
    /// Messages to settle.
    pub settles: Vec<SettleItem>,
    /// Messages to orchestrations: starts and signals.
    pub envelopes: Vec<Envelope>,
    /// Webhook messages to emit to the endpoints of applications.
    pub emits: Vec<NewMessage>,
}

impl TransactCommand {
    /// Fails if the command names a timer twice, because the order of its writes to one timer
    /// would be undefined.
    pub fn check(&self) -> Result<(), StoreError> {
        let mut seen = HashSet::new();
        let cancelled = self.cancels.iter().map(|item| (&item.queue, &item.key));
        let scheduled = self.schedules.iter();
        let scheduled = scheduled.filter_map(|s| Some((&s.message.queue, s.key.as_ref()?)));
        match cancelled.chain(scheduled).find(|timer| !seen.insert(*timer)) {
            None => Ok(()),
            Some((queue, key)) => {
                let reason =
                    format!("{key} of queue {queue} occurs twice: each timer may occur only once");
                Err(StoreError::Invalid { field: "timerKey", reason })
            }
        }
    }
}

/// The outcomes of a committed transaction: one per command of each kind, in order.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Transacted {
    /// Cancelled timers. A timer that could not be cancelled does not refuse the transaction.
    pub cancels: Vec<CancelOutcome>,
    /// Scheduled messages.
    pub schedules: Vec<ScheduleOutcome>,
    /// Pushed messages.
    pub pushes: Vec<PushOutcome>,
    /// Settlements; all are [`SettleOutcome::Settled`].
    pub settles: Vec<SettleOutcome>,
    /// Messages to orchestrations; none is [`EnqueueOutcome::Ended`].
    pub envelopes: Vec<EnqueueOutcome>,
    /// Webhook messages: stored now, or stored by an earlier request.
    pub emits: Vec<EmitOutcome>,
}

/// Why a transaction was refused: the first command that would not succeed, settlements first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refusal {
    /// A settlement would not succeed.
    Settle {
        /// The index of the settlement.
        index: usize,
        /// The outcome that it would have.
        outcome: SettleOutcome,
    },
    /// A message is addressed to an orchestration that has ended.
    Envelope {
        /// The index of the message.
        index: usize,
    },
    /// A webhook message would not be stored.
    Emit {
        /// The index of the message.
        index: usize,
        /// The outcome that it would have.
        outcome: EmitOutcome,
    },
}

/// The outcome of a transaction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TransactOutcome {
    /// All writes were committed. Commands that repeat a known id stored nothing new.
    Committed(Transacted),
    /// No write was committed.
    Refused(Refusal),
}

impl TransactOutcome {
    /// The outcome of a transaction whose commands have these outcomes; the same rule in every
    /// store.
    pub fn judge(transacted: Transacted) -> Self {
        match transacted.refusal() {
            Some(refusal) => Self::Refused(refusal),
            None => Self::Committed(transacted),
        }
    }
}

impl Transacted {
    /// The first outcome that refuses the transaction.
    fn refusal(&self) -> Option<Refusal> {
        let settle = self.settles.iter().enumerate().find_map(|(index, outcome)| {
            let settled = matches!(outcome, SettleOutcome::Settled { .. });
            (!settled).then(|| Refusal::Settle { index, outcome: outcome.clone() })
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

/// The result of a transaction.
#[derive(Debug, Clone)]
pub struct TransactReply {
    /// The outcome of the transaction.
    pub outcome: TransactOutcome,
    /// Changes to publish to the queue waiters of this process.
    pub changes: Vec<Change>,
    /// Changes to publish to the orchestration waiters of this process.
    pub flow_changes: Vec<FlowChange>,
    /// Changes to publish to the delivery waiters of this process.
    pub hook_changes: Vec<HookChange>,
}

impl TransactReply {
    /// The result of a refused transaction.
    pub fn refused(refusal: Refusal) -> Self {
        Self {
            outcome: TransactOutcome::Refused(refusal),
            changes: Vec::new(),
            flow_changes: Vec::new(),
            hook_changes: Vec::new(),
        }
    }
}
