//! Maintenance, failing when told to.

use async_trait::async_trait;
use wakeline_store::{
    Maintenance, MaintenanceSet, QueueMaintenance, SetMaintenance, StoreError, WholeStore,
};

use super::FaultingStore;

passes! { QueueMaintenance:
    fn maintenance() -> Maintenance;
    fn set_maintenance(set: SetMaintenance) -> MaintenanceSet;
    fn held_messages() -> u64;
    fn release_held() -> u64;
}
