//! Emit: stores messages with their deliveries, many in one call.
//!
//! # Invariants
//! * Two messages of a call never share an id, an event id or an idempotency key.
//! * A call of unknown outcome is repeated once. Its messages have unique ids, and a message that
//!   exists already is not stored again. The next claim with the same attempt ids finds what the
//!   first attempt leased, and the waiters of the other deliveries are notified.

mod again;
mod later;
mod piggybacked;
mod requests;

use std::collections::HashMap;

use futures_util::FutureExt as _;
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;
use uuid::Uuid;
use wakeline_core::{
    ApplicationId, ApplicationRef, AttemptId, DeliveryToken, EndpointId, EventTypeName, HookChange,
    HookChangeKind, HookMessageId, Timestamp,
};
use wakeline_store::StoreError;
use wakeline_store::hook::{
    DeliveryGroup, DeliveryItem, DeliveryRequest, EmitOutcome, EmitReply, NewMessage,
    StoredMessage, Trigger,
};

use super::HookCore;
use super::items::{self, Targets};
use super::quarantine::Quarantine;
use super::wire::{self, index, length, merge, micros, small};
use crate::commands::{Answers, Flushed, apart, one_by_one};
use crate::rows::{self, Columns};

pub(crate) use piggybacked::PiggybackedEmits;
use requests::RequestArrays;

pub(super) const EMIT: &str = "emit";

/// The index of the column with the database's clock; the columns of an endpoint follow it.
const NOW_COLUMN: usize = 10;

/// The message of one caller, and the requests of senders that were passed with it.
pub(super) struct EmitForm {
    message: NewMessage,
    requests: Vec<DeliveryRequest>,
}

impl EmitForm {
    /// Creates the form; refuses a message that PostgreSQL cannot store.
    pub(super) fn new(
        message: NewMessage,
        requests: Vec<DeliveryRequest>,
    ) -> Result<Self, StoreError> {
        check(&message)?;
        Ok(Self { message, requests })
    }

    /// Returns the approximate number of bytes that it adds to a call.
    pub(super) fn bytes(&self) -> usize {
        let ids: usize = self.requests.iter().map(|request| request.attempts.len()).sum();
        self.message.payload.len() + 400 + 16 * ids
    }

    /// Returns the keys that no other message of the call may share.
    fn keys(&self) -> Vec<String> {
        keys_of(&self.message)
    }
}

/// An application and an event type.
type Pair<'a> = (&'a ApplicationRef, Option<ApplicationId>, &'a EventTypeName);

/// Returns the pair of a message. A message that may create its application does not share its
/// pair, because its application is known only after the call.
fn pair_of(message: &NewMessage) -> Pair<'_> {
    let made = message.create_application.as_ref().map(|new| new.id);
    (&message.application, made, &message.event_type)
}

/// The messages of a call as arrays.
#[derive(Default)]
pub(super) struct EmitArrays<'a> {
    ids: Vec<Uuid>,
    apps: Vec<Option<Uuid>>,
    app_uids: Vec<Option<&'a str>>,
    pairs: Vec<i32>,
    types: Vec<&'a str>,
    patterns: Vec<String>,
    pattern_pairs: Vec<i32>,
    event_ids: Vec<Option<&'a str>>,
    channels: Vec<Option<String>>,
    payloads: Vec<&'a [u8]>,
    retention: Vec<i64>,
    only: Vec<Option<Uuid>>,
    keys: Vec<Option<&'a str>>,
    digests: Vec<Option<&'a [u8]>>,
    new_ids: Vec<Option<Uuid>>,
    new_uids: Vec<Option<&'a str>>,
    new_names: Vec<Option<&'a str>>,
    new_rates: Vec<Option<i64>>,
    new_metadata: Vec<Option<&'a [u8]>>,
}

