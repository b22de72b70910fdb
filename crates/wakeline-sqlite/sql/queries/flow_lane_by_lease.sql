-- The lanes that are leased under a key, for repeated claims.
SELECT lane_id FROM lanes INDEXED BY lanes_lease WHERE lease_key = ?1 AND lease_until > ?2
