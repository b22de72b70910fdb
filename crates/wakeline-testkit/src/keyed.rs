//! The rules of encrypted queues, for every store that writes to a disk. A keyed node is one that
//! has encryption keys.
//!
//! # Where it sits
//! A store's tests call `wakeline_testkit::keyed_suite!(fixture)`. A fixture opens several nodes
//! over one database, with keys or without, and returns what that database contains.
//!
//! # Invariants
//! * The contents of the disk are checked by their bytes, not by what the store reports.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use uuid::Uuid;
use wakeline_core::{
    GroupName, OptionsPatch, PartitionId, PartitionName, QueueName, QueueOptions, TransactionId,
    Verdict,
};
use wakeline_encryption::EncryptionKeys;
use wakeline_store::flow::Visible;
use wakeline_store::{
    AddTraceOutcome, AuditAction, AuditFilter, Backend, ConfigureQueue, DeadLetterFilter,
    EncryptedKind, MessageKey, NewTrace, Page, PatchQueue, PushItem, QueueAdmin, QueueClaimResult,
    ScheduleItem, ScheduledFilter, SettleItem, StoreError, TransactCommand,
};

use crate::conformance::{ClaimSpec, item};

/// A page that is long enough for all tests.
const TEN: Page = Page { limit: 10, offset: 0 };

const SECRET: &str = "\"the-secret\"";

/// A database that several nodes can be opened over.
#[async_trait]
pub trait KeyedUnderTest: Send + Sync {
    /// Opens one more node.
    async fn open(&self) -> Arc<dyn Backend>;

    /// Returns the payloads of all messages, dead letters and traces, as the database stores them.
    async fn payloads(&self) -> Vec<Vec<u8>>;
}

/// Makes a test of every rule. The expression makes a new [`KeyedUnderTest`]; it may await.
#[macro_export]
macro_rules! keyed_suite {
    ($fixture:expr) => {
        $crate::keyed_suite!($fixture;
            payloads_are_stored_encrypted_and_delivered_plain,
            without_keys_nothing_is_stored_in_the_clear,
            without_keys_other_options_can_be_patched,
            a_change_of_the_option_holds_for_every_node,
            everything_is_reencrypted_with_the_first_key,
            a_payload_that_cannot_be_opened_is_not_lost,
        );
    };
    ($fixture:expr; $($rule:ident),* $(,)?) => {
        $(
            #[tokio::test]
            async fn $rule() {
                let fixture = $fixture;
                $crate::keyed::$rule(&fixture).await;
            }
        )*
    };
}

/// Encryption keys with these ids, in this order. The same id is the same key.
fn encryption_keys(ids: &[&str]) -> Arc<EncryptionKeys> {
    let key = |id: &&str| {
        let fill = id.bytes().next().expect("an id");
        let text: String = std::iter::repeat_n(char::from(b'A' + fill % 26), 42).collect();
        format!("{id}:{text}A=")
    };
    let text: Vec<String> = ids.iter().map(key).collect();
    Arc::new(EncryptionKeys::parse(&text.join(",")).expect("keys"))
}

async fn node(under: &dyn KeyedUnderTest, ids: &[&str]) -> Arc<dyn Backend> {
    let store = under.open().await;
    if !ids.is_empty() {
        store.use_keys(encryption_keys(ids));
    }
    store
}

fn queue() -> QueueName {
    QueueName::new("vault").expect("valid")
}

fn secret(id: &str) -> PushItem {
    PushItem { payload: SECRET.into(), ..item(&queue(), "p", id) }
}

async fn configure(store: &dyn Backend, encrypted: bool) -> Result<(), StoreError> {
    let options = QueueOptions { encrypted, ..QueueOptions::default() };
    let command = ConfigureQueue { queue: queue(), namespace: None, task: None, options };
    store.configure(command).await.map(drop)
}