impl<'a> EmitArrays<'a> {
    pub(super) fn of(messages: impl Iterator<Item = &'a NewMessage>) -> Self {
        let mut arrays = Self::default();
        let mut known: HashMap<Pair<'_>, i32> = HashMap::new();
        for message in messages {
            let pair = *known.entry(pair_of(message)).or_insert_with(|| {
                arrays.types.push(message.event_type.as_str());
                let pair = length(arrays.types.len());
                let patterns = message.event_type.patterns();
                arrays.pattern_pairs.extend(patterns.iter().map(|_| pair));
                arrays.patterns.extend(patterns);
                pair
            });
            arrays.pairs.push(pair);
            arrays.add(message);
        }
        arrays
    }

    fn add(&mut self, message: &'a NewMessage) {
        let (app, uid) = wire::application(&message.application);
        self.ids.push(message.id.0);
        self.apps.push(app);
        self.app_uids.push(uid);
        self.event_ids.push(message.event_id.as_ref().map(|own| own.as_str()));
        self.channels.push(wire::joined(&message.channels));
        self.payloads.push(&message.payload);
        self.retention.push(micros(message.retention));
        self.only.push(message.only.map(|only| only.0));
        let idempotency = message.idempotency.as_ref();
        self.keys.push(idempotency.map(|one| one.key.as_str()));
        self.digests.push(idempotency.map(|one| one.digest.as_slice()));
        let new = message.create_application.as_ref();
        self.new_ids.push(new.map(|new| new.id.0));
        self.new_uids.push(new.and_then(|new| new.uid.as_ref()).map(|uid| uid.as_str()));
        self.new_names.push(new.map(|new| new.name.as_str()));
        self.new_rates.push(new.and_then(|new| new.rate_limit).map(i64::from));
        self.new_metadata.push(new.map(|new| new.metadata.as_ref()));
    }

    /// Returns the parameters of a call, followed by those of the requests.
    fn params<'p>(&'p self, requests: &'p RequestArrays) -> [&'p (dyn ToSql + Sync); 24] {
        [
            &self.ids,
            &self.apps,
            &self.app_uids,
            &self.pairs,
            &self.types,
            &self.patterns,
            &self.pattern_pairs,
            &self.event_ids,
            &self.channels,
            &self.payloads,
            &self.retention,
            &self.only,
            &self.keys,
            &self.digests,
            &self.new_ids,
            &self.new_uids,
            &self.new_names,
            &self.new_rates,
            &self.new_metadata,
            &requests.commands,
            &requests.leases,
            &requests.starts,
            &requests.lengths,
            &requests.keys,
        ]
    }
}

impl HookCore {
    /// Stores many messages in one call, or in several if some share a key.
    pub(super) async fn flush_emit(
        &self,
        link: usize,
        commands: Vec<EmitForm>,
    ) -> Flushed<EmitReply> {
        let mut answers = Answers::new(commands.len());
        for (indexes, part) in apart(commands, EmitForm::keys) {
            let call = |part| self.emit_call(link, part).boxed();
            answers.fill(indexes, one_by_one(&part, call).await);
        }
        answers.done(EMIT)
    }

    async fn emit_call(
        &self,
        link: usize,
        commands: Vec<&EmitForm>,
    ) -> Result<Vec<EmitReply>, StoreError> {
        let messages = EmitArrays::of(commands.iter().map(|command| &command.message));
        let mut requests = RequestArrays::default();
        for (c, command) in commands.iter().enumerate() {
            requests.add(c, &command.requests, |attempt| self.remembers(attempt));
        }
        let params = messages.params(&requests);
        let link = &self.shared.links.hook.emit[link];
        let mut rows = self.on_link(link, EMIT, &self.sql.emit, &params).await;
        let unknown = matches!(rows, Err(StoreError::Transient { .. }));
        if unknown {
            self.remember(requests.keys.iter().map(|key| AttemptId(*key)));
            rows = self.on_link(link, EMIT, &self.sql.emit, &params).await;
            rows = rows.map_err(StoreError::after_write);
        }
        let sent: Vec<&NewMessage> = commands.iter().map(|command| &command.message).collect();
        let mut written = EmitResults::read(&rows?, &sent, &requests)?;
        if unknown {
            self.add_changes_of_first_attempt(&sent, &mut written).await;
        }
        // The messages are stored. Deliveries that cannot be sent now wait for a later claim, and
        // their changes are in the reply.
        self.quarantine(std::mem::take(&mut written.quarantine)).await;
        self.announce(&written);
        Ok(written.replies.drain(..).flatten().collect())
    }

