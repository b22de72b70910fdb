-- Lets an endpoint get what matches a pattern.
-- Called by: endpoint::add, endpoint::update.
INSERT INTO hook_filters (application_no, pattern, endpoint_no) VALUES (?1, ?2, ?3) ON CONFLICT DO NOTHING
