-- Adds the lane of an endpoint.
-- Called by: endpoint::add.
INSERT INTO hook_lanes (endpoint_no, pulled) VALUES (?1, ?2)
