-- When the last attempt of a delivery that has ended was claimed. The deliveries of an endpoint in strict order with the
-- same time were attempted together, and are attempted together again.

ALTER TABLE hook_deliveries ADD COLUMN attempted_at INTEGER;
