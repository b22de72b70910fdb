-- The numbers of all capabilities.
SELECT capability_id FROM capabilities
