-- Messages that were dropped after their last try are counted like those that were lost to limits of time.

ALTER TABLE housekeeping ADD COLUMN dropped INTEGER NOT NULL DEFAULT 0;
ALTER TABLE housekeeping ADD COLUMN told_dropped INTEGER NOT NULL DEFAULT 0;