    /// Records the attempt ids of leases, and notifies other nodes.
    fn announce(&self, written: &EmitResults) {
        let replies = written.replies.iter().flatten();
        let groups = || replies.clone().flat_map(|r| r.leased.iter().flat_map(|(_, g)| g));
        let items = groups().flat_map(|group| group.items.iter());
        self.remember(items.map(|item| item.token.attempt));
        if let Some(due_in) = items::first_end(groups()) {
            let end = HookChange { what: HookChangeKind::Push, due_in };
            self.hints.notify_leases(&self.shared, vec![end]);
        }
        for reply in replies {
            self.notify(&reply.changes);
        }
    }
}

/// Refuses a message that PostgreSQL cannot store.
pub(crate) fn check(message: &NewMessage) -> Result<(), StoreError> {
    match &message.create_application {
        Some(application) => wire::plain("name", &application.name),
        None => Ok(()),
    }
}

/// Returns the keys that no other message of a call may share.
fn keys_of(message: &NewMessage) -> Vec<String> {
    let key = message.idempotency.as_ref().map(|one| format!("k{}", one.key.as_str()));
    let own = message.event_id.as_ref().map(|own| format!("e{}", own.as_str()));
    let id = format!("m{}", message.id.0);
    key.into_iter().chain(own).chain([id]).collect()
}

/// The results of a call.
pub(super) struct EmitResults {
    pub(super) replies: Vec<Option<EmitReply>>,
    /// The leases of deliveries whose endpoints are corrupt.
    quarantine: Quarantine,
}

impl EmitResults {
    fn read(
        rows: &[Row],
        sent: &[&NewMessage],
        requests: &RequestArrays,
    ) -> Result<Self, StoreError> {
        let (mut targets, mut quarantine) = (Targets::default(), Quarantine::default());
        let mut replies: Vec<Option<EmitReply>> = sent.iter().map(|_| None).collect();
        for row in rows {
            let mut columns = Columns::new(EMIT, row);
            match columns.take::<i16>()? {
                0 => {
                    let command = index(columns.take()?);
                    replies[command] = Some(reply(&mut columns, sent[command])?);
                }
                1 => {
                    let mut columns = Columns::from(EMIT, row, NOW_COLUMN);
                    let now = columns.moment()?;
                    targets.read(&mut columns, now, &mut quarantine)?;
                }
                _ => {}
            }
        }
        for row in rows {
            match Columns::new(EMIT, row).take::<i16>()? {
                2 => {}
                3 => {
                    later::note(row, &mut replies)?;
                    continue;
                }
                _ => continue,
            }
            let (command, request, endpoint, item) = leased_on_insert(row, sent)?;
            let number = requests.numbers[request];
            let Some(target) = targets.get(endpoint, &mut quarantine) else {
                quarantine.behind(item.token);
                continue;
            };
            let group = DeliveryGroup { target, items: vec![item] };
            let Some(reply) = &mut replies[command] else { continue };
            match reply.leased.iter_mut().find(|(known, _)| *known == number) {
                Some((_, groups)) => groups.push(group),
                None => reply.leased.push((number, vec![group])),
            }
        }
        for reply in replies.iter_mut().flatten() {
            reply.leased.sort_by_key(|(number, _)| *number);
        }
        Ok(Self { replies, quarantine })
    }
}

