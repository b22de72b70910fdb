//! Finds calls of names that no process runs, as far as this one knows.

use super::Shared;
use crate::event::{Event, EventKind};

/// What is wrong with the first decision of a turn that calls an activity, or starts a child, which
/// is neither registered here nor said to run elsewhere; `None` if there is no such.
///
/// An activity that this runtime would not take by its tag is for others anyway.
pub(super) fn find(shared: &Shared, events: &[Event]) -> Option<String> {
    let (registry, tags) = (&shared.registry, &shared.options.tags);
    events.iter().find_map(|event| match &event.kind {
        EventKind::ActivityScheduled { name, tag, .. }
            if tags.allows(tag.as_ref()) && !registry.expects_activity(name) =>
        {
            let nearest = registry.nearest_activity(name);
            Some(Call { what: "activity", method: "activity", name, nearest }.reason(event))
        }
        EventKind::ChildStarted { name, .. } if !registry.expects_orchestration(name.as_str()) => {
            let (name, nearest) = (name.as_str(), registry.nearest_orchestration(name.as_str()));
            Some(Call { what: "child", method: "orchestration", name, nearest }.reason(event))
        }
        _ => None,
    })
}

/// A call of a name that is not registered.
struct Call<'a> {
    what: &'a str,
    /// How it is registered.
    method: &'a str,
    name: &'a str,
    nearest: Option<&'a str>,
}

impl Call<'_> {
    fn reason(&self, event: &Event) -> String {
        let Self { what, method, name, nearest } = self;
        let at = event.at.as_deref().map(|at| format!(" at {at}")).unwrap_or_default();
        let meant = nearest.map(|meant| format!(" (did you mean `{meant}`?)")).unwrap_or_default();
        format!(
            "the code calls {what} `{name}`{at}, which is not registered in this process{meant}: \
             register it with `{method}`, or say with `{method}_elsewhere` that other processes \
             run it; the instance goes on when a runtime with such a registry starts, or when it \
             is resumed"
        )
    }
}
