//! Stores messages to instances and completes activities, many commands in one call.
//!
//! # Invariants
//! * A call of unknown outcome is not repeated: its messages could be stored twice.
//! * Two completions of the same activity are never in one call.

use std::collections::HashSet;

use futures_util::FutureExt as _;
use tokio_postgres::Row;
use tokio_postgres::types::Json;
use uuid::Uuid;
use wakeline_core::{FlowChange, FlowChangeKind, FlowToken};
use wakeline_store::StoreError;
use wakeline_store::flow::{CompletionReply, EnqueueOutcome, EnqueueReply, TurnItem, WorkOutcome};

use super::FlowCore;
use super::items::{self, LeasedItem};
use super::wire::{Blobs, MessageForm, TurnRequestForm};
use crate::commands::{Answers, Flushed, apart, one_by_one};
use crate::rows::{self, Columns};

const ENQUEUE: &str = "enqueue";
const COMPLETE: &str = "complete work";

/// The kind of row which says that the call needs the general SQL function.
const NOT_PLAIN: i16 = 9;

/// The index of the first column of a turn.
const TURN_COLUMN: usize = 5;

/// The messages of one caller, and the requests of dispatchers that were passed with them.
pub(super) struct EnqueueForm {
    pub(super) messages: Vec<MessageForm>,
    pub(super) requests: Vec<TurnRequestForm>,
}

/// The completion of one caller, and the requests of dispatchers that were passed with it.
pub(super) struct CompleteForm {
    pub(super) token: FlowToken,
    pub(super) message: Option<MessageForm>,
    pub(super) requests: Vec<TurnRequestForm>,
}

impl EnqueueForm {
    /// Returns its message and the capability that it needs, if it has a single message, which
    /// starts an instance immediately.
    fn start(&self) -> Option<(&MessageForm, i32)> {
        let [message] = &self.messages[..] else { return None };
        message.is_plain_start().then_some(message).zip(message.starts)
    }
}

/// Numbers the requests by their commands.
fn numbered<'a>(requests: impl Iterator<Item = &'a Vec<TurnRequestForm>>) -> Vec<TurnRequestForm> {
    let of = |(c, requests): (usize, &'a Vec<TurnRequestForm>)| {
        requests.iter().map(move |request| request.of(c + 1))
    };
    requests.enumerate().flat_map(of).collect()
}

fn needs_general_path(rows: &[Row]) -> bool {
    rows.first().is_some_and(|row| row.get::<_, i16>(0) == NOT_PLAIN)
}

/// Decodes the outcome of a message.
pub(super) fn outcome(code: i16) -> EnqueueOutcome {
    match code {
        0 => EnqueueOutcome::Queued,
        1 => EnqueueOutcome::Exists,
        _ => EnqueueOutcome::Ended,
    }
}

/// Returns whether a message was stored.
fn queued(rows: &[Row]) -> bool {
    let codes = |row: &Row| row.try_get::<_, Option<Vec<Option<i16>>>>(1).ok().flatten();
    rows.iter().filter_map(codes).flatten().any(|code| code.unwrap_or(0) == 0)
}

/// The results of a call.
#[derive(Default)]
pub(super) struct EnqueueResults {
    pub(super) codes: Vec<Option<i16>>,
    turns: Vec<LeasedItem<TurnItem>>,
    pub(super) changes: Vec<(usize, FlowChange)>,
}

impl EnqueueResults {
    pub(super) fn read(operation: &'static str, rows: &[Row]) -> Result<Self, StoreError> {
        let mut written = Self::default();
        for row in rows {
            let mut columns = Columns::new(operation, row);
            match columns.take::<i16>()? {
                0 => written.codes = columns.take()?,
                1 => written.turns.push(items::turn(operation, row, TURN_COLUMN)?),
                _ => {
                    columns.skip(1);
                    let command = items::index(columns.take()?);
                    let due_in = rows::span(columns.take()?);
                    let what = FlowChangeKind::Turn(columns.name("capability")?);
                    written.changes.push((command, FlowChange { what, due_in }));
                }
            }
        }
        Ok(written)
    }

    /// Takes out the turns and changes of one command.
    fn part(&mut self, command: usize) -> (Vec<(usize, TurnItem)>, Vec<FlowChange>) {
        let turns = self.turns.extract_if(.., |leased| leased.command == command);
        let turns = turns.map(|leased| (leased.request, leased.item)).collect();
        let changes = self.changes.extract_if(.., |(of, _)| *of == command);
        (turns, changes.map(|(_, change)| change).collect())
    }
}

impl FlowCore {
    /// Executes many enqueues in one call.
    pub(super) async fn flush_enqueue(&self, commands: Vec<EnqueueForm>) -> Flushed<EnqueueReply> {
        one_by_one(&commands, |part| self.enqueue_call(part).boxed()).await
    }

