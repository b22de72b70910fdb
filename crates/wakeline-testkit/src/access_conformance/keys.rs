//! Rules of API keys: created, found, rotated, revoked, used.

use std::time::Duration;

use bytes::Bytes;
use wakeline_core::{
    GroupId, GroupName, MessageId, PartitionId, PartitionName, QueueName, TransactionId,
};
use wakeline_store::{ApiKey, NewKey, PushItem, PushOutcome};

use super::AccessBench;
use crate::conformance::ClaimSpec;

async fn made(bench: &AccessBench, key: NewKey) -> ApiKey {
    let id = key.id.clone();
    assert!(bench.store.create_key(key).await.expect("a key is made"));
    found(bench, &id).await
}

async fn found(bench: &AccessBench, id: &str) -> ApiKey {
    bench.store.key(id).await.expect("a key is read").expect("it is there")
}

/// A key has everything that it was created with, and the time of its creation by the store's
/// clock.
pub async fn a_key_shows_what_it_was_created_with(bench: &AccessBench) {
    let scopes = ["queue:push:a b.*", "*:read:é*"].map(|text| text.parse().expect("a scope"));
    let new = NewKey {
        scopes: scopes.to_vec(),
        valid_for: Some(Duration::from_secs(60)),
        ..AccessBench::new_key("k1", "deploy 'é'")
    };
    let key = made(bench, new.clone()).await;
    assert_eq!((&key.name, &key.scopes, key.digest), (&new.name, &new.scopes, new.digest));
    assert_eq!(key.expires_at, Some(key.created_at.plus(Duration::from_secs(60))));
    assert_eq!((key.former, key.last_used_at, key.revoked_at), (None, None, None));
    assert_eq!(key.read_at, key.created_at);
    bench.pass(90).await;
    let later = found(bench, "k1").await;
    assert_eq!(later.read_at, key.created_at.plus(Duration::from_secs(90)));
    let other = made(bench, AccessBench::new_key("k2", "another")).await;
    assert_eq!(other.expires_at, None);
    let all = bench.store.keys().await.expect("keys are listed");
    assert_eq!(all.iter().map(|key| key.id.as_str()).collect::<Vec<_>>(), ["k2", "k1"]);
    assert_eq!(bench.store.key("k3").await.expect("read"), None);
}

/// Names of active keys are unique; the name of a revoked key can be used again.
pub async fn a_name_is_free_again_once_its_key_is_revoked(bench: &AccessBench) {
    made(bench, AccessBench::new_key("k1", "ci")).await;
    let again = AccessBench::new_key("k2", "ci");
    assert!(!bench.store.create_key(again.clone()).await.expect("it is answered"));
    assert_eq!(bench.store.key("k2").await.expect("read"), None);
    assert!(bench.store.revoke_key("k1").await.expect("revoked"));
    made(bench, again).await;
    assert!(found(bench, "k1").await.revoked_at.is_some());
}

/// An id belongs to one key, also after that key has ended.
pub async fn an_id_is_used_once(bench: &AccessBench) {
    made(bench, AccessBench::new_key("k1", "a")).await;
    bench.store.revoke_key("k1").await.expect("revoked");
    assert!(
        !bench.store.create_key(AccessBench::new_key("k1", "b")).await.expect("it is answered")
    );
    assert_eq!(found(bench, "k1").await.name, "a");
}

/// Revoking returns whether it ended the key, and the time of the first revocation is kept.
pub async fn a_key_is_revoked_once_and_for_good(bench: &AccessBench) {
    let key = made(bench, AccessBench::new_key("k1", "a")).await;
    bench.pass(5).await;
    assert!(bench.store.revoke_key("k1").await.expect("revoked"));
    bench.pass(5).await;
    assert!(!bench.store.revoke_key("k1").await.expect("it is answered"));
    assert!(!bench.store.revoke_key("k2").await.expect("it is answered"));
    let revoked_at = found(bench, "k1").await.revoked_at;
    assert_eq!(revoked_at, Some(key.created_at.plus(Duration::from_secs(5))));
}

