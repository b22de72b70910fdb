-- Releases an activity after a failed attempt, and records the error. Lock order: the work.
WITH c AS MATERIALIZED (SELECT @schema@.clock() AS now), given AS (
    UPDATE @schema@.flow_work w SET lease_token = NULL, last_error = $4,
        state = CASE WHEN $3::bigint > 0 THEN 1 ELSE 0 END,
        due_at = c.now + $3::bigint * interval '1 microsecond'
    FROM c WHERE w.work_id = $1 AND w.lease_token = $2
    RETURNING w.tag_id, w.name_id)
SELECT t.name, n.name FROM given
LEFT JOIN @schema@.flow_tags t ON t.tag_id = given.tag_id
LEFT JOIN @schema@.flow_activity_names n ON n.name_id = given.name_id
