-- Removes some history of a lane, or of one of its executions (?3).
DELETE FROM history WHERE (lane_id, execution, first_event) IN (
  SELECT h.lane_id, h.execution, h.first_event FROM history h
  WHERE h.lane_id = ?1 AND (?3 IS NULL OR h.execution = ?3) LIMIT ?2)
