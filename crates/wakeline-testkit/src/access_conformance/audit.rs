//! Rules of the audit log: an action is recorded together with its effect, and a call without an
//! effect is not recorded.

use std::time::Duration;

use bytes::Bytes;
use wakeline_core::{
    ApplicationRef, EndpointRef, GroupName, LeaseToken, QueueLine, QueueName, QueueOptions,
    RedriveId, Selector, Subscription,
};
use wakeline_store::flow::{
    DeleteInstances, InstanceFilter, InstanceState, PruneOptions, Suspension, TerminateInstance,
};
use wakeline_store::hook::{EndpointUpdate, Rotation};
use wakeline_store::{
    AuditFilter, ClaimRequest, ConfigureQueue, DeadLetterFilter, LineClaim, Redrive, Seek, SeekTo,
};

use super::AccessBench;
use crate::flow_conformance::{self, id, start};
use crate::hook_conformance::{application, endpoint, event, event_type, plain, uid};

fn queue() -> QueueName {
    QueueName::new("orders").expect("a name")
}

async fn configure(bench: &AccessBench) {
    let options = QueueOptions::default();
    let command = ConfigureQueue { queue: queue(), namespace: None, task: None, options };
    bench.store.configure(command).await.expect("configured");
}

async fn delete(bench: &AccessBench) -> bool {
    bench.store.delete_queue(&queue()).await.expect("deleted")
}

/// Creating, rotating and revoking a key leave one entry each; refused calls leave none.
pub async fn actions_on_keys_are_recorded(bench: &AccessBench) {
    let key = || AccessBench::new_key("k1", "a");
    assert!(bench.doing("create", bench.store.create_key(key())).await.expect("made"));
    assert!(
        !bench.doing("create again", bench.store.create_key(key())).await.expect("it is answered")
    );
    let rotate = || bench.store.rotate_key("k1", [7; 32], Duration::ZERO);
    assert!(bench.doing("rotate", rotate()).await.expect("rotated"));
    assert!(bench.doing("revoke", bench.store.revoke_key("k1")).await.expect("revoked"));
    assert!(
        !bench.doing("revoke again", bench.store.revoke_key("k1")).await.expect("it is answered")
    );
    assert!(!bench.doing("rotate again", rotate()).await.expect("it is answered"));
    assert_eq!(bench.actions().await, ["create", "rotate", "revoke"]);
    let entry = bench.entries().await.pop().expect("the first");
    assert_eq!((entry.actor.as_str(), entry.target.as_str()), ("key:tester", "it"));
    assert_eq!(entry.detail, "how");
    let made = bench.store.key("k1").await.expect("read").expect("there").created_at;
    assert_eq!(entry.at, made);
}

/// Configuring, moving groups and deleting are recorded if they had an effect.
pub async fn actions_on_queues_are_recorded(bench: &AccessBench) {
    let group = GroupName::new("g").expect("a name");
    let seek = || {
        let (group, queue) = (group.clone(), Some(queue()));
        bench.store.seek(Seek { group, queue, partition: None, to: SeekTo::End })
    };
    bench.doing("configure", configure(bench)).await;
    bench.doing("seek nothing", seek()).await.expect("it is answered");
    let request = ClaimRequest {
        token: LeaseToken::generate(),
        batch_len_max: 1,
        bytes_max: u64::MAX,
        partitions_len_max: 1,
        auto_ack: false,
        worker: Some("a worker".to_owned()),
    };
    let begin = LineClaim {
        line: QueueLine { selector: Selector::Queue(queue()), group: group.clone() },
        subscription: Subscription::All,
        requests: vec![request],
        further: false,
    };
    bench.doing("claim", bench.store.claim(vec![begin])).await.expect("claimed");
    bench.doing("seek", seek()).await.expect("moved");
    let gone = || bench.store.delete_group(&group, None);
    let everything = || bench.store.purge_dead_letters(DeadLetterFilter::default());
    bench.doing("purge nothing", everything()).await.expect("it is answered");
    let redrive = Redrive {
        id: RedriveId::generate(),
        filter: DeadLetterFilter::default(),
        to_queue: None,
        rate: None,
    };
    let job = redrive.id;
    bench.doing("redrive", bench.store.start_redrive(redrive)).await.expect("started");
    let cancel = |id| bench.store.cancel_redrive(id);
    bench.doing("cancel", cancel(job)).await.expect("stopped").expect("it is there");
    bench.doing("cancel again", cancel(job)).await.expect("it is answered");
    bench.doing("cancel nothing", cancel(RedriveId::generate())).await.expect("it is answered");
    bench.doing("delete group", gone()).await.expect("deleted");
    bench.doing("delete group again", gone()).await.expect("it is answered");
    assert!(bench.doing("delete", delete(bench)).await);
    assert!(!bench.doing("delete again", delete(bench)).await);
    let expected = ["configure", "seek", "redrive", "cancel", "delete group", "delete"];
    assert_eq!(bench.actions().await, expected);
}

