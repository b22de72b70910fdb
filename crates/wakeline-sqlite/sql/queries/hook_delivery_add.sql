-- Adds a delivery that is due now or already leased.
INSERT INTO hook_deliveries (endpoint_no, message_no, state, class, due_at, in_order, pulled, lease_key, leased_at,
                             lease_until, created_at, updated_at)
VALUES (?1, ?2, ?3, ?4, ?9, ?5, ?6, ?7, CASE WHEN ?7 IS NOT NULL THEN ?9 END, ?8, ?9, ?9)
