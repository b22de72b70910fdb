//! Reading instances, histories, mailboxes and counts.

use bytes::Bytes;
use wakeline_core::{InstanceId, KvKey, OrchestrationName, Timestamp};
use wakeline_store::flow::{
    EarlyMailbox, ExecutionDetail, FlowDepths, HistoryPage, InstanceDetail, InstanceState,
    InstanceStats, KvEntry, ListInstances, ListMailboxes, ListedInstances, Suspension,
    WaitingMessage, Watched,
};

use super::state::{OracleExecution, OracleFlow, OracleInstance, OracleMailbox, kv_entries};

impl OracleMailbox {
    fn detail(&self) -> Option<InstanceDetail> {
        let Some(instance) = self.instance.as_ref() else { return self.pending() };
        let execution = instance.executions.values().next_back();
        Some(InstanceDetail {
            instance: self.name.clone(),
            name: instance.name.clone(),
            version: execution.and_then(|execution| execution.version.clone()),
            capability: self.capability.clone(),
            state: instance.state,
            suspended: self.reason(),
            output: instance.output.clone(),
            status: instance.status.clone(),
            status_version: instance.status_version,
            kv_version: instance.kv_version,
            execution: instance.current(),
            parent: instance.parent.as_ref().map(|(parent, _)| parent.clone()),
            created_at: instance.created_at,
            updated_at: instance.updated_at,
            ended_at: instance.ended_at,
        })
    }

    fn pending(&self) -> Option<InstanceDetail> {
        let (capability, started_at) = (self.capability.clone()?, self.started_at?);
        let name = capability.as_str().split('@').next().expect("a split has a first part");
        self.is_pending().then(|| InstanceDetail {
            instance: self.name.clone(),
            name: OrchestrationName::new(name).expect("a part of a valid name is valid"),
            version: None,
            capability: Some(capability.clone()),
            state: InstanceState::Pending,
            suspended: self.reason(),
            output: None,
            status: None,
            status_version: 0,
            kv_version: 0,
            execution: 0,
            parent: self.parent.clone(),
            created_at: started_at,
            updated_at: started_at,
            ended_at: None,
        })
    }

    fn reason(&self) -> Option<String> {
        match self.suspended.clone()? {
            Suspension::Operator { reason } | Suspension::Mismatch { reason } => Some(reason),
        }
    }
}

impl OracleExecution {
    pub(super) fn events(&self) -> u64 {
        self.history.iter().map(|batch| batch.last - batch.first + 1).sum()
    }
}

impl OracleFlow {
    pub(super) fn watched(&self, name: &InstanceId) -> Watched {
        let detail = self.lane(name).and_then(OracleMailbox::detail);
        detail.map_or(Watched::Missing, |detail| Watched::Found(Box::new(detail)))
    }

    pub(super) fn waiting_starts(&self, name: &InstanceId) -> Vec<Bytes> {
        let messages = self.lane(name).into_iter().flat_map(|mailbox| mailbox.messages.values());
        let starts = messages.filter(|message| message.starts);
        starts.map(|message| message.payload.clone()).collect()
    }

    pub(super) fn early_mailboxes(&self, list: &ListMailboxes) -> Vec<EarlyMailbox> {
        let prefix = list.id_prefix.as_deref().unwrap_or_default();
        let mailbox = |(name, id): (&InstanceId, &i64)| {
            let mailbox = &self.lanes[id];
            let oldest_at = mailbox.messages.values().map(|message| message.visible_at).min()?;
            let early = mailbox.instance.is_none() && mailbox.capability.is_none();
            let listed = early
                && name.as_str().starts_with(prefix)
                && list.after.as_ref().is_none_or(|after| name > after);
            listed.then(|| EarlyMailbox {
                instance: name.clone(),
                messages: mailbox.messages.len() as u64,
                oldest_at,
            })
        };
        self.names.iter().filter_map(mailbox).take(list.limit as usize).collect()
    }

    pub(super) fn waiting_messages(&self, name: &InstanceId, limit: u32) -> Vec<WaitingMessage> {
        let messages = self.lane(name).into_iter().flat_map(|mailbox| &mailbox.messages);
        let waiting = messages.map(|(seq, message)| WaitingMessage {
            seq: *seq,
            visible_at: message.visible_at,
            payload: message.payload.clone(),
        });
        waiting.take(limit as usize).collect()
    }

    pub(super) fn history(
        &self,
        name: &InstanceId,
        number: Option<u64>,
        from_event: u64,
        bytes_max: usize,
    ) -> HistoryPage {
        let instance = self.instance_of(name);
        let number = number.or(instance.map(OracleInstance::current)).unwrap_or(0);
        let execution = instance.and_then(|instance| instance.executions.get(&number));
        let Some(execution) = execution else { return HistoryPage::default() };
        let mut page = HistoryPage { execution: number, ..HistoryPage::default() };
        let mut bytes = 0;
        for batch in execution.history.iter().filter(|batch| batch.last >= from_event) {
            bytes += batch.events.len();
            if !page.batches.is_empty() && bytes > bytes_max {
                page.next = Some(batch.first);
                break;
            }
            page.batches.push(batch.clone());
        }
        page
    }

