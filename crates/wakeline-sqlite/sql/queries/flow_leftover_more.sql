-- Whether something is left of a deletion.
-- Called by: delete::clear.
SELECT EXISTS (SELECT 1 FROM lane_leftovers INDEXED BY lane_leftovers_deletion WHERE deletion = ?1)
