-- Deleted instances of a deletion whose children may still have to be deleted.
SELECT leftover_id, parent, after_lane, deleted_at FROM lane_leftovers INDEXED BY lane_leftovers_deletion
WHERE deletion = ?1 AND parent IS NOT NULL ORDER BY leftover_id LIMIT ?2
