//! `FlowAdmin` on PostgreSQL: each administrative command calls one SQL function.

use std::time::Duration;

use async_trait::async_trait;
use tokio_postgres::Row;
use tokio_postgres::types::{Json, ToSql};
use uuid::Uuid;
use wakeline_core::{Capabilities, FlowChange, FlowChangeKind, FlowToken, InstanceId};
use wakeline_store::StoreError;
use wakeline_store::flow::{
    DeleteInstances, DeleteReport, FindUnclaimed, FlowAdmin, InstanceFilter, PruneOptions,
    PruneReport, RetriedBatch, RetryPosition, Suspension, TerminateInstance, Unclaimed,
    UnclaimedWork, WorkKey,
};

use super::FlowCore;
use super::delete::texts;
use super::items::{route, unsigned};
use super::wire::Blobs;
use super::wire::{micros, signed};
use crate::PostgresStore;
use crate::access::Act;
use crate::rows::{self, Columns};

const SUSPEND: &str = "suspend";
const RESUME: &str = "resume";
const TERMINATE: &str = "terminate";
const UNCLAIMED: &str = "find unclaimed work";

/// The target of a suspension: an instance, or the instance of a leased turn.
#[derive(Clone, Copy)]
enum SuspendTarget<'a> {
    Instance(&'a InstanceId),
    Turn(FlowToken),
}

impl FlowCore {
    async fn suspend(
        &self,
        whom: SuspendTarget<'_>,
        suspension: Suspension,
    ) -> Result<bool, StoreError> {
        let (instance, lane, key): (Option<&str>, Option<i64>, Option<Uuid>) = match whom {
            SuspendTarget::Instance(instance) => (Some(instance.as_str()), None, None),
            SuspendTarget::Turn(token) => (None, Some(token.lane), Some(token.key)),
        };
        let (kind, reason) = match suspension {
            Suspension::Operator { reason } => ("operator", reason),
            Suspension::Mismatch { reason } => ("mismatch", reason),
        };
        // PostgreSQL cannot store NUL in a text. The command must not fail because of its reason.
        let reason = reason.replace('\0', "\u{fffd}");
        let params: &[&(dyn ToSql + Sync)] = &[&instance, &lane, &key, &kind, &reason];
        let rows = self.act(SUSPEND, &self.sql.suspend, params, Act::said).await?;
        let done = rows.first().map(|row| Columns::new(SUSPEND, row).take());
        Ok(done.transpose()?.unwrap_or(false))
    }

    /// Resumes one instance, or a batch of the mismatched instances with some capabilities (`None`
    /// for any) after a position.
    async fn resume(
        &self,
        instance: Option<&InstanceId>,
        caps: &Option<Vec<i32>>,
        after: Option<RetryPosition>,
    ) -> Result<RetriedBatch, StoreError> {
        let (capability, lane) = after.map_or((0, 0), |place| (place.capability, place.lane));
        let params: &[&(dyn ToSql + Sync)] =
            &[&instance.map(InstanceId::as_str), &Json(caps), &capability, &lane];
        let (mut count, mut changes, mut next) = (0, Vec::new(), None);
        for row in &self.act(RESUME, &self.sql.resume, params, Act::counted).await? {
            let mut columns = Columns::new(RESUME, row);
            count += u64::try_from(columns.take::<i64>()?).unwrap_or(0);
            let what = columns.name_if("capability")?.map(FlowChangeKind::Turn);
            let due: Option<i64> = columns.take()?;
            let change = |(what, due)| FlowChange { what, due_in: rows::span(due) };
            changes.extend(what.zip(due).map(change));
            let place: (Option<i64>, Option<i64>) = (columns.take()?, columns.take()?);
            let place = place.0.zip(place.1);
            next = next.or(place.map(|(capability, lane)| RetryPosition { capability, lane }));
        }
        self.hints.notify(&self.shared, changes.iter().cloned());
        self.hints.sent().await;
        Ok(RetriedBatch { count, changes, next })
    }