async fn take(store: &dyn Backend, batch: u32) -> Option<QueueClaimResult> {
    let claim = ClaimSpec::queue(&queue()).batch(batch).line_claim(1);
    store.claim(vec![claim]).await.expect("a claim").remove(0).results.remove(0)
}

fn settle(result: &QueueClaimResult, index: usize, verdict: Verdict) -> SettleItem {
    SettleItem {
        partition: result.partitions[0].partition_id,
        group: GroupName::queue_mode(),
        token: result.lease.as_ref().map(|lease| lease.token),
        transaction_id: result.partitions[0].messages[index].transaction_id.clone(),
        verdict,
        error: None,
    }
}

fn texts(result: &QueueClaimResult) -> Vec<String> {
    let messages = result.partitions.iter().flat_map(|partition| &partition.messages);
    messages.map(|message| String::from_utf8_lossy(&message.payload).into_owned()).collect()
}

/// Adds a trace with the secret to the first message that was taken.
async fn add_trace(
    store: &dyn Backend,
    result: &QueueClaimResult,
) -> Result<AddTraceOutcome, StoreError> {
    let trace = NewTrace {
        id: Uuid::new_v4(),
        message: first_key(result),
        event_type: "info".to_owned(),
        group: GroupName::queue_mode(),
        worker: None,
        names: Vec::new(),
        data: SECRET.into(),
    };
    store.add_trace(trace).await
}

fn first_key(result: &QueueClaimResult) -> MessageKey {
    let transaction_id = result.partitions[0].messages[0].transaction_id.clone();
    MessageKey { partition: result.partitions[0].partition_id, transaction_id }
}

async fn plain_payloads(under: &dyn KeyedUnderTest) -> usize {
    let payloads = under.payloads().await;
    payloads.iter().filter(|bytes| bytes.windows(6).any(|part| part == b"secret")).count()
}

/// Whatever call it came with, a payload is encrypted on the disk and plain for authorised readers.
pub async fn payloads_are_stored_encrypted_and_delivered_plain(under: &dyn KeyedUnderTest) {
    let store = node(under, &["a"]).await;
    configure(&*store, true).await.expect("configured");
    store.push(vec![secret("1"), secret("2")]).await.expect("pushed");
    let pushes = vec![secret("3"), secret("3")];
    let command = TransactCommand { pushes, ..TransactCommand::default() };
    store.transact(command).await.expect("pushed");
    let result = take(&*store, 10).await.expect("messages");
    assert_eq!(texts(&result), [SECRET; 3]);
    let dead = settle(&result, 0, Verdict::DeadLetter);
    store.settle(vec![dead]).await.expect("settled");
    let letters = store.dead_letters(DeadLetterFilter::default(), TEN).await;
    assert_eq!(letters.expect("listed").letters[0].payload, SECRET);
    let partition = result.partitions[0].partition_id;
    let found =
        QueueAdmin::message(&*store, partition, &TransactionId::new("2").expect("valid")).await;
    assert_eq!(found.expect("read").expect("there").message.payload, SECRET);
    assert_eq!(add_trace(&*store, &result).await.expect("a trace is added"), AddTraceOutcome::Done);
    let traces = store.traces(first_key(&result)).await.expect("listed");
    assert_eq!(traces[0].data, SECRET);
    assert_eq!(under.payloads().await.len(), 5, "three messages, a dead letter and a trace");
    assert_eq!(plain_payloads(under).await, 0);
    store.close().await;
}

