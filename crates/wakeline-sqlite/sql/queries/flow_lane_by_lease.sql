-- The lanes that a key holds.
-- Called by: turn::held, for repeated claims.
SELECT lane_id FROM lanes INDEXED BY lanes_lease WHERE lease_key = ?1 AND lease_until > ?2
