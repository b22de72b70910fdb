//! Maintenance mode: reading and setting it, and releasing the messages that were held during it.
//!
//! # Where it sits
//! Implements `QueueMaintenance`. The SQL functions of push and claim enforce the mode; here its
//! row is only read and written. Held messages are rows of `scheduled`.

use async_trait::async_trait;
use wakeline_store::{
    Maintenance, MaintenanceSet, PushGate, QueueMaintenance, SetMaintenance, StoreError,
};

use crate::PostgresStore;
use crate::access::Act;
use crate::admin::count;
use crate::rows::{self, Columns};

const OPERATION: &str = "maintenance";

#[async_trait]
impl QueueMaintenance for PostgresStore {
    async fn maintenance(&self) -> Result<Maintenance, StoreError> {
        let core = &self.queue.core;
        let rows = core.reserved(OPERATION, &core.sql.maintenance_get, &[]).await?;
        let row = rows.first().ok_or_else(missing)?;
        read(&mut Columns::new(OPERATION, row))
    }

    async fn set_maintenance(&self, set: SetMaintenance) -> Result<MaintenanceSet, StoreError> {
        let core = &self.queue.core;
        let params: crate::connect::Params<'_> = &[&set.pushes.map(code), &set.pops_paused];
        let (sql, changed) = (&core.sql.maintenance_set, Act::said);
        let rows = core.recorded(Act { operation: OPERATION, sql, params, changed }).await?;
        let row = rows.first().ok_or_else(missing)?;
        let mut columns = Columns::new(OPERATION, row);
        columns.skip(1);
        let set = MaintenanceSet { before: read(&mut columns)?, now: read(&mut columns)? };
        self.shared.notifier.notify_all();
        Ok(set)
    }

    async fn held_messages(&self) -> Result<u64, StoreError> {
        let core = &self.queue.core;
        let rows = core.general(OPERATION, &core.sql.maintenance_held, &[]).await?;
        rows.first().map_or(Ok(0), |row| Columns::new(OPERATION, row).take().map(count))
    }

    async fn release_held(&self) -> Result<u64, StoreError> {
        if self.maintenance().await?.pushes != PushGate::Open {
            return Ok(0);
        }
        let core = &self.queue.core;
        let rows = core.general(OPERATION, &core.sql.maintenance_due, &[]).await?;
        let mut partitions: Vec<i64> = Vec::with_capacity(rows.len());
        for row in &rows {
            partitions.push(Columns::new(OPERATION, row).take()?);
        }
        if partitions.is_empty() {
            return Ok(0);
        }
        core.move_due_in(&partitions).await
    }
}

fn read(columns: &mut Columns<'_>) -> Result<Maintenance, StoreError> {
    let pushes = match columns.take::<i16>()? {
        0 => PushGate::Open,
        1 => PushGate::Hold,
        2 => PushGate::Refuse,
        other => {
            return Err(rows::corrupt(
                "maintenance mode",
                other.to_string(),
                "the mode must be from 0 to 2",
            ));
        }
    };
    Ok(Maintenance { pushes, pops_paused: columns.take()? })
}

fn code(gate: PushGate) -> i16 {
    match gate {
        PushGate::Open => 0,
        PushGate::Hold => 1,
        PushGate::Refuse => 2,
    }
}

fn missing() -> StoreError {
    rows::corrupt("maintenance", "row", "the only row of the table is missing")
}
