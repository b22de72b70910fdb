-- A page of the lanes of a capability that are suspended because of a mismatch, after ?2.
SELECT lane_id FROM lanes INDEXED BY lanes_suspended
WHERE suspended = 'mismatch' AND capability_id = ?1 AND lane_id > ?2
ORDER BY lane_id LIMIT 1000