/// A node without keys refuses what it would have to store unencrypted, and only that.
pub async fn without_keys_nothing_is_stored_in_the_clear(under: &dyn KeyedUnderTest) {
    let keyless = node(under, &[]).await;
    let refused = configure(&*keyless, true).await;
    assert!(matches!(refused, Err(StoreError::NoKeys { .. })), "{refused:?}");
    keyless.push(vec![item(&queue(), "p", "before")]).await.expect("it is not encrypted");
    let keyed = node(under, &["a"]).await;
    configure(&*keyed, true).await.expect("configured");
    let other = QueueName::new("open").expect("valid");
    let (refused, stored) =
        tokio::join!(keyless.push(vec![secret("1")]), keyless.push(vec![item(&other, "p", "1")]));
    assert!(matches!(refused, Err(StoreError::NoKeys { .. })), "{refused:?}");
    stored.expect("another queue's messages are stored");
    let command = TransactCommand { pushes: vec![secret("2")], ..TransactCommand::default() };
    let refused = keyless.transact(command).await.map(drop);
    assert!(matches!(refused, Err(StoreError::NoKeys { .. })), "{refused:?}");
    let result = take(&*keyless, 1).await.expect("what was stored before");
    let refused = add_trace(&*keyless, &result).await;
    assert!(matches!(refused, Err(StoreError::NoKeys { .. })), "{refused:?}");
    assert_eq!(under.payloads().await.len(), 2);
    assert!(keyless.keys_needed().await.expect("read").queues);
    keyless.close().await;
    keyed.close().await;
}

/// A node without keys can change the other options of an encrypted queue and disable its
/// encryption, but cannot enable it.
pub async fn without_keys_other_options_can_be_patched(under: &dyn KeyedUnderTest) {
    let (keyless, keyed) = (node(under, &[]).await, node(under, &["a"]).await);
    configure(&*keyed, true).await.expect("configured");
    let patch = async |options| {
        let command =
            PatchQueue { queue: queue(), namespace: None, task: None, options, create: false };
        let patched = keyless.patch(command).await?;
        Ok::<_, StoreError>(patched.expect("it exists").0.options)
    };
    let lease = OptionsPatch { lease_secs: Some(7), ..OptionsPatch::default() };
    let options = patch(lease).await.expect("patched");
    assert_eq!((options.lease_secs, options.encrypted), (7, true));
    let on = OptionsPatch { encrypted: Some(true), ..OptionsPatch::default() };
    let refused = patch(on).await;
    assert!(matches!(refused, Err(StoreError::NoKeys { .. })), "{refused:?}");
    let off = OptionsPatch { encrypted: Some(false), ..OptionsPatch::default() };
    assert!(!patch(off).await.expect("patched").encrypted);
    keyless.close().await;
    keyed.close().await;
}

/// Once a queue is encrypted, no node stores unencrypted payloads, even if it has cached the
/// queue's old options. After encryption is disabled, new messages are plain and old ones can still
/// be read.
pub async fn a_change_of_the_option_holds_for_every_node(under: &dyn KeyedUnderTest) {
    let (one, other) = (node(under, &["a"]).await, node(under, &["a"]).await);
    other.push(vec![secret("plain")]).await.expect("pushed");
    assert_eq!(plain_payloads(under).await, 1);
    configure(&*one, true).await.expect("configured");
    other.push(vec![secret("encrypted")]).await.expect("pushed");
    let command = TransactCommand { pushes: vec![secret("too")], ..TransactCommand::default() };
    other.transact(command).await.expect("pushed");
    assert_eq!(plain_payloads(under).await, 1);
    configure(&*one, false).await.expect("configured");
    other.push(vec![secret("plain again")]).await.expect("pushed");
    assert_eq!(plain_payloads(under).await, 2);
    assert_eq!(texts(&take(&*one, 10).await.expect("messages")), [SECRET; 4]);
    one.close().await;
    other.close().await;
}

