//! Calls of maintenance, with planned faults.

use async_trait::async_trait;
use wakeline_store::{
    Backend, Maintenance, MaintenanceSet, QueueMaintenance, SetMaintenance, StoreError,
};

use super::FaultingStore;

passes! { QueueMaintenance:
    fn maintenance() -> Maintenance;
    fn set_maintenance(set: SetMaintenance) -> MaintenanceSet;
    fn held_messages() -> u64;
    fn release_held() -> u64;
}
