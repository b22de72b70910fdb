//! The documented views show what waits, and why.

use crate::measured::Measured;

/// The lane of an instance that has started and waits for nothing.
const LANE: &str = "INSERT INTO flow_capabilities (name) VALUES ('pay@1.0.0');
     INSERT INTO flow_tags (name) VALUES ('gpu');
     INSERT INTO flow_activity_names (name) VALUES ('charge');
     INSERT INTO flow_lanes (instance, capability_id, next_seq, phase) VALUES ('a', 1, 2, 1);";

async fn rows(measured: &Measured, sql: &str) -> Vec<String> {
    let rows = measured.client.query(sql, &[]).await.expect("read");
    rows.iter().map(|row| row.get(0)).collect()
}

#[tokio::test]
async fn the_view_of_unclaimed_work_names_the_code_that_is_missing() {
    let filled = Measured::open(&[], LANE).await;
    let work = "INSERT INTO flow_lanes (instance, capability_id, due_at, next_seq, phase) VALUES
             ('late', 1, now() - interval '31 s', 2, 1), ('new', 1, now() - interval '2 s', 2, 1),
             ('asleep', 1, now() + interval '1 h', 2, 1), ('over', 1, now() - interval '1 h', 2, 2);
         INSERT INTO flow_work (lane_id, execution, activity, tag_id, name_id, state, due_at)
         SELECT 1, 1, n, t.tag_id, i.name_id, 0, now() - n * interval '20 s'
         FROM generate_series(1, 2) AS n, flow_tags t, flow_activity_names i
         WHERE t.name = 'gpu' AND i.name = 'charge'";
    filled.client.batch_execute(work).await.expect("filled");
    let sql = "SELECT concat_ws(': ', instance, reason) FROM unclaimed ORDER BY instance";
    assert_eq!(
        rows(&filled, sql).await,
        [
            "a: no worker has claimed activity `charge` with tag `gpu`",
            "late: no worker has claimed orchestration `pay@1.0.0`"
        ]
    );
    let since = "SELECT (now() - since BETWEEN '31 s' AND '10 min')::text FROM unclaimed";
    assert_eq!(rows(&filled, since).await, ["true", "true"]);
}

#[tokio::test]
async fn the_view_of_activities_shows_attempts_errors_and_the_next_attempt() {
    let filled = Measured::open(&[], LANE).await;
    let work =
        "INSERT INTO flow_work (lane_id, execution, activity, tag_id, name_id, state, due_at,
             lease_token, attempts, last_error)
         SELECT 1, 1, x.*
         FROM (SELECT tag_id FROM flow_tags WHERE name = 'gpu') t,
             (SELECT name_id FROM flow_activity_names WHERE name = 'charge') i,
             LATERAL (VALUES
                 (1, t.tag_id, i.name_id, 0, now(), NULL::uuid, 0, NULL),
                 (2, t.tag_id, i.name_id, 1, now() + interval '1 h', NULL, 3, 'card declined'),
                 (3, t.tag_id, i.name_id, 1, now() + interval '1 h', gen_random_uuid(), 4,
                     'no answer')) x";
    filled.client.batch_execute(work).await.expect("filled");
    let sql = "SELECT concat_ws(' ', instance, execution, activity, name, tag, state, attempts,
             last_error, CASE WHEN next_try_at = due_at THEN 'at its end' END)
         FROM activities ORDER BY activity";
    assert_eq!(
        rows(&filled, sql).await,
        [
            "a 1 1 charge gpu available 0",
            "a 1 2 charge gpu delayed 3 card declined at its end",
            "a 1 3 charge gpu leased 4 no answer",
        ]
    );
}
