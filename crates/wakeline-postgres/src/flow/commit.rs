//! Commits turns, many in one call.
//!
//! # Invariants
//! * Two commits of the same lane are never in one call, because the first one makes the second one
//!   stale.
//! * A turn that pushes is committed by a call of its own, because its partitions may be busy. So
//!   is a turn that emits: its webhook messages are stored by another statement of the same
//!   transaction, which takes its locks after all others.
//! * A turn whose last call exceeded the statement timeout is committed separately as well
//!   (see [`super::slow`]).
//! * A call of unknown outcome is not repeated, because it could not distinguish its own first
//!   attempt from the commit of another node.

use futures_util::FutureExt as _;
use tokio_postgres::Row;
use wakeline_core::{Change, FlowChange, FlowChangeKind};
use wakeline_store::flow::{TurnItem, TurnOutcome, TurnReply, WorkItem};
use wakeline_store::hook::NewMessage;
use wakeline_store::{PushItem, PushOutcome, StoreError};

use super::FlowCore;
use super::commit_form::{CommitCall, CommitForm};
use super::commit_plain::PlainCall;
use super::enqueue::outcome;
use super::items::{self, LeasedItem, TURN_COLUMNS, unsigned};
use super::slow::lock_wait;
use crate::commands::{Answers, Flushed, apart, one_by_one};
use crate::connect::Params;
use crate::error;
use crate::hook::{self, PiggybackedEmits};
use crate::queue::{PiggybackedPushes, ROLLBACKS_MAX};
use crate::rows::{self, Columns};

const OPERATION: &str = "commit turn";

/// The index of the first column of a push's slot, of a turn and of an activity.
const SLOT_COLUMN: usize = 9;
const TURN_COLUMN: usize = SLOT_COLUMN + 14;
const WORK_COLUMN: usize = TURN_COLUMN + TURN_COLUMNS;
/// The index of the first column of an activity if there are neither slots nor turns.
const PLAIN_WORK_COLUMN: usize = SLOT_COLUMN;

/// The writes to the queue and webhook domains of a turn that is committed separately.
pub(super) struct SeparateCommit {
    pub(super) pushes: Vec<PushItem>,
    pub(super) emits: Vec<NewMessage>,
    /// Whether the last commit of the turn took too long.
    pub(super) slow: bool,
}

/// The results of a call.
#[derive(Default)]
struct Committed {
    codes: Vec<i16>,
    lasts: Vec<i64>,
    outcomes: Vec<Option<i16>>,
    turns: Vec<LeasedItem<TurnItem>>,
    work: Vec<LeasedItem<WorkItem>>,
    /// Each change with the index of its command, and whether other nodes are notified of it.
    changes: Vec<(usize, FlowChange, bool)>,
}

impl Committed {
    fn read(rows: &[Row], work_column: usize) -> Result<Self, StoreError> {
        let mut committed = Self::default();
        for row in rows {
            let mut columns = Columns::new(OPERATION, row);
            let kind: i16 = columns.take()?;
            match kind {
                0 => {
                    committed.codes = columns.take()?;
                    committed.lasts = columns.take()?;
                    committed.outcomes = columns.take::<Option<_>>()?.unwrap_or_default();
                }
                1 => committed.turns.push(items::turn(OPERATION, row, TURN_COLUMN)?),
                4 => committed.work.push(items::work(OPERATION, row, work_column)?),
                3 => {}
                _ => {
                    columns.skip(3);
                    committed.changes.push(read_change(kind, &mut columns)?);
                }
            }
        }
        Ok(committed)
    }

