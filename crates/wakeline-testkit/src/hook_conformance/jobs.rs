//! Rules of jobs, which change many deliveries in the background.

use wakeline_core::{ApplicationRef, EndpointId, HookLine, HookMessageId, JobId};
use wakeline_store::hook::{
    DeliveryFilter, DeliveryState, JobKind, JobSpec, JobState, NewMessage, Trigger,
};

use super::{HookBench, channels, earliest_due, end, event, patterns, plain, scheduled, secs, uid};

/// Stores messages whose deliveries all fail.
async fn failed(bench: &HookBench, count: usize) -> Vec<HookMessageId> {
    let ids = bench.emit_many(count).await;
    for item in bench.take(1_000).await {
        bench.fail(&item).await;
    }
    ids
}

fn to(endpoint: EndpointId) -> DeliveryFilter {
    DeliveryFilter { endpoint: Some(endpoint), ..DeliveryFilter::default() }
}

/// Rule 2: failed deliveries get a new retry schedule.
pub async fn recovering_restarts_the_retry_schedule(bench: &HookBench) {
    let id = bench.with(scheduled(&[5])).await;
    let message = bench.emit().await;
    let item = bench.one().await;
    bench.retry(&item, 5).await;
    bench.advance(5).await;
    let item = bench.one().await;
    bench.fail(&item).await;
    let job = bench.done(JobKind::Recover, to(id)).await;
    assert_eq!((job.changed, job.application), (1, bench.app));
    let item = bench.one().await;
    assert_eq!((item.message, item.attempt_no, item.scheduled_no), (message, 3, 1));
    assert_eq!(item.trigger, Trigger::Scheduled);
    bench.advance(30).await;
    assert_eq!(bench.one().await.scheduled_no, 2, "the whole schedule");
    bench.advance(30).await;
    assert_eq!(bench.none().await, None);
    assert_eq!(bench.state(message, id).await, DeliveryState::Failed);
}

/// Rule 2: only failed deliveries are changed.
pub async fn recovering_changes_only_what_failed(bench: &HookBench) {
    let id = bench.with(plain()).await;
    let ids = bench.emit_many(4).await;
    let got = bench.take(3).await;
    bench.deliver(&got[0]).await;
    bench.fail(&got[1]).await;
    bench.retry(&got[2], 100).await;
    bench.cancel(ids[3]).await;
    assert_eq!(bench.done(JobKind::Recover, to(id)).await.changed, 1);
    assert_eq!(bench.taken(9).await, ids[1..2]);
}

/// Rule 2: recovered deliveries come after all others of their endpoint.
pub async fn recovered_deliveries_come_behind_everything_else(bench: &HookBench) {
    bench.with(plain()).await;
    let failed = failed(bench, 2).await;
    bench.done(JobKind::Recover, Default::default()).await;
    bench.advance(5).await;
    let fresh = bench.emit_many(2).await;
    assert_eq!(bench.taken(9).await, [fresh, failed].concat());
}

/// Rule 2: retries of recovered deliveries follow the schedule like any other.
pub async fn retries_of_recovered_deliveries_have_their_time(bench: &HookBench) {
    bench.with(plain()).await;
    let old = failed(bench, 1).await;
    bench.done(JobKind::Recover, Default::default()).await;
    let item = bench.one().await;
    bench.retry(&item, 1).await;
    bench.advance(2).await;
    let fresh = bench.emit().await;
    assert_eq!(bench.taken(9).await, [old[0], fresh]);
}

/// The filter of a job may name an endpoint.
pub async fn a_job_may_be_about_one_endpoint(bench: &HookBench) {
    let (one, other) = (bench.with(plain()).await, bench.with(plain()).await);
    let ids = failed(bench, 2).await;
    assert_eq!(bench.done(JobKind::Recover, to(one)).await.changed, 2);
    assert_eq!(bench.state(ids[0], one).await, DeliveryState::Retrying);
    assert_eq!(bench.state(ids[0], other).await, DeliveryState::Failed);
}

/// The filter of a job may name types and times of messages.
pub async fn a_job_may_be_about_types_and_times(bench: &HookBench) {
    let id = bench.with(plain()).await;
    let old = failed(bench, 1).await[0];
    bench.advance(10).await;
    let since = bench.now().await;
    let meant = failed(bench, 1).await[0];
    let other = NewMessage { event_type: event("other"), ..bench.message() };
    let other = bench.stored(other).await.0.id;
    let item = bench.one().await;
    bench.fail(&item).await;
    bench.advance(10).await;
    let until = bench.now().await;
    let late = failed(bench, 1).await[0];
    let filter = DeliveryFilter {
        since: Some(since),
        until: Some(until),
        event_types: vec![event(super::PAID)],
        ..to(id)
    };
    assert_eq!(bench.done(JobKind::Recover, filter).await.changed, 1);
    assert_eq!(bench.taken(9).await, [meant]);
    for message in [old, other, late] {
        assert_eq!(bench.state(message, id).await, DeliveryState::Failed);
    }
}

