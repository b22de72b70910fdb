-- How many messages and activities an instance has.
-- Called by: read::stats.
SELECT (SELECT count(*) FROM lane_messages WHERE lane_id = ?1), (SELECT count(*) FROM work WHERE lane_id = ?1)
