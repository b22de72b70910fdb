//! How the need of an instance is spelled: the one place that both sides agree in.

use wakeline_core::{Capability, NameError, OrchestrationName};

/// What an instance of this orchestration needs: any of its versions, or a certain one.
pub fn capability(
    name: &OrchestrationName,
    version: Option<&str>,
) -> Result<Capability, NameError> {
    match version {
        Some(version) => Capability::new(format!("{name}@{version}")),
        None => Capability::new(name.as_str()),
    }
}
