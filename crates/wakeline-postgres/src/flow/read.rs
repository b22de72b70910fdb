//! `FlowReader` on PostgreSQL: queries on a connection for general use.

use std::time::SystemTime;

use async_trait::async_trait;
use bytes::Bytes;
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;
use wakeline_core::{InstanceId, KvKey, Timestamp};
use wakeline_store::StoreError;
use wakeline_store::flow::{
    ExecutionDetail, FlowDepths, FlowReader, HistoryBatch, HistoryPage, InstanceDetail,
    InstanceState, InstanceStats, KvEntry, ListInstances, ListedInstances, Watched,
};

use super::items::{state, unsigned};
use super::wire::signed;
use crate::PostgresStore;
use crate::rows::{self, Columns};

const WATCH: &str = "watch";
const INSTANCE: &str = "read instance";
const HISTORY: &str = "read history";
const EXECUTIONS: &str = "read executions";
const KV: &str = "read key-value state";
const LIST: &str = "list instances";
const TREE: &str = "read tree";
const STATS: &str = "read stats";
const DEPTHS: &str = "read depths";

fn count(columns: &mut Columns<'_>) -> Result<u64, StoreError> {
    Ok(u64::try_from(columns.take::<i64>()?).unwrap_or(0))
}

fn moment_if(columns: &mut Columns<'_>) -> Result<Option<Timestamp>, StoreError> {
    Ok(columns.take::<Option<SystemTime>>()?.map(rows::timestamp))
}

fn bytes_if(columns: &mut Columns<'_>) -> Result<Option<Bytes>, StoreError> {
    Ok(columns.take::<Option<Vec<u8>>>()?.map(Bytes::from))
}

fn detail(columns: &mut Columns<'_>) -> Result<InstanceDetail, StoreError> {
    Ok(InstanceDetail {
        instance: columns.name("instance")?,
        name: columns.name("orchestration")?,
        version: columns.take()?,
        capability: columns.name_if("capability")?,
        state: state(columns.take()?)?,
        suspended: columns.take()?,
        output: bytes_if(columns)?,
        status: columns.take()?,
        status_version: count(columns)?,
        kv_version: count(columns)?,
        execution: unsigned(columns.take()?),
        parent: columns.name_if("instance")?,
        created_at: columns.moment()?,
        updated_at: columns.moment()?,
        ended_at: moment_if(columns)?,
    })
}

/// Decodes the states of instances.
fn watched(operation: &'static str, rows: &[Row]) -> Result<Vec<Watched>, StoreError> {
    let read = |row| {
        let mut columns = Columns::new(operation, row);
        let phase: i16 = columns.take()?;
        let starts: bool = columns.take()?;
        Ok(match phase {
            0 if !starts => Watched::Missing,
            _ => Watched::Found(Box::new(detail(&mut columns)?)),
        })
    };
    rows.iter().map(read).collect()
}

#[async_trait]
impl FlowReader for PostgresStore {
    async fn instance(&self, instance: &InstanceId) -> Result<Watched, StoreError> {
        let (core, names) = (&self.flow.core, [instance.as_str()]);
        let rows = core.general(INSTANCE, &core.sql.instances, &[&&names[..]]).await?;
        Ok(watched(INSTANCE, &rows)?.pop().unwrap_or(Watched::Missing))
    }

    async fn waiting_starts(&self, instance: &InstanceId) -> Result<Vec<Bytes>, StoreError> {
        let core = &self.flow.core;
        let rows = core.general(INSTANCE, &core.sql.waiting_starts, &[&instance.as_str()]).await?;
        let payload = |row| Columns::new(INSTANCE, row).take::<Vec<u8>>().map(Bytes::from);
        rows.iter().map(payload).collect()
    }

    async fn watch(&self, instances: Vec<InstanceId>) -> Result<Vec<Watched>, StoreError> {
        let core = &self.flow.core;
        let names: Vec<&str> = instances.iter().map(InstanceId::as_str).collect();
        watched(WATCH, &core.queue.promptly(WATCH, &core.sql.watch, &[&names]).await?)
    }

    async fn history(
        &self,
        instance: &InstanceId,
        execution: Option<u64>,
        from_event: u64,
        bytes_max: usize,
    ) -> Result<HistoryPage, StoreError> {
        let core = &self.flow.core;
        let (execution, from) = (execution.map(signed), signed(from_event));
        let most = i64::try_from(bytes_max).unwrap_or(i64::MAX);
        let params: &[&(dyn ToSql + Sync)] = &[&instance.as_str(), &execution, &from, &most];
        let mut page = HistoryPage::default();
        for row in &core.general(HISTORY, &core.sql.history, params).await? {
            let mut columns = Columns::new(HISTORY, row);
            page.execution = unsigned(columns.take()?);
            let (first, last): (Option<i64>, Option<i64>) = (columns.take()?, columns.take()?);
            let (Some(first), Some(last)) = (first.map(unsigned), last.map(unsigned)) else {
                continue;
            };
            match bytes_if(&mut columns)? {
                Some(events) => page.batches.push(HistoryBatch { first, last, events }),
                None => {
                    page.next = Some(first);
                    break;
                }
            }
        }
        Ok(page)
    }

