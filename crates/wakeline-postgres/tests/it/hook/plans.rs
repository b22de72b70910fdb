//! The buffers that emits, claims and settlements read do not grow with the number of endpoints,
//! the backlog or past deliveries.

use wakeline_testkit::hook_conformance::{items, plain, request};

use super::stage::Stage;
use crate::measured::Measured;

/// The additional buffers per index descent: the indexes are one or two levels higher.
const GROWTH_MAX: i64 = 60;

/// The same for each delivery of a call, plus the dead index entries that are read, of which there
/// are more while a snapshot of autovacuum keeps them. A scan would read all 10,000 deliveries.
const GROWTH_OF_ONE_MAX: i64 = 30;

/// The endpoints of the application have names that sort by their number.
const ENDPOINT: &str = "('00000000-0000-0000-0000-' || lpad(n::text, 12, '0'))::uuid";

const KEY: &str = "00000000-0000-0000-0000-00000000000a";

const FILLED: [&str; 6] = [
    "hook_endpoints",
    "hook_states",
    "hook_filters",
    "hook_messages",
    "hook_deliveries",
    "hook_attempts",
];

struct Store(Measured);

impl Store {
    async fn open() -> Self {
        let prepare = format!(
            "SELECT hook_application_create('{KEY}', 'main', 'main', NULL, '', NULL, NULL);"
        );
        Self(Measured::open(&FILLED, &prepare).await)
    }

    /// Adds endpoints, each with one message that was delivered and is due again in a day.
    async fn endpoints(&self, from: u32, to: u32) {
        self.0.fill(&endpoints(from, to)).await;
    }

    /// Adds deliveries to the first endpoint, in the given state and due now.
    async fn deliveries(&self, state: u32, from: u32, to: u32) {
        self.0.fill(&deliveries(state, from, to)).await;
    }

    /// Fills tables without updating the planner's statistics.
    async fn grow(&self, sql: &str) {
        self.0.client.batch_execute(sql).await.expect("filled");
    }

    async fn all(&self, statements: Vec<Statement>) -> Vec<(&'static str, i64)> {
        let mut counted = Vec::new();
        for (name, before, statement) in &statements {
            counted.push((*name, self.0.buffers(before, statement).await));
        }
        counted
    }
}

fn endpoints(from: u32, to: u32) -> String {
    format!(
        "SELECT count(*)
         FROM (SELECT {ENDPOINT} AS id, n FROM generate_series({from}, {to}) n) x,
             LATERAL hook_endpoint_create('{KEY}', NULL, x.id, NULL, 'url', '',
             ARRAY['type.' || x.n], '{{}}', NULL, '', '', '', '{{}}', false,
             ARRAY[NULL, NULL, 100, 5, 30000000, 3, NULL, 10, 25000000]::bigint[], NULL, NULL);
         INSERT INTO hook_messages (application_id, message_id, event_type, payload, created_at,
             expires_at)
         SELECT '{KEY}', {ENDPOINT}, 'type.' || n, 'x', now(), now() + interval '1 day'
         FROM generate_series({from}, {to}) n;
         INSERT INTO hook_deliveries (endpoint_id, message_id, state, class, fifo, due_at,
             created_at, updated_at)
         SELECT {ENDPOINT}, {ENDPOINT}, 0, 1, false, now() + interval '1 day', now(), now()
         FROM generate_series({from}, {to}) n;
         UPDATE hook_states SET due_at = now() + interval '1 day' WHERE due_at IS NULL"
    )
}

fn deliveries(state: u32, from: u32, to: u32) -> String {
    format!(
        "INSERT INTO hook_messages (application_id, message_id, event_type, payload, created_at,
             expires_at)
         SELECT '{KEY}', ('10000000-0000-0000-0000-' || lpad(n::text, 12, '0'))::uuid, 'type.1',
             'x', now(), now() + interval '1 day' FROM generate_series({from}, {to}) n;
         INSERT INTO hook_deliveries (endpoint_id, message_id, state, class, fifo, due_at,
             created_at, updated_at)
         SELECT '00000000-0000-0000-0000-000000000001',
             ('10000000-0000-0000-0000-' || lpad(n::text, 12, '0'))::uuid, {state}, 0, false,
             now(), now(), now() FROM generate_series({from}, {to}) n;
         UPDATE hook_states SET due_at = now(), fresh = true
         WHERE endpoint_id = '00000000-0000-0000-0000-000000000001'"
    )
}

