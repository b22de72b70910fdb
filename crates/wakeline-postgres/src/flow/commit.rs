//! Commit: everything that turns did, many turns in one call.
//!
//! # Invariants
//! * Two commits of the same lane are never in one call: the second one is stale then.
//! * A turn that pushes is committed by a call of its own, because its partitions may be busy.
//! * A call of unknown outcome is not repeated: it could not tell its own first try from another's.

use std::collections::{BTreeMap, HashSet};

use bytes::Bytes;
use futures_util::FutureExt as _;
use serde::Serialize;
use tokio_postgres::Row;
use tokio_postgres::types::{Json, ToSql};
use wakeline_core::{Change, FlowChange, FlowToken, FlowWhat};
use wakeline_store::flow::{
    ExecutionEnd, InstanceState, KvChange, StatusChange, TurnCommit, TurnItem, TurnOutcome,
    TurnReply, WorkItem,
};
use wakeline_store::{PushItem, PushOutcome, StoreError};

use super::enqueue::outcome;
use super::items::{self, Leased, TURN_COLUMNS, unsigned};
use super::wire::{
    Blobs, MessageForm, MessageJson, TurnRequestForm, WorkForm, WorkJson, WorkRequestForm, signed,
};
use super::{Answers, Core, Flushed, one_by_one, rounds};
use crate::queue::Along;
use crate::rows::{self, Columns};

const OPERATION: &str = "commit turn";

/// Where the columns of a push's slot begin, and those of a turn and of an activity.
const SLOT_COLUMN: usize = 8;
const TURN_COLUMN: usize = SLOT_COLUMN + 14;
const WORK_COLUMN: usize = TURN_COLUMN + TURN_COLUMNS;

/// A turn's commit on its way.
pub(super) struct CommitForm {
    pub(super) token: FlowToken,
    own: OwnForm,
    kv: Vec<(String, Option<Bytes>)>,
    work: Vec<WorkForm>,
    cancelled_work: Vec<(i64, i64)>,
    messages: Vec<MessageForm>,
    cancelled_messages: Vec<(i64, i64)>,
    turn_requests: Vec<TurnRequestForm>,
    work_requests: Vec<WorkRequestForm>,
    events: Option<Bytes>,
    output: Option<Bytes>,
}

/// What a turn did to its own instance.
#[derive(Debug, Clone, Serialize)]
struct OwnForm {
    lane: i64,
    key: uuid::Uuid,
    execution: i64,
    name: Option<String>,
    parent: Option<String>,
    parent_event: Option<i64>,
    capability: Option<i32>,
    version: Option<String>,
    first: Option<i64>,
    last: Option<i64>,
    events: Option<usize>,
    statuses: usize,
    status: Option<String>,
    kv: bool,
    kv_clear: bool,
    ending: Option<&'static str>,
    output: Option<usize>,
    clear: bool,
}

#[derive(Debug, Serialize)]
struct KvJson<'a> {
    c: usize,
    key: &'a str,
    value: Option<usize>,
}

#[derive(Debug, Serialize)]
struct UnworkJson {
    c: usize,
    execution: i64,
    activity: i64,
}

#[derive(Debug, Serialize)]
struct UnsendJson {
    c: usize,
    execution: i64,
    event: i64,
}

/// What one call is given.
struct CommitCall<'a> {
    blobs: Blobs<'a>,
    own: Json<Vec<OwnForm>>,
    kv: Json<Vec<KvJson<'a>>>,
    work: Json<Vec<WorkJson<'a>>>,
    unwork: Json<Vec<UnworkJson>>,
    messages: Json<Vec<MessageJson<'a>>>,
    unsend: Json<Vec<UnsendJson>>,
    turn_requests: Json<Vec<TurnRequestForm>>,
    work_requests: Json<Vec<WorkRequestForm>>,
}

impl CommitForm {
    /// About what it adds to a call.
    pub(super) fn bytes(&self) -> usize {
        let kv = self.kv.iter().map(|(_, value)| value.as_ref().map_or(0, Bytes::len) + 300);
        let sent = self.messages.iter().map(MessageForm::bytes);
        let work = self.work.iter().map(WorkForm::bytes);
        let own = [&self.events, &self.output].into_iter().flatten().map(Bytes::len);
        500 + kv.chain(sent).chain(work).chain(own).sum::<usize>()
    }
}

impl<'a> CommitCall<'a> {
    fn new(forms: impl Iterator<Item = &'a CommitForm>) -> Self {
        let mut call = Self {
            blobs: Blobs::default(),
            own: Json(Vec::new()),
            kv: Json(Vec::new()),
            work: Json(Vec::new()),
            unwork: Json(Vec::new()),
            messages: Json(Vec::new()),
            unsend: Json(Vec::new()),
            turn_requests: Json(Vec::new()),
            work_requests: Json(Vec::new()),
        };
        for (index, form) in forms.enumerate() {
            call.add(index + 1, form);
        }
        call
    }

