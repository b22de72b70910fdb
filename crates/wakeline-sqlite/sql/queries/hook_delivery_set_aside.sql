-- Keeps claims away from an expired lease that cannot be ended.
-- Called by: held::set_aside.
UPDATE hook_deliveries SET lease_until = ?2 WHERE delivery_no = ?1
