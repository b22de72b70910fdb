-- The number of a capability.
SELECT capability_id FROM capabilities WHERE name = ?1
