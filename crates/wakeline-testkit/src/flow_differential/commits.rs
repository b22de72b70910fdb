//! Writes on both sides: messages, turns, completions.

use std::time::Duration;

use bytes::Bytes;
use wakeline_core::{InstanceId, MessageId, PartitionName, TransactionId};
use wakeline_store::flow::{
    AbandonOutcome, Completion, ExecutionEnd, FlowReader as _, FlowStore as _, HistoryBatch,
    InstanceState, KvChange, NewInstance, Pinned, RenewOutcome, StatusChange, TurnCommit, TurnItem,
    TurnOutcome, WorkKey, WorkOutcome,
};
use wakeline_store::{PushItem, PushOutcome};

use super::compare::{Comparison, same};
use super::emits::check_emit_notifications;
use super::op::{
    DispatcherSpec, Events, FlowMail, INSTANCES, Kv, PlannedTurn, PlannedTurnEnd, Task, VisibleWhen,
};
use super::side::{HeldItem, kv_key, owner};
use super::world::{FlowStep, FlowWorld, failed, worker};
use crate::flow_conformance::{new_instance, nothing};

impl FlowWorld<'_> {
    pub(super) async fn send(&mut self, mails: &[FlowMail], lines: &[DispatcherSpec]) -> FlowStep {
        let (oracle, store) = mails.iter().map(|mail| self.envelopes(mail)).unzip();
        let requests = self.dispatchers(lines);
        let waiting = self.waiting(&requests);
        let oracle = self.oracle.enqueue(oracle, Vec::new()).await.map_err(failed)?;
        let store = self.store.enqueue(store, requests.clone()).await.map_err(failed)?;
        same("outcomes of messages", &oracle.outcomes, &store.outcomes)?;
        self.follow_leased_turns(&requests, &waiting, &store.turns)?;
        Ok(store.turns.is_empty().then_some(store.changes))
    }

    pub(super) async fn commit(&mut self, hold: usize, plan: &PlannedTurn) -> FlowStep {
        let Some(hold) = self.turn_hold(hold) else { return Ok(None) };
        let HeldItem::Turn(turn, _) = &hold.what else { return Ok(None) };
        let (oracle, mut store) = self.commits(turn, plan).await?;
        store.token = hold.store;
        let turn_requests = self.dispatchers(&plan.dispatchers);
        let lease = Duration::from_secs(20);
        let work_requests: Vec<_> = plan.workers.iter().map(|spec| worker(*spec, lease)).collect();
        let waiting = self.waiting(&turn_requests);
        let id = turn.instance.clone();
        let keys = oracle.work.iter().map(|work| (id.clone(), work.key));
        let fresh: Vec<_> = keys.filter(|(id, key)| !self.oracle.has_work(id, *key)).collect();
        store.turn_requests.clone_from(&turn_requests);
        store.work_requests.clone_from(&work_requests);
        let sending = self.sending().await?;
        let oracle = self.oracle.commit_turn(oracle).await;
        let store = self.store.commit_turn(store).await;
        let (oracle, store) = match (oracle, store) {
            (Err(_), Err(_)) => return Ok(None),
            (oracle, store) => (oracle.map_err(failed)?, store.map_err(failed)?),
        };
        same("outcome of a turn", plain_outcome(&oracle.outcome), plain_outcome(&store.outcome))?;
        if !matches!(oracle.outcome, TurnOutcome::Committed { .. }) {
            same("turns of a refused turn", 0, store.turns.len() + store.work.len())?;
            return Ok(None);
        }
        check_emit_notifications(sending, &oracle.hook_changes, &store.hook_changes)?;
        self.follow_leased_turns(&turn_requests, &waiting, &store.turns)?;
        self.follow_leased_work(&work_requests, &fresh, &store.work).await?;
        let leased = !store.turns.is_empty() || !store.work.is_empty();
        Ok((!leased).then_some(store.changes))
    }

    /// Returns the commit of a turn for the oracle and for the store, without the piggybacked
    /// requests.
    async fn commits(
        &mut self,
        turn: &TurnItem,
        plan: &PlannedTurn,
    ) -> Result<(TurnCommit, TurnCommit), String> {
        let over = turn.state.is_some_and(InstanceState::is_ended);
        let goes_over = turn.state == Some(InstanceState::ContinuedAsNew);
        let execution = turn.execution.max(1) + u64::from(goes_over);
        let last = if goes_over { 0 } else { turn.last_event };
        let exists = turn.execution > 0;
        let writes = !over && (exists || plan.new_instance);
        let mut commit = TurnCommit { execution, ..nothing(turn) };
        if !exists && plan.new_instance {
            let parent = self.existing_parent(turn, plan.parent).await?;
            commit.new_instance = Some(NewInstance { parent, ..new_instance("order") });
        }
        if writes {
            let pin = |n| Pinned { capability: self.names.capability(n), version: version(n) };
            commit.pinned = plan.pin.map(pin);
            commit.history = history(plan.events, last);
            commit.status = plan.status.iter().map(|text| status(*text)).collect();
            commit.kv = plan.kv.iter().map(|change| kv_change(*change, last)).collect();
            commit.end = end(plan.end);
        }
        let ends = over || !matches!(commit.end, ExecutionEnd::Open);
        commit.clear = plan.clear && matches!(commit.end, ExecutionEnd::Ended { .. });
        let key = |activity: &u64| WorkKey { execution, activity: *activity };
        commit.cancelled_work = plan.cancelled_work.iter().map(key).collect();
        commit.cancelled_messages = (plan.cancelled_mails.iter())
            .flat_map(|n| [(1, *n), (2, self.sent.saturating_sub(*n))])
            .collect();
        commit.pushes = plan.push.iter().map(|n| self.push_item(*n)).collect();
        commit.emits = plan.emits.iter().map(|n| self.names.emit(*n)).collect();
        let mut store = commit.clone();
        self.add_mails(&mut commit, &mut store, plan, ends);
        self.add_tasks(&mut commit, &mut store, &plan.work, &turn.instance);
        Ok((commit, store))
    }

    async fn existing_parent(
        &self,
        turn: &TurnItem,
        parent: Option<usize>,
    ) -> Result<Option<(InstanceId, u64)>, String> {
        let Some(parent) = parent.map(|n| self.names.instance(n)) else { return Ok(None) };
        // The parent has a smaller name, so that no instance is its own ancestor.
        let known = self.oracle.stats(&parent).await.map_err(failed)?.is_some();
        Ok((known && parent < turn.instance).then_some((parent, 3)))
    }

    /// Adds the messages of a turn, without those that the rules leave open: a start to itself,
    /// unless it begins the next execution, and messages to itself from a turn that ends.
    fn add_mails(
        &mut self,
        oracle: &mut TurnCommit,
        store: &mut TurnCommit,
        plan: &PlannedTurn,
        ends: bool,
    ) {
        let own = oracle.token.lane;
        for mail in &plan.mails {
            let mut mail = mail.clone();
            let to_itself = self.oracle.lane_of(&self.names.instance(mail.to)) == Some(own);
            if to_itself && ends {
                continue;
            }
            if to_itself {
                mail.starts = None;
                mail.key = None;
            }
            let (mut of_oracle, mut of_store) = self.envelopes(&mail);
            if to_itself {
                self.sent += 1;
                of_oracle.key = Some((2, self.sent));
                of_store.key = of_oracle.key;
            }
            oracle.messages.push(of_oracle);
            store.messages.push(of_store);
        }
        if let (ExecutionEnd::ContinuedAsNew { .. }, PlannedTurnEnd::Continued(n)) =
            (&oracle.end, plan.end)
        {
            let own =
                (0..INSTANCES).find(|n| self.oracle.lane_of(&self.names.instance(*n)) == Some(own));
            let starts = Some((n, false));
            let next = own.map(|to| FlowMail {
                to,
                when: VisibleWhen::Now,
                starts,
                even_if_ended: false,
                key: None,
            });
            let next = next.map(|mail| self.envelopes(&mail).0);
            oracle.messages.extend(next.clone());
            store.messages.extend(next);
        }
    }

    fn add_tasks(
        &self,
        oracle: &mut TurnCommit,
        store: &mut TurnCommit,
        tasks: &[Task],
        instance: &InstanceId,
    ) {
        let own = (0..INSTANCES).find(|n| self.names.instance(*n) == *instance);
        for task in tasks {
            let (of_oracle, of_store) = self.skew.visible(task.when, self.oracle.now());
            let work =
                |visible| self.names.work(own.unwrap_or(0), oracle.execution, *task, visible);
            let (of_oracle, of_store) = (work(of_oracle), work(of_store));
            oracle.work.push(of_oracle);
            store.work.push(of_store);
        }
    }

    fn push_item(&self, n: u8) -> PushItem {
        PushItem {
            queue: self.names.queue(),
            partition: PartitionName::default_partition(),
            id: MessageId::generate(),
            transaction_id: TransactionId::new(n.to_string()).expect("a short id"),
            trace_id: None,
            payload: Bytes::from_static(b"{}"),
            producer: None,
        }
    }

    pub(super) async fn add_work(&mut self, to: usize, task: Task) -> FlowStep {
        let (oracle, store) = self.skew.visible(task.when, self.oracle.now());
        let oracle = self.names.work(to, 1, task, oracle);
        let store = self.names.work(to, 1, task, store);
        self.oracle.enqueue_work(oracle).await.map_err(failed)?;
        self.store.enqueue_work(store).await.map(Some).map_err(failed)
    }

    pub(super) async fn complete(
        &mut self,
        hold: usize,
        mail: Option<&FlowMail>,
        lines: &[DispatcherSpec],
    ) -> FlowStep {
        let Some(hold) = self.work_hold(hold) else { return Ok(None) };
        let (oracle, store) = mail.map(|mail| self.envelopes(mail)).unzip();
        let requests = self.dispatchers(lines);
        let waiting = self.waiting(&requests);
        let completion = Completion { token: hold.oracle, message: oracle };
        let oracle = self.oracle.complete_work(completion, Vec::new()).await.map_err(failed)?;
        let completion = Completion { token: hold.store, message: store };
        let store = self.store.complete_work(completion, requests.clone()).await.map_err(failed)?;
        same("outcome of a completion", oracle.outcome, store.outcome)?;
        if oracle.outcome == WorkOutcome::Stale {
            same("turns of a refused completion", 0, store.turns.len())?;
            return Ok(None);
        }
        self.follow_leased_turns(&requests, &waiting, &store.turns)?;
        Ok(store.turns.is_empty().then_some(store.changes))
    }

    pub(super) async fn renew(&mut self, holds: &[usize], secs: u64) -> Comparison {
        let holds: Vec<_> = holds.iter().filter_map(|n| self.hold(*n)).collect();
        let span = Duration::from_secs(secs);
        let tokens = holds.iter().map(|hold| hold.oracle).collect();
        let oracle = self.oracle.renew(tokens, span).await.map_err(failed)?;
        let tokens = holds.iter().map(|hold| hold.store).collect();
        let store = self.store.renew(tokens, span).await.map_err(failed)?;
        // The rules leave open what a renewed turn learns of its execution.
        let plain = |outcomes: Vec<RenewOutcome>| -> Vec<_> {
            let one = |(hold, outcome): (&super::side::FlowHold, RenewOutcome)| match outcome {
                RenewOutcome::Renewed(_) if hold.oracle.work.is_none() => {
                    RenewOutcome::Renewed(None)
                }
                outcome => outcome,
            };
            holds.iter().zip(outcomes).map(one).collect()
        };
        same("number of renewals", oracle.len(), store.len())?;
        same("renewals", plain(oracle), plain(store))
    }

    pub(super) async fn abandon(
        &mut self,
        hold: usize,
        delay: Duration,
        uncounted: bool,
    ) -> FlowStep {
        let Some(hold) = self.hold(hold) else { return Ok(None) };
        let oracle = self.oracle.abandon(hold.oracle, delay, uncounted).await.map_err(failed)?;
        let store = self.store.abandon(hold.store, delay, uncounted).await.map_err(failed)?;
        same("outcome of giving back", oracle.0, store.0)?;
        Ok((store.0 == AbandonOutcome::Abandoned).then_some(store.1))
    }

    pub(super) async fn keep_sessions(
        &mut self,
        owners: &[usize],
        secs: u64,
        idle_ms: u64,
    ) -> Comparison {
        let owners: Vec<_> = owners.iter().map(|n| owner(*n)).collect();
        // This differs from all other times, because the rules leave open whether the exact end
        // counts.
        let idle = Duration::from_micros(idle_ms * 1_000 + 500);
        let span = Duration::from_secs(secs);
        let oracle = self.oracle.keep_sessions(owners.clone(), span, idle).await;
        let store = self.store.keep_sessions(owners, span, idle).await;
        same("number of kept sessions", oracle.map_err(failed)?, store.map_err(failed)?)
    }
}

