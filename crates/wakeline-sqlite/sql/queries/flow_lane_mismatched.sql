-- Lanes of a capability that are suspended for a mismatch.
-- Called by: admin::retry_mismatched.
SELECT lane_id FROM lanes INDEXED BY lanes_suspended
WHERE suspended = 'mismatch' AND capability_id = ?1
