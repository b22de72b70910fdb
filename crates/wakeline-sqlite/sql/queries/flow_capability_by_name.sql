-- The number of a capability.
-- Called by: names::capability.
SELECT capability_id FROM capabilities WHERE name = ?1
