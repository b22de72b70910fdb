-- Lanes and executions of a deletion that have rows but no more children to delete.
SELECT leftover_id, lane_id, execution FROM lane_leftovers INDEXED BY lane_leftovers_deletion
WHERE deletion = ?1 AND parent IS NULL ORDER BY leftover_id LIMIT ?2