/// A job does not affect other applications.
pub async fn a_job_is_about_its_application(bench: &HookBench) {
    let id = bench.with(plain()).await;
    failed(bench, 1).await;
    let other = bench.application(super::application(None)).await;
    let spec = JobSpec { id: JobId::generate(), kind: JobKind::Recover, filter: to(id) };
    let started = bench.hook.start_job(&ApplicationRef::Id(other), spec.clone()).await;
    assert!(started.expect("answered").is_some());
    bench.background(10).await;
    let job = bench.job(spec.id).await;
    assert_eq!((job.state, job.changed), (JobState::Finished, 0));
    assert_eq!(bench.none().await, None);
}

/// Rule 2: a replay creates deliveries that were never created.
pub async fn replaying_makes_what_is_missing(bench: &HookBench) {
    let before = bench.emit_many(2).await;
    let new = wakeline_store::hook::NewEndpoint {
        event_types: patterns(&["order.*"]),
        channels: channels(&[]),
        ..super::endpoint(plain())
    };
    let id = bench.endpoint(new).await;
    let has = bench.emit().await;
    let item = bench.one().await;
    bench.deliver(&item).await;
    let other = NewMessage { event_type: event("other"), ..bench.message() };
    assert_eq!(bench.stored(other).await.1, 0);
    assert_eq!(bench.done(JobKind::ReplayMissing, to(id)).await.changed, 2);
    let got = bench.take(9).await;
    assert_eq!(super::messages_of(&got), before);
    assert!(got.iter().all(|item| (item.attempt_no, item.scheduled_no) == (1, 1)));
    assert_eq!(bench.state(has, id).await, DeliveryState::Delivered, "it had one");
    assert_eq!(bench.done(JobKind::ReplayMissing, to(id)).await.changed, 0);
}

/// Rule 2: a bulk resend is the same as many single ones.
pub async fn resending_in_bulk_is_one_manual_attempt_each(bench: &HookBench) {
    let id = bench.with(plain()).await;
    let ids = bench.emit_many(3).await;
    let got = bench.take(2).await;
    bench.deliver(&got[0]).await;
    bench.fail(&got[1]).await;
    let states = vec![DeliveryState::Delivered, DeliveryState::Failed];
    let filter = DeliveryFilter { states, ..to(id) };
    assert_eq!(bench.done(JobKind::Resend, filter).await.changed, 2);
    let got = bench.take(9).await;
    assert_eq!(super::messages_of(&got), [ids[2], ids[0], ids[1]]);
    let triggers: Vec<_> = got.iter().map(|item| item.trigger).collect();
    assert_eq!(triggers, [Trigger::Scheduled, Trigger::Manual, Trigger::Manual]);
}

/// Rule 2: deliveries can be cancelled in bulk.
pub async fn cancelling_in_bulk_ends_what_waits(bench: &HookBench) {
    let id = bench.with(plain()).await;
    let ids = bench.emit_many(3).await;
    let under_way = bench.one().await;
    let job = bench.done(JobKind::Cancel, to(id)).await;
    assert_eq!(job.changed, 3);
    assert_eq!(bench.state(ids[1], id).await, DeliveryState::Cancelled);
    let verdict = wakeline_store::hook::DeliveryVerdict::Retry(secs(1));
    bench.settle(end(under_way.token, verdict)).await;
    assert_eq!(bench.state(ids[0], id).await, DeliveryState::Cancelled);
    assert_eq!(bench.none().await, None);
}

/// Cancelling does not require that the endpoint is enabled.
pub async fn what_waits_for_a_disabled_endpoint_can_be_cancelled(bench: &HookBench) {
    let id = bench.with(plain()).await;
    let message = bench.emit().await;
    bench.switch(id, false).await;
    assert_eq!(bench.done(JobKind::Cancel, to(id)).await.changed, 1);
    assert_eq!(bench.state(message, id).await, DeliveryState::Cancelled);
}

/// Rule 2: deliveries that cannot be changed are skipped.
pub async fn a_job_passes_over_what_it_cannot_change(bench: &HookBench) {
    let (on, off) = (bench.with(plain()).await, bench.with(plain()).await);
    let ids = failed(bench, 2).await;
    let which = wakeline_core::MessageRef::Id(ids[0]);
    bench.hook.expunge_payload(&bench.of_app(), &which).await.expect("expunged");
    bench.switch(off, false).await;
    assert_eq!(bench.done(JobKind::Recover, Default::default()).await.changed, 1);
    assert_eq!(bench.state(ids[0], on).await, DeliveryState::Failed, "no payload");
    assert_eq!(bench.state(ids[1], off).await, DeliveryState::Failed, "switched off");
    assert_eq!(bench.taken(9).await, ids[1..]);
    assert_eq!(bench.done(JobKind::Resend, to(on)).await.changed, 0, "one is under way");
}

