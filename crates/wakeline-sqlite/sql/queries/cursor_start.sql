-- Puts a cursor at an offset, from which something can be read at ?4.
-- Called by: group::start_from.
UPDATE cursors SET next_offset = ?3, due_at = max(?4, freed_at) WHERE partition_id = ?1 AND group_id = ?2
