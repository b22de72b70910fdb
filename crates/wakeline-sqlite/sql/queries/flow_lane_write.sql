-- Updates a lane.
UPDATE lanes SET capability_id = ?2, due_at = ?3, next_seq = ?4, lease_key = ?5, lease_until = ?6, lease_at = ?7,
       lease_seq = ?8, suspended = ?9, reason = ?10, watched = ?11,
       started_at = ?12, parent = ?13
WHERE lane_id = ?1
