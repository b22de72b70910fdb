-- Updates the lease of an activity.
UPDATE work SET due_at = ?2, lease_key = ?3, lease_until = ?4, attempts = ?5, available_at = ?6
WHERE work_id = ?1
