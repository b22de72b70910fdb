//! Maintenance mode: suspended pushes and pops, and messages held until it ends.
//!
//! # Where it sits
//! Pushes and claims read the state from their session, which caches it until another process
//! writes. Held messages are rows of `scheduled`.

use async_trait::async_trait;
use rusqlite::OptionalExtension as _;
use wakeline_store::{
    Maintenance, MaintenanceSet, PushGate, QueueMaintenance, SetMaintenance, StoreError,
};

use crate::SqliteStore;
use crate::command::WriteCommand;
use crate::error::{Res, corrupt};
use crate::queue::schedule;
use crate::session::DbSession;

/// Includes a statement from `sql/queries`.
macro_rules! sql {
    ($name:literal) => {
        include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/sql/queries/", $name, ".sql"))
    };
}

#[async_trait]
impl QueueMaintenance for SqliteStore {
    async fn maintenance(&self) -> Result<Maintenance, StoreError> {
        self.read("maintenance", |s| s.maintenance()).await
    }

    async fn set_maintenance(&self, wish: SetMaintenance) -> Result<MaintenanceSet, StoreError> {
        self.write(WriteCommand::new("set_maintenance", move |s| set(s, wish)).recorded()).await
    }

    async fn held_messages(&self) -> Result<u64, StoreError> {
        self.read("held_messages", |s| held(s)).await
    }

    async fn release_held(&self) -> Result<u64, StoreError> {
        self.write(WriteCommand::new("release_held", release)).await
    }
}

/// Reads the maintenance state.
pub(crate) fn read(s: &DbSession<'_>) -> Res<Maintenance> {
    let mut statement = s.conn.prepare_cached(sql!("maintenance_read"))?;
    let (pushes, pops_paused): (i64, bool) =
        statement.query_row([], |row| Ok((row.get(0)?, row.get(1)?)))?;
    let pushes = match pushes {
        0 => PushGate::Open,
        1 => PushGate::Hold,
        2 => PushGate::Refuse,
        other => return Err(corrupt("maintenance mode", other)("the mode must be from 0 to 2")),
    };
    Ok(Maintenance { pushes, pops_paused })
}

fn set(s: &mut DbSession<'_>, wish: SetMaintenance) -> Res<MaintenanceSet> {
    let before = s.maintenance()?;
    let now = wish.applied_to(before);
    let pushes = match now.pushes {
        PushGate::Open => 0,
        PushGate::Hold => 1,
        PushGate::Refuse => 2,
    };
    s.conn.prepare_cached(sql!("maintenance_write"))?.execute((pushes, now.pops_paused))?;
    s.forget_maintenance();
    s.hints.everything = true;
    Ok(MaintenanceSet { before, now })
}

fn held(s: &DbSession<'_>) -> Res<u64> {
    let count: i64 =
        s.conn.prepare_cached(sql!("maintenance_held"))?.query_row([], |row| row.get(0))?;
    Ok(u64::try_from(count).unwrap_or(0))
}

fn release(s: &mut DbSession<'_>) -> Res<u64> {
    let queue: Option<i64> = (s.conn.prepare_cached(sql!("maintenance_due"))?)
        .query_row([], |row| row.get(0))
        .optional()?;
    match queue.map(|queue| s.queue_by_id(queue)).transpose()?.flatten() {
        Some(queue) => schedule::move_due_of_queue(s, &queue),
        None => Ok(0),
    }
}
