//! Reading messages, deliveries, attempts and statistics of endpoints.

use wakeline_core::{
    ApplicationId, ApplicationRef, AttemptId, Channel, EndpointId, EventTypeName, HookMessageId,
    MessageRef, Timestamp,
};
use wakeline_store::hook::{
    Attempt, AttemptFilter, AttemptOutcome, Delivery, DeliveryState, EndpointStats,
    HookMessageFilter, HookPage, PageRequest, StoredMessage,
};

use super::page::page;
use super::state::{DeliveryEnd, DeliveryStage, OracleDelivery, OracleHook, OracleHookMessage};

impl OracleHook {
    pub(super) fn message(
        &self,
        application: &ApplicationRef,
        message: &MessageRef,
        with_content: bool,
    ) -> Option<StoredMessage> {
        let id = self.find_message(application, message)?;
        Some(self.messages[&id].shown(with_content))
    }

    pub(super) fn list_messages(
        &self,
        owner: ApplicationId,
        filter: &HookMessageFilter,
        request: &PageRequest<HookMessageId>,
    ) -> HookPage<StoredMessage> {
        let passes = |message: &&OracleHookMessage| {
            let stored = &message.stored;
            is_of(stored, filter.channel.as_ref(), &filter.event_types)
                && filter.before.is_none_or(|before| stored.created_at < before)
                && filter.after.is_none_or(|after| stored.created_at > after)
                && filter.endpoint.is_none_or(|to| self.row_of(stored.id, to).is_some())
        };
        let messages = self.messages_of(owner).filter(passes);
        let shown = messages.map(|one| (one.stored.id, one.shown(filter.with_content)));
        page(shown.collect(), request)
    }

    /// Returns the state of a delivery.
    pub(super) fn state_of(&self, row: &OracleDelivery, now: Timestamp) -> DeliveryState {
        let entry = self.endpoint_entry(row.endpoint);
        match row.stage {
            DeliveryStage::Leased(..) => DeliveryState::InFlight,
            DeliveryStage::Ended(DeliveryEnd::Delivered) => DeliveryState::Delivered,
            DeliveryStage::Ended(DeliveryEnd::Failed) => DeliveryState::Failed,
            DeliveryStage::Ended(DeliveryEnd::Cancelled) => DeliveryState::Cancelled,
            DeliveryStage::Waiting(plan)
                if plan.due <= now && (entry.is_off() || entry.ready_at() > now) =>
            {
                DeliveryState::Throttled
            }
            DeliveryStage::Waiting(_) if row.attempts == 0 => DeliveryState::Pending,
            DeliveryStage::Waiting(_) => DeliveryState::Retrying,
        }
    }

    fn next_attempt(&self, row: &OracleDelivery, now: Timestamp) -> Option<Timestamp> {
        let (entry, due) = (self.endpoint_entry(row.endpoint), row.waiting()?.due);
        let ready_at = entry.ready_at();
        let held = if ready_at > now { ready_at } else { due };
        (!entry.is_off()).then(|| due.max(held))
    }

    fn delivery(&self, row: &OracleDelivery, now: Timestamp) -> Delivery {
        Delivery {
            message: row.message,
            endpoint: row.endpoint,
            state: self.state_of(row, now),
            attempts: row.attempts,
            next_attempt_at: self.next_attempt(row, now),
            created_at: row.created_at,
            updated_at: row.updated_at,
        }
    }

    pub(super) fn list_deliveries(
        &self,
        owner: ApplicationId,
        message: HookMessageId,
        request: &PageRequest<EndpointId>,
        now: Timestamp,
    ) -> HookPage<Delivery> {
        let is_owned =
            self.messages.get(&message).is_some_and(|one| one.stored.application == owner);
        let rows = self.rows.values().filter(|row| is_owned && row.message == message);
        let mut all: Vec<_> = rows.map(|row| (row.endpoint, self.delivery(row, now))).collect();
        all.sort_by_key(|(endpoint, _)| *endpoint);
        page(all, request)
    }

    pub(super) fn deliveries_to(
        &self,
        endpoint: EndpointId,
        messages: &[HookMessageId],
        now: Timestamp,
    ) -> Vec<Option<Delivery>> {
        let find = |message: &HookMessageId| {
            self.row_of(*message, endpoint).map(|row| self.delivery(row, now))
        };
        messages.iter().map(find).collect()
    }

    pub(super) fn list_attempts(
        &self,
        owner: ApplicationId,
        filter: &AttemptFilter,
        request: &PageRequest<AttemptId>,
    ) -> HookPage<Attempt> {
        let attempts = self.attempts.values().filter(|one| self.passes(one, owner, filter));
        let shown = attempts.map(|one| {
            let response = one.response.clone().filter(|_| filter.with_content);
            (one.id, Attempt { response, ..one.clone() })
        });
        page(shown.collect(), request)
    }

    fn passes(&self, attempt: &Attempt, owner: ApplicationId, filter: &AttemptFilter) -> bool {
        let stored = &self.messages[&attempt.message].stored;
        let has_outcome = |outcome| match outcome {
            AttemptOutcome::Failed => attempt.outcome != AttemptOutcome::Succeeded,
            AttemptOutcome::Succeeded | AttemptOutcome::Unknown => attempt.outcome == outcome,
        };
        let class = attempt.status.map_or(0, |status| status / 100 * 100);
        stored.application == owner
            && is_of(stored, filter.channel.as_ref(), &filter.event_types)
            && filter.message.is_none_or(|message| attempt.message == message)
            && filter.endpoint.is_none_or(|endpoint| attempt.endpoint == endpoint)
            && filter.outcome.is_none_or(has_outcome)
            && filter.status_class.is_none_or(|wanted| class == wanted)
            && filter.before.is_none_or(|before| attempt.began_at < before)
            && filter.after.is_none_or(|after| attempt.began_at > after)
    }

    pub(super) fn attempt(&self, owner: ApplicationId, id: AttemptId) -> Option<Attempt> {
        let is_owned = |one: &&Attempt| self.messages[&one.message].stored.application == owner;
        self.attempts.get(&id).filter(is_owned).cloned()
    }

    pub(super) fn stats(
        &self,
        owner: ApplicationId,
        endpoint: EndpointId,
        since: Option<Timestamp>,
    ) -> EndpointStats {
        let mut stats = EndpointStats::default();
        let is_owned = self
            .endpoint_entries
            .get(&endpoint)
            .is_some_and(|entry| entry.endpoint.application == owner);
        let counted =
            |row: &&OracleDelivery| is_owned && since.is_none_or(|since| row.created_at >= since);
        for row in self.rows_of(endpoint).filter(counted) {
            let count = match row.stage {
                DeliveryStage::Waiting(_) => &mut stats.waiting,
                DeliveryStage::Leased(..) => &mut stats.in_flight,
                DeliveryStage::Ended(DeliveryEnd::Delivered) => &mut stats.delivered,
                DeliveryStage::Ended(DeliveryEnd::Failed) => &mut stats.failed,
                DeliveryStage::Ended(DeliveryEnd::Cancelled) => &mut stats.cancelled,
            };
            *count += 1;
        }
        stats
    }
}

impl OracleHookMessage {
    pub(super) fn shown(&self, with_content: bool) -> StoredMessage {
        let payload = self.payload.clone().filter(|_| with_content);
        StoredMessage { payload, ..self.stored.clone() }
    }
}

fn is_of(stored: &StoredMessage, channel: Option<&Channel>, types: &[EventTypeName]) -> bool {
    channel.is_none_or(|channel| stored.channels.contains(channel))
        && (types.is_empty() || types.contains(&stored.event_type))
}
