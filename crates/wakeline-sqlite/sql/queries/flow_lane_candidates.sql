-- Lanes of a capability that can be claimed, in the order in which they became due. Uses the index
-- lanes_due.
SELECT due_at, lane_id FROM lanes INDEXED BY lanes_due
WHERE capability_id = ?1 AND due_at <= ?2 ORDER BY due_at, lane_id LIMIT ?3
