//! Tests that log lines of the code are written once.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Metadata, Subscriber};
use wakeline_flow::{FlowError, OrchestrationContext};

use crate::script::{Script, completed, done, registry};

/// Counts log events and spans of orchestrations.
#[derive(Clone, Default)]
struct Counter {
    events: Arc<AtomicUsize>,
    spans: Arc<AtomicUsize>,
}

impl Subscriber for Counter {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }
    fn new_span(&self, span: &Attributes<'_>) -> Id {
        if span.metadata().name() == "orchestration" {
            self.spans.fetch_add(1, Ordering::Relaxed);
        }
        Id::from_u64(1)
    }
    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn event(&self, _: &Event<'_>) {
        self.events.fetch_add(1, Ordering::Relaxed);
    }
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}

#[test]
fn replays_are_silent() {
    let flow = |ctx: OrchestrationContext, (): ()| async move {
        ctx.info("with the context");
        tracing::warn!("without it");
        ctx.activity::<_, ()>("a", ()).await?;
        ctx.warn("second");
        ctx.activity::<_, ()>("b", ()).await?;
        ctx.error("third");
        Ok::<_, FlowError>(ctx.is_replaying())
    };
    let counter = Counter::default();
    tracing::subscriber::with_default(counter.clone(), || {
        let mut script = Script::new(&registry(|r| r.orchestration("flow", flow)), ());
        script.forgetful = true;
        script.turn(vec![]);
        assert_eq!(counter.events.load(Ordering::Relaxed), 2);
        let turn = script.turn(vec![done(3, ())]);
        assert_eq!(counter.events.load(Ordering::Relaxed), 3);
        let turn = script.turn(vec![done(turn.effects.activities[0].event, ())]);
        assert_eq!(turn.end, completed(false));
        assert_eq!(counter.events.load(Ordering::Relaxed), 4);
        assert_eq!(counter.spans.load(Ordering::Relaxed), 3);
    });
}
