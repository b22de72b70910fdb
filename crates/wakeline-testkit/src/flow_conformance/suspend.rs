//! Rules of suspending instances.

use wakeline_core::{Capabilities, FlowChange};
use wakeline_store::StoreError;
use wakeline_store::flow::{FlowAdmin, InstanceState, RenewOutcome, Suspension};

use super::{
    FlowBench, LEASE, MAIN, capabilities, event, id, main_line, secs, start_of, step, texts,
};

fn operator() -> Suspension {
    Suspension::Operator { reason: "for a look".to_owned() }
}

fn mismatch() -> Suspension {
    Suspension::Mismatch { reason: "the code has changed".to_owned() }
}

/// Retries mismatched instances, piece by piece, until none is left.
pub(crate) async fn retry_all(
    flow: &(impl FlowAdmin + ?Sized),
    capabilities: Capabilities,
) -> Result<(u64, Vec<FlowChange>), StoreError> {
    let (mut count, mut changes, mut place) = (0, Vec::new(), None);
    loop {
        let piece = flow.retry_mismatched(capabilities.clone(), place).await?;
        count += piece.count;
        changes.extend(piece.changes);
        place = piece.next;
        if place.is_none() {
            return Ok((count, changes));
        }
    }
}

impl FlowBench {
    pub(super) async fn retry_mismatched(
        &self,
        capabilities: Capabilities,
    ) -> (u64, Vec<FlowChange>) {
        retry_all(&*self.flow, capabilities).await.expect("it is answered")
    }

    async fn suspend(&self, instance: &str, suspension: Suspension) -> bool {
        self.flow.suspend(&id(instance), suspension).await.expect("it is answered")
    }

    async fn resume(&self, instance: &str) -> bool {
        self.flow.resume(&id(instance)).await.expect("it is answered").0
    }
}

/// Rule 1: messages are stored, but no turn is claimed.
pub async fn a_suspended_instance_gets_messages_and_no_turns(bench: &FlowBench) {
    bench.running("a").await;
    assert!(bench.suspend("a", operator()).await);
    let detail = bench.detail("a").await;
    assert_eq!(detail.suspended.as_deref(), Some("for a look"));
    assert_eq!(detail.state, InstanceState::Running);
    bench.send(vec![event("a", "one"), event("a", "two")]).await;
    assert_eq!(bench.no_turn().await, None);
    assert_eq!(bench.no_turn_of(&Capabilities::Any).await, None);
    assert_eq!(bench.sweep(main_line()).await, None);
    bench.advance(100).await;
    assert!(bench.resume("a").await);
    assert_eq!(bench.detail("a").await.suspended, None);
    assert_eq!(texts(&bench.turn().await), ["one", "two"]);
}

/// Rule 1: the lease of a turn ends, and its attempt is not counted.
pub async fn suspending_ends_a_lease_uncounted(bench: &FlowBench) {
    bench.running("a").await;
    bench.send(vec![event("a", "x")]).await;
    let turn = bench.turn().await;
    assert!(bench.suspend("a", operator()).await);
    bench.stale(step(&turn)).await;
    assert_eq!(bench.renew(turn.token, 30).await, RenewOutcome::Stale);
    assert_eq!(bench.no_turn().await, None);
    bench.resume("a").await;
    let again = bench.turn().await;
    assert_eq!((again.attempt, again.last_event), (1, 1));
}

/// Rule 1: only existing instances that have not ended can be suspended.
pub async fn ended_and_unknown_instances_cannot_be_suspended(bench: &FlowBench) {
    bench.completed("ended").await;
    bench.send(vec![event("lane", "early")]).await;
    for name in ["ended", "lane", "unknown"] {
        assert!(!bench.suspend(name, operator()).await, "{name}");
    }
    bench.running("a").await;
    assert!(bench.suspend("a", operator()).await);
    assert!(!bench.suspend("a", mismatch()).await, "it is already");
    assert_eq!(bench.detail("a").await.suspended.as_deref(), Some("for a look"));
}

/// Rule 1: a pending instance can be suspended.
pub async fn a_pending_instance_can_be_suspended(bench: &FlowBench) {
    bench.start("a").await;
    assert!(bench.suspend("a", operator()).await);
    assert!(bench.is_pending("a").await);
    assert_eq!(bench.detail("a").await.suspended.as_deref(), Some("for a look"));
    assert_eq!(bench.no_turn().await, None);
    assert!(bench.resume("a").await);
    assert_eq!(bench.turn().await.attempt, 1);
}

