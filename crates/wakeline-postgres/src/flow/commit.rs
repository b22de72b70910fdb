//! Commit: everything that turns did, many turns in one call.
//!
//! # Invariants
//! * Two commits of the same lane are never in one call: the second one is stale then.
//! * A turn that pushes is committed by a call of its own, because its partitions may be busy. So
//!   is one that emits: its messages are stored by another statement of the same transaction,
//!   which takes its locks after all others.
//! * A turn whose last call took longer than the database allows goes alone as well
//!   (see [`super::slow`]).
//! * A call of unknown outcome is not repeated: it could not tell its own first try from another's.

use futures_util::FutureExt as _;
use tokio_postgres::Row;
use wakeline_core::{Change, FlowChange, FlowWhat};
use wakeline_store::flow::{TurnItem, TurnOutcome, TurnReply, WorkItem};
use wakeline_store::hook::NewMessage;
use wakeline_store::{PushItem, PushOutcome, StoreError};

use super::Core;
use super::commit_form::{CommitCall, CommitForm};
use super::commit_plain::PlainCall;
use super::enqueue::outcome;
use super::items::{self, Leased, TURN_COLUMNS, unsigned};
use super::slow::lock_wait;
use crate::commands::{Answers, Flushed, apart, one_by_one};
use crate::connect::Params;
use crate::error;
use crate::hook::{self, EmittedAlong};
use crate::queue::{Along, ROLLBACKS_MAX};
use crate::rows::{self, Columns};

const OPERATION: &str = "commit turn";

/// Where the columns of a push's slot begin, and those of a turn and of an activity behind them.
const SLOT_COLUMN: usize = 9;
const TURN_COLUMN: usize = SLOT_COLUMN + 14;
const WORK_COLUMN: usize = TURN_COLUMN + TURN_COLUMNS;
/// Where those of an activity begin if there are neither slots nor turns.
const PLAIN_WORK_COLUMN: usize = SLOT_COLUMN;

/// What a turn that is committed apart sends besides its messages to instances.
pub(super) struct Sent {
    pub(super) pushes: Vec<PushItem>,
    pub(super) emits: Vec<NewMessage>,
    /// Whether its last commit took too long.
    pub(super) slow: bool,
}

/// What a call did.
#[derive(Default)]
struct Committed {
    codes: Vec<i16>,
    lasts: Vec<i64>,
    outcomes: Vec<Option<i16>>,
    turns: Vec<Leased<TurnItem>>,
    work: Vec<Leased<WorkItem>>,
    /// With the index of the command, and whether other nodes are told.
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

    /// Takes out what concerns one command.
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
                let reason = "is missing, and the instance does not exist".to_owned();
                return Err(StoreError::Invalid { field: "birth", reason });
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
        2 => FlowWhat::Turn(columns.name("capability")?),
        5 => FlowWhat::Work(items::route(columns)?),
        _ => FlowWhat::Outcome(columns.name("instance")?),
    };
    let change = FlowChange { what, due_in: rows::span(due.unwrap_or(0)) };
    Ok((command, change, watched.unwrap_or(true)))
}

impl Core {
    /// Makes one call for many commits, or several if some are of the same lane.
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

    /// The replies are results: a commit may be refused by itself.
    async fn commit_call(
        &self,
        commands: Vec<&CommitForm>,
    ) -> Result<Vec<Result<TurnReply, StoreError>>, StoreError> {
        let link = &self.shared.links.flow.commit;
        let forms = commands.iter().copied();
        let mut committed = if commands.iter().all(|form| form.is_plain()) {
            let call = PlainCall::new(forms);
            let statement = (&self.sql.commit_plain, &call.params()[..]);
            let rows = self.on_link(link, OPERATION, statement).await;
            let rows = rows.inspect_err(|_| self.remember(call.keys()))?;
            self.committed(Committed::read(&rows, PLAIN_WORK_COLUMN)?)
        } else {
            let (call, along) = (CommitCall::new(forms), Along::default());
            let statement = (&self.sql.commit, &call.params(&along)[..]);
            let rows = self.on_link(link, OPERATION, statement).await;
            let rows = rows.inspect_err(|_| self.remember(call.keys()))?;
            self.committed(Committed::read(&rows, WORK_COLUMN)?)
        };
        let reply =
            |(c, command): (usize, &&CommitForm)| committed.reply(c, command.messages.len());
        Ok(commands.iter().enumerate().map(reply).collect())
    }