/// Actions on orchestrations that do not exist have no effect and are not recorded.
pub async fn actions_on_orchestrations_are_recorded(bench: &AccessBench) {
    let instance = id("i");
    let begin = || bench.store.enqueue(vec![start("i")], Vec::new());
    begin().await.expect("started");
    bench.doing("start again", begin()).await.expect("it is there");
    let cancel = || bench.store.enqueue(vec![flow_conformance::event("i", "cancel")], Vec::new());
    bench.doing("cancel", cancel()).await.expect("it is answered");
    let suspend = || {
        let suspension = Suspension::Operator { reason: "because".to_owned() };
        bench.store.suspend(&instance, suspension)
    };
    assert!(bench.doing("suspend", suspend()).await.expect("held back"));
    assert!(!bench.doing("suspend again", suspend()).await.expect("it is answered"));
    bench.doing("resume", bench.store.resume(&instance)).await.expect("resumed");
    bench.doing("resume again", bench.store.resume(&instance)).await.expect("it is answered");
    let terminate = || {
        bench.store.terminate(TerminateInstance {
            instance: instance.clone(),
            state: InstanceState::Failed,
            output: Bytes::from_static(b"{}"),
            messages: Vec::new(),
            new_instance: Some(flow_conformance::new_instance("main")),
        })
    };
    bench.doing("terminate", terminate()).await.expect("ended");
    bench.doing("terminate again", terminate()).await.expect("it is answered");
    let delete = || {
        let instances = vec![instance.clone()];
        bench.store.delete_instances(DeleteInstances { instances, force: true })
    };
    bench.doing("delete", delete()).await.expect("deleted");
    bench.doing("delete nothing", delete()).await.expect("it is answered");
    let filter = InstanceFilter { limit: 10, ..InstanceFilter::default() };
    let purge = bench.store.delete_matching(filter.clone());
    bench.doing("purge nothing", purge).await.expect("it is answered");
    let prune = bench.store.prune(filter, PruneOptions::default());
    bench.doing("prune nothing", prune).await.expect("it is answered");
    assert_eq!(bench.actions().await, ["cancel", "suspend", "resume", "terminate", "delete"]);
}

