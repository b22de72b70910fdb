//! Rules of lists and counts.

use wakeline_core::{ApplicationId, AttemptId, EndpointId, HookMessageId};
use wakeline_store::hook::{
    AttemptFilter, AttemptOutcome, DeliveryState, DeliveryVerdict, EndpointStats,
    HookMessageFilter, NewMessage, PageOrder, PageRequest, SettleDelivery,
};

use super::{HookBench, application, channels, end, event, first, message, plain, record, secs};

async fn messages(bench: &HookBench, filter: HookMessageFilter) -> Vec<HookMessageId> {
    let page = bench.hook.messages(bench.app, filter, first(100)).await.expect("listed");
    assert!(page.done);
    page.items.iter().map(|one| one.id).collect()
}

async fn attempts(bench: &HookBench, filter: AttemptFilter) -> Vec<AttemptId> {
    let page = bench.hook.attempts(bench.app, filter, first(100)).await.expect("listed");
    assert!(page.done);
    page.items.iter().map(|one| one.id).collect()
}

/// Messages are listed by id, page by page, without duplicates and without gaps.
pub async fn messages_are_listed_page_by_page(bench: &HookBench) {
    let ids = bench.emit_many(7).await;
    for order in [PageOrder::Ascending, PageOrder::Descending] {
        let mut expected = ids.clone();
        if order == PageOrder::Descending {
            expected.reverse();
        }
        let (mut got, mut after) = (Vec::new(), None);
        loop {
            let request = PageRequest { limit: 3, after, order, backwards: false };
            let page = bench.hook.messages(bench.app, Default::default(), request).await;
            let page = page.expect("listed");
            assert!(page.items.len() <= 3);
            got.extend(page.items.iter().map(|one| one.id));
            after = got.last().copied();
            if page.done {
                break;
            }
        }
        assert_eq!(got, expected, "{order:?}");
    }
}

/// A backward page has the items just before, in the order of the list.
pub async fn pages_go_backwards(bench: &HookBench) {
    let ids = bench.emit_many(6).await;
    let list = async |after: usize, order, limit| {
        let request = PageRequest { limit, after: Some(ids[after]), order, backwards: true };
        let page = bench.hook.messages(bench.app, Default::default(), request).await;
        let page = page.expect("listed");
        (page.items.iter().map(|one| one.id).collect::<Vec<_>>(), page.done)
    };
    use PageOrder::{Ascending, Descending};
    assert_eq!(list(4, Ascending, 2).await, (vec![ids[2], ids[3]], false));
    assert_eq!(list(2, Ascending, 2).await, (vec![ids[0], ids[1]], true));
    assert_eq!(list(1, Ascending, 2).await, (vec![ids[0]], true));
    assert_eq!(list(0, Ascending, 2).await, (vec![], true));
    assert_eq!(list(1, Descending, 2).await, (vec![ids[3], ids[2]], false));
    assert_eq!(list(3, Descending, 2).await, (vec![ids[5], ids[4]], true));
    let start = PageRequest { backwards: true, ..first(2) };
    let page = bench.hook.messages(bench.app, Default::default(), start).await.expect("listed");
    let got: Vec<_> = page.items.iter().map(|one| one.id).collect();
    assert_eq!((got, page.done), (ids[..2].to_vec(), false), "from nowhere it is the start");
}

/// A page that is exactly full is the last one if nothing follows.
pub async fn a_page_that_is_just_full_is_done(bench: &HookBench) {
    bench.emit_many(3).await;
    let page = bench.hook.messages(bench.app, Default::default(), first(3)).await.expect("listed");
    assert_eq!((page.items.len(), page.done), (3, true));
    let page = bench.hook.messages(bench.app, Default::default(), first(2)).await.expect("listed");
    assert_eq!((page.items.len(), page.done), (2, false));
}

/// Messages are filtered by type, channel and time.
pub async fn messages_are_listed_by_type_channel_and_time(bench: &HookBench) {
    let start = bench.now().await;
    let paid = bench.emit().await;
    bench.advance(10).await;
    let middle = bench.now().await;
    let other = NewMessage { event_type: event("other"), ..bench.message() };
    let other = bench.stored(other).await.0.id;
    bench.advance(10).await;
    let late = NewMessage { channels: channels(&["x", "y"]), ..bench.message() };
    let late = bench.stored(late).await.0.id;
    let end = bench.now().await;
    let all = HookMessageFilter::default;
    assert_eq!(messages(bench, all()).await, [paid, other, late]);
    let types = vec![event("other")];
    assert_eq!(messages(bench, HookMessageFilter { event_types: types, ..all() }).await, [other]);
    let types = vec![event("other"), event(super::PAID)];
    let both = HookMessageFilter { event_types: types, ..all() };
    assert_eq!(messages(bench, both).await, [paid, other, late]);
    let channel = channels(&["y"]).pop();
    assert_eq!(messages(bench, HookMessageFilter { channel, ..all() }).await, [late]);
    let before = Some(middle);
    assert_eq!(messages(bench, HookMessageFilter { before, ..all() }).await, [paid]);
    let after = Some(middle);
    assert_eq!(messages(bench, HookMessageFilter { after, ..all() }).await, [late]);
    let between = HookMessageFilter { after: Some(start), before: Some(end), ..all() };
    assert_eq!(messages(bench, between).await, [other]);
}

