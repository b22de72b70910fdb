//! Tests of `notify = trigger`: rows that psql writes into the tables wake the fetches of any node
//! when they are due.

use std::sync::Arc;
use std::time::{Duration, Instant};

use wakeline::core::{
    ActivityFilter, ActivityName, ActivityNames, InstanceId, OrchestrationName, Tag, TagFilter,
};
use wakeline::provider::{FetchedWork, Provider, WorkFilter};
use wakeline::{
    ActivityPolicy, ActivityTask, FlowMessage, Json, NotifyMode, PostgresOptions, PostgresProvider,
};

use super::fetching::parked;
use super::{HOUR, LOCK, POLL, patient, send, soon, waiting};
use crate::support::{Database, Node};

const LATER: Duration = Duration::from_secs(1);

const LATER_SQL: &str = "clock_timestamp() + interval '1 s'";

async fn node(database: &Database) -> Node {
    let options = PostgresOptions { notify: NotifyMode::Trigger, ..database.options() };
    Node::Postgres(PostgresProvider::connect(options, patient()).await.expect("connected"))
}

async fn run(database: &Database, sql: &str) {
    database.0.client().await.batch_execute(sql).await.expect("psql may write that");
}

/// Creates a message of an instance whose only other message is due in an hour.
fn message(due: &str) -> String {
    format!(
        "INSERT INTO wakeline.flow_messages (lane_id, seq, visible_at, starts, payload)
         SELECT lane_id, max(seq) + 1, {due}, false, min(payload::text)::bytea
         FROM wakeline.flow_messages GROUP BY lane_id"
    )
}

/// The design's `test_notify_emitted_on_orchestrator_insert`, to the fetch that it wakes.
#[tokio::test]
async fn a_message_is_fetched_when_it_is_inserted_and_when_its_time_is_moved() {
    let moved = |due: &str| format!("UPDATE wakeline.flow_messages SET visible_at = {due}");
    let lane = |due: &str| {
        format!(
            "UPDATE wakeline.flow_messages SET visible_at = clock_timestamp();
             UPDATE wakeline.flow_lanes SET due_at = {due}"
        )
    };
    let writes = [
        (moved("clock_timestamp()"), Duration::ZERO),
        (moved(LATER_SQL), LATER),
        (message("clock_timestamp()"), Duration::ZERO),
        (message(LATER_SQL), LATER),
        (lane("clock_timestamp()"), Duration::ZERO),
    ];
    for (write, due_in) in writes {
        let database = Database::create().await;
        let (a, b) = (node(&database).await, node(&database).await);
        send(&a.provider(), "a", Some(HOUR)).await;
        let fetching = waiting(&b.provider());
        parked(&b, 1).await;
        let started = Instant::now();
        run(&database, &write).await;
        assert_eq!(soon(fetching).await.instance.as_str(), "a", "{write}");
        assert!(started.elapsed() >= due_in, "{write}: {:?}", started.elapsed());
    }
}

#[tokio::test]
async fn both_nodes_are_woken_by_messages_for_two_instances() {
    let database = Database::create().await;
    let (a, b) = (node(&database).await, node(&database).await);
    send(&a.provider(), "a", Some(HOUR)).await;
    send(&a.provider(), "b", Some(HOUR)).await;
    let fetching = [waiting(&a.provider()), waiting(&b.provider())];
    parked(&a, 1).await;
    parked(&b, 1).await;
    run(&database, "UPDATE wakeline.flow_messages SET visible_at = clock_timestamp()").await;
    let mut fetched = Vec::new();
    for fetching in fetching {
        fetched.push(soon(fetching).await.instance.to_string());
    }
    fetched.sort();
    assert_eq!(fetched, ["a", "b"]);
}

fn drawing() -> FlowMessage {
    FlowMessage::ActivityExecute(ActivityTask {
        instance: InstanceId::new("a").expect("valid"),
        execution: 1,
        event: 2,
        identity: None,
        orchestration: OrchestrationName::new("work").expect("valid"),
        name: "draw".to_owned(),
        input: Json::null(),
        tag: None,
        session: None,
        policy: ActivityPolicy::default(),
    })
}