/// Rule 2: the answer reports whether the instance was suspended.
pub async fn resuming_an_instance_that_is_not_suspended_is_reported(bench: &FlowBench) {
    bench.running("a").await;
    assert!(!bench.resume("a").await);
    assert!(!bench.resume("unknown").await);
    assert!(bench.suspend("a", operator()).await);
    assert!(bench.resume("a").await);
    assert!(!bench.resume("a").await);
}

/// Rule 2: timers continue.
pub async fn a_resumed_instance_is_due_for_its_timers(bench: &FlowBench) {
    bench.running("a").await;
    let timer = wakeline_store::flow::Envelope { visible: super::after(20), ..event("a", "timer") };
    bench.send(vec![timer]).await;
    bench.suspend("a", operator()).await;
    bench.advance(5).await;
    bench.resume("a").await;
    assert_eq!(bench.no_turn().await, Some(secs(15)));
    bench.advance(15).await;
    assert_eq!(texts(&bench.turn().await), ["timer"]);
}

/// The holder of a turn may suspend its instance.
pub async fn a_turn_may_suspend_its_instance(bench: &FlowBench) {
    bench.running("a").await;
    bench.send(vec![event("a", "x")]).await;
    let turn = bench.turn().await;
    let suspend =
        async || bench.flow.suspend_turn(turn.token, mismatch()).await.expect("it is answered");
    assert!(suspend().await);
    assert_eq!(bench.detail("a").await.suspended.as_deref(), Some("the code has changed"));
    assert!(!suspend().await, "the lease is not held any more");
    bench.stale(step(&turn)).await;
    bench.resume("a").await;
    let again = bench.turn().await;
    assert_eq!((again.attempt, texts(&again)), (1, vec!["x".to_owned()]), "uncounted");
}

/// The holder of the first turn may do so: the instance stays pending and shows the reason.
pub async fn a_first_turn_may_suspend_its_instance(bench: &FlowBench) {
    bench.start("a").await;
    let turn = bench.turn().await;
    assert!(bench.flow.suspend_turn(turn.token, mismatch()).await.expect("it is answered"));
    let detail = bench.detail("a").await;
    assert_eq!(detail.state, InstanceState::Pending);
    assert_eq!(detail.suspended.as_deref(), Some("the code has changed"));
}

/// The holder of a stale turn may not do so.
pub async fn a_stale_turn_cannot_suspend_its_instance(bench: &FlowBench) {
    bench.running("a").await;
    bench.send(vec![event("a", "x")]).await;
    let stale = bench.turn().await;
    bench.advance(30).await;
    bench.turn().await;
    assert!(!bench.flow.suspend_turn(stale.token, mismatch()).await.expect("answered"));
    assert_eq!(bench.detail("a").await.suspended, None);
    assert_eq!(bench.no_turn().await, Some(LEASE));
}

/// Rule 2: instances that are suspended for a mismatch are resumed if a dispatcher with their
/// capability requests it.
pub async fn mismatched_instances_are_retried_by_fitting_code(bench: &FlowBench) {
    for (name, needed) in [("a", "one"), ("b", "two"), ("c", "one"), ("d", "one")] {
        bench.send(vec![start_of(name, needed)]).await;
    }
    assert!(bench.suspend("a", mismatch()).await);
    assert!(bench.suspend("b", mismatch()).await);
    assert!(bench.suspend("c", operator()).await);
    let retry = async |names: &[&str]| bench.retry_mismatched(capabilities(names)).await.0;
    assert_eq!(retry(&[MAIN]).await, 0);
    assert_eq!(retry(&["one"]).await, 1);
    assert_eq!(retry(&["one"]).await, 0);
    let line = capabilities(&["one", "two"]);
    let mut got = [bench.turn_of(&line).await.instance, bench.turn_of(&line).await.instance]
        .map(String::from);
    got.sort();
    assert_eq!(got, ["a", "d"]);
    assert_eq!(bench.no_turn_of(&line).await, Some(LEASE));
    let (resumed, _) = bench.retry_mismatched(wakeline_core::Capabilities::Any).await;
    assert_eq!(resumed, 1, "the operator's stays");
}

/// Activities of a suspended instance are run.
pub async fn activities_of_a_suspended_instance_go_on(bench: &FlowBench) {
    bench.running("a").await;
    bench.add_work(super::work("a", 1)).await;
    bench.suspend("a", operator()).await;
    let item = bench.work(&super::Worker::plain()).await;
    assert_eq!(item.state, Some(InstanceState::Running));
    bench.complete(item.token, Some(event("a", "done"))).await;
    assert_eq!(bench.no_turn().await, None);
    bench.resume("a").await;
    assert_eq!(texts(&bench.turn().await), ["done"]);
}
