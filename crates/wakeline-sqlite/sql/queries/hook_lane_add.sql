-- Adds the lane of an endpoint.
INSERT INTO hook_lanes (endpoint_no, pulled) VALUES (?1, ?2)
