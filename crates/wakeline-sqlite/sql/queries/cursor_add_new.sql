-- Adds a cursor at the end of every partition of a queue for a new group.
INSERT INTO cursors (partition_id, group_id, next_offset, freed_at)
SELECT partition_id, ?2, next_offset, 0 FROM partitions WHERE queue_id = ?1
