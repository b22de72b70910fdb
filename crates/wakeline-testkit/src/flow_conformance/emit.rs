//! Rules of webhook messages that a turn emits in its own commit.

use bytes::Bytes;
use wakeline_core::{
    ApplicationId, ApplicationRef, EndpointId, EventId, HookChangeKind, HookMessageId,
};
use wakeline_store::flow::{TurnCommit, TurnOutcome};
use wakeline_store::hook::{EmitOutcome, EventType, HookMessageFilter, NewEndpoint, NewMessage};

use super::{FlowBench, batch, event, push, step};
use crate::hook_conformance as hook;

/// Creates an application in the store.
async fn application(bench: &FlowBench) -> ApplicationId {
    let new = hook::application(None);
    let id = new.id;
    bench.hooks.create_application(new, None).await.expect("an application is made");
    id
}

async fn endpoint(bench: &FlowBench, application: ApplicationId, new: NewEndpoint) -> EndpointId {
    let (of, id) = (ApplicationRef::Id(application), new.id);
    bench.hooks.create_endpoint(&of, new, None).await.expect("an endpoint is made");
    id
}

/// A message whose event id names a decision.
fn decided(application: ApplicationId, decision: &str) -> NewMessage {
    let event_id = Some(EventId::parse(decision).expect("a valid id"));
    NewMessage { event_id, ..hook::message(application) }
}

/// Lists the messages of an application, oldest first.
async fn stored(bench: &FlowBench, application: ApplicationId) -> Vec<HookMessageId> {
    let (filter, page) = (HookMessageFilter::default(), hook::first(100));
    let page = bench.hooks.messages(application, filter, page).await.expect("messages are listed");
    page.items.into_iter().map(|message| message.id).collect()
}

/// Claims the messages that can be sent now and returns them in order. They stay leased.
async fn sent(bench: &FlowBench, attempts: usize) -> Vec<(EndpointId, HookMessageId)> {
    let claim = hook::push(vec![hook::request(attempts)]);
    let claimed = bench.hooks.claim_deliveries(vec![claim]).await.expect("deliveries are claimed");
    let groups = claimed.into_iter().flat_map(|line| line.groups).flatten();
    let of = |group: wakeline_store::hook::DeliveryGroup| {
        let endpoint = group.target.endpoint;
        group.items.into_iter().map(move |item| (endpoint, item.message))
    };
    groups.flat_map(of).collect()
}

/// Emits messages from a turn of a running instance.
async fn emitted(bench: &FlowBench, emits: Vec<NewMessage>) -> Vec<EmitOutcome> {
    let reply = bench.turned("a", |turn| TurnCommit { emits, ..step(turn) }).await;
    match reply.outcome {
        TurnOutcome::Committed { emits, .. } => emits,
        other => panic!("{other:?}"),
    }
}

/// Rule 12: the commit stores message and deliveries and notifies senders.
pub async fn what_a_turn_emits_is_there_with_its_commit(bench: &FlowBench) {
    let app = application(bench).await;
    let to = endpoint(bench, app, hook::endpoint(hook::plain())).await;
    bench.running("a").await;
    let message = decided(app, "flow.1");
    let (id, payload) = (message.id, message.payload.clone());
    let emits = vec![message];
    let pushes = vec![push("q", "beside")];
    let reply = bench.turned("a", |turn| TurnCommit { emits, pushes, ..step(turn) }).await;
    let TurnOutcome::Committed { emits, pushes, .. } = &reply.outcome else { panic!("{reply:?}") };
    let [EmitOutcome::Stored(stored, 1)] = &emits[..] else { panic!("{emits:?}") };
    assert_eq!((stored.id, pushes.len()), (id, 1));
    let push_now = |what: &HookChangeKind| *what == HookChangeKind::Push;
    let change_now = reply.hook_changes.iter().find(|change| push_now(&change.what));
    assert!(change_now.is_some_and(|change| change.due_in.is_zero()), "{:?}", reply.hook_changes);
    let claim = hook::push(vec![hook::request(3)]);
    let claimed = bench.hooks.claim_deliveries(vec![claim]).await.expect("deliveries are claimed");
    let groups = &claimed[0].groups[0];
    let [group] = &groups[..] else { panic!("{groups:?}") };
    assert_eq!((group.target.endpoint, group.items[0].message), (to, id));
    assert_eq!(group.items[0].payload.as_ref(), Some(&payload));
    assert_eq!(bench.popped("q").await, ["beside"]);
}