/// Messages are filtered by an endpoint that has a delivery of them.
pub async fn messages_are_listed_by_endpoint(bench: &HookBench) {
    bench.emit().await;
    let id = bench.with(plain()).await;
    let ids = bench.emit_many(2).await;
    let filter = HookMessageFilter { endpoint: Some(id), ..HookMessageFilter::default() };
    assert_eq!(messages(bench, filter).await, ids);
    let unknown = Some(EndpointId::generate());
    let filter = HookMessageFilter { endpoint: unknown, ..HookMessageFilter::default() };
    assert_eq!(messages(bench, filter).await, []);
}

/// A filter applies to every page.
pub async fn filters_hold_on_every_page(bench: &HookBench) {
    let mut wanted = Vec::new();
    for n in 0..9 {
        let event_type = if n % 3 == 0 { event("rare") } else { event("common") };
        let id = bench.stored(NewMessage { event_type, ..bench.message() }).await.0.id;
        if n % 3 == 0 {
            wanted.push(id);
        }
    }
    let filter = HookMessageFilter { event_types: vec![event("rare")], ..Default::default() };
    let page = bench.hook.messages(bench.app, filter.clone(), first(2)).await.expect("listed");
    assert_eq!(page.items.iter().map(|one| one.id).collect::<Vec<_>>(), wanted[..2]);
    assert!(!page.done);
    let rest = PageRequest { after: Some(wanted[1]), ..first(2) };
    let page = bench.hook.messages(bench.app, filter, rest).await.expect("listed");
    assert_eq!(page.items.iter().map(|one| one.id).collect::<Vec<_>>(), wanted[2..]);
    assert!(page.done);
}

/// Payloads and responses are returned on request.
pub async fn content_comes_on_request(bench: &HookBench) {
    bench.with(plain()).await;
    bench.emit().await;
    let item = bench.one().await;
    bench.deliver(&item).await;
    for with_content in [false, true] {
        let filter = HookMessageFilter { with_content, ..HookMessageFilter::default() };
        let page = bench.hook.messages(bench.app, filter, first(5)).await.expect("listed");
        assert_eq!(page.items[0].payload.is_some(), with_content);
        let filter = AttemptFilter { with_content, ..AttemptFilter::default() };
        let page = bench.hook.attempts(bench.app, filter, first(5)).await.expect("listed");
        assert_eq!(page.items[0].response.is_some(), with_content);
    }
}

/// A list contains objects of one application only.
pub async fn lists_are_of_one_application(bench: &HookBench) {
    bench.with(plain()).await;
    let id = bench.emit().await;
    let item = bench.one().await;
    bench.deliver(&item).await;
    let other = bench.application(application(None)).await;
    bench.stored(message(other)).await;
    assert_eq!(messages(bench, HookMessageFilter::default()).await, [id]);
    let page = bench.hook.attempts(other, Default::default(), first(5)).await.expect("listed");
    assert!(page.items.is_empty() && page.done);
    let attempt = item.token.attempt;
    assert_eq!(bench.hook.attempt(other, attempt).await.expect("it is read"), None);
    let page = bench.hook.deliveries(other, id, first(5)).await.expect("listed");
    assert!(page.items.is_empty());
    let unknown = ApplicationId::generate();
    let page = bench.hook.messages(unknown, Default::default(), first(5)).await.expect("listed");
    assert!(page.items.is_empty() && page.done);
}

/// The deliveries of a message are listed by endpoint, in pages.
pub async fn deliveries_are_listed_by_endpoint(bench: &HookBench) {
    let mut ids = Vec::new();
    for _ in 0..4 {
        ids.push(bench.with(plain()).await);
    }
    let message = bench.emit().await;
    let list = async |request| {
        let page = bench.hook.deliveries(bench.app, message, request).await.expect("listed");
        (page.items.iter().map(|one| one.endpoint).collect::<Vec<_>>(), page.done)
    };
    assert_eq!(list(first(9)).await, (ids.clone(), true));
    assert_eq!(list(first(2)).await, (ids[..2].to_vec(), false));
    let back = PageRequest { after: Some(ids[3]), backwards: true, ..first(2) };
    assert_eq!(list(back).await, (ids[1..3].to_vec(), false));
    let down = PageRequest { order: PageOrder::Descending, ..first(1) };
    assert_eq!(list(down).await, (vec![ids[3]], false));
}