    async fn enqueue_call(
        &self,
        commands: Vec<&EnqueueForm>,
    ) -> Result<Vec<EnqueueReply>, StoreError> {
        if let Some(replies) = self.start_plain_call(&commands).await? {
            return Ok(replies);
        }
        self.enqueue_general(&commands, false).await
    }

    /// Executes an administrative command by a call of its own, and records an audit event.
    pub(super) async fn enqueue_recorded(
        &self,
        command: &EnqueueForm,
    ) -> Result<EnqueueReply, StoreError> {
        let mut replies = self.enqueue_general(&[command], true).await?;
        Ok(replies.pop().unwrap_or_default())
    }

    /// Stores messages of any kind.
    async fn enqueue_general(
        &self,
        commands: &[&EnqueueForm],
        recorded: bool,
    ) -> Result<Vec<EnqueueReply>, StoreError> {
        let (mut blobs, mut messages, mut requests) = (Blobs::default(), Vec::new(), Vec::new());
        for (c, command) in commands.iter().enumerate() {
            for message in &command.messages {
                messages.push(message.json(c + 1, &mut blobs));
            }
            requests.extend(command.requests.iter().map(|request| request.of(c + 1)));
        }
        let len = i32::try_from(commands.len()).expect("a call has few commands");
        let params: &[&(dyn tokio_postgres::types::ToSql + Sync)] =
            &[&len, &Json(&messages), &Json(&requests), blobs.param()];
        let sql = &self.sql.enqueue;
        let rows = if recorded {
            self.act(ENQUEUE, sql, params, queued).await
        } else {
            self.on_link(&self.shared.links.flow.enqueue, ENQUEUE, sql, params).await
        };
        let keys = requests.iter().map(|request| request.key);
        let rows = rows.inspect_err(|_| self.remember(keys))?;
        Ok(self.enqueued(commands, EnqueueResults::read(ENQUEUE, &rows)?))
    }

    /// Starts instances by the faster SQL function for plain starts; `None` if the general one is
    /// needed.
    async fn start_plain_call(
        &self,
        commands: &[&EnqueueForm],
    ) -> Result<Option<Vec<EnqueueReply>>, StoreError> {
        let starts: Option<Vec<_>> = commands.iter().map(|command| command.start()).collect();
        let Some(starts) = starts else { return Ok(None) };
        let instances: Vec<&str> = starts.iter().map(|(start, _)| &*start.instance).collect();
        if instances.iter().collect::<HashSet<_>>().len() < instances.len() {
            return Ok(None);
        }
        let capabilities: Vec<i32> = starts.iter().map(|(_, capability)| *capability).collect();
        let bodies: Vec<&[u8]> = starts.iter().map(|(start, _)| start.payload()).collect();
        let requests = numbered(commands.iter().map(|command| &command.requests));
        let params: &[&(dyn tokio_postgres::types::ToSql + Sync)] =
            &[&instances, &capabilities, &bodies, &Json(&requests)];
        let link = &self.shared.links.flow.enqueue;
        let rows = self.on_link(link, ENQUEUE, &self.sql.start, params).await;
        let keys = requests.iter().map(|request| request.key);
        let rows = rows.inspect_err(|_| self.remember(keys))?;
        if needs_general_path(&rows) {
            return Ok(None);
        }
        Ok(Some(self.enqueued(commands, EnqueueResults::read(ENQUEUE, &rows)?)))
    }

    fn enqueued(
        &self,
        commands: &[&EnqueueForm],
        mut written: EnqueueResults,
    ) -> Vec<EnqueueReply> {
        self.announce(&written);
        let mut codes = std::mem::take(&mut written.codes).into_iter();
        let reply = |(c, command): (usize, &&EnqueueForm)| {
            let (turns, changes) = written.part(c);
            let codes = codes.by_ref().take(command.messages.len());
            let outcomes = codes.map(|code| outcome(code.unwrap_or(0))).collect();
            EnqueueReply { outcomes, turns, changes }
        };
        commands.iter().enumerate().map(reply).collect()
    }

    /// Executes many completions in one call, or in several if some are of the same activity.
    pub(super) async fn flush_complete(
        &self,
        commands: Vec<CompleteForm>,
    ) -> Flushed<CompletionReply> {
        let mut answers = Answers::new(commands.len());
        for (indexes, part) in apart(commands, |command| vec![command.token.work]) {
            let call = |part| self.complete_call(part).boxed();
            answers.fill(indexes, one_by_one(&part, call).await);
        }
        answers.done(COMPLETE)
    }

