-- Adds a cursor for every group of a queue to a new partition.
INSERT INTO cursors (partition_id, group_id, next_offset, freed_at)
SELECT ?1, group_id, 0, ?3 FROM groups WHERE queue_id = ?2