/// Deliveries of some messages to one endpoint are returned in the order of the messages.
pub async fn deliveries_to_one_endpoint_come_in_order(bench: &HookBench) {
    let before = bench.emit().await;
    let id = bench.with(plain()).await;
    let ids = bench.emit_many(2).await;
    let requested = vec![ids[1], before, ids[0], HookMessageId::generate()];
    let found = bench.hook.deliveries_to(id, requested).await.expect("read");
    let got: Vec<_> = found.iter().map(|one| one.as_ref().map(|one| one.message)).collect();
    assert_eq!(got, [Some(ids[1]), None, Some(ids[0]), None]);
    let first = found[2].as_ref().expect("it is there");
    let now = bench.now().await;
    assert_eq!((first.endpoint, first.state), (id, DeliveryState::Pending));
    assert_eq!((first.created_at, first.next_attempt_at), (now, Some(now)));
}

/// Deliveries are counted by state.
pub async fn stats_count_deliveries_by_state(bench: &HookBench) {
    let id = bench.with(plain()).await;
    bench.emit().await;
    let item = bench.one().await;
    bench.deliver(&item).await;
    bench.advance(10).await;
    let since = bench.now().await;
    let ids = bench.emit_many(6).await;
    let got = bench.take(4).await;
    bench.deliver(&got[0]).await;
    bench.fail(&got[1]).await;
    bench.retry(&got[2], 60).await;
    bench.cancel(ids[5]).await;
    let stats =
        async |app, id, since| bench.hook.endpoint_stats(app, id, since).await.expect("counted");
    let recent = EndpointStats { delivered: 1, waiting: 2, in_flight: 1, failed: 1, cancelled: 1 };
    assert_eq!(stats(bench.app, id, Some(since)).await, recent);
    let all = EndpointStats { delivered: 2, ..recent };
    assert_eq!(stats(bench.app, id, None).await, all);
    let other = bench.application(application(None)).await;
    assert_eq!(stats(other, id, None).await, EndpointStats::default());
    let unknown = EndpointId::generate();
    assert_eq!(stats(bench.app, unknown, None).await, EndpointStats::default());
}

/// Makes attempts of all kinds: succeeded, failed with a status, failed without one, unknown.
async fn several(bench: &HookBench) -> [AttemptId; 4] {
    let ids = bench.emit_many(4).await;
    let mut attempts = Vec::new();
    for _ in ids {
        attempts.push(bench.one().await);
    }
    bench.deliver(&attempts[0]).await;
    for (item, status) in [(&attempts[1], Some(503)), (&attempts[2], None)] {
        let end = end(item.token, DeliveryVerdict::Failed);
        bench.settle(SettleDelivery { record: record(status), ..end }).await;
    }
    bench.advance(30).await;
    let again = bench.one().await;
    bench.release(&[&again]).await;
    [0, 1, 2, 3].map(|n| attempts[n].token.attempt)
}

/// Attempts are filtered by outcome: unknown ones count as failed too.
pub async fn attempts_are_listed_by_outcome(bench: &HookBench) {
    bench.with(plain()).await;
    let [ok, refused, silent, unknown] = several(bench).await;
    let by = async |outcome| {
        attempts(bench, AttemptFilter { outcome: Some(outcome), ..Default::default() }).await
    };
    assert_eq!(by(AttemptOutcome::Succeeded).await, [ok]);
    assert_eq!(by(AttemptOutcome::Failed).await, [refused, silent, unknown]);
    assert_eq!(by(AttemptOutcome::Unknown).await, [unknown]);
    assert_eq!(attempts(bench, Default::default()).await, [ok, refused, silent, unknown]);
}

/// Attempts are filtered by the hundreds of their status.
pub async fn attempts_are_listed_by_status(bench: &HookBench) {
    bench.with(plain()).await;
    let [ok, refused, silent, unknown] = several(bench).await;
    let by = async |class| {
        attempts(bench, AttemptFilter { status_class: Some(class), ..Default::default() }).await
    };
    assert_eq!(by(200).await, [ok]);
    assert_eq!(by(500).await, [refused]);
    assert_eq!(by(400).await, []);
    assert_eq!(by(0).await, [silent, unknown]);
}

