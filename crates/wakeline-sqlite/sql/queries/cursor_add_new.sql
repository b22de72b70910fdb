-- Gives a new group a cursor at the end of every partition of its queue.
-- Called by: group::add_group.
INSERT INTO cursors (partition_id, group_id, next_offset, freed_at)
SELECT partition_id, ?2, next_offset, 0 FROM partitions WHERE queue_id = ?1
