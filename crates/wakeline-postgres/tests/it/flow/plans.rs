//! The buffers that claims and commits read do not grow with the number of sleeping instances.

use crate::measured::Measured;

/// The additional buffers per index descent: the indexes are one or two levels higher.
pub(super) const GROWTH_MAX: i64 = 40;

const FILLED: [&str; 6] = [
    "flow_lanes",
    "flow_messages",
    "flow_work",
    "flow_instances",
    "flow_executions",
    "flow_work_bodies",
];

pub(super) struct Store(pub(super) Measured);

impl Store {
    pub(super) async fn open() -> Self {
        let prepare = "INSERT INTO flow_capabilities (name) VALUES ('main'), ('other');";
        Self(Measured::open(&FILLED, prepare).await)
    }

    /// Adds instances that sleep on a timer, every tenth with an activity that is leased; and, the
    /// first time, ten that are due, with activities that wait.
    pub(super) async fn grow(&self, from: u32, to: u32) {
        let sql = format!(
            "INSERT INTO flow_lanes (instance, capability_id, due_at, next_seq, phase)
             SELECT 'i' || n, 1 + n % 2, now() + CASE WHEN n <= 10 THEN - interval '1 s'
                ELSE interval '1 day' END, 2, 1 FROM generate_series({from}, {to}) AS n;
             INSERT INTO flow_messages (lane_id, seq, visible_at, starts, payload)
             SELECT lane_id, 1, due_at, false, 'x' FROM flow_lanes l
             WHERE NOT EXISTS (SELECT FROM flow_messages m WHERE m.lane_id = l.lane_id);
             INSERT INTO flow_instances (lane_id, instance, name, execution, state, created_at,
                updated_at)
             SELECT lane_id, instance, 'order', 1, 'running', now(), now() FROM flow_lanes l
             WHERE NOT EXISTS (SELECT FROM flow_instances i WHERE i.lane_id = l.lane_id);
             INSERT INTO flow_executions (lane_id, execution, state, started_at)
             SELECT lane_id, 1, 'running', now() FROM flow_lanes l
             WHERE NOT EXISTS (SELECT FROM flow_executions e WHERE e.lane_id = l.lane_id);
             INSERT INTO flow_work (lane_id, execution, activity, state, due_at, lease_token,
                attempts)
             SELECT lane_id, 1, 1, CASE WHEN due_at < now() THEN 0 ELSE 1 END,
                CASE WHEN due_at > now() THEN due_at END,
                CASE WHEN due_at > now() THEN gen_random_uuid() END, 0
             FROM flow_lanes l
             WHERE (lane_id % 10 = 0 OR due_at < now())
                AND NOT EXISTS (SELECT FROM flow_work w WHERE w.lane_id = l.lane_id);
             INSERT INTO flow_work_bodies (work_id, payload)
             SELECT work_id, 'x' FROM flow_work w
             WHERE NOT EXISTS (SELECT FROM flow_work_bodies b WHERE b.work_id = w.work_id)"
        );
        self.0.fill(&sql).await;
    }
}

const KEY: &str = "00000000-0000-0000-0000-000000000001";

/// The arguments for one activity of the first command.
const WORK: &str = "'{1}', '{1}', '{7}', '{0}', '{NULL}', '{0}', '{NULL}', ARRAY['x'::bytea]";

