-- Moves a cursor to an offset whose message is due at ?4.
UPDATE cursors SET next_offset = ?3, due_at = max(?4, freed_at) WHERE partition_id = ?1 AND group_id = ?2
