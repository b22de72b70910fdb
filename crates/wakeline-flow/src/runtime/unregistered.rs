//! Finds calls of names that, as far as this process knows, no process runs.

use super::RuntimeShared;
use crate::event::{Event, EventKind};

/// Describes the first decision of a turn that calls an activity or starts a child which is neither
/// registered here nor declared to run elsewhere; `None` if there is none.
///
/// Activities whose tag this runtime does not accept are not checked: other processes run them.
pub(super) fn find(shared: &RuntimeShared, events: &[Event]) -> Option<String> {
    let (registry, tags) = (&shared.registry, &shared.options.tags);
    events.iter().find_map(|event| match &event.kind {
        EventKind::ActivityScheduled { name, tag, .. }
            if tags.allows(tag.as_ref()) && !registry.expects_activity(name) =>
        {
            let nearest = registry.nearest_activity(name);
            Some(
                UnregisteredCall { what: "activity", method: "activity", name, nearest }
                    .reason(event),
            )
        }
        EventKind::ChildStarted { name, .. } if !registry.expects_orchestration(name.as_str()) => {
            let (name, nearest) = (name.as_str(), registry.nearest_orchestration(name.as_str()));
            Some(
                UnregisteredCall { what: "child", method: "orchestration", name, nearest }
                    .reason(event),
            )
        }
        _ => None,
    })
}

/// A call of a name that is not registered.
struct UnregisteredCall<'a> {
    what: &'a str,
    /// The method of the builder that registers such a name.
    method: &'a str,
    name: &'a str,
    nearest: Option<&'a str>,
}

impl UnregisteredCall<'_> {
    fn reason(&self, event: &Event) -> String {
        let Self { what, method, name, nearest } = self;
        let at = event.at.as_deref().map(|at| format!(" at {at}")).unwrap_or_default();
        let meant = nearest.map(|meant| format!(" (did you mean `{meant}`?)")).unwrap_or_default();
        format!(
            "the code calls {what} `{name}`{at}, which is not registered in this process{meant}: \
             register it with `{method}`, or declare with `{method}_elsewhere` that other \
             processes run it; the instance continues when a runtime with such a registry starts, \
             or when it is resumed"
        )
    }
}
