-- Groups that nobody polls any more: when a group was last polled, as far as that was recorded, and whether it has ever
-- settled anything. Groups that exist count as polled when the store was last written, and as ones that have worked.
ALTER TABLE groups ADD COLUMN polled_at INTEGER NOT NULL DEFAULT 0;
ALTER TABLE groups ADD COLUMN settled INTEGER NOT NULL DEFAULT 1;
UPDATE groups SET polled_at = (SELECT max(at, CAST(unixepoch('subsec') * 1000000 AS INTEGER)) FROM clock);
