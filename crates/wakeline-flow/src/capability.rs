//! How the capability that an instance needs is spelled. Clients, runtimes and stores all use this
//! function, so that they agree.

use wakeline_core::{Capability, NameError, OrchestrationName};

/// The capability that a worker needs to run this orchestration, in any version or in a particular
/// one.
pub fn capability(
    name: &OrchestrationName,
    version: Option<&str>,
) -> Result<Capability, NameError> {
    match version {
        Some(version) => Capability::new(format!("{name}@{version}")),
        None => Capability::new(name.as_str()),
    }
}
