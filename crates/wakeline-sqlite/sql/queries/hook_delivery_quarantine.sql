-- Moves the end of an expired lease that cannot be ended into the future, so that claims skip it.
UPDATE hook_deliveries SET lease_until = ?2 WHERE delivery_no = ?1