/// Starts a worker that waits for activities with this tag and name.
fn working(
    provider: &Arc<dyn Provider>,
    tag: Option<&str>,
    name: &str,
) -> tokio::task::JoinHandle<Option<FetchedWork>> {
    let provider = Arc::clone(provider);
    let tags = match tag {
        None => TagFilter::untagged(),
        Some(tag) => {
            let tags = [Tag::new(tag).expect("valid")].into_iter().collect();
            TagFilter::Of { untagged: false, tags }
        }
    };
    let names = [ActivityName::new(name).expect("valid")].into_iter().collect();
    let names = ActivityNames::Of(Arc::new(names));
    let filter = WorkFilter { activities: ActivityFilter { tags, names }, session: None };
    tokio::spawn(async move {
        provider.fetch_work_item_for(&filter, LOCK, POLL).await.expect("fetched")
    })
}

async fn work_soon(working: tokio::task::JoinHandle<Option<FetchedWork>>) -> FetchedWork {
    let fetched = tokio::time::timeout(Duration::from_secs(30), working).await;
    fetched.expect("woken").expect("no panic").expect("an activity")
}

/// Creates another activity like the first one, for workers of this tag and name.
fn activity(number: u32, tag: &str, name: &str, due: Option<&str>) -> String {
    let (state, due) = due.map_or((0, "NULL"), |due| (1, due));
    format!(
        "BEGIN;
         INSERT INTO wakeline.flow_tags (name) VALUES ('gpu') ON CONFLICT DO NOTHING;
         INSERT INTO wakeline.flow_activity_names (name) VALUES ('draw'), ('other')
             ON CONFLICT DO NOTHING;
         WITH added AS (
             INSERT INTO wakeline.flow_work
                 (lane_id, execution, activity, state, due_at, tag_id, name_id)
             SELECT lane_id, execution, {number}, {state}, {due},
                 coalesce((SELECT tag_id FROM wakeline.flow_tags WHERE name = '{tag}'), 0),
                 coalesce((SELECT name_id FROM wakeline.flow_activity_names
                     WHERE name = '{name}'), 0)
             FROM wakeline.flow_work ORDER BY work_id LIMIT 1
             RETURNING work_id)
         INSERT INTO wakeline.flow_work_bodies (work_id, payload)
         SELECT added.work_id, (SELECT b.payload FROM wakeline.flow_work_bodies b LIMIT 1)
         FROM added;
         COMMIT"
    )
}

/// The design's `test_notify_emitted_on_worker_insert`, to the fetch that it wakes.
#[tokio::test]
async fn an_activity_is_fetched_when_it_is_inserted_and_when_its_time_is_moved() {
    let database = Database::create().await;
    let (a, b) = (node(&database).await, node(&database).await);
    let (sender, worker) = (a.provider(), b.provider());
    send(&sender, "a", Some(HOUR)).await;
    sender.enqueue_for_worker(drawing()).await.expect("stored");
    let first = fetch_work(&sender).await;
    let delay = Some(HOUR);
    sender.abandon_work_item(&first.lock_token, delay, true).await.expect("given back");
    for (due, due_in) in [("clock_timestamp()", Duration::ZERO), (LATER_SQL, LATER)] {
        let waiting = working(&worker, None, "draw");
        parked(&b, 1).await;
        let started = Instant::now();
        run(&database, &format!("UPDATE wakeline.flow_work SET due_at = {due}")).await;
        let again = work_soon(waiting).await;
        assert!(started.elapsed() >= due_in, "{:?}", started.elapsed());
        worker.abandon_work_item(&again.lock_token, delay, true).await.expect("given back");
    }

    let tagged = working(&worker, Some("gpu"), "draw");
    parked(&b, 1).await;
    // Not for this worker, because of the tag and because of the name.
    run(&database, &activity(11, "", "draw", None)).await;
    run(&database, &activity(12, "gpu", "other", None)).await;
    let started = Instant::now();
    run(&database, &activity(13, "gpu", "draw", Some(LATER_SQL))).await;
    let fetched = work_soon(tagged).await;
    assert_eq!(fetched.tag.as_ref().map(Tag::as_str), Some("gpu"));
    assert!(started.elapsed() >= LATER, "{:?}", started.elapsed());
}

async fn fetch_work(provider: &Arc<dyn Provider>) -> FetchedWork {
    let fetched = provider.fetch_work_item(LOCK, None).await.expect("fetched");
    fetched.expect("an activity")
}
