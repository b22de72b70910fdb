-- When the last attempt of a delivery that has ended was claimed. The deliveries of an endpoint in strict
-- order with the same time were attempted together, and are attempted together again: see hook_pick.

ALTER TABLE @schema@.hook_deliveries ADD COLUMN attempted_at timestamptz;