fn statements() -> Vec<(&'static str, String, String)> {
    let turns = |caps: &str| {
        format!(
            "SELECT c.kind, t.* FROM flow_claim_turns('[{{\"caps\": {caps}, \"requests\": \
             [{{\"key\": \"{KEY}\", \"lease\": 9000000, \"again\": false}}]}}]', false) c \
             LEFT JOIN LATERAL flow_leased_turns(c.ids, c.commands, c.requests, c.now_at) t ON true"
        )
    };
    let work = format!(
        "SELECT c.kind, w.* FROM flow_claim_work('[{{\"tags\": [0], \"requests\": \
         [{{\"key\": \"{KEY}\", \"lease\": 9000000, \"again\": false}}]}}]', false) c \
         LEFT JOIN LATERAL flow_leased_work(c.ids, c.commands, c.requests, c.now_at) w ON true"
    );
    let nothing = "UPDATE flow_lanes SET due_at = NULL WHERE due_at < now()".to_owned();
    let idle = "UPDATE flow_work SET state = 1, due_at = now() + interval '1 day' WHERE state = 0";
    let lease = format!(
        "UPDATE flow_lanes SET lease_token = '{KEY}', lease_until = now() + interval '1 h', \
         lease_at = now(), lease_seq = 1, due_at = now() + interval '1 h' WHERE instance = 'i1'"
    );
    let commit = format!(
        "SELECT * FROM flow_commit((SELECT jsonb_build_array(jsonb_build_object('lane', lane_id, \
         'key', '{KEY}', 'execution', 1, 'first', 1, 'last', 1, 'events', 1, 'statuses', 0, \
         'kv', false, 'kv_clear', false, 'clear', false)) FROM flow_lanes WHERE instance = 'i1'), \
         '[]', {WORK}, '[]', '[{{\"c\": 1, \"instance\": \"i2\", \"after\": 0, \"body\": 1, \
         \"uniq\": false, \"ended_too\": false}}]', '[]', '[]', '[]', ARRAY['x'::bytea]{})",
        ", '{}'".repeat(19)
    );
    let plain = format!(
        "SELECT * FROM flow_commit_plain(ARRAY(SELECT lane_id FROM flow_lanes WHERE instance = \
         'i1'), '{{{KEY}}}', '{{1}}', '{{NULL}}', '{{NULL}}', '{{NULL}}', '{{NULL}}', '{{NULL}}', \
         '{{1}}', '{{1}}', ARRAY['x'::bytea], '{{0}}', '{{NULL}}', '{{NULL}}', '{{NULL}}', {WORK}, \
         '[]')"
    );
    let complete = format!(
        "SELECT * FROM flow_complete_plain(ARRAY(SELECT lane_id FROM flow_lanes WHERE instance = \
         'i1'), ARRAY(SELECT work_id FROM flow_work JOIN flow_lanes USING (lane_id) WHERE \
         instance = 'i1'), '{{{KEY}}}', \
         '{{i1}}', ARRAY['x'::bytea], '[]')"
    );
    let lease_work = format!(
        "UPDATE flow_work SET state = 1, lease_token = '{KEY}', due_at = now() + interval '1 h' \
         WHERE lane_id = (SELECT lane_id FROM flow_lanes WHERE instance = 'i1')"
    );
    let unclaimed = written_out(include_str!("../../../sql/queries/flow_unclaimed.sql"));
    let unclaimed = unclaimed.replace("$1", "30000000").replace("$2", "1000");
    let start = "SELECT * FROM flow_start('{new}', '{1}', ARRAY['x'::bytea], '[]')";
    let enqueue = "SELECT * FROM flow_enqueue(1, '[{\"c\": 1, \"instance\": \"new\", \"after\": 0, \
         \"body\": 1, \"starts\": 1, \"uniq\": true, \"ended_too\": false}]', '[]', \
         ARRAY['x'::bytea])";
    vec![
        ("claim turns", String::new(), turns("[1]")),
        ("claim turns of any", String::new(), turns("null")),
        ("claim no turns", nothing, turns("[1]")),
        ("claim work", String::new(), work.clone()),
        ("claim no work", idle.to_owned(), work),
        ("enqueue", String::new(), enqueue.to_owned()),
        ("start", String::new(), start.to_owned()),
        ("complete", lease_work, complete),
        ("unclaimed", String::new(), unclaimed),
        ("commit", lease.clone(), commit),
        ("commit of a plain turn", lease, plain),
    ]
}

#[tokio::test]
async fn costs_do_not_grow_with_sleeping_instances() {
    let store = Store::open().await;
    store.grow(1, 100).await;
    let mut small = Vec::new();
    for (_, before, statement) in &statements() {
        small.push(store.0.buffers(before, statement).await);
    }
    store.grow(101, 100_000).await;
    let mut grown = Vec::new();
    for ((name, before, statement), small) in statements().iter().zip(small) {
        grown.push((*name, small, store.0.buffers(before, statement).await));
    }
    for (name, before, after) in &grown {
        assert!(after - before <= GROWTH_MAX, "{name} grew: {grown:?}");
        assert!(*before < 400, "{name} is costly: {grown:?}");
    }
}

