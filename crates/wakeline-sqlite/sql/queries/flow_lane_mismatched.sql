-- Lanes of a capability that are suspended for a mismatch, behind ?2: a piece.
-- Called by: admin::retry_mismatched.
SELECT lane_id FROM lanes INDEXED BY lanes_suspended
WHERE suspended = 'mismatch' AND capability_id = ?1 AND lane_id > ?2
ORDER BY lane_id LIMIT 1000
