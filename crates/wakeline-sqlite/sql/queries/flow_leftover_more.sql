-- Whether a deletion still has rows to remove.
SELECT EXISTS (SELECT 1 FROM lane_leftovers INDEXED BY lane_leftovers_deletion WHERE deletion = ?1)