/// Rules 1 and 2: a turn that is not committed emits nothing.
pub async fn a_refused_turn_emits_nothing(bench: &FlowBench) {
    let app = application(bench).await;
    endpoint(bench, app, hook::endpoint(hook::plain())).await;
    bench.running("a").await;
    bench.send(vec![event("a", "x")]).await;
    let turn = bench.turn().await;
    let emits = vec![decided(app, "flow.1")];
    let wrong = TurnCommit { emits: emits.clone(), history: Some(batch(7, 7)), ..step(&turn) };
    assert_eq!(bench.commit(wrong).await, TurnOutcome::Conflict { last_event: 1 });
    bench.advance(30).await;
    bench.stale(TurnCommit { emits: emits.clone(), ..step(&turn) }).await;
    assert_eq!(stored(bench, app).await, []);
    assert_eq!(sent(bench, 3).await, []);
    let turn = bench.turn().await;
    let id = emits[0].id;
    bench.committed(TurnCommit { emits, ..step(&turn) }).await;
    assert_eq!(stored(bench, app).await, [id]);
}

/// Rule 12: a decision that is replayed finds its message and stores no second one.
pub async fn a_decision_emits_once(bench: &FlowBench) {
    let app = application(bench).await;
    endpoint(bench, app, hook::endpoint(hook::plain())).await;
    bench.running("a").await;
    let (first, again) = (decided(app, "flow.1"), decided(app, "flow.1"));
    let other = decided(app, "flow.2");
    let outcomes = emitted(bench, vec![first.clone(), again.clone(), other.clone()]).await;
    let [EmitOutcome::Stored(..), EmitOutcome::Taken(taken), EmitOutcome::Stored(..)] =
        &outcomes[..]
    else {
        panic!("{outcomes:?}")
    };
    assert_eq!(taken.id, first.id);
    let outcomes = emitted(bench, vec![again, first.clone()]).await;
    let [EmitOutcome::Taken(taken), EmitOutcome::Repeated(same)] = &outcomes[..] else {
        panic!("{outcomes:?}")
    };
    assert_eq!((taken.id, same.id), (first.id, first.id));
    assert_eq!(stored(bench, app).await, [first.id, other.id]);
    assert_eq!(sent(bench, 9).await.len(), 2);
}

/// Rule 12: filters and channels select the endpoints, as for any emit.
pub async fn filters_say_who_gets_what_a_turn_emits(bench: &FlowBench) {
    let app = application(bench).await;
    let all = hook::endpoint(hook::plain());
    let paid = NewEndpoint { event_types: hook::patterns(&[hook::PAID]), ..all.clone() };
    let paid = endpoint(bench, app, NewEndpoint { id: EndpointId::generate(), ..paid }).await;
    let north = NewEndpoint { channels: hook::channels(&["north"]), ..all.clone() };
    let north = endpoint(bench, app, NewEndpoint { id: EndpointId::generate(), ..north }).await;
    let all = endpoint(bench, app, all).await;
    bench.running("a").await;
    let sale = decided(app, "flow.1");
    let back = NewMessage { event_type: hook::event("order.back"), ..decided(app, "flow.2") };
    let back = NewMessage { channels: hook::channels(&["north"]), ..back };
    let outcomes = emitted(bench, vec![sale.clone(), back.clone()]).await;
    let counts = outcomes.iter().map(|outcome| match outcome {
        EmitOutcome::Stored(_, deliveries) => *deliveries,
        other => panic!("{other:?}"),
    });
    assert_eq!(counts.collect::<Vec<_>>(), [2, 2]);
    let mut got = sent(bench, 9).await;
    let mut expected = [(paid, sale.id), (all, sale.id), (all, back.id), (north, back.id)];
    got.sort();
    expected.sort();
    assert_eq!(got, expected);
}