    /// Tells other nodes what a call did.
    fn committed(&self, committed: Committed) -> Committed {
        let told = committed.changes.iter().filter(|(.., told)| *told);
        self.hints.tell(&self.shared, told.map(|(_, change, _)| change.clone()));
        self.granted_turns(committed.turns.iter().map(|leased| &leased.item));
        self.granted_work(committed.work.iter().map(|leased| &leased.item));
        committed
    }

    /// Commits a turn by itself: one that pushes or emits, or whose last commit took too long.
    pub(super) async fn commit_apart(
        &self,
        form: CommitForm,
        sent: Sent,
    ) -> Result<TurnReply, StoreError> {
        let (lane, slow) = (form.token.lane, sent.slow);
        let reply = self.commit_sending(form, sent).await;
        match &reply {
            Ok(_) if slow => self.slow.forget(lane),
            Err(error) if error::was_cancelled(error) => self.slow.note(lane),
            _ => {}
        }
        if slow { reply.map_err(error::beyond_limit) } else { reply }
    }

    async fn commit_sending(&self, form: CommitForm, sent: Sent) -> Result<TurnReply, StoreError> {
        sent.emits.iter().try_for_each(hook::check)?;
        let mut along = self.queue.along(sent.pushes);
        loop {
            self.queue.plan_along(&mut along).await?;
            let call = CommitCall::new(std::iter::once(&form));
            let written = {
                let params = call.params(&along);
                self.commit_with(&params, &sent.emits, sent.slow).await
            };
            let (rows, emitted) = written.inspect_err(|_| self.remember(call.keys()))?;
            let slots = rows.iter().filter(|row| row.get::<_, i16>(0) == 3);
            if !self.queue.read_along(&mut along, (OPERATION, SLOT_COLUMN), slots).await? {
                continue;
            }
            let mut committed = self.committed(Committed::read(&rows, WORK_COLUMN)?);
            let mut reply = committed.reply(0, form.messages.len())?;
            if let TurnOutcome::Committed { pushes, emits, .. } = &mut reply.outcome {
                let (outcomes, changes): (Vec<PushOutcome>, Vec<Change>) =
                    self.queue.finish_along(along).await?;
                *pushes = outcomes;
                reply.queue_changes = changes;
                *emits = emitted.outcomes;
                self.hook.tell(&emitted.changes);
                reply.hook_changes = emitted.changes;
            }
            return Ok(reply);
        }
    }

    /// The commit, and the messages to endpoints if there are any. Repeated if it was rolled back.
    async fn commit_with(
        &self,
        params: Params<'_>,
        emits: &[NewMessage],
        slow: bool,
    ) -> Result<(Vec<Row>, EmittedAlong), StoreError> {
        if slow {
            // Its caller repeats it, and hears of a lock that is held for long.
            return self.commit_emitting(params, emits, slow).await;
        }
        if emits.is_empty() {
            let rows = self.general(OPERATION, &self.sql.commit, params).await?;
            return Ok((rows, EmittedAlong::default()));
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
    ) -> Result<(Vec<Row>, EmittedAlong), StoreError> {
        let link = self.shared.links.general.link(OPERATION).await?;
        let transaction = link.begin(OPERATION).await?;
        if slow {
            let wait = lock_wait(self.shared.options.statement_timeout);
            transaction.query(&self.sql.lock_wait, &[&wait]).await?;
        }
        let rows = transaction.query(&self.sql.commit, params).await?;
        let emitted = match Committed::read(&rows, WORK_COLUMN)?.codes.first() {
            Some(0) if !emits.is_empty() => self.hook.emit_along(&transaction, emits).await?,
            _ => EmittedAlong::default(),
        };
        transaction.commit().await?;
        Ok((rows, emitted))
    }
}