    async fn terminate(
        &self,
        command: TerminateInstance,
    ) -> Result<(bool, Vec<FlowChange>), StoreError> {
        let messages = self.messages(command.messages).await?;
        let mut blobs = Blobs::default();
        let json: Vec<_> = messages.iter().map(|message| message.json(1, &mut blobs)).collect();
        let new_instance = command.new_instance.as_ref();
        let parent = new_instance.and_then(|new_instance| new_instance.parent.as_ref());
        let params: &[&(dyn ToSql + Sync)] = &[
            &command.instance.as_str(),
            &command.state.as_str(),
            &command.output.as_ref(),
            &Json(&json),
            blobs.param(),
            &new_instance.map(|new_instance| new_instance.name.as_str()),
            &parent.map(|(parent, _)| parent.as_str()),
            &parent.map(|(_, event)| signed(*event)),
        ];
        let mut done = false;
        let (mut changes, mut notified) = (Vec::new(), Vec::new());
        for row in &self.act(TERMINATE, &self.sql.terminate, params, ended).await? {
            let mut columns = Columns::new(TERMINATE, row);
            if columns.take::<i16>()? == 0 {
                done = columns.take::<i16>()? == 0;
                let change = FlowChange::now(FlowChangeKind::Outcome(command.instance.clone()));
                if done && columns.take::<bool>()? {
                    notified.push(change.clone());
                }
                changes.extend(done.then_some(change));
                continue;
            }
            columns.skip(2);
            let due_in = rows::span(columns.take()?);
            let change =
                FlowChange { what: FlowChangeKind::Turn(columns.name("capability")?), due_in };
            notified.push(change.clone());
            changes.push(change);
        }
        self.hints.notify(&self.shared, notified);
        self.hints.sent().await;
        Ok((done, changes))
    }
}

/// Returns whether an instance was ended. Its row has the kind 0; the rows of other instances have
/// other kinds.
fn ended(rows: &[Row]) -> bool {
    let code = |row: &Row, column| row.try_get::<_, i16>(column).ok();
    rows.iter().any(|row| code(row, 0) == Some(0) && code(row, 1) == Some(0))
}

#[async_trait]
impl FlowAdmin for PostgresStore {
    async fn suspend(
        &self,
        instance: &InstanceId,
        suspension: Suspension,
    ) -> Result<bool, StoreError> {
        self.flow.core.suspend(SuspendTarget::Instance(instance), suspension).await
    }

    async fn suspend_turn(
        &self,
        token: FlowToken,
        suspension: Suspension,
    ) -> Result<bool, StoreError> {
        if token.work.is_some() {
            return Ok(false);
        }
        self.flow.core.suspend(SuspendTarget::Turn(token), suspension).await
    }

    async fn resume(&self, instance: &InstanceId) -> Result<(bool, Vec<FlowChange>), StoreError> {
        let resumed = self.flow.core.resume(Some(instance), &None, None).await?;
        Ok((resumed.count > 0, resumed.changes))
    }

    async fn retry_mismatched(
        &self,
        capabilities: Capabilities,
        after: Option<RetryPosition>,
    ) -> Result<RetriedBatch, StoreError> {
        let caps = self.flow.core.capabilities(&capabilities).await?;
        self.flow.core.resume(None, &caps, after).await
    }

    async fn terminate(
        &self,
        command: TerminateInstance,
    ) -> Result<(bool, Vec<FlowChange>), StoreError> {
        self.flow.core.terminate(command).await
    }

    async fn delete_instances(&self, command: DeleteInstances) -> Result<DeleteReport, StoreError> {
        self.flow.core.delete(command).await
    }

    async fn delete_matching(&self, filter: InstanceFilter) -> Result<DeleteReport, StoreError> {
        self.flow.core.delete_matching(filter).await
    }

    async fn unclaimed(&self, find: FindUnclaimed) -> Result<Vec<Unclaimed>, StoreError> {
        let core = &self.flow.core;
        let (span, limit) = (micros(find.waited_min), i64::from(find.limit));
        let names = find.instances.as_deref().map(texts);
        let rows = match &names {
            None => core.general(UNCLAIMED, &core.sql.unclaimed, &[&span, &limit]).await?,
            Some(names) => {
                core.general(UNCLAIMED, &core.sql.unclaimed_of, &[&span, &limit, names]).await?
            }
        };
        rows.iter().map(unclaimed).collect()
    }

    async fn prune(
        &self,
        filter: InstanceFilter,
        options: PruneOptions,
    ) -> Result<PruneReport, StoreError> {
        self.flow.core.prune(filter, options).await
    }

    async fn clear_deleted(&self) -> Result<Option<Duration>, StoreError> {
        self.flow.core.clear_deleted().await
    }
}

fn unclaimed(row: &Row) -> Result<Unclaimed, StoreError> {
    let mut columns = Columns::new(UNCLAIMED, row);
    let instance = columns.name("instance")?;
    let capability = columns.name_if("capability")?;
    let (execution, activity): (Option<i64>, Option<i64>) = (columns.take()?, columns.take()?);
    let route = route(&mut columns)?;
    let what = match capability {
        Some(capability) => UnclaimedWork::Turn(capability),
        None => {
            let (execution, activity) = (execution.unwrap_or(0), activity.unwrap_or(0));
            let key = WorkKey { execution: unsigned(execution), activity: unsigned(activity) };
            UnclaimedWork::Work(key, route)
        }
    };
    Ok(Unclaimed { instance, what, since: columns.moment()? })
}
