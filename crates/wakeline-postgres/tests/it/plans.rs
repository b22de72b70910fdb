//! The buffers that claims, settlements and pushes read do not grow with the size of the store.
//!
//! Measured at 100 partitions, and at 100,000 partitions with 1 million segments, 10,000 of them
//! leased.

use crate::measured::Measured;

/// The additional buffers per index descent: the indexes are one level higher.
const GROWTH_MAX: i64 = 24;

/// A measured store with one queue and one group.
struct Store(Measured);

impl Store {
    async fn open() -> Self {
        let prepare = "INSERT INTO queues (name, created_at) VALUES ('q', now());
             INSERT INTO groups (queue_id, name, mode, created_at)
             SELECT queue_id, 'g', 0, now() FROM queues;";
        Self(Measured::open(&["segments", "cursors"], prepare).await)
    }

    /// Adds partitions with segments of one message each, all unread; every tenth is leased.
    async fn grow(&self, partitions: (u32, u32), segments: u32) {
        let (from, to) = partitions;
        let sql = format!(
            "INSERT INTO partitions (queue_id, name, next_offset, idle, last_push_at)
             SELECT (SELECT queue_id FROM queues), 'p' || n, {segments}, false, now()
             FROM generate_series({from}, {to}) AS n;
             INSERT INTO segments (partition_id, first_offset, len, created_at, ids, ends, txn_ids,
                body)
             SELECT p.partition_id, o, 1, now(), ARRAY[gen_random_uuid()], '{{2}}',
                ARRAY['t' || o], '{{}}'::text::bytea
             FROM partitions p, generate_series(0, {segments} - 1) AS o
             WHERE p.partition_id > (SELECT coalesce(max(partition_id), 0) FROM segments);
             INSERT INTO cursors (partition_id, group_id, due_at, next_offset, lease_token,
                lease_until, lease_start, lease_set)
             SELECT p.partition_id, (SELECT group_id FROM groups),
                now() + CASE WHEN leased THEN interval '1 hour' ELSE - n * interval '1 ms' END,
                leased::integer, CASE WHEN leased THEN gen_random_uuid() END,
                CASE WHEN leased THEN now() + interval '1 hour' END,
                CASE WHEN leased THEN 0 END, CASE WHEN leased THEN '{{[0,1)}}'::int8multirange END
             FROM (SELECT partition_id, row_number() OVER () AS n,
                    partition_id % 10 = 0 AS leased
                FROM partitions p WHERE NOT EXISTS
                    (SELECT FROM cursors c WHERE c.partition_id = p.partition_id)) p"
        );
        self.0.fill(&sql).await;
    }

    async fn buffers(&self, statement: &str) -> i64 {
        self.0.buffers("", statement).await
    }
}

/// A claim of ten messages of one partition.
const CLAIM: &str = "SELECT * FROM claim('{0}', '{q}', '{NULL}', '{NULL}', '{NULL}', '{g}', '{0}', \
    '{1}', '{1}', ARRAY[gen_random_uuid()], '{10}', '{1}', '{f}', '{f}', false)";

/// A claim of a leased partition, which only returns when to claim again.
const EMPTY: &str = "SELECT * FROM claim('{1}', '{q}', '{p10}', '{NULL}', '{NULL}', '{g}', '{0}', \
    '{1}', '{1}', ARRAY[gen_random_uuid()], '{10}', '{1}', '{f}', '{f}', false)";

/// A claim over all queues of all namespaces.
const WIDE: &str = "SELECT * FROM claim('{2}', '{NULL}', '{NULL}', '{NULL}', '{NULL}', '{g}', \
    '{0}', '{1}', '{1}', ARRAY[gen_random_uuid()], '{10}', '{1}', '{f}', '{f}', false)";

/// The settlement of the leased messages of partition 10.
const SETTLE: &str = "SELECT * FROM settle(ARRAY[10], '{g}', '{1}', \
    ARRAY(SELECT lease_token FROM cursors WHERE partition_id = 10), '{t0}', '{0}', '{NULL}', \
    false)";

const SWEEP: &str = "SELECT * FROM sweep('{0}', '{q}', '{NULL}', '{NULL}', '{NULL}', '{g}')";

/// A push of one message to a partition in which no cursor sleeps.
const PUSH: &str = "SELECT * FROM push_slots(
    '{11}', '{1}', '{t}', '{0}', '{10}', '{}', '{}', '{}', '{1}', '{0}', '{1}', '{1}', '{new}',
    ARRAY['{}'::text::bytea], ARRAY[gen_random_uuid()], '{2}', '{}', '{}', '{f}', false)";

/// The counts of a few partitions.
const PARTITIONS: &str = "SELECT * FROM partition_counts('q', 5, 0)";

const ALL: [(&str, &str); 7] = [
    ("claim", CLAIM),
    ("empty claim", EMPTY),
    ("wide claim", WIDE),
    ("settle", SETTLE),
    ("sweep", SWEEP),
    ("push", PUSH),
    ("counts of partitions", PARTITIONS),
];

#[tokio::test]
async fn costs_do_not_grow_with_partitions_and_segments() {
    let store = Store::open().await;
    store.grow((1, 100), 10).await;
    let mut small = Vec::new();
    for (name, statement) in ALL {
        small.push((name, store.buffers(statement).await));
    }
    store.grow((101, 100_000), 10).await;
    let count = "SELECT (SELECT count(*) FROM segments),
        (SELECT count(*) FROM cursors WHERE lease_token IS NOT NULL)";
    let row = store.0.client.query_one(count, &[]).await.expect("counted");
    assert_eq!((row.get::<_, i64>(0), row.get::<_, i64>(1)), (1_000_000, 10_000));
    let mut grown = Vec::new();
    for ((name, statement), (_, before)) in ALL.iter().zip(&small) {
        grown.push((*name, *before, store.buffers(statement).await));
    }
    for (name, before, after) in &grown {
        assert!(after - before <= GROWTH_MAX, "{name} grew: {grown:?}");
        assert!(*before < 200, "{name} is costly: {grown:?}");
    }
}

