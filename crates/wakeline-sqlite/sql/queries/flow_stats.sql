-- The number of messages and activities of an instance.
SELECT (SELECT count(*) FROM lane_messages WHERE lane_id = ?1), (SELECT count(*) FROM work WHERE lane_id = ?1)