/// Rule 3: a job runs in pieces, each of which is committed, whoever runs the next one.
pub async fn a_job_goes_on_in_pieces_over_restarts(bench: &HookBench) {
    let id = bench.with(plain()).await;
    let ids = failed(bench, 7).await;
    let job = bench.start(JobKind::Recover, to(id)).await;
    let mut changed = 0;
    for _ in 0..100 {
        let reopened = bench.fixture.reopened().await;
        let report = reopened.run_background(2).await.expect("a piece is done");
        assert!(report.rows <= 2, "{report:?}");
        let seen = bench.job(job).await;
        assert!(seen.changed >= changed && seen.changed <= changed + 2, "{seen:?}");
        changed = seen.changed;
        if seen.state == JobState::Finished {
            break;
        }
        assert_eq!(report.next_due, Some(secs(0)));
    }
    assert_eq!(bench.job(job).await.state, JobState::Finished);
    assert_eq!(changed, 7);
    assert_eq!(bench.taken(9).await, ids);
}

/// Rule 3: a job visits every delivery once.
pub async fn a_job_looks_at_a_delivery_once(bench: &HookBench) {
    let id = bench.with(plain()).await;
    failed(bench, 2).await;
    let job = bench.start(JobKind::Recover, to(id)).await;
    bench.hook.run_background(1).await.expect("a piece is done");
    let item = bench.one().await;
    bench.fail(&item).await;
    bench.background(1).await;
    let done = bench.job(job).await;
    assert_eq!((done.state, done.changed), (JobState::Finished, 2));
    assert_eq!(bench.take(9).await.len(), 1, "the one that failed again is not recovered again");
}

/// Rule 3: the oldest job runs first.
pub async fn the_oldest_job_goes_first(bench: &HookBench) {
    let id = bench.with(plain()).await;
    failed(bench, 4).await;
    let first = bench.start(JobKind::Recover, to(id)).await;
    bench.advance(1).await;
    let second = bench.start(JobKind::Cancel, to(id)).await;
    bench.hook.run_background(2).await.expect("a piece is done");
    assert_eq!(bench.job(first).await.changed, 2);
    assert_eq!(bench.job(second).await.changed, 0);
    bench.background(2).await;
    assert_eq!(bench.job(first).await.changed, 4);
    assert_eq!(bench.job(second).await.changed, 4, "afterwards");
}

/// A job shows its state and its counts.
pub async fn a_job_shows_its_progress(bench: &HookBench) {
    let id = bench.with(plain()).await;
    failed(bench, 2).await;
    let created = bench.now().await;
    let job = bench.start(JobKind::Recover, to(id)).await;
    let seen = bench.job(job).await;
    assert_eq!((seen.state, seen.seen, seen.changed), (JobState::Running, 0, 0));
    assert_eq!((seen.created_at, seen.updated_at), (created, created));
    bench.advance(3).await;
    bench.background(10).await;
    let seen = bench.job(job).await;
    assert_eq!((seen.state, seen.changed), (JobState::Finished, 2));
    assert!(seen.seen >= 2, "{seen:?}");
    assert_eq!(seen.updated_at, bench.now().await);
    assert_eq!(bench.hook.job(JobId::generate()).await.expect("it is read"), None);
}

/// A job belongs to an application; the same id again returns the same job.
pub async fn a_job_is_made_once(bench: &HookBench) {
    let spec = JobSpec { id: JobId::generate(), kind: JobKind::Cancel, filter: Default::default() };
    let unknown = ApplicationRef::Own(uid("unknown"));
    assert_eq!(bench.hook.start_job(&unknown, spec.clone()).await.expect("answered"), None);
    for _ in 0..2 {
        let started = bench.hook.start_job(&bench.of_app(), spec.clone()).await;
        let (job, _) = started.expect("answered").expect("there is its application");
        assert_eq!(job.spec, spec);
    }
    bench.background(10).await;
    let again = bench.hook.start_job(&bench.of_app(), spec.clone()).await;
    let (job, _) = again.expect("answered").expect("there is its application");
    assert_eq!(job.state, JobState::Finished, "as it stands");
}

/// A new job notifies background workers, and its pieces notify senders.
pub async fn a_job_and_its_pieces_notify(bench: &HookBench) {
    bench.with(plain()).await;
    failed(bench, 2).await;
    let spec =
        JobSpec { id: JobId::generate(), kind: JobKind::Recover, filter: Default::default() };
    let started = bench.hook.start_job(&bench.of_app(), spec).await.expect("answered");
    let (_, changes) = started.expect("there is its application");
    assert_eq!(earliest_due(&changes, &HookLine::Background), Some(secs(0)));
    assert_eq!(bench.sweep(HookLine::Background).await, Some(secs(0)));
    let report = bench.hook.run_background(10).await.expect("a piece is done");
    assert_eq!(earliest_due(&report.changes, &HookLine::Push), Some(secs(0)));
}