fn version(n: usize) -> Option<String> {
    (n > 0).then(|| n.to_string())
}

fn history(events: Events, last: u64) -> Option<HistoryBatch> {
    let (first, len) = match events {
        Events::None => return None,
        Events::Next(len) => (last + 1, len),
        Events::Wrong => (last + 2, 1),
    };
    let events = Bytes::from(format!("{len} from {first}"));
    Some(HistoryBatch { first, last: first + len - 1, events })
}

fn status(text: Option<u8>) -> StatusChange {
    text.map_or(StatusChange::Clear, |text| StatusChange::Set(text.to_string()))
}

fn kv_change(change: Kv, last: u64) -> KvChange {
    match change {
        Kv::Set(n) => KvChange::Set(kv_key(n), Bytes::from(format!("since {last}"))),
        Kv::Clear(n) => KvChange::Clear(kv_key(n)),
        Kv::ClearAll => KvChange::ClearAll,
    }
}

fn end(end: PlannedTurnEnd) -> ExecutionEnd {
    match end {
        PlannedTurnEnd::Open => ExecutionEnd::Open,
        PlannedTurnEnd::Ended(state) => {
            ExecutionEnd::Ended { state, output: Some(Bytes::from(format!("{state:?}"))) }
        }
        PlannedTurnEnd::Continued(_) => ExecutionEnd::ContinuedAsNew { output: None },
    }
}

/// Returns the outcome without ids of partitions, which differ between the sides, and without
/// times.
fn plain_outcome(outcome: &TurnOutcome) -> (TurnOutcome, Vec<bool>, Vec<String>) {
    match outcome {
        TurnOutcome::Committed { messages, pushes, emits } => {
            let queued = |push: &PushOutcome| matches!(push, PushOutcome::Queued { .. });
            let plain = TurnOutcome::Committed {
                messages: messages.clone(),
                pushes: Vec::new(),
                emits: Vec::new(),
            };
            let emits = emits.iter().map(super::emits::plain).collect();
            (plain, pushes.iter().map(queued).collect(), emits)
        }
        other => (other.clone(), Vec::new(), Vec::new()),
    }
}
