//! Rules of transactions over queues, orchestrations, webhooks and timers, which are all or
//! nothing.

use std::time::Duration;

use wakeline_core::{ApplicationId, LeaseToken, PartitionId, TimerKey, TransactionId, Verdict};
use wakeline_store::flow::{EnqueueOutcome, Envelope, Visible};
use wakeline_store::hook::{EmitOutcome, HookMessageFilter, NewMessage};
use wakeline_store::{
    CancelItem, CancelOutcome, PushItem, Refusal, ScheduleItem, ScheduledFilter, SettleItem,
    SettleOutcome, TransactCommand, TransactOutcome, TransactReply, Transacted,
};

use super::{FlowBench, earliest_due, event, main_line, push, start};
use crate::hook_conformance as hook;

async fn application(bench: &FlowBench) -> ApplicationId {
    let new = hook::application(None);
    let id = new.id;
    bench.hooks.create_application(new, None).await.expect("an application is made");
    id
}

fn key(name: &str) -> TimerKey {
    TimerKey::new(name).expect("a short name")
}

/// A transaction with one command of each kind. The queue `q` belongs to the test.
fn everything(queue: &str, emit: NewMessage, envelopes: Vec<Envelope>) -> TransactCommand {
    let due = Visible::After(Duration::from_secs(10));
    let message: PushItem = push(queue, "later");
    let cancels = vec![CancelItem { queue: message.queue.clone(), key: key("old") }];
    TransactCommand {
        cancels,
        schedules: vec![ScheduleItem { message, due, key: Some(key("new")) }],
        pushes: vec![push(queue, "now")],
        settles: Vec::new(),
        envelopes,
        emits: vec![emit],
    }
}

/// Schedules a timer that the transaction cancels.
async fn prepared(bench: &FlowBench, queue: &str) {
    let message = push(queue, "old");
    let due = Visible::After(Duration::from_secs(100));
    let schedules = vec![ScheduleItem { message, due, key: Some(key("old")) }];
    let command = TransactCommand { schedules, ..TransactCommand::default() };
    bench.queues.transact(command).await.expect("a timer is set");
}

async fn transact(bench: &FlowBench, command: TransactCommand) -> TransactReply {
    bench.queues.transact(command).await.expect("a transaction is answered")
}

fn committed(outcome: TransactOutcome) -> Transacted {
    match outcome {
        TransactOutcome::Committed(done) => done,
        TransactOutcome::Refused(refusal) => panic!("{refusal:?}"),
    }
}

/// Reads all effects of a transaction: timers, messages of the queue, messages to endpoints, and
/// whether a turn is due.
async fn seen(
    bench: &FlowBench,
    queue: &str,
    application: ApplicationId,
) -> (Vec<String>, usize, usize, bool) {
    let queue = push(queue, "x").queue;
    let filter = ScheduledFilter { queue: queue.clone(), key: None, after: None, limit: 10 };
    let waiting = bench.queues.scheduled(filter).await.expect("timers are listed");
    let waiting = waiting.iter().map(|one| one.transaction_id.to_string()).collect();
    let spec = crate::conformance::ClaimSpec::queue(&queue).auto_ack().batch(10);
    let claimed = bench.queues.claim(vec![spec.line_claim(1)]).await.expect("a claim is answered");
    let taken = claimed[0].results[0].as_ref();
    let taken = taken.map_or(0, |result| result.partitions.iter().map(|p| p.messages.len()).sum());
    let (filter, page) = (HookMessageFilter::default(), hook::first(100));
    let page = bench.hooks.messages(application, filter, page).await.expect("messages are listed");
    let due = bench.flow.sweep_flow(vec![main_line()]).await.expect("a line is swept")[0];
    (waiting, taken, page.items.len(), due == Some(Duration::ZERO))
}

/// All commands are applied, and all waiters are notified.
pub async fn a_transaction_spans_queues_workflows_and_webhooks(bench: &FlowBench) {
    let application = application(bench).await;
    prepared(bench, "all").await;
    let envelopes = vec![start("a"), event("a", "go")];
    let command = everything("all", hook::message(application), envelopes);
    let reply = transact(bench, command).await;
    assert_eq!(earliest_due(&reply.flow_changes, &main_line()), Some(Duration::ZERO));
    assert!(!reply.hook_changes.is_empty() && reply.changes.len() >= 2, "{reply:?}");
    let done = committed(reply.outcome);
    assert!(matches!(done.cancels[0], CancelOutcome::Cancelled(_)), "{done:?}");
    assert_eq!(done.envelopes, [EnqueueOutcome::Queued, EnqueueOutcome::Queued]);
    assert!(matches!(done.emits[0], EmitOutcome::Stored(..)), "{done:?}");
    let expected = (vec!["later".to_owned()], 1, 1, true);
    assert_eq!(seen(bench, "all", application).await, expected);
}

/// Whatever the reason of the refusal is, nothing is applied.
pub async fn a_refused_transaction_changes_nothing(bench: &FlowBench) {
    let application = application(bench).await;
    let to_unknown = hook::message(hook::application(None).id);
    prepared(bench, "none").await;
    let nothing = (vec!["old".to_owned()], 0, 0, false);
    let stale = SettleItem {
        partition: PartitionId(1),
        group: wakeline_core::GroupName::queue_mode(),
        token: Some(LeaseToken::generate()),
        transaction_id: TransactionId::new("x").expect("a short id"),
        verdict: Verdict::Completed,
        error: None,
    };
    let good = |emit| everything("none", emit, vec![start("b")]);
    let unknown = transact(bench, good(to_unknown)).await;
    let TransactOutcome::Refused(Refusal::Emit { index: 0, outcome }) = unknown.outcome else {
        panic!("{unknown:?}")
    };
    assert_eq!(outcome, EmitOutcome::NoApplication);
    assert!(unknown.changes.is_empty() && unknown.flow_changes.is_empty());
    assert_eq!(seen(bench, "none", application).await, nothing);
    let settles = vec![stale];
    let stale = TransactCommand { settles, ..good(hook::message(application)) };
    let TransactOutcome::Refused(refusal) = transact(bench, stale).await.outcome else { panic!() };
    assert!(matches!(refusal, Refusal::Settle { index: 0, outcome: SettleOutcome::StaleLease }));
    assert_eq!(seen(bench, "none", application).await, nothing);
}

/// A start of an existing instance and a repeated event refuse nothing.
pub async fn what_is_known_does_not_refuse_a_transaction(bench: &FlowBench) {
    let application = application(bench).await;
    let own = wakeline_core::EventId::parse("own").expect("a valid id");
    let emit = || NewMessage { event_id: Some(own.clone()), ..hook::message(application) };
    let command = || TransactCommand {
        envelopes: vec![Envelope { unique: true, ..start("c") }],
        emits: vec![emit()],
        pushes: vec![push("known", "p")],
        ..TransactCommand::default()
    };
    committed(transact(bench, command()).await.outcome);
    let again = committed(transact(bench, command()).await.outcome);
    assert_eq!(again.envelopes, [EnqueueOutcome::Exists]);
    assert!(matches!(again.emits[0], EmitOutcome::Taken(_)), "{again:?}");
    assert!(matches!(again.pushes[0], wakeline_store::PushOutcome::Duplicate { .. }));
    let found =
        bench.hooks.messages(application, HookMessageFilter::default(), hook::first(9)).await;
    assert_eq!(found.expect("messages are listed").items.len(), 1);
}
