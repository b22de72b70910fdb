-- Updates all columns of a lane that can change.
UPDATE hook_lanes
SET pulled = ?2, due_at = ?3, fresh_at = ?4, served_at = ?5, rate_at = ?6, throttled_until = ?7, failures = ?8,
    open_until = ?9, successes = ?10, failing_since = ?11
WHERE endpoint_no = ?1