    /// Takes out the results of one command.
    fn reply(&mut self, c: usize, messages: usize) -> Result<TurnReply, StoreError> {
        let outcomes: Vec<Option<i16>> = self.outcomes.drain(..messages).collect();
        let outcome = match self.codes[c] {
            0 => TurnOutcome::Committed {
                messages: outcomes.into_iter().map(|code| outcome(code.unwrap_or(0))).collect(),
                pushes: Vec::new(),
                emits: Vec::new(),
            },
            1 => TurnOutcome::Stale,
            2 => TurnOutcome::Conflict { last_event: unsigned(self.lasts[c]) },
            _ => {
                let reason = "is required, because the instance does not exist yet".to_owned();
                return Err(StoreError::Invalid { field: "new_instance", reason });
            }
        };
        let turns = self.turns.extract_if(.., |leased| leased.command == c);
        let work = self.work.extract_if(.., |leased| leased.command == c);
        let changes = self.changes.extract_if(.., |(of, ..)| *of == c);
        Ok(TurnReply {
            outcome,
            turns: turns.map(|leased| (leased.request, leased.item)).collect(),
            work: work.map(|leased| (leased.request, leased.item)).collect(),
            changes: changes.map(|(_, change, _)| change).collect(),
            queue_changes: Vec::new(),
            hook_changes: Vec::new(),
        })
    }
}

fn read_change(
    kind: i16,
    columns: &mut Columns<'_>,
) -> Result<(usize, FlowChange, bool), StoreError> {
    let command = items::index(columns.take()?);
    let watched: Option<bool> = columns.take()?;
    let due: Option<i64> = columns.take()?;
    let what = match kind {
        2 => FlowChangeKind::Turn(columns.name("capability")?),
        5 => FlowChangeKind::Work(items::route(columns)?),
        _ => FlowChangeKind::Outcome(columns.name("instance")?),
    };
    let change = FlowChange { what, due_in: rows::span(due.unwrap_or(0)) };
    Ok((command, change, watched.unwrap_or(true)))
}

impl FlowCore {
    /// Executes many commits in one call, or in several if some are of the same lane.
    pub(super) async fn flush_commit(&self, commands: Vec<CommitForm>) -> Flushed<TurnReply> {
        let mut answers = Answers::new(commands.len());
        for (indexes, part) in apart(commands, |command| vec![command.token.lane]) {
            let call = |part| self.commit_call(part).boxed();
            let flushed = one_by_one(&part, call).await;
            for (form, reply) in part.iter().zip(&flushed) {
                if reply.as_ref().is_err_and(error::was_cancelled) {
                    self.slow.note(form.token.lane);
                }
            }
            answers.fill(indexes, flushed.into_iter().map(|reply| reply.and_then(|reply| reply)));
        }
        answers.done(OPERATION)
    }

    /// Executes commits in one call. Each reply is a result, because a single commit may be
    /// refused.
    async fn commit_call(
        &self,
        commands: Vec<&CommitForm>,
    ) -> Result<Vec<Result<TurnReply, StoreError>>, StoreError> {
        let link = &self.shared.links.flow.commit;
        let forms = commands.iter().copied();
        let mut committed = if commands.iter().all(|form| form.is_plain()) {
            let call = PlainCall::new(forms);
            let rows = self.on_link(link, OPERATION, &self.sql.commit_plain, &call.params()).await;
            let rows = rows.inspect_err(|_| self.remember(call.keys()))?;
            self.committed(Committed::read(&rows, PLAIN_WORK_COLUMN)?)
        } else {
            let (call, pushing) = (CommitCall::new(forms), PiggybackedPushes::default());
            let rows =
                self.on_link(link, OPERATION, &self.sql.commit, &call.params(&pushing)).await;
            let rows = rows.inspect_err(|_| self.remember(call.keys()))?;
            self.committed(Committed::read(&rows, WORK_COLUMN)?)
        };
        let reply =
            |(c, command): (usize, &&CommitForm)| committed.reply(c, command.messages.len());
        Ok(commands.iter().enumerate().map(reply).collect())
    }

    /// Notifies other nodes of the results of a call.
    fn committed(&self, committed: Committed) -> Committed {
        let notified = committed.changes.iter().filter(|(.., notified)| *notified);
        self.hints.notify(&self.shared, notified.map(|(_, change, _)| change.clone()));
        self.note_leased_turns(committed.turns.iter().map(|leased| &leased.item));
        self.note_leased_work(committed.work.iter().map(|leased| &leased.item));
        committed
    }