/// Reads the reply for a message; its columns begin with the outcome's code.
fn reply(columns: &mut Columns<'_>, sent: &NewMessage) -> Result<EmitReply, StoreError> {
    let code: i16 = columns.take()?;
    let deliveries = small(columns.take()?);
    let push: Option<i64> = columns.take()?;
    let pulls: Option<Vec<Uuid>> = columns.take()?;
    let id = HookMessageId(columns.take()?);
    let stored = match code {
        0 => {
            columns.skip(3);
            let created_at = columns.moment()?;
            columns.skip(1);
            Some(stored(sent, ApplicationId(columns.take()?), created_at))
        }
        1 | 2 => Some(StoredMessage {
            id,
            event_type: wire::text("event type", columns.take()?)?,
            event_id: columns.name_if("event id")?,
            channels: wire::texts("channel", columns.take()?)?,
            payload: None,
            created_at: columns.moment()?,
            application: {
                columns.skip(1);
                ApplicationId(columns.take()?)
            },
        }),
        _ => None,
    };
    let outcome = match (code, stored) {
        (0, Some(stored)) => EmitOutcome::Stored(stored, deliveries),
        (1, Some(same)) => EmitOutcome::Repeated(same),
        (2, Some(taken)) => EmitOutcome::Taken(taken),
        (3, _) => EmitOutcome::KeyReused,
        _ => EmitOutcome::NoApplication,
    };
    let mut changes = Vec::new();
    if code == 0 {
        let push =
            push.map(|due| HookChange { what: HookChangeKind::Push, due_in: rows::span(due) });
        changes.extend(push);
        for pull in pulls.unwrap_or_default() {
            merge(&mut changes, HookChange::now(HookChangeKind::Pull(EndpointId(pull))));
        }
        changes.push(HookChange { what: HookChangeKind::Background, due_in: sent.retention });
    }
    Ok(EmitReply { outcome, leased: Vec::new(), changes })
}

fn stored(sent: &NewMessage, application: ApplicationId, created_at: Timestamp) -> StoredMessage {
    StoredMessage {
        id: sent.id,
        application,
        event_type: sent.event_type.clone(),
        event_id: sent.event_id.clone(),
        channels: sent.channels.clone(),
        payload: None,
        created_at,
    }
}

/// Reads a delivery that was leased on insert. Returns the indexes of its command and request, its
/// endpoint and the delivery.
fn leased_on_insert(
    row: &Row,
    sent: &[&NewMessage],
) -> Result<(usize, usize, Uuid, DeliveryItem), StoreError> {
    let command = index(Columns::from(EMIT, row, 1).take()?);
    let mut columns = Columns::from(EMIT, row, NOW_COLUMN);
    let now = columns.moment()?;
    let endpoint: Uuid = columns.take()?;
    columns.skip(6);
    let request = index(columns.take()?);
    let message = sent[command];
    let item = DeliveryItem {
        token: DeliveryToken { delivery: columns.take()?, attempt: AttemptId(columns.take()?) },
        attempt_no: 1,
        scheduled_no: 1,
        trigger: Trigger::Scheduled,
        message: message.id,
        event_type: message.event_type.clone(),
        event_id: message.event_id.clone(),
        channels: message.channels.clone(),
        created_at: now,
        payload: Some(message.payload.clone()),
        now,
        lease_for: rows::span(columns.take()?),
    };
    Ok((command, request, endpoint, item))
}

#[cfg(test)]
mod tests {
    use wakeline_testkit::hook_conformance::{application, message};

    use super::*;

    #[test]
    fn a_message_that_may_make_its_application_shares_its_pair_with_none() {
        let plain = message(ApplicationId::generate());
        let create =
            || NewMessage { create_application: Some(application(Some("main"))), ..plain.clone() };
        let all = [plain.clone(), create(), plain.clone(), create()];
        assert_eq!(EmitArrays::of(all.iter()).pairs, [1, 2, 1, 3]);
    }
}