/// Creating, changing and removing applications, endpoints and event types are recorded.
pub async fn actions_on_webhooks_are_recorded(bench: &AccessBench) {
    let store = &bench.store;
    let create = || store.create_application(application(Some("acme")), None);
    bench.doing("create", create()).await.expect("made");
    bench.doing("create again", create()).await.expect("it is answered");
    let own = |text| ApplicationRef::Own(uid(text));
    let (acme, unknown) = (own("acme"), own("unknown"));
    let change = |which| store.update_application(which, application(Some("acme")), None);
    bench.doing("change", change(&acme)).await.expect("changed");
    bench.doing("change unknown", change(&unknown)).await.expect("it is answered");
    let new = endpoint(plain());
    let place = EndpointRef::Id(new.id);
    bench.doing("endpoint", store.create_endpoint(&acme, new, None)).await.expect("made");
    let none = store.create_endpoint(&unknown, endpoint(plain()), None);
    bench.doing("no endpoint", none).await.expect("it is answered");
    let quiet = || EndpointUpdate { disabled: Some(true), ..EndpointUpdate::default() };
    bench.doing("disable", store.update_endpoint(&acme, &place, quiet())).await.expect("done");
    let rotation = |old_max| Rotation {
        encrypted: Bytes::from_static(b"encrypted"),
        grace: Duration::from_secs(60),
        old_max,
    };
    bench.doing("rotate", store.rotate_secret(&acme, &place, rotation(1))).await.expect("done");
    bench
        .doing("too many", store.rotate_secret(&acme, &place, rotation(1)))
        .await
        .expect("it is answered");
    let gone = || store.delete_endpoint(&acme, &place);
    bench.doing("delete endpoint", gone()).await.expect("deleted");
    bench.doing("delete endpoint again", gone()).await.expect("it is answered");
    bench
        .doing("delete unknown", store.delete_application(&unknown))
        .await
        .expect("it is answered");
    bench.doing("delete", store.delete_application(&acme)).await.expect("deleted");
    let name = event("user.created");
    bench.doing("no type", store.delete_event_type(&name)).await.expect("it is answered");
    bench.doing("type", store.put_event_type(event_type("user.created"))).await.expect("put");
    bench.doing("delete type", store.delete_event_type(&name)).await.expect("deleted");
    let (made, ended) = (
        ["create", "change", "endpoint", "disable", "rotate"],
        ["delete endpoint", "delete", "type", "delete type"],
    );
    assert_eq!(bench.actions().await, [&made[..], &ended[..]].concat());
}

/// A call outside of any audit action leaves no entry.
pub async fn calls_without_an_audit_action_are_not_recorded(bench: &AccessBench) {
    configure(bench).await;
    assert!(delete(bench).await);
    assert!(bench.store.create_key(AccessBench::new_key("k1", "a")).await.expect("made"));
    assert_eq!(bench.actions().await, [] as [&str; 0]);
}

/// Entries are listed newest first, filtered by actor, action and target, in pages.
pub async fn the_audit_is_listed_by_what_and_who_in_pages(bench: &AccessBench) {
    for _ in 0..3 {
        bench.doing("configure", configure(bench)).await;
    }
    bench.doing("delete", delete(bench)).await;
    let list = async |filter: AuditFilter| {
        let entries = bench.store.audit(filter).await.expect("listed");
        entries.into_iter().map(|entry| (entry.number, entry.action)).collect::<Vec<_>>()
    };
    let all = AuditFilter { limit: 100, ..AuditFilter::default() };
    let whole = list(all.clone()).await;
    assert!(whole.is_sorted_by(|a, b| a.0 > b.0) && whole.len() == 4, "{whole:?}");
    let two = list(AuditFilter { limit: 2, ..all.clone() }).await;
    assert_eq!(two, whole[..2]);
    let rest = list(AuditFilter { before: Some(two[1].0), ..all.clone() }).await;
    assert_eq!(rest, whole[2..]);
    let of = |action: Option<&str>, actor: Option<&str>, target: Option<&str>| {
        let [action, actor, target] = [action, actor, target].map(|text| text.map(str::to_owned));
        list(AuditFilter { action, actor, target, ..all.clone() })
    };
    assert_eq!(of(Some("delete"), None, None).await, whole[..1]);
    assert_eq!(of(None, Some("key:tester"), Some("it")).await, whole);
    assert_eq!(of(None, Some("key:other"), None).await, []);
    assert_eq!(of(None, None, Some("that")).await, []);
}

/// Entries older than a span are removed, the oldest first, up to a limit per call.
pub async fn old_entries_go_first_and_only_so_many(bench: &AccessBench) {
    for _ in 0..3 {
        bench.doing("old", configure(bench)).await;
    }
    bench.pass(100).await;
    bench.doing("new", configure(bench)).await;
    let prune = async |secs, limit| {
        bench.store.prune_audit(Duration::from_secs(secs), limit).await.expect("pruned")
    };
    assert_eq!(prune(100, 10).await, 0);
    assert_eq!(prune(99, 2).await, 2);
    assert_eq!(bench.actions().await, ["old", "new"]);
    assert_eq!((prune(99, 2).await, prune(99, 2).await), (1, 0));
    assert_eq!(bench.actions().await, ["new"]);
}