/// The previous secret is valid until its overlap ends; older ones are not.
pub async fn a_rotated_key_keeps_its_former_secret_for_a_while(bench: &AccessBench) {
    let key = made(bench, AccessBench::new_key("k1", "a")).await;
    let day = Duration::from_secs(86_400);
    assert!(bench.store.rotate_key("k1", [7; 32], day).await.expect("rotated"));
    let rotated = found(bench, "k1").await;
    assert_eq!(rotated.digest, [7; 32]);
    assert_eq!(rotated.former, Some((key.digest, key.created_at.plus(day))));
    bench.pass(10).await;
    assert!(bench.store.rotate_key("k1", [8; 32], Duration::ZERO).await.expect("rotated"));
    let rotated = found(bench, "k1").await;
    assert_eq!(rotated.digest, [8; 32]);
    assert_eq!(rotated.former, Some(([7; 32], rotated.read_at)));
    assert_eq!((rotated.id, rotated.name), (key.id, key.name));
}

/// A key that has ended gets no new secret.
pub async fn a_revoked_key_is_not_rotated(bench: &AccessBench) {
    made(bench, AccessBench::new_key("k1", "a")).await;
    bench.store.revoke_key("k1").await.expect("revoked");
    for id in ["k1", "k2"] {
        let rotated = bench.store.rotate_key(id, [7; 32], Duration::from_secs(1)).await;
        assert!(!rotated.expect("it is answered"), "{id}");
    }
    assert_ne!(found(bench, "k1").await.digest, [7; 32]);
}

/// The last use is recorded at most once a minute for each key.
pub async fn use_is_noted_once_a_minute(bench: &AccessBench) {
    let first = made(bench, AccessBench::new_key("k1", "a")).await.created_at;
    made(bench, AccessBench::new_key("k2", "b")).await;
    let used = async |ids: &[&str]| {
        let ids = ids.iter().map(|id| (*id).to_owned()).collect();
        bench.store.touch_keys(ids).await.expect("noted");
        found(bench, "k1").await.last_used_at.map(|at| (at.0 - first.0) / 1_000_000)
    };
    assert_eq!(used(&["k2", "unknown"]).await, None);
    assert_eq!(used(&["k1", "k2"]).await, Some(0));
    bench.pass(59).await;
    assert_eq!(used(&["k1"]).await, Some(0));
    bench.pass(1).await;
    assert_eq!(used(&["k1"]).await, Some(60));
}

/// The queue of a partition is found by the partition's id; an unknown partition has none.
pub async fn queues_of_partitions_are_found(bench: &AccessBench) {
    let item = |queue: &str, partition: &str| PushItem {
        queue: QueueName::new(queue).expect("a name"),
        partition: PartitionName::new(partition).expect("a name"),
        id: MessageId::generate(),
        transaction_id: TransactionId::generate(),
        trace_id: None,
        payload: Bytes::from_static(b"1"),
        producer: None,
    };
    let items = vec![item("one", "p"), item("two", "p"), item("one", "r")];
    let reply = bench.store.push(items).await.expect("pushed");
    let place = |outcome: &PushOutcome| match outcome {
        PushOutcome::Queued { partition, .. } => *partition,
        other => panic!("{other:?}"),
    };
    let mut partitions: Vec<_> = reply.outcomes.iter().map(place).collect();
    partitions.push(PartitionId(i64::from(i32::MAX)));
    partitions.push(partitions[0]);
    let queues = bench.store.queues_of(partitions).await.expect("queues are found");
    let queues: Vec<_> = queues.iter().map(|q| q.as_ref().map(QueueName::as_str)).collect();
    assert_eq!(queues, [Some("one"), Some("two"), Some("one"), None, Some("one")]);
}

/// A lease has the id of its group, and the store returns the name for it.
pub async fn names_of_groups_are_found(bench: &AccessBench) {
    let queue = QueueName::new("q").expect("a name");
    let item = PushItem {
        queue: queue.clone(),
        partition: PartitionName::default_partition(),
        id: MessageId::generate(),
        transaction_id: TransactionId::generate(),
        trace_id: None,
        payload: Bytes::from_static(b"1"),
        producer: None,
    };
    bench.store.push(vec![item]).await.expect("pushed");
    let mut groups = vec![GroupId(i32::MAX)];
    for group in ["one", "two"] {
        let group = GroupName::new(group).expect("a name");
        let claim = ClaimSpec::queue(&queue).group(&group).line_claim(1);
        let claimed = bench.store.claim(vec![claim]).await.expect("claimed");
        let result = claimed[0].results[0].clone().expect("a claimed batch");
        groups.push(result.lease.expect("a lease").cursors[0].group);
    }
    groups.push(groups[1]);
    let names = bench.store.groups_of(groups).await.expect("names are found");
    let names: Vec<_> = names.iter().map(|name| name.as_ref().map(GroupName::as_str)).collect();
    assert_eq!(names, [None, Some("one"), Some("two"), Some("one")]);
}