    async fn executions(&self, instance: &InstanceId) -> Result<Vec<ExecutionDetail>, StoreError> {
        let core = &self.flow.core;
        let rows = core.general(EXECUTIONS, &core.sql.executions, &[&instance.as_str()]).await?;
        let read = |row| {
            let mut columns = Columns::new(EXECUTIONS, row);
            Ok(ExecutionDetail {
                execution: unsigned(columns.take()?),
                version: columns.take()?,
                state: state(columns.take()?)?,
                output: bytes_if(&mut columns)?,
                events: count(&mut columns)?,
                history_bytes: count(&mut columns)?,
                started_at: columns.moment()?,
                ended_at: moment_if(&mut columns)?,
            })
        };
        rows.iter().map(read).collect()
    }

    async fn kv(
        &self,
        instance: &InstanceId,
        key: Option<&KvKey>,
    ) -> Result<Vec<KvEntry>, StoreError> {
        let core = &self.flow.core;
        let params: &[&(dyn ToSql + Sync)] = &[&instance.as_str(), &key.map(KvKey::as_str)];
        let rows = core.general(KV, &core.sql.kv, params).await?;
        let read = |row| {
            let mut columns = Columns::new(KV, row);
            Ok(KvEntry {
                key: columns.name("key")?,
                value: columns.take::<Vec<u8>>()?.into(),
                execution: unsigned(columns.take()?),
                updated_at: columns.moment()?,
            })
        };
        rows.iter().map(read).collect()
    }

    async fn list_instances(&self, filter: ListInstances) -> Result<ListedInstances, StoreError> {
        let core = &self.flow.core;
        let states: Vec<&str> = filter.states.iter().map(|state| state.as_str()).collect();
        let limit = usize::try_from(filter.limit).unwrap_or(usize::MAX);
        let params: &[&(dyn ToSql + Sync)] = &[
            &filter.name.as_ref().map(|name| name.as_str()),
            &states,
            &filter.suspended,
            &filter.id_prefix,
            &filter.parent.as_ref().map(InstanceId::as_str),
            &filter.created_from.map(rows::system_time),
            &filter.created_before.map(rows::system_time),
            &filter.after.as_ref().map(|(at, _)| rows::system_time(*at)),
            &filter.after.as_ref().map(|(_, instance)| instance.as_str()),
            &(i64::from(filter.limit) + 1),
        ];
        let sql = match filter.parent {
            Some(_) => &core.sql.list_parent,
            None => &core.sql.list,
        };
        let rows = core.general(LIST, sql, params).await?;
        let read = |row| detail(&mut Columns::new(LIST, row));
        let mut instances = rows.iter().map(read).collect::<Result<Vec<_>, _>>()?;
        let more = instances.len() > limit;
        instances.truncate(limit);
        let last = instances.last().filter(|_| more);
        let next = last.map(|last| (last.created_at, last.instance.clone()));
        Ok(ListedInstances { instances, next })
    }

    async fn tree(&self, instance: &InstanceId) -> Result<Vec<InstanceId>, StoreError> {
        let core = &self.flow.core;
        let rows = core.general(TREE, &core.sql.tree, &[&instance.as_str()]).await?;
        let Some(row) = rows.first() else { return Ok(Vec::new()) };
        let names: Vec<String> = Columns::new(TREE, row).take()?;
        names.into_iter().map(|name| rows::name("instance", name)).collect()
    }

    async fn stats(&self, instance: &InstanceId) -> Result<Option<InstanceStats>, StoreError> {
        let core = &self.flow.core;
        let rows = core.general(STATS, &core.sql.stats, &[&instance.as_str()]).await?;
        let Some(row) = rows.first() else { return Ok(None) };
        let mut columns = Columns::new(STATS, row);
        Ok(Some(InstanceStats {
            events: count(&mut columns)?,
            history_bytes: count(&mut columns)?,
            messages: count(&mut columns)?,
            work: count(&mut columns)?,
            kv_keys: count(&mut columns)?,
            kv_bytes: count(&mut columns)?,
        }))
    }

    async fn depths(&self) -> Result<FlowDepths, StoreError> {
        let core = &self.flow.core;
        let rows = core.general(DEPTHS, &core.sql.depths, &[]).await?;
        let Some(row) = rows.first() else { return Ok(FlowDepths::default()) };
        let mut columns = Columns::new(DEPTHS, row);
        let mut depths = FlowDepths {
            messages: count(&mut columns)?,
            work: count(&mut columns)?,
            leased_turns: count(&mut columns)?,
            leased_work: count(&mut columns)?,
            delayed: count(&mut columns)?,
            ..FlowDepths::default()
        };
        let states: Vec<String> = columns.take()?;
        let counts: Vec<i64> = columns.take()?;
        for (text, instances) in states.iter().zip(counts) {
            let state_text = state(text)?;
            let place = InstanceState::ALL.iter().position(|known| *known == state_text);
            let place = place.expect("all states are listed");
            depths.instances[place] = u64::try_from(instances).unwrap_or(0);
        }
        depths.executions = count(&mut columns)?;
        depths.events = count(&mut columns)?;
        Ok(depths)
    }
}