    /// The parameters, in order, followed by those of the pushes that go along.
    fn params<'p>(&'p self, along: &'p Along) -> Vec<&'p (dyn ToSql + Sync)> {
        let mut params: Vec<&(dyn ToSql + Sync)> = vec![
            &self.own,
            &self.kv,
            &self.work,
            &self.unwork,
            &self.messages,
            &self.unsend,
            &self.turn_requests,
            &self.work_requests,
            self.blobs.param(),
        ];
        params.extend(along.params());
        params
    }

    fn add(&mut self, c: usize, form: &'a CommitForm) {
        let mut own = form.own.clone();
        own.events = form.events.as_ref().map(|events| self.blobs.add(events));
        own.output = form.output.as_ref().map(|output| self.blobs.add(output));
        self.own.0.push(own);
        for (key, value) in &form.kv {
            let value = value.as_ref().map(|value| self.blobs.add(value));
            self.kv.0.push(KvJson { c, key, value });
        }
        for work in &form.work {
            self.work.0.push(work.json(c, &mut self.blobs));
        }
        for (execution, activity) in form.cancelled_work.iter().copied() {
            self.unwork.0.push(UnworkJson { c, execution, activity });
        }
        for message in &form.messages {
            self.messages.0.push(message.json(c, &mut self.blobs));
        }
        for (execution, event) in form.cancelled_messages.iter().copied() {
            self.unsend.0.push(UnsendJson { c, execution, event });
        }
        self.turn_requests.0.extend(form.turn_requests.iter().map(|request| request.of(c)));
        self.work_requests.0.extend(form.work_requests.iter().map(|request| request.of(c)));
    }

