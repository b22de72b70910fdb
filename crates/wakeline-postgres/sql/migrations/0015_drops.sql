-- Messages that were dropped after their last try are counted like those that were lost to limits of
-- time.

ALTER TABLE @schema@.losses ADD COLUMN dropped bigint NOT NULL DEFAULT 0;
ALTER TABLE @schema@.housekeeping ADD COLUMN dropped bigint NOT NULL DEFAULT 0;