    async fn complete_call(
        &self,
        commands: Vec<&CompleteForm>,
    ) -> Result<Vec<CompletionReply>, StoreError> {
        if let Some(replies) = self.complete_plain_call(&commands).await? {
            return Ok(replies);
        }
        let (mut blobs, mut messages, mut requests) = (Blobs::default(), Vec::new(), Vec::new());
        for (c, command) in commands.iter().enumerate() {
            messages.extend(command.message.iter().map(|message| message.json(c + 1, &mut blobs)));
            requests.extend(command.requests.iter().map(|request| request.of(c + 1)));
        }
        let lanes: Vec<i64> = commands.iter().map(|command| command.token.lane).collect();
        let works: Vec<Option<i64>> = commands.iter().map(|command| command.token.work).collect();
        let keys: Vec<Uuid> = commands.iter().map(|command| command.token.key).collect();
        let params: &[&(dyn tokio_postgres::types::ToSql + Sync)] =
            &[&lanes, &works, &keys, &Json(&messages), &Json(&requests), blobs.param()];
        let link = &self.shared.links.flow.complete;
        let rows = self.on_link(link, COMPLETE, &self.sql.complete, params).await;
        let keys = requests.iter().map(|request| request.key);
        let rows = rows.inspect_err(|_| self.remember(keys))?;
        Ok(self.completed(&commands, EnqueueResults::read(COMPLETE, &rows)?))
    }

    /// Completes activities by the faster SQL function if each message is plain and goes to the
    /// activity's own instance; `None` if the general one is needed.
    async fn complete_plain_call(
        &self,
        commands: &[&CompleteForm],
    ) -> Result<Option<Vec<CompletionReply>>, StoreError> {
        if !commands.iter().flat_map(|command| &command.message).all(MessageForm::is_plain) {
            return Ok(None);
        }
        let requests = numbered(commands.iter().map(|command| &command.requests));
        let lanes: Vec<i64> = commands.iter().map(|command| command.token.lane).collect();
        let works: Vec<Option<i64>> = commands.iter().map(|command| command.token.work).collect();
        let keys: Vec<Uuid> = commands.iter().map(|command| command.token.key).collect();
        let messages = || commands.iter().map(|command| command.message.as_ref());
        let instances: Vec<Option<&str>> =
            messages().map(|message| Some(message?.instance.as_str())).collect();
        let bodies: Vec<Option<&[u8]>> =
            messages().map(|message| Some(message?.payload())).collect();
        let params: &[&(dyn tokio_postgres::types::ToSql + Sync)] =
            &[&lanes, &works, &keys, &instances, &bodies, &Json(&requests)];
        let link = &self.shared.links.flow.complete;
        let rows = self.on_link(link, COMPLETE, &self.sql.complete_plain, params).await;
        let keys = requests.iter().map(|request| request.key);
        let rows = rows.inspect_err(|_| self.remember(keys))?;
        if needs_general_path(&rows) {
            return Ok(None);
        }
        Ok(Some(self.completed(commands, EnqueueResults::read(COMPLETE, &rows)?)))
    }

    fn completed(
        &self,
        commands: &[&CompleteForm],
        mut written: EnqueueResults,
    ) -> Vec<CompletionReply> {
        self.announce(&written);
        let codes = std::mem::take(&mut written.codes);
        let (ends, outcomes) = codes.split_at(commands.len());
        let mut outcomes = outcomes.iter();
        let reply = |(c, command): (usize, &&CompleteForm)| {
            let (turns, changes) = written.part(c);
            let code = command.message.as_ref().and_then(|_| outcomes.next().copied().flatten());
            let outcome = match ends[c] {
                Some(0) => WorkOutcome::Completed(code.map(outcome)),
                _ => WorkOutcome::Stale,
            };
            CompletionReply { outcome, turns, changes }
        };
        commands.iter().enumerate().map(reply).collect()
    }

    /// Notifies other nodes of what a call made available, and of the leases that it created.
    fn announce(&self, written: &EnqueueResults) {
        let changes = written.changes.iter().map(|(_, change)| change.clone());
        self.hints.notify(&self.shared, changes);
        self.note_leased_turns(written.turns.iter().map(|leased| &leased.item));
    }

    /// Records the keys of leased turns, and notifies other nodes of the ends of the leases.
    pub(super) fn note_leased_turns<'a>(&self, turns: impl Iterator<Item = &'a TurnItem> + Clone) {
        self.remember(turns.clone().map(|turn| turn.token.key));
        let ends = turns.filter_map(|turn| {
            let what = FlowChangeKind::Turn(turn.capability.clone()?);
            Some(FlowChange { what, due_in: turn.lease_for })
        });
        self.hints.notify_leases(&self.shared, ends.collect());
    }
}