    fn keys(&self) -> impl Iterator<Item = uuid::Uuid> {
        let turns = self.turn_requests.0.iter().map(|request| request.key);
        turns.chain(self.work_requests.0.iter().map(|request| request.key))
    }
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
    fn read(rows: &[Row]) -> Result<Self, StoreError> {
        let mut committed = Self::default();
        for row in rows {
            let mut columns = Columns::new(OPERATION, row);
            let kind: i16 = columns.take()?;
            match kind {
                0 => {
                    committed.codes = columns.take()?;
                    committed.lasts = columns.take()?;
                    committed.outcomes = columns.take()?;
                }
                1 => committed.turns.push(items::turn(OPERATION, row, TURN_COLUMN)?),
                4 => committed.work.push(items::work(OPERATION, row, WORK_COLUMN)?),
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
            },
            1 => TurnOutcome::Stale,
            2 => TurnOutcome::Conflict { last_event: unsigned(self.lasts[c]) },
            _ => {
                let reason = "is missing: there is no instance".to_owned();
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
        5 => FlowWhat::Work(columns.name_if("tag")?),
        _ => FlowWhat::Outcome(columns.name("instance")?),
    };
    let change = FlowChange { what, due_in: rows::span(due.unwrap_or(0)) };
    Ok((command, change, watched.unwrap_or(true)))
}

impl Core {
    /// Resolves the names of a turn's commit. Its pushes are left out.
    pub(super) async fn commit_form(&self, commit: TurnCommit) -> Result<CommitForm, StoreError> {
        let mut work = Vec::with_capacity(commit.work.len());
        // Work that is taken back at once, or repeats a key, is none.
        let mut keys: HashSet<_> = commit.cancelled_work.iter().copied().collect();
        for new in commit.work {
            if keys.insert(new.key) && !commit.clear {
                work.push(self.work(new).await?);
            }
        }
        let messages = self.messages(commit.messages).await?;
        let capability = match &commit.pinned {
            Some(pinned) => Some(self.capability(&pinned.capability).await?),
            None => None,
        };
        let birth = commit.birth;
        let parent = birth.as_ref().and_then(|birth| birth.parent.clone());
        let (kv_clear, kv) = last_values(commit.kv);
        let (ending, output) = match commit.end {
            ExecutionEnd::Open => (None, None),
            ExecutionEnd::Ended { state, output } => (Some(state.as_str()), output),
            ExecutionEnd::ContinuedAsNew { output } => {
                (Some(InstanceState::ContinuedAsNew.as_str()), output)
            }
        };
        let status = commit.status.last().and_then(|change| match change {
            StatusChange::Set(text) => Some(text.clone()),
            StatusChange::Clear => None,
        });
        let own = OwnForm {
            lane: commit.token.lane,
            key: commit.token.key,
            execution: signed(commit.execution),
            name: birth.map(|birth| birth.name.as_str().to_owned()),
            parent: parent.as_ref().map(|(parent, _)| parent.as_str().to_owned()),
            parent_event: parent.map(|(_, event)| signed(event)),
            capability,
            // An empty text says that none was pinned.
            version: commit.pinned.map(|pinned| pinned.version.unwrap_or_default()),
            first: commit.history.as_ref().map(|batch| signed(batch.first)),
            last: commit.history.as_ref().map(|batch| signed(batch.last)),
            events: None,
            statuses: commit.status.len(),
            status,
            kv: kv_clear || !kv.is_empty(),
            kv_clear,
            ending,
            output: None,
            clear: commit.clear,
        };
        let numbers = |(a, b): (u64, u64)| (signed(a), signed(b));
        let unwork = commit.cancelled_work.iter();
        Ok(CommitForm {
            token: commit.token,
            own,
            kv,
            work,
            cancelled_work: unwork.map(|key| numbers((key.execution, key.activity))).collect(),
            messages,
            cancelled_messages: commit.cancelled_messages.into_iter().map(numbers).collect(),
            turn_requests: self.turn_requests(&commit.turn_requests).await?,
            work_requests: self.work_requests(&commit.work_requests).await?,
            events: commit.history.map(|batch| batch.events),
            output,
        })
    }

    /// Makes one call for many commits, or several if some are of the same lane.
    pub(super) async fn flush_commit(
        &self,
        link: usize,
        commands: Vec<CommitForm>,
    ) -> Flushed<TurnReply> {
        let mut answers = Answers::new(commands.len());
        for (indexes, part) in rounds(commands, |command| command.token.lane) {
            let call = |part| self.commit_call(link, part).boxed();
            let flushed = one_by_one(&part, call).await;
            answers.fill(indexes, flushed.into_iter().map(|reply| reply.and_then(|reply| reply)));
        }
        answers.done(OPERATION)
    }

    /// The replies are results: a commit may be refused by itself.
    async fn commit_call(
        &self,
        link: usize,
        commands: Vec<&CommitForm>,
    ) -> Result<Vec<Result<TurnReply, StoreError>>, StoreError> {
        let call = CommitCall::new(commands.iter().copied());
        let along = Along::default();
        let link = &self.shared.links.flow.commit[link];
        let params = call.params(&along);
        let rows = self.on_link(link, OPERATION, (&self.sql.commit, &params)).await;
        let rows = rows.inspect_err(|_| self.remember(call.keys()))?;
        let mut committed = self.committed(&rows)?;
        let reply =
            |(c, command): (usize, &&CommitForm)| committed.reply(c, command.messages.len());
        Ok(commands.iter().enumerate().map(reply).collect())
    }

    fn committed(&self, rows: &[Row]) -> Result<Committed, StoreError> {
        let committed = Committed::read(rows)?;
        let told = committed.changes.iter().filter(|(.., told)| *told);
        self.hints.tell(&self.shared, told.map(|(_, change, _)| change.clone()));
        self.granted_turns(committed.turns.iter().map(|leased| &leased.item));
        self.granted_work(committed.work.iter().map(|leased| &leased.item));
        Ok(committed)
    }

    /// Commits a turn that pushes, by itself.
    pub(super) async fn commit_pushing(
        &self,
        form: CommitForm,
        pushes: Vec<PushItem>,
    ) -> Result<TurnReply, StoreError> {
        let mut along = self.queue.along(pushes);
        loop {
            self.queue.plan_along(&mut along).await?;
            let call = CommitCall::new(std::iter::once(&form));
            let rows = {
                let params = call.params(&along);
                self.general(OPERATION, &self.sql.commit, &params).await
            };
            let rows = rows.inspect_err(|_| self.remember(call.keys()))?;
            let slots = rows.iter().filter(|row| row.get::<_, i16>(0) == 3);
            if !self.queue.read_along(&mut along, (OPERATION, SLOT_COLUMN), slots).await? {
                continue;
            }
            let mut reply = self.committed(&rows)?.reply(0, form.messages.len())?;
            if let TurnOutcome::Committed { pushes, .. } = &mut reply.outcome {
                let (outcomes, changes): (Vec<PushOutcome>, Vec<Change>) =
                    self.queue.finish_along(along).await?;
                *pushes = outcomes;
                reply.queue_changes = changes;
            }
            return Ok(reply);
        }
    }
}

/// What changes come to: whether all keys lost their value first, and the last value of each key.
fn last_values(changes: Vec<KvChange>) -> (bool, Vec<(String, Option<Bytes>)>) {
    let mut cleared = false;
    let mut values: BTreeMap<String, Option<Bytes>> = BTreeMap::new();
    for change in changes {
        match change {
            KvChange::Set(key, value) => {
                values.insert(key.as_str().to_owned(), Some(value));
            }
            KvChange::Clear(key) => {
                values.insert(key.as_str().to_owned(), None);
            }
            KvChange::ClearAll => {
                cleared = true;
                values.values_mut().for_each(|value| *value = None);
            }
        }
    }
    (cleared, values.into_iter().collect())
}