/// The name of a statement, the statement to run before it, and the measured statement.
type Statement = (&'static str, String, String);

fn statements() -> Vec<Statement> {
    let claim = format!(
        "SELECT count(*) FROM hook_claim(ARRAY[NULL]::uuid[], '{{1}}', '{{1}}', '{{0}}', \
         ARRAY[NULL]::bigint[], '{{1}}', '{{1}}', ARRAY['{KEY}']::uuid[], '{{f}}', false, \
         '{{}}', '{{}}', '{{}}', ARRAY[NULL]::boolean[])"
    );
    let nothing = "UPDATE hook_states SET due_at = now() + interval '1 day' WHERE due_at <= now()";
    let emit = format!(
        "SELECT count(*) FROM hook_emit(ARRAY['20000000-0000-0000-0000-000000000001']::uuid[], \
         ARRAY['{KEY}']::uuid[], ARRAY[NULL]::text[], '{{1}}', '{{type.1}}', \
         '{{type.1,*,t*,ty*,typ*,type*,type.*,type.1*}}', '{{1,1,1,1,1,1,1,1}}', \
         ARRAY[NULL]::text[], ARRAY[NULL]::text[], ARRAY['x']::bytea[], '{{1000000}}', \
         ARRAY[NULL]::uuid[], ARRAY[NULL]::text[], ARRAY[NULL]::bytea[], ARRAY[NULL]::uuid[], \
         ARRAY[NULL]::text[], ARRAY[NULL]::text[], ARRAY[NULL]::bigint[], ARRAY[NULL]::bytea[], \
         '{{}}', '{{}}', '{{}}', '{{}}', '{{}}')"
    );
    let lease = format!(
        "UPDATE hook_deliveries SET state = 1, lease_key = '{KEY}', \
         lease_until = now() + interval '1 h', lease_at = now() \
         WHERE delivery_id = (SELECT max(delivery_id) FROM hook_deliveries)"
    );
    let settle = format!(
        "SELECT count(*) FROM hook_settle(ARRAY[(SELECT max(delivery_id) FROM hook_deliveries)], \
         ARRAY['{KEY}']::uuid[], '{{0}}', ARRAY[NULL]::bigint[], '{{1}}', ARRAY[NULL]::bigint[], \
         '{{f}}', '{{1}}', '{{1}}', '{{200}}', ARRAY['']::bytea[], ARRAY[NULL]::text[], '{{u}}')"
    );
    let mut all = vec![
        ("claim", String::new(), claim.clone()),
        ("claim nothing", nothing.to_owned(), claim),
        ("emit", String::new(), emit),
        ("settle", lease, settle),
        ("sweep", String::new(), "SELECT count(*) FROM hook_sweep('{0,2}', '{NULL,NULL}')".into()),
    ];
    all.extend(interventions());
    all
}

/// Administrative and bulk operations.
fn interventions() -> Vec<(&'static str, String, String)> {
    let delivery = format!(
        "'{KEY}', NULL, '10000000-0000-0000-0000-000000000001', NULL, {{}}\
         '00000000-0000-0000-0000-000000000001', NULL"
    );
    let cancel = format!("SELECT count(*) FROM hook_cancel({})", delivery.replace("{}", "false, "));
    let resend = format!("SELECT count(*) FROM hook_resend({})", delivery.replace("{}", ""));
    let job = |kind: u32, about: &str| {
        format!(
            "SELECT hook_job_start('{KEY}', NULL, gen_random_uuid(), {kind}::smallint, {about})"
        )
    };
    let one = "'00000000-0000-0000-0000-000000000001'";
    let piece = "SELECT count(*) FROM hook_background(2)";
    // One job is for an event type that no message has, for all endpoints; the other is for one
    // endpoint, far after the first message.
    let rare = job(0, "NULL, '{none}', NULL, NULL, '{}'");
    let ahead = job(2, &format!("{one}, '{{}}', NULL, NULL, '{{}}'"))
        + "; UPDATE hook_jobs SET place_message = '10000000-0000-0000-0000-000000000000', \
           place_endpoint = 'ffffffff-ffff-ffff-ffff-ffffffffffff'";
    let late = job(0, &format!("{one}, '{{}}', now() + interval '3 days', NULL, '{{}}'"));
    vec![
        ("cancel", String::new(), cancel),
        ("resend", String::new(), resend),
        ("a job of rare messages", rare, piece.to_owned()),
        ("a job further on", ahead, "SELECT count(*) FROM hook_background(1)".to_owned()),
        ("a job of late messages", late.clone(), piece.to_owned()),
        ("the start of a job", String::new(), late),
    ]
}

#[tokio::test]
async fn costs_do_not_grow_with_endpoints_backlog_or_the_past() {
    let store = Store::open().await;
    store.endpoints(1, 10).await;
    store.deliveries(0, 1, 10).await;
    let small = store.all(statements()).await;
    store.endpoints(11, 20_000).await;
    let many = store.all(statements()).await;
    store.deliveries(2, 11, 100_000).await;
    let past = store.all(statements()).await;
    store.deliveries(0, 100_001, 200_000).await;
    let backlog = store.all(statements()).await;
    for grown in [&many, &past, &backlog] {
        for ((name, before), (_, after)) in small.iter().zip(grown) {
            assert!(after - before <= GROWTH_MAX, "{name} grew: {small:?} {grown:?}");
            assert!(*before < 400, "{name} is costly: {small:?}");
        }
    }
}

/// Statements for twenty deliveries of the first endpoint.
fn batches() -> Vec<Statement> {
    let claim = "SELECT count(*) FROM hook_claim(ARRAY[NULL]::uuid[], '{1}', '{1}', '{0}', \
         ARRAY[NULL]::bigint[], '{1}', '{20}', ARRAY(SELECT gen_random_uuid() FROM \
         generate_series(1, 20)), array_fill(false, ARRAY[20]), false, '{}', '{}', '{}', \
         ARRAY[NULL]::boolean[])";
    let lease = "WITH leased AS (UPDATE hook_deliveries SET state = 1, lease_at = now(), \
         lease_key = ('20000000-0000-0000-0000-' || lpad(delivery_id::text, 12, '0'))::uuid, \
         lease_until = now() + interval '1 h' WHERE delivery_id IN (\
         SELECT delivery_id FROM hook_deliveries WHERE state = 0 AND class = 0 AND \
         endpoint_id = '00000000-0000-0000-0000-000000000001' ORDER BY delivery_id LIMIT 20) \
         RETURNING delivery_id, lease_key) \
         SELECT set_config('test.ids', array_agg(delivery_id)::text, true), \
         set_config('test.keys', array_agg(lease_key)::text, true) FROM leased";
    let same = |value: &str| format!("array_fill({value}, ARRAY[20])");
    let settle = format!(
        "SELECT count(*) FROM hook_settle(current_setting('test.ids')::bigint[], \
         current_setting('test.keys')::uuid[], {}, {none}, {}, {none}, {}, {one}, {one}, {}, {}, \
         {}, {})",
        same("0::smallint"),
        same("1::smallint"),
        same("false"),
        same("200"),
        same("''::bytea"),
        same("NULL::text"),
        same("'u'::text"),
        none = same("NULL::bigint"),
        one = same("1::bigint"),
    );
    vec![
        ("claim of many", String::new(), claim.to_owned()),
        ("settlement of many", lease.to_owned(), settle),
    ]
}

#[tokio::test]
async fn plans_made_on_small_tables_serve_large_ones() {
    let store = Store::open().await;
    store.endpoints(1, 10).await;
    store.deliveries(0, 1, 30).await;
    let (single, many) = (store.all(statements()).await, store.all(batches()).await);
    store.grow(&endpoints(11, 2_000)).await;
    store.grow(&deliveries(2, 31, 10_000)).await;
    let leased = "UPDATE hook_deliveries SET state = 1, lease_key = gen_random_uuid(), \
                  lease_at = now(), lease_until = now() + interval '1 h' WHERE class = 1; \
                  UPDATE hook_states s SET due_at = (SELECT min(d.lease_until) FROM \
                  hook_deliveries d WHERE d.endpoint_id = s.endpoint_id AND d.state = 1) \
                  WHERE s.due_at > now()";
    store.grow(leased).await;
    for (before, after) in single.iter().zip(&store.all(statements()).await) {
        assert!(after.1 - before.1 <= GROWTH_MAX, "grew: {before:?} {after:?}");
    }
    for (before, after) in many.iter().zip(&store.all(batches()).await) {
        assert!(after.1 - before.1 <= 20 * GROWTH_OF_ONE_MAX, "grew: {before:?} {after:?}");
    }
}

#[tokio::test]
async fn a_message_that_is_sent_immediately_writes_nothing_to_its_endpoint() {
    let stage = Stage::open().await;
    let bench = &stage.bench;
    bench.with(plain()).await;
    let version = "SELECT xmin::text || ' at ' || ctid::text FROM hook_states";
    let mut versions = Vec::<String>::new();
    for _ in 0..3 {
        let reply = bench.hook.emit(bench.message(), vec![request(1)]).await.expect("stored");
        let leased: Vec<_> = reply.leased.iter().flat_map(|(_, groups)| items(groups)).collect();
        assert_eq!(leased.len(), 1, "{reply:?}");
        bench.deliver(&leased[0]).await;
        versions.push(stage.rival.query_one(version, &[]).await.expect("read").get(0));
    }
    // The first message wrote the end of its lease, which is early enough for the others.
    assert_eq!(versions[1..], [versions[0].clone(), versions[0].clone()]);
    stage.close().await;
}