/// Rule 12: a message to an unknown application is reported, and the rest of the commit succeeds.
pub async fn an_emit_to_an_unknown_application_is_reported_and_dropped(bench: &FlowBench) {
    let app = application(bench).await;
    bench.running("a").await;
    let known = decided(app, "flow.2");
    let lost = decided(ApplicationId::generate(), "flow.1");
    let outcomes = emitted(bench, vec![lost.clone(), known.clone()]).await;
    assert!(
        matches!(outcomes[..], [EmitOutcome::NoApplication, EmitOutcome::Stored(_, 0)]),
        "{outcomes:?}"
    );
    assert_eq!(stored(bench, app).await, [known.id]);
    assert_eq!(bench.no_turn().await, None, "the turn is committed");
}

/// Rule 12: a message that violates the enforced schema of its event type is reported, and the rest
/// of the commit succeeds.
pub async fn an_emit_that_does_not_fit_its_event_type_is_reported_and_dropped(bench: &FlowBench) {
    let app = application(bench).await;
    bench.running("a").await;
    let schemas = br#"{"1": false, "2": {"type": "object", "required": ["total"]}}"#;
    let payload = |text: &'static str| Bytes::from_static(text.as_bytes());
    for (round, enforced) in [true, false].into_iter().enumerate() {
        let of = |n: usize, text| {
            let decision = format!("flow.{round}.{n}");
            NewMessage { payload: payload(text), ..decided(app, &decision) }
        };
        let schemas = Some(Bytes::from_static(schemas));
        let paid = EventType { schemas, enforced, ..hook::event_type(hook::PAID) };
        bench.hooks.put_event_type(paid).await.expect("an event type is put");
        let before = stored(bench, app).await.len();
        let free = NewMessage { event_type: hook::event("order.back"), ..of(1, r#"{"n": 1}"#) };
        let sent = vec![of(0, r#"{"total": 7}"#), free, of(2, r#"{"n": "secret"}"#), of(3, "[]")];
        let outcomes = emitted(bench, sent).await;
        let kept = |outcome: &EmitOutcome| matches!(outcome, EmitOutcome::Stored(_, 0));
        let kept: Vec<bool> = outcomes.iter().map(kept).collect();
        assert_eq!(kept, [true, true, !enforced, !enforced], "{outcomes:?}");
        let reasons = outcomes.iter().filter_map(|outcome| match outcome {
            EmitOutcome::Refused(reason) => Some(reason),
            _ => None,
        });
        for reason in reasons {
            assert!(reason.contains(hook::PAID) && !reason.contains("secret"), "{reason}");
        }
        assert_eq!(stored(bench, app).await.len() - before, if enforced { 2 } else { 4 });
        assert_eq!(bench.no_turn().await, None, "the turn is committed");
    }
}

/// Messages of turns are delivered in the order of their turns, and within a turn in the order of
/// emitting.
pub async fn messages_that_turns_emit_keep_their_order(bench: &FlowBench) {
    let app = application(bench).await;
    endpoint(bench, app, hook::endpoint(hook::fifo(9))).await;
    bench.running("a").await;
    let messages: Vec<_> = (0..5).map(|n| decided(app, &format!("flow.{n}"))).collect();
    // This is not the order of their ids.
    let order = [3, 0, 4, 1, 2].map(|n: usize| messages[n].clone());
    emitted(bench, order[..3].to_vec()).await;
    emitted(bench, order[3..].to_vec()).await;
    let got: Vec<_> = sent(bench, 9).await.into_iter().map(|(_, message)| message).collect();
    assert_eq!(got, order.map(|message| message.id));
}
