-- The numbers of all capabilities.
-- Called by: names::capabilities.
SELECT capability_id FROM capabilities