    pub(super) fn executions(&self, name: &InstanceId) -> Vec<ExecutionDetail> {
        let instance = self.instance_of(name);
        let executions = instance.into_iter().flat_map(|instance| &instance.executions);
        executions
            .map(|(number, execution)| ExecutionDetail {
                execution: *number,
                version: execution.version.clone(),
                state: execution.state,
                output: execution.output.clone(),
                events: execution.events(),
                history_bytes: execution.bytes() as u64,
                started_at: execution.started_at,
                ended_at: execution.ended_at,
            })
            .collect()
    }

    pub(super) fn kv(&self, name: &InstanceId, key: Option<&KvKey>) -> Vec<KvEntry> {
        let mut values = self.instance_of(name).map(OracleInstance::merged_kv).unwrap_or_default();
        values.retain(|known, _| key.is_none_or(|key| key == known));
        kv_entries(&values)
    }

    pub(super) fn list(&self, filter: &ListInstances) -> ListedInstances {
        let mut found: Vec<_> = (self.lanes.values())
            .filter_map(OracleMailbox::detail)
            .filter(|detail| fits(filter, detail))
            .collect();
        found.sort_by_key(|detail| (detail.created_at, detail.instance.clone()));
        found.reverse();
        let limit = filter.limit as usize;
        let more = found.len() > limit;
        found.truncate(limit);
        let last = found.last().filter(|_| more);
        let next = last.map(|last| (last.created_at, last.instance.clone()));
        ListedInstances { instances: found, next }
    }

    /// Returns an instance and all its descendants, parents before children.
    pub(super) fn tree(&self, name: &InstanceId) -> Vec<InstanceId> {
        self.instance_of(name).map(|_| self.family(name, |_| true)).unwrap_or_default()
    }

    /// Like `tree`, but also for an instance that does not exist, and only with those children for
    /// which `follows` returns true, and their descendants.
    pub(super) fn family(
        &self,
        name: &InstanceId,
        follows: impl Fn(&InstanceId) -> bool,
    ) -> Vec<InstanceId> {
        let mut tree = vec![name.clone()];
        let mut looked_at = 0;
        while let Some(parent) = tree.get(looked_at).cloned() {
            looked_at += 1;
            for child in self.children(&parent) {
                if !tree.contains(&child) && follows(&child) {
                    tree.push(child);
                }
            }
        }
        tree
    }

    fn children(&self, name: &InstanceId) -> Vec<InstanceId> {
        let is_child = |mailbox: &&OracleMailbox| {
            let parent = match &mailbox.instance {
                Some(instance) => instance.parent.as_ref().map(|(parent, _)| parent),
                None => mailbox.parent.as_ref().filter(|_| mailbox.is_pending()),
            };
            parent == Some(name)
        };
        self.lanes.values().filter(is_child).map(|mailbox| mailbox.name.clone()).collect()
    }

    pub(super) fn stats(&self, name: &InstanceId) -> Option<InstanceStats> {
        let (id, mailbox) = (self.names.get(name)?, self.lane(name)?);
        let instance = mailbox.instance.as_ref()?;
        let execution = instance.executions.values().next_back();
        let kv = instance.merged_kv();
        Some(InstanceStats {
            events: execution.map_or(0, OracleExecution::events),
            history_bytes: execution.map_or(0, |execution| execution.bytes() as u64),
            messages: mailbox.messages.len() as u64,
            work: self.work.values().filter(|work| work.lane == *id).count() as u64,
            kv_keys: kv.len() as u64,
            kv_bytes: kv.values().map(|value| value.value.len() as u64).sum(),
        })
    }

    pub(super) fn depths(&self, now: Timestamp) -> FlowDepths {
        let mut depths = FlowDepths::default();
        for mailbox in self.lanes.values() {
            depths.messages += mailbox.messages.len() as u64;
            let delayed = mailbox.messages.values().filter(|message| message.visible_at > now);
            depths.delayed += delayed.count() as u64;
            depths.leased_turns += u64::from(mailbox.live_lease(now).is_some());
            let Some(detail) = mailbox.detail() else { continue };
            let place = InstanceState::ALL.iter().position(|state| *state == detail.state);
            depths.instances[place.expect("all states are listed")] += 1;
            let Some(instance) = &mailbox.instance else { continue };
            depths.executions += instance.executions.len() as u64;
            depths.events += instance.executions.values().map(OracleExecution::events).sum::<u64>();
        }
        let leased = self.work.values().filter(|work| work.is_leased(now)).count();
        depths.leased_work = leased as u64;
        depths.work = (self.work.len() - leased) as u64;
        depths
    }
}

fn fits(filter: &ListInstances, detail: &InstanceDetail) -> bool {
    let prefix = filter.id_prefix.as_deref().unwrap_or_default();
    let place = (detail.created_at, detail.instance.clone());
    filter.name.as_ref().is_none_or(|name| *name == detail.name)
        && (filter.states.is_empty() || filter.states.contains(&detail.state))
        && filter.suspended.is_none_or(|suspended| suspended == detail.suspended.is_some())
        && detail.instance.as_str().starts_with(prefix)
        && filter.parent.as_ref().is_none_or(|parent| Some(parent) == detail.parent.as_ref())
        && filter.created_from.is_none_or(|from| detail.created_at >= from)
        && filter.created_before.is_none_or(|before| detail.created_at < before)
        && filter.after.as_ref().is_none_or(|after| place < *after)
}