/// A claim does not return a history of eight megabytes.
#[tokio::test]
async fn a_long_history_is_not_read_by_a_claim() {
    let store = Store::open().await;
    let turns = "SELECT * FROM flow_leased_turns('{1}', '{1}', '{1}', now())";
    store.grow(1, 1).await;
    let before = store.0.buffers("", turns).await;
    let history = "INSERT INTO flow_history (lane_id, execution, first_event, last_event, events)
         SELECT 1, 1, n, n, convert_to((SELECT string_agg(md5((n * 256 + m)::text), '')
            FROM generate_series(1, 256) AS m), 'UTF8')
         FROM generate_series(1, 1000) AS n;
         UPDATE flow_executions SET last_event = 1000, history_bytes = 8192000";
    store.0.fill(history).await;
    let after = store.0.buffers("", turns).await;
    assert!(after - before <= GROWTH_MAX, "{before} and {after} buffers");
}

/// A statement for the schema in the connection's search path.
pub(super) fn written_out(sql: &str) -> String {
    let lines = sql.lines().filter(|line| !line.starts_with("--"));
    lines.collect::<Vec<_>>().join("\n").replace("@schema@.", "")
}

/// The statement that reads a page of ten, with literal parameters.
fn page_of(states: &str) -> String {
    let sql = written_out(include_str!("../../../sql/queries/flow_list.sql"));
    let null = |sql: String, n: &str| sql.replace(n, "NULL");
    let sql = sql.replace("$10", "11").replace("$2", states);
    ["$1", "$3", "$4", "$5", "$6", "$7", "$8", "$9"].into_iter().fold(sql, null)
}

#[tokio::test]
async fn a_page_of_instances_reads_few_pending_ones_and_no_other_lanes() {
    let store = Store::open().await;
    let pages = [page_of("'{pending}'"), page_of("'{}'")];
    let start = |from, to| {
        format!(
            "INSERT INTO flow_lanes (instance, capability_id, due_at, next_seq, started_at)
             SELECT 'p' || n, 2, now(), 2, now() - n * interval '1 s'
             FROM generate_series({from}, {to}) AS n;
             INSERT INTO flow_messages (lane_id, seq, visible_at, starts, payload)
             SELECT lane_id, 1, due_at, true, 'x' FROM flow_lanes l
             WHERE NOT EXISTS (SELECT FROM flow_messages m WHERE m.lane_id = l.lane_id)"
        )
    };
    store.grow(1, 100).await;
    store.0.fill(&start(1, 100)).await;
    let mut small = Vec::new();
    for page in &pages {
        small.push(store.0.buffers("", page).await);
    }
    store.grow(101, 20_000).await;
    store.0.fill(&start(101, 20_000)).await;
    for (page, small) in pages.iter().zip(small) {
        let grown = store.0.buffers("", page).await;
        assert!(grown < 200, "{small} buffers became {grown}: {page}");
    }
}

/// It reads neither started nor pending instances of other parents, with a generic plan.
#[tokio::test]
async fn a_page_of_children_reads_no_other_instances() {
    let store = Store::open().await;
    let sql = written_out(include_str!("../../../sql/queries/flow_list_parent.sql"));
    let prepare = format!("SET plan_cache_mode = force_generic_plan; PREPARE children AS {sql}");
    store.0.client.batch_execute(&prepare).await.expect("prepared");
    let page = "EXECUTE children (NULL, '{}', NULL, NULL, 'none', NULL, NULL, NULL, NULL, 11)";
    let grow = |from, to| {
        format!(
            "INSERT INTO flow_lanes (instance, parent, capability_id, due_at, next_seq, started_at)
             SELECT 'p' || n, 'q' || n / 3, 2, now(), 2, now() - n * interval '1 s'
             FROM generate_series({from}, {to}) AS n;
             INSERT INTO flow_messages (lane_id, seq, visible_at, starts, payload)
             SELECT lane_id, 1, due_at, true, 'x' FROM flow_lanes l
             WHERE NOT EXISTS (SELECT FROM flow_messages m WHERE m.lane_id = l.lane_id);
             UPDATE flow_instances SET parent = 'q' || lane_id / 3"
        )
    };
    store.grow(1, 100).await;
    store.0.fill(&grow(1, 100)).await;
    store.grow(101, 10_000).await;
    store.0.fill(&grow(101, 10_000)).await;
    let buffers = store.0.buffers("", page).await;
    assert!(buffers < 50, "{buffers} buffers");
}