/// Attempts are filtered by message, endpoint, type and channel.
pub async fn attempts_are_listed_by_what_they_are_of(bench: &HookBench) {
    let (one, other) = (bench.with(plain()).await, bench.with(plain()).await);
    bench.emit().await;
    let odd =
        NewMessage { event_type: event("odd"), channels: channels(&["x"]), ..bench.message() };
    let odd = bench.stored(odd).await.0.id;
    let answer = bench.claim(super::push(vec![super::request(9)])).await;
    let mut all = Vec::new();
    for group in &answer.groups[0] {
        let item = &group.items[0];
        bench.deliver(item).await;
        all.push((item.token.attempt, group.target.endpoint, item.message));
    }
    all.sort_unstable();
    let pick = |fits: &dyn Fn(EndpointId, HookMessageId) -> bool| -> Vec<AttemptId> {
        all.iter().filter(|(_, to, message)| fits(*to, *message)).map(|(id, _, _)| *id).collect()
    };
    let base = AttemptFilter::default;
    let filter = AttemptFilter { message: Some(odd), ..base() };
    assert_eq!(attempts(bench, filter).await, pick(&|_, message| message == odd));
    let filter = AttemptFilter { endpoint: Some(other), ..base() };
    assert_eq!(attempts(bench, filter).await, pick(&|to, _| to == other));
    let filter = AttemptFilter { event_types: vec![event("odd")], ..base() };
    assert_eq!(attempts(bench, filter).await, pick(&|_, message| message == odd));
    let filter = AttemptFilter { channel: channels(&["x"]).pop(), ..base() };
    assert_eq!(attempts(bench, filter).await, pick(&|_, message| message == odd));
    let filter = AttemptFilter { message: Some(odd), endpoint: Some(one), ..base() };
    assert_eq!(attempts(bench, filter).await, pick(&|to, message| to == one && message == odd));
}

/// Attempts are filtered by the time at which they began.
pub async fn attempts_are_listed_by_time(bench: &HookBench) {
    bench.with(plain()).await;
    bench.emit_many(3).await;
    let mut all = Vec::new();
    for _ in 0..3 {
        let item = bench.one().await;
        bench.deliver(&item).await;
        let kept = bench.attempt(item.token.attempt).await.expect("it is in the log");
        all.push((kept.id, kept.began_at));
        bench.advance(1).await;
    }
    let before = AttemptFilter { before: Some(all[1].1), ..Default::default() };
    assert_eq!(attempts(bench, before).await, [all[0].0]);
    let after = AttemptFilter { after: Some(all[1].1), ..Default::default() };
    assert_eq!(attempts(bench, after).await, [all[2].0]);
    let between = AttemptFilter {
        after: Some(all[0].1),
        before: Some(all[1].1.plus(secs(1))),
        ..Default::default()
    };
    assert_eq!(attempts(bench, between).await, [all[1].0]);
}

/// Attempts are listed in pages, in both directions.
pub async fn attempts_are_listed_page_by_page(bench: &HookBench) {
    bench.with(plain()).await;
    bench.emit_many(5).await;
    let mut ids = Vec::new();
    for _ in 0..5 {
        let item = bench.one().await;
        bench.deliver(&item).await;
        ids.push(item.token.attempt);
    }
    let list = async |request| {
        let page = bench.hook.attempts(bench.app, Default::default(), request).await;
        let page = page.expect("listed");
        (page.items.iter().map(|one| one.id).collect::<Vec<_>>(), page.done)
    };
    let newest = PageRequest { order: PageOrder::Descending, ..first(2) };
    assert_eq!(list(newest).await, (vec![ids[4], ids[3]], false));
    let next = PageRequest { after: Some(ids[3]), order: PageOrder::Descending, ..first(9) };
    assert_eq!(list(next).await, (vec![ids[2], ids[1], ids[0]], true));
    let back = PageRequest {
        after: Some(ids[1]),
        order: PageOrder::Descending,
        backwards: true,
        limit: 2,
    };
    assert_eq!(list(back).await, (vec![ids[3], ids[2]], false));
}

/// An attempt that is read alone is the same as in a list.
pub async fn an_attempt_reads_the_same_alone(bench: &HookBench) {
    bench.with(plain()).await;
    several(bench).await;
    let filter = AttemptFilter { with_content: true, ..AttemptFilter::default() };
    let page = bench.hook.attempts(bench.app, filter, first(9)).await.expect("listed");
    assert_eq!(page.items.len(), 4);
    for attempt in page.items {
        assert_eq!(bench.attempt(attempt.id).await, Some(attempt));
    }
    assert_eq!(bench.attempt(AttemptId::generate()).await, None);
}
