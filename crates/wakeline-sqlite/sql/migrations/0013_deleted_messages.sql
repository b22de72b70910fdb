-- Messages that were deleted one by one leave gaps in their partition's log.
--
-- No cursor stands in a gap: whoever moves one puts it at the next message, or at the end. So
-- something is unread if and only if a cursor stands before the end of its log.

CREATE TABLE gaps (
    partition_id INTEGER NOT NULL,
    offset       INTEGER NOT NULL,           -- of a deleted message, behind the first stored one
    PRIMARY KEY (partition_id, offset)
) STRICT, WITHOUT ROWID;

ALTER TABLE partitions ADD COLUMN gaps INTEGER NOT NULL DEFAULT 0; -- exact count of its rows in gaps