/// After re-encryption the old key is no longer needed for messages, scheduled messages, dead
/// letters and traces, even if there are so many messages that several steps are necessary.
pub async fn everything_is_reencrypted_with_the_first_key(under: &dyn KeyedUnderTest) {
    const MESSAGES: usize = 450;
    let old = node(under, &["a"]).await;
    configure(&*old, true).await.expect("configured");
    old.push(vec![item(&QueueName::new("open").expect("valid"), "p", "1")]).await.expect("pushed");
    for n in 0..MESSAGES {
        let mut message = secret(&n.to_string());
        message.partition = PartitionName::new(format!("p{}", n % 3)).expect("valid");
        old.push(vec![message]).await.expect("pushed");
    }
    let result = take(&*old, 1).await.expect("a message");
    old.settle(vec![settle(&result, 0, Verdict::DeadLetter)]).await.expect("settled");
    let due = Visible::After(Duration::from_secs(3600));
    add_trace(&*old, &result).await.expect("a trace is added");
    let later = ScheduleItem { message: secret("later"), due, key: None };
    let command = TransactCommand { schedules: vec![later], ..TransactCommand::default() };
    old.transact(command).await.expect("scheduled");
    old.close().await;

    let both = node(under, &["b", "a"]).await;
    let (mut reencrypted, mut steps_with_changes) = (0, 0);
    for kind in EncryptedKind::ALL {
        let mut after = None;
        loop {
            let action =
                AuditAction { actor: "tester".into(), action: "rekey", ..AuditAction::default() };
            let step = action.during(both.rekey(kind, after)).await.expect("a step");
            steps_with_changes += usize::from(step.reencrypted > 0);
            assert_eq!(step.failed, Vec::<String>::new());
            reencrypted += step.reencrypted;
            after = step.next;
            if after.is_none() {
                break;
            }
        }
    }
    assert!(reencrypted as usize > MESSAGES, "{reencrypted}");
    assert_eq!(both.rekey(EncryptedKind::Messages, None).await.expect("a step").reencrypted, 0);
    let filter = AuditFilter { action: Some("rekey".into()), limit: 100, ..AuditFilter::default() };
    let entries = both.audit(filter).await.expect("listed");
    assert_eq!(entries.len(), steps_with_changes, "one for each step that changed something");
    both.close().await;

    let new = node(under, &["b"]).await;
    let letters = new.dead_letters(DeadLetterFilter::default(), TEN).await;
    assert_eq!(letters.expect("listed").letters[0].payload, SECRET);
    let traces = new.traces(first_key(&result)).await.expect("listed");
    assert_eq!(traces[0].data, SECRET);
    let filter = ScheduledFilter { queue: queue(), key: None, after: None, limit: 10 };
    let later = new.scheduled(filter).await.expect("listed");
    assert_eq!(later[0].payload, SECRET);
    let mut read = 0;
    while let Some(result) = take(&*new, 1000).await {
        read += texts(&result).iter().filter(|text| *text == SECRET).count();
    }
    assert_eq!(read, MESSAGES - 1);
    new.close().await;
}

/// A node with the wrong key does not deliver a message that it cannot decrypt, and counts no
/// attempt for it. A re-encryption reports the messages that it could not decrypt.
pub async fn a_payload_that_cannot_be_opened_is_not_lost(under: &dyn KeyedUnderTest) {
    let right = node(under, &["a"]).await;
    configure(&*right, true).await.expect("configured");
    right.push(vec![secret("1")]).await.expect("pushed");
    let wrong = node(under, &["c"]).await;
    let claim = ClaimSpec::queue(&queue()).line_claim(1);
    let claimed = wrong.claim(vec![claim]).await;
    let is_served = claimed.is_ok_and(|lines| lines[0].results[0].is_some());
    assert!(!is_served, "it cannot be read");
    let step = wrong.rekey(EncryptedKind::Messages, None).await.expect("a step");
    assert_eq!((step.reencrypted, step.failed.len()), (0, 1));
    let partition = partition_of(&*right).await;
    let found =
        QueueAdmin::message(&*right, partition, &TransactionId::new("1").expect("valid")).await;
    let found = found.expect("read").expect("there").message;
    assert_eq!((found.payload.as_ref(), found.attempt), (SECRET.as_bytes(), 1));
    right.close().await;
    wrong.close().await;
}

async fn partition_of(store: &dyn Backend) -> PartitionId {
    let repeated = store.push(vec![secret("1")]).await.expect("pushed").outcomes.remove(0);
    match repeated {
        wakeline_store::PushOutcome::Duplicate { partition, .. } => partition,
        other => panic!("{other:?}"),
    }
}
