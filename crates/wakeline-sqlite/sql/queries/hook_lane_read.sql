-- When an endpoint can be served, and what holds it back.
-- Called by: Lane::read.
SELECT pulled, due_at, fresh_at, served_at, rate_at, throttled_until, failures, open_until, successes, failing_since
FROM hook_lanes WHERE endpoint_no = ?1
