-- Removes some executions of a lane, and returns how many events each had.
DELETE FROM executions WHERE lane_id = ?1 AND execution IN (
  SELECT e.execution FROM executions e WHERE e.lane_id = ?1 LIMIT ?2)
RETURNING last_event