/// The counts of the queue and the depth of its group.
const COUNTS: [&str; 3] = [
    "SELECT * FROM queue_counts('q', 1, 0)",
    "SELECT * FROM queue_depth('q', 'g', 10, 0)",
    "SELECT * FROM queue_depth('q', NULL, 10, 0)",
];

#[tokio::test]
async fn counting_a_queue_reads_none_of_its_messages() {
    let (short, long) = tokio::join!(Store::open(), Store::open());
    short.grow((1, 1000), 1).await;
    long.grow((1, 1000), 100).await;
    for statement in COUNTS {
        let (few, many) = (short.buffers(statement).await, long.buffers(statement).await);
        assert!(many <= few + GROWTH_MAX, "{statement}: {few} became {many}");
        assert!(many < 1000 * 12, "{statement} is costly: {many} for 1,000 partitions");
    }
}

/// Claims and settles one message at a time, the given number of times.
const CYCLE: &str = "DO $$
    DECLARE
        v_token uuid;
        r record;
    BEGIN
        FOR i IN 1 .. 3000 LOOP
            v_token := gen_random_uuid();
            SELECT c.partition_id, c.txn_ids INTO r
            FROM claim('{0}', '{q}', '{NULL}', '{NULL}', '{NULL}', '{g}', '{0}', '{1}', '{1}',
                ARRAY[v_token], '{1}', '{1}', '{f}', '{f}', false) c WHERE c.request = 1;
            COMMIT;
            PERFORM FROM settle(ARRAY[r.partition_id], '{g}', '{1}', ARRAY[v_token], r.txn_ids,
                '{0}', '{NULL}', false);
            COMMIT;
        END LOOP;
    END $$";

#[tokio::test]
async fn a_busy_claim_does_not_scan_rows_that_an_old_snapshot_keeps() {
    let store = Store::open().await;
    store.grow((1, 2000), 5).await;
    let client = &store.0.client;
    let seen =
        "SELECT max(group_id)::text, max(created_at)::text FROM claim('{0}', '{q}', '{NULL}',
        '{NULL}', '{NULL}', '{g}', '{0}', '{1}', '{1}', ARRAY[gen_random_uuid()], '{1}', '{1}',
        '{f}', '{f}', false) WHERE request = 0";
    // The first claim uses the fast function; the second one, with autoAck, uses the general one.
    let claim = |auto_ack: bool, floor: &str| {
        format!(
            "SELECT * FROM claim('{{0}}', '{{q}}', '{{NULL}}', '{{NULL}}', '{{NULL}}', '{{g}}',
            '{{0}}', '{{1}}', '{{1}}', ARRAY[gen_random_uuid()], '{{1}}', '{{1}}',
            ARRAY[{auto_ack}], '{{f}}', false{floor})"
        )
    };
    let before = [store.buffers(&claim(false, "")).await, store.buffers(&claim(true, "")).await];
    let old = store.0.schema.client().await;
    old.batch_execute("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT 1").await.expect("a snapshot");
    client.batch_execute(CYCLE).await.expect("cycled");
    let row = client.query_one(seen, &[]).await.expect("claimed");
    let (group, floor): (String, String) = (row.get(0), row.get(1));
    let floor = format!(", ARRAY[{group}], ARRAY['{floor}'::timestamptz]");
    for (auto_ack, before) in [false, true].into_iter().zip(before) {
        let walked = store.buffers(&claim(auto_ack, "")).await;
        let floored = store.buffers(&claim(auto_ack, &floor)).await;
        assert!(walked > before + 4 * GROWTH_MAX, "nothing to walk: {before}, {walked}");
        assert!(floored <= before + GROWTH_MAX, "{auto_ack}: {before}, {walked}, {floored}");
    }
    old.batch_execute("COMMIT").await.expect("ended");
}

#[tokio::test]
async fn a_floor_hides_nothing_from_a_claim_that_would_get_nothing() {
    let store = Store::open().await;
    store.grow((1, 3), 5).await;
    let too_high = ", (SELECT array_agg(group_id) FROM groups), ARRAY[now()]";
    for (requests, auto_ack) in [(2, false), (2, true)] {
        let list = |value: &str| vec![value; requests].join(", ");
        let claim = format!(
            "SELECT count(*) FROM claim('{{0}}', '{{q}}', '{{NULL}}', '{{NULL}}', '{{NULL}}',
            '{{g}}', '{{0}}', '{{1}}', '{{{requests}}}', ARRAY[{}], ARRAY[{}], ARRAY[{}],
            ARRAY[{}], ARRAY[{}], false{too_high}) WHERE request > 0",
            list("gen_random_uuid()"),
            list("1"),
            list("1"),
            list(&auto_ack.to_string()),
            list("false")
        );
        store.0.client.batch_execute("BEGIN").await.expect("begun");
        let row = store.0.client.query_one(&claim, &[]).await.expect("claimed");
        store.0.client.batch_execute("ROLLBACK").await.expect("undone");
        assert_eq!(row.get::<_, i64>(0), 2, "autoAck {auto_ack}");
    }
}