#[tokio::test]
async fn the_view_shows_pending_instances_with_the_reason_of_a_suspension() {
    let store = Store::open().await;
    let sql = "SELECT * FROM flow_start('{a,b}', '{1,1}', ARRAY['x', 'x']::bytea[], '[]');
         SELECT flow_suspend('b', NULL, NULL, 'mismatch', 'the code has changed')";
    store.0.client.batch_execute(sql).await.expect("started");
    let sql = "SELECT concat_ws(' ', instance, name, state, suspended_because) FROM orchestrations
         ORDER BY instance";
    let rows = store.0.client.query(sql, &[]).await.expect("read");
    let shown: Vec<String> = rows.iter().map(|row| row.get(0)).collect();
    assert_eq!(shown, ["a main pending", "b main pending the code has changed"]);
}

/// A node of the previous release does not write the time of a start.
#[tokio::test]
async fn a_pending_instance_of_an_earlier_release_can_be_watched() {
    let store = Store::open().await;
    let sql = "SELECT * FROM flow_start('{a}', '{1}', ARRAY['x']::bytea[], '[]');
         UPDATE flow_lanes SET started_at = NULL";
    store.0.client.batch_execute(sql).await.expect("started");
    let sql = "SELECT o_state || ' ' || (o_created_at IS NOT NULL)
             || ' ' || (o_updated_at IS NOT NULL) FROM flow_watch('{a}')";
    let row = store.0.client.query_one(sql, &[]).await.expect("read");
    assert_eq!(row.get::<_, &str>(0), "pending true true");
}

/// The sessions of other owners have delayed and available activities. The statement was planned
/// while the tables were almost empty.
#[tokio::test]
async fn an_empty_claim_reads_each_session_of_another_owner_once() {
    let claim = format!(
        "SELECT * FROM flow_claim_work('[{{\"tags\": [0], \"owner\": \"me\", \"session_lease\": \
         1000000, \"requests\": [{{\"key\": \"{KEY}\", \"lease\": 9000000, \
         \"again\": false}}]}}]', false)"
    );
    for state in [0, 1] {
        let store = Store::open().await;
        let grow = |from, to| {
            format!(
                "INSERT INTO flow_sessions (session, owner, owned_until, active_at)
                 SELECT 's' || n, 'other', now() + interval '2 h', now()
                 FROM generate_series({from}, {to}) AS n;
                 INSERT INTO flow_work (lane_id, execution, activity, session, state, due_at)
                 SELECT 1, 1, n, 's' || n, {state},
                    CASE WHEN {state} = 1 THEN now() + interval '1 h' END
                 FROM generate_series({from}, {to}) AS n"
            )
        };
        store.0.fill(&grow(1, 1)).await;
        store.0.buffers("", &claim).await;
        store.0.client.batch_execute(&grow(2, 2_000)).await.expect("filled");
        let buffers = store.0.buffers("", &claim).await;
        assert!(buffers < 2_000 * 15, "state {state}: {buffers} buffers");
    }
}

/// Activities for which a worker has no code cost its claims nothing, whether they are available or
/// delayed.
#[tokio::test]
async fn an_empty_claim_does_not_read_activities_that_its_worker_does_not_know() {
    let claim = format!(
        "SELECT * FROM flow_claim_work('[{{\"tags\": [0], \"names\": [1, 2], \"owner\": \"me\", \
         \"session_lease\": 1000000, \"requests\": [{{\"key\": \"{KEY}\", \"lease\": 9000000, \
         \"again\": false}}]}}]', false)"
    );
    let store = Store::open().await;
    let grow = |from, to| {
        format!(
            "INSERT INTO flow_work (lane_id, execution, activity, name_id, session, state, due_at)
             SELECT 1, 1, n, 3, CASE WHEN n % 4 < 2 THEN 's' || n END, n % 2,
                CASE WHEN n % 2 = 1 THEN now() + interval '1 h' END
             FROM generate_series({from}, {to}) AS n"
        )
    };
    store.0.fill(&grow(1, 100)).await;
    let few = store.0.buffers("", &claim).await;
    store.0.fill(&grow(101, 10_000)).await;
    let many = store.0.buffers("", &claim).await;
    assert!(many <= few + GROWTH_MAX, "{few} buffers, then {many}");
}