    /// Commits a turn by a call of its own: one that pushes or emits, or whose last commit took too
    /// long.
    pub(super) async fn commit_separately(
        &self,
        form: CommitForm,
        sent: SeparateCommit,
    ) -> Result<TurnReply, StoreError> {
        let (lane, slow) = (form.token.lane, sent.slow);
        let reply = self.commit_with_side_writes(form, sent).await;
        match &reply {
            Ok(_) if slow => self.slow.forget(lane),
            Err(error) if error::was_cancelled(error) => self.slow.note(lane),
            _ => {}
        }
        if slow { reply.map_err(error::beyond_limit) } else { reply }
    }

    async fn commit_with_side_writes(
        &self,
        form: CommitForm,
        sent: SeparateCommit,
    ) -> Result<TurnReply, StoreError> {
        sent.emits.iter().try_for_each(hook::check)?;
        let mut pushing = self.queue.piggyback(sent.pushes);
        loop {
            self.queue.plan_piggybacked(&mut pushing).await?;
            let call = CommitCall::new(std::iter::once(&form));
            let written = {
                let params = call.params(&pushing);
                self.commit_with(&params, &sent.emits, sent.slow).await
            };
            let (rows, emitted) = written.inspect_err(|_| self.remember(call.keys()))?;
            let slots = rows.iter().filter(|row| row.get::<_, i16>(0) == 3);
            if !self.queue.read_piggybacked(&mut pushing, OPERATION, SLOT_COLUMN, slots).await? {
                continue;
            }
            let mut committed = self.committed(Committed::read(&rows, WORK_COLUMN)?);
            let mut reply = committed.reply(0, form.messages.len())?;
            if let TurnOutcome::Committed { pushes, emits, .. } = &mut reply.outcome {
                let (outcomes, changes): (Vec<PushOutcome>, Vec<Change>) =
                    self.queue.finish_piggybacked(pushing).await?;
                *pushes = outcomes;
                reply.queue_changes = changes;
                *emits = emitted.outcomes;
                self.hook.notify(&emitted.changes);
                reply.hook_changes = emitted.changes;
            }
            return Ok(reply);
        }
    }

    /// Executes the commit, and stores the messages to endpoints if there are any. It is repeated
    /// if it was rolled back.
    async fn commit_with(
        &self,
        params: Params<'_>,
        emits: &[NewMessage],
        slow: bool,
    ) -> Result<(Vec<Row>, PiggybackedEmits), StoreError> {
        if slow {
            // It is not repeated here, so that its caller gets the error about a lock that is held
            // for a long time; the caller repeats it.
            return self.commit_emitting(params, emits, slow).await;
        }
        if emits.is_empty() {
            let rows = self.general(OPERATION, &self.sql.commit, params).await?;
            return Ok((rows, PiggybackedEmits::default()));
        }
        let mut tries = 0;
        loop {
            match self.commit_emitting(params, emits, slow).await {
                Err(error) if error::was_rolled_back(&error) && tries < ROLLBACKS_MAX => tries += 1,
                other => return other,
            }
        }
    }

    async fn commit_emitting(
        &self,
        params: Params<'_>,
        emits: &[NewMessage],
        slow: bool,
    ) -> Result<(Vec<Row>, PiggybackedEmits), StoreError> {
        let link = self.shared.links.general.link(OPERATION).await?;
        let transaction = link.begin(OPERATION).await?;
        if slow {
            let wait = lock_wait(self.shared.options.statement_timeout);
            transaction.query(&self.sql.lock_wait, &[&wait]).await?;
        }
        let rows = transaction.query(&self.sql.commit, params).await?;
        let emitted = match Committed::read(&rows, WORK_COLUMN)?.codes.first() {
            Some(0) if !emits.is_empty() => self.hook.emit_piggybacked(&transaction, emits).await?,
            _ => PiggybackedEmits::default(),
        };
        transaction.commit().await?;
        Ok((rows, emitted))
    }
}
