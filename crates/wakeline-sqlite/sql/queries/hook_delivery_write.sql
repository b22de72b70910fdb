-- Updates all columns of a delivery that can change.
UPDATE hook_deliveries
SET state = ?2, class = ?3, due_at = ?4, attempts = ?5, scheduled = ?6, in_order = ?7, back_state = ?8, back_due_at = ?9,
    back_behind = ?10, lease_key = ?11, leased_at = ?12, lease_until = ?13, cancelled = ?14, pulled = ?15,
    updated_at = ?16, attempted_at = ?17
WHERE delivery_no = ?1
