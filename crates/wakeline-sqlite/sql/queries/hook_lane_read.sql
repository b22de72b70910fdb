-- The due times of an endpoint, and the state of its rate limit, throttle and breaker.
SELECT pulled, due_at, fresh_at, served_at, rate_at, throttled_until, failures, open_until, successes, failing_since
FROM hook_lanes WHERE endpoint_no = ?1
